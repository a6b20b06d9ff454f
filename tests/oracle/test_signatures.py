"""Names, signatures and defaults of the whole package, compared with those recorded of Triton 3.6.

`signatures-3.6.0.json` is what `record_signatures.py triton` prints. Ours may have further names, further members and further parameters
with defaults; every other difference stands in DIFFERENCES with its reason, and a reason without a difference is an error, too.
"""

import importlib
import importlib.util
import json
import pathlib

import pytest
import record_signatures as recorder

HERE = pathlib.Path(__file__).parent
RECORDED = json.loads((HERE / "signatures-3.6.0.json").read_text())

#: What is different on purpose: the beginning of a difference's text, and why.
_NO_PYTHON = "the compiler is no Python: what builds IR there has no counterpart"
_NO_INTERPRETER = "kernels of interpret mode are compiled, so there is no interpreter of their Python"
_NO_PARSING = "signatures are not read out of the text of intermediate code"
DIFFERENCES = {
    # Types and values of the language are descriptions; the compiler's own are not made in Python.
    "triton.language.dtype.to_ir": _NO_PYTHON,
    "triton.language.block_type.to_ir": _NO_PYTHON,
    "triton.language.pointer_type.to_ir": _NO_PYTHON,
    "triton.language.core.dispatch": _NO_PYTHON,
    "triton.language.core.binary_op_type_legalization": _NO_PYTHON,
    "triton.language.core.builtin_m": "Python's own max and min under another name",
    "triton.language.core.check_bit_width": _NO_PYTHON,
    "triton.language.core.is_negative_zero": _NO_PYTHON,
    "triton.language.core.slice_type": "slices have no type of the language",
    "triton.language.core.tensor_descriptor_base": "one class stands for all descriptors",
    "triton.language.tensor_descriptor": "methods take what the functions take; the object is made by the compiler only",
    "triton.language.range: is no class": "a builtin that `for` knows; nothing is left of it after the loop",
    "triton.language.static_range: is no class": "the same",
    "triton.language.condition: is no class": "the same for `while`",
    "triton.language.dot(out_dtype)": "None follows the accumulator, as in Triton 3.7; without one it is fp32",
    "triton.language.tensor.logical_": "their operands have the names of the free functions'",
    "triton.language.standard.sort_impl": "a part of `sort`",
    "triton.language.core.item": "the method of a tensor",
    "triton.language.extra.cuda.utils.convert_custom_float8: is missing": "a part of `convert_custom_float8_sm80`",
    "triton.language.extra.cuda.utils.convert_float16_to_fp8e4b15": "the same",
    "triton.language.extra.cuda.utils.convert_fp8e4b15_to_float16": "the same",
    "triton.language.extra.hip": "there is no AMD target",
    "triton.language.extra.is_pkg": "names that a loop of theirs leaves",
    "triton.language.extra.module": "names that a loop of theirs leaves",
    "triton.runtime.interpreter.": _NO_INTERPRETER,
    "triton.backends.Backend.__init__": "with the name of Triton 3.7",
    "triton.backends.amd": "there is no AMD target",
    "triton.compiler.compiler.CompiledKernel.__init__": "the library makes compiled kernels",
    "triton.compiler.CompiledKernel.__init__": "the library makes compiled kernels",
    "triton.compiler.LazyDict.add(func": "the name of a parameter that is given by position",
    "triton.compiler.compiler.CompileTimer": "the library measures its stages: `CompiledKernel.times`",
    "triton.compiler.compiler.LazyDict.add(func": "the name of a parameter that is given by position",
    "triton.compiler.compiler.arg_type_pattern": _NO_PARSING,
    "triton.compiler.compiler.convert_type_repr": _NO_PARSING,
    "triton.compiler.compiler.filter_traceback": "errors of the compiler have no frames of its own",
    "triton.compiler.compiler.parse": _NO_PARSING,
    "triton.compiler.compiler.prototype_pattern": _NO_PARSING,
    "triton.compiler.compiler.ptx_": _NO_PARSING,
    "triton.language.tensor.sort": "the free function sorts; Triton's member does nothing",
    "triton.language.softmax(keep_dims)": "None by default since Triton 3.9; the shape is kept whatever it is",
    "triton.language.tensor.softmax(keep_dims)": "the same",
    "triton.language.bitonic_merge(descending)": "False and 0 are one",
    "triton.language.sort(descending)": "the same",
    "triton.runtime.jit.BoundConstexprFunction": "a bound constexpr function is a bound method",
    "triton.runtime.jit.ConstexprFunction.": "they run as Python and are not read",
    "triton.runtime.jit.DependenciesFinder": "the library finds what a function uses while it compiles",
    "triton.runtime.jit.GLUON_MODULE": "there is no Gluon",
    "triton.runtime.jit.TRITON_MODULE": "the same",
    "triton.runtime.jit.convert_to_tuple_if_list": "lists are no arguments",
    "triton.JITFunction.repr(_)": "the name of a parameter that is given by position",
    "triton.runtime.JITFunction.repr(_)": "the name of a parameter that is given by position",
    "triton.runtime.jit.JITFunction.repr(_)": "the name of a parameter that is given by position",
    "triton.tools.LinearLayout": "layouts are the compiler's own; `nereid compile --emit layouts` prints them",
}


def differences_of_functions(path, theirs, ours):
    if "parameters" not in theirs:
        return
    if "parameters" not in ours:
        yield f"{path}: cannot be called"
        return
    mine = {name: (kind, default) for name, kind, default in ours["parameters"]}
    takes_any = {kind for kind, _ in mine.values()}
    positions = [name for name, kind, _ in ours["parameters"] if kind == "p"]
    for place, (name, kind, default) in enumerate(theirs["parameters"]):
        if kind in ("*", "**"):
            if kind not in takes_any:
                yield f"{path}({name}): takes no `{kind}`"
        elif name not in mine:
            if not (kind == "k" and "**" in takes_any or takes_any >= {"*", "**"}):
                yield f"{path}({name}): no such parameter"
        elif mine[name][1] != default and not (default is None and mine[name][1] is not None):
            yield f"{path}({name}): default is {mine[name][1]}, not {default}"
        elif kind == "p" and "*" not in takes_any and positions.index(name) != place if name in positions else kind == "p":
            yield f"{path}({name}): is not at position {place}"
    known = {name for name, _, _ in theirs["parameters"]}
    if not any(kind == "**" for _, kind, _ in theirs["parameters"]):
        for name, kind, default in ours["parameters"]:
            if name not in known and default is None and kind in ("p", "k"):
                yield f"{path}({name}): is required"


def differences_of_module(name, recorded=RECORDED):
    try:
        module = importlib.import_module("nereid" + name.removeprefix("triton"))
    except ImportError as error:
        yield f"{name}: cannot be imported ({error})"
        return
    for attribute, theirs in recorded[name].items():
        path = f"{name}.{attribute}"
        try:
            value = getattr(module, attribute)
        except AttributeError:
            if not theirs.get("module") or importlib.util.find_spec("nereid" + path.removeprefix("triton")) is None:
                yield f"{path}: is missing"
            continue
        ours = recorder.describe(value)
        if "members" in theirs:
            if "members" not in ours:
                yield f"{path}: is no class"
                continue
            for member, signature in theirs["members"].items():
                if member not in ours["members"]:
                    # What is no method may be an attribute of the objects.
                    if signature and not hasattr(value, member):
                        yield f"{path}.{member}: is missing"
                else:
                    yield from differences_of_functions(f"{path}.{member}", signature, ours["members"][member])
        else:
            yield from differences_of_functions(path, theirs, ours)


def reason(difference):
    """The longest entry of DIFFERENCES that it begins with."""
    return max((start for start in DIFFERENCES if difference.startswith(start)), key=len, default=None)


@pytest.mark.parametrize("module", RECORDED)
def test_a_module(module):
    unexpected = [difference for difference in differences_of_module(module) if reason(difference) is None]
    assert not unexpected, "\n" + "\n".join(unexpected)


def test_every_reason_has_its_difference():
    used = {reason(difference) for module in RECORDED for difference in differences_of_module(module)}
    assert set(DIFFERENCES) <= used, set(DIFFERENCES) - used
