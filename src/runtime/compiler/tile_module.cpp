#include "runtime/compiler/tile_module.h"

#include "ir/tile/Dialect.h"

#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Regex.h"

using namespace mlir;

namespace nereid::runtime {

const DialectRegistry &tileDialects() {
  static const auto *registry = [] {
    auto *all = new DialectRegistry();
    all->insert<tile::TileDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect,
                scf::SCFDialect, ub::UBDialect>();
    func::registerInlinerExtension(*all);
    return all;
  }();
  return *registry;
}

/// The type of a parameter; ints of the IR have no sign and count as signed. Nothing for a type
/// that no argument has.
static std::optional<frontend::Type> typeOf(mlir::Type type) {
  using frontend::DType;
  auto pointer = dyn_cast<tile::PtrType>(type);
  mlir::Type element = pointer ? pointer.getPointee() : type;
  std::optional<DType> scalar =
      llvm::TypeSwitch<mlir::Type, std::optional<DType>>(element)
          .Case<Float16Type>([](auto) { return DType::Float16; })
          .Case<BFloat16Type>([](auto) { return DType::BFloat16; })
          .Case<Float32Type>([](auto) { return DType::Float32; })
          .Case<Float64Type>([](auto) { return DType::Float64; })
          .Case<Float8E4M3FNType>([](auto) { return DType::Float8E4NV; })
          .Case<Float8E5M2Type>([](auto) { return DType::Float8E5; })
          .Case<IntegerType>([](IntegerType integer) -> std::optional<DType> {
            switch (integer.getWidth()) {
            case 1:
              return DType::Int1;
            case 8:
              return DType::Int8;
            case 16:
              return DType::Int16;
            case 32:
              return DType::Int32;
            case 64:
              return DType::Int64;
            default:
              return std::nullopt;
            }
          })
          .Default([](auto) { return std::nullopt; });
  if (!scalar)
    return std::nullopt;
  return pointer ? frontend::Type::pointerTo(*scalar) : frontend::Type::of(*scalar);
}

/// A name of Python's made of an argument's: "a.shape.0" is a_shape_0.
static std::string parameterName(func::FuncOp kernel, unsigned index) {
  auto given = kernel.getArgAttrOfType<StringAttr>(index, "tile.name");
  std::string name = given ? given.str() : "";
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '_')
      c = '_';
  if (name.empty() || llvm::isDigit(name[0]))
    name = "arg" + std::to_string(index) + name;
  return name;
}

/// The first complaint of the parser with its place: "3:14: expected ...".
static std::string complaintOf(MLIRContext &context, llvm::StringRef text,
                               OwningOpRef<ModuleOp> &module) {
  std::string complaint;
  ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (complaint.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      if (auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
        complaint = std::to_string(at.getLine()) + ":" + std::to_string(at.getColumn()) + ": ";
      complaint += diagnostic.str();
    }
    return success();
  });
  module = parseSourceString<ModuleOp>(text, &context);
  return complaint;
}

ErrorPtr readTileSource(llvm::StringRef file, std::string text, TileSourcePtr &out) {
  auto source = std::make_shared<TileSource>();
  source->file = file.str();
  source->text = std::move(text);
  auto refuse = [&](auto def, const auto &...args) {
    return makeError(NRD_ERROR_COMPILE, "", def, std::string_view(source->file), args...);
  };
  MLIRContext context(tileDialects(), MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module;
  std::string complaint = complaintOf(context, source->text, module);
  if (!module) {
    llvm::SmallVector<llvm::StringRef> match;
    if (llvm::Regex("[^a-zA-Z_.](ttn?g|tt|triton|triton_gpu)\\.").match(source->text, &match))
      return refuse(diag::TileSourceForeign, std::string_view(match[1]));
    return refuse(diag::TileSourceInvalid, complaint);
  }
  for (auto function : module->getOps<func::FuncOp>()) {
    if (!function->hasAttr("tile.kernel"))
      continue;
    TileSource::Kernel kernel;
    kernel.name = function.getSymName().str();
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      std::optional<frontend::Type> type = typeOf(function.getArgumentTypes()[i]);
      if (!type) {
        std::string found;
        llvm::raw_string_ostream(found) << function.getArgumentTypes()[i];
        return refuse(diag::TileSourceParameter, parameterName(function, i), found);
      }
      std::string name = parameterName(function, i);
      while (llvm::any_of(kernel.params, [&](const auto &other) { return other.first == name; }))
        name += '_';
      kernel.params.emplace_back(name, *type);
    }
    source->kernels.push_back(std::move(kernel));
  }
  if (source->kernels.empty())
    return refuse(diag::TileSourceNoKernel);
  out = std::move(source);
  return nullptr;
}

OwningOpRef<ModuleOp> parseTileKernel(const TileSource &source, llvm::StringRef kernel,
                                      MLIRContext &context) {
  auto module = parseSourceString<ModuleOp>(source.text, &context, source.file);
  for (auto function : llvm::make_early_inc_range(module->getOps<func::FuncOp>()))
    if (function->hasAttr("tile.kernel") && function.getSymName() != kernel)
      function.erase();
  return module;
}

} // namespace nereid::runtime
