// Simple statements, and the loop over statements with its recovery from errors. Compound
// statements are in compound.cpp.
#include "syntax/parser_impl.h"

namespace nereid::syntax {

// --- Lines and recovery --------------------------------------------------------------------------

void Parser::parseModule() {
  Collect<Stmt> body(*this);
  parseStatements(body, /*inBlock=*/false);
  module.statements = body.list();
}

void Parser::parseStatements(Collect<Stmt> &out, bool inBlock) {
  while (!fatal && !at(K::EndOfFile) && !diagnostics.full()) {
    if (at(K::Dedent)) {
      if (inBlock)
        return;
      advance();
    } else if (at(K::Indent)) {
      error(diag::UnexpectedIndent, here());
      advance();
      parseStatements(out, /*inBlock=*/true);
      accept(K::Dedent);
    } else if (!parseStatement(out)) {
      skipStatement();
    }
  }
}

/// After an error: to the end of the line. A block that follows is still searched for errors, and
/// the clauses (`else`...) that belonged to the lost statement are passed over.
void Parser::skipStatement() {
  auto skipLine = [&] {
    while (!at(K::Newline) && !at(K::EndOfFile))
      advance();
    accept(K::Newline);
    skipBlock();
  };
  skipLine();
  while (!fatal && (at(K::KwElse) || at(K::KwElif) || at(K::KwExcept) || at(K::KwFinally)))
    skipLine();
}

void Parser::skipBlock() {
  if (fatal || !accept(K::Indent))
    return;
  Collect<Stmt> ignored(*this);
  parseStatements(ignored, /*inBlock=*/true);
  accept(K::Dedent);
}

bool Parser::parseStatement(Collect<Stmt> &out) {
  const Stmt *statement = nullptr;
  switch (kind()) {
  case K::KwDef:
    statement = parseFunction(begin(), {}, false);
    break;
  case K::KwIf:
    statement = parseIf();
    break;
  case K::KwFor:
    statement = parseFor(begin(), false);
    break;
  case K::KwWhile:
    statement = parseWhile();
    break;
  case K::KwWith:
    statement = parseWith(begin(), false);
    break;
  case K::KwClass:
    statement = parseClass({});
    break;
  case K::KwTry:
    statement = parseTry();
    break;
  case K::At:
    statement = parseDecorated();
    break;
  case K::KwAsync: {
    uint32_t start = begin();
    advance();
    if (at(K::KwDef))
      statement = parseFunction(start, {}, true);
    else if (at(K::KwFor))
      statement = parseFor(start, true);
    else if (at(K::KwWith))
      statement = parseWith(start, true);
    else
      error(diag::ExpectedToken, here(), "`def`, `for` or `with` after `async`", found());
    break;
  }
  case K::KwElse:
  case K::KwElif:
  case K::KwExcept:
  case K::KwFinally:
    statement = orphanClause();
    break;
  default:
    if (beginsMatch()) {
      statement = parseMatch();
      break;
    }
    return parseSimpleLine(out);
  }
  if (statement)
    out.add(statement);
  return statement;
}

const Stmt *Parser::orphanClause() {
  std::string_view owners = at(K::KwElse)   ? "`if`, `for`, `while` or `try`"
                            : at(K::KwElif) ? "`if`"
                                            : "`try`";
  return error(diag::OrphanClause, here(), textOfKind(kind()), owners);
}

/// Simple statements separated by semicolons, and the end of the line.
bool Parser::parseSimpleLine(Collect<Stmt> &out) {
  do {
    const Stmt *statement = parseSimple();
    if (!statement)
      return false;
    out.add(statement);
    if (at(K::Newline) || at(K::Semicolon))
      continue;
    // `print "text"`
    auto *expr = dynCast<ExprStmt>(statement);
    auto *name = expr ? dynCast<Name>(expr->value) : nullptr;
    if (name && (name->id == "print" || name->id == "exec") && beginsExpression())
      error(diag::PrintStatement, name->range, name->id);
    else
      error(diag::ExpectedNewline, here(), found());
    return false;
  } while (accept(K::Semicolon) && !at(K::Newline));
  accept(K::Newline);
  return true;
}

// --- Simple statements ---------------------------------------------------------------------------

const Stmt *Parser::parseSimple() {
  switch (kind()) {
  case K::KwReturn:
    return parseReturn();
  case K::KwPass:
    return parseWord<Pass>();
  case K::KwBreak:
    return parseWord<Break>();
  case K::KwContinue:
    return parseWord<Continue>();
  case K::KwImport:
    return parseImport();
  case K::KwFrom:
    return parseImportFrom();
  case K::KwAssert:
    return parseAssert();
  case K::KwRaise:
    return parseRaise();
  case K::KwDel:
    return parseDelete();
  case K::KwGlobal:
    return parseScopeNames<Global>();
  case K::KwNonlocal:
    return parseScopeNames<Nonlocal>();
  default:
    if (atWord("type") && kind(1) == K::Name && (kind(2) == K::Equal || kind(2) == K::LBracket))
      return parseTypeAlias();
    return parseExpressionStatement();
  }
}

template <typename T> const Stmt *Parser::parseWord() {
  uint32_t start = begin();
  if (!std::is_same_v<T, Pass> && !loops)
    error(diag::OutsideLoop, here(), textOfKind(kind()));
  advance();
  return done(make<T>(), start);
}

static std::optional<BinaryOp> augmentedOperator(TokenKind kind) {
  switch (kind) {
  case TokenKind::PlusEqual:
    return BinaryOp::Add;
  case TokenKind::MinusEqual:
    return BinaryOp::Sub;
  case TokenKind::StarEqual:
    return BinaryOp::Mult;
  case TokenKind::SlashEqual:
    return BinaryOp::Div;
  case TokenKind::DoubleSlashEqual:
    return BinaryOp::FloorDiv;
  case TokenKind::PercentEqual:
    return BinaryOp::Mod;
  case TokenKind::AtEqual:
    return BinaryOp::MatMult;
  case TokenKind::AmpersandEqual:
    return BinaryOp::BitAnd;
  case TokenKind::PipeEqual:
    return BinaryOp::BitOr;
  case TokenKind::CaretEqual:
    return BinaryOp::BitXor;
  case TokenKind::LessLessEqual:
    return BinaryOp::LShift;
  case TokenKind::GreaterGreaterEqual:
    return BinaryOp::RShift;
  case TokenKind::DoubleStarEqual:
    return BinaryOp::Pow;
  default:
    return std::nullopt;
  }
}

/// An expression, or an assignment of any kind.
const Stmt *Parser::parseExpressionStatement() {
  uint32_t start = begin();
  bool bare = at(K::Name); // without parentheses
  const Expr *first = parseYieldOrStar();
  if (!first)
    return nullptr;

  if (at(K::Colon)) {
    switch (first->kind) {
    case NodeKind::Name:
    case NodeKind::Attribute:
    case NodeKind::Subscript:
    case NodeKind::Tuple:
    case NodeKind::List:
      return parseAnnotated(first, start, bare && isa<Name>(first));
    default:
      break;
    }
  }

  if (auto op = augmentedOperator(kind())) {
    if (!isa<Name>(first) && !isa<Attribute>(first) && !isa<Subscript>(first))
      error(diag::InvalidAugTarget, first->range, describeExpr(first), textOfKind(kind()));
    auto *node = make<AugAssign>();
    node->target = first;
    node->op = *op;
    node->opRange = here();
    advance();
    if (!set(node->value, parseYieldOrStar()))
      return nullptr;
    if (isa<Starred>(node->value))
      return error(diag::StarredNotAllowed, node->value->range);
    return done(node, start);
  }

  Collect<Expr> targets(*this);
  const Expr *value = first;
  while (at(K::Equal)) {
    checkTarget(value, TargetUse::Assign);
    targets.add(value);
    advance();
    if (!set(value, parseYieldOrStar()))
      return nullptr;
  }
  if (isa<Starred>(value))
    return error(diag::StarredNotAllowed, value->range);
  if (!targets.size()) {
    auto *node = make<ExprStmt>();
    node->value = value;
    return done(node, start);
  }
  auto *node = make<Assign>();
  node->targets = targets.list();
  node->value = value;
  return done(node, start);
}

const Stmt *Parser::parseAnnotated(const Expr *target, uint32_t start, bool simple) {
  if (isa<Tuple>(target) || isa<List>(target))
    error(diag::InvalidAnnTarget, target->range, describeExpr(target));
  advance();
  auto *node = make<AnnAssign>();
  node->target = target;
  node->simple = simple;
  if (!set(node->annotation, parseExpression()))
    return nullptr;
  if (accept(K::Equal)) {
    if (!set(node->value, parseYieldOrStar()))
      return nullptr;
    if (isa<Starred>(node->value))
      return error(diag::StarredNotAllowed, node->value->range);
  }
  return done(node, start);
}

const Stmt *Parser::parseReturn() {
  uint32_t start = begin();
  if (!functions)
    error(diag::OutsideFunction, here(), "return");
  advance();
  auto *node = make<Return>();
  if (!at(K::Newline) && !at(K::Semicolon)) {
    if (!set(node->value, parseStarExpressions()))
      return nullptr;
    if (isa<Starred>(node->value))
      return error(diag::StarredNotAllowed, node->value->range);
  }
  return done(node, start);
}

const Stmt *Parser::parseDelete() {
  uint32_t start = begin();
  advance();
  Collect<Expr> targets(*this);
  do {
    if (targets.size() && (at(K::Newline) || at(K::Semicolon)))
      break;
    const Expr *target = parseExpression();
    if (!target)
      return nullptr;
    checkTarget(target, TargetUse::Delete);
    targets.add(target);
  } while (accept(K::Comma));
  auto *node = make<Delete>();
  node->targets = targets.list();
  return done(node, start);
}

const Stmt *Parser::parseRaise() {
  uint32_t start = begin();
  advance();
  auto *node = make<Raise>();
  if (!at(K::Newline) && !at(K::Semicolon)) {
    if (!set(node->exception, parseExpression()))
      return nullptr;
    if (accept(K::KwFrom) && !set(node->cause, parseExpression()))
      return nullptr;
  }
  return done(node, start);
}

const Stmt *Parser::parseAssert() {
  uint32_t start = begin();
  advance();
  auto *node = make<Assert>();
  if (!set(node->test, parseExpression()))
    return nullptr;
  if (at(K::Equal))
    return error(diag::AssignInCondition, here());
  if (accept(K::Comma) && !set(node->message, parseExpression()))
    return nullptr;
  return done(node, start);
}

// --- Names, imports ------------------------------------------------------------------------------

bool Parser::parseName(std::string_view &name, SourceRange *range, std::string_view what) {
  if (at(K::Name)) {
    name = textOf(token());
    if (range)
      *range = here();
    advance();
    return true;
  }
  if (kind() >= K::KwFalse)
    error(diag::ReservedWord, here(), textOfKind(kind()));
  else
    error(diag::ExpectedToken, here(), what, found());
  return false;
}

/// `a.b.c`, blanks around the dots dropped.
bool Parser::parseDottedName(std::string_view &name) {
  uint32_t start = begin();
  std::string_view part;
  std::string joined;
  bool more = false;
  do {
    if (!parseName(part, nullptr, more ? "a name after `.`" : "a module name"))
      return false;
    joined += more ? "." : "";
    joined += part;
    more = true;
  } while (accept(K::Dot));
  name = source.text({start, lastEnd()});
  if (name != joined)
    name = arena.copy(joined);
  return true;
}

const Alias *Parser::parseAlias(bool dotted) {
  uint32_t start = begin();
  auto *alias = make<Alias>();
  if (dotted ? !parseDottedName(alias->name) : !parseName(alias->name, nullptr, "a name to import"))
    return nullptr;
  if (accept(K::KwAs) && !parseName(alias->asName, nullptr, "a name after `as`"))
    return nullptr;
  return done(alias, start);
}

const Stmt *Parser::parseImport() {
  uint32_t start = begin();
  advance();
  Collect<Alias> names(*this);
  do {
    const Alias *alias = parseAlias(/*dotted=*/true);
    if (!alias)
      return nullptr;
    names.add(alias);
  } while (accept(K::Comma));
  auto *node = make<Import>();
  node->names = names.list();
  return done(node, start);
}

const Stmt *Parser::parseImportFrom() {
  uint32_t start = begin();
  advance();
  auto *node = make<ImportFrom>();
  for (; at(K::Dot) || at(K::Ellipsis); advance())
    node->level += at(K::Dot) ? 1 : 3;
  if ((!node->level || !at(K::KwImport)) && !parseDottedName(node->module))
    return nullptr;
  if (!expect(K::KwImport))
    return nullptr;
  Collect<Alias> names(*this);
  if (at(K::Star)) {
    if (scopes)
      error(diag::StarImportNested, here());
    auto *alias = make<Alias>();
    alias->name = "*";
    uint32_t star = begin();
    advance();
    names.add(done(alias, star));
  } else {
    bool parenthesised = accept(K::LParen);
    do {
      if (parenthesised && names.size() && at(K::RParen))
        break;
      const Alias *alias = parseAlias(/*dotted=*/false);
      if (!alias)
        return nullptr;
      names.add(alias);
    } while (accept(K::Comma));
    if (parenthesised && !closeBracket(K::RParen))
      return nullptr;
  }
  node->names = names.list();
  return done(node, start);
}

template <typename T> const Stmt *Parser::parseScopeNames() {
  uint32_t start = begin();
  advance();
  std::vector<std::string_view> names;
  do {
    std::string_view name;
    if (!parseName(name, nullptr, "a name"))
      return nullptr;
    names.push_back(name);
  } while (accept(K::Comma));
  auto *node = make<T>();
  node->names = arena.copy(names.data(), names.size());
  return done(node, start);
}

const Stmt *Parser::parseTypeAlias() {
  uint32_t start = begin();
  advance();
  auto *node = make<UnsupportedStmt>();
  node->astName = "TypeAlias";
  auto *name = make<Name>();
  name->id = node->name = textOf(token());
  uint32_t nameStart = begin();
  advance();
  Collect<Node> children(*this);
  children.add(done(name, nameStart));
  NodeList<Node> params;
  if (!parseTypeParams(params))
    return nullptr;
  for (const Node *param : params)
    children.add(param);
  if (!expect(K::Equal))
    return nullptr;
  const Expr *value = parseExpression();
  if (!value)
    return nullptr;
  children.add(value);
  node->children = children.list();
  return done(node, start);
}

} // namespace nereid::syntax
