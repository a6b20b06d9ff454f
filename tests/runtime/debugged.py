"""A kernel whose lines `test_debuggers.py` looks for; run as a script it crashes inside the kernel (`crash`) or runs it (`run`)."""

import sys

import nereid
import nereid.language as tl
import numpy as np

@nereid.jit
def squares(x):
    y = x * x
    return y + 1.0  # line A

@nereid.jit
def observed_kernel(src, dst, address, N: tl.constexpr):
    i = tl.arange(0, N)
    v = squares(tl.load(src + i))  # line B
    s = tl.sum(v)
    tl.store(dst + i, v / s)  # line C
    tl.store((address.to(tl.int64) + i).to(tl.pointer_type(tl.float32)), v)  # line D


def line(mark):
    with open(__file__) as file:
        return next(number for number, text in enumerate(file, 1) if text.rstrip().endswith(f"# line {mark}"))


if __name__ == "__main__":
    n = 64
    source, target, other = np.ones(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
    address = 1 << 40 if sys.argv[1] == "crash" else other.ctypes.data
    observed_kernel[(1, )](source, target, address, N=n)
    print("ran")
