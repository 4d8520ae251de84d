// SPDX-License-Identifier: Apache-2.0
// Groups and messages by NCCL: of GPUs of one process, and of processes with one or several GPUs each. On the stand-in
// for GPUs it is one for NCCL too (kernels/cuda_on_cpu/nccl).
#ifdef MESHWRIGHT_WITH_NCCL
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "executor/cuda/cuda_backend.h"
#include "executor/executor.h"
#include "executor/peers/peers_backend.h"
#include "tests/collective_cases.h"
#include "tests/local_peers.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::nccl_test {
namespace {

bool has_two_gpus() { return kernels::cuda::device_count() >= 2; }
bool has_four_gpus() { return kernels::cuda::device_count() >= 4; }

TEST(Nccl, GroupsOfTwoGpusAreLikeAPlainGroup) {
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU alone";
  for (const int members : {2, 4})  // with two devices on a GPU, its first one speaks for it
    for (const DType stored : {DType::BF16, DType::F32, DType::F64, DType::I32}) {
      CudaBackend cuda({.precision = {}, .gpus = 2, .nccl = true}, members);
      Abort abort;
      const auto group = cuda.make_group(device_ids(members), abort);
      expect_like_a_plain_group(
          cuda, std::vector<int>(static_cast<std::size_t>(members), 1), [&](int) -> Group& { return *group; }, stored,
          Numbers::Whole);
    }
}

// A group of `members` of two processes with two GPUs each; nothing of what it does passes the hosts' memory.
void expect_like_a_plain_group_of_two_processes(const std::vector<DeviceId>& members, DType stored) {
  const int count = static_cast<int>(members.size());
  const auto peers = LocalPeers::make(2);
  std::array<Abort, 2> aborts;
  std::vector<std::unique_ptr<CudaBackend>> backends(2);
  std::vector<std::shared_ptr<Group>> groups(2);
  std::vector<std::thread> processes;
  for (std::size_t p = 0; p < 2; ++p)
    processes.emplace_back([&, p] {
      const int first = count / 2 * static_cast<int>(p);
      backends[p] = std::make_unique<CudaBackend>(
          CudaOptions{
              .precision = {}, .first_gpu = 2 * static_cast<int>(p), .gpus = 2, .first_device = first, .nccl = true},
          count / 2);
      groups[p] = PeersBackend(*backends[p], *peers[p], count).make_group(members, aborts[p]);
    });
  for (std::thread& process : processes) process.join();
  const std::size_t joining = peers[0]->bytes_sent() + peers[1]->bytes_sent();
  CudaBackend of_all({.precision = {}, .gpus = 4}, count);  // whose devices lie where those of the processes do
  expect_like_a_plain_group(
      of_all, std::vector<int>(members.size(), 1),
      [&](int member) -> Group& { return *groups[static_cast<std::size_t>(2 * member / count)]; }, stored,
      Numbers::Whole);
  EXPECT_EQ(peers[0]->bytes_sent() + peers[1]->bytes_sent(), joining);
}

TEST(Nccl, EveryGpuOfAProcessCommunicatesForItself) {
  if (!has_four_gpus()) GTEST_SKIP() << "there are fewer than four GPUs";
  for (const int members : {4, 6, 8})  // one or two devices on each GPU
    for (const DType stored : {DType::BF16, DType::F32, DType::I32})
      expect_like_a_plain_group_of_two_processes(device_ids(members), stored);
}

// NCCL would need a GPU twice: the first device of a process speaks for all, which read each other's memory.
TEST(Nccl, DevicesThatLieOnGpusInTurnsHaveOneSpeaker) {
  if (!has_four_gpus()) GTEST_SKIP() << "there are fewer than four GPUs";
  std::vector<DeviceId> in_turns;
  for (const int device : {0, 2, 1, 3, 4, 6, 5, 7}) in_turns.emplace_back(device);
  expect_like_a_plain_group_of_two_processes(in_turns, DType::F32);
}

Planned plan_of(const std::string& method) {
  PlanRequest request = ask("mlp:layers=4,hidden=16", "dgx-a100:1", method, 16, 4);
  request.cluster = take_part(request.cluster, 1, 4);
  request.training.dtype = DType::BF16;
  if (!request.search.method.one_stage()) request.search.layers = 2;
  Planned made = planned(request);
  EXPECT_TRUE(made.plan.has_value()) << made.reason;
  return made;
}

struct Outcome {
  RunResult result;
  std::size_t sent = 0;  // through the hosts, by all processes
};

// Two processes, each with half of the devices on GPUs of its own.
Outcome run_in_two(const Planned& made, bool nccl, int steps = 2, bool graphs = true, int gpus = 1) {
  const RunOptions options{.steps = steps, .seed = 3, .precision = DType::F32};
  const int devices = static_cast<int>(made.program.devices.size());
  Outcome run;
  std::mutex mutex;
  in_processes(2, [&](LocalPeers& peers) {
    const int first = PeersBackend::first_device(peers.rank(), 2, devices),
              end = PeersBackend::first_device(peers.rank() + 1, 2, devices);
    CudaBackend cuda({.precision = {},
                      .first_gpu = gpus * peers.rank(),
                      .gpus = gpus,
                      .first_device = first,
                      .nccl = nccl,
                      .graphs = graphs},
                     end - first);
    PeersBackend backend(cuda, peers, devices);
    RunResult own = run_program(made.graph, made.program, made.check, options, backend);
    const std::lock_guard lock(mutex);
    run.sent += peers.bytes_sent();
    if (peers.rank() == 0) run.result = std::move(own);
  });
  return run;
}

std::size_t bytes_between_processes(const Program& program) {
  const std::size_t half = program.devices.size() / 2;
  double bytes = 0.0;
  for (const Transfer& transfer : program.transfers)
    if ((transfer.source.index() < half) != (transfer.destination.index() < half)) bytes += transfer.bytes.si();
  return static_cast<std::size_t>(bytes);
}

TEST(Nccl, MessagesBetweenProcessesPassNoHost) {
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU alone";
  const Planned made = plan_of("megatron:tp=2,pp=2");
  const Outcome by_nccl = run_in_two(made, true), by_hosts = run_in_two(made, false);
  EXPECT_EQ(by_nccl.result.losses, by_hosts.result.losses);
  EXPECT_EQ(by_nccl.result.weights, by_hosts.result.weights);
  const std::size_t passed = 2 * bytes_between_processes(made.program);  // in two steps
  EXPECT_GT(passed, 0U);
  EXPECT_GE(by_hosts.sent, passed);
  // What is left joins the processes and brings the result to the first.
  EXPECT_LE(by_nccl.sent + passed, by_hosts.sent + 256 * made.program.transfers.size());
}

TEST(Nccl, PlansInTwoProcessesTrainLikeThoseOfHosts) {
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU alone";
  for (const char* method : {"data", "zero3"}) {
    SCOPED_TRACE(method);
    const Planned made = plan_of(method);
    const Outcome by_nccl = run_in_two(made, true), by_hosts = run_in_two(made, false);
    for (std::size_t step = 0; step < by_hosts.result.losses.size(); ++step)
      EXPECT_NEAR(by_nccl.result.losses.at(step), by_hosts.result.losses[step],
                  0x1p-6 * std::abs(by_hosts.result.losses[step]));
    EXPECT_LT(by_nccl.sent, by_hosts.sent);
  }
}

TEST(Nccl, PlansOnTwoGpusOfEachProcessTrainLikeThoseOfHosts) {
  if (!has_four_gpus()) GTEST_SKIP() << "there are fewer than four GPUs";
  for (const char* method : {"data", "zero3", "megatron:tp=2,pp=2"}) {
    SCOPED_TRACE(method);
    const Planned made = plan_of(method);
    const Outcome by_nccl = run_in_two(made, true, 2, true, 2), by_hosts = run_in_two(made, false, 2, true, 2);
    for (std::size_t step = 0; step < by_hosts.result.losses.size(); ++step)
      EXPECT_NEAR(by_nccl.result.losses.at(step), by_hosts.result.losses[step],
                  0x1p-6 * std::abs(by_hosts.result.losses[step]));
    EXPECT_LT(by_nccl.sent, by_hosts.sent);
  }
}

// Each process captures its own devices, which are not the first of all in the second; messages are left to steps op by
// op.
TEST(Nccl, StepsWhoseCollectivesItDoesAreReplayedByEveryProcess) {
  if (!has_two_gpus()) GTEST_SKIP() << "there is one GPU alone";
  for (const char* method : {"data", "zero3", "megatron:tp=4,pp=1"}) {
    SCOPED_TRACE(method);
    const Planned made = plan_of(method);
    const Outcome replayed = run_in_two(made, true, 4), one_by_one = run_in_two(made, true, 4, false);
    EXPECT_GE(replayed.result.issued.replayed, 2);
    EXPECT_EQ(one_by_one.result.issued.replayed, 0);
    EXPECT_EQ(replayed.result.losses, one_by_one.result.losses);
    EXPECT_EQ(replayed.result.weights, one_by_one.result.weights);
  }
  EXPECT_EQ(run_in_two(plan_of("megatron:tp=2,pp=2"), true, 3).result.issued.why_none,
            "other processes take part in them");
}

}  // namespace
}  // namespace meshwright::nccl_test
#endif
