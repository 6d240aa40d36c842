// By keras 3.15.1, jax 0.10.2
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x6xi32>) -> (tensor<2x2xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<"0x87C7803CBAA09D3C7A2D41BD5DEE48BD80A9E4BB2045ADBCB349953BA0BC8FBC932AF83C5708063D2ACC0BBD272E4F3CFA7C4BBD67FF443C1D1E38BD8D57923C9AD93838477DAE3C5A97FE3C2003073DAD5700BDC06007BDDA91193D804DCCBB9AC1D73A608DBE3CCDE44DBB1ADA3CBD37783A3DDAF1003C93C92EBDB396803B8DB9EFBCB7962CBDEAEE04BD00C010BDEDA1313D535DEDBC33ACB6BB733D563C608F20BD00747BBBCD9927BB37D5343DB3CE173CE7D6ECBB0DED223D5A9EBBBC0DC4323DB38BCBBB23933EBD3A2D4BBD608A34BDCDDEFC3C0D9C5FBC27C812BC9AD5373CCAF0443DBA3CAA3C4DD8F43B5A1013BD67BCE43BE7CE1CBCD33F9BBC3AD9823C6722803CCDFACBBB00C861BB7A022ABDC34E1D3DED7D853C4AFF08BD7DF11FBD33A7F73B77C3203D9A5384BC0024373BE7E391BC33519D3A3370CD3C00B0C83A73673A3CED03E3BC83B6153D1A7DBDBC7ABBD53C83D23BBD3A14893C804283BBC7BB0F3D4747D53CCD8DB33BCDB2203C1ADA46BC2D1D0F3D8D5E0B3DC0F7473D0AA523BD802436BD9A7B0D3B6AB923BD0018C5BA00D9B93CC04155BC9D963E3D4DB2753CC79F18BD30140B3D0021E9BB001369BC47AAB83CE74D19BCCD69FE3CC05473BC4A9D283DC07E993CDA767BBC6722913CE77DC5BC406E273C7AB8BF3CE78F9A3C3342A53B53408CBC4705483D40A69A3CC06B81BC4021D83C"> : tensor<16x8xf32>
    %cst_0 = stablehlo.constant dense<[[[0.272155881, -0.512453914, -0.311089098, 0.0934328809], [0.27489239, -0.556846559, -0.0393704772, 0.319819659]], [[0.545535862, -0.256313771, -0.33392787, 0.492299795], [-0.172750399, -0.100942299, -0.224559709, -0.382070661]], [[-0.382539928, 0.074409835, 5.933110e-01, 0.599332809], [0.447756499, 3.137520e-01, -0.514360547, -0.029046163]], [[-0.175978914, 0.43321088, 0.45543164, -0.299293667], [-0.215424284, 0.50747925, -0.504765213, -0.0275185555]], [[-0.363514394, -0.46927312, -0.286866069, -0.527686059], [0.212178394, 0.555662155, -0.101600029, -0.244388834]], [[-0.458226979, -0.570669174, 0.00944538694, -0.385010689], [0.54410851, 0.307398319, -0.3712174, -0.342886508]], [[0.0783374086, -0.266350448, 0.318645805, 0.513183951], [0.242602512, -0.153964013, 0.124803528, 0.470770508]], [[-0.57845217, 0.375470251, -0.0388618074, 0.186888248], [0.601570725, 3.111380e-01, 0.0625272542, -0.0358936079]]]> : tensor<8x2x4xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_2 = stablehlo.constant dense<[[[0.348225594, -0.475413769, -0.489538789, 0.559924066], [-0.441718936, -0.260600924, 0.571735263, 0.189147323]], [[-0.196229681, 0.536270618, -0.421227843, -0.363988161], [0.545457125, -0.496505052, 0.585975766, -0.256149203]], [[0.458001703, 0.185541824, 0.520630836, 0.270538628], [0.151179478, 0.555335701, 0.277586669, -0.0235274732]], [[-0.55847764, -0.0196891073, 0.281646967, -0.12606512], [0.178949162, 0.420915246, 0.561653197, 0.270081639]], [[-0.0760295689, 0.246973783, 0.323807389, 0.0455625243], [0.0538549386, -0.458130747, 0.121831097, -0.548689485]], [[0.034265697, -0.256920099, 0.347886592, -0.34896481], [-0.0727052689, -0.280268431, -0.594047606, -0.00166747707]], [[0.502236605, 0.0367846526, -0.253147423, -0.185891509], [0.260746479, 0.47194463, -0.240453675, -0.577056884]], [[-0.534580052, -0.028013207, -0.246060699, -0.00646375492], [-0.0473816954, -3.143220e-01, -0.571073592, 0.377399951]]]> : tensor<8x2x4xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_4 = stablehlo.constant dense<[[[0.0405313298, 0.564772069, 0.28658998, -0.493052274], [-0.208215922, 0.594187319, 0.408255786, 0.579001725]], [[-0.0147344181, -0.433259338, 0.485066175, 0.259027034], [-0.346978158, -0.479500771, 0.3238855, 0.296746969]], [[-0.306597382, -0.232765839, 0.113891125, 0.3725425], [-0.0232608747, -0.25757885, 0.560535371, 0.482987553]], [[0.387451977, 0.569496334, -0.179434031, 0.184247673], [-0.0634187311, -0.264013261, -0.14975509, 0.13923718]], [[0.085694395, -0.257130057, -0.0190756116, -0.399514288], [0.0433294401, 0.522904217, 0.307528257, 0.15548636]], [[0.268978745, -0.0418980457, -0.285140336, 0.427156061], [-0.0301416088, 0.113397345, -0.610556364, 0.17977713]], [[-0.246780038, 0.454660177, 0.61198616, -0.504381955], [-5.833980e-01, -0.254514307, 0.461528927, -0.0461847782]], [[-0.0948499664, -0.395619422, 0.0784371271, 0.486877173], [-0.0470520258, 0.379909724, 0.0493220463, -0.0306583066]]]> : tensor<8x2x4xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf32>
    %cst_6 = stablehlo.constant dense<[[[-0.117396899, 0.425164461, -0.593896747, 0.607767463, 0.0417783223, -0.315907717, 0.550011218, 0.541059315], [0.297643274, 0.595032215, 0.336766422, -0.004033715, -0.11505913, -0.09717606, -0.465470374, 0.448520094], [0.591422915, -0.452441096, 0.503392816, 0.348138303, 0.243221268, -0.287267864, -0.584060252, 0.151802897], [-0.512494385, -0.242300585, 0.251374543, -0.214704797, -0.59034574, -0.554066241, -0.377654135, 0.417424232]], [[-0.20137316, -0.386384577, -0.587987661, 0.55572772, -0.0673940479, -0.347453415, 0.231996566, 0.121269286], [-0.555992424, -0.0684213117, -0.140838087, -0.302841336, -0.576134562, 0.124105498, -0.479755968, -0.0749260932], [-0.14127405, 0.140959561, -0.155926555, 0.270567834, -2.420350e-01, 0.254419684, 0.569053948, 0.0860988199], [-5.731830e-01, 0.529444218, -0.021833716, 0.0984839349, -0.266874164, -0.350778878, -0.468198538, -0.160809264]]]> : tensor<2x4x8xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<8xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<8xf32>
    %cst_10 = stablehlo.constant dense<"0x60A8B23DC0A6BD3C68DEB03E48A3D53E20E6393EE0DDF2BEA4F6B9BE4016073E50B34E3EA076D43E00F03F3B0064D4BE6C46C53E58CB7CBE007DA03D6CC9BA3E44238A3EC0C9F23C401CD1BC48C7573EB02D1DBE204C8D3E80CB8EBE104FA7BD901B42BE884FADBE004DC7BB9CA3F53E287981BEC01E4C3D20C0A1BDC87A95BEB0388CBE3CF6A9BE6436DEBE984A9CBE08F7ADBEF446873E480C89BEE4F9BDBE6CE8BD3E2CB8CCBEF03D753E54CBFEBEA89F97BE1831DE3EE0026E3ED4DD823E4C9FD2BE406530BE8C25CC3EF08D40BE18D963BE10253C3EFCC497BE0CA0BE3EA409EABE40CE90BEA4AD933E14DED63E48C529BE9064D3BE204F1EBEC0C95A3ED852353EC09FA13D3411BCBE4C38D03E80F9CABD50C3DA3D8023013C60F0363D1CE3D3BE30330EBEE408D33E04A09FBE00CB63BEB074A3BD2077CE3E8464C7BED87B0B3EC415E63E00CACCBB4C8CB43E00CE2E3E60CDD93D389F163E88A1C83E48DE74BEF0856E3E84CFD2BEE8D11D3E60A36BBE4C5BA43E902BB83E00A0AEBBECC8E4BE08BCE9BE40D8E23EA0A435BD106A023E988C55BECC3582BEA4F3913E30C2C23EC8FDC73E1022BDBDA012F83D70B1063ED8C2B23E9425983EA0BF05BDAC65F63E8861A43EE87F5CBEC049CF3CB0BB023EA02363BDE8584D3EA4E09ABE600BBCBE10BC93BE341D96BEA0FC2ABEF0CF95BD18DE81BEC8687DBE604E29BE"> : tensor<8x16xf32>
    %cst_11 = stablehlo.constant dense<[[0.0898319483, -0.396820337, -0.106769197, 0.0920118466, -0.326149583, 0.157748073, -0.262466073, -0.472549796, -0.0530899838, -0.233868703, 0.170090854, -0.153094977, -0.303940386, -0.249467731, 0.355177104, 0.0223949291], [-0.378455758, 0.240257964, 0.118381232, -0.324991435, 0.109310195, -0.070486553, -0.0515596196, -0.167176157, -0.383056313, -0.257025182, -0.331431866, 0.33046639, -0.370065272, -0.164073899, -0.0141302794, 0.18966575], [0.630766212, 0.020589605, -0.0183592029, -1.417190e-01, 0.0576281101, 0.0534083731, 0.503918529, 0.0323151052, -0.239151984, -0.244506747, 0.0834998488, 0.270360082, -0.154423088, -0.0234670565, 0.0894019827, -0.301169634], [0.192544699, -0.181392938, 0.127470568, -3.971960e-02, -0.140597165, -0.251011401, -0.259096682, 0.299809217, -0.51723516, 0.567634165, 0.029800253, 0.0612891838, -0.161093205, 0.0702242181, 0.202110931, 0.0793057829]]> : tensor<4x16xf32>
    %cst_12 = stablehlo.constant dense<[0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00]> : tensor<16xf32>
    %cst_13 = stablehlo.constant dense<"0x8C8C80BE108B8A3D5489BEBE10C1E3BEB84F3E3E98DC713E00CD94BE10A8F63D88F72FBE04F88C3E9C9788BE804F883E0835E5BE085C8DBEF08A8E3EEC4292BE9085D03E40790B3EC08BE23D5C2DCFBED89CA3BE1846D73E1472C63E483B2E3EE073D3BE00A0A33CB0A19A3D405AA13C00ABBE3DE0A6053EACEBAB3E9464C53ED09BECBE8088003E7056693E0CF3FDBED017A33DF001983E782828BE584390BE1489973E008EFDBE488043BE7C4BFABE5C6CF23E48A932BE28FC4C3E000098380454B7BE4422CA3E709DACBECC61D63E1066A73DA0E55BBDC8F92DBE647E98BEE4469CBE40F1C83D40CDDE3C00F9B2BC2473DB3E802DF3BCA0E8D3BE4077A1BE68D47A3E589295BE008BDB3B8CCD92BEC06076BED8B5BA3E8861023E503A093EA8DF2D3E0010AF3A3418FABE203CC13D589FD0BEE4F39BBE185DCE3EC0BA4B3EA0E2E23E908550BE149ECD3E94E3D9BEBCE181BE50DEDEBE50F4A93D80AFCB3CC0A6A03E50481EBEC80CC9BED8A466BE60FD3B3E80FC79BED888563E800A8CBC206B703D30A49FBE6466ED3E24AEEEBE70B9A8BDAC96833E20D9BDBEC810D93EA8C5C03E2011463D18B29DBEA452BABECC3C923E0021B83DFC1EFD3EACE396BE70044EBE60E6E03EF058BEBE3406F53E40512A3EA0E1F6BE903E843EB0E7D93DD45AD7BEF890283E501BE73E98FFFFBE005B1BBC90A34CBE487F8FBE200DB43E"> : tensor<8x16xf32>
    %cst_14 = stablehlo.constant dense<[[0.210998654, 0.106483988, 0.0430918559, -0.0700675473, -0.263479054, 0.154975966, 0.152902856, 0.103487417, 0.608830034, 0.0884605646, 0.20746924, -0.0182657223, -0.392254442, -0.124838285, 0.42202121, 0.201048121], [-0.438277364, 0.321479857, 0.105223693, 0.316820443, -0.0709245056, -0.183415487, 0.126506075, -3.75963748E-4, 0.472571075, -0.300854802, -0.0696129203, -0.276874512, 0.230762571, 0.126674801, -0.244098783, 0.119232565], [-0.15088965, 0.475272924, 0.034724649, -0.398485392, 0.324448735, 0.0621323586, 0.115369514, 0.439253926, -0.125333294, 0.34250173, 0.208054617, -0.266767502, 0.0598452352, 0.155657813, 0.0206616111, -0.0162733775], [-0.52378124, 0.0270556882, 0.175217614, -0.200281769, -0.169681057, 0.222923785, 0.0315621272, -0.0590290911, -0.0886698961, -0.0425806157, 0.254585415, 0.598258376, 0.219113261, -0.0975164398, 0.105401054, 0.264779627]]> : tensor<4x16xf32>
    %cst_15 = stablehlo.constant dense<[0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 1.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00, 0.000000e+00]> : tensor<16xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<2x12xf32>
    %cst_17 = stablehlo.constant dense<[[0.0541571379, 0.545473337, -0.459369212, -0.0849942714, 0.385947973, -0.448723346, -0.188886479, 0.267090201, -0.241728991, -0.487559199, 0.14763096, -0.492718846], [-4.150710e-01, 0.542233706, 0.271742523, 0.514923513, 0.124586366, 0.475105375, 0.192379162, 0.144595206, 0.103049919, -0.454862505, -0.0921547636, -0.0524960682], [0.0673821047, 0.0732714534, 0.206445098, 0.224544629, 0.374985814, 0.0275482927, 0.461443722, -0.0521989837, -0.453404784, 0.445437372, -0.148090765, 0.468841225], [0.372619063, 0.478142053, -0.529785395, 0.355986953, -0.13163808, -0.326967061, 0.0672926456, -0.486789405, 0.101261131, 0.347577661, -0.331534892, 0.0996494218], [-0.231025025, -0.0335549116, 0.0981796681, -0.196624815, 0.0944900512, -0.514785111, -0.473995507, 0.534853876, -0.0625442341, -0.398684144, -0.27571705, -0.361480355], [-0.451355845, 0.400814533, 0.165193379, -0.40093115, -0.448265254, 0.511700869, 0.464091241, 0.285785079, 0.110096663, 0.507345676, 0.528903365, -0.302045286], [-0.0478290133, 0.242581204, 0.316498816, 0.480745047, 0.179399058, -0.482435495, 0.133172467, -0.404888093, -0.297796637, -0.23564063, 0.0973901376, -0.164305121], [-0.442589939, 0.127674758, -3.490960e-01, 0.215934485, -0.409504592, -0.3516756, 0.123000249, 0.24312301, -0.337249905, -0.357352644, -0.247153983, 0.478972822]]> : tensor<8x12xf32>
    %cst_18 = stablehlo.constant dense<[[-0.0261752605, 0.182558447, 0.0834297537, 0.482020169, 0.282004654, 0.105712958, -0.189003244, 0.409592211, 0.421061695, -0.318650723, 0.285773486, 0.268320501], [0.158441126, 0.289317548, 3.732270e-02, -0.306477875, 0.749590337, -0.152681962, 0.184461921, -0.169417083, -0.223398879, -0.201734319, -0.0876754522, 0.222830981], [0.341355771, -0.383621961, -0.220778242, -0.312795579, 0.0529359803, 0.0221488811, -0.715197563, 0.0446341187, -0.098136723, -0.216192186, 0.106096558, 0.0728527158], [0.0139110424, 0.229562223, -0.206834704, -0.243973628, -0.37658903, -0.5263592, 0.06096204, 0.204901949, 0.0571868978, 0.101899311, 0.1098065, 0.5954144]]> : tensor<4x12xf32>
    %cst_19 = stablehlo.constant dense<[[-0.893448829, -0.416202784], [-0.0776758194, 0.0115184784], [0.642390251, 0.308361053], [-0.574717283, -0.395114183]]> : tensor<4x2xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<2xf32>
    %0 = call @_take(%cst, %arg0) : (tensor<16x8xf32>, tensor<2x6xi32>) -> tensor<2x6x8xf32>
    %1 = stablehlo.dot_general %0, %cst_0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x2x4xf32>) -> tensor<2x6x2x4xf32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [2, 3] : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x6x2x4xf32>
    %4 = stablehlo.add %1, %3 : tensor<2x6x2x4xf32>
    %5 = stablehlo.dot_general %0, %cst_2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x2x4xf32>) -> tensor<2x6x2x4xf32>
    %6 = stablehlo.broadcast_in_dim %cst_3, dims = [2, 3] : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x6x2x4xf32>
    %8 = stablehlo.add %5, %7 : tensor<2x6x2x4xf32>
    %9 = stablehlo.dot_general %0, %cst_4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x2x4xf32>) -> tensor<2x6x2x4xf32>
    %10 = stablehlo.broadcast_in_dim %cst_5, dims = [2, 3] : (tensor<2x4xf32>) -> tensor<1x1x2x4xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x1x2x4xf32>) -> tensor<2x6x2x4xf32>
    %12 = stablehlo.add %9, %11 : tensor<2x6x2x4xf32>
    %13 = stablehlo.reshape %4 : (tensor<2x6x2x4xf32>) -> tensor<2x6x2x1x4xf32>
    %14 = stablehlo.dot_general %13, %8, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x1x4xf32>, tensor<2x6x2x4xf32>) -> tensor<2x2x6x1x6xf32>
    %cst_21 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x2x6x1x6xf32>
    %16 = stablehlo.multiply %14, %15 : tensor<2x2x6x1x6xf32>
    %cst_22 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %17 = stablehlo.reduce(%16 init: %cst_22) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x6x1x6xf32>, tensor<f32>) -> tensor<2x2x6x1xf32>
    %cst_23 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x2x6x1xf32>
    %19 = stablehlo.maximum %18, %17 : tensor<2x2x6x1xf32>
    %20 = stablehlo.transpose %19, dims = [3, 0, 1, 2] : (tensor<2x2x6x1xf32>) -> tensor<1x2x2x6xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<1x2x2x6xf32>) -> tensor<1x2x2x6x1xf32>
    %22 = stablehlo.transpose %16, dims = [3, 0, 1, 2, 4] : (tensor<2x2x6x1x6xf32>) -> tensor<1x2x2x6x6xf32>
    %23 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x6x1xf32>) -> tensor<1x2x2x6x6xf32>
    %24 = stablehlo.subtract %22, %23 : tensor<1x2x2x6x6xf32>
    %25 = stablehlo.exponential %24 : tensor<1x2x2x6x6xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.reduce(%25 init: %cst_24) applies stablehlo.add across dimensions = [4] : (tensor<1x2x2x6x6xf32>, tensor<f32>) -> tensor<1x2x2x6xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x2x2x6xf32>) -> tensor<1x2x2x6x1xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3, 4] : (tensor<1x2x2x6x1xf32>) -> tensor<1x2x2x6x6xf32>
    %29 = stablehlo.divide %25, %28 : tensor<1x2x2x6x6xf32>
    %30 = stablehlo.dot_general %12, %29, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x4xf32>, tensor<1x2x2x6x6xf32>) -> tensor<2x2x4x1x6xf32>
    %31 = stablehlo.transpose %30, dims = [3, 0, 4, 1, 2] : (tensor<2x2x4x1x6xf32>) -> tensor<1x2x6x2x4xf32>
    %32 = stablehlo.transpose %31, dims = [1, 2, 3, 0, 4] : (tensor<1x2x6x2x4xf32>) -> tensor<2x6x2x1x4xf32>
    %33 = stablehlo.reshape %32 : (tensor<2x6x2x1x4xf32>) -> tensor<2x6x2x4xf32>
    %34 = stablehlo.dot_general %33, %cst_6, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x6x2x4xf32>, tensor<2x4x8xf32>) -> tensor<2x6x8xf32>
    %35 = stablehlo.broadcast_in_dim %cst_7, dims = [2] : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %37 = stablehlo.add %34, %36 : tensor<2x6x8xf32>
    %38 = stablehlo.add %0, %37 : tensor<2x6x8xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_25) applies stablehlo.add across dimensions = [2] : (tensor<2x6x8xf32>, tensor<f32>) -> tensor<2x6xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_26 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %42 = stablehlo.divide %40, %41 : tensor<2x6x1xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %43 = call @_var(%38, %c) : (tensor<2x6x8xf32>, tensor<i32>) -> tensor<2x6x1xf32>
    %44 = stablehlo.reshape %cst_8 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %45 = stablehlo.reshape %cst_9 : (tensor<8xf32>) -> tensor<1x1x8xf32>
    %cst_27 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %47 = stablehlo.add %43, %46 : tensor<2x6x1xf32>
    %48 = stablehlo.rsqrt %47 : tensor<2x6x1xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %50 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %51 = stablehlo.multiply %49, %50 : tensor<2x6x8xf32>
    %52 = stablehlo.negate %42 : tensor<2x6x1xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x8xf32>
    %54 = stablehlo.multiply %53, %51 : tensor<2x6x8xf32>
    %55 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2] : (tensor<1x1x8xf32>) -> tensor<2x6x8xf32>
    %56 = stablehlo.add %54, %55 : tensor<2x6x8xf32>
    %57 = stablehlo.multiply %38, %51 : tensor<2x6x8xf32>
    %58 = stablehlo.add %57, %56 : tensor<2x6x8xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %61 = stablehlo.transpose %58, dims = [1, 0, 2] : (tensor<2x6x8xf32>) -> tensor<6x2x8xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<6x2x4xf32>
    %c_31 = stablehlo.constant dense<0> : tensor<i32>
    %63:8 = stablehlo.while(%iterArg = %61, %iterArg_38 = %cst_10, %iterArg_39 = %cst_11, %iterArg_40 = %cst_12, %iterArg_41 = %c_31, %iterArg_42 = %59, %iterArg_43 = %60, %iterArg_44 = %62) : tensor<6x2x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<i32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<6x2x4xf32>
    cond {
      %c_45 = stablehlo.constant dense<6> : tensor<i32>
      %89 = stablehlo.compare LT, %iterArg_41, %c_45, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %89 : tensor<i1>
    } do {
      %89 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_41) : (tensor<6x2x8xf32>, tensor<i32>) -> tensor<2x8xf32>
      %90:3 = func.call @closed_call(%iterArg_38, %iterArg_39, %iterArg_40, %iterArg_42, %iterArg_43, %89) : (tensor<8x16xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
      %91 = func.call @dynamic_update_index_in_dim(%iterArg_44, %90#2, %iterArg_41) : (tensor<6x2x4xf32>, tensor<2x4xf32>, tensor<i32>) -> tensor<6x2x4xf32>
      %c_45 = stablehlo.constant dense<1> : tensor<i32>
      %92 = stablehlo.add %iterArg_41, %c_45 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_38, %iterArg_39, %iterArg_40, %92, %90#0, %90#1, %91 : tensor<6x2x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<i32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<6x2x4xf32>
    }
    %64 = stablehlo.transpose %63#7, dims = [1, 0, 2] : (tensor<6x2x4xf32>) -> tensor<2x6x4xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %65 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %67 = stablehlo.transpose %58, dims = [1, 0, 2] : (tensor<2x6x8xf32>) -> tensor<6x2x8xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<6x2x4xf32>
    %c_35 = stablehlo.constant dense<0> : tensor<i32>
    %69:8 = stablehlo.while(%iterArg = %67, %iterArg_38 = %cst_13, %iterArg_39 = %cst_14, %iterArg_40 = %cst_15, %iterArg_41 = %c_35, %iterArg_42 = %65, %iterArg_43 = %66, %iterArg_44 = %68) : tensor<6x2x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<i32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<6x2x4xf32>
    cond {
      %c_45 = stablehlo.constant dense<6> : tensor<i32>
      %89 = stablehlo.compare LT, %iterArg_41, %c_45, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %89 : tensor<i1>
    } do {
      %c_45 = stablehlo.constant dense<6> : tensor<i32>
      %89 = stablehlo.subtract %c_45, %iterArg_41 : tensor<i32>
      %c_46 = stablehlo.constant dense<1> : tensor<i32>
      %90 = stablehlo.subtract %89, %c_46 : tensor<i32>
      %91 = func.call @dynamic_index_in_dim(%iterArg, %90) : (tensor<6x2x8xf32>, tensor<i32>) -> tensor<2x8xf32>
      %92:3 = func.call @closed_call_1(%iterArg_38, %iterArg_39, %iterArg_40, %iterArg_42, %iterArg_43, %91) : (tensor<8x16xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
      %93 = func.call @dynamic_update_index_in_dim(%iterArg_44, %92#2, %90) : (tensor<6x2x4xf32>, tensor<2x4xf32>, tensor<i32>) -> tensor<6x2x4xf32>
      %c_47 = stablehlo.constant dense<1> : tensor<i32>
      %94 = stablehlo.add %iterArg_41, %c_47 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_38, %iterArg_39, %iterArg_40, %94, %92#0, %92#1, %93 : tensor<6x2x8xf32>, tensor<8x16xf32>, tensor<4x16xf32>, tensor<16xf32>, tensor<i32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<6x2x4xf32>
    }
    %70 = call @_flip(%69#7) : (tensor<6x2x4xf32>) -> tensor<6x2x4xf32>
    %71 = stablehlo.transpose %70, dims = [1, 0, 2] : (tensor<6x2x4xf32>) -> tensor<2x6x4xf32>
    %72 = call @_flip_2(%71) : (tensor<2x6x4xf32>) -> tensor<2x6x4xf32>
    %73 = stablehlo.concatenate %64, %72, dim = 2 : (tensor<2x6x4xf32>, tensor<2x6x4xf32>) -> tensor<2x6x8xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %75 = stablehlo.slice %cst_16 [0:1, 0:12] : (tensor<2x12xf32>) -> tensor<1x12xf32>
    %76 = stablehlo.reshape %75 : (tensor<1x12xf32>) -> tensor<12xf32>
    %77 = stablehlo.slice %cst_16 [1:2, 0:12] : (tensor<2x12xf32>) -> tensor<1x12xf32>
    %78 = stablehlo.reshape %77 : (tensor<1x12xf32>) -> tensor<12xf32>
    %79 = stablehlo.dot_general %73, %cst_17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x8xf32>, tensor<8x12xf32>) -> tensor<2x6x12xf32>
    %80 = stablehlo.broadcast_in_dim %76, dims = [2] : (tensor<12xf32>) -> tensor<1x1x12xf32>
    %81 = stablehlo.broadcast_in_dim %80, dims = [0, 1, 2] : (tensor<1x1x12xf32>) -> tensor<2x6x12xf32>
    %82 = stablehlo.add %79, %81 : tensor<2x6x12xf32>
    %83 = stablehlo.transpose %82, dims = [1, 0, 2] : (tensor<2x6x12xf32>) -> tensor<6x2x12xf32>
    %c_37 = stablehlo.constant dense<0> : tensor<i32>
    %84:5 = stablehlo.while(%iterArg = %83, %iterArg_38 = %cst_18, %iterArg_39 = %78, %iterArg_40 = %c_37, %iterArg_41 = %74) : tensor<6x2x12xf32>, tensor<4x12xf32>, tensor<12xf32>, tensor<i32>, tensor<2x4xf32>
    cond {
      %c_42 = stablehlo.constant dense<6> : tensor<i32>
      %89 = stablehlo.compare LT, %iterArg_40, %c_42, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %89 : tensor<i1>
    } do {
      %89 = func.call @dynamic_index_in_dim_3(%iterArg, %iterArg_40) : (tensor<6x2x12xf32>, tensor<i32>) -> tensor<2x12xf32>
      %90 = func.call @closed_call_4(%iterArg_38, %iterArg_39, %iterArg_41, %89) : (tensor<4x12xf32>, tensor<12xf32>, tensor<2x4xf32>, tensor<2x12xf32>) -> tensor<2x4xf32>
      %c_42 = stablehlo.constant dense<1> : tensor<i32>
      %91 = stablehlo.add %iterArg_40, %c_42 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_38, %iterArg_39, %91, %90 : tensor<6x2x12xf32>, tensor<4x12xf32>, tensor<12xf32>, tensor<i32>, tensor<2x4xf32>
    }
    %85 = stablehlo.dot_general %84#4, %cst_19, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
    %86 = stablehlo.broadcast_in_dim %cst_20, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<2x2xf32>
    %88 = stablehlo.add %85, %87 : tensor<2x2xf32>
    return %88 : tensor<2x2xf32>
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
    %14 = call @_where_0(%13, %12, %cst_4) : (tensor<i1>, tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6x1xf32>
    return %14 : tensor<2x6x1xf32>
  }
  func.func private @_where_0(%arg0: tensor<i1>, %arg1: tensor<2x6x1xf32>, %arg2: tensor<f32>) -> tensor<2x6x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x6x1xf32>
    return %2 : tensor<2x6x1xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<6x2x8xf32>, %arg1: tensor<i32>) -> tensor<2x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 2, 8] : (tensor<6x2x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x8xf32>) -> tensor<2x8xf32>
    return %1 : tensor<2x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<8x16xf32>, %arg1: tensor<4x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<2x4xf32>, %arg4: tensor<2x4xf32>, %arg5: tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
    %0 = stablehlo.dot_general %arg5, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
    %1 = stablehlo.dot_general %arg3, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x16xf32>) -> tensor<2x16xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x16xf32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<2x16xf32>
    %5 = stablehlo.add %2, %4 : tensor<2x16xf32>
    %6 = stablehlo.slice %5 [0:2, 0:4] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %7 = stablehlo.slice %5 [0:2, 4:8] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %8 = stablehlo.slice %5 [0:2, 8:12] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %9 = stablehlo.slice %5 [0:2, 12:16] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %10 = stablehlo.negate %6 : tensor<2x4xf32>
    %11 = stablehlo.exponential %10 : tensor<2x4xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %13 = stablehlo.add %12, %11 : tensor<2x4xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %15 = stablehlo.divide %14, %13 : tensor<2x4xf32>
    %16 = stablehlo.negate %7 : tensor<2x4xf32>
    %17 = stablehlo.exponential %16 : tensor<2x4xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %19 = stablehlo.add %18, %17 : tensor<2x4xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %21 = stablehlo.divide %20, %19 : tensor<2x4xf32>
    %22 = stablehlo.multiply %21, %arg4 : tensor<2x4xf32>
    %23 = stablehlo.tanh %8 : tensor<2x4xf32>
    %24 = stablehlo.multiply %15, %23 : tensor<2x4xf32>
    %25 = stablehlo.add %22, %24 : tensor<2x4xf32>
    %26 = stablehlo.negate %9 : tensor<2x4xf32>
    %27 = stablehlo.exponential %26 : tensor<2x4xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %29 = stablehlo.add %28, %27 : tensor<2x4xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %31 = stablehlo.divide %30, %29 : tensor<2x4xf32>
    %32 = stablehlo.tanh %25 : tensor<2x4xf32>
    %33 = stablehlo.multiply %31, %32 : tensor<2x4xf32>
    return %33, %25, %33 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<6x2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<i32>) -> tensor<6x2x4xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<2x4xf32>) -> tensor<1x2x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<6x2x4xf32>, tensor<1x2x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<6x2x4xf32>
    return %1 : tensor<6x2x4xf32>
  }
  func.func private @closed_call_1(%arg0: tensor<8x16xf32>, %arg1: tensor<4x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<2x4xf32>, %arg4: tensor<2x4xf32>, %arg5: tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
    %0 = stablehlo.dot_general %arg5, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
    %1 = stablehlo.dot_general %arg3, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x16xf32>) -> tensor<2x16xf32>
    %2 = stablehlo.add %0, %1 : tensor<2x16xf32>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<16xf32>) -> tensor<1x16xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x16xf32>) -> tensor<2x16xf32>
    %5 = stablehlo.add %2, %4 : tensor<2x16xf32>
    %6 = stablehlo.slice %5 [0:2, 0:4] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %7 = stablehlo.slice %5 [0:2, 4:8] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %8 = stablehlo.slice %5 [0:2, 8:12] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %9 = stablehlo.slice %5 [0:2, 12:16] : (tensor<2x16xf32>) -> tensor<2x4xf32>
    %10 = stablehlo.negate %6 : tensor<2x4xf32>
    %11 = stablehlo.exponential %10 : tensor<2x4xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %13 = stablehlo.add %12, %11 : tensor<2x4xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %15 = stablehlo.divide %14, %13 : tensor<2x4xf32>
    %16 = stablehlo.negate %7 : tensor<2x4xf32>
    %17 = stablehlo.exponential %16 : tensor<2x4xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %19 = stablehlo.add %18, %17 : tensor<2x4xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %21 = stablehlo.divide %20, %19 : tensor<2x4xf32>
    %22 = stablehlo.multiply %21, %arg4 : tensor<2x4xf32>
    %23 = stablehlo.tanh %8 : tensor<2x4xf32>
    %24 = stablehlo.multiply %15, %23 : tensor<2x4xf32>
    %25 = stablehlo.add %22, %24 : tensor<2x4xf32>
    %26 = stablehlo.negate %9 : tensor<2x4xf32>
    %27 = stablehlo.exponential %26 : tensor<2x4xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %29 = stablehlo.add %28, %27 : tensor<2x4xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %31 = stablehlo.divide %30, %29 : tensor<2x4xf32>
    %32 = stablehlo.tanh %25 : tensor<2x4xf32>
    %33 = stablehlo.multiply %31, %32 : tensor<2x4xf32>
    return %33, %25, %33 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  }
  func.func private @_flip(%arg0: tensor<6x2x4xf32>) -> tensor<6x2x4xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<6x2x4xf32>
    return %0 : tensor<6x2x4xf32>
  }
  func.func private @_flip_2(%arg0: tensor<2x6x4xf32>) -> tensor<2x6x4xf32> {
    %0 = stablehlo.reverse %arg0, dims = [1] : tensor<2x6x4xf32>
    return %0 : tensor<2x6x4xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<6x2x12xf32>, %arg1: tensor<i32>) -> tensor<2x12xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 2, 12] : (tensor<6x2x12xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x12xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x12xf32>) -> tensor<2x12xf32>
    return %1 : tensor<2x12xf32>
  }
  func.func private @closed_call_4(%arg0: tensor<4x12xf32>, %arg1: tensor<12xf32>, %arg2: tensor<2x4xf32>, %arg3: tensor<2x12xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x12xf32>) -> tensor<2x12xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<12xf32>) -> tensor<1x12xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x12xf32>) -> tensor<2x12xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x12xf32>
    %4 = stablehlo.slice %arg3 [0:2, 0:4] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %5 = stablehlo.slice %arg3 [0:2, 4:8] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %6 = stablehlo.slice %arg3 [0:2, 8:12] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %7 = stablehlo.slice %3 [0:2, 0:4] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %8 = stablehlo.slice %3 [0:2, 4:8] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %9 = stablehlo.slice %3 [0:2, 8:12] : (tensor<2x12xf32>) -> tensor<2x4xf32>
    %10 = stablehlo.add %4, %7 : tensor<2x4xf32>
    %11 = stablehlo.negate %10 : tensor<2x4xf32>
    %12 = stablehlo.exponential %11 : tensor<2x4xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %14 = stablehlo.add %13, %12 : tensor<2x4xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %16 = stablehlo.divide %15, %14 : tensor<2x4xf32>
    %17 = stablehlo.add %5, %8 : tensor<2x4xf32>
    %18 = stablehlo.negate %17 : tensor<2x4xf32>
    %19 = stablehlo.exponential %18 : tensor<2x4xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %21 = stablehlo.add %20, %19 : tensor<2x4xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %23 = stablehlo.divide %22, %21 : tensor<2x4xf32>
    %24 = stablehlo.multiply %23, %9 : tensor<2x4xf32>
    %25 = stablehlo.add %6, %24 : tensor<2x4xf32>
    %26 = stablehlo.tanh %25 : tensor<2x4xf32>
    %27 = stablehlo.multiply %16, %arg2 : tensor<2x4xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %29 = stablehlo.subtract %28, %16 : tensor<2x4xf32>
    %30 = stablehlo.multiply %29, %26 : tensor<2x4xf32>
    %31 = stablehlo.add %27, %30 : tensor<2x4xf32>
    return %31 : tensor<2x4xf32>
  }
}

