// SPDX-License-Identifier: Apache-2.0
// Groups in parts, and Programs in several processes, whose devices are CUDA devices: what crosses is staged in the
// hosts' memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "executor/cuda/cuda_backend.h"
#include "executor/executor.h"
#include "executor/peers/composite_group.h"
#include "executor/peers/peers_backend.h"
#include "tests/collective_cases.h"
#include "tests/local_peers.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::parts_test {
namespace {

using Sizes = std::vector<int>;

int members_of(const Sizes& parts) { return std::accumulate(parts.begin(), parts.end(), 0); }

TEST(PartsOnCuda, AreLikeAPlainGroupWithLeadersInOneProcess) {
  for (const Sizes& parts : {Sizes{2, 2}, Sizes{1, 2}, Sizes{2, 1, 3}}) {
    CudaBackend cuda({.precision = {}, .gpus = std::min(2, kernels::cuda::device_count())}, members_of(parts));
    Abort abort;
    const auto leaders = cuda.make_group(device_ids(static_cast<int>(parts.size())), abort);
    CompositeGroup group(local_groups(cuda, parts, abort), std::make_unique<GroupAcross>(leaders, parts));
    for (const DType stored : {DType::BF16, DType::F32, DType::I32})
      expect_like_a_plain_group(
          cuda, parts, [&](int) -> Group& { return group; }, stored, Numbers::Whole);
  }
}

// `devices` in blocks, one per process: bits as of a plain group where each has one device.
void expect_processes_like_a_plain_group(int processes, int devices, DType stored, Numbers numbers) {
  CudaBackend cuda({}, devices);
  const auto peers = LocalPeers::make(processes);
  Abort abort;
  std::vector<std::shared_ptr<Group>> group_of;  // [device]
  for (const auto& process : peers) {
    PeersBackend backend(cuda, *process, devices);
    const auto group = backend.make_group(device_ids(devices), abort);
    for (const DeviceId device : device_ids(devices))
      if (backend.runs_here(device)) group_of.push_back(group);
  }
  expect_like_a_plain_group(
      cuda, Sizes(static_cast<std::size_t>(devices), 1),
      [&](int member) -> Group& { return *group_of[static_cast<std::size_t>(member)]; }, stored, numbers);
}

TEST(PartsOnCuda, AreLikeAPlainGroupInSeveralProcesses) {
  for (const DType stored : {DType::BF16, DType::F16, DType::F32, DType::F64, DType::I32})
    expect_processes_like_a_plain_group(2, 3, stored, Numbers::Whole);
}

TEST(PartsOnCuda, HaveTheBitsOfAPlainGroupWithADeviceInEachProcess) {
  for (const DType stored : {DType::BF16, DType::F32})
    expect_processes_like_a_plain_group(3, 3, stored, Numbers::Fractions);
}

Planned plan_of(const std::string& method, DType dtype) {
  PlanRequest request = ask("mlp:layers=4,hidden=16", "dgx-a100:1", method, 16, 4);
  request.cluster = take_part(request.cluster, 1, 4);
  request.training.dtype = dtype;
  if (!request.search.method.one_stage()) request.search.layers = 2;
  Planned made = planned(request);
  EXPECT_TRUE(made.plan.has_value()) << made.reason;
  return made;
}

// Plans with collectives and with messages between the processes.
TEST(PartsOnCuda, TrainLikeOneProcess) {
  const RunOptions options{.steps = 2, .seed = 3, .precision = DType::F32};
  for (const char* method : {"zero3", "megatron:tp=2,pp=2"}) {
    const Planned made = plan_of(method, DType::BF16);
    const int devices = static_cast<int>(made.program.devices.size());
    CudaBackend cuda({}, devices);
    const RunResult alone = run_program(made.graph, made.program, made.check, options, cuda);
    for (const int processes : {2, 4}) {
      RunResult together;
      in_processes(processes, [&](LocalPeers& peers) {
        PeersBackend backend(cuda, peers, devices);
        RunResult own = run_program(made.graph, made.program, made.check, options, backend);
        if (peers.rank() == 0) together = std::move(own);
      });
      if (processes == devices) {
        EXPECT_EQ(together.losses, alone.losses) << method;
        EXPECT_EQ(together.weights, alone.weights) << method;
      }
      for (std::size_t step = 0; step < alone.losses.size(); ++step)
        EXPECT_NEAR(together.losses.at(step), alone.losses[step], 0x1p-6 * std::abs(alone.losses[step])) << method;
    }
  }
}

}  // namespace
}  // namespace meshwright::parts_test
