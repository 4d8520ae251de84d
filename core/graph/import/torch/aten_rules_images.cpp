// SPDX-License-Identifier: Apache-2.0
// What ATen's convolutions, pools and ops that resize images are in primitive ops.
#include <algorithm>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

// Two numbers, of rows (1, number): rows are images one element high.
Numbers widened_pair(const AtenNode& a, const char* name, std::int64_t otherwise, std::size_t dims) {
  Numbers given = a.integers(name);
  if (given.empty()) given = {otherwise};
  if (given.size() == 1) given.resize(dims, given[0]);
  if (dims == 1) given.insert(given.begin(), std::min<std::int64_t>(otherwise, 1));
  a.b.expect(given.size() == std::max<std::size_t>(dims, 2), fmt::format("its {} is not of {} dimensions", name, dims));
  return given;
}
std::size_t dims_of(const AtenNode& a, int x) {
  const std::size_t rank = a.b.shape(x).size();
  a.b.expect(rank >= 3 && rank <= 5, "windows over other than one to three dimensions have no equal here");
  return rank - 2;
}
void expect_within(const AtenNode& a, const Numbers& numbers, std::int64_t least, const char* what) {
  for (const std::int64_t number : numbers)
    a.b.expect(number >= least && number < 1'000'000, fmt::format("its {} is out of range", what));
}
Builder::Windows windows_of(const AtenNode& a, std::size_t dims, const Numbers& window) {
  Builder::Windows windows{window,
                           widened_pair(a, "stride", 1, dims),
                           Numbers(std::max<std::size_t>(dims, 2), 0),
                           Numbers(std::max<std::size_t>(dims, 2), 0),
                           a.flag("ceil_mode", false),
                           widened_pair(a, "dilation", 1, dims)};
  expect_within(a, windows.window, 1, "window");
  expect_within(a, windows.stride, 1, "stride");
  expect_within(a, windows.dilation, 1, "dilation");
  if (a.find("padding", "as_string") == nullptr) {
    windows.before = windows.after = widened_pair(a, "padding", 0, dims);
    expect_within(a, windows.before, 0, "padding");
    return windows;
  }
  const std::string padding = a.text("padding", "valid");
  a.b.expect(padding == "valid" || padding == "same", fmt::format("the padding '{}' has no equal here", padding));
  if (padding == "same")
    for (std::size_t d = 0; d < window.size(); ++d) {
      const std::int64_t all = windows.dilation[d] * (window[d] - 1);
      windows.before[d] = all / 2;
      windows.after[d] = all - all / 2;
    }
  return windows;
}
std::optional<int> bias_of(const AtenNode& a) { return a.has("bias") ? std::optional(a.tensor("bias")) : std::nullopt; }
Made transposed_convolution(const AtenNode& a) {
  const int x = a.tensor("input"), w = a.tensor("weight");
  const std::size_t dims = dims_of(a, x);
  a.b.expect(dims <= 2, "transposed convolutions over other than one or two dimensions have no equal here");
  a.b.expect(widened_pair(a, "dilation", 1, dims) == Numbers({1, 1}),
             "a transposed convolution with dilation has no equal here");
  const Numbers padding = widened_pair(a, "padding", 0, dims), more = widened_pair(a, "output_padding", 0, dims);
  expect_within(a, padding, 0, "padding");
  expect_within(a, more, 0, "padding");
  Builder::TransposedWindows windows{widened_pair(a, "stride", 1, dims), padding, padding};
  expect_within(a, windows.stride, 1, "stride");
  for (const std::size_t d : {0, 1}) windows.after[d] -= more[d];
  return {a.b.transposed_convolution(x, w, windows, a.integer("groups", 1), bias_of(a))};
}
Made convolution(const AtenNode& a) {
  if (a.flag("transposed", false)) return transposed_convolution(a);
  const int x = a.tensor("input"), w = a.tensor("weight");
  const Shape weight = a.b.shape(w);
  a.b.expect(weight.size() >= 3, "its weight has no windows");
  Numbers window(weight.begin() + 2, weight.end());
  const std::size_t dims = dims_of(a, x);
  if (window.size() == 1) window.insert(window.begin(), 1);
  return {a.b.convolution(x, w, windows_of(a, dims, window), a.integer("groups", 1), bias_of(a))};
}
// (batch, channels x elements of a window, windows)
Made columns_of_windows(const AtenNode& a) {
  const int x = a.tensor("self"), made = a.b.unfolded(x, windows_of(a, 2, widened_pair(a, "kernel_size", 1, 2)));
  const Shape of = a.b.shape(made);
  return {a.b.reshape(made, {of[0], of[1], of[2] * of[3]})};
}
template <Kind kind>
Made pool(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::size_t dims = dims_of(a, x);
  const Numbers window = widened_pair(a, "kernel_size", 1, dims);
  Builder::Windows windows = windows_of(a, dims, window);
  a.b.expect(std::all_of(windows.dilation.begin(), windows.dilation.end(), [](std::int64_t one) { return one == 1; }),
             "pooling by windows with gaps has no equal here");
  if (a.integers("stride").empty()) windows.stride = window;
  const bool divides = kind == Kind::AveragePool && a.has("divisor_override");
  if (divides) return {a.b.average_of_padded(x, windows, a.integer("divisor_override", 1))};
  if (kind == Kind::AveragePool && a.flag("count_include_pad", true)) return {a.b.average_of_padded(x, windows)};
  const int made = a.b.pool(kind, x, windows);
  return {made};  // positions of maxima are for a backward alone
}
// Makes the last dimensions of `output_size`, one element of each window.
template <Kind kind>
Made adaptive_pool(const AtenNode& a) {
  int x = a.tensor("self");
  const Numbers to = a.integers("output_size"), of = a.b.shape(x);
  a.b.expect(!to.empty() && to.size() <= 3 && to.size() < of.size(),
             "it pools over other than one to three dimensions");
  Numbers axes, window;
  bool divides = true;
  for (std::size_t d = 0; d < to.size(); ++d) {
    const std::int64_t from = of[of.size() - to.size() + d];
    a.b.expect(to[d] > 0, "its output_size is out of range");
    divides = divides && from % to[d] == 0;
    axes.push_back(static_cast<std::int64_t>(d) - static_cast<std::int64_t>(to.size()));
    window.push_back(from / to[d]);
  }
  const auto all = [](const Numbers& sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size == 1; });
  };
  const bool averages = kind == Kind::AveragePool;
  if (divides && all(window)) return {x};
  if (all(to)) x = a.b.reduce(averages ? Kind::ReduceMean : Kind::ReduceMax, x, axes, true);
  if (all(to)) return {x};
  a.b.expect(divides || averages, "a pooling to maxima of windows of unlike sizes has no equal here");
  if (!divides) {
    for (std::size_t d = 0; d < to.size(); ++d)
      if (a.b.shape(x)[static_cast<std::size_t>(a.b.axis_of(x, axes[d]))] != to[d])
        x = a.b.adaptive_average_along(x, axes[d], to[d]);
    return {x};
  }
  if (to.size() == 1) window.insert(window.begin(), 1);
  x = a.b.pool(kind, x, {window, window, Numbers(window.size(), 0), Numbers(window.size(), 0)});
  return {x};
}

// --- other sizes ---

Made resized(const AtenNode& a, Builder::Places places, Builder::Between between, bool smooths = false) {
  int x = a.tensor(a.has("input") ? "input" : "self");
  const Shape of = a.b.shape(x);
  const std::size_t dims = of.size() < 3 ? 0 : of.size() - 2;
  const Numbers to = a.integers("output_size");
  std::vector<std::optional<double>> factors(dims);
  if (const Json* given = a.find("scale_factors", "as_floats"); given != nullptr && given->is_array())
    for (std::size_t d = 0; d < dims && d < given->size(); ++d)
      if ((*given)[d].is_number()) factors[d] = (*given)[d].get<double>();
  const char* names[] = {"scales_h", "scales_w"};
  for (std::size_t d = 0; d < dims && dims == 2; ++d)
    if (a.find(names[d], "as_float") != nullptr) factors[d] = a.number(names[d], 1.0);
  for (std::size_t d = 0; d < dims; ++d) {
    const auto axis = static_cast<std::int64_t>(d) + 2;
    a.b.expect(d < to.size() || factors[d].has_value(), "it has neither sizes nor factors");
    const double larger = factors[d] ? *factors[d] * static_cast<double>(of[d + 2]) : 1.0;
    a.b.expect(larger >= 1.0 && larger < 1e9, "its factors are out of range");
    const std::int64_t size = d < to.size() ? to[d] : static_cast<std::int64_t>(larger + 1e-6);
    // Between corners the size alone tells the places.
    x = smooths ? a.b.smoothed_along(x, axis, size, factors[d], places, between)
                : a.b.resized_along(x, axis, size, factors[d], places, between);
  }
  return {x};
}
Made nearest(const AtenNode& a) { return resized(a, Builder::Places::Starts, Builder::Between::Nearest); }
Made nearest_exact(const AtenNode& a) {
  return resized(a, Builder::Places::Halves, Builder::Between::NearestRoundedUp);
}
template <Builder::Between between, bool antialiases = false>
Made smooth(const AtenNode& a) {
  const auto places = a.flag("align_corners", false) ? Builder::Places::Corners : Builder::Places::Halves;
  return resized(a, places, between, antialiases);
}
// Channels become blocks of neighbours, and back.
Made shuffled(const AtenNode& a) {
  const int x = a.tensor("self");
  const Shape of = a.b.shape(x);
  const std::int64_t size = a.integer("upscale_factor", 1);
  a.b.expect(of.size() == 4 && size > 0 && size < 10'000 && of[1] % (size * size) == 0,
             "its factor does not fit its channels");
  const std::int64_t channels = of[1] / size / size;
  const int parted = a.b.reshape(x, {of[0], channels, size, size, of[2], of[3]});
  return {a.b.reshape(a.b.transpose(parted, {0, 1, 4, 2, 5, 3}), {of[0], channels, of[2] * size, of[3] * size})};
}
Made unshuffled(const AtenNode& a) {
  const int x = a.tensor("self");
  const Shape of = a.b.shape(x);
  const std::int64_t size = a.integer("downscale_factor", 1);
  a.b.expect(of.size() == 4 && size > 0 && of[2] % size == 0 && of[3] % size == 0, "its factor does not fit its image");
  const int parted = a.b.reshape(x, {of[0], of[1], of[2] / size, size, of[3] / size, size});
  return {
      a.b.reshape(a.b.transpose(parted, {0, 1, 3, 5, 2, 4}), {of[0], of[1] * size * size, of[2] / size, of[3] / size})};
}

}  // namespace

std::map<std::string, Rule> image_rules() {
  using Between = Builder::Between;
  return {{"conv1d", convolution},
          {"conv2d", convolution},
          {"conv3d", convolution},
          {"convolution", convolution},
          {"conv_transpose1d", transposed_convolution},
          {"conv_transpose2d", transposed_convolution},
          {"max_pool1d", pool<Kind::MaxPool>},
          {"max_pool2d", pool<Kind::MaxPool>},
          {"max_pool2d_with_indices", pool<Kind::MaxPool>},
          {"max_pool3d", pool<Kind::MaxPool>},
          {"avg_pool3d", pool<Kind::AveragePool>},
          {"avg_pool1d", pool<Kind::AveragePool>},
          {"avg_pool2d", pool<Kind::AveragePool>},
          {"adaptive_avg_pool1d", adaptive_pool<Kind::AveragePool>},
          {"adaptive_avg_pool2d", adaptive_pool<Kind::AveragePool>},
          {"_adaptive_avg_pool2d", adaptive_pool<Kind::AveragePool>},
          {"adaptive_avg_pool3d", adaptive_pool<Kind::AveragePool>},
          {"_adaptive_avg_pool3d", adaptive_pool<Kind::AveragePool>},
          {"adaptive_max_pool1d", adaptive_pool<Kind::MaxPool>},
          {"adaptive_max_pool2d", adaptive_pool<Kind::MaxPool>},
          {"upsample_nearest1d", nearest},
          {"upsample_nearest2d", nearest},
          {"_upsample_nearest_exact2d", nearest_exact},
          {"upsample_linear1d", smooth<Between::Linear>},
          {"upsample_bilinear2d", smooth<Between::Linear>},
          {"upsample_bicubic2d", smooth<Between::Cubic>},
          {"_upsample_bilinear2d_aa", smooth<Between::Linear, true>},
          {"_upsample_bicubic2d_aa", smooth<Between::Cubic, true>},
          {"im2col", columns_of_windows},
          {"pixel_shuffle", shuffled},
          {"pixel_unshuffle", unshuffled}};
}

}  // namespace meshwright::torch
