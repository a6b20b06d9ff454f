// Any bytes at all: the parser answers with a tree or with diagnostics, never with a crash.
//
//   cmake --preset fuzz && cmake --build --preset fuzz --target parse_fuzzer
//   build/fuzz/tests/fuzz/parse_fuzzer -max_total_time=60 FOLDER_OF_PYTHON_FILES
#include "syntax/dump.h"
#include "syntax/parser.h"

#include <cstdint>
#include <cstdlib>

using namespace nereid;

static void require(bool condition) {
  if (!condition)
    std::abort();
}

static void check(const syntax::Node &node, size_t size) {
  require(node.range.begin <= node.range.end && node.range.end <= size);
  syntax::forEachChild(node, [&](const syntax::Node &child) {
    require(child.height < node.height);
    check(child, size);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto source =
      SourceFile::create("fuzz.py", std::string(reinterpret_cast<const char *>(data), size));
  DiagnosticEngine diagnostics;
  syntax::ParseResult result = syntax::parseModule(source, diagnostics);
  require(result.ok == !diagnostics.hasErrors());
  for (const Diagnostic &diagnostic : diagnostics.diagnostics()) {
    require(diagnostic.kind() != DiagKind::Bug);
    require(diagnostic.range().end <= size);
    render(diagnostic);
    renderTriton(diagnostic);
  }
  for (const syntax::Stmt *statement : result.module->body()) {
    check(*statement, size);
    syntax::dumpText(*statement);
  }
  return 0;
}
