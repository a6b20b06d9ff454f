#include "syntax/parser_impl.h"

#include <cstdio>

namespace nereid::syntax {

// --- The parser's tools --------------------------------------------------------------------------

Parser::Parser(Module &module, DiagnosticEngine &diagnostics)
    : module(module), source(module.source()), arena(module.arena), diagnostics(diagnostics),
      lexer(source, diagnostics, tokens) {
  tokens.reserve(source.text().size() / 4 + 16);
}

bool Parser::expect(TokenKind k, std::string_view what) {
  if (accept(k))
    return true;
  error(diag::ExpectedToken, here(), what, found());
  return false;
}

uint32_t Parser::lastEnd() const {
  for (size_t i = pos; i-- > 0;) {
    switch (tokens[i].kind) {
    case K::Newline:
    case K::Indent:
    case K::Dedent:
    case K::EndOfFile:
      continue;
    default:
      return tokens[i].range.end;
    }
  }
  return 0;
}

std::string Parser::found() {
  switch (kind()) {
  case K::Name:
  case K::Number: {
    std::string_view text = textOf(token());
    constexpr size_t most = 40;
    size_t length = std::min(text.size(), most);
    while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80)
      --length;
    return "`" + std::string(text.substr(0, length)) + (length < text.size() ? "...`" : "`");
  }
  default:
    return std::string(describe(kind()));
  }
}

/// Ends the parse: what follows in such a source is not worth a second report.
std::nullptr_t Parser::tooDeep(SourceRange range) {
  if (speculating)
    return nullptr;
  // Point at where the limit was passed, not at all of a megabyte.
  if (range.size() > 1)
    range = {range.end - 1, range.end};
  unsigned levels = depthExceeded() ? maxNesting : maxTreeDepth;
  error(diag::NestingTooDeep, range, int64_t(levels));
  fatal = true;
  return nullptr;
}

const UnsupportedExpr *Parser::unsupported(std::string_view name, uint32_t start,
                                           std::initializer_list<const Node *> children) {
  auto *node = make<UnsupportedExpr>();
  node->astName = name;
  node->children = arena.copy(children.begin(), children.size());
  return done(node, start);
}

const UnsupportedPart *Parser::part(std::string_view name, uint32_t start,
                                    const Collect<Node> &children, std::string_view bound) {
  auto *node = make<UnsupportedPart>();
  node->astName = name;
  node->name = bound;
  node->children = children.list();
  return done(node, start);
}

// --- Entry points --------------------------------------------------------------------------------

std::shared_ptr<Module> Parser::makeModule(const SourceFilePtr &source) {
  return std::shared_ptr<Module>(new Module(source));
}

const Expr *Parser::parseWholeExpression() {
  const Expr *expr = parseStarExpressions(/*named=*/true);
  if (!expr)
    return nullptr;
  if (!at(K::Newline))
    return error(diag::ExpectedToken, here(), "the end of the expression", found());
  advance();
  if (!at(K::EndOfFile))
    return error(diag::ExpectedToken, here(), "the end of the expression", found());
  return expr;
}

/// Checks the source before the first token is read.
static bool readable(const SourceFile &source, DiagnosticEngine &diagnostics) {
  if (source.text().size() > SourceFile::maxSize) {
    diagnostics.report(diag::SourceTooLarge, {source, {0, 0}}, int64_t(SourceFile::maxSize));
    return false;
  }
  if (auto offset = source.invalidUtf8()) {
    char byte[8];
    std::snprintf(byte, sizeof byte, "0x%02x", unsigned(uint8_t(source.text()[*offset])));
    diagnostics.report(diag::NotUtf8, {source, {*offset, *offset + 1}}, byte, int64_t(*offset));
    return false;
  }
  return true;
}

ParseResult parseModule(const SourceFilePtr &source, DiagnosticEngine &diagnostics) {
  std::shared_ptr<Module> module = Parser::makeModule(source);
  unsigned before = diagnostics.errorCount();
  if (readable(*source, diagnostics)) {
    Parser parser(*module, diagnostics);
    parser.parseModule();
  }
  return {std::move(module), diagnostics.errorCount() == before};
}

ParsedExpression parseExpression(const SourceFilePtr &source, DiagnosticEngine &diagnostics) {
  std::shared_ptr<Module> module = Parser::makeModule(source);
  unsigned before = diagnostics.errorCount();
  const Expr *expr = nullptr;
  if (readable(*source, diagnostics)) {
    Parser parser(*module, diagnostics);
    expr = parser.parseWholeExpression();
  }
  if (diagnostics.errorCount() != before)
    expr = nullptr;
  return {std::move(module), expr};
}

} // namespace nereid::syntax
