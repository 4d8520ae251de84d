// SPDX-License-Identifier: Apache-2.0
// Where the local search starts from: labels decoded along messages while a price per memory row follows what the
// decoded labels take (a subgradient method on the Lagrangian).
#pragma once

#include <functional>
#include <vector>

#include "core/solver/local_search/local_search_messages.h"

namespace meshwright::portfolio {

class Relaxation {
 public:
  explicit Relaxation(const SearchModel& model);  // keeps a reference

  // Passes messages and moves the prices; `now` becomes the labels decoded last, and `on_labels` is called for those of
  // every pass. Stops early when `stop` says so.
  void advance(int passes, Assignment& now, const std::function<void()>& on_labels, const std::function<bool()>& stop);
  // Decodes once more with a random amount of mean `noise` added to every cost.
  [[nodiscard]] Labels decode(double noise, Random& random) const;

  // [node][label]: node costs with memory at `factor` times its price; valid until the next call.
  const std::vector<std::vector<double>>& costs(double factor);
  // The mean price of the rows that have one, weighted by the prices; 0: memory has no price.
  [[nodiscard]] double typical_price() const;

 private:
  void move_prices(const Assignment& now);

  const SearchModel& model_;
  SearchMessages messages_;
  std::vector<double> price_;  // [row]
  std::vector<std::vector<double>> costs_;
  double step_;
  bool fresh_ = true;
};

}  // namespace meshwright::portfolio
