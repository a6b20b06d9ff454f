// Tokens, by Python's own rules: indentation, line joining, string prefixes, f-strings.
//
// The lexer works one logical line at a time (the parser asks for the next), so that what it
// reports comes in source order together with the parser's own errors. It never stops at an error:
// it reports it, leaves an Error token in the line where something is missing, and goes on.
//
// F-strings are lexed as in Python 3.12: FStringStart, then FStringMiddle (text, brace escapes
// included) and the ordinary tokens of replacement fields between `{` and `}`, then FStringEnd.
#pragma once

#include "support/diagnostics.h"
#include "support/source.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

namespace nereid::syntax {

enum class TokenKind : uint8_t {
#define TOKEN(Name, Description) Name,
#define PUNCT(Name, Spelling) Name,
#define KEYWORD(Name, Spelling) Kw##Name,
#include "syntax/tokens.def"
};

/// How a diagnostic calls it: "`:`", "the end of the line", "a name".
std::string_view describe(TokenKind kind);

struct Token {
  TokenKind kind = TokenKind::EndOfFile;
  SourceRange range;
};

class Lexer {
public:
  /// The source must be valid UTF-8. Tokens are appended to `tokens`.
  Lexer(const SourceFile &source, DiagnosticEngine &diagnostics, std::vector<Token> &tokens);

  /// Lexes one more logical line, up to and including its Newline. At the end of the source the
  /// open blocks are closed and EndOfFile is appended; false when that was done before.
  bool lexLine();

  /// True when an error was reported for the logical line that holds the token at `index`: the
  /// parser stays silent about what follows from it.
  bool isTainted(size_t index) const;

  /// True when the source holds nothing more worth lexing: an error after which nothing is certain
  /// (nesting beyond the limit, an endless string, too many errors).
  bool gaveUp() const { return stopped; }

private:
  /// The construct that the lexer is inside of. In Text and Spec it reads the text of an f-string,
  /// elsewhere tokens.
  enum class Inside : uint8_t {
    Bracket, ///< ( [ {
    Text,    ///< the text of an f-string
    Field,   ///< a replacement field, before its `:`
    Spec,    ///< the format specification of a field
  };
  struct Level {
    Inside inside;
    char open; ///< the bracket, or the quote of an f-string (also for its fields)
    bool triple = false;
    bool raw = false;
    uint32_t offset = 0; ///< of the opening character
  };

  char peek(uint32_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  bool atEnd() const { return at >= text.size(); }
  bool startsWith(std::string_view what) const { return text.substr(at).starts_with(what); }
  uint32_t lineBreakLength(uint32_t offset) const;
  void skipToLineEnd();

  void push(TokenKind kind, uint32_t begin) { tokens.push_back({kind, {begin, at}}); }
  template <typename... Params, typename... Args>
  Diagnostic *error(diag::Def<Params...> def, SourceRange range, Args &&...args);

  bool beginLine();
  void measureIndent();
  void applyIndent(uint32_t lineBegin, uint32_t column, uint32_t altColumn);
  void lexToken();
  bool skipSpace();
  void endLine();
  void abandonLine(uint32_t resume);
  void stop();
  void finish();

  void lexName();
  uint32_t nameLength(uint32_t offset) const;
  void lexNumber();
  void lexDigits(bool (*isDigit)(char), std::string_view what);
  void checkNumberEnd(std::string_view what);
  bool lexString();
  void unterminated(uint32_t begin, char quote, bool triple);
  void lexFStringText();
  void lexOperator();
  void openBracket(TokenKind kind);
  void closeBracket(TokenKind kind);
  void pushLevel(Level level);
  void lexInvalidCharacter();
  bool closesUnclosedBracket();
  void recoverAtEnd();
  void recoverFromBracket();

  const SourceFile &source;
  std::string_view text;
  DiagnosticEngine &diagnostics;
  std::vector<Token> &tokens;

  uint32_t at = 0;
  struct Indent {
    uint32_t column;    ///< tabs to the next multiple of 8
    uint32_t altColumn; ///< tabs as one column: the two must order lines alike
  };
  std::vector<Indent> indents{{0, 0}};
  std::vector<Level> levels;
  std::vector<std::pair<size_t, size_t>> tainted; ///< token ranges of lines with errors
  std::vector<uint32_t> reported;                 ///< offsets, not to repeat after going back
  size_t lineToken = 0;                           ///< first token of the current logical line
  bool lineTainted = false;
  bool lineDone = false;
  bool finished = false;
  bool stopped = false;
};

template <typename... Params, typename... Args>
Diagnostic *Lexer::error(diag::Def<Params...> def, SourceRange range, Args &&...args) {
  lineTainted = true;
  if (std::find(reported.begin(), reported.end(), range.begin) != reported.end())
    return nullptr;
  reported.push_back(range.begin);
  Diagnostic &diagnostic = diagnostics.report(def, {source, range}, std::forward<Args>(args)...);
  if (diagnostics.full())
    stopped = true;
  return &diagnostic;
}

} // namespace nereid::syntax
