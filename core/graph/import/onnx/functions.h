// SPDX-License-Identifier: Apache-2.0
// Operators that an ONNX file defines itself.
#pragma once

#include "core/graph/import/onnx/onnx_file.h"

namespace meshwright::onnx {

// The file with the nodes of its functions in place of the nodes that call them, but for operators that are read as
// they are. Throws InputError where a function calls itself or makes more nodes than a model has.
[[nodiscard]] OnnxFile with_functions_inside(const OnnxFile& file, const std::string& place);

}  // namespace meshwright::onnx
