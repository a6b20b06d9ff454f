"""Runs many random programs through forward and reverse mode, and counts what each one ends with. A program, not a test:

    nice -n 19 python tests/differentiation/run_random_programs.py --programs 10000 --out FILE

Nine kinds take turns, or one runs alone (`--kind`): smooth programs in forward mode, smooth programs in reverse mode, the programs of forward mode in reverse mode, of which
some are refused, (test_random_programs.py), programs of irregular addresses (test_random_addresses.py), products of matrices (test_random_products.py), attention (test_random_attention.py),
rows with picked elements (test_random_picked.py), remainders in addresses and masks of several schedules (test_random_schedules.py), and elementwise programs at extreme inputs
(test_random_extremes.py).
Each is checked as the tests check it. Most of the time compiles kernels, so LLVM's optimisations, which are not what is tested, are left out (NEREID_LLVM_OPT) but for
every sixteenth program of each kind. One process runs `--batch` programs, so a crash or an endless loop ends a batch only, and names its program. A run that is repeated
with the same `--out` goes on where it ended. The summary counts passes, wrong programs and refusals by their reason; the exit code is 1 if
any program is wrong.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

OPTIMISED = 16  #: of so many programs of a kind one is compiled with LLVM's optimisations
KINDS = ("forward", "reverse", "any in reverse", "addresses", "products", "attention", "picked", "schedules", "extremes")


def kind_of(seed, only):
    return only or KINDS[seed % len(KINDS)]


def run(seed, only=None):
    """(result, detail) of one program: "passed", "overflowed" where outputs are no numbers to compare, "refused" with the reason, or "wrong" with the error and the program's text."""
    import grad_check
    import harness
    import jvp_check
    import nereid
    import test_random_addresses as addresses
    import test_random_attention as attention
    import test_random_extremes as extremes
    import test_random_picked as picked
    import test_random_products as products
    import test_random_programs as programs
    import test_random_schedules as schedules
    kind = kind_of(seed, only)
    jvp_check.GENERATOR.manual_seed(seed)
    if kind == "addresses":
        text = addresses.Writer(seed).program()
        given, grid = addresses.arguments(seed)
    elif kind in ("products", "attention"):
        text, has_axes = (products if kind == "products" else attention).program(seed)
    elif kind == "picked":
        text, has_parts = picked.program(seed)
    elif kind == "schedules":
        text = schedules.program(seed)
    elif kind == "extremes":
        text = extremes.text_of(extremes.statements(seed))
    else:
        text = programs.program(seed, is_forward=kind != "reverse")
    try:
        kernel = harness.make(text)
        compared = True
        if kind == "addresses":
            compared = addresses.check(kernel, grid, given, seed)
        elif kind == "products":
            compared = products.check(text, has_axes, seed)
        elif kind == "picked":
            picked.check(text, has_parts, seed)
        elif kind == "schedules":
            schedules.check(text, seed)
        elif kind == "extremes":
            compared = extremes.check(seed)
        elif kind == "attention":
            compared = attention.check(text, has_axes, seed)
        elif kind == "forward":
            jvp_check.check(kernel, (1, ), programs.arguments(seed), ("x_ptr", "w_ptr"), ("y_ptr", "z_ptr"), rtol=1e-4, atol=1e-5, single=5e-3, M=programs.M, N=programs.N)
        else:
            grad_check.check(kernel, (1, ), programs.arguments(seed), ("x_ptr", "w_ptr"), ("y_ptr", "z_ptr"), M=programs.M, N=programs.N)
    except nereid.CompilationError as error:
        message = re.search(r"error: (.*)", str(error)) or re.search(r"(.*)", str(error))
        return "refused", message.group(1)
    except Exception as error:  # an assertion, or whatever else a mistake of the compiler ends in
        return "wrong", f"{type(error).__name__}: {error}\n{text}"
    return "passed" if compared else "overflowed", ""


def run_batch(first, count, only, path, out):
    """Of these programs those without a result in the file."""
    import torch
    done = results(path, only)
    torch.set_num_threads(1)  # tensors are small; PyTorch's threads would wait for each other
    for seed in range(first, first + count):
        if seed in done:
            continue
        os.environ["NEREID_LLVM_OPT"] = str(int(seed // len(KINDS) % OPTIMISED == 0))
        out.write(json.dumps({"seed": seed, "result": "started"}) + "\n")
        out.flush()
        result, detail = run(seed, only)
        out.write(json.dumps({"seed": seed, "kind": kind_of(seed, only), "result": result, "detail": detail}) + "\n")
        out.flush()


def results(path, only):
    """{seed: record} of a file; a program that started and did not end is wrong."""
    found = {}
    if path.exists():
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["result"] != "started":
                found[record["seed"]] = record
            else:
                found.setdefault(record["seed"], {"kind": kind_of(record["seed"], only), "result": "wrong", "detail": "crashed, or did not end in time"} | {"seed": record["seed"]})
    return {seed: record | ({"result": "wrong"} if record["result"] == "started" else {}) for seed, record in found.items()}


def summary(records):
    lines = []
    counts = collections.Counter((record["kind"], record["result"]) for record in records)
    for kind in sorted({record["kind"] for record in records}, key=KINDS.index):
        lines.append(f"{kind}: " + ", ".join(f"{counts[kind, result]} {result}" for result in ("passed", "overflowed", "refused", "wrong")))
    reasons = collections.Counter(record["detail"] for record in records if record["result"] == "refused")
    lines += [f"  refused {count} times: {reason}" for reason, count in reasons.most_common()]
    lines += [f"wrong: program {record['seed']} ({record['kind']}): {record['detail'].splitlines()[0]}" for record in records if record["result"] == "wrong"]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--kind", choices=KINDS, help="all programs are of this kind")
    parser.add_argument("--batch", type=int, default=500, help="programs a process")
    parser.add_argument("--seconds", type=int, default=20, help="that a program of a batch may take on average")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a file of JSON lines, to which results are added")
    parser.add_argument("--one-batch", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one_batch:
        with given.out.open("a") as out:
            return run_batch(given.seed, given.programs, given.kind, given.out, out)
    started = datetime.datetime.now(datetime.timezone.utc)
    end, next_seed = given.seed + given.programs, given.seed
    while next_seed < end:
        done = results(given.out, given.kind)
        if next_seed in done:
            next_seed += 1
            continue
        count = min(given.batch - next_seed % given.batch, end - next_seed)
        command = [sys.executable, __file__, "--one-batch", "--seed", str(next_seed), "--programs", str(count), "--out", str(given.out), *(("--kind", given.kind) if given.kind else ())]
        try:
            subprocess.run(command, timeout=given.seconds * count, stdout=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            pass
    from targets import package
    records = [record for seed, record in sorted(results(given.out, given.kind).items()) if given.seed <= seed < end]
    print(f"{len(records)} programs, {started:%Y-%m-%d}, nereid: {package()}")
    print(summary(records))
    return any(record["result"] == "wrong" for record in records)


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    sys.path[:0] = [str(here), str(here.parent / "language"), str(here.parent)]
    os.environ.setdefault("NEREID_CACHE", "0")
    sys.exit(main())
