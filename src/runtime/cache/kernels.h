// Compiled kernels on disk: what makes a hit, and what an entry contains.
//
// One `Keeper` goes with one compilation. It makes the key of everything that is known beforehand:
// this compiler's build, the settings that decide what code comes out, the text of the function,
// its specialisation, the options, the target with the instruction set or the assembler. What the
// compilation asks while it runs comes after it as questions (questions.h).
#pragma once

#include "runtime/cache/questions.h"
#include "runtime/cache/store.h"
#include "runtime/kernel.h"

#include "llvm/ADT/BitVector.h"

#include <memory>
#include <optional>

namespace nereid::runtime::cache {

/// What `nereid cache` shows of a kernel without making it.
struct KernelSummary {
  std::string kernel, function, target, features, signature, version;
  uint64_t codeBytes = 0;
};
/// Of the content of an entry of kind Kernel; nothing when it is none.
std::optional<KernelSummary> summaryOf(llvm::StringRef content);

class Keeper {
public:
  /// `host`: that of the compilation, null for a function that stands alone. The request stays
  /// where it is until the keeper goes.
  Keeper(const CompileRequest &request, const targets::Target &target,
         const targets::CompileOptions &options, CHost *host);
  ~Keeper();

  /// The kernel's code from disk, with the parameters it stores through and
  /// `nrd_kernel::gradientFacts`; nothing when it has to be compiled.
  std::unique_ptr<targets::CompiledKernel> find(llvm::BitVector &written,
                                                std::vector<uint8_t> &gradientFacts);

  /// Before the compilation: notes what it asks the host.
  void listen();

  /// Keeps what was compiled.
  void keep(const targets::CompiledKernel &code, const nrd_kernel &kernel,
            const llvm::BitVector &written);

private:
  bool makeKey();
  std::unique_ptr<targets::CompiledKernel> restore(llvm::StringRef content,
                                                   llvm::BitVector &written,
                                                   std::vector<uint8_t> &gradientFacts) const;

  void keepCompleted(llvm::StringRef content, const targets::CompiledKernel &code) const;

  const CompileRequest &request;
  const targets::Target &target;
  const targets::CompileOptions &options;
  CHost *inner;
  std::optional<Store> store; ///< nothing when this compilation has no part in the cache
  Dialogue dialogue;
  Key key; ///< where the answers so far have led to
};

} // namespace nereid::runtime::cache
