// SPDX-License-Identifier: Apache-2.0
// Plans are the single-device program to the bit: over integers modulo a prime, losses, gradients, parameters and
// states of every device are those of one device alone.
//
// EXACT_PLANS and EXACT_SEED draw another number of plans, and others (experiments/exact).
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "tests/oracle/exact/drawn_plan.h"

namespace meshwright::exact_plans_test {
namespace {

struct Tally {
  std::map<std::string, int> families, methods, schedules;
  int plans = 0, requests = 0, tiles = 0;

  void add(const DrawnPlan& drawn, const ExactCheck& check) {
    ++plans;
    ++families[drawn.family];
    ++methods[drawn.method.substr(0, drawn.method.find(':'))];
    ++schedules[drawn.has_pipeline() ? drawn.schedule : "one stage"];
    for (const ExactClass& of : check.classes) tiles += static_cast<int>(of.tiles);
  }
  void print() const {
    const auto list = [](const char* what, const std::map<std::string, int>& of) {
      std::cout << what;
      for (const auto& [name, count] : of) std::cout << " " << name << " " << count;
      std::cout << "\n";
    };
    std::cout << plans << " plans of " << requests << " requests, " << tiles << " tiles compared\n";
    list("families:", families);
    list("methods:", methods);
    list("schedules:", schedules);
  }
};

TEST(ExactPlans, DrawnOnesAreTheSingleDeviceProgram) {
  const std::uint64_t count = number_given("EXACT_PLANS", 60), seed = number_given("EXACT_SEED", 1);
  Tally tally;
  const std::uint64_t first = number_given("EXACT_FIRST", 0);
  for (std::uint64_t number = first; static_cast<std::uint64_t>(tally.plans) < count; ++number) {
    ASSERT_LT(number, first + 20 * count + 100) << "hardly a request has a plan";
    Drawing draw(seed * 1'000'000 + number);
    ++tally.requests;
    const std::optional<DrawnPlan> drawn = drawn_plan(draw);
    if (!drawn) continue;
    if (std::getenv("EXACT_WHY")) std::cout << "number " << number << " " << drawn->text << std::endl;
    try {
      const RunResult run = run_exactly(drawn->planned.graph, drawn->planned.program, drawn->planned.check, seed);
      const ExactCheck check = compare_exactly(drawn->planned.graph, run, reference_of(*drawn, seed));
      tally.add(*drawn, check);
      EXPECT_EQ(difference_in(check), "") << "number " << number << ": " << drawn->text;
      for (const ExactClass& of : check.classes)
        EXPECT_TRUE(of.tiles > 0 || of.name == "optimizer states") << of.name << " of number " << number;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "number " << number << ": " << drawn->text << ": " << error.what();
      ++tally.plans;
    }
  }
  tally.print();
}

}  // namespace
}  // namespace meshwright::exact_plans_test
