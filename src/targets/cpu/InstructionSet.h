// Instruction sets by name.
#pragma once
#include "targets/cpu/Features.h"
#include "targets/cpu/executor/Extensions.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace nereid::cpu {

/// An instruction set by name, as LLVM and the emitters know it.
struct InstructionSet {
  std::string triple, cpu, llvmFeatures;
  std::string tune; // the processor that code is scheduled for; empty: `cpu`
  Features features;
  bool isHost = false; // its code can run in this process
};

/// Why products of tiles are not used, from an errno: "Linux refuses the tile registers of AMX (No
/// space left on device)".
std::string tileRefusalText(int error);

/// "" and "host", "sapphirerapids" (AMX with bf16 and bytes, and "avx512bf16"), "graniterapids"
/// (also AMX with f16), "avx512bf16" (with AVX512-VNNI), "avx512", "avx2", "baseline", "aarch64",
/// "neoverse-n1" (FEAT_LSE, FEAT_FP16, FEAT_DotProd), "neoverse-v1" (also FEAT_BF16, FEAT_I8MM); an
/// error that lists these for any other name, or when this machine cannot run what was asked for
/// and `mustRun` is set.
llvm::Expected<InstructionSet> instructionSetFor(llvm::StringRef name, bool mustRun);

/// Of an AArch64 processor with these extensions.
Features aarch64Features(const Extensions &extensions);

} // namespace nereid::cpu
