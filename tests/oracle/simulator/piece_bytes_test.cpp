// SPDX-License-Identifier: Apache-2.0
// The bytes of an executable's pieces, and of the executable itself, against a count of what lives at every op.
#include "simulator/program/piece_bytes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/base/random.h"
#include "core/plan/lowering/lowering.h"
#include "tests/unit/program_fixture.h"

namespace meshwright::piece_bytes_test {
namespace {

using Slot = StageExecutable::Slot;

// An executable of any ops, on slots of 4 to 36 bytes, and its ops in pieces, in an order of their own.
class Drawn {
 public:
  explicit Drawn(Random& random) : random_(random) {
    stage_ = builder_.stage();
    executable.stage = stage_;
    for (int i = random.below(3); i >= 0; --i) add_read_buffer();
    const int samples = random.below(3);
    for (int i = 0; i < samples; ++i) add_slot();
    const int ops = std::max(samples, 1) + random.below(8);
    for (int o = 0; o < ops; ++o) add_op(o);
    mix_ops();
    cut();
    program = builder_.program;
  }

  Program program;
  StageExecutable executable;
  std::vector<Piece> pieces;

 private:
  int any(int count) { return random_.below(count); }
  int slots() const { return static_cast<int>(executable.slots.size()); }
  Slot& slot(int s) { return executable.slots[static_cast<std::size_t>(s)]; }

  int add_slot(std::optional<BufferId> buffer = std::nullopt) {
    const LocalTensor alone{TensorId(0), DType::F32, {{0}, 0}, {1 + any(9)}};
    const LocalTensor& local = buffer ? builder_.program.buffers[buffer->index()].local : alone;
    executable.slots.push_back({local, buffer, false, false, std::nullopt, -1});
    return slots() - 1;
  }
  BufferId add_buffer(Kept kept) { return builder_.buffer(stage_, "any", 4 * (1 + any(9)), kept); }
  void add_read_buffer() {
    const bool on_host = any(4) == 0;
    Slot& read = slot(add_slot(add_buffer(any(2) == 0 ? Kept::Always : Kept::PerMicrobatch)));
    read.input = true;
    read.on_host = on_host;
    // Some are updated where they are.
    read.output = any(3) == 0;
  }

  // Reads something that is there, the samples first, so that all of them are read.
  void add_op(int number) {
    LocalOp op;
    op.kind = LocalOp::Kind::Compute;
    std::vector<int> samples;
    for (int s = 0; s < slots(); ++s)
      if (!slot(s).buffer) samples.push_back(s);
    const bool reads_sample = number < static_cast<int>(samples.size());
    op.inputs = {reads_sample ? samples[static_cast<std::size_t>(number)] : any(slots()), any(slots())};
    for (int i = any(2); i >= 0; --i) op.outputs.push_back(add_result());
    executable.ops.push_back(std::move(op));
  }
  int add_result() {
    const int kind = any(8);
    if (kind < 3) return add_slot();
    if (kind == 3) {
      const int place = any(slots());
      const int result = add_slot();
      slot(result).local = slot(place).local;
      slot(result).alias_of = place;
      return result;
    }
    if (kind == 4)  // What is there already, in its place.
      for (int s = 0; s < slots(); ++s)
        if (slot(s).input && slot(s).output) return s;
    if (kind == 5)  // The same in a slot of its own.
      for (int s = 0; s < slots(); ++s)
        if (slot(s).input && slot(s).output) {
          const int result = add_slot(slot(s).buffer);
          slot(result).output = true;
          slot(result).alias_of = s;
          return result;
        }
    const int result = add_slot(add_buffer(Kept::PerMicrobatch));
    slot(result).output = true;
    slot(result).on_host = kind == 7;
    return result;
  }

  // Numbers of ops are drawn anew: pieces name them in the order in which they are done.
  void mix_ops() {
    order_.resize(executable.ops.size());
    std::iota(order_.begin(), order_.end(), 0);
    for (int i = static_cast<int>(order_.size()); i-- > 1;)
      std::swap(order_[static_cast<std::size_t>(i)], order_[static_cast<std::size_t>(any(i + 1))]);
    std::vector<LocalOp> ops = executable.ops;
    for (std::size_t i = 0; i < ops.size(); ++i) executable.ops[static_cast<std::size_t>(order_[i])] = ops[i];
  }
  void cut() {
    for (const int o : order_) {
      if (pieces.empty() || any(2) == 0) {
        pieces.emplace_back();
        pieces.back().kind = any(2) == 0 ? Piece::Kind::Compute : Piece::Kind::Collective;
      }
      pieces.back().ops.push_back(o);
    }
  }

  Random& random_;
  ProgramBuilder builder_;
  StageId stage_{0};
  std::vector<int> order_;
};

// What lives while each op runs, if the ops come in this order and temporaries end with op `end_of[o]` instead of o.
class Lives {
 public:
  Lives(const StageExecutable& executable, const std::vector<int>& order, const std::vector<int>& end_of)
      : during(order.size(), 0), after(order.size(), 0) {
    const auto count = static_cast<int>(order.size());
    for (int s = 0; s < static_cast<int>(executable.slots.size()); ++s) {
      const Slot& slot = executable.slots[static_cast<std::size_t>(s)];
      if (slot.input || slot.alias_of || slot.on_host) continue;
      int first = -1, last = -1;
      for (int i = 0; i < count; ++i) {
        const LocalOp& op = executable.ops[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
        for (const int result : op.outputs)
          if (result == s && first < 0) first = i;
        for (const auto* list : {&op.inputs, &op.outputs})
          for (const int used : *list)
            if (place_of(executable, used) == s) last = end_of[static_cast<std::size_t>(i)];
      }
      const std::int64_t bytes = 4 * slot.local.elements();
      if (first < 0) before += bytes;
      if (slot.buffer) last = count;  // it stays
      for (int i = std::max(first, 0); i < count; ++i) {
        during[static_cast<std::size_t>(i)] += i <= last ? bytes : 0;
        after[static_cast<std::size_t>(i)] += i < last ? bytes : 0;
      }
    }
  }
  std::int64_t before = 0;  // the samples
  std::vector<std::int64_t> during, after;

 private:
  static int place_of(const StageExecutable& executable, int s) {
    const std::optional<int>& alias = executable.slots[static_cast<std::size_t>(s)].alias_of;
    return alias ? place_of(executable, *alias) : s;
  }
};

std::int64_t left_by(const StageExecutable& executable) {
  std::int64_t left = 0;
  for (const Slot& slot : executable.slots)
    if (slot.buffer && slot.output && !slot.input && !slot.alias_of && !slot.on_host) left += 4 * slot.local.elements();
  return left;
}

TEST(PieceBytes, AreWhatACountAtEveryOpSays) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    Drawn drawn(random);
    std::vector<int> order, end_of;
    for (const Piece& piece : drawn.pieces) {
      const auto begin = static_cast<int>(order.size());
      order.insert(order.end(), piece.ops.begin(), piece.ops.end());
      // The ops of a collective are one: what they read ends when all have ended.
      for (int i = begin; i < static_cast<int>(order.size()); ++i)
        end_of.push_back(piece.kind == Piece::Kind::Compute ? i : static_cast<int>(order.size()) - 1);
    }
    const Lives lives(drawn.executable, order, end_of);
    set_bytes(drawn.program, drawn.executable, drawn.pieces);
    std::size_t at = 0;
    std::int64_t level = 0, left = 0;
    for (std::size_t p = 0; p < drawn.pieces.size(); ++p) {
      const Piece& piece = drawn.pieces[p];
      std::int64_t most = p == 0 ? lives.before : 0;
      for (std::size_t i = at; i < at + piece.ops.size(); ++i) most = std::max(most, lives.during[i] - level);
      at += piece.ops.size();
      EXPECT_EQ(piece.memory_at_begin, most) << "seed " << seed << ", piece " << p;
      left += piece.memory_at_end;
      if (p + 1 < drawn.pieces.size()) {
        EXPECT_EQ(piece.memory_at_end, lives.after[at - 1] - level) << "seed " << seed << ", piece " << p;
      }
      level = lives.after[at - 1];
    }
    EXPECT_EQ(left, left_by(drawn.executable)) << "seed " << seed;
  }
}

TEST(Lifetimes, OfAnExecutablePeakWhereACountAtEveryOpDoes) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    Drawn drawn(random);
    std::vector<int> order(drawn.executable.ops.size());
    std::iota(order.begin(), order.end(), 0);
    const Lives lives(drawn.executable, order, order);
    set_lifetimes(drawn.executable);
    const std::int64_t most = std::max(lives.before, *std::max_element(lives.during.begin(), lives.during.end()));
    EXPECT_EQ(drawn.executable.peak_extra, Bytes(static_cast<double>(most))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace meshwright::piece_bytes_test
