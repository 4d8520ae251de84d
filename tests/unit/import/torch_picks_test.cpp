// SPDX-License-Identifier: Apache-2.0
// What PyTorch's exported programs pick, cut, transform and repeat, held against numbers that decode by eye.
#include <gtest/gtest.h>

#include <string>

#include "core/graph/import/model_file.h"
#include "executor/check/graph_interpreter.h"
#include "tests/unit/import/torch_program.h"

namespace meshwright::torch_picks_test {
namespace {

using Numbers = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

Json whole(std::int64_t value) { return {{"as_int", value}}; }
Json wholes(const Sizes& values) { return {{"as_ints", values}}; }
Json real(double value) { return {{"as_float", value}}; }

// What the calls make of x = 0, 1, 2, ..., their last result being z: in rows of each sample, times the identity.
Numbers result_of(const Sizes& x, std::vector<Json> calls, std::int64_t width, const Sizes& p = {1}) {
  const auto sized = [](const Sizes& dims) {
    Json sizes = Json::array();
    for (const std::int64_t dim : dims) sizes.push_back(whole(dim));
    return Json{{"dtype", 7}, {"sizes", sizes}};
  };
  calls.push_back(call("reshape", {{"self", tensor_named("z")}, {"size", wholes({x[0], width})}}, "rows"));
  calls.push_back(call("mm", {{"self", tensor_named("rows")}, {"mat2", tensor_named("m")}}, "y"));
  const auto parameter = [](const std::string& name) -> Json {
    return {{"parameter", {{"arg", {{"name", name}}}, {"parameter_name", name}}}};
  };
  const Json inputs = Json::array({{{"user_input", {{"arg", tensor_named("x")}}}}, parameter("m"), parameter("p")});
  const Json json = {
      {"graph_module",
       {{"graph",
         {{"nodes", calls}, {"tensor_values", {{"x", sized(x)}, {"m", sized({width, width})}, {"p", sized(p)}}}}},
        {"signature",
         {{"input_specs", inputs}, {"output_specs", Json::array({{{"user_output", {{"arg", tensor_named("y")}}}}})}}}}},
      {"schema_version", {{"major", 8}, {"minor", 20}}}};
  const Graph graph =
      build_training_graph(read_model_bytes(json.dump(), "m.pt2.json", {}), {.batch = x[0], .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    Numbers values;
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      values.push_back(tensor.name == "m" ? (i % (width + 1) == 0 ? 1.0 : 0.0) : static_cast<double>(i));
    if (tensor.name == "x" || tensor.name == "m" || tensor.name == "p") interpreter.set(tensor.id, values);
  }
  interpreter.run(Phase::Forward);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::SquaredErrorLoss || op.kind == OpKind::PickLabel) return interpreter.get(op.inputs[0]);
  ADD_FAILURE() << "no loss";
  return {};
}

void expect_near(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << "element " << i;
}

Json counted(std::int64_t end, const std::string& name) { return call("arange", {{"end", whole(end)}}, name); }
Json with_number(const char* op, const std::string& x, std::int64_t other, const std::string& name) {
  return call(op, {{"self", tensor_named(x)}, {"other", whole(other)}}, name);
}
Json indexed_inside(const std::string& ids) {
  return call("index",
              {{"self", tensor_named("x")},
               {"indices", {{"as_optional_tensors", Json::array({{{"as_none", true}}, tensor_named(ids)})}}}},
              "z");
}

// The 5 features in reverse.
TEST(TorchPicks, AListOfFeaturesMayHaveAnyOrder) {
  EXPECT_EQ(result_of({2, 5},
                      {counted(5, "i"), call("neg", {{"self", tensor_named("i")}}, "n"),
                       with_number("add", "n", 4, "back"), indexed_inside("back")},
                      5),
            (Numbers{4, 3, 2, 1, 0, 9, 8, 7, 6, 5}));
}
// Features 0 2, 1 3: a list of two dimensions makes two of one.
TEST(TorchPicks, AnIndexMayHaveAnyRank) {
  EXPECT_EQ(result_of({2, 4},
                      {counted(4, "i"), call("view", {{"self", tensor_named("i")}, {"size", wholes({2, 2})}}, "v"),
                       call("t", {{"self", tensor_named("v")}}, "ids"), indexed_inside("ids")},
                      4),
            (Numbers{0, 2, 1, 3, 4, 6, 5, 7}));
}
// Score 5 q + d of distance d = q - k + 2: keys 0, 1, 2 of query 0 have distances 2, 1, 0.
TEST(TorchPicks, ScoresMayBeGatheredByDistance) {
  const Numbers one = {2, 1, 0, 8, 7, 6, 14, 13, 12};
  Numbers expected = one;
  for (const double score : one) expected.push_back(score + 15.0);
  EXPECT_EQ(result_of({2, 3, 5},
                      {counted(3, "k"), call("unsqueeze", {{"self", tensor_named("k")}, {"dim", whole(-1)}}, "q"),
                       call("sub", {{"self", tensor_named("q")}, {"other", tensor_named("k")}}, "apart"),
                       with_number("add", "apart", 2, "places"),
                       call("expand", {{"self", tensor_named("places")}, {"size", wholes({2, 3, 3})}}, "all"),
                       call("gather", {{"self", tensor_named("x")}, {"dim", whole(-1)}, {"index", tensor_named("all")}},
                            "z")},
                      9),
            expected);
}
// 2.5 is 3 upwards, 2 downwards and to the nearest even number, and has the sign 1.
TEST(TorchPicks, ConstantsAreRounded) {
  for (const auto& [op, expected] : std::map<std::string, double>{{"ceil", 3}, {"floor", 2}, {"round", 2}, {"sign", 1}})
    EXPECT_EQ(result_of({1, 2},
                        {call("full", {{"size", wholes({1})}, {"fill_value", real(2.5)}}, "c"),
                         call(op, {{"self", tensor_named("c")}}, "r"),
                         call("add", {{"self", tensor_named("x")}, {"other", tensor_named("r")}}, "z")},
                        2),
              (Numbers{expected, 1 + expected}))
        << op;
}
// 3 / 2 is 1.5 where no rounding is asked for; 5 / 2 of numbers with a point is rounded downwards, too.
TEST(TorchPicks, WholeNumbersAreDividedWithWhatIsBehindThePoint) {
  const auto quotient = [](const Json& number, const std::vector<std::pair<std::string, Json>>& more) {
    std::vector<std::pair<std::string, Json>> inputs = {{"self", tensor_named("c")}, {"other", whole(2)}};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return std::vector<Json>{
        call("scalar_tensor", {{"s", number}, {"dtype", {{"as_scalar_type", number.contains("as_int") ? 5 : 7}}}}, "c"),
        call("div", inputs, "r"), call("add", {{"self", tensor_named("x")}, {"other", tensor_named("r")}}, "z")};
  };
  EXPECT_EQ(result_of({1, 2}, quotient(whole(3), {}), 2), (Numbers{1.5, 2.5}));
  EXPECT_EQ(result_of({1, 2}, quotient(real(5.0), {{"rounding_mode", {{"as_string", "floor"}}}}), 2), (Numbers{2, 3}));
}
// The mean of 0 to 7, and of the two depths 0 to 3 and 4 to 7.
TEST(TorchPicks, VolumesAreAveragedToAnySize) {
  const auto pooled = [](const Sizes& to) {
    return std::vector<Json>{
        call("adaptive_avg_pool3d", {{"self", tensor_named("x")}, {"output_size", wholes(to)}}, "z")};
  };
  expect_near(result_of({1, 1, 2, 2, 2}, pooled({1, 1, 1}), 1), {3.5});
  expect_near(result_of({1, 1, 2, 2, 2}, pooled({2, 1, 1}), 2), {1.5, 5.5});
}
TEST(TorchPicks, WhatIsNewAndEmptyHasItsSize) {
  EXPECT_EQ(result_of({1, 2},
                      {call("new_empty", {{"self", tensor_named("x")}, {"size", wholes({1})}}, "e"),
                       call("zero", {{"self", tensor_named("e")}}, "none"),
                       call("add", {{"self", tensor_named("x")}, {"other", tensor_named("none")}}, "z")},
                      2),
            (Numbers{0, 1}));
}
// Windows of two of 0 1 2: 0 1 and 1 2, element by element.
TEST(TorchPicks, WindowsAreColumns) {
  EXPECT_EQ(result_of({1, 1, 1, 3},
                      {call("im2col",
                            {{"self", tensor_named("x")},
                             {"kernel_size", wholes({1, 2})},
                             {"dilation", wholes({1, 1})},
                             {"padding", wholes({0, 0})},
                             {"stride", wholes({1, 1})}},
                            "z")},
                      4),
            (Numbers{0, 1, 1, 2}));
}
// 0 1 2 3 of length 2: times 1 / sqrt(4), a sum of 3 and waves of -1 + i, -1, -1 - i.
TEST(TorchPicks, FourierTransformsHaveTheirNorm) {
  expect_near(result_of({1, 4},
                        {call("fft_fft", {{"self", tensor_named("x")}, {"norm", {{"as_string", "ortho"}}}}, "f"),
                         call("real", {{"self", tensor_named("f")}}, "z")},
                        4),
              {3, -1, -1, -1});
  expect_near(result_of({1, 4},
                        {call("fft_rfft", {{"self", tensor_named("x")}}, "f"),
                         call("fft_irfft", {{"self", tensor_named("f")}, {"n", whole(4)}}, "z")},
                        4),
              {0, 1, 2, 3});
}
// A row of p for each of the file's samples: x . (0 1) for each of any.
TEST(TorchPicks, FactorsRepeatedForTheFilesBatchAreThereForAny) {
  EXPECT_EQ(result_of({2, 1, 2},
                      {call("unsqueeze", {{"self", tensor_named("p")}, {"dim", whole(0)}}, "one"),
                       call("expand", {{"self", tensor_named("one")}, {"size", wholes({2, 1, 2})}}, "all"),
                       call("einsum",
                            {{"equation", {{"as_string", "bid,bjd->bij"}}},
                             {"tensors", {{"as_tensors", Json::array({{{"name", "x"}}, {{"name", "all"}}})}}}},
                            "z")},
                      1, {1, 2}),
            (Numbers{1, 3}));
}

// The same, of two heads whose rows are repeated with the samples in one dimension: of 0 1, 2 3 as x, p = 0 1, 2 3.
TEST(TorchPicks, RowsOfHeadsRepeatedForTheFilesBatchAreThereForAny) {
  EXPECT_EQ(result_of({2, 2, 1, 2},
                      {call("view", {{"self", tensor_named("x")}, {"size", wholes({4, 1, 2})}}, "heads"),
                       call("view", {{"self", tensor_named("p")}, {"size", wholes({2, 2, 1})}}, "columns"),
                       call("repeat", {{"self", tensor_named("columns")}, {"repeats", wholes({2, 1, 1})}}, "all"),
                       call("bmm", {{"self", tensor_named("heads")}, {"mat2", tensor_named("all")}}, "z")},
                      2, {2, 2}),
            (Numbers{1, 13, 5, 33}));
}

// x^2 - 6 x of 0 1 2 and 3 4 5 is 0 -5 -8 and -9 -8 -5: the largest are at 0 and 2. One ahead of the first is the last.
TEST(TorchPicks, EachSampleMayBePickedFromWhereItsOwnLargestElementIs) {
  const auto picked = [](std::int64_t ahead) {
    return result_of({2, 3},
                     {call("mul", {{"self", tensor_named("x")}, {"other", tensor_named("x")}}, "square"),
                      with_number("mul", "x", 6, "six"),
                      call("sub", {{"self", tensor_named("square")}, {"other", tensor_named("six")}}, "bent"),
                      call("argmax", {{"self", tensor_named("bent")}, {"dim", whole(-1)}}, "largest"),
                      with_number("sub", "largest", ahead, "place"), counted(2, "samples"),
                      call("index",
                           {{"self", tensor_named("x")},
                            {"indices", {{"as_tensors", Json::array({{{"name", "samples"}}, {{"name", "place"}}})}}}},
                           "z")},
                     1);
  };
  EXPECT_EQ(picked(0), (Numbers{0, 5}));
  EXPECT_EQ(picked(1), (Numbers{2, 4}));
}
// In the rows 0 1 2 and 3 4 5 the first elements above 0 are at 1 and at 0.
TEST(TorchPicks, TheFirstOfEqualElementsIsTheLargest) {
  EXPECT_EQ(result_of({2, 3},
                      {with_number("gt", "x", 0, "above"),
                       call("argmax", {{"self", tensor_named("above")}, {"dim", whole(1)}}, "first"),
                       call("to", {{"self", tensor_named("first")}, {"dtype", {{"as_scalar_type", 7}}}}, "z")},
                      1),
            (Numbers{1, 0}));
}
// Two windows of each sample, x = 0 1, 2 3 and 4 5, 6 7, plus p = 0 1 and the windows' own 0 1, 2 3.
TEST(TorchPicks, SumsOfRowsRepeatedForTheFilesBatchAreThereForAny) {
  EXPECT_EQ(result_of({2, 2, 2},
                      {call("view", {{"self", tensor_named("x")}, {"size", wholes({4, 2})}}, "windows"),
                       counted(4, "numbers"),
                       call("view", {{"self", tensor_named("numbers")}, {"size", wholes({1, 2, 2})}}, "mask"),
                       call("expand", {{"self", tensor_named("mask")}, {"size", wholes({2, 2, 2})}}, "all"),
                       call("view", {{"self", tensor_named("all")}, {"size", wholes({4, 2})}}, "rows_of_all"),
                       call("add", {{"self", tensor_named("p")}, {"other", tensor_named("rows_of_all")}}, "sum"),
                       call("add", {{"self", tensor_named("windows")}, {"other", tensor_named("sum")}}, "z")},
                      4, {1, 2}),
            (Numbers{0, 3, 4, 7, 4, 7, 8, 11}));
}
// Rows 0 1, 2 3 and 4 5, 6 7 times p = 0 1, 2 3, which stands once for each of two rows of two samples.
TEST(TorchPicks, FactorsRepeatedForRowsAndTheFilesBatchTogetherAreThereForAny) {
  EXPECT_EQ(result_of({2, 2, 2},
                      {call("view", {{"self", tensor_named("x")}, {"size", wholes({4, 1, 2})}}, "rows_of_x"),
                       call("expand", {{"self", tensor_named("p")}, {"size", wholes({2, 2, 2, 2})}}, "all"),
                       call("view", {{"self", tensor_named("all")}, {"size", wholes({4, 2, 2})}}, "factors"),
                       call("bmm", {{"self", tensor_named("rows_of_x")}, {"mat2", tensor_named("factors")}}, "z")},
                      4, {2, 2}),
            (Numbers{2, 3, 6, 11, 10, 19, 14, 27}));
}
TEST(TorchPicks, AProductOfZerosIsOfZeros) {
  EXPECT_EQ(result_of({2, 2},
                      {call("zeros_like", {{"self", tensor_named("x")}}, "none"),
                       call("mm", {{"self", tensor_named("none")}, {"mat2", tensor_named("p")}}, "product"),
                       call("add", {{"self", tensor_named("x")}, {"other", tensor_named("product")}}, "z")},
                      2, {2, 2}),
            (Numbers{0, 1, 2, 3}));
}
// Sums of halves, 0.5 and 1, are 1 and 1 upwards: only known numbers are rounded.
TEST(TorchPicks, WhatIsMadeOfOnesForEachSampleIsKnown) {
  EXPECT_EQ(result_of({2, 2},
                      {call("full_like", {{"self", tensor_named("x")}, {"fill_value", real(0.5)}}, "halves"),
                       call("cumsum", {{"self", tensor_named("halves")}, {"dim", whole(1)}}, "sums"),
                       call("ceil", {{"self", tensor_named("sums")}}, "r"),
                       call("add", {{"self", tensor_named("x")}, {"other", tensor_named("r")}}, "z")},
                      2),
            (Numbers{1, 2, 3, 4}));
}
// A mask of ones, 3 x 3, is one of ones, 2 x 2, by any filter.
TEST(TorchPicks, EqualElementsAreResizedToEqualOnes) {
  EXPECT_EQ(
      result_of({1, 1, 2, 2},
                {call("full", {{"size", wholes({1, 1, 3, 3})}, {"fill_value", real(2.5)}}, "c"),
                 call("upsample_nearest2d", {{"input", tensor_named("c")}, {"output_size", wholes({2, 2})}}, "resized"),
                 call("ceil", {{"self", tensor_named("resized")}}, "r"),
                 call("add", {{"self", tensor_named("x")}, {"other", tensor_named("r")}}, "z")},
                4),
      (Numbers{3, 4, 5, 6}));
}

}  // namespace
}  // namespace meshwright::torch_picks_test
