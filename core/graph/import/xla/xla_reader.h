// SPDX-License-Identifier: Apache-2.0
// From a program of XLA's operations (xla_module.h) to a module of primitive ops.
//
// Calls, fusions and loops are flattened; of a training step, what leads to its loss is read: the gradients and the
// update of the file are left out, ours are planned. Float arguments that the step writes over (aliases), and those
// that products and norms read as weights, are parameters; all others are inputs of a batch. A weight that a loop reads
// slice by slice, one for each layer, is that layer's own parameter: NAME.0, NAME.1, ...
//
// The batch is dimension 0 of the first input. Everything else has the file's sizes: programs of XLA leave none open.
#pragma once

#include <map>
#include <string>

#include "core/graph/import/primitive/builder.h"
#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

struct ImportedProgram {
  primitive::Module module;
  std::int64_t default_batch = 1;
  DType dtype = DType::F32;  // of the largest parameter in the file
};

enum class Samples {
  AsWritten,     // the batch is dimension 0 of the first input
  OneOfSeveral,  // the program is that of one sample (sampled_program.h)
};

// Throws InputError as read_model_file does; also for a program that is cut off or already split for several devices,
// or that holds no forward of a model.
[[nodiscard]] ImportedProgram module_of(const Program& program, const std::map<std::string, std::int64_t>& dims,
                                        const std::string& place, Samples samples);

// Whether the text may be that of one sample: the batch is of one element, or no argument of data has a dimension
// beside that of positions. Throws InputError as module_of does.
[[nodiscard]] bool may_have_one_sample(const Program& program, const std::string& place);

}  // namespace meshwright::xla
