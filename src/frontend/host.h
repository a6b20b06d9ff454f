// The host resolves names outside of the function's text.
//
// The front end knows the text of a function and the builtin table, nothing else. Globals,
// closures, attributes of foreign objects and calls of foreign functions are the host's: under
// Python they are Python objects; standing alone they are answered from the source file
// (StandaloneHost). The front end stays free of Python.
#pragma once

#include "frontend/value.h"
#include "support/diagnostics.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nereid::frontend {

class Semantic;
class Class;
enum class MemberKind : uint8_t;

/// What went wrong in the host, to be reported at the place that asked.
struct HostError {
  std::string message;
  uint64_t exception =
      0; ///< the host's handle of a pending exception, which becomes the cause; 0 if none
};

template <typename T> struct HostResult {
  std::optional<T> value;
  HostError error; ///< when there is no value
};

/// A member of a class, and how it is read from a value of that class.
struct HostMember {
  Value value;
  MemberKind kind;
};

class Host {
public:
  virtual ~Host() = default;

  /// The meaning of a global or captured name in `function`; no value and an empty message when it
  /// does not exist. The host decides what may be captured (constexprs, functions, modules, types)
  /// and records what it gave out, so that a later launch can check that it has not changed.
  /// `NAME=` asks for the default value of the parameter (or field) NAME of `function`, which was
  /// made where the function was defined; no value and no message: evaluate its expression.
  virtual HostResult<Value> lookup(const Function &function, llvm::StringRef name) = 0;

  /// `object.name`.
  virtual HostResult<Value> getAttribute(const HostObject &object, llvm::StringRef name) = 0;

  /// `object[index]` and `len(object)` for containers of the host.
  virtual HostResult<Value> getItem(const HostObject &object, const Value &index) = 0;

  /// Calls a foreign object: constexpr functions, namedtuple constructors, user builtins.
  /// `semantic` is the way back: while the call lasts, foreign code may enter the builtin table
  /// through it.
  virtual HostResult<Value> call(const HostObject &callee, llvm::ArrayRef<Value> args,
                                 llvm::ArrayRef<std::pair<std::string, Value>> keywords,
                                 Semantic &semantic) = 0;

  /// A member of a class of the host that is no field: methods, static ones, properties, constants.
  virtual HostResult<HostMember> getMember(const Class &cls, llvm::StringRef name) = 0;

  /// Whether a known value is true; for foreign objects Python's bool().
  virtual HostResult<bool> truth(const HostObject &object) = 0;

  /// `a is b` for two foreign objects.
  virtual bool identical(const HostObject &a, const HostObject &b) { return a.handle == b.handle; }

  /// Text of `print` during compilation (static_print).
  virtual void print(llvm::StringRef text) = 0;
};

} // namespace nereid::frontend
