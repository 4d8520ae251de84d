// SPDX-License-Identifier: Apache-2.0
// The file format of the ASPLOS / EuroSys 2025 contest on intra-operator parallelism: JSON, gzip'd or plain.
//
//   {"problem": {"name": "...",
//                "nodes": {"intervals": [[begin, end], ...],    per node: its memory counts at begin <= step < end
//                          "costs": [[...], ...],               per node and strategy
//                          "usages": [[...], ...]},             per node and strategy: bytes
//                "edges": {"nodes": [[u, v], ...],
//                          "costs": [[...], ...]},              per edge: [strategy of u * strategies of v + that of v]
//                "usage_limit": bytes}}                         may be absent: no limit
//
// All numbers are whole. Costs have no unit in the format; they become Seconds as they stand. A cost of 10^18 or more
// forbids its strategy or pair (nullopt), as the contest means it. Every other number must lie within +-2^53 and is
// kept exactly; sums are exact as long as they stay within it too. As in the contest's own checker, edges between the
// same nodes add up, and an edge from a node to itself costs what stands on its table's diagonal: it is added to the
// node.
#pragma once

#include <string>
#include <string_view>

#include "core/base/gzip.h"
#include "core/solver/problem/sharding_problem.h"

namespace meshwright {

struct ProblemFile {
  std::string name;
  ShardingProblem problem;  // nodes are called "node 0", ...; strategies have no names
};

// Throws SystemError when the file cannot be read; InputError naming the place when it is damaged, when a member is
// missing, unknown or given twice, or when sizes, indices, intervals or numbers do not fit. Members may stand in any
// order. Memory grows with what has been read, never with what a file claims, and what may be read is bounded.
[[nodiscard]] ProblemFile read_problem(const ByteSource& source, const std::string& place);
[[nodiscard]] ProblemFile read_problem_file(const std::string& path);
[[nodiscard]] ProblemFile parse_problem_file(std::string_view bytes, const std::string& place);

// "[0, 3, 1]": the strategy of each node, as the contest asks for it; without a line end.
[[nodiscard]] std::string solution_line(const ShardingChoice& choice);

// The inverse; whether the strategies exist is for `evaluate` to say. Throws like read_problem_file.
[[nodiscard]] ShardingChoice read_solution_file(const std::string& path);

}  // namespace meshwright
