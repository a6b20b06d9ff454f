// nereid-parse: parses files and prints what came out, for the comparison with CPython.
//
//   nereid-parse FILE...          one JSON line per node with a position: ["Kind", begin, end]
//   nereid-parse --dump FILE...   the tree as text
//   nereid-parse --check FILE...  nothing but diagnostics
//   nereid-parse --time FILE...   lines per second
//
// Each file's output begins with `== name ok` or `== name failed`; diagnostics follow on stderr.
#include "support/diagnostics.h"
#include "syntax/dump.h"
#include "syntax/parser.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

using namespace nereid;

static void timeAll(const std::vector<SourceFilePtr> &files) {
  using Clock = std::chrono::steady_clock;
  size_t lines = 0, bytes = 0;
  for (const SourceFilePtr &file : files) {
    lines += file->lineCount();
    bytes += file->text().size();
  }
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    auto start = Clock::now();
    for (const SourceFilePtr &file : files) {
      DiagnosticEngine diagnostics;
      syntax::parseModule(file, diagnostics);
    }
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::printf("%zu files, %zu lines, %zu bytes: %.3f ms, %.2f million lines/s, %.0f MB/s\n",
              files.size(), lines, bytes, best * 1e3, double(lines) / best / 1e6,
              double(bytes) / best / 1e6);
}

int main(int argc, char **argv) {
  std::string mode;
  int first = 1;
  if (first < argc && std::string_view(argv[first]).starts_with("--"))
    mode = argv[first++];
  std::vector<SourceFilePtr> files;
  bool ok = true;
  for (int i = first; i < argc; ++i) {
    SourceFilePtr file = SourceFile::read(argv[i]);
    if (!file) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return 2;
    }
    files.push_back(file);
  }
  if (mode == "--time") {
    timeAll(files);
    return 0;
  }
  for (const SourceFilePtr &file : files) {
    DiagnosticEngine diagnostics;
    syntax::ParseResult result = syntax::parseModule(file, diagnostics);
    ok &= result.ok;
    std::printf("== %s %s\n", std::string(file->name()).c_str(), result.ok ? "ok" : "failed");
    std::fputs(diagnostics.renderAll().c_str(), stderr);
    if (mode == "--dump") {
      for (const syntax::Stmt *statement : result.module->body())
        std::printf("%s\n", syntax::dumpText(*statement).c_str());
    } else if (mode != "--check" && result.ok) {
      std::fputs(syntax::dumpRanges(*result.module).c_str(), stdout);
    }
  }
  return ok ? 0 : 1;
}
