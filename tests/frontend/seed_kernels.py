"""The seed kernels give verified tile IR."""
# RUN: nereid-frontend %S/../../examples/kernels/seed.py softmax "Y:*fp32:16,stride_ym:i32,stride_yn=1,X:*fp32:16,stride_xm:i32,stride_xn=1,M:i32,N:i32" | FileCheck %s --check-prefix=SOFTMAX
# RUN: nereid-frontend %S/../../examples/kernels/seed.py add_kernel "x_ptr:*fp32:16,y_ptr:*fp32:16,output_ptr:*fp32:16,n_elements:i32:16,BLOCK_SIZE=1024" | FileCheck %s --check-prefix=ADD
# RUN: nereid-frontend %S/../../examples/kernels/seed.py matmul_kernel "a_ptr:*fp16:16,b_ptr:*fp16:16,c_ptr:*fp32:16,M:i32:16,N:i32:16,K:i32:16,stride_am:i32:16,stride_ak=1,stride_bk:i32:16,stride_bn=1,stride_cm:i32:16,stride_cn=1,BLOCK_SIZE_M=128,BLOCK_SIZE_N=64,BLOCK_SIZE_K=32" | FileCheck %s --check-prefix=MATMUL
# RUN: nereid-frontend %S/../../examples/kernels/seed.py softmax_kernel "output_ptr:*fp32:16,input_ptr:*fp32:16,input_row_stride:i32,output_row_stride:i32,n_cols:i32,BLOCK_SIZE=1024" | FileCheck %s --check-prefix=ROWS
# RUN: nereid-frontend %S/../../examples/kernels/seed.py embedding_lookup_kernel "output_ptr:*fp32:16,input_ptr:*fp32:16,weight_ptr:*fp16:16,vocab_size:i32,embedding_dim:i32,BLOCK_SIZE=256" | FileCheck %s --check-prefix=EMBEDDING
# RUN: nereid-frontend %S/../../examples/kernels/seed.py giou_kernel "preds_ptr:*fp16:16,targets_ptr:*fp16:16,output_ptr:*fp32:16,valid_ptr:*i1:16,BLOCK_SIZE=256" | FileCheck %s --check-prefix=GIOU

# SOFTMAX: func.func @softmax(%arg0: !tile.ptr<f32> {tile.divisibility = 16 : i64, tile.name = "Y"}
# SOFTMAX: tile.range 0 to 1024
# SOFTMAX: tile.load %{{.*}} mask %{{.*}} other
# SOFTMAX: tile.reduce
# SOFTMAX: arith.maxnumf
# SOFTMAX: math.exp
# SOFTMAX: tile.reduce
# SOFTMAX: arith.divf
# SOFTMAX: tile.store

# ADD: func.func @add_kernel({{.*}}) attributes {tile.kernel}
# ADD-COUNT-2: tile.load
# ADD: arith.addf
# ADD: tile.store

# MATMUL: tile.dot %{{.*}}, %{{.*}}, %{{.*}} : tensor<128x32xf16>, tensor<32x64xf16> -> tensor<128x64xf32>

# ROWS-COUNT-2: tile.reduce
# ROWS: tile.store

# The scalar of the product is a Python number: it takes the type of the block.
# EMBEDDING: %[[P:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<256xf16>
# EMBEDDING: arith.extf %[[P]]

# A bool is stored as a byte.
# GIOU-COUNT-8: tile.load
# GIOU: tile.store %{{.*}}, %{{.*}} : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
# GIOU: tile.store %{{.*}}, %{{.*}} : tensor<256x!tile.ptr<i8>>, tensor<256xi8>
