// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/errors.h"
#include "core/mesh/cluster.h"
#include "costmodel/cost_models.h"
#include "costmodel/sheets/data_sheet.h"
#include "tests/refusal.h"

namespace meshwright::physical_test {

namespace {

std::unique_ptr<CostModel> model_with(const SoftwareProfile& software) {
  return make_physical_cost_model(find_cluster("dgx-a100:2"), software);
}
SoftwareProfile plain() {
  SoftwareProfile profile;
  profile.name = "plain";
  return profile;
}
OpWork product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {OpKind::Contract, DType::BF16, Flops(2.0 * static_cast<double>(m * n * k)), Bytes(0.0),
          fmt::format("contract bf16 [a={},b={}][b,c={}]->[a,c]", m, k, n)};
}

}  // namespace

TEST(PhysicalCosts, AHostThatIsSlowerThanTheDeviceSetsThePace) {
  SoftwareProfile eager = plain();
  eager.dispatch_us = 50;
  const auto model = model_with(eager);
  // 100 ops of 1 us each: the host needs 5 ms for what takes the device 0.1 ms.
  const RunWork small{.phase = Phase::Forward, .ops = Seconds(1e-4), .op_count = 100};
  EXPECT_NEAR((small.ops + model->run_overhead(small)).si(), 5e-3, 1e-5);
  // The same ops a thousand times as long hide the host.
  const RunWork large{.phase = Phase::Forward, .ops = Seconds(0.1), .op_count = 100};
  EXPECT_NEAR((large.ops + model->run_overhead(large)).si(), 0.1, 1e-5);
}

TEST(PhysicalCosts, GradientsAddedInTheProductCostNoPass) {
  const OpWork accumulate{OpKind::Accumulate, DType::F32, Flops(0.0), Bytes(1e9), "accumulate f32 [a=1000]:bf16->[a]"};
  SoftwareProfile apart = plain();
  apart.fused_accumulation = false;
  EXPECT_EQ(model_with(plain())->compute(accumulate).time, Seconds(0.0));
  // 1 GB at 2039 GB/s.
  EXPECT_NEAR(model_with(apart)->compute(accumulate).time.si(), 1.0 / 2039, 1e-8);
  apart.accumulation_factor = 3;
  EXPECT_NEAR(model_with(apart)->compute(accumulate).time.si(), 3.0 / 2039, 1e-8);
}

TEST(PhysicalCosts, ScalingShiftingAndBoundingCostNoPassWhereTheyAreFused) {
  SoftwareProfile apart = plain();
  apart.fused_scaling = false;
  for (const OpKind kind : {OpKind::Scale, OpKind::Shift, OpKind::Clamp, OpKind::ClampBackward}) {
    const OpWork work{kind, DType::BF16, Flops(0.0), Bytes(1e9), fmt::format("{} bf16 [a=1000]->[a]", name_of(kind))};
    EXPECT_EQ(model_with(plain())->compute(work).time, Seconds(0.0)) << name_of(kind);
    // 1 GB at 2039 GB/s.
    EXPECT_NEAR(model_with(apart)->compute(work).time.si(), 1.0 / 2039, 1e-8) << name_of(kind);
  }
}

TEST(PhysicalCosts, EveryMemberOfACollectiveBeyondTwoKeepsTheHostWaiting) {
  SoftwareProfile eager = plain();
  eager.dispatch_collective_us = 100;
  eager.dispatch_peer_us = 50;
  const auto model = model_with(eager);
  const auto step = [&](int members) {
    const RunWork work{.phase = Phase::Forward,
                       .collectives = Seconds(1e-4),
                       .collective_count = 10,
                       .collective_peers = 10 * (members - 2)};
    return (work.collectives + model->run_overhead(work)).si();
  };
  EXPECT_NEAR(step(2), 10 * 100e-6, 1e-7);
  EXPECT_NEAR(step(8), 10 * (100e-6 + 6 * 50e-6), 1e-7);
}

TEST(PhysicalCosts, OddRowsAreSlowWhereTheVocabularyIsNotPadded) {
  SoftwareProfile software = plain();
  const OpWork even = product(1024, 50256, 1024), odd = product(1024, 50257, 1024);
  const auto ratio = [&] {
    const auto model = model_with(software);
    return model->compute(odd).time / model->compute(even).time;
  };
  EXPECT_NEAR(ratio(), 1.0, 0.01);
  software.pads_vocabulary = false;
  EXPECT_NEAR(ratio(), 2.5, 0.03);
  // Tokens are no rows: an odd number of them is as good as any.
  const auto model = model_with(software);
  EXPECT_NEAR(model->compute(product(4095, 4096, 1024)).time / model->compute(product(4096, 4096, 1024)).time, 1.0,
              0.01);
}

TEST(PhysicalCosts, AMessageIsNoFasterThanItsSoftwareSendsOne) {
  SoftwareProfile software = plain();
  const auto rate = [&](bool hosts_apart) {
    const auto model = model_with(software);
    return 1e-9 * 1e9 / (model->transfer(Bytes(1e9), hosts_apart, 1).time.si() - 1e-6 * software.message_us);
  };
  const double in_host = rate(false), between = rate(true);
  software.message_gbs = 16;
  EXPECT_GT(in_host, 100.0);
  EXPECT_NEAR(rate(false), 16.0, 1e-6);
  EXPECT_NEAR(rate(true), std::min(between, 16.0), 1e-6);
}

TEST(PhysicalCosts, OneProductOfThreeIsNoSlowerThanThree) {
  const auto model = model_with(plain());
  const OpWork wide = product(2048, 2048, 4096), narrow = product(2048, 256, 4096);
  const auto together = model->as_one_product({&wide, &narrow, &narrow}, false);
  ASSERT_TRUE(together.has_value());
  const Seconds apart = model->compute(wide).time + 2.0 * model->compute(narrow).time;
  EXPECT_LT(*together, apart);
  EXPECT_EQ(*together, model->compute(product(2048, 2560, 4096)).time);
}

// Products of as many rows for another number of batches, or of other rows, cannot be computed as one.
TEST(PhysicalCosts, ProductsOfOtherRowsAreNotOne) {
  const auto model = model_with(plain());
  const OpWork of = product(2048, 256, 4096), longer = product(4096, 256, 4096);
  OpWork batched = of;
  batched.signature = "contract bf16 [e=2,a=2048,b=4096][e,b,c=256]->[e,a,c]";
  for (const bool summed : {false, true}) {
    EXPECT_TRUE(model->as_one_product({&of, &of}, summed).has_value());
    EXPECT_TRUE(model->as_one_product({&batched, &batched}, summed).has_value());
    EXPECT_FALSE(model->as_one_product({&of, &longer}, summed).has_value());
    EXPECT_FALSE(model->as_one_product({&of, &batched}, summed).has_value());
  }
}

TEST(PhysicalCosts, ExchangesHaveAFactorOfTheirOwn) {
  SoftwareProfile software = plain();
  software.collective_factor = 0.5;
  software.exchange_factor = 2.0;
  const auto model = model_with(software), truth = model_with(plain());
  const MeshAxis axis = make_logical_mesh(find_cluster("dgx-a100:1"), {1, 8}, {8, 1}).axes[0];
  const auto ratio = [&](CollectiveKind kind) {
    return model->collective(kind, Bytes(1e8), axis).time.si() / truth->collective(kind, Bytes(1e8), axis).time.si();
  };
  EXPECT_DOUBLE_EQ(ratio(CollectiveKind::AllGather), 0.5);
  EXPECT_DOUBLE_EQ(ratio(CollectiveKind::AllToAll), 2.0);
}

// 1 GB of each device, half of it for the other host, through a card of which a share of 0.8 is reached: as long as
// that takes, however many devices of the host do the same beside it.
TEST(PhysicalCosts, InAnExchangeBetweenHostsEveryDeviceSendsThroughItsOwnCard) {
  SoftwareProfile software = plain();
  software.network_share = 0.8;
  const Cluster cluster = find_cluster("dgx-a100:2");
  const auto seconds = [&](const LogicalMesh& mesh) {
    return model_with(software)->collective(CollectiveKind::AllToAll, Bytes(1e9), mesh.axes[0]).time.si();
  };
  const LogicalMesh sixteen = make_logical_mesh(cluster, {2, 8}, {16, 1});
  ASSERT_EQ(sixteen.axes[0].inner, 8);
  ASSERT_EQ(sixteen.axes[0].outer, 2);
  const LinkCost card = sixteen.axes[0].outer_link;
  const double sent = 0.5 * card.beta.si() * 1e9 / 0.8, start = 2 * card.alpha.si();
  EXPECT_NEAR(seconds(sixteen), sent + start, 1e-9);
  // Tokens that several experts of a host want cross once.
  software.exchange_between_hosts = 0.5;
  EXPECT_NEAR(seconds(sixteen), 0.5 * sent + start, 1e-9);
}

// Of four experts by chance, half on either host, a token has some on 2 (1 - 1/16) = 15/8 hosts, so that 15/16 of a
// copy crosses in the place of two. What all gather is every device's own tokens: of 1 GB with four copies each 250 MB,
// on 16 devices 4 GB.
TEST(PhysicalCosts, TokensGoOnceToEveryHostOrToAllDevices) {
  SoftwareProfile software = plain();
  software.experts_per_token = 4;
  const MeshAxis axis = make_logical_mesh(find_cluster("dgx-a100:2"), {2, 8}, {16, 1}).axes[0];
  const auto seconds = [&](TokenDispatch dispatch, CollectiveKind kind, double bytes) {
    software.dispatch = dispatch;
    return model_with(software)->collective(kind, Bytes(bytes), axis).time.si();
  };
  const double start = 2 * axis.outer_link.alpha.si();
  const double all = seconds(TokenDispatch::ToExperts, CollectiveKind::AllToAll, 1e9) - start;
  EXPECT_NEAR(seconds(TokenDispatch::ToHosts, CollectiveKind::AllToAll, 1e9) - start, 15.0 / 32 * all, 1e-9);
  EXPECT_DOUBLE_EQ(seconds(TokenDispatch::ToAll, CollectiveKind::AllToAll, 1e9),
                   seconds(TokenDispatch::ToExperts, CollectiveKind::AllGather, 4e9));
}

TEST(PhysicalCosts, InterleavedPassesHideExchanges) {
  SoftwareProfile software = plain();
  software.exchange_overlap = 0.5;
  const auto model = model_with(software);
  RunWork work{.ops = Seconds(0.1), .collectives = Seconds(0.05), .exchanges = Seconds(0.04)};
  EXPECT_NEAR(model->run_overhead(work).si(), 0.0, 1e-9);
  work.interleaved = true;
  EXPECT_NEAR(model->run_overhead(work).si(), -0.02, 1e-9);
  // No longer than there is computation to hide them behind.
  work.ops = Seconds(0.01);
  EXPECT_NEAR(model->run_overhead(work).si(), -0.005, 1e-9);
}

TEST(PhysicalCosts, ProductsOfSeveralExpertsTakeTheirOwnFactor) {
  SoftwareProfile software = plain();
  software.grouped_factor = 1.5;
  const auto model = model_with(software), truth = model_with(plain());
  const OpWork one = product(2048, 2048, 4096);
  const OpWork experts{OpKind::Contract, DType::BF16, Flops(2.0 * 8 * 512 * 2048 * 4096), Bytes(0.0),
                       "contract bf16 [a=8,b=512,c=4096][a,c,d=2048]->[a,b,d]"};
  EXPECT_EQ(model->compute(one).time, truth->compute(one).time);
  EXPECT_DOUBLE_EQ(model->compute(experts).time.si(), 1.5 * truth->compute(experts).time.si());
}

TEST(SoftwareProfiles, AreLikeTheOneTheyName) {
  const SoftwareProfile base = find_software_profile("nemo"), later = find_software_profile("nemo-2026");
  EXPECT_EQ(later.name, "nemo-2026");
  EXPECT_EQ(later.pass_factor, base.pass_factor);
  EXPECT_LT(later.grouped_factor, base.grouped_factor);
  EXPECT_EQ(find_software_profile("nemo-fp8").product_dtype, "f8");
}

TEST(SoftwareProfiles, ComputeProductsInEightBitsWhereTheirNameSaysSo) {
  const SoftwareProfile base = find_software_profile("torchtitan"), of = find_software_profile("torchtitan+fp8");
  EXPECT_EQ(of.name, "torchtitan+fp8");
  EXPECT_EQ(of.product_dtype, "f8");
  EXPECT_EQ(of.pass_factor, base.pass_factor);
  // The same as a profile that is of 8 bits from the beginning.
  const Cluster cluster = find_cluster("dgx-h100:1");
  const auto with = make_physical_cost_model(cluster, find_software_profile("nemo+fp8"));
  const auto truth = make_physical_cost_model(cluster, find_software_profile("nemo-fp8"));
  const auto wide = make_physical_cost_model(cluster, find_software_profile("nemo"));
  const OpWork large = product(4096, 8192, 8192);
  EXPECT_EQ(with->compute(large).time, truth->compute(large).time);
  EXPECT_LT(with->compute(large).time, wide->compute(large).time);
  // Quantising the operands of a thin product takes longer than its arithmetic saves.
  const OpWork thin = product(4096, 64, 8192);
  EXPECT_GT(with->compute(thin).time, wide->compute(thin).time);
}

TEST(SoftwareProfiles, AttendAndTakeTheLossAsTheirNameSays) {
  const SoftwareProfile of = find_software_profile("fsdp2+fp8+unfused-attention+loss-chunks=8");
  EXPECT_EQ(of.name, "fsdp2+fp8+unfused-attention+loss-chunks=8");
  EXPECT_EQ(of.product_dtype, "f8");
  EXPECT_FALSE(of.fused_attention);
  // No runs of it had this attention.
  const SoftwareProfile other = find_software_profile("megatron-deepspeed+fused-attention");
  EXPECT_TRUE(other.fused_attention);
  EXPECT_LT(find_software_profile("megatron-deepspeed").spread, other.spread);
  EXPECT_EQ(other.spread, SoftwareProfile().spread);
  EXPECT_EQ(find_software_profile("fsdp2+fused-attention").spread, find_software_profile("fsdp2").spread);
  EXPECT_EQ(of.loss_chunks, 8);
  EXPECT_EQ(find_software_profile("fsdp2+loss-chunks=auto").loss_chunks, kFittingLossChunks);
  EXPECT_EQ(find_software_profile("fsdp2+loss-chunks=1").name, "fsdp2");
  EXPECT_EQ(find_software_profile("fsdp2").loss_chunks, 1);
  EXPECT_NE(
      refusal([] { (void)find_software_profile("fsdp2+loss-chunks=none"); }).find("'none' is no number of chunks"),
      std::string::npos);
}

TEST(SoftwareProfiles, MoveLessInAnUpdateOfNarrowStates) {
  const double all = find_software_profile("fsdp2").optimizer_bytes;
  const auto share = [&](const char* setup) {
    return find_software_profile(fmt::format("fsdp2+{}", setup)).optimizer_bytes / all;
  };
  // An update moves 32 bytes, 16 of them of moments; in 16 bits these are 8, and all others 6.
  EXPECT_NEAR(share("16-bit-moments"), 24.0 / 32, 1e-9);
  EXPECT_NEAR(share("8-bit-moments"), 20.0 / 32, 1e-9);
  EXPECT_NEAR(share("16-bit-states"), 14.0 / 32, 1e-9);
  EXPECT_NEAR(share("16-bit-states+8-bit-moments"), 10.0 / 32, 1e-9);
  EXPECT_EQ(find_software_profile("fsdp2+16-bit-states").gradient_bytes, 2.0);
}

TEST(PhysicalCosts, GradientsTravelInBuckets) {
  const auto model = model_with(plain());
  const MeshAxis axis = make_logical_mesh(find_cluster("dgx-a100:2"), {2, 8}, {16, 1}).axes[0];
  // A thousand gradients of 100 kB: bucket by bucket they pay few latencies.
  RunWork update{.phase = Phase::Update};
  ParameterCollectives gradients{CollectiveKind::AllReduce, axis};
  gradients.bytes = Bytes(1e8);
  gradients.elements = 2.5e7;
  gradients.count = 1000;
  gradients.time = 1000.0 * model->collective(CollectiveKind::AllReduce, Bytes(1e5), axis).time;
  update.parameters = {gradients};
  EXPECT_LT(gradients.time + model->run_overhead(update), 0.5 * gradients.time);
}

TEST(PhysicalCosts, SumsOfGradientsHaveTheSoftwaresTypeWhateverThePlanAccumulatesIn) {
  const auto model = model_with(plain());
  const MeshAxis axis = make_logical_mesh(find_cluster("dgx-a100:2"), {2, 8}, {16, 1}).axes[0];
  const auto beyond = [&](double bytes_of_element) {
    ParameterCollectives gradients{CollectiveKind::AllReduce, axis};
    gradients.elements = 5e7;
    gradients.bytes = Bytes(bytes_of_element * gradients.elements);
    gradients.count = 1;
    RunWork update{.phase = Phase::Update};
    update.parameters = {gradients};
    return model->run_overhead(update);
  };
  EXPECT_GT(beyond(2.0), Seconds(0.0));
  EXPECT_EQ(beyond(2.0), beyond(4.0));
}

// A device's causal attention of so many of 8192 queries.
Seconds causal_attention(const CostModel& model, int queries) {
  return model
      .compute(
          {OpKind::GroupedAttention, DType::BF16, Flops(1.0), Bytes(0.0),
           fmt::format("grouped_attention bf16 [a=1,b={},c=64,d=1,e=128][a,f=8192,c,e][a,f,c,e]->[a,b,c,d,e] causal",
                       queries)})
      .time;
}
TEST(PhysicalCosts, LongerSequencesOverDevicesCostTheSameShareEach) {
  const auto model = model_with(plain());
  // With an equal number of keys the signature's axes are apart all the same.
  EXPECT_NEAR(4.0 * causal_attention(*model, 2048).si(), 2.0 * causal_attention(*model, 4096).si(), 1e-9);
}
// Of four neighbouring pieces of a triangle the last has 3.5 of the 8 half squares, where the mean is 2.
TEST(PhysicalCosts, OfNeighbouringPiecesTheLastDeviceDecides) {
  SoftwareProfile software = plain();
  const auto balanced = model_with(software);
  software.balances_causal = false;
  const auto in_order = model_with(software);
  EXPECT_EQ(causal_attention(*in_order, 8192), causal_attention(*balanced, 8192));
  const double ratio = causal_attention(*in_order, 2048) / causal_attention(*balanced, 2048);
  EXPECT_GT(ratio, 1.5);
  EXPECT_LT(ratio, 1.9);
}

// Published nccl-tests of V100s: 5.97, 2.36 and 1.78 ms for 128 MiB over 2, 4 and 8 of a host.
TEST(PhysicalCosts, TwoDevicesOfACubeMeshHaveOneLink) {
  const Cluster cluster = find_cluster("p3.16xlarge:1");
  const auto model = make_physical_cost_model(cluster, plain());
  const auto milliseconds = [&](CollectiveKind kind, int devices) {
    return 1e3 *
           model->collective(kind, Bytes(128.0 * 1048576), {devices, 1, cluster.only().within_host, {}}).time.si();
  };
  EXPECT_NEAR(milliseconds(CollectiveKind::AllReduce, 2), 5.97, 0.1);
  EXPECT_NEAR(milliseconds(CollectiveKind::AllReduce, 4), 2.36, 0.1);
  EXPECT_NEAR(milliseconds(CollectiveKind::AllReduce, 8), 1.78, 0.1);
  // Some pairs of eight have no link at all.
  EXPECT_GT(milliseconds(CollectiveKind::AllToAll, 8), 2.0 * milliseconds(CollectiveKind::AllGather, 8));
}

TEST(PhysicalCosts, ConvolutionsReachTheShareOfTheirSoftware) {
  const OpWork work{OpKind::Convolution, DType::F32, Flops(1e12), Bytes(1e6), "convolution"};
  SoftwareProfile half = plain();
  half.convolution_share = 0.5;
  // 19.5 TFLOP/s of f32.
  EXPECT_NEAR(model_with(half)->compute(work).time.si(), 2.0 / 19.5, 1e-9);
  EXPECT_EQ(model_with(plain())->compute(work).time,
            make_analytic_cost_model(find_cluster("dgx-a100:2"))->compute(work).time);
}

TEST(PhysicalCosts, ADeviceWithoutADataSheetIsRefused) {
  Cluster cluster = find_cluster("dgx-a100:1");
  cluster.groups[0].device.name = "B1000";
  EXPECT_THROW((void)make_physical_cost_model(cluster, plain()), InputError);
}

TEST(SoftwareProfiles, EveryNumberIsInItsRange) {
  for (const SoftwareProfile& profile : software_profiles())
    for (const SoftwareNumber& number : software_numbers()) {
      EXPECT_GE(profile.*number.member, number.low) << profile.name << ' ' << number.key;
      EXPECT_LE(profile.*number.member, number.high) << profile.name << ' ' << number.key;
    }
}

TEST(SoftwareProfiles, AnUnknownNameIsRefusedWithTheNearest) {
  try {
    (void)find_software_profile("megatorn");
    FAIL() << "a profile was found";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("megatron"), std::string::npos);
  }
}

}  // namespace meshwright::physical_test
