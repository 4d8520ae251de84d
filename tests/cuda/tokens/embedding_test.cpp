// SPDX-License-Identifier: Apache-2.0
// Rows of tables on the device against the processor's in double.
#include "kernels/cuda/tokens/embedding.h"

#include "kernels/cpu/tokens/embedding.h"
#include "tests/cuda/typed_ops.h"

namespace meshwright::kernels::cuda::embedding_test {
namespace {

template <class Number>
class CudaEmbedding : public testing::Test {};
using Numbers = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaEmbedding, Numbers);

struct Size {
  std::int64_t rows, vocab, width;
};

// One in eight is not in the table; the others grow rarer with their number.
Values ids_of(Size size, std::int64_t first) {
  const Values one = numbers<double>(size.rows, 1, 0.0, 1.0), other = numbers<double>(size.rows, 2, 0.0, 1.0);
  Values ids;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double id = std::floor(one[i] * other[i] * static_cast<double>(size.vocab));
    ids.push_back(static_cast<double>(first) +
                  (i % 8 == 5 ? (i % 16 == 5 ? -1.0 - id : static_cast<double>(size.vocab) + id) : id));
  }
  return ids;
}

TYPED_TEST(CudaEmbedding, LooksRowsUp) {
  for (const Size size : {Size{1, 1, 1}, Size{300, 9, 1}, Size{37, 50, 7}, Size{130, 11, 24}, Size{9, 5, 129},
                          Size{5, 3, 2056}, Size{2, 40, 5001}}) {
    const std::int64_t first = 1000;
    const Values ids = ids_of(size, first), table = numbers<TypeParam>(size.vocab * size.width, 3);
    const DeviceArray<std::int32_t> on_ids(ids);
    const DeviceArray<TypeParam> on_table(table);
    DeviceArray<TypeParam> out(same(size.rows * size.width, 7.0));
    embedding(kNoStream, on_ids.data(), on_table.data(), out.data(), {size.rows, size.vocab, size.width, first});
    Values expected = same(size.rows * size.width, 0.0);
    kernels::embedding(integers_of(ids).data(), table.data(), expected.data(),
                       {size.rows, size.vocab, size.width, first});
    EXPECT_EQ(out.values(), expected);
  }
}

// The sums, in a workspace that held something else.
template <class T>
Values backward(const Values& ids, const Values& dy, Size size, std::int64_t first) {
  const DeviceArray<std::int32_t> on_ids(ids);
  const DeviceArray<T> on_dy(dy);
  const auto bytes = static_cast<std::int64_t>(embedding_backward_workspace<T>({size.rows, size.vocab, size.width}));
  DeviceArray<std::int8_t> workspace(same(bytes, -1.0));
  DeviceArray<T> dtable(same(size.vocab * size.width, 7.0));
  embedding_backward(kNoStream, on_ids.data(), on_dy.data(), dtable.data(), {size.rows, size.vocab, size.width, first},
                     workspace.data());
  return dtable.values();
}

Values backward_on_processor(const Values& ids, const Values& dy, Size size, std::int64_t first) {
  Values expected = same(size.vocab * size.width, 0.0);
  kernels::embedding_backward(integers_of(ids).data(), dy.data(), expected.data(),
                              {size.rows, size.vocab, size.width, first});
  return expected;
}

// Small whole numbers, whose sums are exact: every row is counted once, for its number, and rounded once.
TYPED_TEST(CudaEmbedding, AddsUpEveryRowOfANumber) {
  for (const Size size : {Size{1, 1, 1}, Size{3, 700, 3}, Size{1000, 5, 1}, Size{2000, 40, 16}, Size{513, 512, 33},
                          Size{700, 1500, 8}, Size{40, 3, 2056}}) {
    const std::int64_t first = 1000;
    const Values ids = ids_of(size, first), dy = whole_numbers(size.rows * size.width, 4, -4, 9);
    EXPECT_EQ(backward<TypeParam>(ids, dy, size, first),
              rounded_to<TypeParam>(backward_on_processor(ids, dy, size, first)))
        << size.rows << " rows of " << size.vocab;
  }
}

// As of padding: pieces of 64 rows that begin where the sorted places do, not where the number does.
TYPED_TEST(CudaEmbedding, ANumberMayHaveAnyShareOfTheRows) {
  for (const std::int64_t others : {0, 1, 63, 64, 100})
    for (const std::int64_t rows : {64, 65, 128, 129, 400}) {
      Values ids = same(others, 1.0);
      ids.insert(ids.end(), static_cast<std::size_t>(rows), 2.0);
      ids.insert(ids.end(), 70, 6.0);  // not in the table
      const Size size{static_cast<std::int64_t>(ids.size()), 4, 8};
      const Values dy = whole_numbers(size.rows * size.width, 4, -4, 9);
      EXPECT_EQ(backward<TypeParam>(ids, dy, size, 0), rounded_to<TypeParam>(backward_on_processor(ids, dy, size, 0)))
          << rows << " rows after " << others;
    }
}

TYPED_TEST(CudaEmbedding, AddsInTheSameOrderEveryTime) {
  const Size size{3000, 30, 9};
  const Values ids = ids_of(size, 0), dy = numbers<TypeParam>(size.rows * size.width, 5);
  const Values once = backward<TypeParam>(ids, dy, size, 0);
  EXPECT_EQ(once, backward<TypeParam>(ids, dy, size, 0));
  Values magnitudes = dy;
  for (double& value : magnitudes) value = std::abs(value);
  expect_rounded<TypeParam>(once, backward_on_processor(ids, dy, size, 0), 3000 * kHalfPlace<Wide<TypeParam>>,
                            backward_on_processor(ids, magnitudes, size, 0));
}

// More rows than 128 tiles of 512, such that each tile is moved in turns; more numbers than two digits of 9 bits have.
TEST(CudaEmbedding_, SortsAnyRowsByAnyNumbers) {
  for (const Size size : {Size{66000, 700, 1}, Size{90, 300000, 1}}) {
    const Values ids = ids_of(size, 0), dy = whole_numbers(size.rows, 4, -4, 9);
    EXPECT_EQ(backward<float>(ids, dy, size, 0), backward_on_processor(ids, dy, size, 0));
  }
}

TEST(CudaEmbedding_, OpsKnowWhichRowsOfTheTableTheyHave) {
  const Dim batch{"batch", 5}, seq{"seq", 4}, vocab{"vocab", 12}, embed{"embed", 16};
  const Values ids = whole_numbers(20, 6, 0, 12);
  const OpOperand numbers_of_tokens{DType::I32, {batch, seq}};
  for (const std::int64_t part : {0, 1, 2}) {
    const OpResults found = run_typed(cuda_embedding_kernel(OpKind::Embedding), OpKind::Embedding, {},
                                      {numbers_of_tokens, {DType::BF16, {vocab, embed}}},
                                      {ids, numbers<Bf16>(4 * 16, 7)}, "vocab", 3, part);
    EXPECT_EQ(found.found, found.expected);
    const OpResults back = run_typed(cuda_embedding_kernel(OpKind::EmbeddingBackward), OpKind::EmbeddingBackward,
                                     {.result_names = {"vocab"}, .result_size = 12},
                                     {numbers_of_tokens, {DType::BF16, {batch, seq, embed}}},
                                     {ids, whole_numbers(20 * 16, 8, -4, 5)}, "vocab", 3, part);
    EXPECT_EQ(back.found, back.expected);
  }
}

}  // namespace
}  // namespace meshwright::kernels::cuda::embedding_test
