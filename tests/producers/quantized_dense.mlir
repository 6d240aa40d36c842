// By hand, as TensorFlow's StableHLO quantizer writes dense layers: int8, a bias in the accumulator's scales
module @quantized_dense {
  func.func public @main(%x: tensor<6x8xf32>) -> tensor<6x4xf32> {
    %w = stablehlo.constant() <{value = dense<[[12, -53, 88, 101], [-127, 45, 3, -9], [77, 64, -31, 20], [5, -118, 92, 47], [-66, 18, 127, -84], [39, -2, -105, 58], [110, 71, 26, -13], [-44, 95, -73, 36]]> : tensor<8x4xi8>}> : () -> tensor<8x4x!quant.uniform<i8<-127:127>:f32:1, {0.02,0.01,0.035,0.04}>>
    %bias = stablehlo.constant() <{value = dense<[120, -4500, 310, 77]> : tensor<4xi32>}> : () -> tensor<4x!quant.uniform<i32:f32:0, {0.01,0.005,0.0175,0.02}>>
    %q = stablehlo.uniform_quantize %x : (tensor<6x8xf32>) -> tensor<6x8x!quant.uniform<i8:f32, 5.000000e-01:-3>>
    %y = stablehlo.dot_general %q, %w, contracting_dims = [1] x [0] : (tensor<6x8x!quant.uniform<i8:f32, 5.000000e-01:-3>>, tensor<8x4x!quant.uniform<i8<-127:127>:f32:1, {0.02,0.01,0.035,0.04}>>) -> tensor<6x4x!quant.uniform<i32:f32:1, {0.01,0.005,0.0175,0.02}>>
    %b = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<4x!quant.uniform<i32:f32:0, {0.01,0.005,0.0175,0.02}>>) -> tensor<6x4x!quant.uniform<i32:f32:1, {0.01,0.005,0.0175,0.02}>>
    %z = stablehlo.add %y, %b : tensor<6x4x!quant.uniform<i32:f32:1, {0.01,0.005,0.0175,0.02}>>
    %r = stablehlo.uniform_quantize %z : (tensor<6x4x!quant.uniform<i32:f32:1, {0.01,0.005,0.0175,0.02}>>) -> tensor<6x4x!quant.uniform<i8:f32, 2.500000e-01:7>>
    %d = stablehlo.uniform_dequantize %r : (tensor<6x4x!quant.uniform<i8:f32, 2.500000e-01:7>>) -> tensor<6x4xf32>
    return %d : tensor<6x4xf32>
  }
}
