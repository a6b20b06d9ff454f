#include "targets/nvidia/emit/Emitter.h"

#include "targets/nvidia/Machine.h"
#include "targets/nvidia/emit/Dot.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;

namespace nereid::nvidia {

llvm::Value *Emitter::ptx(llvm::Type *result, llvm::StringRef text, llvm::StringRef constraints,
                          llvm::ArrayRef<llvm::Value *> args, bool sideEffects, bool convergent) {
  llvm::SmallVector<llvm::Type *> types;
  for (llvm::Value *arg : args)
    types.push_back(arg->getType());
  auto *signature = llvm::FunctionType::get(result, types, false);
  auto *code = llvm::InlineAsm::get(signature, text, constraints, sideEffects);
  auto *call = b.CreateCall(code, args);
  call->setDoesNotThrow();
  if (convergent)
    call->setConvergent();
  else if (!sideEffects)
    call->setDoesNotAccessMemory();
  return call;
}

/// A tensor map is a parameter of 128 bytes that the copy engine reads where it lies.
static void markTensorMap(llvm::Function &entry, unsigned parameter) {
  llvm::LLVMContext &context = entry.getContext();
  auto *bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), tensorMapBytes);
  entry.addParamAttr(parameter, llvm::Attribute::getWithByValType(context, bytes));
  entry.addParamAttr(parameter, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
  entry.addParamAttr(parameter, llvm::Attribute::get(context, "nvvm.grid_constant"));
  entry.addParamAttr(parameter, llvm::Attribute::ReadOnly);
}

void Emitter::markKernel(llvm::Function &entry, unsigned firstMap) {
  entry.setCallingConv(llvm::CallingConv::PTX_Kernel);
  for (unsigned i = firstMap; i < entry.arg_size(); ++i)
    markTensorMap(entry, i);
}

/// What is looked at of a map: all of its 128 bytes would be as many of the constant cache, which a
/// kernel finds cold. Launchers pass no optional map with zeros here.
constexpr unsigned tensorMapMarkWords = 2;

static void prefetchMap(Emitter &e, llvm::Value *map) {
  e.ptx(e.b.getVoidTy(), "prefetch.tensormap [$0];", "l", {map}, true);
}

llvm::Value *isMade(Emitter &e, llvm::Value *map) {
  llvm::Value *bits = nullptr;
  for (unsigned word = 0; word < tensorMapMarkWords; ++word) {
    llvm::Value *place = e.b.CreateConstInBoundsGEP1_32(e.b.getInt64Ty(), map, word);
    llvm::Value *loaded = e.b.CreateAlignedLoad(e.b.getInt64Ty(), place, llvm::Align(16 >> word));
    bits = bits ? e.b.CreateOr(bits, loaded) : loaded;
  }
  llvm::Value *made = e.b.CreateICmpNE(bits, e.b.getInt64(0));
  e.when(e.b.CreateAnd(e.isFirstThread(), made), [&] { prefetchMap(e, map); });
  return made;
}

/// The first copy need not wait for its map. An optional one is left to `isMade`: a kernel that
/// does not ask for it need not read it.
void Emitter::beginKernel(llvm::ArrayRef<llvm::Value *> tensorMaps, uint32_t optional) {
  llvm::SmallVector<llvm::Value *> certain;
  for (auto [number, map] : llvm::enumerate(tensorMaps))
    if (number >= 32 || !(optional >> number & 1))
      certain.push_back(map);
  if (!certain.empty())
    when(isFirstThread(), [&] {
      for (llvm::Value *map : certain)
        prefetchMap(*this, map);
    });
}

/// An accumulator that wgmma still works on: where its registers meet those of a loop that was not
/// entered, the assembler would run all of the loop's products one by one.
bool Emitter::isInFlight(mlir::Value value) const {
  auto product = value.getDefiningOp<ngpu::WgmmaOp>();
  return product && product.getAsync();
}

Values Emitter::await(llvm::ArrayRef<llvm::Value *> registers) {
  return awaitProducts(*this, registers, 0);
}

bool Emitter::emitTargetOp(Operation *op) {
  return emitMemory(*this, op) || emitForeign(*this, op) || emitDot(*this, op) ||
         emitAsync(*this, op) || emitAtomic(*this, op) || emitDebug(*this, op) ||
         emitBlockSum(*this, op) || emitWarpSpecialize(*this, op);
}

llvm::Expected<LlvmKernel> emitKernel(func::FuncOp kernel, const EmitOptions &options,
                                      llvm::LLVMContext &context) {
  LlvmKernel result;
  result.module = std::make_unique<llvm::Module>("nereid", context);
  llvm::Triple triple("nvptx64-nvidia-cuda");
  result.module->setTargetTriple(triple);
  result.module->setDataLayout(triple.computeDataLayout("shortptr"));
  result.entry = kernel.getName().str();
  EmitOptions complete = options;
  complete.machine = machineOf({options.sm, /*archSpecific=*/options.sm >= 90});
  Emitter emitter(kernel, complete, *result.module);
  emitter.emitFunctions();
  if (emitter.failed())
    return emitter.takeError();
  result.blocks = emitter.blockCount();
  result.warps = emitter.launchedWarps() / result.blocks;
  result.usesLibdevice = emitter.usesLibrary;
  return result;
}

} // namespace nereid::nvidia
