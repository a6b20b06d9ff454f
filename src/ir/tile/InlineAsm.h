// How the values of a `tile.inline_asm` share registers, and the kind of its assembly: what the
// front end checks and the targets rely on.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace nereid::tile {

/// Values narrower than 32 bits share a register of 32, the first in the lowest bits, when an
/// instance takes more than one.
struct AsmRegisters {
  unsigned perRegister; ///< values in one register
  unsigned count;       ///< registers of one operand or result
};
inline AsmRegisters asmRegisters(unsigned bits, unsigned pack) {
  unsigned per = bits < 32 ? std::min(32 / std::max(bits, 8u), pack) : 1;
  return {per, unsigned(llvm::divideCeil(pack, per))};
}

constexpr llvm::StringLiteral ptxAssembly = "nvptx", x86Assembly = "x86";

} // namespace nereid::tile
