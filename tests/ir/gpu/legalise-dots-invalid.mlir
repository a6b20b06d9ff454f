// The least K of each width, in strict mode.
// RUN: nereid-opt %s --gpu-legalise-dots --split-input-file --verify-diagnostics

// expected-error @+1 {{Input shapes should have M >= 1, N >= 1 and K >= 16, found K = 8}}
func.func @halves(%a: tensor<16x8xf16>, %b: tensor<8x16xf16>, %c: tensor<16x16xf32>) -> tensor<16x16xf32> attributes {tile.kernel, tile.strict} {
  %0 = tile.dot %a, %b, %c : tensor<16x8xf16>, tensor<8x16xf16> -> tensor<16x16xf32>
  return %0 : tensor<16x16xf32>
}

// -----

// expected-error @+1 {{Input shapes should have M >= 1, N >= 1 and K >= 32, found K = 16}}
func.func @bytes(%a: tensor<16x16xi8>, %b: tensor<16x16xi8>, %c: tensor<16x16xi32>) -> tensor<16x16xi32> attributes {tile.kernel, tile.strict} {
  %0 = tile.dot %a, %b, %c : tensor<16x16xi8>, tensor<16x16xi8> -> tensor<16x16xi32>
  return %0 : tensor<16x16xi32>
}

// -----

// The nearest that is allowed.
func.func @singles(%a: tensor<1x8xf32>, %b: tensor<8x1xf32>, %c: tensor<1x1xf32>) -> tensor<1x1xf32> attributes {tile.kernel, tile.strict} {
  %0 = tile.dot %a, %b, %c : tensor<1x8xf32>, tensor<8x1xf32> -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}
