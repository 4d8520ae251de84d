// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/convolution/convolution.h"

#include <algorithm>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/convolution/gathered_convolution.h"
#include "kernels/cpu/products/one_core.h"

namespace meshwright::kernels {

namespace {

using dnnl::memory;

enum class Pass { Forward, BackwardInput, BackwardWeight };

// x, w and y of a convolution, or their gradients.
struct Layouts {
  memory::desc x, w, y;
};

// Weights are given as (groups, kh, kw, in, out); oneDNN counts dimensions as groups, out, in, kh, kw.
memory::dims weight_dims(const ConvolutionShape& s) { return {s.groups, s.out, s.in, s.rows.size, s.columns.size}; }
memory::desc given_weights(const ConvolutionShape& s) {
  const memory::dim line = s.columns.size * s.in * s.out;
  return {weight_dims(s), memory::data_type::f32, memory::dims{s.rows.size * line, 1, s.out, line, s.in * s.out}};
}

// oneDNN's fast kernels read x and y where they lie, but want the weights in blocks of their own choice.
Layouts wanted_layouts(const ConvolutionShape& s) {
  const auto channels_last = memory::format_tag::nhwc;
  return {{{s.batch, s.groups * s.in, s.rows.from, s.columns.from}, memory::data_type::f32, channels_last},
          {weight_dims(s), memory::data_type::f32, memory::format_tag::any},
          {{s.batch, s.groups * s.out, s.rows.to, s.columns.to}, memory::data_type::f32, channels_last}};
}

// A convolution of one shape, ready to run.
struct Prepared {
  dnnl::primitive primitive;
  Layouts layouts;
  bool reorders_weights;
};

Prepared prepare(Pass pass, const ConvolutionShape& s, const dnnl::engine& engine) {
  namespace d = dnnl;
  const Layouts wanted = wanted_layouts(s);
  const memory::dims stride{s.rows.stride, s.columns.stride}, before{s.rows.before, s.columns.before},
      after{s.rows.after(), s.columns.after()};
  const auto direct = d::algorithm::convolution_direct;
  const auto training = d::prop_kind::forward_training;
  // oneDNN 3 has no descriptors beside the primitive descriptors.
#if DNNL_VERSION_MAJOR >= 3
  const d::convolution_forward::primitive_desc forward(engine, training, direct, wanted.x, wanted.w, wanted.y, stride,
                                                       before, after);
#else
  const d::convolution_forward::primitive_desc forward(
      {training, direct, wanted.x, wanted.w, wanted.y, stride, before, after}, engine);
#endif
  const auto ready = [&](d::primitive primitive, const memory::desc& w) {
    return Prepared{std::move(primitive), {wanted.x, w, wanted.y}, w != given_weights(s)};
  };
  if (pass == Pass::Forward) return ready(d::convolution_forward(forward), forward.weights_desc());
  if (pass == Pass::BackwardInput) {
#if DNNL_VERSION_MAJOR >= 3
    const d::convolution_backward_data::primitive_desc backward(engine, direct, wanted.x, wanted.w, wanted.y, stride,
                                                                before, after, forward);
#else
    const d::convolution_backward_data::primitive_desc backward(
        {direct, wanted.x, wanted.w, wanted.y, stride, before, after}, engine, forward);
#endif
    return ready(d::convolution_backward_data(backward), backward.weights_desc());
  }
#if DNNL_VERSION_MAJOR >= 3
  const d::convolution_backward_weights::primitive_desc backward(engine, direct, wanted.x, wanted.w, wanted.y, stride,
                                                                 before, after, forward);
#else
  const d::convolution_backward_weights::primitive_desc backward(
      {direct, wanted.x, wanted.w, wanted.y, stride, before, after}, engine, forward);
#endif
  return ready(d::convolution_backward_weights(backward), backward.diff_weights_desc());
}

// What one thread keeps between calls: generated code by shape, and room for weights in oneDNN's layout.
class Workplace {
 public:
  void run(Pass pass, const ConvolutionShape& shape, float* x, float* w, float* y) {
    const auto known = prepared_.find({pass, shape});
    const Prepared& job = known != prepared_.end()
                              ? known->second
                              : prepared_.emplace(std::pair(pass, shape), prepare(pass, shape, engine_)).first->second;
    const memory given(given_weights(shape), engine_, w);
    memory weights = given;
    if (job.reorders_weights) {
      blocked_.resize(std::max(blocked_.size(), job.layouts.w.get_size() / sizeof(float) + kAlignment));
      weights = memory(job.layouts.w, engine_, aligned(blocked_.data()));
    }
    const auto reorder = [&](memory from, memory to) { dnnl::reorder(from, to).execute(stream_, from, to); };
    if (job.reorders_weights && pass != Pass::BackwardWeight) reorder(given, weights);
    job.primitive.execute(
        stream_, {{pass == Pass::BackwardInput ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, memory(job.layouts.x, engine_, x)},
                  {pass == Pass::BackwardWeight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, weights},
                  {pass == Pass::Forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, memory(job.layouts.y, engine_, y)}});
    if (job.reorders_weights && pass == Pass::BackwardWeight) reorder(weights, given);
    stream_.wait();
  }

 private:
  static constexpr std::size_t kAlignment = 64 / sizeof(float);
  static float* aligned(float* at) {
    void* place = at;
    std::size_t space = 2 * 64;
    return static_cast<float*>(std::align(64, 64, place, space));
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<std::pair<Pass, ConvolutionShape>, Prepared> prepared_;
  std::vector<float> blocked_;
};

// oneDNN takes every operand as writable memory; which of them are read is its contract.
void run_by_library(Pass pass, const ConvolutionShape& shape, const float* x, const float* w, const float* y) {
  keep_to_one_core();
  try {
    thread_local Workplace workplace;
    workplace.run(pass, shape, const_cast<float*>(x), const_cast<float*>(w), const_cast<float*>(y));
  } catch (const dnnl::error& error) {
    throw std::runtime_error(std::string("oneDNN refused a convolution: ") + error.what());
  }
}

// The library copies the weights into its layout, elements of `out` for each place of a window; a gathered convolution
// copies the windows. The smaller copy wins: products are as fast as the library's kernels (bench/kernels_bench.cpp).
bool is_gathered(const ConvolutionShape& s) { return s.batch * s.rows.to * s.columns.to <= s.out; }

}  // namespace

template <>
void convolution<float>(const float* x, const float* w, float* y, const ConvolutionShape& shape) {
  if (is_gathered(shape)) return gathered_convolution(x, w, y, shape);
  run_by_library(Pass::Forward, shape, x, w, y);
}
template <>
void convolution_backward_input<float>(const float* w, const float* dy, float* dx, const ConvolutionShape& shape) {
  if (is_gathered(shape)) return gathered_convolution_backward_input(w, dy, dx, shape);
  run_by_library(Pass::BackwardInput, shape, dx, w, dy);
}
template <>
void convolution_backward_weight<float>(const float* x, const float* dy, float* dw, const ConvolutionShape& shape) {
  if (is_gathered(shape)) return gathered_convolution_backward_weight(x, dy, dw, shape);
  run_by_library(Pass::BackwardWeight, shape, x, dw, dy);
}

template <>
void convolution<double>(const double* x, const double* w, double* y, const ConvolutionShape& shape) {
  gathered_convolution(x, w, y, shape);
}
template <>
void convolution_backward_input<double>(const double* w, const double* dy, double* dx, const ConvolutionShape& shape) {
  gathered_convolution_backward_input(w, dy, dx, shape);
}
template <>
void convolution_backward_weight<double>(const double* x, const double* dy, double* dw, const ConvolutionShape& shape) {
  gathered_convolution_backward_weight(x, dy, dw, shape);
}

}  // namespace meshwright::kernels
