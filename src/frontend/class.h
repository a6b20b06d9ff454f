// A class of values that a kernel's author defines: `@triton.aggregate`.
//
// Either the host knows it (a Python class: `handle` names it, its members are asked of the host),
// or its text is read here (`definition`: in the prelude, or in a source file compiled without
// Python). In both cases a value of it is an Aggregate: one item per field, in the order of
// `fields`.
#pragma once

#include "frontend/function.h"
#include "syntax/parser.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <memory>
#include <string>
#include <vector>

namespace nereid::frontend {

class Class;
using ClassPtr = std::shared_ptr<const Class>;

/// How a member of a class is read from a value of it.
enum class MemberKind : uint8_t {
  Plain,    ///< as it is: `@staticmethod`, constants
  Method,   ///< bound to the value
  Property, ///< called with the value
};

class Class {
public:
  struct Field {
    std::string name;
    const syntax::Expr *annotation = nullptr;   ///< null for a class of the host
    const syntax::Expr *defaultValue = nullptr; ///< may be null
    const Class *owner = nullptr;               ///< whose text the expressions stand in
  };
  struct Method {
    std::unique_ptr<Function> function;
    MemberKind kind = MemberKind::Method;
  };

  /// A class of the host.
  Class(uint64_t handle, std::string name, llvm::ArrayRef<std::string> fieldNames);
  /// From its text. `base` may be null.
  Class(syntax::ModulePtr module, const syntax::ClassDef &definition, ClassPtr base,
        bool isPrelude);

  llvm::StringRef name() const { return className; }
  uint64_t handle() const { return hostHandle; }
  llvm::ArrayRef<Field> fields() const { return allFields; }
  /// The position of a field; -1 when there is none.
  int fieldIndex(llvm::StringRef name) const;

  /// Whether the class's text is known here.
  bool hasText() const { return def != nullptr; }
  /// Of a class with a text: its own method, or that of its base; null when there is none.
  const Method *method(llvm::StringRef name) const;
  const syntax::ClassDef &definition() const { return *def; }
  const ClassPtr &base() const { return baseClass; }
  /// Where its text stands: the expressions of a field's type and default are evaluated there.
  const Function &place() const { return *textPlace; }

  /// The same class, although another compilation or conversion may have made the object.
  bool isSame(const Class &other) const;
  /// Of a class with a text: it or one of its bases is `other`.
  bool derivesFrom(const Class &other) const;

private:
  uint64_t hostHandle = 0;
  std::string className;
  const syntax::ClassDef *def = nullptr;
  syntax::ModulePtr owner;
  ClassPtr baseClass;
  std::vector<Field> allFields;
  std::vector<Method> methods;
  std::unique_ptr<Function> textPlace;
};

/// Whether a decorator of the class is `aggregate` (or `_aggregate`).
bool isAggregateClass(const syntax::ClassDef &definition);

} // namespace nereid::frontend
