// By torchax 0.0.13, torch 2.13.0+cpu, jax 0.10.2
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6xi32>) -> (tensor<2x6x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<"0x851B90BF8A8093BFD64B80BE5D25DEBE1545593F8327313F6DCCA1BEC15F07C03801A53EF4B4A1BFFF30B33EBBC39D3E776FF53D936B9E3F8EF28E3F7C367DBEC223ADBF4614D9BF0410113F5D234B3F8B4D193F5B0DC7BFCAC6AEBE4E2FED3F6B0C403F2BE315BFEB8E31BEA4E13B3EC0D6B13F000DCB3F9C40723F33FB57BFC8131DBF6467013D2840FCBE70607E3ED01FE13ED637E63DF80A243F3CDFE13EB987D1BD9CDD4A3F534F94BE1712573D2FDA053F55571340B704BCBF9E18CBBF9F4F2CBFDE715F3FF415873FAA1C363E10DD6BBE0894C8BE5D150B3F1752CABE9476E4BE24783E3F75AFC23FAD455A40D9FDC3BF23F89DBFC2ECE83FFC300DBF3EBA11BF3F836B3F392F8E3F981AA53FCE34BDBF8B4D2440C23CF2BE4FCDAB3EC18DD0BF00BC0CBFD6ACF5BE42D6FFBED09288BF57B68E3F2C0C10BEDE454E3F5C2DBFBD86E22F3FD69B56BF25C9693A5F86573F47D1CCBE170D853FD85FB73EACE77BBE6E5C134031DBF0BF90AE4BBDDCC185BF3DDD74BFB458093D3CC8353FC5ABD23F041AAEBFE16AB03E0D16053FAD4027C01326D9BF37B869BE43568F3E46DA7C3EEF769D3D190FAD3E59A7E83E0FF4E93EFA885DBFCC03483F12426DBFF01560BE1CD81BC0555495BD55350BBD9967763F2EC6B23EEFE46BBF812C66BD2B691FBFFE6CEDBEF7FCF53F731ACEBE95C0FD3DA017953F35626C3FE492B13F"> : tensor<16x8xf32>
    %cst_0 = stablehlo.constant dense<"0x714EFDBD0C5E94BEB0059ABDB5C69A3D16DB6BBE02A394BC3595813EE4DE14BD5DFD203C86DCF9BC2E8A923DCF32663E4A78AB3E30EA653EB9DCAB3E4477D1BC129DA2BE61A22BBE9783763EC23316BB33F333BE9DB78ABE4668A9BE24C898BE97DE92BD4F8B463EA4BB433EB094AEBE4ED5613E3BA68DBED01399BDF9CB12BEE6778BBDD42A8EBD0C70A2BE884C9CBE439B62BD88D2953B0F7724BE3361083E8FEDA2BEC476C3BC22319F3E34AC13BE0576A33E191D033EE55CA3BE970F653EEA1B27BDD59D21BEB1C0903EE64792BEE6641B3D619997BDA844813E4A1FCA3D26F62D3EE2B6FF3D4E1FAEBD044798BDB72C95BE252B443EB3B98F3E42B7773ECD5F7FBED22C813CA2367FBEEB4B47BE40F652BE2773F73D5DBE57BEEDC1FCBB42AF733CE360693E0ED688BE428B78BED03852BE28677D3EE62302BE11B0983E79EA023EC25F373D487B2CBB01238FBDD6B1353DD656A5BD4ACE22BB43C6383D21988DBE7FC13DBEFB2B923ED8E792BE13F9CFBC4312B33E23C8023EB401243C87DF9CBE9058333EC4EF80BE288ACDBD95F0F2BD147456BDFF717D3B5D4E953E33C9343D4123A23EAC765D3ECAE264BE3660223E78EC7FBEEB7019BEB3F7D43DA915EF3D48CE873E8C17E9BDF25E143AD3623A3EF80FAFBE9CDF823E5FB095BE6EAC9F3BE83576BD0DAD3EBE73673F3D33B0953E76A9D3BDB2F056BE5DE505BEC16AB3BE0D6C233EC1DF2DBE5D9A71BE2C9250BE0528503EE5B93F3EB1EF8A3EDE51033E0AD0F1BD9257CABD04EAD53DDECD943EF8DEC43D034C2BBEAA2F2ABEEF25ABBE7A6F9C3D762B4BBE7864A1BE4ABB9E3EAA1C6BBE8BBE24BD8871CF3D0A8B383CF59B73BE655292BE8E49903ECCD06B3D972D963E79BDF2BDE947D53D4A94A5BD5CCD80BC5F7F5CBE35E2F43DB7EDE43DA5FCEEBBB8D8A2BDE22B5FBEAF5D7A3E52C186BE9350143E3B79F3BD0DAC2EBEB113823D42103CBEB8D4A63DE7318E3DAB6786BE9B1D713DED331A3E5E4E0F3EB44A36BDBD6594BE2A3D5FBD457AFB3D811904BE4C6C093EAD1A713E000A3DBED280643BDFB3153EA901E33C"> : tensor<24x8xf32>
    %cst_1 = stablehlo.constant dense<[0.0295328442, 0.0441465899, -0.277945191, 0.027785141, 0.24482505, 0.318591803, 0.207801327, 0.0473772287, 0.165114447, -0.171996519, -0.292985588, -3.040280e-01, 0.35270831, 0.224431917, -0.244388029, 0.138325155, 0.266992062, 0.353417218, 0.309145272, 0.273916841, -0.0810553879, -0.124076612, 0.290284604, 0.198124111]> : tensor<24xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<"0x05DE59BE50BDA23E0EEC2E3E315C453ED2EA62BED6BCCF3D96D5FDBDCE708D3E784A82BD39F20C3EA99C803D33091A3EB90FF6BD0A85303E9DDF7CBE5789A33DD2F374BE1695B2BE5E5E91BECBE88E3E36E0433ECFD5A93EB804913E93A8A1BE031177BE20FF69BD9E1E6BBEFC657B3E1EDA88BEA2A330BE98E1AEBEBD8B4DBE63E2943E1E36943E9994813E1CC58B3EBFF5A03ECF68B9BD3A4C1F3E9046A13ED389EF3DF3F5B43EAAC63B3E8C0F613EE06BFDBD53B72D3E0767263D16ECACBDB3154CBE59254BBE794A8BBE2B0C733E3AB1803E81D124BDB88151BE2CE98B3E0C85673E594BD73C65EE2ABE8D5DA63E660D143E846B89BE2140AD3E1A76893EB5F503BE8D854B3ED6B44DBE53F262BD28B4993E92586F3C290580BEAF02F2BD1B8CC4BD03B28BBDDC960A3D7B69A73EC5119B3C83895FBEBF72943CC8972D3EF395333EC770A5BE739181BD068686BE077A1ABEAD70023E1C8C80BE5A94063E2FA5993ED3F6BD3C584B71BE88B601BECD1C9E3D8AFE89BE53DD333E8A57A4BE3F03AEBEADE3AFBE85E392BD5C72733EBC54ABBE0076963EE1D210BE1C12D43D8514843C853AA3BEE51F963EF6EF423EB4EEB33E06E8363E72F86EBE6713973E17A99B3C48AF2B3E862591BE8B43D0BD23BDB1BEE8020DBEBE349C3D24218EBE58CFE63D4658423ECCBD493DEA3B72BE0D598CBED063DFBD7AEB1E3E8C8EB23E"> : tensor<16x8xf32>
    %cst_5 = stablehlo.constant dense<[0.203303456, -0.0398133881, 0.123961635, -0.346858114, -0.301970392, 0.164970815, -2.002580e-01, 1.700930e-01, -0.249584705, -0.175118849, -0.291218042, 0.184498549, -0.0360253565, 0.272095084, 0.218804345, 0.195636138]> : tensor<16xf32>
    %0 = call @_take(%cst, %arg0) : (tensor<16x8xf32>, tensor<2x6xi32>) -> tensor<2x6x8xf32>
    %1 = stablehlo.dot_general %0, %cst_0, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<24x8xf32>) -> tensor<2x6x24xf32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [2] : (tensor<24xf32>) -> tensor<1x1x24xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x24xf32>) -> tensor<2x6x24xf32>
    %4 = stablehlo.add %1, %3 : tensor<2x6x24xf32>
    %5 = stablehlo.slice %4 [0:2, 0:6, 0:8] : (tensor<2x6x24xf32>) -> tensor<2x6x8xf32>
    %6 = stablehlo.slice %4 [0:2, 0:6, 8:16] : (tensor<2x6x24xf32>) -> tensor<2x6x8xf32>
    %7 = stablehlo.slice %4 [0:2, 0:6, 16:24] : (tensor<2x6x24xf32>) -> tensor<2x6x8xf32>
    %8 = stablehlo.reshape %5 : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %9 = stablehlo.transpose %8, dims = [0, 2, 1, 3] : (tensor<2x6x2x4xf32>) -> tensor<2x2x6x4xf32>
    %10 = stablehlo.reshape %6 : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %11 = stablehlo.transpose %10, dims = [0, 2, 1, 3] : (tensor<2x6x2x4xf32>) -> tensor<2x2x6x4xf32>
    %12 = stablehlo.reshape %7 : (tensor<2x6x8xf32>) -> tensor<2x6x2x4xf32>
    %13 = stablehlo.transpose %12, dims = [0, 2, 1, 3] : (tensor<2x6x2x4xf32>) -> tensor<2x2x6x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<6x6xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %15 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<6x6xi1>
    %16 = stablehlo.iota dim = 0 : tensor<6xi32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1] : (tensor<6xi32>) -> tensor<1x6xi32>
    %18 = stablehlo.iota dim = 0 : tensor<6xi32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %c_7 = stablehlo.constant dense<1> : tensor<i32>
    %20 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<6x1xi32>
    %21 = stablehlo.multiply %19, %20 : tensor<6x1xi32>
    %22 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<1x6xi32>) -> tensor<6x6xi32>
    %23 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<6x1xi32>) -> tensor<6x6xi32>
    %24 = stablehlo.subtract %22, %23 : tensor<6x6xi32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i32>) -> tensor<6x6xi32>
    %26 = stablehlo.compare LE, %24, %25, SIGNED : (tensor<6x6xi32>, tensor<6x6xi32>) -> tensor<6x6xi1>
    %27 = stablehlo.and %26, %15 : tensor<6x6xi1>
    %28 = stablehlo.not %27 : tensor<6x6xi1>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %29 = call @_where_0(%28, %cst_9, %14) : (tensor<6x6xi1>, tensor<f32>, tensor<6x6xf32>) -> tensor<6x6xf32>
    %30 = stablehlo.transpose %11, dims = [0, 1, 3, 2] : (tensor<2x2x6x4xf32>) -> tensor<2x2x4x6xf32>
    %31 = stablehlo.reshape %9 : (tensor<2x2x6x4xf32>) -> tensor<4x6x4xf32>
    %32 = stablehlo.reshape %30 : (tensor<2x2x4x6xf32>) -> tensor<4x4x6xf32>
    %33 = stablehlo.dot_general %31, %32, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
    %34 = stablehlo.reshape %33 : (tensor<4x6x6xf32>) -> tensor<2x2x6x6xf32>
    %cst_10 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x2x6x6xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<2x2x6x6xf32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<6x6xf32>
    %38 = stablehlo.multiply %29, %37 : tensor<6x6xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [2, 3] : (tensor<6x6xf32>) -> tensor<1x1x6x6xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<1x1x6x6xf32>) -> tensor<2x2x6x6xf32>
    %41 = stablehlo.add %36, %40 : tensor<2x2x6x6xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_12) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x6xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x2x6xf32>
    %44 = stablehlo.maximum %43, %42 : tensor<2x2x6xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<2x2x6xf32>) -> tensor<2x2x6x1xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf32>) -> tensor<2x2x6x6xf32>
    %47 = stablehlo.subtract %41, %46 : tensor<2x2x6x6xf32>
    %48 = stablehlo.exponential %47 : tensor<2x2x6x6xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_14) applies stablehlo.add across dimensions = [3] : (tensor<2x2x6x6xf32>, tensor<f32>) -> tensor<2x2x6xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<2x2x6xf32>) -> tensor<2x2x6x1xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<2x2x6x1xf32>) -> tensor<2x2x6x6xf32>
    %52 = stablehlo.divide %48, %51 : tensor<2x2x6x6xf32>
    %53 = stablehlo.reshape %52 : (tensor<2x2x6x6xf32>) -> tensor<4x6x6xf32>
    %54 = stablehlo.reshape %13 : (tensor<2x2x6x4xf32>) -> tensor<4x6x4xf32>
    %55 = stablehlo.dot_general %53, %54, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x6x6xf32>, tensor<4x6x4xf32>) -> tensor<4x6x4xf32>
    %56 = stablehlo.reshape %55 : (tensor<4x6x4xf32>) -> tensor<2x2x6x4xf32>
    %57 = stablehlo.transpose %56, dims = [0, 2, 1, 3] : (tensor<2x2x6x4xf32>) -> tensor<2x6x2x4xf32>
    %58 = stablehlo.reshape %57 : (tensor<2x6x2x4xf32>) -> tensor<2x6x8xf32>
    %cst_15 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %60 = stablehlo.multiply %58, %59 : tensor<2x6x8xf32>
    %61 = stablehlo.add %0, %60 : tensor<2x6x8xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.reduce(%61 init: %cst_16) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_17 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %65 = stablehlo.divide %63, %64 : tensor<2x6x1xf32>
    %c_18 = stablehlo.constant dense<0> : tensor<i32>
    %66 = call @_var(%61, %c_18) : (tensor<2x6x8xf32>, tensor<i32>) -> tensor<2x6x1xf32>
    %cst_19 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %67 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %68 = stablehlo.add %66, %67 : tensor<2x6x1xf32>
    %69 = stablehlo.rsqrt %68 : tensor<2x6x1xf32>
    %70 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %71 = stablehlo.subtract %61, %70 : tensor<2x6x8xf32>
    %72 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %73 = stablehlo.multiply %71, %72 : tensor<2x6x8xf32>
    %74 = stablehlo.broadcast_in_dim %cst_2, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %76 = stablehlo.multiply %73, %75 : tensor<2x6x8xf32>
    %77 = stablehlo.broadcast_in_dim %cst_3, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %79 = stablehlo.add %76, %78 : tensor<2x6x8xf32>
    %80 = call @silu(%79) : (tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
    %81 = stablehlo.dot_general %80, %cst_4, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<16x8xf32>) -> tensor<2x6x16xf32>
    %82 = stablehlo.broadcast_in_dim %cst_5, dims = [2] : (tensor<16xf32>) -> tensor<1x1x16xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x16xf32>) -> tensor<2x6x16xf32>
    %84 = stablehlo.add %81, %83 : tensor<2x6x16xf32>
    %85 = call @log_softmax(%84) : (tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
    %values, %indices = chlo.top_k(%85, k = 3) : tensor<2x6x16xf32> -> (tensor<2x6x3xf32>, tensor<2x6x3xi32>)
    %86 = call @sort(%values) : (tensor<2x6x3xf32>) -> tensor<2x6x3xf32>
    return %86 : tensor<2x6x3xf32>
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
  func.func private @_where_0(%arg0: tensor<6x6xi1>, %arg1: tensor<f32>, %arg2: tensor<6x6xf32>) -> tensor<6x6xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<6x6xf32>
    %2 = stablehlo.select %arg0, %1, %arg2 : tensor<6x6xi1>, tensor<6x6xf32>
    return %2 : tensor<6x6xf32>
  }
  func.func private @_var(%arg0: tensor<2x6x8xf32>, %arg1: tensor<i32>) -> tensor<2x6x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x6x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x8xf32>
    %6 = chlo.square %5 : tensor<2x6x8xf32> -> tensor<2x6x8xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<2x6x1xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = call @_where_1(%13, %12, %cst_4) : (tensor<i1>, tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6x1xf32>
    return %14 : tensor<2x6x1xf32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<2x6x1xf32>, %arg2: tensor<f32>) -> tensor<2x6x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x6x1xf32>
    return %2 : tensor<2x6x1xf32>
  }
  func.func private @silu(%arg0: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
    %0 = stablehlo.negate %arg0 : tensor<2x6x8xf32>
    %1 = stablehlo.exponential %0 : tensor<2x6x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %3 = stablehlo.add %2, %1 : tensor<2x6x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6x8xf32>
    %5 = stablehlo.divide %4, %3 : tensor<2x6x8xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<2x6x8xf32>
    return %6 : tensor<2x6x8xf32>
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
  func.func private @sort(%arg0: tensor<2x6x3xf32>) -> tensor<2x6x3xf32> {
    %0 = "stablehlo.sort"(%arg0) <{dimension = 2 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %3 = stablehlo.select %2, %cst_0, %arg1 : tensor<i1>, tensor<f32>
      %4 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %5 = stablehlo.select %4, %cst_1, %3 : tensor<i1>, tensor<f32>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %6 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %7 = stablehlo.select %6, %cst_3, %arg2 : tensor<i1>, tensor<f32>
      %8 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %9 = stablehlo.select %8, %cst_4, %7 : tensor<i1>, tensor<f32>
      %10 = stablehlo.compare LT, %5, %9, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    }) : (tensor<2x6x3xf32>) -> tensor<2x6x3xf32>
    %1 = stablehlo.reverse %0, dims = [2] : tensor<2x6x3xf32>
    return %1 : tensor<2x6x3xf32>
  }
}

