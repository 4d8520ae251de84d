// SPDX-License-Identifier: Apache-2.0
// What primitive ops make of numbers: of the sample scores that tell what a router does, however it is written
// (recognise_mixture.cpp), and of the file's constants (constants_of_file.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

class NodeValues {
 public:
  static constexpr std::size_t kMaxRank = 8;
  using Index = std::array<std::int64_t, kMaxRank>;

  // Computes from constants alone. `budget`: elements that may be computed; lowered.
  NodeValues(const Builder& b, std::int64_t& budget) : b_(b), budget_(budget) {}
  // Node `leaf` has these values for a batch of one, row-major.
  NodeValues(const Builder& b, int leaf, std::vector<double> scores, std::int64_t& budget);

  // From now on no table is computed whole: for a few elements of large ones.
  void compute_single_elements() { whole_ = false; }
  // Element `index` of a node; 0 once something has failed.
  double element(int node, const Index& index);
  // All elements of a node, row-major; nothing where something in it is not computed here.
  [[nodiscard]] std::optional<std::vector<double>> all(int node);
  // Whether an op, a constant or a size was met that is not computed here.
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  struct Table {
    Shape shape = {};
    std::int64_t elements = 0;
    bool is_known = false;
    std::vector<double> values = {};  // of nodes that are small enough to be kept whole
  };

  Table& table(int node);
  void fill(int node, Table& into);
  void fill_rows(int node, Table& into);
  double computed(int node, const Shape& shape, const Index& index);
  double reduced(const Node& node, const Index& index);
  double product(const Node& node, const Shape& shape, const Index& index);
  double operand(const Node& node, std::size_t k, std::size_t rank, const Index& index);
  double fail() {
    failed_ = true;
    return 0.0;
  }

  const Builder& b_;
  std::map<int, Table> tables_;
  std::int64_t& budget_;
  int depth_ = 0;
  bool failed_ = false, whole_ = true;
};

}  // namespace meshwright::primitive
