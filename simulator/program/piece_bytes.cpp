// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/piece_bytes.h"

#include <algorithm>

#include "core/base/indexed_vector.h"

namespace meshwright {

namespace {

class PieceBytes {
 public:
  PieceBytes(const Program& program, const StageExecutable& executable)
      : executable_(executable), last_use_(executable.slots.size(), -1), allocated_(executable.slots.size(), false) {
    // Buffers that are read exist before. Of those that are only written, each counts once, whatever slots it has.
    std::vector<bool> read_before(program.buffers.size(), false);
    for (const StageExecutable::Slot& own : executable.slots)
      if (own.buffer && own.input) read_before[own.buffer->index()] = true;
    for (const StageExecutable::Slot& own : executable.slots) {
      if (!own.buffer || !own.output || read_before[own.buffer->index()]) continue;
      read_before[own.buffer->index()] = true;
      if (!program.buffers[own.buffer->index()].persistent && !own.on_host) leaves_ += bytes(own);
    }
  }

  void fill(std::vector<Piece>& pieces) {
    int position = 0;
    IndexedVector<int, bool> made(executable_.slots.size(), false);
    for (const Piece& piece : pieces)
      for (const int o : piece.ops) {
        for (const auto* list : {&op(o).inputs, &op(o).outputs})
          for (const int s : *list) last_use_[root(s)] = position;
        for (const int s : op(o).outputs) made[s] = true;
        ++position;
      }
    ends_.assign(static_cast<std::size_t>(position), 0);
    std::int64_t batch = 0, total = 0;
    for (int s = 0; s < last_use_.count(); ++s) {
      if (!temporary(slot(s))) continue;
      // The samples: no op makes them, and they are there from the first piece on.
      if (!made[s]) batch += bytes(slot(s));
      if (last_use_[s] >= 0) ends_[last_use_[s]] += bytes(slot(s));
    }
    position = 0;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const auto [peak, left] = fill(pieces[p], position, p == 0 ? batch : 0);
      pieces[p].memory_at_begin = peak;
      pieces[p].memory_at_end = left;
      total += left;
    }
    // The ends of all pieces then add up to what the executable leaves.
    pieces.back().memory_at_end += leaves_ - total;
  }

 private:
  static std::int64_t bytes(const StageExecutable::Slot& own) {
    return static_cast<std::int64_t>(own.local.bytes().si());
  }
  static bool temporary(const StageExecutable::Slot& own) { return !own.buffer && !own.alias_of; }
  const LocalOp& op(int o) const { return executable_.ops[static_cast<std::size_t>(o)]; }
  const StageExecutable::Slot& slot(int s) const { return executable_.slots[static_cast<std::size_t>(s)]; }
  int root(int s) const {
    while (slot(s).alias_of) s = *slot(s).alias_of;
    return s;
  }

  // The peak and the final bytes of a piece, whose first op has this position.
  std::pair<std::int64_t, std::int64_t> fill(const Piece& piece, int& position, std::int64_t batch) {
    std::int64_t live = batch, peak = batch;
    for (const int o : piece.ops) {
      for (const int s : op(o).outputs) {
        if (slot(s).input || slot(s).alias_of || slot(s).on_host || allocated_[s]) continue;
        allocated_[s] = true;
        live += bytes(slot(s));
      }
      peak = std::max(peak, live);
      // The ops of a bucket run together.
      if (piece.kind == Piece::Kind::Compute) live -= ends_[position];
      ++position;
    }
    if (piece.kind != Piece::Kind::Compute)
      for (int i = position - static_cast<int>(piece.ops.size()); i < position; ++i) live -= ends_[i];
    return {peak, live};
  }

  const StageExecutable& executable_;
  IndexedVector<int, int> last_use_;       // [slot] the position of its last reader or writer; -1: no op uses it
  IndexedVector<int, bool> allocated_;     // [slot]
  IndexedVector<int, std::int64_t> ends_;  // [position] bytes of temporaries that are last used there
  std::int64_t leaves_ = 0;                // bytes of buffers that exist only after the executable
};

}  // namespace

void set_bytes(const Program& program, const StageExecutable& executable, std::vector<Piece>& pieces) {
  PieceBytes(program, executable).fill(pieces);
}

}  // namespace meshwright
