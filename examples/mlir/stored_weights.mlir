// jax 0.10.2, python 3.11
module @jit_score attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3xi32>) -> (tensor<3x24xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<"0x07F92306E3144734DABBDE0281F4BCD8CDE32661F47FC2215409BBAAD514A2EDF6230E17D6F83361AE62573311EC5E7F7F5D19AB002EA51C1E31ADD1E1AE7BDD13F15B4C258103273ADC69B4DA3603730ED0E4AEA02F2C61C77FEA76DFC9134E09DFB4B11C38F7C331B8D8238116DF06F9123EBC7E414B68464B0781F4BC8117E1C9C80E1347FF384B3E81421217141511ED9BFAD539F104D3E5FFB110FAC18124EBDBEF7FFD069873404B03401A2BF5A04382F0F3BC28F3E322E15B17E181AB54FCEA7F9DD3DB2DCDD184383EDB0D9CEC390660DF18F81700E9DC7FFDACE51CEC3829FAEDD7E3C43141CDD0B8D981D141EF2BE8580AED7FF0C30AFE35D2282AE108DA6CE0EBCFF00023E4F7BFDA7F30DEC6D6FF02E0C83E14F0F6E98105D2D5EA19D9D01619E013F60AD61C291513811BFDF1BF062BE5D07F8E6A12ADE2A1461DD1A31951F623E006E7198136ED1EE314BD4B95BF0F5C11F0A7F4FF6A27A07FE7C85EFDE90E363FA97F3CE8CCC208D7BE461FDE3F75A2CC513E1364A381B60B"> : tensor<24x16xi8>
    %cst = stablehlo.constant dense<[0.0183073282, 0.0107595548, 0.0154351052, 0.014186101, 0.0173504706, 0.0133000584, 0.0177176464, 0.0112344399, 0.0186244398, 0.0188837238, 0.0143029606, 0.0153091727, 0.0129389893, 0.0241420213, 0.0244593453, 0.0200978275, 0.0216992721, 0.023118468, 0.029702954, 0.0096831005, 0.0118879722, 0.0159588903, 0.0157360751, 0.011646755]> : tensor<24xf32>
    %cst_0 = stablehlo.constant dense<"0x4CBEF9BD7ABE1FBE81BEBC3D4B3EF6BD54BD15BE083EB63CCC3E8CBEBA3DE33DB9BD153EB8BE083FACBE6B3E90BE933EC5BD223D5A3C8D3EA5BD3EBF43BE3C3DE2BD453E823E17BDBFBEB13E8B3E99BD073FB3BD92BE20BD8A3E70BEFA3E66BE743E0B3E1EBD8A3EC0BEAE3E82BC0BBE403E883E453E003F8A3EA43E0ABEDA3C103E91BB9A3DDA3D583ED0BCB3BD54BE64BE963EADBC493EA6BEF8BE86BE933E893EAA3D4DBE06BD98BDB1BD20BF5CBE43BDC23E253DB33ECABD81BD7ABFED3D0C3EE23EF9BDC13C35BE97BE37BEB1BDAD3E113A4ABE113D5F3D2DBE923EF2BE5BBD2A3EABBEB93DA53EE83DD8BE3ABE9E3E993D22BBE23D393E35BE95BD123D0BBE09BDA63E78BEF73EF13EDBBE10BDAF3D43BE3EBE73BD3D3E03BEEA3E943DD2BCBA3E203EBD3DAABDE83E503E50BDCABEBF3D92BEDCBE8FBD903DA43E913D4E3E9DBEB9BBFE3C5D3EEE3C4E3E01BEB73DD43DA0BE343DA4BDF4BE753EB9BD5ABEC1BD0E3DC13E2ABDF23DB03E093E893EF4BD453E6DBC8A3E80BE48BEA23E49BDB8BD9F3C31BEAA3EA0BE1ABDB23DD6BC4DBE5EBEDA3D84BE253EC3BE0EBE153CA0BE273E98BB85BEC2BEC8BE513C94BEAFBE6DBD123F8E3D433E5A3D483EACBEDCBD863D93BB45BD2ABE84BD46BE1BBF99BEF43DC73EE83EC63C653E683E31BED9BEFD3BE2BEA4BD1C3EB6BE043C9F3EB93D063E683EDE3E1B3D9D3E83BC0CBEA13D1BBE13BE1CBE13BFD83CA2BEDCBCBA3E05BE0BBEAF3E0C3E7A3EB6BD403E30BE2DBE193E19BE443E193FD8BE41BE8F3E15BD953E81BEAA3D1ABD103DAA3D9CBE89BEB33E963DDA3C35BCB73D94BE80BEA73E1B3D5A3E1BBEB03EB13DF63D0C3E4CBEEFBE8ABED13EA63EB2BD9ABD853E2CBDA6BEA23EF43D21BFA0BD"> : tensor<16x20xbf16>
    %cst_1 = stablehlo.constant dense<[1.434330e-02, 4.809570e-02, 1.519780e-02, -6.347650e-02, -1.159670e-02, 2.954100e-02, -2.685550e-02, -3.710940e-02, 1.250000e-01, -9.472650e-02, -3.491210e-02, -2.031250e-01, 5.419920e-02, 8.300780e-02, 5.493160e-02, 9.179680e-02, 4.418950e-02, 3.417970e-02, 4.736330e-02, -2.673340e-02]> : tensor<20xbf16>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %1 = stablehlo.compare LT, %arg0, %0, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_3 = stablehlo.constant dense<24> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %3 = stablehlo.add %arg0, %2 : tensor<3xi32>
    %4 = stablehlo.select %1, %3, %arg0 : tensor<3xi1>, tensor<3xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %6 = "stablehlo.gather"(%c, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 16>}> : (tensor<24x16xi8>, tensor<3x1xi32>) -> tensor<3x16xi8>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %8 = stablehlo.compare LT, %arg0, %7, SIGNED : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %c_5 = stablehlo.constant dense<24> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %10 = stablehlo.add %arg0, %9 : tensor<3xi32>
    %11 = stablehlo.select %8, %10, %arg0 : tensor<3xi1>, tensor<3xi32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
    %13 = "stablehlo.gather"(%cst, %12) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<24xf32>, tensor<3x1xi32>) -> tensor<3xf32>
    %14 = stablehlo.convert %6 : (tensor<3x16xi8>) -> tensor<3x16xf32>
    %15 = stablehlo.broadcast_in_dim %13, dims = [0] : (tensor<3xf32>) -> tensor<3x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<3x1xf32>) -> tensor<3x16xf32>
    %17 = stablehlo.multiply %14, %16 : tensor<3x16xf32>
    %18 = stablehlo.convert %cst_0 : (tensor<16x20xbf16>) -> tensor<16x20xf32>
    %19 = stablehlo.dot_general %17, %18, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x16xf32>, tensor<16x20xf32>) -> tensor<3x20xf32>
    %20 = stablehlo.convert %cst_1 : (tensor<20xbf16>) -> tensor<20xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [1] : (tensor<20xf32>) -> tensor<1x20xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<1x20xf32>) -> tensor<3x20xf32>
    %23 = stablehlo.add %19, %22 : tensor<3x20xf32>
    %24 = call @relu(%23) : (tensor<3x20xf32>) -> tensor<3x20xf32>
    %25 = stablehlo.transpose %18, dims = [1, 0] : (tensor<16x20xf32>) -> tensor<20x16xf32>
    %26 = stablehlo.dot_general %24, %25, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x20xf32>, tensor<20x16xf32>) -> tensor<3x16xf32>
    %27 = stablehlo.add %17, %26 : tensor<3x16xf32>
    %28 = stablehlo.convert %c : (tensor<24x16xi8>) -> tensor<24x16xf32>
    %29 = stablehlo.broadcast_in_dim %cst, dims = [0] : (tensor<24xf32>) -> tensor<24x1xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1] : (tensor<24x1xf32>) -> tensor<24x16xf32>
    %31 = stablehlo.multiply %28, %30 : tensor<24x16xf32>
    %32 = stablehlo.transpose %31, dims = [1, 0] : (tensor<24x16xf32>) -> tensor<16x24xf32>
    %33 = stablehlo.dot_general %27, %32, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x16xf32>, tensor<16x24xf32>) -> tensor<3x24xf32>
    return %33 : tensor<3x24xf32>
  }
  func.func private @relu(%arg0: tensor<3x20xf32>) -> tensor<3x20xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x20xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<3x20xf32>
    return %1 : tensor<3x20xf32>
  }
}
