// Instruction sets, and machine code from LLVM IR.
#pragma once
#include "targets/cpu/Features.h"
#include "targets/target.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace nereid::cpu {

/// An instruction set by name, as LLVM and the emitters know it.
struct Machine {
  std::string triple, cpu, llvmFeatures;
  Features features;
  bool isHost = false; // its code can run in this process
};

/// "" and "host", "avx512", "avx2", "baseline", "aarch64"; an error that lists these for any other
/// name, or when this machine cannot run what was asked for and `mustRun` is set.
llvm::Expected<Machine> machineFor(llvm::StringRef name, bool mustRun);

/// A code generator for the machine. `contract`: a*b+c may become one instruction.
std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const Machine &machine, bool contract);

/// Sets what the module must carry for the machine (triple, data layout, function attributes).
void prepareModule(llvm::Module &module, llvm::TargetMachine &target, const Machine &machine);
/// The passes over LLVM IR that pay for their time. `times`: where the time of each goes, if
/// anywhere.
void optimize(llvm::Module &module, llvm::TargetMachine &target,
              std::vector<targets::StageTime> *times = nullptr);
/// A relocatable object or, with `assembly`, its text.
llvm::Expected<llvm::SmallVector<char, 0>>
emitCode(llvm::Module &module, llvm::TargetMachine &target, bool assembly,
         std::vector<targets::StageTime> *times = nullptr);

} // namespace nereid::cpu
