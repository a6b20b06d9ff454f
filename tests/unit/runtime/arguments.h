// Arguments of launches for tests, made field by field: what callers without `nereid.hpp` pass.
#pragma once

#include "nereid/nereid.h"

namespace nereid::test {

inline nrd_arg none() {
  nrd_arg arg{};
  arg.kind = NRD_ARG_NONE;
  return arg;
}
inline nrd_arg integer(int64_t value) {
  nrd_arg arg{};
  arg.kind = NRD_ARG_INT;
  arg.i = value;
  return arg;
}
inline nrd_arg unsignedInteger(uint64_t value) {
  nrd_arg arg{};
  arg.kind = NRD_ARG_UINT;
  arg.u = value;
  return arg;
}
inline nrd_arg boolean(bool value) {
  nrd_arg arg{};
  arg.kind = NRD_ARG_BOOL;
  arg.i = value;
  return arg;
}
inline nrd_arg number(double value) {
  nrd_arg arg{};
  arg.kind = NRD_ARG_FLOAT;
  arg.f = value;
  return arg;
}
inline nrd_arg value(const nrd_value *known) {
  nrd_arg arg{};
  arg.kind = NRD_ARG_VALUE;
  arg.v = known;
  return arg;
}
inline nrd_arg pointer(const void *address, nrd_dtype type = NRD_FP32) {
  nrd_arg arg{};
  arg.kind = NRD_ARG_POINTER;
  arg.dtype = uint8_t(type);
  arg.p = const_cast<void *>(address);
  return arg;
}
inline nrd_arg pointer(uintptr_t address, nrd_dtype type = NRD_FP32) {
  return pointer(reinterpret_cast<const void *>(address), type);
}

} // namespace nereid::test
