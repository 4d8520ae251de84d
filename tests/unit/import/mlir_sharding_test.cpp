// SPDX-License-Identifier: Apache-2.0
// Shardings that a module of MLIR names, as HLO writes them.
#include <gtest/gtest.h>

#include "tests/refusal.h"
#include "tests/unit/import/mlir_parts.h"

namespace meshwright::mlir_sharding_test {
namespace {

using namespace mlir_parts;

std::string hlo_sharding_of(const std::string& mesh, const std::string& dims, int rank, const std::string& ids = "") {
  std::string type = "tensor<";
  for (int d = 0; d < rank; ++d) type += "64x";
  const xla::Program program = program_of_text(
      fmt::format("module {{\n sdy.mesh @m = <[{}]{}>\n func.func @main(%a: {}f32> {{sdy.sharding = #sdy.sharding<@m, "
                  "[{}]>}}) {{\n return\n }}\n}}",
                  mesh, ids, type, dims));
  return entry_computation(program).instructions[0].attributes.sharding;
}

TEST(MlirSharding, OfShardyIsThatOfHlo) {
  const std::string mesh = R"("x"=2, "y"=4, "z"=3)";
  EXPECT_EQ(hlo_sharding_of(mesh, R"({"x"}, {"y", "z"})", 2), "{devices=[2,12]<=[2,4,3]}");
  EXPECT_EQ(hlo_sharding_of(mesh, R"({"y"}, {})", 2), "{devices=[4,1,6]<=[2,4,3]T(1,0,2) last_tile_dim_replicate}");
  EXPECT_EQ(hlo_sharding_of(mesh, R"({}, {"z", ?}p1)", 2),
            "{devices=[1,3,8]<=[2,4,3]T(2,0,1) last_tile_dim_replicate}");
  EXPECT_EQ(hlo_sharding_of(mesh, R"({}, {?})", 2), "{replicated}");
  // y is 2 times 2: its second half splits dimension 0.
  EXPECT_EQ(hlo_sharding_of(mesh, R"({"y":(2)2})", 1), "{devices=[2,12]<=[2,2,2,3]T(2,0,1,3) last_tile_dim_replicate}");
  EXPECT_EQ(refusal([&] { (void)hlo_sharding_of(mesh, R"({"w"})", 1); }),
            "m.mlir:3: the mesh has no axis 'w'; print the whole module again.");
  EXPECT_EQ(refusal([&] { (void)hlo_sharding_of(mesh, R"({"x"}, {"x"})", 2); }),
            "m.mlir:3: a sharding uses the axis 'x' twice; print the whole module again.");
}

TEST(MlirSharding, OfShardyKeepsTheOrderOfDevicesAndWhatIsSpecial) {
  const std::string mesh = R"("x"=2, "y"=2)", turned = ", device_ids=[0, 2, 1, 3]";
  EXPECT_EQ(hlo_sharding_of(mesh, R"({"x"}, {"y"})", 2, turned), "{devices=[2,2]0,2,1,3}");
  EXPECT_EQ(hlo_sharding_of(mesh, R"({"y"}, {})", 2, turned), "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}");
  EXPECT_EQ(hlo_sharding_of(mesh, R"({"x"}, {"y"})", 2, ", device_ids=[0, 1, 2, 3]"), "{devices=[2,2]<=[2,2]}");
  // On one device alone; its sharding names no dimensions.
  EXPECT_EQ(hlo_sharding_of("", "", 1, ", device_ids=[3]"), "{maximal}");
}

// Axes named behind the dimensions: copies change nothing, partial sums are no layout.
TEST(MlirSharding, OfShardyNamesFurtherAxes) {
  const auto sharding = [](const char* further) {
    const xla::Program program = program_of_text(fmt::format(
        "module {{\n sdy.mesh @m = <[\"x\"=2, \"y\"=2]>\n func.func @main(%a: tensor<64xf32> {{sdy.sharding = "
        "#sdy.sharding<@m, [{{\"x\"}}], {}={{\"y\"}}>}}) {{\n return\n }}\n}}",
        further));
    return entry_computation(program).instructions[0].attributes.sharding;
  };
  EXPECT_EQ(sharding("replicated"), "{devices=[2,2]<=[2,2] last_tile_dim_replicate}");
  EXPECT_EQ(sharding("unreduced"), "{unreduced}");
}

TEST(MlirSharding, ConstraintsAreCallsOfSharding) {
  const xla::Program program = program_of_text(R"(
module {
  sdy.mesh @mesh = <["data"=2, "model"=2]> {stablehlo.mesh = {axes = []}}
  func.func @main(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = sdy.sharding_constraint %a <@mesh, [{"data"}, {"model"}]> : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
})");
  EXPECT_EQ(only_of(program, "custom-call").attributes.target, "Sharding");
  EXPECT_EQ(only_of(program, "custom-call").attributes.sharding, "{devices=[2,2]<=[2,2]}");
}

}  // namespace
}  // namespace meshwright::mlir_sharding_test
