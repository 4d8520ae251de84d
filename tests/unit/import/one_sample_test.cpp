// SPDX-License-Identifier: Apache-2.0
// Programs that were exported with a batch of 1 compute of each of several samples what they compute of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/refusal.h"
#include "tests/unit/import/onnx_writer.h"
#include "tests/unit/import/torch_numbers.h"

namespace meshwright::one_sample_test {
namespace {

using torch_numbers::expect_elements;
using torch_numbers::Numbers;
using torch_numbers::whole;
using torch_numbers::wholes;
using torch_numbers::x_at;

// x (1, 6) in place of (4, 6); the graph is made for 4 samples all the same.
const torch_numbers::Declared kOne = {{"x", {7, {1, 6}}}};

Json viewed(const std::string& of, const std::vector<std::int64_t>& sizes, const std::string& as) {
  return call("view", {{"self", tensor_named(of)}, {"size", wholes(sizes)}}, as);
}

TEST(SampledGraph, RowsWithoutTheBatchAreOfEachSampleItsOwn) {
  // The mean of two rows of three.
  expect_elements(
      "mean",
      {viewed("x", {2, 3}, "rows"), call("mean", {{"self", tensor_named("rows")}, {"dim", wholes({0})}}, "m"),
       viewed("m", {1, 3}, "y")},
      3, [](std::int64_t s, std::int64_t c) { return 0.5 * (x_at(s, c) + x_at(s, c + 3)); }, {}, kOne);
  // A matrix times itself turned: each sample's own.
  expect_elements(
      "product",
      {viewed("x", {2, 3}, "rows"),
       call("transpose", {{"self", tensor_named("rows")}, {"dim0", whole(0)}, {"dim1", whole(1)}}, "turned"),
       call("mm", {{"self", tensor_named("rows")}, {"mat2", tensor_named("turned")}}, "p"), viewed("p", {1, 4}, "y")},
      4,
      [](std::int64_t s, std::int64_t c) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < 3; ++k) sum += x_at(s, c / 2 * 3 + k) * x_at(s, c % 2 * 3 + k);
        return sum;
      },
      {}, kOne);
}

TEST(SampledGraph, ASoftmaxOverAllItHasIsOfEachSampleItsOwn) {
  expect_elements(
      "softmax",
      {viewed("x", {6}, "row"), call("softmax", {{"self", tensor_named("row")}, {"dim", whole(0)}}, "s"),
       call("add", {{"self", tensor_named("s")}, {"other", tensor_named("row")}}, "sum"), viewed("sum", {1, 6}, "y")},
      6,
      [](std::int64_t s, std::int64_t c) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < 6; ++k) sum += std::exp(x_at(s, k) - x_at(s, c));
        return 1.0 / sum + x_at(s, c);
      },
      {}, kOne);
}

// Positions in front, as modules have them that put positions first, and an axis of one element in the middle.
TEST(SampledGraph, DimensionsOfOneElementMayMoveAndGo) {
  expect_elements(
      "turned",
      {viewed("x", {1, 3, 2}, "steps"),
       call("transpose", {{"self", tensor_named("steps")}, {"dim0", whole(0)}, {"dim1", whole(1)}}, "first"),
       call("select", {{"self", tensor_named("first")}, {"dim", whole(0)}, {"index", whole(1)}}, "y")},
      2, [](std::int64_t s, std::int64_t c) { return x_at(s, 2 + c); }, {}, kOne);
  expect_elements(
      "joined",
      {viewed("x", {2, 1, 3}, "halves"),
       call("cat", {{"tensors", torch_numbers::tensors({"halves", "halves"})}, {"dim", whole(0)}}, "four"),
       call("sum", {{"self", tensor_named("four")}, {"dim", wholes({0})}}, "y")},
      3, [](std::int64_t s, std::int64_t c) { return 2.0 * (x_at(s, c) + x_at(s, c + 3)); }, {}, kOne);
}

TEST(SampledGraph, AWeightOfEachPositionIsTheSameForAllSamples) {
  expect_elements(
      "weighed",
      {viewed("x", {3, 2}, "rows"), call("mul", {{"self", tensor_named("rows")}, {"other", tensor_named("w")}}, "p"),
       viewed("p", {1, 6}, "y")},
      6, [](std::int64_t s, std::int64_t c) { return x_at(s, c) * static_cast<double>(c / 2 + 1); },
      {{"w", {{3, 1}, {1.0, 2.0, 3.0}}}}, kOne);
}

TEST(SampledGraph, WindowsAreImagesOfTheirSample) {
  // Two images of (1, 3, 1) each, all their elements multiplied by 2: the batch lies ahead of the windows.
  expect_elements(
      "convolution",
      {viewed("x", {2, 1, 3, 1}, "images"),
       call("conv2d", {{"input", tensor_named("images")}, {"weight", tensor_named("w")}}, "c"),
       viewed("c", {1, 6}, "y")},
      6, [](std::int64_t s, std::int64_t c) { return 2.0 * x_at(s, c); }, {{"w", {{1, 1, 1, 1}, {2.0}}}}, kOne);
}

TEST(SampledGraph, WhatHasNoFormForSeveralIsRefusedWithTheNextAction) {
  const auto why = refusal([&] {
    (void)torch_numbers::program(
        {viewed("x", {1, 1, 2, 3}, "image"), viewed("x", {1, 1, 2, 3}, "kernel"),
         call("conv2d", {{"input", tensor_named("image")}, {"weight", tensor_named("kernel")}}, "c"),
         viewed("c", {1, 1}, "y")},
        {}, kOne);
  });
  EXPECT_NE(why.find("export it with 2 or with a batch that is left open."), std::string::npos) << why;
}

// As contrastive losses do: the file does not tell whether each sample meets the others.
TEST(SampledGraph, ProductsOfSamplesWithSamplesAreRefused) {
  const auto why = refusal([&] {
    (void)torch_numbers::program(
        {call("transpose", {{"self", tensor_named("x")}, {"dim0", whole(0)}, {"dim1", whole(1)}}, "turned"),
         call("mm", {{"self", tensor_named("x")}, {"mat2", tensor_named("turned")}}, "y")},
        {}, kOne);
  });
  EXPECT_NE(why.find("it multiplies samples with each other, or each with itself"), std::string::npos) << why;
}

// Statistics of a batch are those of all samples, however the file was exported.
TEST(SampledGraph, MeansOverTheBatchStayMeansOverAllSamples) {
  expect_elements(
      "centred",
      {call("mean", {{"self", tensor_named("x")}, {"dim", wholes({0})}, {"keepdim", {{"as_bool", true}}}}, "m"),
       call("sub", {{"self", tensor_named("x")}, {"other", tensor_named("m")}}, "y")},
      6,
      [](std::int64_t s, std::int64_t c) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < torch_numbers::kBatch; ++k) sum += x_at(k, c);
        return x_at(s, c) - sum / static_cast<double>(torch_numbers::kBatch);
      },
      {}, kOne);
}

// In a batch of several, rows of all samples in one dimension are no sample's own: a sum of them is refused.
TEST(SampledGraph, ASumOverRowsOfAllSamplesIsRefused) {
  const auto why = refusal([&] {
    (void)torch_numbers::program({viewed("x", {8, 3}, "rows"),
                                  call("sum", {{"self", tensor_named("rows")}, {"dim", wholes({0})}}, "s"),
                                  viewed("s", {1, 3}, "y")});
  });
  EXPECT_NE(why.find("it mixes the rows of a dimension that holds the batch and others"), std::string::npos) << why;
}

}  // namespace
}  // namespace meshwright::one_sample_test
