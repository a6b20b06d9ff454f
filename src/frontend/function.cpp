#include "frontend/function.h"

#include "frontend/frontend.h"

#include "llvm/ADT/STLExtras.h"

using namespace nereid;
using namespace nereid::frontend;
using namespace nereid::syntax;

/// `c` of `a.b.c`, or of `c`; empty for anything else.
static llvm::StringRef lastName(const Expr *expr) {
  if (auto *name = dynCast<Name>(expr))
    return name->id;
  if (auto *attribute = dynCast<Attribute>(expr))
    return attribute->name;
  return {};
}

static const Constant *stringConstant(const Expr *expr) {
  auto *constant = dynCast<Constant>(expr);
  return constant && constant->isStr() ? constant : nullptr;
}

bool nereid::frontend::isConstexprAnnotation(const Expr *annotation) {
  if (auto *text = stringConstant(annotation))
    return llvm::StringRef(text->text).contains("constexpr");
  if (auto *subscript =
          dynCast<Subscript>(annotation)) // tl.constexpr[int], as type checkers like it
    return isConstexprAnnotation(subscript->value);
  return lastName(annotation) == "constexpr";
}

/// The forced type an annotation spells, if it is one.
static std::optional<Type> annotatedType(const Expr *annotation) {
  if (!annotation)
    return std::nullopt;
  llvm::StringRef text = lastName(annotation);
  if (auto *constant = stringConstant(annotation)) {
    text = llvm::StringRef(constant->text).trim();
    if (auto type = parseSignatureType(text); type && !type->isDescriptor)
      return type;
    text = text.rsplit('.').second.empty() ? text : text.rsplit('.').second;
  }
  if (auto *call = dynCast<Call>(annotation)) {
    if (lastName(call->func) != "pointer_type" || call->args.empty())
      return std::nullopt;
    auto pointee = annotatedType(call->args[0]);
    if (!pointee || pointee->isPointer || pointee->isBlock())
      return std::nullopt;
    bool isConst = llvm::any_of(call->keywords, [](const Keyword *keyword) {
      auto *value = dynCast<Constant>(keyword->value);
      return keyword->name == "const" && value && value->constantKind == ConstantKind::True;
    });
    return Type::pointerTo(pointee->scalar, isConst);
  }
  if (text == "int")
    return Type::of(DType::Int32);
  if (text == "float")
    return Type::of(DType::Float32);
  if (text == "bool")
    return Type::of(DType::Int1);
  if (text == "pi32_t")
    return Type::pointerTo(DType::Int32);
  if (text.empty())
    return std::nullopt;
  if (auto dtype = dtypeByName(text); dtype && *dtype != DType::Void)
    return Type::of(*dtype);
  return std::nullopt;
}

Decorator nereid::frontend::decoratorKind(const Expr &decorator) {
  auto *call = dynCast<Call>(&decorator);
  llvm::StringRef name = lastName(call ? call->func : &decorator);
  if (name == "jit")
    return Decorator::Jit;
  if (name == "autotune")
    return Decorator::Autotune;
  if (name == "heuristics")
    return Decorator::Heuristics;
  if (name == "constexpr_function")
    return Decorator::ConstexprFunction;
  return Decorator::Other;
}

bool nereid::frontend::isJitFunction(const FunctionDef &definition) {
  return llvm::any_of(definition.decorators, [](const Expr *decorator) {
    return decoratorKind(*decorator) == Decorator::Jit;
  });
}

Function::Function(ModulePtr module, const FunctionDef *definition, void *hostData)
    : owner(std::move(module)), statements(definition->body), textRange(definition->range),
      nameRange(definition->nameRange), data(hostData), functionName(definition->name) {
  for (const Expr *decorator : definition->decorators) {
    auto *call = dynCast<Call>(decorator);
    if (lastName(call ? call->func : decorator) == "must_use_result") {
      auto *text = call && call->args.size() == 1 ? stringConstant(call->args[0]) : nullptr;
      mustUseResult = text ? std::string(text->text) : std::string();
      continue;
    }
    if (!call || decoratorKind(*decorator) != Decorator::Jit)
      continue;
    for (const Keyword *keyword : call->keywords)
      if (auto *value = dynCast<Constant>(keyword->value); value && keyword->name == "noinline")
        noinline = value->constantKind == ConstantKind::True;
  }
  addParameters(*definition->args);
}

Function::Function(ModulePtr module, const Lambda *lambda, void *hostData)
    : owner(std::move(module)), result(lambda->body), textRange(lambda->range),
      nameRange(lambda->range), data(hostData), functionName("<lambda>") {
  addParameters(*lambda->args);
}

Function::Function(ModulePtr module, const ClassDef *place)
    : owner(std::move(module)), textRange(place->range), nameRange(place->nameRange),
      functionName(place->name) {}

void Function::addParameters(const Arguments &args) {
  auto add = [&](const Arg *arg, bool vararg, bool keywordOnly) {
    FunctionParam param;
    param.name = arg->name;
    param.node = arg;
    param.isVararg = vararg;
    param.keywordOnly = keywordOnly;
    param.isConstexpr = isConstexprAnnotation(arg->annotation);
    llvm::StringRef annotation = lastName(arg->annotation);
    if (auto *text = stringConstant(arg->annotation))
      annotation = text->text;
    param.isConst = annotation == "const" || annotation == "tl.const";
    if (!param.isConstexpr)
      param.type = annotatedType(arg->annotation);
    parameters.push_back(std::move(param));
  };
  for (const Arg *arg : args.posOnly)
    add(arg, false, false);
  for (const Arg *arg : args.args)
    add(arg, false, false);
  if (args.vararg)
    add(args.vararg, true, false);
  for (const Arg *arg : args.kwOnly)
    add(arg, false, true);
  hasKwarg = args.kwarg != nullptr;
}

std::string Derivative::text() const {
  std::string text = isReverse ? hasOutputs ? "outputs, reverse;" : "reverse;" : "";
  for (const Item &item : items)
    text += std::to_string(item.parameter) + "=" + item.tangent + (item.isInput ? ":wrt" : "") +
            (item.isOutput ? ":out" : "") + (item.isPartial ? ":partial" : "") +
            (item.isSaved ? ":saved" : "") + (item.isStep ? ":step" : "") + ";";
  return text;
}

std::vector<std::pair<std::string, DType>> Derivative::launchParameters() const {
  std::vector<std::pair<std::string, DType>> parameters;
  for (const Item &item : items)
    if (item.isPartial)
      parameters.emplace_back(item.tangent + "_row", DType::Int64);
  if (!parameters.empty())
    for (unsigned axis = 0; axis < 3; ++axis)
      parameters.emplace_back("programs_" + std::to_string(axis), DType::Int32);
  return parameters;
}

std::string Function::derivativeText() const {
  std::string text;
  for (const Derivative &derivative : derivatives)
    text += (text.empty() ? "" : "/") + derivative.text();
  return text;
}

std::string ParamSpec::itemName(llvm::StringRef name, size_t index) const {
  return (index < fields.size() ? name + "." + fields[index]
                                : name + "[" + llvm::Twine(index) + "]")
      .str();
}
