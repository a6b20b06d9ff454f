"""What arguments become, asked of the Triton that `python oracle_rules.py` imports, or of Nereid (`python oracle_rules.py nereid`): one
line of JSON a question. test_rules.py compares the two.
"""

import json
import sys
from collections import namedtuple
from enum import Enum, IntEnum

import numpy as np
import torch

if sys.argv[1:] == ["nereid"]:
    import nereid
    nereid.install_as_triton()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import BaseBackend  # noqa: E402
from triton.compiler.errors import CompilationError  # noqa: E402
from triton.runtime.jit import create_function_from_signature, mangle_type, native_specialize_impl  # noqa: E402

Pair = namedtuple("Pair", "first second")


class Number(IntEnum):
    SEVEN = 7


class Name(Enum):
    SEVEN = 7


@triton.jit
def called(x):
    return x


@triton.jit
def kernel(a, b: tl.int64, c: "i64", d: int, e: "*fp32", f: tl.pointer_type(tl.float32), g: bool, h: float, i: tl.const, z, j: tl.constexpr = 3,
           k: "tl.constexpr" = 4, m: "fp16" = 2):
    pass


@triton.jit(do_not_specialize=["a", 1], do_not_specialize_on_alignment=["c"])
def unspecialised(a, b, c, d):
    pass


def text(value):
    """As JSON can hold it, the same for both."""
    if isinstance(value, tuple):
        return [type(value).__name__, *map(text, value)]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def ask(name, question):
    try:
        answer = text(question())
    except Exception as error:
        answer = ["raised", type(error).__name__, str(error)]
    print(json.dumps([name, answer]), flush=True)


tensor = torch.zeros(16)
values = {
    "0": 0, "1": 1, "16": 16, "-16": -16, "17": 17, "-1": -1, "2**31-1": 2**31 - 1, "2**31": 2**31, "-2**31": -2**31, "-2**31-1": -2**31 - 1,
    "2**63-1": 2**63 - 1, "2**63": 2**63, "2**64-1": 2**64 - 1, "2**64": 2**64, "-2**63": -2**63, "-2**63-1": -2**63 - 1, "True": True,
    "False": False, "1.0": 1.0, "None": None, "tensor": tensor, "view": tensor[1:], "bool tensor": torch.zeros(4, dtype=torch.bool),
    "fp8 tensor": torch.zeros(4, dtype=torch.float8_e4m3fn), "tuple": (1, 2, 16, tensor), "nested": (1, (None, (tensor, True))), "()": (),
    "named": Pair(1, (2.0, 32)), "list": [1], "int64": np.int64(3), "float64": np.float64(3), "float32": np.float32(3), "str": "s",
    "IntEnum": Number.SEVEN, "Enum": Name.SEVEN, "mock": triton.MockTensor(torch.float16), "object": object(),
    "constexpr": tl.constexpr(5),
}  # yapf: disable
for name, value in values.items():
    for flags in ((False, True, True), (True, True, True), (False, False, True), (False, True, False)):
        ask(f"specialise {name} {flags}", lambda: native_specialize_impl(BaseBackend, value, *flags))
    ask(f"mangle {name}", lambda: mangle_type(value))
    ask(f"mangle {name} specialised", lambda: mangle_type(value, True))

binders = {function.__name__: create_function_from_signature(function.signature, function.params, BaseBackend)
           for function in (kernel, unspecialised)}  # yapf: disable
calls = {
    "ones": ("kernel", (tensor, 1, 1, 1, tensor, tensor, True, 1.0, tensor, (1, tensor)), {}),
    "sixteens": ("kernel", (tensor, 16, 16, 16, tensor, tensor, True, 1.0, tensor, (16, 1)), {"j": 16, "num_warps": 8}),
    "numbers for pointers": ("kernel", (tensor, 2, 15, 7, 5, None, 1, 1, tensor, ()), {"k": "s", "m": 1.5}),
    "unspecialised ones": ("unspecialised", (1, 1, 1, 1), {}),
    "unspecialised sixteens": ("unspecialised", (16, 16, 16, 16), {}),
    "missing": ("unspecialised", (1, 2), {}),
    "too many": ("unspecialised", (1, 2, 3, 4, 5), {}),
}
for name, (function, args, kwargs) in calls.items():
    ask(f"bind {name}", lambda: tuple(binders[function](*args, **kwargs)[1]))
    ask(f"options {name}", lambda: tuple(binders[function](*args, **kwargs)[2].items()))
for param in kernel.params:
    ask(f"parameter {param.name}", lambda: (param.num, param.name, param.annotation_type, param.is_constexpr, param.is_const, param.has_default,
                                            param.do_not_specialize, param.do_not_specialize_on_alignment))

source = "def f(x):\n    y = x\n    z = y + 1\n    return z\n"
node = type("Node", (), {"lineno": 3, "col_offset": 8})()
ask("error", lambda: str(CompilationError(source, node, "boom")))
ask("error without a message", lambda: str(CompilationError(source, node, None)))
ask("error without a node", lambda: str(CompilationError(source, None, "boom")))
ask("error without a source", lambda: str(CompilationError(None, node, "boom")))
ask("error far below", lambda: str(CompilationError("\n" * 40 + "x", type("Node", (), {"lineno": 41, "col_offset": 0})(), "boom")))
ask("out of resources", lambda: str(triton.OutOfResources(5, 4, "shared memory")))
for name in ("PTXASError", "AutotunerError", "InterpreterError"):
    ask(name, lambda: str(getattr(__import__("triton.runtime.errors", fromlist=[name]), name)("x")))
ask("called outside", lambda: called(1))
ask("parse_attr", lambda: tuple(map(str, BaseBackend.parse_attr("D") + BaseBackend.parse_attr(""))))
