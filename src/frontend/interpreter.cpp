// The kernel itself: from parameter specifications to a func.func.
#include "frontend/interpreter.h"

#include "ir/tile/Dialect.h"

#include "mlir/IR/Verifier.h"

namespace nereid::frontend {

using llvm::failure;
using llvm::success;

Interpreter::Interpreter(mlir::ModuleOp module, const FrontendOptions &options, Host &host,
                         DiagnosticEngine &diagnostics)
    : module(module), builder(module.getContext()), options(options), host(host),
      diagnostics(diagnostics), semantic(builder, this->options, host, diagnostics, *this) {}

LogicalResult Interpreter::buildKernel(const Function &kernel, llvm::ArrayRef<ParamSpec> params) {
  Frame outer{&kernel, {}, /*isKernel=*/true, nullptr};
  frame = &outer;
  Semantic::At at(semantic, kernel.span());
  if (kernel.hasKwarg)
    return unsupported("`**` parameter", kernel.span());
  if (params.size() != kernel.params().size())
    return error(diag::InternalError, kernel.span(),
                 "a kernel was given another number of parameters than it has");

  mlir::MLIRContext &context = *module.getContext();
  llvm::SmallVector<mlir::Type> types;
  for (const ParamSpec &param : params)
    if (param.kind == ParamSpec::Kind::Runtime)
      types.push_back(param.type.toIR(context));
  builder.setInsertionPointToEnd(module.getBody());
  auto function = mlir::func::FuncOp::create(builder, semantic.loc(), kernel.name(),
                                             builder.getFunctionType(types, {}));
  function->setAttr("tile.kernel", builder.getUnitAttr());
  mlir::Block *entry = function.addEntryBlock();
  std::vector<Value> values;
  unsigned next = 0;
  for (auto [param, spec] : llvm::zip(kernel.params(), params)) {
    if (spec.kind == ParamSpec::Kind::Constant) {
      values.push_back(spec.constant);
      continue;
    }
    function.setArgAttr(next, "tile.name", builder.getStringAttr(param.name));
    if (spec.divisibility > 1)
      function.setArgAttr(next, "tile.divisibility", builder.getI64IntegerAttr(spec.divisibility));
    Type type = spec.type;
    type.isConst |= type.isPointer && param.isConst;
    values.push_back(Tensor{entry->getArgument(next++), type, nullptr});
  }
  builder.setInsertionPointToStart(entry);
  bindParameters(outer, values);
  if (failed(walkFunction()))
    return failure();
  mlir::func::ReturnOp::create(builder, semantic.loc());
  frame = nullptr;
  return success();
}

/// The verifier's complaint is our mistake, never the author's.
static LogicalResult verifyModule(mlir::ModuleOp module, SourceSpan kernel,
                                  DiagnosticEngine &diagnostics) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  if (succeeded(mlir::verify(module)))
    return success();
  diagnostics.report(diag::InternalError, kernel, message);
  return failure();
}

llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
buildTileModule(mlir::MLIRContext &context, const Function &kernel,
                llvm::ArrayRef<ParamSpec> params, const FrontendOptions &options, Host &host,
                DiagnosticEngine &diagnostics) {
  tile::loadDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  Interpreter interpreter(*module, options, host, diagnostics);
  if (failed(interpreter.buildKernel(kernel, params)) ||
      failed(verifyModule(*module, kernel.span(), diagnostics)))
    return failure();
  return module;
}

} // namespace nereid::frontend
