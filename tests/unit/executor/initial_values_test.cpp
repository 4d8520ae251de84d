// SPDX-License-Identifier: Apache-2.0
// The weights of a loss and their total, as runs are fed with them.
#include "executor/base/initial_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"

namespace meshwright::initial_values_test {
namespace {

// Whatever was asked for before.
TEST(LossWeights, OfAStepAddUpToTheTotalOfEachOfItsMicrobatches) {
  const Graph graph =
      build_forward_graph(find_model("gpt2:layers=1,hidden=8,heads=2,seq=5,vocab=11"),
                          {.batch = 6, .microbatches = 3, .dtype = DType::F32, .loss = LossReduction::TokenWeighted});
  const InitialValues values(graph, 7, DType::F64);
  const Tensor &weights = graph.tensor(graph.loss_weights->weights), &total = graph.tensor(graph.loss_weights->total);
  const std::vector<std::int64_t> origin = {0, 0}, shape = {2, 5};
  std::vector<double> of_steps;
  for (const int step : {0, 1, 0, 2}) {
    double sum = 0.0;
    std::vector<double> totals(3);
    for (int microbatch = 0; microbatch < 3; ++microbatch) {
      std::vector<double> part(10);
      values.fill_input(weights, step, microbatch, origin, shape, part.data());
      sum = std::accumulate(part.begin(), part.end(), sum);
      values.fill_input(total, step, microbatch, {}, {}, &totals[static_cast<std::size_t>(microbatch)]);
    }
    EXPECT_EQ(totals, std::vector<double>(3, sum)) << step;
    of_steps.push_back(sum);
  }
  EXPECT_EQ(of_steps[0], of_steps[2]);
  EXPECT_NE(of_steps[0], of_steps[1]);
}

// A tile of what every microbatch of every step reads alike; integers that index nothing are 0 or 1.
TEST(Inputs, ThatAreConstantHaveTheirNumbers) {
  Graph graph;
  graph.batch = 4;
  graph.microbatches = 2;
  const TensorId table = graph.add_tensor("table", TensorKind::Input, DType::F32, {{"row", 2}, {"column", 3}});
  const TensorId there = graph.add_tensor("there", TensorKind::Input, DType::I32, {{"batch", 2}, {"seq", 50}});
  graph.constants[table] = std::make_shared<const std::vector<double>>(std::vector<double>{0, 1, 2, 10, 11, 12});
  const InitialValues values(graph, 7, DType::F64);
  const std::vector<std::int64_t> offset = {1, 1}, shape = {1, 2};
  for (const int step : {0, 3}) {
    std::vector<double> tile(2);
    values.fill_input(graph.tensor(table), step, 1, offset, shape, tile.data());
    EXPECT_EQ(tile, (std::vector<double>{11, 12}));
  }
  std::vector<std::int32_t> drawn(100);
  values.fill_input(graph.tensor(there), 0, 0, std::vector<std::int64_t>{0, 0}, std::vector<std::int64_t>{2, 50},
                    drawn.data());
  EXPECT_EQ(*std::min_element(drawn.begin(), drawn.end()), 0);
  EXPECT_EQ(*std::max_element(drawn.begin(), drawn.end()), 1);
}

// The labels that are made for a tile in the middle, and the tokens that they belong to.
void expect_following(const std::string& model, const std::string& tokens, const std::string& labels, int words) {
  const Graph graph = build_forward_graph(find_model(model), {.batch = 6, .microbatches = 3, .dtype = DType::F32});
  GivenValues given;
  given.labels = GivenValues::Labels::FollowingWord;
  const InitialValues values(graph, 7, DType::F64, given);
  const std::vector<std::int64_t> offset = {1, 2}, shape = {1, 3};
  std::vector<std::int32_t> read(3), followed(3);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.name == tokens) values.fill_input(tensor, 4, 1, offset, shape, read.data());
    if (tensor.name == labels) values.fill_input(tensor, 4, 1, offset, shape, followed.data());
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(followed[i], (read[i] + words) % 11) << model;
}

TEST(Labels, FollowTheirTokensInTheVocabulary) {
  expect_following("gpt2:layers=1,hidden=8,heads=2,seq=5,vocab=11", "tokens", "labels", 1);
  expect_following("t5:layers=1,hidden=8,heads=2,intermediate=8,seq=5,vocab=11", "decoder_tokens", "labels", 1);
  expect_following(
      "deepseek_v3:layers=1,hidden=8,heads=2,intermediate=8,seq=5,vocab=11,experts=2,top_k=1,q_rank=4,kv_rank=4,"
      "nope_dim=4,rope_dim=4,value_dim=4,mtp=1",
      "tokens", "labels_2", 2);
}

}  // namespace
}  // namespace meshwright::initial_values_test
