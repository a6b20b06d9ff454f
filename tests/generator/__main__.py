"""The command line: `python -m tests.generator --seconds 60`; see docs/generator.md."""

import argparse
import collections
import json
import os
import pathlib
import pickle
import sys
import time

from ..targets import package
from . import generate
from .minimise import minimise
from .run import Failure, TooLarge
from .tree import source_of
from .worker import Worker


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.generator", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: from the time); programs take the seeds after it")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run")
    parser.add_argument("--count", type=int, default=None, help="how many programs, instead of a time")
    parser.add_argument("--target", choices=["cpu", "cuda", "both", "sim", "sim:cuda:90"], default="cpu",
                        help="sim: the GPU's code on a simulated block of threads")
    parser.add_argument("--kind", choices=["any", "tiles"], default="any",
                        help="tiles: products and rows that the copy engine, divided warps and clusters of blocks compute on sim:cuda:90, with settings that force these")
    parser.add_argument("--mode", choices=["compare", "crash"], default="compare",
                        help="crash: only compile, for the GPUs of --compile; it needs none")
    parser.add_argument("--compile-mode", default="", metavar="MODES",
                        help="also run every program in these modes: checked, debug, or both with a comma. With debug, integers wrap in every "
                        "fourth program only, and there the report is expected")
    parser.add_argument("--compile", default=None, help="also compile for these targets, e.g. cuda:80,cuda:90")
    parser.add_argument("--assemble", type=int, default=0, metavar="N", help="assemble every Nth kernel that is only compiled")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minimise", type=float, default=40.0, help="seconds to spend on making a failing program small")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many different failures")
    parser.add_argument("--out", default="build/generator", help="folder for the reproducers")
    parser.add_argument("--statistics", default=None, help="write what has been seen to this file")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds after which a program counts as hanging")
    parser.add_argument("--show", type=int, default=None, help="print the program of one seed and stop")
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args(arguments)


def reproducer(program, failure, seed, path):
    """A file that says what is wrong, holds the kernel as text, and can be run."""
    scalars = ", ".join(f"{s.name}={s.value!r}" for s in program.scalars)
    buffers = ", ".join(f"{b.name}: {b.dtype}{' (output)' if b.output else ''}" for b in program.buffers)
    head = [f'"""{failure.kind} on {failure.target}, seed {seed}: {failure.text.strip()}', "",
            f"grid {program.grid}, options {program.options}, settings {program.settings}", f"arguments: {buffers}; {scalars}", "",
            f"Run again: python -m tests.generator.again {path.with_suffix('.pickle').name}", '"""', ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(head) + "\n" + source_of(program))
    path.with_suffix(".pickle").write_bytes(pickle.dumps(program))


#: more than this part of the programs too large for the GPU: the run fails, since it compared less than it was asked for
MOST_TOO_LARGE = 0.05


def main(arguments=None):
    options = parse(sys.argv[1:] if arguments is None else arguments)
    first = options.seed if options.seed is not None else int(time.time()) % 1000000 * 1000
    modes = tuple(mode for mode in options.compile_mode.split(",") if mode)
    if unknown_modes := set(modes) - {"checked", "debug"}:
        raise SystemExit(f"--compile-mode takes checked and debug, found {', '.join(sorted(unknown_modes))}")

    def program_of_seed(seed):
        return generate.program_of_seed(seed, overflows=generate.overflows_in(seed, modes), kind=options.kind)

    if options.show is not None:
        program = program_of_seed(options.show)
        print(source_of(program))
        print("#", program.grid, program.options, program.settings, [(s.name, s.value) for s in program.scalars])
        return 0
    compile_targets = tuple((options.compile or ("cuda:90" if options.mode == "crash" else "")).split(",")) if \
        options.compile or options.mode == "crash" else ()
    targets = () if options.mode == "crash" else ("cpu", "cuda") if options.target == "both" else (options.target, )
    settings = {"targets": targets, "compile_targets": compile_targets, "timeout": options.timeout, "assemble": options.assemble, "modes": modes, "kind": options.kind,
                "environment": {"NEREID_ALWAYS_COMPILE": "1", "NEREID_CPU_THREADS": "1", "NEREID_LINE_INFO": "0"}}
    print(f"generator: seeds from {first}, {options.target if targets else 'compile only'}"
          f"{' and ' + ', '.join(compile_targets) if compile_targets else ''}{', also ' + options.compile_mode if modes else ''}, "
          f"{options.jobs} processes, nereid: {package()}", flush=True)
    workers = [Worker(settings) for _ in range(options.jobs)]
    start, seed, done, failed = time.monotonic(), first, 0, 0
    counts, seen, unknown, unsimulated, too_large = collections.Counter(), {}, collections.Counter(), 0, 0

    def more():
        if len(seen) >= options.failures:
            return False
        return seed - first < options.count if options.count is not None else time.monotonic() - start < options.seconds

    while True:
        for worker in workers:
            if worker.question is None and more():
                worker.ask(seed)
                seed += 1
        busy = [w for w in workers if w.question is not None]
        if not busy:
            break
        for worker in busy:
            question = worker.question
            answer = worker.answer(0.02 if len(busy) > 1 else 0.2)
            if answer is None:
                continue
            done += 1
            failure, seen_here, skipped = answer
            counts.update(seen_here)
            not_known = {what for what in skipped if not isinstance(what, TooLarge)}
            unknown.update(not_known)
            unsimulated += bool(not_known)
            too_large += any(isinstance(what, TooLarge) for what in skipped)
            if failure is None:
                continue
            failed += 1
            if failure.fingerprint() not in seen:
                seen[failure.fingerprint()] = (question, failure)
                print(f"seed {question}: {failure.kind} on {failure.target}: {failure.text.strip()[:600]}", flush=True)
    elapsed = time.monotonic() - start
    for worker in workers:
        worker.stop()
    for question, failure in list(seen.values()):
        if failure.kind == "evaluator":
            print(f"seed {question}: the generator itself: {failure.text}")
            continue
        helper = Worker({**settings, "timeout": min(options.timeout, 20)})
        program, found = program_of_seed(question), failure
        if options.minimise:
            program, found = minimise(program, failure, lambda p: helper.result(p)[0], options.minimise)
        helper.stop()
        path = pathlib.Path(options.out) / f"seed_{question}.py"
        reproducer(program, found, question, path)
        print(f"\n--- seed {question}: {found.kind} on {found.target}: {found.text.strip()[:1500]}\n{path}\n{source_of(program)}"
              f"# grid {program.grid}, {program.options}, {program.settings}, {[(s.name, s.value) for s in program.scalars]}", flush=True)
    ways = {name: count for (what, name, _), count in counts.items() if what == "way"}
    counts = {key: count for key, count in counts.items() if key[0] != "way"}
    cells = generate.CELLS
    names = {(row.name if row.name != "dot_of_transposed" else "dot", str(dtype)) for row, dtype, _ in cells}
    pairs = {(a, b) for a, b, _ in counts}
    print(f"generator: {done} programs in {elapsed:.0f} s ({done / max(elapsed, 1e-9):.1f}/s), {failed} failed; "
          f"{sum(counts.values())} operations, {len(names & pairs)} of {len(names)} operation x dtype pairs seen", flush=True)
    if ways:
        print(f"generator: code with {', '.join(f'{name} {count}' for name, count in sorted(ways.items(), key=lambda way: -way[1]))}", flush=True)
    if unsimulated:
        print(f"generator: {unsimulated} of {done} programs were not compared, since the simulator does not know "
              f"{', '.join(f'{what} ({n})' for what, n in unknown.most_common(12))}", flush=True)
    if too_large:
        print(f"generator: {too_large} of {done} programs were not compared on a GPU, for which they are too large", flush=True)
    if options.statistics:
        table = [{"operation": a, "dtype": b, "form": c, "count": n} for (a, b, c), n in sorted(counts.items())]
        pathlib.Path(options.statistics).write_text(json.dumps(table, indent=1))
    return 1 if failed or too_large > max(1, MOST_TOO_LARGE * done) else 0


if __name__ == "__main__":
    sys.exit(main())
