// The CPU target without its code generator: kernels from disk, made callable.
#include "support/bytes.h"
#include "targets/StageClock.h"
#include "targets/cpu/InstructionSet.h"
#include "targets/cpu/Kernel.h"

namespace nereid::cpu {
namespace {

using targets::CompiledKernel;
using targets::CompileOptions;

class CpuTarget final : public targets::Target {
public:
  llvm::StringRef name() const override { return "cpu"; }

  std::string identity(const CompileOptions &options) const override {
    auto machine = instructionSetFor(options.features, options.load);
    if (!machine) {
      llvm::consumeError(machine.takeError()); // the compilation says so
      return {};
    }
    return machine->triple + " " + machine->cpu + " " + machine->llvmFeatures;
  }

  std::unique_ptr<CompiledKernel> restore(ByteReader &in, const CompileOptions &) const override {
    auto result = std::make_unique<CpuKernel>();
    result->restore(in);
    return in.ok() ? std::move(result) : nullptr;
  }

  bool load(CompiledKernel &compiled, std::string &why) const override {
    auto &kernel = static_cast<CpuKernel &>(compiled);
    targets::StageClock clock(kernel.times);
    auto loaded = loadObject(kernel.code, kernel.name);
    if (!loaded) {
      why = llvm::toString(loaded.takeError());
      return false;
    }
    kernel.loaded = std::move(*loaded);
    clock.done("load");
    return true;
  }
};

} // namespace
} // namespace nereid::cpu

const nereid::targets::Target &nereid::targets::cpuTarget() {
  static const cpu::CpuTarget target;
  return target;
}
