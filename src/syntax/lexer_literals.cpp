// Tokens of numbers, strings and formatted strings.
#include "support/text.h"
#include "syntax/characters.h"
#include "syntax/lexer.h"

namespace nereid::syntax {

// --- Numbers -------------------------------------------------------------------------------------

/// Digits with single underscores between them.
void Lexer::lexDigits(bool (*accepts)(char), std::string_view what) {
  while (true) {
    while (accepts(peek()))
      ++at;
    if (peek() != '_')
      return;
    ++at;
    if (!accepts(peek())) {
      error(diag::InvalidNumber, {at - 1, at}, what, "_");
      while (is(peek(), isStart | isDigit))
        ++at;
      return;
    }
  }
}

/// A number must not run into a name, except into `and`, `else`, `for`, `if`, `in`, `is`, `not`,
/// `or`.
void Lexer::checkNumberEnd(std::string_view what) {
  char c = peek();
  if (is(c, isDigit)) { // 0b12, 0o18
    error(diag::InvalidNumber, {at, at + 1}, what, text.substr(at, 1));
  } else {
    uint32_t length = nameLength(at);
    if (!length)
      return;
    for (std::string_view word : {"and", "else", "for", "if", "in", "is", "not", "or"})
      if (startsWith(word))
        return;
    error(diag::InvalidNumber, {at, at + decodeUtf8(text, at).length}, what,
          text.substr(at, decodeUtf8(text, at).length));
  }
  while (is(peek(), isDigit) || nameLength(at))
    at += std::max(nameLength(at), 1u);
}

void Lexer::lexNumber() {
  uint32_t begin = at;
  auto based = [&](bool (*accepts)(char), std::string_view what) {
    at += 2;
    if (peek() == '_')
      ++at;
    if (!accepts(peek()) && !is(peek(), isStart | isDigit))
      error(diag::EmptyNumber, {begin, at}, what, text.substr(begin, 2));
    else
      lexDigits(accepts, what);
    checkNumberEnd(what);
    push(TokenKind::Number, begin);
  };
  if (peek() == '0') {
    switch (peek(1)) {
    case 'x':
    case 'X':
      return based(hexDigit, "hexadecimal");
    case 'o':
    case 'O':
      return based(octalDigit, "octal");
    case 'b':
    case 'B':
      return based(binaryDigit, "binary");
    default:
      break;
    }
  }
  bool integer = true;
  if (peek() != '.')
    lexDigits(decimalDigit, "decimal");
  uint32_t integerEnd = at;
  if (peek() == '.') {
    integer = false;
    ++at;
    if (is(peek(), isDigit))
      lexDigits(decimalDigit, "decimal");
  }
  if (peek() == 'e' || peek() == 'E') {
    uint32_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (is(peek(1 + sign), isDigit)) {
      integer = false;
      at += 1 + sign;
      lexDigits(decimalDigit, "decimal");
    } else if (sign) {
      error(diag::EmptyNumber, {begin, at + 2}, "decimal", text.substr(begin, at + 2 - begin));
      at += 2;
    }
  }
  std::string_view what = "decimal";
  if (peek() == 'j' || peek() == 'J') {
    integer = false;
    what = "imaginary";
    ++at;
  }
  std::string_view digits = text.substr(begin, integerEnd - begin);
  if (integer && digits.size() > 1 && digits[0] == '0') {
    size_t nonZero = digits.find_first_not_of("0_");
    if (nonZero != std::string_view::npos)
      error(diag::LeadingZeros, {begin, at}, digits.substr(nonZero));
  }
  checkNumberEnd(what);
  push(TokenKind::Number, begin);
}

// --- Strings -------------------------------------------------------------------------------------

/// Lexes a string if one begins here.
bool Lexer::lexString() {
  uint32_t begin = at;
  uint32_t prefix = 0;
  bool raw = false, bytes = false, formatted = false, unicode = false;
  for (;; ++prefix) {
    char c = char(peek(prefix) | 0x20);
    bool *flag = c == 'r'   ? &raw
                 : c == 'b' ? &bytes
                 : c == 'f' ? &formatted
                 : c == 'u' ? &unicode
                            : nullptr;
    if (!flag || !is(peek(prefix), isStart))
      break;
    if (*flag)
      return false;
    *flag = true;
  }
  char quote = peek(prefix);
  if (quote != '"' && quote != '\'')
    return false;
  if (unicode + bytes + formatted > 1 || (unicode && raw))
    return false;
  at += prefix;
  bool triple = peek(1) == quote && peek(2) == quote;
  at += triple ? 3 : 1;
  if (formatted) {
    push(TokenKind::FStringStart, begin);
    pushLevel({Inside::Text, quote, triple, raw, begin});
    return true;
  }
  const char *data = text.data();
  uint32_t size = uint32_t(text.size());
  for (; at < size; ++at) {
    char c = data[at];
    if (c == '\\') {
      if (at + 1 < size)
        ++at;
      if (data[at] == '\r' && at + 1 < size && data[at + 1] == '\n')
        ++at;
    } else if (c == quote) {
      if (!triple || (peek(1) == quote && peek(2) == quote)) {
        at += triple ? 3 : 1;
        push(TokenKind::String, begin);
        return true;
      }
    } else if (!triple && (c == '\n' || c == '\r')) {
      break;
    }
  }
  at = std::min(at, size);
  unterminated(begin, quote, triple);
  return true;
}

void Lexer::unterminated(uint32_t begin, char quote, bool triple) {
  if (triple) {
    // Where the string was meant to end cannot be known.
    error(diag::UnterminatedTripleString,
          {begin, std::min<uint32_t>(begin + 3, uint32_t(text.size()))}, std::string(3, quote));
    stopped = true;
    return;
  }
  // In `f"{x"` the quote was meant to close the f-string.
  for (size_t i = levels.size(); i-- > 0;) {
    if (levels[i].inside != Inside::Text)
      continue;
    if (!levels[i].triple && levels[i].open == quote && levels.back().inside == Inside::Field)
      error(diag::UnclosedReplacement, {begin, begin + 1}, std::string("`") + quote + "`");
    break;
  }
  if (!lineTainted)
    error(diag::UnterminatedString, {begin, at}, std::string_view(&quote, 1));
  abandonLine(at);
}

/// The text of an f-string or of a format specification, up to the next `{`, `}` or quote.
void Lexer::lexFStringText() {
  bool spec = levels.back().inside == Inside::Spec;
  size_t owner = levels.size() - 1;
  while (levels[owner].inside != Inside::Text)
    --owner;
  const Level literal = levels[owner];
  uint32_t begin = at;
  auto flush = [&] {
    if (at > begin)
      push(TokenKind::FStringMiddle, begin);
  };
  while (true) {
    if (atEnd()) {
      flush();
      return unterminated(literal.offset, literal.open, literal.triple);
    }
    char c = peek();
    if (c == literal.open && (!literal.triple || (peek(1) == c && peek(2) == c))) {
      flush();
      uint32_t quote = at;
      at += literal.triple ? 3 : 1;
      if (spec) {
        error(diag::UnclosedReplacement, {quote, at},
              "`" + std::string(text.substr(quote, at - quote)) + "`");
        push(TokenKind::Error, quote);
      }
      levels.resize(owner);
      push(TokenKind::FStringEnd, quote);
      return;
    }
    if (!literal.triple && lineBreakLength(at)) {
      flush();
      return unterminated(literal.offset, literal.open, false);
    }
    if (c == '\\') {
      // A named character's braces are no replacement field.
      if (!literal.raw && peek(1) == 'N' && peek(2) == '{') {
        at += 3;
        while (!atEnd() && peek() != '}' && peek() != literal.open && !lineBreakLength(at))
          ++at;
        if (peek() == '}')
          ++at;
        continue;
      }
      ++at;
      if (uint32_t length = lineBreakLength(at))
        at += length;
      else if (!atEnd() && peek() != '{' && peek() != '}')
        ++at;
      continue;
    }
    if (c == '{') {
      if (peek(1) == '{' && !spec) {
        at += 2;
        continue;
      }
      flush();
      uint32_t brace = at++;
      push(TokenKind::LBrace, brace);
      pushLevel({Inside::Field, '{', false, false, brace});
      return;
    }
    if (c == '}') {
      if (spec) {
        flush();
        uint32_t brace = at++;
        levels.resize(levels.size() - 2); // the specification and its field
        push(TokenKind::RBrace, brace);
        return;
      }
      if (peek(1) == '}') {
        at += 2;
        continue;
      }
      error(diag::StrayBrace, {at, at + 1});
    }
    ++at;
  }
}

} // namespace nereid::syntax
