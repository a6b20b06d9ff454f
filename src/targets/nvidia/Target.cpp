// The NVIDIA target without its code generator: kernels from disk, and what was found on this
// machine.
#include "support/bytes.h"
#include "targets/nvidia/Kernel.h"
#include "targets/nvidia/codegen/Assembler.h"
#include "targets/nvidia/codegen/Toolkit.h"

namespace nereid::nvidia {
namespace {

using targets::CompiledKernel;
using targets::CompileOptions;

class NvidiaTarget final : public targets::Target {
public:
  llvm::StringRef name() const override { return "cuda"; }

  std::string identity(const CompileOptions &options) const override {
    auto arch = architectureFor(options.arch);
    if (!arch) {
      llvm::consumeError(arch.takeError()); // the compilation says so
      return {};
    }
    return arch->name() + " " + assemblerIdentity(*arch);
  }

  std::string fileOf(llvm::StringRef what) const override {
    return what == "libdevice" ? findLibdevice() : std::string();
  }

  std::unique_ptr<CompiledKernel> restore(ByteReader &in,
                                          const CompileOptions &options) const override {
    auto arch = architectureFor(options.arch);
    if (!arch) {
      llvm::consumeError(arch.takeError()); // the compilation says so
      return nullptr;
    }
    auto result = std::make_unique<NvidiaKernel>();
    result->arch = *arch;
    result->assemblerOptions = options.assemblerOptions;
    result->assemblyNotes = options.assemblyNotes;
    result->maxRegisters = options.maxRegisters;
    result->restore(in);
    return in.ok() ? std::move(result) : nullptr;
  }

  bool load(CompiledKernel &compiled, std::string &why) const override {
    // It may have been compiled where it could not be run. Without an assembler the launch says
    // what is missing.
    auto &kernel = static_cast<NvidiaKernel &>(compiled);
    std::lock_guard lock(kernel.mutex);
    if (!kernel.cubin.empty())
      return true;
    auto assembler = findAssembler(&kernel.arch);
    if (!assembler) {
      llvm::consumeError(assembler.takeError());
      return true;
    }
    if (llvm::Error error = kernel.assemble()) {
      why = llvm::toString(std::move(error));
      return false;
    }
    kernel.completed = true;
    return true;
  }

  std::vector<targets::Tool> tools() const override {
    targets::Tool assembler{"assembler", "", ""};
    if (auto found = findAssembler()) {
      assembler.found = (*found)->description();
      std::string defect = (*found)->defect();
      assembler.problem = passedOver();
      assembler.problem += (assembler.problem.empty() || defect.empty() ? "" : "; ") + defect;
    } else {
      assembler.problem = llvm::toString(found.takeError());
    }
    targets::Tool libdevice{"libdevice", findLibdevice(), ""};
    if (libdevice.found.empty())
      libdevice.problem = "no `libdevice.10.bc` was found";
    targets::Tool disassembler{"disassembler", findDisassembler(), ""};
    if (disassembler.found.empty())
      disassembler.problem = "neither `nvdisasm` nor `cuobjdump` was found";
    return {assembler, libdevice, disassembler};
  }
};

} // namespace
} // namespace nereid::nvidia

const nereid::targets::Target &nereid::targets::nvidiaTarget() {
  static const nvidia::NvidiaTarget target;
  return target;
}
