// Expressions down to unary operators, by precedence. Operands: primaries.cpp.
#include "syntax/parser_impl.h"

namespace nereid::syntax {

// --- Whole expressions ---------------------------------------------------------------------------

bool Parser::beginsExpression() {
  switch (kind()) {
  case K::Name:
  case K::Number:
  case K::String:
  case K::FStringStart:
  case K::LParen:
  case K::LBracket:
  case K::LBrace:
  case K::Minus:
  case K::Plus:
  case K::Tilde:
  case K::Ellipsis:
  case K::KwFalse:
  case K::KwNone:
  case K::KwTrue:
  case K::KwAwait:
  case K::KwLambda:
  case K::KwNot:
    return true;
  default:
    return false;
  }
}

std::nullptr_t Parser::expectedExpression() {
  return error(diag::ExpectedExpression, here(), found());
}

/// `lambda`, or a disjunction with `if ... else ...`. Chains of conditionals are collected and then
/// folded from the right, so that they do not recurse.
const Expr *Parser::parseExpression() {
  DepthGuard guard(*this);
  if (depthExceeded())
    return tooDeep(here());
  if (at(K::KwLambda))
    return parseLambda();
  uint32_t start = begin();
  const Expr *body = parseDisjunction();
  if (!body || !at(K::KwIf))
    return body;

  Collect<Expr> pairs(*this);   // body, test, body, test...
  std::vector<uint32_t> starts; // a body in parentheses begins before its node
  const Expr *last = body;
  while (at(K::KwIf)) {
    advance();
    const Expr *test = parseDisjunction();
    if (!test)
      return nullptr;
    if (at(K::Equal))
      return error(diag::AssignInCondition, here());
    if (!expect(K::KwElse, "`else` after the `if` condition of an expression"))
      return nullptr;
    pairs.add(last);
    pairs.add(test);
    starts.push_back(start);
    start = begin();
    last = at(K::KwLambda) ? parseLambda() : parseDisjunction();
    if (!last)
      return nullptr;
  }
  for (size_t i = pairs.size(); i; i -= 2) {
    auto *node = make<IfExp>();
    node->body = pairs[i - 2];
    node->test = pairs[i - 1];
    node->orelse = last;
    if (!set(last, done(node, starts[i / 2 - 1])))
      return nullptr;
  }
  return last;
}

/// An expression or `name := expression`.
const Expr *Parser::parseNamed() {
  uint32_t start = begin();
  if (at(K::Name) && kind(1) == K::ColonEqual) {
    auto *name = make<Name>();
    name->id = textOf(token());
    advance();
    const Name *target = done(name, start);
    advance();
    const Expr *value = parseExpression();
    if (!value || !target)
      return nullptr;
    auto *node = make<NamedExpr>();
    node->target = target;
    node->value = value;
    return done(node, start);
  }
  const Expr *expr = parseExpression();
  if (expr && at(K::ColonEqual))
    return error(diag::InvalidTarget, expr->range, describeExpr(expr) + " with `:=`");
  return expr;
}

/// `*expr`, or what parseNamed accepts: an element of a display.
const Expr *Parser::parseStarOrNamed() {
  return at(K::Star) ? parseStarredOr() : parseNamed();
}

const Expr *Parser::parseStarredOr() {
  uint32_t start = begin();
  if (!accept(K::Star))
    return parseExpression();
  const Expr *value = parseBinary(0);
  if (!value)
    return nullptr;
  auto *node = make<Starred>();
  node->value = value;
  return done(node, start);
}

/// One expression, or several with commas: a Tuple.
const Expr *Parser::parseStarExpressions(bool named) {
  uint32_t start = begin();
  const Expr *first = named ? parseStarOrNamed() : parseStarredOr();
  if (!first || !at(K::Comma))
    return first;
  Collect<Expr> elements(*this);
  elements.add(first);
  while (accept(K::Comma)) {
    if (!beginsExpression() && !at(K::Star))
      break;
    const Expr *next = named ? parseStarOrNamed() : parseStarredOr();
    if (!next)
      return nullptr;
    elements.add(next);
  }
  auto *node = make<Tuple>();
  node->elements = elements.list();
  return done(node, start);
}

const Expr *Parser::parseYieldOrStar() {
  return at(K::KwYield) ? parseYield() : parseStarExpressions();
}

const Expr *Parser::parseYield() {
  uint32_t start = begin();
  if (!functions)
    error(diag::OutsideFunction, here(), "yield");
  advance();
  if (accept(K::KwFrom)) {
    const Expr *value = parseExpression();
    return value ? unsupported("YieldFrom", start, {value}) : nullptr;
  }
  if (!beginsExpression() && !at(K::Star))
    return unsupported("Yield", start, {});
  const Expr *value = parseStarExpressions();
  return value ? unsupported("Yield", start, {value}) : nullptr;
}

const Expr *Parser::parseLambda() {
  DepthGuard guard(*this);
  if (depthExceeded())
    return tooDeep(here());
  uint32_t start = begin();
  advance();
  const Arguments *args = parseParameters(K::Colon, /*annotations=*/false);
  if (!args || !expect(K::Colon, "`:` after the parameters of `lambda`"))
    return nullptr;
  ++functions;
  const Expr *body = parseExpression();
  --functions;
  if (!body)
    return nullptr;
  auto *node = make<Lambda>();
  node->args = args;
  node->body = body;
  return done(node, start);
}

// --- Operators -----------------------------------------------------------------------------------

const Expr *Parser::parseDisjunction() {
  return parseBoolOp(BoolOpKind::Or);
}

const Expr *Parser::parseBoolOp(BoolOpKind op) {
  TokenKind word = op == BoolOpKind::Or ? K::KwOr : K::KwAnd;
  auto operand = [&] { return op == BoolOpKind::Or ? parseBoolOp(BoolOpKind::And) : parseNot(); };
  uint32_t start = begin();
  const Expr *first = operand();
  if (!first || !at(word))
    return first;
  Collect<Expr> values(*this);
  values.add(first);
  while (accept(word)) {
    const Expr *next = operand();
    if (!next)
      return nullptr;
    values.add(next);
  }
  auto *node = make<BoolOp>();
  node->op = op;
  node->values = values.list();
  return done(node, start);
}

const Expr *Parser::parseNot() {
  if (!at(K::KwNot))
    return parseComparison();
  size_t first = pos;
  while (accept(K::KwNot))
    ;
  size_t count = pos - first;
  const Expr *operand = parseComparison();
  while (operand && count--) {
    auto *node = make<UnaryOp>();
    node->op = UnaryOpKind::Not;
    node->operand = operand;
    operand = done(node, tokens[first + count].range.begin);
  }
  return operand;
}

const Expr *Parser::parseComparison() {
  uint32_t start = begin();
  const Expr *left = parseBinary(0);
  if (!left)
    return nullptr;

  auto comparison = [&]() -> int {
    switch (kind()) {
    case K::EqualEqual:
      return int(CompareOp::Eq);
    case K::NotEqual:
      return int(CompareOp::NotEq);
    case K::Less:
      return int(CompareOp::Lt);
    case K::LessEqual:
      return int(CompareOp::LtE);
    case K::Greater:
      return int(CompareOp::Gt);
    case K::GreaterEqual:
      return int(CompareOp::GtE);
    case K::KwIn:
      return int(CompareOp::In);
    case K::KwIs:
      return int(kind(1) == K::KwNot ? CompareOp::IsNot : CompareOp::Is);
    case K::KwNot:
      return kind(1) == K::KwIn ? int(CompareOp::NotIn) : -1;
    default:
      return -1;
    }
  };

  int op = comparison();
  if (op < 0)
    return left;
  Collect<Expr> comparators(*this);
  std::vector<CompareOp> ops;
  for (; op >= 0; op = comparison()) {
    advance();
    if (CompareOp(op) == CompareOp::IsNot || CompareOp(op) == CompareOp::NotIn)
      advance();
    ops.push_back(CompareOp(op));
    const Expr *next = parseBinary(0);
    if (!next)
      return nullptr;
    comparators.add(next);
  }
  auto *node = make<Compare>();
  node->left = left;
  node->ops = arena.copy(ops.data(), ops.size());
  node->comparators = comparators.list();
  return done(node, start);
}

namespace {
struct BinaryRow {
  int precedence = -1;
  BinaryOp op = BinaryOp::Add;
};
} // namespace

static BinaryRow binaryRow(TokenKind kind) {
  switch (kind) {
  case TokenKind::Pipe:
    return {0, BinaryOp::BitOr};
  case TokenKind::Caret:
    return {1, BinaryOp::BitXor};
  case TokenKind::Ampersand:
    return {2, BinaryOp::BitAnd};
  case TokenKind::LessLess:
    return {3, BinaryOp::LShift};
  case TokenKind::GreaterGreater:
    return {3, BinaryOp::RShift};
  case TokenKind::Plus:
    return {4, BinaryOp::Add};
  case TokenKind::Minus:
    return {4, BinaryOp::Sub};
  case TokenKind::Star:
    return {5, BinaryOp::Mult};
  case TokenKind::Slash:
    return {5, BinaryOp::Div};
  case TokenKind::DoubleSlash:
    return {5, BinaryOp::FloorDiv};
  case TokenKind::Percent:
    return {5, BinaryOp::Mod};
  case TokenKind::At:
    return {5, BinaryOp::MatMult};
  default:
    return {};
  }
}

/// Left-associative operators from `|` (0) to `*` (5). A chain grows to the left in a loop.
const Expr *Parser::parseBinary(unsigned minPrecedence) {
  uint32_t start = begin();
  const Expr *left = parseUnary();
  while (left) {
    BinaryRow row = binaryRow(kind());
    if (row.precedence < int(minPrecedence))
      return left;
    SourceRange opRange = here();
    advance();
    const Expr *right = parseBinary(unsigned(row.precedence) + 1);
    if (!right)
      return nullptr;
    auto *node = make<BinOp>();
    node->left = left;
    node->op = row.op;
    node->opRange = opRange;
    node->right = right;
    left = done(node, start);
  }
  return nullptr;
}

const Expr *Parser::parseUnary() {
  auto isSign = [&] { return at(K::Minus) || at(K::Plus) || at(K::Tilde); };
  if (!isSign())
    return parsePower();
  size_t first = pos;
  while (isSign())
    advance();
  size_t count = pos - first;
  const Expr *operand = parsePower();
  while (operand && count--) {
    const Token &sign = tokens[first + count];
    auto *node = make<UnaryOp>();
    node->op = sign.kind == K::Minus  ? UnaryOpKind::USub
               : sign.kind == K::Plus ? UnaryOpKind::UAdd
                                      : UnaryOpKind::Invert;
    node->operand = operand;
    operand = done(node, sign.range.begin);
  }
  return operand;
}

const Expr *Parser::parsePower() {
  uint32_t start = begin();
  const Expr *base;
  if (accept(K::KwAwait)) {
    const Expr *value = parsePrimary();
    base = value ? unsupported("Await", start, {value}) : nullptr;
  } else {
    base = parsePrimary();
  }
  if (!base || !at(K::DoubleStar))
    return base;
  DepthGuard guard(*this);
  if (depthExceeded())
    return tooDeep(here());
  SourceRange opRange = here();
  advance();
  const Expr *exponent = parseUnary();
  if (!exponent)
    return nullptr;
  auto *node = make<BinOp>();
  node->left = base;
  node->op = BinaryOp::Pow;
  node->opRange = opRange;
  node->right = exponent;
  return done(node, start);
}

} // namespace nereid::syntax
