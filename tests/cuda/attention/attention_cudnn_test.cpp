// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN against our own kernels in float, of operands that both can hold. Prints of each example which
// engine of cuDNN took it, or why none did.
#include <cstdio>
#include <cstring>

#include "kernels/cuda/attention/attention_cudnn.h"
#include "kernels/cuda/runtime/graph.h"
#include "tests/cuda/attention/attention_fixture.h"

namespace meshwright::kernels::cuda::attention_cudnn_test {
namespace {

struct CudnnExample {
  const char* name;
  AttentionShape s;
  bool causal = true, packed = false;
  std::int64_t window = 0, first_position = 0;

  [[nodiscard]] std::int64_t queries() const { return s.batch * s.seq * s.heads(); }
  [[nodiscard]] std::int64_t keys() const { return s.batch * s.kv_seq * s.kv_heads; }
};

const CudnnExample kExamples[] = {
    {"packed", AttentionShape::packed(2, 1024, 4, 64), true, true},
    {"packed, 96 wide", AttentionShape::packed(2, 384, 2, 96), true, true},
    {"packed, 80 wide, odd length", AttentionShape::packed(1, 63, 3, 80), true, true},
    {"not causal", {2, 512, 512, 2, 1, 64, 64}, false},
    {"groups", {2, 1024, 1024, 2, 4, 128, 128}},
    {"groups, not causal", {1, 256, 256, 2, 2, 128, 128}, false},
    {"a length of no tile", {1, 1000, 1000, 2, 2, 128, 128}},
    {"a length of no tile, not causal", {1, 1000, 1000, 2, 1, 64, 64}, false},
    {"two tiles", {1, 128, 128, 2, 1, 128, 128}},
    {"more keys", {1, 128, 1000, 2, 1, 64, 64}, false},
    {"fewer keys", {1, 1000, 128, 2, 1, 64, 64}, false},
    {"one query", {2, 1, 128, 2, 1, 64, 64}, false},
    {"after all but the last keys", {1, 128, 1000, 2, 2, 64, 64}, true, false, 0, 872},
    {"after some keys", {1, 128, 1000, 2, 1, 64, 64}, true, false, 0, 100},
    {"a window", {1, 1000, 1000, 2, 2, 64, 64}, true, false, 130},
    {"a window of one key", {1, 300, 300, 1, 1, 64, 64}, true, false, 1},
    {"a window after keys", {1, 128, 600, 2, 1, 128, 128}, true, false, 100, 472},
    {"two widths", {1, 256, 256, 2, 1, 64, 128}},
    {"wide heads", {1, 256, 256, 1, 1, 256, 256}},
};

// --- operands and results ---

struct Numbers {
  Values q, k, v, dout;  // q: all three where they are packed
};
template <class T>
Numbers numbers_of(const CudnnExample& e) {
  const Values dout = numbers<T>(e.queries() * e.s.value_dim, 4, -1.0, 1.0);
  if (e.packed) return {numbers<T>(3 * e.queries() * e.s.key_dim, 1, -1.5, 1.5), {}, {}, dout};
  return {numbers<T>(e.queries() * e.s.key_dim, 1, -1.5, 1.5), numbers<T>(e.keys() * e.s.key_dim, 2, -1.5, 1.5),
          numbers<T>(e.keys() * e.s.value_dim, 3, -1.0, 1.0), dout};
}

// On the device. Results begin as sevens: what is not written shows.
template <class T>
struct Arrays {
  const CudnnExample& e;
  DeviceArray<T> q, k, v, dout, out, dq, dk, dv;

  static DeviceArray<T> sevens(std::size_t n) { return DeviceArray<T>(Values(n, 7.0)); }
  Arrays(const CudnnExample& example, const Numbers& n)
      : e(example),
        q(n.q),
        k(n.k),
        v(n.v),
        dout(n.dout),
        out(sevens(n.dout.size())),
        dq(sevens(n.q.size())),
        dk(sevens(n.k.size())),
        dv(sevens(n.v.size())) {}

  template <class View>
  static AttentionViews<View> views(const CudnnExample& e, View* q, View* k, View* v) {
    return e.packed ? packed_views<View>(q, e.s) : separate_views<View>(q, k, v, e.s);
  }
  [[nodiscard]] AttentionCall<T> call() const {
    const double scale = 1.0 / std::sqrt(static_cast<double>(e.s.key_dim));
    return {e.s, views<const T>(e, q.data(), k.data(), v.data()), {scale, e.causal, e.window, e.first_position}};
  }
  [[nodiscard]] AttentionGradients<T> gradients() { return {views<T>(e, dq.data(), dk.data(), dv.data())}; }
};

struct Results {
  Values out, dq, dk, dv;
};
template <class T>
Results values_of(const Arrays<T>& a) {
  return {a.out.values(), a.dq.values(), a.dk.values(), a.dv.values()};
}

DeviceArray<std::uint8_t> bytes(std::size_t size) {
  return DeviceArray<std::uint8_t>::of_size(static_cast<std::int64_t>(size) + 1);
}

Results by_own_kernels(const CudnnExample& e, const Numbers& n) {
  Arrays<float> a(e, n);
  attention<float>(kNoStream, a.call(), a.out.data(), AttentionPath::Plain);
  auto workspace = bytes(attention_backward_workspace<float>(e.s, false));
  attention_backward<float>(kNoStream, a.call(), a.dout.data(), a.gradients(), workspace.data(), AttentionPath::Plain);
  return values_of(a);
}

// The largest difference, of the largest number; of a thousandth where all are 0, as are the gradients of one key.
double error_of(const Values& found, const Values& expected) {
  double largest = 0.0, difference = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i)
    difference = std::isnan(found[i]) ? INFINITY : std::max(difference, std::abs(found[i] - expected[i]));
  return difference / std::max(largest, 1e-3);
}

// Results are rounded once; p and ds, which they are sums of, too. Gradients of the keys of a group are sums of such
// that were rounded for each of its heads.
template <class T>
void expect_result(const char* what, const Values& found, const Values& expected, double roundings = 4.0) {
  if (found.empty()) return;
  const double error = error_of(found, expected);
  std::printf(" %s %.2g", what, error);
  EXPECT_LE(error, roundings * kHalfPlace<T>) << what;
}

template <class T>
bool same_bits(const DeviceArray<T>& a, const DeviceArray<T>& b) {
  const std::vector<T> left = a.raw(), right = b.raw();
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0;
}
template <class T>
void expect_same_bits(const Arrays<T>& a, const Arrays<T>& b) {
  EXPECT_TRUE(same_bits(a.dq, b.dq));
  EXPECT_TRUE(same_bits(a.dk, b.dk));
  EXPECT_TRUE(same_bits(a.dv, b.dv));
}

template <class T>
constexpr const char* kTypeName = std::is_same_v<T, Bf16> ? "bf16" : "f16";

// --- the tests ---

template <class T>
class CudaCudnnAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (!CudnnAttention::are_built()) GTEST_SKIP() << "this build has no cuDNN";
  }
};
using HalfTypes = testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(CudaCudnnAttention, HalfTypes);

TYPED_TEST(CudaCudnnAttention, IsThatOfOurOwnKernelsAndTheSameEveryTime) {
  using T = TypeParam;
  CudnnAttention library;
  for (const CudnnExample& e : kExamples) {
    SCOPED_TRACE(e.name);
    const Numbers n = numbers_of<T>(e);
    const Results expected = by_own_kernels(e, n);
    Arrays<T> a(e, n);
    try {
      const bool forward = library.runs<T>(a.call(), a.out.data());
      std::printf("%s, %s\n  forward: %s;", e.name, kTypeName<T>, library.answer().c_str());
      if (forward) {
        auto workspace = bytes(library.workspace<T>(a.call()));
        library.run<T>(kNoStream, a.call(), a.out.data(), nullptr, workspace.data());
        expect_result<T>("out", a.out.values(), expected.out);
      }
      const bool backward = library.runs_backward<T>(a.call(), a.dout.data(), a.gradients());
      std::printf("\n  backward: %s;", library.answer().c_str());
      if (backward) {
        auto workspace = bytes(library.backward_workspace<T>(a.call(), a.gradients()));
        const auto run = [&](Arrays<T>& arrays) {
          library.run_backward<T>(kNoStream, arrays.call(), nullptr, nullptr, arrays.dout.data(), arrays.gradients(),
                                  workspace.data());
        };
        run(a);
        const double of_keys = e.s.group > 1 ? 8.0 : 4.0;
        expect_result<T>("dq", a.dq.values(), expected.dq);
        expect_result<T>("dk", a.dk.values(), expected.dk, of_keys);
        expect_result<T>("dv", a.dv.values(), expected.dv, of_keys);
        for (int again = 0; again < 3; ++again) {
          Arrays<T> b(e, n);
          run(b);
          expect_same_bits(a, b);
        }
      }
    } catch (const Failure& failure) {
      ADD_FAILURE() << failure.what();
    }
    std::printf("\n");
    std::fflush(stdout);
  }
}

TYPED_TEST(CudaCudnnAttention, OfWhatTheForwardLeftIsThatOfAForwardRunAgain) {
  using T = TypeParam;
  CudnnAttention library;
  const CudnnExample e{"groups", {2, 200, 200, 2, 2, 64, 64}};
  const Numbers n = numbers_of<T>(e);
  Arrays<T> a(e, n), again(e, n);
  if (!library.runs<T>(a.call(), a.out.data(), true) ||
      !library.runs_backward<T>(a.call(), a.dout.data(), a.gradients()))
    GTEST_SKIP() << library.answer();
  auto log_sums = DeviceArray<float>::of_size(e.queries());
  auto forward_workspace = bytes(library.workspace<T>(a.call(), true));
  library.run<T>(kNoStream, a.call(), a.out.data(), log_sums.data(), forward_workspace.data());
  auto workspace = bytes(library.backward_workspace<T>(a.call(), a.gradients(), false));
  library.run_backward<T>(kNoStream, a.call(), a.out.data(), log_sums.data(), a.dout.data(), a.gradients(),
                          workspace.data());
  auto larger = bytes(library.backward_workspace<T>(again.call(), again.gradients()));
  library.run_backward<T>(kNoStream, again.call(), nullptr, nullptr, again.dout.data(), again.gradients(),
                          larger.data());
  expect_same_bits(a, again);
}

// The scores' gradients of all: 2 MiB.
TYPED_TEST(CudaCudnnAttention, OfPartsIsThatOfTheWhole) {
  using T = TypeParam;
  const CudnnExample e{"parts", {4, 256, 256, 2, 2, 64, 64}};
  const Numbers n = numbers_of<T>(e);
  const Results expected = by_own_kernels(e, n);
  for (const std::size_t kibibytes : {4096, 1600, 800, 400}) {
    CudnnAttention library(kibibytes << 10);
    Arrays<T> a(e, n);
    const bool runs = library.runs_backward<T>(a.call(), a.dout.data(), a.gradients());
    std::printf("within %zu KiB: %s;", kibibytes, library.answer().c_str());
    if (runs) {
      auto workspace = bytes(library.backward_workspace<T>(a.call(), a.gradients()));
      library.run_backward<T>(kNoStream, a.call(), nullptr, nullptr, a.dout.data(), a.gradients(), workspace.data());
      expect_result<T>("dq", a.dq.values(), expected.dq);
      expect_result<T>("dk", a.dk.values(), expected.dk, 8.0);
      expect_result<T>("dv", a.dv.values(), expected.dv, 8.0);
    }
    std::printf("\n");
  }
}

TYPED_TEST(CudaCudnnAttention, OfACapturedGraphIsTheSame) {
  using T = TypeParam;
  CudnnAttention library;
  const CudnnExample e{"packed", AttentionShape::packed(2, 256, 2, 64), true, true};
  const Numbers n = numbers_of<T>(e);
  Arrays<T> a(e, n), captured(e, n);
  if (!library.runs_backward<T>(a.call(), a.dout.data(), a.gradients())) GTEST_SKIP() << library.answer();
  auto workspace = bytes(library.backward_workspace<T>(a.call(), a.gradients()));
  const auto run = [&](Arrays<T>& arrays, Stream stream) {
    library.run_backward<T>(stream, arrays.call(), nullptr, nullptr, arrays.dout.data(), arrays.gradients(),
                            workspace.data());
  };
  run(a, kNoStream);
  synchronize(kNoStream);
  const Stream stream = make_stream();
  begin_capture(stream);
  run(captured, stream);
  const Graph graph = end_capture(stream);
  EXPECT_EQ(captured.dq.values(), Values(n.q.size(), 7.0));
  for (int launch = 0; launch < 2; ++launch) launch_graph(graph, stream);
  synchronize(stream);
  expect_same_bits(a, captured);
  destroy(graph);
  destroy(stream);
}

TYPED_TEST(CudaCudnnAttention, TakesNoneThatItIsNotFor) {
  using T = TypeParam;
  CudnnAttention library;
  const CudnnExample plain{"plain", {1, 128, 128, 1, 1, 64, 64}};
  const Numbers n = numbers_of<T>(plain);
  Arrays<T> a(plain, n);
  AttentionCall<T> with_sink = a.call(), aside = a.call();
  with_sink.rule.sink = a.q.data();
  aside.operands.k.data += 1;
  EXPECT_FALSE(library.runs<T>(with_sink, a.out.data()));
  EXPECT_FALSE(library.runs<T>(aside, a.out.data()));
  EXPECT_FALSE(library.runs<T>(a.call(), a.out.data() + 1));
  EXPECT_FALSE(library.runs_backward<T>(a.call(), a.dout.data() + 1, a.gradients()));
  const CudnnExample narrow{"12 wide", {1, 128, 128, 1, 1, 12, 12}}, one{"one key", {1, 1, 1, 1, 1, 64, 64}};
  Arrays<T> twelve(narrow, numbers_of<T>(narrow)), single(one, numbers_of<T>(one));
  EXPECT_FALSE(library.runs<T>(twelve.call(), twelve.out.data()));
  EXPECT_FALSE(library.runs_backward<T>(single.call(), single.dout.data(), single.gradients()));
}

// From Hopper on.
TYPED_TEST(CudaCudnnAttention, TakesWhatModelsAskFor) {
  using T = TypeParam;
  if (facts_of(0).major < 9) GTEST_SKIP() << "this GPU is older than what cuDNN's fused kernels are asked of";
  CudnnAttention library;
  for (const CudnnExample& e : {CudnnExample{"packed", AttentionShape::packed(1, 256, 2, 64), true, true},
                                CudnnExample{"groups", {1, 256, 256, 2, 2, 128, 128}}}) {
    Arrays<T> a(e, numbers_of<T>(e));
    EXPECT_TRUE(library.runs<T>(a.call(), a.out.data())) << library.answer();
    EXPECT_TRUE(library.runs_backward<T>(a.call(), a.dout.data(), a.gradients())) << library.answer();
  }
}

}  // namespace
}  // namespace meshwright::kernels::cuda::attention_cudnn_test
