"""Many processes compile the same kernels into one empty cache while they are killed at random.

    python tests/stress/cache_storm.py [--processes 64] [--threads 8] [--kernels 50] [--seconds 60] [--target cpu|cuda:90] [--vandal]

Each process runs threads that take kernels at random, forget what they have in memory, and get them again: compiled or from disk. On
the CPU a kernel runs and its results are compared; for a GPU the machine code is compared with that of all other processes. Every few
milliseconds a process gets SIGKILL and another one begins; `--vandal` also flips bits in files and cuts them short. At the end every
file in the cache must be whole, and a last process must find every kernel there and right. Prints one line; exit status 1 when
anything was wrong.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

KERNEL = """
C{i} = tl.constexpr({i})

@nereid.jit
def helper{i}(x):
    return x * C{i} + {third}

@nereid.jit
def kernel{i}(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = helper{i}(tl.load(x + i, mask=i < n, other=0.0))
    {body}
    tl.store(y + i, v, mask=i < n)
"""
BODIES = ["v = v + 1", "v = v + tl.max(v, 0)", "v = v - tl.sum(v, 0)", "v = tl.where(v > 3, v, -v)", "v = tl.sqrt(tl.abs(v))"]


def source(count):
    """The text of a module with that many kernels."""
    head = "import nereid\nimport nereid.language as tl\n"
    return head + "".join(KERNEL.format(i=i, third=i // 3, body=BODIES[i % len(BODIES)]) for i in range(count))


def expected(i, x):
    import numpy as np
    v = x * np.float32(i) + np.float32(i // 3)
    return [v + 1, v + v.max(), v - v.sum(), np.where(v > 3, v, -v), np.sqrt(np.abs(v))][i % len(BODIES)]


def work(arguments):
    """One process: until it is killed, or told to stop by the end of its input."""
    import numpy as np
    spec = importlib.util.spec_from_file_location("storm_kernels", arguments.module)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    from nereid.runtime.jit import MockTensor
    import nereid.language as tl
    x = np.arange(96, dtype=np.float32) % 7
    stop = threading.Event()
    counts = {"hit": 0, "compiled": 0}
    problems = []

    def once(i, last):
        kernel = getattr(module, f"kernel{i}")
        kernel._clear_cache()
        if arguments.target == "cpu":
            y = np.zeros(128, dtype=np.float32)
            compiled = kernel[(1, )](x, y, 96, B=128)
            want = np.zeros(128, dtype=np.float32)
            want[:96] = expected(i, x)
            # The lanes beyond n take part in sums: they are helper(0).
            if i % len(BODIES) in (1, 2):
                padded = np.concatenate([x, np.zeros(32, dtype=np.float32)])
                want[:96] = expected(i, padded)[:96]
            if not np.allclose(y, want, rtol=1e-5):
                problems.append(f"kernel{i}: wrong result")
        else:
            compiled = kernel.warmup(MockTensor(tl.float32), MockTensor(tl.float32), 96, B=128, grid=(1, ), target=arguments.target)
            code = compiled.asm["ptx"].encode() + (b"" if arguments.no_assembler else compiled.asm["cubin"])
            digest = hashlib.sha256(code).hexdigest()
            place = pathlib.Path(arguments.digests) / str(i)
            try:
                with open(place, "x") as file:
                    file.write(digest)
            except FileExistsError:
                known = place.read_text()
                if known and known != digest:
                    problems.append(f"kernel{i}: other machine code than elsewhere")
        hit = "kernel cache" in compiled.times
        counts["hit" if hit else "compiled"] += 1
        if last and not hit:
            problems.append(f"kernel{i} is not in the cache")

    def loop(seed):
        rng = random.Random(seed)
        while not stop.is_set() and not problems:
            once(rng.randrange(arguments.kernels), False)

    if arguments.work == "last":
        for i in range(arguments.kernels):
            once(i, True)
    else:
        threads = [threading.Thread(target=loop, args=(f"{arguments.work}-{t}", )) for t in range(arguments.threads)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stop.set()
        for thread in threads:
            thread.join()
    print(counts["hit"], counts["compiled"], flush=True)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        sys.exit(3)


def vandalise(folder, rng):
    """Damages one file."""
    files = [path for path in folder.glob("kernels/*/*") if not path.name.startswith(".")]
    if not files:
        return
    try:
        with open(rng.choice(files), "r+b") as file:
            size = file.seek(0, 2)
            if rng.random() < 0.5:
                file.truncate(rng.randrange(size + 1))
            else:
                at = rng.randrange(size or 1)
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([(byte[0] if byte else 0) ^ 1 << rng.randrange(8)]))
    except FileNotFoundError:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--kernels", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kill-every", type=float, default=0.05, help="seconds")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--no-assembler", action="store_true", help="compare PTX alone")
    parser.add_argument("--vandal", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    for hidden in ("--work", "--module", "--digests"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments)

    base = pathlib.Path(tempfile.mkdtemp(prefix="nereid-storm-"))
    module = base / "storm_kernels.py"
    module.write_text(source(arguments.kernels))
    (base / "digests").mkdir()
    environment = {**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(base), "NEREID_CPU_THREADS": "1", "OMP_NUM_THREADS": "1",
                   "OPENBLAS_NUM_THREADS": "1", "CUDA_CACHE_DISABLE": "1"}
    command = [sys.executable, __file__, *sys.argv[1:], "--module", str(module), "--digests", str(base / "digests"), "--work"]
    rng = random.Random(arguments.seed)
    started, killed, wrong = 0, 0, []
    running = []

    def start():
        nonlocal started
        started += 1
        running.append(subprocess.Popen([*command, str(started)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True))

    def end(process, was_killed):
        out, err = process.communicate()
        if process.returncode not in ((0, -signal.SIGKILL) if was_killed else (0, )):
            wrong.append(f"exit status {process.returncode}: {err.strip()[-1000:]}")
        return [int(word) for word in out.split()] or [0, 0]

    deadline = time.monotonic() + arguments.seconds
    while time.monotonic() < deadline and not wrong:
        while len(running) < arguments.processes:
            start()
        time.sleep(rng.expovariate(1 / arguments.kill_every))
        process = running.pop(rng.randrange(len(running)))
        process.kill()
        end(process, True)
        killed += 1
        if arguments.vandal:
            vandalise(base, rng)
    hits = compiled = 0
    for process in running:
        process.stdin.close()
        process.stdin = None
    for process in running:
        hit, made = end(process, False)
        hits, compiled = hits + hit, compiled + made

    from nereid import _native
    report = json.loads(_native.cache_json(str(base / "kernels")))
    if report["damaged"] and not arguments.vandal:
        wrong.append(f"{len(report['damaged'])} damaged files: {report['damaged'][:3]}")
    if not arguments.vandal and not wrong:
        done = subprocess.run([*command, "last"], env=environment, capture_output=True, text=True)
        if done.returncode:
            wrong.append(done.stderr.strip()[-1000:])
    print(f"{started} processes, {killed} killed; those that were not got {hits} kernels from disk and compiled {compiled}; "
          f"{len(report['entries'])} whole entries, {report['temporary']} files of killed writers: " + ("; ".join(wrong) if wrong else "ok"))
    shutil.rmtree(base)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
