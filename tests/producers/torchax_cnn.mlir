// By torchax 0.0.13, torch 2.13.0+cpu, jax 0.10.2
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x8x8xf32>) -> (tensor<2x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<"0x8BDABCBAC56ED33D543222BEDB0711BECCCD97BDC461533D56E479BBFC401C3ED7E88BBC6E96503D293A6EBD9CF21ABDFC443CBEE48302BE0379A2BDB69AE93B09D19B3DDD7DEC3DE29905BEE2A1ABBD58288F3DC5A4233E2D3A22BD0E78133E221DFEBC43D2A63CF270323EA2D036BEEC1FF8BD619047BD88A299BD87442A3EDB78FFBD416FB5BD28AE09BE299138BEFD12E6BD6966293E1CDFAF3D1C07BF3D9AD3253C6511CABD395D053D8F0038BE34650EBE9A30CBBD2EADF83D6317E73D54CCAEBDFC8AE3BB3613FC3DA8E9433E206D9C3D15FBD43CCB21043EBA11E8BDF4E3123DE2C918BEF29508BEE89ACBBD3456B23DB1819E3DF077E9BDC6246E3DE15ED83DF6FCC6BCD7C7F03BADA5363D8C83F43D72393D3EAEDD17BE887090BD6AE69A3D0448233EA57D2B3E94E22D3ED9E01C3D215E2BBEE807913C2093F6BDC0A837BE1F182F3EE0D7153EEC9444BE0C8B133DFCCA04BD34B801BD566BB4BD7091973DFF72E9BDCD7C903D9451C73D76130D3E5D5F933DC90B43BE0CADFFBD86CCC43DB5FC243DF5BA19BEC5F3E2BD7664393EDEC9043E9FDAABBDA06546BD3ABA3BBE7BB262BB8C6714BEAA0218BE"> : tensor<4x3x3x3xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_4 = stablehlo.constant dense<[[[[-0.0129871015, 0.0353895277, -0.0965272113], [0.139860436, -0.143434048, 0.213869184], [0.161526725, -0.198763698, -0.0586625971]], [[0.0106355045, 0.0343892165, 0.0559025109], [0.0924962312, 0.0141186044, -0.11500591], [0.11153172, -0.226097137, -0.139702305]]], [[[-0.0590033121, -0.114813723, -0.0824565142], [-0.193186685, -0.0501374416, 0.0503828786], [-0.153551951, -0.0120960893, 0.168727666]], [[-0.0242302511, 0.00655068783, -0.0203337744], [0.0477017462, 0.149868801, 0.223268077], [0.149684116, 0.223778918, -0.0170463771]]], [[[-0.211736411, -0.111741073, 0.1604909], [-0.00152793562, -0.117154948, -0.180621415], [-0.22058244, -0.198934644, -0.0478090793]], [[0.12926054, 0.12743032, -0.227318779], [0.147026837, -0.184439242, -0.0498298816], [-0.0955708176, -0.0453998558, -0.0462784208]]], [[[-0.21150741, -0.203514263, -0.0368825682], [0.00304814428, -0.10707362, 0.0887888521], [-0.21214579, -0.0159068946, 0.207281157]], [[-0.0961410626, 0.212839872, 0.0853604599], [-0.212712079, 0.149128199, -0.0271987375], [-0.105219103, 0.188480094, -0.190469876]]]]> : tensor<4x2x3x3xf32>
    %cst_5 = stablehlo.constant dense<[0.0252920147, -0.0493486784, 0.168317959, 6.579500e-02]> : tensor<4xf32>
    %cst_6 = stablehlo.constant dense<[[0.240252674, 0.176579475, -0.12023735, -0.105152726], [-0.41204071, 0.270922065, 0.396989048, 0.342112422], [-0.352689147, 0.0222999454, -0.35246706, -0.27524209]]> : tensor<3x4xf32>
    %cst_7 = stablehlo.constant dense<[-0.291352749, 0.170872509, -0.297956586]> : tensor<3xf32>
    %0 = stablehlo.convolution(%arg0, %cst) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x8x8xf32>
    %1 = stablehlo.reshape %cst_0 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x4x1x1xf32>
    %3 = stablehlo.add %1, %2 : tensor<1x4x1x1xf32>
    %4 = stablehlo.rsqrt %3 : tensor<1x4x1x1xf32>
    %5 = stablehlo.reshape %cst_1 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
    %7 = stablehlo.subtract %0, %6 : tensor<2x4x8x8xf32>
    %8 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
    %9 = stablehlo.multiply %7, %8 : tensor<2x4x8x8xf32>
    %10 = stablehlo.reshape %cst_2 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<2x4x8x8xf32>
    %13 = stablehlo.reshape %cst_3 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<2x4x8x8xf32>
    %15 = stablehlo.add %12, %14 : tensor<2x4x8x8xf32>
    %16 = call @relu(%15) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<f32>
    %18 = "stablehlo.reduce_window"(%16, %17) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %39 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
      stablehlo.return %39 : tensor<f32>
    }) : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x4x4xf32>
    %19 = stablehlo.convolution(%18, %cst_4) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<2x4x1x1xf32>
    %20 = stablehlo.reshape %cst_5 : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<1x4x1x1xf32>) -> tensor<2x4x1x1xf32>
    %22 = stablehlo.add %19, %21 : tensor<2x4x1x1xf32>
    %cst_10 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x4x1x1xf32>
    %24 = stablehlo.multiply %23, %22 : tensor<2x4x1x1xf32>
    %25 = stablehlo.negate %22 : tensor<2x4x1x1xf32>
    %cst_11 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x4x1x1xf32>
    %27 = stablehlo.multiply %25, %26 : tensor<2x4x1x1xf32>
    %28 = chlo.erfc %27 : tensor<2x4x1x1xf32> -> tensor<2x4x1x1xf32>
    %29 = stablehlo.multiply %24, %28 : tensor<2x4x1x1xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_12) applies stablehlo.add across dimensions = [3, 2] : (tensor<2x4x1x1xf32>, tensor<f32>) -> tensor<2x4xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x1x1xf32>
    %cst_13 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x4x1x1xf32>
    %33 = stablehlo.divide %31, %32 : tensor<2x4x1x1xf32>
    %34 = stablehlo.reshape %33 : (tensor<2x4x1x1xf32>) -> tensor<2x4xf32>
    %35 = stablehlo.dot_general %34, %cst_6, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>
    %36 = stablehlo.broadcast_in_dim %cst_7, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %38 = stablehlo.add %35, %37 : tensor<2x3xf32>
    return %38 : tensor<2x3xf32>
  }
  func.func private @relu(%arg0: tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x8x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x4x8x8xf32>
    return %1 : tensor<2x4x8x8xf32>
  }
}

