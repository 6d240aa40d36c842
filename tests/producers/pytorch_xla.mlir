// By hand, in the style of PyTorch/XLA 2.x (exported_program_to_stablehlo): weights and scalars are
// arguments, @xla_mark_tensor marks the bounds of a pattern (scaled_dot_product_attention) and a
// @Sharding is left over.
module @IrToHlo.82 attributes {mhlo.cross_program_prefetches = [], mhlo.frontend_attributes = {}, mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.num_partitions = 1 : i32, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<8xf32> {mhlo.sharding = "{replicated}"}, %arg1: tensor<8x8xf32>, %arg2: tensor<2x5x8xf32>) -> (tensor<2x5x8xf32>, tensor<i64>) {
    %scale = stablehlo.constant dense<0.353553385> : tensor<f32>
    %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %count = stablehlo.constant dense<5> : tensor<i64>
    %0 = stablehlo.custom_call @Sharding(%arg2) {backend_config = "", mhlo.sharding = "{replicated}"} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x5x8xf32>) -> tensor<10x8xf32>
    %2 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f32[8,8]{0,1}"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<10x8xf32>, tensor<8x8xf32>) -> tensor<10x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<10x8xf32>) -> tensor<2x5x8xf32>
    %5 = stablehlo.custom_call @xla_mark_tensor(%4) {backend_config = "{\22name\22: \22sdpa\22, \22pos\22: 0, \22id\22: \220\22, \22is_input\22: true, \22attr\22: {\22scale\22: 0.35}}"} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    %6 = stablehlo.dot_general %5, %5, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x5xf32>
    %7 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<f32>) -> tensor<2x5x5xf32>
    %8 = stablehlo.multiply %6, %7 : tensor<2x5x5xf32>
    %9 = stablehlo.reduce(%8 init: %lowest) applies stablehlo.maximum across dimensions = [2] : (tensor<2x5x5xf32>, tensor<f32>) -> tensor<2x5xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x5xf32>
    %11 = stablehlo.subtract %8, %10 : tensor<2x5x5xf32>
    %12 = stablehlo.exponential %11 : tensor<2x5x5xf32>
    %13 = stablehlo.reduce(%12 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x5x5xf32>, tensor<f32>) -> tensor<2x5xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<2x5xf32>) -> tensor<2x5x5xf32>
    %15 = stablehlo.divide %12, %14 : tensor<2x5x5xf32>
    %16 = stablehlo.dot_general %15, %5, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x5x5xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    %17 = stablehlo.custom_call @xla_mark_tensor(%16) {backend_config = "{\22name\22: \22sdpa\22, \22pos\22: 0, \22id\22: \220\22, \22is_input\22: false}"} : (tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
    %18 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<8xf32>) -> tensor<2x5x8xf32>
    %19 = stablehlo.add %17, %18 : tensor<2x5x8xf32>
    return %19, %count : tensor<2x5x8xf32>, tensor<i64>
  }
}
