#include "runtime/cache/values.h"

#include "frontend/builtin.h"
#include "frontend/class.h"
#include "runtime/cache/store.h"
#include "runtime/compiler.h"

using namespace nereid;
using namespace nereid::runtime;
using namespace nereid::runtime::cache;
using namespace nereid::frontend;

namespace {

enum class Tag : uint8_t {
  None,
  False,
  True,
  Integer,
  Real,
  Text,
  Type,
  Tuple,
  Function,
  PreludeFunction,
  Builtin,
  Module,
  Object,
  Slice,
  Aggregate,
  PreludeClass,
  Last = PreludeClass
};

constexpr uint32_t nothing = UINT32_MAX;
/// Values nest no deeper in a file that we wrote.
constexpr unsigned deepest = 64;

frontend::Type readType(ByteReader &in) {
  frontend::Type type;
  auto last = DType(-1);
#define DTYPE(Enum, ...) last = DType::Enum;
#include "frontend/dtypes.def"
#undef DTYPE
  type.scalar = in.oneOf<DType>(last);
  type.isPointer = in.flag();
  type.isConst = in.flag();
  type.isDescriptor = in.flag();
  type.padsNaN = in.flag();
  type.roundsTF32 = in.flag();
  type.addressSpace = in.number<uint8_t>();
  in.list([&] { type.shape.push_back(in.number<int64_t>()); });
  in.list([&] { type.block.push_back(in.number<int64_t>()); });
  return type;
}

const void *identityOf(const Function &function) {
  return function.hostData() ? function.hostData() : &function;
}

// Names of the language are the compiler's, which is loaded when it is first asked: null without
// it.

const Function *preludeNamed(llvm::StringRef name) {
  const Compiler *compiler = Compiler::find();
  return compiler ? compiler->findPrelude(name) : nullptr;
}
const Builtin *builtinNamed(llvm::StringRef name) {
  const Compiler *compiler = Compiler::find();
  return compiler ? compiler->findBuiltin(name) : nullptr;
}
ClassPtr classNamed(llvm::StringRef name) {
  const Compiler *compiler = Compiler::find();
  return compiler ? compiler->findPreludeClass(name) : nullptr;
}

bool isPrelude(const Function &function) {
  return function.isPrelude && preludeNamed(function.name()) == &function;
}

std::optional<Value> readValue(const Entities &entities, ByteReader &in, unsigned depth);

std::shared_ptr<const Value> readShared(const Entities &entities, ByteReader &in, unsigned depth) {
  auto value = readValue(entities, in, depth);
  return value ? std::make_shared<const Value>(std::move(*value)) : nullptr;
}

bool readItems(const Entities &entities, ByteReader &in, unsigned depth,
               std::vector<Value> &items) {
  in.list([&] {
    if (auto item = readValue(entities, in, depth))
      items.push_back(std::move(*item));
    else
      in.fail();
  });
  return in.ok();
}

std::optional<Value> readValue(const Entities &entities, ByteReader &in, unsigned depth) {
  if (depth > deepest)
    return std::nullopt;
  Tag tag = in.oneOf<Tag>(Tag::Last);
  if (!in.ok())
    return std::nullopt;
  auto readSelf = [&](std::shared_ptr<const Value> &self) {
    if (!in.flag())
      return in.ok();
    self = readShared(entities, in, depth + 1);
    return self != nullptr;
  };
  switch (tag) {
  case Tag::None:
    return Value();
  case Tag::False:
  case Tag::True:
    return Value(tag == Tag::True);
  case Tag::Integer: {
    auto bits = in.number<uint32_t>();
    bool isUnsigned = in.flag();
    std::vector<uint64_t> words;
    in.list([&] { words.push_back(in.number<uint64_t>()); });
    if (!in.ok() || bits == 0 || (uint64_t(bits) + 63) / 64 != words.size())
      return std::nullopt;
    return Value(llvm::APSInt(llvm::APInt(bits, words), isUnsigned));
  }
  case Tag::Real:
    return Value(in.real());
  case Tag::Text:
    return Value(std::string(in.text()));
  case Tag::Type:
    return Value(TypeValue{readType(in)});
  case Tag::Tuple: {
    Tuple tuple;
    auto cls = in.number<uint32_t>();
    in.list([&] { tuple.fields.emplace_back(in.text()); });
    if (!readItems(entities, in, depth + 1, tuple.items.edit()))
      return std::nullopt;
    if (cls != nothing) {
      const Entities::Entity *entity = entities.find(cls);
      if (!entity || entity->function)
        return std::nullopt;
      tuple.hostClass = entity->handle;
    }
    return Value(std::move(tuple));
  }
  case Tag::Function: {
    const Entities::Entity *entity = entities.find(in.number<uint32_t>());
    in.text();
    FunctionValue function{entity ? entity->function : nullptr, nullptr};
    if (!function.function || !readSelf(function.self))
      return std::nullopt;
    return Value(std::move(function));
  }
  case Tag::PreludeFunction: {
    FunctionValue function{preludeNamed(in.text()), nullptr};
    if (!function.function || !readSelf(function.self))
      return std::nullopt;
    return Value(std::move(function));
  }
  case Tag::Builtin: {
    BuiltinValue builtin{builtinNamed(in.text()), nullptr};
    if (!builtin.builtin || !readSelf(builtin.self))
      return std::nullopt;
    return Value(std::move(builtin));
  }
  case Tag::Module:
    return Value(ModuleValue{std::string(in.text())});
  case Tag::Object: {
    const Entities::Entity *entity = entities.find(in.number<uint32_t>());
    in.text();
    if (!entity || entity->function)
      return std::nullopt;
    HostObject object{entity->handle, entity->typeName};
    if (!readSelf(object.self))
      return std::nullopt;
    return Value(std::move(object));
  }
  case Tag::Slice: {
    SliceValue slice;
    for (auto *part : {&slice.start, &slice.stop, &slice.step})
      if (in.flag() && !(*part = readShared(entities, in, depth + 1)))
        return std::nullopt;
    return Value(std::move(slice));
  }
  case Tag::Aggregate: {
    Aggregate aggregate;
    auto cls = in.number<uint32_t>();
    std::string name(in.text());
    if (cls == nothing)
      aggregate.cls = classNamed(name);
    else if (const Entities::Entity *entity = entities.find(cls))
      aggregate.cls = entity->cls;
    if (!readItems(entities, in, depth + 1, aggregate.items.edit()) || !aggregate.cls ||
        aggregate.cls->fields().size() != aggregate.items.size())
      return std::nullopt;
    for (size_t i = 0; i < aggregate.items.size(); ++i)
      in.text();
    return Value(std::move(aggregate));
  }
  case Tag::PreludeClass: {
    ClassPtr cls = classNamed(in.text());
    return cls ? std::optional<Value>(ClassValue{cls}) : std::nullopt;
  }
  }
  return std::nullopt;
}

} // namespace

void Entities::writeType(const frontend::Type &type, ByteWriter &out) const {
  out.number(type.scalar);
  out.flag(type.isPointer);
  out.flag(type.isConst);
  out.flag(type.isDescriptor);
  out.flag(type.padsNaN);
  out.flag(type.roundsTF32);
  out.number(type.addressSpace);
  out.list(type.shape, [&](int64_t size) { out.number(size); });
  out.list(type.block, [&](int64_t size) { out.number(size); });
}

std::optional<uint32_t> Entities::numberOf(const Function &function) const {
  auto found = functions.find(identityOf(function));
  return found == functions.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint32_t> Entities::numberOf(uint64_t handle) const {
  auto found = objects.find(handle);
  return found == objects.end() ? std::nullopt : std::optional(found->second);
}

bool Entities::writeFunction(const Function &function, ByteWriter &out, bool known) {
  std::optional<uint32_t> number = numberOf(function);
  if (!number) {
    if (known)
      return false;
    ByteWriter text;
    text.text(function.module().source().text());
    text.number(function.range().begin);
    text.number(function.range().end);
    text.flag(function.noinline);
    text.flag(function.mustUseResult.has_value());
    text.text(function.mustUseResult.value_or(""));
    number = functions[identityOf(function)] = uint32_t(all.size());
    Entity &entity = all.emplace_back();
    entity.function = &function;
    entity.text = Key::of(text.bytes()).hex();
  }
  out.number(*number);
  out.text(all[*number].text);
  return true;
}

bool Entities::writeObject(uint64_t handle, llvm::StringRef typeName, ByteWriter &out, bool known,
                           std::shared_ptr<const Class> cls) {
  std::optional<uint32_t> number = numberOf(handle);
  if (!number) {
    if (known)
      return false;
    number = objects[handle] = uint32_t(all.size());
    Entity &entity = all.emplace_back();
    entity.handle = handle;
    entity.typeName = typeName.str();
  }
  if (cls)
    all[*number].cls = std::move(cls);
  out.number(*number);
  return true;
}

bool Entities::write(const Value &value, ByteWriter &out, bool known) {
  auto writeSelf = [&](const std::shared_ptr<const Value> &self) {
    out.flag(self != nullptr);
    return !self || write(*self, out, known);
  };
  auto writeItems = [&](const std::vector<Value> &items) {
    out.count(items.size());
    return llvm::all_of(items, [&](const Value &item) { return write(item, out, known); });
  };
  if (value.isNone()) {
    out.number(Tag::None);
    return true;
  }
  if (auto *flag = value.getIf<bool>()) {
    out.number(*flag ? Tag::True : Tag::False);
    return true;
  }
  if (auto *integer = value.getIf<llvm::APSInt>()) {
    out.number(Tag::Integer);
    out.number(uint32_t(integer->getBitWidth()));
    out.flag(integer->isUnsigned());
    out.count(integer->getNumWords());
    for (unsigned i = 0; i < integer->getNumWords(); ++i)
      out.number(integer->getRawData()[i]);
    return true;
  }
  if (auto *real = value.getIf<double>()) {
    out.number(Tag::Real);
    out.real(*real);
    return true;
  }
  if (auto *text = value.getIf<std::string>()) {
    out.number(Tag::Text);
    out.text(*text);
    return true;
  }
  if (auto *type = value.getIf<TypeValue>()) {
    out.number(Tag::Type);
    writeType(type->type, out);
    return true;
  }
  if (auto *tuple = value.getIf<Tuple>()) {
    out.number(Tag::Tuple);
    if (!tuple->hostClass)
      out.number(nothing);
    else if (!writeObject(tuple->hostClass, "type", out, known))
      return false;
    out.list(tuple->fields, [&](const std::string &field) { out.text(field); });
    return writeItems(tuple->items);
  }
  if (auto *function = value.getIf<FunctionValue>()) {
    if (function->activation)
      return false;
    if (isPrelude(*function->function)) {
      out.number(Tag::PreludeFunction);
      out.text(function->function->name());
    } else {
      out.number(Tag::Function);
      if (function->function->isPrelude || !writeFunction(*function->function, out, known))
        return false;
    }
    return writeSelf(function->self);
  }
  if (auto *builtin = value.getIf<BuiltinValue>()) {
    if (known && builtinNamed(builtin->builtin->name) != builtin->builtin)
      return false;
    out.number(Tag::Builtin);
    out.text(builtin->builtin->name);
    return writeSelf(builtin->self);
  }
  if (auto *module = value.getIf<ModuleValue>()) {
    out.number(Tag::Module);
    out.text(module->name);
    return true;
  }
  if (auto *object = value.getIf<HostObject>()) {
    out.number(Tag::Object);
    if (!writeObject(object->handle, object->typeName, out, known))
      return false;
    out.text(object->typeName);
    return writeSelf(object->self);
  }
  if (auto *slice = value.getIf<SliceValue>()) {
    out.number(Tag::Slice);
    for (const auto &part : {slice->start, slice->stop, slice->step})
      if (!writeSelf(part))
        return false;
    return true;
  }
  if (auto *aggregate = value.getIf<Aggregate>()) {
    out.number(Tag::Aggregate);
    if (!aggregate->cls->handle()) {
      if (classNamed(aggregate->cls->name()) == nullptr)
        return false;
      out.number(nothing);
    } else if (!writeObject(aggregate->cls->handle(), "type", out, known, aggregate->cls)) {
      return false;
    }
    out.text(aggregate->cls->name());
    if (!writeItems(aggregate->items))
      return false;
    // A class of the host is known by the names of its fields.
    for (const Class::Field &field : aggregate->cls->fields())
      out.text(field.name);
    return true;
  }
  if (auto *cls = value.getIf<ClassValue>()) {
    if (cls->cls->handle() || classNamed(cls->cls->name()) != cls->cls)
      return false;
    out.number(Tag::PreludeClass);
    out.text(cls->cls->name());
    return true;
  }
  return false;
}

std::optional<Value> Entities::read(ByteReader &in) const {
  auto value = readValue(*this, in, 0);
  return value && in.ok() ? std::move(value) : std::nullopt;
}
