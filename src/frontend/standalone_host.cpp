#include "frontend/standalone_host.h"

#include "frontend/builtin.h"
#include "frontend/known.h"
#include "frontend/limits.h"
#include "frontend/semantic.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/raw_ostream.h"

namespace nereid::frontend {

using namespace nereid::syntax;

static HostResult<Value> found(Value value) {
  return {std::move(value), {}};
}
static HostResult<Value> failed(std::string message) {
  return {std::nullopt, {std::move(message), 0}};
}

/// "triton" or "nereid", or a module below them: one of ours.
static bool isOurs(llvm::StringRef module) {
  llvm::StringRef first = module.split('.').first;
  return first == "triton" || first == "nereid";
}

StandaloneHost::StandaloneHost(ModulePtr tree) : module(std::move(tree)) {
  for (const Stmt *statement : module->body())
    scan(*statement);
}

StandaloneHost::~StandaloneHost() = default;

void StandaloneHost::scanImport(const Import &node) {
  for (const Alias *alias : node.names) {
    llvm::StringRef name = alias->name;
    Definition definition;
    definition.kind = Definition::Kind::Module;
    definition.module = alias->asName.empty() ? name.split('.').first.str() : name.str();
    llvm::StringRef as = alias->asName;
    names[as.empty() ? name.split('.').first : as] = std::move(definition);
  }
}

void StandaloneHost::scanImportFrom(const ImportFrom &node) {
  for (const Alias *alias : node.names) {
    Definition definition;
    definition.kind = Definition::Kind::Member;
    definition.module = std::string(node.level, '.') + std::string(node.module);
    definition.member = std::string(alias->name);
    names[llvm::StringRef(alias->asName.empty() ? alias->name : alias->asName)] =
        std::move(definition);
  }
}

void StandaloneHost::scan(const Node &node) {
  auto define = [&](const Expr *target, const Expr *value) {
    auto *name = dynCast<Name>(target);
    if (!name)
      return;
    Definition definition;
    definition.kind = value ? Definition::Kind::Value : Definition::Kind::Other;
    definition.value = value;
    definition.what = "a value assigned by unpacking";
    names[llvm::StringRef(name->id)] = std::move(definition);
  };
  switch (node.kind) {
  case NodeKind::Import:
    return scanImport(*cast<Import>(&node));
  case NodeKind::ImportFrom:
    return scanImportFrom(*cast<ImportFrom>(&node));
  case NodeKind::FunctionDef: {
    auto &function = *cast<FunctionDef>(&node);
    Definition definition;
    definition.kind = Definition::Kind::Function;
    definition.function = &function;
    names[llvm::StringRef(function.name)] = std::move(definition);
    return;
  }
  case NodeKind::ClassDef: {
    Definition definition;
    definition.kind = Definition::Kind::Class;
    definition.cls = cast<ClassDef>(&node);
    names[llvm::StringRef(cast<ClassDef>(&node)->name)] = std::move(definition);
    return;
  }
  case NodeKind::Assign: {
    auto &assign = *cast<Assign>(&node);
    for (const Expr *target : assign.targets) {
      auto *targets = dynCast<syntax::Tuple>(target);
      auto *values = dynCast<syntax::Tuple>(assign.value);
      if (!targets) {
        define(target, assign.value);
        continue;
      }
      bool pairs = values && values->elements.size() == targets->elements.size();
      for (uint32_t i = 0; i < targets->elements.size(); ++i)
        define(targets->elements[i], pairs ? values->elements[i] : nullptr);
    }
    return;
  }
  case NodeKind::AnnAssign:
    if (cast<AnnAssign>(&node)->value)
      define(cast<AnnAssign>(&node)->target, cast<AnnAssign>(&node)->value);
    return;
  case NodeKind::If: {
    // Where the condition is a constant only the side that Python would run; else both, in order.
    auto &branching = *cast<If>(&node);
    auto test = evaluate(*branching.test);
    auto truth = test.value ? truthOfKnown(*test.value) : std::nullopt;
    for (auto [side, statements] :
         {std::pair(true, branching.body), std::pair(false, branching.orelse)})
      if (truth.value_or(side) == side)
        for (const Stmt *statement : statements)
          scan(*statement);
    return;
  }
  case NodeKind::With:
  case NodeKind::UnsupportedStmt: // `try`
  case NodeKind::UnsupportedPart:
    forEachChild(node, [&](const Node &child) {
      if (!isa<Expr>(child))
        scan(child);
    });
    return;
  default:
    return;
  }
}

const Function *StandaloneHost::function(llvm::StringRef name) {
  auto it = names.find(name);
  if (it == names.end() || it->second.kind != Definition::Kind::Function)
    return nullptr;
  std::unique_ptr<Function> &function = functions[name];
  if (!function)
    function = std::make_unique<Function>(module, it->second.function);
  return function.get();
}

HostResult<Value> StandaloneHost::lookup(const Function &, llvm::StringRef name) {
  return resolve(name);
}

HostResult<Value> StandaloneHost::resolve(llvm::StringRef name) {
  auto it = names.find(name);
  if (it == names.end()) {
    // `from triton.language import *`
    if (auto star = names.find("*"); star != names.end() && isOurs(star->second.module))
      if (auto value = languageMember(star->second.module, name))
        return found(std::move(*value));
    return {};
  }
  Definition &definition = it->second;
  if (definition.result)
    return *definition.result;
  if (definition.evaluating)
    return failed("the value of `" + name.str() + "` depends on itself");
  definition.evaluating = true;
  HostResult<Value> result = meaning(name, definition);
  definition.evaluating = false;
  definition.result = result;
  return result;
}

HostResult<Value> StandaloneHost::meaning(llvm::StringRef name, Definition &definition) {
  switch (definition.kind) {
  case Definition::Kind::Module:
    if (!isOurs(definition.module))
      return failed("module `" + definition.module +
                    "` cannot be used in a kernel that is compiled without Python");
    return found(ModuleValue{definition.module});
  case Definition::Kind::Member:
    if (!isOurs(definition.module))
      return failed("`" + name.str() + "` comes from `" + definition.module +
                    "`, which cannot be used in a kernel that is compiled without Python");
    if (auto value = languageMember(definition.module, definition.member))
      return found(std::move(*value));
    return failed("`" + definition.module + "` has no member `" + definition.member + "`");
  case Definition::Kind::Function: {
    bool usable = llvm::any_of(definition.function->decorators, [](const Expr *decorator) {
      Decorator kind = decoratorKind(*decorator);
      return kind == Decorator::Jit || kind == Decorator::ConstexprFunction;
    });
    if (!usable)
      return failed("`" + name.str() +
                    "` is an ordinary Python function: decorate it with `@triton.jit` to call it "
                    "in a kernel");
    return found(FunctionValue{function(name), nullptr});
  }
  case Definition::Kind::Class:
    return classValue(*definition.cls);
  case Definition::Kind::Value: {
    HostResult<Value> result = evaluate(*definition.value);
    if (!result.value && result.error.message.empty())
      result.error.message =
          "the value of `" + name.str() + "` is not a constant that is known without Python";
    return result;
  }
  case Definition::Kind::Other:
    break;
  }
  return failed("`" + name.str() + "` is " + definition.what +
                ", which is not known without Python");
}

HostResult<Value> StandaloneHost::classValue(const ClassDef &definition) {
  if (!isAggregateClass(definition))
    return failed("`" + std::string(definition.name) +
                  "` is an ordinary class: decorate it with `@triton.aggregate` to use it in a "
                  "kernel");
  ClassPtr base;
  for (const Expr *expr : definition.bases) {
    auto value = evaluate(*expr);
    auto *cls = value.value ? value.value->getIf<ClassValue>() : nullptr;
    if (!cls || base)
      return failed("`" + std::string(definition.name) +
                    "` may inherit from one other aggregate only");
    base = cls->cls;
  }
  return found(ClassValue{
      std::make_shared<const Class>(module, definition, std::move(base), /*isPrelude=*/false)});
}

/// A constant expression at the top level; no value and no message when it is not one.
HostResult<Value> StandaloneHost::evaluate(const Expr &node) {
  if (depth == maxDepth)
    return failed("constants that are made of each other are nested too deeply: at most " +
                  std::to_string(maxDepth) + " levels are accepted");
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  auto folded = [](std::variant<Value, KnownError> result) -> HostResult<Value> {
    if (auto *value = std::get_if<Value>(&result))
      return found(std::move(*value));
    return {};
  };
  switch (node.kind) {
  case NodeKind::Constant: {
    auto &constant = *cast<Constant>(&node);
    switch (constant.constantKind) {
    case ConstantKind::None:
      return found(Value());
    case ConstantKind::True:
    case ConstantKind::False:
      return found(constant.constantKind == ConstantKind::True);
    case ConstantKind::Int:
      if (auto number = constant.asInt64())
        return found(Value::integer(*number));
      if (auto number = constant.asUint64())
        return found(llvm::APSInt(llvm::APInt(65, *number), /*isUnsigned=*/false));
      return {};
    case ConstantKind::Float:
      return found(constant.number);
    case ConstantKind::Str:
      return found(std::string(constant.text));
    default:
      return {};
    }
  }
  case NodeKind::Name:
    return resolve(cast<Name>(&node)->id);
  case NodeKind::Attribute: {
    auto &attribute = *cast<Attribute>(&node);
    auto object = evaluate(*attribute.value);
    if (!object.value)
      return object;
    if (auto *ours = object.value->getIf<ModuleValue>())
      if (auto value = languageMember(ours->name, attribute.name))
        return found(std::move(*value));
    if (attribute.name == "value" && object.value->isNumber())
      return object;
    return {};
  }
  case NodeKind::Tuple:
  case NodeKind::List: {
    frontend::Tuple tuple;
    auto elements =
        isa<List>(node) ? cast<List>(&node)->elements : cast<syntax::Tuple>(&node)->elements;
    for (const Expr *element : elements) {
      auto value = evaluate(*element);
      if (!value.value)
        return value;
      tuple.items.push_back(std::move(*value.value));
      if (tuple.items.weight() > maxValueBytes || tuple.items.nesting() > maxValueDepth)
        return failed("the tuple is too large for a value of the compilation");
    }
    return found(std::move(tuple));
  }
  case NodeKind::UnaryOp: {
    auto operand = evaluate(*cast<UnaryOp>(&node)->operand);
    return operand.value ? folded(foldUnary(cast<UnaryOp>(&node)->op, *operand.value)) : operand;
  }
  case NodeKind::BinOp: {
    auto &binary = *cast<BinOp>(&node);
    auto left = evaluate(*binary.left);
    if (!left.value)
      return left;
    auto right = evaluate(*binary.right);
    return right.value ? folded(foldBinary(binary.op, *left.value, *right.value)) : right;
  }
  case NodeKind::Compare: {
    auto &compare = *cast<Compare>(&node);
    auto left = evaluate(*compare.left);
    if (!left.value || compare.ops.size() != 1)
      return {};
    auto right = evaluate(*compare.comparators[0]);
    return right.value ? folded(foldCompare(compare.ops[0], *left.value, *right.value)) : right;
  }
  case NodeKind::IfExp: {
    auto test = evaluate(*cast<IfExp>(&node)->test);
    auto truth = test.value ? truthOfKnown(*test.value) : std::nullopt;
    if (!truth)
      return {};
    return evaluate(*truth ? *cast<IfExp>(&node)->body : *cast<IfExp>(&node)->orelse);
  }
  case NodeKind::Call:
    return evaluateCall(*cast<Call>(&node));
  default:
    return {};
  }
}

/// `tl.constexpr(3)`, `float("inf")`, `triton.next_power_of_2(5)`, `triton.cdiv(7, 2)`.
HostResult<Value> StandaloneHost::evaluateCall(const Call &node) {
  if (!node.keywords.empty())
    return {};
  std::vector<Value> args;
  for (const Expr *arg : node.args) {
    auto value = evaluate(*arg);
    if (!value.value)
      return value;
    args.push_back(std::move(*value.value));
  }
  llvm::StringRef name;
  if (auto *direct = dynCast<Name>(node.func))
    name = direct->id;
  else if (auto *attribute = dynCast<Attribute>(node.func))
    name = attribute->name;
  auto integer = [&](size_t index) { return args[index].getIf<llvm::APSInt>(); };
  if (name == "constexpr" && args.size() == 1)
    return found(args[0]);
  if (name == "float" && args.size() == 1) {
    if (auto *number = integer(0))
      return found(toDouble(*number));
    if (args[0].is<double>())
      return found(args[0]);
    if (auto *text = args[0].getIf<std::string>()) {
      double number;
      if (!llvm::StringRef(*text).getAsDouble(number))
        return found(number);
    }
    return {};
  }
  if (name == "next_power_of_2" && args.size() == 1 && integer(0) && integer(0)->isSignedIntN(62)) {
    int64_t number = integer(0)->getExtValue();
    return found(
        Value::integer(number <= 1 ? number : int64_t(llvm::PowerOf2Ceil(uint64_t(number)))));
  }
  if (name == "cdiv" && args.size() == 2 && integer(0) && integer(1) &&
      integer(0)->isSignedIntN(62) && integer(1)->isSignedIntN(62) &&
      integer(1)->isStrictlyPositive())
    return found(Value::integer(
        llvm::divideCeilSigned(integer(0)->getExtValue(), integer(1)->getExtValue())));
  return {};
}

// Standing alone there are no foreign objects.

HostResult<Value> StandaloneHost::getAttribute(const HostObject &, llvm::StringRef) {
  return {};
}
HostResult<Value> StandaloneHost::getItem(const HostObject &object, const Value &) {
  return failed("`" + object.typeName + "` cannot be subscripted without Python");
}
HostResult<Value> StandaloneHost::call(const HostObject &callee, llvm::ArrayRef<Value>,
                                       llvm::ArrayRef<std::pair<std::string, Value>>, Semantic &) {
  return failed("`" + callee.typeName + "` cannot be called without Python");
}
HostResult<HostMember> StandaloneHost::getMember(const Class &, llvm::StringRef) {
  return {};
}
HostResult<bool> StandaloneHost::truth(const HostObject &object) {
  return {std::nullopt, {"the truth of `" + object.typeName + "` is not known without Python", 0}};
}

void StandaloneHost::print(llvm::StringRef text) {
  llvm::outs() << text;
  llvm::outs().flush();
}

} // namespace nereid::frontend
