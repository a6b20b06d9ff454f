"""What each tile of a product reaches on this GPU: the data behind the table `_UNITS` in `nereid/ops/products.py`.

    python benchmarks/ops/tiles.py --json FILE [--seconds 0.02] [--within 2.5]      measures, one line of JSON a product
    python benchmarks/ops/tiles.py --judge FILE                                     needs no GPU: the choices of the table against the best ones in FILE

Each product runs with all tiles whose estimate is at most `--within` times the least one and with cuBLAS, in turns, from CUDA graphs, with a cold L2 cache. Orders: "nn" as torch.mm of
contiguous matrices, "nt" as a linear layer, "tn" as the gradient of its weight.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

import torch

from kernels import graph
from nereid.ops import products

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))

#: (m, n, k), as linear layers of models have them: rows of tokens by a layer's widths.
LAYERS = ((1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (11008, 4096), (4096, 11008), (6144, 4096), (512, 2048))
PRODUCTS = [("nt", m, n, k) for n, k in LAYERS for m in (16, 64, 512, 2048, 8192)]
PRODUCTS += [("nn", m, n, k) for n, k in ((4096, 1024), (4096, 4096), (1024, 4096)) for m in (64, 512, 4096)]
PRODUCTS += [("tn", m, n, k) for m, n in ((4096, 4096), (1024, 4096), (11008, 4096)) for k in (64, 512, 2048, 8192)]


def operands(order, m, n, k):
    a = torch.randn((k, m) if order[0] == "t" else (m, k), device="cuda", dtype=torch.bfloat16)
    b = torch.randn((n, k) if order[1] == "t" else (k, n), device="cuda", dtype=torch.bfloat16)
    return a.t() if order[0] == "t" else a, b.t() if order[1] == "t" else b


def measure(options):
    from measure import Bench
    bench, device = Bench(), torch.device("cuda")
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    with open(options.json, "w") as file:
        for order, m, n, k in PRODUCTS:
            a, b = operands(order, m, n, k)
            wanted, out = a @ b, torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
            estimates = sorted(products.estimates(processors, a.dtype, 1, m, n, k, "ieee"), key=lambda pair: pair[0])
            choices, calls = [], [graph(lambda: torch.mm(a, b, out=out))]
            for time, choice in estimates:
                if time > options.within * estimates[0][0] or len(choices) == options.most:
                    break
                products.choose(products.problem(device, a.dtype, 1, m, n, k), choice)

                def ours():
                    products.multiply(out, a, b, None, (1, m, n, k), ((0, n, 1), (0, 0, *a.stride()), (0, 0, *b.stride()), (0, 0, 0)))

                out.fill_(math.nan)
                ours()
                error = float((out.double() - wanted.double()).norm() / wanted.double().norm())
                if not error < 1e-2:
                    print(f"{order} {m}x{n}x{k} {choice}: error {error}")
                    return 1
                choices.append(choice)
                calls.append(graph(ours))
            times = bench.medians(calls, options.seconds * len(calls))
            row = {"order": order, "sizes": [m, n, k], "cublas": times[0] * 1000,
                   "tiles": [[[c.m, c.n, c.k, c.parts, c.warps, c.stages], t * 1000] for c, t in zip(choices, times[1:])]}
            print(json.dumps(row), file=file, flush=True)
            best = min(row["tiles"], key=lambda pair: pair[1])
            print(f"{order} {m}x{n}x{k}: cuBLAS {row['cublas']:.1f}, first choice {row['tiles'][0][1]:.1f} {row['tiles'][0][0]}, best {best[1]:.1f} {best[0]}", flush=True)
    return 0


def judge(options):
    """Prints, for each product in the file, the measured time of what the table chooses now over the best measured time and over cuBLAS's."""
    lost, against, unknown = [], [], 0
    for line in open(options.judge):
        row = json.loads(line)
        m, n, k = row["sizes"]
        times = {tuple(choice): time for choice, time in row["tiles"]}
        c = products.gpu_tiles(132, torch.bfloat16, 1, m, n, k)
        chosen = (c.m, c.n, c.k, c.parts, c.warps, c.stages)
        if chosen not in times:
            unknown += 1
            print(f"{row['order']} {m}x{n}x{k}: {chosen} was not measured")
            continue
        best = min(times, key=times.get)
        lost.append(times[chosen] / times[best])
        against.append(row["cublas"] / times[chosen])
        print(f"{row['order']} {m}x{n}x{k}: chosen/best {lost[-1]:.3f} cuBLAS/chosen {against[-1]:.3f} chosen {chosen} best {best}")
    print(f"{len(lost)} products, and {unknown} whose tiles were not measured, which do not count below")
    for name, values in (("chosen/best", lost), ("cuBLAS/chosen", against)):
        print(f"{name}: geometric mean {math.exp(statistics.fmean(map(math.log, values))):.3f}, least {min(values):.3f}, largest {max(values):.3f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--judge", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=0.02, help="for a candidate")
    parser.add_argument("--within", type=float, default=2.5)
    parser.add_argument("--most", type=int, default=14, help="tiles for a product")
    options = parser.parse_args()
    if options.judge:
        return judge(options)
    if not options.json:
        parser.error("expected --json FILE or --judge FILE")
    return measure(options)


if __name__ == "__main__":
    sys.exit(main())
