// A function written in the language: its tree, and what its `def` line says about its parameters.
//
// Annotations and decorators are read by their spelling (`tl.constexpr`, `constexpr`,
// "tl.constexpr"), so that a Function can be made without asking a host anything. A Function is
// immutable and may be shared by compilations; its owner keeps it alive as long as any value refers
// to it.
#pragma once

#include "frontend/types.h"
#include "syntax/parser.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace nereid::frontend {

/// One parameter of a function of the language.
struct FunctionParam {
  llvm::StringRef name;
  const syntax::Arg *node = nullptr;
  bool isConstexpr = false; ///< annotated `constexpr`, in any spelling
  bool isConst = false;     ///< `tl.const`: a pointer that is only read through
  bool isVararg = false;    ///< `*args`
  bool keywordOnly = false;
  /// `x: tl.int64`, "i64", `int`, "*fp32", `tl.pointer_type(tl.float32)`: the type is forced.
  std::optional<Type> type;

  bool hasDefault() const { return node->defaultValue != nullptr; }
};

/// That a kernel computes tangents beside its results, or gradients in place of them
/// (differentiate/Differentiate.h). Tangents and gradients are further parameters, after those of
/// the function.
struct Derivative {
  struct Item {
    unsigned parameter;  ///< whose tangent it is, among those that there are so far
    std::string tangent; ///< its parameter's name
    bool isInput = false, isOutput = false;
    bool isPartial = false; ///< a gradient that is given as partial sums
    /// Of no parameter: memory that the steps of a gradient share, and the number of the step.
    bool isSaved = false, isStep = false;
  };
  std::vector<Item> items;
  bool isReverse = false;  ///< gradients, from those of the outputs to those of the inputs
  bool hasOutputs = false; ///< of gradients: everything that the function writes is written, too

  /// With partial sums, the parameters behind the tangents: the length of each row, then the
  /// numbers of programs along the three axes.
  std::vector<std::pair<std::string, DType>> launchParameters() const;
  /// Identifies it.
  std::string text() const;
};

class Function {
public:
  /// `hostData` is handed to the host unread: the Python function, for instance.
  Function(syntax::ModulePtr module, const syntax::FunctionDef *definition,
           void *hostData = nullptr);
  /// A `lambda`.
  Function(syntax::ModulePtr module, const syntax::Lambda *lambda, void *hostData);
  /// No function but the place where the expressions of a class stand: fields' types and defaults.
  Function(syntax::ModulePtr module, const syntax::ClassDef *place);

  llvm::StringRef name() const { return functionName; }
  /// The statements of a `def`; empty for a `lambda`, whose result is `expression`.
  syntax::NodeList<syntax::Stmt> body() const { return statements; }
  const syntax::Expr *expression() const { return result; }
  /// The text from `def` to the end.
  SourceRange range() const { return textRange; }
  const syntax::Module &module() const { return *owner; }
  const syntax::ModulePtr &modulePtr() const { return owner; }
  llvm::ArrayRef<FunctionParam> params() const { return parameters; }
  void *hostData() const { return data; }
  SourceSpan span() const { return owner->span(nameRange); }

  /// `@jit(noinline=True)`.
  bool noinline = false;
  /// Part of the prelude: its global names are the prelude's and `tl`'s, not the host's.
  bool isPrelude = false;
  /// Made with `@must_use_result`: a call whose result is dropped is an error, which this text
  /// ends.
  std::optional<std::string> mustUseResult;
  /// Of a kernel: each differentiates what those before it have made of the kernel, and has
  /// parameters after theirs.
  std::vector<Derivative> derivatives;
  /// Identifies the derivatives.
  std::string derivativeText() const;
  /// A `**kwargs` parameter, or parameters that cannot be called: refused where the function is
  /// called.
  bool hasKwarg = false;

private:
  void addParameters(const syntax::Arguments &arguments);

  syntax::ModulePtr owner;
  syntax::NodeList<syntax::Stmt> statements;
  const syntax::Expr *result = nullptr;
  SourceRange textRange, nameRange;
  void *data = nullptr;
  llvm::StringRef functionName;
  std::vector<FunctionParam> parameters;
};

/// What a decorator is, by the last part of its name: `@triton.jit`, `@nereid.jit(debug=True)`,
/// `@jit`.
enum class Decorator : uint8_t { Jit, Autotune, Heuristics, ConstexprFunction, Other };
Decorator decoratorKind(const syntax::Expr &decorator);
/// Whether any decorator is `jit`.
bool isJitFunction(const syntax::FunctionDef &definition);
/// Whether an annotation means `constexpr`, in any spelling, string literals included.
bool isConstexprAnnotation(const syntax::Expr *annotation);

} // namespace nereid::frontend
