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

private:
  struct Bracket {
    char open;
    uint32_t offset;
  };
  struct FString {
    uint32_t begin;       ///< of the prefix
    char quote;
    bool triple;
    bool raw;
    uint32_t brackets;    ///< size of the bracket stack when the literal began
    uint32_t fields = 0;  ///< replacement fields open in it
    bool inSpec = false;  ///< reading the format specification of its innermost field
    std::vector<uint32_t> fieldBrackets; ///< bracket depth inside each open field
    std::vector<bool> fieldInSpec;
  };

  struct Line; // state to fall back to when a bracket is never closed

  uint32_t at;
  const SourceFile &source;
  std::string_view text;
  DiagnosticEngine &diagnostics;
  std::vector<Token> &tokens;

  std::vector<uint32_t> indents;    ///< columns, tabs to 8
  std::vector<uint32_t> altIndents; ///< columns, tabs to 1: the two must agree
  std::vector<Bracket> brackets;
  std::vector<FString> fstrings;
  std::vector<std::pair<size_t, size_t>> tainted;
  bool lineTainted = false;
  bool finished = false;
};

} // namespace nereid::syntax
