// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/contract.h"

namespace meshwright {

namespace {

using kernels::cuda::Product;

// --- Contract: the products of executor/contraction.h, with as few calls as their layout allows ---

// One more loop than this many calls is handed to the kernel that needs one call for any layout, where each call would
// compute too little to be worth its launch: a launch takes microseconds, in which that kernel does about this much.
constexpr std::int64_t kFewCalls = 16;
constexpr std::int64_t kWorthALaunch = std::int64_t{1} << 21;  // multiplications

// Two loops that every operand walks like one become one.
void merge(std::vector<Loop>& loops) {
  const auto walked_like_one = [](const Loop& outer, const Loop& inner) {
    return outer.a == inner.a * inner.size && outer.b == inner.b * inner.size && outer.c == inner.c * inner.size;
  };
  for (std::size_t i = 0; i < loops.size(); ++i)
    for (std::size_t j = 0; j < loops.size(); ++j) {
      if (i == j || !walked_like_one(loops[i], loops[j])) continue;
      loops[i] = {loops[i].size * loops[j].size, loops[j].a, loops[j].b, loops[j].c};
      loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(j));
      i = j = 0;
    }
}

struct Calls {
  Product product;
  bool exchanged = false;
  std::vector<Loop> loops;  // around it: one call for each
  std::int64_t count = 1;
};

// The largest loop becomes the batch of the product.
Calls calls_of(const Contraction& contraction) {
  Calls calls;
  calls.loops = contraction.loops;
  merge(calls.loops);
  Loop batch{1, 0, 0, 0};
  const auto largest = std::max_element(calls.loops.begin(), calls.loops.end(),
                                        [](const Loop& x, const Loop& y) { return x.size < y.size; });
  if (largest != calls.loops.end()) {
    batch = *largest;
    calls.loops.erase(largest);
  }
  for (const Loop& loop : calls.loops) calls.count *= loop.size;

  const MatrixProduct& p = *contraction.product;
  calls.exchanged = p.exchanged;
  if (p.exchanged)
    calls.product = {!p.transpose_b, !p.transpose_a, p.n,        p.m,     p.k,     p.ldb,
                     p.lda,          p.ldc,          batch.size, batch.b, batch.a, batch.c};
  else
    calls.product = {p.transpose_a, p.transpose_b, p.m,        p.n,     p.k,     p.lda,
                     p.ldb,         p.ldc,         batch.size, batch.a, batch.b, batch.c};
  return calls;
}

template <class T>
void run_calls(const CudaOperands& o, const Calls& calls, std::size_t depth, const T* a, const T* b, T* c) {
  if (depth == calls.loops.size()) {
    o.products.run(o.stream, calls.product, calls.exchanged ? b : a, calls.exchanged ? a : b, c);
    return;
  }
  const Loop& loop = calls.loops[depth];
  for (std::int64_t i = 0; i < loop.size; ++i)
    run_calls(o, calls, depth + 1, a + i * loop.a, b + i * loop.b, c + i * loop.c);
}

// The product's own loops, as calls around it have theirs: m and n, then k.
std::vector<Loop> all_loops(const Contraction& contraction) {
  std::vector<Loop> loops = contraction.loops;
  if (!contraction.product) return loops;
  const MatrixProduct& p = *contraction.product;
  const auto stride = [](bool moves_row, bool transposed, std::int64_t leading) {
    return moves_row != transposed ? leading : 1;
  };
  loops.push_back({p.m, stride(true, p.transpose_a, p.lda), 0, stride(true, p.exchanged, p.ldc)});
  loops.push_back({p.n, 0, stride(false, p.transpose_b, p.ldb), stride(false, p.exchanged, p.ldc)});
  loops.push_back({p.k, stride(false, p.transpose_a, p.lda), stride(true, p.transpose_b, p.ldb), 0});
  return loops;
}

template <class T>
void run_by_element(const CudaOperands& o, const std::vector<Loop>& loops, const T* a, const T* b, T* c) {
  std::vector<std::int64_t> sizes, a_strides, b_strides, c_strides;
  for (const Loop& loop : loops) {
    sizes.push_back(loop.size);
    a_strides.push_back(loop.a);
    b_strides.push_back(loop.b);
    c_strides.push_back(loop.c);
  }
  kernels::cuda::contract_strided<T>(o.stream, static_cast<int>(sizes.size()), sizes.data(), a_strides.data(),
                                     b_strides.data(), c_strides.data(), o.call.contraction.result_elements, a, b, c);
}

void run_contract(const CudaOperands& o) {
  const Contraction& contraction = o.call.contraction;
  with_cuda_type(o.output_types[0], [&](auto zero) {
    using T = decltype(zero);
    if (contraction.product) {
      const Calls calls = calls_of(contraction);
      const Product& p = calls.product;
      if (calls.count <= kFewCalls || p.m * p.n * p.k * p.batch >= kWorthALaunch)
        return run_calls(o, calls, 0, o.in<T>(0), o.in<T>(1), o.out<T>(0));
    }
    run_by_element(o, all_loops(contraction), o.in<T>(0), o.in<T>(1), o.out<T>(0));
  });
}

// --- biases ---

std::int64_t product_of(const std::vector<int>& dims, const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 1;
  for (const int axis : dims) total *= sizes[static_cast<std::size_t>(axis)];
  return total;
}

// The bias covers the trailing dimensions of x; a selecting bias also reaches over the one before, and acts on its
// index 0.
struct BiasShape {
  std::int64_t rows, width, bias_width;
};
BiasShape bias_shape(const CudaOperands& o, const std::vector<int>& bias) {
  const std::vector<int>& x = o.call.space.inputs[0];
  const std::int64_t bias_width = product_of(bias, o.call.sizes);
  std::int64_t width = bias_width;
  if (o.call.attributes.bias_select) width *= o.size(x[x.size() - bias.size() - 1]);
  return {o.elements(0) / width, width, bias_width};
}

void run_bias_add(const CudaOperands& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.inputs[1]);
  with_cuda_type(o.output_types[0], [&, rows = rows, width = width, bias_width = bias_width](auto zero) {
    using T = decltype(zero);
    kernels::cuda::bias_add(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), rows, width, bias_width);
  });
}

void run_bias_gradient(const CudaOperands& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.outputs[0]);
  with_cuda_type(o.output_types[0], [&, rows = rows, width = width, bias_width = bias_width](auto zero) {
    using T = decltype(zero);
    const std::size_t size = kernels::cuda::bias_gradient_workspace<T>(rows, width, bias_width);
    void* const workspace = size == 0 ? nullptr : o.workspace.take(size);
    kernels::cuda::bias_gradient(o.stream, o.in<T>(0), o.out<T>(0), rows, width, bias_width, workspace);
  });
}

}  // namespace

CudaKernel cuda_contraction_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::Contract:
      return run_contract;
    case OpKind::BiasAdd:
      return run_bias_add;
    case OpKind::BiasGradient:
      return run_bias_gradient;
    default:
      return nullptr;
  }
}

}  // namespace meshwright
