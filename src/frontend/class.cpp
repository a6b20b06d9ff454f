#include "frontend/class.h"

#include "llvm/ADT/STLExtras.h"

namespace nereid::frontend {

using namespace nereid::syntax;

static llvm::StringRef lastName(const Expr *expr) {
  if (auto *call = dynCast<Call>(expr))
    expr = call->func;
  if (auto *name = dynCast<Name>(expr))
    return name->id;
  if (auto *attribute = dynCast<Attribute>(expr))
    return attribute->name;
  return {};
}

bool isAggregateClass(const ClassDef &definition) {
  return llvm::any_of(definition.decorators, [](const Expr *decorator) {
    llvm::StringRef name = lastName(decorator);
    return name == "aggregate" || name == "_aggregate";
  });
}

Class::Class(uint64_t handle, std::string name, llvm::ArrayRef<std::string> fieldNames)
    : hostHandle(handle), className(std::move(name)) {
  for (const std::string &field : fieldNames)
    allFields.push_back({field});
}

Class::Class(ModulePtr module, const ClassDef &definition, ClassPtr base, bool isPrelude)
    : className(definition.name), def(&definition), owner(std::move(module)),
      baseClass(std::move(base)) {
  textPlace = std::make_unique<Function>(owner, def);
  textPlace->isPrelude = isPrelude;
  if (baseClass)
    allFields = baseClass->allFields;
  for (const Stmt *statement : definition.body) {
    if (auto *field = dynCast<AnnAssign>(statement)) {
      auto *name = dynCast<Name>(field->target);
      if (!name)
        continue;
      Field entry{std::string(name->id), field->annotation, field->value, this};
      int known = fieldIndex(entry.name);
      if (known < 0)
        allFields.push_back(std::move(entry));
      else
        allFields[known] = std::move(entry);
      continue;
    }
    auto *function = dynCast<FunctionDef>(statement);
    if (!function)
      continue;
    Method method{std::make_unique<Function>(owner, function), MemberKind::Method};
    method.function->isPrelude = isPrelude;
    for (const Expr *decorator : function->decorators) {
      if (lastName(decorator) == "staticmethod")
        method.kind = MemberKind::Plain;
      else if (lastName(decorator) == "property")
        method.kind = MemberKind::Property;
    }
    methods.push_back(std::move(method));
  }
}

int Class::fieldIndex(llvm::StringRef name) const {
  for (size_t i = 0; i < allFields.size(); ++i)
    if (allFields[i].name == name)
      return int(i);
  return -1;
}

const Class::Method *Class::method(llvm::StringRef name) const {
  for (const Class *cls = this; cls; cls = cls->baseClass.get())
    for (const Method &method : llvm::reverse(cls->methods))
      if (method.function->name() == name)
        return &method;
  return nullptr;
}

bool Class::isSame(const Class &other) const {
  return this == &other || (hostHandle && hostHandle == other.hostHandle) ||
         (def && def == other.def);
}

bool Class::derivesFrom(const Class &other) const {
  for (const Class *cls = this; cls; cls = cls->baseClass.get())
    if (cls->isSame(other))
      return true;
  return false;
}

} // namespace nereid::frontend
