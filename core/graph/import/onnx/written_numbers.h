// SPDX-License-Identifier: Apache-2.0
// Initializers that are what an operator writes, angles, states to begin with, or scales and shifts that change
// nothing: numbers and no weights.
#pragma once

#include <set>
#include <string>

#include "core/graph/import/onnx/onnx_file.h"

namespace meshwright::onnx {

// What the model itself calls a parameter: exporters call what they make of one by a number.
[[nodiscard]] inline bool is_path(const std::string& name) { return name.find('.') != std::string::npos; }

[[nodiscard]] std::set<std::string> numbers_in(const OnnxFile& file, const std::string& place);

}  // namespace meshwright::onnx
