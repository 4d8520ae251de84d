// A module in the generic form.
"builtin.module"() <{sym_name = "g"}> ({
  "func.func"() <{arg_attrs = [{}, {jax.buffer_donor = true}], function_type = (tensor<2x6x6x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x4x4x8xf32>, res_attrs = [{}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x6x6x3xf32>, %arg1: tensor<3x3x3x8xf32>):
    %0 = "stablehlo.convolution"(%arg0, %arg1) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, padding = dense<0> : tensor<2x2xi64>, window_strides = array<i64: 1, 1>}> : (tensor<2x6x6x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x4x4x8xf32>
    %1 = "mhlo.constant"() {value = dense<[[1, 2], [0, 1]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %2 = "mhlo.gather"(%arg1, %1) {dimension_numbers = #mhlo.gather<offset_dims = [1, 2, 3], collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = dense<[1, 1, 3, 8]> : tensor<4xi64>} : (tensor<3x3x3x8xf32>, tensor<2x2xi32>) -> tensor<2x1x3x8xf32>
    %3 = "mhlo.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
    %4 = "mhlo.reduce_window"(%0, %3) ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %6 = "mhlo.maximum"(%arg2, %arg3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "mhlo.return"(%6) : (tensor<f32>) -> ()
    }) {padding = dense<0> : tensor<4x2xi64>, window_dimensions = dense<[1, 2, 2, 1]> : tensor<4xi64>, window_strides = dense<[1, 2, 2, 1]> : tensor<4xi64>} : (tensor<2x4x4x8xf32>, tensor<f32>) -> tensor<2x2x2x8xf32>
    %5:2 = "mhlo.custom_call"(%0) {backend_config = "", byteir_attrs = {axis = [2], epsilon = 1.0E-12 : f64}, call_target_name = "norm"} : (tensor<2x4x4x8xf32>) -> (tensor<2x4x4x8xf32>, tensor<2x4x4x1xf32>)
    "func.return"(%5#0) : (tensor<2x4x4x8xf32>) -> ()
  }) : () -> ()
}) : () -> ()
{-# dialect_resources: {} #-}
