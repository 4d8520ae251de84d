// SPDX-License-Identifier: Apache-2.0
// Matrix products on the device: c = op(a) op(b), row-major, each operand's rows `ld` elements apart, `batch` of them
// whose operands are `stride` elements apart. c is overwritten. Sums are kept in Wide<T>, rounded once.
//
// mw_kernels_cuda asks cuBLASLt, once per shape, for its best algorithm within a fixed workspace, and keeps the answer;
// or it takes the one that was chosen before, or that is fastest, as ProductTuning says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/products/product_choices.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

struct Product {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t lda = 1, ldb = 1, ldc = 1;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
};

constexpr std::size_t kProductWorkspace = std::size_t{32} << 20;  // bytes of a stream that algorithms may use

// Whose algorithms ProductChoices names: "cuBLASLt 13.1.0".
[[nodiscard]] std::string product_library();

// What is done to every element of one product before it is written: bias (n), one number per column, is added, and
// then the function applied. A library may round the product, and its sum with the bias, in between (cuBLASLt does so
// for some shapes of 16 bits), never more often than ops one by one. Functions are those of
// kernels/cuda/elementwise/elementwise.h.
enum class ProductFunction { None, Relu, Gelu };
template <class T>
struct ProductEnd {
  const T* bias = nullptr;  // null: none
  ProductFunction function = ProductFunction::None;
  T* before = nullptr;       // what the function is applied to, rounded, laid out as c; null: not wanted
  const T* added = nullptr;  // laid out as c, which it may be: added to the product; null: nothing
};

// Belongs to one host thread and one device.
class Products {
 public:
  // `tensor_float`: float products may round their operands to TF32's 10 bits of mantissa.
  explicit Products(bool tensor_float, ProductTuning tuning = {});
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // T: float, double, Bf16, F16.
  template <class T>
  void run(Stream stream, const Product& product, const T* a, const T* b, T* c);
  // In one pass over c. False, and nothing is done, where the library has no such pass: what it has may depend on the
  // product's shape and layout, the types and whether addresses are multiples of 16, and it is of no batch. c and
  // `before` may not share memory with anything that is read.
  template <class T>
  [[nodiscard]] bool run(Stream stream, const Product& product, const T* a, const T* b, T* c, const ProductEnd<T>& end);

  // The product in S, which is T or Wide<T>, without rounding to T in between; with `adds`, added to what is there.
  // False, and nothing is done, as above.
  template <class T, class S>
  [[nodiscard]] bool run_sum(Stream stream, const Product& product, const T* a, const T* b, S* sum, bool adds);

  // Bytes that it holds for the library's work.
  [[nodiscard]] std::size_t workspace() const;

  // Seconds of each of the algorithms that the library proposes, at most `maximum`, in its order: the first is the one
  // that `run` takes where nothing was chosen or timed. Infinity: it does not run. c is overwritten.
  // REQUIRES: product.batch <= 65535.
  template <class T>
  [[nodiscard]] std::vector<double> time_algorithms(Stream stream, const Product& product, const T* a, const T* b, T* c,
                                                    int maximum);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright::kernels::cuda
