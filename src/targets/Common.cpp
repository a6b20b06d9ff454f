#include "targets/Common.h"

#include "ir/tile/Dialect.h"
#include "support/bytes.h"
#include "support/settings.h"
#include "targets/Places.h"
#include "transforms/Explain.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace nereid::targets {

static ScalarKind kindOf(Type type) {
  if (isa<tile::PtrType>(type))
    return ScalarKind::Pointer;
  if (isa<Float8E4M3FNType>(type))
    return ScalarKind::F8E4M3;
  if (isa<Float8E5M2Type>(type))
    return ScalarKind::F8E5M2;
  if (type.isF16())
    return ScalarKind::F16;
  if (type.isBF16())
    return ScalarKind::BF16;
  if (type.isF32())
    return ScalarKind::F32;
  if (type.isF64())
    return ScalarKind::F64;
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return ScalarKind::I1;
  case 8:
    return ScalarKind::I8;
  case 16:
    return ScalarKind::I16;
  case 32:
    return ScalarKind::I32;
  default:
    return ScalarKind::I64;
  }
}

func::FuncOp kernelOf(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr("tile.kernel"))
      return function;
  return {};
}

std::vector<Param> paramsOf(func::FuncOp kernel) {
  std::vector<Param> params;
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto name = kernel.getArgAttrOfType<StringAttr>(i, "tile.name");
    params.push_back({name ? name.str() : "", kindOf(type)});
  }
  return params;
}

std::string printed(Operation *op, llvm::StringRef stage, const CompileOptions &options) {
  if (options.explanation)
    return transforms::printWithPlaces(op, options.explanation->lines[stage.str()]);
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  return text;
}

void printLlvm(const llvm::Module &module, llvm::StringRef kernel, llvm::StringRef when) {
  if (!Settings::concerns(Settings::current().printLlvm, kernel))
    return;
  llvm::errs() << "; LLVM IR of " << kernel << ' ' << when << " optimisation\n";
  module.print(llvm::errs(), nullptr);
}

llvm::Error replaceLlvm(std::unique_ptr<llvm::Module> &module, const CompileOptions &options) {
  std::optional<std::string> text =
      options.replacement ? options.replacement("llir") : std::nullopt;
  if (!text)
    return llvm::Error::success();
  llvm::SMDiagnostic problem;
  auto parsed = llvm::parseAssemblyString(*text, problem, module->getContext());
  if (!parsed)
    return llvm::createStringError("the text that replaces the stage `llir` is no LLVM IR: line " +
                                   llvm::Twine(problem.getLineNo()) + ": " + problem.getMessage());
  parsed->setTargetTriple(module->getTargetTriple());
  parsed->setDataLayout(module->getDataLayout());
  module = std::move(parsed);
  return llvm::Error::success();
}

llvm::Error defect(const llvm::Twine &what) {
  return llvm::createStringError("internal error: " + what);
}

namespace {
struct Collector final : llvm::DiagnosticHandler {
  explicit Collector(std::shared_ptr<CodeProblems::Found> found) : found(std::move(found)) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() != llvm::DS_Error)
      return true;
    uint64_t number = 0;
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (info.getKind() == llvm::DK_SrcMgr) {
      auto &parsed = static_cast<const llvm::DiagnosticInfoSrcMgr &>(info);
      const llvm::SMDiagnostic &problem = parsed.getSMDiag();
      number = parsed.getLocCookie();
      stream << problem.getMessage();
      if (llvm::StringRef line = problem.getLineContents().trim(); !line.empty())
        stream << " in `" << line << "`";
    } else if (info.getKind() == llvm::DK_InlineAsm) {
      auto &refused = static_cast<const llvm::DiagnosticInfoInlineAsm &>(info);
      number = refused.getLocCookie();
      stream << refused.getMsgStr();
    } else {
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
    }
    if (!found->number)
      found->number = number;
    if (!llvm::StringRef(found->text).contains(text)) // a call may be there several times
      found->text += (found->text.empty() ? "" : "; ") + text;
    return true;
  }
  std::shared_ptr<CodeProblems::Found> found;
};
} // namespace

CodeProblems::CodeProblems(llvm::LLVMContext &context) : found(std::make_shared<Found>()) {
  context.setDiagnosticHandler(std::make_unique<Collector>(found));
}

llvm::Error CodeProblems::take(const llvm::Module &module) {
  auto [problems, number] = std::exchange(*found, {});
  if (problems.empty())
    return llvm::Error::success();
  if (std::vector<explain::SourcePlace> places = notedPlaces(module, number); !places.empty())
    return llvm::make_error<AssemblyRefused>(std::move(problems), std::move(places));
  return llvm::createStringError("the assembly of `inline_asm_elementwise` cannot be used: " +
                                 problems);
}

llvm::Error linkLibraries(llvm::Module &module, llvm::ArrayRef<std::string> paths) {
  llvm::SmallPtrSet<const llvm::Function *, 16> before;
  for (const llvm::Function &function : module)
    if (!function.isDeclaration())
      before.insert(&function);
  for (const std::string &path : paths) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return llvm::createStringError("cannot read the library `" + path +
                                     "`: " + buffer.getError().message());
    std::unique_ptr<llvm::Module> library;
    std::string problem;
    auto *start = reinterpret_cast<const unsigned char *>((*buffer)->getBufferStart());
    auto *end = reinterpret_cast<const unsigned char *>((*buffer)->getBufferEnd());
    if (llvm::isBitcode(start, end)) {
      auto parsed = llvm::parseBitcodeFile(**buffer, module.getContext());
      if (parsed)
        library = std::move(*parsed);
      else
        problem = llvm::toString(parsed.takeError());
    } else {
      llvm::SMDiagnostic diagnostic;
      library = llvm::parseAssembly(**buffer, diagnostic, module.getContext());
      problem = diagnostic.getMessage().str();
    }
    if (!library)
      return llvm::createStringError("the library `" + path + "` is no LLVM bitcode: " + problem);
    library->setTargetTriple(module.getTargetTriple());
    library->setDataLayout(module.getDataLayout());
    // It was made for one processor, or for none.
    for (llvm::Function &function : *library) {
      function.removeFnAttr("target-cpu");
      function.removeFnAttr("target-features");
    }
    if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::Flags::LinkOnlyNeeded))
      return llvm::createStringError("the library `" + path + "` cannot be linked");
  }
  for (llvm::Function &function : module)
    if (!function.isDeclaration() && !before.contains(&function)) {
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
      function.setSubprogram(nullptr);
      if (!function.hasFnAttribute(llvm::Attribute::NoInline))
        function.addFnAttr(llvm::Attribute::AlwaysInline);
    }
  return llvm::Error::success();
}

llvm::Error missingFunction(llvm::StringRef symbol) {
  return llvm::createStringError("no library has the function `" + symbol +
                                 "`: name the file that does by `lib_path`, or at the launch by "
                                 "`extern_libs={name: path}`");
}

} // namespace nereid::targets
