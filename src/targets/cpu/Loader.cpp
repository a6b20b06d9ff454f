// LLVM's linker for object files in memory, without the sessions and tables of symbols of its JIT:
// each kernel is one object whose undefined symbols are functions of ours or of the process.
#include "targets/cpu/Loader.h"

#include "targets/cpu/Functions.h"
#include "targets/cpu/Observers.h"

#if defined(__aarch64__)
#include "llvm/ExecutionEngine/JITLink/ELF_aarch64.h"
#else
#include "llvm/ExecutionEngine/JITLink/ELF_x86_64.h"
#endif
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "llvm/Support/Process.h"

namespace nereid::cpu {

namespace orc = llvm::orc;
namespace jitlink = llvm::jitlink;

namespace {

#if defined(__aarch64__)
constexpr auto readObject = jitlink::createLinkGraphFromELFObject_aarch64;
constexpr auto linkObject = jitlink::link_ELF_aarch64;
#else
constexpr auto readObject = jitlink::createLinkGraphFromELFObject_x86_64;
constexpr auto linkObject = jitlink::link_ELF_x86_64;
#endif

/// Never taken down, because kernels may be released by destructors that run at any time before
/// exit.
jitlink::InProcessMemoryManager &memory() {
  static auto *manager =
      new jitlink::InProcessMemoryManager(llvm::sys::Process::getPageSizeEstimate());
  return *manager;
}

/// The result of linking.
struct Linked {
  jitlink::JITLinkMemoryManager::FinalizedAlloc allocation;
  orc::ExecutorAddr entry;
  llvm::Error error = llvm::Error::success();
};

class Context final : public jitlink::JITLinkContext {
public:
  Context(llvm::StringRef symbol, Linked &result)
      : JITLinkContext(nullptr), symbol(symbol), result(result) {}

  jitlink::JITLinkMemoryManager &getMemoryManager() override { return memory(); }
  void notifyFailed(llvm::Error error) override {
    result.error = llvm::joinErrors(std::move(result.error), std::move(error));
  }

  void lookup(const LookupMap &wanted,
              std::unique_ptr<jitlink::JITLinkAsyncLookupContinuation> then) override {
    jitlink::AsyncLookupResult found;
    for (const auto &[name, flags] : wanted) {
      void *address = findFunction(*name);
      if (!address && flags == jitlink::SymbolLookupFlags::RequiredSymbol)
        return then->run(llvm::createStringError("the function `" + *name + "` was not found"));
      found[name] = {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    then->run(std::move(found));
  }

  llvm::Error notifyResolved(jitlink::LinkGraph &graph) override {
    for (const jitlink::Symbol *each : graph.defined_symbols())
      if (each->hasName() && *each->getName() == symbol)
        result.entry = each->getAddress();
    return result.entry ? llvm::Error::success()
                        : llvm::createStringError("the object has no function `" + symbol + "`");
  }
  void notifyFinalized(jitlink::JITLinkMemoryManager::FinalizedAlloc allocation) override {
    result.allocation = std::move(allocation);
  }

private:
  llvm::StringRef symbol;
  Linked &result;
};

class Loaded final : public LoadedObject {
public:
  Loaded(Linked linked, llvm::ArrayRef<char> object, llvm::StringRef symbol)
      : allocation(std::move(linked.allocation)), address(linked.entry.toPtr<void *>()),
        observed(std::make_unique<Observed>(object, symbol, linked.entry.getValue())) {}
  ~Loaded() override {
    observed.reset(); // before the code goes
    llvm::consumeError(memory().deallocate(std::move(allocation)));
  }
  void *entry() const override { return address; }

private:
  jitlink::JITLinkMemoryManager::FinalizedAlloc allocation;
  void *address;
  std::unique_ptr<Observed> observed;
};

} // namespace

llvm::Expected<std::unique_ptr<LoadedObject>> loadObject(llvm::ArrayRef<char> object,
                                                         llvm::StringRef symbol) {
  llvm::MemoryBufferRef bytes(llvm::StringRef(object.data(), object.size()), symbol);
  auto names = std::make_shared<orc::SymbolStringPool>(); // outlives what linking asks and answers
  auto graph = readObject(bytes, names);
  if (!graph)
    return graph.takeError();
  Linked linked; // all of it happens in this thread, before `linkObject` returns
  linkObject(std::move(*graph), std::make_unique<Context>(symbol, linked));
  if (linked.error)
    return std::move(linked.error);
  return std::make_unique<Loaded>(std::move(linked), object, symbol);
}

} // namespace nereid::cpu
