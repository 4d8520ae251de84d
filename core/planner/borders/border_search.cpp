// SPDX-License-Identifier: Apache-2.0
#include "core/planner/borders/border_search.h"

#include <algorithm>
#include <limits>
#include <map>

namespace meshwright {

namespace {

constexpr std::int64_t kMaxRuns = 200'000'000;  // of all pipelines that are simulated: about a second
constexpr std::size_t kMaxTies = 16;            // of moves that even out the ranks as much
constexpr double kWorthwhile = 0.998;           // of the step; less is not told apart from what stages alone leave out

class BorderSearch {
 public:
  BorderSearch(const StagePieces& pieces, const BorderRequest& request, PlanEvaluator& evaluator)
      : pieces_(pieces.pieces), request_(request), evaluator_(evaluator) {
    PieceTimes sum;
    sums_.push_back(sum);
    for (const StagePiece& piece : pieces_) sums_.push_back(sum += piece);
    const std::int64_t passes = traits_of(request.schedule).splits_backward ? 3 : 2;
    left_ = kMaxRuns / (passes * request.microbatches * std::ssize(pieces.first_of_stage));
    for (const int rank : request.rank_of) ranks_ = std::max(ranks_, rank + 1);
  }

  std::vector<Borders> search(const std::vector<int>& own, std::size_t count) {
    const Seconds before = step_of(own);
    even_out(own);
    climb(fastest());
    std::vector<Borders> found;
    const Seconds limit = std::min(kWorthwhile, request_.share) * before;
    for (const auto& [borders, step] : known_)
      if (step < limit) found.push_back({borders, step});
    std::stable_sort(found.begin(), found.end(), [](const Borders& a, const Borders& b) { return a.step < b.step; });
    if (found.size() > count) found.resize(count);
    return found;
  }

 private:
  using Firsts = std::vector<int>;

  [[nodiscard]] int end_of(const Firsts& firsts, std::size_t stage) const {
    return stage + 1 < firsts.size() ? firsts[stage + 1] : static_cast<int>(pieces_.size());
  }
  [[nodiscard]] Seconds pass_of(int begin, int end) const {
    const PieceTimes &from = sums_[static_cast<std::size_t>(begin)], &to = sums_[static_cast<std::size_t>(end)];
    return to.forward - from.forward + to.backward - from.backward;
  }

  // The borders with those before stages first..last one piece further, or back; empty: a stage would have nothing.
  [[nodiscard]] Firsts moved(const Firsts& firsts, std::size_t first, std::size_t last, int by) const {
    Firsts other = firsts;
    for (std::size_t s = first; s <= last; ++s) {
      if (!request_.movable[s]) return {};
      other[s] += by;
    }
    if (other[first] <= other[first - 1] || other[last] >= end_of(other, last)) return {};
    return other;
  }
  [[nodiscard]] Firsts moved(const Firsts& firsts, std::size_t stage, int by) const {
    return moved(firsts, stage, stage, by);
  }

  // Nothing is left to simulate: a time that no step takes.
  Seconds step_of(const Firsts& firsts) {
    if (const auto found = known_.find(firsts); found != known_.end()) return found->second;
    if (left_-- <= 0) return Seconds(std::numeric_limits<double>::infinity());
    PipelineTimes times;
    for (std::size_t s = 0; s < firsts.size(); ++s) {
      const PieceTimes& from = sums_[static_cast<std::size_t>(firsts[s])];
      const PieceTimes& to = sums_[static_cast<std::size_t>(end_of(firsts, s))];
      times.forward.push_back(to_sim_time(to.forward - from.forward));
      times.backward.push_back(to_sim_time(to.backward - from.backward));
      times.backward_weight.push_back(std::min(to_sim_time(to.weight - from.weight), times.backward.back()));
      times.update.push_back(to_sim_time(to.update - from.update));
      if (s > 0)
        times.edges.push_back({static_cast<int>(s) - 1, static_cast<int>(s), request_.message[s], request_.message[s]});
    }
    const Seconds step = evaluator_.step_time(request_.schedule, request_.microbatches, times, request_.chunks);
    known_.emplace(firsts, step);
    return step;
  }

  [[nodiscard]] Firsts fastest() const {
    return std::min_element(known_.begin(), known_.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  // What goes from rank to rank when the border of `stage` moves by a piece.
  struct Move {
    std::size_t from, to;  // ranks
    Seconds pass{0.0};     // of the piece
  };
  [[nodiscard]] Move move_of(const Firsts& firsts, std::size_t stage, int by) const {
    const auto later = static_cast<std::size_t>(request_.rank_of[stage]);
    const auto earlier = static_cast<std::size_t>(request_.rank_of[stage - 1]);
    const int piece = by > 0 ? firsts[stage] : firsts[stage] - 1;
    return {by > 0 ? later : earlier, by > 0 ? earlier : later, pass_of(piece, piece + 1)};
  }

  // By how much the sum of the squares of what ranks do in a micro-batch falls.
  [[nodiscard]] static double gain(const std::vector<Seconds>& loads, const Move& move) {
    const Seconds beyond = loads[move.from] - loads[move.to] - move.pass;
    // What rounding leaves is no gain: two ranks would pass a piece back and forth for ever.
    if (move.from == move.to || beyond <= 1e-9 * loads[move.from]) return 0.0;
    return 2.0 * move.pass.si() * beyond.si();
  }

  void even_out(Firsts firsts) {
    std::vector<Seconds> loads(static_cast<std::size_t>(ranks_), Seconds(0.0));
    for (std::size_t s = 0; s < firsts.size(); ++s)
      loads[static_cast<std::size_t>(request_.rank_of[s])] += pass_of(firsts[s], end_of(firsts, s));
    while (left_ > 0) {
      double best = 0.0;
      std::vector<std::pair<std::size_t, int>> moves;
      for (std::size_t s = 1; s < firsts.size(); ++s)
        for (const int by : {1, -1}) {
          if (moved(firsts, s, by).empty()) continue;
          const double gained = gain(loads, move_of(firsts, s, by));
          if (gained <= 0.0 || gained < (1.0 - 1e-6) * best) continue;
          if (gained > (1.0 + 1e-6) * best) moves.clear();
          best = std::max(best, gained);
          moves.emplace_back(s, by);
        }
      if (moves.empty()) {
        // Only moves that tie were simulated on the way.
        step_of(firsts);
        return;
      }
      if (moves.size() > kMaxTies) moves.resize(kMaxTies);
      const auto fastest = std::min_element(moves.begin(), moves.end(), [&](const auto& a, const auto& b) {
        return step_of(moved(firsts, a.first, a.second)) < step_of(moved(firsts, b.first, b.second));
      });
      const auto [stage, by] = *fastest;
      const Move move = move_of(firsts, stage, by);
      loads[move.from] -= move.pass;
      loads[move.to] += move.pass;
      firsts[stage] += by;
    }
  }

  // Moves single borders, and several one after the other: so a stage gives a piece to any other, past those between.
  void climb(Firsts firsts) {
    const std::size_t last = firsts.size() - 1;
    Seconds step = step_of(firsts);
    bool better = true;
    while (better && left_ > 0) {
      better = false;
      for (std::size_t from = 1; from <= last; ++from)
        for (std::size_t to = from; to <= last; ++to)
          for (const int by : {1, -1}) {
            const Firsts other = moved(firsts, from, to, by);
            if (other.empty() || step_of(other) >= step) continue;
            firsts = other;
            step = step_of(firsts);
            better = true;
          }
    }
  }

  const std::vector<StagePiece>& pieces_;
  const BorderRequest& request_;
  PlanEvaluator& evaluator_;
  std::vector<PieceTimes> sums_;  // [piece] of those before it
  std::map<Firsts, Seconds> known_;
  std::int64_t left_ = 0;  // pipelines that may still be simulated
  int ranks_ = 0;
};

}  // namespace

std::vector<Borders> search_borders(const StagePieces& pieces, const BorderRequest& request, PlanEvaluator& evaluator,
                                    std::size_t count) {
  return BorderSearch(pieces, request, evaluator).search(pieces.first_of_stage, count);
}

}  // namespace meshwright
