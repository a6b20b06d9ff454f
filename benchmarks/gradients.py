"""Gradients of kernels: how long `nereid.grad(...).backward` takes, how its sums are made, and whether its bits are the same in every run.

    OMP_NUM_THREADS=1 NEREID_CPU_THREADS=1 python benchmarks/gradients.py
    python benchmarks/gradients.py --device cuda --scale 4 --repeats 50

Sizes are those of a small training step. Prints the shortest of --repeats launches, by the clock and in time of processors, the largest error against PyTorch's gradients in fp64, and
what `explain` says of each gradient in a word: "stored" or "summed" by its owner, "partial sums", "atomic". Runs on packages from before partial sums, too.
"""

import argparse
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
for folder in ("examples/kernels", "tests/differentiation", "tests/language"):
    sys.path.insert(0, str(ROOT / folder))

import nereid  # noqa: E402
import torch  # noqa: E402
from seed import giou_kernel  # noqa: E402
from test_jvp_kernels import layer_norm, rms_norm, rope, softmax  # noqa: E402


def boxes(count):
    corner, size = torch.rand(count, 2), torch.rand(count, 2) + 0.1
    return torch.cat((corner, corner + size), 1)


def cases(scale):
    """name → (kernel, grid, arguments, wrt, out, compile-time constants, the same in PyTorch or None)"""
    rows, n = 4096 * scale, 1024
    count = scale << 18
    x, w, b = torch.randn(rows, n), torch.randn(n), torch.randn(n)
    heads = torch.randn(rows * 8, 128)
    angles = torch.randn(rows * 8, 64)

    def rotated(x):
        left, right = x.chunk(2, -1)
        cos, sin = angles.cos().to(x), angles.sin().to(x)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)

    return {
        f"GIoU of {count} boxes": (giou_kernel, (count // 256, ), dict(preds_ptr=boxes(count), targets_ptr=boxes(count), output_ptr=torch.zeros(count), valid_ptr=torch.zeros(count, dtype=torch.bool)),
                                 ("preds_ptr", ), "output_ptr", dict(BLOCK_SIZE=256), None),
        f"rotary embedding, {rows * 8} x 128": (rope, (rows * 8, ), dict(x=heads, cos=angles.cos(), sin=angles.sin(), y=torch.zeros_like(heads)), ("x", ), "y", dict(D=128), rotated),
        f"softmax, {rows} x 256": (softmax, (rows, ), dict(Y=torch.zeros_like(x[:, :256]), stride_ym=256, stride_yn=1, X=x[:, :256].contiguous(), stride_xm=256, stride_xn=1, M=rows, N=256), ("X", ), "Y", {}, lambda X: torch.softmax(X, 1)),
        f"RMS norm, {rows} x 1024": (rms_norm, (rows, ), dict(X=x, Residual=torch.zeros_like(x), W=w, Y=torch.zeros_like(x), N=n, eps=1e-5), ("X", "W"), "Y", dict(BLOCK=1024),
                                  lambda X, W: X * torch.rsqrt((X * X).mean(1, keepdim=True) + 1e-5) * W),
        f"layer norm in chunks, {rows} x 1024": (layer_norm, (rows, ), dict(X=x, Y=torch.zeros_like(x), W=w, B=b, Mean=torch.zeros(rows), Rstd=torch.zeros(rows), stride=n, N=n, eps=1e-5), ("X", "W", "B"), "Y",
                                              dict(BLOCK_SIZE=256), lambda X, W, B: torch.nn.functional.layer_norm(X, (n, ), W, B, 1e-5)),
    }


def sums(text, name):
    """How the gradient of an argument is summed, in a word or two. text: `explain()` of the gradient."""

    def way(line):
        for words, said in (("partial sums", "partial sums"), ("is summed by atomic", "atomic"), ("has a transposed schedule", "transposed schedule")):
            if words in line:
                return said
        return line.split(f"`{name}` is ")[1].split()[0]

    return " / ".join(dict.fromkeys(way(line) for line in text.splitlines() if f"`{name}` is " in line or f"`{name}` has a transposed schedule" in line))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scale", type=int, default=1, help="how many times the rows and boxes")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    torch.manual_seed(0)
    for name, (kernel, grid, arguments, wrt, out, constants, reference) in cases(options.scale).items():
        if options.only not in name:
            continue
        arguments = {each: value.to(options.device) if isinstance(value, torch.Tensor) else value for each, value in arguments.items()}
        gradient = nereid.grad(kernel, wrt, out)
        given = {f"d{out}": torch.randn_like(arguments[out])}
        found = {f"d{each}": torch.empty_like(arguments[each]) for each in wrt}

        def launch():
            gradient.backward[grid](**arguments, **given, **found, **constants)
            if options.device != "cpu":
                torch.cuda.synchronize()

        launch()
        first = {each: value.clone() for each, value in found.items()}
        times, same = [], True
        for _ in range(options.repeats):
            begin, spent = time.perf_counter(), time.process_time()
            launch()
            times.append(((time.perf_counter() - begin) * 1e3, (time.process_time() - spent) * 1e3))
            same = same and all(torch.equal(first[each], found[each]) for each in first)
        error = float("nan")
        if reference:
            wide = [arguments[each].double().requires_grad_() for each in wrt]
            expected = torch.autograd.grad(reference(*wide), wide, given[f"d{out}"].double())
            error = max(float((found[f"d{each}"] - other).abs().max() / other.abs().max()) for each, other in zip(wrt, expected))
        text = gradient.explain()
        ways = ", ".join(f"{each}: {sums(text, each)}" for each in wrt)
        wall, processor = (min(each) for each in zip(*times))
        print(f"{name:34} {wall:8.2f} ms, processors {processor:8.2f} ms   error {error:.1e}   {'same bits' if same else 'bits differ'}   {ways}", flush=True)


if __name__ == "__main__":
    main()
