// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become a problem that is consistent and can be evaluated.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/base/errors.h"
#include "core/solver/problem/problem_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  try {
    const auto* bytes = reinterpret_cast<const char*>(data);
    const ProblemFile file = parse_problem_file({bytes, size}, "fuzz");
    ShardingChoice choice;
    for (const auto& node : file.problem.nodes) choice.strategy.push_back(static_cast<int>(node.cost.size()) - 1);
    try {
      const Evaluation evaluation = evaluate(file.problem, choice);
      MW_CHECK(evaluation.peak_memory >= Bytes(0.0), "a peak of {} bytes", evaluation.peak_memory.si());
    } catch (const InputError& error) {
      MW_CHECK(false, "what was read is refused later: {}", error.what());
    }
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
