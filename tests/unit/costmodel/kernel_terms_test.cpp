// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/random.h"
#include "costmodel/sheets/data_sheet.h"
#include "costmodel/terms/attention.h"
#include "costmodel/terms/collective_protocols.h"
#include "costmodel/terms/memory_pass.h"
#include "costmodel/terms/products.h"

namespace meshwright::kernel_terms_test {

namespace {

// 100 multiprocessors of 1 TFLOP/s each, and 1 TB/s.
const ProductUnit kUnit{teraflops(100), BytesPerSecond(1e12), 100};
// Nothing but arithmetic takes time.
const ProductConstants kArithmeticAlone{1.0, 1e9, BytesPerSecond(1e30), Seconds(0), 0, 0};
// Nothing but memory does.
const ProductConstants kMemoryAlone{1e12, 0.5, BytesPerSecond(1e30), Seconds(0), 0, 0};

double microseconds_of(Seconds time) { return time.si() * 1e6; }

}  // namespace

TEST(ProductTime, OfFullWavesIsThatOfThePeak) {
  // 10 x 10 tiles of 256 x 128 are one wave of 100; 2 * 2560 * 1280 * 1000 flops at 100 TFLOP/s.
  EXPECT_NEAR(microseconds_of(product_time({1, 2560, 1280, 1000}, kUnit, kArithmeticAlone)), 65.536, 1e-6);
  EXPECT_NEAR(microseconds_of(product_time({3, 2560, 1280, 1000}, kUnit, kArithmeticAlone)), 3 * 65.536, 1e-6);
}

TEST(ProductTime, OfOneRowMoreHasALastWaveThatCountsInPart) {
  // A depth of 1 cannot be cut. Tiles of 32 x 64 lose least: 81 x 20 = 1620 are 16.2 waves, of which 0.4 * 16.2 +
  // 0.6 * 17 count, each of 2 * 32 * 64 flops at 1 TFLOP/s.
  EXPECT_NEAR(microseconds_of(product_time({1, 2561, 1280, 1}, kUnit, kArithmeticAlone)),
              (0.4 * 16.2 + 0.6 * 17) * 4.096e-3, 1e-9);
}

TEST(ProductTime, OfASmallResultIsCutInDepth) {
  // One tile of 32 x 64 on one multiprocessor would take 2 * 32 * 64 * 8000 flops at 1 TFLOP/s = 32.8 us; in 8 parts it
  // takes an eighth, and a microsecond of memory that the fourth power hides.
  EXPECT_NEAR(microseconds_of(product_time({1, 32, 64, 8000}, kUnit, kArithmeticAlone)), 4.096, 0.01);
}

TEST(ProductTime, OfAResultThatIsCutInDepthBringsItsPartsTogetherInTheCache) {
  // Operands without bytes. Four tiles in 8 parts of a depth of 1000 take 4.096 us; 8 bytes of each of 8 parts of
  // 4 * 32 * 64 results at 128 GB/s take as long, and a microsecond.
  const ProductConstants cache{1.0, 1e30, BytesPerSecond(128e9), Seconds(0), 0, 0};
  const ProductShape shape{4, 32, 64, 8000, Bytes(0), Bytes(0)};
  EXPECT_NEAR(microseconds_of(product_time(shape, kUnit, cache)),
              std::pow(std::pow(4.096, 4) + std::pow(4.096 + 1, 4), 0.25), 1e-6);
}

TEST(ProductTime, OfAVectorIsThatOfReadingTheMatrix) {
  // 1 x 4096 by 4096 x 4096 in two bytes: 33.6 MB at half of 1 TB/s.
  const double bytes = 2.0 * (4096.0 * 4096 + 2 * 4096);
  EXPECT_NEAR(microseconds_of(product_time({1, 1, 4096, 4096}, kUnit, kMemoryAlone)), bytes / 0.5e12 * 1e6, 1e-6);
}

TEST(ProductTime, OfASlowCacheIsThatOfReadingTilesFromIt) {
  // A depth of 1 cannot be cut: 10 x 10 tiles read 256 + 128 elements of two bytes each, at 1 TB/s.
  const ProductConstants cache_alone{1e12, 1e9, BytesPerSecond(1e12), Seconds(0), 0, 0};
  EXPECT_NEAR(microseconds_of(product_time({1, 2560, 1280, 1}, kUnit, cache_alone)), 100 * 384 * 2 * 1e-6, 1e-9);
}

TEST(ProductTime, IsNeverBelowTheRooflineAndGrowsWithEverySize) {
  Random random(5);
  const ProductConstants constants;
  for (int i = 0; i < 2000; ++i) {
    const auto size = [&] { return static_cast<std::int64_t>(1 + random.below(1 << (1 + random.below(13)))); };
    const ProductShape shape{1 + random.below(4), size(), size(), size()};
    const Seconds time = product_time(shape, kUnit, constants);
    EXPECT_GT(time, shape.flops() / kUnit.peak);
    EXPECT_GT(time, shape.bytes() / kUnit.memory_bandwidth);
    ProductShape deeper = shape, more = shape;
    deeper.k *= 2;
    more.batch *= 2;
    EXPECT_GE(product_time(deeper, kUnit, constants), time);
    EXPECT_GE(product_time(more, kUnit, constants), time);
  }
}

TEST(AttentionTime, OfALongCausalSequenceIsHalfOfADenseOne) {
  AttentionConstants constants;
  constants.start = Seconds(0);
  constants.prologue = 0;
  AttentionShape causal{1, 64, 64, 32768, 32768};
  AttentionShape dense = causal;
  dense.causal = false;
  // 256 blocks: (256 * 257 / 2) / 256^2 of the pairs.
  EXPECT_NEAR(attention_time(causal, kUnit, constants) / attention_time(dense, kUnit, constants), 0.502, 0.005);
}

TEST(AttentionTime, OfOneHeadIsThatOfItsLongestBlock) {
  AttentionConstants constants{1.0, 0.0, 0.0, Seconds(0), 1e9, 0.0, 0.0, 2.5};
  // 10 query blocks, fewer than multiprocessors; the last has 10 key blocks of 2 * 128 * 128 * 256 flops.
  EXPECT_NEAR(microseconds_of(attention_time({1, 1, 1, 1280, 1280}, kUnit, constants)), 10 * 8.388608, 1e-3);
}

TEST(AttentionTime, OfManyHeadsIsThatOfTheirPairsOfBlocks) {
  const AttentionConstants constants{1.0, 0.0, 0.0, Seconds(0), 1e9, 0.0, 0.0, 2.5};
  // 100 heads on 100 multiprocessors, each with pairs of 2 * 128 * 128 * 128 flops at 1 TFLOP/s.
  const double pair = 4.194304;
  AttentionShape shape{1, 100, 100, 256, 256, 64, 64};
  EXPECT_NEAR(microseconds_of(attention_time(shape, kUnit, constants)), 3 * pair, 1e-3);  // 2 x 2 but for one
  shape.queries = 128;
  EXPECT_NEAR(microseconds_of(attention_time(shape, kUnit, constants)), 2 * pair, 1e-3);  // the last row of them
  shape.queries = 256;
  shape.causal = false;
  EXPECT_NEAR(microseconds_of(attention_time(shape, kUnit, constants)), 4 * pair, 1e-3);
}

TEST(AttentionTime, ReadsItsQueriesBeforeTheFirstKeys) {
  // As above; each of the 2 query blocks takes as long as one and a half pairs besides.
  const AttentionConstants constants{1.0, 0.0, 0.0, Seconds(0), 1e9, 1.5, 0.0, 2.5};
  AttentionShape shape{1, 100, 100, 256, 256, 64, 64};
  EXPECT_NEAR(microseconds_of(attention_time(shape, kUnit, constants)), (3 + 2 * 1.5) * 4.194304, 1e-3);
  // One head alone takes what its longest block takes.
  shape.heads = shape.kv_heads = 1;
  EXPECT_NEAR(microseconds_of(attention_time(shape, kUnit, constants)), (2 + 1.5) * 4.194304, 1e-3);
}

TEST(AttentionShape, CountsThePairsThatTheMaskLeaves) {
  // Two products of width 1 + 1: 4 flops a pair. Of 3 keys, 3 queries see 1 + 2 + 3, the last 2 see 2 + 3.
  AttentionShape shape{1, 1, 1, 3, 3, 1, 1};
  EXPECT_EQ(shape.flops().si(), 4 * 6);
  shape.queries = 2;
  EXPECT_EQ(shape.flops().si(), 4 * 5);
  shape.causal = false;
  EXPECT_EQ(shape.flops().si(), 4 * 6);
  shape.backward = true;
  EXPECT_EQ(shape.flops().si(), 10 * 6);
  // 2 heads of 2 queries, results likewise, and 1 head of 3 keys and values, of two bytes each.
  EXPECT_EQ((AttentionShape{1, 2, 1, 2, 3, 1, 1}.bytes().si()), (2 * 2 * 2 + 2 * 3) * 2);
}

TEST(AttentionTime, OfABackwardPassIsAMultiple) {
  AttentionConstants constants;
  constants.start = Seconds(0);
  constants.memory_share = 1e9;
  AttentionShape shape{8, 32, 32, 4096, 4096};
  AttentionShape backward = shape;
  backward.backward = true;
  EXPECT_NEAR(attention_time(backward, kUnit, constants) / attention_time(shape, kUnit, constants), constants.backward,
              1e-9);
}

TEST(CollectiveTime, TakesTheFasterOfTwoProtocols) {
  const CollectiveProtocols protocols{
      Seconds(10e-6), Seconds(1e-6), BytesPerSecond(10e9), Seconds(50e-6), Seconds(1e-6), BytesPerSecond(100e9), 0.0};
  // 8 ranks: 7 us of steps; an all-reduce moves 1.75 times its size.
  EXPECT_NEAR(microseconds_of(collective_time(CollectiveKind::AllReduce, Bytes(80e3), 8, protocols)), 10 + 7 + 14,
              1e-9);
  EXPECT_NEAR(microseconds_of(collective_time(CollectiveKind::AllReduce, Bytes(80e6), 8, protocols)), 50 + 7 + 1400,
              1e-9);
  EXPECT_NEAR(microseconds_of(collective_time(CollectiveKind::AllGather, Bytes(80e6), 8, protocols)), 50 + 7 + 700,
              1e-9);
}

TEST(CollectiveTime, AFabricThatGrowsServesMoreRanksFaster) {
  const CollectiveProtocols protocols{
      Seconds(1), Seconds(0), BytesPerSecond(1), Seconds(0), Seconds(0), BytesPerSecond(100e9), 0.5};
  // 2 ranks reach (2/8)^0.5 = half of the rate; an all-gather of 2 sends half of its size.
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(100e9), 2, protocols).si(), 1.0, 1e-12);
}

TEST(PassTime, IsAStartAndTheBytes) {
  EXPECT_NEAR(microseconds_of(pass_time(Bytes(1e6), BytesPerSecond(1e12), {Seconds(5e-6), 3.0})), 8.0, 1e-9);
}

TEST(DataSheets, AreFoundByNameAndAlias) {
  ASSERT_NE(find_data_sheet("A100-SXM4-80GB"), nullptr);
  EXPECT_EQ(find_data_sheet("A100"), find_data_sheet("A100-SXM4-80GB"));
  EXPECT_EQ(find_data_sheet("A100-80"), nullptr);
  EXPECT_EQ(find_data_sheet("H100")->multiprocessors, 132);
  EXPECT_NEAR(find_data_sheet("H100")->unit("bf16").peak.si(), 989.4e12, 1);
}

TEST(DataSheets, NameEveryDeviceOnceAndGrowWithTheirTypes) {
  std::map<std::string, int> seen;
  for (const DataSheet& sheet : data_sheets()) {
    ++seen[sheet.name];
    for (const std::string& alias : sheet.aliases) ++seen[alias];
    // A narrower type is never slower.
    const auto peak = [&](const char* type, const char* otherwise) {
      return sheet.peak.count(type) != 0 ? sheet.peak.at(type) : sheet.peak.at(otherwise);
    };
    EXPECT_GE(peak("f16", "f32"), sheet.peak.at("f32")) << sheet.name;
    if (sheet.peak.count("f8") != 0) {
      EXPECT_GE(sheet.peak.at("f8"), sheet.peak.at("bf16")) << sheet.name;
    }
  }
  for (const auto& [name, times] : seen) EXPECT_EQ(times, 1) << name;
}

}  // namespace meshwright::kernel_terms_test
