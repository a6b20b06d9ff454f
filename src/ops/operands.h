// The arguments of a call as the dispatcher hands them over: tensors, numbers, nothing; and dtypes.
#pragma once

#include "interface.h"
#include "nereid/nereid.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/native/TypeProperties.h>

#include <optional>

namespace nereid::ops {

/// The dtypes that kernels are made for, in the order of _launch.DTYPES.
enum Code : uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, NoCode = 0xff };

constexpr at::ScalarType scalarTypes[] = {at::kBool,  at::kByte,  at::kChar, at::kShort,
                                          at::kInt,   at::kLong,  at::kHalf, at::kBFloat16,
                                          at::kFloat, at::kDouble};
/// In the order of _launch.POINTERS: 8-bit floats, which pointwise operators do not take, are the
/// last ones.
constexpr uint8_t elementTypes[] = {NRD_INT1,  NRD_UINT8, NRD_INT8,    NRD_INT16,
                                    NRD_INT32, NRD_INT64, NRD_FP16,    NRD_BF16,
                                    NRD_FP32,  NRD_FP64,  NRD_FP8E4NV, NRD_FP8E5};

inline Code codeOf(at::ScalarType type) {
  switch (type) {
  case at::kBool:
    return Bool;
  case at::kByte:
    return U8;
  case at::kChar:
    return I8;
  case at::kShort:
    return I16;
  case at::kInt:
    return I32;
  case at::kLong:
    return I64;
  case at::kHalf:
    return F16;
  case at::kBFloat16:
    return BF16;
  case at::kFloat:
    return F32;
  case at::kDouble:
    return F64;
  default:
    return NoCode;
  }
}
inline bool isFloat(Code code) {
  return code >= F16;
}
/// Kinds of dtypes, of which the higher one decides: bool, integer, float.
inline int category(Code code) {
  return code == Bool ? 0 : code < F16 ? 1 : 2;
}

/// A number: of an argument, or of a tensor of the host without dimensions.
struct Number {
  bool isFloat = false;
  int64_t integer = 0;
  double real = 0;
  int kind = 1; ///< category of a Python number: bool, int, float

  static Number of(int64_t value) { return {false, value, double(value), 1}; }
  static Number of(double value) { return {true, 0, value, 2}; }
  double asDouble() const { return isFloat ? real : double(integer); }
  uint8_t tag() const { return isFloat ? OPS_FLOAT : OPS_INT; }
};

/// None for complex numbers and what is no number.
std::optional<Number> numberOf(const c10::IValue &value);
/// The element of a tensor of the host; none for dtypes without code.
std::optional<Number> numberOf(const at::Tensor &tensor);

/// One input: a tensor that the kernel reads, a number, or nothing.
struct Operand {
  enum Kind : uint8_t { Nothing, Tensor, Value } kind = Nothing;
  Code code = NoCode; ///< of a tensor, also of one that has become a number
  const at::Tensor *tensor = nullptr;
  Number number;
};

} // namespace nereid::ops
