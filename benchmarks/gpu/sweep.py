"""Nereid and Triton with the same configuration, for every configuration.

    python benchmarks/gpu/sweep.py --out results --seconds 240 --shard 1/4
    python benchmarks/gpu/sweep.py --out results --resume               what is not in results/sweep.json yet
    python benchmarks/gpu/sweep.py --out results --families softmax --only "16384.*16 warps"
    python benchmarks/gpu/sweep.py --out static --static                registers, spills and shared memory alone; needs no GPU
    python benchmarks/gpu/sweep.py --out all --merge results1/sweep.json results2/sweep.json

run.py compares what is fastest of some configurations; here each is compared with itself: softmax and layer norm of full and masked rows
with 1 to 32 warps, fp16 matrix products and attention over lists of blocks, stages and warps. Both compile ahead in processes of their
own; results are compared with float64, then both are timed in turns with a cold L2 cache. What reads above the bound is timed again for
longer, and the second reading counts. Writes sweep.json after every row and sweep.md at the end. Ends with 1 when a row is above the
bound, wrong or lost.
"""

import argparse
import json
import math
import os
import pathlib
import random
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ("nereid", "triton")
BOUND = 1.03  #: of Nereid's time over Triton's
#: of an H100 or H200: registers, warps, blocks, bytes of shared memory of a multiprocessor, and what a block takes of these beside its own
REGISTERS, WARPS, BLOCKS, SHARED, RESERVED = 65536, 64, 32, 233472, 1024


def blocks_of(facts, warps):
    """How many blocks a multiprocessor holds."""
    registers = -(-facts["registers"] * 32 // 256) * 256 * warps
    return min(WARPS // warps, BLOCKS, REGISTERS // registers, SHARED // (facts["shared"] + RESERVED))


# ---- the table -------------------------------------------------------------------------------------------


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def facts_text(facts):
    if not facts:
        return "-"
    return f"{facts['registers']}, {facts['stack']}, {facts['shared']}, {facts['blocks']}"


def row_line(row):
    ms = row.get("ms") or {}
    remarks = [f"{name}: {error}" for name, error in row["failures"].items()]
    remarks += [f"{name} WRONG: {error:.1e}" for name, error in row.get("error", {}).items() if not error <= row["bound"]]
    cells = [row["case"], *(f"{1000 * ms[name]:.1f}" if name in ms else "-" for name in LIBRARIES),
             f"{row['ratio']:.3f}" if "ratio" in row else "-", *(facts_text(row["facts"].get(name)) for name in LIBRARIES),
             "; ".join(remarks).replace("|", "/").replace("\n", " ")[:160]]
    return "| " + " | ".join(cells) + " |"


def table(results):
    """The results as Markdown: a line for each family, what is above the bound or failed, then everything."""
    rows = list(results["rows"].values())
    head = ["| case | Nereid µs | Triton µs | ratio | Nereid: registers, stack, shared, blocks | Triton: the same | remarks |", "|---" * 7 + "|"]
    lines = [", ".join([f"GPU: {results['gpu']}", *(f"{k} {v}" for k, v in results["versions"].items())]), "",
             "ratio: Nereid's time over Triton's with the same configuration, below 1 Nereid is faster; stack in bytes a thread, shared memory "
             "in bytes a block, blocks that fit a multiprocessor", "",
             f"| family | configurations | timed | geometric mean | least | largest | above {BOUND} | only Nereid compiles | only Triton | neither |",
             "|---" * 10 + "|"]
    for family in dict.fromkeys(row["family"] for row in rows):
        mine = [row for row in rows if row["family"] == family]
        ratios = [row["ratio"] for row in mine if "ratio" in row]
        alone = [[sorted(row["facts"]) for row in mine].count(names) for names in (["nereid"], ["triton"], [])]
        figures = [f"{f(ratios):.3f}" if ratios else "-" for f in (mean, min, max)]
        lines.append(f"| {family} | {len(mine)} | {len(ratios)} | {' | '.join(figures)} | {sum(r > BOUND for r in ratios)} | {' | '.join(map(str, alone))} |")
    order = sorted(rows, key=lambda row: -row.get("ratio", 0))
    bad = [row for row in order if row.get("ratio", 0) > BOUND]
    failed = [row for row in order if row["failures"] or any(not e <= row["bound"] for e in row.get("error", {}).values())]
    for title, part in ((f"Above {BOUND}", bad), ("Failed", failed), ("All", order)):
        lines += ["", f"## {title}: {len(part)}", "", *(head + [row_line(row) for row in part] if part else [])]
    return "\n".join(lines) + "\n"


class Results:

    def __init__(self, folder, resume):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "sweep.json"
        self.data = {"gpu": "none", "versions": {}, "rows": {}}
        if resume and self.file.exists():
            self.data = json.loads(self.file.read_text())

    def add(self, row):
        self.data["rows"][row["case"]] = row
        self.save()

    def save(self):
        temporary = self.folder / "sweep.json.new"
        temporary.write_text(json.dumps(self.data, indent=0))
        temporary.replace(self.file)

    def finish(self):
        self.save()
        (self.folder / "sweep.md").write_text(table(self.data))


def merged(files):
    data = {"gpu": "", "versions": {}, "rows": {}}
    for file in files:
        more = json.loads(file.read_text())
        data = {"gpu": more["gpu"], "versions": more["versions"], "rows": data["rows"] | more["rows"]}
    return data


# ---- measuring -------------------------------------------------------------------------------------------


class Measured:
    """Problems on the GPU: the last one's tensors are kept."""

    def __init__(self, seconds, again):
        import torch
        from load import libraries
        from measure import Bench, poison, relative_error
        self.torch, self.poison, self.relative_error = torch, poison, relative_error
        self.bench = Bench()
        self.libraries = libraries()
        self.seconds, self.again = seconds, again
        self.problem = self.tensors = self.want = None

    def _prepare(self, problem):
        if self.problem is problem:
            return
        self.problem = self.tensors = self.want = None
        self.tensors = problem.tensors()
        self.want = problem.want(self.tensors)
        self.problem = problem

    def row(self, problem, config, row):
        """Adds errors and times to a row."""
        self._prepare(problem)
        out = self.tensors[problem.output]
        calls = []
        row["error"], row["bound"] = {}, problem.bound
        for library in self.libraries:
            kernel, arguments = library.kernel(problem.kernel)[config.grid], problem.arguments(self.tensors)
            keywords = {**config.constants, **config.options}
            call = lambda kernel=kernel, arguments=arguments, keywords=keywords: kernel(*arguments, **keywords)
            self.poison(out)
            call()
            self.torch.cuda.synchronize()
            row["error"][library.name] = max(self.relative_error(o, w) for o, w in zip(problem.judged(out), self.want))
            calls.append(call)
        ms, ratio, rounds = self.bench.pairs(calls, self.seconds)
        if ratio > BOUND - 0.01:
            row["first_ratio"] = ratio
            ms, ratio, rounds = self.bench.pairs(calls, self.again)
        row.update(ms=dict(zip(LIBRARIES, ms)), ratio=ratio, rounds=rounds)


def new_row(problem, config, done):
    """What the compilations gave: a dict, complete but for the times."""
    facts = {name: found.facts for name, found in done.items() if not found.error}
    for found in facts.values():
        found["blocks"] = blocks_of(found, config.options["num_warps"])
    return {"case": f"{problem.name}, {config.label}", "family": problem.family, "facts": facts, "bound": problem.bound,
            "failures": {name: f"not compiled: {found.error}" for name, found in done.items() if found.error}}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu-results"), help="folder for sweep.json and sweep.md")
    parser.add_argument("--families", default="softmax,layer_norm,matmul,attention", help="names, separated by commas")
    parser.add_argument("--only", default="", help="a regular expression: cases that contain it")
    parser.add_argument("--seconds", type=float, default=math.inf, help="about how long all may take, compilation included")
    parser.add_argument("--shard", default="0/1", help="I/N: every Nth case from the Ith on, of 0 to N-1")
    parser.add_argument("--seed", type=int, default=0, help="the order of the problems; the same for all shards")
    parser.add_argument("--each", type=float, default=0.06, help="seconds of a first reading")
    parser.add_argument("--again", type=float, default=0.5, help="seconds of the second reading of what was slow")
    parser.add_argument("--rows", type=int, default=4096, help="of softmax and layer norm")
    parser.add_argument("--resume", action="store_true", help="keep what sweep.json has, measure the rest")
    parser.add_argument("--static", action="store_true", help="compile alone, for sm_90")
    parser.add_argument("--workers", type=int, default=0, help="processes that compile, by default two less than there are processors")
    parser.add_argument("--limit", type=float, default=90, help="seconds that one compilation may take")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "build" / "sweep-cache", help="folder of compiled kernels")
    parser.add_argument("--merge", nargs="+", type=pathlib.Path, metavar="FILE", help="only put these results together")
    parser.add_argument("--end", type=float, default=None, help=argparse.SUPPRESS)  # of the process that this one continues
    return parser.parse_args()


def main():
    arguments = parsed()
    if arguments.merge:
        results = Results(arguments.out, False)
        results.data = merged(arguments.merge)
        results.finish()
        return 0
    end = arguments.end or time.time() + arguments.seconds
    for variable in ("TRITON_CACHE_DIR", "NEREID_CACHE_DIR"):
        os.environ[variable] = str(arguments.cache.resolve() / variable.split("_")[0].lower())
        os.makedirs(os.environ[variable], mode=0o700, exist_ok=True)
    os.environ["NEREID_CACHE"] = "1"

    import torch
    from compile_pool import Pool, workers_of_machine
    from problems import problems
    capability = 90
    if not arguments.static:
        if not torch.cuda.is_available():
            sys.exit("this needs a CUDA device; --static does not")
        capability = 10 * torch.cuda.get_device_capability()[0] + torch.cuda.get_device_capability()[1]

    results = Results(arguments.out, arguments.resume)
    names = arguments.families.split(",")
    known = problems(names, arguments.rows)
    wanted = [(p, c) for p, problem in enumerate(known) for c, key in enumerate(problem.keys()) if re.search(arguments.only, key)]
    shuffled = list(range(len(known)))
    random.Random(arguments.seed).shuffle(shuffled)
    wanted.sort(key=lambda task: (shuffled[task[0]], task[1]))
    which, of = map(int, arguments.shard.split("/"))
    wanted = [task for task in wanted[which::of] if known[task[0]].keys()[task[1]] not in results.data["rows"]]
    print(f"{len(wanted)} configurations", flush=True)

    pool = Pool([(name, *task) for task in wanted for name in LIBRARIES], arguments.workers or workers_of_machine(), arguments.limit,
                capability, names, arguments.rows)
    measured = None
    if not arguments.static:
        torch.manual_seed(0)
        measured = Measured(arguments.each, arguments.again)
        results.data["gpu"] = torch.cuda.get_device_name()
        results.data["versions"] = {"torch": torch.__version__, **{lib.name: lib.package.__version__ for lib in measured.libraries}}

    def go_on_without(row, reason):
        """Replaces this process, whose GPU context is lost or hangs."""
        pool.stop()
        row["failures"]["run"] = reason
        results.add(row)
        print(f"{row['case']}: {reason}", flush=True)
        again = [a for a in sys.argv[1:] if a != "--resume" and not a.startswith("--end")]
        os.execv(sys.executable, [sys.executable, __file__, *again, "--resume", f"--end={end}"])

    compiled, ready = {}, []
    while (pool.left or ready) and time.time() < end:
        for done in pool.ready(0 if ready else 1):
            found = compiled.setdefault((done.problem, done.config), {})
            found[done.library] = done
            if len(found) == len(LIBRARIES):
                ready.append((done.problem, done.config))
        if not ready:
            continue
        # Of the problem whose tensors are there, if possible.
        ready.sort(key=lambda task: (measured is None or known[task[0]] is not measured.problem, task))
        p, c = task = ready.pop(0)
        problem, config = known[p], known[p].configs[c]
        row = new_row(problem, config, compiled.pop(task))
        if measured is not None and not row["failures"]:
            watchdog = threading.Timer(60, go_on_without, (row, "it did not come back"))
            watchdog.daemon = True
            watchdog.start()
            try:
                measured.row(problem, config, row)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"[:300]
                try:
                    torch.cuda.synchronize()
                except Exception:
                    watchdog.cancel()
                    go_on_without(row, reason)
                row["failures"]["run"] = reason
            watchdog.cancel()
        results.add(row)
        print(row_line(row), flush=True)
    left = pool.left + len(ready)
    pool.stop()
    results.finish()
    print(table(results.data).split("\n## All")[0])
    if left:
        print("out of time, not all was measured: go on with --resume")
    rows = results.data["rows"].values()
    bad = [row for row in rows if row.get("ratio", 0) > BOUND or "run" in row["failures"] or
           any(not error <= row["bound"] for error in row.get("error", {}).values())]
    return 1 if bad or left else 0


if __name__ == "__main__":
    sys.exit(main())
