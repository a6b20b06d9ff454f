// A finished kernel of the CPU target: what its code generator hands on, and what is kept on disk.
#pragma once
#include "targets/cpu/Loader.h"
#include "targets/target.h"

#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <utility>

namespace nereid::cpu {

class CpuKernel final : public targets::CompiledKernel {
public:
  void *entry() const override { return loaded ? loaded->entry() : nullptr; }
  std::vector<std::string> stages() const override { return {"tile", "loops", "llir", "asm"}; }
  std::optional<std::string> text(llvm::StringRef stage, std::string &why) const override;
  std::optional<std::string> object(std::string &why) const override;
  std::vector<explain::Hint> takeAdvice() const override { return std::exchange(advice, {}); }
  bool save(ByteWriter &out) const override;
  void restore(ByteReader &in);

  std::string tile, loops, llir;
  llvm::SmallVector<char, 0> code;
  /// Makes the assembly of `llir`: the generator's, where the LLVM IR is kept.
  std::function<std::optional<std::string>(const std::string &llir, std::string &why)> assembly;
  mutable std::vector<explain::Hint> advice;
  /// The code in this process, once it is loaded.
  std::unique_ptr<LoadedObject> loaded;
};

} // namespace nereid::cpu
