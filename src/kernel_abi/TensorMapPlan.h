// What a launcher must know to make the tensor map of a descriptor: plain data, without MLIR.
//
// The copy engine reads what it needs of a tensor from a map of 128 bytes, a parameter of the
// kernel. The map is made from the launch's arguments: every entry of a plan is a small program
// over the slots in which they are passed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace nereid::gpu {

/// An integer computed from the arguments of a launch: steps over a stack of 64-bit numbers.
struct HostNumber {
  enum class Op : uint8_t {
    Argument,   ///< pushes the slot of kernel argument `value`
    Constant,   ///< pushes `value`
    SignExtend, ///< the low `value` bits, as a signed number
    ZeroExtend, ///< the low `value` bits
    Add,        ///< of the two uppermost, wrapping
    Sub,
    Mul,
    Shl,
  };
  struct Step {
    Op op;
    int64_t value = 0;
  };
  std::vector<Step> steps;

  /// The most numbers on the stack; planners refuse what needs more.
  static constexpr size_t maxDepth = 24;

  /// How many numbers are on the stack at most.
  size_t depth() const {
    size_t now = 0, most = 0;
    for (const Step &step : steps) {
      if (step.op <= Op::Constant)
        most = std::max(most, ++now);
      else if (step.op > Op::ZeroExtend)
        --now;
    }
    return most;
  }

  /// `slots`: one of 8 bytes an argument of the kernel, a narrow value in the first bytes.
  int64_t evaluate(const uint64_t *slots) const {
    uint64_t stack[maxDepth];
    size_t top = 0;
    for (const Step &step : steps) {
      auto bits = unsigned(step.value);
      switch (step.op) {
      case Op::Argument:
        stack[top++] = slots[step.value];
        continue;
      case Op::Constant:
        stack[top++] = uint64_t(step.value);
        continue;
      case Op::SignExtend:
        stack[top - 1] = uint64_t(int64_t(stack[top - 1] << (64 - bits)) >> (64 - bits));
        continue;
      case Op::ZeroExtend:
        stack[top - 1] = stack[top - 1] << (64 - bits) >> (64 - bits);
        continue;
      default:
        break;
      }
      uint64_t right = stack[--top];
      uint64_t &left = stack[top - 1];
      left = step.op == Op::Add   ? left + right
             : step.op == Op::Sub ? left - right
             : step.op == Op::Mul ? left * right
                                  : left << right;
    }
    return int64_t(stack[0]);
  }
};

/// The values are those of the driver's CUtensorMapDataType.
enum class TensorMapElement : uint8_t {
  UInt8,
  UInt16,
  UInt32,
  Int32,
  UInt64,
  Int64,
  Float16,
  Float32,
  Float64,
  BFloat16
};

/// One tensor map. Dimensions from the outermost on.
struct TensorMapPlan {
  std::string name; ///< of the argument that holds the tensor, for messages
  TensorMapElement element = TensorMapElement::UInt8;
  unsigned elementBytes = 1;
  unsigned swizzleBytes = 0; ///< 0, 32, 64 or 128
  bool padsNaN = false;
  /// The launcher passes zeros where the engine cannot describe the tensor; without, that is an
  /// error.
  bool optional = false;
  HostNumber base; ///< address
  std::vector<HostNumber> shape;
  std::vector<HostNumber> strides; ///< in elements; the last, which is 1, is left out
  std::vector<uint32_t> box;       ///< sizes that one copy moves
};

} // namespace nereid::gpu
