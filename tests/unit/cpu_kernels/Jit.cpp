#include "Jit.h"

#include "targets/cpu/support_library/SupportLibrary.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace nereid::cpu::test {

using namespace mlir;

const std::vector<Level> &levels() {
  static const std::vector<Level> *found = [] {
    auto *list = new std::vector<Level>;
    auto host = llvm::sys::getHostCPUFeatures();
    auto has = [&](const char *name) { return host.lookup(name); };
    constexpr const char *avx512bf16 =
        "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+avx512f,+avx512vl,+avx512bw,+avx512dq,"
        "+avx512cd,+avx512vnni,+avx512bf16,-prefer-256-bit";
    if (has("avx512vnni") && has("avx512bf16"))
      list->push_back({"avx512bf16", avx512bf16, Features::avx512bf16()});
    if (has("avx512f") && has("avx512vl") && has("avx512bw") && has("avx512dq"))
      list->push_back({"avx512",
                       "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+avx512f,+avx512vl,+avx512bw,+"
                       "avx512dq,+avx512cd,"
                       "-prefer-256-bit",
                       Features::avx512()});
    if (has("avx2") && has("fma") && has("f16c"))
      list->push_back({"avx2", "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt", Features::avx2()});
    list->push_back({"baseline", "", Features::baseline()});
    return list;
  }();
  return *found;
}

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect,
                  func::FuncDialect, LLVM::LLVMDialect, cf::ControlFlowDialect, ub::UBDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

namespace {

[[noreturn]] void fail(const char *what, const std::string &detail = "") {
  llvm::errs() << what << ": " << detail << "\n";
  std::abort();
}

void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

llvm::SmallVector<char, 0> emit(llvm::Module &module, llvm::TargetMachine &machine,
                                llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind))
    fail("cannot emit code");
  passes.run(module);
  return text;
}

} // namespace

void *Code::address(const char *name) const {
  auto found = jit->lookup(name);
  if (!found)
    fail("no such function", llvm::toString(found.takeError()));
  return found->toPtr<void *>();
}

std::unique_ptr<Code> compile(ModuleOp module, const Level &level,
                              const std::vector<Pass *> &passes, bool keepAssembly) {
  static bool initialised = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialised;

  PassManager manager(module.getContext());
  for (Pass *pass : passes)
    manager.addPass(std::unique_ptr<Pass>(pass));
  manager.addPass(createCSEPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  if (failed(manager.run(module)))
    fail("the passes failed");

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context);
  if (!llvmModule)
    fail("the translation failed");
  llvm::Triple triple(llvm::sys::getProcessTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    fail("no target", error);
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "x86-64", level.llvmFeatures, {}, llvm::Reloc::PIC_));
  llvmModule->setTargetTriple(triple);
  llvmModule->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *llvmModule)
    if (!function.isDeclaration()) {
      function.addFnAttr("target-features", level.llvmFeatures);
      if (level.features.vectorBytes == 64)
        function.addFnAttr("prefer-vector-width", "512");
    }
  optimise(*llvmModule, *machine);

  auto code = std::make_unique<Code>();
  if (keepAssembly) {
    auto copy = llvm::CloneModule(*llvmModule);
    auto text = emit(*copy, *machine, llvm::CodeGenFileType::AssemblyFile);
    code->assembly.assign(text.begin(), text.end());
  }
  auto object = std::make_unique<llvm::SmallVectorMemoryBuffer>(
      emit(*llvmModule, *machine, llvm::CodeGenFileType::ObjectFile),
      /*RequiresNullTerminator=*/false);
  auto file = llvm::cantFail(llvm::object::ObjectFile::createObjectFile(object->getMemBufferRef()));
  for (llvm::object::SymbolRef symbol : file->symbols())
    if (llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined) {
      std::string name = llvm::cantFail(symbol.getName()).str();
      if (!name.empty())
        code->undefined.push_back(name);
    }

  code->jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::orc::SymbolMap symbols;
  for (const Symbol &symbol : supportSymbols())
    symbols[code->jit->mangleAndIntern(symbol.name)] = {
        llvm::orc::ExecutorAddr::fromPtr(symbol.address), llvm::JITSymbolFlags::Exported};
  llvm::cantFail(
      code->jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))));
  llvm::cantFail(code->jit->addObjectFile(std::move(object)));
  return code;
}

void addMap(ModuleOp module, const char *name, llvm::ArrayRef<Type> inputs, Type output,
            int64_t lanes, const Body &body) {
  Location loc = module.getLoc();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(module.getContext());
  Type i64 = b.getI64Type();
  auto function = func::FuncOp::create(
      b, loc, name, b.getFunctionType({pointer, pointer, pointer, pointer, i64}, {}));
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  auto inMemory = [&](Type element) -> Type {
    if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8)
      return b.getI8Type();
    return element;
  };
  auto wide = [&](Type element) -> Type {
    return lanes == 1 ? element : VectorType::get({lanes}, element);
  };
  auto constant = [&](int64_t value) {
    return arith::ConstantIntOp::create(b, loc, i64, value).getResult();
  };
  Value step = constant(lanes), count = entry->getArgument(4);
  Value end = arith::SubIOp::create(b, loc, count, arith::RemSIOp::create(b, loc, count, step));
  auto loop = scf::ForOp::create(b, loc, constant(0), end, step);
  b.setInsertionPointToStart(loop.getBody());
  auto address = [&](unsigned argument, Type element) -> Value {
    return LLVM::GEPOp::create(b, loc, pointer, inMemory(element), entry->getArgument(argument),
                               llvm::ArrayRef<LLVM::GEPArg>{loop.getInductionVar()});
  };
  llvm::SmallVector<Value> values;
  for (auto [i, element] : llvm::enumerate(inputs)) {
    unsigned alignment = (element.getIntOrFloatBitWidth() + 7) / 8;
    Value value =
        LLVM::LoadOp::create(b, loc, wide(inMemory(element)), address(i, element), alignment);
    if (inMemory(element) != element)
      value = arith::BitcastOp::create(b, loc, wide(element), value);
    values.push_back(value);
  }
  Value result = body(b, loc, values);
  if (inMemory(output) != output)
    result = arith::BitcastOp::create(b, loc, wide(inMemory(output)), result);
  LLVM::StoreOp::create(b, loc, result, address(3, output),
                        (output.getIntOrFloatBitWidth() + 7) / 8);
  b.setInsertionPointAfter(loop);
  func::ReturnOp::create(b, loc);
}

} // namespace nereid::cpu::test
