"""Wide rows on a GPU of architecture 90: the compiler's choices against others: `python benchmarks/gpu/wide_rows.py [--columns 32768,65536]`.

Softmax, RMSNorm and layer norm of rows of 4096 to 262144 columns, in fp32 and bf16, 256 MB read and written. For each: the rate of PyTorch's copy, then

  one block   one block a program (`clusters=False`), 4 to 32 warps
  narrow      the same with NEREID_KEEP_NARROW=1: values of bf16 rows are computed again behind reductions
  chosen      what the compiler does by itself; "narrow" behind it: with NEREID_KEEP_NARROW=1
  N x W       N blocks of W warps, by `num_ctas`

with the median time of 11 trials that take turns, the memory rate relative to the copy, registers, spills, the largest error against fp64. Two runs must agree
bit for bit, and "narrow" with "one block". Exits with 1 if a result is wrong. About 90 seconds.
"""

import argparse
import concurrent.futures
import statistics
import sys

import nereid
import nereid.language as tl
import torch


@nereid.jit
def softmax(out, x, weight, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + columns, (powers / tl.sum(powers, axis=0)).to(out.dtype.element_ty), mask=columns < n)


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


def expected(kernel, x, weight):
    x, weight = x.double(), weight.double()
    if kernel is softmax:
        return torch.softmax(x, -1)
    if kernel is layer_norm:
        x = x - x.mean(-1, keepdim=True)
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def variants(dtype, columns):
    """Name, settings (clusters, keep_narrow), options."""
    warps = (4, 8, 16, 32) if columns <= 16384 else (8, 16, 32) if columns <= 65536 else (16, 32)
    for count in warps:
        yield f"one block, {count}", (False, False), {"num_warps": count}
    if dtype != torch.float32:
        for count in warps:
            yield f"narrow, {count}", (False, True), {"num_warps": count}
    for count in (4, 16):
        yield f"chosen, from {count}", (True, False), {"num_warps": count}
        if dtype != torch.float32:
            yield f"chosen, narrow, from {count}", (True, True), {"num_warps": count}
    if columns >= 32768:
        for blocks, count in ((2, 4), (4, 4), (8, 4), (2, 8), (4, 8), (8, 8), (4, 16), (8, 16)):
            if 48 <= columns / (32 * blocks * count) <= 256:
                yield f"{blocks} x {count}", (True, False), {"num_ctas": blocks, "num_warps": count}


def microseconds(launches, trials=11):
    times = [[] for _ in launches]
    for launch in launches:
        launch()
    for _ in range(trials):
        for launch, mine in zip(launches, times):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(5):
                launch()
            end.record()
            end.synchronize()
            mine.append(start.elapsed_time(end) * 200)
    return [statistics.median(mine) for mine in times]


def measure(kernel, dtype, columns):
    rows = max(1, (1 << 27) // columns // dtype.itemsize)
    x = torch.randn(rows, columns, device="cuda", dtype=dtype)
    weight = torch.randn(columns, device="cuda", dtype=dtype)
    right = expected(kernel, x[:16], weight)
    cases = list(variants(dtype, columns))
    outs = [torch.empty_like(x) for _ in cases]

    def launch(case, out):
        return kernel[(rows, )](out, x, weight, columns, BLOCK=nereid.next_power_of_2(columns), **case[2])

    compiled = {}
    for settings in {case[1] for case in cases}:
        nereid.knobs.nereid.clusters, nereid.knobs.nereid.keep_narrow = settings
        fresh = nereid.jit(kernel.fn)
        for case in cases:
            if case[1] == settings:
                compiled[case[0]] = (fresh, case[2])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda case: fresh.warmup(outs[0], x, weight, columns, BLOCK=nereid.next_power_of_2(columns), grid=(rows, ), **case[2]),
                          [case for case in cases if case[1] == settings]))
        for case, out in zip(cases, outs):
            if case[1] == settings:
                compiled[case[0]] = fresh[(rows, )](out, x, weight, columns, BLOCK=nereid.next_power_of_2(columns), **case[2])
    wrong, firsts, launches = 0, {}, []
    arguments = (x, weight, columns)
    for case, out in zip(cases, outs):
        code = compiled[case[0]]
        firsts[case[0]] = out[:256].clone()
        out.zero_()
        launches.append(lambda code=code, out=out: code[(rows, )](out, *arguments, nereid.next_power_of_2(columns)))
        launches[-1]()
        again = torch.equal(firsts[case[0]], out[:256])
        plain = firsts.get(case[0].replace("narrow", "one block"))
        same = not case[0].startswith("narrow") or torch.equal(plain, firsts[case[0]])
        error = ((out[:16].double() - right).abs().max() / right.abs().max()).item()
        good = again and same and error < (1e-2 if dtype == torch.bfloat16 else 1e-5)
        wrong += not good
        firsts[case[0], "text"] = f"error {error:.1e}" + ("" if good else f"  WRONG (again {again}, same {same})")
    copy = torch.empty_like(x)
    *times, copied = microseconds([*launches, lambda: copy.copy_(x)])
    title = f"{kernel.__name__} {str(dtype)[6:]} {rows} x {columns}"
    print(f"{title:34} copy {copied:7.1f} us", flush=True)
    for case, time in zip(cases, times):
        code = compiled[case[0]]
        shape = f"{code.metadata.num_ctas} x {code.metadata.num_warps}"
        print(f"    {case[0]:22} {shape:7} {time:8.1f} us  {copied / time:5.3f} of the copy  {code.n_regs:3} registers, {code.n_spills:4} spills  "
              f"{firsts[case[0], 'text']}", flush=True)
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--columns", default="4096,16384,32768,65536,131072,262144")
    parser.add_argument("--kernels", default="softmax,rms_norm,layer_norm")
    given = parser.parse_args()
    print(torch.cuda.get_device_name())
    failures = 0
    for name in given.kernels.split(","):
        for dtype in (torch.float32, torch.bfloat16):
            for columns in given.columns.split(","):
                failures += measure(globals()[name], dtype, int(columns))
    print("all right" if not failures else f"{failures} WRONG")
    sys.exit(bool(failures))
