// Instruction sets by name.
#pragma once
#include "targets/cpu/Features.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace nereid::cpu {

/// An instruction set by name, as LLVM and the emitters know it.
struct InstructionSet {
  std::string triple, cpu, llvmFeatures;
  Features features;
  bool isHost = false; // its code can run in this process
};

/// Why products of tiles are not used, from an errno: "Linux refuses the tile registers of AMX (No
/// space left on device)".
std::string tileRefusalText(int error);

/// "" and "host", "sapphirerapids" (AMX with bf16 and bytes, and "avx512bf16"), "graniterapids"
/// (also AMX with f16), "avx512bf16" (with AVX512-VNNI), "avx512", "avx2", "baseline", "aarch64";
/// an error that lists these for any other name, or when this machine cannot run what was asked for
/// and `mustRun` is set.
llvm::Expected<InstructionSet> instructionSetFor(llvm::StringRef name, bool mustRun);

} // namespace nereid::cpu
