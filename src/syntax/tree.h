// The syntax tree of one module.
//
// Nodes are named and shaped like those of Python's `ast`, live in the arena of their Module, and
// do not change after parsing: a Module may be shared by threads and compilations. Each node has
// the exact byte range CPython would give it (col_offset..end_col_offset).
//
// Reading a tree:
//
//   if (auto *call = dynCast<Call>(expr)) ...          // kind test and cast in one
//   switch (expr->kind) { case NodeKind::BinOp: { auto *e = cast<BinOp>(expr); ... } }
//   forEachChild(*node, [&](const Node &child) { ... });   // generic walks
//
// How deep a tree can be: consumers are recursive functions, so the parser bounds them. Brackets,
// lambdas, blocks... nest at most `maxNesting` deep, and no path from a statement to a leaf of its
// expressions is longer than `maxTreeDepth` (a long `1 + 1 + 1 + ...` is one level per operator;
// an `elif` chain one level per `elif`). Deeper source is refused with NestingTooDeep.
#pragma once

#include "support/source.h"

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace nereid::syntax {

/// Nested brackets, lambdas, replacement fields: what makes the parser itself recurse.
inline constexpr unsigned maxNesting = 200;
/// Nested blocks (levels of indentation).
inline constexpr unsigned maxIndents = 100;
/// Height of the tree of one statement, blocks inside it included.
inline constexpr unsigned maxTreeDepth = 1000;
/// Decimal digits of an integer literal (binary, octal and hexadecimal ones are not limited).
inline constexpr unsigned maxIntDigits = 4300;

enum class NodeKind : uint8_t {
#define STMT(Name) Name,
#define EXPR(Name) Name,
#define PART(Name) Name,
#include "syntax/nodes.def"
};

/// The kind's name in Python's `ast` ("BinOp", "Expr", "arg").
std::string_view kindName(NodeKind kind);

enum class BinaryOp : uint8_t {
#define BINARY_OP(Name, Spelling) Name,
#include "syntax/nodes.def"
};
enum class UnaryOpKind : uint8_t {
#define UNARY_OP(Name, Spelling) Name,
#include "syntax/nodes.def"
};
enum class BoolOpKind : uint8_t {
#define BOOL_OP(Name, Spelling) Name,
#include "syntax/nodes.def"
};
enum class CompareOp : uint8_t {
#define COMPARE_OP(Name, Spelling) Name,
#include "syntax/nodes.def"
};

/// As written in source: "+", "is not".
std::string_view spelling(BinaryOp op);
std::string_view spelling(UnaryOpKind op);
std::string_view spelling(BoolOpKind op);
std::string_view spelling(CompareOp op);
/// As named in Python's `ast`: "Add", "IsNot".
std::string_view opName(BinaryOp op);
std::string_view opName(UnaryOpKind op);
std::string_view opName(BoolOpKind op);
std::string_view opName(CompareOp op);

/// What all nodes share. `height` is the longest path down to a leaf, at most maxTreeDepth.
struct Node {
  NodeKind kind;
  uint16_t height = 1;
  SourceRange range;

protected:
  explicit Node(NodeKind kind) : kind(kind) {}
};

struct Stmt : Node {
  static bool classof(const Node &node) { return node.kind <= NodeKind::UnsupportedStmt; }

protected:
  using Node::Node;
};

struct Expr : Node {
  static bool classof(const Node &node) {
    return node.kind >= NodeKind::BoolOp && node.kind <= NodeKind::UnsupportedExpr;
  }

protected:
  using Node::Node;
};

/// A fixed array in the arena; an element may be null only where a field says so.
template <typename T> class Array {
public:
  Array() = default;
  Array(const T *data, uint32_t size) : first(data), count(size) {}

  const T *begin() const { return first; }
  const T *end() const { return first + count; }
  uint32_t size() const { return count; }
  bool empty() const { return count == 0; }
  const T &operator[](size_t index) const {
    assert(index < count);
    return first[index];
  }
  const T &front() const { return (*this)[0]; }
  const T &back() const { return (*this)[count - 1]; }

private:
  const T *first = nullptr;
  uint32_t count = 0;
};

template <typename T> using NodeList = Array<const T *>;

template <typename To> bool isa(const Node *node) {
  return To::classof(*node);
}
template <typename To> bool isa(const Node &node) {
  return To::classof(node);
}
template <typename To> const To *cast(const Node *node) {
  assert(isa<To>(node));
  return static_cast<const To *>(node);
}
/// Null when the node is of another kind, or null itself.
template <typename To> const To *dynCast(const Node *node) {
  return node && isa<To>(node) ? static_cast<const To *>(node) : nullptr;
}

// Gives a node class its kind test and `visitFields`, which calls a function once per field with
// the field's name: the one description that child walks and dumps are made of.
#define NEREID_NODE(Class)                                                                         \
  Class() : Base(NodeKind::Class) {}                                                               \
  static bool classof(const Node &node) {                                                          \
    return node.kind == NodeKind::Class;                                                           \
  }

#define NEREID_NO_FIELDS                                                                           \
  template <typename F> void visitFields(F &&) const {}

#define NEREID_STMT(Class)                                                                         \
  using Base = Stmt;                                                                               \
  NEREID_NODE(Class)
#define NEREID_EXPR(Class)                                                                         \
  using Base = Expr;                                                                               \
  NEREID_NODE(Class)
#define NEREID_PART(Class)                                                                         \
  using Base = Node;                                                                               \
  NEREID_NODE(Class)

// --- Pieces --------------------------------------------------------------------------------------

/// One parameter. `defaultValue` is null when it has none.
struct Arg : Node {
  NEREID_PART(Arg)
  std::string_view name;
  const Expr *annotation = nullptr;   ///< may be null
  const Expr *defaultValue = nullptr; ///< may be null
  SourceRange nameRange;
  template <typename F> void visitFields(F &&f) const {
    f("arg", name);
    f("annotation", annotation);
    f("default", defaultValue);
  }
};

/// A parameter list: `posOnly, /, args, *vararg, kwOnly, **kwarg`.
struct Arguments : Node {
  NEREID_PART(Arguments)
  NodeList<Arg> posOnly;
  NodeList<Arg> args;
  const Arg *vararg = nullptr; ///< may be null
  NodeList<Arg> kwOnly;
  const Arg *kwarg = nullptr; ///< may be null
  template <typename F> void visitFields(F &&f) const {
    f("posonlyargs", posOnly);
    f("args", args);
    f("vararg", vararg);
    f("kwonlyargs", kwOnly);
    f("kwarg", kwarg);
  }
};

/// `name=value` in a call, or `**value` when the name is empty.
struct Keyword : Node {
  NEREID_PART(Keyword)
  std::string_view name;
  const Expr *value = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("arg", name);
    f("value", value);
  }
};

/// `name as asName` of an import; `asName` is empty when absent. `name` is dotted, or `*`.
struct Alias : Node {
  NEREID_PART(Alias)
  std::string_view name;
  std::string_view asName;
  template <typename F> void visitFields(F &&f) const {
    f("name", name);
    f("asname", asName);
  }
};

struct WithItem : Node {
  NEREID_PART(WithItem)
  const Expr *context = nullptr;
  const Expr *target = nullptr; ///< may be null
  template <typename F> void visitFields(F &&f) const {
    f("context_expr", context);
    f("optional_vars", target);
  }
};

/// One `for target in iter if ... if ...` of a comprehension.
struct Comprehension : Node {
  NEREID_PART(Comprehension)
  const Expr *target = nullptr;
  const Expr *iter = nullptr;
  NodeList<Expr> conditions;
  bool isAsync = false;
  template <typename F> void visitFields(F &&f) const {
    f("target", target);
    f("iter", iter);
    f("ifs", conditions);
    f("is_async", isAsync);
  }
};

/// A piece of a construct outside the kernel language: `ExceptHandler`, `match_case`, `MatchAs`,
/// `TypeVar`...
struct UnsupportedPart : Node {
  NEREID_PART(UnsupportedPart)
  std::string_view astName;
  std::string_view name; ///< that the clause or pattern binds, else empty
  NodeList<Node> children;
  template <typename F> void visitFields(F &&f) const { f("children", children); }
};

// --- Statements ----------------------------------------------------------------------------------

/// `range` begins at `def`, as in CPython; decorators lie before it.
struct FunctionDef : Stmt {
  NEREID_STMT(FunctionDef)
  std::string_view name;
  SourceRange nameRange;
  const Arguments *args = nullptr;
  NodeList<Stmt> body;
  NodeList<Expr> decorators;
  const Expr *returns = nullptr; ///< may be null
  NodeList<Node> typeParams;     ///< UnsupportedPart
  template <typename F> void visitFields(F &&f) const {
    f("name", name);
    f("args", args);
    f("body", body);
    f("decorator_list", decorators);
    f("returns", returns);
    f("type_params", typeParams);
  }
};

struct ClassDef : Stmt {
  NEREID_STMT(ClassDef)
  std::string_view name;
  SourceRange nameRange;
  NodeList<Expr> bases;
  NodeList<Keyword> keywords;
  NodeList<Stmt> body;
  NodeList<Expr> decorators;
  NodeList<Node> typeParams; ///< UnsupportedPart
  template <typename F> void visitFields(F &&f) const {
    f("name", name);
    f("bases", bases);
    f("keywords", keywords);
    f("body", body);
    f("decorator_list", decorators);
    f("type_params", typeParams);
  }
};

struct Return : Stmt {
  NEREID_STMT(Return)
  const Expr *value = nullptr; ///< may be null
  template <typename F> void visitFields(F &&f) const { f("value", value); }
};

struct Delete : Stmt {
  NEREID_STMT(Delete)
  NodeList<Expr> targets;
  template <typename F> void visitFields(F &&f) const { f("targets", targets); }
};

/// `a = b = value`: several targets.
struct Assign : Stmt {
  NEREID_STMT(Assign)
  NodeList<Expr> targets;
  const Expr *value = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("targets", targets);
    f("value", value);
  }
};

struct AugAssign : Stmt {
  NEREID_STMT(AugAssign)
  const Expr *target = nullptr;
  BinaryOp op = BinaryOp::Add;
  SourceRange opRange;
  const Expr *value = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("target", target);
    f("op", op);
    f("value", value);
  }
};

/// `target: annotation = value`. `simple`: the target is a name without parentheses.
struct AnnAssign : Stmt {
  NEREID_STMT(AnnAssign)
  const Expr *target = nullptr;
  const Expr *annotation = nullptr;
  const Expr *value = nullptr; ///< may be null
  bool simple = false;
  template <typename F> void visitFields(F &&f) const {
    f("target", target);
    f("annotation", annotation);
    f("value", value);
    f("simple", simple);
  }
};

struct For : Stmt {
  NEREID_STMT(For)
  const Expr *target = nullptr;
  const Expr *iter = nullptr;
  NodeList<Stmt> body;
  NodeList<Stmt> orelse;
  template <typename F> void visitFields(F &&f) const {
    f("target", target);
    f("iter", iter);
    f("body", body);
    f("orelse", orelse);
  }
};

struct While : Stmt {
  NEREID_STMT(While)
  const Expr *test = nullptr;
  NodeList<Stmt> body;
  NodeList<Stmt> orelse;
  template <typename F> void visitFields(F &&f) const {
    f("test", test);
    f("body", body);
    f("orelse", orelse);
  }
};

/// An `elif` is an If alone in `orelse`, beginning at the word `elif`.
struct If : Stmt {
  NEREID_STMT(If)
  const Expr *test = nullptr;
  NodeList<Stmt> body;
  NodeList<Stmt> orelse;
  template <typename F> void visitFields(F &&f) const {
    f("test", test);
    f("body", body);
    f("orelse", orelse);
  }
};

struct With : Stmt {
  NEREID_STMT(With)
  NodeList<WithItem> items;
  NodeList<Stmt> body;
  template <typename F> void visitFields(F &&f) const {
    f("items", items);
    f("body", body);
  }
};

struct Raise : Stmt {
  NEREID_STMT(Raise)
  const Expr *exception = nullptr; ///< may be null
  const Expr *cause = nullptr;     ///< may be null
  template <typename F> void visitFields(F &&f) const {
    f("exc", exception);
    f("cause", cause);
  }
};

struct Assert : Stmt {
  NEREID_STMT(Assert)
  const Expr *test = nullptr;
  const Expr *message = nullptr; ///< may be null
  template <typename F> void visitFields(F &&f) const {
    f("test", test);
    f("msg", message);
  }
};

struct Import : Stmt {
  NEREID_STMT(Import)
  NodeList<Alias> names;
  template <typename F> void visitFields(F &&f) const { f("names", names); }
};

/// `from ..module import names`: `level` counts the dots, `module` may be empty.
struct ImportFrom : Stmt {
  NEREID_STMT(ImportFrom)
  std::string_view module;
  NodeList<Alias> names;
  uint32_t level = 0;
  template <typename F> void visitFields(F &&f) const {
    f("module", module);
    f("names", names);
    f("level", level);
  }
};

struct Global : Stmt {
  NEREID_STMT(Global)
  Array<std::string_view> names;
  template <typename F> void visitFields(F &&f) const { f("names", names); }
};

struct Nonlocal : Stmt {
  NEREID_STMT(Nonlocal)
  Array<std::string_view> names;
  template <typename F> void visitFields(F &&f) const { f("names", names); }
};

/// An expression for its effect (or a docstring). Python's `ast.Expr`.
struct ExprStmt : Stmt {
  NEREID_STMT(ExprStmt)
  const Expr *value = nullptr;
  template <typename F> void visitFields(F &&f) const { f("value", value); }
};

struct Pass : Stmt {
  NEREID_STMT(Pass)
  NEREID_NO_FIELDS
};

struct Break : Stmt {
  NEREID_STMT(Break)
  NEREID_NO_FIELDS
};

struct Continue : Stmt {
  NEREID_STMT(Continue)
  NEREID_NO_FIELDS
};

/// `Try`, `TryStar`, `Match`, `TypeAlias`, `AsyncFunctionDef`, `AsyncFor`, `AsyncWith`: parsed,
/// with children in source order, but without meaning in the kernel language. The names of imports
/// and definitions inside a `Try` can still be found through the children.
struct UnsupportedStmt : Stmt {
  NEREID_STMT(UnsupportedStmt)
  std::string_view astName;
  std::string_view name; ///< of an AsyncFunctionDef or TypeAlias, else empty
  NodeList<Node> children;
  template <typename F> void visitFields(F &&f) const { f("children", children); }
};

// --- Expressions ---------------------------------------------------------------------------------

/// `a and b and c`: one node with all operands.
struct BoolOp : Expr {
  NEREID_EXPR(BoolOp)
  BoolOpKind op = BoolOpKind::And;
  NodeList<Expr> values;
  template <typename F> void visitFields(F &&f) const {
    f("op", op);
    f("values", values);
  }
};

struct Name : Expr {
  NEREID_EXPR(Name)
  std::string_view id;
  template <typename F> void visitFields(F &&f) const { f("id", id); }
};

/// `target := value`.
struct NamedExpr : Expr {
  NEREID_EXPR(NamedExpr)
  const Name *target = nullptr;
  const Expr *value = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("target", static_cast<const Expr *>(target));
    f("value", value);
  }
};

struct BinOp : Expr {
  NEREID_EXPR(BinOp)
  const Expr *left = nullptr;
  BinaryOp op = BinaryOp::Add;
  SourceRange opRange;
  const Expr *right = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("left", left);
    f("op", op);
    f("right", right);
  }
};

struct UnaryOp : Expr {
  NEREID_EXPR(UnaryOp)
  UnaryOpKind op = UnaryOpKind::Not;
  const Expr *operand = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("op", op);
    f("operand", operand);
  }
};

struct Lambda : Expr {
  NEREID_EXPR(Lambda)
  const Arguments *args = nullptr;
  const Expr *body = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("args", args);
    f("body", body);
  }
};

/// `body if test else orelse`.
struct IfExp : Expr {
  NEREID_EXPR(IfExp)
  const Expr *test = nullptr;
  const Expr *body = nullptr;
  const Expr *orelse = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("test", test);
    f("body", body);
    f("orelse", orelse);
  }
};

/// `{key: value, **value}`: keys and values in pairs, a null key for `**value`.
struct Dict : Expr {
  NEREID_EXPR(Dict)
  NodeList<Expr> keys; ///< elements may be null
  NodeList<Expr> values;
  template <typename F> void visitFields(F &&f) const {
    f("keys", keys);
    f("values", values);
  }
};

struct Set : Expr {
  NEREID_EXPR(Set)
  NodeList<Expr> elements;
  template <typename F> void visitFields(F &&f) const { f("elts", elements); }
};

struct ListComp : Expr {
  NEREID_EXPR(ListComp)
  const Expr *element = nullptr;
  NodeList<Comprehension> generators;
  template <typename F> void visitFields(F &&f) const {
    f("elt", element);
    f("generators", generators);
  }
};

struct SetComp : Expr {
  NEREID_EXPR(SetComp)
  const Expr *element = nullptr;
  NodeList<Comprehension> generators;
  template <typename F> void visitFields(F &&f) const {
    f("elt", element);
    f("generators", generators);
  }
};

struct DictComp : Expr {
  NEREID_EXPR(DictComp)
  const Expr *key = nullptr;
  const Expr *value = nullptr;
  NodeList<Comprehension> generators;
  template <typename F> void visitFields(F &&f) const {
    f("key", key);
    f("value", value);
    f("generators", generators);
  }
};

struct GeneratorExp : Expr {
  NEREID_EXPR(GeneratorExp)
  const Expr *element = nullptr;
  NodeList<Comprehension> generators;
  template <typename F> void visitFields(F &&f) const {
    f("elt", element);
    f("generators", generators);
  }
};

/// `left ops[0] comparators[0] ops[1] comparators[1] ...`: one operator unless chained.
struct Compare : Expr {
  NEREID_EXPR(Compare)
  const Expr *left = nullptr;
  Array<CompareOp> ops;
  NodeList<Expr> comparators;
  template <typename F> void visitFields(F &&f) const {
    f("left", left);
    f("ops", ops);
    f("comparators", comparators);
  }
};

/// `*x` among the positional arguments is a Starred, `**x` a Keyword without a name.
struct Call : Expr {
  NEREID_EXPR(Call)
  const Expr *func = nullptr;
  NodeList<Expr> args;
  NodeList<Keyword> keywords;
  template <typename F> void visitFields(F &&f) const {
    f("func", func);
    f("args", args);
    f("keywords", keywords);
  }
};

/// `{value!conversion:formatSpec}` of an f-string. `{value=}` is preceded by a Constant holding
/// the expression's own text, as in CPython.
struct FormattedValue : Expr {
  NEREID_EXPR(FormattedValue)
  const Expr *value = nullptr;
  char conversion = 0;              ///< 'r', 's', 'a', or 0
  const Expr *formatSpec = nullptr; ///< a JoinedStr, may be null
  template <typename F> void visitFields(F &&f) const {
    f("value", value);
    f("conversion", conversion);
    f("format_spec", formatSpec);
  }
};

/// An f-string, after joining with its neighbours: Constant and FormattedValue in turn.
struct JoinedStr : Expr {
  NEREID_EXPR(JoinedStr)
  NodeList<Expr> values;
  template <typename F> void visitFields(F &&f) const { f("values", values); }
};

enum class ConstantKind : uint8_t {
  None,
  True,
  False,
  Ellipsis,
  Int,
  Float,
  Imaginary,
  Str,
  Bytes
};

/// A literal. Strings are decoded (escape sequences replaced); adjacent ones joined.
struct Constant : Expr {
  NEREID_EXPR(Constant)
  ConstantKind constantKind = ConstantKind::None;
  /// The text holds a `\N{name}` escape, whose character is not known here: it was left as
  /// written in `text`. A consumer that needs the exact string must refuse it.
  bool hasNamedCharacter = false;
  /// Float and Imaginary: the value; an Int's nearest double.
  double number = 0;
  /// Int: the value, little endian 64-bit words without leading zero words (none for 0). Integer
  /// literals are never negative.
  Array<uint64_t> words;
  /// Str: UTF-8 (lone surrogates in their three-byte form). Bytes: the bytes.
  std::string_view text;

  bool isInt() const { return constantKind == ConstantKind::Int; }
  bool isStr() const { return constantKind == ConstantKind::Str; }
  bool isBool() const {
    return constantKind == ConstantKind::True || constantKind == ConstantKind::False;
  }
  /// The value of an Int that fits.
  std::optional<int64_t> asInt64() const;
  std::optional<uint64_t> asUint64() const;

  template <typename F> void visitFields(F &&f) const { f("value", *this); }
};

struct Attribute : Expr {
  NEREID_EXPR(Attribute)
  const Expr *value = nullptr;
  std::string_view name;
  SourceRange nameRange;
  template <typename F> void visitFields(F &&f) const {
    f("value", value);
    f("attr", name);
  }
};

/// `value[index]`; several indices are a Tuple, `a:b:c` a Slice.
struct Subscript : Expr {
  NEREID_EXPR(Subscript)
  const Expr *value = nullptr;
  const Expr *index = nullptr;
  template <typename F> void visitFields(F &&f) const {
    f("value", value);
    f("slice", index);
  }
};

struct Starred : Expr {
  NEREID_EXPR(Starred)
  const Expr *value = nullptr;
  template <typename F> void visitFields(F &&f) const { f("value", value); }
};

struct List : Expr {
  NEREID_EXPR(List)
  NodeList<Expr> elements;
  template <typename F> void visitFields(F &&f) const { f("elts", elements); }
};

struct Tuple : Expr {
  NEREID_EXPR(Tuple)
  NodeList<Expr> elements;
  template <typename F> void visitFields(F &&f) const { f("elts", elements); }
};

struct Slice : Expr {
  NEREID_EXPR(Slice)
  const Expr *lower = nullptr; ///< may be null
  const Expr *upper = nullptr; ///< may be null
  const Expr *step = nullptr;  ///< may be null
  template <typename F> void visitFields(F &&f) const {
    f("lower", lower);
    f("upper", upper);
    f("step", step);
  }
};

/// `Await`, `Yield`, `YieldFrom`.
struct UnsupportedExpr : Expr {
  NEREID_EXPR(UnsupportedExpr)
  std::string_view astName;
  NodeList<Node> children;
  template <typename F> void visitFields(F &&f) const { f("children", children); }
};

#undef NEREID_NODE
#undef NEREID_STMT
#undef NEREID_EXPR
#undef NEREID_PART
#undef NEREID_NO_FIELDS

// --- Generic walks -------------------------------------------------------------------------------

/// Calls `f` with the node as its own class.
template <typename F> decltype(auto) visit(const Node &node, F &&f) {
  switch (node.kind) {
#define STMT(Name)                                                                                 \
  case NodeKind::Name:                                                                             \
    return f(static_cast<const Name &>(node));
#define EXPR(Name)                                                                                 \
  case NodeKind::Name:                                                                             \
    return f(static_cast<const Name &>(node));
#define PART(Name)                                                                                 \
  case NodeKind::Name:                                                                             \
    return f(static_cast<const Name &>(node));
#include "syntax/nodes.def"
  }
  __builtin_unreachable();
}

/// Calls `f(const Node &)` for each child that is there, in the order of the fields.
template <typename F> void forEachChild(const Node &node, F &&f) {
  auto field = [&]<typename T>(const char *, const T &value) {
    if constexpr (std::is_pointer_v<T>) {
      if (value)
        f(*value);
    } else if constexpr (requires { (*value.begin())->kind; }) {
      for (auto *child : value)
        if (child)
          f(*child);
    }
  };
  visit(node, [&](const auto &self) { self.visitFields(field); });
}

} // namespace nereid::syntax
