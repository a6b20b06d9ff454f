"""Threads that are inside calls of ours while the interpreter ends: the process ends with its own status and without a message."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import concurrent.futures, itertools, os, sys, threading, time
import numpy as np
import nereid
import nereid.language as tl
way = sys.argv[1]

class Slow:
    \"\"\"Goes while the interpreter ends, and takes long about it: other threads get to ask for its lock.\"\"\"
    def __del__(self, sleep=time.sleep):
        sleep(0.7)
sys.slow = Slow()

@nereid.jit
def fill(out, n, VALUE: tl.constexpr):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(out + i, i + VALUE, mask=i < n)

@nereid.jit
def count_to(out, n):
    total = 0.0
    for i in range(n):
        total = total * 0.999 + i
    tl.store(out, total)

@nereid.constexpr_function
def slowly(value):
    begun.release()
    time.sleep(0.01)
    return value

@nereid.jit
def asks(out, VALUE: tl.constexpr):
    for i in tl.static_range(10):
        tl.store(out, slowly(VALUE))

ints, floats = np.zeros(16, np.int32), np.zeros(1, np.float32)
begun = threading.Semaphore(0)
turns = 100000 # of `count_to`, for 0.2 s
count_to[(1, )](floats, turns)
start = time.perf_counter()
count_to[(1, )](floats, turns)
turns = int(turns * 0.2 / (time.perf_counter() - start))

def compile_on():
    for i in itertools.count():
        fill[(1, )](ints, 16, VALUE=i)
        begun.release()

def callback():
    for i in itertools.count():
        asks[(1, )](ints, VALUE=i)

def flush_cache():
    while True:
        fill[(1, )](ints, 16, VALUE=int.from_bytes(os.urandom(2), "little"))
        begun.release()
        nereid.flush_cache()

def long_launch():
    while True:
        begun.release()
        count_to[(1, )](floats, turns)

def launches():
    while True:
        for _ in range(100):
            fill[(1, )](ints, 16, VALUE=0)
        begun.release()

def tune():
    for i in itertools.count():
        tuned = nereid.autotune([nereid.Config({"VALUE": value}) for value in (16, 32, 64)], key=["n"])(fill)
        begun.release()
        tuned[lambda meta: (begun.release(), time.sleep(0.001), (1, ))[2]](ints, i)

def finite():
    for i in range(4):
        fill[(1, )](ints, 16, VALUE=i)
        begun.release()
        count_to[(1, )](floats, turns // 20)

if way == "backward":
    import torch
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x
        @staticmethod
        def backward(ctx, gradient):
            begun.release()
            count_to[(1, )](floats, turns) # below it, on the stack, are functions of PyTorch that let no exception out
            return 2 * gradient

def backward():
    Twice.apply(torch.ones(1, requires_grad=True)).backward()

if way == "pool":
    pool = concurrent.futures.ThreadPoolExecutor(3)
    for i in range(6):
        pool.submit(finite)
elif way == "last":
    # The ending thread itself may still launch.
    class Last:
        def __del__(self, launch=fill[(1, )], ints=ints, write=os.write):
            launch(ints, 16, VALUE=7)
            write(1, b"%d" % ints[1])
    fill[(1, )](ints, 16, VALUE=7)
    ints[:] = 0
    sys.last = Last()
    begun.release(10)
else:
    for _ in range(3):
        threading.Thread(target=globals()[way], daemon=way != "finite").start()
for _ in range(3):
    begun.acquire()
sys.exit(3)
"""

DAEMONS = ["compile_on", "callback", "flush_cache", "long_launch", "launches", "tune"]


@pytest.fixture
def end(tmp_path):
    """What programs print that end in these ways, all at the same time."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def run(*ways):
        processes = []
        for number, way in enumerate(ways):
            environment = {**os.environ, "NEREID_TARGET": "cpu", "NEREID_CPU_THREADS": "2", "NEREID_CACHE": "1", "NEREID_TUNING_CACHE": "0",
                           "NEREID_CACHE_DIR": str(tmp_path / f"cache{number}")}
            processes.append(subprocess.Popen([sys.executable, str(program), way], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                              env=environment))
        printed = []
        try:
            for way, process in zip(ways, processes):
                text, errors = process.communicate(timeout=60)
                assert (process.returncode, errors) == (3, ""), (way, process.returncode, errors[-3000:])
                printed.append(text)
        finally:
            for process in processes:
                process.kill()
        return printed

    return run


def test_daemon_threads(end):
    end(*DAEMONS)


def test_other_threads_are_waited_for(end):
    end("finite", "pool")


def test_a_launch_of_the_thread_that_ends_the_interpreter(end):
    assert end("last") == ["8"]


def test_daemon_threads_in_a_backward_pass(end):
    """The stack of such a thread cannot be unwound."""
    pytest.importorskip("torch")
    end("backward")
