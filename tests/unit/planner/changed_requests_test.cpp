// SPDX-License-Identifier: Apache-2.0
#include "core/planner/changed_requests.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/text.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::changed_requests_test {
namespace {

constexpr const char* kModel = "mlp:layers=2,hidden=64";

// One line for each ladder that has steps.
std::vector<std::string> texts(const PlanRequest& request) {
  std::vector<std::string> lines;
  for (const ChangeLadder& ladder : change_ladders(request)) {
    std::vector<std::string> steps;
    for (const RequestChange& step : ladder.steps) steps.push_back(step.change);
    if (!steps.empty()) lines.push_back(join(steps, ", "));
  }
  return lines;
}

// What the request has for the options that the changes name.
std::map<std::string, std::string> options_of(const PlanRequest& request) {
  const SearchOptions& search = request.search;
  const auto* recompute = std::get_if<Recompute>(&search.recompute);
  const auto* number = std::get_if<std::int64_t>(&search.microbatches);
  return {{"--recompute", recompute != nullptr ? std::string(name_of(*recompute)) : "auto"},
          {"--recompute-modules", search.recompute_modules == RecomputeModules::None ? "none" : "some"},
          {"--recompute-layers", fmt::format("{}", search.recompute_layers.size())},
          {"--method", search.method.text},
          {"--micro-batches", number != nullptr ? fmt::format("{}", *number) : "auto"},
          {"--schedule", std::string(name_of(request.first_schedule()))},
          {"--batch", fmt::format("{}", request.training.batch)},
          {"--offload", std::string(name_of(request.training.offload))},
          {"--logical-mesh-space",
           search.logical_mesh_space == LogicalMeshSpace::ThreeDimensional ? "three_dimensional" : "all"},
          {"--cluster", request.cluster.name},
          {"hosts", fmt::format("{}", request.cluster.hosts())}};
}

TEST(ChangeLadders, ChangeWhatTheyNameAlone) {
  int changes = 0;
  for (const char* method : {"pipeshard", "data", "zero1", "shard", "megatron:tp=2,pp=2"}) {
    PlanRequest request = ask(kModel, "p3.16xlarge:2", method, 32, 4);
    request.search.schedule = ScheduleKind::GPipe;
    request.cluster.only().device.host_memory = Bytes(1e12);
    request.cluster.only().device.host_bandwidth = BytesPerSecond(1e10);
    const auto before = options_of(request);
    for (const ChangeLadder& ladder : change_ladders(request))
      for (const RequestChange& step : ladder.steps) {
        SCOPED_TRACE(fmt::format("{}: {}", method, step.change));
        const std::vector<std::string> words = split(step.change, ' ');
        auto wanted = before;
        if (words.front() == "--cluster") {
          wanted["hosts"] = split(words.back(), ':').back();
          EXPECT_EQ(step.request.cluster.groups.front().hosts, step.request.cluster.hosts());
        }
        if (words.front() == "--cluster" || words.front().starts_with("--")) wanted.at(words.front()) = words.back();
        if (ladder.kind == WayOut::Kind::MoreDevices && !step.change.starts_with("--")) {
          wanted["hosts"] = fmt::format("{}", 2 + std::stoi(words.front()));
          wanted["--cluster"] = "p3.16xlarge:2 and " + step.change;
        }
        EXPECT_EQ(options_of(step.request), wanted);
        ++changes;
      }
  }
  EXPECT_GT(changes, 50);
}

// Those that are changes of this option, in their order.
std::string values_of(const std::string& option, const PlanRequest& request) {
  std::vector<std::string> values;
  for (const std::string& line : texts(request))
    for (const std::string& change : split(line, ','))
      if (const auto at = change.find(option + " "); at != std::string::npos)
        values.push_back(change.substr(at + option.size() + 1));
  return join(values, " ");
}

PlanRequest asking(const char* method, std::int64_t batch = 32, OrAuto<std::int64_t> microbatches = std::int64_t{4}) {
  return ask(kModel, "p3.16xlarge:2", method, batch, microbatches);
}

TEST(ChangeLadders, OfMethodsKeepEverLessOnADeviceThenLeaveEverMoreOpen) {
  const std::map<const char*, const char*> all = {{"pipeshard", ""},
                                                  {"data", "zero1 zero2 zero3 shard pipeshard"},
                                                  {"zero1", "zero2 zero3 shard pipeshard"},
                                                  {"zero2", "zero3 shard pipeshard"},
                                                  {"zero3", "shard pipeshard"},
                                                  {"shard", "pipeshard"},
                                                  {"megatron:tp=2,pp=2", "pipeshard"},
                                                  {"zero1:shard=8", "zero1 zero2 zero3 shard pipeshard"},
                                                  {"zero2:shard=8", "zero2 zero3 shard pipeshard"},
                                                  {"zero3:shard=8", "zero3 shard pipeshard"}};
  for (const auto& [method, next] : all) EXPECT_EQ(values_of("--method", asking(method)), next) << method;
  PlanRequest on_given_mesh = asking("data");
  on_given_mesh.search.logical_mesh = std::vector<int>{16, 1};
  EXPECT_EQ(values_of("--method", on_given_mesh), "zero1 zero2 zero3");
}

TEST(ChangeLadders, OfMicrobatchesAreTwiceAsManyOrTheNextThatDivideTheBatchUpToSingleSamples) {
  EXPECT_EQ(values_of("--micro-batches", asking("data", 32, 4)), "8 16 32");
  EXPECT_EQ(values_of("--micro-batches", asking("data", 64, 4)), "8 16 32 64");
  EXPECT_EQ(values_of("--micro-batches", asking("data", 30, 1)), "2 5 10 30");
  EXPECT_EQ(values_of("--micro-batches", asking("data", 12, 4)), "12");
  EXPECT_EQ(values_of("--micro-batches", asking("data", 4, 4)), "");
  EXPECT_EQ(values_of("--micro-batches", asking("data", 32, Auto{})), "");
}

TEST(ChangeLadders, OfTheBatchAreHalfAndAQuarterThatTheMicrobatchesDivide) {
  EXPECT_EQ(values_of("--batch", asking("data", 32, 4)), "16 8");
  EXPECT_EQ(values_of("--batch", asking("data", 32, 16)), "16");
  EXPECT_EQ(values_of("--batch", asking("data", 6, 4)), "");
  EXPECT_EQ(values_of("--batch", asking("data", 10, Auto{})), "5");
  EXPECT_EQ(values_of("--batch", asking("data", 12, Auto{})), "6 3");
}

TEST(ChangeLadders, RecomputeMoreThanWhatIsAsked) {
  PlanRequest request = asking("data");
  EXPECT_EQ(values_of("--recompute", request), "selective full auto");
  request.search.recompute = Recompute::Selective;
  EXPECT_EQ(values_of("--recompute", request), "full auto");
  request.search.recompute = Recompute::Full;
  EXPECT_EQ(values_of("--recompute", request), "auto");
  request.search.recompute = Auto{};
  EXPECT_EQ(values_of("--recompute", request), "");
  PlanRequest exceptions = asking("data");
  exceptions.search.recompute_layers = {{0, 0, Recompute::Full}};
  exceptions.search.recompute_modules = RecomputeModules::None;
  for (const ChangeLadder& ladder : change_ladders(exceptions))
    for (const RequestChange& step : ladder.steps)
      EXPECT_EQ(step.request.search.recompute_layers.empty(), ladder.kind == WayOut::Kind::Recomputation)
          << step.change;
}

TEST(ChangeLadders, OfTheScheduleLeaveGPipeAlone) {
  PlanRequest request = asking("pipeshard");
  EXPECT_EQ(values_of("--schedule", request), "");
  request.search.schedule = ScheduleKind::GPipe;
  EXPECT_EQ(values_of("--schedule", request), "1f1b");
}

// A mesh of three axes where meshes are searched and have two.
TEST(ChangeLadders, OfMeshesAddAnAxisWhereMeshesAreSearched) {
  for (const char* method : {"pipeshard", "shard"}) {
    PlanRequest request = asking(method);
    EXPECT_EQ(values_of("--logical-mesh-space", request), "three_dimensional") << method;
    request.search.logical_mesh_space = LogicalMeshSpace::ThreeDimensional;
    EXPECT_EQ(values_of("--logical-mesh-space", request), "") << method;
    PlanRequest given = asking(method);
    given.search.logical_mesh = std::vector<int>{16, 1};
    EXPECT_EQ(values_of("--logical-mesh-space", given), "") << method;
  }
  EXPECT_EQ(values_of("--logical-mesh-space", asking("data")), "");
}

// What hosts hold and how fast has to be known, and what they keep already is no change.
TEST(ChangeLadders, OfOffloadKeepTheStateThenEverythingOnTheHosts) {
  const auto offloads = [](double bytes, double speed, Offload before = Offload::None) {
    PlanRequest request = asking("data");
    request.cluster.only().device.host_memory = Bytes(bytes);
    request.cluster.only().device.host_bandwidth = BytesPerSecond(speed);
    request.training.offload = before;
    std::vector<std::string> values;
    for (const ChangeLadder& ladder : change_ladders(request))
      if (ladder.kind == WayOut::Kind::Offload)
        for (const RequestChange& step : ladder.steps)
          values.push_back(std::string(name_of(step.request.training.offload)));
    return join(values, " ");
  };
  EXPECT_EQ(offloads(0, 0), "");
  EXPECT_EQ(offloads(1e12, 0), "");
  EXPECT_EQ(offloads(0, 1e10), "");
  EXPECT_EQ(offloads(1e12, 1e10), "optimizer optimizer,activations,weights");
  EXPECT_EQ(offloads(1e12, 1e10, Offload::Optimizer), "optimizer,activations,weights");
  EXPECT_EQ(offloads(1e12, 1e10, Offload::Weights), "optimizer,weights optimizer,activations,weights");
  EXPECT_EQ(offloads(1e12, 1e10, Offload::Optimizer | Offload::Activations | Offload::Weights), "");
}

// Weights and state of 16 bytes for each of the parameters.
double held_bytes() {
  const Graph graph = build_step_graph(find_model(kModel), asking("data").training_with(1), ScheduleKind::OneFOneB);
  double bytes = 0.0;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState) bytes += tensor.bytes().si();
  return bytes;
}

PlanRequest with_usable(PlanRequest request, double bytes) {
  request.cluster.only().device.memory = Bytes(bytes);
  request.cluster.only().device.usable_memory = 1.0;
  return request;
}

// Nothing is split by data parallelism; a third of weights and state is the weights, which the first two ZeRO levels
// keep whole beside a sixteenth of the state; the third and other methods split all.
TEST(ChangeLadders, LeaveOutWhatWeightsAndStateAloneMakeTooLarge) {
  const double held = held_bytes(), weights = held / 3, zero1 = weights + 2 * weights / 16, split = held / 16;
  const auto methods = [](double bytes) { return values_of("--method", with_usable(asking("data"), bytes)); };
  const auto recomputes = [](double bytes) { return values_of("--recompute", with_usable(asking("data"), bytes)); };
  EXPECT_EQ(recomputes(held), "selective full auto");
  EXPECT_EQ(recomputes(held - 1), "");
  EXPECT_EQ(methods(zero1 + 1), "zero1 zero2 zero3 shard pipeshard");
  EXPECT_EQ(methods(zero1 - 1), "zero3 shard pipeshard");
  EXPECT_EQ(methods(split + 1), "zero3 shard pipeshard");
  EXPECT_EQ(methods(split - 1), "");
}

// One more host and twice as many; where weights and state need six hosts of eight devices, eight hosts and three
// doublings of them instead.
TEST(ChangeLadders, OfHostsAreTheNextTwiceAsManyAndPowersOfTwoThatHoldTheWeights) {
  EXPECT_EQ(values_of("--cluster", asking("pipeshard")), "p3.16xlarge:3 p3.16xlarge:4");
  const auto hosts = [](const PlanRequest& request) {
    std::vector<std::string> counts;
    for (const ChangeLadder& ladder : change_ladders(request))
      if (ladder.kind == WayOut::Kind::MoreDevices)
        for (const RequestChange& step : ladder.steps)
          counts.push_back(fmt::format("{}", step.request.cluster.hosts()));
    return join(counts, " ");
  };
  PlanRequest one = ask(kModel, "p3.16xlarge:1", "pipeshard", 32, 4);
  EXPECT_EQ(hosts(one), "2");
  EXPECT_EQ(hosts(with_usable(one, held_bytes() / 8 / 2)), "2");
  EXPECT_EQ(hosts(with_usable(one, held_bytes() / 8 / 5.9)), "8 16 32 64");
  EXPECT_EQ(hosts(ask(kModel, "cpu:4", "pipeshard", 32, 4)), "");
  one.search.logical_mesh = std::vector<int>{8, 1};
  EXPECT_EQ(hosts(one), "");
  std::vector<std::string> unlike;
  for (const std::string& line : texts(ask(kModel, "dgx-a100:1+p3.16xlarge:2", "pipeshard", 32, 4)))
    if (line.find("--cluster") != std::string::npos) unlike.push_back(line);
  EXPECT_EQ(
      join(unlike, "; "),
      "--cluster dgx-a100:2+p3.16xlarge:2; --cluster dgx-a100:1+p3.16xlarge:3, --cluster dgx-a100:1+p3.16xlarge:4");
}

}  // namespace
}  // namespace meshwright::changed_requests_test
