"""Programs are run in child processes: a crash of the compiler, a kernel that hangs, or a GPU that has faulted takes a child along,
never the run. A child is asked over a pipe, a question at a time, and started again when it dies."""

import faulthandler
import multiprocessing
import os
import pathlib
import tempfile
import time
import traceback

from .run import Failure


def _child(pipe, settings, trace):
    faulthandler.enable(open(trace, "w"))
    os.environ.update(settings.get("environment", {}))
    from .dtypes import Reject
    from .generate import overflows_in, program_of_seed
    from .run import check
    from .tree import run
    from collections import Counter
    while True:
        question = pipe.recv()
        if question is None:
            return
        counts, skipped, want = Counter(), [], None
        try:
            if isinstance(question, int):
                program = program_of_seed(question, overflows=overflows_in(question, settings.get("modes", ())), kind=settings.get("kind", "any"))
                want = run(program, counts)
            else:
                program = question
            failure = check(program, settings["targets"], settings["compile_targets"], settings.get("variants", True), want=want,
                            assemble=settings.get("assemble", 0), skipped=skipped, modes=settings.get("modes", ()), ways=counts)
        except Reject as reject:
            failure = Failure("evaluator", "numpy", str(reject))
        except Exception:
            failure = Failure("evaluator", "numpy", traceback.format_exc())
        pipe.send((failure, counts, skipped))


class Worker:
    """One child, asked for seeds or whole programs."""

    def __init__(self, settings):
        self.settings, self.process, self.question = settings, None, None
        self.folder = tempfile.TemporaryDirectory(prefix="nereid-worker-")
        self.trace = pathlib.Path(self.folder.name, "trace")    # what Python did in a child that died

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_child, args=(theirs, self.settings, str(self.trace)), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, question):
        if self.process is None:
            self.start()
        self.question, self.asked = question, time.monotonic()
        self.pipe.send(question)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None
        self.question = None

    def answer(self, wait=0.0):
        """(failure, counts, what was not compared) of the question, or None while there is none. A dead or slow child is a failure of its question."""
        ended = None
        try:
            if self.pipe.poll(wait):
                result = self.pipe.recv()
                self.question = None
                if result[0] is not None and self.settings["targets"] != ("cpu", ):
                    self.stop()  # a fault of the device stays with its process
                return result
        except (EOFError, OSError):
            self.process.join()
            code = self.process.exitcode
            where = self.trace.read_text() if self.trace.exists() else ""
            ended = Failure("crash", self.name(), f"the process ended with {f'signal {-code}' if code and code < 0 else f'code {code}'}"
                            + (f"\n{where.strip()}" if where.strip() else ""))
        if ended is None and time.monotonic() - self.asked > self.settings.get("timeout", 60):
            ended = Failure("hang", self.name(), f"no answer within {self.settings.get('timeout', 60)} seconds")
        if ended is not None:
            self.stop()
            return ended, {}, []
        return None

    def name(self):
        return (list(self.settings["targets"]) or list(self.settings["compile_targets"]))[-1]

    def result(self, question):
        """Asks and waits."""
        self.ask(question)
        while True:
            answer = self.answer(0.5)
            if answer is not None:
                return answer
