// SPDX-License-Identifier: Apache-2.0
// The terms of the physical cost model one by one, each from the data sheet of an A100: 2039 GB/s of memory.
#include <gtest/gtest.h>

#include "core/mesh/cluster.h"
#include "costmodel/cost_models.h"
#include "costmodel/sheets/data_sheet.h"

namespace meshwright::physical_terms_test {

namespace {

constexpr double kMemory = 2039e9;  // bytes per second
// 1 us and 1 ns per byte within a host; 10 us and 20 ns per byte between hosts.
constexpr LinkCost kInner{Seconds(1e-6), SecondsPerByte(1e-9)}, kOuter{Seconds(10e-6), SecondsPerByte(20e-9)};

SoftwareProfile plain() {
  SoftwareProfile profile;
  profile.name = "plain";
  return profile;
}
std::unique_ptr<CostModel> model_with(const SoftwareProfile& software) {
  return make_physical_cost_model(find_cluster("dgx-a100:2"), software);
}
double time_of(const SoftwareProfile& software, OpKind kind, double bytes, const char* signature = "") {
  return model_with(software)->compute({kind, DType::BF16, Flops(0.0), Bytes(bytes), signature}).time.si();
}
OpWork batched(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {OpKind::Contract, DType::BF16, Flops(1.0), Bytes(1.0),
          fmt::format("contract bf16 [a={},b={},c={}][a,c,d={}]->[a,b,d]", batch, m, k, n)};
}

}  // namespace

TEST(PhysicalTerms, ACollectiveBetweenHostsIsARingOverAllDevices) {
  SoftwareProfile software = plain();
  software.network_share = 0.5;
  const auto model = model_with(software);
  // 4 hosts with one device each on the axis: 3/4 of 1 GB at half of 50 MB/s, and twice two latencies of a tree.
  const MeshAxis apart{1, 4, kInner, kOuter};
  EXPECT_NEAR(model->collective(CollectiveKind::AllGather, Bytes(1e9), apart).time.si(), 0.75 * 40 + 4 * 10e-6, 1e-9);
  EXPECT_NEAR(model->collective(CollectiveKind::ReduceScatter, Bytes(1e9), apart).time.si(), 0.75 * 40 + 4 * 10e-6,
              1e-9);
  EXPECT_NEAR(model->collective(CollectiveKind::AllReduce, Bytes(1e9), apart).time.si(), 1.5 * 40 + 4 * 10e-6, 1e-9);
  // 8 devices of each of 2 hosts: 15/16, over eight network cards side by side.
  const MeshAxis together{8, 2, kInner, kOuter};
  EXPECT_NEAR(model->collective(CollectiveKind::AllReduce, Bytes(1e9), together).time.si(),
              2 * 15.0 / 16 * 40 / 8 + 2 * 10e-6, 1e-9);
}

TEST(PhysicalTerms, ACollectiveIsNoFasterThanItsPartWithinAHost) {
  const auto model = model_with(plain());
  const LinkCost fast{Seconds(0.0), SecondsPerByte(1e-18)};
  EXPECT_EQ(model->collective(CollectiveKind::AllReduce, Bytes(1e9), {8, 2, kInner, fast}).time,
            model->collective(CollectiveKind::AllReduce, Bytes(1e9), {8, 1, kInner, fast}).time);
  EXPECT_EQ(model->collective(CollectiveKind::AllReduce, Bytes(1e9), {1, 1, kInner, fast}).time, Seconds(0.0));
}

TEST(PhysicalTerms, MessagesBetweenHostsShareTheNetwork) {
  SoftwareProfile software = plain();
  software.message_us = 100;
  software.message_share = 0.5;
  const auto model = model_with(software);
  const HostGroup group = find_cluster("dgx-a100:2").only();
  const auto seconds = [&](bool hosts_apart, int concurrent) {
    return model->transfer(Bytes(1e8), hosts_apart, concurrent).time.si();
  };
  EXPECT_NEAR(seconds(false, 1), 100e-6 + 2 * 1e8 * group.within_host.beta.si(), 1e-12);
  EXPECT_EQ(seconds(false, 4), seconds(false, 1));
  EXPECT_NEAR(seconds(true, 1), 100e-6 + 2 * 1e8 * group.between_hosts.beta.si(), 1e-12);
  EXPECT_NEAR(seconds(true, 4), 100e-6 + 8 * 1e8 * group.between_hosts.beta.si(), 1e-12);
}

TEST(PhysicalTerms, APassMovesItsBytes) {
  SoftwareProfile software = plain();
  EXPECT_NEAR(time_of(software, OpKind::Add, 1e9), 1e9 / kMemory, 1e-12);
  software.pass_factor = 1.5;
  EXPECT_NEAR(time_of(software, OpKind::Add, 1e9), 1.5e9 / kMemory, 1e-12);
  EXPECT_EQ(time_of(software, OpKind::Reshape, 1e9), 0.0);
  EXPECT_EQ(time_of(software, OpKind::BiasAdd, 1e9), 0.0);
  software.fused_bias = false;
  EXPECT_NEAR(time_of(software, OpKind::BiasAdd, 1e9), 1.5e9 / kMemory, 1e-12);
  software.loss_factor = 2.0;
  for (const OpKind kind : {OpKind::RowMax, OpKind::SumExp, OpKind::PickLabel, OpKind::CrossEntropyBackward})
    EXPECT_NEAR(time_of(software, kind, 1e9), 3e9 / kMemory, 1e-12);
}

TEST(PhysicalTerms, ALossInFittingChunksReadsAndWritesTheHeadsWeightsForEach) {
  SoftwareProfile whole = plain(), fitting = plain(), eighths = plain();
  fitting.loss_chunks = kFittingLossChunks;
  eighths.loss_chunks = 8;
  const OpWork loss{OpKind::CrossEntropyBackward, DType::BF16, Flops(0.0), Bytes(1e9),
                    "cross_entropy_backward bf16 [a=2,b=1000,c=128256][a,b]:f32[a,b]:f32[a,b]:i32->[a,b,c]"};
  const auto seconds = [&](const SoftwareProfile& of) { return model_with(of)->compute(loss).time.si(); };
  // Words / hidden size chunks of four passes over words x hidden size weights of two bytes.
  EXPECT_NEAR(seconds(fitting) - seconds(whole), 4.0 * 128256 * 128256 * 2 / kMemory, 1e-9);
  EXPECT_EQ(seconds(eighths), seconds(whole));
  // Liger-Kernel ead96b61, benchmark/data/all_benchmark_data.csv, an A100: by so many milliseconds forward and backward
  // in chunks took longer than whole, with 4,096 to 32,768 tokens.
  for (const double measured : {121.4 - 56.0, 166.7 - 111.5, 277.1 - 220.8, 511.1 - 452.5})
    EXPECT_NEAR(1e3 * (seconds(fitting) - seconds(whole)), measured, 0.2 * measured);
}

TEST(PhysicalTerms, AnUpdateMovesTheOptimizersBytes) {
  SoftwareProfile software = plain();
  software.optimizer_bytes = 64;  // of each of 1e9 / 32 parameters
  EXPECT_NEAR(time_of(software, OpKind::AdamUpdate, 1e9), 2e9 / kMemory, 1e-12);
}

TEST(PhysicalTerms, AConvolutionIsNoFasterThanItsBytes) {
  SoftwareProfile software = plain();
  software.convolution_share = 0.5;
  const OpWork thin{OpKind::Convolution, DType::BF16, Flops(1.0), Bytes(1e9), ""};
  EXPECT_NEAR(model_with(software)->compute(thin).time.si(), 1e9 / kMemory, 1e-12);
  const OpWork thick{OpKind::ConvolutionBackwardWeight, DType::BF16, Flops(1e12), Bytes(1.0), ""};
  EXPECT_NEAR(model_with(software)->compute(thick).time.si(), 2.0 / 312, 1e-9);
}

TEST(PhysicalTerms, UnfusedAttentionIsTwoProductsAndPassesOverScores) {
  SoftwareProfile software = plain();
  software.fused_attention = false;
  software.score_factor = 2.0;
  const auto model = model_with(software);
  const auto seconds = [&](const OpWork& work) { return model->compute(work).time.si(); };
  // 2 sequences of 4 heads: 1024 queries and 512 keys of width 64, values of width 32.
  const std::string operands = "bf16 [a=2,b=1024,c=4,d=1,e=64][a,f=512,c,e][a,f,c,g=32]";
  const OpWork forward{OpKind::GroupedAttention, DType::BF16, Flops(1.0), Bytes(1.0),
                       "grouped_attention " + operands + "->[a,b,c,d,g]"};
  const double products = seconds(batched(8, 1024, 512, 64)) + seconds(batched(8, 1024, 32, 512));
  const double scores = 8.0 * 1024 * 512, elements = 8.0 * (1024 + 512) * (64 + 32);
  EXPECT_NEAR(seconds(forward), 2 * (products + 9 * scores / kMemory) + 4 * elements / kMemory, 1e-12);
  const OpWork backward{OpKind::GroupedAttentionBackward, DType::BF16, Flops(1.0), Bytes(1.0),
                        "grouped_attention_backward " + operands + "[a,b,c,d,g]->[a,b,c,d,e]"};
  EXPECT_NEAR(seconds(backward), 2 * (2 * products + 11 * scores / kMemory) + 1.5 * 4 * elements / kMemory, 1e-12);
}

TEST(PhysicalTerms, UnfusedAttentionOfAWidthThatIsNoMultipleOfEightIsSlow) {
  SoftwareProfile software = plain();
  software.fused_attention = false;
  software.score_factor = 1.0;
  const auto model = model_with(software);
  const OpWork odd{OpKind::GroupedAttention, DType::BF16, Flops(1.0), Bytes(1.0),
                   "grouped_attention bf16 [a=2,b=1024,c=4,d=1,e=100][a,f=512,c,e][a,f,c,g=64]->[a,b,c,d,g]"};
  // The first product has a depth of 100: 7 times as long. The second has none such.
  const double products =
      7 * model->compute(batched(8, 1024, 512, 100)).time.si() + model->compute(batched(8, 1024, 64, 512)).time.si();
  const double moved = 9 * 8.0 * 1024 * 512 + 4 * 8.0 * (1024 + 512) * (100 + 64);
  EXPECT_NEAR(model->compute(odd).time.si(), products + moved / kMemory, 1e-12);
}

TEST(PhysicalTerms, FusedAttentionTakesItsSoftwaresFactors) {
  const auto seconds = [](const SoftwareProfile& software, const char* cluster, const char* mask) {
    const std::string signature =
        fmt::format("grouped_attention bf16 [a=2,b=1024,c=8,d=1,e=64][a,f=4096,c,e][a,f,c,e]->[a,b,c,d,e]{}", mask);
    return make_physical_cost_model(find_cluster(cluster), software)
        ->compute({OpKind::GroupedAttention, DType::BF16, Flops(1.0), Bytes(1.0), signature})
        .time.si();
  };
  SoftwareProfile software = plain();
  software.sustained = 2.0;
  software.attention_factor = 3.0;
  EXPECT_NEAR(seconds(software, "dgx-a100:1", " causal"), 6 * seconds(plain(), "dgx-a100:1", " causal"), 1e-9);
  software.attention_on_newer = 5.0;
  EXPECT_NEAR(seconds(software, "dgx-a100:1", " causal"), 6 * seconds(plain(), "dgx-a100:1", " causal"), 1e-9);
  for (const char* newer : {"dgx-h100:1", "dgx-b200:1"})
    EXPECT_NEAR(seconds(software, newer, " causal"), 30 * seconds(plain(), newer, " causal"), 1e-9) << newer;
  // Only a causal mask has a triangle to balance.
  SoftwareProfile in_order = plain();
  in_order.balances_causal = false;
  EXPECT_EQ(seconds(in_order, "dgx-a100:1", ""), seconds(plain(), "dgx-a100:1", ""));
  EXPECT_NE(seconds(in_order, "dgx-a100:1", " causal"), seconds(plain(), "dgx-a100:1", " causal"));
}

TEST(PhysicalTerms, ParametersThatTravelBesideAPassHideBehindIt) {
  SoftwareProfile software = plain();
  software.contention = 0.25;
  software.bucket_mib = 1024;
  const auto model = model_with(software);
  ParameterCollectives weights{CollectiveKind::AllGather, {1, 4, kInner, kOuter}};
  weights.bytes = Bytes(1e6);
  weights.count = 10;
  weights.time = Seconds(0.5);
  const double moving = model->collective(weights.kind, weights.bytes, weights.axis).time.si();
  const auto whole = [&](double ops) {
    RunWork work{.phase = Phase::Forward, .ops = Seconds(ops)};
    work.parameters = {weights};
    return ops + 0.5 + model->run_overhead(work).si();
  };
  // Computation slows by a quarter of the time in which both are at work; the longer of the two decides.
  EXPECT_NEAR(whole(1.0), 1.0 + 0.25 * moving, 1e-9);
  EXPECT_NEAR(whole(moving / 2), moving, 1e-9);
  EXPECT_NEAR(whole(0.9 * moving), 1.25 * 0.9 * moving, 1e-9);
}

TEST(PhysicalTerms, GradientsTravelInBucketsOfTheSoftwaresSize) {
  SoftwareProfile software = plain();
  software.bucket_mib = 2;
  software.gradient_bytes = 4;
  software.gradient_overlap = 0.25;
  software.step_ms = 8;
  const auto model = model_with(software);
  const double mebibyte = 1048576;
  ParameterCollectives gradients{CollectiveKind::AllReduce, {1, 4, kInner, kOuter}};
  gradients.elements = 7 * mebibyte / 4;  // 7 MiB: three buckets and a half
  gradients.time = Seconds(0.5);
  const auto beyond = [&](int count, bool once) {
    RunWork update{.phase = Phase::Update, .once_per_step = once};
    gradients.count = count;
    update.parameters = {gradients};
    return model->run_overhead(update).si();
  };
  const auto in = [&](int buckets) {
    return buckets * model->collective(gradients.kind, Bytes(7 * mebibyte / buckets), gradients.axis).time.si();
  };
  EXPECT_NEAR(beyond(100, false), 0.75 * in(4) - 0.5, 1e-9);
  EXPECT_NEAR(beyond(100, true), 0.75 * in(4) - 0.5 + 8e-3, 1e-9);
  EXPECT_NEAR(beyond(3, false), 0.75 * in(3) - 0.5, 1e-9);  // no bucket holds less than a gradient
}

TEST(PhysicalTerms, TheHostDispatchesRunsOpsAndCollectives) {
  SoftwareProfile software = plain();
  software.dispatch_run_us = 1000;
  software.dispatch_us = 10;
  software.dispatch_collective_us = 100;
  software.dispatch_peer_us = 50;
  const auto model = model_with(software);
  EXPECT_EQ(model->run_overhead(), Seconds(1e-3));
  RunWork work{.phase = Phase::Forward, .ops = Seconds(1e-9)};
  work.op_count = 20;
  work.collective_count = 3;
  work.collective_peers = 4;
  EXPECT_NEAR(model->run_overhead(work).si(), 1000e-6 + 20 * 10e-6 + 3 * 100e-6 + 4 * 50e-6, 1e-8);
  software.dispatch_tokens_us = 500;
  work.token_moves = 2;
  EXPECT_NEAR(model_with(software)->run_overhead(work).si(), 1700e-6 + 2 * 500e-6, 1e-8);
  // Where host and device take equally long, the corner is soft: 2^(1/4) of either.
  work.ops = Seconds(1.7e-3);
  EXPECT_NEAR((work.ops + model->run_overhead(work)).si(), 1.7e-3 * std::pow(2.0, 0.25), 1e-9);
}

// Bytes of both operands of [m, k] x [k, n] and of every product of a batch pass through memory, half of them beside
// other work: 3350 GB/s of an H100.
TEST(PhysicalTerms, ProductsOfEightBitsQuantiseBothOperands) {
  const auto quantising = [](std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
    const auto with = [&](double passes) {
      SoftwareProfile software = plain();
      software.product_dtype = "f8";
      software.grouped_factor = 1.0;
      software.quantise_passes = passes;
      return make_physical_cost_model(find_cluster("dgx-h100:1"), software)->compute(batched(batch, m, n, k)).time.si();
    };
    return with(3.0) - with(1.0);
  };
  EXPECT_NEAR(quantising(1, 1000, 3000, 256), 0.5 * 2 * (1000 + 3000) * 256 / 3350e9, 1e-12);
  EXPECT_NEAR(quantising(1, 3000, 1000, 256), 0.5 * 2 * (1000 + 3000) * 256 / 3350e9, 1e-12);
  EXPECT_NEAR(quantising(4, 1000, 3000, 256), 0.5 * 2 * 4 * (1000 + 3000) * 256 / 3350e9, 1e-12);
}

}  // namespace meshwright::physical_terms_test
