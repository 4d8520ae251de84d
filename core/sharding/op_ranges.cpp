// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/op_ranges.h"

#include <charconv>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr std::string_view kPrefix = "mw:", kOp = "mw:op ", kWith = "mw:with ", kCollective = "mw:collective ";

// Takes a text apart from the left.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), rest_(text) {}

  [[nodiscard]] bool skip(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  void expect(std::string_view expected) {
    if (!skip(expected)) refuse();
  }
  // A number in [low, high]: written to the end of the text or the next space.
  template <class Number>
  [[nodiscard]] Number number(Number low, Number high) {
    const std::string_view digits = rest_.substr(0, rest_.find(' '));
    Number value{};
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    // NaN is in no range.
    if (error != std::errc() || end != digits.data() + digits.size() || !(value >= low && value <= high)) refuse();
    rest_.remove_prefix(digits.size());
    return value;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

  [[noreturn]] void refuse() const {
    throw InputError(
        fmt::format("the range '{}' is not in the form that this version of meshwright writes ('mw:op flops=N bytes=N "
                    "SIGNATURE', 'mw:with flops=N bytes=N SIGNATURE' or 'mw:collective KIND ranks=N hosts=N bytes=N'); "
                    "record with the version that reads it.",
                    text_));
  }

 private:
  std::string_view text_, rest_;
};

OpRange op_from(Scanner scan, bool joined) {
  constexpr double kMax = 1e30;
  OpRange op;
  op.joined = joined;
  scan.expect("flops=");
  op.flops = Flops(scan.number(0.0, kMax));
  scan.expect(" bytes=");
  op.bytes = Bytes(scan.number(0.0, kMax));
  scan.expect(" ");
  if (scan.rest().empty()) scan.refuse();
  op.signature = scan.rest();
  return op;
}

CollectiveKind kind_from(Scanner& scan) {
  for (const auto kind :
       {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllToAll})
    if (scan.skip(name_of(kind))) return kind;
  scan.refuse();
}

CollectiveRange collective_from(Scanner scan) {
  constexpr int kMaxRanks = 1 << 24;
  CollectiveRange collective;
  collective.kind = kind_from(scan);
  scan.expect(" ranks=");
  collective.ranks = scan.number(1, kMaxRanks);
  scan.expect(" hosts=");
  collective.hosts = scan.number(1, collective.ranks);
  scan.expect(" bytes=");
  collective.size_bytes = scan.number(std::int64_t{0}, std::int64_t{1} << 60);
  if (!scan.rest().empty()) scan.refuse();
  return collective;
}

}  // namespace

std::string range_text(const OpWork& work) {
  return fmt::format("{}flops={} bytes={} {}", kOp, work.flops.si(), work.bytes.si(), work.signature);
}

std::string range_text(const CollectiveRange& collective) {
  return fmt::format("{}{} ranks={} hosts={} bytes={}", kCollective, name_of(collective.kind), collective.ranks,
                     collective.hosts, collective.size_bytes);
}

std::string joined_range_text(const std::string& text) {
  return text.starts_with(kOp) ? std::string(kWith) + text.substr(kOp.size()) : text;
}

std::optional<MarkedRange> range_from_text(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  Scanner scan(text);
  if (scan.skip(kOp)) return op_from(scan, false);
  if (scan.skip(kWith)) return op_from(scan, true);
  if (scan.skip(kCollective)) return collective_from(scan);
  scan.refuse();
}

}  // namespace meshwright
