// What the instruction set at hand offers, as far as the emitters of MLIR have to know.
#pragma once
#include <cstdint>

namespace nereid::cpu {

struct Features {
  unsigned vectorBytes = 16;     // width of a vector register
  unsigned vectorRegisters = 16; // and their number
  bool fma = false; // fused multiply-add; without it `math.fma` would become a libm call a lane
  bool rounding = false; // floor, ceil, trunc, nearest as instructions (SSE4.1, AArch64)
  bool f16c = false;     // f16 <-> f32 as instructions

  static constexpr Features baseline() { return {}; }
  static constexpr Features avx2() { return {32, 16, true, true, true}; }
  static constexpr Features avx512() { return {64, 32, true, true, true}; }
  static constexpr Features aarch64() { return {16, 32, true, true, true}; }
};

} // namespace nereid::cpu
