// SPDX-License-Identifier: Apache-2.0
// A residual sum with its norm, and a norm's derivative with the sum behind it: the bits of the kernels one by one,
// also where a device joins the ops by itself.
#include "kernels/cuda/norms/residual_norms.h"

#include "executor/cuda/cuda_device.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/norms/row_norms.h"
#include "tests/cuda/norms/row_cases.h"
#include "tests/cuda/recorded_launches.h"

namespace meshwright::kernels::cuda::residual_norms_test {
namespace {

constexpr double kEpsilon = 0.01;

template <Norm norm_, class T_>
struct NormOf {
  using T = T_;
  static constexpr Norm norm = norm_;
};
template <class Of>
class ResidualNorm : public testing::Test {};
using Norms = testing::Types<NormOf<Norm::Layer, float>, NormOf<Norm::Layer, double>, NormOf<Norm::Layer, Bf16>,
                             NormOf<Norm::Rms, F16>, NormOf<Norm::Rms, Bf16>>;
TYPED_TEST_SUITE(ResidualNorm, Norms);

template <class T>
struct Operands {
  RowSize size;
  DeviceArray<T> x, y, gamma, beta;
  explicit Operands(RowSize of)
      : size(of),
        x(numbers<T>(of.elements(), 1)),
        y(numbers<T>(of.elements(), 2)),
        gamma(numbers<T>(of.width, 3, 0.5, 1.5)),
        beta(numbers<T>(of.width, 4)) {}
  [[nodiscard]] NormShape shape() const { return {size.rows, size.width, kEpsilon}; }
  [[nodiscard]] DeviceArray<T> result() const { return DeviceArray<T>::of_size(size.elements()); }
};

// Whether rows of this width are kept in whole packs of 16 bytes.
template <class T>
bool is_taken(RowSize size) {
  const auto n = static_cast<std::int64_t>(16 / sizeof(T));
  return size.width % n == 0 && size.width / n <= 8 * 512;
}

TYPED_TEST(ResidualNorm, OfASumHasTheBitsOfBothKernels) {
  using T = typename TypeParam::T;
  for (const RowSize size : row_sizes<T>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    Operands<T> o(size);
    const T* const beta = TypeParam::norm == Norm::Layer ? o.beta.data() : nullptr;
    DeviceArray<T> sum = o.result(), out = o.result(), sum_alone = o.result(), out_alone = o.result();
    const bool done = row_norm_of_sum<TypeParam::norm>(kNoStream, o.x.data(), o.y.data(), sum.data(), o.gamma.data(),
                                                       beta, out.data(), o.shape());
    ASSERT_EQ(done, is_taken<T>(size));
    if (!done) continue;
    combine<Arithmetic::Add>(kNoStream, o.x.data(), o.y.data(), sum_alone.data(), size.elements());
    row_norm<TypeParam::norm>(kNoStream, sum_alone.data(), o.gamma.data(), beta, out_alone.data(), o.shape());
    EXPECT_EQ(sum.values(), sum_alone.values());
    EXPECT_EQ(out.values(), out_alone.values());
  }
}

TYPED_TEST(ResidualNorm, BackwardAndSumHaveTheBitsOfBothKernels) {
  using T = typename TypeParam::T;
  for (const RowSize size : row_sizes<T>()) {
    SCOPED_TRACE(testing::Message() << size.rows << " x " << size.width);
    Operands<T> o(size);
    DeviceArray<T> residual(numbers<T>(size.elements(), 5)), out = o.result(), dx = o.result(), out_alone = o.result();
    const bool done = row_norm_backward_and_sum<TypeParam::norm>(kNoStream, o.x.data(), o.gamma.data(), o.y.data(),
                                                                 residual.data(), out.data(), o.shape());
    ASSERT_EQ(done, is_taken<T>(size));
    if (!done) continue;
    row_norm_backward<TypeParam::norm>(kNoStream, o.x.data(), o.gamma.data(), o.y.data(), dx.data(), o.shape());
    combine<Arithmetic::Add>(kNoStream, residual.data(), dx.data(), out_alone.data(), size.elements());
    EXPECT_EQ(out.values(), out_alone.values());
  }
}

TYPED_TEST(ResidualNorm, TakesNoOddAddresses) {
  using T = typename TypeParam::T;
  Operands<T> o({3, 64});
  DeviceArray<T> odd = DeviceArray<T>::of_size(3 * 64 + 1), out = o.result();
  EXPECT_FALSE(row_norm_of_sum<TypeParam::norm>(kNoStream, o.x.data(), o.y.data(), odd.data() + 1, o.gamma.data(),
                                                o.beta.data(), out.data(), o.shape()));
}

// --- by a device ---

// s = x + y, n = norm(s).
template <Norm norm>
Graph forward_graph(DType type, RowSize size) {
  Graph g;
  g.dtype = type;
  const std::vector<Dim> dims = {{"row", size.rows}, {"embed", size.width}}, row = {{"embed", size.width}};
  const TensorId x = g.add_tensor("x", TensorKind::Input, type, dims),
                 y = g.add_tensor("y", TensorKind::Input, type, dims);
  const TensorId gamma = g.add_tensor("gamma", TensorKind::Parameter, type, row);
  const TensorId s = g.add_op(OpKind::Add, "s", {x, y})[0];
  std::vector<TensorId> operands = {s, gamma};
  if (norm == Norm::Layer) operands.push_back(g.add_tensor("beta", TensorKind::Parameter, type, row));
  (void)g.add_op(norm == Norm::Layer ? OpKind::LayerNorm : OpKind::RmsNorm, "n", operands, {.epsilon = kEpsilon});
  return g;
}

TYPED_TEST(ResidualNorm, ADeviceJoinsASumWithTheNormThatFollows) {
  using T = typename TypeParam::T;
  constexpr bool kLayer = TypeParam::norm == Norm::Layer;
  // In memory of its own; where the second operand was, which the sum was the last to read; and of rows that the pass
  // does not take.
  for (const auto& [width, in_place] : {std::pair{64, false}, {64, true}, {63, false}}) {
    const RowSize size{5, width};
    const Graph g = forward_graph<TypeParam::norm>(kDType<T>, size);
    std::vector<OpCallPlan> calls;
    for (const Op& op : g.ops()) calls.push_back(whole_call(g, op));
    Operands<T> o(size), same(size);
    DeviceArray<T> sum = o.result(), out = o.result(), sum_alone = o.result(), out_alone = o.result();
    void* const result = in_place ? o.y.data() : out.data();
    std::vector<void*> of_norm = {sum.data(), o.gamma.data()};
    if (kLayer) of_norm.push_back(o.beta.data());
    CudaDevice device(0, false, [](DType type) { return type; });
    device.run_op(calls[0], std::vector<void*>{o.x.data(), o.y.data()}, std::vector<void*>{sum.data()}, {});
    device.run_op(calls[1], of_norm, std::vector<void*>{result}, {});
    EXPECT_EQ(device.held(), 2U);
    device.finish();
    combine<Arithmetic::Add>(kNoStream, same.x.data(), same.y.data(), sum_alone.data(), size.elements());
    row_norm<TypeParam::norm>(kNoStream, sum_alone.data(), same.gamma.data(), kLayer ? same.beta.data() : nullptr,
                              out_alone.data(), same.shape());
    EXPECT_EQ(sum.values(), sum_alone.values());
    EXPECT_EQ((in_place ? o.y : out).values(), out_alone.values());
  }
}

// dn = norm backward(x, gamma, dy); the gradient of gamma, and its sum; dx = r + dn, where `at` says: in memory of its
// own, where dy or x was, or in the middle of them.
enum class At { Own, Dy, X, Across };
template <class Of>
void expect_backward_joined(At at, bool one_reader, std::size_t held) {
  using T = typename Of::T;
  constexpr bool kLayer = Of::norm == Norm::Layer;
  const RowSize size{6, 64};
  const NormShape shape{6, 64, kEpsilon};
  Graph g;
  g.dtype = kDType<T>;
  const std::vector<Dim> dims = {{"row", 6}, {"embed", 64}}, row = {{"embed", 64}};
  const TensorId x = g.add_tensor("x", TensorKind::Input, g.dtype, dims),
                 dy = g.add_tensor("dy", TensorKind::Input, g.dtype, dims);
  const TensorId gamma = g.add_tensor("gamma", TensorKind::Parameter, g.dtype, row);
  const TensorId r = g.add_tensor("r", TensorKind::Input, g.dtype, dims);
  const TensorId dn = g.add_op(kLayer ? OpKind::LayerNormBackward : OpKind::RmsNormBackward, "dn", {x, gamma, dy},
                               {.epsilon = kEpsilon})[0];
  (void)g.add_op(kLayer ? OpKind::LayerNormParamBackward : OpKind::RmsNormParamBackward, "dp", {x, dy},
                 {.epsilon = kEpsilon});
  (void)g.add_op(OpKind::Add, "dx", {r, dn});
  std::vector<OpCallPlan> calls;
  for (const Op& op : g.ops()) calls.push_back(whole_call(g, op));
  calls[0].one_reader = one_reader;
  // x and dy one behind the other.
  const Values all = numbers<T>(2 * size.elements(), 1), of_r = numbers<T>(size.elements(), 2);
  DeviceArray<T> both(all), gammas(numbers<T>(64, 3, 0.5, 1.5)), rs(of_r),
      own = DeviceArray<T>::of_size(size.elements()), left = DeviceArray<T>::of_size(size.elements()),
      gradients = DeviceArray<T>::of_size(128);
  T *const on_x = both.data(), *const on_dy = both.data() + size.elements();
  T* const result = at == At::Own ? own.data() : at == At::Dy ? on_dy : at == At::X ? on_x : on_x + size.elements() / 2;
  CudaDevice device(0, false, [](DType type) { return type; });
  std::vector<void*> parameters = {gradients.data()};
  if (kLayer) parameters.push_back(gradients.data() + 64);
  device.run_op(calls[0], std::vector<void*>{on_x, gammas.data(), on_dy}, std::vector<void*>{left.data()}, {});
  device.run_op(calls[1], std::vector<void*>{on_x, on_dy}, parameters, {});
  EXPECT_EQ(device.held(), one_reader ? 1U : 0U);
  device.run_op(calls[2], std::vector<void*>{rs.data(), left.data()}, std::vector<void*>{result}, {});
  EXPECT_EQ(device.held(), held);
  device.finish();
  const Values found = at == At::Own ? own.values() : both.values();
  const auto begin = found.begin() + (at == At::Own ? 0 : result - on_x);

  DeviceArray<T> again(all), alone = DeviceArray<T>::of_size(size.elements());
  row_norm_backward<Of::norm>(kNoStream, again.data(), gammas.data(), again.data() + size.elements(), alone.data(),
                              shape);
  combine<Arithmetic::Add>(kNoStream, rs.data(), alone.data(), alone.data(), size.elements());
  EXPECT_EQ(Values(begin, begin + size.elements()), alone.values());
}

TYPED_TEST(ResidualNorm, ADeviceJoinsADerivativeWithTheSumBehindItsParameters) {
  for (const At at : {At::Own, At::Dy, At::X}) expect_backward_joined<TypeParam>(at, true, 2);
}

TYPED_TEST(ResidualNorm, ADerivativeThatOthersReadIsWritten) {
  expect_backward_joined<TypeParam>(At::Own, false, 1);  // the sum, which a norm might follow
}

// Memory that some rows are still to be read from.
TYPED_TEST(ResidualNorm, ADerivativeIsDoneBeforeAResultThatLiesAcrossItsOperands) {
  expect_backward_joined<TypeParam>(At::Across, true, 1);
}

TEST(ResidualNorms, AreOneLaunchWhoseRangeIsTheFirstOps) {
  if (!can_record()) GTEST_SKIP() << "this build cannot record";
  const RowSize size{4, 64};
  const Graph g = forward_graph<Norm::Rms>(DType::BF16, size);
  Operands<Bf16> o(size);
  DeviceArray<Bf16> sum = o.result(), out = o.result();
  const Launches together = launches_of([&] {
    const OpCallPlan add = whole_call(g, g.ops()[0]), norm = whole_call(g, g.ops()[1]);
    CudaDevice device(0, false, [](DType type) { return type; });
    const auto run = [&](const OpCallPlan& call, const char* name, const std::vector<void*>& in, void* to) {
      device.begin_work(name);
      device.run_op(call, in, std::vector<void*>{to}, {});
      device.end_work();
    };
    run(add, "s", {o.x.data(), o.y.data()}, sum.data());
    run(norm, "n", {sum.data(), o.gamma.data()}, out.data());
    device.finish();
  });
  EXPECT_EQ(together.kernels, 1U);
  EXPECT_EQ(together.ranges, std::vector<std::string>{"s"});
}

}  // namespace
}  // namespace meshwright::kernels::cuda::residual_norms_test
