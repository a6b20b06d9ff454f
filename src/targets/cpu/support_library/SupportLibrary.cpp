// The table of symbols for the JIT.
#include "targets/cpu/support_library/SupportLibrary.h"

#include "targets/cpu/support_library/DeviceLibrary.h"

#include <cmath>

namespace nereid::cpu {

static std::vector<Symbol> allSymbols() {
  // The C library's functions that vector math calls once a lane, in f64.
  using Unary = double (*)(double);
#define NEREID_LIBM(name) {#name, reinterpret_cast<void *>(static_cast<Unary>(&::name))}
  std::vector<Symbol> symbols = {
      NEREID_LIBM(sin),
      NEREID_LIBM(cos),
      NEREID_LIBM(tan),
      NEREID_LIBM(j0),
      NEREID_LIBM(j1),
      NEREID_LIBM(y0),
      NEREID_LIBM(y1),
      {"pow", reinterpret_cast<void *>(static_cast<double (*)(double, double)>(&::pow))},
      {"fma", reinterpret_cast<void *>(static_cast<double (*)(double, double, double)>(&::fma))},
      {"remainder",
       reinterpret_cast<void *>(static_cast<double (*)(double, double)>(&::remainder))},
      // The remainder of floats, which LLVM itself turns into calls.
      {"fmod", reinterpret_cast<void *>(static_cast<double (*)(double, double)>(&::fmod))},
      {"fmodf", reinterpret_cast<void *>(static_cast<float (*)(float, float)>(&::fmodf))},
      {"nereid_cpu_fail", reinterpret_cast<void *>(&nereid_cpu_fail)},
      {"nereid_cpu_spin", reinterpret_cast<void *>(&nereid_cpu_spin)},
      {"nereid_cpu_print", reinterpret_cast<void *>(&nereid_cpu_print)},
  };
#undef NEREID_LIBM
  symbols.insert(symbols.end(), deviceLibrary().begin(), deviceLibrary().end());
  return symbols;
}

std::span<const Symbol> supportSymbols() {
  static const auto *symbols = new std::vector<Symbol>(allSymbols());
  return *symbols;
}

} // namespace nereid::cpu
