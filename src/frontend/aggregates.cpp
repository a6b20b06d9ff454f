// Values of classes that a kernel's author defines (`@triton.aggregate`): making them, their
// members and operators.
//
// A class of the host (Python) is called by the host, and its members are asked of the host. The
// class of a text that is read here (the prelude; a source file without Python) is called in place:
// `__init__` is walked like any function, except that it may assign attributes of `self`.
#include "frontend/interpreter.h"
#include "frontend/prelude.h"

#include "support/text.h"

#include "llvm/ADT/ScopeExit.h"

namespace nereid::frontend {

using namespace nereid::syntax;
using frontend::Tuple;
using llvm::failure;
using llvm::success;

/// A field that `__init__` has not assigned yet.
static Value unset() {
  return Value(HostObject{0, "uninitialized field"});
}
static bool isUnset(const Value &value) {
  auto *object = value.getIf<HostObject>();
  return object && object->handle == 0;
}

//===--- making values
//-----------------------------------------------------------------------------//

FailureOr<Value> Interpreter::evaluateIn(const Function &place, const Expr &node) {
  Frame inner{&place, {}, false, frame};
  frame = &inner;
  llvm::scope_exit leave([&] { frame = inner.caller; });
  return visit(node);
}

FailureOr<std::vector<Value>>
Interpreter::fieldsFromArguments(const Class &cls, llvm::ArrayRef<Argument> args,
                                 llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call) {
  std::vector<Value> items(cls.fields().size(), unset());
  if (args.size() > items.size())
    return error(diag::TooManyArguments, args[items.size()].span, cls.name(), int64_t(items.size()),
                 int64_t(args.size()));
  for (auto [item, arg] : llvm::zip(items, args))
    item = arg.value;
  for (const KeywordArgument &keyword : keywords) {
    int index = cls.fieldIndex(keyword.name);
    if (index < 0)
      return error(diag::UnknownKeyword, keyword.span, cls.name(), keyword.name);
    if (size_t(index) < args.size())
      return error(diag::DuplicateArgument, keyword.span, cls.name(), keyword.name);
    items[index] = keyword.value;
  }
  for (auto [item, field] : llvm::zip(items, cls.fields()))
    if (isUnset(item) && !field.defaultValue)
      return error(diag::MissingArgument, call, cls.name(), field.name);
  return items;
}

/// What an annotation says about a field's value, when its last name is one of the language's.
static std::optional<bool> fitsLanguageType(const Value &value, llvm::StringRef type) {
  bool isTensor = value.isTensor();
  bool isDescriptor = isTensor && value.get<Tensor>().type.isDescriptor;
  return llvm::StringSwitch<std::optional<bool>>(type)
      .Case("tensor", isTensor && !isDescriptor)
      .Cases({"tensor_descriptor", "tensor_descriptor_base"}, isDescriptor)
      .Case("tuple", value.is<Tuple>())
      .Case("constexpr", knownOrNull(value) != nullptr)
      .Default(std::nullopt);
}

LogicalResult Interpreter::checkFields(const Class &cls, std::vector<Value> &items,
                                       SourceSpan call) {
  for (auto [item, field] : llvm::zip(items, cls.fields())) {
    if (isUnset(item) && field.defaultValue) {
      auto value = defaultValue(field.owner->place(), field.name, *field.defaultValue);
      if (failed(value))
        return failure();
      item = std::move(*value);
    }
    if (isUnset(item))
      return error(diag::FieldNotInitialized, call, cls.name(), field.name);
    if (!field.annotation)
      continue;
    std::string_view text = field.owner->place().module().source().text(field.annotation->range);
    llvm::StringRef type = llvm::StringRef(text).trim("\"' ").rsplit('.').second;
    if (type.empty())
      type = llvm::StringRef(text).trim("\"' ");
    std::optional<bool> fits;
    if (isConstexprAnnotation(field.annotation)) {
      const Value *known = knownOrNull(item);
      fits = known != nullptr;
      if (known)
        item = Value(*known);
    } else {
      fits = fitsLanguageType(item, type);
    }
    if (!fits) {
      auto expected = evaluateIn(field.owner->place(), *field.annotation);
      if (failed(expected))
        return failure();
      auto *wanted = expected->getIf<ClassValue>();
      auto *aggregate = item.getIf<Aggregate>();
      if (wanted)
        fits = aggregate && aggregate->cls->derivesFrom(*wanted->cls);
    }
    if (!fits.value_or(true))
      return error(diag::FieldType, call, text, field.name, item.kindName());
  }
  return success();
}

FailureOr<Value> Interpreter::construct(const ClassPtr &cls, llvm::ArrayRef<Argument> args,
                                        llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call) {
  std::vector<Value> items;
  if (const Class::Method *init = cls->method("__init__")) {
    const Function &function = *init->function;
    // `_semantic` is how Python code enters the compiler; here everything is in it already.
    llvm::SmallVector<KeywordArgument, 4> given;
    for (const KeywordArgument &keyword : keywords)
      if (keyword.name != "_semantic")
        given.push_back(keyword);
    Value self(Aggregate{cls, std::vector<Value>(cls->fields().size(), unset())});
    std::vector<Value> bound;
    if (failed(bindArguments(function, &self, args, given, call, bound)))
      return failure();
    Frame inner{&function, {}, false, frame, 0, ++nextActivation};
    inner.constructs = true;
    bindParameters(inner, bound);
    semantic.enterCall(call);
    frame = &inner;
    ++callDepth;
    llvm::scope_exit leave([&] {
      --callDepth;
      frame = inner.caller;
      semantic.leaveCall();
    });
    if (failed(visitBody(function.body(), 0, /*tail=*/false)))
      return failure();
    const Binding *made = scope().find(function.params().front().name);
    items = made->value.get<Aggregate>().items.all();
  } else {
    auto fields = fieldsFromArguments(*cls, args, keywords, call);
    if (failed(fields))
      return failure();
    items = std::move(*fields);
  }
  if (failed(checkFields(*cls, items, call)))
    return failure();
  return Value(Aggregate{cls, std::move(items)});
}

FailureOr<bool> Interpreter::assignField(const Attribute &target, const Value &value) {
  auto *name = dynCast<Name>(target.value);
  if (!name || !frame->constructs || frame->function->params().empty() ||
      frame->function->params().front().name != llvm::StringRef(name->id))
    return false;
  const Binding *binding = scope().find(name->id);
  auto *self = binding ? binding->value.getIf<Aggregate>() : nullptr;
  if (!self)
    return false;
  int index = self->cls->fieldIndex(target.name);
  if (index < 0)
    return error(diag::UnknownAttribute, spanOf(target.nameRange), self->cls->name(), target.name);
  Aggregate changed = *self;
  changed.items.edit()[index] = value;
  if (failed(setName(name->id, Value(std::move(changed)), spanOf(target))))
    return failure();
  return true;
}

//===--- members
//-----------------------------------------------------------------------------------//

/// `function` read from `self`.
static Value boundTo(const Value &function, const Value &self) {
  auto owner = std::make_shared<const Value>(self);
  if (auto *known = function.getIf<FunctionValue>())
    return Value(FunctionValue{known->function, owner, known->activation});
  if (auto *builtin = function.getIf<BuiltinValue>())
    return Value(BuiltinValue{builtin->builtin, owner});
  HostObject object = function.get<HostObject>();
  object.self = owner;
  return Value(std::move(object));
}

FailureOr<std::optional<Value>> Interpreter::member(const Value &self, llvm::StringRef name,
                                                    SourceSpan span) {
  const Class &cls = *self.get<Aggregate>().cls;
  Value found;
  MemberKind kind;
  if (cls.hasText()) {
    const Class::Method *method = cls.method(name);
    if (!method)
      return std::optional<Value>();
    found = Value(FunctionValue{method->function.get(), nullptr});
    kind = method->kind;
  } else {
    auto result = host.getMember(cls, name);
    if (!result.value) {
      if (result.error.message.empty() && !result.error.exception)
        return std::optional<Value>();
      return hostFailed(result.error, span);
    }
    found = std::move(result.value->value);
    kind = result.value->kind;
  }
  bool canBind = found.is<FunctionValue>() || found.is<BuiltinValue>() || found.is<HostObject>();
  if (kind == MemberKind::Plain || !canBind)
    return std::optional<Value>(std::move(found));
  Value bound = boundTo(found, self);
  if (kind == MemberKind::Method)
    return std::optional<Value>(std::move(bound));
  auto value = callValue(bound, {}, {}, span ? span : semantic.span());
  if (failed(value))
    return failure();
  return std::optional<Value>(std::move(*value));
}

FailureOr<std::optional<Value>> Interpreter::findAttribute(const Value &object,
                                                           llvm::StringRef name, SourceSpan span) {
  if (auto *aggregate = object.getIf<Aggregate>()) {
    int index = aggregate->cls->fieldIndex(name);
    if (index < 0)
      return member(object, name, span);
    const Value &item = aggregate->items[index];
    if (isUnset(item))
      return error(diag::FieldNotInitialized, span, aggregate->cls->name(), name);
    return std::optional<Value>(item);
  }
  if (auto *cls = object.getIf<ClassValue>()) {
    const Class::Method *method = cls->cls->method(name);
    return method ? std::optional<Value>(Value(FunctionValue{method->function.get(), nullptr}))
                  : std::optional<Value>();
  }
  if (auto *foreign = object.getIf<HostObject>()) {
    auto result = host.getAttribute(*foreign, name);
    if (result.value)
      return std::move(result.value);
    if (!result.error.message.empty() || result.error.exception)
      return hostFailed(result.error, span);
    return std::optional<Value>();
  }
  return semantic.attribute(object, name);
}

//===--- operators
//---------------------------------------------------------------------------------//

FailureOr<std::optional<Value>> Interpreter::callSpecial(const Value &self, llvm::StringRef name,
                                                         llvm::ArrayRef<Value> args,
                                                         SourceSpan at) {
  if (!self.is<Aggregate>())
    return std::optional<Value>();
  auto method = member(self, name, at);
  if (failed(method) || !*method)
    return method;
  auto result = call(**method, args, {}, at);
  if (failed(result))
    return failure();
  return std::optional<Value>(std::move(*result));
}

/// "add" of `__add__` and `__radd__`.
static llvm::StringRef operatorName(BinaryOp op) {
  switch (op) {
  case BinaryOp::Add:
    return "add";
  case BinaryOp::Sub:
    return "sub";
  case BinaryOp::Mult:
    return "mul";
  case BinaryOp::MatMult:
    return "matmul";
  case BinaryOp::Div:
    return "truediv";
  case BinaryOp::Mod:
    return "mod";
  case BinaryOp::Pow:
    return "pow";
  case BinaryOp::LShift:
    return "lshift";
  case BinaryOp::RShift:
    return "rshift";
  case BinaryOp::BitOr:
    return "or";
  case BinaryOp::BitXor:
    return "xor";
  case BinaryOp::BitAnd:
    return "and";
  case BinaryOp::FloorDiv:
    return "floordiv";
  }
  llvm_unreachable("every operator has a name");
}

FailureOr<Value> Interpreter::binary(BinaryOp op, const Value &a, const Value &b, SourceSpan atA,
                                     SourceSpan atB) {
  if (a.is<Aggregate>() || b.is<Aggregate>()) {
    llvm::StringRef name = operatorName(op);
    auto left = callSpecial(a, ("__" + name + "__").str(), b, semantic.span());
    if (failed(left))
      return failure();
    if (*left)
      return std::move(**left);
    auto right = callSpecial(b, ("__r" + name + "__").str(), a, semantic.span());
    if (failed(right))
      return failure();
    if (*right)
      return std::move(**right);
  }
  return semantic.binary(op, a, b, atA, atB);
}

} // namespace nereid::frontend
