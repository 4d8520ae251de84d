// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/piece_bytes.h"

#include <algorithm>

#include "simulator/program/op_order.h"

namespace meshwright {

namespace {

class PieceBytes {
 public:
  PieceBytes(const Program& program, const StageExecutable& executable)
      : executable_(executable), last_use_(executable.slots.size(), -1), allocated_(executable.slots.size(), false) {
    std::vector<bool> read_before(program.buffers.size(), false);
    for (const StageExecutable::Slot& slot : executable.slots)
      if (slot.buffer && slot.input) read_before[slot.buffer->index()] = true;
    for (const StageExecutable::Slot& slot : executable.slots) {
      if (!slot.buffer || !slot.output || read_before[slot.buffer->index()]) continue;
      read_before[slot.buffer->index()] = true;
      if (!program.buffers[slot.buffer->index()].persistent) leaves_ += bytes(slot);
    }
  }

  void fill(std::vector<Piece>& pieces) {
    int position = 0;
    std::vector<bool> made(executable_.slots.size(), false);
    for (const Piece& piece : pieces)
      for (const int o : piece.ops) {
        for (const auto* list : {&executable_.ops[at(o)].inputs, &executable_.ops[at(o)].outputs})
          for (const int s : *list) last_use_[root(s)] = position;
        for (const int s : executable_.ops[at(o)].outputs) made[at(s)] = true;
        ++position;
      }
    ends_.assign(at(position), 0);
    std::int64_t batch = 0, total = 0;
    for (std::size_t s = 0; s < executable_.slots.size(); ++s) {
      if (!temporary(executable_.slots[s])) continue;
      if (!made[s]) batch += bytes(executable_.slots[s]);
      if (last_use_[s] >= 0) ends_[at(last_use_[s])] += bytes(executable_.slots[s]);
    }
    position = 0;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const auto [peak, left] = fill(pieces[p], position, p == 0 ? batch : 0);
      pieces[p].memory_at_begin = peak;
      pieces[p].memory_at_end = left;
      total += left;
    }
    pieces.back().memory_at_end += leaves_ - total;
  }

 private:
  static std::int64_t bytes(const StageExecutable::Slot& slot) {
    return static_cast<std::int64_t>(slot.local.bytes().si());
  }
  static bool temporary(const StageExecutable::Slot& slot) { return !slot.buffer && !slot.alias_of; }
  std::size_t root(int s) const {
    while (executable_.slots[at(s)].alias_of) s = *executable_.slots[at(s)].alias_of;
    return at(s);
  }

  // Most and last bytes of a piece, whose ops have these positions.
  std::pair<std::int64_t, std::int64_t> fill(const Piece& piece, int& position, std::int64_t batch) {
    std::int64_t live = batch, peak = batch;
    for (const int o : piece.ops) {
      for (const int s : executable_.ops[at(o)].outputs) {
        const StageExecutable::Slot& slot = executable_.slots[at(s)];
        if (slot.input || slot.alias_of || allocated_[at(s)]) continue;
        allocated_[at(s)] = true;
        live += bytes(slot);
      }
      peak = std::max(peak, live);
      // The ops of a bucket run together.
      if (piece.kind == Piece::Kind::Compute) live -= ends_[at(position)];
      ++position;
    }
    if (piece.kind == Piece::Kind::Collective)
      for (int i = position - static_cast<int>(piece.ops.size()); i < position; ++i) live -= ends_[at(i)];
    return {peak, live};
  }

  const StageExecutable& executable_;
  std::vector<int> last_use_;
  std::vector<bool> allocated_;
  std::vector<std::int64_t> ends_;  // [position]
  std::int64_t leaves_ = 0;
};

}  // namespace

void set_bytes(const Program& program, const StageExecutable& executable, std::vector<Piece>& pieces) {
  PieceBytes(program, executable).fill(pieces);
}

}  // namespace meshwright
