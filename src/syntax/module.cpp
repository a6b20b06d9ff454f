// The arena of a module, and finding functions in it.
#include "syntax/parser.h"

#include <algorithm>
#include <cstring>

namespace nereid::syntax {

void *Arena::allocate(size_t size, size_t alignment) {
  auto address = reinterpret_cast<uintptr_t>(next);
  size_t padding = size_t(-address) & (alignment - 1);
  if (padding + size > left) {
    // Small sources stay small; big ones take few blocks.
    size_t block = std::max(size + alignment, std::clamp<size_t>(used, 4096, 1 << 20));
    blocks.push_back(std::make_unique_for_overwrite<std::byte[]>(block));
    next = blocks.back().get();
    left = block;
    padding = size_t(-reinterpret_cast<uintptr_t>(next)) & (alignment - 1);
  }
  void *result = next + padding;
  next += padding + size;
  left -= padding + size;
  used += padding + size;
  return result;
}

std::string_view Arena::copy(std::string_view text) {
  if (text.empty())
    return {};
  char *to = static_cast<char *>(allocate(text.size(), 1));
  std::memcpy(to, text.data(), text.size());
  return {to, text.size()};
}

namespace {

/// Calls `f` for the definitions of one scope: those in `statements` and in the blocks of their
/// `if`, `for`, `while`, `with`, `try`, `match`.
template <typename F> void forEachDefinition(const Node &node, F &&f) {
  if (isa<FunctionDef>(node) || isa<ClassDef>(node)) {
    f(node);
    return;
  }
  if (auto *other = dynCast<UnsupportedStmt>(&node); other && other->astName == "AsyncFunctionDef")
    return;
  if (isa<Expr>(node))
    return;
  forEachChild(node, [&](const Node &child) { forEachDefinition(child, f); });
}

template <typename F> void forEachDefinition(NodeList<Stmt> statements, F &&f) {
  for (const Stmt *statement : statements)
    forEachDefinition(*statement, f);
}

NodeList<Stmt> bodyOf(const Node &definition) {
  if (auto *function = dynCast<FunctionDef>(&definition))
    return function->body;
  return cast<ClassDef>(&definition)->body;
}

std::string_view nameOf(const Node &definition) {
  if (auto *function = dynCast<FunctionDef>(&definition))
    return function->name;
  return cast<ClassDef>(&definition)->name;
}

/// The last definition of the dotted path; earlier parts may be classes or functions.
const FunctionDef *find(NodeList<Stmt> statements, std::string_view path) {
  constexpr std::string_view locals = "<locals>.";
  if (path.starts_with(locals))
    path.remove_prefix(locals.size());
  size_t dot = path.find('.');
  std::string_view first = path.substr(0, dot);
  const FunctionDef *result = nullptr;
  forEachDefinition(statements, [&](const Node &definition) {
    if (nameOf(definition) != first)
      return;
    if (dot != std::string_view::npos) {
      if (auto *inner = find(bodyOf(definition), path.substr(dot + 1)))
        result = inner;
    } else {
      result = dynCast<FunctionDef>(&definition);
    }
  });
  return result;
}

} // namespace

const FunctionDef *Module::findFunction(std::string_view name) const {
  return find(statements, name);
}

const FunctionDef *Module::functionAtLine(uint32_t line) const {
  std::optional<uint32_t> index = file->indexOfLine(line);
  if (!index)
    return nullptr;
  const FunctionDef *result = nullptr;
  auto search = [&](auto &self, NodeList<Stmt> body) -> void {
    forEachDefinition(body, [&](const Node &definition) {
      if (auto *function = dynCast<FunctionDef>(&definition)) {
        uint32_t def = file->lineIndex(function->range.begin);
        uint32_t first = def;
        if (!function->decorators.empty())
          first = file->lineIndex(function->decorators.front()->range.begin);
        if (*index == def || *index == first)
          result = function;
      }
      self(self, bodyOf(definition));
    });
  };
  search(search, statements);
  return result;
}

} // namespace nereid::syntax
