"""What the benchmarks of this folder share: calls of Nereid and of PyTorch timed in turns."""

import math
import os
import statistics
import time

import torch

HEAD = ["case", "correct", "Nereid µs", "PyTorch µs", "speed", "median of pairs"]


def use_threads():
    """PyTorch on as many threads as Nereid: NEREID_CPU_THREADS, else all that the process may use."""
    torch.set_num_threads(int(os.environ.get("NEREID_CPU_THREADS", 0)) or len(os.sched_getaffinity(0)))


def timed(ours, theirs, rounds):
    """The smallest times in seconds of both calls, and the median over the rounds of PyTorch's time by Nereid's."""
    best, ratios = [math.inf, math.inf], []
    for _ in range(rounds):
        took = []
        for call in (ours, theirs):
            start = time.perf_counter()
            call()
            took.append(time.perf_counter() - start)
        best = [min(before, now) for before, now in zip(best, took)]
        ratios.append(took[1] / took[0])
    return *best, statistics.median(ratios)


def table(cases, rounds, markdown):
    """Prints a row for each of `cases`: name, Nereid's call, PyTorch's call, and a function that tells whether Nereid's last results are right.
    "speed" is PyTorch's smallest time by Nereid's; other work on the machine disturbs it least. Returns whether a result was wrong."""
    def show(cells):
        return "| " + " | ".join(cells) + " |" if markdown else cells[0].ljust(40) + "".join(cell.rjust(12) for cell in cells[1:-1]) + cells[-1].rjust(18)
    print(show(HEAD) + ("\n" + "|---" * len(HEAD) + "|" if markdown else ""))
    wrong = False
    for name, ours, theirs, check in cases:
        theirs()
        ours()
        right = check()
        wrong |= not right
        mine, other, ratio = timed(ours, theirs, rounds)
        print(show([name, "yes" if right else "NO", f"{mine * 1e6:.1f}", f"{other * 1e6:.1f}", f"{other / mine:.2f}x", f"{ratio:.2f}x"]), flush=True)
    return wrong
