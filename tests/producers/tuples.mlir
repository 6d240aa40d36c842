// By hand, in the style of XLA's own exporter and of older PyTorch/XLA: a tuple is returned, and
// another one is taken apart on the way.
module @IrToHlo.24 attributes {mhlo.cross_program_prefetches = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false, mhlo.input_output_alias = []} {
  func.func private @split(%arg0: tensor<4x6xf32>) -> tuple<tensor<4x3xf32>, tensor<4x3xf32>> {
    %0 = stablehlo.slice %arg0 [0:4, 0:3] : (tensor<4x6xf32>) -> tensor<4x3xf32>
    %1 = stablehlo.slice %arg0 [0:4, 3:6] : (tensor<4x6xf32>) -> tensor<4x3xf32>
    %2 = stablehlo.tuple %0, %1 {xla_shape = "(f32[4,3]{1,0}, f32[4,3]{1,0})"} : tuple<tensor<4x3xf32>, tensor<4x3xf32>>
    return %2 : tuple<tensor<4x3xf32>, tensor<4x3xf32>>
  }
  func.func @main(%arg0: tensor<4x6xf32>, %arg1: tensor<3xi64>) -> tuple<tensor<4x3xf32>, tuple<tensor<3xi64>, tensor<4x3xi1>>> {
    %0 = call @split(%arg0) : (tensor<4x6xf32>) -> tuple<tensor<4x3xf32>, tensor<4x3xf32>>
    %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<4x3xf32>, tensor<4x3xf32>>) -> tensor<4x3xf32>
    %2 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<4x3xf32>, tensor<4x3xf32>>) -> tensor<4x3xf32>
    %3 = stablehlo.logistic %2 : tensor<4x3xf32>
    %4 = stablehlo.multiply %1, %3 : tensor<4x3xf32>
    %5 = stablehlo.compare GT, %1, %2, FLOAT : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>
    %6 = stablehlo.add %arg1, %arg1 : tensor<3xi64>
    %7 = stablehlo.tuple %6, %5 : tuple<tensor<3xi64>, tensor<4x3xi1>>
    %8 = stablehlo.tuple %4, %7 : tuple<tensor<4x3xf32>, tuple<tensor<3xi64>, tensor<4x3xi1>>>
    return %8 : tuple<tensor<4x3xf32>, tuple<tensor<3xi64>, tensor<4x3xi1>>>
  }
}
