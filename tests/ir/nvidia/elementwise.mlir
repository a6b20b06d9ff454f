// Every elementwise operation on every type is accepted by the assembler. Masked stores are
// never merged, so that every result is computed.
// RUN: nereid-opt --emit-nvidia="stage=check" %s -o /dev/null | FileCheck %s --check-prefix=SASS
// RUN: nereid-opt --emit-nvidia="stage=check sm=80" %s -o /dev/null | FileCheck %s --check-prefix=SASS
// RUN: nereid-opt --emit-nvidia="stage=check sm=89 ptx=81" %s -o /dev/null | FileCheck %s --check-prefix=SASS
// RUN: nereid-opt --emit-nvidia="stage=check sm=120" %s -o /dev/null | FileCheck %s --check-prefix=SASS
// SASS: assembled: 0 bytes of spills

#line = #ngpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], shape = [128]>
func.func @all(%p_i8: !tile.ptr<i8> {tile.divisibility = 16 : i64}, %p_i16: !tile.ptr<i16> {tile.divisibility = 16 : i64}, %p_i32: !tile.ptr<i32> {tile.divisibility = 16 : i64}, %p_i64: !tile.ptr<i64> {tile.divisibility = 16 : i64}, %p_f16: !tile.ptr<f16> {tile.divisibility = 16 : i64}, %p_bf16: !tile.ptr<bf16> {tile.divisibility = 16 : i64}, %p_f32: !tile.ptr<f32> {tile.divisibility = 16 : i64}, %p_f64: !tile.ptr<f64> {tile.divisibility = 16 : i64}, %p_f8E4M3FN: !tile.ptr<f8E4M3FN> {tile.divisibility = 16 : i64}, %p_f8E5M2: !tile.ptr<f8E5M2> {tile.divisibility = 16 : i64}, %n: i32) attributes {tile.kernel, ngpu.num_warps = 2 : i32, ngpu.sm = 90 : i32} {
  %range = tile.range 0 to 128 : tensor<128xi32, #line>
  %limit = tile.splat %n : i32 -> tensor<128xi32, #line>
  %mask = arith.cmpi slt, %range, %limit : tensor<128xi32, #line>
  %v1 = tile.splat %p_i8 : !tile.ptr<i8> -> tensor<128x!tile.ptr<i8>, #line>
  %v2 = tile.addptr %v1, %range : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi32, #line>
  %v3 = tile.load %v2 : tensor<128x!tile.ptr<i8>, #line> -> tensor<128xi8, #line>
  %v4 = tile.load %v2 volatile : tensor<128x!tile.ptr<i8>, #line> -> tensor<128xi8, #line>
  %v5 = tile.splat %p_i16 : !tile.ptr<i16> -> tensor<128x!tile.ptr<i16>, #line>
  %v6 = tile.addptr %v5, %range : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi32, #line>
  %v7 = tile.load %v6 : tensor<128x!tile.ptr<i16>, #line> -> tensor<128xi16, #line>
  %v8 = tile.load %v6 volatile : tensor<128x!tile.ptr<i16>, #line> -> tensor<128xi16, #line>
  %v9 = tile.splat %p_i32 : !tile.ptr<i32> -> tensor<128x!tile.ptr<i32>, #line>
  %v10 = tile.addptr %v9, %range : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>
  %v11 = tile.load %v10 : tensor<128x!tile.ptr<i32>, #line> -> tensor<128xi32, #line>
  %v12 = tile.load %v10 volatile : tensor<128x!tile.ptr<i32>, #line> -> tensor<128xi32, #line>
  %v13 = tile.splat %p_i64 : !tile.ptr<i64> -> tensor<128x!tile.ptr<i64>, #line>
  %v14 = tile.addptr %v13, %range : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi32, #line>
  %v15 = tile.load %v14 : tensor<128x!tile.ptr<i64>, #line> -> tensor<128xi64, #line>
  %v16 = tile.load %v14 volatile : tensor<128x!tile.ptr<i64>, #line> -> tensor<128xi64, #line>
  %v17 = tile.splat %p_f16 : !tile.ptr<f16> -> tensor<128x!tile.ptr<f16>, #line>
  %v18 = tile.addptr %v17, %range : tensor<128x!tile.ptr<f16>, #line>, tensor<128xi32, #line>
  %v19 = tile.load %v18 : tensor<128x!tile.ptr<f16>, #line> -> tensor<128xf16, #line>
  %v20 = tile.load %v18 volatile : tensor<128x!tile.ptr<f16>, #line> -> tensor<128xf16, #line>
  %v21 = tile.splat %p_bf16 : !tile.ptr<bf16> -> tensor<128x!tile.ptr<bf16>, #line>
  %v22 = tile.addptr %v21, %range : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xi32, #line>
  %v23 = tile.load %v22 : tensor<128x!tile.ptr<bf16>, #line> -> tensor<128xbf16, #line>
  %v24 = tile.load %v22 volatile : tensor<128x!tile.ptr<bf16>, #line> -> tensor<128xbf16, #line>
  %v25 = tile.splat %p_f32 : !tile.ptr<f32> -> tensor<128x!tile.ptr<f32>, #line>
  %v26 = tile.addptr %v25, %range : tensor<128x!tile.ptr<f32>, #line>, tensor<128xi32, #line>
  %v27 = tile.load %v26 : tensor<128x!tile.ptr<f32>, #line> -> tensor<128xf32, #line>
  %v28 = tile.load %v26 volatile : tensor<128x!tile.ptr<f32>, #line> -> tensor<128xf32, #line>
  %v29 = tile.splat %p_f64 : !tile.ptr<f64> -> tensor<128x!tile.ptr<f64>, #line>
  %v30 = tile.addptr %v29, %range : tensor<128x!tile.ptr<f64>, #line>, tensor<128xi32, #line>
  %v31 = tile.load %v30 : tensor<128x!tile.ptr<f64>, #line> -> tensor<128xf64, #line>
  %v32 = tile.load %v30 volatile : tensor<128x!tile.ptr<f64>, #line> -> tensor<128xf64, #line>
  %v33 = tile.splat %p_f8E4M3FN : !tile.ptr<f8E4M3FN> -> tensor<128x!tile.ptr<f8E4M3FN>, #line>
  %v34 = tile.addptr %v33, %range : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xi32, #line>
  %v35 = tile.load %v34 : tensor<128x!tile.ptr<f8E4M3FN>, #line> -> tensor<128xf8E4M3FN, #line>
  %v36 = tile.load %v34 volatile : tensor<128x!tile.ptr<f8E4M3FN>, #line> -> tensor<128xf8E4M3FN, #line>
  %v37 = tile.splat %p_f8E5M2 : !tile.ptr<f8E5M2> -> tensor<128x!tile.ptr<f8E5M2>, #line>
  %v38 = tile.addptr %v37, %range : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xi32, #line>
  %v39 = tile.load %v38 : tensor<128x!tile.ptr<f8E5M2>, #line> -> tensor<128xf8E5M2, #line>
  %v40 = tile.load %v38 volatile : tensor<128x!tile.ptr<f8E5M2>, #line> -> tensor<128xf8E5M2, #line>
  %v41 = arith.addi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v41 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v42 = arith.subi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v42 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v43 = arith.muli %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v43 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v44 = arith.divsi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v44 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v45 = arith.divui %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v45 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v46 = arith.ceildivsi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v46 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v47 = arith.ceildivui %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v47 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v48 = arith.floordivsi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v48 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v49 = arith.remsi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v49 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v50 = arith.remui %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v50 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v51 = arith.andi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v51 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v52 = arith.ori %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v52 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v53 = arith.xori %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v53 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v54 = arith.shli %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v54 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v55 = arith.shrsi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v55 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v56 = arith.shrui %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v56 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v57 = arith.minsi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v57 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v58 = arith.maxsi %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v58 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v59 = arith.minui %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v59 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v60 = arith.maxui %v3, %v4 : tensor<128xi8, #line>
  tile.store %v2, %v60 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v61 = arith.cmpi eq, %v3, %v4 : tensor<128xi8, #line>
  %v62 = arith.select %v61, %v3, %v4 : tensor<128xi1, #line>, tensor<128xi8, #line>
  tile.store %v2, %v62 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v63 = arith.extui %v61 : tensor<128xi1, #line> to tensor<128xi8, #line>
  tile.store %v2, %v63 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v64 = arith.cmpi slt, %v3, %v4 : tensor<128xi8, #line>
  %v65 = arith.select %v64, %v3, %v4 : tensor<128xi1, #line>, tensor<128xi8, #line>
  tile.store %v2, %v65 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v66 = arith.extui %v64 : tensor<128xi1, #line> to tensor<128xi8, #line>
  tile.store %v2, %v66 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v67 = arith.cmpi sge, %v3, %v4 : tensor<128xi8, #line>
  %v68 = arith.select %v67, %v3, %v4 : tensor<128xi1, #line>, tensor<128xi8, #line>
  tile.store %v2, %v68 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v69 = arith.extui %v67 : tensor<128xi1, #line> to tensor<128xi8, #line>
  tile.store %v2, %v69 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v70 = arith.cmpi ult, %v3, %v4 : tensor<128xi8, #line>
  %v71 = arith.select %v70, %v3, %v4 : tensor<128xi1, #line>, tensor<128xi8, #line>
  tile.store %v2, %v71 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v72 = arith.extui %v70 : tensor<128xi1, #line> to tensor<128xi8, #line>
  tile.store %v2, %v72 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v73 = arith.cmpi uge, %v3, %v4 : tensor<128xi8, #line>
  %v74 = arith.select %v73, %v3, %v4 : tensor<128xi1, #line>, tensor<128xi8, #line>
  tile.store %v2, %v74 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v75 = arith.extui %v73 : tensor<128xi1, #line> to tensor<128xi8, #line>
  tile.store %v2, %v75 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v76 = math.absi %v3 : tensor<128xi8, #line>
  tile.store %v2, %v76 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v77 = math.ctpop %v3 : tensor<128xi8, #line>
  tile.store %v2, %v77 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v78 = math.ctlz %v3 : tensor<128xi8, #line>
  tile.store %v2, %v78 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v79 = math.cttz %v3 : tensor<128xi8, #line>
  tile.store %v2, %v79 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v80 = arith.addi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v80 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v81 = arith.subi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v81 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v82 = arith.muli %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v82 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v83 = arith.divsi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v83 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v84 = arith.divui %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v84 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v85 = arith.ceildivsi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v85 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v86 = arith.ceildivui %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v86 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v87 = arith.floordivsi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v87 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v88 = arith.remsi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v88 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v89 = arith.remui %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v89 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v90 = arith.andi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v90 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v91 = arith.ori %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v91 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v92 = arith.xori %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v92 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v93 = arith.shli %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v93 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v94 = arith.shrsi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v94 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v95 = arith.shrui %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v95 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v96 = arith.minsi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v96 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v97 = arith.maxsi %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v97 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v98 = arith.minui %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v98 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v99 = arith.maxui %v7, %v8 : tensor<128xi16, #line>
  tile.store %v6, %v99 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v100 = arith.cmpi eq, %v7, %v8 : tensor<128xi16, #line>
  %v101 = arith.select %v100, %v7, %v8 : tensor<128xi1, #line>, tensor<128xi16, #line>
  tile.store %v6, %v101 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v102 = arith.extui %v100 : tensor<128xi1, #line> to tensor<128xi16, #line>
  tile.store %v6, %v102 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v103 = arith.cmpi slt, %v7, %v8 : tensor<128xi16, #line>
  %v104 = arith.select %v103, %v7, %v8 : tensor<128xi1, #line>, tensor<128xi16, #line>
  tile.store %v6, %v104 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v105 = arith.extui %v103 : tensor<128xi1, #line> to tensor<128xi16, #line>
  tile.store %v6, %v105 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v106 = arith.cmpi sge, %v7, %v8 : tensor<128xi16, #line>
  %v107 = arith.select %v106, %v7, %v8 : tensor<128xi1, #line>, tensor<128xi16, #line>
  tile.store %v6, %v107 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v108 = arith.extui %v106 : tensor<128xi1, #line> to tensor<128xi16, #line>
  tile.store %v6, %v108 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v109 = arith.cmpi ult, %v7, %v8 : tensor<128xi16, #line>
  %v110 = arith.select %v109, %v7, %v8 : tensor<128xi1, #line>, tensor<128xi16, #line>
  tile.store %v6, %v110 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v111 = arith.extui %v109 : tensor<128xi1, #line> to tensor<128xi16, #line>
  tile.store %v6, %v111 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v112 = arith.cmpi uge, %v7, %v8 : tensor<128xi16, #line>
  %v113 = arith.select %v112, %v7, %v8 : tensor<128xi1, #line>, tensor<128xi16, #line>
  tile.store %v6, %v113 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v114 = arith.extui %v112 : tensor<128xi1, #line> to tensor<128xi16, #line>
  tile.store %v6, %v114 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v115 = math.absi %v7 : tensor<128xi16, #line>
  tile.store %v6, %v115 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v116 = math.ctpop %v7 : tensor<128xi16, #line>
  tile.store %v6, %v116 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v117 = math.ctlz %v7 : tensor<128xi16, #line>
  tile.store %v6, %v117 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v118 = math.cttz %v7 : tensor<128xi16, #line>
  tile.store %v6, %v118 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v119 = arith.addi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v119 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v120 = arith.subi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v120 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v121 = arith.muli %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v121 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v122 = arith.divsi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v122 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v123 = arith.divui %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v123 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v124 = arith.ceildivsi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v124 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v125 = arith.ceildivui %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v125 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v126 = arith.floordivsi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v126 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v127 = arith.remsi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v127 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v128 = arith.remui %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v128 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v129 = arith.andi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v129 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v130 = arith.ori %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v130 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v131 = arith.xori %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v131 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v132 = arith.shli %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v132 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v133 = arith.shrsi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v133 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v134 = arith.shrui %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v134 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v135 = arith.minsi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v135 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v136 = arith.maxsi %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v136 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v137 = arith.minui %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v137 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v138 = arith.maxui %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v138 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v139 = arith.cmpi eq, %v11, %v12 : tensor<128xi32, #line>
  %v140 = arith.select %v139, %v11, %v12 : tensor<128xi1, #line>, tensor<128xi32, #line>
  tile.store %v10, %v140 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v141 = arith.extui %v139 : tensor<128xi1, #line> to tensor<128xi32, #line>
  tile.store %v10, %v141 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v142 = arith.cmpi slt, %v11, %v12 : tensor<128xi32, #line>
  %v143 = arith.select %v142, %v11, %v12 : tensor<128xi1, #line>, tensor<128xi32, #line>
  tile.store %v10, %v143 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v144 = arith.extui %v142 : tensor<128xi1, #line> to tensor<128xi32, #line>
  tile.store %v10, %v144 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v145 = arith.cmpi sge, %v11, %v12 : tensor<128xi32, #line>
  %v146 = arith.select %v145, %v11, %v12 : tensor<128xi1, #line>, tensor<128xi32, #line>
  tile.store %v10, %v146 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v147 = arith.extui %v145 : tensor<128xi1, #line> to tensor<128xi32, #line>
  tile.store %v10, %v147 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v148 = arith.cmpi ult, %v11, %v12 : tensor<128xi32, #line>
  %v149 = arith.select %v148, %v11, %v12 : tensor<128xi1, #line>, tensor<128xi32, #line>
  tile.store %v10, %v149 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v150 = arith.extui %v148 : tensor<128xi1, #line> to tensor<128xi32, #line>
  tile.store %v10, %v150 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v151 = arith.cmpi uge, %v11, %v12 : tensor<128xi32, #line>
  %v152 = arith.select %v151, %v11, %v12 : tensor<128xi1, #line>, tensor<128xi32, #line>
  tile.store %v10, %v152 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v153 = arith.extui %v151 : tensor<128xi1, #line> to tensor<128xi32, #line>
  tile.store %v10, %v153 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v154 = math.absi %v11 : tensor<128xi32, #line>
  tile.store %v10, %v154 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v155 = math.ctpop %v11 : tensor<128xi32, #line>
  tile.store %v10, %v155 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v156 = math.ctlz %v11 : tensor<128xi32, #line>
  tile.store %v10, %v156 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v157 = math.cttz %v11 : tensor<128xi32, #line>
  tile.store %v10, %v157 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v158 = arith.addi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v158 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v159 = arith.subi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v159 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v160 = arith.muli %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v160 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v161 = arith.divsi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v161 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v162 = arith.divui %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v162 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v163 = arith.ceildivsi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v163 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v164 = arith.ceildivui %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v164 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v165 = arith.floordivsi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v165 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v166 = arith.remsi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v166 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v167 = arith.remui %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v167 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v168 = arith.andi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v168 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v169 = arith.ori %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v169 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v170 = arith.xori %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v170 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v171 = arith.shli %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v171 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v172 = arith.shrsi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v172 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v173 = arith.shrui %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v173 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v174 = arith.minsi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v174 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v175 = arith.maxsi %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v175 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v176 = arith.minui %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v176 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v177 = arith.maxui %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v177 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v178 = arith.cmpi eq, %v15, %v16 : tensor<128xi64, #line>
  %v179 = arith.select %v178, %v15, %v16 : tensor<128xi1, #line>, tensor<128xi64, #line>
  tile.store %v14, %v179 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v180 = arith.extui %v178 : tensor<128xi1, #line> to tensor<128xi64, #line>
  tile.store %v14, %v180 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v181 = arith.cmpi slt, %v15, %v16 : tensor<128xi64, #line>
  %v182 = arith.select %v181, %v15, %v16 : tensor<128xi1, #line>, tensor<128xi64, #line>
  tile.store %v14, %v182 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v183 = arith.extui %v181 : tensor<128xi1, #line> to tensor<128xi64, #line>
  tile.store %v14, %v183 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v184 = arith.cmpi sge, %v15, %v16 : tensor<128xi64, #line>
  %v185 = arith.select %v184, %v15, %v16 : tensor<128xi1, #line>, tensor<128xi64, #line>
  tile.store %v14, %v185 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v186 = arith.extui %v184 : tensor<128xi1, #line> to tensor<128xi64, #line>
  tile.store %v14, %v186 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v187 = arith.cmpi ult, %v15, %v16 : tensor<128xi64, #line>
  %v188 = arith.select %v187, %v15, %v16 : tensor<128xi1, #line>, tensor<128xi64, #line>
  tile.store %v14, %v188 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v189 = arith.extui %v187 : tensor<128xi1, #line> to tensor<128xi64, #line>
  tile.store %v14, %v189 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v190 = arith.cmpi uge, %v15, %v16 : tensor<128xi64, #line>
  %v191 = arith.select %v190, %v15, %v16 : tensor<128xi1, #line>, tensor<128xi64, #line>
  tile.store %v14, %v191 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v192 = arith.extui %v190 : tensor<128xi1, #line> to tensor<128xi64, #line>
  tile.store %v14, %v192 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v193 = math.absi %v15 : tensor<128xi64, #line>
  tile.store %v14, %v193 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v194 = math.ctpop %v15 : tensor<128xi64, #line>
  tile.store %v14, %v194 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v195 = math.ctlz %v15 : tensor<128xi64, #line>
  tile.store %v14, %v195 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v196 = math.cttz %v15 : tensor<128xi64, #line>
  tile.store %v14, %v196 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v197 = tile.mulhi_u %v11, %v12 : tensor<128xi32, #line>
  tile.store %v10, %v197 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v198 = tile.mulhi_u %v15, %v16 : tensor<128xi64, #line>
  tile.store %v14, %v198 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v199 = arith.extsi %v3 : tensor<128xi8, #line> to tensor<128xi16, #line>
  tile.store %v6, %v199 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v200 = arith.extui %v3 : tensor<128xi8, #line> to tensor<128xi16, #line>
  tile.store %v6, %v200 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v201 = arith.trunci %v7 : tensor<128xi16, #line> to tensor<128xi8, #line>
  tile.store %v2, %v201 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v202 = arith.extsi %v3 : tensor<128xi8, #line> to tensor<128xi32, #line>
  tile.store %v10, %v202 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v203 = arith.extui %v3 : tensor<128xi8, #line> to tensor<128xi32, #line>
  tile.store %v10, %v203 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v204 = arith.trunci %v11 : tensor<128xi32, #line> to tensor<128xi8, #line>
  tile.store %v2, %v204 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v205 = arith.extsi %v3 : tensor<128xi8, #line> to tensor<128xi64, #line>
  tile.store %v14, %v205 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v206 = arith.extui %v3 : tensor<128xi8, #line> to tensor<128xi64, #line>
  tile.store %v14, %v206 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v207 = arith.trunci %v15 : tensor<128xi64, #line> to tensor<128xi8, #line>
  tile.store %v2, %v207 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v208 = arith.extsi %v7 : tensor<128xi16, #line> to tensor<128xi32, #line>
  tile.store %v10, %v208 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v209 = arith.extui %v7 : tensor<128xi16, #line> to tensor<128xi32, #line>
  tile.store %v10, %v209 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v210 = arith.trunci %v11 : tensor<128xi32, #line> to tensor<128xi16, #line>
  tile.store %v6, %v210 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v211 = arith.extsi %v7 : tensor<128xi16, #line> to tensor<128xi64, #line>
  tile.store %v14, %v211 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v212 = arith.extui %v7 : tensor<128xi16, #line> to tensor<128xi64, #line>
  tile.store %v14, %v212 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v213 = arith.trunci %v15 : tensor<128xi64, #line> to tensor<128xi16, #line>
  tile.store %v6, %v213 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v214 = arith.extsi %v11 : tensor<128xi32, #line> to tensor<128xi64, #line>
  tile.store %v14, %v214 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v215 = arith.extui %v11 : tensor<128xi32, #line> to tensor<128xi64, #line>
  tile.store %v14, %v215 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v216 = arith.trunci %v15 : tensor<128xi64, #line> to tensor<128xi32, #line>
  tile.store %v10, %v216 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v217 = arith.sitofp %v3 : tensor<128xi8, #line> to tensor<128xf16, #line>
  tile.store %v18, %v217 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v218 = arith.uitofp %v3 : tensor<128xi8, #line> to tensor<128xf16, #line>
  tile.store %v18, %v218 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v219 = arith.fptosi %v19 : tensor<128xf16, #line> to tensor<128xi8, #line>
  tile.store %v2, %v219 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v220 = arith.fptoui %v19 : tensor<128xf16, #line> to tensor<128xi8, #line>
  tile.store %v2, %v220 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v221 = arith.sitofp %v3 : tensor<128xi8, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v221 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v222 = arith.uitofp %v3 : tensor<128xi8, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v222 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v223 = arith.fptosi %v23 : tensor<128xbf16, #line> to tensor<128xi8, #line>
  tile.store %v2, %v223 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v224 = arith.fptoui %v23 : tensor<128xbf16, #line> to tensor<128xi8, #line>
  tile.store %v2, %v224 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v225 = arith.sitofp %v3 : tensor<128xi8, #line> to tensor<128xf32, #line>
  tile.store %v26, %v225 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v226 = arith.uitofp %v3 : tensor<128xi8, #line> to tensor<128xf32, #line>
  tile.store %v26, %v226 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v227 = arith.fptosi %v27 : tensor<128xf32, #line> to tensor<128xi8, #line>
  tile.store %v2, %v227 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v228 = arith.fptoui %v27 : tensor<128xf32, #line> to tensor<128xi8, #line>
  tile.store %v2, %v228 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v229 = arith.sitofp %v3 : tensor<128xi8, #line> to tensor<128xf64, #line>
  tile.store %v30, %v229 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v230 = arith.uitofp %v3 : tensor<128xi8, #line> to tensor<128xf64, #line>
  tile.store %v30, %v230 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v231 = arith.fptosi %v31 : tensor<128xf64, #line> to tensor<128xi8, #line>
  tile.store %v2, %v231 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v232 = arith.fptoui %v31 : tensor<128xf64, #line> to tensor<128xi8, #line>
  tile.store %v2, %v232 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  %v233 = arith.sitofp %v7 : tensor<128xi16, #line> to tensor<128xf16, #line>
  tile.store %v18, %v233 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v234 = arith.uitofp %v7 : tensor<128xi16, #line> to tensor<128xf16, #line>
  tile.store %v18, %v234 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v235 = arith.fptosi %v19 : tensor<128xf16, #line> to tensor<128xi16, #line>
  tile.store %v6, %v235 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v236 = arith.fptoui %v19 : tensor<128xf16, #line> to tensor<128xi16, #line>
  tile.store %v6, %v236 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v237 = arith.sitofp %v7 : tensor<128xi16, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v237 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v238 = arith.uitofp %v7 : tensor<128xi16, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v238 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v239 = arith.fptosi %v23 : tensor<128xbf16, #line> to tensor<128xi16, #line>
  tile.store %v6, %v239 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v240 = arith.fptoui %v23 : tensor<128xbf16, #line> to tensor<128xi16, #line>
  tile.store %v6, %v240 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v241 = arith.sitofp %v7 : tensor<128xi16, #line> to tensor<128xf32, #line>
  tile.store %v26, %v241 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v242 = arith.uitofp %v7 : tensor<128xi16, #line> to tensor<128xf32, #line>
  tile.store %v26, %v242 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v243 = arith.fptosi %v27 : tensor<128xf32, #line> to tensor<128xi16, #line>
  tile.store %v6, %v243 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v244 = arith.fptoui %v27 : tensor<128xf32, #line> to tensor<128xi16, #line>
  tile.store %v6, %v244 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v245 = arith.sitofp %v7 : tensor<128xi16, #line> to tensor<128xf64, #line>
  tile.store %v30, %v245 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v246 = arith.uitofp %v7 : tensor<128xi16, #line> to tensor<128xf64, #line>
  tile.store %v30, %v246 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v247 = arith.fptosi %v31 : tensor<128xf64, #line> to tensor<128xi16, #line>
  tile.store %v6, %v247 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v248 = arith.fptoui %v31 : tensor<128xf64, #line> to tensor<128xi16, #line>
  tile.store %v6, %v248 mask %mask : tensor<128x!tile.ptr<i16>, #line>, tensor<128xi16, #line>, mask tensor<128xi1, #line>
  %v249 = arith.sitofp %v11 : tensor<128xi32, #line> to tensor<128xf16, #line>
  tile.store %v18, %v249 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v250 = arith.uitofp %v11 : tensor<128xi32, #line> to tensor<128xf16, #line>
  tile.store %v18, %v250 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v251 = arith.fptosi %v19 : tensor<128xf16, #line> to tensor<128xi32, #line>
  tile.store %v10, %v251 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v252 = arith.fptoui %v19 : tensor<128xf16, #line> to tensor<128xi32, #line>
  tile.store %v10, %v252 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v253 = arith.sitofp %v11 : tensor<128xi32, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v253 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v254 = arith.uitofp %v11 : tensor<128xi32, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v254 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v255 = arith.fptosi %v23 : tensor<128xbf16, #line> to tensor<128xi32, #line>
  tile.store %v10, %v255 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v256 = arith.fptoui %v23 : tensor<128xbf16, #line> to tensor<128xi32, #line>
  tile.store %v10, %v256 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v257 = arith.sitofp %v11 : tensor<128xi32, #line> to tensor<128xf32, #line>
  tile.store %v26, %v257 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v258 = arith.uitofp %v11 : tensor<128xi32, #line> to tensor<128xf32, #line>
  tile.store %v26, %v258 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v259 = arith.fptosi %v27 : tensor<128xf32, #line> to tensor<128xi32, #line>
  tile.store %v10, %v259 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v260 = arith.fptoui %v27 : tensor<128xf32, #line> to tensor<128xi32, #line>
  tile.store %v10, %v260 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v261 = arith.sitofp %v11 : tensor<128xi32, #line> to tensor<128xf64, #line>
  tile.store %v30, %v261 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v262 = arith.uitofp %v11 : tensor<128xi32, #line> to tensor<128xf64, #line>
  tile.store %v30, %v262 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v263 = arith.fptosi %v31 : tensor<128xf64, #line> to tensor<128xi32, #line>
  tile.store %v10, %v263 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v264 = arith.fptoui %v31 : tensor<128xf64, #line> to tensor<128xi32, #line>
  tile.store %v10, %v264 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v265 = arith.sitofp %v15 : tensor<128xi64, #line> to tensor<128xf16, #line>
  tile.store %v18, %v265 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v266 = arith.uitofp %v15 : tensor<128xi64, #line> to tensor<128xf16, #line>
  tile.store %v18, %v266 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v267 = arith.fptosi %v19 : tensor<128xf16, #line> to tensor<128xi64, #line>
  tile.store %v14, %v267 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v268 = arith.fptoui %v19 : tensor<128xf16, #line> to tensor<128xi64, #line>
  tile.store %v14, %v268 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v269 = arith.sitofp %v15 : tensor<128xi64, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v269 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v270 = arith.uitofp %v15 : tensor<128xi64, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v270 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v271 = arith.fptosi %v23 : tensor<128xbf16, #line> to tensor<128xi64, #line>
  tile.store %v14, %v271 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v272 = arith.fptoui %v23 : tensor<128xbf16, #line> to tensor<128xi64, #line>
  tile.store %v14, %v272 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v273 = arith.sitofp %v15 : tensor<128xi64, #line> to tensor<128xf32, #line>
  tile.store %v26, %v273 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v274 = arith.uitofp %v15 : tensor<128xi64, #line> to tensor<128xf32, #line>
  tile.store %v26, %v274 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v275 = arith.fptosi %v27 : tensor<128xf32, #line> to tensor<128xi64, #line>
  tile.store %v14, %v275 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v276 = arith.fptoui %v27 : tensor<128xf32, #line> to tensor<128xi64, #line>
  tile.store %v14, %v276 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v277 = arith.sitofp %v15 : tensor<128xi64, #line> to tensor<128xf64, #line>
  tile.store %v30, %v277 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v278 = arith.uitofp %v15 : tensor<128xi64, #line> to tensor<128xf64, #line>
  tile.store %v30, %v278 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v279 = arith.fptosi %v31 : tensor<128xf64, #line> to tensor<128xi64, #line>
  tile.store %v14, %v279 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v280 = arith.fptoui %v31 : tensor<128xf64, #line> to tensor<128xi64, #line>
  tile.store %v14, %v280 mask %mask : tensor<128x!tile.ptr<i64>, #line>, tensor<128xi64, #line>, mask tensor<128xi1, #line>
  %v281 = arith.addf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v281 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v282 = arith.subf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v282 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v283 = arith.mulf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v283 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v284 = arith.divf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v284 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v285 = arith.minimumf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v285 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v286 = arith.maximumf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v286 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v287 = arith.minnumf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v287 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v288 = arith.maxnumf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v288 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v289 = arith.negf %v19 : tensor<128xf16, #line>
  tile.store %v18, %v289 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v290 = arith.cmpf oeq, %v19, %v20 : tensor<128xf16, #line>
  %v291 = arith.select %v290, %v19, %v20 : tensor<128xi1, #line>, tensor<128xf16, #line>
  tile.store %v18, %v291 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v292 = arith.cmpf une, %v19, %v20 : tensor<128xf16, #line>
  %v293 = arith.select %v292, %v19, %v20 : tensor<128xi1, #line>, tensor<128xf16, #line>
  tile.store %v18, %v293 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v294 = arith.cmpf olt, %v19, %v20 : tensor<128xf16, #line>
  %v295 = arith.select %v294, %v19, %v20 : tensor<128xi1, #line>, tensor<128xf16, #line>
  tile.store %v18, %v295 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v296 = arith.cmpf uge, %v19, %v20 : tensor<128xf16, #line>
  %v297 = arith.select %v296, %v19, %v20 : tensor<128xi1, #line>, tensor<128xf16, #line>
  tile.store %v18, %v297 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v298 = arith.cmpf ord, %v19, %v20 : tensor<128xf16, #line>
  %v299 = arith.select %v298, %v19, %v20 : tensor<128xi1, #line>, tensor<128xf16, #line>
  tile.store %v18, %v299 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v300 = arith.cmpf uno, %v19, %v20 : tensor<128xf16, #line>
  %v301 = arith.select %v300, %v19, %v20 : tensor<128xi1, #line>, tensor<128xf16, #line>
  tile.store %v18, %v301 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v302 = math.absf %v19 : tensor<128xf16, #line>
  tile.store %v18, %v302 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v303 = math.floor %v19 : tensor<128xf16, #line>
  tile.store %v18, %v303 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v304 = math.ceil %v19 : tensor<128xf16, #line>
  tile.store %v18, %v304 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v305 = math.trunc %v19 : tensor<128xf16, #line>
  tile.store %v18, %v305 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v306 = math.roundeven %v19 : tensor<128xf16, #line>
  tile.store %v18, %v306 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v307 = math.sqrt %v19 : tensor<128xf16, #line>
  tile.store %v18, %v307 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v308 = math.rsqrt %v19 : tensor<128xf16, #line>
  tile.store %v18, %v308 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v309 = math.fma %v19, %v20, %v19 : tensor<128xf16, #line>
  tile.store %v18, %v309 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v310 = arith.addf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v310 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v311 = arith.subf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v311 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v312 = arith.mulf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v312 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v313 = arith.divf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v313 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v314 = arith.minimumf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v314 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v315 = arith.maximumf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v315 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v316 = arith.minnumf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v316 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v317 = arith.maxnumf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v317 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v318 = arith.negf %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v318 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v319 = arith.cmpf oeq, %v23, %v24 : tensor<128xbf16, #line>
  %v320 = arith.select %v319, %v23, %v24 : tensor<128xi1, #line>, tensor<128xbf16, #line>
  tile.store %v22, %v320 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v321 = arith.cmpf une, %v23, %v24 : tensor<128xbf16, #line>
  %v322 = arith.select %v321, %v23, %v24 : tensor<128xi1, #line>, tensor<128xbf16, #line>
  tile.store %v22, %v322 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v323 = arith.cmpf olt, %v23, %v24 : tensor<128xbf16, #line>
  %v324 = arith.select %v323, %v23, %v24 : tensor<128xi1, #line>, tensor<128xbf16, #line>
  tile.store %v22, %v324 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v325 = arith.cmpf uge, %v23, %v24 : tensor<128xbf16, #line>
  %v326 = arith.select %v325, %v23, %v24 : tensor<128xi1, #line>, tensor<128xbf16, #line>
  tile.store %v22, %v326 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v327 = arith.cmpf ord, %v23, %v24 : tensor<128xbf16, #line>
  %v328 = arith.select %v327, %v23, %v24 : tensor<128xi1, #line>, tensor<128xbf16, #line>
  tile.store %v22, %v328 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v329 = arith.cmpf uno, %v23, %v24 : tensor<128xbf16, #line>
  %v330 = arith.select %v329, %v23, %v24 : tensor<128xi1, #line>, tensor<128xbf16, #line>
  tile.store %v22, %v330 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v331 = math.absf %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v331 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v332 = math.floor %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v332 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v333 = math.ceil %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v333 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v334 = math.trunc %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v334 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v335 = math.roundeven %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v335 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v336 = math.sqrt %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v336 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v337 = math.rsqrt %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v337 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v338 = math.fma %v23, %v24, %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v338 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v339 = arith.addf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v339 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v340 = arith.subf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v340 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v341 = arith.mulf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v341 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v342 = arith.divf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v342 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v343 = arith.minimumf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v343 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v344 = arith.maximumf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v344 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v345 = arith.minnumf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v345 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v346 = arith.maxnumf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v346 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v347 = arith.negf %v27 : tensor<128xf32, #line>
  tile.store %v26, %v347 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v348 = arith.cmpf oeq, %v27, %v28 : tensor<128xf32, #line>
  %v349 = arith.select %v348, %v27, %v28 : tensor<128xi1, #line>, tensor<128xf32, #line>
  tile.store %v26, %v349 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v350 = arith.cmpf une, %v27, %v28 : tensor<128xf32, #line>
  %v351 = arith.select %v350, %v27, %v28 : tensor<128xi1, #line>, tensor<128xf32, #line>
  tile.store %v26, %v351 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v352 = arith.cmpf olt, %v27, %v28 : tensor<128xf32, #line>
  %v353 = arith.select %v352, %v27, %v28 : tensor<128xi1, #line>, tensor<128xf32, #line>
  tile.store %v26, %v353 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v354 = arith.cmpf uge, %v27, %v28 : tensor<128xf32, #line>
  %v355 = arith.select %v354, %v27, %v28 : tensor<128xi1, #line>, tensor<128xf32, #line>
  tile.store %v26, %v355 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v356 = arith.cmpf ord, %v27, %v28 : tensor<128xf32, #line>
  %v357 = arith.select %v356, %v27, %v28 : tensor<128xi1, #line>, tensor<128xf32, #line>
  tile.store %v26, %v357 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v358 = arith.cmpf uno, %v27, %v28 : tensor<128xf32, #line>
  %v359 = arith.select %v358, %v27, %v28 : tensor<128xi1, #line>, tensor<128xf32, #line>
  tile.store %v26, %v359 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v360 = math.absf %v27 : tensor<128xf32, #line>
  tile.store %v26, %v360 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v361 = math.floor %v27 : tensor<128xf32, #line>
  tile.store %v26, %v361 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v362 = math.ceil %v27 : tensor<128xf32, #line>
  tile.store %v26, %v362 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v363 = math.trunc %v27 : tensor<128xf32, #line>
  tile.store %v26, %v363 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v364 = math.roundeven %v27 : tensor<128xf32, #line>
  tile.store %v26, %v364 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v365 = math.sqrt %v27 : tensor<128xf32, #line>
  tile.store %v26, %v365 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v366 = math.rsqrt %v27 : tensor<128xf32, #line>
  tile.store %v26, %v366 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v367 = math.fma %v27, %v28, %v27 : tensor<128xf32, #line>
  tile.store %v26, %v367 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v368 = arith.addf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v368 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v369 = arith.subf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v369 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v370 = arith.mulf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v370 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v371 = arith.divf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v371 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v372 = arith.minimumf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v372 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v373 = arith.maximumf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v373 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v374 = arith.minnumf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v374 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v375 = arith.maxnumf %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v375 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v376 = arith.negf %v31 : tensor<128xf64, #line>
  tile.store %v30, %v376 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v377 = arith.cmpf oeq, %v31, %v32 : tensor<128xf64, #line>
  %v378 = arith.select %v377, %v31, %v32 : tensor<128xi1, #line>, tensor<128xf64, #line>
  tile.store %v30, %v378 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v379 = arith.cmpf une, %v31, %v32 : tensor<128xf64, #line>
  %v380 = arith.select %v379, %v31, %v32 : tensor<128xi1, #line>, tensor<128xf64, #line>
  tile.store %v30, %v380 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v381 = arith.cmpf olt, %v31, %v32 : tensor<128xf64, #line>
  %v382 = arith.select %v381, %v31, %v32 : tensor<128xi1, #line>, tensor<128xf64, #line>
  tile.store %v30, %v382 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v383 = arith.cmpf uge, %v31, %v32 : tensor<128xf64, #line>
  %v384 = arith.select %v383, %v31, %v32 : tensor<128xi1, #line>, tensor<128xf64, #line>
  tile.store %v30, %v384 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v385 = arith.cmpf ord, %v31, %v32 : tensor<128xf64, #line>
  %v386 = arith.select %v385, %v31, %v32 : tensor<128xi1, #line>, tensor<128xf64, #line>
  tile.store %v30, %v386 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v387 = arith.cmpf uno, %v31, %v32 : tensor<128xf64, #line>
  %v388 = arith.select %v387, %v31, %v32 : tensor<128xi1, #line>, tensor<128xf64, #line>
  tile.store %v30, %v388 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v389 = math.absf %v31 : tensor<128xf64, #line>
  tile.store %v30, %v389 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v390 = math.floor %v31 : tensor<128xf64, #line>
  tile.store %v30, %v390 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v391 = math.ceil %v31 : tensor<128xf64, #line>
  tile.store %v30, %v391 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v392 = math.trunc %v31 : tensor<128xf64, #line>
  tile.store %v30, %v392 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v393 = math.roundeven %v31 : tensor<128xf64, #line>
  tile.store %v30, %v393 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v394 = math.sqrt %v31 : tensor<128xf64, #line>
  tile.store %v30, %v394 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v395 = math.rsqrt %v31 : tensor<128xf64, #line>
  tile.store %v30, %v395 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v396 = math.fma %v31, %v32, %v31 : tensor<128xf64, #line>
  tile.store %v30, %v396 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v397 = math.exp %v19 : tensor<128xf16, #line>
  tile.store %v18, %v397 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v398 = math.exp2 %v19 : tensor<128xf16, #line>
  tile.store %v18, %v398 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v399 = math.expm1 %v19 : tensor<128xf16, #line>
  tile.store %v18, %v399 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v400 = math.log %v19 : tensor<128xf16, #line>
  tile.store %v18, %v400 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v401 = math.log2 %v19 : tensor<128xf16, #line>
  tile.store %v18, %v401 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v402 = math.log1p %v19 : tensor<128xf16, #line>
  tile.store %v18, %v402 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v403 = math.sin %v19 : tensor<128xf16, #line>
  tile.store %v18, %v403 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v404 = math.cos %v19 : tensor<128xf16, #line>
  tile.store %v18, %v404 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v405 = math.erf %v19 : tensor<128xf16, #line>
  tile.store %v18, %v405 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v406 = math.tanh %v19 : tensor<128xf16, #line>
  tile.store %v18, %v406 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v407 = math.exp %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v407 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v408 = math.exp2 %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v408 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v409 = math.expm1 %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v409 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v410 = math.log %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v410 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v411 = math.log2 %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v411 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v412 = math.log1p %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v412 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v413 = math.sin %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v413 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v414 = math.cos %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v414 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v415 = math.erf %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v415 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v416 = math.tanh %v23 : tensor<128xbf16, #line>
  tile.store %v22, %v416 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v417 = math.exp %v27 : tensor<128xf32, #line>
  tile.store %v26, %v417 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v418 = math.exp2 %v27 : tensor<128xf32, #line>
  tile.store %v26, %v418 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v419 = math.expm1 %v27 : tensor<128xf32, #line>
  tile.store %v26, %v419 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v420 = math.log %v27 : tensor<128xf32, #line>
  tile.store %v26, %v420 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v421 = math.log2 %v27 : tensor<128xf32, #line>
  tile.store %v26, %v421 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v422 = math.log1p %v27 : tensor<128xf32, #line>
  tile.store %v26, %v422 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v423 = math.sin %v27 : tensor<128xf32, #line>
  tile.store %v26, %v423 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v424 = math.cos %v27 : tensor<128xf32, #line>
  tile.store %v26, %v424 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v425 = math.erf %v27 : tensor<128xf32, #line>
  tile.store %v26, %v425 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v426 = math.tanh %v27 : tensor<128xf32, #line>
  tile.store %v26, %v426 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v427 = arith.remf %v19, %v20 : tensor<128xf16, #line>
  tile.store %v18, %v427 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v428 = arith.remf %v23, %v24 : tensor<128xbf16, #line>
  tile.store %v22, %v428 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v429 = arith.remf %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v429 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v430 = tile.div_rn %v27, %v28 : tensor<128xf32, #line>
  tile.store %v26, %v430 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v431 = tile.sqrt_rn %v27 : tensor<128xf32, #line>
  tile.store %v26, %v431 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v432 = tile.div_rn %v31, %v32 : tensor<128xf64, #line>
  tile.store %v30, %v432 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v433 = tile.sqrt_rn %v31 : tensor<128xf64, #line>
  tile.store %v30, %v433 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v434 = arith.extf %v19 : tensor<128xf16, #line> to tensor<128xf32, #line>
  tile.store %v26, %v434 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v435 = arith.extf %v19 : tensor<128xf16, #line> to tensor<128xf64, #line>
  tile.store %v30, %v435 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v436 = tile.fp_cast %v19 : tensor<128xf16, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v436 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v437 = tile.fp_cast %v19 rounding rtz : tensor<128xf16, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v437 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v438 = tile.fp_cast %v35 : tensor<128xf8E4M3FN, #line> -> tensor<128xf16, #line>
  tile.store %v18, %v438 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v439 = tile.fp_cast %v19 : tensor<128xf16, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v439 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v440 = tile.fp_cast %v19 rounding rtz : tensor<128xf16, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v440 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v441 = tile.fp_cast %v39 : tensor<128xf8E5M2, #line> -> tensor<128xf16, #line>
  tile.store %v18, %v441 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v442 = arith.extf %v23 : tensor<128xbf16, #line> to tensor<128xf32, #line>
  tile.store %v26, %v442 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v443 = arith.extf %v23 : tensor<128xbf16, #line> to tensor<128xf64, #line>
  tile.store %v30, %v443 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v444 = tile.fp_cast %v23 : tensor<128xbf16, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v444 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v445 = tile.fp_cast %v23 rounding rtz : tensor<128xbf16, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v445 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v446 = tile.fp_cast %v35 : tensor<128xf8E4M3FN, #line> -> tensor<128xbf16, #line>
  tile.store %v22, %v446 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v447 = tile.fp_cast %v23 : tensor<128xbf16, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v447 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v448 = tile.fp_cast %v23 rounding rtz : tensor<128xbf16, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v448 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v449 = tile.fp_cast %v39 : tensor<128xf8E5M2, #line> -> tensor<128xbf16, #line>
  tile.store %v22, %v449 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v450 = arith.truncf %v27 : tensor<128xf32, #line> to tensor<128xf16, #line>
  tile.store %v18, %v450 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v451 = tile.fp_cast %v27 rounding rtz : tensor<128xf32, #line> -> tensor<128xf16, #line>
  tile.store %v18, %v451 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v452 = arith.truncf %v27 : tensor<128xf32, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v452 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v453 = tile.fp_cast %v27 rounding rtz : tensor<128xf32, #line> -> tensor<128xbf16, #line>
  tile.store %v22, %v453 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v454 = arith.extf %v27 : tensor<128xf32, #line> to tensor<128xf64, #line>
  tile.store %v30, %v454 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v455 = tile.fp_cast %v27 : tensor<128xf32, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v455 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v456 = tile.fp_cast %v27 rounding rtz : tensor<128xf32, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v456 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v457 = tile.fp_cast %v35 : tensor<128xf8E4M3FN, #line> -> tensor<128xf32, #line>
  tile.store %v26, %v457 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v458 = tile.fp_cast %v27 : tensor<128xf32, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v458 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v459 = tile.fp_cast %v27 rounding rtz : tensor<128xf32, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v459 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v460 = tile.fp_cast %v39 : tensor<128xf8E5M2, #line> -> tensor<128xf32, #line>
  tile.store %v26, %v460 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v461 = arith.truncf %v31 : tensor<128xf64, #line> to tensor<128xf16, #line>
  tile.store %v18, %v461 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v462 = tile.fp_cast %v31 rounding rtz : tensor<128xf64, #line> -> tensor<128xf16, #line>
  tile.store %v18, %v462 mask %mask : tensor<128x!tile.ptr<f16>, #line>, tensor<128xf16, #line>, mask tensor<128xi1, #line>
  %v463 = arith.truncf %v31 : tensor<128xf64, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v463 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v464 = tile.fp_cast %v31 rounding rtz : tensor<128xf64, #line> -> tensor<128xbf16, #line>
  tile.store %v22, %v464 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v465 = arith.truncf %v31 : tensor<128xf64, #line> to tensor<128xf32, #line>
  tile.store %v26, %v465 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v466 = tile.fp_cast %v31 rounding rtz : tensor<128xf64, #line> -> tensor<128xf32, #line>
  tile.store %v26, %v466 mask %mask : tensor<128x!tile.ptr<f32>, #line>, tensor<128xf32, #line>, mask tensor<128xi1, #line>
  %v467 = tile.fp_cast %v31 : tensor<128xf64, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v467 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v468 = tile.fp_cast %v31 rounding rtz : tensor<128xf64, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v468 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v469 = tile.fp_cast %v35 : tensor<128xf8E4M3FN, #line> -> tensor<128xf64, #line>
  tile.store %v30, %v469 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v470 = tile.fp_cast %v31 : tensor<128xf64, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v470 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v471 = tile.fp_cast %v31 rounding rtz : tensor<128xf64, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v471 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v472 = tile.fp_cast %v39 : tensor<128xf8E5M2, #line> -> tensor<128xf64, #line>
  tile.store %v30, %v472 mask %mask : tensor<128x!tile.ptr<f64>, #line>, tensor<128xf64, #line>, mask tensor<128xi1, #line>
  %v473 = tile.fp_cast %v35 : tensor<128xf8E4M3FN, #line> -> tensor<128xf8E5M2, #line>
  tile.store %v38, %v473 mask %mask : tensor<128x!tile.ptr<f8E5M2>, #line>, tensor<128xf8E5M2, #line>, mask tensor<128xi1, #line>
  %v474 = tile.fp_cast %v39 : tensor<128xf8E5M2, #line> -> tensor<128xf8E4M3FN, #line>
  tile.store %v34, %v474 mask %mask : tensor<128x!tile.ptr<f8E4M3FN>, #line>, tensor<128xf8E4M3FN, #line>, mask tensor<128xi1, #line>
  %v475 = arith.bitcast %v27 : tensor<128xf32, #line> to tensor<128xi32, #line>
  tile.store %v10, %v475 mask %mask : tensor<128x!tile.ptr<i32>, #line>, tensor<128xi32, #line>, mask tensor<128xi1, #line>
  %v476 = arith.bitcast %v7 : tensor<128xi16, #line> to tensor<128xbf16, #line>
  tile.store %v22, %v476 mask %mask : tensor<128x!tile.ptr<bf16>, #line>, tensor<128xbf16, #line>, mask tensor<128xi1, #line>
  %v477 = arith.bitcast %v39 : tensor<128xf8E5M2, #line> to tensor<128xi8, #line>
  tile.store %v2, %v477 mask %mask : tensor<128x!tile.ptr<i8>, #line>, tensor<128xi8, #line>, mask tensor<128xi1, #line>
  return
}
