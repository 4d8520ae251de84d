// SPDX-License-Identifier: Apache-2.0
// Programs with a fault do not pass for the single-device program: check_program refuses them, residues differ, or the
// run ends in an error. Each runs in a process of its own, as a fault may write where it should not.
//
// EXACT_MUTANTS and EXACT_SEED draw another number of faults, and others (experiments/exact).
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <iostream>
#include <map>

#include "tests/oracle/exact/drawn_plan.h"
#include "tests/oracle/exact/mutate_executable.h"
#include "tests/oracle/exact/mutate_instructions.h"
#include "tests/oracle/exact/mutate_messages.h"

namespace meshwright::exact_mutants_test {
namespace {

constexpr std::array kOfExecutables = {"collective dropped",   "collective doubled",    "reduction dropped",
                                       "other reduction",      "other group",           "other dimension",
                                       "other operand",        "other buffer of an op", "other place of a tile",
                                       "accumulation dropped", "accumulation doubled",  "update dropped"};
constexpr std::array kOfMessages = {"message dropped",          "messages swapped",
                                    "sends out of order",       "receives out of order",
                                    "other offset of a source", "other offset of a destination",
                                    "other buffer of a source", "other buffer of a destination",
                                    "sum or copy of a message", "message of another micro-batch"};
constexpr std::array kOfInstructions = {
    "run of another micro-batch", "run dropped",   "run doubled",  "instructions swapped",
    "exchange dropped",           "await dropped", "free dropped", "free too early"};

std::optional<Mutant> mutated(const Graph& graph, const Program& program, const std::string& kind, Drawing& draw) {
  if (std::find(kOfExecutables.begin(), kOfExecutables.end(), kind) != kOfExecutables.end())
    return ExecutableMutator(graph, program, draw).mutate(kind);
  if (std::find(kOfMessages.begin(), kOfMessages.end(), kind) != kOfMessages.end())
    return MessageMutator(graph, program, draw).mutate(kind);
  return InstructionMutator(graph, program, draw).mutate(kind);
}

enum class End { Equal, Different, Refused, Crashed, Waiting };
struct Outcome {
  End end;
  std::string what;
};

constexpr unsigned kLongest = 120;  // s; a run takes a fraction of one, on a machine that does nothing else

// Of the mutant in a process of its own.
Outcome outcome_of(const Graph& graph, const Mutant& mutant, const ProgramCheck& check, const ExactReference& reference,
                   std::uint64_t seed) {
  std::array<int, 2> ends{};
  MW_CHECK(pipe(ends.data()) == 0, "no pipe");
  const pid_t child = fork();
  MW_CHECK(child >= 0, "no process");
  if (child == 0) {
    close(ends[0]);
    alarm(kLongest);
    char end = static_cast<char>(End::Refused);
    std::string what;
    try {
      const ExactCheck found = compare_exactly(graph, run_exactly(graph, mutant.program, check, seed), reference);
      what = difference_in(found);
      end = static_cast<char>(found.equal() ? End::Equal : End::Different);
    } catch (const std::exception& error) {
      what = error.what();
    }
    what = (end + what).substr(0, 1000);
    const bool told = write(ends[1], what.data(), what.size()) == static_cast<ssize_t>(what.size());
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  std::array<char, 1024> text{};
  std::string told;
  for (ssize_t count = 0; (count = read(ends[0], text.data(), text.size())) > 0;)
    told.append(text.data(), static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {WTERMSIG(status) == SIGALRM ? End::Waiting : End::Crashed, ""};
  if (told.empty()) return {End::Crashed, "ended without a word"};
  return {static_cast<End>(told[0]), told.substr(1)};
}

struct Row {
  int tried = 0, by_check = 0, by_residues = 0, by_error = 0, by_crash = 0, by_waiting = 0, equivalent = 0,
      survived = 0;

  [[nodiscard]] std::string text() const {
    return fmt::format("{:>6} {:>14} {:>9} {:>6} {:>6} {:>8} {:>11} {:>9}", tried, by_check, by_residues, by_error,
                       by_crash, by_waiting, equivalent, survived);
  }
  void add(const Row& other) {
    tried += other.tried, by_check += other.by_check, by_residues += other.by_residues, by_error += other.by_error;
    by_crash += other.by_crash, by_waiting += other.by_waiting, equivalent += other.equivalent;
    survived += other.survived;
  }
};

void print(const std::map<std::string, Row>& table) {
  Row all;
  std::cout << fmt::format("{:<32} {:>6} {:>14} {:>9} {:>6} {:>6} {:>8} {:>11} {:>9}\n", "fault", "tried",
                           "check_program", "residues", "error", "crash", "waiting", "equivalent", "survived");
  for (const auto& [kind, row] : table) {
    std::cout << fmt::format("{:<32} {}\n", kind, row.text());
    all.add(row);
  }
  std::cout << fmt::format("{:<32} {}\n", "all", all.text());
}

TEST(ExactPlans, FaultsAreFound) {
  const std::uint64_t count = number_given("EXACT_MUTANTS", 60), seed = number_given("EXACT_SEED", 1);
  constexpr int kOfOnePlan = 12;
  std::vector<std::string> kinds(kOfExecutables.begin(), kOfExecutables.end());
  kinds.insert(kinds.end(), kOfMessages.begin(), kOfMessages.end());
  kinds.insert(kinds.end(), kOfInstructions.begin(), kOfInstructions.end());
  std::map<std::string, Row> table;
  std::map<std::string, int> reasons;
  std::uint64_t tried = 0;
  const std::uint64_t first = number_given("EXACT_FIRST", 0);
  for (std::uint64_t number = first; tried < count; ++number) {
    ASSERT_LT(number, first + count + 100) << "hardly a request has a plan";
    Drawing draw(seed * 1'000'000 + 500'000 + number);
    const std::optional<DrawnPlan> drawn = drawn_plan(draw);
    if (!drawn) continue;
    const Graph& graph = drawn->planned.graph;
    const ExactReference reference = reference_of(*drawn, seed);
    for (int of_plan = 0; of_plan < kOfOnePlan && tried < count; ++of_plan) {
      const std::optional<Mutant> mutant = mutated(graph, drawn->planned.program, draw.any(kinds), draw);
      if (!mutant) continue;
      ++tried;
      Row& row = table[mutant->kind];
      ++row.tried;
      const ProgramCheck check = check_program(mutant->program);
      if (!check.violations.empty()) {
        ++row.by_check;
        continue;
      }
      const Outcome outcome = outcome_of(graph, *mutant, check, reference, seed);
      const std::string place =
          fmt::format("plan {} of seed {} ({}): {}: {}", number, seed, drawn->text, mutant->kind, mutant->what);
      if (std::getenv("EXACT_WHY"))
        std::cout << place << " -> " << static_cast<int>(outcome.end) << " " << outcome.what << " ["
                  << mutant->equivalent << "]" << std::endl;
      // What would change nothing may still be refused.
      if (!mutant->equivalent.empty() && outcome.end != End::Refused) {
        ++row.equivalent;
        ++reasons[mutant->equivalent];
        EXPECT_EQ(outcome.end, End::Equal)
            << place << "\nis not equivalent (" << mutant->equivalent << "): " << outcome.what;
        continue;
      }
      switch (outcome.end) {
        case End::Equal:
          ++row.survived;
          ADD_FAILURE() << place << " survives";
          break;
        case End::Different:
          ++row.by_residues;
          break;
        case End::Refused:
          ++row.by_error;
          break;
        case End::Crashed:
          ++row.by_crash;
          break;
        case End::Waiting:
          ++row.by_waiting;
          break;
      }
    }
  }
  print(table);
  for (const auto& [reason, times] : reasons) std::cout << "equivalent, as " << reason << ": " << times << "\n";
}

}  // namespace
}  // namespace meshwright::exact_mutants_test
