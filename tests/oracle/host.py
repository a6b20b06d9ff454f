"""What the host side answers: `python host.py triton` asks Triton, `python host.py nereid` asks Nereid; a JSON object of answers.

A question is an expression of Python, and its id is its text. The answer is the text of the value, or "!", the class and the text of the
exception. `names(x)` is answered by the public attributes of an object. No device: what compiles does so for sm_90.
"""

import contextlib
import dataclasses
import inspect
import io
import json
import os
import pathlib
import pickle
import re
import sys
import warnings
from collections import namedtuple

for name in [name for name in os.environ if name.startswith("TRITON_")]:
    del os.environ[name]
if __name__ == "__main__" and sys.argv[1] == "nereid":
    import nereid
    nereid.install_as_triton()

import numpy as np  # noqa: E402, F401
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import BaseBackend, GPUTarget, Language  # noqa: E402, F401
from triton.compiler import ASTSource, make_backend  # noqa: E402
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct  # noqa: E402, F401
from triton.runtime import Autotuner, JITFunction, KernelInterface  # noqa: E402, F401
from triton.runtime.errors import AutotunerError, InterpreterError, OutOfResources, PTXASError  # noqa: E402, F401
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402, F401
import triton.tools.build_extern  # noqa: E402
import triton.tools.disasm  # noqa: E402
import triton.tools.link  # noqa: E402
import triton.tools.mxfp  # noqa: E402
from triton.tools.ragged_tma import create_ragged_descriptor  # noqa: E402, F401

SM90 = GPUTarget("cuda", 90, 32)
Pair = namedtuple("Pair", "first second")


@triton.jit
def scale(src, dst, n, BLOCK: tl.constexpr):
    """Doubles."""
    i = tl.arange(0, BLOCK)
    tl.store(dst + i, tl.load(src + i, mask=i < n) * 2, mask=i < n)


@triton.jit(do_not_specialize=["n", 0], do_not_specialize_on_alignment=["dst"], debug=True, noinline=True)
def decorated(src, dst: "*fp32", n: tl.int32, m: tl.constexpr = 3, *, k=None):
    pass


def plain(x):
    return x


def nothing(x):
    pass


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32}, num_warps=8)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def tuned(src, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    pass


@triton.constexpr_function
def folded(a, b=2):
    return a + b


def compiled(options=None, constants={"BLOCK": 16}, signature={"src": "*fp32", "dst": "*fp32", "n": "i32", "BLOCK": "constexpr"}, **more):
    return triton.compile(ASTSource(scale, signature, constants, **more), target=SM90, options=options)


def with_knob(group, name, value, question):
    """The answer to a question while a knob has a value."""
    with getattr(triton.knobs, group).scope():
        setattr(getattr(triton.knobs, group), name, value)
        return question()


def with_variables(question, **variables):
    """The answer to a question while the environment has these variables."""
    os.environ.update(variables)
    try:
        return question()
    finally:
        for name in variables:
            del os.environ[name]


def told(question):
    """What a question prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        question()
    return out.getvalue()


def warned(question):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        question()
    return [f"{type(warning.message).__name__}: {warning.message}" for warning in found]


def names(value):
    return "names: " + " ".join(sorted(name for name in dir(value) if not name.startswith("_")))


def sample_error(cls):
    node = type("Node", (), {"lineno": 2, "col_offset": 4})()
    return cls("def f(x):\n    return x\n", node, "boom")


class Recorder:
    """A driver for Triton that launches nothing."""

    class utils:
        get_device_properties = staticmethod(lambda device: {"max_shared_mem": 232448})
        load_binary = staticmethod(lambda name, code, shared, device: (1, 2, 30, 0, 1024))
        unload_module = staticmethod(lambda module: None)

    def launcher_cls(self, source, metadata):

        def run(x, y, z, stream, function, packed, metadata, enter, leave, *arguments):
            enter and enter(metadata)
            leave and leave(metadata)

        return run

    get_current_device = get_current_stream = staticmethod(lambda device=0: 0)
    get_current_target = staticmethod(lambda: SM90)
    is_active = staticmethod(lambda: True)


if __name__ == "__main__" and sys.argv[1] == "triton":
    triton.runtime.driver.set_active(Recorder())


@triton.jit
def fill(dst, n, VALUE: tl.constexpr = 3):
    tl.store(dst, n + VALUE)


@triton.jit(launch_metadata=lambda grid, metadata, args: {"name": "mine", "grid": list(grid), "args": sorted(args), "flops": 7})
def described(dst, n, VALUE: tl.constexpr = 3):
    tl.store(dst, n + VALUE)


def launch(grid=(1, ), *arguments, kernel=None, **options):
    """The name of what was launched."""
    out = torch.zeros(16, dtype=torch.int32)
    return (kernel or fill)[grid](out, *(arguments or (5, )), **options).name


def seen(hook_name, *arguments, **options):
    """What a hook of the launches is told: names of keywords, or the facts of a launch."""
    found = []

    def hook(*args, **kwargs):
        values = [sorted(arg.get()) if hasattr(arg, "get") else type(arg).__name__ for arg in args]
        found.append([*values, *(f"{name}={type(value).__name__}" for name, value in sorted(kwargs.items()))])

    with triton.knobs.runtime.scope():
        chain = getattr(triton.knobs.runtime, hook_name)
        if isinstance(chain, triton.knobs.HookChain):
            chain.add(hook)
        else:
            setattr(triton.knobs.runtime, hook_name, hook)
        try:
            launch((1, ), *arguments, **options)
        finally:
            if isinstance(chain, triton.knobs.HookChain):
                chain.remove(hook)
    return found


def given_to_a_grid(**options):
    found = []
    launch(lambda meta: found.append(sorted(name for name in meta if name != "dst")) or (1, ), **options)
    return found


QUESTIONS = [line for line in (pathlib.Path(__file__).parent / "host_questions.txt").read_text().splitlines()
             if line and not line.startswith("#")]


def normal(text):
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"'?/[^\s',]*/(?=[\w.]+\.py)", "", text)
    return text.replace("nereid", "triton").replace("Nereid", "Triton")


def answer(question):
    try:
        value = eval(question, globals())
        return normal(value if isinstance(value, str) and value.startswith("names: ") else repr(value))
    except BaseException as error:
        return normal(f"!{type(error).__name__}: {error}")


if __name__ == "__main__":
    print(json.dumps({question: answer(question) for question in QUESTIONS}, indent=0))
