// SPDX-License-Identifier: Apache-2.0
#include "validation/interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/graph/models/models.h"
#include "core/planner/given_plan.h"
#include "core/planner/make_plan.h"
#include "costmodel/cost_models.h"
#include "simulator/what_if/prediction.h"
#include "validation/compare_steps.h"
#include "validation/memory_interval.h"

namespace meshwright::interval_test {

namespace {

// A step that is the sum of parts, each in proportion to one number of the software.
struct MadeStep {
  double products = 100.0, host = 0.0, network = 0.0;  // seconds

  [[nodiscard]] UncertainStep uncertain() const {
    SoftwareProfile software;
    software.dispatch_us = 1.0;
    software.spread = 0.05;
    const MadeStep own = *this;
    return {.predict =
                [own, software](const SoftwareProfile& other) {
                  return Seconds(own.products * other.sustained / software.sustained +
                                 own.host * other.dispatch_us / software.dispatch_us +
                                 own.network * software.network_share / other.network_share);
                },
            .software = software,
            .several_hosts = network > 0.0};
  }
  [[nodiscard]] Seconds step() const { return Seconds(products + host + network); }
  [[nodiscard]] double deviation() const { return deviation_of(uncertain(), step()); }
  [[nodiscard]] StepUncertainty uncertainty(std::vector<StepWork> work = {}) const {
    return uncertainty_of(uncertain(), step(), work);
  }
};

// A GPT of 4 blocks on 8 A100 of one host.
struct LoweredPlan {
  explicit LoweredPlan(const std::string& method) {
    request.model = find_builtin_model("gpt:layers=4,hidden=1024,heads=16,seq=1024,vocab=51200");
    request.training.batch = 32;
    request.training.dtype = DType::BF16;
    request.cluster = find_cluster("dgx-a100:1");
    request.search.microbatches = std::int64_t{4};
    request.search.method = method_from_text(method);
    costs = make_physical_cost_model(request.cluster, software);
    plan = given_plan(request, *costs).plan;
    loaded = load_plan(plan, *costs);
  }
  [[nodiscard]] StepUncertainty uncertainty() const {
    const UncertainStep uncertain =
        uncertain_step(plan.cluster, plan.model, plan.training.dtype, software,
                       predictor_of(loaded.program, nullptr, plan.cluster, software, nullptr));
    return uncertainty_of(uncertain, uncertain.predict(software), work_of_step(loaded.program, *costs));
  }

  SoftwareProfile software = find_software_profile("megatron");
  PlanRequest request;
  std::unique_ptr<CostModel> costs;
  Plan plan;
  LoadedPlan loaded;
};

Seconds time_of(const std::vector<StepWork>& work, Term term) {
  Seconds sum(0.0);
  for (const StepWork& some : work)
    if (some.term == term) sum += some.time;
  return sum;
}

}  // namespace

TEST(StepInterval, HoldsThePredictionInItsMiddle) {
  const StepInterval interval = interval_of(Seconds(2.0), 0.1);
  EXPECT_LT(interval.low, Seconds(2.0));
  EXPECT_GT(interval.high, Seconds(2.0));
  EXPECT_NEAR((interval.low.si() * interval.high.si()), 4.0, 1e-12);
}

TEST(StepInterval, IsTheSpreadWhereNothingElseIsUncertain) {
  EXPECT_DOUBLE_EQ((MadeStep{.products = 100.0}.deviation()), 0.05);
}

TEST(StepInterval, GrowsWithTheShareOfTheHostAndOfTheNetwork) {
  const double alone = MadeStep{.products = 100.0}.deviation();
  const double some = MadeStep{.products = 80.0, .host = 20.0}.deviation();
  EXPECT_GT(some, alone);
  EXPECT_GT((MadeStep{.products = 50.0, .host = 50.0}.deviation()), some);
  // A fifth of the step between hosts: 0.3 x 0.2 = 0.06, beside the spread of 0.05.
  EXPECT_NEAR((MadeStep{.products = 80.0, .network = 20.0}.deviation()), std::hypot(0.05, 0.06), 0.005);
}

TEST(StepInterval, GrowsWithTheDistanceFromWhatWasMeasured) {
  const auto deviation = [](const std::string& cluster, const std::string& model, const std::string& software) {
    const UncertainStep uncertain =
        uncertain_step(find_cluster(cluster), find_builtin_model(model), DType::BF16, find_software_profile(software),
                       [](const SoftwareProfile&) { return Seconds(1.0); });
    return deviation_of(uncertain, Seconds(1.0));
  };
  const std::string dense = "gpt-1.3b", mixture = "mixtral-8x7b";
  const double fitted = deviation("dgx-a100:1", dense, "megatron-deepspeed");
  EXPECT_DOUBLE_EQ(fitted, find_software_profile("megatron-deepspeed").spread);
  // No run on a Hopper is among those that the profile was fitted to, and none of a mixture.
  EXPECT_GT(deviation("dgx-h100:1", dense, "megatron-deepspeed"), fitted);
  EXPECT_GT(deviation("dgx-a100:1", mixture, "megatron-deepspeed"), fitted);
}

TEST(StepInterval, IsWiderForSoftwareThatWasNeverFitted) {
  for (const SoftwareProfile& profile : software_profiles()) {
    EXPECT_TRUE(profile.fitted || profile.spread >= 0.1) << profile.name;
    EXPECT_EQ(profile.fitted, !profile.fitted_generations.empty()) << profile.name;
  }
}

TEST(CompareSteps, PlansThatDoNotDifferAreNotTold) {
  const StepUncertainty plan = MadeStep{.products = 80.0, .host = 20.0}.uncertainty();
  const StepComparison comparison = compare_steps(plan, plan);
  EXPECT_FALSE(comparison.decided());
  EXPECT_DOUBLE_EQ(comparison.first_is_faster(), 0.5);
  EXPECT_FALSE(comparison.term.has_value());
}

TEST(CompareSteps, APlanTwiceAsSlowIs) {
  const StepComparison comparison =
      compare_steps(MadeStep{.products = 100.0}.uncertainty(), MadeStep{.products = 200.0}.uncertainty());
  EXPECT_TRUE(comparison.decided());
  EXPECT_GT(comparison.first_is_faster(), 0.999);
}

// Both steps are off by the same share where they are of the same work: 12 % tell such plans apart, though either step
// is not known to 12 %. Plans of different work are told by larger differences.
TEST(CompareSteps, ErrorsOfTheSameWorkCancel) {
  const MadeStep first{.products = 50.0, .host = 50.0}, alike{.products = 56.0, .host = 56.0};
  EXPECT_GT(kDeviationsOfInterval * first.deviation(), std::log(1.12));
  EXPECT_TRUE(compare_steps(first.uncertainty(), alike.uncertainty()).decided());
  const MadeStep different{.products = 112.0, .host = 0.0};
  EXPECT_FALSE(compare_steps(first.uncertainty(), different.uncertainty()).decided());
}

TEST(CompareSteps, NamesTheWorkThatThePlansDifferIn) {
  const MadeStep first{.products = 50.0, .host = 50.0}, second{.products = 100.0, .host = 0.0};
  const StepComparison comparison =
      compare_steps(first.uncertainty({{Term::Host, "dispatch", Seconds(50.0)}, {Term::Products, "a", Seconds(50.0)}}),
                    second.uncertainty({{Term::Products, "a", Seconds(60.0)}, {Term::Products, "b", Seconds(40.0)}}));
  ASSERT_TRUE(comparison.term.has_value());
  EXPECT_EQ(*comparison.term, Term::Host);
  EXPECT_EQ(comparison.what, "dispatch");
}

TEST(CompareSteps, PlansOfOneJobAreComparedByTheirTerms) {
  const LoweredPlan data("megatron:dp=8"), tensor("megatron:tp=8");
  const StepUncertainty of_data = data.uncertainty(), of_tensor = tensor.uncertainty();
  // Tensor parallelism waits for collectives of activations, data parallelism does not.
  const auto collectives = static_cast<std::size_t>(Term::Collectives);
  EXPECT_GT(of_tensor.slopes[collectives], of_data.slopes[collectives] + 0.05);
  EXPECT_FALSE(compare_steps(of_data, of_data).decided());
  EXPECT_GT(compare_steps(of_data, of_tensor).deviation, compare_steps(of_data, of_data).deviation);
}

TEST(StepWork, NamesProductsAndCollectivesOfThePlan) {
  const LoweredPlan tensor("megatron:tp=8");
  const std::vector<StepWork> work = work_of_step(tensor.loaded.program, *tensor.costs);
  ASSERT_FALSE(work.empty());
  for (std::size_t i = 1; i < work.size(); ++i) EXPECT_GE(work[i - 1].time, work[i].time);
  EXPECT_GT(time_of(work, Term::Products), Seconds(0.0));
  EXPECT_GT(time_of(work, Term::Collectives), Seconds(0.0));
  EXPECT_EQ(time_of(work, Term::Network), Seconds(0.0));  // one host
  // 8 samples of 1024 tokens; an eighth of the inner width of 4 x 1024.
  EXPECT_TRUE(std::any_of(work.begin(), work.end(), [](const StepWork& some) {
    return some.what == "products of 8192 x 512 x 1024 (M x N x K)";
  }));
  const std::vector<StepWork> longest = longest_of_each_term(work, 1);
  EXPECT_EQ(
      std::count_if(longest.begin(), longest.end(), [](const StepWork& some) { return some.term == Term::Products; }),
      1);
}

TEST(FitProbability, IsAHalfWhereThePredictionIsAllThereIsRoomFor) {
  const SoftwareProfile software = find_software_profile("megatron");
  EXPECT_DOUBLE_EQ(fit_probability(gibibytes(78), gibibytes(80), software), 0.5);
  EXPECT_TRUE(fits_on(gibibytes(78), gibibytes(80)));
  EXPECT_FALSE(fits_on(gibibytes(78.01), gibibytes(80)));
}

TEST(FitProbability, FallsWithTheMemory) {
  const SoftwareProfile software = find_software_profile("megatron");
  double last = 1.0;
  for (double gib = 60; gib < 100; gib += 4) {
    const double probability = fit_probability(gibibytes(gib), gibibytes(80), software);
    EXPECT_LT(probability, last) << gib;
    last = probability;
  }
  EXPECT_LT(last, 0.01);
}

TEST(FitProbability, IsCertainForThisProgramsOwnMemory) {
  SoftwareProfile own = find_software_profile("meshwright");
  EXPECT_EQ(own.memory_spread, 0.0);
  EXPECT_EQ(fit_probability(gibibytes(77.9), gibibytes(80), own), 1.0);
  EXPECT_EQ(fit_probability(gibibytes(78.1), gibibytes(80), own), 0.0);
}

TEST(MemoryInterval, HoldsThePrediction) {
  const MemoryInterval interval = memory_interval(gibibytes(40), find_software_profile("fsdp"));
  EXPECT_LT(interval.low, gibibytes(40));
  EXPECT_GT(interval.high, gibibytes(40));
  const MemoryInterval narrow = memory_interval(gibibytes(40), find_software_profile("megatron"));
  EXPECT_LT(narrow.high, interval.high);
}

}  // namespace meshwright::interval_test
