// SPDX-License-Identifier: Apache-2.0
// From the JSON of PyTorch's exported programs (torch.export; schema major version 8, torch/_export/serde/schema.yaml)
// to a module of primitive ops. Parameters, buffers and inputs are told apart by the program's signature; buffers are
// constants. Of a program with a loss, what leads to the loss is read: the gradients in a joint graph are not.
//
// The batch is dimension 0 of the first input of the user. Sizes that the program leaves open (symbols such as s27) are
// those it was exported with unless `dims` gives others.
#pragma once

#include <map>
#include <string>

#include "core/base/json.h"
#include "core/graph/import/primitive/builder.h"
#include "core/graph/import/torch/kept_numbers.h"

namespace meshwright::torch {

// Whether the user's first input is of a batch of 1.
[[nodiscard]] bool has_one_sample(const Json& program, const std::string& place);

struct ExportedModule {
  primitive::Module module;
  std::int64_t default_batch = 1;
  DType dtype = DType::F32;  // of the first parameter
};

// `kept`: the numbers of buffers and constants, as far as they are known. `samples`: whether a batch of 1 stays what it
// is (primitive/one_sample.h). Throws InputError as read_model_file does.
[[nodiscard]] ExportedModule module_of(const Json& program, const KeptNumbers& kept,
                                       const std::map<std::string, std::int64_t>& dims, const std::string& place,
                                       primitive::OwnBatch samples);

}  // namespace meshwright::torch
