// The NVIDIA target's code generator: its pipeline.
#include "targets/Common.h"
#include "targets/LlvmOptions.h"
#include "targets/PassTimes.h"
#include "targets/nvidia/Kernel.h"
#include "targets/nvidia/Machine.h"

#include "explain/Report.h"
#include "gpu/Passes.h"
#include "gpu/pipeline/Pipeline.h"
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

/// Resources of the machine code, and the resulting occupancy.
void explainCode(const NvidiaKernel &kernel, explain::Report &report) {
  explain::Resources &used = report.resources;
  used.threads = kernel.info.numWarps * lanesOfWarp;
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
  result.machine = machineOf(arch);
  result.numWarps = options.numWarps * options.numCtas;
  result.numStages = options.numStages;
  result.numBlocks = options.numCtas;
  result.choosesBlocks = options.choosesCtas && Settings::current().clusters &&
                         options.numCtas == 1 && !options.maxRegisters && !options.cooperative;
  result.maxRegisters = options.maxRegisters;
  const std::string &specialise = Settings::current().warpSpecialise;
  result.specialise = specialise == "always"  ? gpu::Specialise::Always
                      : specialise == "never" ? gpu::Specialise::Never
                                              : gpu::Specialise::AsAsked;
  if (Settings::current().overlapStores == "never")
    result.overlapStores = gpu::OverlapStores::Never;
  const std::string &split = Settings::current().splitProducts;
  result.splitProducts = split == "idle" || split == "full";
  result.multicast = Settings::current().multicast && !options.cooperative;
  const std::string &persistent = Settings::current().persistentRows;
  // Only launchers of our own pass the number of programs.
  if (options.choosesCtas && !options.cooperative && !options.programmaticLaunch) {
    const std::string &products = Settings::current().persistentProducts;
    result.persistentProducts = products == "never"    ? gpu::PersistentProducts::Never
                                : products == "always" ? gpu::PersistentProducts::Always
                                                       : gpu::PersistentProducts::Measured;
    const std::string &attention = Settings::current().persistentAttention;
    result.persistentAttention = attention == "never"    ? gpu::PersistentProducts::Never
                                 : attention == "always" ? gpu::PersistentProducts::Always
                                                         : gpu::PersistentProducts::Measured;
    result.persistentRows = persistent == "never"    ? gpu::PersistentRows::Never
                            : persistent == "always" ? gpu::PersistentRows::Always
                                                     : gpu::PersistentRows::Wide;
  }
  result.keepsNarrow = Settings::current().keepNarrow;
  result.sendsPartials = Settings::current().clusterSends;
  const std::string &scaling = Settings::current().skipScaling;
  result.skipScaling = scaling == "always"  ? gpu::SkipScaling::Always
                       : scaling == "never" ? gpu::SkipScaling::Never
                                            : gpu::SkipScaling::Divided;
  const std::string &maxima = Settings::current().skipMaxima;
  result.skipMaxima = maxima == "always"  ? gpu::SkipMaxima::Always
                      : maxima == "never" ? gpu::SkipMaxima::Never
                                          : gpu::SkipMaxima::Divided;
  result.movesRegisters = [arch] { return assemblesSetmaxnreg(arch); };
  result.verify = options.verify;
  result.explanation = options.explanation;
  return result;
}

/// Registers of a multiprocessor, which the threads of a block share.
constexpr int kRegisters = 65536;
/// Threads of a block at most.
constexpr int maxThreads = 1024;

/// Registers of a thread with which a block of specialised warps is launched: what its parts then
/// divide among themselves. 0: they keep what they have.
int launchRegisters(ngpu::WarpSpecializeOp parts, int numWarps) {
  constexpr int group = 4;
  int sum = numWarps / group * parts.getRegisters()[0], groups = numWarps / group;
  for (auto [warps, registers] :
       llvm::zip(parts.getPartitionWarps(), parts.getRegisters().drop_front())) {
    int its = llvm::divideCeil(warps, group);
    sum += its * registers;
    groups += its;
  }
  return parts.getRegisters()[0] ? sum / groups / 8 * 8 : 0;
}

/// One compilation, step by step.
class Compilation {
public:
  Compilation(ModuleOp tileModule, func::FuncOp kernel, const Architecture &arch,
              const CompileOptions &options)
      : tileModule(tileModule), kernel(kernel), arch(arch), options(options),
        result(std::make_unique<NvidiaKernel>()), clock(result->times), problems(context) {
    codegen.arch = arch;
    codegen.fpFusion = options.fpFusion;
  }
  llvm::Expected<std::unique_ptr<CompiledKernel>> run();

private:
  llvm::Error lowerTensors();
  void choosePtxVersion();
  llvm::Error emitLlvm();
  KernelShape shapeOfLaunch();
  llvm::Error link();
  llvm::Error optimise();
  llvm::Error emitAssembly();
  llvm::Error finish();

  ModuleOp tileModule;
  func::FuncOp kernel;
  const Architecture &arch;
  const CompileOptions &options;
  std::unique_ptr<NvidiaKernel> result;
  targets::StageClock clock;
  CodegenOptions codegen;
  bool canAssemble = false;
  llvm::LLVMContext context;
  targets::CodeProblems problems;
  LlvmKernel emitted;
  std::unique_ptr<llvm::TargetMachine> machine;
};

llvm::Expected<std::unique_ptr<CompiledKernel>> Compilation::run() {
  result->name = kernel.getName().str();
  result->arch = arch;
  result->params = targets::paramsOf(kernel);
  result->assemblerOptions = options.assemblerOptions;
  result->assemblyNotes = options.assemblyNotes;
  if (options.keepStages)
    result->tile = printed(tileModule, "tile", options);
  targets::setLlvmOptions();
  ngpu::loadDialects(*tileModule.getContext());

  choosePtxVersion();
  if (llvm::Error error = lowerTensors())
    return std::move(error);
  for (auto step : {&Compilation::emitLlvm, &Compilation::link, &Compilation::optimise,
                    &Compilation::emitAssembly, &Compilation::finish})
    if (llvm::Error error = (this->*step)())
      return std::move(error);
  if (options.explanation)
    explainCode(*result, *options.explanation);
  return std::move(result);
}

/// Layouts, shared memory, pipelines and barriers; tensors stay tensors.
llvm::Error Compilation::lowerTensors() {
  gpu::GpuOptions gpuOptions = gpuOptionsFor(arch, options);
  gpuOptions.sendsPartials &= codegen.ptxVersion >= 81; // st.async
  auto report = gpu::runGpuPipeline(tileModule, gpuOptions, options.keepStages);
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
  result->info.sharedBytes = report->sharedBytes;
  result->info.numCtas = int(report->blocks);
  if (report->splitRule) {
    result->info.mostSplits = int(report->splitRule->mostBlocks());
    result->info.splitRule = std::move(*report->splitRule);
  }
  result->info.pairs = report->pairs;
  result->info.isPersistent = report->fetchedAhead > 0 || report->persistentProducts;
  result->info.tensorMaps = std::move(report->tensorMaps);
  return llvm::Error::success();
}

/// The assembler is asked early: PTX is written in its version.
void Compilation::choosePtxVersion() {
  auto assembler = findAssembler(&arch);
  std::optional<int> itsVersion;
  if (assembler)
    itsVersion = (*assembler)->ptxVersion();
  else
    llvm::consumeError(assembler.takeError());
  if (options.ptxVersion)
    itsVersion = options.ptxVersion;
  canAssemble = itsVersion.has_value();
  codegen.ptxVersion = ptxVersionFor(arch, itsVersion);
  clock.done("assembler found");
}

llvm::Error Compilation::emitLlvm() {
  EmitOptions emitOptions;
  emitOptions.sm = arch.sm;
  emitOptions.ptxVersion = unsigned(codegen.ptxVersion);
  emitOptions.lineInfo = Settings::current().lineInfo;
  emitOptions.fpFusion = options.fpFusion;
  emitOptions.reflectFtz = options.reflectFtz;
  if (llvm::Error error = emitKernel(kernel, emitOptions, context).moveInto(emitted))
    return error;
  if (llvm::Error error = makeTargetMachine(codegen).moveInto(machine))
    return error;
  prepareModule(*emitted.module, *machine);
  llvm::Function *entry = emitted.module->getFunction(emitted.entry);
  if (!entry)
    return defect("the emitted module has no entry");
  KernelShape shape = shapeOfLaunch();
  result->maxRegisters = shape.maxRegisters;
  result->info.entry = emitted.entry;
  result->info.arch = arch.sm;
  result->info.archSpecific = arch.archSpecific;
  result->info.numWarps = shape.threads / lanesOfWarp;
  markKernel(*entry, shape);
  clock.done("emit");
  if (options.verify) {
    std::string invalid;
    llvm::raw_string_ostream stream(invalid);
    if (llvm::verifyModule(*emitted.module, &stream))
      return defect("the emitted LLVM IR is invalid: " + invalid);
  }
  return llvm::Error::success();
}

KernelShape Compilation::shapeOfLaunch() {
  KernelShape shape;
  shape.threads = int(emitted.warps) * lanesOfWarp;
  shape.clusterBlocks = result->info.numCtas;
  shape.maxRegisters = options.maxRegisters;
  if (ngpu::WarpSpecializeOp parts = ngpu::warpSpecializeOf(kernel); parts && !shape.maxRegisters)
    shape.maxRegisters = launchRegisters(parts, options.numWarps);
  // More registers than there are for all its threads: it could not be launched.
  if (int most = kRegisters / shape.threads / 8 * 8; shape.maxRegisters > most && most < 255) {
    result->advice.push_back(
        makeHint(explain::HintKind::FewerRegisters, {},
                 {std::to_string(options.maxRegisters), std::to_string(shape.threads),
                  std::to_string(kRegisters), std::to_string(most)}));
    shape.maxRegisters = most;
  }
  return shape;
}

/// The author's libraries and libdevice; an error for functions that neither has.
llvm::Error Compilation::link() {
  llvm::Module &module = *emitted.module;
  if (!options.libraries.empty()) {
    if (llvm::Error error = targets::linkLibraries(module, options.libraries))
      return error;
    clock.done("libraries");
  }
  result->files = options.libraries;
  if (needsLibdevice(module)) {
    if (options.libdevice.empty())
      result->usesLibdevice = true;
    else
      result->files.push_back(options.libdevice);
    if (llvm::Error error = linkLibdevice(module, arch, options.reflectFtz, options.libdevice))
      return error;
    clock.done("libdevice");
  }
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() &&
        function.getName() != "vprintf" && function.getName() != "__assertfail")
      return targets::missingFunction(function.getName());
  return llvm::Error::success();
}

llvm::Error Compilation::optimise() {
  targets::printLlvm(*emitted.module, result->name, "before");
  if (Settings::current().llvmOptimisation)
    optimize(*emitted.module, *machine, options.passTimes);
  targets::printLlvm(*emitted.module, result->name, "after");
  if (llvm::Error error = targets::replaceLlvm(emitted.module, options))
    return error;
  clock.done("llvm passes");
  if (options.keepStages) {
    llvm::raw_string_ostream stream(result->llir);
    emitted.module->print(stream, nullptr);
  }
  if (const llvm::Function *optimised = emitted.module->getFunction(emitted.entry)) {
    result->registerDemand = registerDemand(*optimised);
    result->isBoundByProducts = isBoundByProducts(*optimised);
    result->isGradient = kernel->hasAttr("tile.gradients");
  }
  return llvm::Error::success();
}

llvm::Error Compilation::emitAssembly() {
  auto ptx = emitPtx(*emitted.module, *machine, options.passTimes);
  if (!ptx)
    return ptx.takeError();
  if (llvm::Error error = problems.take(*emitted.module))
    return error;
  result->ptx = std::move(*ptx);
  if (std::optional<std::string> text =
          options.replacement ? options.replacement("ptx") : std::nullopt) {
    result->ptx = std::move(*text);
    result->registerDemand = 0;
  }
  if (Settings::current().printPtx)
    llvm::errs() << result->ptx << '\n';
  clock.done("ptx");
  return llvm::Error::success();
}

/// Without an assembler all but the launch works; the launch then says what is missing.
llvm::Error Compilation::finish() {
  if (!options.load || !canAssemble)
    return llvm::Error::success();
  if (llvm::Error error = result->assemble())
    return error;
  clock.done("assemble");
  return llvm::Error::success();
}

class NvidiaGenerator final : public targets::Generator {
public:
  llvm::Expected<std::unique_ptr<CompiledKernel>>
  compile(ModuleOp tileModule, const CompileOptions &options,
          const targets::SourceLines &) const override {
    auto arch = architectureFor(options.arch);
    if (!arch)
      return arch.takeError();
    if (int threads = options.numWarps * lanesOfWarp; threads > maxThreads)
      return llvm::make_error<targets::OutOfResources>("threads", threads, maxThreads);
    func::FuncOp kernel = targets::kernelOf(tileModule);
    if (!kernel)
      return defect("the module has no kernel");
    return Compilation(tileModule, kernel, *arch, options).run();
  }
};

} // namespace
} // namespace nereid::nvidia

const nereid::targets::Generator &nereid::targets::nvidiaGenerator() {
  static const nvidia::NvidiaGenerator generator;
  return generator;
}
