"""Lists of many small tensors, and long rows, on the CPU: `nereid.ops` against ATen, host time included.

    python benchmarks/ops/lists_and_rows.py [--only lists,rows] [--count 220] [--sizes 16,256,1024,4096] [--lengths 8192,65536] [--rounds 7]

One thread, its own processor time. Rounds of ours and of ATen's in turns; printed are the smallest milliseconds of each and the median of the ratios, ATen's time over ours. The values of rows are compared
with ATen's, and places must lead to them. Exit status 1 where they differ.
"""

import argparse
import statistics
import sys
import time

import torch

import nereid.ops


def lists(count, size):
    """(name, call) for lists of `count` tensors, every second one a matrix."""
    tensors = [torch.nn.Parameter(torch.randn(size if i % 2 else (size // 16, 16))) for i in range(count)]
    for tensor in tensors:
        tensor.grad = torch.randn_like(tensor)
    grads = [tensor.grad for tensor in tensors]
    copies = [grad.clone() for grad in grads]
    yield "AdamW", torch.optim.AdamW(tensors, lr=1e-4, fused=True).step
    yield "SGD", torch.optim.SGD(tensors, lr=1e-4, momentum=0.9, fused=True).step
    yield "copy_", lambda: torch._foreach_copy_(copies, grads)
    yield "add", lambda: torch._foreach_add(grads, 1.0)
    yield "mul_", lambda: torch._foreach_mul_(grads, 1.0)
    yield "norm", lambda: torch._foreach_norm(grads)


def rows(x):
    length = x.shape[1]
    yield "sort", lambda: x.sort(1)
    yield "topk 50", lambda: x.topk(50, 1)
    yield "topk 1000", lambda: x.topk(1000, 1)
    yield "kthvalue", lambda: x.kthvalue(length // 3, 1, keepdim=True)
    yield "median", lambda: x.median(1, keepdim=True)


def timed(call, calls):
    start = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - start) / calls * 1e3


def compare(name, call, rounds):
    """Prints a line; returns (what ours returned, what ATen returned)."""
    ours, theirs = [], []
    for _ in range(rounds):
        with nereid.ops.use(routing=False):
            for _ in range(12):  # first calls after a change of context run in Python
                mine = call()
            ours.append(timed(call, 20))
        its = call()
        theirs.append(timed(call, 20))
    ratio = statistics.median(b / a for a, b in zip(ours, theirs))
    print(f"{name:36}{min(ours):10.3f}{min(theirs):10.3f}{ratio:8.2f}", end="", flush=True)
    return mine, its


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="lists,rows")
    parser.add_argument("--count", type=int, default=220, help="tensors of a list")
    parser.add_argument("--sizes", default="16,256,1024,4096", help="elements of a tensor, multiples of 16")
    parser.add_argument("--lengths", default="8192,65536", help="of rows, at least 1000; four rows below 65,536, else one")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    nereid.knobs.nereid.cpu_threads = 1
    torch.set_num_threads(1)
    wrong = False
    print(f"torch {torch.__version__}; milliseconds: ours, ATen's; ATen's over ours")
    for size in map(int, options.sizes.split(",") if "lists" in options.only else ()):
        for name, call in lists(options.count, size):
            compare(f"{name}, {options.count} x {size}", call, options.rounds)
            print()
    for length in map(int, options.lengths.split(",") if "rows" in options.only else ()):
        for dtype in (torch.float64, torch.int64, torch.float32, torch.bfloat16):
            x = (torch.randn(1 if length >= 65536 else 4, length) * 1e6).to(dtype)
            for name, call in rows(x):
                (values, places), (expected, _) = compare(f"{name}, {str(dtype)[6:]} {tuple(x.shape)}", call, options.rounds)
                right = torch.equal(values, expected) and torch.equal(x.gather(1, places), values)
                wrong |= not right
                print("  ok" if right else "  WRONG", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
