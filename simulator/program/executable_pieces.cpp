// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/executable_pieces.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/errors.h"
#include "simulator/program/op_order.h"
#include "simulator/program/piece_bytes.h"

namespace meshwright {

namespace {

using Slot = StageExecutable::Slot;

bool is_collective(const LocalOp& op) { return op.is_collective(); }
bool sums(const LocalOp& op) {
  return is_collective(op) &&
         (op.step->kind == ReshardStep::Kind::AllReduce || op.step->kind == ReshardStep::Kind::ReduceScatter);
}
bool is_ring(const LocalOp& op) { return is_collective(op) && op.step->ring; }
bool accumulates(const LocalOp& op) { return op.kind == LocalOp::Kind::Compute && op.work.kind == OpKind::Accumulate; }

// What one executable has to know of the others, by buffer.
struct Surroundings {
  std::map<BufferId, std::pair<int, int>> made;  // (executable, op) of the backward that writes it last
  std::vector<bool> summed, received;            // an update begins with its sum; messages bring it
};

Surroundings find_surroundings(const Program& program) {
  Surroundings found{{}, std::vector<bool>(program.buffers.size()), std::vector<bool>(program.buffers.size())};
  for (const Transfer& transfer : program.transfers) found.received[transfer.destination_buffer.index()] = true;
  int e = 0;
  for (const StageExecutable& executable : program.executables) {
    const auto buffer_of = [&](int slot) { return executable.slots[static_cast<std::size_t>(slot)].buffer; };
    int o = 0;
    for (const LocalOp& op : executable.ops) {
      if (executable.phase == Phase::Update && sums(op))
        if (const auto buffer = buffer_of(op.inputs[0])) found.summed[buffer->index()] = true;
      if (executable.phase == Phase::Backward)
        for (const int s : op.outputs)
          // The last backward that writes the gradient completes it.
          if (const auto buffer = buffer_of(s)) found.made[*buffer] = {e, o};
      ++o;
    }
    ++e;
  }
  return found;
}

class Cutter {
 public:
  Cutter(const Program& program, const StageExecutable& executable, SimTime duration, const CostModel& costs,
         const CutOptions& options, const Surroundings& around)
      : program_(program),
        executable_(executable),
        mesh_(program.stages[executable.stage.index()].mesh),
        costs_(costs.on(mesh_.of.group)),
        options_(options),
        around_(around),
        duration_(duration),
        order_(find_op_order(executable)),
        role_(executable.ops.size(), Role::Pass),
        piece_of_(executable.ops.size(), -1) {}

  std::vector<Piece> cut() {
    // Gathers come last, because their places depend on the computations; numbers of pieces change there once more.
    find_roles();
    add_summed_first();
    for (int o = 0; o < ops(); ++o) {
      if (role_[o] == Role::Pass) add_op(o);
      if (role_[o] == Role::SumOfPass) add_to_bucket(o);
    }
    close_bucket();
    close();
    for (int o = 0; o < ops(); ++o)
      if (role_[o] == Role::Accumulated) add_op(o);
    close();
    place_gathers();
    if (pieces_.empty()) pieces_.push_back({});
    relate();
    set_durations();
    std::vector<Piece> pieces = std::move(pieces_).values();
    set_bytes(program_, executable_, pieces);
    // An executable without local ops says what it needs as a whole.
    if (executable_.ops.empty()) pieces[0].memory_at_begin = static_cast<std::int64_t>(executable_.peak_extra.si());
    return pieces;
  }

 private:
  enum class Role : std::uint8_t {
    Pass,         // keeps its place in the pass
    SummedFirst,  // sums gradients of the backwards and waits for nothing: an update begins with it
    SumOfPass,    // sums a gradient of this pass that is afterwards only accumulated, so nothing waits for the sum
    Accumulated,  // adds such a sum to its accumulator, at the end of the pass
    Gather,       // gathers a parameter, or fetches from the host, before its first reader
  };
  int ops() const { return static_cast<int>(executable_.ops.size()); }
  const LocalOp& op(int o) const { return executable_.ops[static_cast<std::size_t>(o)]; }
  const Slot& slot(int s) const { return executable_.slots[static_cast<std::size_t>(s)]; }
  bool all(const std::vector<int>& list, Role role) const {
    return std::all_of(list.begin(), list.end(), [&](int o) { return role_[o] == role; });
  }

  void find_roles() {
    const bool updates = executable_.phase == Phase::Update;
    for (int o = 0; o < ops(); ++o) {
      if (is_host_copy(op(o)) && slot(op(o).inputs[0]).on_host) role_[o] = Role::Gather;
      if (!is_collective(op(o))) continue;
      const Slot& operand = slot(op(o).inputs[0]);
      // The first sum of a chain reads a buffer; each later one waits for sums of the same role only.
      const bool first = order_.after[o].empty() && operand.buffer.has_value();
      if (updates && sums(op(o)) && (first || (!order_.after[o].empty() && all(order_.after[o], Role::SummedFirst))))
        role_[o] = Role::SummedFirst;
      if (op(o).step->kind == ReshardStep::Kind::AllGather &&
          ((first && operand.input && program_.buffers[operand.buffer->index()].persistent) ||
           (!order_.after[o].empty() && all(order_.after[o], Role::Gather))))
        role_[o] = Role::Gather;
    }
    if (updates) return;
    // From the end on: the role of a sum depends on the roles of its readers.
    for (int o = ops(); o-- > 0;) {
      const std::vector<int>& readers = order_.before[o];
      if (!sums(op(o)) || readers.empty()) continue;
      const bool kept_aside = std::all_of(readers.begin(), readers.end(), [&](int reader) {
        return (accumulates(op(reader)) && order_.before[reader].empty()) || role_[reader] == Role::SumOfPass;
      });
      if (!kept_aside) continue;
      role_[o] = Role::SumOfPass;
      for (const int reader : readers)
        if (accumulates(op(reader))) role_[reader] = Role::Accumulated;
    }
  }

  // Whether it goes on beside the computations.
  bool is_host_copy(const LocalOp& op) const {
    return op.kind == LocalOp::Kind::HostCopy && options_.parameters == ParameterTime::Apart;
  }
  bool moves(int o) const { return is_collective(op(o)) || is_host_copy(op(o)); }

  Bytes bytes_of(int o) const { return collective_of(executable_, op(o), mesh_).bytes; }

  // --- pieces ---

  void close() {
    if (open_) pieces_.push_back(std::move(*open_));
    open_.reset();
  }

  Piece collective(std::vector<int> its_ops) const {
    Piece piece;
    piece.kind = Piece::Kind::Collective;
    piece.axis = op(its_ops[0]).step->axis;
    piece.ops = std::move(its_ops);
    return piece;
  }
  // An op that goes on beside the computations.
  Piece moving(int o) const {
    if (is_collective(op(o))) return collective({o});
    Piece piece;
    piece.kind = Piece::Kind::HostCopy;
    piece.ops = {o};
    return piece;
  }
  void add_piece(Piece piece) {
    for (const int o : piece.ops) piece_of_[o] = pieces_.count();
    pieces_.push_back(std::move(piece));
  }

  void add_op(int o) {
    if (moves(o)) {
      close();
      add_piece(moving(o));
      return;
    }
    const bool receives = note_received(o);
    // What comes before this op in the piece must not wait for the message or the collective.
    if (open_ && (receives || waits_anew(o))) close();
    if (!open_) open_.emplace();
    open_->ops.push_back(o);
    piece_of_[o] = pieces_.count();
    for (const int other : order_.after[o])
      if (moves(other)) waited_.push_back(other);
    // The collective must not wait for the ops after this one.
    if (leads_on(o)) close();
  }
  // To a collective that may begin when this op has ended.
  bool leads_on(int o) const {
    return std::any_of(order_.before[o].begin(), order_.before[o].end(), [&](int reader) { return moves(reader); }) ||
           std::any_of(op(o).outputs.begin(), op(o).outputs.end(), [&](int s) {
             return slot(s).buffer && around_.summed[slot(s).buffer->index()] && executable_.phase != Phase::Update;
           });
  }
  // Whether the op reads what a message brings and no op before it has read.
  bool note_received(int o) {
    bool anew = false;
    for (const int s : op(o).inputs) {
      const auto& buffer = slot(s).buffer;
      if (!buffer || !slot(s).input || !around_.received[buffer->index()]) continue;
      if (std::find(read_.begin(), read_.end(), *buffer) != read_.end()) continue;
      read_.push_back(*buffer);
      anew = true;
    }
    return anew;
  }
  // For a collective that no computation before it has waited for.
  bool waits_anew(int o) const {
    return std::any_of(order_.after[o].begin(), order_.after[o].end(), [&](int other) {
      return moves(other) && std::find(waited_.begin(), waited_.end(), other) == waited_.end();
    });
  }

  // --- buckets ---

  void add_to_bucket(int o) {
    const auto same = [&](int other) {
      return op(other).step->kind == op(o).step->kind && op(other).step->axis == op(o).step->axis;
    };
    // A bucket is one collective: none of its ops can wait for another.
    const bool chained = std::any_of(order_.after[o].begin(), order_.after[o].end(), [&](int other) {
      return std::find(bucket_.begin(), bucket_.end(), other) != bucket_.end();
    });
    if (!bucket_.empty() && (!same(bucket_[0]) || chained || bucket_bytes_ + bytes_of(o) > options_.bucket))
      close_bucket();
    bucket_.push_back(o);
    bucket_bytes_ += bytes_of(o);
  }
  void close_bucket() {
    if (bucket_.empty()) return;
    close();
    Piece piece = collective(std::move(bucket_));
    piece.of_gradients = true;
    add_piece(std::move(piece));
    bucket_.clear();
    bucket_bytes_ = Bytes(0.0);
  }

  void add_summed_first() {
    // (steps before it, where its gradient is made) of each.
    std::vector<std::tuple<int, std::pair<int, int>, int>> sorted;
    IndexedVector<int, int> level(executable_.ops.size(), 0);
    IndexedVector<int, std::pair<int, int>> made(executable_.ops.size(), {-1, -1});
    for (int o = 0; o < ops(); ++o) {
      if (role_[o] != Role::SummedFirst) continue;
      for (const int other : order_.after[o]) {
        level[o] = std::max(level[o], level[other] + 1);
        made[o] = std::max(made[o], made[other]);
      }
      if (order_.after[o].empty())
        if (const auto known = around_.made.find(*slot(op(o).inputs[0]).buffer); known != around_.made.end())
          made[o] = known->second;
      sorted.emplace_back(level[o], made[o], o);
    }
    // By steps, then in the order in which the backwards make the gradients: what is there first is summed first.
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [steps, where, o] : sorted) add_to_bucket(o);
    close_bucket();
  }

  // --- gathers ---

  // Each before the computation that is `prefetch` before its first reader.
  void place_gathers() {
    std::vector<int> computations;  // pieces
    for (int p = 0; p < pieces_.count(); ++p)
      if (pieces_[p].kind == Piece::Kind::Compute) computations.push_back(p);
    std::map<int, std::vector<Piece>> before;  // piece
    for (int o = 0; o < ops(); ++o) {
      if (role_[o] != Role::Gather) continue;
      const int reader = first_reader(o);
      const auto number = std::lower_bound(computations.begin(), computations.end(), reader) - computations.begin();
      Piece piece = moving(o);
      // The gather may begin when the computation `prefetch` + 1 before its reader has ended.
      piece.not_before = static_cast<int>(number) - options_.prefetch - 1;
      const auto place = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, number - options_.prefetch));
      before[place < computations.size() ? std::min(reader, computations[place]) : reader].push_back(std::move(piece));
    }
    IndexedVector<int, Piece> all;
    for (int p = 0; p <= pieces_.count(); ++p) {
      for (Piece& gather : before[p]) all.push_back(std::move(gather));
      if (p < pieces_.count()) all.push_back(std::move(pieces_[p]));
    }
    pieces_ = std::move(all);
    for (int p = 0; p < pieces_.count(); ++p)
      for (const int o : pieces_[p].ops) piece_of_[o] = p;
  }
  int first_reader(int o) const {
    int first = pieces_.count();
    for (const int reader : order_.before[o])
      first = std::min(first, role_[reader] == Role::Gather ? first_reader(reader) : piece_of_[reader]);
    return first;
  }

  // --- what pieces wait for, and take ---

  void relate() {
    for (int p = 0; p < pieces_.count(); ++p) {
      Piece& piece = pieces_[p];
      for (const int o : piece.ops) {
        for (const int other : order_.after[o]) {
          MW_CHECK(piece_of_[other] <= p, "op {} waits for op {}, which is in a later piece", o, other);
          if (piece_of_[other] != p) add_once(piece.after, piece_of_[other]);
        }
        for (const int s : op(o).inputs) add_buffer(piece.reads, s);
        for (const int s : op(o).outputs) add_buffer(piece.writes, s);
      }
    }
    if (!executable_.ops.empty()) return;
    for (int s = 0; s < static_cast<int>(executable_.slots.size()); ++s)
      add_buffer(slot(s).output ? pieces_[0].writes : pieces_[0].reads, s);
  }
  void add_buffer(std::vector<BufferId>& list, int s) const {
    if (slot(s).buffer) add_once(list, *slot(s).buffer);
  }

  // What a ring makes the computation wait for, where they go on beside each other. While a device works on one of n
  // blocks, the next comes: of n steps that take a together, and blocks of t, max(0, t - a / n) is left of each.
  Seconds exposed_of_ring(int o) const {
    const auto time_of = [&](int other) { return op_cost(executable_, op(other), mesh_, costs_).time; };
    const Seconds own = time_of(o);
    if (options_.parameters == ParameterTime::Inside || own == Seconds(0.0)) return own;
    // Keys come before the attention that reads them, sums of their gradients after the one that makes them.
    const std::vector<int>& users = sums(op(o)) ? order_.after[o] : order_.before[o];
    const auto attention =
        std::find_if(users.begin(), users.end(), [&](int user) { return op(user).kind == LocalOp::Kind::Compute; });
    if (attention == users.end()) return own;
    Seconds moved(0.0);
    for (const std::vector<int>* beside : {&order_.before[*attention], &order_.after[*attention]})
      for (const int other : *beside)
        if (is_ring(op(other))) moved += time_of(other);
    const double devices = mesh_.axes[static_cast<std::size_t>(op(o).step->axis)].size();
    const Seconds hidden = std::min(moved, ((devices - 1.0) / devices) * time_of(*attention));
    return (1.0 - hidden / moved) * own;
  }

  // A bucket is one collective of all its bytes: it pays the latency once.
  Seconds cost_of(const Piece& piece) const {
    if (piece.kind == Piece::Kind::Collective) {
      if (is_ring(op(piece.ops[0]))) return exposed_of_ring(piece.ops[0]);
      Bytes bytes(0.0);
      for (const int o : piece.ops) bytes += bytes_of(o);
      return costs_
          .collective(collective_of(executable_, op(piece.ops[0]), mesh_).kind, bytes,
                      mesh_.axes[static_cast<std::size_t>(piece.axis)])
          .time;
    }
    Seconds sum(0.0);
    for (const int o : piece.ops) sum += op_cost(executable_, op(o), mesh_, costs_).time;
    return sum;
  }

  // [piece] its ops, without what a Run takes less than these (`beyond`, where it is negative).
  IndexedVector<int, Seconds> costs_less(Seconds beyond) const {
    IndexedVector<int, Seconds> found;
    Seconds computing(0.0), moving(0.0);
    for (const Piece& piece : pieces_) {
      found.push_back(cost_of(piece));
      (piece.kind == Piece::Kind::Compute ? computing : moving) += found[found.count() - 1];
    }
    if (beyond >= Seconds(0.0)) return found;
    // A share of all computations; what they do not have, of the collectives.
    const auto left = [](Seconds of, Seconds taken) {
      return of > Seconds(0.0) ? std::max(0.0, 1.0 + taken / of) : 1.0;
    };
    const double computes = left(computing, beyond);
    const double moves = left(moving, std::min(Seconds(0.0), computing + beyond));
    for (int p = 0; p < found.count(); ++p)
      found[p] = (pieces_[p].kind == Piece::Kind::Compute ? computes : moves) * found[p];
    return found;
  }

  // What one Run costs beyond its ops goes to its first computation.
  void set_durations() {
    std::vector<Seconds> times;
    for (int o = 0; o < ops(); ++o) times.push_back(op_cost(executable_, op(o), mesh_, costs_).time);
    Seconds whole = run_overhead(program_, executable_, mesh_, costs_, times);
    const Seconds beyond = options_.parameters == ParameterTime::Inside
                               ? whole
                               : run_overhead(program_, executable_, mesh_, costs_, times, options_.parameters);
    for (const Seconds time : times) whole += time;
    const auto first = std::find_if(pieces_.begin(), pieces_.end(),
                                    [](const Piece& piece) { return piece.kind == Piece::Kind::Compute; });
    const int overhead = first == pieces_.end() ? 0 : static_cast<int>(first - pieces_.begin());
    if (whole == Seconds(0.0)) {
      pieces_[overhead].duration = duration_;
      return;
    }
    const double scale = static_cast<double>(duration_.ps) / whole.si();
    const IndexedVector<int, Seconds> taken = costs_less(beyond);
    // Ends are rounded, not durations, so that the pieces' durations add up to the Run's.
    Seconds end(0.0);
    std::int64_t told = 0;
    for (int p = 0; p < pieces_.count(); ++p) {
      end += taken[p];
      if (p == overhead) end += std::max(Seconds(0.0), beyond);
      const std::int64_t rounded = std::llround(end.si() * scale);
      pieces_[p].duration.ps = rounded - told;
      told = rounded;
    }
  }

  const Program& program_;
  const StageExecutable& executable_;
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  const CutOptions& options_;
  const Surroundings& around_;
  SimTime duration_;
  OpOrder order_;
  IndexedVector<int, Role> role_;     // [op]
  IndexedVector<int, int> piece_of_;  // [op]
  IndexedVector<int, Piece> pieces_;
  std::optional<Piece> open_;   // computation
  std::vector<int> waited_;     // collectives whose results computations so far have waited for
  std::vector<BufferId> read_;  // by computations so far, of those that messages bring
  std::vector<int> bucket_;
  Bytes bucket_bytes_{0.0};
};

}  // namespace

std::vector<std::vector<Piece>> cut_executables(const Program& program, const ProgramTimes& times,
                                                const CostModel& costs, const CutOptions& options) {
  MW_CHECK(times.executable.size() == program.executables.size(), "{} times for {} executables",
           times.executable.size(), program.executables.size());
  MW_CHECK(options.prefetch >= 0, "{} computations ahead", options.prefetch);
  const Surroundings around = find_surroundings(program);
  std::vector<std::vector<Piece>> pieces;
  for (std::size_t e = 0; e < program.executables.size(); ++e)
    pieces.push_back(Cutter(program, program.executables[e], times.executable[e], costs, options, around).cut());
  return pieces;
}

}  // namespace meshwright
