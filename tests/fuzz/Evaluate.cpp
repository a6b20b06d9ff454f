#include "Evaluate.h"

#include "frontend/frontend.h"
#include "frontend/standalone_host.h"
#include "ir/tile/Dialect.h"
#include "syntax/parser.h"

#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cstdlib>
#include <initializer_list>

namespace nereid::fuzz {

using namespace frontend;

namespace {

/// Takes choices out of bytes; zeros when they are used up, which lead to short programs.
class Choices {
public:
  Choices(const uint8_t *data, size_t size) : data(data), left(size) {}
  unsigned below(unsigned count) {
    if (left == 0)
      return 0;
    --left;
    return *data++ % count;
  }
  bool isEmpty() const { return left == 0; }

private:
  const uint8_t *data;
  size_t left;
};

class Writer {
public:
  Writer(const uint8_t *data, size_t size) : choices(data, size) {}

  std::string module() {
    text = "import triton\nimport triton.language as tl\n\n";
    unsigned constants = choices.below(4);
    for (unsigned i = 0; i < constants; ++i)
      text += "G" + std::to_string(i) + " = tl.constexpr(" + known(2) + ")\n";
    unsigned functions = choices.below(4);
    for (unsigned i = 0; i < functions; ++i) {
      text += choices.below(3) ? "\n@triton.jit\n" : "\n@triton.constexpr_function\n";
      text += "def f" + std::to_string(i) + "(a, b=2):\n";
      callable = i + choices.below(2); // itself, too
      block(1, 3, true);
    }
    callable = functions;
    text += "\n@triton.jit\ndef kernel(p, n):\n";
    for (const char *name : {"a", "b", "c"})
      text += std::string("    ") + name + (choices.below(2) ? ": tl.constexpr = " : " = ") +
              known(2) + "\n";
    block(1, 8, false);
    return std::move(text);
  }

private:
  std::string pick(std::initializer_list<const char *> list) {
    return list.begin()[choices.below(unsigned(list.size()))];
  }
  std::string name() { return pick({"a", "b", "c", "d", "e"}); }
  std::string number() {
    return pick({"0", "1", "2", "3", "7", "-1", "64", "1000", "60000", "2**31", "10**9", "1 << 200",
                 "0.5", "1e300", "True"});
  }

  /// An expression of values known during compilation, as far as that can be said.
  std::string known(unsigned depth) {
    if (depth == 0 || choices.isEmpty())
      return choices.below(2) ? number()
                              : pick({"'x'", "()", "(1, 2)", "None", "'{}'", "tl.int32"});
    std::string x = value(depth - 1), y = value(depth - 1);
    switch (choices.below(14)) {
    case 0:
      return "(" + x + pick({" + ", " * ", " - ", " // ", " % ", " ** ", " << ", " >> ", " | "}) +
             y + ")";
    case 1:
      return "(" + x + ", " + y + ")";
    case 2:
      return "(*" + x + ", *" + y + ")";
    case 3:
      return "f'{" + x + pick({"", "!r", "!s", ":>900", ":x", ":.30f", ":e"}) + "}{" + y + "}'";
    case 4:
      return "[" + x + " for i in " + iterable(depth - 1) + "]";
    case 5:
      return "[i for j in " + iterable(0) + " for i in " + y + "]";
    case 6:
      return x + "[" + y + "]";
    case 7:
      return x + "[" + y + ":" + pick({"", "2", "-1", "::-1"}) + "]";
    case 8:
      return pick({"len", "str", "int", "float", "bool", "abs", "tuple", "list", "min"}) + "(" + x +
             ")";
    case 9:
      return pick({"min", "max", "isinstance", "getattr"}) + "(" + x + ", " + y + ")";
    case 10:
      return "(" + x + pick({" == ", " < ", " in ", " is ", " and ", " or ", " != "}) + y + ")";
    case 11:
      return "(" + x + " if " + y + " else " + number() + ")";
    case 12:
      return pick({"-", "~", "not ", "+"}) + x;
    default:
      return call(depth - 1);
    }
  }
  std::string value(unsigned depth) {
    switch (choices.below(5)) {
    case 0:
      return known(depth);
    case 1:
      return "G" + std::to_string(choices.below(3));
    default:
      return name();
    }
  }
  std::string call(unsigned depth) {
    std::string callee = callable ? "f" + std::to_string(choices.below(callable))
                                  : pick({"tl.constexpr", "(lambda a, b: (a, a, b))", "tl.cdiv"});
    return callee + "(" + value(depth) + ", " + value(depth) + ")";
  }
  std::string iterable(unsigned depth) {
    switch (choices.below(4)) {
    case 0:
      return "range(" + number() + ")";
    case 1:
      return "tl.static_range(" + value(depth) + ")";
    case 2:
      return "tl.static_range(" + number() + ")";
    default:
      return value(depth);
    }
  }
  /// Something known only at run time.
  std::string running() {
    return pick({"tl.load(p)", "n", "tl.arange(0, 16)", "tl.load(p + tl.arange(0, 8))",
                 "tl.program_id(0)", "tl.zeros((4, 4), tl.float32)", "tl.sum(tl.arange(0, 4))"});
  }

  void block(unsigned level, unsigned most, bool isFunction) {
    unsigned count = 1 + choices.below(most);
    for (unsigned i = 0; i < count; ++i)
      statement(level, isFunction);
    if (isFunction && level == 1)
      text += "    return " + known(2) + "\n";
  }

  void statement(unsigned level, bool isFunction) {
    std::string indent(4 * level, ' ');
    auto line = [&](const std::string &words) { text += indent + words + "\n"; };
    unsigned choice = choices.below(level < 5 ? 16 : 10);
    switch (choice) {
    case 0:
    case 1:
      return line(name() + " = " + known(3));
    case 2:
      return line(name() + ": tl.constexpr = " + known(2));
    case 3:
      return line(name() + pick({" += ", " *= ", " -= ", " |= "}) + value(1));
    case 4:
      return line(name() + " = " + running());
    case 5:
      return line("tl.store(p, " + value(1) + ")");
    case 6:
      return line(name() + ", " + name() + " = " + known(2));
    case 7:
      return line(call(1));
    case 8:
      return line(pick({"pass", "tl.static_assert(True)", "assert n > 0", "tl.debug_barrier()"}));
    case 9:
      return line("tl.store(p + " + running() + ", " + running() + ")");
    case 10:
    case 11:
      line("for " + name() + " in " + iterable(1) + ":");
      return block(level + 1, 3, isFunction);
    case 12:
      line("for i in range(n):");
      return block(level + 1, 2, isFunction);
    case 13:
      line("if " + (choices.below(2) ? value(1) : "n > " + number()) + ":");
      block(level + 1, 2, isFunction);
      if (choices.below(2)) {
        line("else:");
        block(level + 1, 2, isFunction);
      }
      return;
    case 14:
      line("while n > tl.load(p):");
      return block(level + 1, 2, isFunction);
    default:
      line("if n == " + number() + ":");
      text += indent + "    " + pick({"break", "continue", "return", "pass"}) + "\n";
    }
  }

  Choices choices;
  std::string text;
  unsigned callable = 0; ///< functions that may be called
};

void require(bool condition, const char *what, const std::string &text) {
  if (condition)
    return;
  llvm::errs() << "error: " << what << ":\n" << text << '\n';
  std::abort();
}

} // namespace

std::string programOf(const uint8_t *data, size_t size) {
  llvm::StringRef all(reinterpret_cast<const char *>(data), size);
  if (all.consume_front("text:"))
    return all.str();
  return Writer(data, size).module();
}

void evaluate(const std::string &text, double seconds) {
  auto source = SourceFile::create("fuzz.py", text);
  for (bool strict : {false, true}) {
    auto begin = std::chrono::steady_clock::now();
    DiagnosticEngine diagnostics;
    auto parsed = syntax::parseModule(source, diagnostics);
    if (!parsed)
      return;
    struct QuietHost : StandaloneHost {
      using StandaloneHost::StandaloneHost;
      void print(llvm::StringRef) override {}
    } host(parsed.module);
    const Function *kernel = host.function("kernel");
    if (!kernel || kernel->params().size() != 2)
      return;
    ParamSpec pointer, number;
    pointer.type = Type::pointerTo(DType::Int32);
    number.type = Type::of(DType::Int32);
    FrontendOptions options;
    options.strict = strict;
    options.budget.steps >>= 7;
    options.budget.bytes >>= 4;
    options.budget.operations >>= 6;
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto built = buildTileModule(context, *kernel, {pointer, number}, options, host, diagnostics);
    require(succeeded(built) != diagnostics.hasErrors(), "a result and an error, or neither", text);
    for (const Diagnostic &diagnostic : diagnostics.diagnostics()) {
      require(diagnostic.kind() != DiagKind::Bug, diagnostic.message().c_str(), text);
      render(diagnostic);
      renderTriton(diagnostic);
    }
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    require(took.count() < seconds, "the evaluation took too long", text);
  }
}

} // namespace nereid::fuzz
