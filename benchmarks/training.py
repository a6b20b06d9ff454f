"""Measures the training example on the GPUs of this machine: tokens a second, MFU, memory and losses with PyTorch's operators and with ours, and how it scales.

    python benchmarks/training.py --size 1.3B --gpus 1,2,4 --options="--micro 4" --out /tmp/training
    python benchmarks/training.py --gpus 4 --variant base= --variant few="--communicating 8" --variant keep=--keep-weights --out /tmp/overlap
    python benchmarks/training.py --size 7B --gpus 4 --options="--tensor-parallel 2 --recompute" --out /tmp/training-7b

Runs examples/train/aquila/train.py by torchrun for every number of GPUs and every set of operators, in turns, with --batch sequences for each GPU and the same seed; with --variant each of them with the options of each variant. Prints a table, and for each
number of GPUs the difference of the losses to those of the first set of operators (plots: OUT/difference-*.svg). Speeds are medians without the first quarter of the steps; efficiency is
tokens a second of a GPU over those with the fewest GPUs. `--device cpu --size tiny --gpus 1,2` tries the script without a GPU. A finished run is not repeated.
"""

import argparse
import contextlib
import io
import pathlib
import shlex
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "examples" / "train" / "aquila"
sys.path.insert(0, str(EXAMPLE))

import compare  # noqa: E402
import records  # noqa: E402


def median(numbers):
    numbers = sorted(number for number in numbers if number is not None)
    return numbers[len(numbers) // 2] if numbers else None


def folder(operators, gpus, variant):
    return f"{operators}-{gpus}" + (f"-{variant[0]}" if variant[0] else "")


def run(options, operators, gpus, variant):
    """The rows of a run's record; None if it failed. variant: (name, options of train.py)."""
    out = options.out / folder(operators, gpus, variant)
    log = out / "log.csv"
    if not log.exists() or len(records.read(log)) < options.steps:
        out.mkdir(parents=True, exist_ok=True)
        launcher = [sys.executable] if gpus == 1 else [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(gpus)]
        command = [*launcher, str(EXAMPLE / "train.py"), "--size", options.size, "--device", options.device, "--operators", operators, "--batch", str(options.batch * gpus), "--steps", str(options.steps),
                   "--save-every", "0", "--resume", "none", "--out", str(out), *shlex.split(options.options), *shlex.split(variant[1])]
        with open(out / "output", "w") as output:
            status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT).returncode
        if status:
            print(f"{out.name}: failed, see {out / 'output'}", flush=True)
            return None
    return records.read(log)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1.3B")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--gpus", default="1", help="numbers of GPUs, with commas between them")
    parser.add_argument("--operators", default="aten,fused,nereid", help="sets of operators, with commas between them")
    parser.add_argument("--batch", type=int, default=8, help="sequences of a step for each GPU")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--options", default="", help="further options of train.py")
    parser.add_argument("--variant", action="append", metavar="NAME=OPTIONS", help="options of train.py under a name; may be repeated")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    variants = [tuple(text.split("=", 1)) for text in options.variant or ["="]]
    if any(len(variant) != 2 for variant in variants):
        parser.error("--variant: expected NAME=OPTIONS")
    runs = [(operators, variant) for variant in variants for operators in options.operators.split(",")]
    found = {}
    print(f"{'operators':9} {'variant':8} {'GPUs':>4} {'tokens/s':>10} {'MFU':>6} {'GiB':>6} {'efficiency':>10} {'last loss':>9}")
    for gpus in map(int, options.gpus.split(",")):
        for operators, variant in runs:
            rows = run(options, operators, gpus, variant)
            if rows is None:
                continue
            steady = rows[len(rows) // 4:]
            speed, mfu, memory = (median([row[name] for row in steady]) for name in ("tokens_per_second", "mfu", "memory"))
            found[operators, variant, gpus] = speed
            base = min(number for *key, number in found if tuple(key) == (operators, variant))
            efficiency = speed / gpus / (found[operators, variant, base] / base)
            print(f"{operators:9} {variant[0]:8} {gpus:4} {speed:10,.0f} {'' if mfu is None else f'{mfu:.1%}':>6} {'' if memory is None else f'{memory / 2**30:.1f}':>6} {efficiency:10.3f} {rows[-1]['loss']:9.4f}", flush=True)
        first, *others = [folder(operators, gpus, variant) for operators, variant in runs if (operators, variant, gpus) in found] or [None]
        for other in others:
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                compare.main([str(options.out / first), str(options.out / other), "--plot", str(options.out / f"difference-{other}.svg")])
            print(f"  {other} after {first}:", *text.getvalue().splitlines()[:-1], sep="\n    ", flush=True)
    return 0 if len(found) == len(options.gpus.split(",")) * len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
