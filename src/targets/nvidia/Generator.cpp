// The NVIDIA target's code generator: its pipeline.
#include "targets/Common.h"
#include "targets/LlvmOptions.h"
#include "targets/PassTimes.h"
#include "targets/nvidia/Kernel.h"

#include "explain/Report.h"
#include "gpu/Passes.h"
#include "gpu/Pipeline.h"
#include "ir/ngpu/Dialect.h"
#include "support/settings.h"
#include "targets/nvidia/codegen/Assembler.h"
#include "targets/nvidia/codegen/Libdevice.h"
#include "targets/nvidia/codegen/Ptx.h"
#include "targets/nvidia/codegen/RegisterDemand.h"
#include "targets/nvidia/emit/Emitter.h"

#include "mlir/IR/Verifier.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Target/TargetMachine.h"

#include <numeric>

using namespace mlir;

namespace nereid::nvidia {
namespace {

using targets::CompiledKernel;
using targets::CompileOptions;
using targets::defect;
using targets::printed;

/// What the machine code takes, and how many programs that leaves room for.
void explainCode(const NvidiaKernel &kernel, explain::Report &report) {
  explain::Resources &used = report.resources;
  used.threads = kernel.info.numWarps * 32;
  used.sharedBytes = kernel.info.sharedBytes;
  used.sharedLimit = kernel.arch.maxSharedPerBlock();
  std::lock_guard lock(kernel.mutex);
  if (llvm::Error error = kernel.cubin.empty() ? kernel.assemble() : llvm::Error::success())
    used.assembler = llvm::toString(std::move(error));
  else if (auto assembler = findAssembler(&kernel.arch))
    used.assembler = (*assembler)->description();
  else
    llvm::consumeError(assembler.takeError());
  used.registers = kernel.info.registers;
  used.spillBytes = kernel.info.spills;
  used.stackBytes = kernel.stackBytes;
  for (const explain::Hint &hint : kernel.advice)
    if (hint.kind != explain::HintKind::StagesIgnored) // the report on loops says it
      report.hint(hint);
  explain::adviseOccupancy(report);
}

gpu::GpuOptions gpuOptionsFor(const Architecture &arch, const CompileOptions &options) {
  gpu::GpuOptions result;
  result.sm = arch.sm;
  result.best = arch.hasWgmma() ? gpu::MatrixUnit::Wgmma : gpu::MatrixUnit::Mma;
  result.asyncCopy = arch.hasCpAsync();
  result.tma = arch.hasTma();
  result.fp8Mma = arch.hasFp8Mma();
  result.numWarps = options.numWarps;
  result.numStages = options.numStages;
  result.numCtas = options.numCtas;
  result.maxRegisters = options.maxRegisters;
  result.maxSharedBytes = unsigned(arch.maxSharedPerBlock());
  result.verify = options.verify;
  result.explanation = options.explanation;
  return result;
}

/// Registers of a multiprocessor, which the threads of a block share.
constexpr int kRegisters = 65536;

/// Warps of a block: the kernel's and those of its specialised parts.
int blockWarps(func::FuncOp kernel, int numWarps) {
  int further = 0;
  kernel.walk([&](ngpu::WarpSpecializeOp op) {
    llvm::ArrayRef<int32_t> parts = op.getPartitionWarps();
    further = std::max(further, std::accumulate(parts.begin(), parts.end(), 0));
  });
  return numWarps + further;
}

class NvidiaGenerator final : public targets::Generator {
public:
  llvm::Expected<std::unique_ptr<CompiledKernel>>
  compile(ModuleOp tileModule, const CompileOptions &options,
          const targets::SourceLines &) const override {
    auto arch = architectureFor(options.arch);
    if (!arch)
      return arch.takeError();
    if (options.numWarps * 32 > 1024)
      return llvm::make_error<targets::OutOfResources>("threads", options.numWarps * 32, 1024);
    func::FuncOp kernel = targets::kernelOf(tileModule);
    if (!kernel)
      return defect("the module has no kernel");
    auto result = std::make_unique<NvidiaKernel>();
    result->name = kernel.getName().str();
    result->arch = *arch;
    result->params = targets::paramsOf(kernel);
    result->assemblerOptions = options.assemblerOptions;
    result->assemblyNotes = options.assemblyNotes;
    if (options.keepStages)
      result->tile = printed(tileModule, "tile", options);
    targets::StageClock clock(result->times);
    targets::setLlvmOptions();
    ngpu::loadDialects(*tileModule.getContext());

    // Layouts, shared memory, pipelines and barriers; tensors stay tensors.
    auto report =
        gpu::runGpuPipeline(tileModule, gpuOptionsFor(*arch, options), options.keepStages);
    if (!report)
      return llvm::handleErrors(report.takeError(), [](const gpu::OutOfSharedMemory &out) {
        return llvm::make_error<targets::OutOfResources>("shared memory", out.required, out.limit,
                                                         out.biggest);
      });
    if (options.passTimes)
      for (const auto &[pass, ms] : report->times)
        targets::addTime(*options.passTimes, pass, ms);
    kernel = targets::kernelOf(tileModule);
    clock.done("gpu passes");
    if (options.keepStages)
      result->gpu = printed(tileModule, "gpu", options);
    result->layouts = std::move(report->layouts);
    result->advice = std::move(report->advice);

    // The assembler is asked early: PTX is written in its version.
    auto assembler = findAssembler(&*arch);
    std::optional<int> itsVersion;
    if (assembler)
      itsVersion = (*assembler)->ptxVersion();
    else
      llvm::consumeError(assembler.takeError());
    if (options.ptxVersion)
      itsVersion = options.ptxVersion;
    CodegenOptions codegen{*arch, ptxVersionFor(*arch, itsVersion), options.fpFusion};
    clock.done("assembler found");

    llvm::LLVMContext context;
    targets::CodeProblems problems(context);
    EmitOptions emitOptions;
    emitOptions.sm = arch->sm;
    emitOptions.ptxVersion = unsigned(codegen.ptxVersion);
    emitOptions.lineInfo = Settings::current().lineInfo;
    emitOptions.fpFusion = options.fpFusion;
    emitOptions.reflectFtz = options.reflectFtz;
    auto emitted = emitKernel(kernel, emitOptions, context);
    if (!emitted)
      return emitted.takeError();
    llvm::Module &module = *emitted->module;
    auto machine = makeTargetMachine(codegen);
    if (!machine)
      return machine.takeError();
    prepareModule(module, **machine);
    llvm::Function *entry = module.getFunction(emitted->entry);
    if (!entry)
      return defect("the emitted module has no entry");
    KernelShape shape;
    shape.threads = blockWarps(kernel, options.numWarps) * 32;
    shape.maxRegisters = options.maxRegisters;
    // More registers than there are for all its threads: it could not be launched.
    if (int most = kRegisters / shape.threads / 8 * 8; shape.maxRegisters > most && most < 255) {
      result->advice.push_back(
          makeHint(explain::HintKind::FewerRegisters, {},
                   {std::to_string(options.maxRegisters), std::to_string(shape.threads),
                    std::to_string(kRegisters), std::to_string(most)}));
      shape.maxRegisters = most;
    }
    result->maxRegisters = shape.maxRegisters;
    markKernel(*entry, shape);
    clock.done("emit");
    if (options.verify) {
      std::string invalid;
      llvm::raw_string_ostream stream(invalid);
      if (llvm::verifyModule(module, &stream))
        return defect("the emitted LLVM IR is invalid: " + invalid);
    }

    if (!options.libraries.empty()) {
      if (llvm::Error error = targets::linkLibraries(module, options.libraries))
        return std::move(error);
      clock.done("libraries");
    }
    result->files = options.libraries;
    if (needsLibdevice(module)) {
      if (options.libdevice.empty())
        result->usesLibdevice = true;
      else
        result->files.push_back(options.libdevice);
      if (llvm::Error error = linkLibdevice(module, *arch, options.reflectFtz, options.libdevice))
        return std::move(error);
      clock.done("libdevice");
    }
    for (const llvm::Function &function : module)
      if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() &&
          function.getName() != "vprintf" && function.getName() != "__assertfail")
        return targets::missingFunction(function.getName());
    targets::printLlvm(module, result->name, "before");
    if (Settings::current().llvmOptimisation)
      optimize(module, **machine, options.passTimes);
    targets::printLlvm(module, result->name, "after");
    if (llvm::Error error = targets::replaceLlvm(emitted->module, options))
      return std::move(error);
    clock.done("llvm passes");
    if (options.keepStages) {
      llvm::raw_string_ostream stream(result->llir);
      emitted->module->print(stream, nullptr);
    }
    if (const llvm::Function *optimised = emitted->module->getFunction(emitted->entry))
      result->registerDemand = registerDemand(*optimised);
    auto ptx = emitPtx(*emitted->module, **machine, options.passTimes);
    if (!ptx)
      return ptx.takeError();
    if (llvm::Error error = problems.take(*emitted->module))
      return std::move(error);
    result->ptx = std::move(*ptx);
    if (std::optional<std::string> text =
            options.replacement ? options.replacement("ptx") : std::nullopt) {
      result->ptx = std::move(*text);
      result->registerDemand = 0;
    }
    if (Settings::current().printPtx)
      llvm::errs() << result->ptx << '\n';
    clock.done("ptx");

    LaunchInfo &info = result->info;
    info.entry = emitted->entry;
    info.arch = arch->sm;
    info.archSpecific = arch->archSpecific;
    info.numWarps = shape.threads / 32;
    info.sharedBytes = report->sharedBytes;
    info.tensorMaps = std::move(report->tensorMaps);
    // Without an assembler all but the launch works; the launch then says what is missing.
    if (options.load && itsVersion) {
      if (llvm::Error error = result->assemble())
        return std::move(error);
      clock.done("assemble");
    }
    if (options.explanation)
      explainCode(*result, *options.explanation);
    return result;
  }
};

} // namespace
} // namespace nereid::nvidia

const nereid::targets::Generator &nereid::targets::nvidiaGenerator() {
  static const nvidia::NvidiaGenerator generator;
  return generator;
}
