// What the instruction set at hand offers, as far as the emitters of MLIR have to know.
#pragma once
#include <cstdint>

namespace nereid::cpu {

struct Features {
  unsigned vectorBytes = 16;     // width of a vector register
  unsigned vectorRegisters = 16; // and their number
  bool fma = false; // fused multiply-add; without it `math.fma` would become a libm call a lane
  bool rounding = false;    // floor, ceil, trunc, nearest as instructions (SSE4.1, AArch64)
  bool f16c = false;        // f16 <-> f32 as instructions
  bool slowGathers = false; // as many single loads are quicker than a gather
  // Instructions of matrix products (dot/Units.h):
  bool pairProducts = false; // two products of i16 added to an i32 (x86)
  bool byteProducts = false; // four products of u8 and i8 added to an i32 (AVX512-VNNI, AVX-VNNI)
  bool bf16Products = false; // two products of bf16 added to an f32 (AVX512-BF16)
  bool tileProducts = false; // products of tiles of bf16 and of i8 (AMX-BF16, AMX-INT8)
  bool tileHalfProducts = false; // and of tiles of f16 (AMX-FP16)
  int tileRefusal = 0; // the errno with which Linux refused this process the registers of AMX
  // AArch64:
  bool isAArch64 = false;
  bool signedProducts = false;     // four products of i8 added to an i32 (FEAT_DotProd)
  bool bf16MatrixProducts = false; // products of 2 x 4 by 4 x 2 bf16, and of pairs (FEAT_BF16)
  bool i8MatrixProducts = false;   // products of 2 x 8 by 8 x 2 i8 (FEAT_I8MM)
  bool halfArithmetic = false;     // arithmetic of f16 as instructions (FEAT_FP16)

  static constexpr Features baseline() { return {16, 16, false, false, false, false, true}; }
  static constexpr Features avx2() { return {32, 16, true, true, true, false, true}; }
  static constexpr Features avx512() { return {64, 32, true, true, true, false, true}; }
  static constexpr Features avx512bf16() {
    return {64, 32, true, true, true, false, true, true, true};
  }
  static constexpr Features sapphireRapids() {
    return {64, 32, true, true, true, false, true, true, true, true};
  }
  static constexpr Features graniteRapids() {
    return {64, 32, true, true, true, false, true, true, true, true, true};
  }
  static constexpr Features aarch64() {
    Features features{16, 32, true, true, true};
    features.isAArch64 = true;
    return features;
  }
  static constexpr Features neoverseN1() {
    Features features = aarch64();
    features.signedProducts = features.halfArithmetic = true;
    return features;
  }
  static constexpr Features neoverseV1() {
    Features features = neoverseN1();
    features.bf16MatrixProducts = features.i8MatrixProducts = true;
    return features;
  }
};

} // namespace nereid::cpu
