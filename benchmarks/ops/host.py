"""What a call costs on the host: `nereid.ops` against ATen, and against flag-gems on the real Triton where that is installed.

    python benchmarks/ops/host.py [--device cuda] [--size 4] [--seconds 0.4] [--only add,mul] [--flag-gems] [--json FILE]

Each operator is called on small tensors until `--seconds` are over, in turns: a round of ours, a round of ATen's; rounds of flag-gems come behind them. On a GPU a round
is so short that no launch waits for room in the queue, and it is waited for between rounds. Printed are microseconds a call, the median over rounds, and
the median of the ratios ours/ATen round by round.
"""

import argparse
import contextlib
import functools
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import nereid.ops


def cases(device, n):
    x, y = (torch.randn(n, n, device=device) for _ in range(2))
    mask = x > 0
    weight, bias = torch.ones(n, device=device), torch.zeros(n, device=device)
    out = torch.empty_like(x)
    return {
        "add": lambda: torch.add(x, y),
        "add number": lambda: torch.add(x, 1.5),
        "add_": lambda: x.add_(y, alpha=0),
        "add out=": lambda: torch.add(x, y, out=out),
        "mul": lambda: torch.mul(x, y),
        "silu": lambda: F.silu(x),
        "gelu": lambda: F.gelu(x),
        "exp": lambda: torch.exp(x),
        "lt": lambda: torch.lt(x, y),
        "where": lambda: torch.where(mask, x, y),
        "add transposed": lambda: torch.add(x, y.t()),
        "sum": lambda: torch.sum(x),
        "sum dim": lambda: torch.sum(x, 1),
        "max dim": lambda: torch.max(x, 1),
        "softmax": lambda: torch.softmax(x, -1),
        "mm": lambda: torch.mm(x, y),
        "layer norm": lambda: F.layer_norm(x, (n, ), weight, bias),
    }


def rounds(call, calls, wait):
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    took = time.perf_counter() - start
    wait()
    return took / calls * 1e6


def flag_gems():
    """A context manager that switches flag-gems on, or None."""
    try:
        import flag_gems
    except Exception as error:
        print(f"without flag-gems: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return flag_gems.use_gems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.4)
    parser.add_argument("--flag-gems", action="store_true", help="also flag-gems, on the Triton that is installed")
    parser.add_argument("--only", help="names of operators, with commas")
    parser.add_argument("--json")
    options = parser.parse_args()
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    ways = {"ours": functools.partial(nereid.ops.use, routing=False), "ATen": contextlib.nullcontext}
    gems = flag_gems() if options.flag_gems else None
    columns = [*ways, "ours/ATen", *(["flag-gems"] if gems else [])]
    print(f"{'operator':16}" + "".join(f"{column:>12}" for column in columns))
    calls, table = 200, {}
    for name, call in cases(options.device, options.size).items():
        if options.only and name not in options.only.split(","):
            continue
        readings = {way: [] for way in ways}
        for way, context in ways.items():
            with context():
                for _ in range(3):
                    rounds(call, 20, wait)
        end = time.monotonic() + options.seconds * len(ways)
        while time.monotonic() < end or len(readings["ATen"]) < 5:
            for way, context in ways.items():
                with context():
                    rounds(call, 5, wait)
                    readings[way].append(rounds(call, calls, wait))
        row = table[name] = {way: statistics.median(values) for way, values in readings.items()}
        row["ours/ATen"] = statistics.median(a / b for a, b in zip(readings["ours"], readings["ATen"]))
        if gems:  # switching it on takes a second: one block for each operator, not turns
            try:
                with gems():
                    rounds(call, 20, wait)
                    row["flag-gems"] = statistics.median(rounds(call, calls, wait) for _ in range(7))
            except Exception as error:
                print(f"{name}: flag-gems failed: {type(error).__name__}: {error}"[:300], file=sys.stderr)
        print(f"{name:16}" + "".join(f"{row[column]:12.2f}" if column in row else f"{'-':>12}" for column in columns), flush=True)
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"microseconds a call, {options.size}x{options.size} fp32, {where}, torch {torch.__version__}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": where, "torch": torch.__version__, "size": options.size, "rows": table}, file, indent=1)


if __name__ == "__main__":
    main()
