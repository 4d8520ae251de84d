// SPDX-License-Identifier: Apache-2.0
// Digits of layers that are packed into a few numbers of a model.
#include "core/graph/models/parts/layer_digits.h"

#include <gtest/gtest.h>

#include <array>

namespace meshwright::layer_digits_test {
namespace {

constexpr std::array kKeys = {"kinds_0", "kinds_1"};

// In base 8 a number holds 20 layers: the first layer's digit is its lowest.
TEST(LayerDigits, OfTheFirstLayersAreTheLowestOfTheFirstNumber) {
  constexpr LayerDigits digits{kKeys, 3};
  EXPECT_EQ(digits.per_key(), 20);
  EXPECT_EQ(digits.capacity(), 40);
  ModelConfig model;
  std::vector<std::int64_t> given(22, 0);
  given[0] = 5;
  given[1] = 7;
  given[20] = 1;
  given[21] = 2;
  digits.set(model, given);
  EXPECT_EQ(model.more.at("kinds_0"), 5 + 8 * 7);
  EXPECT_EQ(model.more.at("kinds_1"), 1 + 8 * 2);
  for (std::size_t layer = 0; layer < given.size(); ++layer)
    EXPECT_EQ(digits.of(model, static_cast<std::int64_t>(layer)), given[layer]) << layer;
}

TEST(LayerDigits, AreSetAnewEachTime) {
  constexpr LayerDigits digits{kKeys, 1};
  ModelConfig model;
  digits.set(model, std::vector<std::int64_t>(61, 1));
  digits.set(model, {0, 1});
  EXPECT_EQ(model.more.at("kinds_0"), 2);
  EXPECT_EQ(model.more.at("kinds_1"), 0);
}

TEST(LayerDigits, FillTheirNumbers) {
  for (const int bits : {1, 2, 3})
    for (const SizeField& field : LayerDigits{kKeys, bits}.fields()) {
      EXPECT_EQ(field.maximum, (std::int64_t{1} << 60) - 1);
      EXPECT_EQ(field.otherwise, 0);
    }
}

}  // namespace
}  // namespace meshwright::layer_digits_test
