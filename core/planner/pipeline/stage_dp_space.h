// SPDX-License-Identifier: Apache-2.0
// The stage search's table, laid out for its inner loop, and the loop itself. Internal to stage_dp*.cpp.
//
//  * Devices are one flat number d: a mixed-radix number of the counts per kind, the inner digits padded so that
//    d - |slice| never borrows from a digit without landing on padding; padding and impossible states hold infinity.
//  * In-flight counts that occur are `levels`, ascending. At each level only the fastest configuration
//    of (span, slice) matters to a minimum cost.
//  * States count stages by class: n = 1, 2, ..., K. When from some position on all levels that occur have the same
//    fastest configurations (in flight no more than B; memory that does not bind), the last class means "K or more".
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/planner/pipeline/stage_dp.h"

namespace meshwright::stage_dp {

constexpr double kNever = std::numeric_limits<double>::infinity();  // inside the tables only

// Two doubles that the compiler adds and compares at once on every target, without asking for more than the baseline.
typedef double Pair __attribute__((vector_size(2 * sizeof(double))));

// Microbatches that a stage keeps, by its position from the end of a pipeline: for as many stages as the request's
// devices and `layers` allow, at least one. Throws InputError for a negative count.
[[nodiscard]] std::vector<std::int64_t> in_flight_counts(const StageDpRequest& request, int layers);

// A slice that the devices allow.
struct Shape {
  int slice;  // in StageTable
  int shift;  // |slice| as a difference of flat numbers, at least 1
};

// A row holds states d = 1..width, aligned to blocks, with one block of infinities before it.
constexpr int kBlock = 16;
constexpr int kMany = std::numeric_limits<int>::max();

// One way to come to a row: the least of its sources' values plus a time.
struct Source {
  const double* from;  // already shifted
  double time;
};

class Rows {
 public:
  Rows(int count, int width) : stride_(width + kBlock), values_(count * stride_, kNever) {}
  [[nodiscard]] double* operator[](int row) { return values_.data() + row * stride_ + kBlock; }
  [[nodiscard]] const double* operator[](int row) const { return values_.data() + row * stride_ + kBlock; }
  [[nodiscard]] int count() const { return static_cast<int>(values_.size() / stride_); }
  void fill() { std::fill(values_.begin(), values_.end(), kNever); }
  // Moves the rows in memory.
  void resize(int count) { values_.resize(count * stride_, kNever); }

 private:
  std::size_t stride_;
  std::vector<double> values_;
};

// Which configurations count when classes are merged and levels compared.
enum class Keep { Fastest, All };

class Space {
 public:
  Space(const StageTable& table, const StageDpRequest& request, Keep keep);

  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }  // by shift
  [[nodiscard]] int width() const { return width_; }                          // of a row, a multiple of kBlock
  [[nodiscard]] int all_devices() const { return all_devices_; }              // flat number of the request's devices
  [[nodiscard]] const std::vector<std::uint64_t>& states() const { return states_; }  // bit d - 1: a state
  [[nodiscard]] double weight() const { return weight_; }                             // B - 1

  [[nodiscard]] int classes() const { return classes_; }
  // The last class also holds all higher numbers of stages.
  [[nodiscard]] bool last_class_is_open() const { return open_; }
  // Some slice is within the devices, and there may be as many stages as asked for.
  [[nodiscard]] bool can_be_used() const { return !shapes_.empty() && first_whole_ <= classes_; }
  // Class of a pipeline's remainder when one stage is put in front of a remainder of class c; 0: too many stages.
  [[nodiscard]] int class_before(int c) const { return c < classes_ ? c + 1 : open_ ? c : 0; }
  // Classes that a whole pipeline may have.
  [[nodiscard]] int first_whole_class() const { return first_whole_; }
  // Classes c whose level_after does not exceed a level, as ranges from .first to .second; c >= 1.
  using Range = std::pair<int, int>;
  [[nodiscard]] const std::vector<Range>& classes_within(int level) const { return classes_within_[level]; }
  // Level of a stage in front of a remainder of class c (0: none).
  [[nodiscard]] int level_after(int c) const { return level_after_[c]; }

  // Time of the fastest configuration of first..k-1, at the least level that a stage there can have, per k =
  // first+1..L, for a shape (position in shapes()): a bound for all levels.
  [[nodiscard]] const double* anywhere(int shape, int first) const { return anywhere_.data() + cell(shape, first); }
  // No span of more layers has a time anywhere.
  [[nodiscard]] int max_length(int shape) const { return max_length_[shape]; }
  // Per cell the highest level at which its fastest time is at most `slowest`, -1: none. A cell is (first, shape, k).
  void find_levels_within(double slowest, std::vector<int>& levels) const;
  [[nodiscard]] std::size_t cell(int shape, int first) const {
    return start_[first] + static_cast<std::size_t>(shape) * (layers_ - first);
  }
  // The largest t of all configurations that fit somewhere.
  [[nodiscard]] double largest_time() const { return largest_time_; }
  // Times that a stage of a pipeline can take, in [low, high]; ascending.
  [[nodiscard]] std::vector<double> times_between(double low, double high) const;
  // t of a configuration, and the highest level at which it fits (-1: at none).
  struct Config {
    double time;
    int level;
  };
  [[nodiscard]] Config config(int first, int last, int slice, int c) const;
  // Sum and largest of a pipeline's t.
  void time(TablePipeline& pipeline) const;

  [[nodiscard]] int configs() const { return table_.configs(); }

  // A shape's stage may end the pipeline with d devices at hand.
  [[nodiscard]] bool may_be_last(const Shape& shape, int d) const {
    return shape.shift == d || (!request_.all_devices && shape.shift < d && valid_[d - shape.shift]);
  }
  [[nodiscard]] int shift_of(int slice) const { return shift_of_[slice]; }
  // Values of the states with a single stage after which nothing comes.
  void add_last_stage(double* row, int shape, double time) const;
  // Clears what is no state.
  void keep_states(double* row) const;
  // Lowers the row to from + time of every source, in the blocks that hold a wanted state. Sources in order of the
  // shapes, ends[shape] = one past the shape's; no source has a value for less than `least` devices.
  void relax(double* row, std::span<const Source> sources, std::span<const int> ends, int least,
             const std::uint64_t* wanted) const;

 private:
  friend class Times;
  // When memory is asked for at level + 1, the cell's fastest time becomes this.
  struct Change {
    std::size_t cell;
    double time;
  };
  void count_devices();
  void find_levels();
  [[nodiscard]] Config read(const StageCost& cost, Bytes memory) const;
  // The configurations of spans of one number on a slice, the highest level first, one after the other in read_.
  struct Reading {
    std::size_t begin = 0, end = 0;
    std::size_t fastest_begin = 0, fastest_end = 0;  // in fastest_: those that are faster than all of higher levels
  };
  void read_configs(int first, int last, int slice);
  void read_costs();
  void read_cell(int first, int last, int shape);
  void merge_classes();

  const StageTable& table_;
  const StageDpRequest& request_;
  Keep keep_;
  int layers_, width_ = 0, all_devices_ = 0, classes_ = 0, first_whole_ = 1;
  bool open_ = false;
  double largest_time_ = 0.0;
  double weight_ = 0.0;
  std::vector<char> valid_;  // flat number -> a state
  std::vector<Shape> shapes_;
  std::vector<int> shift_of_;                      // slice -> shift, 0: not allowed
  std::vector<double> levels_;                     // in-flight counts, ascending
  std::vector<int> level_at_;                      // position from the end -> level
  std::vector<int> lowest_level_, highest_level_;  // by layers after the stage
  std::vector<char> levels_differ_;                // [v]: some configuration fits at v and not at v + 1
  std::vector<int> level_after_;
  std::vector<std::vector<Range>> classes_within_;
  std::vector<std::size_t> start_;            // first layer -> its cells
  std::vector<double> anywhere_;              // [cell]
  std::vector<int> max_length_;               // [shape] of the spans that have a time
  std::vector<std::vector<Change>> changes_;  // [level]
  // While costs are read.
  std::vector<Config> read_, fastest_;
  std::vector<double> slowest_;        // [as read_] the largest time up to here
  std::vector<Reading> readings_;      // [number of the span * shapes + shape]
  std::vector<std::uint64_t> states_;  // bit d - 1: a state
};

// The fastest times at one level after the other; going up is cheap.
class Times {
 public:
  explicit Times(const Space& space) : space_(space), now_(space.anywhere_) {}
  void move_to(int level);
  // As Space::anywhere, at the level.
  [[nodiscard]] const double* of(int shape, int first) const { return now_.data() + space_.cell(shape, first); }

 private:
  const Space& space_;
  std::vector<double> now_;
  int level_ = 0;
};

}  // namespace meshwright::stage_dp
