// Shared by the syntax tests: parse a text, expect it to be valid, look at the tree.
#pragma once

#include "syntax/dump.h"
#include "syntax/parser.h"

#include <gtest/gtest.h>

#include <string>

namespace nereid::syntax {

inline ModulePtr parseValid(std::string text, SourceOrigin origin = {}) {
  DiagnosticEngine diagnostics;
  ParseResult result =
      parseModule(SourceFile::create("k.py", std::move(text), origin), diagnostics);
  EXPECT_TRUE(result.ok) << diagnostics.renderAll();
  return result.module;
}

/// The statements as text, one line each.
inline std::string dump(std::string text) {
  ModulePtr module = parseValid(std::move(text));
  std::string out;
  for (const Stmt *statement : module->body())
    out += (out.empty() ? "" : "\n") + dumpText(*statement);
  return out;
}

/// The only expression of the text.
inline std::string dumpExpr(std::string text) {
  ModulePtr module = parseValid(std::move(text));
  if (module->body().size() != 1 || !isa<ExprStmt>(module->body()[0]))
    return "not one expression";
  return dumpText(*cast<ExprStmt>(module->body()[0])->value);
}

/// The text that a node's range covers.
inline std::string_view textOf(const Module &module, const Node &node) {
  return module.source().text(node.range);
}

/// The names of the reported diagnostics with their line, "ExpectedColon@3 ...".
inline std::string errorsOf(std::string text) {
  DiagnosticEngine diagnostics;
  auto file = SourceFile::create("k.py", std::move(text));
  parseModule(file, diagnostics);
  std::string out;
  for (const Diagnostic &diagnostic : diagnostics.diagnostics()) {
    out += out.empty() ? "" : " ";
    out += diagnostic.name();
    out += '@' + std::to_string(file->position(diagnostic.range().begin).line);
  }
  return out;
}

} // namespace nereid::syntax
