// SPDX-License-Identifier: Apache-2.0
// Choices of the largest, sorts, gathers and scatters outside of mixtures, held against numbers that decode by eye.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/refusal.h"
#include "tests/unit/import/onnx_writer.h"
#include "tests/unit/import/torch_numbers.h"

namespace meshwright::choices_test {
namespace {

using torch_numbers::expect_elements;
using torch_numbers::Numbers;
using torch_numbers::whole;
using torch_numbers::wholes;
using torch_numbers::x_at;

// Numbers of each sample in no order: the sines of x.
double sine_at(std::int64_t s, std::int64_t c) { return std::sin(x_at(s, c)); }
Numbers sines(std::int64_t s) {
  Numbers row;
  for (std::int64_t c = 0; c < 6; ++c) row.push_back(sine_at(s, c));
  return row;
}
// The places of the numbers, largest first.
std::vector<std::int64_t> order_of(std::int64_t s) {
  const Numbers row = sines(s);
  std::vector<std::int64_t> order = {0, 1, 2, 3, 4, 5};
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
  });
  return order;
}

const Json kSines = call("sin", {{"self", tensor_named("x")}}, "v");

Json of_two(Json node, const std::string& second) {
  node["outputs"].push_back(tensor_named(second));
  return node;
}
Json best(std::int64_t k, bool largest = true) {
  return of_two(
      call("topk",
           {{"self", tensor_named("v")}, {"k", whole(k)}, {"dim", whole(-1)}, {"largest", {{"as_bool", largest}}}},
           "most"),
      "places");
}

TEST(Choices, OfTheLargestAndTheSmallest) {
  const auto place = [](std::int64_t s, std::int64_t i) { return order_of(s)[static_cast<std::size_t>(i)]; };
  expect_elements("largest", {kSines, best(3), call("mul", {{"self", tensor_named("most")}, {"other", whole(2)}}, "y")},
                  3, [&](std::int64_t s, std::int64_t i) { return 2.0 * sine_at(s, place(s, i)); });
  expect_elements("smallest",
                  {kSines, best(2, false), call("mul", {{"self", tensor_named("most")}, {"other", whole(2)}}, "y")}, 2,
                  [&](std::int64_t s, std::int64_t i) { return 2.0 * sine_at(s, place(s, 5 - i)); });
}

TEST(Choices, SortsPutAllInOrder) {
  const Json sorted = of_two(call("sort", {{"self", tensor_named("v")}, {"dim", whole(1)}}, "s"), "where");
  expect_elements(
      "sort", {kSines, sorted, call("mul", {{"self", tensor_named("s")}, {"other", whole(1)}}, "y")}, 6,
      [&](std::int64_t s, std::int64_t i) { return sine_at(s, order_of(s)[static_cast<std::size_t>(5 - i)]); });
}

TEST(Choices, GathersPickWhatTheIndicesTell) {
  expect_elements(
      "gather",
      {kSines, best(2),
       call("gather", {{"self", tensor_named("x")}, {"dim", whole(1)}, {"index", tensor_named("places")}}, "y")},
      2, [&](std::int64_t s, std::int64_t i) { return x_at(s, order_of(s)[static_cast<std::size_t>(i)]); });
}

TEST(Choices, ScattersPutOneNumberOrEachElementAtPlacesThatAreUnlike) {
  const auto is_chosen = [](std::int64_t s, std::int64_t c) {
    const auto order = order_of(s);
    return std::find(order.begin(), order.begin() + 2, c) != order.begin() + 2;
  };
  expect_elements("one number",
                  {kSines, best(2),
                   call("scatter",
                        {{"self", tensor_named("x")},
                         {"dim", whole(1)},
                         {"index", tensor_named("places")},
                         {"value", torch_numbers::real(9.0)}},
                        "y")},
                  6, [&](std::int64_t s, std::int64_t c) { return is_chosen(s, c) ? 9.0 : x_at(s, c); });
  expect_elements("elements",
                  {kSines, best(2),
                   call("scatter",
                        {{"self", tensor_named("x")},
                         {"dim", whole(1)},
                         {"index", tensor_named("places")},
                         {"src", tensor_named("most")}},
                        "y")},
                  6, [&](std::int64_t s, std::int64_t c) { return is_chosen(s, c) ? sine_at(s, c) : x_at(s, c); });
  expect_elements("sums",
                  {kSines, best(2),
                   call("scatter_add",
                        {{"self", tensor_named("x")},
                         {"dim", whole(1)},
                         {"index", tensor_named("places")},
                         {"src", tensor_named("most")}},
                        "y")},
                  6,
                  [&](std::int64_t s, std::int64_t c) { return x_at(s, c) + (is_chosen(s, c) ? sine_at(s, c) : 0.0); });
}

TEST(Choices, RowsAreAddedAndCopiedWhereAListTells) {
  const Json list = call("arange", {{"start", whole(1)}, {"end", whole(3)}}, "list");
  const Json part =
      call("slice", {{"self", tensor_named("v")}, {"dim", whole(1)}, {"start", whole(0)}, {"end", whole(2)}}, "part");
  const auto rows = [&](const std::string& op) {
    return std::vector<Json>{kSines, list, part,
                             call(op,
                                  {{"self", tensor_named("x")},
                                   {"dim", whole(1)},
                                   {"index", tensor_named("list")},
                                   {"source", tensor_named("part")}},
                                  "y")};
  };
  const auto inside = [](std::int64_t c) { return c == 1 || c == 2; };
  expect_elements("added", rows("index_add"), 6,
                  [&](std::int64_t s, std::int64_t c) { return x_at(s, c) + (inside(c) ? sine_at(s, c - 1) : 0.0); });
  expect_elements("copied", rows("index_copy"), 6,
                  [&](std::int64_t s, std::int64_t c) { return inside(c) ? sine_at(s, c - 1) : x_at(s, c); });
}

// Two updates of one place would follow each other in some order.
TEST(Choices, ScattersOfElementsThatMayMeetAreRefused) {
  const auto why = refusal([&] {
    (void)torch_numbers::program(
        {kSines, best(1),
         call("cat", {{"tensors", torch_numbers::tensors({"places", "places"})}, {"dim", whole(1)}}, "twice"),
         call("slice", {{"self", tensor_named("v")}, {"dim", whole(1)}, {"start", whole(0)}, {"end", whole(2)}},
              "part"),
         call("scatter",
              {{"self", tensor_named("x")},
               {"dim", whole(1)},
               {"index", tensor_named("twice")},
               {"src", tensor_named("part")}},
              "y")});
  });
  EXPECT_NE(why.find("a scatter of which two updates may have one place has no equal here"), std::string::npos) << why;
}

TEST(Choices, OfManyAreRefusedByTheirNumber) {
  const auto why = refusal([&] {
    (void)torch_numbers::program({call("repeat", {{"self", tensor_named("x")}, {"repeats", wholes({1, 8})}}, "v"),
                                  best(33), call("mul", {{"self", tensor_named("most")}, {"other", whole(1)}}, "y")});
  });
  EXPECT_NE(why.find("a choice of the 33 largest has no equal here, one of 32 or fewer has"), std::string::npos) << why;
}

// --- ONNX ---

// x (2, 4) whose elements 1 and 2 of all samples are y's, by tuples of sample and place.
TEST(OnnxScatter, OfABoxLeavesWhatIsAround) {
  OnnxWriter w;
  w.input("x", {"2", "4"}, 1).input("z", {"2", "2"}, 1);
  const std::string tuples = w.node("Reshape", {w.integers({0, 1, 0, 2, 1, 1, 1, 2}), w.integers({2, 2, 2})});
  const Graph graph = build_forward_graph(
      read_model_bytes(w.finish(w.node("ScatterND", {"x", tuples, "z"})), "m.onnx", {}), {.batch = 5});
  const Op& last =
      *std::find_if(graph.ops().begin(), graph.ops().end(), [](const Op& op) { return op.kind == OpKind::Concat; });
  ASSERT_EQ(last.inputs.size(), 3U);  // 0, z, 3
  EXPECT_EQ(graph.tensor(last.inputs[1]).elements(), 5 * 2);
  EXPECT_EQ(graph.tensor(last.outputs[0]).elements(), 5 * 4);
}

// A bias of two heads, 3 by 3, that the exporter has added to a mask of -100 of the second of two windows.
TEST(OnnxInitializer, OfABiasAndAMaskIsTheBiasAlone) {
  const auto parameters = [](bool bias) {
    OnnxWriter w;
    w.input("x", {"2", "2", "2", "3", "3"}, 1);
    std::vector<float> sum;
    for (int window = 0; window < 2; ++window)
      for (int i = 0; i < 18; ++i)
        sum.push_back((bias ? 0.125F * static_cast<float>(i + 1) : 0.0F) + (window == 1 && i % 9 < 3 ? -100.0F : 0.0F));
    return parameter_count(build_forward_graph(
        read_model_bytes(w.finish(w.node("Add", {"x", w.floats({2, 2, 3, 3}, sum)})), "m.onnx", {}), {.batch = 2}));
  };
  EXPECT_EQ(parameters(true), 18);
  EXPECT_EQ(parameters(false), 0);
}

// One number of each head that falls from the first to the last is no table of cosines.
TEST(OnnxInitializer, OfANumberForEachHeadIsAParameter) {
  OnnxWriter w;
  w.input("x", {"2", "4", "3", "5"}, 1);
  const std::string made = w.node("Mul", {"x", w.floats({4, 1, 1}, {2.5F, 2.25F, 2.0F, 1.75F})});
  EXPECT_EQ(parameter_count(build_forward_graph(read_model_bytes(w.finish(made), "m.onnx", {}), {.batch = 2})), 4);
}

// Rows of all samples in one dimension, of which each sample picks its own at sample * 3 + place.
TEST(OnnxGather, OfEachSamplesOwnRowIsAChoiceWithinIt) {
  for (const std::string batch : {"2", "batch"}) {
    OnnxWriter w;
    w.input("x", {batch, "3", "4"}, 1).input("ids", {batch, "3"});
    const std::string place = w.node("ArgMax", {"ids"}, {.numbers = {{"axis", 1}, {"keepdims", 0}}});
    const std::string size = w.node("Gather", {w.node("Shape", {"x"}), w.integers({0})});
    const std::string zero = w.node("Squeeze", {w.integers({0})}), one = w.node("Squeeze", {w.integers({1})});
    const std::string samples = w.node("Range", {zero, w.node("Squeeze", {size}), one});
    const std::string rows = w.node("Reshape", {"x", w.integers({-1, 4})});
    const std::string picked =
        w.node("Gather", {rows, w.node("Add", {place, w.node("Mul", {samples, w.integers({3})})})});
    const Graph graph = build_forward_graph(read_model_bytes(w.finish(picked), "m.onnx", {}), {.batch = 5});
    EXPECT_EQ(graph_flops(graph).si(), 2.0 * 5 * 3 * 4) << batch;  // a row of 0 and a 1 times (3, 4)
  }
}

}  // namespace
}  // namespace meshwright::choices_test
