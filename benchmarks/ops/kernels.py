"""Time on the device: every family of `nereid.ops` against ATen over shapes of models, on a GPU or on the CPU.

    python benchmarks/ops/kernels.py [--device cuda] [--only softmax,sum] [--seconds 0.3] [--json FILE]

Both run in turns with a cold cache (the L2 cache of the GPU is flushed between calls), the median over rounds counts. Results are compared first: with ATen's in
fp64 where dtypes are narrower. The last lines give the geometric mean of ATen's time over ours, by family and over all.
"""

import argparse
import contextlib
import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import nereid.ops

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))

HALF, FULL = torch.bfloat16, torch.float32
#: (rows, columns): tokens times width in Llama-2-7B and BERT-large, a batch of scores, one long row, a small one.
SHAPES = [(4096, 4096), (2048, 11008), (8192, 1024), (16384, 512), (1, 1 << 24), (64, 4096)]


def pointwise(device, dtype, shape):
    x, y = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    mask = torch.rand(shape, device=device) > 0.5
    row, column = torch.randn(shape[1], device=device).to(dtype), torch.randn(shape[0], 1, device=device).to(dtype)
    cases = {
        "add": lambda: x + y, "mul": lambda: x * y, "silu": lambda: F.silu(x), "gelu": lambda: F.gelu(x), "where": lambda: torch.where(mask, x, y),
        "add row": lambda: x + row, "mul column": lambda: x * column, "add number": lambda: x + 1.5, "lt": lambda: x < y, "exp": lambda: torch.exp(x),
        "tanh": lambda: torch.tanh(x), "pow": lambda: torch.pow(x, 2), "clamp": lambda: torch.clamp(x, -1, 1), "to fp32": lambda: x.to(FULL if dtype is HALF else HALF),
        "silu_backward": lambda: torch.ops.aten.silu_backward(y, x), "gelu_backward": lambda: torch.ops.aten.gelu_backward(y, x)
    }
    if shape[0] > 1:
        turned = torch.randn(shape[1], shape[0], device=device).to(dtype).t()
        wide = torch.randn(shape[0], 2 * shape[1], device=device).to(dtype)
        cases |= {"add transposed": lambda: x + turned, "copy transposed": lambda: turned.contiguous(), "add sliced": lambda: wide[:, ::2] + y,
                  "silu sliced": lambda: F.silu(wide[:, :shape[1]])}
    return cases


def reductions(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    cases = {"sum": lambda: x.sum(), "sum rows": lambda: x.sum(1), "sum columns": lambda: x.sum(0), "mean rows": lambda: x.mean(1), "max rows": lambda: x.max(1),
             "amax columns": lambda: x.amax(0), "argmax rows": lambda: x.argmax(1), "var rows": lambda: x.var(1), "norm": lambda: torch.linalg.vector_norm(x),
             "any": lambda: (x != 0).any(), "prod rows": lambda: x.prod(1)}
    return cases


def scans(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    return {"cumsum rows": lambda: x.cumsum(1), "cumsum columns": lambda: x.cumsum(0), "cummax rows": lambda: x.cummax(1)}


def rows(device, dtype, shape):
    n = shape[1]
    x, y = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    weight, bias = (torch.randn(n, device=device).to(dtype) for _ in range(2))
    if n > 65536:
        return {"softmax": lambda: torch.softmax(x, -1)}
    output = torch.softmax(x, -1)
    _, mean, rstd = torch.native_layer_norm(x, (n, ), weight, bias, 1e-5)
    return {
        "softmax": lambda: torch.softmax(x, -1), "log_softmax": lambda: torch.log_softmax(x, -1),
        "softmax_backward": lambda: torch.ops.aten._softmax_backward_data(y, output, -1, dtype),
        "layer_norm": lambda: F.layer_norm(x, (n, ), weight, bias),
        "layer_norm_backward": lambda: torch.ops.aten.native_layer_norm_backward(y, x, (n, ), mean, rstd, weight, bias, [True, True, True])
    }


def products(device, dtype, shape):
    if shape[0] == 1 or shape[1] < 1024 and shape[0] > 8192:
        return {}
    x, w = torch.randn(shape, device=device).to(dtype), torch.randn(shape[1], 4096, device=device).to(dtype)
    turned, bias = w.t().contiguous().t(), torch.randn(4096, device=device).to(dtype)
    return {"mm": lambda: x @ w, "linear": lambda: x @ turned, "addmm": lambda: torch.addmm(bias, x, w)}


def attention(device, dtype, shape):
    if shape != SHAPES[0] or dtype is not HALF:
        return {}
    cases = {}
    for length in (512, 2048, 8192):
        q, k, v = (torch.randn(max(1, 16384 // length), 16, length, 128, device=device).to(dtype) for _ in range(3))
        cases[f"attention {length}"] = lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v)
        cases[f"causal {length}"] = lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return cases


def moves(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    rows = torch.randint(0, shape[0], (shape[0], ), device=device)
    columns = torch.randint(0, shape[1], shape, device=device)
    return {"cat": lambda: torch.cat([x, x]), "index rows": lambda: x[rows], "index_select": lambda: x.index_select(0, rows), "gather": lambda: x.gather(1, columns),
            "flip": lambda: x.flip(1), "tril": lambda: x.tril(), "pad": lambda: F.pad(x, (1, 1)), "clone": lambda: x.clone(), "full": lambda: torch.full_like(x, 2)}


FAMILIES = {"pointwise": pointwise, "reductions": reductions, "scans": scans, "rows": rows, "products": products, "attention": attention, "moves": moves}


class OnCpu:
    """As measure.Bench, on the host."""

    def pairs(self, calls, seconds):
        readings, end = [[], []], time.monotonic() + seconds
        while time.monotonic() < end or len(readings[0]) < 5:
            for which in ((0, 1) if len(readings[0]) % 2 else (1, 0)):
                context, call = calls[which]
                with context():
                    call()
                    start = time.perf_counter()
                    call()
                    readings[which].append((time.perf_counter() - start) * 1000)
        return [statistics.median(values) for values in readings], statistics.median(a / b for a, b in zip(*readings)), len(readings[0])


def graph(call):
    """A CUDA graph of a call, after some calls: what its launches take, and nothing of the host."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        call()
    return captured.replay


def error_of(call, dtype):
    """The largest relative error of ours against ATen's, by tensor, in units of the dtype's eps; inf where dtypes or shapes differ."""
    theirs = call()
    with nereid.ops.use():
        ours = call()
    worst = 0.0
    for mine, its in zip(*(item if isinstance(item, (tuple, list)) else [item] for item in (ours, theirs))):
        if mine is None and its is None:
            continue
        if mine.dtype != its.dtype or mine.shape != its.shape:
            return math.inf
        if not its.dtype.is_floating_point:
            wrong = (mine != its).double().mean().item()
            worst = max(worst, 0 if wrong < 1e-3 else math.inf)
            continue
        difference = (mine.double() - its.double()).nan_to_num(0).norm() / its.double().nan_to_num(0).norm().clamp(min=1e-300)
        worst = max(worst, difference.item() / torch.finfo(its.dtype).eps)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", help="names of cases or families, with commas")
    parser.add_argument("--seconds", type=float, default=0.1, help="a case")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="only the first ones")
    parser.add_argument("--json")
    options = parser.parse_args()
    only = options.only and options.only.split(",")
    if options.device == "cuda":
        from measure import Bench
        bench = Bench()
    else:
        bench = OnCpu()
    found = []
    for family, make in FAMILIES.items():
        for dtype in (HALF, FULL):
            for shape in SHAPES[:options.shapes]:
                if options.device == "cpu" and shape[0] * shape[1] > 1 << 23:
                    continue
                for name, call in make(options.device, dtype, shape).items():
                    if only and name not in only and family not in only:
                        continue
                    row = {"family": family, "case": name, "dtype": str(dtype)[6:], "shape": shape}
                    try:
                        row["error"] = error_of(call, dtype)

                        if options.device == "cuda":
                            theirs = graph(call)
                            with nereid.ops.use():
                                mine = graph(call)
                        else:
                            mine, theirs = (nereid.ops.use, call), (contextlib.nullcontext, call)
                        (row["ours"], row["ATen"]), ratio, row["rounds"] = bench.pairs([mine, theirs], options.seconds)
                        row["speed"] = 1 / ratio
                    except Exception as problem:
                        row["failed"] = f"{type(problem).__name__}: {problem}"[:200]
                    found.append(row)
                    print(f"{family:11}{name:20}{row['dtype']:9}{str(shape):16}" + (row["failed"] if "failed" in row else
                          f"{row['ours'] * 1000:10.1f}{row['ATen'] * 1000:10.1f}{row['speed']:8.2f}   error {row['error']:.1f}"), flush=True)
                if options.device == "cuda":
                    torch.cuda.empty_cache()
    print("microseconds: ours, ATen's; ATen's over ours, the median of the pairs; error in eps")
    for family in (*FAMILIES, None):
        speeds = [row["speed"] for row in found if "speed" in row and family in (None, row["family"])]
        if speeds:
            print(f"{family or 'all'}: geometric mean {math.exp(statistics.mean(map(math.log, speeds))):.3f} of {len(speeds)} cases, "
                  f"{sum(speed < 0.97 for speed in speeds)} below 0.97, the lowest {min(speeds):.2f}")
    print(nereid.ops.report())
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": torch.cuda.get_device_name() if options.device == "cuda" else "CPU", "torch": torch.__version__, "rows": found}, file, indent=1)


if __name__ == "__main__":
    main()
