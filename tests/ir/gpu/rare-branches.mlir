// Where an `else` is a fallback, layouts follow the other branch: stores of 16 bytes, though atomic additions would
// take two elements each. Without the mark both branches count alike.
// RUN: nereid-opt %s --gpu-assign-layouts --split-input-file | FileCheck %s

// CHECK: register = {{\[\[}}1], [2], [4]], lane = {{\[\[}}8],
// CHECK-LABEL: func.func @rare
func.func @rare(%p: !tile.ptr<bf16> {tile.divisibility = 16 : i64}, %q: !tile.ptr<bf16> {tile.divisibility = 16 : i64}, %holds: i1) attributes {tile.kernel} {
  %i = tile.range 0 to 1024 : tensor<1024xi32>
  %ps = tile.splat %p : !tile.ptr<bf16> -> tensor<1024x!tile.ptr<bf16>>
  %qs = tile.splat %q : !tile.ptr<bf16> -> tensor<1024x!tile.ptr<bf16>>
  %from = tile.addptr %ps, %i : tensor<1024x!tile.ptr<bf16>>, tensor<1024xi32>
  %to = tile.addptr %qs, %i : tensor<1024x!tile.ptr<bf16>>, tensor<1024xi32>
  %x = tile.load %from : tensor<1024x!tile.ptr<bf16>> -> tensor<1024xbf16>
  scf.if %holds {
    tile.store %to, %x : tensor<1024x!tile.ptr<bf16>>, tensor<1024xbf16>
  } else {
    %old = tile.atomic_rmw fadd %to, %x sem relaxed : tensor<1024x!tile.ptr<bf16>>, tensor<1024xbf16>
  } {tile.rare_else}
  return
}

// -----

// CHECK-NOT: register = {{\[\[}}1], [2], [4]], lane
// CHECK-LABEL: func.func @even
func.func @even(%p: !tile.ptr<bf16> {tile.divisibility = 16 : i64}, %q: !tile.ptr<bf16> {tile.divisibility = 16 : i64}, %holds: i1) attributes {tile.kernel} {
  %i = tile.range 0 to 1024 : tensor<1024xi32>
  %ps = tile.splat %p : !tile.ptr<bf16> -> tensor<1024x!tile.ptr<bf16>>
  %qs = tile.splat %q : !tile.ptr<bf16> -> tensor<1024x!tile.ptr<bf16>>
  %from = tile.addptr %ps, %i : tensor<1024x!tile.ptr<bf16>>, tensor<1024xi32>
  %to = tile.addptr %qs, %i : tensor<1024x!tile.ptr<bf16>>, tensor<1024xi32>
  %x = tile.load %from : tensor<1024x!tile.ptr<bf16>> -> tensor<1024xbf16>
  scf.if %holds {
    tile.store %to, %x : tensor<1024x!tile.ptr<bf16>>, tensor<1024xbf16>
  } else {
    %old = tile.atomic_rmw fadd %to, %x sem relaxed : tensor<1024x!tile.ptr<bf16>>, tensor<1024xbf16>
  }
  return
}
