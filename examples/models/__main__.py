"""A training step of models of `transformers` on `nereid.ops`, compared with ATen in the same dtype and in float64. The command is

    python examples/models --model llama --device cpu --size tiny

Printed for each model: the share of calls with floating-point tensors that kernels of `nereid.ops` computed, and the errors of logits and gradients against float64 with ATen's beside
them (compare.py has the rule). The status is 1 if a model breaks the rule. Weights are random; nothing is downloaded.
"""

import argparse
import sys
import time

import compare
import torch
import zoo


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python examples/models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="beginnings of " + ", ".join(zoo.MODELS) + "; all by default; repeatable")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=zoo.SIZES, default="tiny")
    parser.add_argument("--dtype", choices=zoo.DTYPES, default="fp32")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="how many random weights the errors are means of (default: 3)")
    parser.add_argument("--routing", action="store_true", help="leave calls to ATen for which it was measured to be faster")
    parser.add_argument("--patch", action="store_true", help="with fused operators: nereid.models.patch")
    parser.add_argument("--left", action="store_true", help="print which calls ATen computed, and why")
    chosen = parser.parse_args(arguments)
    try:
        names = zoo.chosen(chosen.model)
    except ValueError as error:
        parser.error(str(error))
    if chosen.seeds < 1:
        parser.error(f"--seeds {chosen.seeds}: expected 1 or more")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU")
    if chosen.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # of both, so that fp32 is compared with fp32
    patch = None
    if chosen.patch:
        import nereid.models
        patch = nereid.models.patch
    dtype = zoo.DTYPES[chosen.dtype]
    print(f"{chosen.device}, {chosen.size}, {chosen.dtype}; errors against float64, relative\n")
    print(f"{'model':<9} {'served':>17}  {'logits':>8} {'ATen':>8}  {'gradients':>9} {'ATen':>8}  {'worst for what is allowed':<45} {'seconds':>7}")
    broken = []
    for name in names:
        start = time.perf_counter()
        result = compare.compared(lambda seed, name=name: zoo.made(name, chosen.size, dtype, chosen.device, seed=seed, dropout=False), dtype, chosen.device.upper(), patch, chosen.routing,
                                  chosen.seeds)
        mine, theirs = result.gradients
        share = f"{result.served}/{result.total} {100 * result.served / result.total:5.1f} %"
        worst = f"{result.excess(result.worst):.2f} {result.worst[-39:]}"
        print(f"{name:<9} {share:>17}  {result.mine['logits']:>8.1e} {result.atens['logits']:>8.1e}  {mine:>9.1e} {theirs:>8.1e}  {worst:<45} {time.perf_counter() - start:>7.1f}", flush=True)
        if chosen.left:
            for what, count in sorted(result.left.items(), key=lambda item: -item[1]):
                print(f"          left to ATen: {what} ({count})")
        if not result.holds:
            broken.append(name)
    if broken:
        print(f"\nbeyond twice ATen's error and a unit of rounding: {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
