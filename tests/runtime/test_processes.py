"""Forked processes and second interpreters."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(tmp_path, text, **environment):
    """Runs a program in a process of its own; what it prints, by line. A child that hangs fails the test."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "NEREID_TARGET": "cpu", **environment})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split("\n")[:-1]


KERNEL = """
    import os, sys, threading
    import numpy as np
    import nereid
    import nereid.language as tl

    @nereid.jit
    def fill(out, n, VALUE: tl.constexpr):
        i = tl.program_id(0) * 16 + tl.arange(0, 16)
        tl.store(out + i, i + VALUE, mask=i < n)

    def good(value, n=1000, threads=3):
        out = np.zeros(n, np.int32)
        fill[(nereid.cdiv(n, 16), )](out, n, VALUE=value, num_threads=threads)
        return bool((out == np.arange(n) + value).all())

    def child(work):
        \"\"\"What `work()` says in a forked child.\"\"\"
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                text = str(work())
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            os.write(write, text.encode())
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        return os.fdopen(read).read()
"""


def test_launch_fork_launch_and_compile(tmp_path):
    lines = run(tmp_path, KERNEL + """
    print(good(1))
    print(child(lambda: (good(1), good(2), child(lambda: (good(2), good(3))))))
    print(good(1), good(3), child(lambda: [good(value) for value in (3, 4, 1)]))
    """, NEREID_CPU_THREADS="4")
    assert lines == ["True", "(True, True, '(True, True)')", "True True [True, True, True]"]


def test_fork_while_other_threads_work(tmp_path):
    """Locks that others hold at the time of the fork do not stay locked in the child."""
    lines = run(tmp_path, KERNEL + """
    done = False

    def work(first):
        value = first
        while not done:
            value += 4
            if not good(value):
                print("wrong")

    threads = [threading.Thread(target=work, args=(first, )) for first in range(4)]
    for thread in threads:
        thread.start()
    for turn in range(12):
        print(child(lambda: (good(-1 - turn), good(0), good(1000 + turn))))
    done = True
    for thread in threads:
        thread.join()
    print(good(7))
    """, NEREID_CPU_THREADS="4")
    assert lines == ["(True, True, True)"] * 12 + ["True"]


def test_fork_during_a_compilation(tmp_path):
    """The thread that forks may itself be compiling."""
    lines = run(tmp_path, KERNEL + """
    @nereid.constexpr_function
    def forked(value):
        print(child(lambda: good(5)), flush=True)
        return value

    @nereid.jit
    def outer(out, VALUE: tl.constexpr):
        tl.store(out, forked(VALUE))

    out = np.zeros(1, np.int32)
    outer[(1, )](out, 3)
    print(out[0], good(6))
    """)
    assert lines == ["True", "3 True"]


def test_multiprocessing(tmp_path):
    lines = run(tmp_path, KERNEL + """
    import multiprocessing
    print(good(1))
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(good, range(8)))
    """)
    assert lines == ["True", str([True] * 8)]


def test_tuned_kernels_in_a_child(tmp_path):
    lines = run(tmp_path, KERNEL + """
    tuned = nereid.autotune([nereid.Config({"VALUE": 1}), nereid.Config({"VALUE": 2})], key=["n"])(fill)

    def launch(n):
        out = np.zeros(n, np.int32)
        tuned[(1, )](out, n)
        return out[0] in (1, 2)

    print(launch(10), child(lambda: (launch(10), launch(11))), launch(11))
    """)
    assert lines == ["True (True, True) True"] or lines == ["True (np.True_, np.True_) True"]


def test_a_second_interpreter_is_refused(tmp_path):
    try:
        import _interpreters  # noqa: F401
        module = "_interpreters"
    except ImportError:
        module = "_xxsubinterpreters"
    attempt = """
try:
    from nereid import _native
    print("loaded", flush=True)
except ImportError as error:
    print("ImportError:", error, flush=True)
"""
    lines = run(tmp_path, f"""
    import {module} as interpreters
    import nereid.runtime  # the main interpreter goes on
    other = interpreters.create()
    interpreters.run_string(other, {attempt!r})
    interpreters.destroy(other)
    print(nereid.runtime.jit.JITFunction.__name__)
    """)
    # From 3.12 on an isolated interpreter refuses in Python's own words.
    assert lines[0] in (
        "ImportError: nereid runs in the main interpreter only: it cannot be imported in another interpreter of the same process",
        "ImportError: module nereid._native does not support loading in subinterpreters")
    assert lines[1:] == ["JITFunction"]


def test_the_module_is_imported_again(tmp_path):
    lines = run(tmp_path, KERNEL + """
    from nereid import _native
    print(good(1))
    del sys.modules["nereid._native"], nereid._native
    from nereid import _native as again
    print(good(2), again is _native, again.KernelBase is _native.KernelBase)
    """)
    assert lines == ["True", "True True True"]


@pytest.mark.parametrize("used", ["nereid", "torch"])
def test_cuda_does_not_survive_a_fork(tmp_path, used, gpu):
    lines = run(tmp_path, KERNEL + f"""
    import torch
    x = torch.zeros(100, dtype=torch.int32, device="cuda")
    if "{used}" == "nereid":
        fill[(7, )](x, 100, VALUE=1)
    print(child(lambda: fill[(7, )](x, 100, VALUE=1)))
    print(child(lambda: (good(1), good(2))))
    fill[(7, )](x, 100, VALUE=2)
    print(torch.equal(x.cpu(), torch.arange(100, dtype=torch.int32) + 2))
    """, NEREID_TARGET="")
    assert lines[0].startswith("RuntimeError: ")
    assert "the GPU cannot be used in a process that was forked from one that used it: " in lines[0]
    assert lines[1:] == ["(True, True)", "True"]
