"""Time on the GPU of sorting and choosing in long rows: ours against ATen's, and for `sort` both of our ways against each other.

    python benchmarks/ops/long_rows.py [--only sort,topk,rank,tiles] [--seconds 0.05]

Values are compared with a stable sort by ATen in fp64 (int64) first, and places must lead to them. Microseconds, medians of graphs in turns with a cold L2 cache; speed is ATen's time over ours.
"tiles" compares sizes of what is put in the order of a digit at once (`_sorted.DIGIT_TILE`). The column "digits/merged" of sorts says where sorting by digits begins to pay (`_sorted.RADIX_FROM`).
"""

import argparse

import torch

import kernels  # noqa: F401  finds measure.py
import nereid.ops
from measure import Bench
from nereid.ops import _sorted

SORTED = [(2048, 4096), (2048, 11008), (512, 16384), (256, 32768), (64, 131072), (16, 1 << 19), (4, 1 << 20), (1, 1 << 16), (1, 1 << 18), (1, 1 << 20), (1, 1 << 24)]
CHOSEN = [(4096, 4096, 50), (2048, 11008, 50), (1, 1 << 24, 50), (16384, 2048, 8), (1, 32000, 50), (64, 32000, 50), (1, 128256, 50), (64, 128256, 50), (8, 151936, 1024), (2048, 11008, 1), (64, 65536, 1)]
RANKED = [(4096, 64), (16384, 512), (4096, 4096), (2048, 11008), (512, 16384), (64, 65536), (1, 1 << 20)]


def wide(x):
    return x.double() if x.is_floating_point() else x.long()


def judged(found, x, wanted):
    """Whether values are as wanted and places, each once in a row, lead to them."""
    values, places = found
    distinct = places.sort(-1)[0].diff(dim=-1)
    return "ok" if torch.equal(wide(values), wanted) and torch.equal(x.gather(-1, places), values) and bool((distinct > 0).all()) else "WRONG"


def both(bench, name, call, x, wanted, seconds):
    """Prints a line; returns our graph."""
    theirs = kernels.graph(call)
    with nereid.ops.use(routing=False):
        verdict = judged(call(), x, wanted)
        ours = kernels.graph(call)
    (mine, its), ratio, _ = bench.pairs([ours, theirs], seconds)
    print(f"{name:44}{mine * 1000:10.1f}{its * 1000:10.1f}{1 / ratio:8.2f}  {verdict}", end="", flush=True)
    return ours


def by_way(call, least):
    """The graph of a call where rows from `least` elements on are sorted by digits."""
    before, _sorted.RADIX_FROM = _sorted.RADIX_FROM, dict.fromkeys(_sorted.RADIX_FROM, least)
    try:
        with nereid.ops.use(routing=False, router=False):
            return kernels.graph(call)
    finally:
        _sorted.RADIX_FROM = before


def tiles(bench, x, seconds):
    """Prints how long sorting by digits takes, by tile."""
    default, graphs = _sorted.DIGIT_TILE, {}
    wanted = wide(x).sort(1)[0]
    for tile in ((12, 8), (12, 16), (11, 4), (11, 2), (10, 2), (10, 1), (9, 1)):
        _sorted.DIGIT_TILE = tile
        graphs[tile] = by_way(lambda: x.sort(1), 0)
        with nereid.ops.use(routing=False, router=False):
            assert judged(x.sort(1), x, wanted) == "ok" or x.shape[1] <= _sorted._radix_from(x), tile
    _sorted.DIGIT_TILE = default
    times = bench.medians(list(graphs.values()), seconds * len(graphs))
    print(f"{str(x.dtype)[6:]} {tuple(x.shape)}", *[f"{tile}: {1000 * time:.1f}" for tile, time in zip(graphs, times)], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="topk,rank,sort")
    parser.add_argument("--dtypes", default="bfloat16,float32,int64")
    parser.add_argument("--seconds", type=float, default=0.05, help="a case")
    options = parser.parse_args()
    only, bench = options.only.split(","), Bench()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; microseconds: ours, ATen's; speed")
    for dtype in [getattr(torch, name) for name in options.dtypes.split(",")]:
        def rows(shape):
            x = torch.randn(shape, device="cuda")
            return x.to(dtype) if dtype.is_floating_point else (x * 1e6).to(dtype)

        for *shape, k in CHOSEN if "topk" in only else ():
            x = rows(shape)
            both(bench, f"topk {k} {str(dtype)[6:]} {tuple(shape)}", lambda: x.topk(k, 1), x, wide(x).sort(1, descending=True)[0][:, :k], options.seconds)
            print()
        for shape in RANKED if "rank" in only else ():
            x = rows(shape)
            middle = (shape[1] - 1) // 2
            wanted = wide(x).sort(1)[0][:, middle:middle + 1]
            both(bench, f"median {str(dtype)[6:]} {shape}", lambda: x.median(1, keepdim=True), x, wanted, options.seconds)
            print()
            both(bench, f"kthvalue {str(dtype)[6:]} {shape}", lambda: x.kthvalue(middle + 1, 1, keepdim=True), x, wanted, options.seconds)
            print()
        for shape in SORTED if "sort" in only else ():
            x = rows(shape)
            both(bench, f"sort {str(dtype)[6:]} {shape}", lambda: x.sort(1), x, wide(x).sort(1)[0], options.seconds)
            merged, digits = by_way(lambda: x.sort(1), _sorted.NARROW), by_way(lambda: x.sort(1), 0)
            (first, second), ratio, _ = bench.pairs([merged, digits], options.seconds)
            print(f"  merged {first * 1000:10.1f}  digits {second * 1000:10.1f}  digits/merged {1 / ratio:.2f}", flush=True)
        for shape in ((64, 131072), (1, 1 << 24)) if "tiles" in only else ():
            tiles(bench, rows(shape), options.seconds)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
