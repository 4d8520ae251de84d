// SPDX-License-Identifier: Apache-2.0
// The published bubble rates of 1F1B in "Zero Bubble Pipeline Parallelism" (arXiv:2401.10241, Tables 4, 5 and 9):
// measured times of one forward, of the two halves of one backward and of one message, and the bubble rate the authors'
// own simulation has for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/base/text.h"
#include "simulator/simulate.h"
#include "tests/unit/program_fixture.h"

namespace meshwright {
namespace {

struct Row {
  int stages, microbatches;
  double forward_ms, input_gradient_ms, weight_gradient_ms, message_ms;  // T_F, T_B, T_W, T_comm
  double bubble;
  bool operator==(const Row&) const = default;
};

const std::vector<Row> kRows = {
    {8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431},    // 1.5B
    {8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985},    //
    {8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240},    //
    {8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347},   // 6.2B
    {8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898},   //
    {8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091},   //
    {16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552},   // 14.6B
    {16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082},   //
    {16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251},  //
    {32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646},   // 28.3B
    {32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168},  //
    {32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352},  //
};

PipelineTimes times_of(const Row& row) {
  const auto milliseconds = [](double ms) { return to_sim_time(Seconds(ms * 1e-3)); };
  return equal_stages(row.stages, milliseconds(row.forward_ms),
                      milliseconds(row.input_gradient_ms + row.weight_gradient_ms), milliseconds(row.message_ms));
}

// As printed: to four digits.
double printed(double rate) { return std::round(rate * 1e4) / 1e4; }

TEST(ZeroBubbleRows, OneFOneBHasThePublishedBubbleToAllFourDigits) {
  for (const Row& row : kRows) {
    const PipelineTimes times = times_of(row);
    const PipelineResult result = simulate_pipeline(ScheduleKind::OneFOneB, row.microbatches, times);
    double largest = 0.0;
    for (std::size_t s = 0; s < times.forward.size(); ++s) {
      const auto busy = static_cast<double>(row.microbatches * (times.forward[s].ps + times.backward[s].ps));
      largest = std::max(largest, 1.0 - busy / static_cast<double>((result.last_end[s] - result.first_begin[s]).ps));
    }
    EXPECT_DOUBLE_EQ(printed(largest), row.bubble) << row.stages << " stages, " << row.microbatches << " microbatches";
  }
}

TEST(ZeroBubbleRows, PipelineBubbleOfTheEventEnginesTimelineIsTheSame) {
  for (const Row& row : kRows) {
    const Program program = PipelineProgram(ScheduleKind::OneFOneB, row.stages, row.microbatches).take();
    const SimulationResult result = simulate_by_events(program, program_times(program, times_of(row)));
    EXPECT_DOUBLE_EQ(printed(pipeline_bubble(result.timeline)), row.bubble) << row.stages << " stages";
  }
}

// The rows above against the file they were taken from.
TEST(ZeroBubbleRows, AreThoseOfTheDataFile) {
  const char* folder = std::getenv("MESHWRIGHT_DATA");
  if (folder == nullptr)
    GTEST_SKIP() << "MESHWRIGHT_DATA is not set: give the folder that has validation/zero_bubble_profiled_passes.csv";
  std::ifstream file(std::string(folder) + "/validation/zero_bubble_profiled_passes.csv");
  ASSERT_TRUE(file.good()) << folder << "/validation/zero_bubble_profiled_passes.csv cannot be read";
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const std::vector<std::string> names = split(line, ',');
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line, ',');
    const auto number = [&](const char* name) {
      const auto column = std::find(names.begin(), names.end(), name);
      EXPECT_NE(column, names.end()) << name;
      return std::stod(cells.at(static_cast<std::size_t>(column - names.begin())));
    };
    rows.push_back({static_cast<int>(number("pipeline_stages")), static_cast<int>(number("num_micro")),
                    number("T_F_ms"), number("T_B_ms"), number("T_W_ms"), number("T_comm_ms"), number("bubble_1F1B")});
  }
  EXPECT_EQ(rows, kRows);
}

}  // namespace
}  // namespace meshwright
