// By hand, in the style of Reactant.jl: arrays come with their axes reversed, arguments carry
// attributes of its own dialects, and what it overwrites is aliased.
module @"reactant_step!" attributes {mhlo.num_partitions = 1 : i64, mhlo.num_replicas = 1 : i64} {
  func.func private @"*_broadcast_scalar"(%arg0: tensor<f64>, %arg1: tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>) {
    %0 = stablehlo.multiply %arg0, %arg1 : tensor<f64>
    return %0, %arg0, %arg1 : tensor<f64>, tensor<f64>, tensor<f64>
  }
  func.func @main(%arg0: tensor<5x3xf64> {tf.aliasing_output = 1 : i32}, %arg1: tensor<3x3xf64>, %arg2: tensor<f64>) -> (tensor<f64>, tensor<5x3xf64>) attributes {enzymexla.memory_effects = ["read", "write"]} {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<5x3xf64>) -> tensor<3x5xf64>
    %1 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
    %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x3xf64>, tensor<3x5xf64>) -> tensor<3x5xf64>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3x5xf64>
    %4 = stablehlo.multiply %2, %3 : tensor<3x5xf64>
    %5:3 = call @"*_broadcast_scalar"(%arg2, %arg2) : (tensor<f64>, tensor<f64>) -> (tensor<f64>, tensor<f64>, tensor<f64>)
    %6 = stablehlo.reduce(%4 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x5xf64>, tensor<f64>) -> tensor<f64>
    %7 = stablehlo.add %6, %5#0 : tensor<f64>
    %8 = stablehlo.transpose %4, dims = [1, 0] : (tensor<3x5xf64>) -> tensor<5x3xf64>
    return %7, %8 : tensor<f64>, tensor<5x3xf64>
  }
}
