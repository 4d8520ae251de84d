// SPDX-License-Identifier: Apache-2.0
// Pairs of Megatron-LM's flags that it asserts after the job has started.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "launch/read/launch_reading.h"

namespace meshwright::read_assertions_test {
namespace {

// 8 devices; dense, of 8 layers, micro-batches of one sample.
const std::string kDense =
    "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --max-position-embeddings 256 "
    "--vocab-size 1024 --bf16 --micro-batch-size 1 --global-batch-size 32 ";
const std::string kMixture = kDense +
                             "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
                             "--num-experts 8 --moe-router-topk 2 --moe-token-dispatcher-type alltoall ";

using Sentences = std::vector<std::string>;

LaunchReading read_flags(const std::string& flags) {
  const std::string script = "export CUDA_DEVICE_MAX_CONNECTIONS=1\ntorchrun pretrain_gpt.py " + flags + "\n";
  return read_launch(read_launch_text({.files = {{"run.sh", script}}}), {1, 8}, {});
}

TEST(ReadAssertions, OfThePipeline) {
  EXPECT_EQ(read_flags(kDense + "--num-virtual-stages-per-pipeline-rank 2").broken,
            Sentences{"--num-virtual-stages-per-pipeline-rank needs pp above 1, and it is 1"});
  EXPECT_EQ(read_flags(kDense + "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                                "--no-overlap-p2p-communication")
                .broken,
            Sentences{"--num-virtual-stages-per-pipeline-rank needs pp above 2, and it is 2"});
  EXPECT_EQ(read_flags(kDense + "--defer-embedding-wgrad-compute").broken,
            Sentences{"--defer-embedding-wgrad-compute needs pp above 1, and it is 1"});
  EXPECT_EQ(read_flags(kDense + "--hybrid-context-parallel --pipeline-model-parallel-size 2").broken,
            Sentences{"--hybrid-context-parallel needs pp 1, and it is 2"});
  EXPECT_EQ(read_flags(kDense + "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2").broken,
            Sentences{});
}

TEST(ReadAssertions, OfTheOrderOfRanks) {
  // Experts: 8 / (1 x 2 x 2) = 2 replicas; the rest has dp 4.
  EXPECT_EQ(read_flags(kMixture + "--use-tp-pp-dp-mapping --pipeline-model-parallel-size 2 "
                                  "--expert-model-parallel-size 2")
                .broken,
            Sentences{"--use-tp-pp-dp-mapping needs devices / (etp x ep x pp) = 2 to be dp = 4"});
  EXPECT_EQ(read_flags(kDense + "--use-tp-pp-dp-mapping --pipeline-model-parallel-size 2").broken, Sentences{});
}

TEST(ReadAssertions, OfWhatIsOffloaded) {
  EXPECT_EQ(read_flags(kDense + "--cpu-offloading-num-layers 2 --pipeline-model-parallel-size 2 "
                                "--recompute-activations")
                .broken,
            (Sentences{"--cpu-offloading-num-layers needs pp 1, and it is 2",
                       "--cpu-offloading-num-layers excludes --recompute-granularity"}));
  EXPECT_EQ(read_flags(kDense + "--use-distributed-optimizer --optimizer-cpu-offload").broken,
            Sentences{"--optimizer-cpu-offload needs --use-precision-aware-optimizer"});
  EXPECT_EQ(read_flags(kDense + "--use-precision-aware-optimizer --optimizer sgd").broken,
            Sentences{"--use-precision-aware-optimizer needs --optimizer adam, and it is sgd"});
  EXPECT_EQ(read_flags(kDense + "--distribute-saved-activations --recompute-granularity full --recompute-method "
                                "uniform --recompute-num-layers 1")
                .broken,
            Sentences{"--distribute-saved-activations needs tp above 1 without --sequence-parallel"});
}

TEST(ReadAssertions, OfExperts) {
  EXPECT_EQ(read_flags(kMixture + "--moe-router-enable-expert-bias").broken,
            Sentences{"--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid, and it is softmax"});
  EXPECT_EQ(read_flags(kMixture + "--moe-token-dispatcher-type flex").broken,
            Sentences{"--moe-token-dispatcher-type flex needs etp x ep above 1, and it is 1"});
  EXPECT_EQ(read_flags(kMixture + "--overlap-moe-expert-parallel-comm --pipeline-model-parallel-size 2").broken,
            (Sentences{"--overlap-moe-expert-parallel-comm needs ep above 1, and it is 1",
                       "--overlap-moe-expert-parallel-comm in a pipeline needs virtual stages"}));
  EXPECT_EQ(read_flags(kMixture + "--overlap-moe-expert-parallel-comm --expert-model-parallel-size 4").broken,
            Sentences{});
}

TEST(ReadAssertions, OfBatchesThatGrow) {
  EXPECT_EQ(
      read_flags(kDense + "--rampup-batch-size 12 10 1000").broken,
      (Sentences{"--rampup-batch-size starts with 12, which is not a multiple of mbs x dp = 1 x 8; nearest 8 or 16",
                 "--rampup-batch-size adds 10, which is not a multiple of mbs x dp = 1 x 8; nearest 8 or 16"}));
  EXPECT_EQ(read_flags(kDense + "--rampup-batch-size 8 16 1000").broken,
            Sentences{"--rampup-batch-size does not reach gbs 32 from 8 by steps of 16"});
  EXPECT_EQ(read_flags(kDense + "--rampup-batch-size 16 16 1000").broken, Sentences{});
}

// The first stage has 2 blocks, the others 3: the method `block` recomputes the first 2 of each.
TEST(ReadAssertions, BlocksOfUnevenStagesAreRecomputedStageByStage) {
  const LaunchReading reading = read_flags(kDense +
                                           "--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 2 "
                                           "--recompute-granularity full --recompute-method block "
                                           "--recompute-num-layers 1");
  EXPECT_EQ(reading.setup.degrees.recompute, Recompute::None);
  EXPECT_EQ(to_text(reading.setup.recompute_layers), "0:full,2:full,4:full,6:full");
  const LaunchReading whole = read_flags(kDense +
                                         "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 3 "
                                         "--recompute-granularity full --recompute-method block "
                                         "--recompute-num-layers 4");
  EXPECT_EQ(to_text(whole.setup.recompute_layers), "0-2:full,3-6:full");  // of 3 and of 5
  EXPECT_EQ(whole.broken, Sentences{});
}

TEST(ReadAssertions, LatentAttentionHasTheRouterAndTheRotationOfItsFlags) {
  const ModelConfig model =
      read_flags(kMixture +
                 "--multi-latent-attention --kv-lora-rank 64 --qk-head-dim 32 --qk-pos-emb-head-dim 16 "
                 "--v-head-dim 32 --moe-router-pre-softmax --moe-router-topk-scaling-factor 2.5 "
                 "--rotary-base 50000 --norm-epsilon 1e-6")
          .setup.model;
  EXPECT_EQ(model.family, "deepseek_v3");
  EXPECT_EQ(model.more.at("sigmoid"), 0);
  EXPECT_EQ(model.more.at("normalized"), 0);
  EXPECT_EQ(model.more.at("selection_bias"), 0);
  EXPECT_EQ(model.factors.at("routed_scale"), 2.5);
  EXPECT_EQ(model.factors.at("rotary_base"), 50000.0);
  EXPECT_EQ(model.factors.at("epsilon"), 1e-6);
}

}  // namespace
}  // namespace meshwright::read_assertions_test
