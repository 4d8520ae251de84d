// SPDX-License-Identifier: Apache-2.0
// Shardy's shardings, as HLO's.
#include "core/base/errors.h"
#include "core/graph/import/mlir/attributes.h"
#include "core/graph/import/named_sharding.h"
#include "core/graph/import/names.h"

namespace meshwright::mlir {

namespace {

// "<["data"=2, "model"=4], device_ids=[0, 2, ...]>", "#sdy.mesh<[...]>"
void read_mesh(Scanner& at, NamedSharding& into) {
  at.expect("[");
  while (!at.accept("]")) {
    const std::string_view name = at.string();
    at.expect("=");
    const std::int64_t size = at.integer();
    if (size < 1 || size > NamedSharding::kMaxAxis || into.mesh.size() == NamedSharding::kMaxAxes)
      at.fail("axes of a mesh are expected");
    into.mesh.emplace_back(name, size);
    if (!at.accept(",") && !at.at("]")) at.fail("',' or ']' is expected");
  }
  if (!at.accept(",")) return;
  if (!at.accept_word("device_ids")) at.fail("device_ids are expected");
  at.expect("=");
  at.expect("[");
  while (!at.accept("]")) {
    into.devices.push_back(at.integer());
    if (into.devices.size() > static_cast<std::size_t>(NamedSharding::kMaxAxis)) at.fail("too many devices");
    if (!at.accept(",") && !at.at("]")) at.fail("',' or ']' is expected");
  }
  // A mesh of one device alone.
  if (into.mesh.empty() && into.devices.size() == 1) into.special = "maximal";
}

std::vector<NamedSharding::SubAxis> axes_of(Scanner& at) {
  std::vector<NamedSharding::SubAxis> axes;
  at.expect("{");
  while (!at.accept("}")) {
    if (!at.accept("?")) {  // open to more: what is named holds
      NamedSharding::SubAxis axis{std::string(at.string())};
      if (at.accept(":")) {
        at.expect("(");
        axis.begin = at.integer();
        at.expect(")");
        axis.size = at.integer();
        if (axis.begin < 1 || axis.size < 1) at.fail("a part of an axis is expected");
      }
      axes.push_back(std::move(axis));
    }
    if (!at.accept(",") && !at.at("}")) at.fail("',' or '}' is expected");
  }
  return axes;
}

}  // namespace

std::string hlo_sharding(const Value& sharding, std::size_t rank, const AttributeContext& context) {
  Scanner at(sharding.inside(), *sharding.place, sharding.line);
  NamedSharding made;
  if (at.at("@")) {
    const std::string_view name = at.symbol();
    const auto known = context.tree.meshes.find(name);
    require(known != context.tree.meshes.end(), "{}:{}: no sdy.mesh has the name '{}'; print the whole module.",
            context.place, sharding.line, printable(name));
    Scanner text(context.value(known->second, sharding.line).inside(), context.place, sharding.line);
    read_mesh(text, made);
  } else {
    if (at.at_word()) (void)at.word();
    at.expect("<");
    read_mesh(at, made);
    (void)at.until(">");
    at.expect(">");
  }
  at.expect(",");
  at.expect("[");
  while (!at.accept("]")) {
    made.dims.push_back(axes_of(at));
    if (at.at_word()) (void)at.word();  // a priority
    if (!at.accept(",") && !at.at("]")) at.fail("',' or ']' is expected");
  }
  require(made.dims.size() == rank || !made.special.empty(),
          "{}:{}: a sharding of {} dimensions stands at a tensor of {}; print the module again.", context.place,
          sharding.line, made.dims.size(), rank);
  while (at.accept(",")) {
    const std::string_view other = at.at_word() ? at.word() : "";
    at.expect("=");
    (void)at.until(",");
    // Partial sums on the axes that it names.
    if (other == "unreduced") made.special = "unreduced";
  }
  const Tiles tiles = tiles_of(made);
  require(tiles.problem.empty(), "{}:{}: {}; print the whole module again.", context.place, sharding.line,
          tiles.problem);
  return tiles.text;
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
