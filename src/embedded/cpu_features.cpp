// The levels of x86-64 are those of its psABI: what the compiler may use for x86-64-v3 and -v4 must
// all be there, and the system must keep the wide registers.
#include "embedded/cpu_features.h"

#include "nereid/embedded.h"
#include "targets/cpu/executor/Extensions.h"
#include "targets/cpu/executor/Tiles.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace nereid::embedded {
namespace {

#if defined(__x86_64__)
constexpr bool all(uint64_t value, uint64_t bits) {
  return (value & bits) == bits;
}

constexpr uint32_t bit(int number) {
  return uint32_t(1) << number;
}

uint32_t find() {
  uint32_t found = NRD_CPU_BASELINE;
  unsigned a, b, c, d;
  // Leaf 1: SSE3, SSSE3, FMA, CMPXCHG16B, SSE4.1, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C.
  constexpr uint32_t first = bit(0) | bit(9) | bit(12) | bit(13) | bit(19) | bit(20) | bit(22) |
                             bit(23) | bit(27) | bit(28) | bit(29);
  if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, first))
    return found;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!all(low, 0x6)) // SSE and AVX registers
    return found;
  // Leaf 0x80000001: LAHF, LZCNT.
  if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !all(c, bit(0) | bit(5)))
    return found;
  // Leaf 7: BMI1, AVX2, BMI2.
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !all(b, bit(3) | bit(5) | bit(8)))
    return found;
  found |= NRD_CPU_AVX2;
  // AVX512F, DQ, CD, BW, VL; and their registers.
  if (!all(b, bit(16) | bit(17) | bit(28) | bit(30) | bit(31)) || !all(low, 0xe6))
    return found;
  found |= NRD_CPU_AVX512;
  // AVX512-VNNI, and in the second part of the leaf AVX512-BF16.
  if (!all(c, bit(11)) || !__get_cpuid_count(7, 1, &a, &b, &c, &d) || !all(a, bit(5)))
    return found;
  found |= NRD_CPU_AVX512BF16;
  if (cpu::requestTiles().state != cpu::TileState::Granted)
    return found;
  found |= NRD_CPU_SAPPHIRERAPIDS;
  if (all(a, bit(21))) // AMX-FP16
    found |= NRD_CPU_GRANITERAPIDS;
  return found;
}
#else
uint32_t find() {
  cpu::Extensions extensions = cpu::hostExtensions();
  return NRD_CPU_AARCH64 | (extensions.coverNeoverseN1() ? NRD_CPU_NEOVERSE_N1 : 0) |
         (extensions.coverNeoverseV1() ? NRD_CPU_NEOVERSE_V1 : 0);
}
#endif

} // namespace

uint32_t cpuFeatures() {
  // Threads that come at once find the same. No static with an initialiser: a child forked in the
  // middle of it would wait for it.
  static constinit std::atomic<uint32_t> known = 0;
  uint32_t features = known.load(std::memory_order_relaxed);
  if (!features) // it never is, once found
    known.store(features = find(), std::memory_order_relaxed);
  return features;
}

} // namespace nereid::embedded
