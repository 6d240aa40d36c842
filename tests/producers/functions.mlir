// By hand, in the style of exporters that put several signatures into one module, as TensorFlow's
// SavedModel and IREE's do: the function is chosen by name.
module attributes {tf_saved_model.semantics} {
  func.func public @encode(%arg0: tensor<2x4xf32> {tf_saved_model.index_path = ["x"]}) -> (tensor<2x3xf32> {tf_saved_model.index_path = ["code"]}) attributes {tf_saved_model.exported_names = ["encode"]} {
    %w = stablehlo.constant dense<0.25> : tensor<4x3xf32>
    %0 = call @project(%arg0, %w) : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.tanh %0 : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
  func.func public @decode(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %w = stablehlo.constant dense<[[1.0, 0.0, 2.0], [0.0, -1.0, 0.5], [0.25, 0.0, 1.0]]> : tensor<3x3xf32>
    %0 = stablehlo.dot_general %arg0, %w, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @project(%arg0: tensor<2x4xf32>, %arg1: tensor<4x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}
