#include "syntax/tree.h"

namespace nereid::syntax {

std::string_view kindName(NodeKind kind) {
  switch (kind) {
  // Python's own spelling where ours differs.
  case NodeKind::ExprStmt:
    return "Expr";
  case NodeKind::Arguments:
    return "arguments";
  case NodeKind::Arg:
    return "arg";
  case NodeKind::Keyword:
    return "keyword";
  case NodeKind::Alias:
    return "alias";
  case NodeKind::WithItem:
    return "withitem";
  case NodeKind::Comprehension:
    return "comprehension";
  default:
    break;
  }
  static constexpr std::string_view names[] = {
#define STMT(Name) #Name,
#define EXPR(Name) #Name,
#define PART(Name) #Name,
#include "syntax/nodes.def"
  };
  return names[size_t(kind)];
}

std::string_view spelling(BinaryOp op) {
  static constexpr std::string_view rows[] = {
#define BINARY_OP(Name, Spelling) Spelling,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::string_view spelling(UnaryOpKind op) {
  static constexpr std::string_view rows[] = {
#define UNARY_OP(Name, Spelling) Spelling,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::string_view spelling(BoolOpKind op) {
  static constexpr std::string_view rows[] = {
#define BOOL_OP(Name, Spelling) Spelling,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::string_view spelling(CompareOp op) {
  static constexpr std::string_view rows[] = {
#define COMPARE_OP(Name, Spelling) Spelling,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::string_view opName(BinaryOp op) {
  static constexpr std::string_view rows[] = {
#define BINARY_OP(Name, Spelling) #Name,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::string_view opName(UnaryOpKind op) {
  static constexpr std::string_view rows[] = {
#define UNARY_OP(Name, Spelling) #Name,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::string_view opName(BoolOpKind op) {
  static constexpr std::string_view rows[] = {
#define BOOL_OP(Name, Spelling) #Name,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::string_view opName(CompareOp op) {
  static constexpr std::string_view rows[] = {
#define COMPARE_OP(Name, Spelling) #Name,
#include "syntax/nodes.def"
  };
  return rows[size_t(op)];
}

std::optional<uint64_t> Constant::asUint64() const {
  if (constantKind != ConstantKind::Int || words.size() > 1)
    return std::nullopt;
  return words.empty() ? 0 : words[0];
}

std::optional<int64_t> Constant::asInt64() const {
  std::optional<uint64_t> value = asUint64();
  if (!value || *value > uint64_t(INT64_MAX))
    return std::nullopt;
  return int64_t(*value);
}

} // namespace nereid::syntax
