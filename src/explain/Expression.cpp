#include "explain/Expression.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <iterator>

namespace nereid::explain {
namespace {

using Op = Expression::Op;

struct Row {
  Op op;
  const char *name;  ///< in JSON
  const char *infix; ///< null: written as a function
  int strength;      ///< of the infix form
};
constexpr Row rows[] = {
    {Op::Argument, "argument", nullptr, 9},
    {Op::Program, "program", nullptr, 9},
    {Op::Programs, "programs", nullptr, 9},
    {Op::Loop, "loop", nullptr, 9},
    {Op::Add, "add", " + ", 3},
    {Op::Sub, "sub", " - ", 3},
    {Op::Mul, "mul", " * ", 4},
    {Op::Div, "div", " / ", 4},
    {Op::Rem, "rem", " % ", 4},
    {Op::Min, "min", nullptr, 9},
    {Op::Max, "max", nullptr, 9},
    {Op::Less, "less", " < ", 2},
    {Op::LessEqual, "less_equal", " <= ", 2},
    {Op::Equal, "equal", " == ", 2},
    {Op::Select, "select", nullptr, 1},
};

const Row *rowOf(Op op) {
  auto *row = llvm::find_if(rows, [&](const Row &each) { return each.op == op; });
  return row == std::end(rows) ? nullptr : row;
}

std::optional<int64_t> apply(Op op, int64_t a, int64_t b) {
  auto ua = uint64_t(a), ub = uint64_t(b);
  switch (op) {
  case Op::Add:
    return int64_t(ua + ub);
  case Op::Sub:
    return int64_t(ua - ub);
  case Op::Mul:
    return int64_t(ua * ub);
  case Op::Div:
    return b == 0 || b == -1 ? (b ? std::optional(int64_t(-ua)) : std::nullopt) : a / b;
  case Op::Rem:
    return b == 0 || b == -1 ? (b ? std::optional(int64_t(0)) : std::nullopt) : a % b;
  case Op::Min:
    return std::min(a, b);
  case Op::Max:
    return std::max(a, b);
  case Op::Less:
    return a < b;
  case Op::LessEqual:
    return a <= b;
  case Op::Equal:
    return a == b;
  default:
    return std::nullopt;
  }
}

} // namespace

Expression Expression::make(Op op, std::vector<Expression> parts) {
  for (const Expression &part : parts)
    if (!part.known())
      return {};
  if (parts.size() == 2 && parts[0].op == Op::Constant && parts[1].op == Op::Constant)
    if (auto folded = apply(op, parts[0].value, parts[1].value))
      return constant(*folded);
  if (parts.size() == 2) {
    const Expression &left = parts[0], &right = parts[1];
    if (right.isConstant(0) && (op == Op::Add || op == Op::Sub))
      return left;
    if (left.isConstant(0) && op == Op::Add)
      return right;
    if (right.isConstant(1) && (op == Op::Mul || op == Op::Div))
      return left;
    if (left.isConstant(1) && op == Op::Mul)
      return right;
    if (op == Op::Sub && left == right)
      return constant(0);
    // (x + a) - x
    if (op == Op::Sub && left.op == Op::Add && left.parts[0] == right)
      return left.parts[1];
    // (x + a) + b
    if (op == Op::Add && right.op == Op::Constant && left.op == Op::Add &&
        left.parts[1].op == Op::Constant)
      return make(Op::Add, {left.parts[0], make(Op::Add, {left.parts[1], right})});
  }
  return {op, 0, {}, std::move(parts)};
}

std::optional<int64_t> Expression::evaluate(const Leaf &leaf) const {
  if (op == Op::Constant)
    return value;
  if (parts.empty())
    return known() ? leaf(*this) : std::nullopt;
  auto first = parts[0].evaluate(leaf);
  if (!first)
    return std::nullopt;
  if (op == Op::Select)
    return parts[*first ? 1 : 2].evaluate(leaf);
  auto second = parts[1].evaluate(leaf);
  return second ? apply(op, *first, *second) : std::nullopt;
}

std::string Expression::text() const {
  switch (op) {
  case Op::Unknown:
    return "?";
  case Op::Constant:
    return std::to_string(value);
  case Op::Argument:
    return name;
  case Op::Program:
    return "program_id(" + std::to_string(value) + ")";
  case Op::Programs:
    return "num_programs(" + std::to_string(value) + ")";
  case Op::Loop:
    return std::string(1, char('i' + value % 18));
  case Op::Min:
  case Op::Max:
    return std::string(op == Op::Min ? "min(" : "max(") + parts[0].text() + ", " + parts[1].text() +
           ")";
  case Op::Select:
    return "(" + parts[1].text() + " if " + parts[0].text() + " else " + parts[2].text() + ")";
  default: {
    const Row &row = *rowOf(op);
    auto part = [&](const Expression &inner, bool right) {
      const Row *its = inner.parts.empty() ? nullptr : rowOf(inner.op);
      bool weaker = its && its->infix && its->strength < row.strength + (right ? 1 : 0);
      return weaker ? "(" + inner.text() + ")" : inner.text();
    };
    return part(parts[0], false) + row.infix + part(parts[1], true);
  }
  }
}

llvm::json::Value Expression::json() const {
  if (op == Op::Constant)
    return value;
  const Row *row = rowOf(op);
  if (!row)
    return nullptr;
  llvm::json::Array all{row->name};
  if (op == Op::Argument)
    all.push_back(name);
  else if (parts.empty())
    all.push_back(value);
  for (const Expression &part : parts)
    all.push_back(part.json());
  return all;
}

Expression Expression::fromJson(const llvm::json::Value &value) {
  if (auto number = value.getAsInteger())
    return constant(*number);
  const llvm::json::Array *all = value.getAsArray();
  if (!all || all->size() < 2)
    return {};
  auto name = (*all)[0].getAsString();
  auto *row = llvm::find_if(rows, [&](const Row &each) { return name && *name == each.name; });
  if (row == std::end(rows))
    return {};
  if (row->op == Op::Argument)
    return argument((*all)[1].getAsString().value_or("").str());
  if (row->op == Op::Program || row->op == Op::Programs || row->op == Op::Loop)
    return {row->op, (*all)[1].getAsInteger().value_or(0), {}, {}};
  if (all->size() != (row->op == Op::Select ? 4u : 3u))
    return {};
  std::vector<Expression> parts;
  for (size_t i = 1; i < all->size(); ++i)
    parts.push_back(fromJson((*all)[i]));
  return make(row->op, std::move(parts));
}

} // namespace nereid::explain
