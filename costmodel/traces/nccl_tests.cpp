// SPDX-License-Identifier: Apache-2.0
#include "costmodel/traces/nccl_tests.h"

#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "core/base/errors.h"

namespace meshwright {

namespace {

struct Program {
  std::string_view name;
  std::optional<CollectiveKind> kind;  // none: of no row
};
constexpr std::array<Program, 11> kPrograms = {{{"all_reduce_perf", CollectiveKind::AllReduce},
                                                {"all_gather_perf", CollectiveKind::AllGather},
                                                {"reduce_scatter_perf", CollectiveKind::ReduceScatter},
                                                {"alltoall_perf", CollectiveKind::AllToAll},
                                                {"alltoallv_perf", std::nullopt},
                                                {"broadcast_perf", std::nullopt},
                                                {"sendrecv_perf", std::nullopt},
                                                {"hypercube_perf", std::nullopt},
                                                {"gather_perf", std::nullopt},
                                                {"scatter_perf", std::nullopt},
                                                {"reduce_perf", std::nullopt}}};

struct NcclType {
  std::string_view nccl, ours;
};
constexpr std::array<NcclType, 12> kNcclTypes = {{{"float", "f32"},
                                                  {"half", "f16"},
                                                  {"bfloat16", "bf16"},
                                                  {"double", "f64"},
                                                  {"int8", "i8"},
                                                  {"uint8", "u8"},
                                                  {"int32", "i32"},
                                                  {"uint32", "u32"},
                                                  {"int64", "i64"},
                                                  {"uint64", "u64"},
                                                  {"f8e4m3", "f8"},
                                                  {"f8e5m2", "f8"}}};

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  Words words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find_first_of(" \t\r", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

// What launchers put before each line: "[1,0]<stdout>:", "3: ".
std::string_view without_tag(std::string_view line) {
  if (const std::size_t tag = line.find(">:"); line.starts_with('[') && tag != std::string_view::npos && tag < 40)
    return line.substr(tag + 2);
  const std::size_t digits = line.find_first_not_of(" 0123456789");
  if (digits != std::string_view::npos && digits > 0 && digits < 12 && line[digits] == ':')
    return line.substr(digits + 1);
  return line;
}

std::string_view our_type(std::string_view nccl) {
  for (const NcclType& type : kNcclTypes)
    if (type.nccl == nccl) return type.ours;
  return "";
}

// busbw / algbw.
double factor_of(CollectiveKind kind, int ranks) {
  const double n = ranks;
  return (kind == CollectiveKind::AllReduce ? 2.0 : 1.0) * (n - 1) / n;
}

bool is_near(double a, double b) { return std::abs(a - b) <= 0.03 * std::max(std::abs(a), std::abs(b)) + 0.02; }

class LogReader {
 public:
  LogReader(std::string_view text, const std::string& place) : rest_(text), place_(place) {
    name_program(place.substr(place.rfind('/') + 1));
  }

  TraceImport read() {
    while (!rest_.empty()) {
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      const std::string_view line = without_tag(rest_.substr(0, end));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      read_line(line);
    }
    require(rows_seen_ > 0, "{}: the log of nccl-tests has no row of a table; give a whole log.", place_);
    require(devices_.size() <= 1, "{}: the log mixes {} kinds of devices; give a log of ranks on devices of one kind.",
            place_, devices_.size());
    TraceImport made = rows_.finish("log of nccl-tests", "nccl-tests", place_);
    if (!devices_.empty()) made.device = *devices_.begin();
    made.libraries = libraries_;
    return made;
  }

 private:
  [[nodiscard]] std::string here() const { return fmt::format("{}:{}", place_, number_); }

  void name_program(std::string_view text) {
    for (const Program& program : kPrograms)
      if (const std::size_t at = text.find(program.name);
          at != std::string_view::npos && (at == 0 || (text[at - 1] != '_' && text[at - 1] != 'l'))) {
        program_ = &program;
        return;
      }
  }

  void read_line(std::string_view line) {
    name_program(line);
    Words words = words_of(line);
    if (!words.empty() && words.front() == "#") words.erase(words.begin());
    if (words.empty()) return;
    if (line.find("nThread") != std::string_view::npos) {
      ranks_ = 0;
      hosts_.clear();
      columns_.clear();
    } else if (words.front() == "Rank" && words.size() > 4) {
      rank(line, words);
    } else if (words.front() == "size" && words.size() > 5 && words[1] == "count") {
      columns_.assign(words.begin(), words.end());
    } else if (words.front() == "(B)") {
      require(words.size() > 2 && words[2] == "(us)",
              "{}: the times are in {}; give a table of nccl-tests with times in (us).", here(),
              words.size() > 2 ? words[2] : "no unit");
    } else if (line.find("# nccl-tests version") < 3 || line.find("# NCCL version") < 3) {
      const std::string_view named = line.substr(line.find('#') + 2, 120);
      libraries_ = std::string(named.substr(0, named.find_last_not_of(" \r") + 1));
    } else if (words.size() > 6 && number_of<std::int64_t>(words[0]) && number_of<std::int64_t>(words[1]) &&
               !our_type(words[2]).empty()) {
      row(words);
    }
  }

  // Those of group 0, where the ranks form several.
  void rank(std::string_view line, const Words& words) {
    std::string_view host;
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      if (words[i] == "Group" && words[i + 1] != "0") return;
      if (words[i] == "on" && host.empty()) host = words[i + 1];
    }
    ++ranks_;
    hosts_.insert(std::string(host));
    if (const std::size_t end = line.find(']'); end != std::string_view::npos) {
      const Words name = words_of(line.substr(end + 1));
      std::string device;
      for (const std::string_view word : name) device += (device.empty() ? "" : " ") + std::string(word);
      if (!device.empty()) devices_.insert(device);
    }
  }

  // The cells by the names above them; the column of the reduction may be empty.
  [[nodiscard]] std::map<std::string, std::string_view> cells(const Words& words) const {
    require(!columns_.empty(), "{}: a row stands before the names of its columns; give a whole log of nccl-tests.",
            here());
    std::vector<std::string> names = columns_;
    if (words.size() + 1 == names.size())
      for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == "redop") {
          names.erase(names.begin() + static_cast<std::ptrdiff_t>(i));
          break;
        }
    // A time of day is two words.
    const bool timed = names.back() == "timestamp";
    require(words.size() == names.size() || (timed && words.size() == names.size() + 1),
            "{}: the row has {} cells, expected {}; give a whole log of nccl-tests.", here(), words.size(),
            names.size());
    std::map<std::string, std::string_view> found;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!found.emplace(names[i], words[i]).second) found.emplace(names[i] + " in place", words[i]);
    return found;
  }

  [[nodiscard]] double number(const std::map<std::string, std::string_view>& row, const char* name) const {
    const auto cell = row.find(name);
    const double value = cell == row.end() ? std::nan("") : number_of<double>(cell->second).value_or(std::nan(""));
    require(std::isfinite(value) && value >= 0, "{}: '{}' is no number of at least 0; give a whole log of nccl-tests.",
            here(), name);
    return value;
  }

  void row(const Words& words) {
    ++rows_seen_;
    const auto row = cells(words);
    const auto size = static_cast<std::int64_t>(number(row, "size"));
    const double time = number(row, "time"), algbw = number(row, "algbw"), busbw = number(row, "busbw");
    const std::int64_t nanoseconds = nanoseconds_of(time, here());
    if (const auto in_place = row.find("time in place"); in_place != row.end())
      if (const auto again = number_of<double>(in_place->second))
        rows_.leave_out("the same in place", nanoseconds_of(*again, here()));
    if (size == 0 || nanoseconds == 0) return rows_.leave_out("calls without data", nanoseconds);
    require(is_near(algbw, 1e-3 * static_cast<double>(size) / time),
            "{}: {} bytes in {} microseconds are {:.2f} GB/s, but the row says {}; check the units of the table.",
            here(), size, time, 1e-3 * static_cast<double>(size) / time, algbw);
    require(ranks_ > 0, "{}: no ranks are listed above the table; give a whole log of nccl-tests.", here());
    if (ranks_ < 2) return rows_.leave_out("calls of one rank", nanoseconds);
    const auto redop = row.find("redop");
    const bool reduces = redop != row.end() && redop->second != "none";
    if (program_ != nullptr && !program_->kind)
      return rows_.leave_out(std::string(program_->name) + ", which no collective of a plan is", nanoseconds);
    const CollectiveKind kind = program_ != nullptr ? *program_->kind : guess(reduces, busbw, algbw);
    require(
        is_near(busbw, factor_of(kind, ranks_) * algbw),
        "{}: a busbw of {} at an algbw of {} is none of an {} of {} ranks; check that the ranks listed are those of "
        "this table.",
        here(), busbw, algbw, name_of(kind), ranks_);
    rows_.add(TracedCollective{kind, ranks_, static_cast<int>(hosts_.size()), size, std::string(our_type(words[2]))},
              nanoseconds);
  }

  // All-gather and all-to-all do not differ in their tables.
  [[nodiscard]] CollectiveKind guess(bool reduces, double busbw, double algbw) const {
    const bool twice = is_near(busbw, factor_of(CollectiveKind::AllReduce, ranks_) * algbw);
    require(reduces,
            "{}: nothing says which collective was measured; name the file after the program, such as "
            "all_gather_perf.log.",
            here());
    return twice ? CollectiveKind::AllReduce : CollectiveKind::ReduceScatter;
  }

  std::string_view rest_;
  const std::string& place_;
  int number_ = 0, rows_seen_ = 0;
  int ranks_ = 0;
  std::set<std::string> hosts_, devices_;
  std::vector<std::string> columns_;
  const Program* program_ = nullptr;
  std::string libraries_;
  TraceRows rows_;
};

}  // namespace

bool is_nccl_tests(std::string_view text) {
  return text.find("nThread") != std::string_view::npos ||
         (text.find("algbw") != std::string_view::npos && text.find("busbw") != std::string_view::npos);
}

TraceImport read_nccl_tests(std::string_view text, const std::string& place) { return LogReader(text, place).read(); }

}  // namespace meshwright
