// Shapes of trees. Kinds, ranges and values of everything Python accepts are compared with
// CPython's own parser in tests/syntax; here stands what that comparison does not see.
#include "parse.h"

using namespace nereid;
using namespace nereid::syntax;

TEST(Parser, ReadsAKernel) {
  EXPECT_EQ(dump("@triton.jit\n"
                 "def add(x_ptr, n, BLOCK: tl.constexpr):\n"
                 "    tl.store(x_ptr, 1, mask=n)\n"),
            "FunctionDef(name='add', args=arguments(args=[arg(arg='x_ptr'), arg(arg='n'), "
            "arg(arg='BLOCK', annotation=Attribute(value=Name(id='tl'), attr='constexpr'))]), "
            "body=[Expr(value=Call(func=Attribute(value=Name(id='tl'), attr='store'), "
            "args=[Name(id='x_ptr'), Constant(value=1)], "
            "keywords=[keyword(arg='mask', value=Name(id='n'))]))], "
            "decorator_list=[Attribute(value=Name(id='triton'), attr='jit')])");
}

TEST(Parser, BindsOperatorsAsPythonDoes) {
  EXPECT_EQ(dumpExpr("a + b * c"),
            "BinOp(left=Name(id='a'), op=Add, right=BinOp(left=Name(id='b'), op=Mult, "
            "right=Name(id='c')))");
  EXPECT_EQ(dumpExpr("a - b - c"), "BinOp(left=BinOp(left=Name(id='a'), op=Sub, "
                                   "right=Name(id='b')), op=Sub, right=Name(id='c'))");
  EXPECT_EQ(dumpExpr("-a ** -b"), "UnaryOp(op=USub, operand=BinOp(left=Name(id='a'), op=Pow, "
                                  "right=UnaryOp(op=USub, operand=Name(id='b'))))");
  EXPECT_EQ(dumpExpr("a ** b ** c"), "BinOp(left=Name(id='a'), op=Pow, right=BinOp(left=Name("
                                     "id='b'), op=Pow, right=Name(id='c')))");
  EXPECT_EQ(dumpExpr("a << b & c | d ^ e"),
            "BinOp(left=BinOp(left=BinOp(left=Name(id='a'), op=LShift, right=Name(id='b')), "
            "op=BitAnd, right=Name(id='c')), op=BitOr, right=BinOp(left=Name(id='d'), op=BitXor, "
            "right=Name(id='e')))");
  EXPECT_EQ(dumpExpr("not a == b and c or d"),
            "BoolOp(op=Or, values=[BoolOp(op=And, values=[UnaryOp(op=Not, "
            "operand=Compare(left=Name(id='a'), ops=[Eq], comparators=[Name(id='b')])), "
            "Name(id='c')]), Name(id='d')])");
  EXPECT_EQ(dumpExpr("a < b is not c not in d"),
            "Compare(left=Name(id='a'), ops=[Lt, IsNot, NotIn], comparators=[Name(id='b'), "
            "Name(id='c'), Name(id='d')])");
  EXPECT_EQ(dumpExpr("a if b else c if d else e"),
            "IfExp(test=Name(id='b'), body=Name(id='a'), orelse=IfExp(test=Name(id='d'), "
            "body=Name(id='c'), orelse=Name(id='e')))");
}

TEST(Parser, ReadsSubscripts) {
  EXPECT_EQ(dumpExpr("x[None, :]"), "Subscript(value=Name(id='x'), slice=Tuple(elts=[Constant("
                                    "value=None), Slice()]))");
  EXPECT_EQ(dumpExpr("x[a:b:c]"), "Subscript(value=Name(id='x'), slice=Slice(lower=Name(id='a'), "
                                  "upper=Name(id='b'), step=Name(id='c')))");
  EXPECT_EQ(dumpExpr("x[0,]"),
            "Subscript(value=Name(id='x'), slice=Tuple(elts=[Constant(value=0)]))");
}

TEST(Parser, ReadsStatements) {
  EXPECT_EQ(dump("a = b = c"), "Assign(targets=[Name(id='a'), Name(id='b')], value=Name(id='c'))");
  EXPECT_EQ(dump("a: int = 1"),
            "AnnAssign(target=Name(id='a'), annotation=Name(id='int'), value=Constant(value=1), "
            "simple=1)");
  EXPECT_EQ(dump("(a): int"), "AnnAssign(target=Name(id='a'), annotation=Name(id='int'))");
  EXPECT_EQ(dump("a //= b"), "AugAssign(target=Name(id='a'), op=FloorDiv, value=Name(id='b'))");
  EXPECT_EQ(dump("for i in tl.range(0, n): pass\nelse: pass"),
            "For(target=Name(id='i'), iter=Call(func=Attribute(value=Name(id='tl'), "
            "attr='range'), args=[Constant(value=0), Name(id='n')]), body=[Pass()], "
            "orelse=[Pass()])");
  EXPECT_EQ(dump("with (a as b, c): pass"),
            "With(items=[withitem(context_expr=Name(id='a'), optional_vars=Name(id='b')), "
            "withitem(context_expr=Name(id='c'))], body=[Pass()])");
  EXPECT_EQ(dump("with (a, b).c as d: pass"),
            "With(items=[withitem(context_expr=Attribute(value=Tuple(elts=[Name(id='a'), "
            "Name(id='b')]), attr='c'), optional_vars=Name(id='d'))], body=[Pass()])");
  EXPECT_EQ(dump("from ...a.b import (c as d, e,)"),
            "ImportFrom(module='a.b', names=[alias(name='c', asname='d'), alias(name='e')], "
            "level=3)");
  EXPECT_EQ(dump("import a . b"), "Import(names=[alias(name='a.b')])");
  EXPECT_EQ(dump("if (n := f(x)): pass\nelif y: pass"),
            "If(test=NamedExpr(target=Name(id='n'), value=Call(func=Name(id='f'), "
            "args=[Name(id='x')])), body=[Pass()], orelse=[If(test=Name(id='y'), "
            "body=[Pass()])])");
  EXPECT_EQ(dump("def f(a, /, b=1, *c, d, e=2, **g): pass"),
            "FunctionDef(name='f', args=arguments(posonlyargs=[arg(arg='a')], "
            "args=[arg(arg='b', default=Constant(value=1))], vararg=arg(arg='c'), "
            "kwonlyargs=[arg(arg='d'), arg(arg='e', default=Constant(value=2))], "
            "kwarg=arg(arg='g')), body=[Pass()])");
}

TEST(Parser, ReadsDisplaysAndComprehensions) {
  EXPECT_EQ(dumpExpr("[x * 2 for x in y if x if z]"),
            "ListComp(elt=BinOp(left=Name(id='x'), op=Mult, right=Constant(value=2)), "
            "generators=[comprehension(target=Name(id='x'), iter=Name(id='y'), "
            "ifs=[Name(id='x'), Name(id='z')])])");
  EXPECT_EQ(dumpExpr("{1: 2, **a}"),
            "Dict(keys=[Constant(value=1), None], values=[Constant(value=2), Name(id='a')])");
  EXPECT_EQ(dumpExpr("{1, *a}"), "Set(elts=[Constant(value=1), Starred(value=Name(id='a'))])");
  EXPECT_EQ(dumpExpr("f(*a, b, c=d, **e)"),
            "Call(func=Name(id='f'), args=[Starred(value=Name(id='a')), Name(id='b')], "
            "keywords=[keyword(arg='c', value=Name(id='d')), keyword(value=Name(id='e'))])");
  EXPECT_EQ(dumpExpr("lambda x, *y: x"),
            "Lambda(args=arguments(args=[arg(arg='x')], vararg=arg(arg='y')), "
            "body=Name(id='x'))");
}

TEST(Parser, KeepsWhatTheLanguageLacksAsUnsupported) {
  ModulePtr module = parseValid("try:\n    import a\nexcept E as e:\n    b\nfinally: c\n"
                                "match x:\n    case [1, *_] if y: pass\n"
                                "async def f():\n    await g()\n"
                                "type T = int\n"
                                "def g():\n    yield 1\n    yield from z\n");
  auto name = [&](size_t i) { return cast<UnsupportedStmt>(module->body()[i])->astName; };
  EXPECT_EQ(name(0), "Try");
  EXPECT_EQ(name(1), "Match");
  EXPECT_EQ(name(2), "AsyncFunctionDef");
  EXPECT_EQ(name(3), "TypeAlias");
  EXPECT_EQ(textOf(*module, *module->body()[1]), "match x:\n    case [1, *_] if y: pass");
  auto *body = cast<FunctionDef>(module->body()[4]);
  auto *yield = cast<UnsupportedExpr>(cast<ExprStmt>(body->body[0])->value);
  EXPECT_EQ(yield->astName, "Yield");
  EXPECT_EQ(textOf(*module, *yield), "yield 1");
}

TEST(Parser, TreatsSoftKeywordsAsNames) {
  EXPECT_EQ(dump("match = case = type = _ = 1"),
            "Assign(targets=[Name(id='match'), Name(id='case'), Name(id='type'), Name(id='_')], "
            "value=Constant(value=1))");
  EXPECT_EQ(dump("match(x)"), "Expr(value=Call(func=Name(id='match'), args=[Name(id='x')]))");
  EXPECT_EQ(dump("match[x]: int"),
            "AnnAssign(target=Subscript(value=Name(id='match'), slice=Name(id='x')), "
            "annotation=Name(id='int'))");
  EXPECT_EQ(dump("type(x)"), "Expr(value=Call(func=Name(id='type'), args=[Name(id='x')]))");
}

TEST(Parser, GivesExactRanges) {
  ModulePtr module = parseValid("@dec(1)\n"
                                "def f(a: int = 3) -> b:  # comment\n"
                                "    return (a.b + 1) * c\n");
  auto *f = cast<FunctionDef>(module->body()[0]);
  EXPECT_TRUE(textOf(*module, *f).starts_with("def f"));
  EXPECT_TRUE(textOf(*module, *f).ends_with("* c"));
  EXPECT_EQ(module->source().text(f->nameRange), "f");
  EXPECT_EQ(textOf(*module, *f->args), "a: int = 3");
  EXPECT_EQ(textOf(*module, *f->args->args[0]), "a: int");
  auto *product = cast<BinOp>(cast<Return>(f->body[0])->value);
  EXPECT_EQ(textOf(*module, *product), "(a.b + 1) * c");
  EXPECT_EQ(module->source().text(product->opRange), "*");
  auto *sum = cast<BinOp>(product->left);
  EXPECT_EQ(textOf(*module, *sum), "a.b + 1");
  EXPECT_EQ(module->source().text(cast<Attribute>(sum->left)->nameRange), "b");
}

TEST(Parser, JoinsLines) {
  EXPECT_EQ(dump("x = (1 +  # one\n\n     2)\ny = 1 + \\\n  2\nif a: b; c\n"),
            dump("x = (1 + 2)\ny = 1 + 2\nif a:\n    b\n    c"));
  EXPECT_EQ(dump("\xEF\xBB\xBFx = 1\r\nif x:\r\n\ty\r\n\r\n\tz\r\n"),
            dump("x = 1\nif x:\n  y\n  z"));
  EXPECT_EQ(dump("if a:\n    b\n  # a comment needs no indentation\n    c"),
            dump("if a:\n    b\n    c"));
  EXPECT_EQ(dump("if a:\n  \f    b\n    c"), dump("if a:\n    b\n    c")); // form feed
}

TEST(Parser, ReadsUnicodeNames) {
  EXPECT_EQ(dumpExpr("größe + 变量"),
            "BinOp(left=Name(id='größe'), op=Add, right=Name(id='变量'))");
}

TEST(Parser, ReadsEmptySources) {
  EXPECT_EQ(dump(""), "");
  EXPECT_EQ(dump("\n\n# nothing\n   \n"), "");
  EXPECT_EQ(dump("   # indented comment"), "");
}

TEST(Parser, ParsesSingleExpressions) {
  DiagnosticEngine diagnostics;
  auto good = parseExpression(SourceFile::create("a", "tl.constexpr"), diagnostics);
  ASSERT_TRUE(good.expression);
  EXPECT_EQ(dumpText(*good.expression), "Attribute(value=Name(id='tl'), attr='constexpr')");
  EXPECT_FALSE(parseExpression(SourceFile::create("a", "a = 1"), diagnostics).expression);
  EXPECT_FALSE(parseExpression(SourceFile::create("a", "a\nb"), diagnostics).expression);
  EXPECT_FALSE(parseExpression(SourceFile::create("a", ""), diagnostics).expression);
  EXPECT_EQ(diagnostics.errorCount(), 3u);
}

TEST(Parser, SharesModules) {
  ModulePtr copy;
  {
    DiagnosticEngine diagnostics;
    copy = parseModule(SourceFile::create("k.py", "x = 'a\\n'"), diagnostics).module;
  }
  EXPECT_EQ(dumpText(*copy->body()[0]),
            "Assign(targets=[Name(id='x')], value=Constant(value='a\\x0a'))");
}

TEST(Tree, WalksChildrenInOrder) {
  ModulePtr module = parseValid("f(a, *b, c=d)[e]");
  std::string names;
  auto walk = [&](auto &self, const Node &node) -> void {
    if (auto *name = dynCast<Name>(&node))
      names += name->id;
    forEachChild(node, [&](const Node &child) { self(self, child); });
  };
  walk(walk, *module->body()[0]);
  EXPECT_EQ(names, "fabde");
}

TEST(Tree, NamesOperators) {
  EXPECT_EQ(spelling(BinaryOp::FloorDiv), "//");
  EXPECT_EQ(opName(BinaryOp::FloorDiv), "FloorDiv");
  EXPECT_EQ(spelling(CompareOp::IsNot), "is not");
  EXPECT_EQ(spelling(UnaryOpKind::Not), "not");
  EXPECT_EQ(spelling(BoolOpKind::And), "and");
  EXPECT_EQ(kindName(NodeKind::ExprStmt), "Expr");
  EXPECT_EQ(kindName(NodeKind::Arg), "arg");
}
