// SPDX-License-Identifier: Apache-2.0
// Models of HLO text: which result is the loss, what is a weight, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "core/graph/import/find_model.h"
#include "core/graph/import/model_file.h"
#include "core/graph/import/primitive/emit/file_sharding.h"
#include "tests/refusal.h"
#include "tests/unit/import/hlo_parts.h"

namespace meshwright {

namespace {

ModelConfig read_hlo_model(const std::string& text) { return read_model_bytes(text, "m.hlo", {}); }
Graph hlo_forward(const ModelConfig& model) { return build_forward_graph(model, {.batch = 6, .microbatches = 2}); }

std::vector<std::string> tensor_names(const Graph& graph, TensorKind kind) {
  std::vector<std::string> found;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == kind) found.push_back(tensor.name);
  std::sort(found.begin(), found.end());
  return found;
}

// Two scanned layers, a cross entropy by one-hot rows, and an update of the weights by their gradient's stand-in.
const std::string kStep = R"(HloModule step, input_output_alias={ {0}: (0, {}, may-alias) }

)" + kHloAdd + kHloTop + R"(body {
  t = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  x = f32[4,8] get-tuple-element(t), index=1
  w = f32[2,8,8] get-tuple-element(t), index=2
  kept = f32[2,4,8] get-tuple-element(t), index=3
  d = f32[1,8,8] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,8,8}
  r = f32[8,8] reshape(d)
  p = f32[4,8] dot(x, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[4,8] tanh(p)
  u = f32[1,4,8] reshape(h)
  stored = f32[2,4,8] dynamic-update-slice(kept, u, i, zero, zero)
  ROOT o = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) tuple(next, h, w, stored)
}

condition {
  t = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT
}

ENTRY main {
  w = f32[2,8,8] parameter(0)
  x = f32[4,8] parameter(1)
  y = s32[4] parameter(2)
  zero = s32[] constant(0)
  nil = f32[] constant(0)
  none = f32[2,4,8] broadcast(nil), dimensions={}
  t = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) tuple(zero, x, w, none)
  l = (s32[], f32[4,8], f32[2,8,8], f32[2,4,8]) while(t), condition=condition, body=body
  z = f32[4,8] get-tuple-element(l), index=1
  low = f32[] constant(-inf)
  m = f32[4] reduce(z, low), dimensions={1}, to_apply=top
  mb = f32[4,8] broadcast(m), dimensions={0}
  c = f32[4,8] subtract(z, mb)
  e = f32[4,8] exponential(c)
  s = f32[4] reduce(e, nil), dimensions={1}, to_apply=add
  g = f32[4] log(s)
  gb = f32[4,8] broadcast(g), dimensions={0}
  lp = f32[4,8] subtract(c, gb)
  k = s32[8] iota(), iota_dimension=0
  kb = s32[4,8] broadcast(k), dimensions={1}
  yb = s32[4,8] broadcast(y), dimensions={0}
  q = pred[4,8] compare(yb, kb), direction=EQ
  f = f32[4,8] convert(q)
  pr = f32[4,8] multiply(lp, f)
  su = f32[] reduce(pr, nil), dimensions={0,1}, to_apply=add
  n = f32[] constant(-4)
  loss = f32[] divide(su, n)
  back = f32[2,4,8] get-tuple-element(l), index=3
  g1 = f32[2,8,8] dot(back, back), lhs_batch_dims={0}, lhs_contracting_dims={1},
    rhs_batch_dims={0}, rhs_contracting_dims={1}
  g2 = f32[2,8,8] dot(g1, w), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  nw = f32[2,8,8] subtract(w, g2)
  ROOT o = (f32[2,8,8], f32[]) tuple(nw, loss)
}
)";

TEST(HloModel, OfATrainingStepIsWhatLeadsToItsLoss) {
  const ModelConfig model = read_hlo_model(kStep);
  const Graph graph = hlo_forward(model);
  EXPECT_EQ(ops_of(graph, OpKind::Contract), 2) << "those of the gradients are left out";
  EXPECT_EQ(ops_of(graph, OpKind::Tanh), 2);
  EXPECT_EQ(tensor_names(graph, TensorKind::Input), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(summary_of(model).recognised.at("cross_entropy"), 1);
  EXPECT_EQ(summary_of(model).notes,
            (std::vector<std::string>{"the backward and the update of the file are left out: ours are planned"}));
  EXPECT_EQ(summary_of(model).program->trip_counts, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(model.default_batch, 4);
}

TEST(HloModel, AStackOfWeightsIsOneForEachLayer) {
  const Graph graph = hlo_forward(read_hlo_model(kStep));
  EXPECT_EQ(tensor_names(graph, TensorKind::Parameter), (std::vector<std::string>{"w.0", "w.1"}));
}

// Without aliases: the right factor of a product and what is added to every sample are weights.
TEST(HloModel, WeightsAreToldByTheirUse) {
  const Graph graph = hlo_forward(read_hlo_model(R"(HloModule forward
ENTRY main {
  p = f32[8,5] parameter(0)
  x = f32[4,8] parameter(1)
  r = f32[5] parameter(2)
  y = f32[4,5] dot(x, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  rb = f32[4,5] broadcast(r), dimensions={1}
  ROOT z = f32[4,5] add(y, rb)
}
)"));
  EXPECT_EQ(tensor_names(graph, TensorKind::Parameter), (std::vector<std::string>{"p", "r"}));
  EXPECT_EQ(tensor_names(graph, TensorKind::Input), (std::vector<std::string>{"labels", "x"}));
  EXPECT_EQ(ops_of(graph, OpKind::BiasAdd), 1);
}

// The weight as the left factor, and several dimensions summed at once.
TEST(HloModel, ProductsOfAnyDimensionsAreContractions) {
  const Graph graph = hlo_forward(read_hlo_model(R"(HloModule forward
ENTRY main {
  x = f32[4,3,2,8] parameter(0)
  w = f32[6,2,8] parameter(1)
  y = f32[6,4,3] dot(w, x), lhs_contracting_dims={1,2}, rhs_contracting_dims={2,3}
  ROOT z = f32[4,3,6] transpose(y), dimensions={1,2,0}
}
)"));
  EXPECT_EQ(ops_of(graph, OpKind::Contract), 1);
  EXPECT_EQ(ops_of(graph, OpKind::Transpose), 0);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::Contract) {
      EXPECT_EQ(graph.tensor(op.outputs[0]).elements(), 3 * 3 * 6) << "of a micro-batch of 3";
      EXPECT_EQ(graph.tensor(op.inputs[1]).elements(), 6 * 2 * 8);
    }
}

TEST(HloModel, ALossOfAnotherKindGivesWayToASquaredError) {
  const ModelConfig model = read_hlo_model("HloModule m\n" + kHloAdd + kHloTop + R"(ENTRY main {
  w = f32[8,5] parameter(0)
  x = f32[4,8] parameter(1)
  t = f32[4,5] parameter(2)
  y = f32[4,5] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[4,5] subtract(y, t)
  a = f32[4,5] abs(d)
  nil = f32[] constant(0)
  ROOT s = f32[] reduce(a, nil), dimensions={0,1}, to_apply=add
}
)");
  const Graph graph = hlo_forward(model);
  EXPECT_EQ(ops_of(graph, OpKind::SquaredErrorLoss), 1);
  EXPECT_EQ(tensor_names(graph, TensorKind::Input), (std::vector<std::string>{"target", "x"}));
  EXPECT_EQ(summary_of(model).notes,
            (std::vector<std::string>{
                "the loss of the file is no cross entropy of labels: the squared error of 'y' stands for it"}));
}

TEST(HloModel, WhatIsNoForwardIsRefusedWithWhatToGiveInstead) {
  const auto why = [](const std::string& text) { return refusal([&] { return read_hlo_model(text); }); };
  EXPECT_EQ(why("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e {\n  w = f32[4] parameter(0)\n"
                "  g = f32[4] parameter(1)\n  n = f32[4] subtract(w, g)\n  ROOT t = (f32[4]) tuple(n)\n}\n"),
            "m.hlo: the module has no product of matrices and no convolution: it is the update of an optimizer, or no "
            "model; give the module of the forward, or of a whole training step.");
  EXPECT_EQ(
      why("HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e {\n  w = f32[4,4] parameter(0)\n"
          "  g = f32[4,4] parameter(1)\n  p = f32[4,4] dot(g, g), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
          "  n = f32[4,4] subtract(w, p)\n  ROOT t = (f32[4,4]) tuple(n)\n}\n"),
      "m.hlo: the module updates weights but returns no loss, so that its forward cannot be told from its backward; "
      "return the loss from the step too.");
  EXPECT_EQ(why(kStep.substr(0, kStep.find("  back ="))),
            "m.hlo: the text ends inside a computation, so that the module is not whole; `meshwright models FILE` "
            "describes what is there, give the whole module to plan it.");
  EXPECT_EQ(
      why("HloModule m, num_partitions=2\n" + kHloAdd + kHloTop +
          "ENTRY e {\n  x = f32[4,4] parameter(0)\n"
          "  ROOT r = f32[4,4] all-reduce(x), replica_groups={{0,1}}, to_apply=add\n}\n"),
      "m.hlo: the module is already split for 2 devices and holds their collectives; give the module before the SPMD "
      "partitioner (in XLA's dumps: before_optimizations; in JAX: lower().as_text(\"hlo\")), and `meshwright models "
      "FILE` to describe this one.");
}

// Operands of an empty tuple hold nothing, so that there are fewer than are written.
TEST(HloModel, AnOperationWithTooFewOperandsIsRefused) {
  const auto why = [](const std::string& before, const std::string& op) {
    return refusal([&] {
      return read_hlo_model(
          "HloModule m\nENTRY e {\n  x = f32[4,8] parameter(0)\n  w = f32[8,8] parameter(1)\n"
          "  y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  n = () constant(2)\n" +
          before + "  r = f32[4,8] " + op + "\n  ROOT z = f32[4,8] add(r, y)\n}\n");
    });
  };
  for (const char* op : {"reshape()", "reshape(,)", "reshape(n)", "transpose(), dimensions={0,1}",
                         "broadcast(n), dimensions={}", "slice(), slice={[0:4], [0:8]}", "gather(y)"})
    EXPECT_NE(why("", op).find("too few; see docs/models.md."), std::string::npos) << op << ": " << why("", op);
}

TEST(HloModel, AnOperationThatMakesOtherSizesThanItsTypeIsRefused) {
  EXPECT_EQ(refusal([] {
              return read_hlo_model(
                  "HloModule m\nENTRY e {\n  x = f32[4,8] parameter(0)\n  w = f32[8,8] parameter(1)\n"
                  "  y = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  "  ROOT r = f32[4,16] concatenate(y), dimensions={1}\n}\n");
            }),
            "m.hlo:6: concatenate op 'r': it makes [batch, 8], which the file says to be [4, 16]; see docs/models.md.");
}

TEST(HloModel, AllUnknownOperationsAreNamedAndCounted) {
  EXPECT_EQ(refusal([] {
              return read_hlo_model(R"(HloModule m
ENTRY e {
  w = f32[8,8] parameter(0)
  x = f32[4,8] parameter(1)
  a = f32[8,8] cholesky(w), lower=true
  y = f32[4,8] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[4,8] tan(y)
  g = f32[4,8] tan(f)
  ROOT c = f32[4,8] custom-call(g), custom_call_target="mystery"
}
)");
            }),
            "m.hlo: operations that have no equal here (with their number): cholesky (1), custom-call mystery (1), "
            "tan (2); "
            "see docs/models.md.");
  EXPECT_EQ(refusal([] {
              return read_model_bytes(kStep, "m.hlo", {{"seq", 4}});
            }),
            "--dim: 'm.hlo' leaves no dimension open, 'seq' neither; leave the option out.");
}

// Parameters by a count of the arguments' types.
TEST(HloModel, PublishedModulesHaveTheirParameters) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA is not set to the folder of public files";
  const auto model = [&](const std::string& name) {
    return read_model_file(std::string(data) + "/models/hlo/" + name, {});
  };
  const auto parameters = [](const ModelConfig& of) { return parameter_count(hlo_forward(of)); };
  const ModelConfig llama = model("nv_maxtext_1n1g_jit_train_step_before_optimization.hlo");
  EXPECT_EQ(parameters(llama), 669145600);
  EXPECT_EQ(llama.layers, 8);
  EXPECT_EQ(llama.default_dtype, DType::BF16);
  EXPECT_EQ(summary_of(llama).recognised,
            (std::map<std::string, std::int64_t>{
                {"attention", 8}, {"cross_entropy", 1}, {"rms_norm", 9}, {"rotary", 16}, {"silu", 8}}));
  const ModelConfig images = model("resnet50_keras_jax_f32.hlo");
  EXPECT_EQ(parameters(images), 25583592);
  EXPECT_EQ(summary_of(images).recognised.at("batch_norm"), 53);
  EXPECT_EQ(parameters(model("dlrm_keras_jax_f32_train_step.hlo")), 105081);
  EXPECT_EQ(parameters(model("jax_train_step.with_metadata.hlo")), 106496);
}

// As modules have them whose arguments are one tuple: a sharding for each element, or one for all.
TEST(HloModel, ElementsOfATupleHaveShardingsOfTheirOwn) {
  const auto kept = [](const std::string& sharding) {
    return shardings_of(read_hlo_model(R"(HloModule m
ENTRY main {
  t = (f32[16,32], f32[32,64]) parameter(0), sharding=)" +
                                       sharding + R"(
  x = f32[8,16] parameter(1)
  w = f32[16,32] get-tuple-element(t), index=0
  v = f32[32,64] get-tuple-element(t), index=1
  h = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[8,32] tanh(h)
  ROOT z = f32[8,64] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)"));
  };
  const primitive::KeptShardings found =
      kept("{{devices=[2,4]<=[8]}, {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}}");
  EXPECT_EQ(found.mesh, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(found.tensors,
            (std::map<std::string, std::vector<std::vector<int>>>{{"t.0", {{0}, {1}}}, {"t.1", {{1}, {}}}}));
  EXPECT_TRUE(kept("{replicated}").mesh.empty());
  for (const char* damaged : {"{{devices=[2,4]<=[8]}}", "{{devices=[2,4]<=[8]}, {replicated}, {replicated}}"})
    EXPECT_NE(refusal([&] { (void)kept(damaged); }).find("it is that of a tuple of other elements"), std::string::npos)
        << damaged;
}

}  // namespace

}  // namespace meshwright
