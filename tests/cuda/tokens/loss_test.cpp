// SPDX-License-Identifier: Apache-2.0
// Losses on the device against the processor's in double.
#include "kernels/cuda/tokens/loss.h"

#include <cmath>
#include <limits>

#include "executor/cuda/cuda_device.h"
#include "kernels/cpu/tokens/loss.h"
#include "tests/cuda/typed_ops.h"
#include "tests/cuda/whole_ops.h"

namespace meshwright::kernels::cuda::loss_test {
namespace {

template <class Number>
class CudaLoss : public testing::Test {};
using Numbers = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaLoss, Numbers);

struct Size {
  std::int64_t rows, width;
};
// A row is a warp's up to 1024, then a block's; odd widths begin each row at another address modulo 16.
const std::vector<Size> kSizes = {{1, 1},  {70, 1},   {3, 7},    {40, 33},  {9, 256},
                                  {5, 77}, {3, 1024}, {3, 1025}, {2, 5003}, {1, 9000}};

// Logits of `rows` rows of `width`, and what the pieces of a loss are of them, each as the device holds it.
template <class T>
struct Rows {
  Values x, largest, sum, labels;

  Rows(Size size, std::int64_t first) : x(numbers<T>(size.rows * size.width, 5, -6.0, 6.0)) {
    largest = same(size.rows, 0.0);
    sum = largest;
    labels = whole_numbers(size.rows, 6, first - size.width / 2, first + size.width + 1);
    kernels::row_max(x.data(), largest.data(), size.rows, size.width);
    kernels::sum_exp(x.data(), largest.data(), sum.data(), size.rows, size.width);
  }
};

// What is computed in rounds each term, and exponentials of 16-bit numbers may be off by 1.2 |x| + 2 of its places.
template <class T>
double slack(std::int64_t width) {
  return (40.0 + static_cast<double>(width) / 32) * kHalfPlace<Wide<T>>;
}

TYPED_TEST(CudaLoss, TheLargestOfARowIsExact) {
  using W = Wide<TypeParam>;
  for (const Size size : kSizes) {
    const Rows<TypeParam> rows(size, 0);
    const DeviceArray<TypeParam> x(rows.x);
    auto out = DeviceArray<W>::of_size(size.rows);
    row_max(kNoStream, x.data(), out.data(), size.rows, size.width);
    EXPECT_EQ(out.values(), rows.largest);
  }
}

TYPED_TEST(CudaLoss, SumsOfExponentialsFollowTheLargest) {
  using W = Wide<TypeParam>;
  for (const Size size : kSizes) {
    const Rows<TypeParam> rows(size, 0);
    const DeviceArray<TypeParam> x(rows.x);
    const DeviceArray<W> largest(rows.largest);
    auto out = DeviceArray<W>::of_size(size.rows), again = DeviceArray<W>::of_size(size.rows);
    sum_exp(kNoStream, x.data(), largest.data(), out.data(), size.rows, size.width);
    expect_rounded<W>(out.values(), rows.sum, slack<TypeParam>(size.width));
    sum_exp(kNoStream, x.data(), largest.data(), again.data(), size.rows, size.width);
    EXPECT_EQ(out.values(), again.values());
  }
}

// The same numbers one element further.
TYPED_TEST(CudaLoss, RowsMayBeginAnywhere) {
  using W = Wide<TypeParam>;
  const Size size{3, 2050};
  const Rows<TypeParam> rows(size, 0);
  Values shifted = {9.0};
  shifted.insert(shifted.end(), rows.x.begin(), rows.x.end());
  const DeviceArray<TypeParam> x(shifted);
  const DeviceArray<W> largest(rows.largest), sum(rows.sum);
  const DeviceArray<std::int32_t> labels(rows.labels);
  auto out = DeviceArray<W>::of_size(3);
  row_max(kNoStream, x.data() + 1, out.data(), size.rows, size.width);
  EXPECT_EQ(out.values(), rows.largest);
  sum_exp(kNoStream, x.data() + 1, largest.data(), out.data(), size.rows, size.width);
  expect_rounded<W>(out.values(), rows.sum, slack<TypeParam>(size.width));
  auto one = DeviceArray<TypeParam>::of_size(3 * 2050), other = DeviceArray<TypeParam>::of_size(3 * 2050 + 1);
  for (TypeParam* dx : {one.data(), other.data() + 1})
    cross_entropy_backward(kNoStream, x.data() + 1,
                           {.largest = largest.data(), .sum = sum.data(), .labels = labels.data()}, dx,
                           {size.rows, size.width, 0}, LossFactor<W>{});
  Values behind = other.values();
  behind.erase(behind.begin());
  EXPECT_EQ(one.values(), behind);
}

TYPED_TEST(CudaLoss, LabelsArePickedInTheirPart) {
  using W = Wide<TypeParam>;
  for (const Size size : {Size{1, 1}, Size{700, 9}}) {
    const std::int64_t first = 100;
    const Rows<TypeParam> rows(size, first);
    const DeviceArray<TypeParam> x(rows.x);
    const DeviceArray<std::int32_t> labels(rows.labels);
    auto out = DeviceArray<W>::of_size(size.rows);
    pick_label(kNoStream, x.data(), labels.data(), out.data(), {size.rows, size.width, first});
    Values expected = same(size.rows, 0.0);
    kernels::pick_label(rows.x.data(), integers_of(rows.labels).data(), expected.data(),
                        {size.rows, size.width, first});
    EXPECT_EQ(out.values(), expected);
  }
}

TYPED_TEST(CudaLoss, CrossEntropyReadsItsFactorOnTheDevice) {
  using W = Wide<TypeParam>;
  for (const std::int64_t n : {1, 31, 1000, 20000}) {
    const Values largest = numbers<W>(n, 1), sum = numbers<W>(n, 2, 1.0, 50.0), picked = numbers<W>(n, 3);
    Values weights = numbers<W>(n, 4, 0.0, 2.0);
    for (std::size_t i = 0; i < weights.size(); i += 3) weights[i] = 0.0;
    const DeviceArray<W> on_largest(largest), on_sum(sum), on_picked(picked), on_weights(weights), total(Values{6.25}),
        scaling(Values{-3.0, 5.0, 1.0});
    auto workspace = DeviceArray<std::int8_t>::of_size(static_cast<std::int64_t>(loss_workspace()));
    auto out = DeviceArray<W>::of_size(1), again = DeviceArray<W>::of_size(1);
    const LossFactor<W> factor{.scale = 0.5, .total = total.data(), .first = 1024.0, .scaling = scaling.data()};
    for (const bool weighted : {false, true}) {
      const double size = 0.5 * 128.0 / 6.25 * 10.0 * static_cast<double>(n);
      for (DeviceArray<W>* result : {&out, &again})
        cross_entropy(kNoStream,
                      {.largest = on_largest.data(),
                       .sum = on_sum.data(),
                       .picked = on_picked.data(),
                       .weights = weighted ? on_weights.data() : nullptr},
                      result->data(), n, factor, workspace.data());
      const double expected = kernels::cross_entropy<double>({.largest = largest.data(),
                                                              .sum = sum.data(),
                                                              .picked = picked.data(),
                                                              .weights = weighted ? weights.data() : nullptr},
                                                             n, 0.5 * 128.0 / 6.25);
      expect_rounded<W>(out.values(), {expected}, 1e-14, {size});
      EXPECT_EQ(out.values(), again.values());
    }
  }
}

TYPED_TEST(CudaLoss, TheGradientIsTheProbabilityLessTheLabel) {
  using W = Wide<TypeParam>;
  for (const Size size : kSizes) {
    const std::int64_t first = 1000;
    Rows<TypeParam> rows(size, first);
    rows.sum = rounded_to<W>(rows.sum);
    const Values weights = numbers<W>(size.rows, 7, 0.0, 2.0);
    const DeviceArray<TypeParam> x(rows.x);
    const DeviceArray<W> largest(rows.largest), sum(rows.sum), given(weights), total(Values{8.0}),
        scaling(Values{2.0, 0.0, 0.0});
    const DeviceArray<std::int32_t> labels(rows.labels);
    auto dx = DeviceArray<TypeParam>::of_size(size.rows * size.width);
    for (const bool weighted : {false, true}) {
      const LossFactor<W> factor{.scale = 3.0, .total = total.data(), .first = 0.5, .scaling = scaling.data()};
      const double scale = 3.0 * 0.5 * 4.0 / 8.0;
      cross_entropy_backward(kNoStream, x.data(),
                             {.largest = largest.data(),
                              .sum = sum.data(),
                              .labels = labels.data(),
                              .weights = weighted ? given.data() : nullptr},
                             dx.data(), {size.rows, size.width, first}, factor);
      Values expected = same(size.rows * size.width, 0.0), room = expected;
      const std::vector<std::int32_t> of_row = integers_of(rows.labels);
      kernels::cross_entropy_backward(rows.x.data(),
                                      {.largest = rows.largest.data(),
                                       .sum = rows.sum.data(),
                                       .labels = of_row.data(),
                                       .weights = weighted ? weights.data() : nullptr},
                                      expected.data(), {size.rows, size.width, first}, scale);
      const std::vector<std::int32_t> nowhere(of_row.size(), -1);
      kernels::cross_entropy_backward(rows.x.data(),
                                      {.largest = rows.largest.data(),
                                       .sum = rows.sum.data(),
                                       .labels = nowhere.data(),
                                       .weights = weighted ? weights.data() : nullptr},
                                      room.data(), {size.rows, size.width, first}, scale);
      for (std::size_t r = 0; r < of_row.size(); ++r) {  // a label's gradient is a difference
        const std::int64_t label = of_row[r] - first;
        if (label >= 0 && label < size.width)
          room[r * static_cast<std::size_t>(size.width) + static_cast<std::size_t>(label)] += 2 * scale;
      }
      expect_rounded<TypeParam>(dx.values(), expected, 50 * kHalfPlace<W>, room);
    }
  }
}

// What may not be chosen has the logit -infinity: no probability, no gradient.
TYPED_TEST(CudaLoss, ClassesMayBeLeftOut) {
  using W = Wide<TypeParam>;
  const double none = -std::numeric_limits<double>::infinity();
  const DeviceArray<TypeParam> x(Values{none, 1.0, none, 1.0});
  const DeviceArray<std::int32_t> labels(Values{3.0});
  auto largest = DeviceArray<W>::of_size(1), sum = DeviceArray<W>::of_size(1);
  auto dx = DeviceArray<TypeParam>::of_size(4);
  row_max(kNoStream, x.data(), largest.data(), 1, 4);
  sum_exp(kNoStream, x.data(), largest.data(), sum.data(), 1, 4);
  cross_entropy_backward(kNoStream, x.data(), {.largest = largest.data(), .sum = sum.data(), .labels = labels.data()},
                         dx.data(), {1, 4, 0}, LossFactor<W>{});
  EXPECT_EQ(sum.values(), Values{2.0});
  EXPECT_EQ(dx.values(), (Values{0.0, 0.5, 0.0, -0.5}));
}

// --- in one pass over the logits ---

template <class T>
struct OnePass {
  using W = Wide<T>;
  DeviceArray<W> largest, sum, picked;

  OnePass(const DeviceArray<T>& x, Size size, const DeviceArray<std::int32_t>* labels, std::int64_t first = 0)
      : largest(DeviceArray<W>::of_size(size.rows)),
        sum(DeviceArray<W>::of_size(size.rows)),
        picked(DeviceArray<W>::of_size(size.rows)) {
    cross_entropy_rows(kNoStream, x.data(), labels == nullptr ? nullptr : labels->data(),
                       {largest.data(), sum.data(), labels == nullptr ? nullptr : picked.data()},
                       {size.rows, size.width, first});
  }
};

TYPED_TEST(CudaLoss, OnePassFindsWhatThreeDo) {
  for (const Size size : kSizes) {
    const std::int64_t first = 100;
    const Rows<TypeParam> rows(size, first);
    const DeviceArray<TypeParam> x(rows.x);
    const DeviceArray<std::int32_t> labels(rows.labels);
    const OnePass<TypeParam> found(x, size, &labels, first), again(x, size, nullptr);
    EXPECT_EQ(found.largest.values(), rows.largest);
    expect_rounded<Wide<TypeParam>>(found.sum.values(), rows.sum, slack<TypeParam>(size.width));
    Values picked = same(size.rows, 0.0);
    kernels::pick_label(rows.x.data(), integers_of(rows.labels).data(), picked.data(), {size.rows, size.width, first});
    EXPECT_EQ(found.picked.values(), picked);
    EXPECT_EQ(again.largest.values(), rows.largest);
    EXPECT_EQ(again.sum.values(), found.sum.values());
  }
}

// Where each chunk is larger than all before it, every sum so far is scaled down again and again.
TYPED_TEST(CudaLoss, OnePassScalesSumsDownToLargerChunks) {
  const Size size{1, 9000};
  Values rising(9000);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = -8.0 + static_cast<double>(i / 250) * 0.5;
  Values largest = same(1, 0.0), sum = largest;
  kernels::row_max(rising.data(), largest.data(), 1, 9000);
  kernels::sum_exp(rising.data(), largest.data(), sum.data(), 1, 9000);
  const OnePass<TypeParam> found(DeviceArray<TypeParam>(rising), size, nullptr);
  EXPECT_EQ(found.largest.values(), largest);
  expect_rounded<Wide<TypeParam>>(found.sum.values(), sum, slack<TypeParam>(9000));
}

TYPED_TEST(CudaLoss, OnePassMayMeetClassesThatAreLeftOut) {
  const double none = -std::numeric_limits<double>::infinity();
  for (const std::int64_t width : {40, 4000}) {
    Values row(static_cast<std::size_t>(width), none);
    row[1] = row.back() = 1.0;
    const OnePass<TypeParam> found(DeviceArray<TypeParam>(row), {1, width}, nullptr);
    EXPECT_EQ(found.largest.values(), Values{1.0});
    EXPECT_EQ(found.sum.values(), Values{2.0});
  }
}

// As sums behind a maximum do: what went wrong in training is not covered up.
TYPED_TEST(CudaLoss, OnePassKeepsWhatIsNoNumber) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t width : {40, 4000})
    for (const auto& [usual, odd] : {std::pair{1.0, nan}, {-infinity, nan}, {1.0, infinity}, {-infinity, -infinity}}) {
      Values row(static_cast<std::size_t>(width), usual);
      row[static_cast<std::size_t>(width) / 2] = odd;
      const OnePass<TypeParam> found(DeviceArray<TypeParam>(row), {1, width}, nullptr);
      EXPECT_TRUE(std::isnan(found.sum.values()[0])) << usual << " and " << odd;
    }
}

TYPED_TEST(CudaLoss, SquaredErrorsAreAddedUp) {
  using W = Wide<TypeParam>;
  for (const std::int64_t n : {1, 7, 64, 4099, 40001}) {
    const Values x = numbers<TypeParam>(n, 8), y = numbers<TypeParam>(n, 9);
    const DeviceArray<TypeParam> on_x(x), on_y(y);
    auto workspace = DeviceArray<std::int8_t>::of_size(static_cast<std::int64_t>(loss_workspace()));
    auto out = DeviceArray<W>::of_size(1), again = DeviceArray<W>::of_size(1);
    for (DeviceArray<W>* result : {&out, &again})
      squared_error(kNoStream, on_x.data(), on_y.data(), result->data(), n, 0.125, workspace.data());
    const double rounding = sizeof(TypeParam) == 8 ? static_cast<double>(n) * 0x1p-53 : 16 * kHalfPlace<W>;
    expect_rounded<W>(out.values(), {kernels::squared_error(x.data(), y.data(), n, 0.125)}, rounding);
    EXPECT_EQ(out.values(), again.values());
    auto dx = DeviceArray<TypeParam>::of_size(n);
    const DeviceArray<W> scaling(Values{1.0, 0.0, 0.0});
    squared_error_backward(kNoStream, on_x.data(), on_y.data(), dx.data(), n,
                           LossFactor<W>{.scale = 0.125, .first = 4.0, .scaling = scaling.data()});
    Values expected = same(n, 0.0);
    kernels::squared_error_backward(x.data(), y.data(), expected.data(), n, 1.0);
    expect_rounded<TypeParam>(dx.values(), expected, 4 * kHalfPlace<W>);
  }
}

// --- ops, of BF16 with what is summed in F32, on the second half of the classes ---

const Dim kRows{"rows", 6}, kClasses{"classes", 20}, kScaling{"scaling", 3};
const OpOperand kLogits{DType::BF16, {kRows, kClasses}}, kOfRow{DType::F32, {kRows}}, kScalar{DType::F32, {}},
    kLabels{DType::I32, {kRows}};
const Values kHalfOfLogits = numbers<Bf16>(60, 11, -3.0, 3.0), kHere = {10, 19, 3, 12, 0, 15};

void expect_op(OpKind kind, const Attributes& attributes, const std::vector<OpOperand>& operands,
               const std::vector<Values>& values, const std::string& split, double tolerance) {
  const OpResults results = run_typed(cuda_loss_kernel(kind), kind, attributes, operands, values, split,
                                      split.empty() ? 1 : 2, split.empty() ? 0 : 1);
  ASSERT_EQ(results.found.size(), 1U);
  for (std::size_t i = 0; i < results.expected[0].size(); ++i)
    EXPECT_NEAR(results.found[0][i], results.expected[0][i], tolerance * std::abs(results.expected[0][i]) + 1e-6)
        << name_of(kind) << ", element " << i;
}

TEST(CudaLossOps, KnowWhichClassesTheyHave) {
  const Values largest = same(6, 3.0), sum = numbers<float>(6, 12, 5.0, 9.0), weights = {1, 0, 2, 0.5, 1, 1};
  expect_op(OpKind::RowMax, {}, {kLogits}, {kHalfOfLogits}, "classes", 0.0);
  expect_op(OpKind::SumExp, {}, {kLogits, kOfRow}, {kHalfOfLogits, largest}, "classes", 1e-5);
  expect_op(OpKind::PickLabel, {}, {kLogits, kLabels}, {kHalfOfLogits, kHere}, "classes", 0.0);
  for (const bool weighted : {false, true})
    for (const double loss_scale : {0.0, 16.0}) {
      std::vector<OpOperand> operands = {kLogits, kOfRow, kOfRow, kLabels};
      std::vector<Values> values = {kHalfOfLogits, largest, sum, kHere};
      if (weighted) {
        operands.insert(operands.end(), {kOfRow, kScalar});
        values.insert(values.end(), {weights, {5.5}});
      }
      if (loss_scale > 0.0) {
        operands.push_back({DType::F32, {kScaling}});
        values.push_back({-1.0, 4.0, 2.0});
      }
      expect_op(OpKind::CrossEntropyBackward, {.scale = 0.25, .loss_scale = loss_scale}, operands, values, "classes",
                kHalfPlace<Bf16>);
    }
}

TEST(CudaLossOps, LossesAreScalarsOfWhatIsSummedIn) {
  const Values largest = same(6, 3.0), sum = numbers<float>(6, 12, 5.0, 9.0), picked = numbers<float>(6, 13);
  expect_op(OpKind::CrossEntropyLoss, {.scale = 0.25}, {kOfRow, kOfRow, kOfRow}, {largest, sum, picked}, "", 1e-6);
  expect_op(OpKind::CrossEntropyLoss, {.scale = 0.25}, {kOfRow, kOfRow, kOfRow, kOfRow, kScalar},
            {largest, sum, picked, {1, 0, 2, 0.5, 1, 1}, {5.5}}, "", 1e-6);
  const OpOperand x{DType::BF16, {kRows, kClasses}};
  const std::vector<Values> halves = {kHalfOfLogits, numbers<Bf16>(60, 14)};
  expect_op(OpKind::SquaredErrorLoss, {.scale = 0.5}, {x, x}, halves, "classes", 1e-6);
  expect_op(OpKind::SquaredErrorBackward, {.scale = 0.5}, {x, x}, halves, "classes", kHalfPlace<Bf16>);
  expect_op(OpKind::SquaredErrorBackward, {.scale = 0.5, .loss_scale = 8.0}, {x, x, {DType::F32, {kScaling}}},
            {halves[0], halves[1], {2.0, 0.0, 0.0}}, "classes", kHalfPlace<Bf16>);
}

// A maximum that is not of the type that logits are summed in would be read as something else.
TEST(CudaLossOps, RefuseOperandsOfAnotherType) {
  const OpOperand narrow{DType::BF16, {kRows}};
  EXPECT_THROW(
      run_typed(cuda_loss_kernel(OpKind::CrossEntropyBackward), OpKind::CrossEntropyBackward, {.scale = 1.0},
                {kLogits, narrow, narrow, kLabels}, {numbers<Bf16>(120, 11), same(6, 3.0), same(6, 5.0), kHere}),
      InternalError);
}

// --- by a device ---

// The maxima, sums and picked logits of 6 x 20 logits; what the device joins of them.
struct JoinedRows {
  Graph graph;
  std::vector<OpCallPlan> calls;
  Values logits = numbers<Bf16>(120, 13, -3.0, 3.0);
  DeviceArray<Bf16> x{logits};
  DeviceArray<std::int32_t> labels{kHere};
  DeviceArray<float> largest = DeviceArray<float>::of_size(6), sum = DeviceArray<float>::of_size(6),
                     picked = DeviceArray<float>::of_size(6);
  CudaDevice device{0, false, [](DType type) { return type; }};

  JoinedRows() {
    graph.dtype = DType::BF16;
    const TensorId of_logits = graph.add_tensor("x", TensorKind::Input, DType::BF16, {kRows, kClasses});
    const TensorId of_labels = graph.add_tensor("labels", TensorKind::Input, DType::I32, {kRows});
    const TensorId max = graph.add_op(OpKind::RowMax, "max", {of_logits})[0];
    (void)graph.add_op(OpKind::SumExp, "sum", {of_logits, max});
    (void)graph.add_op(OpKind::PickLabel, "picked", {of_logits, of_labels});
    for (const Op& op : graph.ops()) calls.push_back(whole_call(graph, op));
  }
  void run(std::size_t op, const std::vector<void*>& inputs, DeviceArray<float>& to,
           const std::vector<std::int64_t>& begin = {}) {
    OpMoment moment;
    moment.begin = begin;
    device.run_op(calls[op], inputs, std::vector<void*>{to.data()}, moment);
  }
  void expect_right(std::int64_t first = 0) {
    device.finish();
    Values of_max = same(6, 0.0), of_sum = of_max, of_picked = of_max;
    kernels::row_max(logits.data(), of_max.data(), 6, 20);
    kernels::sum_exp(logits.data(), of_max.data(), of_sum.data(), 6, 20);
    kernels::pick_label(logits.data(), integers_of(kHere).data(), of_picked.data(), {6, 20, first});
    EXPECT_EQ(largest.values(), of_max);
    expect_rounded<float>(sum.values(), of_sum, slack<Bf16>(20));
    EXPECT_EQ(picked.values(), of_picked);
  }
};

TEST(CudaLossOps, ADeviceReadsLogitsOnceForMaximaSumsAndLabels) {
  JoinedRows rows;
  rows.run(0, {rows.x.data()}, rows.largest);
  rows.run(1, {rows.x.data(), rows.largest.data()}, rows.sum);
  rows.run(2, {rows.x.data(), rows.labels.data()}, rows.picked);
  EXPECT_EQ(rows.device.held(), 3U);
  rows.expect_right();
}

// Maxima of all parts of the classes are combined between the two.
TEST(CudaLossOps, ADeviceAddsUpBehindCombinedMaximaOnly) {
  JoinedRows rows;
  rows.run(0, {rows.x.data()}, rows.largest);
  (void)rows.device.stream();  // as a collective asks for it
  rows.run(1, {rows.x.data(), rows.largest.data()}, rows.sum);
  EXPECT_EQ(rows.device.held(), 0U);
  rows.run(2, {rows.x.data(), rows.labels.data()}, rows.picked, {0, 10});
  EXPECT_EQ(rows.device.held(), 0U);
  rows.expect_right(10);
}

TEST(CudaLossOps, ADeviceDoesNotJoinSumsOfOtherLogitsOrMaxima) {
  JoinedRows rows;
  const DeviceArray<Bf16> other(rows.logits);
  DeviceArray<float> same_maxima = DeviceArray<float>::of_size(6);
  rows.run(0, {rows.x.data()}, same_maxima);
  rows.run(1, {const_cast<Bf16*>(other.data()), same_maxima.data()}, rows.sum);
  EXPECT_EQ(rows.device.held(), 0U);
  rows.run(0, {rows.x.data()}, rows.largest);
  rows.run(1, {rows.x.data(), same_maxima.data()}, rows.sum);
  EXPECT_EQ(rows.device.held(), 0U);
  rows.run(2, {rows.x.data(), rows.labels.data()}, rows.picked);
  rows.expect_right();
}

// A sum that is written over the maxima; labels of another part.
TEST(CudaLossOps, ADeviceDoesNotJoinWhatOverwritesOrBeginsElsewhere) {
  JoinedRows rows;
  rows.run(0, {rows.x.data()}, rows.largest);
  rows.run(1, {rows.x.data(), rows.largest.data()}, rows.largest);
  EXPECT_EQ(rows.device.held(), 0U);
  rows.run(0, {rows.x.data()}, rows.largest);
  rows.run(1, {rows.x.data(), rows.largest.data()}, rows.sum);
  EXPECT_EQ(rows.device.held(), 2U);
  rows.run(2, {rows.x.data(), rows.labels.data()}, rows.picked, {0, 10});
  EXPECT_EQ(rows.device.held(), 0U);
  rows.expect_right(10);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::loss_test
