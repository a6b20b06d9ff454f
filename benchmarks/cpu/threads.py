"""What threads cost and gain on the CPU, beside PyTorch: empty launches, kernels of 64k to 4M elements, each alone and after a pause.

    python benchmarks/cpu/threads.py [--markdown] [--only add,softmax] [--apart]        about 50 s; apart 75

Each row measures Nereid and PyTorch in alternating turns. A turn begins with a pause, in which the threads of the turn before stop spinning.
"warm": back-to-back launches, of which the median and the smallest count. "cold": single launches after a pause of 2 ms, when all threads sleep;
median. PyTorch uses as many threads as Nereid.

PyTorch's threads (libgomp's) spin for milliseconds where one of them waits for another. Where other work has one of their CPUs, the waiting ones keep it from running, and a call takes as
long as the scheduler's time slices: 20 ms instead of 0.2. With --apart each side has processes of its own: PyTorch one with OMP_WAIT_POLICY=passive and one with libgomp's default, of which
the better time of each kind counts. The last column is how often a thread of Nereid, and of the better PyTorch, was taken from its CPU per 1,000 calls: beyond a few, other work disturbed.

The last rows measure the CPU time of the process while it is idle, and launches
from several threads at once.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import threading
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels"))

import nereid  # noqa: E402
import nereid.language as tl  # noqa: E402
import seed  # noqa: E402

K = 1024


@nereid.jit
def empty_kernel(x, BLOCK: tl.constexpr):
    pass


@nereid.jit
def gather_kernel(out, table, index, dim, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    columns = tl.arange(0, BLOCK)
    mask = columns < dim
    tl.store(out + tl.program_id(0) * dim + columns, tl.load(table + row * dim + columns, mask), mask)


def adds():
    for size in (64 * K, 256 * K, K * K, 4 * K * K):
        x, y, out, other = torch.randn(size), torch.randn(size), torch.empty(size), torch.empty(size)
        grid = (nereid.cdiv(size, 1024),)
        yield (f"add {size // K}k", lambda x=x, y=y, out=out, size=size, grid=grid: seed.add_kernel[grid](x, y, out, size, BLOCK_SIZE=1024),
               lambda x=x, y=y, other=other: torch.add(x, y, out=other), lambda x=x, y=y, out=out: torch.equal(out, x + y))


def rows():
    for count, dim in ((1000, 64), (1000, 512), (8192, 128), (4096, 1000), (2048, 4096)):
        table = torch.randn(count, dim)
        index = torch.randint(0, count, (count,))
        out, other = torch.empty(count, dim), torch.empty(count, dim)
        block = nereid.next_power_of_2(dim)
        yield (f"gather {count} rows of {dim}", lambda a=(out, table, index, dim), n=count, b=block: gather_kernel[(n,)](*a, BLOCK=b),
               lambda t=table, i=index, o=other: torch.index_select(t, 0, i, out=o),
               lambda t=table, i=index, o=out: torch.equal(o, t[i]))
    for count, dim in ((1823, 781), (1151, 2048)):
        x = torch.randn(count, dim)
        out, other = torch.empty_like(x), torch.empty_like(x)
        block = nereid.next_power_of_2(dim)
        yield (f"softmax {count}x{dim}", lambda x=x, o=out, n=count, d=dim, b=block: seed.softmax_kernel[(n,)](o, x, d, d, d, BLOCK_SIZE=b),
               lambda x=x, o=other: torch.softmax(x, 1, out=o), lambda x=x, o=out: torch.allclose(o, torch.softmax(x, 1), atol=1e-6))
    for count, dim in ((1823, 781), (4096, 1024)):
        x, weight, bias = torch.randn(count, dim), torch.randn(dim), torch.randn(dim)
        out = torch.empty_like(x)
        block = nereid.next_power_of_2(dim)
        yield (f"layer norm {count}x{dim}", lambda a=(x, out, weight, bias, dim, dim, 1e-5), n=count, b=block: seed.layer_norm_kernel[(n,)](*a, BLOCK_SIZE=b),
               lambda a=(x, (dim,), weight, bias, 1e-5): torch.layer_norm(*a), lambda a=(x, (dim,), weight, bias, 1e-5), o=out: torch.allclose(o, torch.layer_norm(*a), atol=1e-5))
    weight = torch.randn(1000, 512)
    out, other = torch.empty_like(weight), torch.empty_like(weight)
    yield ("scaled table 1000x512", lambda: seed.embedding_lookup_kernel[(500,)](out, None, weight, 1000, 512, BLOCK_SIZE=1024),
           lambda: torch.mul(weight, 1.414, out=other), lambda: torch.allclose(out, weight * 1.414))


def warm_times(call, seconds):
    """Seconds of single calls, after some that wake the threads."""
    until = time.perf_counter() + seconds / 3
    while time.perf_counter() < until:
        call()
    times = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def cold_times(call, rounds):
    times = []
    for _ in range(rounds):
        time.sleep(0.002)
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def turn(call, seconds):
    """(warm times, cold times) of a turn."""
    time.sleep(0.02)
    return warm_times(call, seconds), cold_times(call, 10)


def summary(turns):
    """Median and smallest warm time, median cold time of several turns."""
    warm, cold = ([time for each in turns for time in each[i]] for i in (0, 1))
    return statistics.median(warm), min(warm), statistics.median(cold)


def measure(ours, theirs, turns, seconds):
    """The summaries of two functions that take turns."""
    times = [[], []]
    for _ in range(turns):
        for mine, call in zip(times, (ours, theirs)):
            mine.append(turn(call, seconds))
    return summary(times[0]), summary(times[1])


def measure_together(options):
    """As `measure_apart`, in this process."""
    for name, ours, theirs, check in cases(tuple(options.only.split(","))):
        ours()
        right = check()
        yield name, right, *measure(ours, theirs, options.turns, options.seconds), (0, 0)


def cases(only):
    return [case for family in (adds(), rows()) for case in family if case[0].startswith(only)]


def serve(side, only, seconds):
    """Answers each line, the number of a case, with the times of a turn and the involuntary switches of the process meanwhile."""
    calls = [(ours, theirs, check) for _, ours, theirs, check in cases(only)]
    for line in sys.stdin:
        ours, theirs, check = calls[int(line)]
        call = ours if side == "nereid" else theirs
        call()
        right = side != "nereid" or check()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        warm, cold = turn(call, seconds)
        print(json.dumps([warm, cold, resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - before, bool(right)]), flush=True)


def measure_apart(options):
    """(name, whether ours is right, our summary, PyTorch's, switches per 1,000 calls of both) of each case."""
    policies = {"nereid": {}, "default": {}, "passive": {"OMP_WAIT_POLICY": "passive"}}
    workers = {side: subprocess.Popen([sys.executable, __file__, "--serve", side, "--only", options.only, "--seconds", str(options.seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, **policy}) for side, policy in policies.items()}
    try:
        for number, case in enumerate(cases(tuple(options.only.split(",")))):
            turns, switches, right = {side: [] for side in workers}, dict.fromkeys(workers, 0), True
            for _ in range(options.turns):
                for side, worker in workers.items():
                    print(number, file=worker.stdin, flush=True)
                    answer = worker.stdout.readline()
                    if not answer:
                        raise RuntimeError(f"the process of {side} has ended")
                    warm, cold, count, holds = json.loads(answer)
                    turns[side].append((warm, cold))
                    switches[side] += count
                    right = right and holds
            often = {side: 1000 * switches[side] / sum(len(warm) + len(cold) for warm, cold in turns[side]) for side in workers}
            both = [summary(turns[side]) for side in ("default", "passive")]
            better = min(("default", "passive"), key=lambda side: summary(turns[side])[0])
            yield case[0], right, summary(turns["nereid"]), tuple(map(min, *both)), (often["nereid"], often[better])
    finally:
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()


def text(seconds):
    return f"{seconds * 1e6:.1f}"


def idle_share():
    """CPU time of the process divided by the time that passes, in a second after launches."""
    size = K * K
    x, out = torch.randn(size), torch.empty(size)
    for _ in range(20):
        seed.add_kernel[(1024,)](x, x, out, size, BLOCK_SIZE=1024)
    time.sleep(0.001)
    before = time.process_time()
    time.sleep(1)
    return time.process_time() - before


def together(threads, launches=300):
    """Microseconds a launch of 64k elements, from that many threads at once."""
    size = 64 * K
    data = [(torch.randn(size), torch.empty(size)) for _ in range(threads)]

    def work(x, out):
        for _ in range(launches):
            seed.add_kernel[(64,)](x, x, out, size, BLOCK_SIZE=1024)
    runners = [threading.Thread(target=work, args=each) for each in data]
    start = time.perf_counter()
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    return (time.perf_counter() - start) / (launches * threads) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--only", default="", help="cases that begin with one of these, with commas")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.06, help="of warm launches in a turn")
    parser.add_argument("--apart", action="store_true", help="Nereid and PyTorch in processes of their own, PyTorch with two policies of waiting")
    parser.add_argument("--serve", choices=("nereid", "default", "passive"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    threads = int(os.environ.get("NEREID_CPU_THREADS", 0)) or len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    only = tuple(options.only.split(","))
    if options.serve:
        serve(options.serve, only, options.seconds)
        return 0
    print(f"Nereid {nereid.__version__}, PyTorch {torch.__version__}, {threads} threads, {os.cpu_count()} CPUs")
    head = ["case", "correct", "Nereid µs", "smallest", "cold", "PyTorch µs", "smallest", "cold", "speed", "smallest", "cold"] + ["taken away"] * options.apart
    show = (lambda cells: "| " + " | ".join(cells) + " |") if options.markdown else (lambda cells: cells[0].ljust(26) + "".join(c.rjust(11) for c in cells[1:]))
    print(show(head))
    if options.markdown:
        print("|---" * len(head) + "|")
    one = torch.empty(1)
    tiny = torch.empty(0)
    for programs in (1, 16, 64, 1024) if not options.only else ():
        ours, theirs = measure(lambda n=programs: empty_kernel[(n,)](one, BLOCK=1), lambda: torch.neg(tiny, out=tiny), options.turns, options.seconds / 2)
        print(show([f"empty, {programs} programs", "", *map(text, ours), *map(text, theirs), "", "", ""] + [""] * options.apart), flush=True)
    wrong, ratios = False, []
    for name, right, ours, theirs, taken in measure_apart(options) if options.apart else measure_together(options):
        wrong |= not right
        ratios.append(theirs[0] / ours[0])
        cells = [name, "yes" if right else "NO", *map(text, ours), *map(text, theirs), *(f"{t / o:.2f}x" for o, t in zip(ours, theirs))]
        print(show(cells + [", ".join(f"{often:.0f}" for often in taken)] * options.apart), flush=True)
    print(f"geometric mean of warm speeds {math.exp(statistics.fmean(map(math.log, ratios))):.2f}x")
    if options.only:
        return 1 if wrong else 0
    print(f"idle: {idle_share() * 100:.2f} % of one CPU")
    for count in (1, 2, 4, 16):
        print(f"64k elements from {count} threads at once: {together(count):.1f} µs a launch")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
