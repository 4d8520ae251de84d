module @jit_turned_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<50x32xf32>, %arg1: tensor<32x8xf32>, %arg2: tensor<32x32xf32>, %arg3: tensor<32x32xf32>, %arg4: tensor<32x8xf32>, %arg5: tensor<32x8xf32>, %arg6: tensor<32x32xf32>, %arg7: tensor<32x32xf32>, %arg8: tensor<32x8xf32>, %arg9: tensor<32x8xf32>, %arg10: tensor<32x32xf32>, %arg11: tensor<32x32xf32>, %arg12: tensor<32x8xf32>, %arg13: tensor<32x50xf32>, %arg14: tensor<2x8xi32>, %arg15: tensor<2x8xi32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00], [1.000000e+00, 1.000000e-01, 0.00999999977, 1.000000e-03], [2.000000e+00, 2.000000e-01, 2.000000e-02, 2.000000e-03], [3.000000e+00, 3.000000e-01, 3.000000e-02, 3.000000e-03], [4.000000e+00, 4.000000e-01, 4.000000e-02, 4.000000e-03], [5.000000e+00, 5.000000e-01, 0.049999997, 0.00500000035], [6.000000e+00, 6.000000e-01, 6.000000e-02, 6.000000e-03], [7.000000e+00, 0.699999988, 7.000000e-02, 7.000000e-03]]> : tensor<8x4xf32>
    %c = stablehlo.constant dense<[[true, false, false, false, false, false, false, false], [true, true, false, false, false, false, false, false], [true, true, true, false, false, false, false, false], [true, true, true, true, false, false, false, false], [true, true, true, true, true, false, false, false], [true, true, true, true, true, true, false, false], [true, true, true, true, true, true, true, false], [true, true, true, true, true, true, true, true]]> : tensor<8x8xi1>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x8xi32>
    %1 = stablehlo.compare LT, %arg14, %0, SIGNED : (tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<2x8xi1>
    %c_1 = stablehlo.constant dense<50> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<2x8xi32>
    %3 = stablehlo.add %arg14, %2 : tensor<2x8xi32>
    %4 = stablehlo.select %1, %3, %arg14 : tensor<2x8xi1>, tensor<2x8xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x8xi32>) -> tensor<2x8x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<50x32xf32>, tensor<2x8x1xi32>) -> tensor<2x8x32xf32>
    %7 = stablehlo.dot_general %6, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32>
    %8 = stablehlo.reshape %7 : (tensor<2x8x32xf32>) -> tensor<2x8x4x8xf32>
    %9 = stablehlo.reshape %8 : (tensor<2x8x4x8xf32>) -> tensor<2x8x4x4x2xf32>
    %10 = stablehlo.slice %9 [0:2, 0:8, 0:4, 0:4, 0:1] : (tensor<2x8x4x4x2xf32>) -> tensor<2x8x4x4x1xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x8x4x4x1xf32>) -> tensor<2x8x4x4xf32>
    %12 = stablehlo.slice %9 [0:2, 0:8, 0:4, 0:4, 1:2] : (tensor<2x8x4x4x2xf32>) -> tensor<2x8x4x4x1xf32>
    %13 = stablehlo.reshape %12 : (tensor<2x8x4x4x1xf32>) -> tensor<2x8x4x4xf32>
    %14 = stablehlo.complex %11, %13 : tensor<2x8x4x4xcomplex<f32>>
    %15 = stablehlo.convert %cst : (tensor<8x4xf32>) -> tensor<8x4xcomplex<f32>>
    %cst_2 = stablehlo.constant dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>
    %16 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<complex<f32>>) -> tensor<8x4xcomplex<f32>>
    %17 = stablehlo.multiply %16, %15 : tensor<8x4xcomplex<f32>>
    %18 = stablehlo.exponential %17 : tensor<8x4xcomplex<f32>>
    %19 = stablehlo.broadcast_in_dim %18, dims = [1, 3] : (tensor<8x4xcomplex<f32>>) -> tensor<1x8x1x4xcomplex<f32>>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xcomplex<f32>>) -> tensor<2x8x4x4xcomplex<f32>>
    %21 = stablehlo.multiply %14, %20 : tensor<2x8x4x4xcomplex<f32>>
    %22 = stablehlo.real %21 : (tensor<2x8x4x4xcomplex<f32>>) -> tensor<2x8x4x4xf32>
    %23 = stablehlo.imag %21 : (tensor<2x8x4x4xcomplex<f32>>) -> tensor<2x8x4x4xf32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4x1xf32>
    %25 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4x1xf32>
    %26 = stablehlo.concatenate %24, %25, dim = 4 : (tensor<2x8x4x4x1xf32>, tensor<2x8x4x4x1xf32>) -> tensor<2x8x4x4x2xf32>
    %27 = stablehlo.reshape %26 : (tensor<2x8x4x4x2xf32>) -> tensor<2x8x4x8xf32>
    %28 = stablehlo.reshape %27 : (tensor<2x8x4x8xf32>) -> tensor<2x8x1x4x8xf32>
    %29 = stablehlo.dot_general %6, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x8xf32>) -> tensor<2x8x8xf32>
    %30 = stablehlo.reshape %29 : (tensor<2x8x8xf32>) -> tensor<2x8x1x8xf32>
    %31 = stablehlo.reshape %30 : (tensor<2x8x1x8xf32>) -> tensor<2x8x1x4x2xf32>
    %32 = stablehlo.slice %31 [0:2, 0:8, 0:1, 0:4, 0:1] : (tensor<2x8x1x4x2xf32>) -> tensor<2x8x1x4x1xf32>
    %33 = stablehlo.reshape %32 : (tensor<2x8x1x4x1xf32>) -> tensor<2x8x1x4xf32>
    %34 = stablehlo.slice %31 [0:2, 0:8, 0:1, 0:4, 1:2] : (tensor<2x8x1x4x2xf32>) -> tensor<2x8x1x4x1xf32>
    %35 = stablehlo.reshape %34 : (tensor<2x8x1x4x1xf32>) -> tensor<2x8x1x4xf32>
    %36 = stablehlo.complex %33, %35 : tensor<2x8x1x4xcomplex<f32>>
    %37 = stablehlo.convert %cst : (tensor<8x4xf32>) -> tensor<8x4xcomplex<f32>>
    %cst_3 = stablehlo.constant dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>
    %38 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<complex<f32>>) -> tensor<8x4xcomplex<f32>>
    %39 = stablehlo.multiply %38, %37 : tensor<8x4xcomplex<f32>>
    %40 = stablehlo.exponential %39 : tensor<8x4xcomplex<f32>>
    %41 = stablehlo.broadcast_in_dim %40, dims = [1, 3] : (tensor<8x4xcomplex<f32>>) -> tensor<1x8x1x4xcomplex<f32>>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xcomplex<f32>>) -> tensor<2x8x1x4xcomplex<f32>>
    %43 = stablehlo.multiply %36, %42 : tensor<2x8x1x4xcomplex<f32>>
    %44 = stablehlo.real %43 : (tensor<2x8x1x4xcomplex<f32>>) -> tensor<2x8x1x4xf32>
    %45 = stablehlo.imag %43 : (tensor<2x8x1x4xcomplex<f32>>) -> tensor<2x8x1x4xf32>
    %46 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<2x8x1x4xf32>) -> tensor<2x8x1x4x1xf32>
    %47 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<2x8x1x4xf32>) -> tensor<2x8x1x4x1xf32>
    %48 = stablehlo.concatenate %46, %47, dim = 4 : (tensor<2x8x1x4x1xf32>, tensor<2x8x1x4x1xf32>) -> tensor<2x8x1x4x2xf32>
    %49 = stablehlo.reshape %48 : (tensor<2x8x1x4x2xf32>) -> tensor<2x8x1x8xf32>
    %50 = stablehlo.dot_general %6, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x8xf32>) -> tensor<2x8x8xf32>
    %51 = stablehlo.reshape %50 : (tensor<2x8x8xf32>) -> tensor<2x8x1x8xf32>
    %52 = stablehlo.dot_general %28, %49, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x1x4x8xf32>, tensor<2x8x1x8xf32>) -> tensor<2x1x8x4x8xf32>
    %53 = stablehlo.transpose %52, dims = [0, 1, 3, 2, 4] : (tensor<2x1x8x4x8xf32>) -> tensor<2x1x4x8x8xf32>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %54 = stablehlo.sqrt %cst_4 : tensor<f32>
    %55 = stablehlo.convert %54 : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [] : (tensor<f32>) -> tensor<2x1x4x8x8xf32>
    %57 = stablehlo.divide %53, %56 : tensor<2x1x4x8x8xf32>
    %cst_5 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %58 = call @_where(%c, %57, %cst_5) : (tensor<8x8xi1>, tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8x8xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_6) applies stablehlo.maximum across dimensions = [4] : (tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x1x4x8xf32>
    %61 = stablehlo.maximum %60, %59 : tensor<2x1x4x8xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<2x1x4x8xf32>) -> tensor<2x1x4x8x1xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2, 3, 4] : (tensor<2x1x4x8x1xf32>) -> tensor<2x1x4x8x8xf32>
    %64 = stablehlo.subtract %58, %63 : tensor<2x1x4x8x8xf32>
    %65 = stablehlo.exponential %64 : tensor<2x1x4x8x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_8) applies stablehlo.add across dimensions = [4] : (tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2, 3] : (tensor<2x1x4x8xf32>) -> tensor<2x1x4x8x1xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3, 4] : (tensor<2x1x4x8x1xf32>) -> tensor<2x1x4x8x8xf32>
    %69 = stablehlo.divide %65, %68 : tensor<2x1x4x8x8xf32>
    %70 = stablehlo.dot_general %51, %69, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x8x1x8xf32>, tensor<2x1x4x8x8xf32>) -> tensor<2x1x8x4x8xf32>
    %71 = stablehlo.transpose %70, dims = [0, 4, 1, 3, 2] : (tensor<2x1x8x4x8xf32>) -> tensor<2x8x1x4x8xf32>
    %72 = stablehlo.reshape %71 : (tensor<2x8x1x4x8xf32>) -> tensor<2x8x32xf32>
    %73 = stablehlo.dot_general %72, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32>
    %74 = stablehlo.add %6, %73 : tensor<2x8x32xf32>
    %75 = stablehlo.dot_general %74, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32>
    %76 = stablehlo.reshape %75 : (tensor<2x8x32xf32>) -> tensor<2x8x4x8xf32>
    %77 = stablehlo.cosine %cst : tensor<8x4xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [1, 3] : (tensor<8x4xf32>) -> tensor<1x8x1x4xf32>
    %79 = stablehlo.sine %cst : tensor<8x4xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [1, 3] : (tensor<8x4xf32>) -> tensor<1x8x1x4xf32>
    %81 = stablehlo.slice %76 [0:2, 0:8, 0:4, 0:8:2] : (tensor<2x8x4x8xf32>) -> tensor<2x8x4x4xf32>
    %82 = stablehlo.slice %76 [0:2, 0:8, 0:4, 1:8:2] : (tensor<2x8x4x8xf32>) -> tensor<2x8x4x4xf32>
    %83 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x4x4xf32>
    %84 = stablehlo.multiply %81, %83 : tensor<2x8x4x4xf32>
    %85 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x4x4xf32>
    %86 = stablehlo.multiply %82, %85 : tensor<2x8x4x4xf32>
    %87 = stablehlo.subtract %84, %86 : tensor<2x8x4x4xf32>
    %88 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x4x4xf32>
    %89 = stablehlo.multiply %82, %88 : tensor<2x8x4x4xf32>
    %90 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x4x4xf32>
    %91 = stablehlo.multiply %81, %90 : tensor<2x8x4x4xf32>
    %92 = stablehlo.add %89, %91 : tensor<2x8x4x4xf32>
    %93 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2, 3] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4x1xf32>
    %94 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2, 3] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x4x1xf32>
    %95 = stablehlo.concatenate %93, %94, dim = 4 : (tensor<2x8x4x4x1xf32>, tensor<2x8x4x4x1xf32>) -> tensor<2x8x4x4x2xf32>
    %96 = stablehlo.reshape %95 : (tensor<2x8x4x4x2xf32>) -> tensor<2x8x4x8xf32>
    %97 = stablehlo.reshape %96 : (tensor<2x8x4x8xf32>) -> tensor<2x8x1x4x8xf32>
    %98 = stablehlo.dot_general %74, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x8xf32>) -> tensor<2x8x8xf32>
    %99 = stablehlo.reshape %98 : (tensor<2x8x8xf32>) -> tensor<2x8x1x8xf32>
    %100 = stablehlo.cosine %cst : tensor<8x4xf32>
    %101 = stablehlo.broadcast_in_dim %100, dims = [1, 3] : (tensor<8x4xf32>) -> tensor<1x8x1x4xf32>
    %102 = stablehlo.sine %cst : tensor<8x4xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [1, 3] : (tensor<8x4xf32>) -> tensor<1x8x1x4xf32>
    %104 = stablehlo.slice %99 [0:2, 0:8, 0:1, 0:8:2] : (tensor<2x8x1x8xf32>) -> tensor<2x8x1x4xf32>
    %105 = stablehlo.slice %99 [0:2, 0:8, 0:1, 1:8:2] : (tensor<2x8x1x8xf32>) -> tensor<2x8x1x4xf32>
    %106 = stablehlo.broadcast_in_dim %101, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %107 = stablehlo.multiply %104, %106 : tensor<2x8x1x4xf32>
    %108 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %109 = stablehlo.multiply %105, %108 : tensor<2x8x1x4xf32>
    %110 = stablehlo.subtract %107, %109 : tensor<2x8x1x4xf32>
    %111 = stablehlo.broadcast_in_dim %101, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %112 = stablehlo.multiply %105, %111 : tensor<2x8x1x4xf32>
    %113 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3] : (tensor<1x8x1x4xf32>) -> tensor<2x8x1x4xf32>
    %114 = stablehlo.multiply %104, %113 : tensor<2x8x1x4xf32>
    %115 = stablehlo.add %112, %114 : tensor<2x8x1x4xf32>
    %116 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2, 3] : (tensor<2x8x1x4xf32>) -> tensor<2x8x1x4x1xf32>
    %117 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2, 3] : (tensor<2x8x1x4xf32>) -> tensor<2x8x1x4x1xf32>
    %118 = stablehlo.concatenate %116, %117, dim = 4 : (tensor<2x8x1x4x1xf32>, tensor<2x8x1x4x1xf32>) -> tensor<2x8x1x4x2xf32>
    %119 = stablehlo.reshape %118 : (tensor<2x8x1x4x2xf32>) -> tensor<2x8x1x8xf32>
    %120 = stablehlo.dot_general %74, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x8xf32>) -> tensor<2x8x8xf32>
    %121 = stablehlo.reshape %120 : (tensor<2x8x8xf32>) -> tensor<2x8x1x8xf32>
    %122 = stablehlo.dot_general %97, %119, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x1x4x8xf32>, tensor<2x8x1x8xf32>) -> tensor<2x1x8x4x8xf32>
    %123 = stablehlo.transpose %122, dims = [0, 1, 3, 2, 4] : (tensor<2x1x8x4x8xf32>) -> tensor<2x1x4x8x8xf32>
    %cst_9 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %124 = stablehlo.sqrt %cst_9 : tensor<f32>
    %125 = stablehlo.convert %124 : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %125, dims = [] : (tensor<f32>) -> tensor<2x1x4x8x8xf32>
    %127 = stablehlo.divide %123, %126 : tensor<2x1x4x8x8xf32>
    %cst_10 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %128 = call @_where(%c, %127, %cst_10) : (tensor<8x8xi1>, tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8x8xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %129 = stablehlo.reduce(%128 init: %cst_11) applies stablehlo.maximum across dimensions = [4] : (tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x1x4x8xf32>
    %131 = stablehlo.maximum %130, %129 : tensor<2x1x4x8xf32>
    %132 = stablehlo.broadcast_in_dim %131, dims = [0, 1, 2, 3] : (tensor<2x1x4x8xf32>) -> tensor<2x1x4x8x1xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2, 3, 4] : (tensor<2x1x4x8x1xf32>) -> tensor<2x1x4x8x8xf32>
    %134 = stablehlo.subtract %128, %133 : tensor<2x1x4x8x8xf32>
    %135 = stablehlo.exponential %134 : tensor<2x1x4x8x8xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %136 = stablehlo.reduce(%135 init: %cst_13) applies stablehlo.add across dimensions = [4] : (tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2, 3] : (tensor<2x1x4x8xf32>) -> tensor<2x1x4x8x1xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2, 3, 4] : (tensor<2x1x4x8x1xf32>) -> tensor<2x1x4x8x8xf32>
    %139 = stablehlo.divide %135, %138 : tensor<2x1x4x8x8xf32>
    %140 = stablehlo.dot_general %121, %139, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x8x1x8xf32>, tensor<2x1x4x8x8xf32>) -> tensor<2x1x8x4x8xf32>
    %141 = stablehlo.transpose %140, dims = [0, 4, 1, 3, 2] : (tensor<2x1x8x4x8xf32>) -> tensor<2x8x1x4x8xf32>
    %142 = stablehlo.reshape %141 : (tensor<2x8x1x4x8xf32>) -> tensor<2x8x32xf32>
    %143 = stablehlo.dot_general %142, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32>
    %144 = stablehlo.add %74, %143 : tensor<2x8x32xf32>
    %145 = stablehlo.dot_general %144, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32>
    %146 = stablehlo.reshape %145 : (tensor<2x8x32xf32>) -> tensor<2x8x4x8xf32>
    %147 = stablehlo.concatenate %cst, %cst, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    %148 = stablehlo.slice %146 [0:2, 0:8, 0:4, 0:4] : (tensor<2x8x4x8xf32>) -> tensor<2x8x4x4xf32>
    %149 = stablehlo.slice %146 [0:2, 0:8, 0:4, 4:8] : (tensor<2x8x4x8xf32>) -> tensor<2x8x4x4xf32>
    %150 = stablehlo.negate %149 : tensor<2x8x4x4xf32>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2, 4] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x1x4xf32>
    %152 = stablehlo.broadcast_in_dim %148, dims = [0, 1, 2, 4] : (tensor<2x8x4x4xf32>) -> tensor<2x8x4x1x4xf32>
    %153 = stablehlo.concatenate %151, %152, dim = 3 : (tensor<2x8x4x1x4xf32>, tensor<2x8x4x1x4xf32>) -> tensor<2x8x4x2x4xf32>
    %154 = stablehlo.reshape %153 : (tensor<2x8x4x2x4xf32>) -> tensor<2x8x4x8xf32>
    %155 = stablehlo.cosine %147 : tensor<8x8xf32>
    %156 = stablehlo.broadcast_in_dim %155, dims = [1, 3] : (tensor<8x8xf32>) -> tensor<1x8x1x8xf32>
    %157 = stablehlo.broadcast_in_dim %156, dims = [0, 1, 2, 3] : (tensor<1x8x1x8xf32>) -> tensor<2x8x4x8xf32>
    %158 = stablehlo.multiply %146, %157 : tensor<2x8x4x8xf32>
    %159 = stablehlo.sine %147 : tensor<8x8xf32>
    %160 = stablehlo.broadcast_in_dim %159, dims = [1, 3] : (tensor<8x8xf32>) -> tensor<1x8x1x8xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2, 3] : (tensor<1x8x1x8xf32>) -> tensor<2x8x4x8xf32>
    %162 = stablehlo.multiply %154, %161 : tensor<2x8x4x8xf32>
    %163 = stablehlo.add %158, %162 : tensor<2x8x4x8xf32>
    %164 = stablehlo.reshape %163 : (tensor<2x8x4x8xf32>) -> tensor<2x8x1x4x8xf32>
    %165 = stablehlo.dot_general %144, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x8xf32>) -> tensor<2x8x8xf32>
    %166 = stablehlo.reshape %165 : (tensor<2x8x8xf32>) -> tensor<2x8x1x8xf32>
    %167 = stablehlo.concatenate %cst, %cst, dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x8xf32>
    %168 = stablehlo.slice %166 [0:2, 0:8, 0:1, 0:4] : (tensor<2x8x1x8xf32>) -> tensor<2x8x1x4xf32>
    %169 = stablehlo.slice %166 [0:2, 0:8, 0:1, 4:8] : (tensor<2x8x1x8xf32>) -> tensor<2x8x1x4xf32>
    %170 = stablehlo.negate %169 : tensor<2x8x1x4xf32>
    %171 = stablehlo.broadcast_in_dim %170, dims = [0, 1, 2, 4] : (tensor<2x8x1x4xf32>) -> tensor<2x8x1x1x4xf32>
    %172 = stablehlo.broadcast_in_dim %168, dims = [0, 1, 2, 4] : (tensor<2x8x1x4xf32>) -> tensor<2x8x1x1x4xf32>
    %173 = stablehlo.concatenate %171, %172, dim = 3 : (tensor<2x8x1x1x4xf32>, tensor<2x8x1x1x4xf32>) -> tensor<2x8x1x2x4xf32>
    %174 = stablehlo.reshape %173 : (tensor<2x8x1x2x4xf32>) -> tensor<2x8x1x8xf32>
    %175 = stablehlo.cosine %167 : tensor<8x8xf32>
    %176 = stablehlo.broadcast_in_dim %175, dims = [1, 3] : (tensor<8x8xf32>) -> tensor<1x8x1x8xf32>
    %177 = stablehlo.broadcast_in_dim %176, dims = [0, 1, 2, 3] : (tensor<1x8x1x8xf32>) -> tensor<2x8x1x8xf32>
    %178 = stablehlo.multiply %166, %177 : tensor<2x8x1x8xf32>
    %179 = stablehlo.sine %167 : tensor<8x8xf32>
    %180 = stablehlo.broadcast_in_dim %179, dims = [1, 3] : (tensor<8x8xf32>) -> tensor<1x8x1x8xf32>
    %181 = stablehlo.broadcast_in_dim %180, dims = [0, 1, 2, 3] : (tensor<1x8x1x8xf32>) -> tensor<2x8x1x8xf32>
    %182 = stablehlo.multiply %174, %181 : tensor<2x8x1x8xf32>
    %183 = stablehlo.add %178, %182 : tensor<2x8x1x8xf32>
    %184 = stablehlo.dot_general %144, %arg12, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x8xf32>) -> tensor<2x8x8xf32>
    %185 = stablehlo.reshape %184 : (tensor<2x8x8xf32>) -> tensor<2x8x1x8xf32>
    %186 = stablehlo.dot_general %164, %183, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x8x1x4x8xf32>, tensor<2x8x1x8xf32>) -> tensor<2x1x8x4x8xf32>
    %187 = stablehlo.transpose %186, dims = [0, 1, 3, 2, 4] : (tensor<2x1x8x4x8xf32>) -> tensor<2x1x4x8x8xf32>
    %cst_14 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %188 = stablehlo.sqrt %cst_14 : tensor<f32>
    %189 = stablehlo.convert %188 : tensor<f32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [] : (tensor<f32>) -> tensor<2x1x4x8x8xf32>
    %191 = stablehlo.divide %187, %190 : tensor<2x1x4x8x8xf32>
    %cst_15 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %192 = call @_where(%c, %191, %cst_15) : (tensor<8x8xi1>, tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8x8xf32>
    %cst_16 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %193 = stablehlo.reduce(%192 init: %cst_16) applies stablehlo.maximum across dimensions = [4] : (tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8xf32>
    %cst_17 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %194 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x1x4x8xf32>
    %195 = stablehlo.maximum %194, %193 : tensor<2x1x4x8xf32>
    %196 = stablehlo.broadcast_in_dim %195, dims = [0, 1, 2, 3] : (tensor<2x1x4x8xf32>) -> tensor<2x1x4x8x1xf32>
    %197 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2, 3, 4] : (tensor<2x1x4x8x1xf32>) -> tensor<2x1x4x8x8xf32>
    %198 = stablehlo.subtract %192, %197 : tensor<2x1x4x8x8xf32>
    %199 = stablehlo.exponential %198 : tensor<2x1x4x8x8xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %200 = stablehlo.reduce(%199 init: %cst_18) applies stablehlo.add across dimensions = [4] : (tensor<2x1x4x8x8xf32>, tensor<f32>) -> tensor<2x1x4x8xf32>
    %201 = stablehlo.broadcast_in_dim %200, dims = [0, 1, 2, 3] : (tensor<2x1x4x8xf32>) -> tensor<2x1x4x8x1xf32>
    %202 = stablehlo.broadcast_in_dim %201, dims = [0, 1, 2, 3, 4] : (tensor<2x1x4x8x1xf32>) -> tensor<2x1x4x8x8xf32>
    %203 = stablehlo.divide %199, %202 : tensor<2x1x4x8x8xf32>
    %204 = stablehlo.dot_general %185, %203, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x8x1x8xf32>, tensor<2x1x4x8x8xf32>) -> tensor<2x1x8x4x8xf32>
    %205 = stablehlo.transpose %204, dims = [0, 4, 1, 3, 2] : (tensor<2x1x8x4x8xf32>) -> tensor<2x8x1x4x8xf32>
    %206 = stablehlo.reshape %205 : (tensor<2x8x1x4x8xf32>) -> tensor<2x8x32xf32>
    %207 = stablehlo.dot_general %206, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x32xf32>) -> tensor<2x8x32xf32>
    %208 = stablehlo.add %144, %207 : tensor<2x8x32xf32>
    %209 = stablehlo.dot_general %208, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x32xf32>, tensor<32x50xf32>) -> tensor<2x8x50xf32>
    %210 = call @log_softmax(%209) : (tensor<2x8x50xf32>) -> tensor<2x8x50xf32>
    %211 = stablehlo.broadcast_in_dim %arg15, dims = [0, 1] : (tensor<2x8xi32>) -> tensor<2x8x1xi32>
    %212 = call @take_along_axis(%210, %211) : (tensor<2x8x50xf32>, tensor<2x8x1xi32>) -> tensor<2x8x1xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %213 = stablehlo.reduce(%212 init: %cst_19) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<f32>
    %cst_20 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %214 = stablehlo.divide %213, %cst_20 : tensor<f32>
    %215 = stablehlo.negate %214 : tensor<f32>
    return %215 : tensor<f32>
  }
  func.func private @_where(%arg0: tensor<8x8xi1>, %arg1: tensor<2x1x4x8x8xf32>, %arg2: tensor<f32>) -> tensor<2x1x4x8x8xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3, 4] : (tensor<8x8xi1>) -> tensor<2x1x4x8x8xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x1x4x8x8xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x1x4x8x8xi1>, tensor<2x1x4x8x8xf32>
    return %3 : tensor<2x1x4x8x8xf32>
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
