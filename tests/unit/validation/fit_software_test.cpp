// SPDX-License-Identifier: Apache-2.0
#include "validation/fit_software.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/errors.h"
#include "validation/interval.h"
#include "validation/run_log.h"

namespace meshwright::fit_software_test {

namespace {

constexpr const char* kColumns =
    "row_id,source_id,framework,gpu,n_gpus,gpus_per_node,model,arch,layers,hidden,heads,seq,vocab,precision,recompute,"
    "tp,pp,dp,micro_batch,num_micro,global_batch,iteration_s\n";

struct Job {
  int hidden, tp, pp, dp, micro_batch, micro_batches;
};

// Models of various sizes and plans on one and two hosts.
const std::vector<Job> kJobs = {{1024, 1, 1, 2, 1, 4}, {1024, 2, 1, 1, 2, 4}, {1024, 1, 2, 2, 4, 8},
                                {2048, 1, 1, 8, 1, 2}, {2048, 4, 1, 1, 2, 4}, {2048, 2, 2, 2, 1, 8},
                                {4096, 8, 1, 1, 1, 4}, {4096, 4, 2, 1, 2, 8}, {4096, 8, 1, 2, 1, 4},
                                {4096, 4, 1, 4, 2, 2}, {2048, 1, 4, 4, 1, 8}, {1024, 8, 1, 2, 1, 8}};

std::string row_of(std::size_t i, const Job& job, const std::string& vocab, double step,
                   const std::string& source = "made") {
  const int devices = job.tp * job.pp * job.dp;
  return fmt::format("r{},{},Megatron-LM,A100,{},8,gpt,gpt,4,{},{},1024,{},bf16,none,{},{},{},{},{},{},{}\n", i, source,
                     devices, job.hidden, job.hidden / 64, vocab, job.tp, job.pp, job.dp, job.micro_batch,
                     job.micro_batches, job.micro_batch * job.micro_batches * job.dp, step);
}

std::vector<PublishedRun> runs_of(const std::string& lines) {
  PublishedRuns read = read_published_runs(CsvTable::parse(kColumns + lines, "runs.csv"));
  EXPECT_TRUE(read.wrong.empty()) << read.wrong.front().reason;
  return read.runs;
}

// All jobs, each of a source of its own, and what they take with this software.
class Measured {
 public:
  explicit Measured(const SoftwareProfile& software) {
    std::string lines;
    for (std::size_t i = 0; i < kJobs.size(); ++i)
      lines += row_of(i, kJobs[i], "51200", 1.0, fmt::format("source {}", i));
    runs_ = runs_of(lines);
    prepared_ = prepare_runs(runs_, "megatron", 2);
    EXPECT_TRUE(prepared_.wrong.empty()) << prepared_.wrong.front().reason;
    for (std::size_t i = 0; i < runs_.size(); ++i) runs_[i].step = predicted_step(prepared_.runs[i], software);
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

  std::vector<PublishedRun>& runs() { return runs_; }
  [[nodiscard]] SoftwareFit fit(const SoftwareFitOptions& options) const {
    return fit_software(prepared_.runs, find_software_profile("megatron"), options);
  }

 private:
  std::vector<PublishedRun> runs_;
  PreparedRuns prepared_;
};

SoftwareProfile slower_megatron() {
  SoftwareProfile software = find_software_profile("megatron");
  software.sustained *= 1.1;
  software.dispatch_us *= 1.6;
  software.network_share *= 0.75;
  return software;
}

}  // namespace

TEST(FitSoftware, FindsTheNumbersThatRunsWereMadeWith) {
  const SoftwareProfile truth = slower_megatron();
  const SoftwareFit fit = Measured(truth).fit({.numbers = {"sustained", "dispatch_us", "network_share"}});
  EXPECT_GT(fit.fitted.before.mean, 0.05);
  EXPECT_LT(fit.fitted.after.mean, 0.01);
  // The prior draws each number a little towards where it started.
  EXPECT_NEAR(fit.profile.sustained / truth.sustained, 1.0, 0.02);
  EXPECT_NEAR(fit.profile.dispatch_us / truth.dispatch_us, 1.0, 0.1);
}

TEST(FitSoftware, LeavesWhatRowsDoNotDetermine) {
  const SoftwareProfile start = find_software_profile("megatron");
  const SoftwareFit fit = Measured(slower_megatron()).fit({.numbers = {"steps"}});
  // Attention is not fused in this software: of a list, the number is not fitted at all.
  EXPECT_EQ(fit.profile.attention_factor, start.attention_factor);
  EXPECT_TRUE(std::any_of(fit.not_fitted.begin(), fit.not_fitted.end(),
                          [](const auto& left) { return left.first == "attention_factor"; }));
  // Named on its own it is, and the prior keeps it.
  const SoftwareFit named = Measured(slower_megatron()).fit({.numbers = {"sustained", "attention_factor"}});
  EXPECT_NEAR(named.profile.attention_factor, start.attention_factor, 1e-3);
}

TEST(FitSoftware, DoesNotUseRowsKeptBack) {
  const SoftwareFitOptions options{.numbers = {"sustained", "dispatch_us"}, .holdout = 0.4, .seed = 2};
  Measured measured(slower_megatron());
  const SoftwareFit before = measured.fit(options);
  int changed = 0;
  for (PublishedRun& run : measured.runs())
    if (run_kept_back(run, options.holdout, options.seed)) {
      *run.step = 3.0 * *run.step;
      ++changed;
    }
  ASSERT_GT(changed, 0);
  const SoftwareFit after = measured.fit(options);
  EXPECT_EQ(before.profile.sustained, after.profile.sustained);
  EXPECT_EQ(before.profile.dispatch_us, after.profile.dispatch_us);
  EXPECT_EQ(after.kept_back.after.rows, changed);
  EXPECT_GT(after.kept_back.after.mean, before.kept_back.after.mean + 0.5);
}

TEST(FitSoftware, LeavesAProfileThatRunsDoNotContradict) {
  SoftwareProfile almost = find_software_profile("megatron");
  almost.sustained *= 1.01;
  SoftwareFitOptions options{.numbers = {"sustained"}, .only_if_contradicted = true};
  EXPECT_TRUE(Measured(almost).fit(options).numbers.empty());
  almost.sustained *= 1.5;
  EXPECT_EQ(Measured(almost).fit(options).numbers.size(), 1u);
}

TEST(FitSoftware, KeepsRowsOfOnePlanTogether) {
  const std::vector<PublishedRun> runs = runs_of(row_of(1, kJobs[0], "51200", 1.0) + row_of(2, kJobs[0], "51200", 1.1));
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(run_kept_back(runs[0], 0.5, seed), run_kept_back(runs[1], 0.5, seed));
}

TEST(FitSoftware, GivesTheSameOnSeveralThreads) {
  const Measured measured(slower_megatron());
  const SoftwareFit one = measured.fit({.numbers = {"launch"}, .threads = 1});
  const SoftwareFit two = measured.fit({.numbers = {"launch"}, .threads = 2});
  EXPECT_EQ(to_json(one.profile), to_json(two.profile));
}

TEST(FitSoftware, RefusesANumberThatIsNone) {
  const Measured measured(slower_megatron());
  EXPECT_THROW((void)measured.fit({.numbers = {"sustaned"}}), InputError);
}

TEST(Interval, WidensWithAssumptions) {
  const std::vector<PublishedRun> runs = runs_of(row_of(0, kJobs[4], "51200", 1.0) + row_of(1, kJobs[4], "", 1.0));
  const PreparedRun stated = prepare_run(runs[0], "megatron"), assumed = prepare_run(runs[1], "megatron");
  const auto width = [](const PreparedRun& run) {
    const Seconds step = predicted_step(run);
    const StepInterval interval = interval_of(run, step);
    EXPECT_LT(interval.low, step);
    EXPECT_GT(interval.high, step);
    return interval.high / interval.low;
  };
  EXPECT_GT(width(assumed), width(stated));
}

TEST(Interval, WidensWithTheShareOfTheHost) {
  // The smaller model's kernels are shorter than its host takes to dispatch them.
  const std::vector<PublishedRun> runs = runs_of(row_of(0, kJobs[0], "51200", 1.0) + row_of(1, kJobs[6], "51200", 1.0));
  SoftwareProfile software = find_software_profile("megatron-deepspeed");
  software.dispatch_us = 20;
  software.dispatch_peer_us = 0;
  EXPECT_GT(deviation_of_parts(prepare_run(runs[0], "megatron-deepspeed"), software),
            deviation_of_parts(prepare_run(runs[1], "megatron-deepspeed"), software));
}

TEST(Interval, HoldsNineInTenOfTheRowsItWasMadeFor) {
  std::vector<double> logs, parts;
  for (int i = 0; i < 100; ++i) {
    logs.push_back(0.003 * (i % 2 == 0 ? i : -i));
    parts.push_back(0.01 * (i % 5));
  }
  const double spread = spread_for_coverage(logs, parts);
  int covered = 0;
  for (std::size_t i = 0; i < logs.size(); ++i) covered += covers(spread * 1.0001, parts[i], logs[i]) ? 1 : 0;
  EXPECT_EQ(covered, 90);
}

TEST(RunLog, ReadsMegatronAndTorchtitan) {
  PublishedRun run;
  run.id = "mine";
  run.global_batch = 16;
  run.seq = 1000;
  run.devices = 8;
  // The first steps warm up.
  std::string megatron;
  for (const char* ms : {"9000.0", "5000.0", "1300.0", "1000.0", "1100.5", "1002.0"})
    megatron += fmt::format(" iteration 1/ 10 | elapsed time per iteration (ms): {} | learning rate: 1e-4\n", ms);
  EXPECT_EQ(step_of_log(megatron, run, "a.log"), Seconds(1.002));
  const std::string titan =
      "step:  1  loss: 8.1  \x1b[34mtps: \x1b[39m2,000  mfu: 3%\nstep:  2  loss: 8.0  tps: 4,000\n";
  EXPECT_DOUBLE_EQ(step_of_log(titan, run, "b.log").si(), 16.0 * 1000 / (4000.0 * 8));
  EXPECT_THROW((void)step_of_log("loss: 3\n", run, "c.log"), InputError);
}

TEST(SoftwareProfile, IsReadAsItWasWritten) {
  for (const SoftwareProfile& profile : software_profiles()) {
    const std::string file = testing::TempDir() + "profile.json";
    write_file(file, to_json(profile).dump());
    EXPECT_EQ(to_json(find_software_profile(file)), to_json(profile)) << profile.name;
  }
}

}  // namespace meshwright::fit_software_test
