#include "targets/cpu/codegen/Jit.h"

#include "targets/cpu/codegen/Observers.h"
#include "targets/cpu/support_library/SupportLibrary.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/TargetParser/Host.h"

#include <atomic>

namespace nereid::cpu {

namespace orc = llvm::orc;

/// Only finished objects come here.
class NoCompiler final : public orc::IRCompileLayer::IRCompiler {
public:
  NoCompiler() : IRCompiler(orc::IRSymbolMapper::ManglingOptions()) {}
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> operator()(llvm::Module &) override {
    return llvm::createStringError("internal error: LLVM IR was given to the JIT session");
  }
};

// One session for the process: starting one costs more than loading a kernel. It is never taken
// down, because kernels may be released by destructors that run at any time before exit. It links
// objects and nothing else: no code generator is started, and kernels have no initialisers, for
// which LLVM's default platform would compile a module for each.
static llvm::Expected<orc::LLJIT *> session() {
  static llvm::Expected<orc::LLJIT *> shared = []() -> llvm::Expected<orc::LLJIT *> {
    llvm::Triple triple(llvm::sys::getProcessTriple());
    auto made = orc::LLJITBuilder()
                    .setJITTargetMachineBuilder(orc::JITTargetMachineBuilder(triple))
                    .setDataLayout(llvm::DataLayout(triple.computeDataLayout()))
                    .setCompileFunctionCreator(
                        [](orc::JITTargetMachineBuilder) { return std::make_unique<NoCompiler>(); })
                    .setPlatformSetUp(orc::setUpInactivePlatform)
                    .create();
    if (!made)
      return made.takeError();
    std::unique_ptr<orc::LLJIT> jit = std::move(*made);
    orc::SymbolMap symbols;
    for (const Symbol &symbol : supportSymbols())
      symbols[jit->mangleAndIntern(symbol.name)] = {orc::ExecutorAddr::fromPtr(symbol.address),
                                                    llvm::JITSymbolFlags::Exported |
                                                        llvm::JITSymbolFlags::Callable};
    if (llvm::Error error = jit->getMainJITDylib().define(orc::absoluteSymbols(std::move(symbols))))
      return std::move(error);
    return jit.release();
  }();
  if (!shared) {
    llvm::consumeError(shared.takeError());
    return llvm::createStringError("internal error: the JIT session could not be started");
  }
  return *shared;
}

bool canBeFound(llvm::StringRef symbol) {
  auto isIt = [&](const Symbol &each) { return symbol == each.name; };
  return llvm::any_of(supportSymbols(), isIt) ||
         llvm::sys::DynamicLibrary::SearchForAddressOfSymbol(symbol.str());
}

namespace {

class Loaded final : public LoadedObject {
public:
  Loaded(orc::LLJIT &jit, orc::JITDylib &library, llvm::ArrayRef<char> object,
         llvm::StringRef symbol, orc::ExecutorAddr entry)
      : jit(jit), library(&library), entry(entry.toPtr<void *>()),
        observed(std::make_unique<Observed>(object, symbol, entry.getValue())) {}
  ~Loaded() override {
    observed.reset(); // before the code goes
    llvm::consumeError(jit.getExecutionSession().removeJITDylib(*library));
  }
  void *lookup() const override { return entry; }

private:
  orc::LLJIT &jit;
  orc::JITDylibSP library;
  void *entry;
  std::unique_ptr<Observed> observed;
};

} // namespace

llvm::Expected<std::unique_ptr<LoadedObject>> loadObject(llvm::ArrayRef<char> object,
                                                         llvm::StringRef symbol) {
  auto jit = session();
  if (!jit)
    return jit.takeError();
  static std::atomic<unsigned> number{0};
  auto library = (*jit)->createJITDylib("kernel" + std::to_string(number++));
  if (!library)
    return library.takeError();
  library->addToLinkOrder((*jit)->getMainJITDylib());
  auto buffer =
      llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), symbol);
  if (llvm::Error error = (*jit)->addObjectFile(*library, std::move(buffer)))
    return std::move(error);
  auto address = (*jit)->lookup(*library, symbol);
  if (!address)
    return address.takeError();
  return std::make_unique<Loaded>(**jit, *library, object, symbol, *address);
}

} // namespace nereid::cpu
