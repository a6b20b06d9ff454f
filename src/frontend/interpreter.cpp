// The kernel itself: from parameter specifications to a func.func.
#include "frontend/interpreter.h"

#include "frontend/builtins/descriptor.h"
#include "frontend/sources.h"
#include "ir/tile/Dialect.h"

#include "mlir/IR/Verifier.h"

namespace nereid::frontend {

using llvm::failure;
using llvm::success;

Interpreter::Interpreter(mlir::ModuleOp module, const FrontendOptions &options, Host &host,
                         DiagnosticEngine &diagnostics)
    : budget(options.budget), module(module), builder(module.getContext(), &budget),
      options(options), host(host), diagnostics(diagnostics),
      semantic(builder, this->options, host, diagnostics, *this) {}

/// The arguments of the kernel that one parameter is; see ParamSpec.
static void appendArgumentTypes(const ParamSpec &spec, mlir::MLIRContext &context,
                                llvm::SmallVectorImpl<mlir::Type> &types) {
  for (const ParamSpec &item : spec.items)
    appendArgumentTypes(item, context, types);
  if (spec.kind != ParamSpec::Kind::Runtime)
    return;
  mlir::Type ir = spec.type.toIR(context);
  auto desc = llvm::dyn_cast<tile::DescType>(ir);
  if (!desc) {
    types.push_back(ir);
    return;
  }
  types.push_back(tile::PtrType::get(desc.getElementType()));
  types.append(desc.getRank(), mlir::IntegerType::get(&context, 32));
  types.append(desc.getRank() - 1, mlir::IntegerType::get(&context, 64));
}

/// The descriptor made of the arguments from `next` on, with what is known of them.
static Tensor descriptorParameter(Semantic &s, mlir::func::FuncOp kernel, llvm::StringRef name,
                                  const Type &type, int64_t lastSizeDivisibility, unsigned &next) {
  static constexpr int64_t copyAlignment = 16; // of the base and of strides, in bytes
  auto take = [&](const llvm::Twine &argName, int64_t divisibility) {
    kernel.setArgAttr(next, "tile.name", s.builder.getStringAttr(argName));
    if (divisibility > 1)
      kernel.setArgAttr(next, "tile.divisibility", s.builder.getI64IntegerAttr(divisibility));
    return mlir::Value(kernel.getArgument(next++));
  };
  Type pointer = Type::pointerTo(type.scalar, type.isConst);
  Tensor base = Semantic::wrap(take(name, copyAlignment), pointer);
  size_t rank = type.block.size();
  llvm::SmallVector<mlir::Value> sizes, strides;
  for (size_t i = 0; i < rank; ++i)
    sizes.push_back(
        take(name + ".shape." + llvm::Twine(i), i + 1 == rank ? lastSizeDivisibility : 1));
  auto desc = llvm::cast<tile::DescType>(type.toIR(*s.builder.getContext()));
  for (size_t i = 0; i + 1 < rank; ++i)
    strides.push_back(take(name + ".strides." + llvm::Twine(i),
                           copyAlignment / tile::sizeInBytes(desc.getElementType())));
  return makeDescriptor(s, base, type, sizes, strides);
}

/// The value of a parameter in the kernel's text, made of the kernel's arguments from `next` on.
static Value parameterValue(Semantic &s, mlir::func::FuncOp kernel, llvm::StringRef name,
                            const ParamSpec &spec, bool isConst, unsigned &next) {
  if (spec.kind == ParamSpec::Kind::Constant)
    return spec.constant;
  if (spec.kind == ParamSpec::Kind::Tuple) {
    std::vector<Value> items;
    for (size_t i = 0; i < spec.items.size(); ++i)
      items.push_back(
          parameterValue(s, kernel, spec.itemName(name, i), spec.items[i], isConst, next));
    if (spec.cls)
      return Aggregate{spec.cls, std::move(items)};
    return Tuple{std::move(items), spec.fields, spec.hostClass};
  }
  Type type = spec.type;
  type.isConst |= (type.isPointer || type.isDescriptor) && isConst;
  if (type.isDescriptor)
    return descriptorParameter(s, kernel, name, type, spec.divisibility, next);
  kernel.setArgAttr(next, "tile.name", s.builder.getStringAttr(name));
  if (spec.divisibility > 1)
    kernel.setArgAttr(next, "tile.divisibility", s.builder.getI64IntegerAttr(spec.divisibility));
  if (spec.isLarge && !s.options.strict)
    kernel.setArgAttr(next, "tile.large", s.builder.getUnitAttr());
  return Tensor{kernel.getArgument(next++), type, nullptr};
}

/// How many arguments of the kernel it is.
static unsigned argumentCount(const ParamSpec &spec) {
  unsigned count = 0;
  for (const ParamSpec &item : spec.items)
    count += argumentCount(item);
  if (spec.kind != ParamSpec::Kind::Runtime)
    return count;
  return spec.type.isDescriptor ? 2 * spec.type.block.size() : 1;
}

static std::string describeSpec(const ParamSpec &spec) {
  if (spec.kind == ParamSpec::Kind::Tuple)
    return "a tuple of " + std::to_string(spec.items.size());
  if (spec.kind == ParamSpec::Kind::Constant)
    return spec.constant.isNone() ? "None" : "a constant";
  return "`" + spec.type.str() + "`";
}

/// Notes the arguments from `tangent` on as tangents of those from `primal` on, in `links` as
/// differentiate/Differentiate.h has them. None as a tangent, or as an item of one: there is none,
/// -1 in its place.
static LogicalResult linkTangent(Semantic &s, llvm::SmallVectorImpl<int64_t> &links,
                                 const Derivative::Item &item, llvm::StringRef name,
                                 llvm::StringRef tangentName, const ParamSpec &spec,
                                 const ParamSpec &tangentSpec, unsigned primal, unsigned tangent,
                                 bool isReverse) {
  auto isNone = [](const ParamSpec &of) {
    return of.kind == ParamSpec::Kind::Constant && of.constant.isNone();
  };
  if (isNone(tangentSpec)) {
    for (unsigned i = 0, count = isNone(spec) ? 0 : argumentCount(spec); i < count; ++i)
      links.append({int64_t(primal + i), -1, 0});
    return success();
  }
  auto differ = [&](const std::string &expected) {
    return s.error(diag::TangentType, s.span(), tangentName, name, expected,
                   describeSpec(tangentSpec));
  };
  if (spec.kind != tangentSpec.kind || spec.items.size() != tangentSpec.items.size() ||
      isNone(spec))
    return differ(describeSpec(spec));
  if (spec.kind == ParamSpec::Kind::Tuple) {
    for (size_t i = 0; i < spec.items.size(); ++i) {
      if (failed(linkTangent(s, links, item, spec.itemName(name, i),
                             tangentSpec.itemName(tangentName, i), spec.items[i],
                             tangentSpec.items[i], primal, tangent, isReverse)))
        return failure();
      primal += argumentCount(spec.items[i]);
      tangent += argumentCount(tangentSpec.items[i]);
    }
    return success();
  }
  Type type = spec.type, other = tangentSpec.type;
  type.isConst = other.isConst = false;
  // A gradient is added to in memory, and in fp32 where its own type is too narrow for sums.
  if (isReverse && item.isInput && !type.isDescriptor) {
    type.isPointer = true;
    if (other.scalar == DType::Float32 && info(type.scalar).bits == 16)
      type.scalar = DType::Float32;
  }
  if (!isFloat(spec.type.scalar) || isFloat8(spec.type.scalar) ||
      spec.kind != ParamSpec::Kind::Runtime)
    return s.error(diag::NoTangentOfType, s.span(), name, describeSpec(spec));
  if (type != other)
    return differ("`" + type.str() + "`");
  for (unsigned i = 0, count = argumentCount(spec); i < count; ++i) {
    int64_t roles = i ? 0 : (item.isInput ? 1 : 0) + (item.isOutput ? 2 : 0);
    links.append({int64_t(primal + i), int64_t(tangent + i), roles});
  }
  return success();
}

LogicalResult Interpreter::buildKernel(const Function &kernel, llvm::ArrayRef<ParamSpec> params) {
  Frame outer{&kernel, {}, /*isKernel=*/true, nullptr, 0, ++nextActivation};
  frame = &outer;
  Semantic::At at(semantic, kernel.span());
  if (kernel.hasKwarg)
    return unsupported("`**` parameter", kernel.span());
  size_t further = 0;
  for (const Derivative &derivative : kernel.derivatives)
    further += derivative.items.size() + derivative.launchParameters().size();
  if (params.size() != kernel.params().size() + further)
    return error(diag::InternalError, kernel.span(),
                 "a kernel was given another number of parameters than it has");

  mlir::MLIRContext &context = *module.getContext();
  llvm::SmallVector<mlir::Type> types;
  for (const ParamSpec &param : params)
    appendArgumentTypes(param, context, types);
  builder.setInsertionPointToEnd(module.getBody());
  auto function = mlir::func::FuncOp::create(builder, semantic.loc(), kernel.name(),
                                             builder.getFunctionType(types, {}));
  function->setAttr("tile.kernel", builder.getUnitAttr());
  if (options.strict)
    function->setAttr("tile.strict", builder.getUnitAttr());
  mlir::Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  std::vector<Value> values;
  llvm::SmallVector<unsigned> firstArguments;
  unsigned next = 0;
  for (auto [param, spec] : llvm::zip(kernel.params(), params)) {
    firstArguments.push_back(next);
    values.push_back(parameterValue(semantic, function, param.name, spec, param.isConst, next));
  }
  std::vector<std::string> names;
  for (const FunctionParam &param : kernel.params())
    names.push_back(param.name.str());
  llvm::SmallVector<mlir::Attribute> derivatives;
  for (const Derivative &derivative : kernel.derivatives) {
    llvm::SmallVector<int64_t> links{derivative.isReverse + 2 * derivative.hasOutputs};
    llvm::SmallVector<unsigned> partial; // arguments
    for (const Derivative::Item &item : derivative.items) {
      const ParamSpec &spec = params[names.size()];
      unsigned tangent = next;
      if (item.isPartial)
        partial.push_back(spec.kind == ParamSpec::Kind::Runtime ? next : ~0u);
      firstArguments.push_back(next);
      parameterValue(semantic, function, item.tangent, spec, /*isConst=*/false, next);
      if (item.isSaved || item.isStep) {
        bool isNone = spec.kind == ParamSpec::Kind::Constant && spec.constant.isNone();
        bool isPointer = spec.kind == ParamSpec::Kind::Runtime && spec.type.isPointer;
        if (item.isSaved && !isNone && !isPointer)
          return semantic.error(diag::SavedType, semantic.span(), item.tangent, describeSpec(spec));
        if (next != tangent)
          links.append({int64_t(tangent), 0, item.isSaved ? 16 : 32});
        names.push_back(item.tangent);
        continue;
      }
      unsigned primal = firstArguments[item.parameter];
      if (failed(linkTangent(semantic, links, item, names[item.parameter], item.tangent,
                             params[item.parameter], spec, primal, tangent, derivative.isReverse)))
        return failure();
      names.push_back(item.tangent);
    }
    for (auto [i, parameter] : llvm::enumerate(derivative.launchParameters())) {
      if (i >= partial.size())
        links.append({int64_t(next), 0, 8});
      else if (partial[i] != ~0u)
        links.append({int64_t(partial[i]), int64_t(next), 4});
      const ParamSpec &spec = params[names.size()];
      firstArguments.push_back(next);
      parameterValue(semantic, function, parameter.first, spec, /*isConst=*/false, next);
      names.push_back(parameter.first);
    }
    derivatives.push_back(builder.getDenseI64ArrayAttr(links));
  }
  if (!derivatives.empty())
    function->setAttr("tile.derivatives", builder.getArrayAttr(derivatives));
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
                DiagnosticEngine &diagnostics, std::vector<SourceFilePtr> &sources) {
  tile::loadDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  Interpreter interpreter(*module, options, host, diagnostics);
  if (failed(interpreter.buildKernel(kernel, params)) ||
      failed(verifyModule(*module, kernel.span(), diagnostics)))
    return failure();
  sources = interpreter.sources();
  return module;
}

llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
buildTileModule(mlir::MLIRContext &context, const Function &kernel,
                llvm::ArrayRef<ParamSpec> params, const FrontendOptions &options, Host &host,
                DiagnosticEngine &diagnostics) {
  std::vector<SourceFilePtr> sources;
  return buildTileModule(context, kernel, params, options, host, diagnostics, sources);
}

} // namespace nereid::frontend
