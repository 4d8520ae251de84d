// SPDX-License-Identifier: Apache-2.0
#include "costmodel/traces/kineto_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/errors.h"
#include "costmodel/traces/kineto_events.h"

namespace meshwright {

namespace {

using Operator = KinetoEvents::Operator;
using Work = KinetoEvents::Work;

constexpr std::size_t kMaxNesting = 512;  // more calls than Python nests

// The operators of one thread as they enclose one another.
class CallTree {
 public:
  CallTree(std::vector<Operator> operators, const std::string& place) : operators_(std::move(operators)) {
    std::stable_sort(operators_.begin(), operators_.end(), [](const Operator& a, const Operator& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      while (!open.empty() && operators_[open.back()].end < operators_[i].end) open.pop_back();
      parents_.push_back(open.empty() ? std::nullopt : std::optional(open.back()));
      open.push_back(i);
      require(open.size() <= kMaxNesting,
              "{}: operators are nested deeper than {}; give a trace of PyTorch's profiler.", place, kMaxNesting);
    }
  }
  [[nodiscard]] const std::vector<Operator>& operators() const { return operators_; }
  [[nodiscard]] std::optional<std::size_t> parent(std::size_t i) const { return parents_[i]; }
  // The innermost that goes on at `time`.
  [[nodiscard]] std::optional<std::size_t> innermost(double time) const {
    const auto after = std::upper_bound(operators_.begin(), operators_.end(), time,
                                        [](double t, const Operator& some) { return t < some.start; });
    if (after == operators_.begin()) return std::nullopt;
    std::optional<std::size_t> found = static_cast<std::size_t>(after - operators_.begin()) - 1;
    while (found && operators_[*found].end < time) found = parents_[*found];
    return found;
  }

 private:
  std::vector<Operator> operators_;
  std::vector<std::optional<std::size_t>> parents_;
};

struct Place {
  std::size_t thread, index;
  auto operator<=>(const Place&) const = default;
};

bool is_of_nccl(const std::string& kernel) {
  return kernel.starts_with("nccl") || kernel.find("ncclDevKernel") != std::string::npos ||
         kernel.find("rcclGenericKernel") != std::string::npos;
}

class KinetoReader {
 public:
  KinetoReader(KinetoEvents events, std::string place, int devices_per_host)
      : events_(std::move(events)), place_(std::move(place)), devices_per_host_(devices_per_host) {
    for (std::vector<Operator>& operators : events_.operators) trees_.emplace_back(std::move(operators), place_);
    for (std::size_t thread = 0; thread < trees_.size(); ++thread)
      for (std::size_t i = 0; i < trees_[thread].operators().size(); ++i)
        if (const auto id = trees_[thread].operators()[i].external_id) by_id_.emplace(*id, Place{thread, i});
  }

  TraceImport read(RecordedOn on) {
    if (on == RecordedOn::Processors)
      add_operators_of_processors();
    else
      require(!events_.work.empty() || !has_operators(),
              "{}: the trace has operators of the host and no kernel of a device; record one with "
              "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], or, if processors took the step, give "
              "--cluster cpu:N.",
              place_);
    for (const Work& work : events_.work) place(work);
    for (const auto& [key, occurrence] : occurrences_)
      rows_.add(occurrence.op, occurrence.nanoseconds, occurrence.kernels);
    TraceImport made = rows_.finish("PyTorch profiler trace", "pytorch", place_);
    made.device = events_.device;
    made.host = events_.host;
    made.libraries = events_.libraries;
    return made;
  }

 private:
  [[nodiscard]] bool has_operators() const {
    return std::any_of(trees_.begin(), trees_.end(), [](const CallTree& tree) { return !tree.operators().empty(); });
  }

  // What an operator is where processors run it; nullopt: nothing by itself, or two ops in one call, which only names
  // of kernels tell apart.
  [[nodiscard]] static std::optional<TracedOp> op_of(const Operator& op) {
    if (!op.call) return std::nullopt;
    const auto meaning = meaning_of(*op.call, ""), other = meaning_of(*op.call, "GammaBeta");
    const auto* traced = meaning ? std::get_if<TracedOp>(&*meaning) : nullptr;
    const auto* second = other ? std::get_if<TracedOp>(&*other) : nullptr;
    const bool one = traced != nullptr && second != nullptr && traced->work.signature == second->work.signature;
    return one ? std::optional(*traced) : std::nullopt;
  }

  void add_operators_of_processors() {
    require(events_.work.empty() && events_.launches.empty() && events_.device.empty(),
            "{}: the trace is of a run on GPUs{}; give their cluster as --cluster.", place_,
            events_.device.empty() ? "" : " (" + events_.device + ")");
    for (const CallTree& tree : trees_) {
      const std::vector<Operator>& operators = tree.operators();
      // Parents stand before what they enclose.
      std::vector<bool> holds_op(operators.size()), holds_any(operators.size());
      std::vector<std::size_t> leaves;
      for (std::size_t i = operators.size(); i-- > 0;) {
        const auto traced = holds_op[i] ? std::nullopt : op_of(operators[i]);
        const std::int64_t nanoseconds = nanoseconds_of(operators[i].end - operators[i].start, place_);
        if (traced)
          rows_.add(*traced, nanoseconds);
        else if (!holds_any[i])
          leaves.push_back(i);
        if (const auto parent = tree.parent(i)) {
          holds_any[*parent] = true;
          if (traced || holds_op[i]) holds_op[*parent] = true;
        }
        if (traced) holds_op[i] = true;
      }
      for (const std::size_t leaf : leaves) leave_out_unless_within_op(tree, leaf);
    }
  }
  // Helpers within an op are part of its time.
  void leave_out_unless_within_op(const CallTree& tree, std::size_t leaf) {
    const Operator& op = tree.operators()[leaf];
    for (auto some = tree.parent(leaf); some; some = tree.parent(*some))
      if (op_of(tree.operators()[*some])) return;
    rows_.leave_out(op.name.substr(0, 80), nanoseconds_of(op.end - op.start, place_));
  }

  // Ends of the same name may be a clock's tick apart from what they enclose; the id is what decides then.
  [[nodiscard]] std::optional<Place> launching_operator(const Work& work) const {
    if (work.correlation)
      if (const auto launch = events_.launches.find(*work.correlation); launch != events_.launches.end()) {
        const auto thread = static_cast<std::size_t>(launch->second.thread);
        if (const auto found = trees_[thread].innermost(launch->second.time)) return Place{thread, *found};
      }
    if (!work.external_id) return std::nullopt;
    const auto found = by_id_.find(*work.external_id);
    return found == by_id_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] const Operator& at(Place place) const { return trees_[place.thread].operators()[place.index]; }
  [[nodiscard]] std::optional<Place> around(Place place) const {
    const auto parent = trees_[place.thread].parent(place.index);
    return parent ? std::optional(Place{place.thread, *parent}) : std::nullopt;
  }

  void place(const Work& work) {
    const std::string& kernel = events_.kernel_names[static_cast<std::size_t>(work.name)];
    const std::optional<Place> launched = launching_operator(work);
    if (work.kind == Work::Kind::Kernel && (work.collective || is_of_nccl(kernel))) return collective(work, launched);
    for (std::optional<Place> some = launched; some; some = around(*some)) {
      const Operator& op = at(*some);
      if (!op.call) continue;
      const std::optional<CallMeaning> meaning = meaning_of(*op.call, kernel);
      if (!meaning) continue;
      if (const auto* traced = std::get_if<TracedOp>(&*meaning)) return add(*some, *traced, work);
      if (work.kind == Work::Kind::Kernel) return rows_.leave_out(std::get<NoRow>(*meaning).reason, work.nanoseconds);
      break;
    }
    rows_.leave_out(reason(work, launched, kernel), work.nanoseconds);
  }

  [[nodiscard]] std::string reason(const Work& work, const std::optional<Place>& launched,
                                   const std::string& kernel) const {
    if (work.kind == Work::Kind::Set) return "memory that is set";
    if (work.kind == Work::Kind::Copy)
      return kernel.find("DtoD") != std::string::npos   ? "copies within the device"
             : kernel.find("PtoP") != std::string::npos ? "copies between devices"
                                                        : "copies to and from the host";
    if (!launched) return "kernels that no recorded operator launched";
    const std::string& name = at(*launched).name;
    return name.starts_with("triton_") ? "Triton's fused kernels" : name.substr(0, 80);
  }

  void add(Place place, const TracedOp& op, const Work& work) {
    Occurrence& occurrence = occurrences_[{place, op.work.signature}];
    // Helpers of a product (a sum of its parts) do not say how it was computed.
    if (occurrence.kernels == 0 || op.kernel_dtype == "tf32") occurrence.op = op;
    occurrence.nanoseconds += work.nanoseconds;
    if (work.kind == Work::Kind::Kernel || occurrence.kernels == 0) ++occurrence.kernels;
  }

  void collective(const Work& work, const std::optional<Place>& launched) {
    const CollectiveArgs* args = work.collective ? &*work.collective : nullptr;
    for (std::optional<Place> some = launched; some && args == nullptr; some = around(*some))
      if (at(*some).collective) args = &*at(*some).collective;
    if (args == nullptr) return rows_.leave_out("NCCL without the sizes of its collectives", work.nanoseconds);
    const std::optional<CollectiveKind> kind = torch_collective(args->name);
    if (!kind) return rows_.leave_out("collective " + args->name.substr(0, 60), work.nanoseconds);
    const int element = torch_element_size(args->dtype);
    const std::int64_t elements = *kind == CollectiveKind::AllGather ? args->out : args->in;
    if (element == 0 || elements <= 0 || elements > (std::int64_t{1} << 50))
      return rows_.leave_out("NCCL without the sizes of its collectives", work.nanoseconds);
    if (args->group < 2 || args->group > (1 << 20))
      return rows_.leave_out(args->group == 1 ? "collectives of one rank" : "collectives of an unknown group",
                             work.nanoseconds);
    const std::optional<int> hosts = hosts_of(*args);
    if (!hosts) return rows_.leave_out("collectives of an unknown group", work.nanoseconds);
    const std::optional<DType> dtype = torch_dtype(args->dtype);
    rows_.add(TracedCollective{*kind, static_cast<int>(args->group), *hosts, elements * element,
                               dtype ? name_of(*dtype) : "f32"},
              work.nanoseconds);
  }

  [[nodiscard]] std::optional<int> hosts_of(const CollectiveArgs& args) const {
    std::set<std::int64_t> hosts;
    for (const std::int64_t rank : args.ranks) hosts.insert(rank / devices_per_host_);
    if (!hosts.empty()) return static_cast<int>(hosts.size());
    if (args.group != events_.world_size) return std::nullopt;
    return static_cast<int>((args.group + devices_per_host_ - 1) / devices_per_host_);
  }

  struct Occurrence {
    TracedOp op;
    std::int64_t nanoseconds = 0, kernels = 0;
  };

  KinetoEvents events_;
  std::string place_;
  int devices_per_host_;
  std::vector<CallTree> trees_;                                      // by thread
  std::map<std::int64_t, Place> by_id_;                              // the first of an id
  std::map<std::pair<Place, std::string>, Occurrence> occurrences_;  // by call and signature
  TraceRows rows_;
};

}  // namespace

TraceImport read_kineto_trace(const ByteSource& bytes, const std::string& place, int devices_per_host, RecordedOn on) {
  MW_CHECK(devices_per_host >= 1, "{} devices per host", devices_per_host);
  return KinetoReader(read_kineto_events(bytes, place), place, devices_per_host).read(on);
}

TraceImport read_kineto_trace(const std::string& path, int devices_per_host, RecordedOn on) {
  return read_kineto_trace(open_unpacked(path, kMaxKinetoBytes), path, devices_per_host, on);
}

}  // namespace meshwright
