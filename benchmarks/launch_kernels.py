"""Kernels that do nothing, for benchmarks/launch.py: what is left is the launch."""

import triton
import triton.language as tl


@triton.jit
def blank_kernel():
    pass


@triton.jit
def plain_kernel(a, b, c, d, e, f, i, j, k, l, m, n, x, y):
    pass


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["i", "j"])
@triton.heuristics({"EVEN": lambda args: args["i"] % args["BLOCK"] == 0, "WIDE": lambda args: args["j"] > 1024})
@triton.jit
def tuned_kernel(a, b, c, d, e, f, i, j, k, l, m, n, x, y, BLOCK: tl.constexpr, EVEN: tl.constexpr, WIDE: tl.constexpr):
    pass
