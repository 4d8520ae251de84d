// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "report/charts/document_charts.h"
#include "report/charts/heat_map.h"
#include "report/charts/scatter.h"

namespace meshwright::points_charts_test {
namespace {

Json point(const char* layers, const char* micro_batches, double step, double gibibytes) {
  return {{"schedule", "1f1b"},
          {"layers", layers},
          {"micro_batches", micro_batches},
          {"feasible", true},
          {"num_layers", std::stoi(layers)},
          {"num_micro_batches", std::stoi(micro_batches)},
          {"step_time_s", step},
          {"peak_memory_bytes", gibibytes * 1073741824.0},
          {"num_devices", 8}};
}

Json sweep() {
  Json none = {{"schedule", "1f1b"}, {"layers", "4"},    {"micro_batches", "16"},
               {"feasible", false},  {"refused", false}, {"reason", "needs <much> memory"}};
  return {{"model", "gpt"},
          {"cluster", "dgx"},
          {"best", 1},
          {"points", {point("2", "8", 4.0, 1.0), point("2", "16", 1.0, 3.0), point("4", "8", 2.0, 2.0), none}}};
}

TEST(FrontOf, KeepsWhatNoOtherBeatsInBoth) {
  const std::vector<ScatterPoint> points = {
      {4, 1, "", ""}, {1, 3, "", ""}, {2, 2, "", ""}, {2, 2, "", ""}, {3, 3, "", ""}};
  EXPECT_EQ(front_of(points), (std::vector<std::size_t>{1, 2, 0}));
}

TEST(HeatMap, IsDarkestWhereTheStepIsLongestAndSaysWhyThereIsNoPlan) {
  const std::string markup = sweep_heat_map(sweep()).markup();
  // Steps of 4, 1 and 2 seconds: half of the way from 1 to 4 by ratio is 2.
  EXPECT_NE(markup.find("class=\"heat-8\"><title>1f1b, 2 layers, 8 micro-batches"), std::string::npos) << markup;
  EXPECT_NE(markup.find("class=\"heat-0\"><title>1f1b, 2 layers, 16 micro-batches"), std::string::npos);
  EXPECT_NE(markup.find("class=\"heat-4\"><title>1f1b, 4 layers, 8 micro-batches"), std::string::npos);
  EXPECT_NE(markup.find("needs &lt;much&gt; memory"), std::string::npos);
  EXPECT_NE(markup.find("class=\"outline\""), std::string::npos);
}

TEST(FrontChart, LeavesOutPointsWithoutAPlan) {
  const Json points = sweep().at("points");
  const std::string markup = front_chart(points, axes_from_text("step,memory", points, "--axes"), "plans").markup();
  EXPECT_NE(markup.find("3 plans by step time (s) and peak memory (GiB)"), std::string::npos);
  EXPECT_EQ(markup.find("data-point=\"3\""), std::string::npos);
}

TEST(Axes, AreTwoDifferentNumbersThatAllPlansHave) {
  const Json points = sweep().at("points");
  EXPECT_EQ(axes_from_text("memory,devices", points, "--axes").y.name, "devices");
  for (const char* wrong : {"step", "step,step", "step,price", "step,memory,devices", ""})
    EXPECT_THROW((void)axes_from_text(wrong, points, "--axes"), InputError) << wrong;
}

TEST(AgreementChart, PutsARunThatIsPredictedRightOnTheDiagonal) {
  const std::string markup = agreement_svg({{1.0, 1.0, "", "right"}}, {"t", "d", "x", "y"}).markup();
  // The axes go from 1 to 10: both ends of the diagonal are corners, and the point is the first of them.
  EXPECT_NE(markup.find("<circle cx=\"76\" cy=\"572\""), std::string::npos) << markup;
  EXPECT_NE(markup.find("<path d=\"M76 572L596 52\" class=\"line\"/>"), std::string::npos);
}

}  // namespace
}  // namespace meshwright::points_charts_test
