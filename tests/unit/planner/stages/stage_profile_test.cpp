// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/stage_profile.h"

#include <limits>

#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"
#include "tests/unit/stage_profile_fixture.h"

namespace meshwright::stage_profile_test {
namespace {

const auto nobody_asks = []() -> std::string {
  ADD_FAILURE() << "the sharding does not decide here";
  return "";
};

// --- lookup ---

TEST(StageProfileTable, FindsWhatWasPutThereAndNothingElse) {
  const StageProfileTable table = sample();
  ASSERT_NE(table.find(name_of(0, 2).place, 1), nullptr);
  EXPECT_EQ(table.find(name_of(0, 2).place, 1)->forward, Seconds(0.1));
  EXPECT_EQ(table.find(name_of(0, 2).place, 2), nullptr);
  EXPECT_EQ(table.find(name_of(0, 1).place, 0), nullptr);
  EXPECT_EQ(table.find(name_of(0, 2, 0, {1, 4}, {4, 1}).place, 0), nullptr);
  EXPECT_EQ(table.find(name_of(3, 3, 0, {2, 8}, {4, 4}).place, 0), nullptr) << "the entry holds batches to an axis";
}

TEST(StageProfileTable, PrefersTheMeasuredShardingToTheOptionsNumber) {
  StageProfileTable table(key_of());
  table.add(name_of(0, 2, 3), entry_of(1));
  EXPECT_EQ(table.find(name_of(0, 2).place, 3, nobody_asks)->forward, Seconds(1));
  table.add({name_of(0, 2).place, 0, kFingerprint}, measured(2));
  StagePlace held = name_of(0, 2).place;
  held.batch_axis = 0;
  const auto it = [] { return std::string(kFingerprint); };
  const auto another = [] { return std::string("ffffffffffffffff"); };
  EXPECT_EQ(table.find(name_of(0, 2).place, 3, it)->forward, Seconds(2));
  EXPECT_EQ(table.find(held, 3, it)->forward, Seconds(2)) << "the sharding says how batches lie";
  EXPECT_EQ(table.find(name_of(0, 2).place, 3, another)->forward, Seconds(1));
  EXPECT_EQ(table.find(name_of(0, 2).place, 4, another), nullptr);
  EXPECT_EQ(table.find(name_of(0, 1).place, 0, nobody_asks), nullptr);
}

TEST(StageProfileTable, PutsKnownCostsInThePlaceOfModelledOnes) {
  const StageProfileTable table = sample();
  StepCost modelled;
  modelled.forward = Seconds(77);
  modelled.resident = Bytes(88);
  const StepCost known = table.cost(name_of(0, 2).place, 1, nobody_asks, modelled, StageProfileMode::Wholly);
  EXPECT_EQ(known.forward, Seconds(0.1));
  EXPECT_EQ(known.resident, Bytes(1e3 * 0.1));
  EXPECT_EQ(known.working, Bytes(1e6 * 0.1));
  const StepCost timed = table.cost(
      {1, 1, {1, 1}, {1}}, 4, [] { return std::string(kFingerprint); }, modelled, StageProfileMode::Partly);
  EXPECT_EQ(timed.forward, Seconds(0.7));
  EXPECT_EQ(timed.resident, Bytes(88)) << "a run measures no memory of its stages";
  EXPECT_EQ(table.cost(name_of(0, 1).place, 0, nobody_asks, modelled, StageProfileMode::Partly).forward, Seconds(77));
}

TEST(StageProfileTable, WhollyNamesTheMissingEntry) {
  const StageProfileTable table = sample();
  EXPECT_EQ(refusal([&] { return table.cost(name_of(3, 5).place, 0, nobody_asks, {}, StageProfileMode::Wholly); }),
            "stage profile: layers 3..5 on 1x4 as 2x2, option 0 is missing; add it, or take what is there with "
            "--stage-profile-mode partly.");
  EXPECT_EQ(refusal([&] {
              return table.cost(
                  {1, 1, {1, 1}, {1}}, 2, [] { return std::string(kFingerprint); }, {}, StageProfileMode::Wholly);
            }),
            "stage profile: layers 1..1 on 1x1 as 1, option 2 has times, but no memory; add it, or take what is there "
            "with --stage-profile-mode partly.");
}

TEST(StageProfileTable, RefusesEntriesThatMakeNoSense) {
  StageProfileTable table = sample();
  const auto refused = [&](const StageProfileName& name, const StageProfile& entry) {
    return refusal([&] {
      table.add(name, entry);
      return 0;
    });
  };
  EXPECT_EQ(refused(name_of(0, 2), entry_of(1)),
            "stage profile: layers 0..2 on 1x4 as 2x2, option 0 stands there twice; give every entry once.");
  EXPECT_EQ(refused(name_of(2, 4), entry_of(1)),
            "stage profile: layers 2..4 on 1x4 as 2x2: the key has the layers 0..3; give spans of these.");
  EXPECT_EQ(refused(name_of(1, 2, 0, {1, 4}, {2, 4}), entry_of(1)),
            "stage profile: layers 1..2 on 1x4 as 2x4: the logical shape has other devices than the submesh; give one "
            "of as many.");
  StageProfileName held = name_of(1, 2);
  held.place.batch_axis = 2;
  EXPECT_EQ(refused(held, entry_of(1)),
            "stage profile: layers 1..2 on 1x4 as 2x2, batch on axis 2: the mesh has the axes 0..1; choose the batch "
            "axis from these.");
  StageProfile entry = entry_of(1);
  entry.memory->saved = Bytes(-1);
  EXPECT_EQ(refused(name_of(1, 2), entry),
            "stage profile: layers 1..2 on 1x4 as 2x2, option 0: saved is -1; a number from 0 upwards was expected.");
  entry = entry_of(1);
  entry.backward = Seconds(std::numeric_limits<double>::infinity());
  EXPECT_EQ(refused(name_of(1, 2), entry),
            "stage profile: layers 1..2 on 1x4 as 2x2, option 0: backward is inf; a number from 0 upwards was "
            "expected.");
  EXPECT_EQ(refused(name_of(1, 2), measured(1, 0)),
            "stage profile: layers 1..2 on 1x4 as 2x2, option 0: 0 samples; at least 1 was expected.");
  EXPECT_NO_THROW(table.add(name_of(1, 2), measured(1, 1)));
}

// --- the key ---

TEST(StageProfileKey, ComesBackFromItsText) {
  StageProfileKey key = key_of();
  EXPECT_EQ(stage_profile_key_from_text(to_text(key), "k"), key);
  key.numbering.reset();
  EXPECT_EQ(stage_profile_key_from_text(to_text(key), "k"), key);
}

TEST(StageProfileKey, DoesNotDependOnWhatADeviceCostsOrDraws) {
  const PlanningResult result = planned(ask("mlp:layers=2,hidden=16", "cpu:2", "data", 16, std::int64_t{2}));
  Plan priced = *result.plan;
  priced.cluster.only().device.price_per_device_hour = 2.5;
  priced.cluster.only().device.watts = 400;
  EXPECT_EQ(stage_profile_key(priced), stage_profile_key(*result.plan));
}

TEST(StageProfileKey, IsReadStrictly) {
  const auto refused = [](const std::string& from, const std::string& to) {
    std::string text = to_text(key_of());
    text.replace(text.find(from), from.size(), to);
    return refusal([&] { return stage_profile_key_from_text(text, "k"); });
  };
  EXPECT_EQ(refused("\"dtype\"", "\"dtipe\""), "k: unknown member 'dtipe'; the nearest known are dtype, graph, model.");
  EXPECT_EQ(refused("[0,5,9,14]", "[0,5,5,14]"), "k: 'layer_starts' must ascend.");
  EXPECT_EQ(refused("[0,5,9,14]", "[1,5,9,14]"), "k: 'layer_starts' begins with the first op of the first layer, 0.");
  EXPECT_EQ(refused("\"batch_per_micro_batch\":8", "\"batch_per_micro_batch\":0"),
            "k: 'batch_per_micro_batch' is 0; a number from 1 upwards was expected.");
  EXPECT_EQ(refused("\"memory_bytes\":15000000000.0", "\"memory_bytes\":-1"),
            "k: numbering: 'memory_bytes' is -1; a number from 0 upwards was expected.");
  EXPECT_NE(refused("\"alpha_s\"", "\"beta_s\"").find("k: cluster"), std::string::npos);
}

TEST(StageProfileKey, SaysWhatKeepsEntriesFromServing) {
  const StageProfileKey wanted = key_of();
  const auto first = [&](const auto& change) {
    StageProfileKey stored = key_of();
    change(stored);
    const std::vector<std::string> found = key_differences(stored, wanted);
    return found.empty() ? std::string("none") : found.front();
  };
  EXPECT_EQ(first([](auto&) {}), "none");
  EXPECT_EQ(first([](auto& key) { key.numbering.reset(); }), "none");
  EXPECT_EQ(first([](auto& key) { key.cluster = to_json(find_cluster("p3.16xlarge:2")); }),
            "of cluster p3.16xlarge:2, not of p3.16xlarge:1");
  EXPECT_EQ(first([](auto& key) {
              Cluster cluster = find_cluster("p3.16xlarge:1");
              cluster.only().device.launch = Seconds(1);
              key.cluster = to_json(cluster);
            }),
            "of another description of cluster p3.16xlarge:1");
  EXPECT_EQ(first([](auto& key) { key.layer_starts = {0, 5}; }), "of layers that begin at ops 0,5, not of 0,5,9,14");
  EXPECT_EQ(first([](auto& key) { key.batch_per_microbatch = 4; }), "of samples per micro-batch: 4, not of 8");
  EXPECT_EQ(first([](auto& key) { key.graph = "feed"; }), "of graph feed, not of 00000000deadbeef");
  EXPECT_EQ(first([](auto& key) { key.numbering->rules = "shard"; }), "of method shard, not of pipeshard");
  EXPECT_EQ(first([](auto& key) { key.numbering->costs = "h.db 1"; }), "of costs h.db 1, not of modelled");
}

TEST(StageProfileKey, HoldsWhatRestrictsShardingsAndNotWhichStagesAreGiven) {
  Method manual = method_from_text("pipeshard");
  manual.kind = Method::Kind::Manual;
  manual.text = "manual:stages.json";
  ForcedSpecs forced;
  add_forced(forced, "w=S0R");
  EXPECT_EQ(stage_profile_rules(manual, {}, std::nullopt), "pipeshard");
  EXPECT_EQ(stage_profile_rules(method_from_text("zero2"), {}, std::nullopt), "zero2");
  EXPECT_EQ(stage_profile_rules(method_from_text("pipeshard"), forced, 1), "pipeshard; w=S0R; batch axis 1");
  EXPECT_EQ(stage_profile_rules(method_from_text("shard"), {}, std::nullopt, true), "shard; any recompute");
}

// --- files ---

TEST(StageProfileFile, ServesAKeyFromAllTablesThatFit) {
  StageProfileKey runs = key_of();
  runs.numbering.reset();
  StageProfileTable numbered(key_of()), ran(runs), other(key_of("p3.16xlarge:2"));
  numbered.add(name_of(0, 0), entry_of(1));
  ran.add({name_of(0, 1).place, 0, kFingerprint}, measured(2));
  other.add(name_of(0, 2), entry_of(3));
  const StageProfileFile file({numbered, ran, other}, "h.db");
  EXPECT_EQ(file.entries(), 3u);
  const StageProfileTable found = file.serving(key_of());
  EXPECT_EQ(found.entries().size(), 2u);
  StageProfileKey changed = key_of();
  changed.numbering->schedule = "gpipe";
  EXPECT_EQ(file.serving(changed).entries().size(), 1u) << "what was run holds under every schedule";
  changed.dtype = "f32";
  EXPECT_TRUE(file.serving(changed).empty());
  EXPECT_EQ(file.why_unused(changed),
            "h.db: holds stage profiles of type f16, not of f32; export profiles of this search with "
            "--write-stage-profile, or leave --stage-profile out.");
}

TEST(StageProfileFile, SaysWhichClusterItIsOf) {
  StageProfileTable one(key_of()), two(key_of("p3.16xlarge:2"));
  one.add(name_of(0, 0), entry_of(1));
  const auto refused = [&](const Cluster& cluster) {
    return refusal([&] {
      StageProfileFile({one, two}, "h.db").require_cluster(cluster);
      return 0;
    });
  };
  EXPECT_EQ(refused(find_cluster("p3.16xlarge:2")), "not refused");
  EXPECT_EQ(refused(find_cluster("p3.16xlarge:8")),
            "h.db: holds stage profiles of cluster p3.16xlarge:1, p3.16xlarge:2, not of p3.16xlarge:8; plan for that "
            "cluster, or export profiles of this one with --write-stage-profile.");
  Cluster faster = find_cluster("p3.16xlarge:1");
  faster.only().device.launch = Seconds(0);
  EXPECT_EQ(refused(faster),
            "h.db: holds stage profiles of another description of cluster p3.16xlarge:1, p3.16xlarge:2, not of the one "
            "to plan for; plan for that cluster, or export profiles of this one with --write-stage-profile.");
  EXPECT_EQ(refusal([] { return StageProfileFile({}, "h.db").entries(); }),
            "h.db: holds no stage profiles; `meshwright plan ... --write-stage-profile h.db` exports them, `meshwright "
            "run PLAN --db "
            "h.db` those of a plan for this machine.");
}

TEST(StageProfile, AShardingIsKnownByHowItSplits) {
  StagePlan stage{0, 1, {1, 2}, {2, 1}, {0, 1}, {}, {}, {}};
  stage.ops["up"] = {{{"batch", 1}}, {{1, 0}, 0}, 0};
  stage.parameters["up/w"] = {{{0, 0}, 0}, {{0, 0}, 0}, false};
  const std::string print = sharding_fingerprint(stage);
  EXPECT_EQ(print.size(), 16u);
  StagePlan same = stage;
  same.devices = {2, 3};
  same.forward = Seconds(5);
  same.ops["up"].axes["hidden"] = 0;  // named, not split
  EXPECT_EQ(sharding_fingerprint(same), print);
  StagePlan other = stage;
  other.parameters["up/w"].state = {{1, 0}, 0};
  EXPECT_NE(sharding_fingerprint(other), print);
}

}  // namespace
}  // namespace meshwright::stage_profile_test
