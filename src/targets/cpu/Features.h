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
  static constexpr Features aarch64() { return {16, 32, true, true, true}; }
};

} // namespace nereid::cpu
