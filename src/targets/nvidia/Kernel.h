// A finished kernel of the NVIDIA target: what its code generator hands on, and what is kept on
// disk.
#pragma once
#include "kernel_abi/nvidia.h"
#include "targets/nvidia/codegen/Architecture.h"
#include "targets/target.h"

#include "llvm/Support/Error.h"

#include <mutex>

namespace nereid::nvidia {

struct Assembly;
struct AssembleOptions;

class NvidiaKernel final : public targets::CompiledKernel {
public:
  void *entry() const override { return &info; }

  std::vector<std::string> stages() const override {
    return {"tile", "gpu", "llir", "ptx", "cubin"};
  }
  /// Also "layouts", what layouts were chosen and what they cost; "sass", which takes a
  /// disassembler; and Triton's names.
  std::optional<std::string> text(llvm::StringRef stage, std::string &why) const override;
  std::optional<std::string> object(std::string &why) const override;
  std::vector<explain::Hint> takeAdvice() const override;
  bool save(ByteWriter &out) const override;
  void restore(ByteReader &in);

  /// Makes the machine code; the caller holds the mutex or is alone.
  llvm::Error assemble() const;

  Architecture arch;
  mutable LaunchInfo info;
  std::string tile, gpu, layouts, llir, ptx, assemblerOptions, assemblyNotes;
  mutable std::mutex mutex;
  mutable std::string cubin; ///< empty until it is asked for when no launch was planned
  mutable std::vector<explain::Hint> advice;
  int maxRegisters = 0; ///< of a thread, as the launch asks; 0: it does not
  mutable int stackBytes = 0;
  int registerDemand = 0;         ///< see codegen/RegisterDemand.h; 0: not known
  bool isBoundByProducts = false; ///< see codegen/RegisterDemand.h
  bool isGradient = false;        ///< made by the compiler

private:
  llvm::Expected<Assembly> assembleForBlocks(const AssembleOptions &how) const;
  void askAnotherAssembler(Assembly &assembly, const AssembleOptions &how) const;
};

} // namespace nereid::nvidia
