"""Times of what is switched by constants of modules of `nereid.ops`, off and on, beside ATen's: block-scaled products through descriptors, sorts of 64-bit rows, parts of reductions; and of scans in parts and
pixel shuffles, which have no switch.

    python benchmarks/ops/switches.py [--seconds 0.02]

Results are compared first: with float64, or exactly. Microseconds, medians of graphs in turns with a cold L2 cache.
"""

import argparse
import pathlib
import sys

import torch

import nereid.ops
from nereid.ops import fused

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
from measure import Bench, relative_error


def module(name):
    return sys.modules[f"nereid.ops.{name}"]


def captured(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def compare(bench, seconds, name, call, right, settings, native=True):
    """Prints the times of a call with each of the settings, {label: {(module, constant): value}}. right: a function that judges a result."""
    graphs, notes = {}, []
    for label, setting in settings.items():
        before = {key: getattr(module(key[0]), key[1]) for key in setting}
        for (owner, constant), value in setting.items():
            setattr(module(owner), constant, value)
        try:
            with nereid.ops.use(routing=False, router=False):
                notes.append(f"{label}: {right(call())}")
                graphs[label] = captured(call)
        except Exception as problem:
            torch.cuda.synchronize()
            notes.append(f"{label}: {type(problem).__name__}: {problem}"[:150])
        for (owner, constant), value in before.items():
            setattr(module(owner), constant, value)
    if native:
        graphs["ATen"] = captured(call)
    times = bench.medians(list(graphs.values()), seconds * len(graphs))
    print(f"{name:34}", "; ".join(f"{label} {1000 * time:.1f}" for label, time in zip(graphs, times)), "  (" + "; ".join(notes) + ")", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.02)
    seconds, bench = parser.parse_args().seconds, Bench()
    print(torch.cuda.get_device_name(), torch.__version__)
    operator = fused.FUSED["scaled_mm"]
    for m, n, k in ((8192, 8192, 8192), (4000, 4096, 2048)):
        a, b = (torch.randn(size, k, device="cuda").to(torch.float8_e4m3fn) for size in (m, n))
        a_scale, b_scale = torch.rand(m, k // 128, device="cuda") + 0.1, torch.rand(n // 128, k // 128, device="cuda") * 0.01
        expected = (a[-200:].double() * a_scale[-200:].double().repeat_interleave(128, 1)) @ (b.double() * b_scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)).t()
        compare(bench, seconds, f"scaled_mm blocks {m}x{n}x{k}", lambda: operator.run(**operator.form.bind((a, b, a_scale, b_scale, None, torch.bfloat16), {})[0]),
                lambda y: f"error {relative_error(y[-200:], expected):.1e}", {"off": {("scaled", "COPIES"): False}, "on": {("scaled", "COPIES"): True}}, False)
        del expected
    sorts = {"counted": {}, "blocks of 2048": {("_sorted", "WIDE_BLOCK"): 2048}, "blocks of 4096": {("_sorted", "WIDE_BLOCK"): 4096},
             "pairs": {("_sorted", "WIDE_BLOCK"): 4096, ("_sorted", "PAIRS"): 2**26}}
    for shape in ((1, 256), (1, 2048), (64, 1000), (64, 4096), (4096, 4096), (16, 16384)):
        x = torch.randint(-10**6, 10**6, shape, device="cuda")
        wanted = x.sort(dim=1, stable=True)
        compare(bench, seconds, f"sort int64 {shape}", lambda: x.sort(1), lambda y: torch.equal(y.indices, wanted.indices) and torch.equal(y.values, wanted.values), sorts)
    parts = {"4 tiles": {}, "1 tile": {("reduction", "TILES_OF_PART"): 1}}
    for shape in ((64, 4096), (1, 1 << 20), (8, 1 << 17), (1, 1 << 22)):
        x = torch.randn(shape, device="cuda")
        for name, call in (("mean", lambda: x.mean()), ("amax of rows", lambda: x.amax(1))):
            wanted = call()
            compare(bench, seconds, f"{name} {shape}", call, lambda y: torch.allclose(y, wanted, rtol=1e-4, atol=1e-5), parts)
    for shape in ((1, 1 << 20), (1, 1 << 24)):
        x = torch.randint(-3, 4, shape, device="cuda").float()
        for name in ("cumsum", "cummax"):
            wanted = getattr(torch, name)(x, 1)
            compare(bench, seconds, f"{name} {shape}", lambda: getattr(torch, name)(x, 1), lambda y: torch.equal(y, wanted) if name == "cumsum" else torch.equal(y[0], wanted[0]), {"ours": {}})
    for batch in (1, 32):
        x = torch.randn(batch, 64, 112, 112, device="cuda").bfloat16()
        wanted = torch.pixel_shuffle(x, 2)
        compare(bench, seconds, f"pixel_shuffle {tuple(x.shape)}", lambda: torch.pixel_shuffle(x, 2), lambda y: torch.equal(y, wanted), {"ours": {}})


if __name__ == "__main__":
    main()
