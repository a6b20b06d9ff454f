// The CPU target: its pipeline, and the finished kernel.
#include "targets/Common.h"
#include "targets/LlvmOptions.h"
#include "targets/PassTimes.h"

#include "explain/Report.h"
#include "support/bytes.h"
#include "support/settings.h"
#include "targets/cpu/codegen/Jit.h"
#include "targets/cpu/codegen/LineInfo.h"
#include "targets/cpu/codegen/Machine.h"
#include "targets/cpu/codegen/NarrowFloats.h"
#include "targets/cpu/codegen/ToLLVM.h"
#include "targets/cpu/conversions/Conversions.h"
#include "targets/cpu/emit/Function.h"
#include "targets/cpu/math/Math.h"

#include "ir/tile/Dialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"

#include <unistd.h>

using namespace mlir;

namespace nereid::cpu {
namespace {

using targets::CompiledKernel;
using targets::CompileOptions;
using targets::defect;
using targets::printed;
using targets::StageClock;

class CpuKernel final : public CompiledKernel {
public:
  void *entry() const override { return loaded ? loaded->lookup() : nullptr; }
  std::vector<std::string> stages() const override { return {"tile", "loops", "llir", "asm"}; }
  llvm::Expected<std::string> text(llvm::StringRef stage) const override {
    if (stage == "tile" && !tile.empty())
      return tile;
    if (stage == "loops" && !loops.empty())
      return loops;
    if (stage == "llir" && !llir.empty())
      return llir;
    if (stage == "asm" && !llir.empty())
      return assembly();
    return llvm::make_error<targets::StageMissing>(stage);
  }
  llvm::Expected<std::string> object() const override {
    return std::string(code.begin(), code.end());
  }

  bool save(ByteWriter &out) const override {
    saveCommon(out);
    const auto *table = static_cast<const SiteTable *>(sites.get());
    out.list(table ? table->sites : std::vector<Site>(), [&](const Site &site) {
      out.text(site.file);
      out.number(int32_t(site.line));
      out.number(int32_t(site.column));
      out.text(site.text);
      out.flag(site.hex);
      out.list(site.operands, [&](const PrintOperand &operand) {
        out.number(operand.kind);
        out.list(operand.shape, [&](int64_t size) { out.number(size); });
      });
    });
    out.text({code.data(), code.size()});
    return true;
  }

  void restore(ByteReader &in) {
    restoreCommon(in);
    SiteTable table;
    in.list([&] {
      Site &site = table.sites.emplace_back();
      site.file = in.text();
      site.line = in.number<int32_t>();
      site.column = in.number<int32_t>();
      site.text = in.text();
      site.hex = in.flag();
      in.list([&] {
        PrintOperand &operand = site.operands.emplace_back();
        operand.kind = in.number<ElementKind>();
        in.list([&] { operand.shape.push_back(in.number<int64_t>()); });
      });
    });
    if (!table.sites.empty())
      sites = std::make_shared<const SiteTable>(std::move(table));
    std::string_view bytes = in.text();
    code.assign(bytes.begin(), bytes.end());
  }

  std::string tile, loops, llir;
  llvm::SmallVector<char, 0> code;
  Machine machine;
  bool contract = true;
  std::unique_ptr<LoadedObject> loaded;

private:
  llvm::Expected<std::string> assembly() const {
    llvm::LLVMContext context;
    llvm::SMDiagnostic diagnostic;
    auto module = llvm::parseAssemblyString(llir, diagnostic, context);
    auto target = makeTargetMachine(machine, contract);
    if (!module || !target)
      return llvm::createStringError("internal error: LLVM IR of the kernel cannot be read back");
    auto text = emitCode(*module, *target, true);
    if (!text)
      return text.takeError();
    return std::string(text->begin(), text->end());
  }
};

/// What does not fit the cache that a core has for itself is moved again and again.
void explainScratch(uint64_t bytes, explain::Report &report) {
  long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (cache <= 0)
    cache = 1 << 20;
  if (bytes > uint64_t(cache))
    report.hint(explain::HintKind::CpuScratch, {},
                {std::to_string(bytes), std::to_string(cache) + " bytes"});
}

class CpuTarget final : public targets::Target {
public:
  llvm::StringRef name() const override { return "cpu"; }

  std::string identity(const CompileOptions &options) const override {
    auto machine = machineFor(options.features, options.load);
    if (!machine) {
      llvm::consumeError(machine.takeError()); // the compilation says so
      return {};
    }
    return machine->triple + " " + machine->cpu + " " + machine->llvmFeatures;
  }

  llvm::Expected<std::unique_ptr<CompiledKernel>>
  restore(ByteReader &in, const CompileOptions &options) const override {
    auto machine = machineFor(options.features, options.load);
    if (!machine)
      return machine.takeError();
    auto result = std::make_unique<CpuKernel>();
    result->machine = *machine;
    result->contract = options.fpFusion;
    StageClock clock(result->times);
    result->restore(in);
    if (!in.ok())
      return llvm::createStringError("a damaged kernel");
    if (options.load) {
      auto loaded = loadObject(result->code, result->name);
      if (!loaded)
        return loaded.takeError();
      result->loaded = std::move(*loaded);
      clock.done("load");
    }
    return result;
  }

  llvm::Expected<std::unique_ptr<CompiledKernel>>
  compile(ModuleOp tileModule, const CompileOptions &options) const override {
    auto machine = machineFor(options.features, options.load);
    if (!machine)
      return machine.takeError();
    func::FuncOp kernel = targets::kernelOf(tileModule);
    if (!kernel)
      return defect("the module has no kernel");
    auto result = std::make_unique<CpuKernel>();
    result->name = kernel.getName().str();
    result->machine = *machine;
    result->contract = options.fpFusion;
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
    auto emitted = emitKernel(kernel, machine->features, options.explanation);
    if (!emitted)
      return emitted.takeError();
    clock.done("loops");
    if (options.explanation)
      explainScratch(emitted->scratchBytes, *options.explanation);
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
    auto target = makeTargetMachine(*machine, options.fpFusion);
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
        if (function.isDeclaration() && !function.isIntrinsic() && !canBeFound(function.getName()))
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
    if (llvm::Error error = problems.take())
      return std::move(error);
    result->code = std::move(*code);
    clock.done("machine code");
    if (options.load) {
      auto loaded = loadObject(result->code, result->name);
      if (!loaded)
        return loaded.takeError();
      result->loaded = std::move(*loaded);
      clock.done("load");
    }
    result->scratchBytes = emitted->scratchBytes;
    result->namesPlaces = lines || !emitted->sites.sites.empty();
    if (!emitted->sites.sites.empty())
      result->sites = std::make_shared<const SiteTable>(std::move(emitted->sites));
    result->files = options.libraries;
    return result;
  }
};

} // namespace
} // namespace nereid::cpu

const nereid::targets::Target &nereid::targets::cpuTarget() {
  static const cpu::CpuTarget target;
  return target;
}
