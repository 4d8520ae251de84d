// SPDX-License-Identifier: Apache-2.0
// The layers' cost matrices at each memory price, and which variant is the cheapest for every pair of border states:
// what a layer recomputes changes no other layer's costs, so each pair chooses by itself.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/planner/spans/layer_solver.h"

namespace meshwright {

class LayerMatrices {
 public:
  // Cheapest: only variants that can win somewhere are solved.
  enum class Variants { Cheapest, All };

  // REQUIRES: both outlive this.
  LayerMatrices(const LayerClasses& layers, LayerSolver& solver) : layers_(layers), solver_(solver) {}

  // Adds the matrices of the price that was added to the solver last.
  void add(int price, Variants variants);
  // The same where each class has only the variant that stands for this way (LayerClasses::variant_of): it is the
  // cheapest.
  void add_way(int price, int way);
  // The matrices of this way's variants are known from now on, at a price that was added for all ways.
  void know_way(int price, int way);
  void drop_last();

  [[nodiscard]] const CostMatrix& cheapest(int price, int layer) const {
    return matrices_[price][layers_.class_of(layer)].costs;
  }
  [[nodiscard]] int cheapest_variant(int price, int layer, int in, int out) const {
    return matrices_[price][layers_.class_of(layer)].variant[in * layers_.out_states(layer) + out];
  }
  // REQUIRES: added with Variants::All, or know_way of a way that the variant stands for.
  [[nodiscard]] const CostMatrix& of_variant(int price, int layer, int variant) const {
    return variant_matrices_.at({price, layers_.class_of(layer), variant});
  }

 private:
  struct Cheapest {
    CostMatrix costs;
    std::vector<std::uint8_t> variant;  // [as costs]
  };
  [[nodiscard]] Cheapest find_cheapest(int price, int of_class, Variants variants);
  [[nodiscard]] std::vector<int> useful_variants(int price, int of_class);

  const LayerClasses& layers_;
  LayerSolver& solver_;
  IndexedVector<int, IndexedVector<int, Cheapest>> matrices_;  // [price][class]
  std::map<std::array<int, 3>, CostMatrix> variant_matrices_;  // (price, class, variant)
};

}  // namespace meshwright
