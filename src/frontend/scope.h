// What the names of one function mean at one point of its body, and which ways out are pending.
//
// A Scope is copied where control flow may split (`if`, loops), the copies are walked, and joined
// again by the interpreter (control_flow.cpp).
//
// Ways out. `return`, `break` and `continue` under a run-time condition cannot end the walk: the
// path that left and the path that goes on meet again in the structured IR. So each is a Flag:
// never happened, always happened on the paths that lead here, or a run-time i1. While a flag is
// a run-time value, the remaining statements are walked inside `scf.if not flag`.
#pragma once

#include "frontend/value.h"
#include "support/source.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"

namespace nereid::frontend {

/// Whether a way out was taken on the paths that lead here.
struct Flag {
  enum class Kind : uint8_t { Never, Always, Runtime } kind = Kind::Never;
  mlir::Value value; ///< of the run: an i1

  bool never() const { return kind == Kind::Never; }
  bool always() const { return kind == Kind::Always; }
  bool runtime() const { return kind == Kind::Runtime; }
  static Flag always_() { return {Kind::Always, {}}; }
  static Flag of(mlir::Value value) { return {Kind::Runtime, value}; }
};

struct Binding {
  Value value;
  uint64_t id = 0;       ///< new with every assignment: tells whether a branch assigned the name
  bool constant = false; ///< declared `: tl.constexpr` with a value known during compilation
  SourceSpan span;       ///< where it was assigned
  /// Where it was declared: a constant can only be assigned again where the declaration is sure to
  /// have run and nothing is merged.
  mlir::Block *block = nullptr;
};

/// Why a name that was assigned above means nothing here.
struct Gone {
  enum class Why : uint8_t { OneBranch, LoopBody } why;
  SourceSpan assigned;  ///< where it was assigned
  SourceSpan construct; ///< the `if` or loop
};

struct Scope {
  llvm::MapVector<llvm::StringRef, Binding> names;
  llvm::MapVector<llvm::StringRef, Gone> gone;
  /// Names declared by a bare `x: tl.constexpr`: their first assignment binds a constant.
  llvm::SmallVector<llvm::StringRef, 2> declared;

  Flag returned, broke, continued;
  /// Every path that leads here left by one of the flags: what follows is not walked.
  bool done = false;
  /// The value of `return` on the paths that returned; unset while none did.
  std::optional<Value> result;
  SourceSpan resultSpan;
  /// A value on its way out of a branch: the arms of `a if c else b`.
  std::optional<Value> carried;

  bool leavesLoop() const { return !broke.never() || !continued.never(); }
  bool mayHaveLeft() const { return returned.runtime() || broke.runtime() || continued.runtime(); }

  const Binding *find(llvm::StringRef name) const {
    auto it = names.find(name);
    return it == names.end() ? nullptr : &it->second;
  }
};

} // namespace nereid::frontend
