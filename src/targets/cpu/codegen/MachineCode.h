// InstructionSet code from LLVM IR.
#pragma once
#include "targets/cpu/InstructionSet.h"
#include "targets/target.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace nereid::cpu {

/// A code generator for the machine; null where LLVM has none. `contract`: a*b+c may become one
/// instruction. `optimised`: false for machine code in a third of the time, which takes 1.4 times
/// as long for a softmax and 2.7 times for a product. A thread makes one for each kind of machine
/// and keeps it: the description of the processor in it takes as long as the code generation of
/// twenty instructions.
llvm::TargetMachine *targetMachineFor(const InstructionSet &machine, bool contract, bool optimised);

/// Sets what the module must carry for the machine (triple, data layout, function attributes).
void prepareModule(llvm::Module &module, llvm::TargetMachine &target,
                   const InstructionSet &machine);
/// The passes over LLVM IR that pay for their time. `times`: where the time of each goes, if
/// anywhere.
void optimize(llvm::Module &module, llvm::TargetMachine &target,
              std::vector<targets::StageTime> *times = nullptr);
/// A relocatable object or, with `assembly`, its text.
llvm::Expected<llvm::SmallVector<char, 0>>
emitCode(llvm::Module &module, llvm::TargetMachine &target, bool assembly,
         std::vector<targets::StageTime> *times = nullptr);

} // namespace nereid::cpu
