// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_recorder.h"

#include <utility>

#include "core/base/errors.h"
#include "kernels/cuda/runtime/activity.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright {

namespace cuda = kernels::cuda;

namespace {

template <class Action>
auto of_the_system(Action action) {
  try {
    return action();
  } catch (const cuda::Failure& failure) {
    throw SystemError(fmt::format("{}.", failure.what()));
  }
}

RecordedActivity::Kind kind_of(cuda::Activity::Kind kind) {
  switch (kind) {
    case cuda::Activity::Kind::Kernel:
      return RecordedActivity::Kind::Kernel;
    case cuda::Activity::Kind::Copy:
      return RecordedActivity::Kind::Copy;
    case cuda::Activity::Kind::PeerCopy:
      return RecordedActivity::Kind::CopyBetweenDevices;
    case cuda::Activity::Kind::Clear:
      return RecordedActivity::Kind::Clear;
  }
  throw InternalError("an activity of no kind");
}

}  // namespace

std::string CudaRecorder::describe() const { return of_the_system(cuda::describe_recorder); }
void CudaRecorder::start() { of_the_system(cuda::start_recording); }

WorkRecording CudaRecorder::stop() {
  cuda::Recording seen = of_the_system(cuda::stop_recording);
  WorkRecording recording;
  for (cuda::Recording::Range& range : seen.ranges) recording.ranges.push_back({std::move(range.name), range.around});
  for (const cuda::Activity& activity : seen.activities)
    recording.activities.push_back({kind_of(activity.kind), activity.device, activity.start, activity.end,
                                    activity.bytes, activity.name, activity.range});
  recording.names = std::move(seen.names);
  recording.lost = seen.lost;
  return recording;
}

}  // namespace meshwright
