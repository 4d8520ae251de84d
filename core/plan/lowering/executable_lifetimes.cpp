// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

using Slot = StageExecutable::Slot;

std::size_t root(const StageExecutable& executable, int slot) {
  const Slot& known = executable.slots[static_cast<std::size_t>(slot)];
  return known.alias_of ? root(executable, *known.alias_of) : static_cast<std::size_t>(slot);
}

void set_last_uses(StageExecutable& executable) {
  // An alias keeps the bytes of its root alive.
  for (std::size_t i = 0; i < executable.ops.size(); ++i)
    for (const auto* list : {&executable.ops[i].inputs, &executable.ops[i].outputs})
      for (const int s : *list)
        executable.slots[static_cast<std::size_t>(s)].last_use = executable.slots[root(executable, s)].last_use =
            static_cast<int>(i);
}

// Inputs of the batch are made when the Run starts; results when their op runs; temporaries end with their last use.
Bytes find_peak(const StageExecutable& executable) {
  Bytes live(0), peak(0);
  std::vector<bool> made(executable.slots.size(), false);
  for (const LocalOp& op : executable.ops)
    for (const int s : op.outputs) made[static_cast<std::size_t>(s)] = true;
  // Buffers are counted by the walk over the program, aliases by their roots.
  const auto temporary = [&](const Slot& s) { return !s.buffer && !s.alias_of; };
  for (std::size_t s = 0; s < executable.slots.size(); ++s)
    if (temporary(executable.slots[s]) && !made[s]) live += executable.slots[s].local.bytes();
  peak = live;
  std::vector<bool> allocated(executable.slots.size(), false);
  std::vector<std::vector<std::size_t>> ends(executable.ops.size());
  for (std::size_t s = 0; s < executable.slots.size(); ++s)
    if (temporary(executable.slots[s]) && executable.slots[s].last_use >= 0)
      ends[static_cast<std::size_t>(executable.slots[s].last_use)].push_back(s);
  for (std::size_t i = 0; i < executable.ops.size(); ++i) {
    for (const int s : executable.ops[i].outputs) {
      const Slot& result = executable.slots[static_cast<std::size_t>(s)];
      const bool in_place = result.input || result.alias_of || result.on_host || allocated[static_cast<std::size_t>(s)];
      if (in_place) continue;
      allocated[static_cast<std::size_t>(s)] = true;
      live += result.local.bytes();
    }
    // Operands end after the op, so they are in memory together with its results.
    peak = std::max(peak, live);
    for (const std::size_t s : ends[i]) live -= executable.slots[s].local.bytes();
  }
  return peak;
}

}  // namespace

void set_lifetimes(StageExecutable& executable) {
  set_last_uses(executable);
  executable.peak_extra = find_peak(executable);
}

}  // namespace meshwright
