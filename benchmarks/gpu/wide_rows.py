"""Wide rows on a GPU of architecture 90: the compiler's choices against others: `python benchmarks/gpu/wide_rows.py [--columns 32768,65536]`.

Softmax, RMSNorm, layer norm and the gradient of cross entropy, of rows of 4096 to 262144 columns in fp32 and bf16, 256 MB read and written. For each: the
rate of PyTorch's copy, then

  chosen      what the compiler does by itself, from 4 and from 16 warps
  1 x W       one block of W warps a program
  N x W       N blocks of W warps, by `num_ctas`
  1 x W, next bf16: with NEREID_PERSISTENT_ROWS=always, blocks run several programs and fetch the row of the next one ahead
  N x W, fp32 bf16: without NEREID_KEEP_NARROW=1, with which N x W runs: values of the row are kept as fp32 instead of computed again
  N x W, sent without it, and with NEREID_CLUSTER_SENDS=1: blocks send partial results in place of meeting at the cluster's barrier
  N x W, both the same with NEREID_PERSISTENT_ROWS=always

with the median time of 11 trials that take turns, the memory rate relative to the copy, registers, spills, the largest error against fp64. Two runs must agree
bit for bit. Exits with 1 if a result is wrong. Minutes for all kernels; `--kernels`, `--dtypes` and `--columns` choose.
"""

import argparse
import concurrent.futures
import sys

import clusters
import nereid
import nereid.language as tl
import torch
from clusters import softmax


@nereid.jit
def rms_norm(out, x, weight, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / n + 1e-6)
    gain = tl.load(weight + columns, mask=columns < n, other=0).to(tl.float32)
    tl.store(out + row + columns, (values * scale * gain).to(out.dtype.element_ty), mask=columns < n)


@nereid.jit
def layer_norm(out, x, weight, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=0).to(tl.float32)
    centred = tl.where(columns < n, values - tl.sum(values, axis=0) / n, 0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + 1e-6)
    gain = tl.load(weight + columns, mask=columns < n, other=0).to(tl.float32)
    tl.store(out + row + columns, (centred * scale * gain).to(out.dtype.element_ty), mask=columns < n)


@nereid.jit
def cross_entropy(out, x, target, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    right = tl.load(target + tl.program_id(0))
    powers = tl.exp(values - tl.max(values, axis=0))
    gradient = powers / tl.sum(powers, axis=0) - tl.where(columns == right, 1.0, 0.0)
    tl.store(out + row + columns, gradient.to(out.dtype.element_ty), mask=columns < n)


#: what the compiler does when nobody asks: settings (clusters, persistent_rows, keep_narrow, cluster_sends), before any variant sets them
KNOBS = nereid.knobs.nereid
DEFAULTS = KNOBS.clusters, KNOBS.persistent_rows, KNOBS.keep_narrow, KNOBS.cluster_sends
KERNELS = {"softmax": softmax, "rms_norm": rms_norm, "layer_norm": layer_norm, "cross_entropy": cross_entropy}


def expected(name, x, other):
    x = x.double()
    if name == "softmax":
        return torch.softmax(x, -1)
    if name == "cross_entropy":
        return torch.softmax(x, -1) - torch.nn.functional.one_hot(other[:len(x)].long(), x.shape[1])
    if name == "layer_norm":
        x = x - x.mean(-1, keepdim=True)
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * other.double()


def shapes(columns):
    """Blocks and warps that are compared."""
    if columns <= 16384:
        return [(1, 4), (1, 8), (1, 16)]
    if columns <= 32768:
        return [(1, 8), (1, 16), (1, 32), (2, 4), (2, 8)]
    if columns <= 65536:
        return [(2, 16), (2, 8), (4, 4), (4, 8), (8, 4)]
    return [(4, 16), (8, 4), (8, 8)] if columns <= 131072 else [(16, 4), (8, 8), (8, 16)]


def variants(dtype, columns):
    """Name, settings in the order of DEFAULTS, options."""
    for count in (4, 16):
        yield f"chosen, from {count}", DEFAULTS, {"num_warps": count}
    for blocks, count in shapes(columns):
        options = {"num_ctas": blocks, "num_warps": count}
        yield f"{blocks} x {count}", (False, "never", True, False), options
        if blocks > 1:
            yield f"{blocks} x {count}, sent", (False, "never", False, True), options
            yield f"{blocks} x {count}, both", (False, "always", False, True), options
        if dtype != torch.float32 and blocks == 1:
            yield f"{blocks} x {count}, next", (False, "always", True, False), options
        elif dtype != torch.float32:
            yield f"{blocks} x {count}, fp32", (False, "never", False, False), options


def measure(name, dtype, columns, only):
    kernel = KERNELS[name]
    rows = max(1, (1 << 27) // columns // dtype.itemsize)
    x = torch.randn(rows, columns, device="cuda", dtype=dtype)
    other = torch.randint(0, columns, (rows, ), device="cuda") if name == "cross_entropy" else torch.randn(columns, device="cuda", dtype=dtype)
    right = expected(name, x[:16], other)
    arguments = (x, columns) if name == "softmax" else (x, other, columns)
    cases = [case for case in variants(dtype, columns) if case[0].startswith(only)]
    outs = [torch.empty_like(x) for _ in cases]
    block = nereid.next_power_of_2(columns)
    compiled = {}
    for settings in {case[1] for case in cases}:
        KNOBS.clusters, KNOBS.persistent_rows, KNOBS.keep_narrow, KNOBS.cluster_sends = settings
        fresh = nereid.jit(kernel.fn)
        mine = [(case, out) for case, out in zip(cases, outs) if case[1] == settings]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda each: fresh.warmup(each[1], *arguments, BLOCK=block, grid=(rows, ), **each[0][2]), mine))
        for case, out in mine:
            compiled[case[0]] = fresh[(rows, )](out, *arguments, BLOCK=block, **case[2])
    wrong, remarks, launches = 0, [], []
    for case, out in zip(cases, outs):
        code = compiled[case[0]]
        first = out.clone()
        out.zero_()
        launches.append(lambda code=code, out=out: code[(rows, )](out, *arguments, block))
        launches[-1]()
        again = torch.equal(first, out)
        error = max(((out[part].double() - want).abs().max() / right.abs().max()).item()
                    for part, want in ((slice(0, 16), right), (slice(rows - 1, rows), expected(name, x[rows - 1:], other[rows - 1:] if name == "cross_entropy" else other))))
        good = again and error < (1e-2 if dtype == torch.bfloat16 else 1e-5)
        wrong += not good
        remarks.append(f"error {error:.1e}" + ("" if good else f"  WRONG (again {again})"))
    copy = torch.empty_like(x)
    *times, copied = clusters.microseconds([*launches, lambda: copy.copy_(x)], trials=11, repeats=5)
    print(f"{f'{name} {str(dtype)[6:]} {rows} x {columns}':34} copy {copied:7.1f} us", flush=True)
    for case, time, remark in zip(cases, times, remarks):
        code = compiled[case[0]]
        shape = f"{code.metadata.num_ctas} x {code.metadata.num_warps}{', next' if code.metadata.persistent else ''}"
        print(f"    {case[0]:16} {shape:12} {time:8.1f} us  {copied / time:5.3f} of the copy  {code.n_regs:3} registers, {code.n_spills:4} spills  {remark}", flush=True)
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", default="4096,16384,32768,65536,131072,262144")
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--only", default="", help="variants whose names begin so, `chosen` for instance")
    given = parser.parse_args()
    print(torch.cuda.get_device_name())
    failures = 0
    for name in given.kernels.split(","):
        for dtype in given.dtypes.split(","):
            for columns in given.columns.split(","):
                failures += measure(name, getattr(torch, dtype), int(columns), given.only)
    print("all right" if not failures else f"{failures} WRONG")
    sys.exit(bool(failures))
