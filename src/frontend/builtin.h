// The builtin table: every `tl.*` function that is not written in the language itself, described
// once.
//
// A row gives the signature in Python's own notation, the documentation, and the function that
// builds the IR. From the rows come the dispatch here, the Python module with docstrings, its .pyi
// stub, and the reference page (the generator is src/faces/generate). A new elementwise function is
// one row and one test.
//
// Rows stand in builtins/*.cpp, one file per family, as a list of
//
//   {.name = "program_id", .signature = "(axis)", .doc = R"(...)", .build = &programId},
//
// and builtins/families.def names the lists.
#pragma once

#include "frontend/value.h"
#include "support/source.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <string>
#include <vector>

namespace nereid::frontend {

class Semantic;

/// The arguments of a call, bound to the row's parameters: one value per parameter, defaults filled
/// in.
class BoundArgs {
public:
  BoundArgs(const Builtin &builtin, std::vector<Value> values, SourceSpan call,
            std::vector<SourceSpan> spans);
  const Value &operator[](llvm::StringRef parameter) const;
  const Value &operator[](size_t index) const { return values[index]; }
  /// Where the argument stands in the source, or the call itself for a default.
  SourceSpan span(llvm::StringRef parameter) const;
  SourceSpan call() const { return callSpan; }
  /// The row that is being called.
  const Builtin &row() const { return builtin; }

private:
  const Builtin &builtin;
  std::vector<Value> values;
  SourceSpan callSpan;
  std::vector<SourceSpan> spans;
};

/// An argument as the interpreter evaluated it. The span may be empty.
struct Argument {
  Value value;
  SourceSpan span;
};
struct KeywordArgument {
  std::string name;
  Value value;
  SourceSpan span;
};

/// Failure means that a diagnostic has been reported.
using BuildFn = llvm::FailureOr<Value> (*)(Semantic &, const BoundArgs &);

struct Builtin {
  const char *name;      ///< "load"; "math.exp" is an alias listed in `aliases`
  const char *signature; ///< "(pointer, mask=None, other=None, ...)", defaults are Python literals
  const char *doc = "";  ///< docstring: what it does, shapes, dtypes, errors
  BuildFn build = nullptr;
  bool isMethod = false;     ///< also a member function of tensors, first parameter is the tensor
  const char *category = ""; ///< heading of the reference page
  std::vector<const char *> aliases = {}; ///< further names: "math.exp"
  const char *row =
      ""; ///< data of generic builders: the operation an elementwise function stands for
  const char *dtypes =
      ""; ///< what the first argument may be, for the test matrix: "fp32 fp64", "ints"...
  /// A call whose result is dropped is an error, which this text ends.
  const char *mustUseResult = nullptr;
};

/// One parameter of a signature.
struct Parameter {
  std::string name;
  Value defaultValue;
  bool hasDefault = false;
  bool isVararg = false;    ///< `*name`: takes the rest as a tuple
  bool keywordOnly = false; ///< after `*name`
  bool isKwarg = false;     ///< `**name`: takes the other keywords as a named tuple
};
/// The parameters of a row, parsed once per process from its signature.
llvm::ArrayRef<Parameter> parametersOf(const Builtin &builtin);

/// Binds the arguments (missing, surplus, unknown and duplicate ones are reported) and builds the
/// row's IR. `self` is the tensor of a member function, or null.
llvm::FailureOr<Value> callBuiltin(Semantic &semantic, const Builtin &builtin, const Value *self,
                                   llvm::ArrayRef<Argument> args,
                                   llvm::ArrayRef<KeywordArgument> keywords, SourceSpan call);

/// All rows, sorted by name; built once per process.
llvm::ArrayRef<Builtin> allBuiltins();
/// By name ("load", "math.exp"); null when there is none.
const Builtin *findBuiltin(llvm::StringRef name);

} // namespace nereid::frontend
