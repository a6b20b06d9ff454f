// The budget of a compilation, made small: what is counted, and what the errors say. With the
// defaults: tests/frontend/budget.py.
#include "Fixture.h"

#include "frontend/standalone_host.h"
#include "ir/tile/Dialect.h"

namespace nereid::frontend::test {
namespace {

class Budgets : public ::testing::Test {
protected:
  /// Compiles `kernel(p, n)`; the diagnostics, rendered, or "ok".
  std::string compile(const std::string &body) {
    auto source =
        SourceFile::create("kernel.py", "import triton\nimport triton.language as tl\n" + body);
    DiagnosticEngine diagnostics;
    auto parsed = syntax::parseModule(source, diagnostics);
    StandaloneHost host(parsed.module);
    ParamSpec pointer, number;
    pointer.type = Type::pointerTo(DType::Int32);
    number.type = Type::of(DType::Int32);
    mlir::MLIRContext context;
    tile::loadDialects(context);
    auto built = buildTileModule(context, *host.function("kernel"), {pointer, number}, options,
                                 host, diagnostics);
    EXPECT_NE(succeeded(built), diagnostics.hasErrors());
    return succeeded(built) ? "ok" : diagnostics.renderAll();
  }
  static bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
  }

  FrontendOptions options;
};

constexpr const char *nested = R"(
@triton.jit
def kernel(p, n):
    for i in tl.static_range(3):
        for j in tl.static_range(200):
            pass
)";

TEST_F(Budgets, CountStepsAndNameTheLoops) {
  EXPECT_EQ(compile(nested), "ok");
  options.budget.steps = 1000;
  std::string text = compile(nested);
  EXPECT_TRUE(contains(text, "error: this compilation takes more than its 1000 steps of "
                             "evaluation: unroll and compute less during compilation, or raise the "
                             "setting `NEREID_COMPILE_BUDGET` (now 1)"))
      << text;
  EXPECT_TRUE(contains(text, " of 200 of this loop, which is unrolled")) << text; // InUnrolledLoop
  EXPECT_TRUE(contains(text, "kernel.py:6:14: note: in iteration 2 of 3 of this loop")) << text;
}

TEST_F(Budgets, CountComprehensionsAndStrings) {
  options.budget.steps = 1000;
  EXPECT_TRUE(contains(compile("@triton.jit\ndef kernel(p, n):\n"
                               "    t = [[0 for i in range(100)] for j in range(100)]\n"),
                       "takes more than its 1000 steps"));
  options.budget = {};
  options.budget.bytes = 1000;
  EXPECT_TRUE(
      contains(compile("@triton.jit\ndef kernel(p, n):\n"
                       "    for i in tl.static_range(100):\n        s = f'{i}' + 'x' * 50\n"),
               "takes more than its 1000 bytes of strings and tuples"));
}

TEST_F(Budgets, CountOperationsOfEveryCall) {
  const char *text = R"(
@triton.jit
def f(p):
    for i in tl.static_range(10):
        tl.store(p + i, i)

@triton.jit
def kernel(p, n):
    f(p)
    f(p)
    f(p)
)";
  EXPECT_EQ(compile(text), "ok");
  options.budget.operations = 80;
  std::string refused = compile(text);
  EXPECT_TRUE(contains(refused, "takes more than its 80 operations: unroll less")) << refused;
  EXPECT_TRUE(contains(refused, "note: a call of `f`, with all that it calls, takes ")) << refused;
}

TEST_F(Budgets, IterationsAreBounded) {
  options.budget.iterations = 10;
  EXPECT_TRUE(contains(compile("@triton.jit\ndef kernel(p, n):\n    for i in tl.static_range(11):\n"
                               "        pass\n"),
                       "a loop that is unrolled may have at most 10 iterations, found 11"));
}

TEST(Items, ShareUntilTheyAreChanged) {
  Value first(Tuple{{Value::integer(1), Value(std::string("x"))}});
  Value second = first;
  EXPECT_EQ(itemsOf(first), itemsOf(second));
  editItemsOf(second)->push_back(Value::integer(3));
  EXPECT_EQ(itemsOf(first)->size(), 2u);
  EXPECT_EQ(itemsOf(second)->size(), 3u);
  EXPECT_GT(second.weight(), first.weight());
}

TEST(Items, WeighAndNestWithoutWalking) {
  Value value(Tuple{{Value::integer(1)}});
  for (int i = 0; i < 200; ++i)
    value = Value(Tuple{{value, value}});
  EXPECT_EQ(value.weight(), UINT64_MAX);
  EXPECT_EQ(value.nesting(), 201u);
}

} // namespace
} // namespace nereid::frontend::test
