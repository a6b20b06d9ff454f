#include "targets/Common.h"

#include "ir/tile/Dialect.h"
#include "support/settings.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/Module.h"
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

std::string printed(Operation *op) {
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

} // namespace nereid::targets
