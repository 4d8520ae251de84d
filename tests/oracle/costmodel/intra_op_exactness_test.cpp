// SPDX-License-Identifier: Apache-2.0
// The intra-op problems of real models are solved exactly: by elimination, with nothing left between cost and bound,
// and as the ILP solves them; a whole model's sharding is the least there is, within a thousandth where memory binds.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <set>

#include "core/graph/import/find_model.h"
#include "core/graph/models/families.h"
#include "core/graph/models/models.h"
#include "core/planner/spans/stage_search.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "core/solver/glpk/solve_by_glpk.h"
#include "core/solver/portfolio/portfolio.h"
#include "core/solver/solve.h"
#include "costmodel/cost_models.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::intra_op_exactness_test {
namespace {

constexpr int kMicrobatches = 4;

Graph training_graph(const ModelConfig& model, std::int64_t batch, std::int64_t microbatches = kMicrobatches) {
  TrainingOptions options;
  options.batch = batch;
  options.microbatches = microbatches;
  options.dtype = model.default_dtype;
  return build_training_graph(model, options);
}
Graph training_graph(const std::string& name, std::int64_t batch, std::int64_t microbatches = kMicrobatches) {
  return training_graph(find_model(name), batch, microbatches);
}

// A graph, its layers and a mesh on one host of A100s.
struct Setting {
  static LogicalMesh mesh_of(const Cluster& cluster, const std::vector<int>& shape) {
    int devices = 1;
    for (const int size : shape) devices *= size;
    return make_logical_mesh(cluster, {1, devices}, shape);
  }

  Graph graph;
  Layers layers;
  StepStructure structure{graph, layers};
  Cluster cluster = find_cluster("dgx-a100:1");
  LogicalMesh mesh;
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(cluster);
  ReshardingCosts prices{mesh, *costs};

  // The model is one layer, or each of its blocks is.
  enum class Cut { Whole, Blocks };
  Setting(Graph of, Cut cut, const std::vector<int>& shape)
      : graph(std::move(of)),
        layers(cut == Cut::Whole ? assign_layers(graph, {0}) : layers_of_blocks(graph)),
        mesh(mesh_of(cluster, shape)) {}
  Setting(const Setting&) = delete;

  [[nodiscard]] ShardingProblem problem(int layer) {
    const LayerModel model(structure, layer, mesh, *costs, prices, {});
    EXPECT_FALSE(model.impossible()) << model.impossible().value_or("");
    return model.problem({kMicrobatches, 0, 1});
  }
};

void expect_exact(const ShardingProblem& problem, const std::string& what) {
  ASSERT_TRUE(fits_elimination(problem)) << what;
  const auto solution = solve(problem);
  ASSERT_TRUE(solution) << what;
  EXPECT_EQ(solution->method, "elimination") << what;
  EXPECT_EQ(solution->cost, solution->lower_bound) << what;
  const Evaluation evaluation = evaluate(problem, solution->choice);
  EXPECT_TRUE(evaluation.violations.empty()) << what;
  EXPECT_NEAR(evaluation.total().si(), solution->cost.si(), 1e-9 * solution->cost.si()) << what;
}

void expect_as_by_glpk(const ShardingProblem& problem, const std::string& what) {
  const auto found = solve(problem);
  const auto wanted = solve_by_glpk(problem);
  ASSERT_TRUE(found && wanted) << what;
  EXPECT_NEAR(found->cost.si(), wanted->cost.si(), 1e-9 * wanted->cost.si()) << what;
}

struct Model {
  const char* name;
  std::int64_t batch;
};
constexpr std::array kTiny = {
    Model{"mlp:layers=3,hidden=64", 32},
    Model{"gpt:layers=3,hidden=64,heads=4,seq=32,vocab=128", 32},
    Model{"gpt2:layers=3,hidden=64,heads=4,seq=32,vocab=128", 32},
    Model{"bloom:layers=3,hidden=64,heads=4,seq=32,vocab=128", 32},
    Model{"gpt_neox:layers=3,hidden=64,heads=4,seq=32,vocab=128", 32},
    Model{"bert:layers=3,hidden=64,heads=4,seq=32,vocab=128", 32},
    Model{"fnet:layers=3,hidden=64,seq=16,vocab=128", 32},
    Model{"mobilebert:layers=3,hidden=64,heads=4,seq=16,vocab=128,word_width=16,narrow=32,inner_layers=2", 32},
    Model{"deberta:layers=3,hidden=64,heads=4,seq=16,vocab=128,buckets=8", 32},
    Model{"llama:layers=3,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128", 32},
    Model{"mixtral:layers=3,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,experts=4,top_k=2", 32},
    Model{"decoder:layers=3,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,norms=1,qk_norm=1", 32},
    Model{"decoder_moe:layers=3,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,experts=4,top_k=2,"
          "wide_qk_norm=1",
          32},
    Model{"moe:layers=4,hidden=64,heads=4,experts=4,seq=32,vocab=128", 32},
    Model{"deepseek_v3:layers=3,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2,dense_layers=1,"
          "q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16",
          32},
    Model{"gemma4:layers=4,hidden=64,heads=4,kv_heads=2,full_kv_heads=1,head_dim=16,full_head_dim=32,intermediate=128,"
          "seq=32,vocab=128,window=8,layer_embed=16,shared_layers=2,full_every=2",
          32},
    Model{"hybrid:layers=5,hidden=64,heads=4,kv_heads=2,head_dim=16,intermediate=128,seq=32,vocab=128,scan_heads=4,"
          "scan_groups=2,scan_head_dim=16,state=8,scan_chunk=8,group_norm=1,kinds_0=584",
          32},
    Model{"delta:layers=4,hidden=64,heads=4,kv_heads=2,head_dim=16,intermediate=128,seq=32,vocab=128,delta_heads=2,"
          "delta_value_heads=4,key_dim=16,rotary_dims=8,scan_chunk=8",
          32},
    Model{"kimi_linear:layers=3,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,kv_rank=16,nope_dim=16,rope_dim=8,"
          "value_dim=16,delta_heads=2,delta_dim=16,experts=4,top_k=2,expert_intermediate=32,shared_intermediate=32,"
          "dense_layers=1,attends_0=4,scan_chunk=8",
          32},
    Model{"griffin:layers=3,hidden=64,heads=4,kv_heads=1,intermediate=96,seq=32,vocab=128,window=8,attends_0=4,scan_"
          "chunk=8",
          32},
    Model{"lightning:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=64,seq=32,vocab=128,experts=4,top_k=2,attends_"
          "0=2,"
          "scan_chunk=8",
          32},
    Model{"deepseek_v4:layers=3,hidden=64,heads=4,seq=32,vocab=128,head_dim=16,rope_dim=8,q_rank=32,out_groups=2,"
          "out_rank=16,window=8,near_rate=4,far_rate=8,index_heads=4,index_dim=8,index_top_k=4,experts=4,top_k=2,"
          "expert_intermediate=32,shared_intermediate=32,hash_layers=1,kinds_0=36",
          32},
    Model{"hy_v4:layers=3,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,q_rank=32,kv_rank=16,nope_dim=16,"
          "rope_dim=8,value_dim=16,index_heads=4,index_dim=8,index_top_k=4,experts=4,top_k=2,expert_intermediate=32,"
          "shared_intermediate=32,dense_layers=1,streams=2",
          32},
    Model{"t5:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128", 32},
    Model{"t5:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,gated=0,experts=4,encoder_window=8", 32},
    Model{"gemma4:layers=2,hidden=64,heads=4,kv_heads=2,head_dim=16,intermediate=128,seq=32,vocab=128,window=8,"
          "layer_embed=16,full_every=2,streams=3,laurel_rank=8,sparse_layers=1",
          32},
    Model{"bart:layers=2,hidden=64,heads=4,seq=32,vocab=128", 32},
    Model{"speech:layers=2,hidden=64,heads=4,seq=16,vocab=128,positions=32,mel=16", 32},
    Model{"wresnet:layers=50,channels=8,width=2,image=32,classes=10", 32},
    Model{"vit:layers=3,hidden=64,heads=4,image=32,patch=8,classes=10", 32},
    Model{"vit:layers=3,hidden=64,heads=4,image=32,patch=8,classes=10,relative_bias=3,reads_patches=2,mean_norm=1", 32},
    Model{"convnext:image=32,classes=10,depth_0=1,depth_1=1,depth_2=1,depth_3=1,width_0=8,width_1=16,width_2=32,width_"
          "3=64,"
          "response_norm=1",
          32},
    Model{"swin:image=64,window=2,classes=10,width=8,depth_0=2,depth_1=1,depth_2=1,depth_3=1,heads_0=2,heads_1=2,"
          "heads_2=2,heads_3=2",
          32},
    Model{
        "segformer:image=32,classes=10,depth_0=1,depth_1=1,depth_2=1,depth_3=1,heads_0=2,heads_1=2,heads_2=2,heads_3=4,"
        "width_0=8,width_1=16,width_2=16,width_3=32,reduce_0=4,reduce_1=2,reduce_2=1,reduce_3=1",
        32},
    Model{"two_tower:layers=2,hidden=64,heads=4,image=32,patch=8,text_layers=2,text_hidden=32,text_heads=4,seq=16,"
          "vocab=128,embed=32",
          32},
    Model{"gpt_neox:layers=3,hidden=64,heads=4,seq=32,vocab=128,bias=0,last_out_bias=1,parallel=0", 32},
    Model{"decoder:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,norms=1,window=8,full_every="
          "2,encoder_layers=2",
          32},
    Model{"bart:layers=2,hidden=64,heads=4,seq=32,vocab=128,source_vocab=160,decoder_intermediate=128,tied=0", 32},
    Model{"longcat_flash:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,identity_experts=2,"
          "top_k=2,q_rank=32,kv_rank=16,nope_dim=16,rope_dim=8,value_dim=16",
          32},
    Model{"jetmoe:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2", 32},
    Model{"rwkv:layers=2,hidden=64,seq=32,vocab=128,scan_chunk=8", 32},
    Model{"zamba2:layers=4,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,scan_heads=4,scan_head_dim=32,state=16,"
          "scan_chunk=8,adapter_rank=8,attention_adapters=1,hybrid_0=10",
          32}};
constexpr std::array kReal = {Model{"mlp", 64},          Model{"gpt-2.6b", 64},     Model{"bert-large", 64},
                              Model{"llama-7b", 32},     Model{"mixtral-8x7b", 32}, Model{"moe-2.4b", 64},
                              Model{"wresnet-250m", 64}, Model{"vit-l16", 64}};
const std::vector<std::vector<int>> kShapes = {{2, 1}, {1, 4}, {2, 2}};

std::string place(const Model& model, const std::vector<int>& shape) {
  std::string text = model.name;
  for (const int size : shape) text += " " + std::to_string(size);
  return text;
}

// --- one layer ---

TEST(Layers, OfEveryFamilyAreAmongThese) {
  std::set<std::string> named;
  for (const Model& model : kTiny) named.insert(find_model(model.name).family);
  for (const Family& family : families()) EXPECT_TRUE(named.contains(family.name)) << family.name;
}

struct Layer : testing::TestWithParam<Model> {};
INSTANTIATE_TEST_SUITE_P(Tiny, Layer, testing::ValuesIn(kTiny));
INSTANTIATE_TEST_SUITE_P(Real, Layer, testing::ValuesIn(kReal));

TEST_P(Layer, IsSolvedExactlyByElimination) {
  for (const auto& shape : fewer_of(kShapes)) {
    Setting setting(training_graph(GetParam().name, GetParam().batch), Setting::Cut::Blocks, shape);
    const int count = setting.layers.count;
    for (const int layer : {0, count / 2, count - 1}) expect_exact(setting.problem(layer), place(GetParam(), shape));
  }
}

TEST_P(Layer, CostsOnOneAxisWhatTheIlpSays) {
  for (const auto& shape : fewer_of<std::vector<int>>({{2, 1}, {1, 4}})) {
    Setting setting(training_graph(GetParam().name, GetParam().batch), Setting::Cut::Blocks, shape);
    expect_as_by_glpk(setting.problem(setting.layers.count / 2), place(GetParam(), shape));
  }
}

// Hundreds of thousands of pairs of strategies.
TEST(Layers, OnThreeAxesAreSolvedExactlyToo) {
  const std::vector<int> shape = {2, 2, 2};
  for (const Model& model : fewer_of<Model>({kTiny[0], kTiny[1], kTiny[11], kTiny[12], kReal[1]})) {
    Setting setting(training_graph(model.name, model.batch), Setting::Cut::Blocks, shape);
    expect_exact(setting.problem(setting.layers.count / 2), place(model, shape));
  }
}

// --- four blocks as one problem ---

Graph four_blocks(const Model& model) {
  ModelConfig config = find_model(model.name);
  if (config.family != "wresnet") config.layers = 4;  // a wide ResNet has its sixteen
  return training_graph(config, model.batch);
}

struct Whole : testing::TestWithParam<Model> {};
INSTANTIATE_TEST_SUITE_P(Tiny, Whole, testing::ValuesIn(kTiny));
INSTANTIATE_TEST_SUITE_P(Real, Whole, testing::Values(kReal[1], kReal[3], kReal[4]));

// By `solve`, and by the portfolio alone, which reduces the problem before it eliminates.
TEST_P(Whole, FourBlocksAreSolvedExactlyWithoutGlpk) {
  portfolio::Options options;
  options.allow_glpk = false;
  for (const auto& shape : fewer_of(kShapes)) {
    Setting setting(four_blocks(GetParam()), Setting::Cut::Whole, shape);
    const ShardingProblem problem = setting.problem(0);
    EXPECT_GT(problem.nodes.size(), 40u);
    expect_exact(problem, place(GetParam(), shape));
    const portfolio::Result found = portfolio::solve(portfolio::make_field(problem), options);
    EXPECT_EQ(found.gap(), 0.0) << place(GetParam(), shape) << " by " << found.method;
    EXPECT_NEAR(found.cost, solve(problem)->cost.si(), 1e-9 * found.cost) << place(GetParam(), shape);
  }
}

TEST(FourBlocks, CostOnOneAxisWhatTheIlpSays) {
  for (const Model& model : fewer_of<Model>({kTiny[1], kTiny[6], kTiny[7], kReal[1], kReal[3], kReal[4]})) {
    Setting setting(four_blocks(model), Setting::Cut::Whole, kShapes[0]);
    expect_as_by_glpk(setting.problem(0), place(model, kShapes[0]));
  }
}

// --- a whole model, block by block ---

struct Fitted {
  StepCost best;  // of the shardings that fit, the fastest
  double time = 0, bound = 0;
  [[nodiscard]] double gap() const { return (time - bound) / time; }
};

// GPT-3 on 8 x 8 of a cluster whose devices give `gibibytes` to a plan.
Fitted gpt3_in(const Graph& graph, const std::string& cluster_name, double gibibytes) {
  const Cluster cluster = find_cluster(cluster_name);
  const auto costs = make_analytic_cost_model(cluster);
  const Layers layers = layers_of_blocks(graph);
  EXPECT_EQ(layers.count, 96);
  const StepStructure structure(graph, layers);
  const Bytes memory(gibibytes * (1 << 30));
  const MeshSpans spans(
      structure, make_logical_mesh(cluster, {8, 8}, {8, 8}), *costs,
      {.microbatches = graph.microbatches, .usable_memory = memory, .one_stage = true, .hosts_apart = true});
  Fitted fitted;
  for (int option = 0; option < spans.options(); ++option) {
    const StepCost& cost = spans.cost(0, layers.count - 1, option);
    const double time = (cost.forward + cost.backward + cost.step / static_cast<double>(graph.microbatches)).si();
    const Bytes bytes = cost.resident + cost.saved + cost.working + cost.recomputed / layers.count;
    if (bytes > memory || (fitted.time > 0 && fitted.time <= time)) continue;
    fitted.best = cost;
    fitted.time = time;
  }
  fitted.bound = spans.bound().si();
  return fitted;
}

TEST(WholeModel, OfNinetySixBlocksReachesItsBoundWhereMemoryDoesNotBind) {
  const Graph graph = training_graph("gpt3-175b", 256, 16);
  const Fitted fitted = gpt3_in(graph, "dgx-a100:8", 400);
  ASSERT_GT(fitted.time, 0);
  EXPECT_NEAR(fitted.time, fitted.bound, 1e-12 * fitted.bound);
  EXPECT_GT(fitted.best.resident, Bytes(150.0 * (1 << 30)));  // so that 150 GiB bind below
}

// 73.6 of its 80 GiB are what an A100 gives to a plan; V100s with more memory than there are have a slower network.
TEST(WholeModel, OfNinetySixBlocksIsWithinAThousandthOfItsBoundWhereMemoryBinds) {
  const Graph graph = training_graph("gpt3-175b", 256, 16);
  const double free = gpt3_in(graph, "dgx-a100:8", 400).time;
  for (const double gibibytes : {73.6, 150.0}) {
    const Fitted fitted = gpt3_in(graph, "dgx-a100:8", gibibytes);
    ASSERT_GT(fitted.time, 0) << gibibytes;
    EXPECT_GT(fitted.bound, free) << gibibytes;
    EXPECT_LE(fitted.gap(), 1e-3) << gibibytes;
  }
  const Fitted slow = gpt3_in(graph, "p3.16xlarge:8", 150);
  ASSERT_GT(slow.time, 0);
  EXPECT_LE(slow.gap(), 1e-3);
}

// What a plan reports: GPT-2.6B with Adam on eight V100s, which would take 1.6 GiB more than there are; and as it
// would.
TEST(WholeModel, OfAPlanIsWithinAThousandthOfItsBoundAndAtItWithMoreMemory) {
  PlanRequest request = ask("gpt-2.6b", "p3.16xlarge:1", "shard", 128, 16);
  request.training.dtype = request.model.default_dtype;
  const PlanningResult tight = planned(request);
  ASSERT_TRUE(tight.plan && tight.sharding) << tight.reason;
  EXPECT_GT(tight.sharding->gap(), 0);
  EXPECT_LE(tight.sharding->gap(), 1e-3);
  request.cluster.only().device.memory = 2.0 * request.cluster.only().device.memory;
  const PlanningResult roomy = planned(request);
  ASSERT_TRUE(roomy.plan && roomy.sharding) << roomy.reason;
  EXPECT_NEAR(roomy.sharding->gap(), 0, 1e-12);
  EXPECT_LT(roomy.sharding->cost, tight.sharding->cost);
}

}  // namespace
}  // namespace meshwright::intra_op_exactness_test
