// By equinox 0.13.8, jax 0.10.2
module @jit_network attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x5x4xf32>) -> (tensor<2x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[-0.177408412, 0.235230431, -0.0836227387, 0.345886916], [-0.163129508, -0.375187367, -0.250989199, 0.0678894817], [-0.208082139, -0.23482573, 0.0861007645, 0.137046143], [-0.262302339, 0.340554357, 0.111179933, 0.39321506], [-0.0461901315, 0.324220866, 0.375124395, -0.00896290224], [0.125875518, -0.205254108, 0.0540754497, -0.388157487], [-0.0996736958, 0.333559752, -0.0929029509, 0.0436470881], [-0.0445980392, -0.103474393, 0.243562907, 0.338075846], [-0.251467586, -0.268864572, 0.355959892, -0.172772586], [0.0505025163, 0.0660905539, 0.0780660361, -0.0148097547], [-0.136206642, -0.332156301, 0.332056344, 0.368811399], [-0.067594558, -0.0488591269, 0.177551493, 0.166931957], [-0.0122253429, -0.313874632, 0.150714666, 0.279152483], [-0.340776682, -0.121477187, -0.00268885121, 0.370929778], [-0.177121073, -0.177264646, -0.300402731, -0.285354137], [-0.0151016591, -0.296021163, -0.327012599, 0.0172973182], [-0.129303321, 0.109861545, 0.0328450613, -0.229042724], [0.144582719, 0.372396886, -3.301950e-01, 0.164961249]]> : tensor<18x4xf32>
    %cst_0 = stablehlo.constant dense<[-0.221691087, 0.194402337, -0.399540126, -0.0645443052, 0.258731425, 0.264848083, 0.168484241, 0.0412575379, -0.347643107, 0.281624287, -0.0497711487, 0.242612347, 0.230356634, 0.107644767, -0.226831391, 0.0513871834, -3.727290e-01, 0.146483749]> : tensor<18xf32>
    %cst_1 = stablehlo.constant dense<"0xC86CA5BED97002BE1F3B9ABE21A6813E24807FBEF99DE23D7F7E883E60D322BDF108A0BEDDAEBE3CEB97C0BE976091BE2BC6913E9F5E85BA9BFEB23B1341613CCC13CFBEB9843A3B041F7A3EBAD2DDBCD4E78F3E6EAA4EBD880ED7BC02ECC33D78A3913E59CAAABE23D484BE75F2B43D77CE873EBD1773BC485DCA3C50E228BCECD000BEE76B65BE3E7761BEFA97A63E2151C3BE21334ABEB06B0EBEDA583DBEF259A73E429EC0BE23B62BBD07A66EBE73B4D13D1CF78CBCDC4EB13E261081BCF936D63CE08FBE3EA365463E8B12B0BE43BE0BBEA650273E48267CBEF080CFBEE6A1763E53D58D3E08535A3EE0DE8ABD93788D3E7DC2CA3E7DD63E3EF8C223BE4E5B8F3E0716063D00B16E3E3B30463E15051ABE201C4FBD9007853D75BEA1BE06BB9D3D4B8979BED2E7BCBDAD5F9E3E7D162A3E3717B8BEC945F6BB26DD7D3DD2CE993EC064CCBE7637563E730B39BEB9215EBDD848C53E0EBFCA3EC28C28BE8E8408BE0F86C0BE0DFB08BECABA843E22A72BBE29BD69BE7B4797BEAABB81BEF25BF2BA2329FE3DE34E943E1DC9123D488D753E6F03433EB18BE63D505B543ED258883D67FDCABE8BA8F2BD9EBDE0B8"> : tensor<18x6xf32>
    %cst_2 = stablehlo.constant dense<[0.108625308, 0.285257578, -0.108483396, 0.172340423, 0.124879107, -0.375104517]> : tensor<6xf32>
    %cst_3 = stablehlo.constant dense<[[0.102194838, -0.0967937782, -0.260752976, -0.280988693, -0.226193756, -0.106617503], [0.123165935, -0.0164751392, -0.0271093622, 0.0696810111, 0.0694269687, 0.107301176], [-0.318504721, -0.329268098, -0.108533911, -0.0694714486, 0.228421047, 0.0696128756], [-0.0364345424, -0.284850627, 0.0198464952, 0.0700674206, -0.0186510403, 0.0881589874], [0.0208558496, -0.0874806643, 0.193956837, 0.0380265377, -0.237109959, 0.284044892], [-0.0536162294, 0.0811434462, -0.145529881, 0.199382529, 0.121524982, 4.174820e-02], [-0.23164086, 0.228418514, -0.3372823, 0.395184904, 0.383876264, 0.170908839], [0.389828831, -0.155077264, 0.171267122, 0.228255481, -0.347115278, 0.217714608]]> : tensor<8x6xf32>
    %cst_4 = stablehlo.constant dense<[0.172562152, 0.0204558074, 3.997560e-01, -0.176148906, -0.0856730789, -0.246914506, -0.0301215574, 0.35276404]> : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<[[-0.332147926, -0.305999517, 0.0704970061, 0.0406846069, -0.0676125661, 0.0856328681, 0.31283617, 0.0781496092], [-0.0444967039, 0.139539361, -0.0812116637, -0.291205138, 0.166742712, 0.349667698, 0.258612812, -0.0477464795], [-0.274053037, -0.180398703, -0.143544152, 0.260785401, 0.266184896, -0.0405898578, -0.124157362, 0.124777094], [0.227056876, 0.276913375, -0.2570934, 0.16749604, 0.20265393, -0.150387123, 0.0479615964, 0.259962529], [-0.13190943, -0.202256233, -0.0907350853, -0.247457042, 0.00374112278, -0.320443481, 0.0207618736, -0.177976787], [-0.321130753, 0.214439541, 0.120167829, 0.14375025, 0.282825232, -0.0258372817, 0.107566424, -0.276032865], [-0.0749894381, 0.167809114, -0.209504485, -0.335725784, -0.0831723362, -0.181578398, 0.135417148, -0.155425429], [-0.0837625637, 0.29359594, 0.341807902, -0.210379198, -0.330459863, 0.289160758, -0.0485030152, -0.22083953]]> : tensor<8x8xf32>
    %cst_6 = stablehlo.constant dense<[3.441140e-01, 0.0562110841, 0.142400622, 0.218169287, 0.161556035, 0.269780964, 0.0181505401, 0.256314635]> : tensor<8xf32>
    %cst_7 = stablehlo.constant dense<[[0.187428713, 0.039181143, 0.336775243, 5.03317628E-4, 0.246464476, 0.290938348, -0.120646365, 0.101887897], [0.0927876308, -0.22931914, -0.147466257, 0.13979283, 0.218474343, 0.198144302, 0.0315502025, -0.112212524], [0.257550716, -0.246002465, -0.134475082, 0.166887015, 0.0707907751, -0.256208569, 0.127840832, 0.148438171]]> : tensor<3x8xf32>
    %cst_8 = stablehlo.constant dense<[0.0539788157, 0.058713425, 0.0807897746]> : tensor<3xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<6xf32>) -> tensor<2x6xf32>
    %2 = stablehlo.transpose %arg0, dims = [1, 0, 2] : (tensor<2x5x4xf32>) -> tensor<5x2x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3:7 = stablehlo.while(%iterArg = %2, %iterArg_10 = %cst, %iterArg_11 = %cst_0, %iterArg_12 = %cst_1, %iterArg_13 = %cst_2, %iterArg_14 = %c, %iterArg_15 = %1) : tensor<5x2x4xf32>, tensor<18x4xf32>, tensor<18xf32>, tensor<18x6xf32>, tensor<6xf32>, tensor<i32>, tensor<2x6xf32>
    cond {
      %c_16 = stablehlo.constant dense<5> : tensor<i32>
      %21 = stablehlo.compare LT, %iterArg_14, %c_16, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %21 : tensor<i1>
    } do {
      %21 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_14) : (tensor<5x2x4xf32>, tensor<i32>) -> tensor<2x4xf32>
      %22 = func.call @closed_call(%iterArg_10, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_15, %21) : (tensor<18x4xf32>, tensor<18xf32>, tensor<18x6xf32>, tensor<6xf32>, tensor<2x6xf32>, tensor<2x4xf32>) -> tensor<2x6xf32>
      %c_16 = stablehlo.constant dense<1> : tensor<i32>
      %23 = stablehlo.add %iterArg_14, %c_16 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_10, %iterArg_11, %iterArg_12, %iterArg_13, %23, %22 : tensor<5x2x4xf32>, tensor<18x4xf32>, tensor<18xf32>, tensor<18x6xf32>, tensor<6xf32>, tensor<i32>, tensor<2x6xf32>
    }
    %4 = stablehlo.dot_general %cst_3, %3#6, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x6xf32>, tensor<2x6xf32>) -> tensor<8x2xf32>
    %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %6 = stablehlo.broadcast_in_dim %cst_4, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<2x8xf32>
    %8 = stablehlo.add %5, %7 : tensor<2x8xf32>
    %9 = call @silu(%8) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %10 = stablehlo.dot_general %cst_5, %9, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<2x8xf32>) -> tensor<8x2xf32>
    %11 = stablehlo.transpose %10, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
    %12 = stablehlo.broadcast_in_dim %cst_6, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<2x8xf32>
    %14 = stablehlo.add %11, %13 : tensor<2x8xf32>
    %15 = call @silu(%14) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %16 = stablehlo.dot_general %cst_7, %15, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x8xf32>, tensor<2x8xf32>) -> tensor<3x2xf32>
    %17 = stablehlo.transpose %16, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
    %18 = stablehlo.broadcast_in_dim %cst_8, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %20 = stablehlo.add %17, %19 : tensor<2x3xf32>
    return %20 : tensor<2x3xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5x2x4xf32>, %arg1: tensor<i32>) -> tensor<2x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 2, 4] : (tensor<5x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func private @closed_call(%arg0: tensor<18x4xf32>, %arg1: tensor<18xf32>, %arg2: tensor<18x6xf32>, %arg3: tensor<6xf32>, %arg4: tensor<2x6xf32>, %arg5: tensor<2x4xf32>) -> tensor<2x6xf32> {
    %0 = stablehlo.dot_general %arg0, %arg5, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<18x4xf32>, tensor<2x4xf32>) -> tensor<18x2xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<18x2xf32>) -> tensor<2x18xf32>
    %2 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<18xf32>) -> tensor<1x18xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x18xf32>) -> tensor<2x18xf32>
    %4 = stablehlo.add %1, %3 : tensor<2x18xf32>
    %5 = stablehlo.slice %4 [0:2, 0:6] : (tensor<2x18xf32>) -> tensor<2x6xf32>
    %6 = stablehlo.slice %4 [0:2, 6:12] : (tensor<2x18xf32>) -> tensor<2x6xf32>
    %7 = stablehlo.slice %4 [0:2, 12:18] : (tensor<2x18xf32>) -> tensor<2x6xf32>
    %8 = stablehlo.dot_general %arg2, %arg4, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<18x6xf32>, tensor<2x6xf32>) -> tensor<18x2xf32>
    %9 = stablehlo.slice %8 [0:6, 0:2] : (tensor<18x2xf32>) -> tensor<6x2xf32>
    %10 = stablehlo.slice %8 [6:12, 0:2] : (tensor<18x2xf32>) -> tensor<6x2xf32>
    %11 = stablehlo.slice %8 [12:18, 0:2] : (tensor<18x2xf32>) -> tensor<6x2xf32>
    %12 = stablehlo.transpose %9, dims = [1, 0] : (tensor<6x2xf32>) -> tensor<2x6xf32>
    %13 = stablehlo.add %5, %12 : tensor<2x6xf32>
    %14 = stablehlo.negate %13 : tensor<2x6xf32>
    %15 = stablehlo.exponential %14 : tensor<2x6xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %17 = stablehlo.add %16, %15 : tensor<2x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %19 = stablehlo.divide %18, %17 : tensor<2x6xf32>
    %20 = stablehlo.transpose %10, dims = [1, 0] : (tensor<6x2xf32>) -> tensor<2x6xf32>
    %21 = stablehlo.add %6, %20 : tensor<2x6xf32>
    %22 = stablehlo.negate %21 : tensor<2x6xf32>
    %23 = stablehlo.exponential %22 : tensor<2x6xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %25 = stablehlo.add %24, %23 : tensor<2x6xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x6xf32>
    %27 = stablehlo.divide %26, %25 : tensor<2x6xf32>
    %28 = stablehlo.transpose %11, dims = [1, 0] : (tensor<6x2xf32>) -> tensor<2x6xf32>
    %29 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<6xf32>) -> tensor<1x6xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1] : (tensor<1x6xf32>) -> tensor<2x6xf32>
    %31 = stablehlo.add %28, %30 : tensor<2x6xf32>
    %32 = stablehlo.multiply %19, %31 : tensor<2x6xf32>
    %33 = stablehlo.add %7, %32 : tensor<2x6xf32>
    %34 = stablehlo.tanh %33 : tensor<2x6xf32>
    %35 = stablehlo.subtract %arg4, %34 : tensor<2x6xf32>
    %36 = stablehlo.multiply %27, %35 : tensor<2x6xf32>
    %37 = stablehlo.add %34, %36 : tensor<2x6xf32>
    return %37 : tensor<2x6xf32>
  }
  func.func private @silu(%arg0: tensor<2x8xf32>) -> tensor<2x8xf32> {
    %0 = stablehlo.negate %arg0 : tensor<2x8xf32>
    %1 = stablehlo.exponential %0 : tensor<2x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %3 = stablehlo.add %2, %1 : tensor<2x8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %5 = stablehlo.divide %4, %3 : tensor<2x8xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<2x8xf32>
    return %6 : tensor<2x8xf32>
  }
}

