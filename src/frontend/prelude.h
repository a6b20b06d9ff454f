// The prelude: functions of `tl` that are written in the language itself (src/prelude/*.py), and
// classes of values (block pointers).
//
// The text is embedded in the library and parsed once per process; the trees are immutable and
// shared by all compilations. A name in a prelude function means: another name of the prelude, else
// `tl` and its members.
#pragma once

#include "frontend/class.h"
#include "frontend/value.h"
#include "syntax/parser.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace nereid::frontend {

struct PreludeFunction {
  std::string name; ///< as written after `def`; helpers begin with an underscore
  std::string doc;  ///< docstring
  const char *file; ///< "reduce.py": the family, heading of the reference page
  const syntax::FunctionDef *definition;
  syntax::ModulePtr module;
  const Function *function; ///< what the interpreter calls
  bool isMethod = false;    ///< also a member function of tensors
};

/// All of them, sorted by name.
llvm::ArrayRef<PreludeFunction> allPreludeFunctions();
/// Null when there is none.
const PreludeFunction *findPrelude(llvm::StringRef name);

/// A class of the prelude, made with `@aggregate`: values of the library that have no need of
/// Python. Null when there is none.
ClassPtr findPreludeClass(llvm::StringRef name);

/// What a global name means inside a function of the prelude.
std::optional<Value> lookupInPrelude(llvm::StringRef name);

} // namespace nereid::frontend
