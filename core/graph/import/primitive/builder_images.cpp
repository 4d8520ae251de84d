// SPDX-License-Identifier: Apache-2.0
// Windows that slide over images: convolutions of all kinds and pools.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

std::int64_t Builder::slid(std::int64_t size, const Windows& windows, std::size_t d) const {
  const std::int64_t room = size + windows.before[d] + windows.after[d] - windows.window[d];
  if (windows.round_up && room < 0 && -room < windows.stride[d]) return 1;
  expect(room >= 0, fmt::format("a window of {} does not fit into {}", windows.window[d], size));
  const std::int64_t stride = windows.stride[d], up = (room + stride - 1) / stride;
  if (!windows.round_up) return room / stride + 1;
  // A window that begins behind the image, where there is padding alone, is none.
  return up * stride >= size + windows.before[d] ? up : up + 1;
}

int Builder::convolution(int x, int w, const Windows& windows, std::int64_t groups, std::optional<int> bias) {
  // Zeros around an image are padding of its own.
  if (const auto known = padded_.find(x); known != padded_.end() && shape(x).size() == 4) {
    const Padded padded = known->second;
    if (padded.before[0] + padded.after[0] + padded.before[1] + padded.after[1] == 0) {
      Windows wider = windows;
      for (const std::size_t d : {0, 1}) {
        wider.before[d] += padded.before[d + 2];
        wider.after[d] += padded.after[d + 2];
      }
      return convolution(padded.within, w, wider, groups, bias);
    }
  }
  if (shape(x).size() == 3 && shape(w).size() == 3) {  // of rows: of images one element high
    const int made = convolution(unsqueeze(x, {2}), unsqueeze(w, {2}), windows, groups, bias);
    return squeeze(made, {2});
  }
  if (shape(x).size() == 5 && shape(w).size() == 5) return convolution_of_volumes(x, w, windows, groups, bias);
  const Shape &a = shape(x), &b = shape(w);
  expect(a.size() == 4 && b.size() == 4,
         fmt::format("convolutions of {} have no equal here, those of images have", to_text(a)));
  expect(groups >= 1 && a[1] % groups == 0 && b[0] % groups == 0 && b[1] == a[1] / groups,
         fmt::format("a weight of {} does not fit {} in {} groups", to_text(b), to_text(a), groups));
  Windows full = windows;
  full.window = {b[2], b[3]};
  if (full.dilation.empty()) full.dilation = {1, 1};
  for (const std::size_t d : {0, 1})
    if (full.window[d] == 1) full.dilation[d] = 1;
  if (full.dilation != Shape{1, 1}) {
    const int made = dilated_convolution(x, w, full, groups);
    return bias ? binary(Kind::Add, made, unsqueeze(*bias, {1, 2})) : made;
  }
  const Shape to = {a[0], b[0], slid(a[2], full, 0), slid(a[3], full, 1)};
  const int made =
      add(Kind::Convolution, {x, w}, to, false,
          {.window = full.window, .stride = full.stride, .before = full.before, .after = full.after, .groups = groups});
  return bias ? binary(Kind::Add, made, unsqueeze(*bias, {1, 2})) : made;
}

// Over volumes: the images of a window lie side by side as channels, and what is made of each depth is an image.
int Builder::convolution_of_volumes(int x, int w, const Windows& windows, std::int64_t groups,
                                    std::optional<int> bias) {
  const Shape a = shape(x), b = shape(w);
  const std::int64_t gap = windows.dilation.empty() ? 1 : windows.dilation[0], span = gap * (b[2] - 1) + 1;
  const int deep = pad(x, {0, 0, windows.before[0], 0, 0}, {0, 0, windows.after[0], 0, 0}, 0.0);
  const std::int64_t room = shape(deep)[2] - span;
  expect(room >= 0, fmt::format("a window of {} does not fit into {}", span, shape(deep)[2]));
  const std::int64_t depth = room / windows.stride[0] + 1;
  std::vector<int> images;
  for (std::int64_t k = 0; k < b[2]; ++k) images.push_back(every(deep, 2, k * gap, depth, windows.stride[0]));
  const int beside = transpose(stack(images, 2), {0, 3, 1, 2, 4, 5});
  const auto behind = [](const std::vector<std::int64_t>& all) {
    return all.empty() ? all : Shape(all.begin() + 1, all.end());
  };
  const Windows flat{{},    behind(windows.stride),  behind(windows.before), behind(windows.after),
                     false, behind(windows.dilation)};
  const int made = convolution(reshape(beside, {a[0] * depth, a[1] * b[2], a[3], a[4]}),
                               reshape(w, {b[0], b[1] * b[2], b[3], b[4]}), flat, groups, bias);
  const Shape of = shape(made);
  return transpose(reshape(made, {a[0], depth, of[1], of[2], of[3]}), {0, 2, 1, 3, 4});
}

// Windows with gaps. Where the gaps divide the image, each of the images of every so many-th element is convolved for
// itself; elsewhere the elements of a window become channels. Both multiply as often as the windows do.
int Builder::dilated_convolution(int x, int w, const Windows& windows, std::int64_t groups) {
  const Shape a = shape(x), b = shape(w), &gaps = windows.dilation;
  bool divides = true;
  for (const std::size_t d : {0, 1})
    divides = divides && (gaps[d] == 1 || (windows.stride[d] == 1 && a[d + 2] % gaps[d] == 0 &&
                                           windows.before[d] % gaps[d] == 0 && windows.after[d] % gaps[d] == 0));
  if (divides) {
    const std::int64_t rows = gaps[0], columns = gaps[1];
    const int parted = reshape(x, {a[0], a[1], a[2] / rows, rows, a[3] / columns, columns});
    const int images =
        reshape(transpose(parted, {0, 3, 5, 1, 2, 4}), {a[0] * rows * columns, a[1], a[2] / rows, a[3] / columns});
    Windows close = windows;
    close.dilation = {1, 1};
    for (const std::size_t d : {0, 1}) {
      close.before[d] /= gaps[d];
      close.after[d] /= gaps[d];
    }
    const int made = convolution(images, w, close, groups);
    const Shape of = shape(made);
    const int apart = transpose(reshape(made, {a[0], rows, columns, of[1], of[2], of[3]}), {0, 3, 4, 1, 5, 2});
    return reshape(apart, {a[0], of[1], of[2] * rows, of[3] * columns});
  }
  const int columns = unfolded(x, windows);
  const std::int64_t each = windows.window[0] * windows.window[1];
  return convolution(columns, reshape(w, {b[0], b[1] * each, 1, 1}), {{}, {1, 1}, {0, 0}, {0, 0}}, groups);
}

int Builder::unfolded(int x, const Windows& windows) {
  const Shape a = shape(x), gaps = windows.dilation.empty() ? Shape{1, 1} : windows.dilation;
  expect(a.size() == 4, fmt::format("windows of {} have no equal here, those of images have", to_text(a)));
  const auto span = [&](std::size_t d) { return gaps[d] * (windows.window[d] - 1) + 1; };
  expect(windows.window[0] * windows.window[1] <= kMaxUnfolded,
         fmt::format("a window of {} elements, more than {}, has no equal here", windows.window[0] * windows.window[1],
                     kMaxUnfolded));
  const int wide =
      pad(x, {0, 0, windows.before[0], windows.before[1]}, {0, 0, windows.after[0], windows.after[1]}, 0.0);
  Shape results;
  for (const std::size_t d : {0, 1}) {
    const std::int64_t room = shape(wide)[d + 2] - span(d);
    expect(room >= 0, fmt::format("a window of {} does not fit into {}", span(d), shape(wide)[d + 2]));
    results.push_back(room / windows.stride[d] + 1);
  }
  std::vector<int> elements;
  for (std::int64_t i = 0; i < windows.window[0]; ++i)
    for (std::int64_t j = 0; j < windows.window[1]; ++j) {
      int one = wide;
      for (const std::size_t d : {0, 1}) {
        const std::int64_t start = (d == 0 ? i : j) * gaps[d], stride = windows.stride[d];
        one = every(one, static_cast<std::int64_t>(d) + 2, start, results[d], stride);
      }
      elements.push_back(one);
    }
  const std::int64_t each = windows.window[0] * windows.window[1];
  return reshape(stack(elements, 2), {a[0], a[1] * each, results[0], results[1]});
}

// `count` elements from `start` on, each `step` behind the other; what is missing behind the last is no matter.
int Builder::every(int x, std::int64_t axis, std::int64_t start, std::int64_t count, std::int64_t step) {
  if (step == 1) return slice(x, axis, start, start + count);
  const std::int64_t size = shape(x)[static_cast<std::size_t>(axis)], end = start + count * step;
  Shape none(shape(x).size(), 0), behind = none;
  behind[static_cast<std::size_t>(axis)] = std::max<std::int64_t>(end - size, 0);
  const int whole = slice(pad(x, none, behind, 0.0), axis, start, end);
  return slice(whole, axis, 0, count * step, step);
}

int Builder::swapped_in_groups(int w, std::int64_t groups) {
  const Shape of = shape(w);
  expect(of.size() == 4 && groups >= 1 && of[0] % groups == 0, "its weight does not fit its groups");
  if (groups == 1) return swap(w, 0, 1);
  const int parted = transpose(reshape(w, {groups, of[0] / groups, of[1], of[2], of[3]}), {0, 2, 1, 3, 4});
  return reshape(parted, {groups * of[1], of[0] / groups, of[2], of[3]});
}

// The windows of results that are `stride` apart meet the same elements of the weight: each such group of results is a
// convolution of its own, with a part of the weight the other way round.
int Builder::transposed_convolution(int x, int w, const TransposedWindows& windows, std::int64_t groups,
                                    std::optional<int> bias) {
  if (shape(x).size() == 3 && shape(w).size() == 3) {
    const int made = transposed_convolution(unsqueeze(x, {2}), unsqueeze(w, {2}), windows, groups, bias);
    return squeeze(made, {2});
  }
  const Shape a = shape(x), b = shape(w), &stride = windows.stride;
  expect(a.size() == 4 && b.size() == 4 && b[0] == a[1] && groups >= 1 && a[1] % groups == 0,
         fmt::format("a weight of {} does not fit {} in {} groups", to_text(b), to_text(a), groups));
  const auto with_bias = [&](int made) { return bias ? binary(Kind::Add, made, unsqueeze(*bias, {1, 2})) : made; };
  if (a[2] == 1 || a[3] == 1) {  // the windows of one element overlap none
    TransposedWindows wide = windows;
    for (const std::size_t d : {0, 1})
      if (a[d + 2] == 1) wide.stride[d] = b[d + 2];
    if (wide.stride != stride) return transposed_convolution(x, w, wide, groups, bias);
  }
  Shape to;
  bool cuts_nothing = true;
  for (const std::size_t d : {0, 1}) {
    const std::int64_t all = (a[d + 2] - 1) * stride[d] + b[d + 2];
    to.push_back(all - windows.before[d] - windows.after[d]);
    expect(to[d] > 0, fmt::format("its padding leaves nothing of {} elements", all));
    cuts_nothing = cuts_nothing && windows.before[d] == 0 && windows.after[d] == 0;
  }
  if (stride == Shape{b[2], b[3]} && cuts_nothing && groups == 1) {  // windows that lie side by side
    const int each = matmul(transpose(x, {0, 2, 3, 1}), reshape(w, {b[0], b[1] * b[2] * b[3]}));
    const int parted = transpose(reshape(each, {a[0], a[2], a[3], b[1], b[2], b[3]}), {0, 3, 1, 4, 2, 5});
    return with_bias(reshape(parted, {a[0], b[1], a[2] * b[2], a[3] * b[3]}));
  }
  expect(stride[0] * stride[1] <= kMaxPhases,
         fmt::format("a transposed convolution of {} groups of results, more than {}, has no equal here",
                     stride[0] * stride[1], kMaxPhases));
  // (out, in / groups, kh, kw)
  const int weight = swapped_in_groups(w, groups);
  const Shape length = {(to[0] + stride[0] - 1) / stride[0], (to[1] + stride[1] - 1) / stride[1]};
  std::vector<int> rows;
  for (std::int64_t i = 0; i < stride[0]; ++i) {
    std::vector<int> columns;
    for (std::int64_t j = 0; j < stride[1]; ++j) {
      int image = x, part = weight;
      Windows own{{}, {1, 1}, {0, 0}, {0, 0}};
      bool empty = false;
      for (const std::size_t d : {0, 1}) {
        const auto axis = static_cast<std::int64_t>(d) + 2;
        const std::int64_t place = (d == 0 ? i : j) + windows.before[d], first = place % stride[d],
                           shift = place / stride[d];
        std::vector<int> elements;
        for (std::int64_t k = first; k < b[d + 2]; k += stride[d])
          elements.insert(elements.begin(), slice(part, axis, k, k + 1));
        empty = empty || elements.empty();
        if (empty) break;
        part = concat(elements, axis);
        const std::int64_t before = std::ssize(elements) - 1 - shift, after = length[d] - 1 + shift - (a[d + 2] - 1);
        if (before < 0 || after < 0)
          image = slice(image, axis, std::max<std::int64_t>(-before, 0), a[d + 2] - std::max<std::int64_t>(-after, 0));
        own.before[d] = std::max<std::int64_t>(before, 0);
        own.after[d] = std::max<std::int64_t>(after, 0);
        if (std::max(own.before[d], own.after[d]) < std::ssize(elements)) continue;
        Shape ahead(4, 0), behind = ahead;  // zeros that whole windows lie in
        ahead[d + 2] = std::exchange(own.before[d], 0);
        behind[d + 2] = std::exchange(own.after[d], 0);
        image = pad(image, ahead, behind, 0.0);
        padded_.erase(image);  // as padding of the convolution it would be as wide as the window
      }
      columns.push_back(empty ? broadcast(scalar(0.0), {a[0], groups * b[1], length[0], length[1]})
                              : convolution(image, part, own, groups));
    }
    const int row = stack(columns, 4);
    rows.push_back(reshape(row, {a[0], groups * b[1], length[0], length[1] * stride[1]}));
  }
  const int whole = reshape(stack(rows, 3), {a[0], groups * b[1], length[0] * stride[0], length[1] * stride[1]});
  return with_bias(slice(slice(whole, 2, 0, to[0]), 3, 0, to[1]));
}

int Builder::pool(Kind kind, int x, const Windows& given) {
  if (shape(x).size() == 3) return squeeze(pool(kind, unsqueeze(x, {2}), given), {2});  // of rows
  if (shape(x).size() == 5 && given.window.size() == 3) {  // of volumes: of each depth, then of depths
    const auto part = [](const std::vector<std::int64_t>& all, bool depth) {
      return depth ? Shape{all[0], 0} : Shape{all[1], all[2]};
    };
    const auto windows_of = [&](bool depth) {
      Windows one{part(given.window, depth), part(given.stride, depth), part(given.before, depth),
                  part(given.after, depth), given.round_up};
      if (depth) one.window[1] = one.stride[1] = 1;
      return one;
    };
    const Shape of = shape(x);
    const int flat = pool(kind, reshape(x, {of[0], of[1] * of[2], of[3], of[4]}), windows_of(false));
    const Shape small = shape(flat);
    const int made = pool(kind, reshape(flat, {of[0], of[1], of[2], small[2] * small[3]}), windows_of(true));
    return reshape(made, {of[0], of[1], shape(made)[2], small[2], small[3]});
  }
  const Shape a = shape(x);
  expect(a.size() == 4, fmt::format("pooling of {} has no equal here, that of images has", to_text(a)));
  Windows windows = given;
  Shape to = {a[0], a[1], slid(a[2], windows, 0), slid(a[3], windows, 1)};
  for (std::size_t d = 0; d < 2; ++d) {  // rounded up: the last window hangs over, and no more than that of all
    if (windows.round_up)
      windows.window[d] = std::min(windows.window[d], a[d + 2] + windows.before[d] + windows.after[d]);
    const std::int64_t needed = (to[d + 2] - 1) * windows.stride[d] + windows.window[d] - a[d + 2] - windows.before[d];
    windows.after[d] = std::max(windows.after[d], needed);
  }
  return add(kind, {x}, to, false,
             {.window = windows.window, .stride = windows.stride, .before = windows.before, .after = windows.after});
}

// The average of what lies in the image, times the share that this is of all that is counted.
int Builder::average_of_padded(int x, const Windows& windows, std::optional<std::int64_t> divisor) {
  const Shape of = shape(x);
  const int made = pool(Kind::AveragePool, x, windows);
  const Shape to = shape(made);
  expect(of.size() > 2 && windows.window.size() + 2 >= of.size(), "its window is not of the dimensions of its operand");
  std::optional<int> shares;
  for (std::size_t d = 2; d < of.size(); ++d) {
    const std::size_t k = d + windows.window.size() - of.size();
    const bool last = d + 1 == of.size();
    std::vector<double> share;
    for (std::int64_t i = 0; i < to[d]; ++i) {
      const std::int64_t begin = i * windows.stride[k] - windows.before[k], end = begin + windows.window[k];
      const double inside = static_cast<double>(std::min(end, of[d]) - std::max<std::int64_t>(begin, 0));
      const auto counted = static_cast<double>(std::min(end, of[d] + windows.after[k]) - begin);
      share.push_back(inside / (!divisor ? counted : last ? static_cast<double>(*divisor) : 1.0));
    }
    if (std::all_of(share.begin(), share.end(), [](double one) { return one == 1.0; })) continue;
    Shape row(of.size() - 2, 1);
    row[d - 2] = to[d];
    const int along = constant(row, false, std::move(share));
    shares = shares ? binary(Kind::Multiply, *shares, along) : along;
  }
  return shares ? binary(Kind::Multiply, made, *shares) : made;
}

}  // namespace meshwright::primitive
