// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/sums_of_products.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace meshwright::primitive {

namespace {

// What a sum adds, and the additions below it that nothing else reads, in the file's order; the products among what it
// adds that nothing else reads.
struct Sum {
  std::vector<int> terms = {}, inner = {}, products = {};
};

class Sums {
 public:
  explicit Sums(const Module& module) : module_(module), uses_(uses_of(module)) {}

  // By the last addition: those that have several products to be brought together.
  [[nodiscard]] std::map<int, Sum> found() const {
    std::vector<bool> taken(module_.nodes.size(), false);
    std::map<int, Sum> sums;
    for (int n = static_cast<int>(module_.nodes.size()) - 1; n >= 0; --n) {
      if (taken[static_cast<std::size_t>(n)] || !is_addition(n)) continue;
      Sum sum;
      gather(n, at(n).shape, sum);
      for (const int inner : sum.inner) taken[static_cast<std::size_t>(inner)] = true;
      const std::string* const block = block_of_last_product(sum.terms, at(n).shape);
      if (block == nullptr) continue;
      const auto products = std::stable_partition(sum.terms.begin(), sum.terms.end(), [&](int term) {
        return is_product(term, at(n).shape) && product_below(term).block == *block;
      });
      if (products - sum.terms.begin() < 2) continue;
      for (auto term = sum.terms.begin(); term != products; ++term) add_own_nodes(*term, sum.products);
      std::sort(sum.products.begin(), sum.products.end());
      sums[n] = std::move(sum);
    }
    return sums;
  }

 private:
  [[nodiscard]] const Node& at(int i) const { return module_.nodes[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool is_addition(int i) const { return at(i).kind == Kind::Add && !at(i).integer && !at(i).constant; }
  [[nodiscard]] const Node& product_below(int i) const {
    while (at(i).kind == Kind::Reshape) i = at(i).inputs[0];
    return at(i);
  }
  [[nodiscard]] bool is_product(int i, const Shape& shape) const {
    return at(i).shape == shape && product_below(i).kind == Kind::MatMul;
  }
  // Products of other blocks stay where these are.
  [[nodiscard]] const std::string* block_of_last_product(const std::vector<int>& terms, const Shape& shape) const {
    int last = -1;
    for (const int term : terms)
      if (is_product(term, shape)) last = std::max(last, term);
    return last < 0 ? nullptr : &product_below(last).block;
  }

  void add_own_nodes(int product, std::vector<int>& nodes) const {
    while (uses_[static_cast<std::size_t>(product)] == 1) {
      nodes.push_back(product);
      if (at(product).kind == Kind::MatMul) return;
      product = at(product).inputs[0];
    }
  }

  void gather(int n, const Shape& shape, Sum& sum) const {
    std::vector<int> open(at(n).inputs.rbegin(), at(n).inputs.rend());
    while (!open.empty()) {
      const int next = open.back();
      open.pop_back();
      const bool own = is_addition(next) && at(next).shape == shape && uses_[static_cast<std::size_t>(next)] == 1 &&
                       next != module_.result;
      (own ? sum.inner : sum.terms).push_back(next);
      if (own) open.insert(open.end(), at(next).inputs.rbegin(), at(next).inputs.rend());
    }
  }

  const Module& module_;
  const std::vector<int> uses_;
};

}  // namespace

Module with_products_added_first(Module module) {
  const std::map<int, Sum> sums = Sums(module).found();
  std::vector<bool> later(module.nodes.size(), false);  // made where the whole sum is: no layer ends between these
  for (const auto& [n, sum] : sums)
    for (const std::vector<int>* part : {&sum.inner, &sum.products})
      for (const int inner : *part) later[static_cast<std::size_t>(inner)] = true;
  Nodes nodes;
  std::vector<int> made(module.nodes.size(), -1);
  const auto keep = [&](int n) {
    Node& node = module.nodes[static_cast<std::size_t>(n)];
    for (int& input : node.inputs) input = made[static_cast<std::size_t>(input)];
    made[static_cast<std::size_t>(n)] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(node));
  };
  for (std::size_t n = 0; n < module.nodes.size(); ++n) {
    if (later[n]) continue;
    if (const auto found = sums.find(static_cast<int>(n)); found != sums.end()) {
      const Sum& sum = found->second;
      for (const int product : sum.products) keep(product);
      int so_far = made[static_cast<std::size_t>(sum.terms[0])];
      for (std::size_t k = 1; k < sum.terms.size(); ++k) {
        const std::size_t from = k + 1 < sum.terms.size() ? static_cast<std::size_t>(sum.inner[k - 1]) : n;
        Node next = module.nodes[from];
        next.inputs = {so_far, made[static_cast<std::size_t>(sum.terms[k])]};
        const Node &one = nodes[static_cast<std::size_t>(so_far)],
                   &other = nodes[static_cast<std::size_t>(next.inputs[1])];
        next.trained = one.trained || other.trained;
        next.constant = one.constant && other.constant;
        so_far = static_cast<int>(nodes.size());
        nodes.push_back(std::move(next));
      }
      made[n] = so_far;
      continue;
    }
    keep(static_cast<int>(n));
  }
  module.nodes = std::move(nodes);
  module.result = made[static_cast<std::size_t>(module.result)];
  return module;
}

}  // namespace meshwright::primitive
