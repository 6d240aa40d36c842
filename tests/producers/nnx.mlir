// By flax 0.12.8, jax 0.10.2
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6xi32>) -> (tensor<2x6x16xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<"0xF9BEB53E8710A4BE036F87BE410AD4BEC1B59DBEA22E553E9A0B833E31A7B9BEB664163FF3272BBF6B52E9BEC57B413DEFB8D0BEDE44AD3D04EC1D3F1CD6363EA56E573E882F2BBE83BFA53E04C5023E8E9765BE61939DBE6B48893EA365C03E1B6EA43E2B3D32BE91D5A03E7DEC143FCEB563BF13F11F3E007C243F5E5CD4BE5A2355BEAA52423FE627913EE0F88EBD1B781DBF57B194BE5AD855BF9F870C3FD268FE3EA0B3FD3D91E9B43CDEA2CF3E83D599BD6FF3F5BD4064793E96A2F5BDFD1F323E0536993DF60E24BF21892A3F51FE983EB7C2183FFEFE143FD5AC8BBECBC9DA3E0DCEAFBE25DDC13E224D80BDF7599C3ED9B2123EB8C860BEB2D2A63D7AC360BF1B6C81BECFB687BD0CDA573F188F22BFB597BBBEFE88E5BE63D507BF70D0F63C980D233FC949E73E7631323E73B13F3EEA257A3EC984993EA4C839BD4A1D72BEC2D8063FC0376EBD69AD21BF82C85CBEB1FA2A3FF6FC06BEEA55733F84CD3DBE8C7FF83E301B94BEFAC1D43E87ACF03D18DC503DB8C9273F0C0911BECF5101BF06FC743E5CDBE4BD498FE2BE2A1977BFB6B6F93D5B9039BE15BD443FFA46B9BE13E1DC3EC0C883BE344FE4BEE6D07F3D069E68BE69049B3E7F3A8C3E555A93BD37DD153F574118BFD009633E9135C93E2BD8233E2BA2D83E2C04CDBD37C216BF5F90363CACBD86BE2199EA3EA8BDB13EE171BEBD4B52AB3EE03BEABD"> : tensor<16x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
    %cst_1 = stablehlo.constant dense<[[[0.48068729, 0.500627756, -0.156742349, -0.293239921], [0.145825326, 0.00724673225, 0.219286978, -0.28631857]], [[0.0882328227, -0.544278741, -0.345770866, 0.626009643], [-0.362301201, -0.165004224, 0.309317261, 0.447747529]], [[-0.0413364172, -0.341509908, 0.507576227, 0.0499041192], [-2.251310e-01, -0.176396504, -0.216471717, 0.105831437]], [[-0.0634127781, 0.597800374, -0.271411836, 0.691298782], [0.364658296, -0.61363393, -0.382303685, -0.123077229]], [[-0.350998044, -0.229106441, 0.613927841, 0.375163734], [0.0538970307, 0.16921033, 0.273463249, -0.134165481]], [[-8.604490e-02, -0.415013731, 0.668667078, 0.300461948], [0.303104341, 0.355820626, 0.467977762, -0.123768575]], [[-0.21831353, 0.0603170581, -0.153056562, 0.0806401223], [-0.242454395, 0.346437603, -0.233416066, 0.260753155]], [[-0.287102938, -0.101656944, 0.603433609, 0.0460070521], [-0.466487497, 0.00693452171, 0.124607645, 0.00807606708]]]> : tensor<8x2x4xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_3 = stablehlo.constant dense<[[[-0.384446651, 0.232578263, -0.480190277, -0.046582792], [-0.498475313, -0.264069051, 0.303570241, 0.607155085]], [[0.160974219, -0.102480866, -0.262495786, -0.509949744], [2.824380e-01, -0.169373795, -0.351800799, 0.503710449]], [[0.437107444, 0.11373049, 0.112395801, 0.218924791], [-0.718750476, 0.00479134126, -0.334650159, 0.362947762]], [[0.403902918, -0.0382480696, -0.599340379, -0.241313607], [0.026351016, -0.106608994, -0.0195019208, 0.170907751]], [[-0.171138033, -0.269216776, -0.297524035, -0.186849609], [0.573916435, 0.216183245, -0.222866371, 0.244281039]], [[-0.23377344, -0.552674294, 0.0363939442, 0.539559841], [-0.214328304, -0.467167437, 0.0964052155, 0.0246324446]], [[0.206103399, 0.62324208, -0.0248812251, 0.333512694], [0.00870442762, -0.0955695063, -0.171957657, -0.45800522]], [[-0.18058303, -0.593396962, -0.673551679, -0.121846937], [0.636409521, -0.0462535359, -4.035480e-03, -0.0577802584]]]> : tensor<8x2x4xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_5 = stablehlo.constant dense<[[[0.435126364, -0.366262913, 0.0987076312, 0.204369307], [0.24153851, -0.229701295, 0.621106744, -0.181750342]], [[-0.435539216, 0.342465967, 0.457517296, 0.41189611], [0.0473968834, 0.718366324, 0.142429188, -0.409892768]], [[-0.559904397, 0.168554783, -0.236970529, -0.0845085904], [0.180355683, -0.615410983, -0.17333436, 0.146339819]], [[-0.0233862735, 0.0265943501, 0.410401464, 0.191064492], [0.0842436179, 0.610592842, -0.788543164, -0.391568601]], [[0.0787200406, -0.725885034, -0.267121673, -0.390546888], [0.252880245, 0.428016961, -0.384268463, 0.67699039]], [[0.147179484, 0.0902058631, -0.564306676, 0.352853537], [-0.528432667, 0.0481141843, 0.359345168, -0.226582333]], [[0.114064395, -0.273231417, 0.571047366, -0.33220917], [-0.330330819, 0.358996242, -0.420226932, 0.518267632]], [[-0.217841208, 0.490471572, -0.443334699, -0.0652266368], [0.133057564, -0.0920890346, 0.388154835, 0.00342580257]]]> : tensor<8x2x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_7 = stablehlo.constant dense<[[[-0.246138021, -0.556099713, 0.243552551, -0.790799558, -0.475656658, -0.145444244, 0.320304364, 5.522690e-02], [-0.0796670541, -0.148304433, -0.363019317, -0.272123456, 0.700985789, -0.100100614, -0.214797065, 0.444353044], [-0.288395017, -0.190811023, -0.227764785, -0.323274642, 9.779790e-02, 0.156316668, -0.0484348424, -0.0133566558], [0.00408523576, 0.372414082, 0.178130761, 0.203895733, 0.176958129, -0.17696622, -7.741990e-01, 0.296660274]], [[-0.117738135, -0.606766105, 0.079560779, -0.190190226, -0.00867736619, 0.513385773, -0.390829653, 0.467772752], [0.378307402, -0.512247503, 0.484250128, -0.195703208, -0.217832729, 0.176516697, 0.212747708, -0.221196502], [-0.0179389529, -0.206946641, 0.151726201, 0.186124444, 0.0967058688, 0.388613224, 0.268469363, 0.262664646], [-0.498983592, 0.334077507, -0.315787941, 0.256114066, -0.056848906, -0.339880139, 0.330133587, 0.487496912]]]> : tensor<2x4x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_9 = stablehlo.constant dense<"0x366997BD829F1BBE43D6093FAE6F98BE95CCDD3A8486223F1350D0BE4D9CA23D9856AEBD0AF6DB3D6A80083F431DD0BE9490843E67C6AEBEFF4C983EDA5076BE5F4D02BF65F69B3EE469153F6CC8DFBE5E30BABE9724293F53C28ABD7A346CBEB79F08BE9F5539BF6E9256BEFEFED6BE96AE0B3F00D508BF51EC6BBEB097C53D7C0A35BFFFF025BF4F1ACFBE27C7153EFEA4E13E72D3BF3E57B3993E09FEC83E7C8ADB3D27EDBF3EC625A53E31819B3E3DECE53ED4C2503E6F3CFFBED564873DC248013F4B24833E159D3C3D09ED9E3EA14439BFF342D73EEDE071BECB7F41BEA1F5ABBE2081DABE9FE1A63EABF8BFBED8E3F03E745323BF5074B7BB9F386C3EB68D1E3E9168DDBDCAC3BDBC1056C9BE9CB4E1BEB2ED24BF2E72FFBC66BCE5BD0D3E493E5E9F12BF002EEABE5E65C8BE79EF1E3F1A57D9BDAB32B7BE9757A63EA7103BBE6D6FD63E1CACB6BDA208C53E0FB395BDDB8D613EF19CDA3E0CBC8CBE0E9F01BF649FCEBE697E49BF26B1DC3EA8DFF4BEBE60283FC3ED44BF1133823EC4853C3F789485BE889710BEDF9204BF3ED9293E042640BF451EB6BE98F336BF848E4E3D5440ADBEDD45A53E40CE62BCD0F977BEE139B43D288AEA3E9ECBDCBE0CA0D63D536C45BEE0A3A33DACD786BEDE9251BDAD2EE73EF83C593D0801A33E7F700DBFC6AFBABEA8330D3E0875803E6146013D035F123F1D4028BE2FA931BE"> : tensor<8x16xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<16xf32>
    %0 = call @_take(%cst, %arg0) : (tensor<16x8xf32>, tensor<2x6xi32>) -> tensor<2x6x8xf32>
    %1 = stablehlo.iota dim = 0 : tensor<6xi32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<6xi32>) -> tensor<2x6xi32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x6xi32>) -> tensor<2x6x1xi32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [0, 2] : (tensor<2x6xi32>) -> tensor<2x1x6xi32>
    %5 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xi32>) -> tensor<2x6x6xi32>
    %6 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<2x1x6xi32>) -> tensor<2x6x6xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x6x6xi32>, tensor<2x6x6xi32>) -> tensor<2x6x6xi1>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 2, 3] : (tensor<2x6x6xi1>) -> tensor<2x1x6x6xi1>
    %9 = stablehlo.convert %8 : (tensor<2x1x6x6xi1>) -> tensor<2x1x6x6xf32>
    %10 = chlo.square %0 : tensor<2x6x8xf32> -> tensor<2x6x8xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%10 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %cst_12 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2x6xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %15 = stablehlo.reshape %14 : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %16 = stablehlo.reshape %13 : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %17 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %18 = stablehlo.subtract %0, %17 : tensor<2x6x8xf32>
    %cst_14 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %20 = stablehlo.add %16, %19 : tensor<2x6x1xf32>
    %21 = stablehlo.rsqrt %20 : tensor<2x6x1xf32>
    %22 = stablehlo.reshape %cst_0 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %23 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %25 = stablehlo.multiply %23, %24 : tensor<2x6x8xf32>
    %26 = stablehlo.multiply %18, %25 : tensor<2x6x8xf32>
    %27 = stablehlo.dot_general %26, %cst_1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x2x4xf32>) -> tensor<2x6x2x4xf32>
    %28 = stablehlo.reshape %cst_2 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x6x2x4xf32>
    %30 = stablehlo.add %27, %29 : tensor<2x6x2x4xf32>
    %31 = stablehlo.dot_general %26, %cst_3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x2x4xf32>) -> tensor<2x6x2x4xf32>
    %32 = stablehlo.reshape %cst_4 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x6x2x4xf32>
    %34 = stablehlo.add %31, %33 : tensor<2x6x2x4xf32>
    %35 = stablehlo.dot_general %26, %cst_5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x2x4xf32>) -> tensor<2x6x2x4xf32>
    %36 = stablehlo.reshape %cst_6 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x6x2x4xf32>
    %38 = stablehlo.add %35, %37 : tensor<2x6x2x4xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x1x6x6xf32>
    %40 = stablehlo.compare NE, %9, %39, FLOAT : (tensor<2x1x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x1x6x6xi1>
    %41 = stablehlo.convert %40 : tensor<2x1x6x6xi1>
    %42 = stablehlo.reshape %30 : (tensor<2x6x2x4xf32>) -> tensor<2x6x2x1x4xf32>
    %43 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 3, 4] : (tensor<2x1x6x6xi1>) -> tensor<2x1x1x6x6xi1>
    %44 = stablehlo.dot_general %42, %34, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x1x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x1x6xf32>
    %cst_16 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x2x6x1x6xf32>
    %46 = stablehlo.multiply %44, %45 : tensor<2x2x6x1x6xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %47 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<2x2x6x6xi1>
    %48 = stablehlo.broadcast_in_dim %47, dims = [1, 2, 3, 4] : (tensor<2x2x6x6xi1>) -> tensor<1x2x2x6x6xi1>
    %49 = stablehlo.transpose %43, dims = [2, 0, 1, 3, 4] : (tensor<2x1x1x6x6xi1>) -> tensor<1x2x1x6x6xi1>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3, 4] : (tensor<1x2x1x6x6xi1>) -> tensor<1x2x2x6x6xi1>
    %51 = stablehlo.and %48, %50 : tensor<1x2x2x6x6xi1>
    %cst_17 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %52 = call @_where_0(%51, %46, %cst_17) : (tensor<1x2x2x6x6xi1>, tensor<2x2x6x1x6xf32>, tensor<f32>) -> tensor<1x2x2x6x6xf32>
    %cst_18 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %53 = stablehlo.reduce(%52 init: %cst_18) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x2x6x6xf32>, tensor<f32>) -> tensor<1x2x2x6xf32>
    %cst_19 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<1x2x2x6xf32>
    %55 = stablehlo.maximum %54, %53 : tensor<1x2x2x6xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<1x2x2x6xf32>) -> tensor<1x2x2x6x1xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x6x1xf32>) -> tensor<1x2x2x6x6xf32>
    %58 = stablehlo.subtract %52, %57 : tensor<1x2x2x6x6xf32>
    %59 = stablehlo.exponential %58 : tensor<1x2x2x6x6xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_20) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x6x6xf32>, tensor<f32>) -> tensor<1x2x2x6xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x2x2x6xf32>) -> tensor<1x2x2x6x1xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x6x1xf32>) -> tensor<1x2x2x6x6xf32>
    %63 = stablehlo.divide %59, %62 : tensor<1x2x2x6x6xf32>
    %64 = stablehlo.dot_general %38, %63, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x4xf32>, tensor<1x2x2x6x6xf32>) -> tensor<2x2x4x1x6xf32>
    %65 = stablehlo.transpose %64, dims = [3, 0, 4, 1, 2] : (tensor<2x2x4x1x6xf32>) -> tensor<1x2x6x2x4xf32>
    %66 = stablehlo.transpose %65, dims = [1, 2, 3, 0, 4] : (tensor<1x2x6x2x4xf32>) -> tensor<2x6x2x1x4xf32>
    %67 = stablehlo.reshape %66 : (tensor<2x6x2x1x4xf32>) -> tensor<2x6x2x4xf32>
    %68 = stablehlo.dot_general %67, %cst_7, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x4xf32>, tensor<2x4x8xf32>) -> tensor<2x6x8xf32>
    %69 = stablehlo.reshape %cst_8 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %71 = stablehlo.add %68, %70 : tensor<2x6x8xf32>
    %72 = stablehlo.add %0, %71 : tensor<2x6x8xf32>
    %73 = stablehlo.dot_general %72, %cst_9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x16xf32>) -> tensor<2x6x16xf32>
    %74 = stablehlo.reshape %cst_10 : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x6x16xf32>
    %76 = stablehlo.add %73, %75 : tensor<2x6x16xf32>
    %77 = call @log_softmax(%76) : (tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
    return %77 : tensor<2x6x16xf32>
  }
  func.func private @_take(%arg0: tensor<16x8xf32>, %arg1: tensor<2x6xi32>) -> tensor<2x6x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x6xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x6xi32>, tensor<2x6xi32>) -> tensor<2x6xi1>
    %c_0 = stablehlo.constant dense<16> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x6xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x6xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<2x6xi1>, tensor<2x6xi32>, tensor<2x6xi32>) -> tensor<2x6xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x6xi32>) -> tensor<2x6x1xi32>
    %c_1 = stablehlo.constant dense<15> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x6x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x6x1xi32>, tensor<2x6x1xi32>) -> tensor<2x6x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<2x6x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x6x1xi32>, tensor<2x6x1xi32>) -> tensor<2x6x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x6x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<2x6x1xi1>, tensor<i1>) -> tensor<2x6xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xf32>, tensor<2x6x1xi32>) -> tensor<2x6x8xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<2x6xi1>) -> tensor<2x6x8xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<2x6x8xi1>, tensor<2x6x8xf32>
    return %16 : tensor<2x6x8xf32>
  }
  func.func private @_where(%arg0: tensor<2x6xi1>, %arg1: tensor<2x6xi32>, %arg2: tensor<2x6xi32>) -> tensor<2x6xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<2x6xi1>, tensor<2x6xi32>
    return %0 : tensor<2x6xi32>
  }
  func.func private @_where_0(%arg0: tensor<1x2x2x6x6xi1>, %arg1: tensor<2x2x6x1x6xf32>, %arg2: tensor<f32>) -> tensor<1x2x2x6x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x2x6x6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<2x2x6x6xf32>) -> tensor<1x2x2x6x6xf32>
    %2 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<2x2x6x1x6xf32>) -> tensor<1x2x2x6x6xf32>
    %3 = stablehlo.select %arg0, %2, %1 : tensor<1x2x2x6x6xi1>, tensor<1x2x2x6x6xf32>
    return %3 : tensor<1x2x2x6x6xf32>
  }
  func.func private @log_softmax(%arg0: tensor<2x6x16xf32>) -> tensor<2x6x16xf32> {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<2x6xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x16xf32>
    %6 = stablehlo.exponential %5 : tensor<2x6x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x6x16xf32>, tensor<f32>) -> tensor<2x6xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %9 = stablehlo.log %8 : tensor<2x6x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
    %11 = stablehlo.subtract %5, %10 : tensor<2x6x16xf32>
    return %11 : tensor<2x6x16xf32>
  }
}

