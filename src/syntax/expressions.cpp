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

// --- Primaries -----------------------------------------------------------------------------------

const Expr *Parser::parsePrimary() {
  uint32_t start = begin();
  const Expr *expr = parseAtom();
  while (expr) {
    switch (kind()) {
    case K::Dot: {
      advance();
      auto *node = make<Attribute>();
      node->value = expr;
      if (!parseName(node->name, &node->nameRange, "a name after `.`"))
        return nullptr;
      expr = done(node, start);
      break;
    }
    case K::LParen:
      expr = parseCall(expr, start);
      break;
    case K::LBracket:
      expr = parseSubscript(expr, start);
      break;
    default:
      return expr;
    }
  }
  return nullptr;
}

const Expr *Parser::parseCall(const Expr *func, uint32_t start) {
  uint32_t open = begin();
  advance();
  Collect<Expr> args(*this);
  Collect<Keyword> keywords(*this);
  if (!parseCallArguments(args, keywords, open))
    return nullptr;
  auto *node = make<Call>();
  node->func = func;
  node->args = args.list();
  node->keywords = keywords.list();
  return done(node, start);
}

/// The arguments of a call or of a class, and the closing parenthesis.
bool Parser::parseCallArguments(Collect<Expr> &args, Collect<Keyword> &keywords, uint32_t open) {
  bool sawKeyword = false, sawUnpacking = false;
  while (!at(K::RParen)) {
    uint32_t start = begin();
    if (accept(K::DoubleStar)) {
      auto *keyword = make<Keyword>();
      if (!set(keyword->value, parseExpression()) || !done(keyword, start))
        return false;
      keywords.add(keyword);
      sawUnpacking = true;
    } else if (at(K::Star)) {
      if (sawUnpacking)
        error(diag::UnpackingAfterKeywordUnpacking, here());
      advance();
      auto *starred = make<Starred>();
      if (!set(starred->value, parseExpression()) || !done(starred, start))
        return false;
      args.add(starred);
    } else if (at(K::Name) && kind(1) == K::Equal) {
      auto *keyword = make<Keyword>();
      keyword->name = textOf(token());
      advance();
      advance();
      if (!set(keyword->value, parseExpression()) || !done(keyword, start))
        return false;
      keywords.add(keyword);
      sawKeyword = true;
    } else {
      const Expr *arg = parseNamed();
      if (!arg)
        return false;
      if (beginsComprehension()) {
        auto *generator = make<GeneratorExp>();
        generator->element = arg;
        if (!parseGenerators(generator->generators))
          return false;
        if (!args.size() && !keywords.size() && at(K::RParen)) {
          advance(); // its parentheses are those of the call
          if (set(arg, done(generator, open)))
            args.add(arg);
          return arg;
        }
        error(diag::BareGenerator, {start, lastEnd()});
        if (!set(arg, done(generator, start)))
          return false;
      }
      if (at(K::Equal)) {
        error(diag::NotAnArgumentName, arg->range, describeExpr(arg));
        return false;
      }
      if (sawUnpacking)
        error(diag::PositionalAfterUnpacking, arg->range);
      else if (sawKeyword)
        error(diag::PositionalAfterKeyword, arg->range);
      args.add(arg);
    }
    if (!accept(K::Comma))
      break;
  }
  if (!closeBracket(K::RParen))
    return false;

  std::vector<NamedRange> names;
  for (size_t i = 0; i < keywords.size(); ++i)
    if (!keywords[i]->name.empty()) {
      uint32_t from = keywords[i]->range.begin;
      names.push_back({keywords[i]->name, {from, from + uint32_t(keywords[i]->name.size())}});
    }
  if (auto twice = findRepeated(names))
    error(diag::DuplicateKeyword, twice->second, twice->first);
  return true;
}

/// The first entry whose name appeared before.
std::optional<Parser::NamedRange> Parser::findRepeated(std::vector<NamedRange> &names) {
  std::optional<NamedRange> result;
  std::sort(names.begin(), names.end(), [](auto &a, auto &b) {
    return a.first != b.first ? a.first < b.first : a.second.begin < b.second.begin;
  });
  for (size_t i = 1; i < names.size(); ++i)
    if (names[i].first == names[i - 1].first &&
        (!result || names[i].second.begin < result->second.begin))
      result = names[i];
  return result;
}

bool Parser::closeBracket(TokenKind close) {
  if (accept(close))
    return true;
  if (at(K::Equal))
    error(diag::AssignInExpression, here());
  else
    error(diag::MissingComma, here(), textOfKind(close), found());
  return false;
}

const Expr *Parser::parseSubscript(const Expr *value, uint32_t start) {
  advance();
  uint32_t indexStart = begin();
  const Expr *index = parseSlice();
  if (!index)
    return nullptr;
  if (at(K::Comma) || isa<Starred>(index)) {
    Collect<Expr> elements(*this);
    elements.add(index);
    while (accept(K::Comma)) {
      if (at(K::RBracket))
        break;
      const Expr *next = parseSlice();
      if (!next)
        return nullptr;
      elements.add(next);
    }
    auto *tuple = make<Tuple>();
    tuple->elements = elements.list();
    if (!set(index, done(tuple, indexStart)))
      return nullptr;
  }
  if (!closeBracket(K::RBracket))
    return nullptr;
  auto *node = make<Subscript>();
  node->value = value;
  node->index = index;
  return done(node, start);
}

const Expr *Parser::parseSlice() {
  uint32_t start = begin();
  const Expr *lower = nullptr;
  if (!at(K::Colon)) {
    if (!set(lower, parseStarOrNamed()))
      return nullptr;
    if (!at(K::Colon))
      return lower;
  }
  advance();
  auto *node = make<Slice>();
  node->lower = lower;
  auto bound = [&](const Expr *&field) {
    if (at(K::Colon) || at(K::Comma) || at(K::RBracket))
      return true;
    field = parseExpression();
    return field != nullptr;
  };
  if (!bound(node->upper))
    return nullptr;
  if (accept(K::Colon) && !bound(node->step))
    return nullptr;
  return done(node, start);
}

// --- Atoms ---------------------------------------------------------------------------------------

const Expr *Parser::parseAtom() {
  uint32_t start = begin();
  auto word = [&](ConstantKind constantKind) {
    advance();
    auto *node = make<Constant>();
    node->constantKind = constantKind;
    return done(node, start);
  };
  switch (kind()) {
  case K::Name: {
    auto *node = make<Name>();
    node->id = textOf(token());
    advance();
    return done(node, start);
  }
  case K::Number:
    return parseNumber();
  case K::String:
  case K::FStringStart:
    return parseStrings();
  case K::KwNone:
    return word(ConstantKind::None);
  case K::KwTrue:
    return word(ConstantKind::True);
  case K::KwFalse:
    return word(ConstantKind::False);
  case K::Ellipsis:
    return word(ConstantKind::Ellipsis);
  case K::LParen:
    return parseParenthesised();
  case K::LBracket:
    return parseListDisplay();
  case K::LBrace:
    return parseBraces();
  default:
    return expectedExpression();
  }
}

const Expr *Parser::parseParenthesised() {
  uint32_t start = begin();
  advance();
  if (at(K::RParen)) {
    advance();
    return done(make<Tuple>(), start);
  }
  if (at(K::KwYield)) {
    const Expr *yield = parseYield();
    return yield && closeBracket(K::RParen) ? yield : nullptr;
  }
  const Expr *first = parseStarOrNamed();
  if (!first)
    return nullptr;
  if (beginsComprehension()) {
    auto *node = make<GeneratorExp>();
    node->element = first;
    if (!parseGenerators(node->generators) || !closeBracket(K::RParen))
      return nullptr;
    return done(node, start);
  }
  if (!at(K::Comma)) {
    if (!closeBracket(K::RParen))
      return nullptr;
    if (isa<Starred>(first))
      return error(diag::StarredNotAllowed, first->range);
    return first;
  }
  Collect<Expr> elements(*this);
  elements.add(first);
  while (accept(K::Comma) && !at(K::RParen)) {
    const Expr *next = parseStarOrNamed();
    if (!next)
      return nullptr;
    elements.add(next);
  }
  if (!closeBracket(K::RParen))
    return nullptr;
  auto *node = make<Tuple>();
  node->elements = elements.list();
  return done(node, start);
}

const Expr *Parser::parseListDisplay() {
  uint32_t start = begin();
  advance();
  Collect<Expr> elements(*this);
  while (!at(K::RBracket)) {
    const Expr *next = parseStarOrNamed();
    if (!next)
      return nullptr;
    if (!elements.size() && beginsComprehension()) {
      auto *node = make<ListComp>();
      node->element = next;
      if (!parseGenerators(node->generators) || !closeBracket(K::RBracket))
        return nullptr;
      return done(node, start);
    }
    elements.add(next);
    if (!accept(K::Comma))
      break;
  }
  if (!closeBracket(K::RBracket))
    return nullptr;
  auto *node = make<List>();
  node->elements = elements.list();
  return done(node, start);
}

/// A dict, a set, or a comprehension of either.
const Expr *Parser::parseBraces() {
  uint32_t start = begin();
  advance();
  if (accept(K::RBrace))
    return done(make<Dict>(), start);

  bool isDict = at(K::DoubleStar);
  Collect<Expr> items(*this); // of a dict: key, value, key, value...
  while (!at(K::RBrace)) {
    bool first = items.size() == 0;
    if (isDict && accept(K::DoubleStar)) {
      const Expr *value = parseBinary(0);
      if (!value)
        return nullptr;
      items.add(nullptr);
      items.add(value);
    } else {
      const Expr *item = isDict ? parseExpression() : parseStarOrNamed();
      if (!item)
        return nullptr;
      if (first && at(K::Colon) && !isa<Starred>(item))
        isDict = true;
      const Expr *value = nullptr;
      if (isDict) {
        if (!expect(K::Colon, "`:` after the key"))
          return nullptr;
        if (!set(value, parseExpression()))
          return nullptr;
      }
      if (first && beginsComprehension()) {
        NodeList<Comprehension> generators;
        if (!parseGenerators(generators) || !closeBracket(K::RBrace))
          return nullptr;
        if (isDict) {
          auto *node = make<DictComp>();
          node->key = item;
          node->value = value;
          node->generators = generators;
          return done(node, start);
        }
        auto *node = make<SetComp>();
        node->element = item;
        node->generators = generators;
        return done(node, start);
      }
      items.add(item);
      if (isDict)
        items.add(value);
    }
    if (!accept(K::Comma))
      break;
  }
  if (!closeBracket(K::RBrace))
    return nullptr;
  if (!isDict) {
    auto *node = make<Set>();
    node->elements = items.list();
    return done(node, start);
  }
  std::vector<const Expr *> keys, values;
  for (size_t i = 0; i < items.size(); i += 2) {
    keys.push_back(items[i]);
    values.push_back(items[i + 1]);
  }
  auto *node = make<Dict>();
  node->keys = arena.copy(keys.data(), keys.size());
  node->values = arena.copy(values.data(), values.size());
  return done(node, start);
}

bool Parser::parseGenerators(NodeList<Comprehension> &out) {
  Collect<Comprehension> generators(*this);
  while (beginsComprehension()) {
    uint32_t start = begin();
    auto *node = make<Comprehension>();
    node->isAsync = accept(K::KwAsync);
    advance();
    if (!set(node->target, parseTargets()))
      return false;
    if (!expect(K::KwIn, "`in` after the target of `for`"))
      return false;
    if (!set(node->iter, parseDisjunction()))
      return false;
    {
      Collect<Expr> conditions(*this);
      while (accept(K::KwIf)) {
        const Expr *condition = parseDisjunction();
        if (!condition)
          return false;
        conditions.add(condition);
      }
      node->conditions = conditions.list();
    }
    if (!done(node, start))
      return false;
    generators.add(node);
  }
  out = generators.list();
  return true;
}

// --- Targets -------------------------------------------------------------------------------------

/// What a `for` binds: up to, and without, `in`.
const Expr *Parser::parseTargets() {
  uint32_t start = begin();
  Collect<Expr> elements(*this);
  bool tuple = false;
  do {
    if (elements.size() && !beginsExpression() && !at(K::Star))
      break;
    uint32_t starAt = begin();
    bool star = accept(K::Star);
    const Expr *next = parseBinary(0);
    if (!next)
      return nullptr;
    if (star) {
      auto *starred = make<Starred>();
      starred->value = next;
      if (!set(next, done(starred, starAt)))
        return nullptr;
    }
    elements.add(next);
  } while (at(K::Comma) && (tuple = true) && accept(K::Comma));
  const Expr *target = elements[0];
  if (tuple) {
    auto *node = make<Tuple>();
    node->elements = elements.list();
    target = done(node, start);
  }
  if (target)
    checkTarget(target, TargetUse::Assign);
  return target;
}

bool Parser::checkTarget(const Expr *target, TargetUse use, bool insideSequence) {
  auto elements = [&](NodeList<Expr> list) {
    for (const Expr *element : list)
      if (!checkTarget(element, use, true))
        return false;
    return true;
  };
  switch (target->kind) {
  case NodeKind::Name:
  case NodeKind::Attribute:
  case NodeKind::Subscript:
    return true;
  case NodeKind::Tuple:
    return elements(cast<Tuple>(target)->elements);
  case NodeKind::List:
    return elements(cast<List>(target)->elements);
  case NodeKind::Starred:
    if (use == TargetUse::Assign && insideSequence)
      return checkTarget(cast<Starred>(target)->value, use, false);
    error(diag::StarredNotAllowed, target->range);
    return false;
  default:
    if (use == TargetUse::Delete)
      error(diag::InvalidDelete, target->range, describeExpr(target));
    else
      error(diag::InvalidTarget, target->range, describeExpr(target));
    return false;
  }
}

/// "a call", "`None`": for messages about expressions at the wrong place.
std::string Parser::describeExpr(const Expr *expr) {
  switch (expr->kind) {
  case NodeKind::Name:
    return "the name `" + std::string(cast<Name>(expr)->id) + "`";
  case NodeKind::Constant:
    switch (cast<Constant>(expr)->constantKind) {
    case ConstantKind::None:
      return "`None`";
    case ConstantKind::True:
      return "`True`";
    case ConstantKind::False:
      return "`False`";
    case ConstantKind::Ellipsis:
      return "`...`";
    default:
      return "a literal";
    }
  case NodeKind::BinOp:
  case NodeKind::UnaryOp:
  case NodeKind::BoolOp:
    return "the result of an operator";
  case NodeKind::Compare:
    return "a comparison";
  case NodeKind::Call:
    return "a call";
  case NodeKind::IfExp:
    return "a conditional expression";
  case NodeKind::Lambda:
    return "a lambda";
  case NodeKind::Dict:
    return "a dict";
  case NodeKind::Set:
    return "a set";
  case NodeKind::List:
    return "a list";
  case NodeKind::Tuple:
    return "a tuple";
  case NodeKind::ListComp:
  case NodeKind::SetComp:
  case NodeKind::DictComp:
    return "a comprehension";
  case NodeKind::GeneratorExp:
    return "a generator expression";
  case NodeKind::JoinedStr:
    return "an f-string";
  case NodeKind::NamedExpr:
    return "a `:=` expression";
  case NodeKind::Starred:
    return "a starred expression";
  case NodeKind::Attribute:
    return "an attribute";
  case NodeKind::Subscript:
    return "a subscript";
  case NodeKind::UnsupportedExpr:
    return cast<UnsupportedExpr>(expr)->astName == "Await" ? "an `await` expression"
                                                           : "a `yield` expression";
  default:
    return "this expression";
  }
}

} // namespace nereid::syntax
