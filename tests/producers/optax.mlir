// By optax 0.2.8, jax 0.10.2
module @jit_step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<6x8xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<4x6xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<i32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<6xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<6x8xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<4x6xf32> {tf.aliasing_output = 6 : i32}, %arg7: tensor<6xf32> {tf.aliasing_output = 7 : i32}, %arg8: tensor<6x8xf32> {tf.aliasing_output = 8 : i32}, %arg9: tensor<4x6xf32> {tf.aliasing_output = 9 : i32}, %arg10: tensor<i32> {tf.aliasing_output = 10 : i32}, %arg11: tensor<3x4xf32>, %arg12: tensor<3xi32>) -> (tensor<6xf32> {jax.result_info = "result[0]['b']"}, tensor<6x8xf32> {jax.result_info = "result[0]['out']"}, tensor<4x6xf32> {jax.result_info = "result[0]['w']"}, tensor<i32> {jax.result_info = "result[1][1][0].count"}, tensor<6xf32> {jax.result_info = "result[1][1][0].mu['b']"}, tensor<6x8xf32> {jax.result_info = "result[1][1][0].mu['out']"}, tensor<4x6xf32> {jax.result_info = "result[1][1][0].mu['w']"}, tensor<6xf32> {jax.result_info = "result[1][1][0].nu['b']"}, tensor<6x8xf32> {jax.result_info = "result[1][1][0].nu['out']"}, tensor<4x6xf32> {jax.result_info = "result[1][1][0].nu['w']"}, tensor<i32> {jax.result_info = "result[1][1][2].count"}, tensor<f32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.dot_general %arg11, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<3x6xf32>
    %3 = stablehlo.add %0, %2 : tensor<3x6xf32>
    %4 = stablehlo.tanh %3 : tensor<3x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x6xf32>
    %6 = stablehlo.subtract %5, %4 : tensor<3x6xf32>
    %7 = stablehlo.dot_general %4, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6xf32>, tensor<6x8xf32>) -> tensor<3x8xf32>
    %8 = stablehlo.broadcast_in_dim %arg12, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %9:2 = call @take_along_axis(%7, %8) : (tensor<3x8xf32>, tensor<3x1xi32>) -> (tensor<3x1xf32>, tensor<3x1x1xi32>)
    %c = stablehlo.constant dense<0> : tensor<i32>
    %10:2 = call @_take(%9#0, %c) : (tensor<3x1xf32>, tensor<i32>) -> (tensor<3xf32>, tensor<1xi32>)
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %11 = stablehlo.reduce(%7 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %13 = stablehlo.maximum %12, %11 : tensor<3xf32>
    %14 = stablehlo.is_finite %13 : (tensor<3xf32>) -> tensor<3xi1>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<3xi1>, tensor<3xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x8xf32>
    %19 = stablehlo.subtract %7, %18 : tensor<3x8xf32>
    %20 = stablehlo.exponential %19 : tensor<3x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst_3) applies stablehlo.add across dimensions = [1] : (tensor<3x8xf32>, tensor<f32>) -> tensor<3xf32>
    %22 = stablehlo.abs %21 : tensor<3xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %24 = stablehlo.compare GE, %21, %23, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %25 = stablehlo.log %22 : tensor<3xf32>
    %26 = stablehlo.add %25, %16 : tensor<3xf32>
    %27 = stablehlo.subtract %26, %10#0 : tensor<3xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.reduce(%27 init: %cst_5) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %cst_6 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %29 = stablehlo.divide %28, %cst_6 : tensor<f32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_8 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %30 = stablehlo.divide %cst_7, %cst_8 : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %32 = stablehlo.negate %31 : tensor<3xf32>
    %33 = stablehlo.divide %31, %22 : tensor<3xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %35 = stablehlo.select %24, %34, %33 : tensor<3xi1>, tensor<3xf32>
    %36 = stablehlo.select %24, %33, %34 : tensor<3xi1>, tensor<3xf32>
    %37 = stablehlo.negate %35 : tensor<3xf32>
    %38 = stablehlo.add %36, %37 : tensor<3xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0] : (tensor<3xf32>) -> tensor<3x8xf32>
    %40 = stablehlo.multiply %39, %20 : tensor<3x8xf32>
    %41 = call @_take_0(%10#1, %32) : (tensor<1xi32>, tensor<3xf32>) -> tensor<3x1xf32>
    %42 = call @take_along_axis_1(%9#1, %41) : (tensor<3x1x1xi32>, tensor<3x1xf32>) -> tensor<3x8xf32>
    %43 = stablehlo.add %40, %42 : tensor<3x8xf32>
    %44 = stablehlo.dot_general %43, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<3x6xf32>) -> tensor<8x6xf32>
    %45 = stablehlo.transpose %44, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %46 = stablehlo.dot_general %43, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<6x8xf32>) -> tensor<3x6xf32>
    %47 = stablehlo.multiply %46, %6 : tensor<3x6xf32>
    %48 = stablehlo.multiply %47, %4 : tensor<3x6xf32>
    %49 = stablehlo.add %47, %48 : tensor<3x6xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_10) applies stablehlo.add across dimensions = [0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<6xf32>
    %51 = stablehlo.reshape %50 : (tensor<6xf32>) -> tensor<1x6xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.reduce(%51 init: %cst_11) applies stablehlo.add across dimensions = [0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<6xf32>
    %53 = stablehlo.dot_general %49, %arg11, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6xf32>, tensor<3x4xf32>) -> tensor<6x4xf32>
    %54 = stablehlo.transpose %53, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
    %55 = chlo.square %52 : tensor<6xf32> -> tensor<6xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %57 = chlo.square %56 : tensor<6xf32> -> tensor<6xf32>
    %58 = stablehlo.add %55, %57 : tensor<6xf32>
    %59 = chlo.square %45 : tensor<6x8xf32> -> tensor<6x8xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %61 = chlo.square %60 : tensor<6x8xf32> -> tensor<6x8xf32>
    %62 = stablehlo.add %59, %61 : tensor<6x8xf32>
    %63 = chlo.square %54 : tensor<4x6xf32> -> tensor<4x6xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %65 = chlo.square %64 : tensor<4x6xf32> -> tensor<4x6xf32>
    %66 = stablehlo.add %63, %65 : tensor<4x6xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %67 = stablehlo.reduce(%58 init: %cst_15) applies stablehlo.add across dimensions = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<f32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.reduce(%62 init: %cst_16) applies stablehlo.add across dimensions = [0, 1] : (tensor<6x8xf32>, tensor<f32>) -> tensor<f32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%66 init: %cst_17) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %70 = stablehlo.add %cst_18, %67 : tensor<f32>
    %71 = stablehlo.add %70, %68 : tensor<f32>
    %72 = stablehlo.add %71, %69 : tensor<f32>
    %73 = stablehlo.sqrt %72 : tensor<f32>
    %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %74 = stablehlo.compare LT, %73, %cst_19, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %75 = stablehlo.broadcast_in_dim %73, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %76 = stablehlo.divide %52, %75 : tensor<6xf32>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %78 = stablehlo.multiply %76, %77 : tensor<6xf32>
    %79 = stablehlo.select %74, %52, %78 : tensor<i1>, tensor<6xf32>
    %80 = stablehlo.broadcast_in_dim %73, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %81 = stablehlo.divide %45, %80 : tensor<6x8xf32>
    %cst_21 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %83 = stablehlo.multiply %81, %82 : tensor<6x8xf32>
    %84 = stablehlo.select %74, %45, %83 : tensor<i1>, tensor<6x8xf32>
    %85 = stablehlo.broadcast_in_dim %73, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %86 = stablehlo.divide %54, %85 : tensor<4x6xf32>
    %cst_22 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %88 = stablehlo.multiply %86, %87 : tensor<4x6xf32>
    %89 = stablehlo.select %74, %54, %88 : tensor<i1>, tensor<4x6xf32>
    %cst_23 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %91 = stablehlo.multiply %90, %79 : tensor<6xf32>
    %cst_24 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %93 = stablehlo.multiply %92, %arg4 : tensor<6xf32>
    %94 = stablehlo.add %91, %93 : tensor<6xf32>
    %cst_25 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %96 = stablehlo.multiply %95, %84 : tensor<6x8xf32>
    %cst_26 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %98 = stablehlo.multiply %97, %arg5 : tensor<6x8xf32>
    %99 = stablehlo.add %96, %98 : tensor<6x8xf32>
    %cst_27 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %101 = stablehlo.multiply %100, %89 : tensor<4x6xf32>
    %cst_28 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %102 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %103 = stablehlo.multiply %102, %arg6 : tensor<4x6xf32>
    %104 = stablehlo.add %101, %103 : tensor<4x6xf32>
    %105 = stablehlo.multiply %79, %79 : tensor<6xf32>
    %cst_29 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %106 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %107 = stablehlo.multiply %106, %105 : tensor<6xf32>
    %cst_30 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %109 = stablehlo.multiply %108, %arg7 : tensor<6xf32>
    %110 = stablehlo.add %107, %109 : tensor<6xf32>
    %111 = stablehlo.multiply %84, %84 : tensor<6x8xf32>
    %cst_31 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %113 = stablehlo.multiply %112, %111 : tensor<6x8xf32>
    %cst_32 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %114 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %115 = stablehlo.multiply %114, %arg8 : tensor<6x8xf32>
    %116 = stablehlo.add %113, %115 : tensor<6x8xf32>
    %117 = stablehlo.multiply %89, %89 : tensor<4x6xf32>
    %cst_33 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %119 = stablehlo.multiply %118, %117 : tensor<4x6xf32>
    %cst_34 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %121 = stablehlo.multiply %120, %arg9 : tensor<4x6xf32>
    %122 = stablehlo.add %119, %121 : tensor<4x6xf32>
    %c_35 = stablehlo.constant dense<2147483647> : tensor<i32>
    %123 = stablehlo.compare LT, %arg3, %c_35, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_36 = stablehlo.constant dense<1> : tensor<i32>
    %124 = stablehlo.add %arg3, %c_36 : tensor<i32>
    %c_37 = stablehlo.constant dense<2147483647> : tensor<i32>
    %125 = call @_where_2(%123, %124, %c_37) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %cst_38 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %126 = stablehlo.convert %125 : (tensor<i32>) -> tensor<f32>
    %127 = stablehlo.power %cst_38, %126 : tensor<f32>
    %cst_39 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %128 = stablehlo.subtract %cst_39, %127 : tensor<f32>
    %129 = stablehlo.broadcast_in_dim %128, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %130 = stablehlo.divide %94, %129 : tensor<6xf32>
    %131 = stablehlo.broadcast_in_dim %128, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %132 = stablehlo.divide %99, %131 : tensor<6x8xf32>
    %133 = stablehlo.broadcast_in_dim %128, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %134 = stablehlo.divide %104, %133 : tensor<4x6xf32>
    %cst_40 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %135 = stablehlo.convert %125 : (tensor<i32>) -> tensor<f32>
    %136 = stablehlo.power %cst_40, %135 : tensor<f32>
    %cst_41 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %137 = stablehlo.subtract %cst_41, %136 : tensor<f32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %139 = stablehlo.divide %110, %138 : tensor<6xf32>
    %140 = stablehlo.broadcast_in_dim %137, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %141 = stablehlo.divide %116, %140 : tensor<6x8xf32>
    %142 = stablehlo.broadcast_in_dim %137, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %143 = stablehlo.divide %122, %142 : tensor<4x6xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %145 = stablehlo.add %139, %144 : tensor<6xf32>
    %146 = stablehlo.sqrt %145 : tensor<6xf32>
    %cst_43 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %148 = stablehlo.add %146, %147 : tensor<6xf32>
    %149 = stablehlo.divide %130, %148 : tensor<6xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %150 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %151 = stablehlo.add %141, %150 : tensor<6x8xf32>
    %152 = stablehlo.sqrt %151 : tensor<6x8xf32>
    %cst_45 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %154 = stablehlo.add %152, %153 : tensor<6x8xf32>
    %155 = stablehlo.divide %132, %154 : tensor<6x8xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %157 = stablehlo.add %143, %156 : tensor<4x6xf32>
    %158 = stablehlo.sqrt %157 : tensor<4x6xf32>
    %cst_47 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %159 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %160 = stablehlo.add %158, %159 : tensor<4x6xf32>
    %161 = stablehlo.divide %134, %160 : tensor<4x6xf32>
    %cst_48 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %162 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %163 = stablehlo.multiply %162, %arg0 : tensor<6xf32>
    %164 = stablehlo.add %149, %163 : tensor<6xf32>
    %cst_49 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %165 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %166 = stablehlo.multiply %165, %arg1 : tensor<6x8xf32>
    %167 = stablehlo.add %155, %166 : tensor<6x8xf32>
    %cst_50 = stablehlo.constant dense<9.99999974E-5> : tensor<f32>
    %168 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %169 = stablehlo.multiply %168, %arg2 : tensor<4x6xf32>
    %170 = stablehlo.add %161, %169 : tensor<4x6xf32>
    %171 = stablehlo.convert %arg10 : (tensor<i32>) -> tensor<f32>
    %cst_51 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %172 = stablehlo.minimum %171, %cst_51 : tensor<f32>
    %cst_52 = stablehlo.constant dense<3.14159274> : tensor<f32>
    %173 = stablehlo.multiply %cst_52, %172 : tensor<f32>
    %cst_53 = stablehlo.constant dense<1.000000e+02> : tensor<f32>
    %174 = stablehlo.divide %173, %cst_53 : tensor<f32>
    %175 = stablehlo.cosine %174 : tensor<f32>
    %cst_54 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %176 = stablehlo.add %cst_54, %175 : tensor<f32>
    %cst_55 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %177 = stablehlo.multiply %cst_55, %176 : tensor<f32>
    %cst_56 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %178 = stablehlo.power %177, %cst_56 : tensor<f32>
    %cst_57 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %179 = stablehlo.multiply %cst_57, %178 : tensor<f32>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %180 = stablehlo.add %179, %cst_58 : tensor<f32>
    %cst_59 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %181 = stablehlo.multiply %cst_59, %180 : tensor<f32>
    %cst_60 = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %182 = stablehlo.multiply %cst_60, %181 : tensor<f32>
    %183 = stablehlo.convert %182 : tensor<f32>
    %184 = stablehlo.broadcast_in_dim %183, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %185 = stablehlo.multiply %184, %164 : tensor<6xf32>
    %186 = stablehlo.convert %182 : tensor<f32>
    %187 = stablehlo.broadcast_in_dim %186, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %188 = stablehlo.multiply %187, %167 : tensor<6x8xf32>
    %189 = stablehlo.convert %182 : tensor<f32>
    %190 = stablehlo.broadcast_in_dim %189, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %191 = stablehlo.multiply %190, %170 : tensor<4x6xf32>
    %c_61 = stablehlo.constant dense<2147483647> : tensor<i32>
    %192 = stablehlo.compare LT, %arg10, %c_61, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_62 = stablehlo.constant dense<1> : tensor<i32>
    %193 = stablehlo.add %arg10, %c_62 : tensor<i32>
    %c_63 = stablehlo.constant dense<2147483647> : tensor<i32>
    %194 = call @_where_2(%192, %193, %c_63) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %195 = stablehlo.add %arg0, %185 : tensor<6xf32>
    %196 = stablehlo.add %arg1, %188 : tensor<6x8xf32>
    %197 = stablehlo.add %arg2, %191 : tensor<4x6xf32>
    return %195, %196, %197, %125, %94, %99, %104, %110, %116, %122, %194, %29 : tensor<6xf32>, tensor<6x8xf32>, tensor<4x6xf32>, tensor<i32>, tensor<6xf32>, tensor<6x8xf32>, tensor<4x6xf32>, tensor<6xf32>, tensor<6x8xf32>, tensor<4x6xf32>, tensor<i32>, tensor<f32>
  }
  func.func private @take_along_axis(%arg0: tensor<3x8xf32>, %arg1: tensor<3x1xi32>) -> (tensor<3x1xf32>, tensor<3x1x1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x1xi1>
    %c_0 = stablehlo.constant dense<8> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<3x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<3x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<3x1xi1>, tensor<3x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<3x1xi32>) -> tensor<3x1x1xi32>
    %c_1 = stablehlo.constant dense<7> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<3x1x1xi32>, tensor<3x1x1xi32>) -> tensor<3x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<3x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<3x1x1xi32>, tensor<3x1x1xi32>) -> tensor<3x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<3x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<3x1x1xi1>, tensor<i1>) -> tensor<3x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<3x8xf32>, tensor<3x1x1xi32>) -> tensor<3x1xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<3x1xi1>, tensor<3x1xf32>
    return %15, %5 : tensor<3x1xf32>, tensor<3x1x1xi32>
  }
  func.func private @_take(%arg0: tensor<3x1xf32>, %arg1: tensor<i32>) -> (tensor<3xf32>, tensor<1xi32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.compare LT, %arg1, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.add %arg1, %c_0 : tensor<i32>
    %2 = call @_where(%0, %1, %arg1) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<1xi32>
    %4 = stablehlo.convert %3 : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %6 = stablehlo.compare GE, %4, %5, SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %7 = stablehlo.compare LE, %4, %c_1, SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %8 = stablehlo.and %6, %7 : tensor<1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %9 = stablehlo.reduce(%8 init: %c_3) applies stablehlo.and across dimensions = [0] : (tensor<1xi1>, tensor<i1>) -> tensor<i1>
    %10 = "stablehlo.gather"(%arg0, %4) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1]>, indices_are_sorted = false, slice_sizes = array<i64: 3, 1>}> : (tensor<3x1xf32>, tensor<1xi32>) -> tensor<3xf32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<3xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %13 = stablehlo.select %11, %10, %12 : tensor<3xi1>, tensor<3xf32>
    return %13, %3 : tensor<3xf32>, tensor<1xi32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @_take_0(%arg0: tensor<1xi32>, %arg1: tensor<3xf32>) -> tensor<3x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x1xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<3x1xf32>, tensor<1xi32>, tensor<3xf32>) -> tensor<3x1xf32>
    return %1 : tensor<3x1xf32>
  }
  func.func private @take_along_axis_1(%arg0: tensor<3x1x1xi32>, %arg1: tensor<3x1xf32>) -> tensor<3x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x8xf32>
    %1 = "stablehlo.scatter"(%0, %arg0, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %2 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<3x8xf32>, tensor<3x1x1xi32>, tensor<3x1xf32>) -> tensor<3x8xf32>
    return %1 : tensor<3x8xf32>
  }
  func.func private @_where_2(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
}

