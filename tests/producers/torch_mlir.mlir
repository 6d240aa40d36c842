// By hand, in the style of torch-mlir's StableHLO backend and of exporters of MHLO's time: sizes are
// computed with scalars in the dialects arith, tensor and shape.
module attributes {torch.debug_module_name = "Linear"} {
  func.func @forward(%arg0: tensor<?x3xf32>, %arg1: tensor<?x4xf32>, %arg2: tensor<?x2x2xf32>) -> (tensor<?x4xf32>, tensor<?xf32>, tensor<?x4xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : i64
    %w = stablehlo.constant dense<[[1.0, 2.0, -1.0, 0.5], [0.0, 1.5, -2.0, 1.0], [3.0, 0.25, 1.0, -1.0]]> : tensor<3x4xf32>
    %b = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %0 = stablehlo.dot_general %arg0, %w, contracting_dims = [1] x [0] : (tensor<?x3xf32>, tensor<3x4xf32>) -> tensor<?x4xf32>
    %dim = tensor.dim %0, %c0 : tensor<?x4xf32>
    %1 = arith.index_cast %dim : index to i64
    %s = tensor.from_elements %1, %c4 : tensor<2xi64>
    %2 = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [1] : (tensor<4xf32>, tensor<2xi64>) -> tensor<?x4xf32>
    %3 = stablehlo.add %0, %2 : tensor<?x4xf32>
    %4 = shape.shape_of %3 : tensor<?x4xf32> -> tensor<2xindex>
    %5 = shape.shape_of %arg1 : tensor<?x4xf32> -> tensor<2xindex>
    %6 = shape.broadcast %4, %5 : tensor<2xindex>, tensor<2xindex> -> tensor<2xindex>
    %7 = stablehlo.dynamic_broadcast_in_dim %3, %6, dims = [0, 1] : (tensor<?x4xf32>, tensor<2xindex>) -> tensor<?x4xf32>
    %8 = stablehlo.dynamic_broadcast_in_dim %arg1, %6, dims = [0, 1] : (tensor<?x4xf32>, tensor<2xindex>) -> tensor<?x4xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<?x4xf32>
    %10 = shape.num_elements %6 : tensor<2xindex> -> index
    %11 = tensor.from_elements %10 : tensor<1xindex>
    %12 = stablehlo.dynamic_reshape %9, %11 : (tensor<?x4xf32>, tensor<1xindex>) -> tensor<?xf32>
    %13 = shape.shape_of %arg2 : tensor<?x2x2xf32> -> tensor<3xindex>
    %14 = tensor.extract %13[%c0] : tensor<3xindex>
    %15 = tensor.extract %13[%c1] : tensor<3xindex>
    %16 = arith.muli %15, %15 : index
    %17 = arith.addi %14, %c0 : index
    %18 = tensor.from_elements %17, %16 : tensor<2xindex>
    %19 = stablehlo.dynamic_reshape %arg2, %18 : (tensor<?x2x2xf32>, tensor<2xindex>) -> tensor<?x4xf32>
    return %9, %12, %19 : tensor<?x4xf32>, tensor<?xf32>, tensor<?x4xf32>
  }
}
