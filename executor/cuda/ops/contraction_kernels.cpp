// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "executor/cuda/cuda_kernel_table.h"
#include "executor/cuda/ops/operand_memory.h"
#include "executor/ops/call_shapes.h"
#include "kernels/cuda/elementwise/bias.h"
#include "kernels/cuda/products/contract.h"

namespace meshwright {

namespace {

using kernels::cuda::Product;

// --- Contract: the products of executor/ops/contraction.h, with as few calls as their layout allows ---

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
  kernels::cuda::contract_strided<T>(o.stream,
                                     {static_cast<int>(sizes.size()), sizes.data(), a_strides.data(), b_strides.data(),
                                      c_strides.data(), o.call.contraction.result_elements},
                                     a, b, c);
}

void run_contract(const CudaOperands& o) {
  const Contraction& contraction = o.call.contraction;
  with_cuda_type(o.output_types[0], [&]<class T>(T) {
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

void run_bias_add(const CudaOperands& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.inputs[1]);
  with_cuda_type(o.output_types[0], [&, rows = rows, width = width, bias_width = bias_width]<class T>(T) {
    kernels::cuda::bias_add(o.stream, o.in<T>(0), o.in<T>(1), o.out<T>(0), {rows, width, bias_width});
  });
}

void run_bias_gradient(const CudaOperands& o) {
  const auto [rows, width, bias_width] = bias_shape(o, o.call.space.outputs[0]);
  with_cuda_type(o.output_types[0], [&, rows = rows, width = width, bias_width = bias_width]<class T>(T) {
    const std::size_t size = kernels::cuda::bias_gradient_workspace<T>({rows, width, bias_width});
    void* const workspace = size == 0 ? nullptr : o.workspace.take(size);
    kernels::cuda::bias_gradient(o.stream, o.in<T>(0), o.out<T>(0), {rows, width, bias_width}, workspace);
  });
}

// --- a product, its bias, and the function, the addition or the sum that follows: at once, where cuBLASLt can ---

// Calls that add a bias of some columns alone are two more; the pass over the result that they spare takes as long from
// about here.
constexpr std::int64_t kWorthALongerBias = std::int64_t{1} << 21;  // elements

// Without gaps, in one call of one product. REQUIRES: a Contract with a product.
bool is_one_matrix(const CudaOperands& o) {
  const Calls calls = calls_of(o.call.contraction);
  const Product& p = calls.product;
  return calls.count == 1 && p.batch == 1 && p.ldc == p.n;
}

bool may_begin_product(const CudaOperands& o) {
  return o.call.only_next_reads && o.call.contraction.product && is_one_matrix(o);
}

// Memory that the product alone reads may be given to the ops after it. They then have to wait until it is done.
bool spares_what_is_read(std::span<const CudaOperands> held, const CudaOperands& next) {
  const auto apart = [&](const CudaOperands& o, std::size_t i) {
    return lie_apart(o.inputs[i], bytes_in(o, i), next.outputs[0], bytes_out(next));
  };
  const bool from_bias =
      held.size() < 2 || lie_apart(held[1].outputs[0], bytes_out(held[1]), next.outputs[0], bytes_out(next));
  if (!apart(held[0], 0) || !apart(held[0], 1) || !from_bias) return false;
  if (held.size() == 2 && !apart(held[1], 1)) return false;
  if (next.call.kind == OpKind::BiasAdd) return apart(next, 1);
  if (next.call.kind != OpKind::Add) return true;
  // What is added may lie where the result goes, all of it or nothing.
  const std::size_t added = added_operand(next, held.back().outputs[0]);
  return next.inputs[added] == next.outputs[0] || apart(next, added);
}

// Whether it is what cuBLASLt does at the end of the product.
bool may_end_product(std::span<const CudaOperands> held, const CudaOperands& next) {
  // Nothing follows what has been added or summed up.
  const OpKind last = held.back().call.kind;
  if (last != OpKind::Contract && last != OpKind::BiasAdd) return false;
  if (next.call.kind == OpKind::Add)
    return held.back().call.only_next_reads && next.inputs[0] != next.inputs[1] &&
           next.elements(0) == next.elements(1) && next.input_types[0] == next.input_types[1];
  if (held.size() == 1 && next.call.kind == OpKind::Accumulate) return true;
  if (held.size() == 1) {
    if (next.call.kind != OpKind::BiasAdd) return false;
    const auto [rows, width, bias_width] = bias_shape(next, next.call.space.inputs[1]);
    return width == calls_of(held[0].call.contraction).product.n &&
           (bias_width == width || rows * width >= kWorthALongerBias);
  }
  // A wider result would show how cuBLASLt computes the function.
  if (next.call.kind == OpKind::Gelu) return held.size() == 2 && size_of(next.output_types[0]) == 2;
  return next.call.kind == OpKind::Relu && held.size() == 2 && held[1].call.only_next_reads;
}

bool may_follow_product(std::span<const CudaOperands> held, const CudaOperands& next) {
  const CudaOperands& last = held.back();
  if (!may_end_product(held, next)) return false;
  // A sum of gradients, which is its first operand, may be wider than they are.
  if (next.call.kind == OpKind::Accumulate)
    return next.inputs[1] == last.outputs[0] && next.input_types[1] == last.output_types[0] &&
           (next.input_types[0] == last.output_types[0] ||
            (next.input_types[0] == DType::F32 && size_of(last.output_types[0]) == 2)) &&
           spares_what_is_read(held, next);
  const bool reads_it =
      next.inputs[0] == last.outputs[0] || (next.call.kind == OpKind::Add && next.inputs[1] == last.outputs[0]);
  return reads_it && next.input_types[0] == last.output_types[0] && next.output_types[0] == last.output_types[0] &&
         spares_what_is_read(held, next);
}

// The bias of all columns: 0 beyond its own.
template <class T>
const T* whole_bias(const CudaOperands& o) {
  const BiasShape shape = bias_shape(o, o.call.space.inputs[1]);
  if (shape.bias_width == shape.width) return o.in<T>(1);
  const auto own = static_cast<std::size_t>(shape.bias_width) * sizeof(T),
             rest = static_cast<std::size_t>(shape.width - shape.bias_width) * sizeof(T);
  T* const whole = o.workspace.take_array<T>(shape.width);
  kernels::cuda::copy(whole, o.in<T>(1), own, o.stream);
  kernels::cuda::clear(whole + shape.bias_width, rest, o.stream);
  return whole;
}

// The product, added to the sum of gradients or in its place. False: not done.
template <class T>
bool sum_up(const CudaOperands& product, const CudaOperands& sum, const Calls& calls, const T* a, const T* b) {
  const bool adds = !sum.moment.first;
  if (sum.output_types[0] == product.output_types[0])
    return product.products.run_sum(product.stream, calls.product, a, b, sum.out<T>(0), adds);
  if constexpr (sizeof(T) == 2)
    return product.products.run_sum(product.stream, calls.product, a, b, sum.out<float>(0), adds);
  else
    return false;
}

// Product and bias, and what follows. False: not done.
bool run_at_once(std::span<const CudaOperands> ops) {
  using kernels::cuda::ProductFunction;
  const CudaOperands& product = ops[0];
  const Calls calls = calls_of(product.call.contraction);
  return with_cuda_type(product.output_types[0], [&]<class T>(T) {
    const T *a = product.in<T>(calls.exchanged ? 1 : 0), *b = product.in<T>(calls.exchanged ? 0 : 1);
    kernels::cuda::ProductEnd<T> end{};
    for (std::size_t i = 1; i < ops.size(); ++i) {
      const CudaOperands& o = ops[i];
      switch (o.call.kind) {
        case OpKind::Accumulate:
          return sum_up(product, o, calls, a, b);
        case OpKind::BiasAdd:
          end.bias = whole_bias<T>(o);
          break;
        case OpKind::Add:
          end.added = o.in<T>(added_operand(o, ops[i - 1].outputs[0]));
          break;
        default:
          end.function = o.call.kind == OpKind::Gelu ? ProductFunction::Gelu : ProductFunction::Relu;
          if (!ops[i - 1].call.only_next_reads) end.before = ops[i - 1].out<T>(0);
      }
    }
    return product.products.run(product.stream, calls.product, a, b, ops.back().out<T>(0), end);
  });
}

// As many of the first ones at once as can be.
void run_products(std::span<const CudaOperands> held) {
  std::size_t done = held.size();
  while (done > 1 && !run_at_once(held.first(done))) --done;
  if (done == 1) run_contract(held[0]);
  for (const CudaOperands& o : held.subspan(done)) {
    CudaKernel kernel = cuda_contraction_kernel(o.call.kind);
    if (kernel == nullptr) kernel = cuda_elementwise_kernel(o.call.kind);
    if (kernel == nullptr) kernel = cuda_optimizer_kernel(o.call.kind);
    kernel(o);
  }
}

// The product's own: what is added takes next to no time.
}  // namespace

const CudaTogether* cuda_products_together(OpKind kind) {
  static constexpr CudaTogether kProducts{may_begin_product, may_follow_product, run_products, name_of_first, true};
  return kind == OpKind::Contract ? &kProducts : nullptr;
}

CudaKernel cuda_contraction_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::Contract, run_contract},
      {K::BiasAdd, run_bias_add},
      {K::BiasGradient, run_bias_gradient},
  };
  return table.of(kind);
}

}  // namespace meshwright
