// The interpreter and its host: what lit's kernels cannot show, because a file alone has no foreign
// objects.
#include "Fixture.h"

#include "frontend/standalone_host.h"

namespace nereid::frontend::test {
namespace {

/// A host whose object 1 is a callable that comes back into the builtin table, and whose object 2
/// fails.
struct ObjectHost : StandaloneHost {
  using StandaloneHost::StandaloneHost;

  HostResult<Value> lookup(const Function &function, llvm::StringRef name) override {
    if (name == "foreign")
      return {Value(HostObject{1, "foreign"}), {}};
    if (name == "raises")
      return {Value(HostObject{2, "raises"}), {}};
    if (name == "forbidden")
      return {std::nullopt, {"cannot access global variable forbidden", 0}};
    return StandaloneHost::lookup(function, name);
  }
  HostResult<Value> getAttribute(const HostObject &object, llvm::StringRef name) override {
    if (name == "answer")
      return {Value::integer(int64_t(object.handle) + 41), {}};
    return {};
  }
  HostResult<Value> getItem(const HostObject &, const Value &index) override { return {index, {}}; }
  HostResult<Value> call(const HostObject &callee, llvm::ArrayRef<Value> args,
                         llvm::ArrayRef<std::pair<std::string, Value>> keywords,
                         Semantic &semantic) override {
    if (callee.handle == 2)
      return {std::nullopt, {"ValueError: no", 77}};
    auto sum =
        semantic.binary(BinaryOp::Add, args[0], keywords.empty() ? args[1] : keywords[0].second);
    if (failed(sum))
      return {};
    return {*sum, {}};
  }
  HostResult<bool> truth(const HostObject &object) override { return {object.handle == 1, {}}; }
};

class Interpreting : public ::testing::Test {
protected:
  /// Compiles `kernel(p, n)` of this text: a pointer to int32 and an int32.
  bool compile(const std::string &body) {
    auto source =
        SourceFile::create("kernel.py", "import triton\nimport triton.language as tl\n" + body);
    auto parsed = syntax::parseModule(source, diagnostics);
    if (!parsed)
      return false;
    ObjectHost host(parsed.module);
    ParamSpec pointer, number;
    pointer.type = Type::pointerTo(DType::Int32);
    number.type = Type::of(DType::Int32);
    const Function *kernel = host.function("kernel");
    tile::loadDialects(context);
    auto built = buildTileModule(context, *kernel, {pointer, number}, {}, host, diagnostics);
    if (failed(built))
      return false;
    module = std::move(*built);
    return true;
  }
  std::string text() {
    std::string out;
    llvm::raw_string_ostream stream(out);
    module->print(stream);
    return out;
  }
  std::string firstMessage() {
    return diagnostics.diagnostics().empty() ? "" : diagnostics.diagnostics().front().message();
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  DiagnosticEngine diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(Interpreting, WarnsOfAndBetweenBlocksOnly) {
  ASSERT_TRUE(compile(R"(
@triton.jit
def kernel(p, n):
    i = tl.arange(0, 16)
    m = tl.logical_and(0 <= i < n, tl.logical_or(i > 2, i < 1))
    tl.store(p + i, i, mask=m)
)"));
  EXPECT_EQ(firstMessage(), "");
  ASSERT_TRUE(compile(R"(
@triton.jit
def kernel(p, n):
    i = tl.arange(0, 16)
    tl.store(p + i, i, mask=n > 0 and i > 2)
)"));
  EXPECT_EQ(firstMessage(), "`and` on blocks evaluates both sides, write `&`"); // LogicalOnBlock
  EXPECT_EQ(diagnostics.diagnostics().size(), 1u);
}

TEST_F(Interpreting, WarnsOfValuesThatUnpackingDrops) {
  ASSERT_TRUE(compile(R"(
@triton.jit
def kernel(p, n):
    a, *b = (n, 2, 3)
    tl.store(p, a + b[1])
)"));
  EXPECT_EQ(firstMessage(), "");
  ASSERT_TRUE(compile(R"(
@triton.jit
def kernel(p, n):
    a, b = (n, 2, 3)
    tl.store(p, a + b)
)"));
  EXPECT_EQ(firstMessage(), "3 values for 2 names: the others are dropped"); // UnpackDrops
}

TEST_F(Interpreting, WarnsOfPathsWithoutReturn) {
  ASSERT_TRUE(compile(R"(
@triton.jit
def chosen(n):
    if n > 3:
        return n
    return 0

@triton.jit
def kernel(p, n):
    tl.store(p, chosen(n))
)"));
  EXPECT_EQ(firstMessage(), "");
  ASSERT_TRUE(compile(R"(
@triton.jit
def chosen(n):
    if n > 3:
        return n

@triton.jit
def kernel(p, n):
    tl.store(p, chosen(n))
)"));
  EXPECT_EQ(firstMessage(),
            "`chosen` may end without `return`: its result is undefined then"); // ReturnMissing
}

TEST_F(Interpreting, ForeignCallsComeBackIntoTheRules) {
  ASSERT_TRUE(compile("def kernel(p, n):\n    tl.store(p, foreign(n, right=foreign(1, 2)))\n"))
      << diagnostics.renderAll();
  EXPECT_NE(text().find("arith.constant 3 : i32"), std::string::npos);
  EXPECT_NE(text().find("arith.addi %arg1"), std::string::npos);
}

TEST_F(Interpreting, ForeignAttributesItemsAndTruthAreTheHosts) {
  ASSERT_TRUE(
      compile("def kernel(p, n):\n"
              "    if foreign and not raises and foreign is foreign and foreign is not raises:\n"
              "        tl.store(p, foreign.answer + foreign[5])\n"))
      << diagnostics.renderAll();
  EXPECT_NE(text().find("arith.constant 47 : i32"), std::string::npos);
}

TEST_F(Interpreting, AnExceptionOfTheHostIsTheCause) {
  ASSERT_FALSE(compile("@triton.jit\ndef callee(x):\n    return raises(x)\n"
                       "def kernel(p, n):\n    tl.store(p, callee(n))\n"));
  const Diagnostic &diagnostic = diagnostics.diagnostics().front();
  EXPECT_EQ(diagnostic.id(), DiagId::HostFailed);
  EXPECT_EQ(diagnostic.message(), "ValueError: no");
  EXPECT_EQ(diagnostic.cause(), 77u);
  ASSERT_EQ(diagnostic.notes().size(), 1u);
  EXPECT_EQ(diagnostic.notes()[0].id, DiagId::CalledFromHere);
}

TEST_F(Interpreting, AnErrorOfTheRulesDuringAForeignCallIsReportedOnce) {
  ASSERT_FALSE(compile("def kernel(p, n):\n    foreign(p, 1.5)\n"));
  EXPECT_EQ(diagnostics.errorCount(), 1u);
  EXPECT_NE(diagnostics.diagnostics().front().id(), DiagId::HostFailed);
}

TEST_F(Interpreting, ARefusedNameSaysWhatTheHostSays) {
  ASSERT_FALSE(compile("def kernel(p, n):\n    tl.store(p, forbidden)\n"));
  EXPECT_EQ(firstMessage(), "cannot access global variable forbidden");
}

TEST_F(Interpreting, AnObjectHasOnlyTheHostsAttributes) {
  ASSERT_FALSE(compile("def kernel(p, n):\n    foreign.other\n"));
  EXPECT_EQ(diagnostics.diagnostics().front().id(), DiagId::UnknownAttribute);
}

TEST_F(Interpreting, DepthIsBoundedAcrossCalls) {
  std::string sum;
  for (int i = 0; i < 600; ++i)
    sum += " + 1";
  std::string text = "@triton.jit\ndef g(n, K: tl.constexpr):\n    if K == 0:\n        return n\n"
                     "    return g(n, K - 1)" +
                     sum +
                     "\n"
                     "def kernel(p, n):\n    tl.store(p, g(n, DEPTH))\n";
  EXPECT_TRUE(compile(text + "DEPTH = 3\n")) << diagnostics.renderAll();
  EXPECT_FALSE(compile(text + "DEPTH = 10\n"));
  EXPECT_EQ(diagnostics.diagnostics().front().id(), DiagId::NestingTooDeep);
}

TEST_F(Interpreting, AnnotationsInEverySpelling) {
  auto source = SourceFile::create(
      "f.py",
      "def f(a: tl.constexpr, b: 'tl.constexpr', c: constexpr, d: tl.int64, e: 'i64', g: int,\n"
      "      h: '*fp32', i: tl.pointer_type(tl.float16), j: tl.const, k: 'float32', l: str, *m):\n"
      "    pass\n");
  auto parsed = syntax::parseModule(source, diagnostics);
  ASSERT_TRUE(bool(parsed));
  Function function(parsed.module, parsed.module->findFunction("f"));
  auto params = function.params();
  ASSERT_EQ(params.size(), 12u);
  for (int i : {0, 1, 2})
    EXPECT_TRUE(params[i].isConstexpr) << i;
  EXPECT_EQ(params[3].type, Type::of(DType::Int64));
  EXPECT_EQ(params[4].type, Type::of(DType::Int64));
  EXPECT_EQ(params[5].type, Type::of(DType::Int32));
  EXPECT_EQ(params[6].type, Type::pointerTo(DType::Float32));
  EXPECT_EQ(params[7].type, Type::pointerTo(DType::Float16));
  EXPECT_TRUE(params[8].isConst);
  EXPECT_EQ(params[9].type, Type::of(DType::Float32));
  EXPECT_FALSE(params[10].type.has_value());
  EXPECT_TRUE(params[11].isVararg);
}

} // namespace
} // namespace nereid::frontend::test
