#loc1 = loc("p['w']")
!pair = tuple<tensor<4x8xf32>, tensor<4xi32>>
module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%arg0: tensor<8x8xf32> {tf.aliasing_output = 0 : i32, sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc(#loc1), %arg1: tensor<4x8xf32>, %arg2: tensor<4xi32>) -> (tensor<8x8xf32> {jax.result_info = "result[0]['w']"}, tensor<f32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.dot_general %arg1, %arg0, batching_dims = [] x [], contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("dot")
    %1 = call @relu(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{"data"}, {"model":(1)2, ?}]> : tensor<4x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3:2 = stablehlo.while(%i = %c, %x = %2) : tensor<i32>, tensor<4x8xf32>
    cond {
      %c_0 = stablehlo.constant dense<3> : tensor<i32>
      %7 = stablehlo.compare LT, %i, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %c_0 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %i, %c_0 : tensor<i32>
      %8 = stablehlo.add %x, %1 : tensor<4x8xf32>
      stablehlo.return %7, %8 : tensor<i32>, tensor<4x8xf32>
    }
    %4 = stablehlo.slice %3#1 [0:4, 0:8:2] : (tensor<4x8xf32>) -> tensor<4x4xf32>
    %5:2 = stablehlo.reduce(%3#1 init: %cst), (%3#1 init: %cst) across dimensions = [0, 1] : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
     reducer(%a: tensor<f32>, %c1: tensor<f32>) (%b: tensor<f32>, %d: tensor<f32>)  {
      %7 = stablehlo.add %a, %c1 : tensor<f32>
      stablehlo.return %7, %b : tensor<f32>, tensor<f32>
    }
    %6 = "stablehlo.case"(%c) ({
      stablehlo.return %5#0 : tensor<f32>
    }, {
      %7 = stablehlo.negate %5#1 : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    return %arg0, %6 : tensor<8x8xf32>, tensor<f32>
  } loc(unknown)
  func.func private @relu(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %cst = stablehlo.constant dense<"0x00000000"> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
