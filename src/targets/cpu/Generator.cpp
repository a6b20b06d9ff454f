// The CPU target's code generator: its pipeline.
#include "targets/Common.h"
#include "targets/LlvmOptions.h"
#include "targets/PassTimes.h"
#include "targets/cpu/Functions.h"
#include "targets/cpu/Kernel.h"

#include "explain/Report.h"
#include "support/settings.h"
#include "targets/cpu/codegen/LineInfo.h"
#include "targets/cpu/codegen/MachineCode.h"
#include "targets/cpu/codegen/NarrowFloats.h"
#include "targets/cpu/codegen/ToLLVM.h"
#include "targets/cpu/conversions/Conversions.h"
#include "targets/cpu/emit/Function.h"
#include "targets/cpu/math/Math.h"
#include "targets/cpu/support_library/SupportLibrary.h"

#include "ir/tile/Dialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

using namespace mlir;

namespace nereid::cpu {
namespace {

using targets::CompiledKernel;
using targets::CompileOptions;
using targets::defect;
using targets::printed;
using targets::StageClock;

/// The instruction set, for people: "AVX-512, 32 registers of 512 bits; bf16 products".
std::string vectorText(const Features &features) {
  std::string text = features.vectorBytes == 64   ? "AVX-512"
                     : features.vectorBytes == 32 ? "AVX2"
                     : features.isAArch64         ? "AArch64"
                                                  : "baseline x86-64";
  text += ", " + std::to_string(features.vectorRegisters) + " registers of " +
          std::to_string(8 * features.vectorBytes) + " bits";
  if (features.bf16Products)
    text += "; products of bf16 (AVX512-BF16)";
  if (features.byteProducts)
    text += "; products of bytes (VNNI)";
  if (features.halfArithmetic)
    text += "; arithmetic of fp16";
  if (features.bf16MatrixProducts)
    text += "; products of blocks of bf16 (FEAT_BF16)";
  if (features.i8MatrixProducts)
    text += "; products of blocks of bytes (FEAT_I8MM)";
  else if (features.signedProducts)
    text += "; products of bytes (FEAT_DotProd)";
  if (features.tileProducts)
    text += features.tileHalfProducts ? "; products of tiles of bf16, fp16 and bytes (AMX)"
                                      : "; products of tiles of bf16 and bytes (AMX)";
  return text;
}

/// The instruction set; advice for scratch memory that exceeds the second-level cache of a core.
void explainMachine(const Features &features, uint64_t bytes, explain::Report &report) {
  report.resources.instructions = vectorText(features);
  report.resources.vectorBytes = features.vectorBytes;
  long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (cache <= 0)
    cache = 1 << 20;
  if (bytes > uint64_t(cache))
    report.hint(explain::HintKind::CpuScratch, {},
                {std::to_string(bytes), std::to_string(cache) + " bytes"});
}

explain::Hint tileAdvice(int error) {
  std::string remedy =
      error == ENOSPC
          ? "alternate signal stacks (`sigaltstack`) of `sysconf(_SC_MINSIGSTKSZ)` bytes or more"
          : "Linux 5.16 or later, and a container that allows `arch_prctl`";
  return makeHint(explain::HintKind::TilesRefused, {}, {std::strerror(error), remedy});
}

std::optional<std::string> assemblyOf(const std::string &llir, const InstructionSet &machine,
                                      bool contract, bool optimised, std::string &why) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseAssemblyString(llir, diagnostic, context);
  llvm::TargetMachine *target = targetMachineFor(machine, contract, optimised);
  if (!module || !target) {
    why = "internal error: LLVM IR of the kernel cannot be read back";
    return std::nullopt;
  }
  auto text = emitCode(*module, *target, true);
  if (!text) {
    why = llvm::toString(text.takeError());
    return std::nullopt;
  }
  return std::string(text->begin(), text->end());
}

class CpuGenerator final : public targets::Generator {
public:
  llvm::Expected<std::unique_ptr<CompiledKernel>>
  compile(ModuleOp tileModule, const CompileOptions &options,
          const targets::SourceLines &sourceLine) const override {
    auto machine = instructionSetFor(options.features, options.load);
    if (!machine)
      return machine.takeError();
    func::FuncOp kernel = targets::kernelOf(tileModule);
    if (!kernel)
      return defect("the module has no kernel");
    auto result = std::make_unique<CpuKernel>();
    result->name = kernel.getName().str();
    result->assembly = [machine = *machine, contract = options.fpFusion,
                        optimised = Settings::current().llvmOptimisation](const std::string &llir,
                                                                          std::string &why) {
      return assemblyOf(llir, machine, contract, optimised, why);
    };
    result->params = targets::paramsOf(kernel);
    if (options.keepStages)
      result->tile = printed(tileModule, "tile", options);
    StageClock clock(result->times);
    targets::setLlvmOptions();
    MLIRContext *context = tileModule.getContext();
    context->loadDialect<LLVM::LLVMDialect, vector::VectorDialect, math::MathDialect,
                         cf::ControlFlowDialect>();
    registerTranslations(*context);

    // Tensors become loops over lanes; from here on there are only scalars, short vectors and
    // pointers.
    auto emitted = emitKernel(kernel, machine->features, options.explanation, sourceLine);
    if (!emitted)
      return emitted.takeError();
    clock.done("loops");
    if (options.explanation)
      explainMachine(machine->features, emitted->scratchBytes, *options.explanation);
    ModuleOp module = *emitted->module;
    if (options.verify && failed(verify(module)))
      return defect("the emitted loops are invalid");
    if (options.keepStages)
      result->loops = printed(module, "loops", options);

    PassManager passes(context);
    passes.enableVerifier(options.verify);
    if (options.passTimes)
      passes.addInstrumentation(targets::timeMlirPasses(*options.passTimes));
    // Math before conversions: on 16-bit floats it computes in f32 and leaves conversions behind.
    passes.addPass(createExpandMathPass(machine->features));
    // Last before LLVM, which would call libgcc for what remains.
    passes.addPass(createExpandConversionsPass(machine->features));
    if (failed(passes.run(module)))
      return defect("math could not be expanded");
    clock.done("math");

    if (failed(lowerToLLVMDialect(module)))
      return defect("the loops could not be lowered");
    carryNarrowFloatsAsBits(module, machine->features);
    bool lines = Settings::current().cpuLineInfo;
    if (lines)
      addLineInfo(module);
    clock.done("llvm dialect");
    llvm::LLVMContext llvmContext;
    targets::CodeProblems problems(llvmContext);
    auto llvmModule = translate(module, llvmContext);
    llvm::TargetMachine *target =
        targetMachineFor(*machine, options.fpFusion, Settings::current().llvmOptimisation);
    if (!llvmModule || !target)
      return defect("no LLVM IR could be made");
    clock.done("translate");
    if (!options.libraries.empty()) {
      llvmModule->setTargetTriple(target->getTargetTriple());
      llvmModule->setDataLayout(target->createDataLayout());
      if (llvm::Error error = targets::linkLibraries(*llvmModule, options.libraries))
        return std::move(error);
      clock.done("libraries");
    }
    if (options.load)
      for (const llvm::Function &function : *llvmModule)
        if (function.isDeclaration() && !function.isIntrinsic() &&
            !findFunction(function.getName()))
          return targets::missingFunction(function.getName());
    prepareModule(*llvmModule, *target, *machine);
    targets::printLlvm(*llvmModule, result->name, "before");
    if (Settings::current().llvmOptimisation)
      optimize(*llvmModule, *target, options.passTimes);
    targets::printLlvm(*llvmModule, result->name, "after");
    if (llvm::Error error = targets::replaceLlvm(llvmModule, options))
      return std::move(error);
    clock.done("optimise");
    if (options.keepStages) {
      llvm::raw_string_ostream stream(result->llir);
      llvmModule->print(stream, nullptr);
    }
    auto code = emitCode(*llvmModule, *target, false, options.passTimes);
    if (!code)
      return code.takeError();
    if (llvm::Error error = problems.take(*llvmModule))
      return std::move(error);
    result->code = std::move(*code);
    clock.done("machine code");
    result->scratchBytes = emitted->scratchBytes;
    result->independent = emitted->independent;
    result->usesTiles = emitted->usesTiles;
    if (emitted->missesTiles) {
      result->advice.push_back(tileAdvice(machine->features.tileRefusal));
      if (options.explanation)
        options.explanation->hint(result->advice.back());
    }
    result->namesPlaces = lines || !emitted->sites.sites.empty();
    if (!emitted->sites.sites.empty())
      result->sites = std::make_shared<const SiteTable>(std::move(emitted->sites));
    result->files = options.libraries;
    return result;
  }
};

} // namespace
} // namespace nereid::cpu

const nereid::targets::Generator &nereid::targets::cpuGenerator() {
  static const cpu::CpuGenerator generator;
  return generator;
}
