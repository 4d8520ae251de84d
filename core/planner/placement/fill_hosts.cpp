// SPDX-License-Identifier: Apache-2.0
#include "core/planner/placement/fill_hosts.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace meshwright {

namespace {

// One host after the other: each gets the largest item left and then as much as goes on it. Where there is a packing,
// there is one like that: what still fits on the host can be moved there from hosts filled later.
class Filler {
 public:
  Filler(const std::vector<int>& sizes, int hosts, int room) : hosts_(hosts), room_(room) {
    std::map<int, int, std::greater<>> counts;
    for (const int size : sizes) ++counts[size];
    for (const auto& [size, count] : counts) {
      sizes_.push_back(size);
      left_.push_back(count);
    }
    total_ = std::accumulate(sizes.begin(), sizes.end(), 0LL);
  }

  bool fill() {
    if (!sizes_.empty() && sizes_.front() > room_) return false;
    const long long spare = static_cast<long long>(hosts_) * room_ - total_;
    return spare >= 0 && next_host(hosts_, spare);
  }

  // Filled so far: [host][number of each size, the largest size first].
  [[nodiscard]] const std::vector<std::vector<int>>& filled() const { return filled_; }
  [[nodiscard]] const std::vector<int>& sizes() const { return sizes_; }

 private:
  // `spare`: how much room may stay empty on the hosts left.
  bool next_host(int hosts, long long spare) {
    const auto largest = std::find_if(left_.begin(), left_.end(), [](int count) { return count > 0; });
    if (largest == left_.end()) return true;
    if (hosts == 0 || dead_ends_.count({hosts, left_}) > 0) return false;
    const std::size_t s = largest - left_.begin();
    filled_.emplace_back(sizes_.size(), 0);
    move(s, 1);
    if (add(s, room_ - sizes_[s], hosts, spare)) return true;
    move(s, -1);
    filled_.pop_back();
    dead_ends_.insert({hosts, left_});
    return false;
  }

  // Goes on with items of size s and smaller on the last host.
  bool add(std::size_t s, int room, int hosts, long long spare) {
    if (s == sizes_.size()) {
      for (std::size_t t = 0; t < sizes_.size(); ++t)
        if (left_[t] > 0 && sizes_[t] <= room) return false;
      return room <= spare && next_host(hosts - 1, spare - room);
    }
    const int max = std::min(left_[s], room / sizes_[s]);
    move(s, max);
    for (int count = max;; --count) {
      if (add(s + 1, room - count * sizes_[s], hosts, spare)) return true;
      if (count == 0) return false;
      move(s, -1);
    }
  }

  // To the last host.
  void move(std::size_t s, int count) {
    left_[s] -= count;
    filled_.back()[s] += count;
  }

  int hosts_, room_;
  long long total_ = 0;
  std::vector<int> sizes_;  // different ones, descending
  std::vector<int> left_;   // of each size
  std::vector<std::vector<int>> filled_;
  std::set<std::pair<int, std::vector<int>>> dead_ends_;  // hosts and items left that do not go together
};

}  // namespace

std::optional<std::vector<int>> fill_hosts(const std::vector<int>& sizes, int hosts, int room) {
  Filler filler(sizes, hosts, room);
  if (!filler.fill()) return std::nullopt;
  std::map<int, std::vector<int>> places;  // of each size: hosts
  for (std::size_t h = 0; h < filler.filled().size(); ++h)
    for (std::size_t s = 0; s < filler.sizes().size(); ++s)
      places[filler.sizes()[s]].insert(places[filler.sizes()[s]].end(), filler.filled()[h][s], static_cast<int>(h));
  std::map<int, std::size_t> used;
  std::vector<int> host_of;
  for (const int size : sizes) host_of.push_back(places[size][used[size]++]);
  return host_of;
}

}  // namespace meshwright
