// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/xla_order.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::xla {

void order_computations(Program& program, const std::string& place) {
  const std::size_t count = program.computations.size();
  std::vector<std::vector<int>> callers(count);
  std::vector<int> open(count, 0), ready;
  for (std::size_t c = 0; c < count; ++c)
    for (const Instruction& instruction : program.computations[c].instructions)
      for (const int called : instruction.calls) {
        callers[static_cast<std::size_t>(called)].push_back(static_cast<int>(c));
        ++open[c];
      }
  for (std::size_t c = count; c-- > 0;)
    if (open[c] == 0) ready.push_back(static_cast<int>(c));
  std::vector<int> order, renumbered(count, -1);
  while (!ready.empty()) {
    const int next = ready.back();
    ready.pop_back();
    renumbered[static_cast<std::size_t>(next)] = static_cast<int>(order.size());
    order.push_back(next);
    for (const int caller : callers[static_cast<std::size_t>(next)])
      if (--open[static_cast<std::size_t>(caller)] == 0) ready.push_back(caller);
  }
  const auto circle = std::find(renumbered.begin(), renumbered.end(), -1);
  require(circle == renumbered.end(),
          "{}: computation '{}' calls itself, directly or through others; give the text that XLA printed, unchanged.",
          place,
          circle == renumbered.end()
              ? std::string()
              : program.computations[static_cast<std::size_t>(circle - renumbered.begin())].name);
  std::vector<Computation> sorted;
  for (const int c : order) sorted.push_back(std::move(program.computations[static_cast<std::size_t>(c)]));
  program.computations = std::move(sorted);
  for (Computation& computation : program.computations)
    for (Instruction& instruction : computation.instructions)
      for (int& called : instruction.calls) called = renumbered[static_cast<std::size_t>(called)];
  if (program.entry >= 0) program.entry = renumbered[static_cast<std::size_t>(program.entry)];
}

}  // namespace meshwright::xla
