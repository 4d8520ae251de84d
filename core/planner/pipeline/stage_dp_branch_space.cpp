// SPDX-License-Identifier: Apache-2.0
#include "core/planner/pipeline/stage_dp_branch_space.h"

#include <algorithm>

#include "core/planner/pipeline/stage_dp_space.h"

namespace meshwright::stage_dp {

// Infinite where the stage cannot run or lacks memory.
double time_where_it_fits(const StageTable& table, const StageDpRequest& request, const TableStage& stage,
                          std::int64_t kept) {
  const std::optional<StageCost>& cost = table.at(stage.first, stage.last, stage.slice, stage.config);
  if (!cost) return kNever;
  const double bytes = cost->resident.si() + cost->working.si() + static_cast<double>(kept) * cost->saved.si();
  if (bytes > table.slices()[stage.slice].memory.si()) return kNever;
  return cost->time.si() + cost->step.si() / static_cast<double>(request.microbatches);
}

BranchSpace::BranchSpace(const StageTable& table, const StageDpRequest& request, const LayerBranches& branches,
                         Classes classes)
    : table_(table), request_(request), branches_(branches) {
  require_branches_of(branches, table.layers());
  count_states();
  find_times(classes);
}

void BranchSpace::count_states() {
  max_used_ = request_.devices;
  // A given number of stages is one more digit, of which every stage uses 1.
  if (request_.stages) max_used_.push_back(*request_.stages);
  stride_.assign(max_used_.size(), 1);
  for (std::size_t k = max_used_.size() - 1; k > 0; --k) stride_[k - 1] = stride_[k] * (max_used_[k] + 1);
  const int states = stride_.front() * (max_used_.front() + 1);
  // Runs in the last kind, for every way of the others that leaves enough.
  for (int state = 0; state < states; ++state) {
    std::vector<StateRun> runs = {{0, 1}};
    for (std::size_t k = 0; k < max_used_.size(); ++k) {
      const int free = max_used_[k] - state / stride_[k] % (max_used_[k] + 1);
      std::vector<StateRun> finer;
      for (const StateRun& run : runs) {
        if (k + 1 == max_used_.size()) {
          finer.push_back({run.begin, free + 1});
          continue;
        }
        for (int used = 0; used <= free; ++used) finer.push_back({run.begin + used * stride_[k], 1});
      }
      runs = std::move(finer);
    }
    runs_.push_back(std::move(runs));

    bool whole = !request_.stages || state % (max_used_.back() + 1) == max_used_.back();
    for (std::size_t k = 0; k < request_.devices.size() && request_.all_devices; ++k)
      whole = whole && state / stride_[k] % (max_used_[k] + 1) == max_used_[k];
    if (whole) whole_states_.push_back(state);
  }
  for (int s = 0; s < static_cast<int>(table_.slices().size()); ++s) {
    const std::vector<int>& devices = table_.slices()[s].devices;
    Shape shape{s, request_.stages ? 1 : 0};
    bool fits = true;
    for (std::size_t k = 0; k < devices.size(); ++k) {
      fits = fits && devices[k] <= max_used_[k];
      shape.state += devices[k] * stride_[k];
    }
    if (fits) shapes_.push_back(shape);
  }
}

// Mixed-radix numbers add digit by digit only where no digit overflows.
bool BranchSpace::add_up(int state, int more) const {
  for (std::size_t k = 0; k < max_used_.size(); ++k) {
    const int digits = max_used_[k] + 1;
    if (state / stride_[k] % digits + more / stride_[k] % digits > max_used_[k]) return false;
  }
  return true;
}

// The fastest configuration per cell and class is all that a least sum needs; which one it was is looked up in the end.
void BranchSpace::find_times(Classes classes) {
  std::vector<std::int64_t> kept = in_flight_counts(request_, layers());
  // With the minimum kept everywhere, all times are lower bounds.
  if (classes == Classes::Bound) kept = {*std::min_element(kept.begin(), kept.end())};
  for (const std::int64_t count : kept) {
    std::vector<double>& times = times_.emplace_back(cell(layers(), 0), kNever);
    for (int first = 0; first < layers(); ++first)
      for (int end = first + 1; end <= layers(); ++end)
        for (std::size_t s = 0; s < shapes_.size(); ++s) {
          double& fastest = times[cell(first, end) + s];
          for (int c = 0; c < table_.configs(); ++c)
            fastest =
                std::min(fastest, time_where_it_fits(table_, request_, {first, end - 1, shapes_[s].slice, c}, count));
        }
  }
  // Classes whose times are all the same are one: the last class means "or more".
  while (times_.size() > 1 && times_[times_.size() - 1] == times_[times_.size() - 2]) times_.pop_back();
}

std::vector<double> BranchSpace::distinct_times() const {
  std::vector<double> all;
  for (const std::vector<double>& times : times_)
    std::copy_if(times.begin(), times.end(), std::back_inserter(all), [](double t) { return t < kNever; });
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

int BranchSpace::config_with(double time, int after, int first, int last, int slice) const {
  // Equal to the last bit: the same sum of the same numbers.
  const std::int64_t kept = request_.in_flight(after, request_.microbatches);
  for (int c = 0; c < table_.configs(); ++c)
    if (time_where_it_fits(table_, request_, {first, last, slice, c}, kept) == time) return c;
  return -1;
}

}  // namespace meshwright::stage_dp
