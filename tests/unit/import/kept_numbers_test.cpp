// SPDX-License-Identifier: Apache-2.0
// The numbers of buffers in archives of exported programs.
#include "core/graph/import/torch/kept_numbers.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/base/json.h"
#include "tests/refusal.h"

namespace meshwright::kept_numbers_test {
namespace {

using Numbers = std::vector<double>;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Json tensor(const std::string& file, int dtype, const std::vector<int>& sizes, const std::vector<int>& strides) {
  const auto list = [](const std::vector<int>& numbers) {
    Json made = Json::array();
    for (const int number : numbers) made.push_back({{"as_int", number}});
    return made;
  };
  return {
      {"path_name", file},
      {"is_param", false},
      {"use_pickle", false},
      {"tensor_meta",
       {{"dtype", dtype}, {"sizes", list(sizes)}, {"strides", list(strides)}, {"storage_offset", {{"as_int", 0}}}}}};
}

torch::KeptNumbers kept(const Json& config, const std::string& bytes) {
  const std::string text = Json{{"config", config}}.dump();
  return torch::kept_numbers({{"m/data/constants/model_constants_config.json", text, text.size(), false},
                              {"m/data/constants/t", bytes, bytes.size(), false}},
                             "m.pt2");
}

TEST(KeptNumbers, AreReadInTheTypesOfBuffers) {
  const std::string reals = bytes_of<float>({1.0F, 0.25F}), wholes = bytes_of<std::int64_t>({3, -1});
  EXPECT_EQ(kept({{"f", tensor("t", 7, {2}, {1})}}, reals).at("f"), Numbers({1.0, 0.25}));
  EXPECT_EQ(kept({{"i", tensor("t", 5, {1, 2}, {2, 1})}}, wholes).at("i"), Numbers({3.0, -1.0}));
}

TEST(KeptNumbers, AreThoseThatLieInOnePieceInAKnownType) {
  const std::string bytes = bytes_of<float>({1.0F, 2.0F, 3.0F, 4.0F});
  EXPECT_TRUE(kept({{"turned", tensor("t", 7, {2, 2}, {1, 2})}}, bytes).empty());
  EXPECT_TRUE(kept({{"half", tensor("t", 6, {4}, {1})}}, bytes).empty());
  EXPECT_TRUE(kept({{"missing", tensor("other", 7, {4}, {1})}}, bytes).empty());
  EXPECT_TRUE(kept({{"large", tensor("t", 7, {1 << 23}, {1})}}, bytes).empty());
  Json parameter = tensor("t", 7, {4}, {1});
  parameter["is_param"] = true;
  EXPECT_TRUE(kept({{"parameter", parameter}}, bytes).empty());
}

TEST(KeptNumbers, OfAnotherLengthAreDamage) {
  EXPECT_NE(refusal([] {
              return kept({{"b", tensor("t", 7, {3}, {1})}}, bytes_of<float>({1.0F, 2.0F}));
            }).find("'b' has 8 bytes, and 3 elements"),
            std::string::npos);
}

TEST(KeptNumbers, OfAFlagThatIsNeitherTrueNorFalseAreDamage) {
  for (const char* flag : {"is_param", "use_pickle"}) {
    Json other = tensor("t", 7, {1}, {1});
    other[flag] = 3;
    EXPECT_NE(refusal([&] {
                return kept({{"b", other}}, bytes_of<float>({1.0F}));
              }).find(std::string("'") + flag + "' has the wrong type (3)"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace meshwright::kept_numbers_test
