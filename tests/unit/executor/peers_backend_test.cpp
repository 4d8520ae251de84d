// SPDX-License-Identifier: Apache-2.0
// Programs whose devices are run by several processes, and what these are made of.
#include "executor/peers/peers_backend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "executor/executor.h"
#include "executor/host/host_backend.h"
#include "tests/local_peers.h"
#include "tests/refusal.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::peers_backend_test {
namespace {

TEST(PeersBackend, GivesEachProcessABlockOfDevices) {
  for (const auto& [processes, devices] : {std::pair{1, 5}, {2, 5}, {3, 3}, {3, 8}, {4, 7}}) {
    in_processes(processes, [&, of = devices, count = processes](LocalPeers& peers) {
      HostBackend host(DType::F32);
      const PeersBackend backend(host, peers, of);
      const int first = PeersBackend::first_device(peers.rank(), count, of),
                end = PeersBackend::first_device(peers.rank() + 1, count, of);
      EXPECT_LT(first, end);
      for (int d = 0; d < of; ++d)
        EXPECT_EQ(backend.runs_here(DeviceId(d)), d >= first && d < end) << d << " in " << peers.rank();
    });
    EXPECT_EQ(PeersBackend::first_device(0, processes, devices), 0);
    EXPECT_EQ(PeersBackend::first_device(processes, processes, devices), devices);
  }
}

TEST(PeersBackend, RefusesProcessesWithoutDevices) {
  in_processes(3, [](LocalPeers& peers) {
    HostBackend host(DType::F32);
    EXPECT_EQ(refusal([&] { PeersBackend(host, peers, 2); }),
              "3 processes are too many for 2 devices; start at most one for each device.");
  });
}

// --- groups and messages ---

// Runs body(id, device) for each device of this process, each on a thread.
using PerDevice = std::function<void(DeviceId, Device&)>;
void on_devices(PeersBackend& backend, int devices, const PerDevice& body) {
  std::vector<std::thread> threads;
  for (int d = 0; d < devices; ++d)
    if (backend.runs_here(DeviceId(d)))
      threads.emplace_back([&, d] { body(DeviceId(d), *backend.make_device(DeviceId(d))); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<DeviceId> ids(const std::vector<int>& values) {
  std::vector<DeviceId> all;
  for (const int value : values) all.emplace_back(value);
  return all;
}

// Device d brings 10^d, so that a sum says who was in it. Some groups lie in one process, some in two or three; in one
// the members of a process are not neighbours.
TEST(PeersBackend, MakesGroupsOfAnyDevices) {
  const std::vector<std::vector<int>> groups = {{0, 1, 2, 3, 4, 5}, {0, 1}, {4, 5}, {1, 2}, {3, 4}, {0, 2, 1, 3}};
  in_processes(3, [&](LocalPeers& peers) {
    HostBackend host(DType::F64);
    PeersBackend backend(host, peers, 6);
    Abort abort;
    std::vector<std::shared_ptr<Group>> made;
    for (const std::vector<int>& members : groups) {
      made.push_back(backend.make_group(ids(members), abort));
      const bool any_here =
          std::any_of(members.begin(), members.end(), [&](int member) { return backend.runs_here(DeviceId(member)); });
      EXPECT_EQ(made.back() != nullptr, any_here);
    }
    on_devices(backend, 6, [&](DeviceId id, Device& device) {
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const auto found = std::find(groups[g].begin(), groups[g].end(), id.value);
        if (found == groups[g].end()) continue;
        const auto member = static_cast<int>(found - groups[g].begin());
        const double own = std::pow(10.0, id.value);
        double sum = 0.0, expected = 0.0;
        made[g]->all_reduce({member, device, DType::F64, &own, &sum}, 1, kernels::Reduction::Sum);
        std::vector<double> whole(groups[g].size()), in_order;
        made[g]->all_gather({member, device, DType::F64, &own, whole.data()}, 1, 1);
        for (const int other : groups[g]) in_order.push_back(std::pow(10.0, other)), expected += in_order.back();
        EXPECT_EQ(sum, expected) << "group " << g << ", device " << id.value;
        EXPECT_EQ(whole, in_order) << "group " << g << ", device " << id.value;
      }
    });
  });
}

// Columns 1 and 2 of 2 x 3 arrays, three times on one transfer, with another transfer asked for in between.
TEST(PeersBackend, BringsMessagesOfATransferInOrder) {
  const std::vector<std::int64_t> shape = {2, 3}, offset = {0, 1}, extent = {2, 2};
  const BoxView box{shape, offset, extent};
  in_processes(2, [&](LocalPeers& peers) {
    HostBackend host(DType::F64);
    PeersBackend backend(host, peers, 2);
    Abort abort;
    const auto messages = backend.make_messages(DeviceId(0), DeviceId(1), abort);
    on_devices(backend, 2, [&](DeviceId id, Device& device) {
      const auto numbers = [](double first) {
        return std::vector<double>{first, first + 1, first + 2, first + 3, first + 4, first + 5};
      };
      if (id.value == 0) {
        for (const double first : {0.0, 10.0, 20.0}) messages->send(device, 7, DType::F64, numbers(first).data(), box);
        messages->send(device, 8, DType::F64, numbers(50.0).data(), box);
        return;
      }
      std::vector<double> other(6, -1.0), array(6, -1.0);
      messages->receive(device, 8, DType::F64, other.data(), box, false);
      EXPECT_EQ(other, (std::vector<double>{-1, 51, 52, -1, 54, 55}));
      messages->receive(device, 7, DType::F64, array.data(), box, false);
      EXPECT_EQ(array, (std::vector<double>{-1, 1, 2, -1, 4, 5}));
      messages->receive(device, 7, DType::F64, array.data(), box, true);
      EXPECT_EQ(array, (std::vector<double>{-1, 12, 14, -1, 18, 20}));
      messages->receive(device, 7, DType::F64, array.data(), box, false);
      EXPECT_EQ(array, (std::vector<double>{-1, 21, 22, -1, 24, 25}));
    });
  });
}

TEST(PeersBackend, LeavesMessagesOfOthersToThem) {
  in_processes(3, [](LocalPeers& peers) {
    HostBackend host(DType::F32);
    PeersBackend backend(host, peers, 3);
    Abort abort;
    EXPECT_EQ(backend.make_messages(DeviceId(0), DeviceId(1), abort) == nullptr, peers.rank() == 2);
  });
}

// The last process fails; one of the others waits in a collective, one for a message.
TEST(PeersBackend, AFailingProcessEndsTheWaitsOfTheOthers) {
  std::atomic<int> ended{0};
  in_processes(3, [&](LocalPeers& peers) {
    HostBackend host(DType::F32);
    PeersBackend backend(host, peers, 3);
    Abort abort;
    const auto group = backend.make_group(ids({0, 2}), abort);
    const auto messages = backend.make_messages(DeviceId(2), DeviceId(1), abort);
    peers.watch(abort);
    if (peers.rank() == 2) {
      peers.fail("no memory");
    } else {
      const auto device = backend.make_device(DeviceId(peers.rank()));
      std::vector<float> value(1);
      const std::vector<std::int64_t> one = {1}, zero = {0};
      try {
        if (peers.rank() == 0)
          group->all_reduce({0, *device, DType::F32, value.data(), value.data()}, 1, kernels::Reduction::Sum);
        else
          messages->receive(*device, 0, DType::F32, value.data(), {one, zero, one}, false);
      } catch (const Aborted&) {
        ++ended;
      }
      const auto failure = peers.failure();
      ASSERT_TRUE(failure.has_value());
      EXPECT_EQ(failure->rank, 2);
      EXPECT_EQ(failure->why, "no memory");
    }
    peers.forget(abort);
  });
  EXPECT_EQ(ended, 2);
}

// --- whole programs ---

const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};

Planned plan_of(const std::string& model, const std::string& method) {
  PlanRequest request = ask(model, "cpu:4", method, 16, 4);
  request.training.dtype = DType::F32;
  if (!request.search.method.one_stage()) request.search.layers = 2;
  Planned made = planned(request);
  EXPECT_TRUE(made.plan.has_value()) << made.reason;
  return made;
}

// The result, which is the first process's.
RunResult run_in(int processes, const Planned& made) {
  RunResult result;
  in_processes(processes, [&](LocalPeers& peers) {
    HostBackend host(DType::F64);
    PeersBackend backend(host, peers, static_cast<int>(made.program.devices.size()));
    RunResult own = run_program(made.graph, made.program, made.check, kTwoSteps, backend);
    if (peers.rank() == 0) result = std::move(own);
  });
  return result;
}

constexpr const char* kMlp = "mlp:layers=4,hidden=16";
constexpr const char* kGpt = "gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32";
// Most of its parameters are padded on 4 devices, and some on 2.
constexpr const char* kUneven = "gpt:layers=2,hidden=18,heads=3,seq=7,vocab=33";

// Every process then has one device: everything is summed in the order it has in one process.
TEST(ProgramsInProcesses, HaveTheBitsOfOneProcessWithADeviceEach) {
  for (const auto& [model, method] :
       {std::pair{kMlp, "data"}, {kGpt, "megatron:tp=2,pp=2"}, {kGpt, "zero3"}, {kUneven, "zero3"}}) {
    const Planned made = plan_of(model, method);
    const RunResult alone = run_program(made.graph, made.program, made.check, kTwoSteps);
    const RunResult together = run_in(4, made);
    EXPECT_EQ(together.losses, alone.losses) << method;
    EXPECT_EQ(together.weights, alone.weights) << method;
    EXPECT_EQ(together.peak_memory, alone.peak_memory) << method;
  }
}

TEST(ProgramsInProcesses, TrainTheSameWeightsInBlocksOfAnySize) {
  for (const auto& [model, method] : {std::pair{kMlp, "data"},
                                      {kMlp, "pipeshard"},
                                      {kGpt, "megatron:tp=2,pp=2"},
                                      {kGpt, "zero3"},
                                      {kUneven, "zero3"},
                                      {kUneven, "zero1:shard=2"}}) {
    const Planned made = plan_of(model, method);
    const RunResult alone = run_program(made.graph, made.program, made.check, kTwoSteps);
    for (const int processes : {1, 2, 3}) {
      const RunResult together = run_in(processes, made);
      for (std::size_t step = 0; step < alone.losses.size(); ++step)
        EXPECT_NEAR(together.losses.at(step), alone.losses[step], 1e-12 * std::abs(alone.losses[step])) << method;
      for (const auto& [name, values] : alone.weights)
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(together.weights.at(name).at(i), values[i], 1e-12)
              << method << " in " << processes << ", " << name;
    }
  }
}

// Threads but for one device, which cannot be made.
class BrokenBackend final : public Backend {
 public:
  explicit BrokenBackend(DeviceId broken) : broken_(broken) {}
  DType stored(DType type) const override { return host_.stored(type); }
  std::unique_ptr<Device> make_device(DeviceId device) override {
    if (device == broken_) throw SystemError("the device is broken");
    return host_.make_device(device);
  }
  std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) override {
    return host_.make_group(members, abort);
  }
  std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) override {
    return host_.make_messages(from, to, abort);
  }

 private:
  HostBackend host_{DType::F64};
  const DeviceId broken_;
};

TEST(ProgramsInProcesses, EndInAllWhereOneFails) {
  const Planned made = plan_of(kMlp, "data");
  std::vector<std::string> told(3);
  in_processes(3, [&](LocalPeers& peers) {
    BrokenBackend broken(DeviceId(3));
    PeersBackend backend(broken, peers, 4);
    try {
      static_cast<void>(run_program(made.graph, made.program, made.check, kTwoSteps, backend));
    } catch (const SystemError& error) {
      told[static_cast<std::size_t>(peers.rank())] = error.what();
      if (peers.rank() == 2) peers.fail(error.what());
    }
  });
  EXPECT_EQ(told, (std::vector<std::string>{"process 2: the device is broken", "process 2: the device is broken",
                                            "the device is broken"}));
}

}  // namespace
}  // namespace meshwright::peers_backend_test
