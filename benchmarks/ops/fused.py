"""Time on the GPU of the fused operators (`nereid.ops.fused`) against what PyTorch does in their place, over shapes of models.

    python benchmarks/ops/fused.py [--only norms,gated] [--case REGEX] [--seconds 0.4] [--json FILE]

Every module of `fused_cases` is a family. Candidates of a case run in turns with a cold L2 cache, the median over rounds counts. Results are compared first, both with
the same definition in fp64. Printed are microseconds, GB/s and TFLOP/s as far as a case says how many bytes and operations it needs, and the ratio of each
other candidate's time to ours (above 1: ours is faster).
"""

import argparse
import dataclasses
import importlib
import json
import pathlib
import pkgutil
import re
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
from measure import Bench, relative_error


@dataclasses.dataclass
class Case:
    """What is measured.

    name: operator and shapes. ours: a function without arguments. others: {"torch": function, ...}, what is compared. bytes, flops: what the operator has to move and to
    compute, or None. definition: a function that returns the results in fp64, or None where it is too large; tolerance: the largest relative error (Frobenius norm) of ours.
    """
    name: str
    ours: object
    others: dict
    bytes: int = None
    flops: int = None
    definition: object = None
    tolerance: float = 1e-2


def graph(call):
    """A CUDA graph of a call, after some calls, so that nothing of the host is measured; the call itself where it cannot be captured."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(captured):
            call()
    except RuntimeError as error:
        torch.cuda.synchronize()
        print(f"  not captured: {str(error).splitlines()[0]}"[:200], file=sys.stderr)
        return call
    return captured.replay


def tensors(results):
    return [item for item in (results if isinstance(results, (list, tuple)) else [results]) if isinstance(item, torch.Tensor)]


def run(case, bench, seconds):
    """{candidate: microseconds, "error": relative error of ours, ...} of a case."""
    row = {}
    if case.definition is not None:
        want = tensors(case.definition())
        got = tensors(case.ours())
        row["error"] = max(relative_error(a, b) for a, b in zip(got, want))
        for name, other in case.others.items():
            row[f"error of {name}"] = max(relative_error(a, b) for a, b in zip(tensors(other()), want))
        del want, got
    calls = {"ours": graph(case.ours), **{name: graph(other) for name, other in case.others.items()}}
    first = bench.once(list(calls.values()), 3)
    each = sum(statistics.median(readings) for readings in first) / 1000 + 0.0002
    readings = bench.once(list(calls.values()), max(5, min(200, int(seconds / each))))
    for name, values in zip(calls, readings):
        row[name] = statistics.median(values) * 1000
    for name in case.others:
        row[f"{name}/ours"] = statistics.median(b / a for a, b in zip(readings[0], readings[list(calls).index(name)]))
    if case.bytes:
        row["GB/s"] = case.bytes / row["ours"] / 1e3
    if case.flops:
        row["TFLOP/s"] = case.flops / row["ours"] / 1e6
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="families, with commas")
    parser.add_argument("--case", default="", help="a regular expression on names of cases")
    parser.add_argument("--seconds", type=float, default=0.4, help="for a case")
    parser.add_argument("--json")
    options = parser.parse_args()
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    families = sorted(module.name for module in pkgutil.iter_modules([str(pathlib.Path(__file__).resolve().parent / "fused_cases")]))
    chosen = options.only.split(",") if options.only else families
    for name in chosen:
        if name not in families:
            parser.error(f"no family `{name}`: there are {', '.join(families)}")
    bench, table, failed = Bench(), {}, 0
    for family in chosen:
        print(f"--- {family}", flush=True)
        for case in importlib.import_module(f"fused_cases.{family}").cases("cuda"):
            if not re.search(options.case, case.name):
                continue
            try:
                row = table[f"{family}: {case.name}"] = run(case, bench, options.seconds)
            except Exception as error:
                failed += 1
                print(f"{case.name:56} FAILED {type(error).__name__}: {error}"[:400], flush=True)
                torch.cuda.synchronize()
                continue
            wrong = "" if row.get("error", 0) <= case.tolerance else "  WRONG"
            failed += bool(wrong)
            print(f"{case.name:56}" + "  ".join(f"{key} {value:.3g}" if "error" in key else f"{key} {value:.1f}" if "/ours" not in key else f"{key} {value:.2f}"
                                                for key, value in row.items()) + wrong, flush=True)
            torch.cuda.empty_cache()
    print(f"{len(table)} cases, {failed} failed; {torch.cuda.get_device_name()}, torch {torch.__version__}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(table, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
