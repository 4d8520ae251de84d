// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/op_order.h"

#include <algorithm>
#include <map>

namespace meshwright {

namespace {

// [slot] the first slot with the same storage. An alias names an earlier slot, so that one pass finds all roots.
IndexedVector<int, int> storages(const StageExecutable& executable) {
  const IndexedVector<int, StageExecutable::Slot> slots(executable.slots);
  IndexedVector<int, int> storage;
  std::map<BufferId, int> of_buffer;
  for (int s = 0; s < slots.count(); ++s) {
    int root = s;
    while (slots[root].alias_of) root = *slots[root].alias_of;
    if (root < s) root = storage[root];
    const auto& buffer = slots[root].buffer ? slots[root].buffer : slots[s].buffer;
    storage.push_back(buffer ? of_buffer.try_emplace(*buffer, root).first->second : root);
  }
  return storage;
}

}  // namespace

OpOrder find_op_order(const StageExecutable& executable) {
  const std::size_t ops = executable.ops.size();
  OpOrder order{IndexedVector<int, std::vector<int>>(ops), IndexedVector<int, std::vector<int>>(ops)};
  const IndexedVector<int, int> storage = storages(executable);
  struct State {
    int writer = -1;
    std::vector<int> readers;  // since the writer
  };
  IndexedVector<int, State> states(executable.slots.size());
  int i = 0;
  for (const LocalOp& op : executable.ops) {
    const auto wait = [&](int other) {
      if (other < 0 || other == i) return;
      add_once(order.after[i], other);
      add_once(order.before[other], i);
    };
    // An op reads after the last writer, and writes after that and all readers since.
    for (const int s : op.inputs) wait(states[storage[s]].writer);
    for (const int s : op.outputs) {
      const State& state = states[storage[s]];
      wait(state.writer);
      for (const int reader : state.readers) wait(reader);
    }
    // Readers first: an op that writes what it reads is the writer from now on.
    for (const int s : op.inputs) states[storage[s]].readers.push_back(i);
    for (const int s : op.outputs) states[storage[s]] = {i, {}};
    ++i;
  }
  return order;
}

}  // namespace meshwright
