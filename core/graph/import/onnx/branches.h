// SPDX-License-Identifier: Apache-2.0
// `If` nodes of an ONNX file whose condition its shapes and constants decide, as exporters write them for a dimension
// that may be a single element.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/graph/import/onnx/onnx_file.h"

namespace meshwright::onnx {

// What a value of the file is, where that is decided.
using Condition = std::function<std::optional<bool>(const OnnxFile& file, const std::string& value)>;

// The file with the branch that is taken in place of each such node; others stay. Throws InputError where branches make
// more nodes than a model has.
[[nodiscard]] OnnxFile with_branches_inside(OnnxFile file, const Condition& condition, const std::string& place);

}  // namespace meshwright::onnx
