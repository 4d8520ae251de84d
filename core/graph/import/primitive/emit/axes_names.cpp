// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/import/primitive/emit/axes.h"

namespace meshwright::primitive {

// The first free name of its role, in the order of appearance: free of axes that meet it in an op, and of other sizes.
void Axes::name_all() {
  std::map<int, std::set<int>> neighbours;
  std::vector<int> order;
  for (std::size_t n = 0; n < module_.nodes.size(); ++n) {
    std::set<int> met;
    const auto meet = [&](const std::vector<AxisList>& dims) {
      for (const AxisList& dim : dims)
        for (const int axis : dim) {
          met.insert(axis);
          if (!neighbours.contains(axis)) {
            neighbours[axis];
            order.push_back(axis);
          }
        }
    };
    for (std::size_t k = 0; k < module_.nodes[n].inputs.size(); ++k) {
      meet(of(module_.nodes[n].inputs[k]));
      meet(of_operand(static_cast<int>(n), k));
    }
    meet(of(static_cast<int>(n)));
    for (const int a : met) neighbours[a].insert(met.begin(), met.end());
  }
  std::map<std::string, std::int64_t> sizes;
  for (const int axis : order) {
    const Axis& what = axes_[static_cast<std::size_t>(axis)];
    const std::string role = what.role.empty() ? "dim" : what.role;
    std::string name = role;
    const auto taken = [&] {
      const auto other = sizes.find(name);
      if (other != sizes.end() && other->second != what.size) return true;
      return std::any_of(neighbours[axis].begin(), neighbours[axis].end(), [&](int met) {
        const auto named = names_.find(met);
        return met != axis && named != names_.end() && named->second == name;
      });
    };
    for (int number = 2; taken(); ++number) name = fmt::format("{}{}", role, number);
    names_[axis] = name;
    sizes[name] = what.size;
  }
}

}  // namespace meshwright::primitive
