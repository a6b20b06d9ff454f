// Statements with blocks.
#include "syntax/parser_impl.h"

namespace nereid::syntax {

// --- Blocks --------------------------------------------------------------------------------------

/// `:`. When it is missing at the end of the line, what follows is read as if it were there.
bool Parser::expectColon(std::string_view after) {
  if (accept(K::Colon))
    return true;
  error(diag::ExpectedColon, here(), after, found());
  return at(K::Newline);
}

/// An indented block, or simple statements on the same line. `owner` is the word the block belongs
/// to, for the message when there is none.
bool Parser::parseBlock(NodeList<Stmt> &body, std::string_view owner, SourceRange ownerRange) {
  Collect<Stmt> statements(*this);
  if (!accept(K::Newline)) {
    if (!parseSimpleLine(statements))
      return false;
  } else if (!at(K::Indent)) {
    if (!silent())
      diagnostics.report(diag::ExpectedBlock, {source, here()}, owner)
          .note(diag::BlockOfThis, {source, ownerRange}, owner);
  } else {
    advance();
    parseStatements(statements, /*inBlock=*/true);
    accept(K::Dedent);
  }
  body = statements.list();
  return !fatal;
}

bool Parser::parseElse(NodeList<Stmt> &orelse) {
  SourceRange word = here();
  if (!accept(K::KwElse))
    return true;
  return expectColon("`else`") && parseBlock(orelse, "`else`", word);
}

const Expr *Parser::parseCondition() {
  const Expr *test = parseNamed();
  while (test && at(K::Equal)) {
    error(diag::AssignInCondition, here());
    advance();
    if (!parseNamed())
      return nullptr;
  }
  return test;
}

// --- if, while, for ------------------------------------------------------------------------------

/// With all its `elif` clauses, which are collected first and nested afterwards.
const Stmt *Parser::parseIf() {
  struct Clause {
    uint32_t begin;
    const Expr *test;
    NodeList<Stmt> body;
  };
  std::vector<Clause> clauses;
  NodeList<Stmt> orelse;
  while (true) {
    Clause clause;
    SourceRange word = here();
    bool elif = at(K::KwElif);
    clause.begin = begin();
    advance();
    if (!set(clause.test, parseCondition()))
      return nullptr;
    if (!expectColon(elif ? "the `elif` condition" : "the `if` condition"))
      return nullptr;
    if (!parseBlock(clause.body, elif ? "`elif`" : "`if`", word))
      return nullptr;
    clauses.push_back(clause);
    if (at(K::KwElif))
      continue;
    if (at(K::KwElse) && kind(1) == K::KwIf) {
      error(diag::ElseIf, cover(here(), token(1).range));
      advance();
      continue;
    }
    if (!parseElse(orelse))
      return nullptr;
    break;
  }
  const Stmt *result = nullptr;
  for (size_t i = clauses.size(); i-- > 0;) {
    auto *node = make<If>();
    node->test = clauses[i].test;
    node->body = clauses[i].body;
    node->orelse = result ? arena.copy(&result, 1) : orelse;
    if (!set(result, done(node, clauses[i].begin)))
      return nullptr;
  }
  return result;
}

const Stmt *Parser::parseWhile() {
  SourceRange word = here();
  advance();
  auto *node = make<While>();
  if (!set(node->test, parseCondition()) || !expectColon("the `while` condition"))
    return nullptr;
  ++loops;
  bool ok = parseBlock(node->body, "`while`", word);
  --loops;
  if (!ok || !parseElse(node->orelse))
    return nullptr;
  return done(node, word.begin);
}

/// An `async` statement, which has the shape of the plain one, as an unsupported node.
template <typename T>
const Stmt *Parser::asAsync(const T *plain, std::string_view astName, std::string_view name) {
  if (!plain)
    return nullptr;
  Collect<Node> children(*this);
  forEachChild(*plain, [&](const Node &child) { children.add(&child); });
  auto *node = make<UnsupportedStmt>();
  node->astName = astName;
  node->name = name;
  node->children = children.list();
  return sized(node, plain->range);
}

const Stmt *Parser::parseFor(uint32_t start, bool isAsync) {
  SourceRange word = here();
  advance();
  auto *node = make<For>();
  if (!set(node->target, parseTargets()))
    return nullptr;
  if (!expect(K::KwIn, "`in` after the target of `for`"))
    return nullptr;
  if (!set(node->iter, parseStarExpressions()) || !expectColon("the `for` header"))
    return nullptr;
  ++loops;
  bool ok = parseBlock(node->body, "`for`", word);
  --loops;
  if (!ok || !parseElse(node->orelse))
    return nullptr;
  const For *plain = done(node, start);
  return isAsync ? asAsync(plain, "AsyncFor", "") : plain;
}

// --- with ----------------------------------------------------------------------------------------

bool Parser::parseWithItems(Collect<WithItem> &items, bool parenthesised) {
  bool anyTarget = false;
  do {
    if (parenthesised && items.size() && at(K::RParen))
      break;
    uint32_t start = begin();
    auto *item = make<WithItem>();
    if (!set(item->context, parseExpression()))
      return false;
    if (accept(K::KwAs)) {
      anyTarget = true;
      if (!set(item->target, parsePrimary()))
        return false;
      checkTarget(item->target, TargetUse::Assign);
    }
    if (!done(item, start))
      return false;
    items.add(item);
  } while (accept(K::Comma));
  if (!parenthesised)
    return true;
  return accept(K::RParen) && (at(K::Colon) || (anyTarget && at(K::Newline)));
}

const Stmt *Parser::parseWith(uint32_t start, bool isAsync) {
  SourceRange word = here();
  advance();
  auto *node = make<With>();
  {
    // `with (a as b, c):` and `with (a, b).c:` differ only after the parenthesis.
    Collect<WithItem> items(*this);
    bool matched = false;
    if (at(K::LParen)) {
      size_t from = pos;
      ++speculating;
      advance();
      matched = parseWithItems(items, /*parenthesised=*/true);
      --speculating;
      if (!matched)
        pos = from;
    }
    if (matched)
      node->items = items.list();
  }
  if (node->items.empty()) {
    Collect<WithItem> items(*this);
    if (!parseWithItems(items, /*parenthesised=*/false))
      return nullptr;
    node->items = items.list();
  }
  if (!expectColon("the `with` header") || !parseBlock(node->body, "`with`", word))
    return nullptr;
  const With *plain = done(node, start);
  return isAsync ? asAsync(plain, "AsyncWith", "") : plain;
}

// --- try -----------------------------------------------------------------------------------------

const Stmt *Parser::parseTry() {
  SourceRange word = here();
  advance();
  Collect<Node> children(*this);
  auto block = [&](std::string_view name, SourceRange range) {
    NodeList<Stmt> body;
    if (!expectColon(name) || !parseBlock(body, name, range))
      return false;
    for (const Stmt *statement : body)
      children.add(statement);
    return true;
  };
  if (!block("`try`", word))
    return nullptr;
  bool star = false, handled = false;
  while (at(K::KwExcept)) {
    handled = true;
    SourceRange except = here();
    advance();
    star |= accept(K::Star);
    const UnsupportedPart *handler = nullptr;
    {
      Collect<Node> parts(*this);
      std::string_view name;
      if (!at(K::Colon)) {
        const Expr *type = parseExpression();
        if (!type)
          return nullptr;
        parts.add(type);
        if (accept(K::KwAs) && !parseName(name, nullptr, "a name after `as`"))
          return nullptr;
      }
      NodeList<Stmt> body;
      if (!expectColon("the `except` clause") || !parseBlock(body, "`except`", except))
        return nullptr;
      for (const Stmt *statement : body)
        parts.add(statement);
      handler = part("ExceptHandler", except.begin, parts, name);
    }
    if (!handler)
      return nullptr;
    children.add(handler);
  }
  for (TokenKind clause : {K::KwElse, K::KwFinally}) {
    if (!at(clause) || (clause == K::KwElse && !handled))
      continue;
    SourceRange range = here();
    advance();
    handled = true;
    if (!block(describe(clause), range))
      return nullptr;
  }
  if (!handled)
    error(diag::TryWithoutHandler, here(), found());
  auto *node = make<UnsupportedStmt>();
  node->astName = star ? "TryStar" : "Try";
  node->children = children.list();
  return done(node, word.begin);
}

// --- match ---------------------------------------------------------------------------------------

/// `match` begins a statement only when a subject, a colon and a `case` follow.
bool Parser::beginsMatch() {
  if (!atWord("match") || kind(1) == K::Equal || kind(1) == K::Dot || kind(1) == K::Newline)
    return false;
  size_t from = pos;
  ++speculating;
  advance();
  bool found = parseStarExpressions(/*named=*/true) && at(K::Colon) && kind(1) == K::Newline &&
               kind(2) == K::Indent && atWord("case", 3);
  --speculating;
  pos = from;
  return found;
}

const Stmt *Parser::parseMatch() {
  uint32_t start = begin();
  advance();
  Collect<Node> children(*this);
  const Expr *subject = parseStarExpressions(/*named=*/true);
  if (!subject)
    return nullptr;
  children.add(subject);
  advance(); // what beginsMatch has seen: a colon, the end of the line, an indentation
  advance();
  advance();
  auto parseCase = [&]() -> const Node * {
    SourceRange word = here();
    if (!atWord("case"))
      return error(diag::ExpectedToken, word, "`case`", this->found());
    advance();
    Collect<Node> parts(*this);
    const Node *pattern = parsePatterns();
    if (!pattern)
      return nullptr;
    parts.add(pattern);
    if (accept(K::KwIf)) {
      const Expr *guard = parseCondition();
      if (!guard)
        return nullptr;
      parts.add(guard);
    }
    NodeList<Stmt> body;
    if (!expectColon("the `case` pattern") || !parseBlock(body, "`case`", word))
      return nullptr;
    for (const Stmt *statement : body)
      parts.add(statement);
    return part("match_case", word.begin, parts);
  };
  while (!fatal && !at(K::Dedent) && !at(K::EndOfFile) && !diagnostics.full()) {
    if (const Node *matchCase = parseCase())
      children.add(matchCase);
    else
      skipStatement();
  }
  accept(K::Dedent);
  auto *node = make<UnsupportedStmt>();
  node->astName = "Match";
  node->children = children.list();
  return done(node, start);
}

// --- Definitions ---------------------------------------------------------------------------------

const Stmt *Parser::parseDecorated() {
  Collect<Expr> decorators(*this);
  while (accept(K::At)) {
    const Expr *decorator = parseNamed();
    if (!decorator)
      return nullptr;
    if (!at(K::Newline))
      return error(diag::ExpectedNewline, here(), found());
    advance();
    decorators.add(decorator);
  }
  NodeList<Expr> list = decorators.list();
  uint32_t start = begin();
  if (at(K::KwDef))
    return parseFunction(start, list, false);
  if (at(K::KwClass))
    return parseClass(list);
  if (at(K::KwAsync) && kind(1) == K::KwDef) {
    advance();
    return parseFunction(start, list, true);
  }
  return error(diag::DecoratorTarget, here(), found());
}

const Stmt *Parser::parseFunction(uint32_t start, NodeList<Expr> decorators, bool isAsync) {
  SourceRange word = here();
  advance();
  auto *node = make<FunctionDef>();
  node->decorators = decorators;
  if (!parseName(node->name, &node->nameRange, "a function name after `def`") ||
      !parseTypeParams(node->typeParams) || !expect(K::LParen))
    return nullptr;
  if (!set(node->args, parseParameters(K::RParen, /*annotations=*/true)))
    return nullptr;
  if (!expect(K::RParen))
    return nullptr;
  if (accept(K::Arrow) && !set(node->returns, parseExpression()))
    return nullptr;
  if (!expectColon("the function's header"))
    return nullptr;
  unsigned outerLoops = std::exchange(loops, 0);
  ++functions;
  ++scopes;
  bool ok = parseBlock(node->body, "`def`", word);
  --scopes;
  --functions;
  loops = outerLoops;
  if (!ok)
    return nullptr;
  const FunctionDef *plain = done(node, start);
  return isAsync ? asAsync(plain, "AsyncFunctionDef", node->name) : plain;
}

const Stmt *Parser::parseClass(NodeList<Expr> decorators) {
  SourceRange word = here();
  advance();
  auto *node = make<ClassDef>();
  node->decorators = decorators;
  if (!parseName(node->name, &node->nameRange, "a class name after `class`") ||
      !parseTypeParams(node->typeParams))
    return nullptr;
  if (at(K::LParen)) {
    uint32_t open = begin();
    advance();
    Collect<Expr> bases(*this);
    Collect<Keyword> keywords(*this);
    if (!parseCallArguments(bases, keywords, open))
      return nullptr;
    node->bases = bases.list();
    node->keywords = keywords.list();
  }
  if (!expectColon("the class header"))
    return nullptr;
  unsigned outerLoops = std::exchange(loops, 0);
  unsigned outerFunctions = std::exchange(functions, 0);
  ++scopes;
  bool ok = parseBlock(node->body, "`class`", word);
  --scopes;
  functions = outerFunctions;
  loops = outerLoops;
  return ok ? done(node, word.begin) : nullptr;
}

/// `[T, *Ts, **P]` after the name of a definition.
bool Parser::parseTypeParams(NodeList<Node> &out) {
  if (!accept(K::LBracket))
    return true;
  Collect<Node> params(*this);
  while (!at(K::RBracket)) {
    uint32_t start = begin();
    std::string_view astName = accept(K::Star)         ? "TypeVarTuple"
                               : accept(K::DoubleStar) ? "ParamSpec"
                                                       : "TypeVar";
    std::string_view name;
    if (!parseName(name, nullptr, "a type parameter"))
      return false;
    const Node *param;
    {
      Collect<Node> bound(*this);
      if (accept(K::Colon)) {
        const Expr *expr = parseExpression();
        if (!expr)
          return false;
        bound.add(expr);
      }
      param = part(astName, start, bound);
    }
    if (!param)
      return false;
    params.add(param);
    if (!accept(K::Comma))
      break;
  }
  out = params.list();
  return closeBracket(K::RBracket);
}

/// The parameters of a function (`annotations`) or a lambda, up to `close`, which is left.
const Arguments *Parser::parseParameters(TokenKind close, bool annotations) {
  uint32_t start = begin();
  auto *node = make<Arguments>();
  Collect<Arg> args(*this);
  std::vector<NamedRange> names;
  size_t positionalOnly = 0, keywordOnly = ~size_t(0);
  bool slash = false, defaults = false;

  auto parseArg = [&](bool starred, bool mayDefault) -> const Arg * {
    auto *arg = make<Arg>();
    uint32_t argStart = begin();
    if (!parseName(arg->name, &arg->nameRange, "a parameter name"))
      return nullptr;
    names.push_back({arg->name, arg->nameRange});
    if (annotations && accept(K::Colon) &&
        !set(arg->annotation, starred ? parseStarredOr() : parseExpression()))
      return nullptr;
    if (!done(arg, argStart))
      return nullptr;
    if (mayDefault && accept(K::Equal)) {
      SourceRange range = arg->range; // the default lies outside of it, as in CPython
      if (!set(arg->defaultValue, parseExpression()))
        return nullptr;
      return sized(arg, range);
    }
    return arg;
  };

  while (!at(close)) {
    bool afterStar = keywordOnly != ~size_t(0);
    SourceRange first = here();
    if (node->kwarg)
      return error(diag::BadParameterOrder, first, "a parameter after `**`");
    if (at(K::Slash)) {
      if (slash || afterStar || !args.size())
        return error(diag::BadParameterOrder, first, "`/`");
      advance();
      slash = true;
      positionalOnly = args.size();
    } else if (accept(K::Star)) {
      if (afterStar)
        return error(diag::BadParameterOrder, first, "a second `*`");
      keywordOnly = args.size();
      if (at(K::Comma)) {
        if (kind(1) != K::Name)
          return error(diag::ExpectedToken, token(1).range, "a parameter name after `*`",
                       describe(kind(1)));
      } else if (!set(node->vararg, parseArg(/*starred=*/true, /*mayDefault=*/false))) {
        return nullptr;
      }
    } else if (accept(K::DoubleStar)) {
      if (!set(node->kwarg, parseArg(/*starred=*/false, /*mayDefault=*/false)))
        return nullptr;
    } else {
      const Arg *arg = parseArg(/*starred=*/false, /*mayDefault=*/true);
      if (!arg)
        return nullptr;
      if (!afterStar && defaults && !arg->defaultValue)
        error(diag::NonDefaultAfterDefault, arg->nameRange, arg->name);
      defaults |= arg->defaultValue != nullptr;
      args.add(arg);
    }
    if (!accept(K::Comma))
      break;
  }
  if (!at(close))
    return error(diag::MissingComma, here(), textOfKind(close), found());
  if (auto twice = findRepeated(names))
    error(diag::DuplicateParameter, twice->second, twice->first);

  NodeList<Arg> all = args.list();
  size_t positional = std::min(keywordOnly, args.size());
  node->posOnly = {all.begin(), uint32_t(positionalOnly)};
  node->args = {all.begin() + positionalOnly, uint32_t(positional - positionalOnly)};
  node->kwOnly = {all.begin() + positional, uint32_t(args.size() - positional)};
  return sized(node, {start, std::max(start, lastEnd())});
}

} // namespace nereid::syntax
