// By keras 3.15.1, jax 0.10.2
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x12x12x3xf32>) -> (tensor<2x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<"0xFFB5C63D9C39F33D300A95BE8F059BBEAA6A30BD44AE05BE325BE63C6DCADDBDE8763F3E17D14E3E56B657BED3D79F3D9BFE9CBEACFC973DC20C8EBE84CFE13D699D8E39189F063EE06B443E1054503E690946BE87E450BE97F66C3E7C9F1DBDA675263CA603133EB9D99EBCD4B391BE4ADD8F3E4FF7463DF6D986BEA96AC63CA3F338BEB42785BED71E4DBEA75A5FBEE50B893E782137BE5EEF0CBD2F4AA53DE3BF77BE1400C2BC8B4E81BCFE838B3E733E6A3DC2B936BD77667B3E39C010BEBCEB893EF7091DBD180893BE13C19CBE414A8BBEFC17433EBF84ACBD437D62BDD0D48D3D66F1973E4357033EE7E63C3DABEC62BE3F79303DD8F571BD0E8EEFBD58E7C93D34B7C53DAE5F1DBDAC31AEBC522A83BE23BB723E83FBCD3D2D6453BE43CC76BE8C113F3D4310783E302FCCBDCB4B8D3C101DE1BDE6BEF23BC47F1E3E72D51A3C5BD08F3D69252FBE1803673E963112BEE8E5243E77E890BE7B84D33DC989CABC1EC95D3E428C243E63870A3D8DF6773DE96A99BD64D45C3E330D573E4B479A3E5D827CBEAC868CBE0F505A3CCDA17CBEA70F18BC74620F3EFF87A4BDC70A933E188FBD3D0F816BBE759A563E"> : tensor<3x3x3x4xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_5 = stablehlo.constant dense<[[[[-0.22462815], [0.300991386], [0.122342475], [0.0323144197]], [[-0.364332974], [0.206922784], [0.0599447638], [0.0921239778]], [[-0.229218021], [-0.194345921], [-0.0377449319], [0.341153055]]], [[[0.265404701], [-0.352464259], [-0.295067847], [0.0218325313]], [[0.160690904], [0.355537921], [-0.0509063862], [-0.237764522]], [[-0.276926756], [0.307785213], [0.301635355], [-0.311576515]]], [[[0.0162440073], [0.271787822], [0.122252807], [-0.334147841]], [[0.36287877], [-0.0192623138], [-0.0198251437], [0.28734988]], [[0.145905718], [0.0416770019], [0.0771926343], [0.00416590692]]]]> : tensor<3x3x4x1xf32>
    %cst_6 = stablehlo.constant dense<[[[[0.344252974, -0.648208618, -0.39350003, 0.118184291, 0.347714424, -0.70436132], [-0.0498001501, 0.40454343, 0.690054297, -0.324214101, -0.42238906, 0.622715473], [-0.218513876, -0.127683029, -0.284048051, -0.483285427, -0.48387897, 0.0941218212], [0.750485659, 0.758102715, 0.566372156, 0.396868378, -0.650620341, -0.0367408134]]]]> : tensor<1x1x4x6xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<6xf32>
    %cst_8 = stablehlo.constant dense<[[0.0540417731, 0.753029406, 0.382119983], [-0.657403051, -0.277621239, 0.792249739], [0.544341087, 0.772002339, -0.0196458902], [-0.577679098, 0.64675492, 0.345369399], [-0.462637573, -0.63933438, 0.431847304], [0.395662636, -0.408796489, -0.310354471]]> : tensor<6x3xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
    %0 = stablehlo.convolution(%arg0, %cst) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x12x12x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x12x12x4xf32>
    %1 = stablehlo.reshape %cst_0 : (tensor<4xf32>) -> tensor<1x1x1x4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xf32>) -> tensor<2x12x12x4xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x12x12x4xf32>
    %4 = call @relu(%3) : (tensor<2x12x12x4xf32>) -> tensor<2x12x12x4xf32>
    %5 = stablehlo.reshape %cst_1 : (tensor<4xf32>) -> tensor<1x1x1x4xf32>
    %6 = stablehlo.reshape %cst_2 : (tensor<4xf32>) -> tensor<1x1x1x4xf32>
    %cst_10 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x1x1x4xf32>
    %8 = stablehlo.add %6, %7 : tensor<1x1x1x4xf32>
    %9 = stablehlo.rsqrt %8 : tensor<1x1x1x4xf32>
    %10 = stablehlo.reshape %cst_3 : (tensor<4xf32>) -> tensor<1x1x1x4xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<1x1x1x4xf32>
    %12 = stablehlo.negate %5 : tensor<1x1x1x4xf32>
    %13 = stablehlo.multiply %12, %11 : tensor<1x1x1x4xf32>
    %14 = stablehlo.reshape %cst_4 : (tensor<4xf32>) -> tensor<1x1x1x4xf32>
    %15 = stablehlo.add %13, %14 : tensor<1x1x1x4xf32>
    %16 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xf32>) -> tensor<2x12x12x4xf32>
    %17 = stablehlo.multiply %4, %16 : tensor<2x12x12x4xf32>
    %18 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xf32>) -> tensor<2x12x12x4xf32>
    %19 = stablehlo.add %17, %18 : tensor<2x12x12x4xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<f32>
    %21 = "stablehlo.reduce_window"(%19, %20) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %47 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
      stablehlo.return %47 : tensor<f32>
    }) : (tensor<2x12x12x4xf32>, tensor<f32>) -> tensor<2x6x6x4xf32>
    %22 = stablehlo.reshape %cst_5 : (tensor<3x3x4x1xf32>) -> tensor<3x3x1x4xf32>
    %23 = stablehlo.convolution(%21, %22) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x6x6x4xf32>, tensor<3x3x1x4xf32>) -> tensor<2x4x4x4xf32>
    %24 = stablehlo.convolution(%23, %cst_6) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x4xf32>, tensor<1x1x4x6xf32>) -> tensor<2x4x4x6xf32>
    %25 = stablehlo.reshape %cst_7 : (tensor<6xf32>) -> tensor<1x1x1x6xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3] : (tensor<1x1x1x6xf32>) -> tensor<2x4x4x6xf32>
    %27 = stablehlo.add %24, %26 : tensor<2x4x4x6xf32>
    %28 = call @silu(%27) : (tensor<2x4x4x6xf32>) -> tensor<2x4x4x6xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %29 = stablehlo.reduce(%28 init: %cst_12) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x4x4x6xf32>, tensor<f32>) -> tensor<2x6xf32>
    %cst_13 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %31 = stablehlo.divide %29, %30 : tensor<2x6xf32>
    %32 = stablehlo.dot_general %31, %cst_8, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
    %33 = stablehlo.broadcast_in_dim %cst_9, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %35 = stablehlo.add %32, %34 : tensor<2x3xf32>
    %cst_14 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %36 = stablehlo.reduce(%35 init: %cst_14) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %cst_15 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %38 = stablehlo.maximum %37, %36 : tensor<2xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %41 = stablehlo.subtract %35, %40 : tensor<2x3xf32>
    %42 = stablehlo.exponential %41 : tensor<2x3xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %43 = stablehlo.reduce(%42 init: %cst_16) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x3xf32>
    %46 = stablehlo.divide %42, %45 : tensor<2x3xf32>
    return %46 : tensor<2x3xf32>
  }
  func.func private @relu(%arg0: tensor<2x12x12x4xf32>) -> tensor<2x12x12x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x12x12x4xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x12x12x4xf32>
    return %1 : tensor<2x12x12x4xf32>
  }
  func.func private @silu(%arg0: tensor<2x4x4x6xf32>) -> tensor<2x4x4x6xf32> {
    %0 = stablehlo.negate %arg0 : tensor<2x4x4x6xf32>
    %1 = stablehlo.exponential %0 : tensor<2x4x4x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x4x6xf32>
    %3 = stablehlo.add %2, %1 : tensor<2x4x4x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4x4x6xf32>
    %5 = stablehlo.divide %4, %3 : tensor<2x4x4x6xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<2x4x4x6xf32>
    return %6 : tensor<2x4x4x6xf32>
  }
}

