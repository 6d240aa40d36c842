// By hand, in the style of exporters that leave dimensions free without a name: `?` in the types,
// sizes read from the arrays themselves.
module {
  func.func @forward(%arg0: tensor<?x3xf32>, %arg1: tensor<?x?xf32>) -> (tensor<?x4xf32>, tensor<?x?xf32>, tensor<i32>) {
    %w = stablehlo.constant dense<[[1.0, 2.0, -1.0, 0.5], [0.0, 1.5, -2.0, 1.0], [3.0, 0.25, 1.0, -1.0]]> : tensor<3x4xf32>
    %b = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %four = stablehlo.constant dense<4> : tensor<1xi32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.dot_general %arg0, %w, contracting_dims = [1] x [0] : (tensor<?x3xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
    %1 = stablehlo.get_dimension_size %0, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
    %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.concatenate %2, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %4 = stablehlo.dynamic_broadcast_in_dim %b, %3, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
    %5 = stablehlo.add %0, %4 : tensor<?x4xf32>
    %6 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<?x?xf32>) -> tensor<?x?xf32>
    %7 = stablehlo.dot_general %6, %arg1, contracting_dims = [1] x [0] : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    %8 = stablehlo.reduce(%7 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<f32>
    %9 = stablehlo.convert %8 : (tensor<f32>) -> tensor<i32>
    %10 = stablehlo.add %9, %1 : tensor<i32>
    return %5, %7, %10 : tensor<?x4xf32>, tensor<?x?xf32>, tensor<i32>
  }
}
