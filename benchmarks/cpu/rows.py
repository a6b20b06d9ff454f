"""Rows and matrices on the CPU beside PyTorch: softmax, norms and losses of odd widths, transposed copies, running sums.

    NEREID_CPU_THREADS=1 python benchmarks/cpu/rows.py [--only softmax,transpose] [--rounds 40] [--markdown]

Each case is compared with float64 or exactly first. Calls of both are taken in turns; the smallest time of each counts, so that other work on
the machine disturbs little. PyTorch uses as many threads as Nereid. Status 1 when a result is wrong.
"""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels"))

import beside  # noqa: E402
import nereid  # noqa: E402
import nereid.language as tl  # noqa: E402
import seed  # noqa: E402

F = torch.nn.functional
WIDTHS = (781, 931, 1000, 2048, 4096)


@nereid.jit
def rms_norm(o, x, w, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < n
    v = tl.load(x + r * n + c, m, 0.0).to(tl.float32)
    y = v * tl.rsqrt(tl.sum(v * v, 0) / n + eps) * tl.load(w + c, m, 0.0).to(tl.float32)
    tl.store(o + r * n + c, y, m)


@nereid.jit
def layer_norm(o, x, w, b, n, eps, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    m = c < n
    v = tl.load(x + r * n + c, m, 0.0).to(tl.float32)
    d = tl.where(m, v - tl.sum(v, 0) / n, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    y = d * scale * tl.load(w + c, m, 0.0).to(tl.float32) + tl.load(b + c, m, 0.0).to(tl.float32)
    tl.store(o + r * n + c, y, m)


@nereid.jit
def cross_entropy(o, x, t, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    v = tl.load(x + r * n + c, c < n, -float("inf")).to(tl.float32)
    most = tl.max(v, 0)
    total = tl.sum(tl.exp(v - most), 0)
    tl.store(o + r, tl.log(total) + most - tl.load(x + r * n + tl.load(t + r)).to(tl.float32))


@nereid.jit
def cumsum(o, x, n, B: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, B)
    tl.store(o + r * n + c, tl.cumsum(tl.load(x + r * n + c, c < n, 0), 0), c < n)


@nereid.jit
def transpose(y, x, h, w, way: tl.constexpr, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    r = tl.program_id(1) * B + tl.arange(0, B)
    down, right = (r[:, None] < w) & (c[None, :] < h), (r[None, :] < w) & (c[:, None] < h)
    if way == "load":
        tl.store(y + r[:, None] * h + c[None, :], tl.load(x + c[None, :] * w + r[:, None], down), down)
    elif way == "store":
        tl.store(y + r[None, :] * h + c[:, None], tl.load(x + c[:, None] * w + r[None, :], right), right)
    else:
        tl.store(y + r[:, None] * h + c[None, :], tl.trans(tl.load(x + c[:, None] * w + r[None, :], right)), down)


def row_cases(dtype, n):
    rows, block = max(8, 200000 // n), nereid.next_power_of_2(n)
    x, w, b = torch.randn(rows, n).to(dtype), torch.randn(n).to(dtype), torch.randn(n).to(dtype)
    out, other, loss = torch.empty_like(x), torch.empty_like(x), torch.empty(rows)
    target = torch.randint(0, n, (rows,))
    exact = x.double()
    yield ("softmax", lambda: seed.softmax_kernel[(rows,)](out, x, n, n, n, BLOCK_SIZE=block), lambda: torch.softmax(x, 1, out=other),
           lambda: (out, torch.softmax(exact, 1)))
    yield ("layer norm", lambda: layer_norm[(rows,)](out, x, w, b, n, 1e-5, B=block), lambda: F.layer_norm(x, (n,), w, b),
           lambda: (out, F.layer_norm(exact, (n,), w.double(), b.double())))
    yield ("rms norm", lambda: rms_norm[(rows,)](out, x, w, n, 1e-5, B=block), lambda: F.rms_norm(x, (n,), w, 1e-5),
           lambda: (out, F.rms_norm(exact, (n,), w.double(), 1e-5)))
    yield ("cross entropy", lambda: cross_entropy[(rows,)](loss, x, target, n, B=block), lambda: F.cross_entropy(x, target, reduction="none"),
           lambda: (loss, F.cross_entropy(exact, target, reduction="none")))
    if dtype == torch.float32:
        yield ("cumsum", lambda: cumsum[(rows,)](out, x, n, B=block), lambda: torch.cumsum(x, 1, out=other), lambda: (out, exact.cumsum(1)))


def transposed_cases(dtype, h, w):
    x = (torch.randn(h, w) * 50).to(dtype)
    y, z = torch.empty(w, h, dtype=dtype), torch.empty(w, h, dtype=dtype)
    grid = (nereid.cdiv(h, 64), nereid.cdiv(w, 64))
    for way in ("load", "store", "trans"):
        yield (f"transpose by {way}", lambda way=way: transpose[grid](y, x, h, w, way=way, B=64), lambda: z.copy_(x.T), lambda: (y, x.T.double()))


def cases(only):
    for dtype in (torch.float32, torch.bfloat16):
        for n in WIDTHS:
            for case in row_cases(dtype, n):
                if not only or case[0].split()[0] in only:
                    yield (f"{case[0]} {str(dtype).removeprefix('torch.')} {n}", *case[1:])
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.float64):
        for h, w in ((512, 512), (1000, 777), (2048, 2048)):
            for case in transposed_cases(dtype, h, w):
                if not only or "transpose" in only:
                    yield (f"{case[0]} {str(dtype).removeprefix('torch.')} {h}x{w}", *case[1:])


def checked(name, check):
    """Whether the results that `check` returns agree as closely as a case of this name must."""
    tolerance = 0.0 if "transpose" in name else 4e-2 if "bfloat16" in name and "cross" not in name else 1e-3 if "cumsum" in name else 2e-5
    got, want = check()
    return (got.double() - want).abs().max().item() <= tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="softmax, layer, rms, cross, cumsum, transpose")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    beside.use_threads()
    chosen = cases(set(filter(None, options.only.split(","))))
    return int(beside.table(((name, ours, theirs, lambda name=name, check=check: checked(name, check)) for name, ours, theirs, check in chosen),
                            options.rounds, options.markdown))


if __name__ == "__main__":
    sys.exit(main())
