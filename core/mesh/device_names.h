// SPDX-License-Identifier: Apache-2.0
// Names of devices: those that drivers report, and those of cluster descriptions.
#pragma once

#include <string>

namespace meshwright {

// Whether a GPU that says it is `gpu` is a `device` of a cluster: the "H200-SXM" of one is in "NVIDIA H200", but not in
// "NVIDIA GH200 480GB".
[[nodiscard]] bool is_of_model(const std::string& gpu, const std::string& device);

}  // namespace meshwright
