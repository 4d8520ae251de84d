// SPDX-License-Identifier: Apache-2.0
// The numbers of an exported program's buffers and constants, which torch.export.save (PyTorch 2.8 and later) writes as
// plain bytes beside the program: frequencies of rotations, masks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/zip.h"

namespace meshwright::torch {

using KeptNumbers = std::map<std::string, std::vector<double>>;  // by the buffer's name

// What is no parameter, has at most 2^22 elements, and lies in one piece in a type that is read (f32, f64, i32, i64,
// bool); older archives have none. Throws InputError where the archive is damaged.
[[nodiscard]] KeptNumbers kept_numbers(const std::vector<ZipEntry>& archive, const std::string& place);

}  // namespace meshwright::torch
