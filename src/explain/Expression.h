// Integers that a kernel computes from its arguments and from its place in the grid: how often a
// loop runs. The compiler writes them down; whoever knows a launch evaluates them.
#pragma once
#include "llvm/Support/JSON.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nereid::explain {

struct Expression {
  enum class Op : uint8_t {
    Unknown,
    Constant, ///< `value`
    Argument, ///< of the kernel, by `name`
    Program,  ///< program_id(value)
    Programs, ///< num_programs(value)
    Loop,     ///< the variable of the loop with number `value`
    Add,
    Sub,
    Mul,
    Div, ///< towards zero
    Rem,
    Min,
    Max,
    Less,
    LessEqual,
    Equal,
    Select, ///< parts[0] ? parts[1] : parts[2]
  };
  Op op = Op::Unknown;
  int64_t value = 0;
  std::string name;
  std::vector<Expression> parts;

  static Expression constant(int64_t value) { return {Op::Constant, value, {}, {}}; }
  static Expression argument(std::string name) { return {Op::Argument, 0, std::move(name), {}}; }
  /// `op` on operands; unknown when one is, folded when all are constants.
  static Expression make(Op op, std::vector<Expression> parts);

  bool operator==(const Expression &) const = default;
  bool known() const { return op != Op::Unknown; }
  bool isConstant(int64_t number) const { return op == Op::Constant && value == number; }

  /// What a leaf is worth in a launch; nothing when that is not known.
  using Leaf = std::function<std::optional<int64_t>(const Expression &leaf)>;
  std::optional<int64_t> evaluate(const Leaf &leaf) const;

  /// "(K + 63) / 64", as a kernel's author would write it.
  std::string text() const;
  /// 64, ["argument", "K"], ["program", 0], ["add", x, y]; null when it is unknown.
  llvm::json::Value json() const;
  static Expression fromJson(const llvm::json::Value &value);
};

} // namespace nereid::explain
