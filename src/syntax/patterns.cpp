// The patterns of `match`. They are outside of the kernel language: each becomes an
// UnsupportedPart named as in Python's `ast`.
#include "syntax/parser_impl.h"

namespace nereid::syntax {

std::nullptr_t Parser::invalidPattern() {
  return error(diag::InvalidPattern, here(), found());
}

/// What stands after `case`: one pattern, or several with commas.
const Node *Parser::parsePatterns() {
  uint32_t start = begin();
  bool star = at(K::Star);
  const Node *first = parseMaybeStarPattern();
  if (!first || (!at(K::Comma) && !star))
    return first;
  Collect<Node> children(*this);
  children.add(first);
  while (accept(K::Comma)) {
    if (at(K::Colon) || at(K::KwIf))
      break;
    const Node *next = parseMaybeStarPattern();
    if (!next)
      return nullptr;
    children.add(next);
  }
  return part("MatchSequence", start, children);
}

const Node *Parser::parseMaybeStarPattern() {
  uint32_t start = begin();
  if (!accept(K::Star))
    return parsePattern();
  std::string_view name;
  if (!parseName(name, nullptr, "a name after `*`"))
    return nullptr;
  Collect<Node> none(*this);
  return part("MatchStar", start, none, name);
}

/// `pattern as name`.
const Node *Parser::parsePattern() {
  DepthGuard guard(*this);
  if (depthExceeded())
    return tooDeep(here());
  uint32_t start = begin();
  const Node *pattern = parseOrPattern();
  if (!pattern || !accept(K::KwAs))
    return pattern;
  std::string_view name;
  if (!parseName(name, nullptr, "a name after `as`"))
    return nullptr;
  Collect<Node> children(*this);
  children.add(pattern);
  return part("MatchAs", start, children, name);
}

const Node *Parser::parseOrPattern() {
  uint32_t start = begin();
  const Node *first = parseClosedPattern();
  if (!first || !at(K::Pipe))
    return first;
  Collect<Node> children(*this);
  children.add(first);
  while (accept(K::Pipe)) {
    const Node *next = parseClosedPattern();
    if (!next)
      return nullptr;
    children.add(next);
  }
  return part("MatchOr", start, children);
}

const Node *Parser::parseClosedPattern() {
  uint32_t start = begin();
  Collect<Node> children(*this);
  switch (kind()) {
  case K::Number:
  case K::Minus:
  case K::String:
  case K::FStringStart: {
    const Expr *value = parseLiteralPattern();
    if (!value)
      return nullptr;
    children.add(value);
    return part("MatchValue", start, children);
  }
  case K::KwNone:
  case K::KwTrue:
  case K::KwFalse:
    advance();
    return part("MatchSingleton", start, children);
  case K::Name:
    return parseNamePattern();
  case K::LParen:
  case K::LBracket:
    return parseSequencePattern();
  case K::LBrace:
    return parseMappingPattern();
  default:
    return invalidPattern();
  }
}

/// A number with sign, a complex number, or strings.
const Expr *Parser::parseLiteralPattern() {
  if (at(K::String) || at(K::FStringStart))
    return parseStrings();
  auto signedNumber = [&]() -> const Expr * {
    uint32_t start = begin();
    bool minus = accept(K::Minus);
    if (!at(K::Number))
      return invalidPattern();
    const Expr *number = parseNumber();
    if (!number || !minus)
      return number;
    auto *node = make<UnaryOp>();
    node->op = UnaryOpKind::USub;
    node->operand = number;
    return done(node, start);
  };
  uint32_t start = begin();
  const Expr *real = signedNumber();
  if (!real || (!at(K::Plus) && !at(K::Minus)))
    return real;
  auto *node = make<BinOp>();
  node->left = real;
  node->op = at(K::Plus) ? BinaryOp::Add : BinaryOp::Sub;
  node->opRange = here();
  advance();
  if (!at(K::Number))
    return invalidPattern();
  node->right = parseNumber();
  return node->right ? done(node, start) : nullptr;
}

/// A name to bind, a dotted value, or a class pattern.
const Node *Parser::parseNamePattern() {
  uint32_t start = begin();
  Collect<Node> children(*this);
  if (kind(1) != K::Dot && kind(1) != K::LParen) {
    std::string_view bound = textOf(token());
    advance();
    return part("MatchAs", start, children, bound);
  }
  auto *name = make<Name>();
  name->id = textOf(token());
  advance();
  const Expr *value = done(name, start);
  while (value && accept(K::Dot)) {
    auto *attribute = make<Attribute>();
    attribute->value = value;
    if (!parseName(attribute->name, &attribute->nameRange, "a name after `.`"))
      return nullptr;
    value = done(attribute, start);
  }
  if (!value)
    return nullptr;
  children.add(value);
  if (!accept(K::LParen))
    return part("MatchValue", start, children);
  while (!at(K::RParen)) {
    if (at(K::Name) && kind(1) == K::Equal) {
      advance();
      advance();
    }
    const Node *argument = parsePattern();
    if (!argument)
      return nullptr;
    children.add(argument);
    if (!accept(K::Comma))
      break;
  }
  return closeBracket(K::RParen) ? part("MatchClass", start, children) : nullptr;
}

/// `[...]`, `(...)`, or a pattern in parentheses.
const Node *Parser::parseSequencePattern() {
  uint32_t start = begin();
  bool parenthesis = at(K::LParen);
  TokenKind close = parenthesis ? K::RParen : K::RBracket;
  advance();
  Collect<Node> children(*this);
  bool comma = false, star = false;
  while (!at(close)) {
    star |= at(K::Star);
    const Node *next = parseMaybeStarPattern();
    if (!next)
      return nullptr;
    children.add(next);
    if (!accept(K::Comma))
      break;
    comma = true;
  }
  if (!closeBracket(close))
    return nullptr;
  if (parenthesis && children.size() == 1 && !comma && !star)
    return children[0];
  return part("MatchSequence", start, children);
}

const Node *Parser::parseMappingPattern() {
  uint32_t start = begin();
  advance();
  Collect<Node> children(*this);
  std::string_view rest;
  while (!at(K::RBrace)) {
    if (accept(K::DoubleStar)) {
      if (!parseName(rest, nullptr, "a name after `**`"))
        return nullptr;
    } else {
      const Expr *key = nullptr;
      if (at(K::Number) || at(K::Minus) || at(K::String))
        key = parseLiteralPattern();
      else if (at(K::Name) || at(K::KwNone) || at(K::KwTrue) || at(K::KwFalse))
        key = parsePrimary();
      else
        return invalidPattern();
      if (!key || !expect(K::Colon, "`:` after the key"))
        return nullptr;
      children.add(key);
      const Node *value = parsePattern();
      if (!value)
        return nullptr;
      children.add(value);
    }
    if (!accept(K::Comma))
      break;
  }
  return closeBracket(K::RBrace) ? part("MatchMapping", start, children, rest) : nullptr;
}

} // namespace nereid::syntax
