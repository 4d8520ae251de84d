// SPDX-License-Identifier: Apache-2.0
// Shardy's shardings as HLO's: both place the tiles of a tensor on a mesh, Shardy by the names of the mesh's axes, HLO
// by a transposition of the devices' numbers.
#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/mlir/attributes.h"
#include "core/graph/import/names.h"

namespace meshwright::mlir {

namespace {

constexpr std::int64_t kMaxAxis = 1 << 24;
constexpr std::size_t kMaxAxes = 16;

// A part of a mesh axis: "x" has it all, "x":(2)4 the 4 pieces behind the first 2.
struct SubAxis {
  std::string_view name;
  std::int64_t begin = 1, size = 0;  // size 0: to the end
};

using Mesh = std::vector<std::pair<std::string_view, std::int64_t>>;

// "<["data"=2, "model"=4]>", "#sdy.mesh<[...]>"
Mesh mesh_of(Scanner& at) {
  Mesh mesh;
  at.expect("[");
  while (!at.accept("]")) {
    const std::string_view name = at.string();
    at.expect("=");
    const std::int64_t size = at.integer();
    if (size < 1 || size > kMaxAxis || mesh.size() == kMaxAxes) at.fail("axes of a mesh are expected");
    mesh.emplace_back(name, size);
    if (!at.accept(",") && !at.at("]")) at.fail("',' or ']' is expected");
  }
  return mesh;
}

std::vector<SubAxis> axes_of(Scanner& at) {
  std::vector<SubAxis> axes;
  at.expect("{");
  while (!at.accept("}")) {
    if (!at.accept("?")) {  // open to more: what is named holds
      SubAxis axis{at.string()};
      if (at.accept(":")) {
        at.expect("(");
        axis.begin = at.integer();
        at.expect(")");
        axis.size = at.integer();
        if (axis.begin < 1 || axis.size < 1) at.fail("a part of an axis is expected");
      }
      axes.push_back(axis);
    }
    if (!at.accept(",") && !at.at("}")) at.fail("',' or '}' is expected");
  }
  return axes;
}

}  // namespace

std::string hlo_sharding(const Value& sharding, std::size_t rank, const AttributeContext& context) {
  Scanner at(sharding.inside(), *sharding.place, sharding.line);
  Mesh mesh;
  if (at.at("@")) {
    const std::string_view name = at.symbol();
    const auto known = context.tree.meshes.find(name);
    require(known != context.tree.meshes.end(), "{}:{}: no sdy.mesh has the name '{}'; print the whole module.",
            context.place, sharding.line, printable(name));
    Scanner text(context.value(known->second, sharding.line).inside(), context.place, sharding.line);
    mesh = mesh_of(text);
  } else {
    if (at.at_word()) (void)at.word();
    at.expect("<");
    mesh = mesh_of(at);
    (void)at.until(">");
    at.expect(">");
  }
  at.expect(",");
  at.expect("[");
  std::vector<std::vector<SubAxis>> dims;
  while (!at.accept("]")) {
    dims.push_back(axes_of(at));
    if (at.at_word()) (void)at.word();  // a priority
    if (!at.accept(",") && !at.at("]")) at.fail("',' or ']' is expected");
  }
  require(dims.size() == rank, "{}:{}: a sharding of {} dimensions stands at a tensor of {}; print the module again.",
          context.place, sharding.line, dims.size(), rank);

  // The factors of each axis: where a part begins or ends, it is cut.
  std::vector<std::set<std::int64_t>> cuts;
  for (const auto& [name, size] : mesh) cuts.push_back({1, size});
  const auto number_of = [&](std::string_view name) {
    for (std::size_t k = 0; k < mesh.size(); ++k)
      if (mesh[k].first == name) return k;
    throw InputError(fmt::format("{}:{}: the mesh has no axis '{}'; print the whole module.", context.place,
                                 sharding.line, printable(name)));
  };
  for (std::vector<SubAxis>& dim : dims)
    for (SubAxis& axis : dim) {
      const std::size_t k = number_of(axis.name);
      const std::int64_t size = mesh[k].second;
      if (axis.size == 0) axis.size = size;
      require(axis.begin <= size && axis.size <= size / axis.begin && size % (axis.begin * axis.size) == 0,
              "{}:{}: a part of the mesh's axis '{}' does not divide it; print the module again.", context.place,
              sharding.line, printable(axis.name));
      cuts[k].insert({axis.begin, axis.begin * axis.size});
    }
  struct Factor {
    std::size_t axis;
    std::int64_t begin, size;
    bool used = false;
  };
  std::vector<Factor> factors;
  for (std::size_t k = 0; k < mesh.size(); ++k)
    for (auto cut = cuts[k].begin(); std::next(cut) != cuts[k].end(); ++cut) {
      require(*std::next(cut) % *cut == 0, "{}:{}: parts of the mesh's axis '{}' overlap; print the module again.",
              context.place, sharding.line, printable(mesh[k].first));
      factors.push_back({k, *cut, *std::next(cut) / *cut});
    }
  std::vector<std::string> tiles, sizes, order;
  for (const std::vector<SubAxis>& dim : dims) {
    std::int64_t tile = 1;
    for (const SubAxis& axis : dim) {
      const std::size_t k = number_of(axis.name);
      tile *= axis.size;
      require(tile <= kMaxAxis, "{}:{}: a sharding has more than {} tiles.", context.place, sharding.line, kMaxAxis);
      for (std::size_t f = 0; f < factors.size(); ++f)
        if (factors[f].axis == k && factors[f].begin >= axis.begin && factors[f].begin < axis.begin * axis.size) {
          require(!factors[f].used, "{}:{}: a sharding uses the axis '{}' twice; print the module again.",
                  context.place, sharding.line, printable(axis.name));
          factors[f].used = true;
          order.push_back(std::to_string(f));
        }
    }
    tiles.push_back(std::to_string(tile));
  }
  if (order.empty()) return "{replicated}";
  std::int64_t copies = 1;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    sizes.push_back(std::to_string(factors[f].size));
    if (factors[f].used) continue;
    order.push_back(std::to_string(f));
    copies *= factors[f].size;
    require(copies <= kMaxAxis, "{}:{}: a mesh has more than {} devices.", context.place, sharding.line, kMaxAxis);
  }
  const bool replicated = copies > 1 || tiles.empty();
  if (replicated) tiles.push_back(std::to_string(copies));
  bool turned = false;
  for (std::size_t f = 0; f < order.size(); ++f) turned = turned || order[f] != std::to_string(f);
  return fmt::format("{{devices=[{}]<=[{}]{}{}}}", join(tiles, ","), join(sizes, ","),
                     turned ? fmt::format("T({})", join(order, ",")) : "",
                     replicated ? " last_tile_dim_replicate" : "");
}

std::string sharding_of(const std::vector<Field>& attributes, std::size_t rank, int line,
                        const AttributeContext& context) {
  for (const Field& field : attributes) {
    if (field.name == "mhlo.sharding") return context.value(field.text, line).string();
    if (field.name == "sdy.sharding" || (field.name == "sharding" && !field.text.starts_with("\""))) {
      const Value value = context.value(field.text, line);
      // An op with several results has a list, one for each.
      if (value.text.find("sharding_per_value") != std::string_view::npos) {
        const std::vector<std::string_view> items = context.value(value.inside(), line).items();
        return items.size() == 1 ? hlo_sharding(context.value(items[0], line), rank, context) : std::string();
      }
      return hlo_sharding(value, rank, context);
    }
  }
  return {};
}

}  // namespace meshwright::mlir
