module @jit_routed_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<50x32xf32>, %arg1: tensor<32x4xf32>, %arg2: tensor<32x50xf32>, %arg3: tensor<4x32x64xf32>, %arg4: tensor<4x64x32xf32>, %arg5: tensor<2x8xi32>, %arg6: tensor<2x8xi32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x8xi32>
    %1 = stablehlo.compare LT, %arg5, %0, SIGNED : (tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<2x8xi1>
    %c_0 = stablehlo.constant dense<50> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x8xi32>
    %3 = stablehlo.add %arg5, %2 : tensor<2x8xi32>
    %4 = stablehlo.select %1, %3, %arg5 : tensor<2x8xi1>, tensor<2x8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x8xi32>) -> tensor<2x8x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<50x32xf32>, tensor<2x8x1xi32>) -> tensor<2x8x32xf32>
    %7 = stablehlo.dot_general %6, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x4xf32>) -> tensor<2x8x4xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %10 = stablehlo.maximum %9, %8 : tensor<2x8xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2] : (tensor<2x8x1xf32>) -> tensor<2x8x4xf32>
    %13 = stablehlo.subtract %7, %12 : tensor<2x8x4xf32>
    %14 = stablehlo.exponential %13 : tensor<2x8x4xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x8x1xf32>) -> tensor<2x8x4xf32>
    %18 = stablehlo.divide %14, %17 : tensor<2x8x4xf32>
    %values, %indices = chlo.top_k(%18, k = 2) : tensor<2x8x4xf32> -> (tensor<2x8x2xf32>, tensor<2x8x2xi32>)
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%values init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x8x2xf32>, tensor<f32>) -> tensor<2x8xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<2x8x1xf32>) -> tensor<2x8x2xf32>
    %22 = stablehlo.divide %values, %21 : tensor<2x8x2xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x1x4xf32>
    %24 = stablehlo.slice %indices [0:2, 0:8, 0:1] : (tensor<2x8x2xi32>) -> tensor<2x8x1xi32>
    %25 = stablehlo.reshape %24 : (tensor<2x8x1xi32>) -> tensor<2x8xi32>
    %26 = call @_one_hot(%25) : (tensor<2x8xi32>) -> tensor<2x8x4xf32>
    %27 = call @cumsum(%26) : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
    %28 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x8x4xf32>
    %29 = stablehlo.add %27, %28 : tensor<2x8x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%26 init: %cst_5) applies stablehlo.add across dimensions = [1] : (tensor<2x8x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 2] : (tensor<2x4xf32>) -> tensor<2x1x4xf32>
    %32 = stablehlo.add %23, %31 : tensor<2x1x4xf32>
    %33 = stablehlo.multiply %29, %26 : tensor<2x8x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%33 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<2x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %36 = stablehlo.subtract %34, %35 : tensor<2x8xf32>
    %37 = stablehlo.convert %36 : (tensor<2x8xf32>) -> tensor<2x8xi32>
    %38 = call @_one_hot_1(%37) : (tensor<2x8xi32>) -> tensor<2x8x3xf32>
    %cst_8 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x8x4xf32>
    %40 = stablehlo.compare LE, %29, %39, FLOAT : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xi1>
    %41 = stablehlo.convert %40 : (tensor<2x8x4xi1>) -> tensor<2x8x4xf32>
    %42 = stablehlo.multiply %26, %41 : tensor<2x8x4xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<2x8x4xf32>) -> tensor<2x8x4x1xf32>
    %44 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 3] : (tensor<2x8x3xf32>) -> tensor<2x8x1x3xf32>
    %45 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<2x8x4x1xf32>) -> tensor<2x8x4x3xf32>
    %46 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<2x8x1x3xf32>) -> tensor<2x8x4x3xf32>
    %47 = stablehlo.multiply %45, %46 : tensor<2x8x4x3xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x8x4x3xf32>
    %49 = stablehlo.add %48, %47 : tensor<2x8x4x3xf32>
    %50 = stablehlo.slice %22 [0:2, 0:8, 0:1] : (tensor<2x8x2xf32>) -> tensor<2x8x1xf32>
    %51 = stablehlo.reshape %50 : (tensor<2x8x1xf32>) -> tensor<2x8xf32>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1x1xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<2x8x1x1xf32>) -> tensor<2x8x4x3xf32>
    %54 = stablehlo.multiply %47, %53 : tensor<2x8x4x3xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x8x4x3xf32>
    %56 = stablehlo.add %55, %54 : tensor<2x8x4x3xf32>
    %57 = stablehlo.slice %indices [0:2, 0:8, 1:2] : (tensor<2x8x2xi32>) -> tensor<2x8x1xi32>
    %58 = stablehlo.reshape %57 : (tensor<2x8x1xi32>) -> tensor<2x8xi32>
    %59 = call @_one_hot(%58) : (tensor<2x8xi32>) -> tensor<2x8x4xf32>
    %60 = call @cumsum(%59) : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
    %61 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<2x1x4xf32>) -> tensor<2x8x4xf32>
    %62 = stablehlo.add %60, %61 : tensor<2x8x4xf32>
    %63 = stablehlo.multiply %62, %59 : tensor<2x8x4xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.reduce(%63 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_12 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %66 = stablehlo.subtract %64, %65 : tensor<2x8xf32>
    %67 = stablehlo.convert %66 : (tensor<2x8xf32>) -> tensor<2x8xi32>
    %68 = call @_one_hot_1(%67) : (tensor<2x8xi32>) -> tensor<2x8x3xf32>
    %cst_13 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x8x4xf32>
    %70 = stablehlo.compare LE, %62, %69, FLOAT : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xi1>
    %71 = stablehlo.convert %70 : (tensor<2x8x4xi1>) -> tensor<2x8x4xf32>
    %72 = stablehlo.multiply %59, %71 : tensor<2x8x4xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2] : (tensor<2x8x4xf32>) -> tensor<2x8x4x1xf32>
    %74 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 3] : (tensor<2x8x3xf32>) -> tensor<2x8x1x3xf32>
    %75 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2, 3] : (tensor<2x8x4x1xf32>) -> tensor<2x8x4x3xf32>
    %76 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<2x8x1x3xf32>) -> tensor<2x8x4x3xf32>
    %77 = stablehlo.multiply %75, %76 : tensor<2x8x4x3xf32>
    %78 = stablehlo.add %49, %77 : tensor<2x8x4x3xf32>
    %79 = stablehlo.slice %22 [0:2, 0:8, 1:2] : (tensor<2x8x2xf32>) -> tensor<2x8x1xf32>
    %80 = stablehlo.reshape %79 : (tensor<2x8x1xf32>) -> tensor<2x8xf32>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1x1xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2, 3] : (tensor<2x8x1x1xf32>) -> tensor<2x8x4x3xf32>
    %83 = stablehlo.multiply %77, %82 : tensor<2x8x4x3xf32>
    %84 = stablehlo.add %56, %83 : tensor<2x8x4x3xf32>
    %85 = stablehlo.dot_general %78, %6, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x4x3xf32>, tensor<2x8x32xf32>) -> tensor<2x4x3x32xf32>
    %86 = stablehlo.dot_general %arg3, %85, batching_dims = [0] x [1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x32x64xf32>, tensor<2x4x3x32xf32>) -> tensor<4x64x2x3xf32>
    %87 = stablehlo.transpose %86, dims = [2, 0, 3, 1] : (tensor<4x64x2x3xf32>) -> tensor<2x4x3x64xf32>
    %88 = call @relu(%87) : (tensor<2x4x3x64xf32>) -> tensor<2x4x3x64xf32>
    %89 = stablehlo.dot_general %arg4, %88, batching_dims = [0] x [1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<4x64x32xf32>, tensor<2x4x3x64xf32>) -> tensor<4x32x2x3xf32>
    %90 = stablehlo.transpose %89, dims = [2, 0, 3, 1] : (tensor<4x32x2x3xf32>) -> tensor<2x4x3x32xf32>
    %91 = stablehlo.dot_general %84, %90, batching_dims = [0] x [0], contracting_dims = [3, 2] x [2, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x4x3xf32>, tensor<2x4x3x32xf32>) -> tensor<2x8x32xf32>
    %92 = stablehlo.add %6, %91 : tensor<2x8x32xf32>
    %93 = stablehlo.dot_general %92, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x50xf32>) -> tensor<2x8x50xf32>
    %94 = call @log_softmax(%93) : (tensor<2x8x50xf32>) -> tensor<2x8x50xf32>
    %95 = stablehlo.broadcast_in_dim %arg6, dims = [0, 1] : (tensor<2x8xi32>) -> tensor<2x8x1xi32>
    %96 = call @take_along_axis(%94, %95) : (tensor<2x8x50xf32>, tensor<2x8x1xi32>) -> tensor<2x8x1xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %97 = stablehlo.reduce(%96 init: %cst_14) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_15 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %98 = stablehlo.divide %97, %cst_15 : tensor<f32>
    %99 = stablehlo.negate %98 : tensor<f32>
    return %99 : tensor<f32>
  }
  func.func private @_one_hot(%arg0: tensor<2x8xi32>) -> tensor<2x8x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<2x8xi32>) -> tensor<2x8x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x4xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x8x1xi32>) -> tensor<2x8x4xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x4xi32>) -> tensor<2x8x4xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x8x4xi32>, tensor<2x8x4xi32>) -> tensor<2x8x4xi1>
    %5 = stablehlo.convert %4 : (tensor<2x8x4xi1>) -> tensor<2x8x4xf32>
    return %5 : tensor<2x8x4xf32>
  }
  func.func private @cumsum(%arg0: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
    %0 = call @cumsum_0(%arg0) : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
    return %0 : tensor<2x8x4xf32>
  }
  func.func private @cumsum_0(%arg0: tensor<2x8x4xf32>) -> tensor<2x8x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [7, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 8, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x8x4xf32>, tensor<f32>) -> tensor<2x8x4xf32>
    return %1 : tensor<2x8x4xf32>
  }
  func.func private @_one_hot_1(%arg0: tensor<2x8xi32>) -> tensor<2x8x3xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<2x8xi32>) -> tensor<2x8x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x3xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x8x1xi32>) -> tensor<2x8x3xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x3xi32>) -> tensor<2x8x3xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x8x3xi32>, tensor<2x8x3xi32>) -> tensor<2x8x3xi1>
    %5 = stablehlo.convert %4 : (tensor<2x8x3xi1>) -> tensor<2x8x3xf32>
    return %5 : tensor<2x8x3xf32>
  }
  func.func private @relu(%arg0: tensor<2x4x3x64xf32>) -> tensor<2x4x3x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x3x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x4x3x64xf32>
    return %1 : tensor<2x4x3x64xf32>
  }
  func.func private @log_softmax(%arg0: tensor<2x8x50xf32>) -> tensor<2x8x50xf32> {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x8x50xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<2x8xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x8x1xf32>) -> tensor<2x8x50xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x8x50xf32>
    %6 = stablehlo.exponential %5 : tensor<2x8x50xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x8x50xf32>, tensor<f32>) -> tensor<2x8xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
    %9 = stablehlo.log %8 : tensor<2x8x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x8x1xf32>) -> tensor<2x8x50xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<2x8x50xf32>
    return %11 : tensor<2x8x50xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<2x8x50xf32>, %arg1: tensor<2x8x1xi32>) -> tensor<2x8x1xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x8x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x8x1xi32>, tensor<2x8x1xi32>) -> tensor<2x8x1xi1>
    %c_0 = stablehlo.constant dense<50> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x8x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x8x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<2x8x1xi1>, tensor<2x8x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x8x1xi32>) -> tensor<2x8x1x1xi32>
    %c_1 = stablehlo.constant dense<49> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x8x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x8x1x1xi32>, tensor<2x8x1x1xi32>) -> tensor<2x8x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<2x8x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x8x1x1xi32>, tensor<2x8x1x1xi32>) -> tensor<2x8x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x8x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<2x8x1x1xi1>, tensor<i1>) -> tensor<2x8x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x8x50xf32>, tensor<2x8x1x1xi32>) -> tensor<2x8x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<2x8x1xi1>, tensor<2x8x1xf32>
    return %15 : tensor<2x8x1xf32>
  }
}
