#include "targets/cpu/codegen/MachineCode.h"
#include "targets/LlvmPasses.h"
#include "targets/PassTimes.h"
#include "targets/TrimmedPassManager.h"
#include "targets/cpu/codegen/MaskedAccesses.h"
#include "targets/cpu/codegen/NarrowCounters.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <mutex>

namespace nereid::cpu {

static void initializeBackEnds() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
  });
}

static std::unique_ptr<llvm::TargetMachine> makeTargetMachine(const InstructionSet &machine,
                                                              bool contract, bool optimised) {
  initializeBackEnds();
  std::string error;
  llvm::Triple triple(machine.triple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = contract ? llvm::FPOpFusion::Fast : llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, machine.cpu, machine.llvmFeatures, options, llvm::Reloc::PIC_, std::nullopt,
      optimised ? llvm::CodeGenOptLevel::Default : llvm::CodeGenOptLevel::None, true));
}

llvm::TargetMachine *targetMachineFor(const InstructionSet &machine, bool contract,
                                      bool optimised) {
  static thread_local llvm::StringMap<std::unique_ptr<llvm::TargetMachine>> made;
  std::string key = machine.triple + ";" + machine.cpu + ";" + machine.llvmFeatures +
                    (contract ? ";+" : ";-") + (optimised ? "" : "0");
  std::unique_ptr<llvm::TargetMachine> &found = made[key];
  if (!found)
    found = makeTargetMachine(machine, contract, optimised);
  return found.get();
}

void prepareModule(llvm::Module &module, llvm::TargetMachine &target,
                   const InstructionSet &machine) {
  module.setTargetTriple(target.getTargetTriple());
  module.setDataLayout(target.createDataLayout());
  std::string width = std::to_string(machine.features.vectorBytes * 8);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.cpu);
    if (!machine.llvmFeatures.empty())
      function.addFnAttr("target-features", machine.llvmFeatures);
    if (!machine.tune.empty())
      function.addFnAttr("tune-cpu", machine.tune);
    // LLVM prefers 256-bit registers on several AVX-512 processors; the emission decided otherwise.
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    // Scratch memory may be written at any time, so LLVM may keep what is in it in registers.
    for (llvm::Argument &argument : function.args())
      if (argument.hasNoAliasAttr() && argument.getDereferenceableBytes())
        argument.addAttr(llvm::Attribute::Writable);
  }
}

void optimize(llvm::Module &module, llvm::TargetMachine &target,
              std::vector<targets::StageTime> *times) {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass(true)); // the emission computes addresses again and again
  passes.addPass(llvm::SimplifyCFGPass());  // structured control flow leaves empty blocks
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager loopPasses;
  loopPasses.addPass(llvm::LICMPass(llvm::LICMOptions())); // splats of what a loop does not change
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loopPasses), true));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager all;
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  targets::runLlvmPasses(module, target, std::move(all), times);
}

/// LLVM's instruction selection and its schedulers take more than linear time for one block, and
/// unrolled code is one block. So a block of more instructions than `largeBlock` is cut into
/// pieces. Whether there was any.
static bool cutLargeBlocks(llvm::Module &module) {
  constexpr size_t largeBlock = 4000, piece = 1000;
  bool found = false;
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function) { // the rest of a block comes next, and is cut in turn
      if (block.size() <= (found ? piece : largeBlock))
        continue;
      auto at = std::next(block.begin(), piece);
      if (llvm::isa<llvm::PHINode>(*at) || at->isTerminator())
        continue;
      block.splitBasicBlock(at);
      found = true;
    }
  return found;
}

/// Passes left out for large functions: those that merge the pieces again, and those that then
/// process the whole function or compare all pairs of accesses.
static constexpr llvm::StringLiteral droppedForLarge[] = {
    "CodeGen Prepare", "Machine Instruction Scheduler", "Post RA top-down list latency scheduler",
    "PostRA Machine Instruction Scheduler"};

llvm::Expected<llvm::SmallVector<char, 0>> emitCode(llvm::Module &module,
                                                    llvm::TargetMachine &target, bool assembly,
                                                    std::vector<targets::StageTime> *times) {
  targets::CodeGeneratorTimes timer(times);
  simplifyMaskedAccesses(module, target);
  hideNarrowCounters(module);
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream stream(code);
  llvm::ArrayRef<llvm::StringLiteral> dropped;
  if (cutLargeBlocks(module))
    dropped = droppedForLarge;
  targets::TrimmedPassManager passes(dropped);
  auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (target.addPassesToEmitFile(passes, stream, nullptr, kind, true))
    return llvm::createStringError("internal error: the code generator cannot emit this file type");
  passes.run(module);
  return code;
}

} // namespace nereid::cpu
