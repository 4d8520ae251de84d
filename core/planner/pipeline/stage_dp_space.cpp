// SPDX-License-Identifier: Apache-2.0
#include "core/planner/pipeline/stage_dp_space.h"

#include <algorithm>
#include <cstring>

#include "core/base/errors.h"

namespace meshwright::stage_dp {

namespace {

constexpr int kPairs = kBlock / 2;

// least[0..kBlock) = min with from[x] + time over the sources. The block stays in registers.
void relax_block(double* least, const Source* source, const Source* end, int offset) {
  Pair best[kPairs];
  std::memcpy(best, least, sizeof best);
  for (; source != end; ++source) {
    const Pair time = {source->time, source->time};
    const double* from = source->from + offset;
#pragma GCC unroll 8
    for (int e = 0; e < kPairs; ++e) {
      Pair value;
      std::memcpy(&value, from + 2 * e, sizeof value);
      value += time;
      best[e] = value < best[e] ? value : best[e];
    }
  }
  std::memcpy(least, best, sizeof best);
}

bool is_quantity(double x) { return x >= 0.0 && x < kNever; }
bool is_sound(const StageCost& cost) {
  return is_quantity(cost.time.si()) && is_quantity(cost.step.si()) && is_quantity(cost.resident.si()) &&
         is_quantity(cost.saved.si()) && is_quantity(cost.working.si());
}

void require_sound(const StageTable& table, const StageDpRequest& request) {
  require(request.microbatches >= 1, "stage search: there must be at least one microbatch, not {}.",
          request.microbatches);
  require(!request.stages || *request.stages >= 1, "stage search: there must be at least one stage, not {}.",
          request.stages.value_or(1));
  require(static_cast<bool>(request.in_flight), "stage search: give what the schedule keeps in flight.");
  int all = 0;
  for (const int count : request.devices) {
    require(count >= 0, "stage search: there are {} devices of a kind; give 0 or more.", count);
    all += count;
  }
  require(all >= 1, "stage search: there must be at least one device.");
  for (const DeviceSlice& slice : table.slices()) {
    require(slice.devices.size() == request.devices.size(),
            "stage search: a slice counts {} kinds of devices, the request {}; give both the same kinds.",
            slice.devices.size(), request.devices.size());
    int sum = 0;
    for (const int count : slice.devices) {
      require(count >= 0, "stage search: a slice cannot hold {} devices of a kind.", count);
      sum += count;
    }
    require(is_quantity(slice.memory.si()), "stage search: a slice has {} bytes of memory per device.",
            slice.memory.si());
    require(sum >= 1, "stage search: a slice without devices cannot run a stage.");
  }
}

}  // namespace

std::vector<std::int64_t> in_flight_counts(const StageDpRequest& request, int layers) {
  int max_stages = 0;  // of at least one device and one layer each
  for (const int count : request.devices) max_stages += std::min(count, layers);
  max_stages = std::max(1, std::min({max_stages, layers, request.stages.value_or(layers)}));
  std::vector<std::int64_t> counts;
  for (int from_end = 0; from_end < max_stages; ++from_end) {
    counts.push_back(request.in_flight(from_end, request.microbatches));
    require(counts.back() >= 0, "stage search: stage {} from the end cannot keep {} microbatches.", from_end,
            counts.back());
  }
  return counts;
}

Space::Space(const StageTable& table, const StageDpRequest& request, Keep keep)
    : table_(table),
      request_(request),
      keep_(keep),
      layers_(table.layers()),
      weight_(static_cast<double>(request.microbatches - 1)) {
  require_sound(table, request);
  count_devices();
  find_levels();
  read_costs();
  merge_classes();
}

// Digits are padded by the largest slice: a difference that would borrow lands on padding, which is no state.
void Space::count_devices() {
  const std::vector<int>& devices = request_.devices;
  std::vector<int> stride(devices.size(), 1), largest(devices.size(), 1);
  for (const DeviceSlice& slice : table_.slices())
    for (std::size_t k = 0; k < devices.size(); ++k)
      if (slice.devices[k] <= devices[k]) largest[k] = std::max(largest[k], slice.devices[k]);
  for (std::size_t k = devices.size() - 1; k > 0; --k) stride[k - 1] = stride[k] * (devices[k] + 1 + largest[k]);
  for (std::size_t k = 0; k < devices.size(); ++k) all_devices_ += devices[k] * stride[k];
  // Rows are padded to whole blocks, which relax_block takes without a remainder.
  width_ = (all_devices_ + kBlock - 1) / kBlock * kBlock;

  valid_.assign(width_ + 1, 0);
  for (int d = 0; d <= all_devices_; ++d) {
    // d is a number with one digit for each kind of devices.
    bool valid = true;
    int rest = d;
    for (std::size_t k = 0; k < devices.size(); rest %= stride[k++]) valid = valid && rest / stride[k] <= devices[k];
    valid_[d] = valid;
  }
  states_.assign((width_ + 63) / 64, 0);
  // Bit d - 1 stands for d devices.
  for (int d = 1; d <= all_devices_; ++d)
    if (valid_[d]) states_[(d - 1) / 64] |= std::uint64_t{1} << (d - 1) % 64;
  for (std::size_t s = 0; s < table_.slices().size(); ++s) {
    Shape shape{static_cast<int>(s), 0};
    bool fits = true;
    for (std::size_t k = 0; k < devices.size(); ++k) {
      fits = fits && table_.slices()[s].devices[k] <= devices[k];
      shape.shift += table_.slices()[s].devices[k] * stride[k];
    }
    if (fits) shapes_.push_back(shape);
    shift_of_.push_back(fits ? shape.shift : 0);
  }
  std::stable_sort(shapes_.begin(), shapes_.end(), [](const Shape& a, const Shape& b) { return a.shift < b.shift; });
}

void Space::find_levels() {
  const std::vector<std::int64_t> counts = in_flight_counts(request_, layers_);
  const std::vector<double> kept(counts.begin(), counts.end());
  const int max_stages = static_cast<int>(kept.size());
  levels_ = kept;
  std::sort(levels_.begin(), levels_.end());
  levels_.erase(std::unique(levels_.begin(), levels_.end()), levels_.end());
  for (const double count : kept)
    level_at_.push_back(static_cast<int>(std::lower_bound(levels_.begin(), levels_.end(), count) - levels_.begin()));
  // With `after` layers behind it a stage is the last, or has 1 to `after` stages behind it.
  lowest_level_ = highest_level_ = {level_at_[0]};
  for (int after = 1; after < layers_; ++after) {
    const bool first = after == 1, more = after < max_stages;
    const int level = more ? level_at_[after] : 0;
    lowest_level_.push_back(first ? (more ? level : 0) : std::min(lowest_level_.back(), more ? level : kMany));
    highest_level_.push_back(first ? (more ? level : -1) : std::max(highest_level_.back(), more ? level : -1));
  }
}

Space::Config Space::config(int first, int last, int slice, int c) const {
  const std::optional<StageCost>& cost = table_.at(first, last, slice, c);
  return cost ? read(*cost, table_.slices()[slice].memory) : Config{kNever, -1};
}

Space::Config Space::read(const StageCost& cost, Bytes memory) const {
  const double time = cost.time.si() + cost.step.si() / static_cast<double>(request_.microbatches);
  const double fixed = cost.resident.si() + cost.working.si();
  const auto fits = [&](double kept) { return fixed + kept * cost.saved.si() <= memory.si(); };
  const int last = static_cast<int>(levels_.size()) - 1;
  if (fits(levels_.back())) return {time, last};
  if (!fits(levels_.front())) return {time, -1};
  // Counts are evenly spaced as a rule: the guess is right, or nearly so.
  const double room = (memory.si() - fixed) / cost.saved.si();
  const double share = (room - levels_.front()) / (levels_.back() - levels_.front());
  int level = std::clamp(static_cast<int>(share * last), 0, last);
  while (!fits(levels_[level])) --level;
  while (fits(levels_[level + 1])) ++level;
  return {time, level};
}

// Cells of one first layer follow each other, by shape and then by end: the inner loops run over ends.
void Space::read_costs() {
  std::size_t size = 0;
  for (int first = 0; first < layers_; ++first) {
    start_.push_back(size);
    size += shapes_.size() * (layers_ - first);
  }
  anywhere_.assign(size, kNever);
  max_length_.assign(shapes_.size(), 0);
  changes_.resize(levels_.size());
  levels_differ_.assign(levels_.size(), 0);
  for (int first = 0; first < layers_; ++first)
    for (int last = first; last < layers_; ++last) {
      for (int s = 0; s < static_cast<int>(shapes_.size()) && table_.spans().is_first(first, last); ++s)
        read_configs(first, last, shapes_[s].slice);
      for (int s = 0; s < static_cast<int>(shapes_.size()); ++s) read_cell(first, last, s);
    }
  read_ = {}, fastest_ = {}, slowest_ = {}, readings_ = {};
}

// A configuration is reduced to its time and the highest level at which it fits. Numbers of spans come in order.
void Space::read_configs(int first, int last, int slice) {
  const std::optional<StageCost>* cost = table_.configs_of(first, last, slice);
  const Bytes memory = table_.slices()[slice].memory;
  Reading reading{.begin = read_.size(), .fastest_begin = fastest_.size()};
  for (int c = 0; c < table_.configs(); ++c) {
    if (!cost[c]) continue;
    require(is_sound(*cost[c]),
            "stage search: layers {}..{} on slice {}, configuration {}: a time or size that is negative or not finite; "
            "leave an infeasible stage out.",
            first, last, slice, c);
    const Config config = read(*cost[c], memory);
    if (config.level >= 0) read_.push_back(config);
  }
  reading.end = read_.size();
  const auto begin = read_.begin() + static_cast<std::ptrdiff_t>(reading.begin);
  std::sort(begin, read_.end(),
            [](const Config& a, const Config& b) { return a.level != b.level ? a.level > b.level : a.time < b.time; });
  double largest = 0.0;
  for (auto config = begin; config != read_.end(); ++config) {
    largest = std::max(largest, config->time);
    slowest_.push_back(largest);
    if (config == begin || config->time < fastest_.back().time) fastest_.push_back(*config);
  }
  reading.fastest_end = fastest_.size();
  readings_.push_back(reading);
}

// Only changes of the fastest time from one level to the next are stored: few configurations, many levels.
void Space::read_cell(int first, int last, int shape) {
  const int lowest = lowest_level_[layers_ - 1 - last], highest = highest_level_[layers_ - 1 - last];
  if (lowest > highest) return;
  const Reading& reading = readings_[table_.spans().of(first, last) * shapes_.size() + shape];
  const auto occurs = [&](const Config& config) { return config.level >= lowest; };
  const auto all = read_.begin() + static_cast<std::ptrdiff_t>(reading.begin);
  const auto all_end = std::partition_point(all, read_.begin() + static_cast<std::ptrdiff_t>(reading.end), occurs);
  if (all == all_end) return;
  largest_time_ = std::max(largest_time_, slowest_[all_end - read_.begin() - 1]);
  if (keep_ == Keep::All)
    for (auto config = all; config != all_end; ++config)
      if (config->level < highest) levels_differ_[config->level] = 1;
  // Levels above the highest that occurs count as it: the last of them is the fastest.
  const std::size_t here = cell(shape, first) + last - first;
  double fastest = kNever;
  for (std::size_t c = reading.fastest_begin; c < reading.fastest_end && fastest_[c].level >= lowest; ++c) {
    const auto [time, level] = fastest_[c];
    if (c + 1 < reading.fastest_end && fastest_[c + 1].level >= highest) continue;
    if (level < highest) {
      changes_[level].push_back({here, fastest});
      levels_differ_[level] = 1;
    }
    fastest = time;
  }
  anywhere_[here] = fastest;
  max_length_[shape] = std::max(max_length_[shape], last - first + 1);
}

std::vector<double> Space::times_between(double low, double high) const {
  std::vector<double> times;
  const auto add = [&](double time) {
    if (low <= time && time <= high && time < kNever) times.push_back(time);
  };
  for (const double time : anywhere_) add(time);
  for (const std::vector<Change>& changes : changes_)
    for (const Change& change : changes) add(change.time);
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

// Changes are stored per step upwards, so that going down begins at the bottom.
void Times::move_to(int level) {
  if (level < level_) now_ = space_.anywhere_, level_ = 0;
  for (; level_ < level; ++level_)
    for (const Space::Change& change : space_.changes_[level_]) now_[change.cell] = change.time;
}

// The number of stages matters only through the level of the next stage. Once all levels that can still occur have the
// same fastest configurations, more stages change nothing: one open class stands for them, which bounds the table's
// size.
void Space::merge_classes() {
  const int max_stages = static_cast<int>(level_at_.size());
  if (request_.stages) {
    classes_ = max_stages;
    first_whole_ = *request_.stages;
  } else {
    // From position `same` on no two levels differ.
    int same = max_stages - 1, low = level_at_.back(), high = low;
    for (int p = same - 1; p >= 1; --p) {
      low = std::min(low, level_at_[p]), high = std::max(high, level_at_[p]);
      if (std::find(levels_differ_.begin() + low, levels_differ_.begin() + high, 1) != levels_differ_.begin() + high)
        break;
      same = p;
    }
    open_ = same >= 1;
    classes_ = std::max(1, same);
  }
  for (int c = 0; c <= classes_; ++c) level_after_.push_back(level_at_[std::min(c, max_stages - 1)]);
  classes_within_.resize(levels_.size());
  const int rests = open_ ? classes_ : classes_ - 1;
  for (int level = 0; level < static_cast<int>(levels_.size()); ++level)
    for (int c = 1; c <= rests; ++c) {
      if (level_after_[c] > level) continue;
      std::vector<Range>& ranges = classes_within_[level];
      if (!ranges.empty() && ranges.back().second == c - 1)
        ranges.back().second = c;
      else
        ranges.emplace_back(c, c);
    }
}

// Times grow with the level: the highest level that is fast enough ends where a change exceeds the bound.
void Space::find_levels_within(double slowest, std::vector<int>& levels) const {
  const int most = static_cast<int>(levels_.size()) - 1;
  levels.resize(anywhere_.size());
  for (std::size_t c = 0; c < anywhere_.size(); ++c)
    levels[c] = anywhere_[c] <= slowest && anywhere_[c] < kNever ? most : -1;
  for (int level = most; level-- > 0;)
    for (const Change& change : changes_[level])
      if (change.time > slowest) levels[change.cell] = std::min(levels[change.cell], level);
}

// In the order of F, from the last stage to the first: the sum is the same to the last bit.
void Space::time(TablePipeline& pipeline) const {
  double sum = 0.0, slowest = 0.0;
  for (auto stage = pipeline.stages.rbegin(); stage != pipeline.stages.rend(); ++stage) {
    const double t = config(stage->first, stage->last, stage->slice, stage->config).time;
    sum = sum + t;
    slowest = std::max(slowest, t);
  }
  pipeline.sum = Seconds(sum);
  pipeline.slowest = Seconds(slowest);
}

void Space::add_last_stage(double* row, int shape, double time) const {
  const int used = shapes_[shape].shift;
  const int end = request_.all_devices ? used : all_devices_;
  for (int d = used; d <= end; ++d)
    if (valid_[d] && may_be_last(shapes_[shape], d)) row[d - 1] = std::min(row[d - 1], time);
}

void Space::keep_states(double* row) const {
  for (int d = 1; d <= width_; ++d)
    if (!valid_[d]) row[d - 1] = kNever;
}

// The hot loop of the search: min-plus over sources, a block of states at a time. Blocks without a wanted state are
// skipped whole, and shapes that need more devices than a block has are never looked at.
void Space::relax(double* row, std::span<const Source> sources, std::span<const int> ends, int least,
                  const std::uint64_t* wanted) const {
  // A block holds values of a shape only from shift + least devices on; shapes come by shift.
  std::size_t shape = 0;
  for (int begin = 0; begin < width_; begin += kBlock) {
    if ((wanted[begin / 64] >> (begin % 64) & ((std::uint64_t{1} << kBlock) - 1)) == 0) continue;
    while (shape < shapes_.size() && shapes_[shape].shift + least <= begin + kBlock) ++shape;
    if (shape > 0) relax_block(row + begin, sources.data(), sources.data() + ends[shape - 1], begin);
  }
}

}  // namespace meshwright::stage_dp
