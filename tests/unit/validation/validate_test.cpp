// SPDX-License-Identifier: Apache-2.0
#include "validation/validate.h"

#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "core/planner/make_plan.h"
#include "costmodel/cost_models.h"
#include "validation/memory_interval.h"
#include "validation/prepared_run.h"
#include "validation/run_request.h"

namespace meshwright::validate_test {

namespace {

constexpr const char* kColumns =
    "row_id,source_id,group,framework,gpu,n_gpus,gpus_per_node,interconnect,model,arch,layers,hidden,heads,seq,vocab,"
    "precision,recompute,schedule,tp,pp,vpp,dp,zero,seq_par,micro_batch,num_micro,global_batch,iteration_s,status,"
    "notes,where,experts,topk,ffn,ep\n";

PublishedRuns read(const std::string& lines) {
  return read_published_runs(CsvTable::parse(kColumns + lines, "runs.csv"));
}
PublishedRun run_of(const std::string& line) {
  PublishedRuns all = read(line + "\n");
  EXPECT_TRUE(all.wrong.empty()) << all.wrong.front().reason;
  return all.runs.front();
}

// A GPT of 4 blocks on 8 A100 of one host.
std::string gpt(const std::string& degrees, const std::string& batches, const std::string& step = "1") {
  return "a,source,group,Megatron-LM,A100,8,8,,gpt,gpt,4,1024,16,1024,51200,fp16,none,1f1b," + degrees + "," + batches +
         "," + step + ",ok,,,,,,";
}

// A mixture of 2 blocks with 8 experts on 8 H100 of one host.
std::string mixture(const std::string& degrees, int ep, const std::string& where = "",
                    const std::string& recompute = "none", int hidden = 1024) {
  return fmt::format(
      "a,source,group,NeMo,H100,8,8,,mixture,moe,2,{},8,1024,51200,bf16,{},1f1b,{},1,8,64,1,ok,,{},8,2,"
      "2048,{}",
      hidden, recompute, degrees, where, ep);
}

Seconds predicted(const std::string& line) {
  const std::vector<PublishedRun> runs = {run_of(line)};
  const auto results = predict_runs(runs, "", 1);
  EXPECT_TRUE(results.front().step.has_value()) << results.front().reason;
  return results.front().step.value_or(Seconds(0.0));
}

double gigabytes_per_second_of(const std::string& interconnect) {
  PublishedRun run =
      run_of("a,s,g,Megatron-LM,A100,16,8,,gpt,gpt,4,1024,16,1024,51200,fp16,none,,2,1,1,8,,,1,4,32,1,ok,,,,,,");
  run.interconnect = interconnect;
  return 1e-9 / cluster_of_run(run).only().between_hosts.beta.si();
}

}  // namespace

TEST(PublishedRuns, TakesTheNetworkOfAHostFromTheWordsForIt) {
  EXPECT_DOUBLE_EQ(gigabytes_per_second_of("NVSwitch; 4x HDR IB per node (800 Gb/s per node)"), 100);
  EXPECT_DOUBLE_EQ(gigabytes_per_second_of("DGX H100: NVSwitch + 8x400G IB"), 400);
  EXPECT_DOUBLE_EQ(gigabytes_per_second_of("NVLink; 4x Omni-Path 100 Gb/s per node"), 50);
  EXPECT_DOUBLE_EQ(gigabytes_per_second_of("NVSwitch; EFA 400GB/s per node"), 400);
  EXPECT_DOUBLE_EQ(gigabytes_per_second_of("NVSwitch; 400 Gb/s RDMA per GPU"), 400);
  EXPECT_DOUBLE_EQ(gigabytes_per_second_of("Storage: 2x NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s"), 400);
  // Nothing stated: eight cards of 200 Gb/s, as A100 are usually sold.
  EXPECT_DOUBLE_EQ(gigabytes_per_second_of(""), 200);
}

TEST(PublishedRuns, NamesWrongRowsAndReadsTheOthers) {
  const PublishedRuns all = read(gpt("2,2,1,2,0,0", "1,4,8", "-3") + "\n" + gpt("2,2,1,2,0,0", "1,4,8") + "\n");
  ASSERT_EQ(all.wrong.size(), 1U);
  EXPECT_NE(all.wrong.front().reason.find("line 2, column 'iteration_s'"), std::string::npos);
  EXPECT_EQ(all.runs.size(), 1U);
}

TEST(PublishedRuns, ARunWithoutItsBatchIsLeftOutWithTheReason) {
  EXPECT_EQ(run_of(gpt("2,2,1,2,0,0", ",,")).why_not_a_run(), "the batch is not stated");
  EXPECT_EQ(run_of(gpt("2,2,1,2,0,0", "1,4,8")).why_not_a_run(), std::nullopt);
}

TEST(RunRequest, DegreesMustBeTheDevices) {
  EXPECT_THROW((void)request_of_run(run_of(gpt("4,2,1,2,0,0", "1,4,8")), ""), InputError);
  EXPECT_NO_THROW((void)request_of_run(run_of(gpt("4,2,1,1,0,0", "1,4,4")), ""));
}

TEST(RunRequest, SaysWhatTheRowLeavesOpen) {
  PublishedRun run = run_of(gpt("2,2,1,2,0,0", "1,4,8"));
  run.vocab = std::nullopt;
  const RunRequest request = request_of_run(run, "");
  ASSERT_EQ(request.assumed.size(), 1U);
  EXPECT_EQ(request.assumed.front(), "a vocabulary of 50257 words");
  EXPECT_EQ(request.software.name, "megatron");
}

TEST(RunRequest, ExpertsOfMoreGroupsThanReplicasAreWholeAndLieOnTheTensorParallelRanks) {
  const auto method = [](const std::string& degrees, int ep) {
    return request_of_run(run_of(mixture(degrees, ep)), "").plan.search.method.text;
  };
  EXPECT_EQ(method("2,1,1,4,0,1", 4), "megatron:tp=2,pp=1,ep=4,sp=1,zero=0,exact=1");
  EXPECT_EQ(method("2,1,1,4,0,1", 8), "megatron:tp=2,pp=1,ep=8,etp=1,sp=1,zero=0,exact=1");
  EXPECT_THROW((void)method("2,1,1,4,0,1", 3), InputError);
}

TEST(RunRequest, TheReleaseChoosesTheProfile) {
  const auto software = [](const std::string& where) {
    return request_of_run(run_of(mixture("1,1,1,8,0,0", 8, where)), "").software.name;
  };
  EXPECT_EQ(software("report \u00a726.04 Container"), "nemo");
  EXPECT_EQ(software("report \u00a726.06 Container"), "nemo-2026");
  EXPECT_EQ(software("report \u00a7Pretraining"), "nemo");
}

TEST(RunRequest, OtherColumnsChooseTheVariantOfASoftware) {
  PublishedRun run = run_of(gpt("2,2,1,2,0,0", "1,4,8"));
  const auto software = [&](const char* framework, const char* attention, bool not_compiled) {
    run.framework = framework;
    run.attention = attention;
    run.not_compiled = not_compiled;
    return request_of_run(run, "").software.name;
  };
  EXPECT_EQ(software("Megatron-DeepSpeed", "unfused (fused softmax)", false), "megatron-deepspeed");
  EXPECT_EQ(software("Megatron-DeepSpeed", "unfused", false), "megatron-deepspeed-plain");
  EXPECT_EQ(software("torchtitan", "flash", false), "torchtitan");
  EXPECT_EQ(software("torchtitan", "flash", true), "torchtitan-eager");
  EXPECT_EQ(software("NeMo/Megatron-Core (MLPerf)", "flash", false), "nemo-mlperf");
}

TEST(RunRequest, NotesSayWhatIsCompiledAndWhatGoesOnBesideProducts) {
  const auto noted = [](const char* notes) {
    PublishedRun run = run_of(
        "a,source,group,torchtitan,H100,8,8,,gpt,gpt,4,1024,16,1024,51200,bf16,none,none,8,1,1,1,,1,1,4,4,1,ok," +
        std::string(notes) + ",,,,,");
    return std::pair{run.not_compiled, request_of_run(run, "").software.collective_factor};
  };
  const auto compiled = noted("compile"), eager = noted("500 W limit; no compile"), beside = noted("2D + async TP");
  EXPECT_FALSE(compiled.first);
  EXPECT_TRUE(eager.first);
  EXPECT_EQ(eager.second, compiled.second);
  EXPECT_LT(beside.second, 0.6 * compiled.second);
}

TEST(RunRequest, AVocabularyIsPaddedAsTheSoftwareDoes) {
  PublishedRun run = run_of(gpt("2,2,1,2,0,0", "1,4,8"));
  run.vocab = 50257;
  const auto words = [&](const char* software) { return request_of_run(run, software).plan.model.vocab; };
  EXPECT_EQ(words("megatron"), 50432);
  EXPECT_EQ(words("megatron-deepspeed-plain"), 50256);  // two equal parts
  run.vocab = std::nullopt;                             // the usual one, which all divide
  EXPECT_EQ(words("megatron-deepspeed-plain"), 50432);
}

TEST(RunRequest, InterleavedStagesAreTwoWhereTheirNumberIsMissing) {
  PublishedRun run = run_of(gpt("2,2,1,2,0,0", "1,4,8"));
  run.vpp = std::nullopt;
  EXPECT_EQ(std::get<ScheduleKind>(request_of_run(run, "").plan.search.schedule), ScheduleKind::OneFOneB);
  run.schedule = "1f1b-interleaved";
  const RunRequest request = request_of_run(run, "");
  EXPECT_EQ(std::get<ScheduleKind>(request.plan.search.schedule), ScheduleKind::Interleaved);
  EXPECT_EQ(std::get<int>(request.plan.search.chunks), 2);
  run.schedule = "1f1b-interleaved (degree not stated)";
  EXPECT_EQ(std::get<ScheduleKind>(request_of_run(run, "").plan.search.schedule), ScheduleKind::OneFOneB);
}

TEST(PreparedRun, SaysNothingOfFittingWhereMoreMustHaveBeenRecomputedThanIsTaken) {
  PublishedRun run = run_of(mixture("1,1,1,8,0,0", 8));
  run.hidden = 4096;
  run.layers = 32;
  run.micro_batch = 32;
  run.global_batch = 256;
  const auto result = [&](const char* recompute) {
    run.recompute = recompute;
    return predict_runs({run}, "megatron-te", 1).front();
  };
  const auto stated = result("none"), open = result("not stated"), assumed = result("none (assumed)");
  EXPECT_FALSE(stated.fits.value_or(true));
  EXPECT_TRUE(stated.fit_probability.has_value());
  EXPECT_FALSE(open.fit_probability.has_value());
  EXPECT_FALSE(assumed.fit_probability.has_value());
  EXPECT_EQ(open.assumed.back(), "no recomputation");
}

TEST(PreparedRun, RecomputesAsLittleAsFitsWhereTheRowDoesNotSay) {
  const auto prepared = [](const std::string& recompute, int layers, const PublishedRun& run) {
    PublishedRun other = run;
    other.recompute = recompute;
    other.layers = layers;
    return std::pair{other, prepare_run(other, "megatron-te")};
  };
  PublishedRun run = run_of(mixture("1,1,1,8,0,0", 8));
  run.hidden = 4096;
  run.micro_batch = 8;
  run.global_batch = 64;
  const auto memory = [](const auto& of) { return memory_of(of.second).allocated().si(); };
  const auto small = prepared("not stated", 2, run);
  EXPECT_FALSE(small.second.recompute_from_memory);
  EXPECT_EQ(small.second.request.assumed, std::vector<std::string>{"no recomputation"});
  // 32 layers keep more than the 80 GiB of the device has room for.
  const auto none = prepared("none", 32, run), open = prepared("not stated", 32, run);
  const double room = allocator_room(gibibytes(80)).si();
  EXPECT_GT(memory(none), room);
  EXPECT_TRUE(open.second.recompute_from_memory);
  EXPECT_NE(open.second.request.assumed.back().find("of 32 layers are recomputed, so that it fits"), std::string::npos);
  EXPECT_LE(memory(open), 1.02 * room);
  EXPECT_GT(memory(open), 0.9 * room);
  EXPECT_GT(predicted_step(open.second), predicted_step(none.second));
}

TEST(GivenPlan, HasTheDegreesOfTheRow) {
  const RunRequest request = request_of_run(run_of(gpt("2,2,2,2,1,1", "1,4,8")), "");
  const auto costs = make_physical_cost_model(request.plan.cluster, request.software);
  const Plan plan = given_plan(request.plan, *costs).plan;
  // Two ranks with two stages each, of 2 x 2 devices.
  ASSERT_EQ(plan.stages.size(), 4U);
  EXPECT_EQ(plan.schedule, ScheduleKind::Interleaved);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(plan.stages[s].logical_shape, (std::vector{2, 2}));
    EXPECT_EQ(plan.stages[s].devices, plan.stages[s % 2].devices);
    EXPECT_EQ(plan.stages[s].first_layer, static_cast<int>(s));
  }
}

TEST(GivenPlan, IsLoadedWithTheGraphThatItWasMadeOf) {
  const RunRequest request = request_of_run(run_of(gpt("2,2,2,2,1,1", "1,4,8")), "");
  const auto costs = make_physical_cost_model(request.plan.cluster, request.software);
  const PlanOfGraph made = given_plan(request.plan, *costs);
  EXPECT_EQ(made.plan.graph_fingerprint, fingerprint_of(*made.graph));
  const LoadedPlan loaded = load_plan(made, *costs), truth = load_plan(made.plan, *costs);
  EXPECT_EQ(fingerprint_of(*loaded.graph), fingerprint_of(*truth.graph));
  EXPECT_EQ(loaded.program.transfers, truth.program.transfers);
  EXPECT_EQ(loaded.check.peak_memory, truth.check.peak_memory);
}

TEST(Validate, MoreMicroBatchesTakeLonger) {
  EXPECT_LT(predicted(gpt("2,2,1,2,0,0", "1,4,8")), predicted(gpt("2,2,1,2,0,0", "1,8,16")));
}

TEST(Validate, CollectivesOfMoreThanTwoWaitForTheirMembersHosts) {
  const auto slower = [](const std::string& degrees, const std::string& batches) {
    const PublishedRun run = run_of(gpt(degrees, batches));
    const PreparedRun prepared = prepare_run(run, "megatron");
    SoftwareProfile software = prepared.request.software;
    const Seconds before = predicted_step(prepared, software);
    software.dispatch_peer_us = 1000;
    return predicted_step(prepared, software) / before;
  };
  EXPECT_DOUBLE_EQ(slower("2,2,1,2,0,0", "1,4,8"), 1.0);
  EXPECT_GT(slower("4,2,1,1,0,0", "1,4,4"), 1.5);
}

TEST(Validate, InterleavedStagesShortenTheBubble) {
  EXPECT_LT(predicted(gpt("1,4,1,2,0,0", "8,4,64")), 1.2 * predicted(gpt("1,2,2,4,0,0", "8,4,128")));
}

TEST(Validate, SpearmanIsOneForTheSameOrderAndMinusOneForTheReverse) {
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {10, 20, 25, 90}), 1.0);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1.0);
  // Ties share their rank: ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3.
  EXPECT_NEAR(spearman({1, 2, 2, 4}, {1, 2, 3, 4}), 0.9487, 1e-4);
  EXPECT_DOUBLE_EQ(spearman({1, 1, 1}, {1, 2, 3}), 0.0);
}

TEST(Validate, ThePlanPredictedFastestIsHeldAgainstTheFastest) {
  PublishedRuns all = read(gpt("2,2,1,2,0,0", "1,4,8", "3") + "\n" + gpt("1,1,1,8,0,0", "1,1,8", "2") + "\n" +
                           gpt("8,1,1,1,0,0", "1,8,8", "4") + "\n");
  std::vector<ValidatedRun> results;
  const std::vector<double> guesses = {5, 6, 7};
  for (std::size_t i = 0; i < 3; ++i) {
    results.push_back({.run = &all.runs[i]});
    results.back().step = Seconds(guesses[i]);
  }
  const auto ranking = rank_within_groups(results);
  ASSERT_EQ(ranking.size(), 1U);
  // The first is predicted fastest and takes 3 s; the second takes 2 s.
  EXPECT_DOUBLE_EQ(ranking.front().mean_regret, 0.5);
  EXPECT_DOUBLE_EQ(ranking.front().spearman, 0.5);
}

}  // namespace meshwright::validate_test
