// Random damage to valid sources: whatever comes out, the parser must answer with a tree or with
// diagnostics, and every range must lie in the source. Deterministic; tests/fuzz goes further.
#include "parse.h"

#include <random>

using namespace nereid;
using namespace nereid::syntax;

namespace {

const char *const seeds[] = {
    R"(import triton
import triton.language as tl

@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr = 64, *args, key=None, **rest):
    """Doc."""
    pid = tl.program_id(axis=0)
    offs = (pid * BLOCK + tl.arange(0, BLOCK))[:, None]
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK), num_stages=3):
        a = tl.load(a_ptr + offs, mask=offs < M and not k, other=0.0)
        acc += tl.dot(a, a) if k % 2 == 0 else -a ** 2
        if acc is not None:
            break
        elif k >= 1_000:
            continue
        else:
            x: tl.constexpr = 0xFF
    while (n := n - 1) > 0: pass
    with region("name") as r, other():
        tl.store(c_ptr + offs, acc.to(tl.float16)[::2, 1:], mask=offs < N)
    assert K > 0, f"K is {K!r:>{N}} and {M=}" 'joined'
    return lambda x, *y: [i for i in x if i], {1: 2, **rest}, {*args}
)",
    "class A(B, metaclass=C):\n    x: int = 3\n    def f(self): yield self\n"
    "try:\n    import a.b as c\nexcept (E, F) as e:\n    raise X from e\nelse:\n    del a[0]\n"
    "finally:\n    pass\nmatch x:\n    case {'a': [1, *_], **r} | P(k=1) if z: pass\n"
    "    case -1 + 2j as n: pass\nasync def g():\n    async with a as b:\n"
    "        await c\n    async for i in j: pass\ntype T[U: int, *V, **W] = list\n",
};

const char *const pieces[] = {"(",  ")",    "[",    "]",     "{",        "}",  ":",       ",",
                              "=",  "\n",   "\t",   "    ",  "'",        "\"", "\"\"\"",  "f'",
                              "\\", "#",    "if ",  "def ",  "*",        "**", ":=",      "0x",
                              "1e", "not ", " in ", "else ", "\xC3\xA9", "\r", "lambda ", "for ",
                              "@",  "->",   "!",    "case ", ";",        "\f", "."};

/// Every node's range lies inside of the source, and inside of its parent's (decorators aside).
void checkRanges(const Module &module, const Node &node) {
  ASSERT_LE(node.range.begin, node.range.end);
  ASSERT_LE(node.range.end, module.source().text().size());
  ASSERT_GE(node.height, 1);
  ASSERT_LE(node.height, maxTreeDepth);
  forEachChild(node, [&](const Node &child) {
    ASSERT_LT(child.height, node.height);
    checkRanges(module, child);
  });
}

} // namespace

TEST(Mutation, NeverBreaksTheParser) {
  std::mt19937 random(20240117);
  auto pick = [&](size_t n) { return size_t(random() % n); };
  size_t valid = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = seeds[pick(std::size(seeds))];
    for (size_t edits = 1 + pick(4); edits--;) {
      size_t at = pick(text.size() + 1);
      switch (pick(5)) {
      case 0: // cut a stretch
        text.erase(at, pick(20));
        break;
      case 1: // cut the rest
        if (pick(4) == 0)
          text.resize(at);
        break;
      case 2: // move a stretch
        text.insert(at, text.substr(pick(text.size() + 1), pick(40)));
        break;
      default:
        text.insert(at, pieces[pick(std::size(pieces))]);
        break;
      }
    }
    DiagnosticEngine diagnostics;
    ParseResult result = parseModule(SourceFile::create("k.py", text), diagnostics);
    ASSERT_EQ(result.ok, !diagnostics.hasErrors()) << text;
    (result.ok ? valid : refused) += 1;
    for (const Diagnostic &diagnostic : diagnostics.diagnostics()) {
      ASSERT_LE(diagnostic.range().begin, diagnostic.range().end) << text;
      ASSERT_LE(diagnostic.range().end, text.size()) << text;
      ASSERT_NE(diagnostic.kind(), DiagKind::Bug) << text;
    }
    diagnostics.renderAll();
    for (const Stmt *statement : result.module->body()) {
      checkRanges(*result.module, *statement);
      if (HasFatalFailure())
        FAIL() << text;
    }
  }
  EXPECT_GT(valid, 100u);
  EXPECT_GT(refused, 1000u);
}
