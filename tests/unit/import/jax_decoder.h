// SPDX-License-Identifier: Apache-2.0
// A module that JAX 0.10 printed, with line breaks put in: MLIR reads any space alike.
#pragma once

namespace meshwright {

// The loss of a decoder of 2 scanned layers of 16 wide, 4 heads of 2 keys, turned, and a gated feed-forward of 24;
// batch 3, 4 positions, 20 words. Arguments by number: 0 table, 1 last gain, 2 and 3 gains of the layers, 4 to 10 their
// weights, 11 head, 12 ids, 13 labels.
inline const char* const kDecoderLoss = R"mlir(
module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<20x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<2x16xf32>, %arg3:
      tensor<2x16xf32>, %arg4: tensor<2x16x24xf32>, %arg5: tensor<2x24x16xf32>, %arg6: tensor<2x16x24xf32>, %arg7:
      tensor<2x16x8xf32>, %arg8: tensor<2x16x16xf32>, %arg9: tensor<2x16x16xf32>, %arg10: tensor<2x16x8xf32>, %arg11:
      tensor<16x20xf32>, %arg12: tensor<3x4xi32>, %arg13: tensor<3x4xi32>) -> (tensor<f32> ) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x4xi32>
    %1 = stablehlo.compare LT, %arg12, %0, SIGNED : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
    %c_0 = stablehlo.constant dense<20> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3x4xi32>
    %3 = stablehlo.add %arg12, %2 : tensor<3x4xi32>
    %4 = stablehlo.select %1, %3, %arg12 : tensor<3x4xi1>, tensor<3x4xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<3x4xi32>) -> tensor<3x4x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false,
        slice_sizes = array<i64: 1, 16>}> : (tensor<20x16xf32>, tensor<3x4x1xi32>) -> tensor<3x4x16xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7:11 = stablehlo.while(%iterArg = %arg2, %iterArg_6 = %arg3, %iterArg_7 = %arg4, %iterArg_8 = %arg5, %iterArg_9
        = %arg6, %iterArg_10 = %arg7, %iterArg_11 = %arg8, %iterArg_12 = %arg9, %iterArg_13 = %arg10, %iterArg_14 =
        %c_1, %iterArg_15 = %6) : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16x24xf32>, tensor<2x24x16xf32>,
        tensor<2x16x24xf32>, tensor<2x16x8xf32>, tensor<2x16x16xf32>, tensor<2x16x16xf32>, tensor<2x16x8xf32>,
        tensor<i32>, tensor<3x4x16xf32>
    cond {
      %c_16 = stablehlo.constant dense<2> : tensor<i32>
      %28 = stablehlo.compare LT, %iterArg_14, %c_16, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %28 : tensor<i1>
    } do {
      %28 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_14) : (tensor<2x16xf32>, tensor<i32>) -> tensor<16xf32>
      %29 = func.call @dynamic_index_in_dim(%iterArg_6, %iterArg_14) : (tensor<2x16xf32>, tensor<i32>) ->
          tensor<16xf32>
      %30 = func.call @dynamic_index_in_dim_0(%iterArg_7, %iterArg_14) : (tensor<2x16x24xf32>, tensor<i32>) ->
          tensor<16x24xf32>
      %31 = func.call @dynamic_index_in_dim_1(%iterArg_8, %iterArg_14) : (tensor<2x24x16xf32>, tensor<i32>) ->
          tensor<24x16xf32>
      %32 = func.call @dynamic_index_in_dim_0(%iterArg_9, %iterArg_14) : (tensor<2x16x24xf32>, tensor<i32>) ->
          tensor<16x24xf32>
      %33 = func.call @dynamic_index_in_dim_2(%iterArg_10, %iterArg_14) : (tensor<2x16x8xf32>, tensor<i32>) ->
          tensor<16x8xf32>
      %34 = func.call @dynamic_index_in_dim_3(%iterArg_11, %iterArg_14) : (tensor<2x16x16xf32>, tensor<i32>) ->
          tensor<16x16xf32>
      %35 = func.call @dynamic_index_in_dim_3(%iterArg_12, %iterArg_14) : (tensor<2x16x16xf32>, tensor<i32>) ->
          tensor<16x16xf32>
      %36 = func.call @dynamic_index_in_dim_2(%iterArg_13, %iterArg_14) : (tensor<2x16x8xf32>, tensor<i32>) ->
          tensor<16x8xf32>
      %37 = func.call @closed_call(%iterArg_15, %28, %29, %30, %31, %32, %33, %34, %35, %36) : (tensor<3x4x16xf32>,
          tensor<16xf32>, tensor<16xf32>, tensor<16x24xf32>, tensor<24x16xf32>, tensor<16x24xf32>, tensor<16x8xf32>,
          tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x8xf32>) -> tensor<3x4x16xf32>
      %c_16 = stablehlo.constant dense<1> : tensor<i32>
      %38 = stablehlo.add %iterArg_14, %c_16 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11,
          %iterArg_12, %iterArg_13, %38, %37 : tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16x24xf32>,
          tensor<2x24x16xf32>, tensor<2x16x24xf32>, tensor<2x16x8xf32>, tensor<2x16x16xf32>, tensor<2x16x16xf32>,
          tensor<2x16x8xf32>, tensor<i32>, tensor<3x4x16xf32>
    }
    %8 = stablehlo.multiply %7#10, %7#10 : tensor<3x4x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<3x4x16xf32>,
        tensor<f32>) -> tensor<3x4xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_2 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<3x4x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %14 = stablehlo.add %12, %13 : tensor<3x4x1xf32>
    %15 = stablehlo.rsqrt %14 : tensor<3x4x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x16xf32>
    %17 = stablehlo.multiply %7#10, %16 : tensor<3x4x16xf32>
    %18 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<3x4x16xf32>
    %20 = stablehlo.multiply %17, %19 : tensor<3x4x16xf32>
    %21 = stablehlo.dot_general %20, %arg11, contracting_dims = [2] x [0] : (tensor<3x4x16xf32>, tensor<16x20xf32>)
        -> tensor<3x4x20xf32>
    %22 = call @log_softmax(%21) : (tensor<3x4x20xf32>) -> tensor<3x4x20xf32>
    %23 = stablehlo.broadcast_in_dim %arg13, dims = [0, 1] : (tensor<3x4xi32>) -> tensor<3x4x1xi32>
    %24 = call @take_along_axis(%22, %23) : (tensor<3x4x20xf32>, tensor<3x4x1xi32>) -> tensor<3x4x1xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %25 = stablehlo.reduce(%24 init: %cst_4) applies stablehlo.add across dimensions = [0, 1, 2] :
        (tensor<3x4x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_5 = stablehlo.constant dense<1.200000e+01> : tensor<f32>
    %26 = stablehlo.divide %25, %cst_5 : tensor<f32>
    %27 = stablehlo.negate %26 : tensor<f32>
    return %27 : tensor<f32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2x16xf32>, %arg1: tensor<i32>) -> tensor<16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 16] : (tensor<2x16xf32>, tensor<i32>, tensor<i32>) ->
        tensor<1x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16xf32>) -> tensor<16xf32>
    return %1 : tensor<16xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<2x16x24xf32>, %arg1: tensor<i32>) -> tensor<16x24xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 24] : (tensor<2x16x24xf32>, tensor<i32>,
        tensor<i32>, tensor<i32>) -> tensor<1x16x24xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x24xf32>) -> tensor<16x24xf32>
    return %1 : tensor<16x24xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<2x24x16xf32>, %arg1: tensor<i32>) -> tensor<24x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 24, 16] : (tensor<2x24x16xf32>, tensor<i32>,
        tensor<i32>, tensor<i32>) -> tensor<1x24x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x24x16xf32>) -> tensor<24x16xf32>
    return %1 : tensor<24x16xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<2x16x8xf32>, %arg1: tensor<i32>) -> tensor<16x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>,
        tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<2x16x16xf32>, %arg1: tensor<i32>) -> tensor<16x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 16] : (tensor<2x16x16xf32>, tensor<i32>,
        tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    return %1 : tensor<16x16xf32>
  }
  func.func private @closed_call(%arg0: tensor<3x4x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>, %arg3:
      tensor<16x24xf32>, %arg4: tensor<24x16xf32>, %arg5: tensor<16x24xf32>, %arg6: tensor<16x8xf32>, %arg7:
      tensor<16x16xf32>, %arg8: tensor<16x16xf32>, %arg9: tensor<16x8xf32>) -> tensor<3x4x16xf32> {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<3x4x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<3x4x16xf32>,
        tensor<f32>) -> tensor<3x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<3x4x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<3x4x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<3x4x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x16xf32>
    %9 = stablehlo.multiply %arg0, %8 : tensor<3x4x16xf32>
    %10 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<3x4x16xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<3x4x16xf32>
    %13 = stablehlo.dot_general %12, %arg8, contracting_dims = [2] x [0] : (tensor<3x4x16xf32>, tensor<16x16xf32>) ->
        tensor<3x4x16xf32>
    %14 = stablehlo.reshape %13 : (tensor<3x4x16xf32>) -> tensor<3x4x4x4xf32>
    %15 = stablehlo.dot_general %12, %arg6, contracting_dims = [2] x [0] : (tensor<3x4x16xf32>, tensor<16x8xf32>) ->
        tensor<3x4x8xf32>
    %16 = stablehlo.reshape %15 : (tensor<3x4x8xf32>) -> tensor<3x4x2x4xf32>
    %17 = stablehlo.dot_general %12, %arg9, contracting_dims = [2] x [0] : (tensor<3x4x16xf32>, tensor<16x8xf32>) ->
        tensor<3x4x8xf32>
    %18 = stablehlo.reshape %17 : (tensor<3x4x8xf32>) -> tensor<3x4x2x4xf32>
    %19 = stablehlo.iota dim = 0 : tensor<4xi32>
    %20 = stablehlo.iota dim = 0 : tensor<2xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %22 = stablehlo.multiply %21, %20 : tensor<2xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %24 = stablehlo.add %23, %22 : tensor<2xf32>
    %cst_4 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %26 = stablehlo.divide %24, %25 : tensor<2xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %28 = stablehlo.power %27, %26 : tensor<2xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %30 = stablehlo.divide %29, %28 : tensor<2xf32>
    %31 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %32 = stablehlo.convert %31 : (tensor<4x1xi32>) -> tensor<4x1xf32>
    %33 = stablehlo.broadcast_in_dim %30, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x2xf32>
    %35 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<4x2xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<4x2xf32>
    %37 = stablehlo.cosine %36 : tensor<4x2xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [1, 3] : (tensor<4x2xf32>) -> tensor<1x4x1x2xf32>
    %39 = stablehlo.sine %36 : tensor<4x2xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [1, 3] : (tensor<4x2xf32>) -> tensor<1x4x1x2xf32>
    %41 = stablehlo.slice %14 [0:3, 0:4, 0:4, 0:2] : (tensor<3x4x4x4xf32>) -> tensor<3x4x4x2xf32>
    %42 = stablehlo.slice %14 [0:3, 0:4, 0:4, 2:4] : (tensor<3x4x4x4xf32>) -> tensor<3x4x4x2xf32>
    %43 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x4x2xf32>
    %44 = stablehlo.multiply %41, %43 : tensor<3x4x4x2xf32>
    %45 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x4x2xf32>
    %46 = stablehlo.multiply %42, %45 : tensor<3x4x4x2xf32>
    %47 = stablehlo.subtract %44, %46 : tensor<3x4x4x2xf32>
    %48 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x4x2xf32>
    %49 = stablehlo.multiply %42, %48 : tensor<3x4x4x2xf32>
    %50 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x4x2xf32>
    %51 = stablehlo.multiply %41, %50 : tensor<3x4x4x2xf32>
    %52 = stablehlo.add %49, %51 : tensor<3x4x4x2xf32>
    %53 = stablehlo.concatenate %47, %52, dim = 3 : (tensor<3x4x4x2xf32>, tensor<3x4x4x2xf32>) -> tensor<3x4x4x4xf32>
    %54 = stablehlo.iota dim = 0 : tensor<2xf32>
    %cst_7 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %56 = stablehlo.multiply %55, %54 : tensor<2xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %58 = stablehlo.add %57, %56 : tensor<2xf32>
    %cst_9 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %60 = stablehlo.divide %58, %59 : tensor<2xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %62 = stablehlo.power %61, %60 : tensor<2xf32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %64 = stablehlo.divide %63, %62 : tensor<2xf32>
    %65 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %66 = stablehlo.convert %65 : (tensor<4x1xi32>) -> tensor<4x1xf32>
    %67 = stablehlo.broadcast_in_dim %64, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %68 = stablehlo.broadcast_in_dim %66, dims = [0, 1] : (tensor<4x1xf32>) -> tensor<4x2xf32>
    %69 = stablehlo.broadcast_in_dim %67, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<4x2xf32>
    %70 = stablehlo.multiply %68, %69 : tensor<4x2xf32>
    %71 = stablehlo.cosine %70 : tensor<4x2xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [1, 3] : (tensor<4x2xf32>) -> tensor<1x4x1x2xf32>
    %73 = stablehlo.sine %70 : tensor<4x2xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [1, 3] : (tensor<4x2xf32>) -> tensor<1x4x1x2xf32>
    %75 = stablehlo.slice %16 [0:3, 0:4, 0:2, 0:2] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x2xf32>
    %76 = stablehlo.slice %16 [0:3, 0:4, 0:2, 2:4] : (tensor<3x4x2x4xf32>) -> tensor<3x4x2x2xf32>
    %77 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x2x2xf32>
    %78 = stablehlo.multiply %75, %77 : tensor<3x4x2x2xf32>
    %79 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x2x2xf32>
    %80 = stablehlo.multiply %76, %79 : tensor<3x4x2x2xf32>
    %81 = stablehlo.subtract %78, %80 : tensor<3x4x2x2xf32>
    %82 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x2x2xf32>
    %83 = stablehlo.multiply %76, %82 : tensor<3x4x2x2xf32>
    %84 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x4x1x2xf32>) -> tensor<3x4x2x2xf32>
    %85 = stablehlo.multiply %75, %84 : tensor<3x4x2x2xf32>
    %86 = stablehlo.add %83, %85 : tensor<3x4x2x2xf32>
    %87 = stablehlo.concatenate %81, %86, dim = 3 : (tensor<3x4x2x2xf32>, tensor<3x4x2x2xf32>) -> tensor<3x4x2x4xf32>
    %88 = stablehlo.reshape %53 : (tensor<3x4x4x4xf32>) -> tensor<3x4x2x2x4xf32>
    %89 = stablehlo.dot_general %87, %88, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4] :
        (tensor<3x4x2x4xf32>, tensor<3x4x2x2x4xf32>) -> tensor<3x2x4x4x2xf32>
    %90 = stablehlo.transpose %89, dims = [0, 1, 4, 3, 2] : (tensor<3x2x4x4x2xf32>) -> tensor<3x2x2x4x4xf32>
    %cst_12 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<3x2x2x4x4xf32>
    %92 = stablehlo.multiply %90, %91 : tensor<3x2x2x4x4xf32>
    %93 = stablehlo.broadcast_in_dim %19, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
    %94 = stablehlo.broadcast_in_dim %19, dims = [1] : (tensor<4xi32>) -> tensor<1x4xi32>
    %95 = stablehlo.broadcast_in_dim %93, dims = [0, 1] : (tensor<4x1xi32>) -> tensor<4x4xi32>
    %96 = stablehlo.broadcast_in_dim %94, dims = [0, 1] : (tensor<1x4xi32>) -> tensor<4x4xi32>
    %97 = stablehlo.compare GE, %95, %96, SIGNED : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %98 = call @_where(%97, %92, %cst_13) : (tensor<4x4xi1>, tensor<3x2x2x4x4xf32>, tensor<f32>) ->
        tensor<3x2x2x4x4xf32>
    %cst_14 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %99 = stablehlo.reduce(%98 init: %cst_14) applies stablehlo.maximum across dimensions = [4] :
        (tensor<3x2x2x4x4xf32>, tensor<f32>) -> tensor<3x2x2x4xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<3x2x2x4xf32>
    %101 = stablehlo.maximum %100, %99 : tensor<3x2x2x4xf32>
    %102 = stablehlo.broadcast_in_dim %101, dims = [0, 1, 2, 3] : (tensor<3x2x2x4xf32>) -> tensor<3x2x2x4x1xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3, 4] : (tensor<3x2x2x4x1xf32>) -> tensor<3x2x2x4x4xf32>
    %104 = stablehlo.subtract %98, %103 : tensor<3x2x2x4x4xf32>
    %105 = stablehlo.exponential %104 : tensor<3x2x2x4x4xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %106 = stablehlo.reduce(%105 init: %cst_16) applies stablehlo.add across dimensions = [4] :
        (tensor<3x2x2x4x4xf32>, tensor<f32>) -> tensor<3x2x2x4xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<3x2x2x4xf32>) -> tensor<3x2x2x4x1xf32>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2, 3, 4] : (tensor<3x2x2x4x1xf32>) -> tensor<3x2x2x4x4xf32>
    %109 = stablehlo.divide %105, %108 : tensor<3x2x2x4x4xf32>
    %110 = stablehlo.dot_general %18, %109, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4] :
        (tensor<3x4x2x4xf32>, tensor<3x2x2x4x4xf32>) -> tensor<3x2x4x2x4xf32>
    %111 = stablehlo.transpose %110, dims = [0, 4, 1, 3, 2] : (tensor<3x2x4x2x4xf32>) -> tensor<3x4x2x2x4xf32>
    %112 = stablehlo.reshape %111 : (tensor<3x4x2x2x4xf32>) -> tensor<3x4x16xf32>
    %113 = stablehlo.dot_general %112, %arg7, contracting_dims = [2] x [0] : (tensor<3x4x16xf32>, tensor<16x16xf32>)
        -> tensor<3x4x16xf32>
    %114 = stablehlo.add %arg0, %113 : tensor<3x4x16xf32>
    %115 = stablehlo.multiply %114, %114 : tensor<3x4x16xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %116 = stablehlo.reduce(%115 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<3x4x16xf32>,
        tensor<f32>) -> tensor<3x4xf32>
    %117 = stablehlo.broadcast_in_dim %116, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %cst_18 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %119 = stablehlo.divide %117, %118 : tensor<3x4x1xf32>
    %cst_19 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %121 = stablehlo.add %119, %120 : tensor<3x4x1xf32>
    %122 = stablehlo.rsqrt %121 : tensor<3x4x1xf32>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x16xf32>
    %124 = stablehlo.multiply %114, %123 : tensor<3x4x16xf32>
    %125 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %126 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<3x4x16xf32>
    %127 = stablehlo.multiply %124, %126 : tensor<3x4x16xf32>
    %128 = stablehlo.dot_general %127, %arg3, contracting_dims = [2] x [0] : (tensor<3x4x16xf32>, tensor<16x24xf32>)
        -> tensor<3x4x24xf32>
    %129 = call @silu(%128) : (tensor<3x4x24xf32>) -> tensor<3x4x24xf32>
    %130 = stablehlo.dot_general %127, %arg5, contracting_dims = [2] x [0] : (tensor<3x4x16xf32>, tensor<16x24xf32>)
        -> tensor<3x4x24xf32>
    %131 = stablehlo.multiply %129, %130 : tensor<3x4x24xf32>
    %132 = stablehlo.dot_general %131, %arg4, contracting_dims = [2] x [0] : (tensor<3x4x24xf32>, tensor<24x16xf32>)
        -> tensor<3x4x16xf32>
    %133 = stablehlo.add %114, %132 : tensor<3x4x16xf32>
    return %133 : tensor<3x4x16xf32>
  }
  func.func private @_where(%arg0: tensor<4x4xi1>, %arg1: tensor<3x2x2x4x4xf32>, %arg2: tensor<f32>) ->
      tensor<3x2x2x4x4xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3, 4] : (tensor<4x4xi1>) -> tensor<3x2x2x4x4xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<3x2x2x4x4xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<3x2x2x4x4xi1>, tensor<3x2x2x4x4xf32>
    return %3 : tensor<3x2x2x4x4xf32>
  }
  func.func private @silu(%arg0: tensor<3x4x24xf32>) -> tensor<3x4x24xf32> {
    %0 = stablehlo.negate %arg0 : tensor<3x4x24xf32>
    %1 = stablehlo.exponential %0 : tensor<3x4x24xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x4x24xf32>
    %3 = stablehlo.add %2, %1 : tensor<3x4x24xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x4x24xf32>
    %5 = stablehlo.divide %4, %3 : tensor<3x4x24xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<3x4x24xf32>
    return %6 : tensor<3x4x24xf32>
  }
  func.func private @log_softmax(%arg0: tensor<3x4x20xf32>) -> tensor<3x4x20xf32> {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<3x4x20xf32>,
        tensor<f32>) -> tensor<3x4xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<3x4xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x20xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<3x4x20xf32>
    %6 = stablehlo.exponential %5 : tensor<3x4x20xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<3x4x20xf32>,
        tensor<f32>) -> tensor<3x4xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
    %9 = stablehlo.log %8 : tensor<3x4x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<3x4x1xf32>) -> tensor<3x4x20xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<3x4x20xf32>
    return %11 : tensor<3x4x20xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<3x4x20xf32>, %arg1: tensor<3x4x1xi32>) -> tensor<3x4x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x4x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<3x4x1xi32>, tensor<3x4x1xi32>) -> tensor<3x4x1xi1>
    %c_0 = stablehlo.constant dense<20> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3x4x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<3x4x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<3x4x1xi1>, tensor<3x4x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<3x4x1xi32>) -> tensor<3x4x1x1xi32>
    %c_1 = stablehlo.constant dense<19> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x4x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<3x4x1x1xi32>, tensor<3x4x1x1xi32>) -> tensor<3x4x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<3x4x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<3x4x1x1xi32>, tensor<3x4x1x1xi32>) -> tensor<3x4x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<3x4x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<3x4x1x1xi1>,
        tensor<i1>) -> tensor<3x4x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2],
        operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim
        = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<3x4x20xf32>,
        tensor<3x4x1x1xi32>) -> tensor<3x4x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x4x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<3x4x1xi1>, tensor<3x4x1xf32>
    return %15 : tensor<3x4x1xf32>
  }
}
)mlir";

}  // namespace meshwright
