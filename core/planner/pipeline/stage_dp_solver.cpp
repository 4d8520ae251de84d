// SPDX-License-Identifier: Apache-2.0
#include "core/planner/pipeline/stage_dp_solver.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::stage_dp {

namespace {

using Word = std::uint64_t;

// A row of bits says for d = 1, 2, ... devices whether something holds; a stage moves it by its own devices.
enum class Move { Up, Down };

// to |= from moved by `shift` bits, for `rows` rows of bits of as many words. Rows of one word, up to 64 devices, need
// no carry between words.
template <Move kMove>
void or_moved(Word* to, const Word* from, std::size_t rows, std::size_t words, int shift) {
  constexpr bool kUp = kMove == Move::Up;
  const std::size_t whole = shift / 64;
  const int part = shift % 64;
  if (words == 1) {
    for (std::size_t r = 0; r < rows && whole == 0; ++r) to[r] |= kUp ? from[r] << part : from[r] >> part;
    return;
  }
  for (; rows > 0; --rows, to += words, from += words)
    for (std::size_t w = whole; w < words; ++w) {
      Word& moved = to[kUp ? w : w - whole];
      moved |= kUp ? from[w - whole] << part : from[w] >> part;
      if (part > 0 && kUp && w > whole) moved |= from[w - whole - 1] >> (64 - part);
      if (part > 0 && !kUp && w + 1 < words) moved |= from[w + 1] << (64 - part);
    }
}
bool any(const Word* bits, std::size_t words) {
  return std::any_of(bits, bits + words, [](Word w) { return w != 0; });
}

}  // namespace

Solver::Solver(const Space& space)
    : space_(space),
      words_(space.states().size()),
      can_end_((space.classes() * space.layers()) * words_),
      needed_(can_end_.size()),
      rows_(0, space.width()),
      places_(space.classes() * space.layers(), -1),
      before_(space.layers(), space.width()),
      sums_(space.layers() + 1, space.width()),
      times_(space),
      open_times_(space),
      ends_(space.shapes().size()) {
  if (space.last_class_is_open()) open_times_.move_to(space.level_after(space.classes()));
}

// The recurrence of F with max in the place of the sum; the number of stages does not matter to it.
double Solver::min_slowest() const {
  const int layers = space_.layers(), shapes = static_cast<int>(space_.shapes().size());
  Rows rows(layers, space_.width());
  for (int i = layers - 1; i >= 0; --i) {
    for (int s = 0; s < shapes; ++s) {
      const double* times = space_.anywhere(s, i);
      space_.add_last_stage(rows[i], s, times[layers - i - 1]);
      const int used = space_.shapes()[s].shift;
      for (int k = i + 1; k < layers; ++k) {
        const double time = times[k - i - 1];
        if (time == kNever) continue;
        for (int d = used + 1; d <= space_.all_devices(); ++d)
          rows[i][d - 1] = std::min(rows[i][d - 1], std::max(rows[k][d - used - 1], time));
      }
    }
    space_.keep_states(rows[i]);
  }
  return rows[0][space_.all_devices() - 1];
}

template <class Visit>
void Solver::for_each_rest(int c, Visit visit) const {
  if (c > 1) visit(c - 1, times_);
  if (c == space_.classes() && space_.last_class_is_open()) visit(c, open_times_);
}

// Class 1: a single stage holds layers i.. to the end.
void Solver::reach_last_stages(int i) {
  Word* ends = bits(can_end_, 1, i);
  for (int s = 0; s < static_cast<int>(space_.shapes().size()); ++s) {
    const double time = space_.anywhere(s, i)[space_.layers() - i - 1];
    if (time > slowest_ || time == kNever) continue;
    for (int d = space_.shapes()[s].shift; d <= space_.all_devices(); ++d)
      if (space_.may_be_last(space_.shapes()[s], d)) ends[(d - 1) / 64] |= Word{1} << (d - 1) % 64;
  }
}

// Lists the cells that are fast enough once, so that the passes over bits do not read the others.
void Solver::find_ways() {
  const int layers = space_.layers();
  space_.find_levels_within(slowest_, levels_);
  ways_.clear();
  ways_from_.assign(1, 0);
  for (int i = 0; i < layers; ++i) {
    for (int s = 0; s < static_cast<int>(space_.shapes().size()); ++s) {
      const int* level = levels_.data() + space_.cell(s, i) - i - 1;
      for (int k = i + 1; k < layers; ++k)
        if (level[k] >= 0) ways_.push_back({k, space_.shapes()[s].shift, level[k]});
    }
    ways_from_.push_back(ways_.size());
  }
}

// Calls visit(way, c, rest, count) for the ways of a first stage at layer i: in front of remainders of the classes
// rest, rest + 1, ... (`count` of them) it makes c, c + 1, .... Neighbouring classes have neighbouring rows of bits, so
// that one pass over bits serves them all.
template <class Visit>
void Solver::for_each_step(int i, Visit visit) const {
  for (std::size_t n = ways_from_[i]; n < ways_from_[i + 1]; ++n) {
    const Way& way = ways_[n];
    for (auto [first, last] : space_.classes_within(way.level)) {
      last = std::min(last, space_.layers() - way.k);
      // A stage in front of the open class stays in it.
      if (space_.last_class_is_open() && last == space_.classes()) {
        visit(way, last, last, 1);
        --last;
      }
      if (first <= last) visit(way, first + 1, first, last - first + 1);
    }
  }
}

bool Solver::can_finish(double slowest) {
  slowest_ = slowest;
  find_ways();
  const int classes = space_.classes();
  std::fill(can_end_.begin(), can_end_.end(), 0);
  // From the last layer to the first: a state is reached from the states behind its first stage.
  for (int i = space_.layers() - 1; i >= 0; --i) {
    reach_last_stages(i);
    for_each_step(i, [&](const Way& way, int c, int rest, int count) {
      or_moved<Move::Up>(bits(can_end_, c, i), bits(can_end_, rest, way.k), count, words_, way.shift);
    });
    Word* here = bits(can_end_, 1, i);
    // A moved row may have bits at device counts that are no state.
    for (int c = 0; c < classes; ++c)
      for (std::size_t w = 0; w < words_; ++w) *here++ &= space_.states()[w];
  }
  const int last = space_.all_devices() - 1;
  for (int c = space_.first_whole_class(); c <= classes; ++c)
    if (bits(can_end_, c, 0)[last / 64] >> last % 64 & 1) return true;
  return false;
}

// The states of can_finish that some whole pipeline passes, from the first layer to the last.
void Solver::find_needed() {
  const int classes = space_.classes(), all = space_.all_devices() - 1;
  std::fill(needed_.begin(), needed_.end(), 0);
  for (int c = space_.first_whole_class(); c <= classes; ++c) bits(needed_, c, 0)[all / 64] |= Word{1} << all % 64;
  for (int i = 0; i < space_.layers(); ++i) {
    Word* here = bits(needed_, 1, i);
    const Word* ends = bits(can_end_, 1, i);
    bool some = false;
    for (std::size_t w = 0; w < classes * words_; ++w) some |= (here[w] &= ends[w]) != 0;
    if (!some) continue;
    for_each_step(i, [&](const Way& way, int c, int rest, int count) {
      or_moved<Move::Down>(bits(needed_, rest, way.k), bits(needed_, c, i), count, words_, way.shift);
    });
  }
}

double Solver::bound_sum(double slowest) {
  bounded_ = slowest;
  const int layers = space_.layers(), shapes = static_cast<int>(space_.shapes().size());
  const Word* states = space_.states().data();
  sums_.fill();
  // From the first layer to the last, with each stage at the level that suits it best: fewer classes, larger sets.
  for (int k = 1; k <= layers; ++k) {
    double* sums = sums_[k];
    sources_.clear();
    for (int s = 0; s < shapes; ++s) {
      const double whole = space_.anywhere(s, 0)[k - 1];
      if (whole <= slowest) space_.add_last_stage(sums, s, whole);
      for (int i = std::max(1, k - space_.max_length(s)); i < k; ++i) {
        const double time = space_.anywhere(s, i)[k - i - 1];
        if (time <= slowest && time < kNever) sources_.push_back({sums_[i] - space_.shapes()[s].shift, time});
      }
      ends_[s] = static_cast<int>(sources_.size());
    }
    space_.relax(sums, sources_, ends_, 1, states);
    space_.keep_states(sums);
  }
  // The same by what is left: before_[i][x] belongs to x + 1 devices for layers i.. on.
  const int all = space_.all_devices();
  before_.fill();
  before_[0][all - 1] = 0.0;
  for (int i = 1; i < layers; ++i)
    for (int x = 0; x < all - 1; ++x)
      if (states[x / 64] >> x % 64 & 1) before_[i][x] = sums_[i][all - x - 2];
  return sums_[layers][all - 1];
}

void Solver::solve(double limit) {
  limit_ = limit < kNever ? limit * (1.0 + kRounding) : std::numeric_limits<double>::max();
  MW_CHECK(bounded_ == slowest_, "bounded for {}, to be solved for {}", bounded_, slowest_);
  find_needed();
  std::fill(places_.begin(), places_.end(), -1);
  rows_.resize(0);
  for (int c = 1; c <= space_.classes(); ++c) {
    // A stage that makes class c has class c - 1 behind it, and keeps as many microbatches as that says.
    times_.move_to(space_.level_after(c - 1));
    // Class c has at least c stages, and each of them has a layer.
    for (int i = space_.layers() - c; i >= 0; --i)
      if (any(bits(needed_, c, i), words_)) solve_row(c, i);
  }
}

void Solver::solve_row(int c, int i) {
  const int layers = space_.layers();
  const int place = rows_.count();
  rows_.resize(place + 1);
  double* values = rows_[place];
  sources_.clear();
  for (int s = 0; s < static_cast<int>(space_.shapes().size()); ++s) {
    const double last = space_.anywhere(s, i)[layers - i - 1];
    if (c == 1 && last <= slowest_) space_.add_last_stage(values, s, last);
    for_each_rest(c, [&](int rest, const Times& times) {
      const double* time = times.of(s, i) - i - 1;
      for (int k = i + 1; k < layers; ++k)
        if (time[k] <= slowest_ && time[k] < kNever && places_[row(rest, k)] >= 0)
          sources_.push_back({rows_[places_[row(rest, k)]] - space_.shapes()[s].shift, time[k]});
    });
    ends_[s] = static_cast<int>(sources_.size());
  }
  const Word* needed = bits(needed_, c, i);
  const int least = std::max(1, c - 1) * space_.shapes().front().shift;
  space_.relax(values, sources_, ends_, least, needed);

  // The row holds only states on a whole pipeline; the rest stays infinite, so later rows read no wrong value.
  // What exceeds the limit with the cheapest beginning in front of it leads to no pipeline within the limit.
  const double* before = before_[i];
  bool reached = false;
  for (int x = 0; x < space_.width(); ++x) {
    const bool stays = (needed[x / 64] >> x % 64 & 1) != 0 && values[x] + before[x] <= limit_;
    if (!stays) values[x] = kNever;
    reached = reached || stays;
  }
  if (reached)
    places_[row(c, i)] = place;
  else
    rows_.resize(place);
}

// Sums are compared for equality: they are added in the same order as in solve_row.
int Solver::config_with(int level, const TableStage& stage, double after, double total) const {
  for (int c = 0; c < space_.configs(); ++c) {
    const Space::Config config = space_.config(stage.first, stage.last, stage.slice, c);
    if (config.level >= level && config.time <= slowest_ && after + config.time == total) return c;
  }
  return -1;
}

// The first stage of a pipeline that attains F(c, i, d); `rest` is the class of what follows, 0 for nothing.
TableStage Solver::first_stage(int c, int i, int d, int& rest) const {
  const double total = value(c, i, d);
  const int layers = space_.layers();
  for (const Shape& shape : space_.shapes()) {
    TableStage stage{i, layers - 1, shape.slice, 0};
    if (c == 1 && space_.may_be_last(shape, d)) {
      stage.config = config_with(space_.level_after(0), stage, 0.0, total);
      if (rest = 0; stage.config >= 0) return stage;
    }
    if (shape.shift >= d) continue;
    for (rest = std::max(1, c - 1); rest <= c; ++rest) {
      if (space_.class_before(rest) != c) continue;
      for (stage.last = i; stage.last + 1 < layers; ++stage.last) {
        const double after = value(rest, stage.last + 1, d - shape.shift);
        if (after == kNever) continue;
        stage.config = config_with(space_.level_after(rest), stage, after, total);
        if (stage.config >= 0) return stage;
      }
    }
  }
  MW_CHECK(false, "F({}, {}, {}) = {} is attained by no stage", c, i, d, total);
}

TablePipeline Solver::pipeline(int c) const {
  TablePipeline found;
  for (int i = 0, d = space_.all_devices(); c > 0;) {
    int rest = 0;
    found.stages.push_back(first_stage(c, i, d, rest));
    c = rest;
    i = found.stages.back().last + 1;
    d -= space_.shift_of(found.stages.back().slice);
  }
  space_.time(found);
  return found;
}

}  // namespace meshwright::stage_dp
