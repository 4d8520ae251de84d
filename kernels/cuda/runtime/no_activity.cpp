// SPDX-License-Identifier: Apache-2.0
// In the place of CUPTI, where there is none.
#include "kernels/cuda/runtime/activity.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

namespace {
[[noreturn]] void refuse() { throw Failure("this build has no CUPTI"); }
}  // namespace

bool can_record() { return false; }
std::string describe_recorder() { refuse(); }
void start_recording() { refuse(); }
Recording stop_recording() { refuse(); }

void note_begin_of_range(const char*) {}
void note_end_of_range() {}

}  // namespace meshwright::kernels::cuda
