// SPDX-License-Identifier: Apache-2.0
// From the nodes of an ONNX file (operator sets 7 to 23) to a module of primitive ops.
//
// Float initializers are parameters, with three exceptions told by their values: single numbers; masks (0 and at most
// -1000, or 0 and 1 in more than one dimension); tables of cosines and sines (between -1 and 1, the first row all 1 or
// all 0, more than one dimension). What Constant nodes hold is constant. Running means and variances are not trained.
// Files stripped of their weights fill them with ConstantOfShape: numbers other than 0 and 1 between -1000 and 1000 are
// parameters.
//
// The batch is dimension 0 of the first input, and every dimension of its name, or of its size at the front of an
// input.
#pragma once

#include <map>
#include <string>

#include "core/graph/import/onnx/onnx_file.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::onnx {

// Whether the first input is of a batch of 1.
[[nodiscard]] bool has_one_sample(const OnnxFile& file);

struct OnnxModule {
  primitive::Module module;
  std::int64_t default_batch = 1;
  DType dtype = DType::F32;  // of the first parameter
};

// `samples`: whether a batch of 1 stays what it is (primitive/one_sample.h). Throws InputError as read_model_file does.
[[nodiscard]] OnnxModule module_of(const OnnxFile& file, const std::map<std::string, std::int64_t>& dims,
                                   const std::string& place, primitive::OwnBatch samples);

}  // namespace meshwright::onnx
