// Operands: names, literals, displays and comprehensions, followed by calls, attributes and
// subscripts.
#include "syntax/parser_impl.h"

namespace nereid::syntax {

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

} // namespace nereid::syntax
