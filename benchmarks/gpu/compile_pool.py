"""Compiles kernels of both libraries ahead, in processes of their own, into the caches on disk.

A worker takes one task at a time, so that one that takes too long can be ended without the others. Workers need no GPU: machine code is
made for `target`, and Triton gets a stand-in for its driver.
"""

import collections
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import re
import subprocess
import tempfile
import time

Done = collections.namedtuple("Done", "library problem config facts error")


def _tool(name):
    """A program of CUDA, from Triton's wheel."""
    import triton
    return pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / name


def facts_of(kernel):
    """Registers, bytes of stack (spills) and shared memory of a compiled kernel's machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        text = subprocess.run([_tool("cuobjdump"), "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    usage = {name: int(value) for name, value in re.findall(r"\b(REG|STACK):(\d+)", text)}
    return {"registers": usage["REG"], "stack": usage["STACK"], "shared": kernel.metadata.shared}


class _NoDriver:
    """As much of Triton's driver as a compilation asks for."""

    def __init__(self, capability):
        from triton.backends.compiler import GPUTarget
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, _):
        return 0


def _worker(connection, capability, names, rows):
    from load import libraries
    from problems import problems
    found = {library.name: library for library in libraries()}
    import triton
    triton.runtime.driver.set_active(_NoDriver(capability))
    known = problems(names, rows)
    while True:
        task = connection.recv()
        if task is None:
            return
        name, p, c = task
        start = time.monotonic()
        try:
            facts, error = compile_one(found[name], known[p], known[p].configs[c], f"cuda:{capability}"), None
        except Exception as problem:
            facts, error = {}, f"{type(problem).__name__}: {problem}"[:300]
        connection.send((facts | {"seconds": round(time.monotonic() - start, 2)}, error))


def compile_one(library, problem, config, target):
    where = {"target": target} if library.name == "nereid" else {}
    kernel = library.kernel(problem.kernel).warmup(*problem.arguments(problem.dtypes), grid=config.grid, **config.constants,
                                                   **config.options, **where)
    if library.name == "nereid":
        library.package.flush_cache()
    return facts_of(kernel)


class Pool:
    """Workers for a list of tasks (library, number of problem, number of config); iterating yields them as Done, in the order of their ends."""

    def __init__(self, tasks, workers, limit, capability, names, rows):
        self.tasks = collections.deque(tasks)
        self.left = len(tasks)
        self.limit = limit
        self.arguments = (capability, names, rows)
        self.running = {}  #: connection: [process, task, start]
        self.context = multiprocessing.get_context("spawn")
        for _ in range(min(workers, len(tasks))):
            self._start()

    def _start(self):
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=_worker, args=(theirs, *self.arguments), daemon=True)
        process.start()
        theirs.close()
        self.running[ours] = [process, None, None]
        self._next(ours)

    def _next(self, connection):
        if self.tasks:
            self.running[connection][1:] = self.tasks.popleft(), time.monotonic()
            connection.send(self.running[connection][1])
        else:
            process = self.running.pop(connection)[0]
            connection.send(None)
            process.join(5)

    def _give_up(self, connection, reason):
        process, task, _ = self.running.pop(connection)
        process.kill()
        process.join()
        self.left -= 1
        if self.tasks:
            self._start()
        return Done(*task, {}, reason)

    def ready(self, timeout):
        """What has ended within `timeout` seconds: a list of Done."""
        done = []
        for connection in multiprocessing.connection.wait(list(self.running), timeout):
            try:
                facts, error = connection.recv()
            except EOFError:
                done.append(self._give_up(connection, "the compiler's process ended"))
                continue
            done.append(Done(*self.running[connection][1], facts, error))
            self.left -= 1
            self._next(connection)
        for connection, (_, _, start) in list(self.running.items()):
            if time.monotonic() - start > self.limit:
                done.append(self._give_up(connection, f"not compiled within {self.limit:.0f} s"))
        return done

    def stop(self):
        self.tasks.clear()
        for process, _, _ in self.running.values():
            process.kill()
        for process, _, _ in self.running.values():
            process.join()
        self.running.clear()
        self.left = 0


def workers_of_machine():
    return max(1, len(os.sched_getaffinity(0)) - 2)
