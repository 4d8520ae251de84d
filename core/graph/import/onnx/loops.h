// SPDX-License-Identifier: Apache-2.0
// `Loop` nodes of an ONNX file that take a number of turns which its shapes and constants tell, as exporters write
// loops over layers or steps.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/graph/import/onnx/onnx_file.h"

namespace meshwright::onnx {

// A value of the file that is a single number, where that is known.
using NumberOf = std::function<std::optional<double>(const OnnxFile& file, const std::string& value)>;

// The file with the turns of each such node in its place, one after the other; their weights are shared. Other loops
// stay: those that data may end, of more than 512 turns, and those with graphs within. Throws InputError where turns
// make more nodes than a model has.
[[nodiscard]] OnnxFile with_loops_unrolled(OnnxFile file, const NumberOf& number_of, const std::string& place);

}  // namespace meshwright::onnx
