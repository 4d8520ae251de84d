// SPDX-License-Identifier: Apache-2.0
// Collectives by NCCL, where every member has a GPU of its own. Internal to executor/cuda.
//
// NCCL's parts lie member by member; where a collective's lie in rows, they are packed before and unpacked after it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/backend.h"

namespace meshwright {

// "NCCL 2.28.9"
[[nodiscard]] std::string describe_nccl();

// `gpus` [member]. Throws SystemError where NCCL cannot join them, InternalError where one is named twice.
[[nodiscard]] std::shared_ptr<Group> make_nccl_group(const std::vector<int>& gpus);

}  // namespace meshwright
