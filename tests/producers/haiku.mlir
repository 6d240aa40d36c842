// By dm-haiku 0.0.17, jax 0.10.2
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xui32>, %arg1: tensor<2x5x4xf32>) -> (tensor<2x5x3xf32> {jax.result_info = "result[0]"}, tensor<1x1x6xf32> {jax.result_info = "result[1]['batch_norm/~/mean_ema']['average']"}, tensor<i32> {jax.result_info = "result[1]['batch_norm/~/mean_ema']['counter']"}, tensor<1x1x6xf32> {jax.result_info = "result[1]['batch_norm/~/mean_ema']['hidden']"}, tensor<1x1x6xf32> {jax.result_info = "result[1]['batch_norm/~/var_ema']['average']"}, tensor<i32> {jax.result_info = "result[1]['batch_norm/~/var_ema']['counter']"}, tensor<1x1x6xf32> {jax.result_info = "result[1]['batch_norm/~/var_ema']['hidden']"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<1x1x6xf32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<1x1x6xf32>
    %cst_2 = stablehlo.constant dense<"0x2D9A18BF99430BBFFFF57D3DB923DABD194769BE2466B1BE5C1EADBE3674B73D1DA9C3BEEF150F3FCC3F6ABD4294923E6360C2BE8B4B65BEAA16E6BDB772083E8C0CB3BEF23BABBC3C6A91BE18D607BF291DA7BEE1BDC6BDB257C63EE84D783E4A9EAEBE8A2227BE72FD763E2585EF3E2260FCBD073E853CB61047BEDA54FCBE73AC82BD677A8C3EDA12C2BECC215BBE10A417BFCB24F2BEADB910BEE67AF6BE753409BF5610EFBEB476A9BD1B5D5CBEB966F23DB2378FBE85D7053FE73B2B3E779DC3BCB6CE6A3E91868B3EB8D6AABEEAC0533E9825CCBEF8D3653D3084E9BE351012BE90FF193E935965BE0B2F933E6C96BEBDAD91BC3B2FF79F3E3C1D8E3E484AF53E7B0B6A3E2833D23E6C53AABEEF993B3E308E463E4EE9B8BE2224BE3EEBCE9FBADD6C03BD26CBAF3BA86A583E496B2E3E9F2081BDDB47FFBD3B245C3EADD4ECBE856A2E3E791393BE7903F1BA531433BECB96CF3EE0B7F1BE5D84A63EB69B5ABE1955E43D836D65BE8B7ADB3CFC3CA53CA2E5DF3C492D4CBD074C533ED4C04DBE8007803D5984C2BE46697B3EA8301A3E792C383EE6B58EBE4DC4F23D21B08DBEDAC781BC5C663E3E7CE8C43E8730433E0434B1BE4F5B0DBF5CFB0B3E8E0B94BE72A5DA3A68993BBE0A3E5EBDD968F7BCA881DA3EA41BCBBDDE6ABABEDFF92BBE358AF9BC8E48AD3E4C57E3BD89491CBE9C8079BE67335F3E089B113DC63B26BDEC511A3EA34A71BE044FCD3E42ECFEBE0FC5073E45EF8B3C3656D23EED7CD8BE9F351B3E2B936DBD5417533E85D36D3D86086F3E29BFC93ED2F0FE3C67D6B9BE053E62BE183DD5BE9B85893E0C2521BD670A30BC8885EEBEA85EB5BC3B1EBABE665E4E3E685797BD3BAE69BCEE14B4BD398A0FBE4958223E8B9CACBC4D7D1A3B93FD413EED168CBEC9D6273E9616393EB52130BEAEAC1FBFA2598C3E304D603E6F873DBEB29D093E66889ABD578CADBEB8FA743DA24A04BE6EB9293DEBC4033F0951E1BE95CDB2BEE09E4A3EA030D2BEFAFFA43E2EE5243DE79BF63EBBFAF33DC04917BDD213A73EFF6A5DBD64F1AEBE3421D53C38D2993E916B633E4B32A03E9D1CBE3D0B9E79BE52F506BE84342E3EB98109BE7A85C03D487DAEBDEB4C3BBE3063ECBE6287D43E2C4ED1BECA053DBE509BA6BBF20494BD0B1AF1BE3A3BA6BD6CD213BF35081DBF26AD213FAF148A3D3FDE7CBD0C94E93E7CEA443EC9D64C3DD9502CBED3F53ABED9A36EBEECE31E3E224120BE3CD3E93EF71E8F3E4EE712BD256D1D3C28A70DBFFE1CB03EE13104BFC948963E84B82D3C2E74EC3E452FE3BD9B30833E4BAE13BF2D6F91BEC570933DE57EFB3DE1464A3E1A7DBABE"> : tensor<10x24xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<24xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<1x1x6xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<1x1x6xf32>
    %cst_6 = stablehlo.constant dense<[[-0.519501269, 0.298965514, 0.569089532, 0.656139731, -0.332053185], [-0.311083317, -0.0780919566, 0.302216232, -0.377683282, 0.102675222], [-0.466178536, -0.118227229, 0.0280808937, 0.523934722, 0.341053098], [0.433271497, -0.459815413, 0.0927268862, -0.627645254, 0.0291887447], [0.210935444, -0.390046716, 0.0560755059, -0.279056042, 0.402632713], [-0.339513659, 0.291867644, 0.0544371679, -0.381222308, -0.234033644]]> : tensor<6x5xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<5xf32>
    %cst_8 = stablehlo.constant dense<[[-8.226230e-01, 0.0225281231, 0.671221315], [-0.178514123, -0.0322010182, -0.180829629], [0.0352295637, 0.0333992802, -0.595180631], [-0.324610829, -0.226826489, -0.00769922696], [0.785024285, -0.132644758, -0.260842443]]> : tensor<5x3xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<6xf32>) -> tensor<2x6xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<6xf32>) -> tensor<2x6xf32>
    %4 = stablehlo.transpose %arg1, dims = [1, 0, 2] : (tensor<2x5x4xf32>) -> tensor<5x2x4xf32>
    %5 = call @_threefry_split(%arg0) : (tensor<2xui32>) -> tensor<2x2xui32>
    %6 = stablehlo.slice %5 [1:2, 0:2] : (tensor<2x2xui32>) -> tensor<1x2xui32>
    %7 = stablehlo.reshape %6 : (tensor<1x2xui32>) -> tensor<2xui32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<5x2x6xf32>
    %c_13 = stablehlo.constant dense<0> : tensor<i32>
    %9:7 = stablehlo.while(%iterArg = %4, %iterArg_33 = %cst_2, %iterArg_34 = %cst_3, %iterArg_35 = %c_13, %iterArg_36 = %2, %iterArg_37 = %3, %iterArg_38 = %8) : tensor<5x2x4xf32>, tensor<10x24xf32>, tensor<24xf32>, tensor<i32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<5x2x6xf32>
    cond {
      %c_39 = stablehlo.constant dense<5> : tensor<i32>
      %68 = stablehlo.compare LT, %iterArg_35, %c_39, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %68 : tensor<i1>
    } do {
      %68 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_35) : (tensor<5x2x4xf32>, tensor<i32>) -> tensor<2x4xf32>
      %69:3 = func.call @closed_call_0(%iterArg_33, %iterArg_34, %iterArg_36, %iterArg_37, %68) : (tensor<10x24xf32>, tensor<24xf32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>)
      %70 = func.call @dynamic_update_index_in_dim(%iterArg_38, %69#2, %iterArg_35) : (tensor<5x2x6xf32>, tensor<2x6xf32>, tensor<i32>) -> tensor<5x2x6xf32>
      %c_39 = stablehlo.constant dense<1> : tensor<i32>
      %71 = stablehlo.add %iterArg_35, %c_39 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_33, %iterArg_34, %71, %69#0, %69#1, %70 : tensor<5x2x4xf32>, tensor<10x24xf32>, tensor<24xf32>, tensor<i32>, tensor<2x6xf32>, tensor<2x6xf32>, tensor<5x2x6xf32>
    }
    %10 = stablehlo.transpose %9#6, dims = [1, 0, 2] : (tensor<5x2x6xf32>) -> tensor<2x5x6xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%10 init: %cst_14) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x5x6xf32>, tensor<f32>) -> tensor<6xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %14 = stablehlo.divide %12, %13 : tensor<1x1x6xf32>
    %15 = chlo.square %10 : tensor<2x5x6xf32> -> tensor<2x5x6xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_16) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x5x6xf32>, tensor<f32>) -> tensor<6xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [2] : (tensor<6xf32>) -> tensor<1x1x6xf32>
    %cst_17 = stablehlo.constant dense<1.000000e+01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %19 = stablehlo.divide %17, %18 : tensor<1x1x6xf32>
    %20 = chlo.square %14 : tensor<1x1x6xf32> -> tensor<1x1x6xf32>
    %21 = stablehlo.subtract %19, %20 : tensor<1x1x6xf32>
    %c_18 = stablehlo.constant dense<1> : tensor<i32>
    %22 = stablehlo.add %c, %c_18 : tensor<i32>
    %cst_19 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %24 = stablehlo.multiply %cst, %23 : tensor<1x1x6xf32>
    %cst_20 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_21 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %25 = stablehlo.subtract %cst_20, %cst_21 : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %27 = stablehlo.multiply %14, %26 : tensor<1x1x6xf32>
    %28 = stablehlo.add %24, %27 : tensor<1x1x6xf32>
    %cst_22 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %29 = stablehlo.convert %22 : (tensor<i32>) -> tensor<f32>
    %30 = stablehlo.power %cst_22, %29 : tensor<f32>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %31 = stablehlo.subtract %cst_23, %30 : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %33 = stablehlo.divide %28, %32 : tensor<1x1x6xf32>
    %c_24 = stablehlo.constant dense<1> : tensor<i32>
    %34 = stablehlo.add %c_0, %c_24 : tensor<i32>
    %cst_25 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %36 = stablehlo.multiply %cst_1, %35 : tensor<1x1x6xf32>
    %cst_26 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_27 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %37 = stablehlo.subtract %cst_26, %cst_27 : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %39 = stablehlo.multiply %21, %38 : tensor<1x1x6xf32>
    %40 = stablehlo.add %36, %39 : tensor<1x1x6xf32>
    %cst_28 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %41 = stablehlo.convert %34 : (tensor<i32>) -> tensor<f32>
    %42 = stablehlo.power %cst_28, %41 : tensor<f32>
    %cst_29 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %43 = stablehlo.subtract %cst_29, %42 : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %45 = stablehlo.divide %40, %44 : tensor<1x1x6xf32>
    %cst_30 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<1x1x6xf32>
    %47 = stablehlo.add %21, %46 : tensor<1x1x6xf32>
    %48 = stablehlo.rsqrt %47 : tensor<1x1x6xf32>
    %49 = stablehlo.multiply %cst_4, %48 : tensor<1x1x6xf32>
    %50 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<2x5x6xf32>
    %51 = stablehlo.subtract %10, %50 : tensor<2x5x6xf32>
    %52 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<2x5x6xf32>
    %53 = stablehlo.multiply %51, %52 : tensor<2x5x6xf32>
    %54 = stablehlo.broadcast_in_dim %cst_5, dims = [0, 1, 2] : (tensor<1x1x6xf32>) -> tensor<2x5x6xf32>
    %55 = stablehlo.add %53, %54 : tensor<2x5x6xf32>
    %cst_31 = stablehlo.constant dense<7.500000e-01> : tensor<f32>
    %56 = call @_bernoulli(%7, %cst_31) : (tensor<2xui32>, tensor<f32>) -> tensor<2x5x6xi1>
    %57 = stablehlo.convert %56 : (tensor<2x5x6xi1>) -> tensor<2x5x6xf32>
    %58 = stablehlo.multiply %57, %55 : tensor<2x5x6xf32>
    %cst_32 = stablehlo.constant dense<7.500000e-01> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x5x6xf32>
    %60 = stablehlo.divide %58, %59 : tensor<2x5x6xf32>
    %61 = stablehlo.dot_general %60, %cst_6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x5x6xf32>, tensor<6x5xf32>) -> tensor<2x5x5xf32>
    %62 = stablehlo.broadcast_in_dim %cst_7, dims = [2] : (tensor<5xf32>) -> tensor<2x5x5xf32>
    %63 = stablehlo.add %61, %62 : tensor<2x5x5xf32>
    %64 = call @relu(%63) : (tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
    %65 = stablehlo.dot_general %64, %cst_8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x5x5xf32>, tensor<5x3xf32>) -> tensor<2x5x3xf32>
    %66 = stablehlo.broadcast_in_dim %cst_9, dims = [2] : (tensor<3xf32>) -> tensor<2x5x3xf32>
    %67 = stablehlo.add %65, %66 : tensor<2x5x3xf32>
    return %67, %33, %22, %28, %45, %34, %40 : tensor<2x5x3xf32>, tensor<1x1x6xf32>, tensor<i32>, tensor<1x1x6xf32>, tensor<1x1x6xf32>, tensor<i32>, tensor<1x1x6xf32>
  }
  func.func private @_threefry_split(%arg0: tensor<2xui32>) -> tensor<2x2xui32> {
    %0 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %1 = stablehlo.reshape %0 : (tensor<1xui32>) -> tensor<ui32>
    %2 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %3 = stablehlo.reshape %2 : (tensor<1xui32>) -> tensor<ui32>
    %4 = stablehlo.iota dim = 0 : tensor<2xui64>
    %c = stablehlo.constant dense<1> : tensor<ui64>
    %5 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<2xui64>
    %6 = stablehlo.multiply %5, %4 : tensor<2xui64>
    %c_0 = stablehlo.constant dense<32> : tensor<ui64>
    %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<2xui64>
    %8 = stablehlo.shift_right_logical %6, %7 : tensor<2xui64>
    %9 = stablehlo.convert %6 : (tensor<2xui64>) -> tensor<2xui32>
    %10 = stablehlo.convert %8 : (tensor<2xui64>) -> tensor<2xui32>
    %11:2 = call @threefry2x32(%1, %3, %10, %9) : (tensor<ui32>, tensor<ui32>, tensor<2xui32>, tensor<2xui32>) -> (tensor<2xui32>, tensor<2xui32>)
    %12 = stablehlo.broadcast_in_dim %11#0, dims = [0] : (tensor<2xui32>) -> tensor<2x1xui32>
    %13 = stablehlo.broadcast_in_dim %11#1, dims = [0] : (tensor<2xui32>) -> tensor<2x1xui32>
    %14 = stablehlo.concatenate %12, %13, dim = 1 : (tensor<2x1xui32>, tensor<2x1xui32>) -> tensor<2x2xui32>
    return %14 : tensor<2x2xui32>
  }
  func.func private @threefry2x32(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<2xui32>, %arg3: tensor<2xui32>) -> (tensor<2xui32>, tensor<2xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<2xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<2xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<2xui32>, tensor<2xui32>
  }
  func.func private @closed_call(%arg0: tensor<i32>, %arg1: tensor<2xui32>, %arg2: tensor<2xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2xui32>
    %9 = stablehlo.or %5, %8 : tensor<2xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2xui32>
    %19 = stablehlo.or %15, %18 : tensor<2xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2xui32>
    %29 = stablehlo.or %25, %28 : tensor<2xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2xui32>
    %39 = stablehlo.or %35, %38 : tensor<2xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %42 = stablehlo.add %33, %41 : tensor<2xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %44 = stablehlo.add %40, %43 : tensor<2xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    %48 = stablehlo.add %44, %47 : tensor<2xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2xui32>, tensor<2xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5x2x4xf32>, %arg1: tensor<i32>) -> tensor<2x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 2, 4] : (tensor<5x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func private @closed_call_0(%arg0: tensor<10x24xf32>, %arg1: tensor<24xf32>, %arg2: tensor<2x6xf32>, %arg3: tensor<2x6xf32>, %arg4: tensor<2x4xf32>) -> (tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>) {
    %0 = stablehlo.concatenate %arg4, %arg2, dim = 1 : (tensor<2x4xf32>, tensor<2x6xf32>) -> tensor<2x10xf32>
    %1 = stablehlo.dot_general %0, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x10xf32>, tensor<10x24xf32>) -> tensor<2x24xf32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<24xf32>) -> tensor<2x24xf32>
    %3 = stablehlo.add %1, %2 : tensor<2x24xf32>
    %4 = stablehlo.slice %3 [0:2, 0:6] : (tensor<2x24xf32>) -> tensor<2x6xf32>
    %5 = stablehlo.slice %3 [0:2, 6:12] : (tensor<2x24xf32>) -> tensor<2x6xf32>
    %6 = stablehlo.slice %3 [0:2, 12:18] : (tensor<2x24xf32>) -> tensor<2x6xf32>
    %7 = stablehlo.slice %3 [0:2, 18:24] : (tensor<2x24xf32>) -> tensor<2x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %9 = stablehlo.add %6, %8 : tensor<2x6xf32>
    %10 = stablehlo.negate %9 : tensor<2x6xf32>
    %11 = stablehlo.exponential %10 : tensor<2x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %13 = stablehlo.add %12, %11 : tensor<2x6xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %15 = stablehlo.divide %14, %13 : tensor<2x6xf32>
    %16 = stablehlo.multiply %15, %arg3 : tensor<2x6xf32>
    %17 = stablehlo.negate %4 : tensor<2x6xf32>
    %18 = stablehlo.exponential %17 : tensor<2x6xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %20 = stablehlo.add %19, %18 : tensor<2x6xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %22 = stablehlo.divide %21, %20 : tensor<2x6xf32>
    %23 = stablehlo.tanh %5 : tensor<2x6xf32>
    %24 = stablehlo.multiply %22, %23 : tensor<2x6xf32>
    %25 = stablehlo.add %16, %24 : tensor<2x6xf32>
    %26 = stablehlo.negate %7 : tensor<2x6xf32>
    %27 = stablehlo.exponential %26 : tensor<2x6xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %29 = stablehlo.add %28, %27 : tensor<2x6xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %31 = stablehlo.divide %30, %29 : tensor<2x6xf32>
    %32 = stablehlo.tanh %25 : tensor<2x6xf32>
    %33 = stablehlo.multiply %31, %32 : tensor<2x6xf32>
    return %33, %25, %33 : tensor<2x6xf32>, tensor<2x6xf32>, tensor<2x6xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<5x2x6xf32>, %arg1: tensor<2x6xf32>, %arg2: tensor<i32>) -> tensor<5x2x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<2x6xf32>) -> tensor<1x2x6xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<5x2x6xf32>, tensor<1x2x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x2x6xf32>
    return %1 : tensor<5x2x6xf32>
  }
  func.func private @_bernoulli(%arg0: tensor<2xui32>, %arg1: tensor<f32>) -> tensor<2x5x6xi1> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<2x5x6xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<2x5x6xf32>
    %2 = stablehlo.compare LT, %0, %1, FLOAT : (tensor<2x5x6xf32>, tensor<2x5x6xf32>) -> tensor<2x5x6xi1>
    return %2 : tensor<2x5x6xi1>
  }
  func.func private @_uniform(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<2x5x6xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.convert %arg2 : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %4 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %7 = stablehlo.reshape %6 : (tensor<1xui32>) -> tensor<ui32>
    %8 = stablehlo.iota dim = 0 : tensor<2x5x6xui64>
    %9 = stablehlo.iota dim = 1 : tensor<2x5x6xui64>
    %10 = stablehlo.iota dim = 2 : tensor<2x5x6xui64>
    %c = stablehlo.constant dense<30> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<2x5x6xui64>
    %12 = stablehlo.multiply %11, %8 : tensor<2x5x6xui64>
    %c_0 = stablehlo.constant dense<6> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<2x5x6xui64>
    %14 = stablehlo.multiply %13, %9 : tensor<2x5x6xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %15 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<2x5x6xui64>
    %16 = stablehlo.multiply %15, %10 : tensor<2x5x6xui64>
    %17 = stablehlo.add %12, %14 : tensor<2x5x6xui64>
    %18 = stablehlo.add %17, %16 : tensor<2x5x6xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %19 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<2x5x6xui64>
    %20 = stablehlo.shift_right_logical %18, %19 : tensor<2x5x6xui64>
    %21 = stablehlo.convert %18 : (tensor<2x5x6xui64>) -> tensor<2x5x6xui32>
    %22 = stablehlo.convert %20 : (tensor<2x5x6xui64>) -> tensor<2x5x6xui32>
    %23:2 = call @threefry2x32_1(%5, %7, %22, %21) : (tensor<ui32>, tensor<ui32>, tensor<2x5x6xui32>, tensor<2x5x6xui32>) -> (tensor<2x5x6xui32>, tensor<2x5x6xui32>)
    %24 = stablehlo.xor %23#0, %23#1 : tensor<2x5x6xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %26 = stablehlo.shift_right_logical %24, %25 : tensor<2x5x6xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %28 = stablehlo.or %26, %27 : tensor<2x5x6xui32>
    %29 = stablehlo.bitcast_convert %28 : (tensor<2x5x6xui32>) -> tensor<2x5x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x6xf32>
    %31 = stablehlo.subtract %29, %30 : tensor<2x5x6xf32>
    %32 = stablehlo.subtract %3, %2 : tensor<1x1x1xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x5x6xf32>
    %34 = stablehlo.multiply %31, %33 : tensor<2x5x6xf32>
    %35 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x5x6xf32>
    %36 = stablehlo.add %34, %35 : tensor<2x5x6xf32>
    %37 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x5x6xf32>
    %38 = stablehlo.maximum %37, %36 : tensor<2x5x6xf32>
    return %38 : tensor<2x5x6xf32>
  }
  func.func private @threefry2x32_1(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<2x5x6xui32>, %arg3: tensor<2x5x6xui32>) -> (tensor<2x5x6xui32>, tensor<2x5x6xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<2x5x6xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<2x5x6xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2x5x6xui32>, tensor<2x5x6xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call_2(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2x5x6xui32>, tensor<2x5x6xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2x5x6xui32>, tensor<2x5x6xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<2x5x6xui32>, tensor<2x5x6xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<2x5x6xui32>, tensor<2x5x6xui32>
  }
  func.func private @closed_call_2(%arg0: tensor<i32>, %arg1: tensor<2x5x6xui32>, %arg2: tensor<2x5x6xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2x5x6xui32>, tensor<2x5x6xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2x5x6xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2x5x6xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2x5x6xui32>
    %9 = stablehlo.or %5, %8 : tensor<2x5x6xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2x5x6xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2x5x6xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2x5x6xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2x5x6xui32>
    %19 = stablehlo.or %15, %18 : tensor<2x5x6xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2x5x6xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2x5x6xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2x5x6xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2x5x6xui32>
    %29 = stablehlo.or %25, %28 : tensor<2x5x6xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2x5x6xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2x5x6xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2x5x6xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2x5x6xui32>
    %39 = stablehlo.or %35, %38 : tensor<2x5x6xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2x5x6xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %42 = stablehlo.add %33, %41 : tensor<2x5x6xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %44 = stablehlo.add %40, %43 : tensor<2x5x6xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2x5x6xui32>
    %48 = stablehlo.add %44, %47 : tensor<2x5x6xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2x5x6xui32>, tensor<2x5x6xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @relu(%arg0: tensor<2x5x5xf32>) -> tensor<2x5x5xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x5x5xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x5x5xf32>
    return %1 : tensor<2x5x5xf32>
  }
}

