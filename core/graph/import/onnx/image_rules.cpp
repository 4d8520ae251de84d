// SPDX-License-Identifier: Apache-2.0
// What ONNX's operators on images and rows are in primitive ops.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/base/errors.h"
#include "core/graph/import/onnx/node_reader.h"

namespace meshwright::onnx {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

// Of a row: an image one element high.
Numbers widened_pair(Numbers given, std::int64_t otherwise, std::size_t dims) {
  if (given.empty()) given.assign(dims, otherwise);
  if (given.size() == 1 && dims == 1) given.insert(given.begin(), otherwise);
  return given;
}

// Two entries each, from 1, 2 or 4 given, of images and rows.
Builder::Windows windows_of(const NodeReader& r, const Shape& x, const Numbers& window) {
  const std::size_t dims = x.size() < 3 ? 0 : x.size() - 2, all = std::max<std::size_t>(dims, 2);
  r.b.expect(dims >= 1 && dims <= 3, "windows over other than one to three dimensions have no equal here");
  r.b.expect(window.size() == dims, "its window is not of the dimensions of its operand");
  Builder::Windows windows{
      widened_pair(window, 1, dims), widened_pair(r.numbers("strides"), 1, dims),  Numbers(all, 0), Numbers(all, 0),
      r.number("ceil_mode", 0) != 0, widened_pair(r.numbers("dilations"), 1, dims)};
  const Numbers pads = r.numbers("pads");
  r.b.expect(windows.window.size() == all && windows.stride.size() == all && windows.dilation.size() == all &&
                 (pads.empty() || pads.size() == 2 * dims),
             "its strides, dilations or padding are not those of its dimensions");
  for (const Numbers* of : {&windows.window, &windows.stride, &windows.dilation})
    for (const std::int64_t number : *of)
      r.b.expect(number >= 1 && number <= 1'000'000, "its window, stride or dilation is out of range");
  for (const std::int64_t pad : pads) r.b.expect(pad >= 0 && pad <= 1'000'000, "its padding is out of range");
  for (std::size_t d = 0; d < dims && !pads.empty(); ++d) {
    windows.before[d + all - dims] = pads[d];
    windows.after[d + all - dims] = pads[dims + d];
  }
  const std::string automatic = r.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    for (std::size_t d = all - dims; d < all; ++d) {
      const std::int64_t size = x[d + 2 + dims - all];
      const std::int64_t results = (size + windows.stride[d] - 1) / windows.stride[d];
      const std::int64_t span = windows.dilation[d] * (windows.window[d] - 1) + 1;
      const std::int64_t more = std::max<std::int64_t>(0, (results - 1) * windows.stride[d] + span - size);
      windows.before[d] = automatic == "SAME_LOWER" ? (more + 1) / 2 : more / 2;
      windows.after[d] = more - windows.before[d];
    }
  return windows;
}
std::optional<int> bias_of(const NodeReader& r) { return r.has(2) ? std::optional(r.in(2)) : std::nullopt; }
Made convolution(const NodeReader& r) { return {convolution_of(r, r.in(0), r.in(1))}; }

// How much padding makes results of this size: before and after.
std::pair<std::int64_t, std::int64_t> padding_for(const NodeReader& r, std::int64_t all, std::int64_t wanted) {
  const std::int64_t cut = all - wanted, half = cut / 2;
  return r.text("auto_pad", "NOTSET") == "SAME_UPPER" ? std::pair{half, cut - half} : std::pair{cut - half, half};
}
Made transposed_convolution(const NodeReader& r) {
  const int x = r.in(0), w = r.in(1);
  const Shape of = r.b.shape(x), weight = r.b.shape(w);
  const std::size_t dims = of.size() < 3 ? 0 : of.size() - 2;
  r.b.expect((dims == 1 || dims == 2) && weight.size() == of.size(),
             "transposed convolutions over other than one or two dimensions have no equal here");
  const Numbers dilations = r.numbers("dilations"), pads = r.numbers("pads"), wanted = r.numbers("output_shape"),
                more = widened_pair(r.numbers("output_padding"), 0, dims);
  r.b.expect(std::all_of(dilations.begin(), dilations.end(), [](std::int64_t one) { return one == 1; }),
             "a transposed convolution with dilation has no equal here");
  Builder::TransposedWindows windows{widened_pair(r.numbers("strides"), 1, dims), {0, 0}, {0, 0}};
  r.b.expect(windows.stride.size() == 2 && more.size() == 2 && (pads.empty() || pads.size() == 2 * dims) &&
                 (wanted.empty() || wanted.size() >= dims),
             "its strides or padding are not those of its dimensions");
  const std::string automatic = r.text("auto_pad", "NOTSET");
  for (std::size_t d = 2 - dims; d < 2; ++d) {
    const std::size_t own = d + dims - 2;
    for (const std::int64_t number :
         {windows.stride[d], more[d] + 1, pads.empty() ? 1 : pads[own] + 1, pads.empty() ? 1 : pads[dims + own] + 1})
      r.b.expect(number >= 1 && number <= 1'000'000, "its stride or padding is out of range");
    const std::int64_t all = (of[own + 2] - 1) * windows.stride[d] + weight[own + 2];
    if (!wanted.empty()) {
      std::tie(windows.before[d], windows.after[d]) = padding_for(r, all, wanted[wanted.size() - dims + own]);
    } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      std::tie(windows.before[d], windows.after[d]) = padding_for(r, all, of[own + 2] * windows.stride[d]);
    } else if (!pads.empty()) {
      windows.before[d] = pads[own];
      windows.after[d] = pads[dims + own];
    }
    windows.after[d] -= wanted.empty() ? more[d] : 0;
  }
  return {r.b.transposed_convolution(x, w, windows, r.number("group", 1), bias_of(r))};
}

template <Kind kind>
Made pool(const NodeReader& r) {
  const int x = r.in(0);
  const auto windows = windows_of(r, r.b.shape(x), r.numbers("kernel_shape"));
  r.b.expect(std::all_of(windows.dilation.begin(), windows.dilation.end(), [](std::int64_t one) { return one == 1; }),
             "pooling by windows with gaps has no equal here");
  if (kind == Kind::AveragePool && r.number("count_include_pad", 0) != 0) return {r.b.average_of_padded(x, windows)};
  return {r.b.pool(kind, x, windows)};
}
template <Kind kind>
Made global_pool(const NodeReader& r) {
  Numbers axes(r.b.shape(r.in(0)).size());
  std::iota(axes.begin(), axes.end(), 0);
  r.b.expect(axes.size() > 2, "there is nothing to pool over");
  axes.erase(axes.begin(), axes.begin() + 2);
  return {r.b.reduce(kind, r.in(0), axes, true)};
}

// --- other sizes ---

Builder::Places places_of(const NodeReader& r, const std::string& otherwise) {
  const std::string name = r.text("coordinate_transformation_mode", otherwise);
  if (name == "half_pixel" || name == "pytorch_half_pixel") return Builder::Places::Halves;
  if (name == "tf_half_pixel_for_nn" && r.text("mode", "nearest") == "nearest") return Builder::Places::Halves;
  if (name == "align_corners") return Builder::Places::Corners;
  r.b.expect(name == "asymmetric", fmt::format("resizing by the places '{}' has no equal here", name));
  return Builder::Places::Starts;
}
Builder::Between between_of(const NodeReader& r, bool old) {
  const std::string mode = r.text("mode", "nearest");
  r.b.expect(r.number("antialias", 0) == 0, "resizing that smooths first has no equal here");
  if (mode == "linear" || mode == "bilinear") return Builder::Between::Linear;
  if (mode == "cubic") {
    r.b.expect(r.real("cubic_coeff_a", -0.75) == -0.75 && r.number("exclude_outside", 0) == 0,
               "cubic resizing by other than the usual weights has no equal here");
    return Builder::Between::Cubic;
  }
  r.b.expect(mode == "nearest", fmt::format("resizing by the mode '{}' has no equal here", mode));
  const std::string nearest = r.text("nearest_mode", old ? "floor" : "round_prefer_floor");
  if (nearest == "round_prefer_floor") return Builder::Between::NearestRoundedDown;
  if (nearest == "round_prefer_ceil") return Builder::Between::NearestRoundedUp;
  if (nearest == "floor" && r.text("coordinate_transformation_mode", "") == "tf_half_pixel_for_nn")
    return Builder::Between::NearestRoundedUp;  // the places there are half an element further
  r.b.expect(nearest == "floor", fmt::format("resizing to the nearest by '{}' has no equal here", nearest));
  return Builder::Between::Nearest;
}
// `factors` by value: what is made next moves the numbers of constants.
int resized(const NodeReader& r, std::vector<double> factors, const Numbers& sizes, bool old) {
  int x = r.in(0);
  const Builder::Places places = places_of(r, old ? "asymmetric" : "half_pixel");
  const Builder::Between between = between_of(r, old);
  const Shape of = r.b.shape(x);
  Numbers axes = r.numbers("axes");
  if (axes.empty())
    for (std::int64_t d = 0; d < std::ssize(of); ++d) axes.push_back(d);
  r.b.expect(sizes.empty() ? factors.size() == axes.size() : sizes.size() == axes.size(),
             "it has neither a size nor a factor for each dimension");
  r.b.expect(r.text("keep_aspect_ratio_policy", "stretch") == "stretch",
             "resizing that keeps the ratio has no equal here");
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::int64_t axis = r.b.axis_of(x, axes[k]), size = of[static_cast<std::size_t>(axis)];
    if (!sizes.empty()) {
      // A size that the file made for its own batch leaves the batch.
      if (sizes[k] == size || primitive::holds_batch(size)) continue;
      x = r.b.resized_along(x, axis, sizes[k], {}, places, between);
      continue;
    }
    if (factors[k] == 1.0) continue;
    const double larger = factors[k] * static_cast<double>(size);
    r.b.expect(!primitive::holds_batch(size) && larger >= 1.0 && larger < 1e9, "its factors are out of range");
    x = r.b.resized_along(x, axis, static_cast<std::int64_t>(larger + 1e-6), factors[k], places, between);
  }
  return x;
}
// (x, [region], [factors], [sizes]); before operator set 11 (x, factors).
Made resize(const NodeReader& r) {
  if (r.opset > 0 && r.opset < 11) return {resized(r, r.b.values(r.in(1), "factors"), {}, true)};
  if (r.has(3)) return {resized(r, {}, r.b.integers_of(r.in(3), "sizes"), false)};
  r.b.expect(r.has(2), "it has neither sizes nor factors");
  return {resized(r, r.b.values(r.in(2), "factors"), {}, false)};
}
Made upsample(const NodeReader& r) {
  return {resized(r, r.has(1) ? r.b.values(r.in(1), "factors") : r.reals("scales"), {}, true)};
}

// x / (bias + alpha / size * the sum of the squares of `size` channels around it) ^ beta
Made local_response(const NodeReader& r) {
  const int x = r.in(0);
  const Shape of = r.b.shape(x);
  const std::int64_t size = r.number("size", 1), before = (size - 1) / 2, after = size - 1 - before;
  r.b.expect(of.size() >= 2 && size >= 1 && size <= 64, "its channels are out of range");
  Numbers none(of.size(), 0), ahead = none, behind = none;
  ahead[1] = before;
  behind[1] = after;
  const int squares = r.b.pad(r.b.unary(Kind::Square, x), ahead, behind, 0.0);
  int sum = r.b.slice(squares, 1, 0, of[1]);
  for (std::int64_t k = 1; k < size; ++k) sum = r.b.binary(Kind::Add, sum, r.b.slice(squares, 1, k, k + of[1]));
  const double alpha = r.real("alpha", 1e-4) / static_cast<double>(size);
  const int base =
      r.b.binary(Kind::Add, r.b.binary(Kind::Multiply, sum, r.b.scalar(alpha)), r.b.scalar(r.real("bias", 1.0)));
  return {r.b.binary(Kind::Multiply, x, r.b.binary(Kind::Power, base, r.b.scalar(-r.real("beta", 0.75))))};
}
// Blocks of neighbours become channels, and back.
Made space_to_depth(const NodeReader& r) {
  const Shape of = r.b.shape(r.in(0));
  const std::int64_t size = r.number("blocksize", 0);
  r.b.expect(of.size() == 4 && size > 0 && of[2] % size == 0 && of[3] % size == 0, "its blocks do not fit its image");
  const int parted = r.b.reshape(r.in(0), {of[0], of[1], of[2] / size, size, of[3] / size, size});
  const int moved = r.b.transpose(parted, {0, 3, 5, 1, 2, 4});
  return {r.b.reshape(moved, {of[0], of[1] * size * size, of[2] / size, of[3] / size})};
}
Made depth_to_space(const NodeReader& r) {
  const Shape of = r.b.shape(r.in(0));
  const std::int64_t size = r.number("blocksize", 0);
  r.b.expect(of.size() == 4 && size > 0 && size < 10'000 && of[1] % (size * size) == 0,
             "its blocks do not fit its channels");
  const std::int64_t channels = of[1] / size / size;
  const bool columns_first = r.text("mode", "DCR") == "CRD";
  const int parted = r.b.reshape(r.in(0), columns_first ? Shape{of[0], channels, size, size, of[2], of[3]}
                                                        : Shape{of[0], size, size, channels, of[2], of[3]});
  const int moved = r.b.transpose(parted, columns_first ? Numbers{0, 1, 4, 2, 5, 3} : Numbers{0, 3, 4, 1, 5, 2});
  return {r.b.reshape(moved, {of[0], channels, of[2] * size, of[3] * size})};
}

}  // namespace

int convolution_of(const NodeReader& r, int x, int w) {
  const Shape weight = r.b.shape(w);
  const std::size_t rank = r.b.shape(x).size();
  r.b.expect(rank >= 3 && rank <= 5 && weight.size() == rank,
             "convolutions over other than one to three dimensions have no equal here");
  const auto windows = windows_of(r, r.b.shape(x), Numbers(weight.begin() + 2, weight.end()));
  return r.b.convolution(x, w, windows, r.number("group", 1), bias_of(r));
}

std::map<std::string, Rule> image_rules() {
  return {{"Conv", convolution},
          {"ConvTranspose", transposed_convolution},
          {"Resize", resize},
          {"Upsample", upsample},
          {"LRN", local_response},
          {"SpaceToDepth", space_to_depth},
          {"DepthToSpace", depth_to_space},
          {"MaxPool", pool<Kind::MaxPool>},
          {"AveragePool", pool<Kind::AveragePool>},
          {"GlobalMaxPool", global_pool<Kind::ReduceMax>},
          {"GlobalAveragePool", global_pool<Kind::ReduceMean>}};
}

}  // namespace meshwright::onnx
