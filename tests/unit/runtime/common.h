// What the tests of the C ABI share: kernels as text, and errors as text.
#pragma once

#include "nereid/nereid.h"
#include "nereid/nereid.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace nereid::test {

inline const char *const kernels = R"(import triton
import triton.language as tl

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)

@triton.jit
def no_mask(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(y + i, v)

@triton.jit
def assertion(x, limit):
    v = tl.load(x)
    tl.device_assert(v < limit, "too large")

@triton.jit
def empty(a, b, c, d, e, f, i, j, k, l, m, n, o, p):
    pass

@triton.jit
def broken(x):
    tl.store(x, undefined_name)

@triton.jit
def scale(x, factor: tl.float64, n: tl.int64):
    tl.store(x, (tl.load(x) * factor + n).to(tl.float32))

@triton.jit
def choose(x, y, out, which, at):
    p = x
    if which > 0:
        p = y
    tl.store(out, tl.load(p + at))

@triton.jit
def select(x, y, out, which, at):
    p = tl.where(which > 0, y, x)
    tl.store(out, tl.load(p + at))

@triton.jit
def walk(x, out, steps):
    p = x
    total = 0.0
    for i in range(steps):
        total += tl.load(p)
        p += 1
    tl.store(out, total)

@triton.jit
def through_integer(x, out, at):
    address = x.to(tl.int64) + at * 4
    tl.store(out, tl.load(address.to(tl.pointer_type(tl.float32))))

@triton.jit
def gather(table, out, n):
    p = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(p + n))

@triton.jit
def wraps(x, out, stride):
    tl.store(out, tl.load(x + stride * stride))

@triton.jit
def poisoned(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + i, mask=i < n), axis=0))
)";

/// Functions of `kernels`, and launches that give the error's text.
class CApi : public ::testing::Test {
protected:
  Module module = Module::parse(kernels, "kernels.py");

  static std::string take(nrd_error *error, std::string *name = nullptr) {
    if (!error)
      return "";
    std::string text = nrd_error_message(error);
    if (name)
      *name = nrd_error_name(error);
    nrd_error_free(error);
    return text;
  }

  template <typename... Args>
  std::string launch(const char *function, const Launch &how, Args &&...args) {
    Function kernel = module.function(function);
    const std::array<Argument, sizeof...(Args)> list{Argument(std::forward<Args>(args))...};
    nrd_launch raw = nereid::detail::rawLaunch(how);
    return take(nrd_dispatch(kernel.get(), list.data(), list.size(), nullptr, &raw, nullptr),
                &errorName);
  }
  std::string errorName;
};

} // namespace nereid::test
