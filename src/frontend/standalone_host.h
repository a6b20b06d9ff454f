// The host of a source file alone: what the names in its functions mean without Python.
//
// It knows the file's imports of the language (`import triton.language as tl`, `from
// nereid.language import load`), its other functions that are decorated with `jit` (or
// `constexpr_function`), its classes that are decorated with `aggregate`, and its constants: names
// assigned at the top level, also inside `if` and `try` blocks, whose values are literals,
// `tl.constexpr(...)`, dtypes, tuples and arithmetic of these. As in Python the last definition of
// a name wins. Anything else is an error that says so, at the place that uses the name.
#pragma once

#include "frontend/class.h"
#include "frontend/function.h"
#include "frontend/host.h"

#include "llvm/ADT/StringMap.h"

#include <memory>

namespace nereid::frontend {

class StandaloneHost : public Host {
public:
  explicit StandaloneHost(syntax::ModulePtr module);
  ~StandaloneHost() override;

  /// The function of the file with this name; null when there is none. Lives as long as the host.
  const Function *function(llvm::StringRef name);

  HostResult<Value> lookup(const Function &function, llvm::StringRef name) override;
  HostResult<Value> getAttribute(const HostObject &object, llvm::StringRef name) override;
  HostResult<Value> getItem(const HostObject &object, const Value &index) override;
  HostResult<Value> call(const HostObject &callee, llvm::ArrayRef<Value> args,
                         llvm::ArrayRef<std::pair<std::string, Value>> keywords,
                         Semantic &semantic) override;
  HostResult<HostMember> getMember(const Class &cls, llvm::StringRef name) override;
  HostResult<bool> truth(const HostObject &object) override;
  void print(llvm::StringRef text) override;

private:
  /// What a name was bound to, last.
  struct Definition {
    enum class Kind : uint8_t { Module, Member, Function, Class, Value, Other } kind = Kind::Other;
    std::string module; ///< Module, Member: dotted name
    std::string member;
    const syntax::FunctionDef *function = nullptr;
    const syntax::ClassDef *cls = nullptr;
    const syntax::Expr *value = nullptr;
    std::string what; ///< Other: "a class"
    bool evaluating = false;
    std::optional<HostResult<frontend::Value>> result;
  };

  void scan(const syntax::Node &statement);
  void scanImport(const syntax::Import &node);
  void scanImportFrom(const syntax::ImportFrom &node);
  HostResult<Value> resolve(llvm::StringRef name);
  HostResult<Value> meaning(llvm::StringRef name, Definition &definition);
  HostResult<Value> classValue(const syntax::ClassDef &definition);
  HostResult<Value> evaluate(const syntax::Expr &node);
  HostResult<Value> evaluateCall(const syntax::Call &node);

  syntax::ModulePtr module;
  llvm::StringMap<Definition> names;
  llvm::StringMap<std::unique_ptr<Function>> functions;

  /// Expressions inside each other, those of the names in them included.
  static constexpr unsigned maxDepth = 1200;
  unsigned depth = 0;
};

} // namespace nereid::frontend
