// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/data_parts.h"

#include <algorithm>
#include <cmath>

namespace meshwright::xla {

namespace {

using Numbers = std::vector<std::int64_t>;

// A dimension of an argument in another form.
struct Dim {
  std::int64_t size;
  bool batch = false;  // `size` samples, `stride` apart
  std::int64_t stride = 1;
  std::int64_t axis = -1;  // of the argument, if it is none of the batch; -1: of one element
  std::int64_t from = 0;   // where it begins on that axis
};

struct View {
  int parameter;
  std::vector<Dim> dims;
};

std::optional<std::vector<Dim>> reshaped(const std::vector<Dim>& from, const Numbers& to) {
  std::vector<Dim> made;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    const bool one_before = i < from.size() && from[i].size == 1, one_after = j < to.size() && to[j] == 1;
    if (one_before && !one_after) {
      ++i;
    } else if (one_after && !one_before) {
      made.push_back({1});
      ++j;
    } else if (i == from.size() || j == to.size()) {
      return std::nullopt;
    } else if (from[i].size == to[j]) {
      made.push_back(from[i++]);
      ++j;
    } else if (from[i].batch && to[j] > 0) {  // the batch in parts
      std::int64_t rest = from[i].size;
      for (; rest > 1 && j < to.size() && to[j] > 0 && rest % to[j] == 0; ++j) {
        rest /= to[j];
        made.push_back({to[j], true, from[i].stride * rest});
      }
      if (rest != 1) return std::nullopt;
      ++i;
    } else {
      return std::nullopt;
    }
  }
  return made;
}

class PartFinder {
 public:
  PartFinder(const FlatProgram& flat, const Roles& roles) : flat_(flat), roles_(roles) {}

  std::optional<DataParts> run() {
    for (std::size_t p = 0; p < flat_.parameters.size(); ++p) {
      const int value = flat_.parameters[p];
      const Numbers& sizes = type(value).sizes;
      if (roles_.roles[p] != Role::Batch || sizes.empty() || sizes[0] != roles_.batch || roles_.batch < 2) continue;
      View view{value, {{sizes[0], true}}};
      for (std::size_t d = 1; d < sizes.size(); ++d)
        view.dims.push_back({sizes[d], false, 1, static_cast<std::int64_t>(d)});
      views_.emplace(value, std::move(view));
    }
    for (std::size_t i = 0; i < flat_.ops.size(); ++i)
      if (roles_.needed[i] && !follow(flat_.ops[i])) return std::nullopt;
    if (made_.slices.empty() || !all_parts()) return std::nullopt;
    for (const auto& [value, view] : views_)
      if (made_.rows.contains(view.parameter)) made_.views.insert(value);
    return std::move(made_);
  }

 private:
  [[nodiscard]] const Type& type(int value) const { return *flat_.values[static_cast<std::size_t>(value)].type; }

  // False: the parts do not fit to each other.
  bool follow(const FlatOp& op) {
    if (op.operands.empty() || op.results.size() != 1) return true;
    const auto found = views_.find(op.operands[0]);
    if (found == views_.end()) return true;
    View view = found->second;
    const std::string& opcode = op.instruction->opcode;
    const Attributes& a = op.instruction->attributes;
    const Numbers& to = type(op.results[0]).sizes;
    if ((opcode == "reshape" || opcode == "bitcast") && op.operands.size() == 1) {
      std::optional<std::vector<Dim>> dims = reshaped(view.dims, to);
      if (!dims) return true;
      view.dims = std::move(*dims);
    } else if ((opcode == "convert" || opcode == "copy") && op.operands.size() == 1) {
      if (to.size() != view.dims.size()) return true;
    } else if (opcode == "transpose" && a.dimensions.size() == view.dims.size()) {
      const std::vector<Dim> before = view.dims;
      for (std::size_t d = 0; d < before.size(); ++d) {
        if (a.dimensions[d] < 0 || a.dimensions[d] >= static_cast<std::int64_t>(before.size())) return true;
        view.dims[d] = before[static_cast<std::size_t>(a.dimensions[d])];
      }
    } else if (opcode == "slice" || opcode == "dynamic-slice") {
      return cut(op, view);
    } else {
      return true;
    }
    views_.emplace(op.results[0], std::move(view));
    return true;
  }

  bool cut(const FlatOp& op, View view) {
    const Attributes& a = op.instruction->attributes;
    const bool dynamic = op.instruction->opcode == "dynamic-slice";
    const Numbers& to = type(op.results[0]).sizes;
    const std::size_t rank = view.dims.size();
    if (to.size() != rank || (dynamic ? op.operands.size() != rank + 1 : a.start.size() != rank)) return true;
    std::int64_t part = -1, parts = 1;
    for (std::size_t d = 0; d < rank; ++d) {
      Dim& dim = view.dims[d];
      if (to[d] == dim.size) continue;
      const auto number = dynamic ? flat_.values[static_cast<std::size_t>(op.operands[d + 1])].number
                                  : std::optional(static_cast<double>(a.start[d]));
      if (!number || std::isnan(*number) || to[d] < 1 || to[d] > dim.size) return true;
      const auto start = static_cast<std::int64_t>(std::clamp(*number, 0.0, static_cast<double>(dim.size - to[d])));
      const std::int64_t step = dynamic || d >= a.stride.size() ? 1 : a.stride[d];
      if (!dim.batch) {
        if (step != 1) return true;
        dim.from += start;
      } else {
        if (part >= 0 || dim.size % to[d] != 0) return true;
        parts = dim.size / to[d];
        if (step == 1 ? start % to[d] != 0 : step != parts || start >= parts) return true;
        part = step == 1 ? start / to[d] : start;
      }
      dim.size = to[d];
    }
    if (part < 0) {
      views_.emplace(op.results[0], std::move(view));
      return true;
    }
    // The rows of a micro-batch in the order of the argument's dimensions, but for those of one element.
    std::int64_t samples = 1, last = 0;
    const std::size_t axes = type(view.parameter).sizes.size();
    std::vector<Slice::Range> ranges(axes, {0, 1});
    for (const Dim& dim : view.dims) {
      if (dim.batch && dim.size > 1) {
        if (samples > 1 || last > 0) return false;
        samples = dim.size;
      } else if (!dim.batch && dim.axis >= 0) {
        ranges[static_cast<std::size_t>(dim.axis)] = {dim.from, dim.size};
        if (dim.size == 1) continue;
        if (dim.axis < last) return false;
        last = dim.axis;
      }
    }
    ranges[0] = {0, samples};
    if (samples * parts != roles_.batch || (made_.parts > 0 && (parts != made_.parts || samples != made_.samples)))
      return false;
    made_.parts = parts;
    made_.samples = samples;
    made_.slices.emplace(op.results[0], Slice{view.parameter, part, std::move(ranges)});
    Type rows = type(view.parameter);
    rows.sizes[0] = samples;
    made_.rows.emplace(view.parameter, std::move(rows));
    if (op.turn >= 0) made_.turns.insert(outermost(flat_, op.turn));
    return true;
  }

  // Every argument is read part by part, each part of it, or all of them have the same part alone.
  bool all_parts() {
    std::map<int, std::set<std::int64_t>> read;
    std::set<std::int64_t> any;
    for (const auto& [value, slice] : made_.slices) read[slice.parameter].insert(slice.part), any.insert(slice.part);
    made_.of_one_part = any.size() == 1;
    if (made_.of_one_part && made_.turns.empty()) return false;
    for (const auto& [parameter, parts] : read)
      if (!made_.of_one_part && static_cast<std::int64_t>(parts.size()) != made_.parts) return false;
    if (made_.samples == 1) unstack();
    return true;
  }

  // Arguments of (micro-batches, samples, ...) are told from samples that are read one by one by the dimension that all
  // of them have next, where one of them has a third.
  void unstack() {
    std::size_t most = 0;
    std::set<std::int64_t> second;
    for (const auto& [parameter, rows] : made_.rows) {
      most = std::max(most, rows.sizes.size());
      second.insert(rows.sizes.size() < 2 ? 0 : rows.sizes[1]);
    }
    if (most < 3 || second.size() != 1 || *second.begin() < 2) return;
    for (auto& [parameter, rows] : made_.rows) rows.sizes.erase(rows.sizes.begin());
    for (auto& [value, slice] : made_.slices) slice.ranges.erase(slice.ranges.begin());
    made_.samples = *second.begin();
  }

  const FlatProgram& flat_;
  const Roles& roles_;
  DataParts made_;
  std::map<int, View> views_;
};

}  // namespace

std::optional<DataParts> data_parts(const FlatProgram& flat, const Roles& roles) {
  return PartFinder(flat, roles).run();
}

}  // namespace meshwright::xla
