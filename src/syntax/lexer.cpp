// Lines, indentation, names, operators and brackets. Numbers and strings: lexer_literals.cpp.
#include "syntax/lexer.h"

#include "support/text.h"
#include "syntax/characters.h"
#include "syntax/tree.h"

#include <algorithm>
#include <cstdio>
#include <string>

namespace nereid::syntax {

// --- Character classes ---------------------------------------------------------------------------

namespace {

struct CodeRange {
  char32_t first, last;
};

#include "syntax/identifiers.inc"

template <size_t N> bool inTable(const CodeRange (&table)[N], char32_t c) {
  auto *after = std::upper_bound(table, table + N, c,
                                 [](char32_t c, const CodeRange &r) { return c < r.first; });
  return after != table && c <= after[-1].last;
}

struct Keyword {
  std::string_view spelling;
  TokenKind kind;
};

constexpr Keyword keywords[] = {
#define KEYWORD(Name, Spelling) {Spelling, TokenKind::Kw##Name},
#include "syntax/tokens.def"
};

TokenKind keywordOrName(std::string_view word) {
  if (word.size() < 2 || word.size() > 8)
    return TokenKind::Name;
  for (const Keyword &keyword : keywords)
    if (keyword.spelling[0] == word[0] && keyword.spelling == word)
      return keyword.kind;
  return TokenKind::Name;
}

/// Words that begin a statement and can never stand inside of brackets.
bool beginsOnlyStatements(TokenKind kind) {
  switch (kind) {
  case TokenKind::KwDef:
  case TokenKind::KwClass:
  case TokenKind::KwReturn:
  case TokenKind::KwWhile:
  case TokenKind::KwImport:
  case TokenKind::KwWith:
  case TokenKind::KwPass:
  case TokenKind::KwBreak:
  case TokenKind::KwContinue:
  case TokenKind::KwRaise:
  case TokenKind::KwTry:
  case TokenKind::KwDel:
  case TokenKind::KwGlobal:
  case TokenKind::KwNonlocal:
  case TokenKind::KwAssert:
  case TokenKind::KwExcept:
  case TokenKind::KwFinally:
  case TokenKind::KwElif:
    return true;
  default:
    return false;
  }
}

char closerOf(char open) {
  return open == '(' ? ')' : open == '[' ? ']' : '}';
}

} // namespace

std::string_view describe(TokenKind kind) {
  static constexpr std::string_view names[] = {
#define TOKEN(Name, Description) Description,
#define PUNCT(Name, Spelling) ("`" Spelling "`"),
#define KEYWORD(Name, Spelling) ("`" Spelling "`"),
#include "syntax/tokens.def"
  };
  return names[size_t(kind)];
}

// --- Lines ---------------------------------------------------------------------------------------

Lexer::Lexer(const SourceFile &source, DiagnosticEngine &diagnostics, std::vector<Token> &tokens)
    : source(source), text(source.text()), diagnostics(diagnostics), tokens(tokens) {
  if (startsWith("\xEF\xBB\xBF"))
    at = 3;
}

bool Lexer::isTainted(size_t index) const {
  for (auto range = tainted.rbegin(); range != tainted.rend(); ++range)
    if (index >= range->first)
      return index < range->second;
  return lineTainted && index >= lineToken;
}

uint32_t Lexer::lineBreakLength(uint32_t offset) const {
  if (offset >= text.size())
    return 0;
  if (text[offset] == '\n')
    return 1;
  if (text[offset] == '\r')
    return offset + 1 < text.size() && text[offset + 1] == '\n' ? 2 : 1;
  return 0;
}

void Lexer::skipToLineEnd() {
  while (at < text.size() && text[at] != '\n' && text[at] != '\r')
    ++at;
}

bool Lexer::lexLine() {
  if (finished)
    return false;
  lineToken = tokens.size();
  lineTainted = lineDone = false;
  if (!beginLine()) {
    finish();
    return true;
  }
  while (!lineDone && !stopped)
    lexToken();
  if (stopped) {
    stop();
    return true;
  }
  if (lineTainted)
    tainted.push_back({lineToken, tokens.size()});
  return true;
}

/// After an error that leaves nothing certain: closes the line and the source.
void Lexer::stop() {
  stopped = true;
  at = uint32_t(text.size());
  levels.clear();
  push(TokenKind::Error, at);
  push(TokenKind::Newline, at);
  finish();
  tainted.push_back({lineToken, tokens.size()});
}

void Lexer::finish() {
  for (; indents.size() > 1; indents.pop_back())
    push(TokenKind::Dedent, at);
  push(TokenKind::EndOfFile, at);
  finished = true;
}

/// Skips lines without tokens and handles the indentation of the next; false at the end.
bool Lexer::beginLine() {
  while (true) {
    uint32_t begin = at;
    uint32_t column = 0, altColumn = 0;
    bool continued = false;
    for (;; ++at) {
      char c = peek();
      if (c == '\\' && lineBreakLength(at + 1)) { // what was measured so far counts
        at += lineBreakLength(at + 1);
        continued = continued || column > 0;
        continue;
      }
      if (c != ' ' && c != '\t' && c != '\f')
        break;
      if (continued)
        continue;
      if (c == ' ') {
        ++column, ++altColumn;
      } else if (c == '\t') {
        column = (column / 8 + 1) * 8;
        ++altColumn;
      } else {
        column = altColumn = 0;
      }
    }
    if (peek() == '#')
      skipToLineEnd();
    if (uint32_t length = lineBreakLength(at)) {
      at += length;
      continue;
    }
    if (atEnd())
      return false;
    applyIndent(begin, column, altColumn);
    return true;
  }
}

void Lexer::applyIndent(uint32_t begin, uint32_t column, uint32_t altColumn) {
  SourceRange space{begin, at};
  Indent &top = indents.back();
  if (column == top.column) {
    if (altColumn != top.altColumn)
      error(diag::InconsistentTabs, space);
    return;
  }
  if (column > top.column) {
    if (altColumn <= top.altColumn)
      error(diag::InconsistentTabs, space);
    if (indents.size() > maxIndents) {
      error(diag::TooManyIndents, space, int64_t(maxIndents));
      stopped = true;
      return;
    }
    indents.push_back({column, altColumn});
    push(TokenKind::Indent, begin);
    return;
  }
  while (column < indents.back().column) {
    if (column > indents[indents.size() - 2].column) {
      // Between two levels: report, and take it for the inner one.
      error(diag::InconsistentDedent, space);
      indents.back() = {column, altColumn};
      return;
    }
    indents.pop_back();
    push(TokenKind::Dedent, at);
  }
  if (altColumn != indents.back().altColumn)
    error(diag::InconsistentTabs, space);
}

void Lexer::endLine() {
  uint32_t begin = at;
  at += lineBreakLength(at);
  push(TokenKind::Newline, begin);
  lineDone = true;
}

/// Ends a line in which something is missing, and goes on at `resume`.
void Lexer::abandonLine(uint32_t resume) {
  at = resume;
  levels.clear();
  push(TokenKind::Error, at);
  endLine();
}

// --- Tokens --------------------------------------------------------------------------------------

/// Skips blanks, comments and joined lines. False when the logical line ended.
bool Lexer::skipSpace() {
  while (true) {
    char c = peek();
    if (c == ' ' || c == '\t' || c == '\f') {
      ++at;
    } else if (c == '#') {
      skipToLineEnd();
    } else if (c == '\\') {
      uint32_t begin = at++;
      if (uint32_t length = lineBreakLength(at)) {
        at += length;
        if (atEnd() && levels.empty())
          error(diag::BackslashAtEnd, {begin, begin + 1});
      } else if (atEnd()) {
        error(diag::BackslashAtEnd, {begin, begin + 1});
      } else {
        error(diag::StrayBackslash, {at, at + decodeUtf8(text, at).length});
      }
      if (lineTainted && atEnd())
        push(TokenKind::Error, at);
    } else if (uint32_t length = lineBreakLength(at)) {
      if (levels.empty()) {
        endLine();
        return false;
      }
      at += length;
      if (closesUnclosedBracket())
        return false;
    } else if (atEnd()) {
      if (levels.empty())
        endLine();
      else
        recoverAtEnd();
      return false;
    } else {
      return true;
    }
  }
}

void Lexer::lexToken() {
  if (!levels.empty() &&
      (levels.back().inside == Inside::Text || levels.back().inside == Inside::Spec))
    return lexFStringText();
  if (!skipSpace())
    return;
  char c = peek();
  if (is(c, isStart) || !isAscii(c)) {
    if (!lexString())
      lexName();
  } else if (c == '"' || c == '\'') {
    lexString();
  } else if (is(c, isDigit) || (c == '.' && is(peek(1), isDigit))) {
    lexNumber();
  } else {
    lexOperator();
  }
}

/// Bytes of the name at `offset`, 0 when none begins there.
uint32_t Lexer::nameLength(uint32_t offset) const {
  uint32_t end = offset;
  while (end < text.size()) {
    if (isAscii(text[end])) {
      if (!is(text[end], end == offset ? isStart : isStart | isDigit))
        break;
      ++end;
      continue;
    }
    CodePoint c = decodeUtf8(text, end);
    if (end == offset ? !inTable(identifierStart, c.value) : !inTable(identifierContinue, c.value))
      break;
    end += c.length;
  }
  return end - offset;
}

void Lexer::lexName() {
  uint32_t begin = at;
  uint32_t length = nameLength(at);
  if (!length)
    return lexInvalidCharacter();
  at += length;
  push(keywordOrName(text.substr(begin, length)), begin);
}

void Lexer::lexInvalidCharacter() {
  uint32_t begin = at;
  CodePoint c = decodeUtf8(text, at);
  at += c.length;
  char code[16];
  std::snprintf(code, sizeof code, "U+%04X", unsigned(c.value));
  std::string shown = code;
  bool printable = c.value > 0x20 && c.value != 0x7F && (c.value < 0x80 || c.value > 0xA0) &&
                   !(c.value >= 0x2000 && c.value <= 0x200F) && displayWidth(c.value) > 0;
  if (printable)
    shown = "`" + std::string(text.substr(begin, c.length)) + "` (" + code + ")";
  if (!lineTainted) // typographic quotes come in pairs: one report a line is enough
    error(diag::InvalidCharacter, {begin, at}, shown);
}

// --- Operators and brackets ----------------------------------------------------------------------

void Lexer::pushLevel(Level level) {
  if (levels.size() >= maxNesting) {
    error(diag::NestingTooDeep, {level.offset, level.offset + 1}, int64_t(maxNesting));
    stopped = true;
    return;
  }
  levels.push_back(level);
}

void Lexer::openBracket(TokenKind kind) {
  char open = peek();
  uint32_t begin = at++;
  push(kind, begin);
  pushLevel({Inside::Bracket, open, false, false, begin});
}

void Lexer::closeBracket(TokenKind kind) {
  char close = peek();
  uint32_t begin = at++;
  if (levels.empty() || levels.back().inside == Inside::Text) {
    error(diag::UnmatchedBracket, {begin, at}, std::string_view(&close, 1));
    return;
  }
  Level level = levels.back();
  char expected = closerOf(level.open);
  if (close != expected) {
    // A field closed inside of a bracket, or the wrong bracket: take it for the right one.
    if (Diagnostic *diagnostic =
            error(diag::MismatchedBracket, {begin, at}, std::string_view(&close, 1),
                  std::string_view(&level.open, 1)))
      diagnostic->note(diag::OpenedHere, {source, {level.offset, level.offset + 1}},
                       std::string_view(&level.open, 1));
    kind = expected == ')'   ? TokenKind::RParen
           : expected == ']' ? TokenKind::RBracket
                             : TokenKind::RBrace;
  }
  levels.pop_back();
  push(kind, begin);
}

void Lexer::lexOperator() {
  using enum TokenKind;
  uint32_t begin = at;
  auto take = [&](uint32_t length, TokenKind kind) {
    at += length;
    push(kind, begin);
  };
  // One character, or with `=` after it, or doubled, or doubled with `=` after it.
  auto family = [&](TokenKind one, TokenKind withEqual, TokenKind doubled = Error,
                    TokenKind doubledEqual = Error) {
    if (doubled != Error && peek(1) == peek()) {
      if (doubledEqual != Error && peek(2) == '=')
        return take(3, doubledEqual);
      return take(2, doubled);
    }
    if (withEqual != Error && peek(1) == '=')
      return take(2, withEqual);
    take(1, one);
  };
  auto wrong = [&](uint32_t length, std::string_view right, TokenKind kind) {
    error(diag::UnknownOperator, {begin, begin + length}, text.substr(begin, length), right);
    take(length, kind);
  };
  bool inField = !levels.empty() && levels.back().inside == Inside::Field;

  switch (peek()) {
  case '(':
    return openBracket(LParen);
  case '[':
    return openBracket(LBracket);
  case '{':
    return openBracket(LBrace);
  case ')':
    return closeBracket(RParen);
  case ']':
    return closeBracket(RBracket);
  case '}':
    return closeBracket(RBrace);
  case ',':
    return take(1, Comma);
  case ';':
    return take(1, Semicolon);
  case '~':
    return take(1, Tilde);
  case '.':
    return startsWith("...") ? take(3, Ellipsis) : take(1, Dot);
  case ':':
    if (inField) {
      take(1, Colon);
      return pushLevel({Inside::Spec, '{', false, false, begin});
    }
    return family(Colon, ColonEqual);
  case '=':
    return family(Equal, EqualEqual);
  case '!':
    if (peek(1) == '=')
      return take(2, NotEqual);
    return inField ? take(1, Exclamation) : wrong(1, "not", KwNot);
  case '+':
    return family(Plus, PlusEqual);
  case '-':
    return peek(1) == '>' ? take(2, Arrow) : family(Minus, MinusEqual);
  case '*':
    return family(Star, StarEqual, DoubleStar, DoubleStarEqual);
  case '/':
    return family(Slash, SlashEqual, DoubleSlash, DoubleSlashEqual);
  case '%':
    return family(Percent, PercentEqual);
  case '@':
    return family(At, AtEqual);
  case '^':
    return family(Caret, CaretEqual);
  case '&':
    return peek(1) == '&' ? wrong(2, "and", KwAnd) : family(Ampersand, AmpersandEqual);
  case '|':
    return peek(1) == '|' ? wrong(2, "or", KwOr) : family(Pipe, PipeEqual);
  case '<':
    return peek(1) == '>' ? wrong(2, "!=", NotEqual)
                          : family(Less, LessEqual, LessLess, LessLessEqual);
  case '>':
    return family(Greater, GreaterEqual, GreaterGreater, GreaterGreaterEqual);
  default:
    return lexInvalidCharacter();
  }
}

// --- Brackets that are never closed --------------------------------------------------------------

/// At the beginning of a physical line inside of brackets: when the line begins, no deeper than the
/// statement, with a word like `return`, then a bracket was forgotten before it. Reports that, ends
/// the logical line and returns true.
bool Lexer::closesUnclosedBracket() {
  for (const Level &level : levels)
    if (level.inside != Inside::Bracket)
      return false;
  uint32_t word = at;
  while (word < text.size() && (text[word] == ' ' || text[word] == '\t'))
    ++word;
  if (word - at > indents.back().column || word >= text.size() || !is(text[word], isStart))
    return false;
  if (!beginsOnlyStatements(keywordOrName(text.substr(word, nameLength(word)))))
    return false;
  recoverFromBracket();
  return true;
}

/// At the end of the source with something open.
void Lexer::recoverAtEnd() {
  for (const Level &level : levels)
    if (level.inside == Inside::Text)
      return unterminated(level.offset, level.open, level.triple);
  recoverFromBracket();
}

/// A bracket was never closed: reports it, and goes back to the first line after it that is not
/// indented deeper than the statement (or stays here when there is none), to find the errors of
/// the rest.
void Lexer::recoverFromBracket() {
  uint32_t resume = at;
  unsigned literals = 0;
  for (size_t i = lineToken + 1; i < tokens.size(); ++i) {
    const Token &token = tokens[i];
    literals += token.kind == TokenKind::FStringStart;
    literals -= token.kind == TokenKind::FStringEnd;
    if (literals || token.range.begin <= levels.front().offset)
      continue;
    SourceRange line = source.lineRange(source.lineIndex(token.range.begin));
    bool first = tokens[i - 1].range.end <= line.begin;
    bool closer = token.kind == TokenKind::RParen || token.kind == TokenKind::RBracket ||
                  token.kind == TokenKind::RBrace;
    if (!first || closer || token.range.begin - line.begin > indents.back().column)
      continue;
    resume = line.begin;
    tokens.resize(i);
    break;
  }
  while (levels.size() > 1 && levels.back().offset >= resume)
    levels.pop_back();
  const Level level = levels.back();
  error(diag::UnclosedBracket, {level.offset, level.offset + 1}, std::string_view(&level.open, 1));
  at = resume;
  levels.clear();
  push(TokenKind::Error, at);
  push(TokenKind::Newline, at);
  lineDone = true;
}

} // namespace nereid::syntax
