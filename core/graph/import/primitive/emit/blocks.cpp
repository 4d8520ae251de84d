// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/blocks.h"

#include <algorithm>
#include <map>
#include <string>

#include "core/base/errors.h"

namespace meshwright::primitive {

namespace {

constexpr int kProducts = 2;  // that a block holds at least

bool is_heavy(Kind kind) {
  return kind == Kind::MatMul || kind == Kind::Convolution || kind == Kind::Attention || kind == Kind::PackedAttention;
}

std::vector<int> named_blocks(const Module& module) {
  std::map<std::string, int> heavy;  // by block
  for (const Node& node : module.nodes)
    if (!node.block.empty() && is_heavy(node.kind)) ++heavy[node.block];
  std::map<std::string, std::pair<int, int>>
      families;  // blocks, the fewest products of one; by the name before the number
  const auto family_of = [](const std::string& block) { return block.substr(0, block.rfind('.')); };
  for (const auto& [block, count] : heavy) {
    const auto [family, is_new] = families.emplace(family_of(block), std::pair{0, count});
    ++family->second.first;
    family->second.second = std::min(family->second.second, count);
  }
  std::map<std::string, int> numbers;
  std::vector<int> blocks;
  for (const Node& node : module.nodes) {
    int block = -1;
    const auto family = families.find(family_of(node.block));
    const bool known = !node.block.empty();
    if (known && family != families.end() && family->second.first >= 2 && family->second.second >= 2)
      block = numbers.emplace(node.block, static_cast<int>(numbers.size())).first->second;
    bool own_weight = false;
    for (const int input : node.inputs)
      own_weight = own_weight || module.nodes[static_cast<std::size_t>(input)].kind == Kind::Parameter;
    if (!known && !own_weight)
      for (const int input : node.inputs) block = std::max(block, blocks[static_cast<std::size_t>(input)]);
    blocks.push_back(block);
  }
  return blocks;
}

// Nodes first..last, without leaves; what they do, as a text.
struct Part {
  int first, last, products;
  std::string work;
};

std::vector<Part> parts_of(const Module& module) {
  const int count = static_cast<int>(module.nodes.size());
  std::vector<int> last_read(module.nodes.size(), -1);
  for (int n = 0; n < count; ++n)
    for (const int input : module.nodes[static_cast<std::size_t>(n)].inputs)
      last_read[static_cast<std::size_t>(input)] = n;
  std::vector<Part> parts;
  std::map<int, int> ending;  // how many of the live tensors are read last by which node
  int live = 0;
  const std::vector<bool> aside = made_of_integers(module);  // masks, which lead to all layers
  Part part{0, -1, 0, {}};
  for (int n = 0; n < count; ++n) {
    const Node& node = module.nodes[static_cast<std::size_t>(n)];
    live -= ending[n];
    const bool data = node.kind == Kind::Input && !node.integer;  // a residual sum may be of the input itself
    if (!data && (node.inputs.empty() || node.constant || aside[static_cast<std::size_t>(n)])) continue;
    const int end = last_read[static_cast<std::size_t>(n)];
    if (end > n) {
      ++live;
      ++ending[end];
    }
    if (data) continue;
    part.last = n;
    part.products += is_heavy(node.kind) ? 1 : 0;
    part.work += fmt::format("{}{};", static_cast<int>(node.kind), to_text(node.shape));
    if (live != 1 || part.products < kProducts) continue;
    parts.push_back(std::move(part));
    part = {n + 1, -1, 0, {}};
  }
  return parts;
}

std::vector<int> blocks_by_structure(const Module& module) {
  const std::vector<Part> parts = parts_of(module);
  const auto repeats = [&](std::size_t period) {
    std::size_t found = 0;
    for (std::size_t i = 0; i + period < parts.size(); ++i) found += parts[i].work == parts[i + period].work ? 1u : 0u;
    return found;
  };
  std::size_t period = 1;
  for (const std::size_t longer : {2, 3, 4})
    if (repeats(longer) > repeats(period)) period = longer;
  std::vector<int> blocks(module.nodes.size(), -1);
  if (parts.size() < 2) return blocks;
  int block = 0;
  for (std::size_t i = 0; i < parts.size(); ++block) {
    const bool starts = i + period < parts.size() && parts[i].work == parts[i + period].work;
    const bool ends = i >= period && i + period <= parts.size() && parts[i].work == parts[i - period].work;
    const std::size_t length = starts || ends ? period : 1;
    for (int n = parts[i].first; n <= parts[i + length - 1].last; ++n) blocks[static_cast<std::size_t>(n)] = block;
    i += length;
  }
  return blocks;
}

}  // namespace

std::vector<int> blocks_of(const Module& module) {
  std::vector<int> named = named_blocks(module);
  const bool any = std::any_of(named.begin(), named.end(), [](int block) { return block >= 0; });
  return any ? named : blocks_by_structure(module);
}

}  // namespace meshwright::primitive
