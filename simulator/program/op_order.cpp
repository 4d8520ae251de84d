// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/op_order.h"

#include <algorithm>
#include <map>

namespace meshwright {

namespace {

// [slot] the first slot with the same storage.
std::vector<std::size_t> storages(const StageExecutable& executable) {
  std::vector<std::size_t> storage;
  std::map<BufferId, std::size_t> of_buffer;
  for (std::size_t s = 0; s < executable.slots.size(); ++s) {
    const StageExecutable::Slot& slot = executable.slots[s];
    std::size_t root = s;
    for (const StageExecutable::Slot* own = &slot; own->alias_of; own = &executable.slots[root])
      root = at(*own->alias_of);
    if (root < s) root = storage[root];
    const auto& buffer = executable.slots[root].buffer ? executable.slots[root].buffer : slot.buffer;
    storage.push_back(buffer ? of_buffer.try_emplace(*buffer, root).first->second : root);
  }
  return storage;
}

}  // namespace

OpOrder find_op_order(const StageExecutable& executable) {
  const std::size_t ops = executable.ops.size();
  OpOrder order{std::vector<std::vector<int>>(ops), std::vector<std::vector<int>>(ops)};
  const std::vector<std::size_t> storage = storages(executable);
  struct State {
    int writer = -1;
    std::vector<int> readers;
  };
  std::vector<State> states(executable.slots.size());
  for (int i = 0; i < static_cast<int>(ops); ++i) {
    const LocalOp& op = executable.ops[at(i)];
    const auto wait = [&](int other) {
      if (other < 0 || other == i) return;
      insert(order.after[at(i)], other);
      insert(order.before[at(other)], i);
    };
    for (const int s : op.inputs) wait(states[storage[at(s)]].writer);
    for (const int s : op.outputs) {
      const State& state = states[storage[at(s)]];
      wait(state.writer);
      for (const int reader : state.readers) wait(reader);
    }
    for (const int s : op.inputs) states[storage[at(s)]].readers.push_back(i);
    for (const int s : op.outputs) states[storage[at(s)]] = {i, {}};
  }
  return order;
}

}  // namespace meshwright
