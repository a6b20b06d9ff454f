#include "targets/nvidia/codegen/Ptx.h"

#include "targets/LlvmOptions.h"
#include "targets/LlvmPasses.h"
#include "targets/PassTimes.h"
#include "targets/TrimmedPassManager.h"
#include "targets/nvidia/codegen/GuardHalfSelections.h"
#include "targets/nvidia/codegen/GuardShortSigns.h"
#include "targets/nvidia/codegen/GuardTruthBits.h"
#include "targets/nvidia/codegen/PinAccumulators.h"
#include "targets/nvidia/codegen/RowPointers.h"
#include "targets/nvidia/codegen/WidenHalves.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace nereid::nvidia {

static const llvm::Target *findTarget(const llvm::Triple &triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    targets::setLlvmOptions();
  });
  std::string error;
  return llvm::TargetRegistry::lookupTarget(triple, error);
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
makeTargetMachine(const CodegenOptions &options) {
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target = findTarget(triple);
  if (!target)
    return llvm::createStringError("internal error: LLVM was built without the NVPTX target");
  llvm::TargetOptions targetOptions;
  targetOptions.AllowFPOpFusion =
      options.fpFusion ? llvm::FPOpFusion::Fast : llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, options.arch.name(), "+ptx" + std::to_string(options.ptxVersion), targetOptions,
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

void prepareModule(llvm::Module &module, llvm::TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
}

void markKernel(llvm::Function &function, const KernelShape &shape) {
  function.setCallingConv(llvm::CallingConv::PTX_Kernel);
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr("nvvm.reqntid", std::to_string(shape.threads));
  if (shape.maxRegisters)
    function.addFnAttr("nvvm.maxnreg", std::to_string(shape.maxRegisters));
  if (shape.minBlocks)
    function.addFnAttr("nvvm.minctasm", std::to_string(shape.minBlocks));
  if (shape.clusterBlocks > 1)
    function.addFnAttr("nvvm.cluster_dim", std::to_string(shape.clusterBlocks));
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine,
              std::vector<targets::StageTime> *times) {
  llvm::ModulePassManager all;
  // Functions of libdevice, and only they, ask to be inlined.
  all.addPass(llvm::AlwaysInlinerPass());
  all.addPass(llvm::GlobalDCEPass());
  llvm::FunctionPassManager passes;
  // Every thread computes the same coordinates and addresses for many elements.
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  // Addresses and masks that a loop does not change.
  llvm::LoopPassManager loopPasses;
  loopPasses.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(std::move(loopPasses), /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  passes.addPass(llvm::InstCombinePass());
  // Neighbouring loads become one where their alignment is known; the code generator merges them.
  passes.addPass(llvm::InferAlignmentPass());
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  targets::runLlvmPasses(module, machine, std::move(all), times);
  widenHalves(module);
  guardShortSigns(module);
  guardTruthBits(module);
  guardHalfSelections(module);
  hoistRowPointers(module);
  pinAccumulators(module);
}

llvm::Expected<std::string> emitPtx(llvm::Module &module, llvm::TargetMachine &machine,
                                    std::vector<targets::StageTime> *times) {
  targets::CodeGeneratorTimes timer(times);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  targets::TrimmedPassManager passes(droppedPasses);
  if (machine.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile,
                                  /*DisableVerify=*/true))
    return llvm::createStringError("internal error: the code generator cannot write PTX");
  passes.run(module);
  return text.str().str();
}

} // namespace nereid::nvidia
