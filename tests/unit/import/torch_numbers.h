// SPDX-License-Identifier: Apache-2.0
// The numbers that small exported programs compute, for tests of ops.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/import/model_file.h"
#include "executor/check/graph_interpreter.h"
#include "tests/unit/import/torch_program.h"

namespace meshwright::torch_numbers {

using Numbers = std::vector<double>;

inline constexpr std::int64_t kBatch = 4, kWidth = 6;

inline Json whole(std::int64_t value) { return {{"as_int", value}}; }
inline Json wholes(const std::vector<std::int64_t>& values) { return {{"as_ints", values}}; }
inline Json real(double value) { return {{"as_float", value}}; }
inline Json tensors(const std::vector<std::string>& names) {
  Json list = Json::array();
  for (const std::string& name : names) list.push_back({{"name", name}});
  return {{"as_tensors", list}};
}

// By name: its sizes and numbers.
using Parameters = std::map<std::string, std::pair<std::vector<std::int64_t>, Numbers>>;

// What the program tells of its own tensors, by name: type and sizes.
using Declared = std::map<std::string, std::pair<int, std::vector<std::int64_t>>>;

// A program of x (4, 6) whose result is the last call's, named y.
inline ModelConfig program(const std::vector<Json>& calls, const Parameters& parameters = {},
                           const Declared& declared = {}) {
  const auto sized = [](const std::vector<std::int64_t>& dims, int type = 7) {
    Json sizes = Json::array();
    for (const std::int64_t dim : dims) sizes.push_back(whole(dim));
    return Json{{"dtype", type}, {"sizes", sizes}};
  };
  Json values = {{"x", sized({kBatch, kWidth})}};
  Json inputs = Json::array({{{"user_input", {{"arg", tensor_named("x")}}}}});
  for (const auto& [name, of] : parameters) {
    values[name] = sized(of.first);
    inputs.push_back({{"parameter", {{"arg", {{"name", name}}}, {"parameter_name", name}}}});
  }
  for (const auto& [name, of] : declared) values[name] = sized(of.second, of.first);
  const Json graph = {{"nodes", calls}, {"tensor_values", values}};
  const Json signature = {{"input_specs", inputs},
                          {"output_specs", Json::array({{{"user_output", {{"arg", tensor_named("y")}}}}})}};
  const Json json = {{"graph_module", {{"graph", graph}, {"signature", signature}}},
                     {"schema_version", {{"major", 8}, {"minor", 20}}}};
  return read_model_bytes(json.dump(), "m.pt2.json", {});
}

// x (4, 6) counts in halves from -6: both signs, and 0.
inline double x_at(std::int64_t sample, std::int64_t column) {
  return 0.5 * static_cast<double>(sample * kWidth + column) - 6.0;
}

inline Numbers result(const std::vector<Json>& calls, const Parameters& parameters, const Declared& declared = {}) {
  const Graph graph =
      build_training_graph(program(calls, parameters, declared), {.batch = kBatch, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  Numbers x;
  for (std::int64_t i = 0; i < kBatch * kWidth; ++i) x.push_back(x_at(i / kWidth, i % kWidth));
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == "x")
      interpreter.set(tensor.id, x);
    else if (const auto known = parameters.find(tensor.name); known != parameters.end())
      interpreter.set(tensor.id, known->second.second);
  interpreter.run(Phase::Forward);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::SquaredErrorLoss || op.kind == OpKind::PickLabel) return interpreter.get(op.inputs[0]);
  ADD_FAILURE() << "no loss";
  return {};
}

// The result has `width` elements of each sample: element(s, c).
inline void expect_elements(const std::string& what, const std::vector<Json>& calls, std::int64_t width,
                            const std::function<double(std::int64_t, std::int64_t)>& element,
                            const Parameters& parameters = {}, const Declared& declared = {}) {
  SCOPED_TRACE(what);
  const Numbers found = result(calls, parameters, declared);
  ASSERT_EQ(std::ssize(found), kBatch * width);
  for (std::int64_t i = 0; i < kBatch * width; ++i)
    EXPECT_NEAR(found[static_cast<std::size_t>(i)], element(i / width, i % width), 1e-12) << "element " << i;
}

}  // namespace meshwright::torch_numbers
