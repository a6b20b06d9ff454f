// What an AArch64 processor offers beyond the baseline, as Linux tells it. LLVM's list of the
// host's extensions has few of these.
#pragma once
#include <cstdint>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace nereid::cpu {

struct Extensions {
  bool atomics = false;            // FEAT_LSE
  bool halfArithmetic = false;     // FEAT_FP16
  bool dotProducts = false;        // FEAT_DotProd
  bool bf16 = false, i8mm = false; // FEAT_BF16, FEAT_I8MM

  bool coverNeoverseN1() const { return atomics && halfArithmetic && dotProducts; }
  bool coverNeoverseV1() const { return coverNeoverseN1() && bf16 && i8mm; }
};

/// From the entries AT_HWCAP and AT_HWCAP2 of the auxiliary vector.
constexpr Extensions extensionsOf(uint64_t hwcap, uint64_t hwcap2) {
  auto has = [](uint64_t word, int bit) { return (word >> bit & 1) != 0; };
  Extensions found;
  found.atomics = has(hwcap, 8);                          // HWCAP_ATOMICS
  found.halfArithmetic = has(hwcap, 9) && has(hwcap, 10); // HWCAP_FPHP, HWCAP_ASIMDHP
  found.dotProducts = has(hwcap, 20);                     // HWCAP_ASIMDDP
  found.i8mm = has(hwcap2, 13);                           // HWCAP2_I8MM
  found.bf16 = has(hwcap2, 14);                           // HWCAP2_BF16
  return found;
}

/// Of this machine; none unless it is an AArch64 processor under Linux.
inline Extensions hostExtensions() {
#if defined(__aarch64__) && defined(__linux__)
  return extensionsOf(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
  return {};
#endif
}

} // namespace nereid::cpu
