#include "targets/nvidia/codegen/Libdevice.h"

#include "targets/nvidia/codegen/Toolkit.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"

namespace nereid::nvidia {
namespace {

bool fromLibdevice(const llvm::Function &function) {
  return function.isDeclaration() && function.getName().starts_with("__nv_");
}

/// The text a call of __nvvm_reflect asks about.
llvm::StringRef question(const llvm::CallInst &call) {
  auto *global = llvm::dyn_cast<llvm::GlobalVariable>(call.getArgOperand(0)->stripPointerCasts());
  auto *text = global && global->hasInitializer()
                   ? llvm::dyn_cast<llvm::ConstantDataSequential>(global->getInitializer())
                   : nullptr;
  return text && text->isCString() ? text->getAsCString() : "";
}

/// Answers libdevice's questions about how it is compiled.
void answerReflection(llvm::Module &module, const Architecture &arch, bool flushSubnormals) {
  llvm::Function *reflect = module.getFunction("__nvvm_reflect");
  if (!reflect)
    return;
  for (llvm::User *user : llvm::make_early_inc_range(reflect->users())) {
    auto *call = llvm::dyn_cast<llvm::CallInst>(user);
    if (!call)
      continue;
    llvm::StringRef name = question(*call);
    int answer = 0;
    if (name == "__CUDA_FTZ")
      answer = flushSubnormals;
    else if (name == "__CUDA_ARCH")
      answer = arch.sm * 10;
    call->replaceAllUsesWith(llvm::ConstantInt::get(call->getType(), answer));
    call->eraseFromParent();
  }
  if (reflect->use_empty())
    reflect->eraseFromParent();
}

} // namespace

bool needsLibdevice(const llvm::Module &module) {
  return llvm::any_of(module.functions(), fromLibdevice);
}

llvm::Error linkLibdevice(llvm::Module &module, const Architecture &arch, bool flushSubnormals,
                          llvm::StringRef file) {
  std::vector<std::string> wanted;
  for (const llvm::Function &function : module)
    if (fromLibdevice(function))
      wanted.push_back(function.getName().str());
  if (wanted.empty())
    return llvm::Error::success();
  std::string path = file.empty() ? findLibdevice() : file.str();
  if (path.empty())
    return llvm::createStringError(
        "`" + wanted.front() +
        "` is a function of NVIDIA's libdevice, and `libdevice.10.bc` was not found: install a "
        "CUDA toolkit (NEREID_CUDA_PATH says where it is) or name the file by NEREID_LIBDEVICE");
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return llvm::createStringError("cannot read `" + path + "`: " + buffer.getError().message());
  // Lazily: only what is linked is read.
  auto library = llvm::getOwningLazyBitcodeModule(std::move(*buffer), module.getContext());
  if (!library)
    return llvm::createStringError("`" + path +
                                   "` is no libdevice: " + llvm::toString(library.takeError()));
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  for (const std::string &name : wanted)
    if (const llvm::Function *function = (*library)->getFunction(name);
        !function || function->isDeclaration())
      return llvm::createStringError("libdevice has no function `" + name + "`");
  std::vector<const llvm::Function *> before;
  for (const llvm::Function &function : module)
    if (!function.isDeclaration())
      before.push_back(&function);
  if (llvm::Linker::linkModules(module, std::move(*library), llvm::Linker::Flags::LinkOnlyNeeded))
    return llvm::createStringError("internal error: libdevice cannot be linked");
  for (llvm::Function &function : module) {
    if (function.isDeclaration() || llvm::is_contained(before, &function))
      continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.removeFnAttr(llvm::Attribute::NoInline);
    function.removeFnAttr(llvm::Attribute::OptimizeNone);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
    // Without debug information of its own it may stand in a kernel that has some.
    function.setSubprogram(nullptr);
  }
  answerReflection(module, arch, flushSubnormals);
  return llvm::Error::success();
}

} // namespace nereid::nvidia
