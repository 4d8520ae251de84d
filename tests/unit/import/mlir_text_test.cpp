// SPDX-License-Identifier: Apache-2.0
// Text of MLIR modules: which program of XLA's operations it becomes, and what it is refused for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/graph/import/mlir/mlir_text.h"
#include "tests/refusal.h"
#include "tests/unit/import/mlir_parts.h"

namespace meshwright {

namespace {

using namespace mlir_parts;

const char* const kPrintedModule = R"(
module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8x2xbf16>)
      -> (tensor<4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg1 : (tensor<8x2xbf16>) -> tensor<8x2xf32>
    %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] :
        (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1] :
        (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>
    %3 = call @relu(%2) : (tensor<4xf32>) -> tensor<4xf32>
    return %3 : tensor<4xf32>
  }
  func.func private @relu(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
)";

const char* const kGenericModule = R"(
// The same, as "mhlo" wrote it.
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4x8xf32>, %arg1: tensor<8x2xbf16>):
    %0 = "mhlo.convert"(%arg1) : (tensor<8x2xbf16>) -> tensor<8x2xf32>
    %1 = "mhlo.dot"(%arg0, %0) {precision_config = [#mhlo<precision DEFAULT>]} :
        (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %2 = "mhlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %3 = "mhlo.reduce"(%1, %2) ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %5 = "mhlo.add"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "mhlo.return"(%5) : (tensor<f32>) -> ()
    }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>
    %4 = "func.call"(%3) {callee = @relu} : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%4) : (tensor<4xf32>) -> ()
  }) {function_type = (tensor<4x8xf32>, tensor<8x2xbf16>) -> tensor<4xf32>, sym_name = "main"} : () -> ()
  "func.func"() ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "mhlo.constant"() {value = dense<0.000000e+00> : tensor<f32>} : () -> tensor<f32>
    %1 = "mhlo.broadcast_in_dim"(%0) {broadcast_dimensions = dense<> : tensor<0xi64>} : (tensor<f32>) -> tensor<4xf32>
    %2 = "mhlo.maximum"(%arg0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%2) : (tensor<4xf32>) -> ()
  }) {function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "relu", sym_visibility = "private"} : () -> ()
}) {torch.debug_module_name = "GraphModule"} : () -> ()
)";

TEST(MlirText, ThePrintedFormIsAProgram) {
  const xla::Program program = program_of_text(kPrintedModule);
  EXPECT_EQ(program.name, "jit_f");
  EXPECT_EQ(program.partitions, 1);  // for 4 devices, but not yet split
  EXPECT_EQ(program.result_names, std::vector<std::string>{"result"});
  EXPECT_EQ(program_text(program),
            "0 f32[4,8] parameter\n"
            "1 bf16[8,2] parameter\n"
            "2 f32[8,2] convert 1\n"
            "3 f32[4,2] dot 0 2\n"
            "4 f32[] constant\n"
            "5 f32[4] reduce 3 4\n"
            "  | 0 f32[] parameter\n"
            "  | 1 f32[] parameter\n"
            "  | 2 f32[] add 0 1 -> root\n"
            "6 f32[4] call 5 -> root\n"
            "  | 0 f32[4] parameter\n"
            "  | 1 f32[] constant\n"
            "  | 2 f32[4] broadcast 1\n"
            "  | 3 f32[4] maximum 0 2 -> root\n");
}

TEST(MlirText, TheGenericFormIsTheSameProgram) {
  EXPECT_EQ(program_text(program_of_text(kGenericModule)), program_text(program_of_text(kPrintedModule)));
  const xla::Program generic = program_of_text(kGenericModule), printed = program_of_text(kPrintedModule);
  for (const char* opcode : {"dot", "reduce", "constant"}) {
    const xla::Attributes &a = only_of(generic, opcode).attributes, &b = only_of(printed, opcode).attributes;
    EXPECT_EQ(a.dimensions, b.dimensions);
    EXPECT_EQ(a.lhs_contracting, b.lhs_contracting);
    EXPECT_EQ(a.rhs_contracting, b.rhs_contracting);
    EXPECT_EQ(a.values, b.values);
  }
  EXPECT_EQ(only_of(printed, "dot").line, 6);
}

TEST(MlirText, ALoopHasOneStateForWhatItIteratesOverAndReads) {
  const xla::Program program = program_of_text(R"(
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c, %s = %x) : tensor<i32>, tensor<4xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.multiply %s, %y : tensor<4xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<4xf32>
  }
  return %r#1 : tensor<4xf32>
})");
  EXPECT_EQ(program_text(program),
            "0 f32[4] parameter\n"
            "1 f32[4] parameter\n"
            "2 s32[] constant\n"
            "3 s32[] constant\n"
            "4 (s32[] f32[4] f32[4]) tuple 2 0 1\n"  // %y is read in the body
            "5 (s32[] f32[4] f32[4]) while 4\n"
            "  | 0 (s32[] f32[4] f32[4]) parameter\n"
            "  | 1 s32[] constant\n"  // %n, copied
            "  | 2 s32[] get-tuple-element 0\n"
            "  | 3 f32[4] get-tuple-element 0\n"
            "  | 4 f32[4] get-tuple-element 0\n"
            "  | 5 pred[] compare 2 1 -> root\n"
            "  | 0 (s32[] f32[4] f32[4]) parameter\n"
            "  | 1 s32[] constant\n"
            "  | 2 s32[] get-tuple-element 0\n"
            "  | 3 f32[4] get-tuple-element 0\n"
            "  | 4 f32[4] get-tuple-element 0\n"
            "  | 5 s32[] constant\n"
            "  | 6 s32[] add 2 5\n"
            "  | 7 f32[4] multiply 3 4\n"
            "  | 8 (s32[] f32[4]) tuple 6 7\n"
            "  | 9 (s32[] f32[4] f32[4]) tuple 6 7 4 -> root\n"
            "6 f32[4] get-tuple-element 5 -> root\n");
  EXPECT_EQ(entry_computation(program).instructions[6].attributes.index, 1);
}

TEST(MlirText, ConditionalsTakeWhatTheirBranchesRead) {
  const xla::Program program = program_of_text(R"(
func.func @main(%x: tensor<4xf32>, %k: tensor<i32>) -> tensor<4xf32> {
  %r = "stablehlo.case"(%k) ({
    stablehlo.return %x : tensor<4xf32>
  }, {
    %n = stablehlo.negate %x : tensor<4xf32>
    stablehlo.return %n : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
})");
  EXPECT_EQ(program_text(program),
            "0 f32[4] parameter\n"
            "1 s32[] parameter\n"
            "2 (f32[4]) tuple 0\n"
            "3 f32[4] conditional 1 2 2 -> root\n"
            "  | 0 (f32[4]) parameter\n"
            "  | 1 f32[4] get-tuple-element 0 -> root\n"
            "  | 0 (f32[4]) parameter\n"
            "  | 1 f32[4] get-tuple-element 0\n"
            "  | 2 f32[4] negate 1 -> root\n");
}

TEST(MlirText, OpsOfSeveralResultsAreTuples) {
  const xla::Program program = program_of_text(R"(
func.func @main(%x: tensor<4xf32>, %k: tensor<4xi32>) -> (tensor<f32>, tensor<2xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %z), (%k init: %o) across dimensions = [0] :
      (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>)  {
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s, %d : tensor<f32>, tensor<i32>
  }
  %values, %indices = chlo.top_k(%x, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %r#0, %values : tensor<f32>, tensor<2xf32>
})");
  EXPECT_EQ(program_text(program),
            "0 f32[4] parameter\n"
            "1 s32[4] parameter\n"
            "2 f32[] constant\n"
            "3 s32[] constant\n"
            "4 (f32[] s32[]) reduce 0 1 2 3\n"
            "  | 0 f32[] parameter\n"  // %a
            "  | 1 s32[] parameter\n"  // %c: all on the left stand before all on the right
            "  | 2 f32[] parameter\n"
            "  | 3 s32[] parameter\n"
            "  | 4 f32[] add 0 2\n"
            "  | 5 (f32[] s32[]) tuple 4 3 -> root\n"
            "5 (f32[2] s32[2]) custom-call 0\n"
            "6 f32[] get-tuple-element 4\n"
            "7 f32[2] get-tuple-element 5\n"
            "8 (f32[] f32[2]) tuple 6 7 -> root\n");
  EXPECT_EQ(only_of(program, "custom-call").attributes.target, "TopK");
}

TEST(MlirText, BroadcastsThatStretchASizeOfOneReshapeFirst) {
  const xla::Program program = program_of_text(
      function_around("stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<1x4xf32>) -> tensor<3x2x4xf32>",
                      {"tensor<1x4xf32>"}, "tensor<3x2x4xf32>"));
  EXPECT_EQ(program_text(program),
            "0 f32[1,4] parameter\n"
            "1 f32[4] reshape 0\n"
            "2 f32[3,2,4] broadcast 1 -> root\n");
  EXPECT_EQ(only_of(program, "broadcast").attributes.dimensions, std::vector<std::int64_t>{2});
}

TEST(MlirText, ConvolutionsHaveHlosLabelsAndWindow) {
  const std::vector<std::string> operands{"tensor<2x9x9x3xf32>", "tensor<3x5x3x8xf32>"};
  const std::string types = "(tensor<2x9x9x3xf32>, tensor<3x5x3x8xf32>) -> tensor<2x4x3x8xf32>";
  for (const std::string& op :
       {"stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, "
        "2], "
        "pad = [[0, 1], [2, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, true]} {batch_group_count "
        "= "
        "1 : i64, feature_group_count = 1 : i64} : " +
            types,
        "\"mhlo.convolution\"(%a, %b) {batch_group_count = 1 : i64, dimension_numbers = #mhlo.conv<[b, 0, 1, f]x[0, 1, "
        "i, "
        "o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, padding = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, "
        "rhs_dilation = dense<[1, 2]> : tensor<2xi64>, window_reversal = dense<[false, true]> : tensor<2xi1>, "
        "window_strides = array<i64: 2, 2>} : " +
            types}) {
    const xla::Program program = program_of_text(function_around(op, operands, "tensor<2x4x3x8xf32>"));
    const xla::Attributes& attributes = only_of(program, "convolution").attributes;
    using Numbers = std::vector<std::int64_t>;
    EXPECT_EQ(attributes.dim_labels, "b01f_01io->b01f");
    EXPECT_EQ(attributes.window.size, (Numbers{3, 5}));
    EXPECT_EQ(attributes.window.stride, (Numbers{2, 2}));
    EXPECT_EQ(attributes.window.before, (Numbers{0, 2}));
    EXPECT_EQ(attributes.window.after, (Numbers{1, 3}));
    EXPECT_EQ(attributes.window.base_dilation, (Numbers{1, 1}));
    EXPECT_EQ(attributes.window.window_dilation, (Numbers{1, 2}));
    EXPECT_EQ(attributes.window.reversed, (std::vector<bool>{false, true}));
  }
}

TEST(MlirText, GathersSlicesAndPadsHaveHlosAttributes) {
  using Numbers = std::vector<std::int64_t>;
  const xla::Program gather = program_of_text(function_around(
      "\"stablehlo.gather\"(%a, %b) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = "
      "[1], "
      "operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, "
      "slice_sizes = array<i64: 1, 1, 7>}> : (tensor<2x5x7xf32>, tensor<2x3x1xi32>) -> tensor<2x3x7xf32>",
      {"tensor<2x5x7xf32>", "tensor<2x3x1xi32>"}, "tensor<2x3x7xf32>"));
  const xla::Attributes& of_gather = only_of(gather, "gather").attributes;
  EXPECT_EQ(of_gather.offset_dims, Numbers{2});
  EXPECT_EQ(of_gather.collapsed_dims, Numbers{1});
  EXPECT_EQ(of_gather.operand_batch, Numbers{0});
  EXPECT_EQ(of_gather.index_batch, Numbers{0});
  EXPECT_EQ(of_gather.index_map, Numbers{1});
  EXPECT_EQ(of_gather.index_vector_dim, 2);
  EXPECT_EQ(of_gather.sizes, (Numbers{1, 1, 7}));

  for (const char* op :
       {"stablehlo.slice %a [1:5:2, 3:6] : (tensor<8x6xf32>) -> tensor<2x3xf32>",
        "\"mhlo.slice\"(%a) {start_indices = dense<[1, 3]> : tensor<2xi64>, limit_indices = dense<[5, 6]> : "
        "tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>} : (tensor<8x6xf32>) -> tensor<2x3xf32>"}) {
    const xla::Program slice = program_of_text(function_around(op, {"tensor<8x6xf32>"}, "tensor<2x3xf32>"));
    const xla::Attributes& attributes = only_of(slice, "slice").attributes;
    EXPECT_EQ(attributes.start, (Numbers{1, 3}));
    EXPECT_EQ(attributes.limit, (Numbers{5, 6}));
    EXPECT_EQ(attributes.stride, (Numbers{2, 1}));
  }

  const xla::Program pad = program_of_text(
      function_around("stablehlo.pad %a, %b, low = [1, 0], high = [2, -1], interior = [0, 1] : (tensor<2x3xf32>, "
                      "tensor<f32>) -> tensor<5x4xf32>",
                      {"tensor<2x3xf32>", "tensor<f32>"}, "tensor<5x4xf32>"));
  EXPECT_EQ(only_of(pad, "pad").attributes.low, (Numbers{1, 0}));
  EXPECT_EQ(only_of(pad, "pad").attributes.high, (Numbers{2, -1}));
  EXPECT_EQ(only_of(pad, "pad").attributes.interior, (Numbers{0, 1}));
}

std::optional<std::vector<double>> numbers_of(const std::string& value, const std::string& type) {
  const xla::Program program = program_of_text(function_around("stablehlo.constant " + value + " : " + type, {}, type));
  return only_of(program, "constant").attributes.values;
}

// Inside of a shard_map tensors have the shapes of one device: 8 of 8 rows are one.
TEST(MlirText, WhatIsSplitByHandHasTheShapesOfOneDevice) {
  const std::string text = R"(
sdy.mesh @mesh = <["data"=8]>
func.func @main(%a: tensor<8x4xf32>) -> tensor<8x2x4xf32> {
  %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"data"}, {}]>] out_shardings=[<@mesh, [{"data"}, {}, {}]>] manual_axes={"data"} (%b: tensor<1x4xf32>) {
    %c = stablehlo.broadcast_in_dim %b, dims = [0, 2] : (tensor<1x4xf32>) -> tensor<1x2x4xf32>
    sdy.return %c : tensor<1x2x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x2x4xf32>
  return %r : tensor<8x2x4xf32>
}
)";
  EXPECT_EQ(program_text(program_of_text(text)),
            "0 f32[8,4] parameter\n"
            "1 f32[8,2,4] call 0 -> root\n"
            "  | 0 f32[1,4] parameter\n"
            "  | 1 f32[1,2,4] broadcast 0 -> root\n");
}

TEST(MlirText, ConstantsHaveTheirNumbersOrNone) {
  using Values = std::vector<double>;
  EXPECT_EQ(numbers_of("dense<1.5>", "tensor<4xf32>"), Values{1.5});
  EXPECT_EQ(numbers_of("dense<[[1, 2], [-3, 4]]>", "tensor<2x2xi32>"), (Values{1, 2, -3, 4}));
  EXPECT_EQ(numbers_of("dense<true>", "tensor<i1>"), Values{1});
  EXPECT_EQ(numbers_of("dense<0xFF800000>", "tensor<f32>"), Values{-INFINITY});
  EXPECT_EQ(numbers_of("dense<0xFF80>", "tensor<bf16>"), Values{-INFINITY});
  EXPECT_EQ(numbers_of("dense<0x3C00>", "tensor<f16>"), Values{1});
  EXPECT_TRUE(std::isnan(numbers_of("dense<0x7FC00000>", "tensor<f32>")->at(0)));
  EXPECT_EQ(numbers_of("dense<\"0x0000803F000000C0\">", "tensor<2xf32>"), (Values{1, -2}));  // lowest byte first
  EXPECT_EQ(numbers_of("dense<\"0xFEFFFFFF00000000\">", "tensor<2xi32>"), (Values{-2, 0}));
  EXPECT_EQ(numbers_of("dense<>", "tensor<0xf32>"), Values{});
  EXPECT_EQ(numbers_of("dense_resource<blob>", "tensor<2xf32>"), std::nullopt);
  EXPECT_EQ(numbers_of("dense<(1.0,-2.0)>", "tensor<complex<f32>>"), (Values{1, -2}));  // the two parts
  EXPECT_EQ(numbers_of("dense<\"0x" + std::string(8 * 100'000, '0') + "\">", "tensor<100000xf32>"), std::nullopt);
}

TEST(MlirText, ArgumentsHaveTheNamesOfTheProgramThatWasTraced) {
  const xla::Program program = program_of_text(R"(
#loc1 = loc("p['h'][0]['w']")
module @jit_step {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 1 : i32} loc(#loc1),
                         %arg1: tensor<8xf32> {tf.aliasing_output = 0 : i32},
                         %arg2: tensor<2xf32> {jax.buffer_donor = true}, %arg3: tensor<f32> loc("x"))
      -> (tensor<8xf32> {jax.result_info = "result[0]['h'][1]['b']"}, tensor<4xf32>,
          tensor<2xf32> {jax.result_info = "result[0].scale"}, tensor<f32>) {
    return %arg1, %arg0, %arg2, %arg3 : tensor<8xf32>, tensor<4xf32>, tensor<2xf32>, tensor<f32>
  } loc(unknown)
})");
  std::vector<std::string> names;
  for (const int parameter : entry_computation(program).parameters)
    names.push_back(entry_computation(program).instructions[static_cast<std::size_t>(parameter)].name);
  EXPECT_EQ(names, (std::vector<std::string>{"p.h.0.w", "h.1.b", "scale", "x"}));
  EXPECT_EQ(program.aliases, (std::map<std::int64_t, std::int64_t>{{0, 1}, {1, 0}, {2, 2}}));
}

const char* const kOpenModule = R"(
func.func public @main(%x: tensor<?x8xf32> loc("x"), %w: tensor<8x4xf32>) -> tensor<?x4xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x8xf32>) -> tensor<i32>
  %r = call @f(%n, %x, %w) : (tensor<i32>, tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  return %r : tensor<?x4xf32>
}
func.func private @f(%n: tensor<i32>, %x: tensor<?x8xf32>, %w: tensor<8x4xf32>) -> tensor<?x4xf32> {
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] :
      (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  %1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %2 = stablehlo.concatenate %1, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %3 = stablehlo.dynamic_broadcast_in_dim %one, %2, dims = [] : (tensor<f32>, tensor<2xi32>) -> tensor<?x4xf32>
  %4 = stablehlo.add %0, %3 : tensor<?x4xf32>
  return %4 : tensor<?x4xf32>
}
)";

TEST(MlirText, OpenSizesAreGivenByName) {
  EXPECT_EQ(program_text(program_of_text(kOpenModule, {{"x.0", 6}})),
            "0 f32[6,8] parameter\n"
            "1 f32[8,4] parameter\n"
            "2 s32[] constant\n"
            "3 f32[6,4] call 2 0 1 -> root\n"
            "  | 0 s32[] parameter\n"
            "  | 1 f32[6,8] parameter\n"
            "  | 2 f32[8,4] parameter\n"
            "  | 3 s32[1] constant\n"
            "  | 4 f32[] constant\n"
            "  | 5 f32[6,4] dot 1 2\n"
            "  | 6 s32[1] reshape 0\n"
            "  | 7 s32[2] concatenate 6 3\n"
            "  | 8 f32[6,4] broadcast 4\n"
            "  | 9 f32[6,4] add 5 8 -> root\n");
  EXPECT_EQ(refusal([] { (void)program_of_text(kOpenModule); }),
            "m.mlir: the file leaves the size x.0 open; give --dim x.0=SIZE.");
  EXPECT_EQ(refusal([] {
              (void)program_of_text(kOpenModule, {{"x.0", 6}, {"y", 2}});
            }),
            "--dim: 'm.mlir' has no open dimension 'y'; leave it out.");
}

TEST(MlirText, OpsOfOtherDialectsKeepTheirNames) {
  const xla::Program program = program_of_text(R"(
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>]} ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<4xf32>
  %1 = "tensor.insert_slice"(%0, %a) {static_offsets = array<i64: 0>} :
      (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
})");
  EXPECT_EQ(program_text(program),
            "0 f32[4] parameter\n"
            "1 opaque[] linalg.generic\n"
            "2 f32[4] tensor.insert_slice 1 0 -> root\n");
}

std::string why_no_program(const std::string& text) {
  return refusal([&] { (void)program_of_text(text); });
}

TEST(MlirText, RefusalsNameTheLine) {
  EXPECT_EQ(why_no_program(""),
            "m.mlir: the module has no function with a body; give a module of StableHLO or MHLO text.");
  EXPECT_EQ(why_no_program("ML\xefR\x0dStableHLO"),
            "m.mlir: this is MLIR's bytecode; give the text of the module (of an exported program: mlir_module()).");
  EXPECT_EQ(why_no_program("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %b : tensor<4xf32>\n}"),
            "m.mlir:2: nothing before makes '%b'; print the whole module again.");
  EXPECT_EQ(
      why_no_program("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = call @f(%a) : (tensor<4xf32>) -> "
                     "tensor<4xf32>\n  return %0 : tensor<4xf32>\n}"),
      "m.mlir:2: no function '@f' in the module; print the whole module again.");
  EXPECT_EQ(why_no_program(
                "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = call @main(%a) : (tensor<4xf32>) -> "
                "tensor<4xf32>\n  return %0 : tensor<4xf32>\n}"),
            "m.mlir:1: the function '@main' calls itself; print the whole module again.");
  EXPECT_EQ(
      why_no_program("func.func @main(%a: tensor<4xf32>) {\n  %0 = stablehlo.add %a, %a : tensor<4xf32>\n"),
      "m.mlir:3: '}' is expected, not the end of the text; the text is damaged or cut off, print the module again.");
  EXPECT_EQ(why_no_program("func.func @main(%a: tensor<*xf32>) {\n return\n}"),
            "m.mlir:1: a tensor of known rank is expected, not 'xf32>) {'; the text is damaged or cut off, print the "
            "module again.");
  EXPECT_EQ(why_no_program("func.func @main(%a: tensor<4xf32>) {\n  cf.br ^bb1\n^bb1:\n  return\n}"),
            "m.mlir:3: one block is expected, not '^bb1:'; the text is damaged or cut off, print the module again.");
  EXPECT_EQ(
      why_no_program(function_around("stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<3xf32>) -> tensor<4xf32>",
                                     {"tensor<3xf32>"}, "tensor<4xf32>")),
      "m.mlir:2: a dimension of 3 is broadcast to 4; print the whole module again.");
}

TEST(MlirText, ModulesThatGrowWithoutEndAreRefused) {
  std::string tuples = "!a0 = tuple<i1, i1>\n";
  for (int i = 1; i < 60; ++i) tuples += fmt::format("!a{} = tuple<!a{}, !a{}>\n", i, i - 1, i - 1);
  EXPECT_NE(why_no_program(tuples).find("a module with fewer types is expected"), std::string::npos);
  std::string nested;
  for (int i = 0; i < 100'000; ++i) nested += "\"a\"() ({\n";
  EXPECT_NE(why_no_program(nested).find("at most 64 regions within each other are expected"), std::string::npos);
  std::string calls = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n return %a : tensor<2xf32>\n}\n";
  EXPECT_EQ(why_no_program(std::string(300'000, '(')).substr(0, 9), "m.mlir:1:");
}

TEST(MlirText, NoCutAndNoChangedByteDoesMoreThanRefuse) {
  for (const std::string text : {kPrintedModule, kGenericModule, kOpenModule}) {
    for (std::size_t end = 0; end < text.size(); ++end) {
      try {
        (void)program_of_text(text.substr(0, end), {{"x.0", 6}});
      } catch (const InputError&) {
      }
    }
    for (std::size_t at = 0; at < text.size(); ++at)
      for (const char letter : {'%', '0', '}', '<', 'x'}) {
        std::string changed = text;
        changed[at] = letter;
        try {
          (void)program_of_text(changed, {{"x.0", 6}});
        } catch (const InputError&) {
        }
      }
  }
}

// Counted in the files by grep.
TEST(MlirText, PublicModulesHaveAllTheirOps) {
  const char* data = std::getenv("MESHWRIGHT_DATA");
  if (data == nullptr) GTEST_SKIP() << "MESHWRIGHT_DATA names no folder of public models";
  struct File {
    const char* name;
    std::int64_t dots, constants, reductions, parameters;
  };
  for (const File& file :
       {File{"NanoGPT_FW_input", 25 + 12, 14 + 2, 0, 85}, File{"NanoGPT_BW_input", 50 + 24, 19, 84, 188},
        File{"BertTiny_FW_input", 14 + 4, 1, 0, 47}, File{"BertTiny_BW_input", 28 + 8, 51, 41, 69},
        File{"ResNet18_Whole_input", 3, 181, 26, 104}, File{"jax_train_step.stablehlo", 34, 84, 12, 8}}) {
    const std::string path = fmt::format("{}/models/mlir/{}.mlir", data, file.name);
    const xla::Program program = mlir::read_mlir(read_file(path), {}, path);
    std::map<std::string, std::int64_t> counts;
    for (const xla::Computation& computation : program.computations)
      for (const xla::Instruction& instruction : computation.instructions) ++counts[instruction.opcode];
    EXPECT_EQ(counts["dot"], file.dots) << path;
    EXPECT_EQ(counts["constant"], file.constants) << path;
    EXPECT_EQ(counts["reduce"], file.reductions) << path;
    EXPECT_EQ(static_cast<std::int64_t>(entry_computation(program).parameters.size()), file.parameters) << path;
  }
}

}  // namespace

}  // namespace meshwright
