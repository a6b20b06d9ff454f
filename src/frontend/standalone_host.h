// The host of a source file alone: what the names in its functions mean without Python.
//
// The statements at the top level are gone through once, in order, as Python would run them. The
// host knows the file's imports of the language (`import triton.language as tl`, `from
// nereid.language import load`), its functions that are decorated with `jit` (or
// `constexpr_function`), its classes that are decorated with `aggregate`, and its constants: names
// whose values are literals, `tl.constexpr(...)`, dtypes, tuples and arithmetic of these. A
// function sees what a name means at the end of the file; the default value of a parameter is what
// it was where the function stands. Of an `if` whose condition is known one side runs. Where a
// condition is not known, and where a `try` may fail, all sides are gone through; a name that they
// set in different ways is not known afterwards, nor is what a loop, `global`, `globals()`, `exec`
// or a call may have changed. The use of an unknown name is an error at its place.
#pragma once

#include "frontend/class.h"
#include "frontend/function.h"
#include "frontend/host.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <memory>

namespace nereid::frontend {

class StandaloneHost : public Host {
public:
  explicit StandaloneHost(syntax::ModulePtr module);
  ~StandaloneHost() override;

  /// The function that this name is bound to at the end of the file; null when there is none. Lives
  /// as long as the host.
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
  /// What a name is bound to.
  struct Binding {
    enum class Kind : uint8_t { Module, Member, Function, Class, Value } kind = Kind::Value;
    std::string module; ///< Module, Member: dotted name
    std::string member;
    const syntax::FunctionDef *function = nullptr;
    const syntax::ClassDef *cls = nullptr;
    HostResult<frontend::Value> value; ///< Class, Value; an error when it is not known
    bool isList = false;               ///< made by a list display, so that calls may change it

    bool isSame(const Binding &other) const;
  };
  /// Names, and what they are bound to; nothing for names without a value.
  using Changes = llvm::StringMap<std::optional<Binding>>;

  /// Collects the names of the file that functions may change.
  void collectChangeable(const syntax::Node &node, const syntax::Node *function);
  void collectStored(const syntax::Node &target);

  void bind(llvm::StringRef name, std::optional<Binding> binding);
  void bindUnknown(llvm::StringRef name, std::string what);
  std::optional<Binding> current(llvm::StringRef name) const;
  bool listNamed(const syntax::Name &name) const;
  /// Whether the value of `node` is a list or holds one, as far as it can be known.
  bool holdsList(const syntax::Node &node) const;
  /// Forgets the lists that are named anywhere in `node`, since they get a second name, or go to
  /// code that may change them; answers whether there was one.
  bool forgetLists(const syntax::Node &node, llvm::StringRef what);

  /// Goes through `statements` and undoes what they did; answers what it was.
  Changes branch(llvm::function_ref<void()> statements);
  void apply(const Changes &path);
  /// The names of `path` may have been bound, in part.
  void forgetNames(const Changes &path, llvm::StringRef what);
  /// One of `paths` was taken in `construct`.
  void join(llvm::ArrayRef<Changes> paths, const syntax::Node &construct);
  std::string lineOf(const syntax::Node &node) const;

  void run(const syntax::Node &statement);
  void runImport(const syntax::Import &node);
  void runImportFrom(const syntax::ImportFrom &node);
  void runFunction(const syntax::FunctionDef &node);
  void runClass(const syntax::ClassDef &node);
  void runAssign(const syntax::Assign &node);
  void runAugAssign(const syntax::AugAssign &node);
  void runIf(const syntax::If &node);
  void runTry(const syntax::UnsupportedStmt &node);
  void runEffects(const syntax::Node &node);
  void runWith(const syntax::With &node);
  void assign(const syntax::Expr &target, HostResult<Value> value, bool isList);
  void noteDefaults(const syntax::FunctionDef &node);
  /// The names that the target of an assignment binds or changes.
  void forget(const syntax::Node &target, llvm::StringRef what);
  /// All names that are bound anywhere in a statement.
  void forgetBound(const syntax::Node &statement, llvm::StringRef what);

  const Function &functionOf(const syntax::FunctionDef &definition);
  HostResult<Value> resolve(llvm::StringRef name);
  HostResult<Value> classValue(const syntax::ClassDef &definition);
  HostResult<Value> evaluate(const syntax::Expr &node);
  HostResult<Value> evaluateCall(const syntax::Call &node);

  syntax::ModulePtr module;
  llvm::StringMap<Binding> names;
  llvm::StringMap<std::string> changeable; ///< by functions: what makes them so
  llvm::StringSet<> changeableLists;       ///< named in functions that may change them
  std::string everyValue;                  ///< why every value may change, if so
  Changes *changes = nullptr; ///< what the innermost branch has changed, as it was before
  /// Whether a statement since this was false may end with an exception.
  bool mayRaise = false;
  llvm::DenseMap<const syntax::FunctionDef *, std::unique_ptr<Function>> functions;
  /// Values of parameters and fields that are not given, by where the function or class begins.
  llvm::DenseMap<uint32_t, llvm::StringMap<HostResult<Value>>> defaults;

  static constexpr uint64_t maxConstantBytes = uint64_t(1) << 26;
  uint64_t constantBytes = 0;
};

} // namespace nereid::frontend
