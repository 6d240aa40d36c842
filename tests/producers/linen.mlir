// By flax 0.12.8, jax 0.10.2
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x12x12x3xf32>) -> (tensor<2x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<"0x457E043ED93D64BD1CA2B73D89C16DBE930C913D7CA1233EC41850BDB368BDBD3ABEE43D3D3DD5BD0CB8683C0A24513E9C2497BE3324553DF4F31CBE5F96B73DE261A3BCED2CA63B622D7BBC6A909B3D073C073D9BEFCCBE791F3C3E897E2E3D240D503DE40FCC3DE61142BEB07BC03E800DEF3DC8E248BE7399023E0B099ABE2FCA3CBEBD8BA73E91D0C33E3793A6BE9CFE37BEDBB99A3E2F6792BE95C668BD40DD973E379D6D3EA63F053E3155143DBB9BF7BB3E05B2BD9F73DCBE9461513E41C684BD924D81BD1200A9BDFB5A023EFE89B6BE9AAEC13E5301A83D0F01ADBDEE2C8D3EFB3DA4BEAA7F9BBE7A377EBED6B135BD67551DBE29B1CA3D6B385EBCC797E93D774C9D3EDB87953D20B9DFBE7FC553BEA751C3BDC46005BE4A982A3E58727EBD3DA9573D1FD94DBD5BD5643E6A9E033DC2CB72BE9CF5D7BE720B43BE64C107BE83ED413DD33E8F3E35BD3ABE2CE48E3EA9183EBE035BAFBE554B04BE336B783E74975CBE2BDDB7BE4DCE413ED8CE0B3EFB54F83CC4F92CBE2E78BE3D6E816B3D1866B5BD298816BD2B1859BEA10C53BE7CA38DBE5E7F323E0E2E0C3E9E817E3B6515393DE7A8E73D271B123D54BC893EE6BFA93D761FC0BC0A9C9FBD835D53BC51E74CBE3822A83EBF0CADBEF8CC0FBE8CE58E3DDF1A52BD69AB9FBE2B77B2BEED44743ECD3052BDFC3B6CBD85249D3E917D623E7F657DBDCEAA98BDB625A23D230DC83C14687E3E1E4A4ABEA08CDFBD3EE24C3E5B2CB73D70BA203E5C639CBE354938BE06EF9EBE84CDFDBD39EF563EF2DD2A3E3EF627BD9A7D9BBE07BBA73D524A3ABD3DAC1BBC9AB5E83D796C3ABEA103BA3E6A4BF9BC45466E3D59B0713E52C603BE0353C73EC6191B3EAB229E3B2617C23D70DA74BEBC5256BD3C44763E502631BD3B4D643EF3062BBDB5B4293E80A52E3ED26EA4BB56426DBDFA0681BD678356BE7D2A6C3ECBE2493E880095BED7FD033E471A043B102E8BBD9C1EA3BDF837163E83825E3D59EC783B3E4EBBBEEC83D93C17AB233DF35D83BEB70FBA3E15C1903D70393D3D62ABD53C4CB1393E231160BD2799C3BD7F84F3BDFC799EBEBBC5393E2A8624BEDA13353E002D843D8BC7CE3E416E893ED4B8AABDC43C7E3EF6C5BEBEA99A41BD8B3392BEE6ED2EBD3F81CABE40F8D2BE457BFE3C8FCB93BD3FDDC8BD3FD2203E42DACC3DC1D057BC5009BC3E373D0C3A578A84BE"> : tensor<3x3x3x8xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<[[[-0.0691664516, -0.163882777, -0.344340116, 0.101054348], [6.121830e-01, -0.448284954, -0.0234622937, -0.368581206]], [[-0.0714742169, 0.151595488, -0.379619122, -0.50628829], [0.286443144, -0.0472663306, 0.329012483, -0.312693298]], [[-0.469501019, 0.751994132, -0.497804672, -0.231991231], [0.131216019, 0.152043119, 0.0972949564, 9.494850e-02]], [[-0.452384889, 0.575745225, -0.11507614, -0.0936415717], [-0.232379317, 0.363525838, -0.0750275254, -0.310478777]], [[-0.136489347, -0.177390218, -0.176777303, 0.568875134], [-0.72556442, -0.432424963, 4.653200e-01, 0.0329313613]], [[0.0721776709, -0.184087053, -0.346900165, -0.236530542], [-0.0906637162, -0.0987814813, -0.264252633, -0.363234967]], [[-0.273987561, -0.0334228873, 0.0369185358, -0.127176553], [0.0385244638, 0.153588682, -0.214648575, -0.165363461]], [[-0.0493516028, -0.0114955166, 0.261720717, 0.0465007313], [0.123496935, 0.0357667506, 0.0168353226, 0.192750782]]]> : tensor<8x2x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_7 = stablehlo.constant dense<[[[-0.33380428, -0.201153591, -0.233610287, 0.195137173], [-1.184350e-01, 0.297012478, 0.109347463, -0.214262113]], [[-0.216027215, -0.26134783, 0.0859631523, 0.433844119], [0.358060688, -0.66638261, 0.157154098, -0.262578815]], [[0.148339748, 0.198064268, 0.218808055, 0.166411921], [-0.455630869, 0.160824165, 0.0956249311, -0.10989359]], [[0.316696733, -0.432668179, 0.391389936, 0.241789326], [0.25429669, 0.0060121296, -0.353460848, -0.441656262]], [[-0.801915049, -0.131399199, 0.413604975, -0.395743579], [-0.00147300155, 0.029998282, 0.217068091, 0.213962197]], [[0.28908217, -7.185370e-02, -0.0712226629, -0.25653863], [0.521871209, -0.402235687, -0.59901613, 0.173916295]], [[0.136602908, -0.412048668, -0.0480735414, -0.255640954], [0.144191742, -0.180342868, -0.180384576, -0.175853118]], [[0.268055379, -4.367250e-01, 0.25163281, 0.705753446], [-0.339557052, -0.0967210903, -0.202795163, 0.315549493]]]> : tensor<8x2x4xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_9 = stablehlo.constant dense<[[[0.218728557, 0.0765574127, 0.735171139, 0.217335373], [0.630896688, -0.129926279, 0.0320627727, 0.524947047]], [[0.23594518, -0.0810039341, 0.00546478666, 0.0849815607], [-5.522140e-01, 0.417607635, -0.416779697, 0.649605036]], [[-0.475098789, 0.249800727, -0.213660285, -0.261986613], [-0.242295876, -0.169488564, 0.338284045, -0.632632375]], [[-0.0133907236, -6.550020e-02, 0.586068928, 0.515473068], [-5.385430e-01, -0.227659538, 0.0323648974, 0.179155603]], [[0.243709862, -0.112652473, -0.11553555, -0.479507387], [-0.789802968, 0.310020894, -0.322600543, -0.167050987]], [[-0.447382241, -0.681870222, -0.367893785, 0.0609180257], [-0.425611943, 0.0886936858, 0.499698877, 0.395164192]], [[-0.219198391, 0.625250936, -0.167864069, -0.43711412], [0.597574592, 0.192416206, 0.574473679, -0.676774561]], [[0.360286921, -0.197485343, -0.421253383, 0.0849738195], [0.306349844, -0.163374871, 0.452843487, 0.41409567]]]> : tensor<8x2x4xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_11 = stablehlo.constant dense<[[[-0.212596968, -0.594836235, 0.156259313, 0.306070149, 0.259936184, 0.0491903611, -0.357687503, 0.173945636], [-0.118160009, -0.00194772636, 0.439382672, 0.0463136584, -0.0671608597, 0.112948097, 0.174041688, -0.0373237841], [0.0489902049, 0.66031152, -0.63344276, 0.383493334, -0.593040645, 0.369792491, -0.191617474, 0.347736955], [-0.0419230722, -0.215295494, -0.599778056, 0.196022063, 0.125987276, 0.296162188, 0.344921589, -0.415823132]], [[-0.262420177, 0.487529904, -0.079087235, -0.752266824, -0.202200502, -0.517680883, -0.0301607214, 0.159513414], [-0.0392650478, 0.284371197, 0.0538754053, 0.156201184, -0.304414093, 0.240320161, -0.00661337096, -0.55193162], [0.0537575409, 0.0215364359, 0.467481554, 0.162691429, 0.0892610326, -0.614357352, -0.404047489, -0.0245321784], [-0.145191282, 0.18521288, 0.0866705402, -0.16904749, 0.354167968, -0.0982562378, 0.54066211, 0.477531493]]]> : tensor<2x4x8xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_13 = stablehlo.constant dense<[[-0.583999276, 0.266774207, -0.487108231], [-0.301235616, 0.325053602, 0.453828841], [0.369129121, -0.0164389051, 0.149480909], [0.274835646, -0.643265128, 0.302034467], [-0.249702409, 0.180077434, 0.431908756], [-0.0972100645, -0.524437428, -4.667410e-01], [-0.25148502, -0.0117904916, -0.11978665], [-0.22077246, -0.745419264, -1.905420e-01]]> : tensor<8x3xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
    %0 = stablehlo.convolution(%arg0, %cst) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x12x12x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x6x6x8xf32>
    %1 = stablehlo.reshape %cst_0 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x6x6x8xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x6x6x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x6x6x8xf32>) -> tensor<2x6x6x2x4xf32>
    %5 = chlo.square %4 : tensor<2x6x6x2x4xf32> -> tensor<2x6x6x2x4xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%4 init: %cst_15) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x6x6x2x4xf32>, tensor<f32>) -> tensor<2x2xf32>
    %cst_16 = stablehlo.constant dense<1.440000e+02> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
    %8 = stablehlo.divide %6, %7 : tensor<2x2xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%5 init: %cst_17) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x6x6x2x4xf32>, tensor<f32>) -> tensor<2x2xf32>
    %cst_18 = stablehlo.constant dense<1.440000e+02> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
    %11 = stablehlo.divide %9, %10 : tensor<2x2xf32>
    %12 = chlo.square %8 : tensor<2x2xf32> -> tensor<2x2xf32>
    %13 = stablehlo.subtract %11, %12 : tensor<2x2xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
    %15 = stablehlo.maximum %14, %13 : tensor<2x2xf32>
    %16 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<2x2x4xf32>
    %17 = stablehlo.reshape %16 : (tensor<2x2x4xf32>) -> tensor<2x8xf32>
    %18 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<2x2x4xf32>
    %19 = stablehlo.reshape %18 : (tensor<2x2x4xf32>) -> tensor<2x8xf32>
    %20 = stablehlo.broadcast_in_dim %17, dims = [0, 3] : (tensor<2x8xf32>) -> tensor<2x1x1x8xf32>
    %21 = stablehlo.broadcast_in_dim %19, dims = [0, 3] : (tensor<2x8xf32>) -> tensor<2x1x1x8xf32>
    %22 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<2x1x1x8xf32>) -> tensor<2x6x6x8xf32>
    %23 = stablehlo.subtract %3, %22 : tensor<2x6x6x8xf32>
    %cst_20 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x1x1x8xf32>
    %25 = stablehlo.add %21, %24 : tensor<2x1x1x8xf32>
    %26 = stablehlo.rsqrt %25 : tensor<2x1x1x8xf32>
    %27 = stablehlo.reshape %cst_1 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x1x1x8xf32>
    %29 = stablehlo.multiply %26, %28 : tensor<2x1x1x8xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<2x1x1x8xf32>) -> tensor<2x6x6x8xf32>
    %31 = stablehlo.multiply %23, %30 : tensor<2x6x6x8xf32>
    %32 = stablehlo.reshape %cst_2 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x6x6x8xf32>
    %34 = stablehlo.add %31, %33 : tensor<2x6x6x8xf32>
    %35 = stablehlo.multiply %34, %34 : tensor<2x6x6x8xf32>
    %36 = stablehlo.multiply %35, %34 : tensor<2x6x6x8xf32>
    %cst_21 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x6x6x8xf32>
    %38 = stablehlo.multiply %37, %36 : tensor<2x6x6x8xf32>
    %39 = stablehlo.add %34, %38 : tensor<2x6x6x8xf32>
    %cst_22 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x6x6x8xf32>
    %41 = stablehlo.multiply %40, %39 : tensor<2x6x6x8xf32>
    %42 = stablehlo.tanh %41 : tensor<2x6x6x8xf32>
    %cst_23 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x6x6x8xf32>
    %44 = stablehlo.add %43, %42 : tensor<2x6x6x8xf32>
    %cst_24 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x6x6x8xf32>
    %46 = stablehlo.multiply %45, %44 : tensor<2x6x6x8xf32>
    %47 = stablehlo.multiply %34, %46 : tensor<2x6x6x8xf32>
    %48 = stablehlo.reshape %47 : (tensor<2x6x6x8xf32>) -> tensor<2x36x8xf32>
    %49 = chlo.square %48 : tensor<2x36x8xf32> -> tensor<2x36x8xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %50 = stablehlo.reduce(%48 init: %cst_25) applies stablehlo.add across dimensions = [2] : (tensor<2x36x8xf32>, tensor<f32>) -> tensor<2x36xf32>
    %cst_26 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x36xf32>
    %52 = stablehlo.divide %50, %51 : tensor<2x36xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %53 = stablehlo.reduce(%49 init: %cst_27) applies stablehlo.add across dimensions = [2] : (tensor<2x36x8xf32>, tensor<f32>) -> tensor<2x36xf32>
    %cst_28 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x36xf32>
    %55 = stablehlo.divide %53, %54 : tensor<2x36xf32>
    %56 = chlo.square %52 : tensor<2x36xf32> -> tensor<2x36xf32>
    %57 = stablehlo.subtract %55, %56 : tensor<2x36xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %58 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x36xf32>
    %59 = stablehlo.maximum %58, %57 : tensor<2x36xf32>
    %60 = stablehlo.broadcast_in_dim %52, dims = [0, 1] : (tensor<2x36xf32>) -> tensor<2x36x1xf32>
    %61 = stablehlo.broadcast_in_dim %59, dims = [0, 1] : (tensor<2x36xf32>) -> tensor<2x36x1xf32>
    %62 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<2x36x1xf32>) -> tensor<2x36x8xf32>
    %63 = stablehlo.subtract %48, %62 : tensor<2x36x8xf32>
    %cst_30 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x36x1xf32>
    %65 = stablehlo.add %61, %64 : tensor<2x36x1xf32>
    %66 = stablehlo.rsqrt %65 : tensor<2x36x1xf32>
    %67 = stablehlo.reshape %cst_3 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %68 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<2x36x1xf32>) -> tensor<2x36x8xf32>
    %69 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x36x8xf32>
    %70 = stablehlo.multiply %68, %69 : tensor<2x36x8xf32>
    %71 = stablehlo.multiply %63, %70 : tensor<2x36x8xf32>
    %72 = stablehlo.reshape %cst_4 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x36x8xf32>
    %74 = stablehlo.add %71, %73 : tensor<2x36x8xf32>
    %75 = stablehlo.dot_general %74, %cst_5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x36x8xf32>, tensor<8x2x4xf32>) -> tensor<2x36x2x4xf32>
    %76 = stablehlo.reshape %cst_6 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x36x2x4xf32>
    %78 = stablehlo.add %75, %77 : tensor<2x36x2x4xf32>
    %79 = stablehlo.dot_general %74, %cst_7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x36x8xf32>, tensor<8x2x4xf32>) -> tensor<2x36x2x4xf32>
    %80 = stablehlo.reshape %cst_8 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x36x2x4xf32>
    %82 = stablehlo.add %79, %81 : tensor<2x36x2x4xf32>
    %83 = stablehlo.dot_general %74, %cst_9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x36x8xf32>, tensor<8x2x4xf32>) -> tensor<2x36x2x4xf32>
    %84 = stablehlo.reshape %cst_10 : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x36x2x4xf32>
    %86 = stablehlo.add %83, %85 : tensor<2x36x2x4xf32>
    %cst_31 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %87 = stablehlo.sqrt %cst_31 : tensor<f32>
    %88 = stablehlo.convert %87 : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %88, dims = [] : (tensor<f32>) -> tensor<2x36x2x4xf32>
    %90 = stablehlo.divide %78, %89 : tensor<2x36x2x4xf32>
    %91 = stablehlo.dot_general %90, %82, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x36x2x4xf32>, tensor<2x36x2x4xf32>) -> tensor<2x2x36x36xf32>
    %cst_32 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %92 = stablehlo.reduce(%91 init: %cst_32) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x36x36xf32>, tensor<f32>) -> tensor<2x2x36xf32>
    %cst_33 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<2x2x36xf32>
    %94 = stablehlo.maximum %93, %92 : tensor<2x2x36xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<2x2x36xf32>) -> tensor<2x2x36x1xf32>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2, 3] : (tensor<2x2x36x1xf32>) -> tensor<2x2x36x36xf32>
    %97 = stablehlo.subtract %91, %96 : tensor<2x2x36x36xf32>
    %98 = stablehlo.exponential %97 : tensor<2x2x36x36xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %99 = stablehlo.reduce(%98 init: %cst_34) applies stablehlo.add across dimensions = [3] : (tensor<2x2x36x36xf32>, tensor<f32>) -> tensor<2x2x36xf32>
    %100 = stablehlo.broadcast_in_dim %99, dims = [0, 1, 2] : (tensor<2x2x36xf32>) -> tensor<2x2x36x1xf32>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2, 3] : (tensor<2x2x36x1xf32>) -> tensor<2x2x36x36xf32>
    %102 = stablehlo.divide %98, %101 : tensor<2x2x36x36xf32>
    %103 = stablehlo.dot_general %86, %102, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x36x2x4xf32>, tensor<2x2x36x36xf32>) -> tensor<2x2x4x36xf32>
    %104 = stablehlo.transpose %103, dims = [0, 3, 1, 2] : (tensor<2x2x4x36xf32>) -> tensor<2x36x2x4xf32>
    %105 = stablehlo.dot_general %104, %cst_11, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x36x2x4xf32>, tensor<2x4x8xf32>) -> tensor<2x36x8xf32>
    %106 = stablehlo.reshape %cst_12 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x36x8xf32>
    %108 = stablehlo.add %105, %107 : tensor<2x36x8xf32>
    %109 = stablehlo.add %48, %108 : tensor<2x36x8xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %110 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<f32>
    %111 = "stablehlo.reduce_window"(%109, %110) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<0> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 4, 1>, window_strides = array<i64: 1, 4, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %121 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %121 : tensor<f32>
    }) : (tensor<2x36x8xf32>, tensor<f32>) -> tensor<2x9x8xf32>
    %cst_36 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x9x8xf32>
    %113 = stablehlo.divide %111, %112 : tensor<2x9x8xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_37) applies stablehlo.add across dimensions = [1] : (tensor<2x9x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_38 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %116 = stablehlo.divide %114, %115 : tensor<2x8xf32>
    %117 = stablehlo.dot_general %116, %cst_13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8xf32>, tensor<8x3xf32>) -> tensor<2x3xf32>
    %118 = stablehlo.reshape %cst_14 : (tensor<3xf32>) -> tensor<1x3xf32>
    %119 = stablehlo.broadcast_in_dim %118, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
    %120 = stablehlo.add %117, %119 : tensor<2x3xf32>
    return %120 : tensor<2x3xf32>
  }
}

