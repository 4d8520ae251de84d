// SPDX-License-Identifier: Apache-2.0
// Memory rows that cannot be exceeded or that a neighbouring row implies, and labels that fit in no case.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/solver/presolve/presolve_work.h"

namespace meshwright::portfolio {

namespace {

// Least value of any range of a list, from the least values of all ranges of 2^k entries.
class RangeMinimum {
 public:
  explicit RangeMinimum(const std::vector<double>& values) : levels_{values} {
    for (std::size_t width = 1; 2 * width <= values.size(); width *= 2) {
      const std::vector<double>& below = levels_.back();
      std::vector<double> level(values.size() + 1 - 2 * width);
      for (std::size_t i = 0; i < level.size(); ++i) level[i] = std::min(below[i], below[i + width]);
      levels_.push_back(std::move(level));
    }
  }
  [[nodiscard]] double of(int begin, int end) const {
    int k = 0, width = 1;
    while (2 * width <= end - begin) width *= 2, ++k;
    return std::min(levels_[k][begin], levels_[k][end - width]);
  }

 private:
  std::vector<std::vector<double>> levels_;
};

// Renumbers the rows that are kept; pieces that hold none of them vanish.
void keep_rows(Work& work, const std::vector<bool>& keep) {
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return;
  std::vector<int> index(keep.size() + 1, 0);  // kept rows before each row
  for (std::size_t row = 0; row < keep.size(); ++row) {
    index[row + 1] = index[row] + (keep[row] ? 1 : 0);
    if (!keep[row]) continue;
    work.row_limit[index[row]] = work.row_limit[row];
    work.row_step[index[row]] = work.row_step[row];
  }
  work.row_step.resize(index.back());
  work.row_limit.resize(index.back());
  work.limit_change.assign(work.row_limit.size() + 1, 0.0);
  std::vector<MemoryPiece> pieces;
  pieces.swap(work.pieces);
  for (Work::Node& node : work.nodes) {
    const std::vector<int> held = std::exchange(node.pieces, {});
    for (int piece : held) {
      MemoryPiece& moved = pieces[piece];
      moved.begin = index[moved.begin];
      moved.end = index[moved.end];
      if (moved.begin < moved.end)
        work.add_piece(std::move(moved));
      else
        work.touch_node(static_cast<int>(&node - work.nodes.data()));
    }
  }
}

// [row]: the sum of its pieces' maxima. Pieces that are gone hold no row.
std::vector<double> max_sums(const Work& work) { return row_sums(work.pieces, work.row_limit.size(), max_memory); }

// Row r is implied by row s when what r holds beyond s is at most limit(r) - limit(s), whatever the labels are: when
// the sum over nodes of the largest difference of their memory in r and in s is. Walking from row to row away from s,
// only the pieces that begin or end change that sum.
class ImpliedRows {
 public:
  // Looks `window` rows far from each row.
  ImpliedRows(const Work& work, int window)
      : work_(work),
        window_(window),
        count_(static_cast<int>(work.row_limit.size())),
        changes_(count_ + 1),
        implied_(count_, false),
        first_(work.nodes.size() + 1, 0) {
    for (std::size_t i = 0; i < work.nodes.size(); ++i) first_[i + 1] = first_[i] + work.nodes[i].cost.size();
    difference_.assign(first_.back(), 0.0);
    largest_.assign(work.nodes.size(), 0.0);
    for (std::size_t i = 0; i < work.pieces.size(); ++i) {
      const MemoryPiece& piece = work.pieces[i];
      if (piece.begin == piece.end) continue;
      changes_[piece.begin].push_back(static_cast<int>(i));
      changes_[piece.end].push_back(static_cast<int>(i));
    }
  }

  // Rows to keep. The rows that can be exceeded most come first: they imply most.
  [[nodiscard]] std::vector<bool> keep(const std::vector<double>& largest_sum) {
    std::vector<int> order(count_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int r, int s) {
      return largest_sum[r] - work_.row_limit[r] > largest_sum[s] - work_.row_limit[s];
    });
    constexpr double max_work = 1e8;
    for (int s : order) {
      if (implied_[s]) continue;
      if (work_done_ > max_work) break;
      walk(s, 1);
      walk(s, -1);
    }
    std::vector<bool> keep(implied_);
    keep.flip();
    return keep;
  }

 private:
  void walk(int s, int direction) {
    sum_ = 0.0;
    const int last = direction > 0 ? std::min(s + window_, count_ - 1) + 1 : std::max(s - window_, 0) - 1;
    for (int r = s + direction; r != last; r += direction) {
      const int border = std::max(r, r - direction);  // between the two rows
      for (int piece : changes_[border]) change(work_.pieces[piece], border, direction);
      work_done_ += 1.0;
      if (sum_ <= work_.row_limit[r] - work_.row_limit[s]) implied_[r] = true;
    }
    for (int node : changed_) {
      std::fill_n(difference_.begin() + static_cast<std::ptrdiff_t>(first_[node]), work_.labels(node), 0.0);
      largest_[node] = 0.0;
    }
    changed_.clear();
  }

  void change(const MemoryPiece& piece, int border, int direction) {
    // A piece joins the difference where the walk passes its begin forwards or its end backwards, and leaves it
    // otherwise.
    const double sign = (piece.begin == border) == (direction > 0) ? 1.0 : -1.0;
    double* difference = difference_.data() + first_[piece.node];
    double largest = -kForbidden;
    for (std::size_t label = 0; label < piece.memory.size(); ++label)
      largest = std::max(largest, difference[label] += sign * piece.memory[label]);
    sum_ += largest - largest_[piece.node];
    largest_[piece.node] = largest;
    changed_.push_back(piece.node);
    work_done_ += static_cast<double>(piece.memory.size());
  }

  const Work& work_;
  int window_, count_;
  std::vector<std::vector<int>> changes_;  // [row]: pieces that begin or end there
  std::vector<bool> implied_;
  std::vector<std::size_t> first_;  // [node]: where its labels begin in difference_
  std::vector<double> difference_;  // memory of a label in r less that in s
  std::vector<double> largest_;     // [node]: largest of its differences
  std::vector<int> changed_;
  double sum_ = 0.0, work_done_ = 0.0;
};

// A label whose memory alone exceeds the tightest of its rows is in no feasible solution.
bool drop_labels_that_never_fit(Work& work) {
  if (work.row_limit.empty()) return true;
  const RangeMinimum limit(work.row_limit);
  for (std::size_t i = 0; i < work.nodes.size(); ++i) {
    bool found = false;
    for (int index : work.nodes[i].pieces) {
      const MemoryPiece& piece = work.pieces[index];
      const double room = limit.of(piece.begin, piece.end);
      for (std::size_t label = 0; label < piece.memory.size(); ++label)
        if (piece.memory[label] > room) {
          work.nodes[i].cost[label] = kForbidden;
          found = true;
        }
    }
    if (found && !work.drop_forbidden(static_cast<int>(i))) return false;
  }
  return true;
}

}  // namespace

bool Work::trim_rows(const Budget* compare_rows) {
  if (!apply_limit_change()) return false;
  const std::vector<double> sums = max_sums(*this);
  std::vector<bool> keep;
  for (std::size_t row = 0; row < sums.size(); ++row) keep.push_back(sums[row] > row_limit[row]);
  keep_rows(*this, keep);
  if (!apply_limit_change()) return false;
  // Near rows are most alike, so a short look leaves few for the long one.
  for (int window : {8, 64, 1 << 20}) {
    if (compare_rows == nullptr || compare_rows->over()) break;
    keep_rows(*this, ImpliedRows(*this, window).keep(max_sums(*this)));
    if (!apply_limit_change()) return false;
  }
  return drop_labels_that_never_fit(*this) && apply_limit_change();
}

bool Work::apply_limit_change() {
  double change = 0.0;
  for (std::size_t row = 0; row < row_limit.size(); ++row) {
    row_limit[row] += change += limit_change[row];
    if (row_limit[row] < 0.0) return false;
  }
  std::fill(limit_change.begin(), limit_change.end(), 0.0);
  return true;
}

}  // namespace meshwright::portfolio
