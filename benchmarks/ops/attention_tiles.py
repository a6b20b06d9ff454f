"""Time on the GPU of the kernels of attention with other tiles than the chosen ones, the fastest first.

    python benchmarks/ops/attention_tiles.py [--dims 64,128] [--tokens 4096] [--heads 32] [--rounds 15]

Forward, gradients of keys and values, and of queries; causal and full; bf16. The tiles are measured in turns with a cold L2 cache. A line has the tile (queries x keys, warps, stages), microseconds and TFLOP/s. `*` marks
what `nereid.ops.attention` chooses.
"""

import argparse
import pathlib
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
from measure import Bench

from nereid.ops import attention
from nereid.ops.attention import Rules, Tiles


def candidates(kernel, dim):
    if kernel == "forward":
        return [Tiles(m, n, w, s) for m, w in ((64, 4), (128, 4), (128, 8)) for n in (32, 64, 128) for s in (2, 3) if not (w == 4 and m * dim > 128 * 64)]
    if kernel == "backward_key":
        return [Tiles(m, n, w, s) for m in (32, 64, 128) for n in (64, 128) for w in (4, 8) for s in (1, 2) if not (w == 4 and n * dim > 64 * 128)]
    return [Tiles(m, n, w, s) for m, w in ((64, 4), (64, 8), (128, 8)) for n in (32, 64, 128) for s in (1, 2, 3)]


def launches(function):
    """{kernel: its launch} of a call, each to be repeated alone."""
    found, original = {}, attention.launch

    def launch(kernel, *given, **named):
        found[kernel.__name__] = lambda: original(kernel, *given, **named)
        original(kernel, *given, **named)

    attention.launch = launch
    try:
        function()
    finally:
        attention.launch = original
    return found


def table(dim, batches, heads, tokens, causal):
    """[(kernel, tile, whether it is the chosen one, function)]."""
    q, k, v, grad, out = (torch.randn(batches, heads, tokens, dim, dtype=torch.bfloat16, device="cuda") for _ in range(5))
    lse, grads, rules = torch.zeros(batches, heads, tokens, device="cuda"), [torch.empty_like(q) for _ in range(3)], Rules(right=0 if causal else None)
    chosen_forward, chosen_backward = attention.forward_tiles, attention.backward_tiles
    chosen = dict(zip(("forward", "backward_key", "backward_query"), (chosen_forward(q.device, q.dtype, tokens, tokens, dim), *chosen_backward(q.device, q.dtype, tokens, tokens, dim))))
    attention.attend(out, lse, q, k, v, None, dim**-0.5, rules)
    rows = []
    for kernel, own in chosen.items():
        for tile in dict.fromkeys([own, *candidates(kernel, dim)]):
            attention.forward_tiles = lambda *_, tile=tile: tile
            attention.backward_tiles = lambda *_, tile=tile: (tile, tile)
            try:
                if kernel == "forward":
                    call = launches(lambda: attention.attend(out, lse, q, k, v, None, dim**-0.5, rules))["forward"]
                else:
                    other = chosen["backward_query" if kernel == "backward_key" else "backward_key"]
                    attention.backward_tiles = lambda *_, tile=tile, other=other, first=kernel == "backward_key": (tile, other) if first else (other, tile)
                    call = launches(lambda: attention.differentiate(grads, grad, q, k, v, None, out, lse, dim**-0.5, rules))[kernel]
                torch.cuda.synchronize()
                rows.append((kernel, tile, tile == own, call))
            except Exception as error:
                print(f"{kernel} {tile}: {str(error).splitlines()[0][:150]}", file=sys.stderr)
            finally:
                attention.forward_tiles, attention.backward_tiles = chosen_forward, chosen_backward
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    bench = Bench()
    for dim in map(int, options.dims.split(",")):
        for causal in (False, True):
            rows = table(dim, 4, options.heads, options.tokens, causal)
            readings = bench.once([call for *_, call in rows], options.rounds)
            print(f"--- {dim}{' causal' if causal else ''}, 4x{options.heads}x{options.tokens} bf16, {torch.cuda.get_device_name()}")
            flops = 4 * options.heads * options.tokens**2 * dim / (2 if causal else 1)
            for kernel, products in (("forward", 2), ("backward_key", 4), ("backward_query", 3)):
                found = sorted((statistics.median(times) * 1000, tile, own) for (name, tile, own, _), times in zip(rows, readings) if name == kernel)
                for microseconds, tile, own in found[:6] + [row for row in found[6:] if row[2]]:
                    print(f"{kernel:15}{tile.queries:4} x {tile.keys:3}, {tile.warps} warps, {tile.stages} stages {microseconds:9.1f} µs {2 * products * flops / microseconds / 1e6:7.0f} TFLOP/s {'*' if own else ''}",
                          flush=True)


if __name__ == "__main__":
    main()
