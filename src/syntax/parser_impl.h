// The parser's own header: one class over several files (statements, expressions, literals,
// patterns).
//
// Conventions: a parse function returns null after it reported an error, and its caller returns
// null in turn; the statement loop then skips to the next line. Errors that do not disturb what
// follows (a missing colon, a bad target, `=` in a condition) are reported without failing.
#pragma once

#include "syntax/lexer.h"
#include "syntax/parser.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

namespace nereid::syntax {

class Parser {
public:
  Parser(Module &module, DiagnosticEngine &diagnostics);

  void parseModule();
  const Expr *parseWholeExpression();

  static std::shared_ptr<Module> makeModule(const SourceFilePtr &source);

private:
  using K = TokenKind;

  /// Collects the children of a list node on the parser's scratch stack, then copies them to the
  /// arena. Strictly nested, like the parse functions.
  struct Scratch {
    std::vector<const Node *> nodes;
    unsigned open = 0; ///< how many lists are being collected
  };
  template <typename T> class Collect {
  public:
    explicit Collect(Parser &parser)
        : arena(parser.arena),
          stack(std::is_same_v<T, Keyword> ? parser.keywordScratch : parser.scratch),
          base(stack.nodes.size()), level(++stack.open) {}
    Collect(const Collect &) = delete;
    ~Collect() {
      stack.nodes.resize(base);
      --stack.open;
    }
    void add(const T *node) {
      assert(level == stack.open && "a list inside of this one is still open");
      stack.nodes.push_back(node);
    }
    size_t size() const { return stack.nodes.size() - base; }
    const T *operator[](size_t i) const { return static_cast<const T *>(stack.nodes[base + i]); }
    NodeList<T> list() const {
      size_t count = size();
      if (!count)
        return {};
      void *memory = arena.allocate(count * sizeof(const T *), alignof(const T *));
      auto **to = static_cast<const T **>(memory);
      for (size_t i = 0; i < count; ++i)
        to[i] = (*this)[i];
      return {to, uint32_t(count)};
    }

  private:
    Arena &arena;
    Scratch &stack;
    size_t base;
    unsigned level;
  };

  // --- Tokens
  const Token &token(size_t ahead = 0) {
    while (pos + ahead >= tokens.size())
      if (!lexer.lexLine())
        return tokens.back();
    return tokens[pos + ahead];
  }
  TokenKind kind(size_t ahead = 0) { return token(ahead).kind; }
  bool at(TokenKind k) { return token().kind == k; }
  SourceRange here() { return token().range; }
  uint32_t begin() { return token().range.begin; }
  std::string_view textOf(const Token &t) const { return source.text(t.range); }
  bool atWord(std::string_view word, size_t ahead = 0) {
    return kind(ahead) == K::Name && textOf(token(ahead)) == word;
  }
  void advance() {
    token();
    if (pos + 1 < tokens.size() || tokens[pos].kind != K::EndOfFile)
      ++pos;
  }
  bool accept(TokenKind k) {
    if (!at(k))
      return false;
    advance();
    return true;
  }
  bool expect(TokenKind k) { return expect(k, describe(k)); }
  bool expect(TokenKind k, std::string_view what);
  /// End of the last token taken that is not white space.
  uint32_t lastEnd() const;
  /// A punctuation's spelling, without back quotes.
  static std::string_view textOfKind(TokenKind k) {
    std::string_view quoted = describe(k);
    return quoted.substr(1, quoted.size() - 2);
  }
  /// How a diagnostic calls the next token: "`foo`", "the end of the line".
  std::string found();

  // --- Errors
  template <typename... Params>
  std::nullptr_t error(diag::Def<Params...> def, SourceRange range,
                       std::type_identity_t<Params>... args) {
    if (silent())
      return nullptr;
    diagnostics.report(def, {source, range}, args...);
    return nullptr;
  }
  bool silent() { return speculating || fatal || lexer.isTainted(pos); }
  std::nullptr_t tooDeep(SourceRange range);
  std::nullptr_t expectedExpression();

  // --- Nodes
  template <typename T> T *make() { return arena.make<T>(); }
  /// Fills a field with what was parsed; false when that failed.
  template <typename T> static bool set(const T *&field, std::type_identity_t<const T *> value) {
    field = value;
    return value;
  }
  template <typename T> const T *done(T *node, uint32_t begin) {
    return sized(node, {begin, lastEnd()});
  }
  /// Sets the range and height; null when the tree grows too deep.
  template <typename T> const T *sized(T *node, SourceRange range) {
    node->range = range;
    unsigned height = 0;
    node->visitFields([&]<typename V>(const char *, const V &value) {
      if constexpr (std::is_pointer_v<V>) {
        if (value)
          height = std::max<unsigned>(height, value->height);
      } else if constexpr (requires { (*value.begin())->height; }) {
        for (auto *child : value)
          if (child)
            height = std::max<unsigned>(height, child->height);
      }
    });
    node->height = uint16_t(height + 1);
    if (height >= maxTreeDepth)
      return tooDeep(range);
    return node;
  }
  const UnsupportedExpr *unsupported(std::string_view name, uint32_t begin,
                                     std::initializer_list<const Node *> children);
  const UnsupportedPart *part(std::string_view name, uint32_t begin, const Collect<Node> &children,
                              std::string_view bound = {});

  struct DepthGuard {
    explicit DepthGuard(Parser &parser) : parser(parser) { ++parser.depth; }
    ~DepthGuard() { --parser.depth; }
    Parser &parser;
  };
  bool depthExceeded() { return depth > maxNesting + 1; }

  // --- Statements (statements.cpp, compound.cpp)
  void parseStatements(Collect<Stmt> &out, bool inBlock);
  bool parseStatement(Collect<Stmt> &out);
  void skipStatement();
  void skipBlock();
  bool parseSimpleLine(Collect<Stmt> &out);
  const Stmt *parseSimple();
  bool parseBlock(NodeList<Stmt> &body, std::string_view owner, SourceRange ownerRange);
  bool expectColon(std::string_view after);
  const Expr *parseCondition();
  const Stmt *parseIf();
  const Stmt *parseWhile();
  template <typename T>
  const Stmt *asAsync(const T *plain, std::string_view astName, std::string_view name);
  const Stmt *parseFor(uint32_t begin, bool isAsync);
  const Stmt *parseWith(uint32_t begin, bool isAsync);
  bool parseWithItems(Collect<WithItem> &items, bool parenthesised);
  const Stmt *parseTry();
  const Stmt *parseMatch();
  bool beginsMatch();
  bool parseElse(NodeList<Stmt> &orelse);
  const Stmt *parseDecorated();
  const Stmt *parseFunction(uint32_t begin, NodeList<Expr> decorators, bool isAsync);
  const Stmt *parseClass(NodeList<Expr> decorators);
  bool parseTypeParams(NodeList<Node> &out);
  const Arguments *parseParameters(TokenKind close, bool annotations);
  const Stmt *parseExpressionStatement();
  const Stmt *parseAnnotated(const Expr *target, uint32_t start, bool simple);
  const Stmt *parseReturn();
  const Stmt *parseDelete();
  const Stmt *parseRaise();
  const Stmt *parseAssert();
  const Stmt *parseImport();
  const Stmt *parseImportFrom();
  const Alias *parseAlias(bool dotted);
  bool parseDottedName(std::string_view &name);
  template <typename T> const Stmt *parseScopeNames();
  const Stmt *parseTypeAlias();
  template <typename T> const Stmt *parseWord();
  const Stmt *orphanClause();
  bool parseName(std::string_view &name, SourceRange *range, std::string_view what);

  // --- Expressions (expressions.cpp)
  const Expr *parseExpression();
  const Expr *parseNamed();
  const Expr *parseStarOrNamed();
  const Expr *parseStarExpressions(bool named = false);
  const Expr *parseYieldOrStar();
  const Expr *parseYield();
  const Expr *parseLambda();
  const Expr *parseDisjunction();
  const Expr *parseBoolOp(BoolOpKind op);
  const Expr *parseNot();
  const Expr *parseComparison();
  const Expr *parseBinary(unsigned minPrecedence);
  const Expr *parseUnary();
  const Expr *parsePower();
  const Expr *parsePrimary();
  const Expr *parseCall(const Expr *func, uint32_t begin);
  bool parseCallArguments(Collect<Expr> &args, Collect<Keyword> &keywords, uint32_t open);
  const Expr *parseSubscript(const Expr *value, uint32_t begin);
  const Expr *parseSlice();
  const Expr *parseAtom();
  const Expr *parseParenthesised();
  const Expr *parseListDisplay();
  const Expr *parseBraces();
  bool parseGenerators(NodeList<Comprehension> &out);
  bool beginsComprehension() { return at(K::KwFor) || (at(K::KwAsync) && kind(1) == K::KwFor); }
  const Expr *parseStarredOr();
  const Expr *parseTargets();
  bool closeBracket(TokenKind close);
  using NamedRange = std::pair<std::string_view, SourceRange>;
  static std::optional<NamedRange> findRepeated(std::vector<NamedRange> &names);
  bool beginsExpression();

  // --- Targets
  enum class TargetUse : uint8_t { Assign, Delete };
  bool checkTarget(const Expr *target, TargetUse use, bool insideSequence = false);
  static std::string describeExpr(const Expr *expr);

  // --- Literals (literals.cpp)
  const Expr *parseNumber();
  const Expr *parseStrings();
  struct Decoded {
    std::string_view text;
    bool named = false;
    bool ok = true;
  };
  class TextDecoder;
  Decoded decode(SourceRange range, bool raw, bool bytes, bool braces);
  bool parseFStringParts(Collect<Expr> &out, bool raw, TokenKind end);
  bool parseReplacement(Collect<Expr> &out, bool raw);
  NodeList<Expr> mergeConstants(const Collect<Expr> &parts);
  const Constant *stringConstant(Decoded text, ConstantKind kind, SourceRange range);
  void setInteger(Constant &constant, std::string_view digits, unsigned base);

  // --- Patterns (patterns.cpp)
  const Node *parsePatterns();
  const Node *parsePattern();
  const Node *parseOrPattern();
  const Node *parseClosedPattern();
  const Node *parseMaybeStarPattern();
  const Node *parseSequencePattern();
  const Node *parseMappingPattern();
  const Node *parseNamePattern();
  const Expr *parseLiteralPattern();
  std::nullptr_t invalidPattern();

  Module &module;
  const SourceFile &source;
  Arena &arena;
  DiagnosticEngine &diagnostics;
  std::vector<Token> tokens;
  Lexer lexer;
  size_t pos = 0;
  unsigned depth = 0;
  unsigned speculating = 0;
  bool fatal = false;
  unsigned functions = 0; ///< functions open around here, up to the innermost class
  unsigned scopes = 0;    ///< functions and classes open around here
  unsigned loops = 0;     ///< loops open around here, up to the innermost function or class
  Scratch scratch;
  Scratch keywordScratch; ///< apart: collected together with arguments
};

} // namespace nereid::syntax
