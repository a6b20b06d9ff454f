// From source text to a Module: the whole of Python 3.12's grammar, by recursive descent.
#pragma once

#include "support/diagnostics.h"
#include "support/source.h"
#include "syntax/tree.h"

#include <memory>
#include <string_view>
#include <vector>

namespace nereid::syntax {

/// Bump allocation for trees: nothing is freed before the whole.
class Arena {
public:
  Arena() = default;
  Arena(Arena &&) = default;
  Arena &operator=(Arena &&) = default;

  void *allocate(size_t size, size_t alignment);

  template <typename T> T *make() {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T), alignof(T))) T();
  }

  template <typename T> Array<T> copy(const T *data, size_t size) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (size == 0)
      return {};
    T *to = static_cast<T *>(allocate(size * sizeof(T), alignof(T)));
    for (size_t i = 0; i < size; ++i)
      to[i] = data[i];
    return {to, uint32_t(size)};
  }

  std::string_view copy(std::string_view text);

  size_t bytesUsed() const { return used; }

private:
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  std::byte *next = nullptr;
  size_t left = 0;
  size_t used = 0;
};

/// A parsed source file: immutable, owns its tree and keeps its text alive.
class Module {
public:
  const SourceFile &source() const { return *file; }
  const SourceFilePtr &sourcePtr() const { return file; }
  NodeList<Stmt> body() const { return statements; }
  SourceSpan span(const Node &node) const { return {*file, node.range}; }
  SourceSpan span(SourceRange range) const { return {*file, range}; }

  /// The function called `name`, looked for at the top level and inside its `if`, `try` and `with`
  /// blocks; the last one wins, as in Python. A dotted name goes through classes and functions:
  /// `Outer.method`, `make.<locals>.kernel`. Null when there is none.
  const FunctionDef *findFunction(std::string_view name) const;
  /// The function whose `def` (or first decorator, which is what Python's co_firstlineno names) is
  /// on this line of the original file, at any depth. Null when there is none.
  const FunctionDef *functionAtLine(uint32_t line) const;

private:
  friend class Parser;
  explicit Module(SourceFilePtr file) : file(std::move(file)) {}

  SourceFilePtr file;
  Arena arena;
  NodeList<Stmt> statements;
};

using ModulePtr = std::shared_ptr<const Module>;

struct ParseResult {
  /// Never null. With errors, it holds the statements that could be parsed.
  ModulePtr module;
  /// True when no error was reported.
  bool ok = false;

  explicit operator bool() const { return ok; }
};

/// Parses a whole module. Problems go to `diagnostics`, several of them when they are independent.
ParseResult parseModule(const SourceFilePtr &source, DiagnosticEngine &diagnostics);

struct ParsedExpression {
  ModulePtr module;                 ///< owns the expression
  const Expr *expression = nullptr; ///< null when there were errors
};

/// Parses one expression, for instance an annotation given as a string.
ParsedExpression parseExpression(const SourceFilePtr &source, DiagnosticEngine &diagnostics);

} // namespace nereid::syntax
