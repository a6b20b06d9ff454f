"""Runs tests of PyTorch's own suite of its compiler; a process that `run.py` starts and asks.

It begins with the line {"tests": ["Class.test", ...]}, or {"unavailable": why}. A line of input is `Class.test`, the answer a line of JSON with "outcome", a key of
run.OUTCOMES, and mostly "reason". With --marked, a test that the suite skips for Triton on CPUs runs all the same, and the answer has "marked": why the suite skips it.
"""

import argparse
import ast
import faulthandler
import importlib
import json
import os
import pathlib
import re
import signal
import sys
import types
import unittest

#: Classes of the suite for Triton's CPU backend → those that run the same tests on PyTorch's C++.
SAME = {"CpuTritonTests": "CpuTests", "SweepInputsCpuTritonTest": "SweepInputsCpuTest"}

#: In the reasons that the suite gives for tests that it skips with Triton on CPUs, and for no others.
MARK = "Triton CPU"


class Missing:
    """In place of a name that the installed PyTorch does not have, because the suite is of another release."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *arguments, **keywords):
        raise unittest.SkipTest(f"PyTorch's release has no {self.name}")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise unittest.SkipTest(f"PyTorch's release has no {self.name}")


def fill_in(path):
    """Gives modules of PyTorch a `Missing` for each name that a file of the suite imports and they lack. The names."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("torch."):
            try:
                module = importlib.import_module(node.module)
            except ImportError:
                continue
            for name in (alias.name for alias in node.names):
                try:
                    if name == "*" or hasattr(module, name) or importlib.import_module(f"{node.module}.{name}"):
                        continue
                except ImportError:
                    setattr(module, name, Missing(f"{node.module}.{name}"))
                    found.append(f"{node.module}.{name}")
    return found


def classes(checkout, compiler):
    """{class as in the suite for Triton's CPU backend: class that runs its tests}"""
    folder = checkout / "test" / "inductor"
    for path in (folder, checkout / "test"):
        sys.path.insert(0, str(path))
    try:
        import expecttest  # noqa: F401
    except ImportError:  # a base class of PyTorch's tests, with functions that few of them call
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    if missing := fill_in(folder / "test_torchinductor.py"):
        print(f"not in this release of PyTorch: {', '.join(missing)}", file=sys.stderr)
    import torch._inductor.config as config
    config.compile_threads = 1
    if compiler == "cpp":
        module = importlib.import_module("test_torchinductor")
        return {name: getattr(module, other) for name, other in SAME.items() if hasattr(module, other)}
    module = importlib.import_module("test_triton_cpu_backend")
    return {name: getattr(module, name) for name in SAME if hasattr(module, name)}


class Result(unittest.TestResult):
    """Keeps the outcome of the test that ran last."""

    said = {"outcome": "skipped", "reason": "nothing ran"}

    def addSuccess(self, test):
        self.said = {"outcome": "passed"}

    def addError(self, test, error):
        text = self._exc_info_to_string(error, test)
        self.said = {"outcome": "failed", "reason": f"{error[0].__name__}: " + re.sub(r"\b\d[\w.]*\b", "N", (str(error[1]).strip().splitlines() or [""])[0])[:150], "detail": text[-3000:]}

    addFailure = addError

    def addSkip(self, test, reason):
        self.said = {"outcome": "skipped", "reason": reason}

    def addExpectedFailure(self, test, error):
        self.said = {"outcome": "expected"}

    def addUnexpectedSuccess(self, test):
        self.said = {"outcome": "unexpected"}

    def marked(self):
        """Why the suite skips the test with Triton on CPUs; None: it does not."""
        return self.said["reason"] if self.said["outcome"] == "skipped" and MARK in self.said["reason"] else None

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(test, error)


def run(cls, test, marked):
    """The answer for a test of a class. marked: whether it runs although the suite skips it with Triton on CPUs."""
    result = Result()
    cls(test).run(result)
    why = result.marked() if marked else None
    if why is None:
        return result.said
    suite, result = sys.modules["test_torchinductor"], Result()
    asked, suite.is_triton_cpu_backend = suite.is_triton_cpu_backend, lambda device: False
    try:
        cls(test).run(result)
    finally:
        suite.is_triton_cpu_backend = asked
    return {**result.said, "marked": why}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--compiler", choices=["nereid", "cpp"], required=True)
    parser.add_argument("--marked", action="store_true")
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")  # what tests print goes elsewhere
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)

    def say(**what):
        print(json.dumps(what), file=out, flush=True)

    if options.compiler == "nereid":
        import nereid
        nereid.install_as_triton()
    sys.argv = sys.argv[:1]  # PyTorch's modules for tests read it
    try:
        found = classes(options.checkout, options.compiler)
    except ImportError as error:
        return say(unavailable=f"PyTorch's tests cannot be imported: {error}")
    if not found:
        return say(unavailable="PyTorch's tests say that there is no Triton with a CPU backend")
    say(tests=[f"{name}.{test}" for name, cls in found.items() for test in unittest.TestLoader().getTestCaseNames(cls)])
    ready = set()
    for line in sys.stdin:
        name, test = line.strip().split(".", 1)
        if name not in ready:
            found[name].setUpClass()
            ready.add(name)
        if not hasattr(found[name], test):
            say(outcome="skipped", reason="no such test on C++")
            continue
        say(**run(found[name], test, options.marked))


if __name__ == "__main__":
    main()
