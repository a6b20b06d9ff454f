#include "faces/cli/formula.h"

#include <cctype>

namespace nereid::cli {
namespace {

using explain::Expression;
using Op = Expression::Op;

class Parser {
public:
  explicit Parser(std::string_view text) : rest(text) {}

  std::optional<Expression> all() {
    Expression result = sum();
    space();
    return wrong || !rest.empty() ? std::nullopt : std::optional(result);
  }

private:
  void space() {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest[0])))
      rest.remove_prefix(1);
  }
  bool take(std::string_view symbol) {
    space();
    if (!rest.starts_with(symbol))
      return false;
    rest.remove_prefix(symbol.size());
    return true;
  }
  Expression fail() {
    wrong = true;
    return {};
  }
  /// A node as written: constants are folded when it is evaluated.
  static Expression node(Op op, Expression a, Expression b) {
    Expression result;
    result.op = op;
    result.parts.push_back(std::move(a));
    result.parts.push_back(std::move(b));
    return result;
  }

  Expression sum() {
    Expression left = product();
    while (!wrong) {
      if (take("+"))
        left = node(Op::Add, std::move(left), product());
      else if (take("-"))
        left = node(Op::Sub, std::move(left), product());
      else
        return left;
    }
    return left;
  }
  Expression product() {
    Expression left = atom();
    while (!wrong) {
      if (take("*"))
        left = node(Op::Mul, std::move(left), atom());
      else if (take("//") || take("/"))
        left = node(Op::Div, std::move(left), atom());
      else if (take("%"))
        left = node(Op::Rem, std::move(left), atom());
      else
        return left;
    }
    return left;
  }
  Expression atom() {
    if (++depth > 100)
      return fail();
    space();
    if (take("(")) {
      Expression inner = sum();
      return take(")") ? inner : fail();
    }
    if (take("-"))
      return node(Op::Sub, Expression::constant(0), atom());
    size_t size = 0;
    auto at = [&](size_t i) { return static_cast<unsigned char>(i < rest.size() ? rest[i] : 0); };
    if (std::isdigit(at(0))) {
      int64_t value = 0;
      for (; std::isdigit(at(size)) || at(size) == '_'; ++size)
        if (at(size) != '_' && (__builtin_mul_overflow(value, 10, &value) ||
                                __builtin_add_overflow(value, at(size) - '0', &value)))
          return fail();
      rest.remove_prefix(size);
      return Expression::constant(value);
    }
    while (std::isalnum(at(size)) || at(size) == '_' || at(size) >= 0x80)
      ++size;
    if (!size)
      return fail();
    std::string name(rest.substr(0, size));
    rest.remove_prefix(size);
    if (!take("("))
      return Expression::argument(std::move(name));
    std::vector<Expression> operands{sum()};
    while (!wrong && take(","))
      operands.push_back(sum());
    if (wrong || !take(")"))
      return fail();
    if ((name == "cdiv" || name == "triton.cdiv") && operands.size() == 2)
      return node(Op::Div,
                  node(Op::Add, operands[0], node(Op::Sub, operands[1], Expression::constant(1))),
                  operands[1]);
    if ((name == "min" || name == "max") && operands.size() >= 2) {
      Expression result = operands[0];
      for (size_t i = 1; i < operands.size(); ++i)
        result = node(name == "min" ? Op::Min : Op::Max, std::move(result), operands[i]);
      return result;
    }
    return fail();
  }

  std::string_view rest;
  bool wrong = false;
  unsigned depth = 0;
};

} // namespace

std::optional<Expression> parseFormula(std::string_view text, DiagnosticEngine &diagnostics) {
  auto result = Parser(text).all();
  if (!result)
    diagnostics.report(diag::CliBadFormula, {}, text);
  return result;
}

std::optional<int64_t>
evaluateFormula(const Expression &formula, std::string_view text,
                const std::function<std::optional<int64_t>(std::string_view)> &value,
                DiagnosticEngine &diagnostics) {
  std::string unknown;
  auto result = formula.evaluate([&](const Expression &leaf) {
    auto known = value(leaf.name);
    if (!known && unknown.empty())
      unknown = leaf.name;
    return known;
  });
  if (!unknown.empty())
    diagnostics.report(diag::CliUnknownInFormula, {}, unknown, text);
  else if (!result)
    diagnostics.report(diag::CliBadFormula, {}, text);
  return result;
}

} // namespace nereid::cli
