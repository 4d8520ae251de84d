// SPDX-License-Identifier: Apache-2.0
// The bench for ops: derivatives against finite differences (tests/op_case.h), and every op shard by shard against the
// op as a whole.
//
//   OpCase c;
//   const TensorId x = c.parameter("x", {{"batch", 4}, {"embed", 8}});
//   const TensorId w = c.parameter("w", {{"embed", 8}, {"mlp", 4}});
//   c.add(OpKind::Contract, {x, w}, {.result_names = {"batch", "mlp"}});
//   expect_true_vjp(c);
//   expect_sharded_equals_whole(c);
#pragma once

#include <cstring>
#include <limits>

#include "core/sharding/split_by_name.h"
#include "tests/op_case.h"

namespace meshwright {

namespace op_bench {

inline LogicalMesh grid(const std::vector<int>& shape) {
  LogicalMesh mesh;
  int devices = 1;
  for (const int size : shape) {
    mesh.axes.push_back({size, 1, {Seconds(1), SecondsPerByte(1)}, {Seconds(1), SecondsPerByte(1)}});
    devices *= size;
  }
  mesh.of = {1, devices};
  return mesh;
}

// Operands as a kernel gets them: doubles or int32. Results are filled with what no kernel writes, and a few elements
// behind each must still be there afterwards.
class Storage {
 public:
  Storage(const Tensor& tensor, std::size_t count) : integer_(tensor.dtype == DType::I32), count_(count) {
    if (integer_) integers_.assign(count + kBehind, kNoInteger);
    if (!integer_) numbers_.assign(count + kBehind, std::numeric_limits<double>::quiet_NaN());
  }
  Storage(const Tensor& tensor, const Values& values) : Storage(tensor, values.size()) {
    for (std::size_t i = 0; i < count_; ++i)
      if (integer_)
        integers_[i] = static_cast<std::int32_t>(values[i]);
      else
        numbers_[i] = values[i];
  }
  [[nodiscard]] void* data() { return integer_ ? static_cast<void*>(integers_.data()) : numbers_.data(); }
  [[nodiscard]] Values get(const std::string& name) const {
    for (std::size_t i = count_; i < count_ + kBehind; ++i)
      EXPECT_TRUE(integer_ ? integers_[i] == kNoInteger : std::isnan(numbers_[i])) << "written behind " << name;
    if (!integer_) return {numbers_.begin(), numbers_.end() - kBehind};
    return {integers_.begin(), integers_.end() - kBehind};
  }

 private:
  static constexpr int kBehind = 4;
  static constexpr std::int32_t kNoInteger = std::numeric_limits<std::int32_t>::min();
  bool integer_;
  std::size_t count_;
  std::vector<double> numbers_;
  std::vector<std::int32_t> integers_;
};

// The part of a whole tensor that a device holds: its sizes and where it begins, per dimension.
struct Tile {
  std::vector<std::int64_t> sizes, begin;
  [[nodiscard]] std::size_t elements() const {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    return static_cast<std::size_t>(count);
  }
};

inline Tile tile_of(const Tensor& tensor, const ShardingSpec& spec, const LogicalMesh& mesh, int device) {
  Tile tile{local_shape(tensor.dims, spec, mesh), {}};
  for (std::size_t d = 0; d < tile.sizes.size(); ++d)
    tile.begin.push_back(tile_index(spec.dims[d], mesh, mesh.coordinates(device)) * tile.sizes[d]);
  return tile;
}

// Calls visit(position in the tile, position in the whole tensor).
template <class Visit>
void for_each_element(const Tensor& tensor, const Tile& tile, Visit visit) {
  for (std::size_t i = 0; i < tile.elements(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), whole = 0, stride = 1;
    for (std::size_t d = tile.sizes.size(); d > 0; --d) {
      whole += (tile.begin[d - 1] + rest % tile.sizes[d - 1]) * stride;
      rest /= tile.sizes[d - 1];
      stride *= tensor.dims[d - 1].size;
    }
    visit(i, static_cast<std::size_t>(whole));
  }
}

// One device's results of `op`, whose operands are `operands` in whole.
inline std::vector<Values> run_shard(const Graph& graph, const Op& op, const std::vector<Values>& operands,
                                     const AxesByName& axes, const LogicalMesh& mesh, int device) {
  const IterationSpace space = iteration_space(graph, op);
  std::vector<std::int64_t> sizes = local_axis_sizes(space, axes, mesh), begin;
  for (std::size_t a = 0; a < sizes.size(); ++a)
    begin.push_back(tile_index(mask_of(axes, space.axes[a].name), mesh, mesh.coordinates(device)) * sizes[a]);
  std::vector<Storage> inputs, outputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Tensor& tensor = graph.tensor(op.inputs[i]);
    const Tile tile = tile_of(tensor, operand_spec(space, i, axes), mesh, device);
    Values local(tile.elements());
    for_each_element(tensor, tile, [&](std::size_t here, std::size_t whole) { local[here] = operands[i][whole]; });
    inputs.emplace_back(tensor, local);
  }
  for (std::size_t r = 0; r < op.outputs.size(); ++r) {
    const Tensor& tensor = graph.tensor(op.outputs[r]);
    outputs.emplace_back(tensor, tile_of(tensor, raw_result(space, r, axes), mesh, device).elements());
  }
  const bool in_place = row_of(op.kind).in_place;
  std::vector<void*> in, out;
  for (Storage& input : inputs) in.push_back(input.data());
  for (std::size_t r = 0; r < outputs.size(); ++r) out.push_back(in_place ? in[r] : outputs[r].data());
  run_op<double>(plan_op(graph, op, sizes), in, out, {.begin = begin, .step = 3, .microbatch = 1});
  std::vector<Values> results;
  for (std::size_t r = 0; r < outputs.size(); ++r)
    results.push_back((in_place ? inputs : outputs)[r].get(graph.tensor(op.outputs[r]).name));
  for (const Storage& input : inputs) (void)input.get("an operand");
  return results;
}

// The whole results put together from the devices' ones: tiles side by side, partial ones combined. Devices that hold
// the same must hold the same bits.
inline std::vector<Values> assemble(const Graph& graph, const Op& op, const AxesByName& axes, const LogicalMesh& mesh,
                                    const std::vector<std::vector<Values>>& of_device) {
  const IterationSpace space = iteration_space(graph, op);
  std::vector<Values> whole;
  for (std::size_t r = 0; r < op.outputs.size(); ++r) {
    const Tensor& tensor = graph.tensor(op.outputs[r]);
    const ShardingSpec spec = raw_result(space, r, axes);
    const bool maximum = space.reduce == IterationSpace::Reduce::Max;
    Values total(static_cast<std::size_t>(tensor.elements()), maximum ? -std::numeric_limits<double>::infinity() : 0.0);
    std::map<std::pair<std::vector<std::int64_t>, int>, Values> first;  // by tile and number among the partial results
    for (int device = 0; device < mesh.devices(); ++device) {
      const Tile tile = tile_of(tensor, spec, mesh, device);
      const Values& part = of_device[static_cast<std::size_t>(device)][r];
      const auto [known, added] =
          first.emplace(std::pair(tile.begin, tile_index(spec.partial, mesh, mesh.coordinates(device))), part);
      if (!added) {
        EXPECT_EQ(std::memcmp(known->second.data(), part.data(), part.size() * sizeof(double)), 0)
            << tensor.name << ": device " << device << " holds other bits than its replica";
        continue;
      }
      for_each_element(tensor, tile, [&](std::size_t here, std::size_t there) {
        total[there] = maximum ? std::max(total[there], part[here]) : total[there] + part[here];
      });
    }
    whole.push_back(std::move(total));
  }
  return whole;
}

inline std::vector<Values> run_sharded(const Graph& graph, const Op& op, const std::vector<Values>& operands,
                                       const AxesByName& axes, const LogicalMesh& mesh) {
  std::vector<std::vector<Values>> of_device;
  for (int device = 0; device < mesh.devices(); ++device)
    of_device.push_back(run_shard(graph, op, operands, axes, mesh, device));
  return assemble(graph, op, axes, mesh, of_device);
}

// Every way to give each mesh axis to one splittable axis of the space that it divides, or to none.
inline std::vector<AxesByName> assignments(const IterationSpace& space, const LogicalMesh& mesh) {
  std::vector<AxesByName> found = {{}};
  for (int axis = 0; axis < mesh.rank(); ++axis) {
    const std::vector<AxesByName> before = found;
    for (const AxesByName& one : before)
      for (const IterationAxis& loop : space.axes) {
        AxesByName more = one;
        more[loop.name] = static_cast<AxisMask>(mask_of(one, loop.name) | 1 << axis);
        if (loop.splittable && loop.size % shards(more[loop.name], mesh) == 0) found.push_back(std::move(more));
      }
  }
  return found;
}

// `axes` restricted to what `op` walks; a backward op must be able to follow its forward op.
inline AxesByName followed(const IterationSpace& space, const AxesByName& axes, const std::string& name) {
  AxesByName own;
  for (const IterationAxis& axis : space.axes) {
    const AxisMask mask = mask_of(axes, axis.name);
    if (mask == 0) continue;
    EXPECT_TRUE(axis.splittable) << name << " cannot be split along " << axis.name << ", its forward op can";
    if (axis.splittable) own[axis.name] = mask;
  }
  return own;
}

inline void expect_equal(const Graph& graph, const Op& op, const std::vector<Values>& sharded,
                         const std::vector<Values>& whole, double tolerance) {
  for (std::size_t r = 0; r < whole.size(); ++r) {
    const double bound = tolerance * largest(whole[r]);
    for (std::size_t i = 0; i < whole[r].size(); ++i) {
      if (std::abs(sharded[r][i] - whole[r][i]) <= bound) continue;  // false for what is not a number
      ADD_FAILURE() << fmt::format("{}[{}] is {}, on one device {}", graph.tensor(op.outputs[r]).name, i, sharded[r][i],
                                   whole[r][i]);
      break;  // the first of a result says enough
    }
  }
}

inline std::string to_text(const AxesByName& axes, const LogicalMesh& mesh) {
  std::string text = "mesh " + mesh.to_text();
  for (const auto& [name, mask] : axes) text += fmt::format(", {} over {} shards", name, shards(mask, mesh));
  return text;
}

// The ops a forward op is checked with: itself and what autodiff derived from it.
inline std::vector<Op> family_of(const Graph& graph, const Op& forward) {
  std::vector<Op> family = {forward};
  for (const Op& op : graph.ops())
    if (op.forward == forward.id && op.phase == Phase::Backward) family.push_back(op);
  return family;
}

}  // namespace op_bench

// Every forward op of the case, and every backward op derived from it under the same names, in every legal strategy on
// meshes of 2, 4 and 2 x 2 devices against the op on one device: within `tolerance` of the largest element (integers
// and replicas exactly). At least one strategy must split the op added last. Returns how many strategies of the last op
// split something.
inline int expect_sharded_equals_whole(const OpCase& forward, double tolerance = 1e-12) {
  using namespace op_bench;
  const Op last = forward.graph.ops().back();
  const bool differentiable = row_of(last.kind).derivative != nullptr || row_of(last.kind).loss_derivative != nullptr;
  const OpCase c = differentiable ? with_backward(forward) : forward;
  const Graph& graph = c.graph;
  GraphInterpreter interpreter(graph, 0, DType::F64);
  load(c, interpreter);
  for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  int splits = 0;
  for (const OpId id : forward_ops(graph)) {
    const IterationSpace walked = iteration_space(graph, graph.op(id));
    for (const Op& op : family_of(graph, graph.op(id))) {
      std::vector<Values> operands;
      for (const TensorId input : op.inputs) operands.push_back(interpreter.get(input));
      const IterationSpace space = iteration_space(graph, op);
      const std::vector<Values> whole = run_sharded(graph, op, operands, {}, grid({1}));
      for (const auto& shape : {std::vector<int>{2}, std::vector<int>{4}, std::vector<int>{2, 2}}) {
        const LogicalMesh mesh = grid(shape);
        for (const AxesByName& axes : assignments(walked, mesh)) {
          SCOPED_TRACE(op.name + " on " + op_bench::to_text(axes, mesh));
          const AxesByName own = followed(space, axes, op.name);
          expect_equal(graph, op, run_sharded(graph, op, operands, own, mesh), whole, tolerance);
          splits += op.id == last.id && !axes.empty() ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(splits, 0) << last.name << " was never split";
  return splits;
}

}  // namespace meshwright
