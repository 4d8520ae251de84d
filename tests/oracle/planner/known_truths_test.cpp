// SPDX-License-Identifier: Apache-2.0
// What is known about how to split well is found by `shard` from prices alone: no method, rule or mesh is named unless
// a test says so. All on one host of eight devices, with the presets' published figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/planning_fixture.h"

namespace meshwright::known_truths_test {
namespace {

constexpr int kDevices = 8;

PlanRequest ask_shard(const std::string& model, const std::string& cluster, std::int64_t batch,
                      std::int64_t microbatches) {
  PlanRequest request = ask(model, cluster, "shard", batch, microbatches);
  request.training.dtype = request.model.default_dtype;
  return request;
}

// Into how many parts the plan's only stage cuts the named axis of an op.
int parts(const Planned& result, const std::string& op, const std::string& axis) {
  const StagePlan& stage = result.plan->stages.front();
  const auto& axes = stage.ops.at(op).axes;
  const auto found = axes.find(axis);
  if (found == axes.end()) return 1;
  int count = 1;
  for (std::size_t a = 0; a < stage.logical_shape.size(); ++a)
    if (found->second >> a & 1) count *= stage.logical_shape[a];
  return count;
}

struct Collective {
  ReshardStep::Kind kind;
  std::string tensor;
  double sent;  // bytes that leave each device
};

// The collectives on what the ops of a block make, in a phase of a microbatch.
std::vector<Collective> collectives(const Planned& result, int block, Phase phase) {
  std::vector<Collective> found;
  for (const StageExecutable& executable : result.program.executables) {
    if (executable.phase != phase) continue;
    for (const LocalOp& op : executable.ops) {
      if (op.kind != LocalOp::Kind::Reshard || op.step->kind == ReshardStep::Kind::Slice) continue;
      const LocalTensor& local = executable.slots[static_cast<std::size_t>(op.inputs[0])].local;
      const Tensor& tensor = result.graph.tensor(local.tensor);
      if (!tensor.producer || result.graph.op(*tensor.producer).block != block) continue;
      const double n = result.plan->stages.front().logical_shape[static_cast<std::size_t>(op.step->axis)];
      const double held = local.bytes().si();
      const double sent = op.step->kind == ReshardStep::Kind::AllGather   ? (n - 1) * held
                          : op.step->kind == ReshardStep::Kind::AllReduce ? 2 * (n - 1) / n * held
                                                                          : (n - 1) / n * held;
      found.push_back({op.step->kind, tensor.name, sent});
    }
  }
  return found;
}
std::set<std::string> tensors_of(const std::vector<Collective>& collectives) {
  std::set<std::string> names;
  for (const Collective& one : collectives) names.insert(one.tensor);
  return names;
}
double sent_by(const std::vector<Collective>& collectives) {
  double sum = 0;
  for (const Collective& one : collectives) sum += one.sent;
  return sum;
}
// A ring all-reduce of B bytes over all devices, the least an all-reduce can move: 2 (n-1)/n B.
double all_reduced(double bytes) { return 2.0 * (kDevices - 1) / kDevices * bytes; }

// --- a wide batch: data parallelism ---

// Hidden h, weights of a block 8 h^2 (h x 4h and back), batch b, bytes per device in elements:
//   data parallel       all-reduce of 8 h^2 over 8                                          14 h^2
//   2-way tensor        all-reduce of 4 h^2 over 4; of b h / 4 over 2, forward and backward  6 h^2 + b h / 2
// so data parallelism moves less when b > 16 h; in the first block, whose input needs no gradient, when b > 32 h. Here
// b = 64 h, and messages are long enough that latency does not turn it around.
TEST(WideBatch, IsSplitOverAllDevicesByEveryOpOfAnMlp) {
  struct Case {
    const char *model, *cluster;
    std::int64_t batch;
  };
  for (const auto& [model, cluster, batch] :
       {Case{"mlp:layers=2,hidden=128", "cpu:8", 8192}, Case{"mlp:layers=2,hidden=512", "p3.16xlarge:1", 32768},
        Case{"mlp:layers=2,hidden=512", "dgx-a100:1", 32768}}) {
    const Planned result = planned(ask_shard(model, cluster, batch, 1));
    ASSERT_TRUE(result.plan) << result.reason;
    for (const auto& [name, sharding] : result.plan->stages.front().ops)
      EXPECT_EQ(parts(result, name, "batch"), kDevices) << cluster << " " << name;
  }
}

// b = 8 h, where two-way tensor parallelism moves less (see above).
TEST(NarrowBatch, LeavesTheChannelsOfAnMlpSplitToo) {
  for (const char* cluster : {"p3.16xlarge:1", "dgx-a100:1"}) {
    const Planned result = planned(ask_shard("mlp:layers=2,hidden=1024", cluster, 8192, 1));
    ASSERT_TRUE(result.plan) << result.reason;
    for (const char* op : {"blk0.up", "blk0.down", "blk1.up", "blk1.down"}) {
      EXPECT_GT(parts(result, op, "mlp"), 1) << cluster << " " << op;
      EXPECT_EQ(parts(result, op, "mlp") * parts(result, op, "batch"), kDevices) << cluster << " " << op;
    }
  }
}

// --- a transformer at a batch of one sequence: Megatron's tensor parallelism ---

// Bytes of the block's result, the tensor that is all-reduced: one sequence of 1024 x 4096 halves.
constexpr double kHidden = 1024.0 * 4096 * 2;

void expect_split_by_heads_and_mlp(const Planned& result) {
  for (const char* op : {"blk15.attn.qkv", "blk15.attn.core", "blk15.attn.out"})
    EXPECT_EQ(parts(result, op, "heads"), kDevices) << op;
  for (const char* op : {"blk15.mlp.up", "blk15.mlp.gelu", "blk15.mlp.down"})
    EXPECT_EQ(parts(result, op, "mlp"), kDevices) << op;
}
const std::set<std::string> kForward = {"blk15.attn.out", "blk15.mlp.down"};
const std::set<std::string> kBackward = {"blk15.attn.qkv.grad_x", "blk15.mlp.up.grad_x"};

// On a mesh of two axes an all-reduce is a reduce-scatter, an all-reduce and an all-gather: as many bytes, fewer steps.
TEST(Transformer, OfOneSequenceAllReducesOncePerHalfOfABlock) {
  const Planned result = planned(ask_shard("gpt-6.7b", "dgx-a100:1", 1, 1));
  ASSERT_TRUE(result.plan) << result.reason;
  expect_split_by_heads_and_mlp(result);
  const auto forward = collectives(result, 15, Phase::Forward), backward = collectives(result, 15, Phase::Backward);
  EXPECT_EQ(tensors_of(forward), kForward);
  EXPECT_EQ(tensors_of(backward), kBackward);
  EXPECT_DOUBLE_EQ(sent_by(forward), 2 * all_reduced(kHidden));
  EXPECT_DOUBLE_EQ(sent_by(backward), 2 * all_reduced(kHidden));
}

TEST(Transformer, OfOneSequenceOnOneAxisIsMegatronsToTheCollective) {
  for (const char* cluster : {"p3.16xlarge:1", "dgx-a100:1"}) {
    PlanRequest request = ask_shard("gpt-6.7b", cluster, 1, 1);
    request.search.logical_mesh_space = LogicalMeshSpace::SameAsPhysical;  // 1 x 8
    const Planned result = planned(request);
    ASSERT_TRUE(result.plan) << result.reason;
    expect_split_by_heads_and_mlp(result);
    for (const auto& [phase, tensors] : {std::pair{Phase::Forward, kForward}, std::pair{Phase::Backward, kBackward}}) {
      const auto found = collectives(result, 15, phase);
      EXPECT_EQ(tensors_of(found), tensors);
      EXPECT_EQ(found.size(), 2u);
      for (const Collective& one : found) EXPECT_EQ(one.kind, ReshardStep::Kind::AllReduce) << one.tensor;
    }
  }
}

// Where links are slower, a mesh of two axes allows better than Megatron's: the attention's output projection is split
// over heads on one axis and over its result on the other, which gathers the small operand to all-reduce half as much.
TEST(Transformer, OfOneSequenceOnTwoAxesMovesLessThanMegatrons) {
  const Planned result = planned(ask_shard("gpt-6.7b", "p3.16xlarge:1", 1, 1));
  ASSERT_TRUE(result.plan) << result.reason;
  double sent = 0;
  for (const Phase phase : {Phase::Forward, Phase::Backward}) sent += sent_by(collectives(result, 15, phase));
  EXPECT_LT(sent, 4 * all_reduced(kHidden));
}

// Grouped heads, a gated MLP, no biases: the same split, and no more to send.
TEST(Llama, OfFewTokensIsSplitByHeadsAndMlp) {
  PlanRequest request = ask_shard("llama-7b", "dgx-a100:1", 1, 1);
  request.model.seq = 512;
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  for (const char* op : {"blk15.attn.q", "blk15.attn.k", "blk15.attn.v", "blk15.attn.core", "blk15.attn.out"})
    EXPECT_EQ(parts(result, op, "kv_heads"), kDevices) << op;
  for (const char* op : {"blk15.mlp.gate", "blk15.mlp.up", "blk15.mlp.gated", "blk15.mlp.down"})
    EXPECT_EQ(parts(result, op, "mlp"), kDevices) << op;
  const auto forward = collectives(result, 15, Phase::Forward);
  EXPECT_EQ(tensors_of(forward), kForward);
  EXPECT_DOUBLE_EQ(sent_by(forward), 2 * all_reduced(512.0 * 4096 * 2));
  // Three products share one norm's result, two the other's: their gradients are summed before they cross.
  EXPECT_DOUBLE_EQ(sent_by(collectives(result, 15, Phase::Backward)), 2 * all_reduced(512.0 * 4096 * 2));
}

// --- experts: expert parallelism ---

// What stands before and after the experts is split by samples, the experts by their own axis; tokens travel to them
// and back in one all-to-all each.
void expect_expert_parallelism(const Planned& result, int block, const std::vector<std::string>& by_expert) {
  ASSERT_TRUE(result.plan) << result.reason;
  const std::string prefix = "blk" + std::to_string(block) + ".";
  for (const std::string& op : by_expert) EXPECT_EQ(parts(result, prefix + op, "expert"), kDevices) << op;
  for (const char* op : {"attn.core", "moe.router", "moe.dispatch", "moe.combine"})
    EXPECT_EQ(parts(result, prefix + op, "batch"), kDevices) << op;
  const auto forward = collectives(result, block, Phase::Forward);
  EXPECT_EQ(tensors_of(forward), (std::set<std::string>{prefix + "moe.dispatch", prefix + "moe.down"}));
  EXPECT_EQ(forward.size(), 2u);
  for (const Collective& one : forward) EXPECT_EQ(one.kind, ReshardStep::Kind::AllToAll) << one.tensor;
  // On the way back too; all else there is parameters' gradients.
  for (const Collective& one : collectives(result, block, Phase::Backward))
    if (one.tensor.find(".moe.") != std::string::npos && one.tensor.find(".router.grad_w") == std::string::npos) {
      EXPECT_EQ(one.kind, ReshardStep::Kind::AllToAll) << one.tensor;
    }
}

TEST(Mixtral, SplitsItsExpertsByExpertAndTheRestByBatch) {
  PlanRequest request = ask_shard("mixtral-8x7b", "dgx-h200:1", 32, 1);
  request.search.recompute = Recompute::Full;
  expect_expert_parallelism(planned(request), 5, {"moe.gate", "moe.up", "moe.gated", "moe.down"});
}

// Every second block is a mixture.
TEST(Moe, SplitsItsExpertsByExpertAndIsFasterThanSplitWeights) {
  PlanRequest request = ask_shard("moe-2.4b", "p3.16xlarge:1", 256, 8);
  const Planned result = planned(request);
  expect_expert_parallelism(result, 6, {"moe.up", "moe.relu", "moe.down"});
  for (const char* op : {"blk5.attn.qkv", "blk5.mlp.up", "blk5.mlp.down"})
    EXPECT_EQ(parts(result, op, "batch"), kDevices) << op;
  request.search.method = method_from_text("zero3");
  const Planned whole = planned(request);
  ASSERT_TRUE(whole.plan) << whole.reason;
  EXPECT_LT(result.plan->predicted.step_time, whole.plan->predicted.step_time);
}

// --- memory: split optimizer state ---

std::size_t split_states(const Planned& result) {
  const auto& parameters = result.plan->stages.front().parameters;
  return static_cast<std::size_t>(
      std::count_if(parameters.begin(), parameters.end(), [](const auto& p) { return p.second.state.used() != 0; }));
}

// 2.6 G parameters with Adam are some 40 GiB where nothing is split; a V100 has 14.7 GiB to give. With more memory only
// matrices keep split state: to scatter their gradients and gather the updated weights moves what an all-reduce moves,
// and shares the update. For short biases the one all-reduce is faster.
TEST(OptimizerState, IsSplitWhereMemoryBinds) {
  PlanRequest request = ask_shard("gpt-2.6b", "p3.16xlarge:1", 128, 16);
  const Planned tight = planned(request);
  ASSERT_TRUE(tight.plan) << tight.reason;
  EXPECT_EQ(split_states(tight), tight.plan->stages.front().parameters.size());

  PlanRequest data = request;
  data.search.method = method_from_text("data");
  EXPECT_FALSE(planned(data).plan);

  request.cluster.only().device.memory = Bytes(128.0 * (1 << 30));
  const Planned roomy = planned(request);
  ASSERT_TRUE(roomy.plan) << roomy.reason;
  EXPECT_LT(split_states(roomy), split_states(tight) / 2);
  EXPECT_LT(roomy.plan->predicted.step_time, tight.plan->predicted.step_time);
  EXPECT_GT(roomy.check.largest_peak(), tight.check.largest_peak());
  for (const auto& [name, sharding] : roomy.plan->stages.front().parameters) {
    if (name.find(".attn.out.bias") != std::string::npos) {
      EXPECT_EQ(sharding.state.used(), 0) << name;
    }
    if (name.find(".mlp.up.weight") != std::string::npos) {
      EXPECT_NE(sharding.state.used(), 0) << name;
    }
  }
}

// --- Wide-ResNet: batch first, channels last ---

// Of 32 images, 4 per device: the first stage has maps of 56 x 56 and 64 channels' worth of weights, the last 7 x 7 and
// eight times the channels, 64 times the weights and an eighth of the maps. The first splits samples and synchronises
// weights, the last splits channels and synchronises maps. (With many micro-batches weights are synchronised once for
// all of them, and samples stay split for longer.)
TEST(WideResNet, SplitsSamplesWhereMapsAreLargeAndChannelsWhereWeightsAre) {
  const Planned result = planned(ask_shard("wresnet-250m", "p3.16xlarge:1", 32, 1));
  ASSERT_TRUE(result.plan) << result.reason;
  int first = 0, last = 0;
  for (const auto& [name, sharding] : result.plan->stages.front().ops) {
    if (name.find(".conv") == std::string::npos) continue;
    const auto begins = [&name = name](const std::string& block) { return name.starts_with(block); };
    // Blocks 0-2: 56 x 56; 13-15: 7 x 7.
    if (begins("stem.") || begins("blk0.") || begins("blk1.") || begins("blk2.")) {
      EXPECT_EQ(parts(result, name, "batch"), kDevices) << name;
      ++first;
    } else if (begins("blk14.") || begins("blk15.")) {
      EXPECT_EQ(parts(result, name, "batch"), 1) << name;
      ++last;
    }
  }
  EXPECT_EQ(first, 1 + 3 * 3 + 1);
  EXPECT_EQ(last, 2 * 3);
}

}  // namespace
}  // namespace meshwright::known_truths_test
