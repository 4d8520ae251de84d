// SPDX-License-Identifier: Apache-2.0
// StableHLO modules as models: they compute what JAX computes of them, and keep the shardings that they have.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "core/graph/import/model_file.h"
#include "executor/check/graph_interpreter.h"
#include "tests/refusal.h"
#include "tests/unit/import/jax_convolution.h"
#include "tests/unit/import/jax_decoder.h"

namespace meshwright {

namespace {

ModelConfig mlir_model(const std::string& text) { return read_model_bytes(text, "m.mlir", {}); }

// The loss with weights and inputs by the formulas that JAX was given: value(name, i) of element i in the file.
template <class Value>
double jax_loss(const std::string& text, std::int64_t batch, std::int64_t classes, Value value) {
  const Graph graph = build_training_graph(mlir_model(text), {.batch = batch, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    const bool integer = tensor.dtype == DType::I32, parameter = tensor.kind == TensorKind::Parameter;
    if (!parameter && tensor.kind != TensorKind::Input) continue;
    std::vector<double> values(static_cast<std::size_t>(tensor.elements()));
    const bool ids = tensor.name == "arg12";
    for (std::size_t k = 0; k < values.size(); ++k) {
      const auto i = static_cast<std::int64_t>(k);
      values[k] = ids       ? static_cast<double>((7 * i + 3) % classes)
                  : integer ? static_cast<double>((5 * i + 1) % classes)
                            : value(tensor, i);
    }
    interpreter.set(tensor.id, values);
  }
  interpreter.run(Phase::Forward);
  return interpreter.get(*graph.loss)[0];
}

double wave_at(double i, double phase) { return 0.9 * std::sin(0.37 * i + 1.3 * phase); }

TEST(MlirModel, AScannedDecoderHasTheLossOfJax) {
  const auto weight = [](const Tensor& tensor, std::int64_t i) {
    // "arg4.1" is the second piece of the stack arg4.
    const std::size_t point = tensor.name.find('.');
    const double layer = point == std::string::npos ? 0.0 : std::stod(tensor.name.substr(point + 1));
    return wave_at(static_cast<double>(i + static_cast<std::int64_t>(layer) * tensor.elements()),
                   std::stoi(tensor.name.substr(3)));
  };
  const ModelConfig model = mlir_model(kDecoderLoss);
  EXPECT_EQ(summary_of(model).recognised,
            (std::map<std::string, std::int64_t>{
                {"attention", 2}, {"cross_entropy", 1}, {"rms_norm", 5}, {"rotary", 4}, {"silu", 2}}));
  EXPECT_NEAR(jax_loss(kDecoderLoss, 3, 20, weight), 3.05469475269263, 1e-5);
}

TEST(MlirModel, OfATrainingStepTheLossIsKept) {
  const auto weight = [](const Tensor& tensor, std::int64_t i) {
    const std::string name = tensor.kind == TensorKind::Input ? "images" : tensor.name;
    int sum = 0;
    for (const char letter : name) sum += static_cast<unsigned char>(letter);
    return wave_at(static_cast<double>(i), sum % 97);
  };
  const ModelConfig model = mlir_model(kConvolutionStep);
  EXPECT_EQ(model.default_batch, 2);
  EXPECT_NEAR(jax_loss(kConvolutionStep, 2, 5, weight), 1.4355985667721383, 1e-6);
}

// Two products; `shardings` of their weights.
std::string two_products(const std::string& first, const std::string& second) {
  return fmt::format(R"(
module @m attributes {{mhlo.num_partitions = 4 : i32}} {{
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%x: tensor<8x16xf32>, %w: tensor<16x32xf32> {{tf.aliasing_output = 0 : i32, {}}} loc("w"),
                         %v: tensor<32x12xf32> {{tf.aliasing_output = 1 : i32, {}}} loc("v"))
      -> (tensor<16x32xf32>, tensor<32x12xf32>, tensor<8x12xf32>) {{
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
        (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %1 = stablehlo.tanh %0 : tensor<8x32xf32>
    %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] :
        (tensor<8x32xf32>, tensor<32x12xf32>) -> tensor<8x12xf32>
    return %w, %v, %2 : tensor<16x32xf32>, tensor<32x12xf32>, tensor<8x12xf32>
  }}
}})",
                     first, second);
}

primitive::KeptShardings kept_of(const std::string& first, const std::string& second) {
  return shardings_of(mlir_model(two_products(first, second)));
}

using MeshAxes = std::map<std::string, std::vector<std::vector<int>>>;

TEST(KeptShardings, AreOnTheMeshOfTheFile) {
  const std::string columns = R"(sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>)",
                    rows = R"(sdy.sharding = #sdy.sharding<@mesh, [{"data", "model"}, {}]>)";
  EXPECT_EQ(kept_of(columns, rows).mesh, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(kept_of(columns, rows).tensors, (MeshAxes{{"w", {{}, {1}}}, {"v", {{0, 1}, {}}}}));
  // The same as HLO's text: four devices in a row are two of two.
  const std::string of_hlo = R"(mhlo.sharding = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}")",
                    in_a_row = R"(mhlo.sharding = "{devices=[4,1]<=[4]}")";
  EXPECT_EQ(kept_of(of_hlo, in_a_row).mesh, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(kept_of(of_hlo, in_a_row).tensors, (MeshAxes{{"w", {{}, {1}}}, {"v", {{0, 1}, {}}}}));
  EXPECT_EQ(kept_of(in_a_row, in_a_row).mesh, std::vector<std::int64_t>{4});
  const std::string whole = R"(mhlo.sharding = "{replicated}")", listed = R"(mhlo.sharding = "{devices=[2,2]0,1,2,3}")";
  EXPECT_EQ(kept_of(whole, listed).tensors, (MeshAxes{{"w", {{}, {}}}, {"v", {{0}, {1}}}}));
  EXPECT_TRUE(kept_of(whole, whole).mesh.empty());
}

// As jax up to 0.4.13 lists devices of a transposed mesh, and as HLO is printed with metadata and by names.
TEST(KeptShardings, AreTheSameInEveryFormOfTheirText) {
  const auto kept = [](const std::string& text) {
    return kept_of("mhlo.sharding = \"" + text + "\"",
                   R"(mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}")");
  };
  // A mesh of 2 x 4: 'w' along its second axis, 'v' along its first.
  const primitive::KeptShardings wanted = kept("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}");
  EXPECT_EQ(wanted.mesh, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(wanted.tensors, (MeshAxes{{"w", {{}, {1}}}, {"v", {{0}, {}}}}));
  for (const char* text :
       {"{devices=[1,4,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}",
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate metadata={op_name='a T(0,1)'}}",
        "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated}}", "{mesh['x'=2,'y'=4], [{}, {'y'}]}",
        "{mesh[x=2,y=4], [{}, {y, ?}], replicated={x}}", "{mesh['y'=4,'x'=2], device_ids=([2,4]T(1,0)), [{}, {'y'}]}",
        "{mesh['y'=4,'x'=2], device_ids=(0,4,1,5,2,6,3,7), [{}, {'y'}]}"}) {
    EXPECT_EQ(kept(text).mesh, wanted.mesh) << text;
    EXPECT_EQ(kept(text).tensors, wanted.tensors) << text;
  }
  EXPECT_EQ(kept("{mesh['x'=2,'y'=4], replicated}").tensors, kept("{replicated metadata={op_name='b'}}").tensors);
  for (const char* text :
       {"{mesh['x'=2,'y'=4], manual}", "{mesh['x'=2,'y'=4], [{'y'}, {}], manual={'x'}}", "{mesh['x'=2], [{'y'}, {}]}",
        "{mesh['x'=2,'y'=4], [{'y'}]}", "{mesh['x'=2", "{mesh[], [", "{maximal_mesh[device_id=1]}",
        "{mesh['x'=2], device_ids=([2,", "{mesh['x'=-2], [{'x'}, {}]}"})
    EXPECT_NE(refusal([&] { (void)kept(text); }).find("which cannot be kept"), std::string::npos) << text;
}

TEST(KeptShardings, WhatNoLayoutSaysIsRefusedByName) {
  const std::string whole = R"(mhlo.sharding = "{replicated}")";
  const auto why = [&](const std::string& text) {
    return refusal([&] { (void)kept_of("mhlo.sharding = \"" + text + "\"", whole); });
  };
  EXPECT_EQ(why("{devices=[4,1]<=[2,2]T(1,0)}"),
            "m.mlir: parameter 'w' has the sharding {devices=[4,1]<=[2,2]T(1,0)} in the file, which cannot be kept: an "
            "inner axis of the mesh is the outer one of a dimension");
  EXPECT_NE(why("{devices=[3,1]<=[3]}").find("3 does not divide"), std::string::npos);
  EXPECT_NE(why("{manual}").find("its tiles are placed by hand"), std::string::npos);
  EXPECT_NE(why("{maximal device=0}").find("it is on one device alone"), std::string::npos);
  EXPECT_NE(why("{devices=[2,2]0,3,1,2}").find("its devices are in no order of a mesh"), std::string::npos);
  EXPECT_NE(why("{devices=[4,1]0,1,2,4}").find("its devices are in no order of a mesh"), std::string::npos);
  EXPECT_NE(why("{devices=[2,1,2]<=[4] last_tile_dims={unreduced}}").find("its devices hold parts of sums"),
            std::string::npos);
  EXPECT_NE(why("{devices=[2,2,2]<=[8]}").find("its tiles are not those of its dimensions"), std::string::npos);
  EXPECT_NE(refusal([] {
              (void)kept_of(R"(mhlo.sharding = "{devices=[2,1]<=[2]}")", R"(mhlo.sharding = "{devices=[4,1]<=[4]}")");
            }).find("others are for 2 devices"),
            std::string::npos);
}

// Counted in the files by a script: elements of the float arguments that the forward computes with (masks only
// compare), and twice the elements times the contracted ones of its dot ops.
TEST(MlirModel, PublicModulesHaveTheirParametersAndWork) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA names no folder of public models";
  const auto path = [&](const std::string& name) { return fmt::format("{}/models/mlir/{}.mlir", data, name); };
  struct File {
    const char* name;
    std::int64_t batch, parameters;
    double forward;  // FLOP of a batch in products; 0: not counted
  };
  for (const File& file : {File{"jax_train_step.stablehlo", 8, 128 * 64 + 2 * (256 * 64 + 4 * 64 * 64 + 64 * 256), 0.0},
                           File{"NanoGPT_FW_input", 64, 11'188'992 - 6 * 256 * 256, 387'364'945'920.0},
                           File{"BertTiny_FW_input", 2, 8'354'036 - 30'522,
                                2'243'559'424.0},  // the last bias has a twin that nothing reads
                           File{"ResNet18_Whole_input", 4, 11'689'512, 0.0}}) {
    const ModelConfig model = read_model_file(path(file.name), {});
    EXPECT_EQ(model.default_batch, file.batch) << file.name;
    const Graph graph = build_forward_graph(model, {.batch = file.batch});
    EXPECT_EQ(parameter_count(graph), file.parameters) << file.name;
    if (file.forward > 0.0) {
      EXPECT_NEAR(graph_flops(graph).si() / file.forward, 1.0, 1e-6) << file.name;
    }
  }
  for (const char* backward : {"NanoGPT_BW_input", "BertTiny_BW_input"})
    EXPECT_NE(refusal([&] {
                (void)read_model_file(path(backward), {});
              }).find("of a backward alone no model can be made: give the module of the forward"),
              std::string::npos)
        << backward;
}

// Of x = (a, b, c) the reversed (c, b, a), with a 0 between two and one before all: (0, c, 0, b, 0, a), times w.
TEST(StableHloModel, RowsAreReversedAndPaddedBetweenTheirElements) {
  const Graph graph = build_training_graph(mlir_model(R"(
func.func public @main(%w: tensor<6x2xf32> {tf.aliasing_output = 0 : i32} loc("w"), %x: tensor<5x3xf32> loc("x"))
    -> (tensor<6x2xf32>, tensor<5x2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reverse %x, dims = [1] : tensor<5x3xf32>
  %1 = stablehlo.pad %0, %zero, low = [0, 1], high = [0, 0], interior = [0, 1] :
      (tensor<5x3xf32>, tensor<f32>) -> tensor<5x6xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] :
      (tensor<5x6xf32>, tensor<6x2xf32>) -> tensor<5x2xf32>
  return %w, %2 : tensor<6x2xf32>, tensor<5x2xf32>
})"),
                                           {.batch = 2, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.name == "w") interpreter.set(tensor.id, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    if (tensor.name == "x") interpreter.set(tensor.id, {1, 10, 100, 2, 0, 0});
  }
  interpreter.run(Phase::Forward);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::PickLabel || op.kind == OpKind::SquaredErrorLoss) {
      // 100 times row 1 of w, 10 times row 3, once row 5; then twice row 5.
      EXPECT_EQ(interpreter.get(op.inputs[0]), (std::vector<double>{381, 492, 22, 24}));
    }
}

TEST(StableHloModel, AnElementOfNothingIsRefused) {
  EXPECT_NE(refusal([] {
              return mlir_model(
                  "func.func @main(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {\n"
                  "  %0 = \"stablehlo.get_tuple_element\"() {index = 0 : i32} : () -> tensor<4x8xf32>\n"
                  "  return %0 : tensor<4x8xf32>\n}\n");
            }).find("m.mlir:2: '0' takes an element of nothing"),
            std::string::npos);
}

}  // namespace

}  // namespace meshwright
