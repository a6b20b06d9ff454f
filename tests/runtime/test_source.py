"""Where kernels may be defined, and what is said where no source can be found."""

import functools
import importlib.util
import inspect
import linecache
import pathlib
import pickle
import re
import subprocess
import sys
import types

import nereid
import nereid.language as tl
import numpy as np
import pytest
from nereid import _jit

NO_SOURCE = """
import nereid, nereid.language as tl

@nereid.jit
def kernel(out):
    tl.store(out, 1)
"""


def test_no_source():
    with pytest.raises(ValueError, match="@jit functions should be defined in a Python file: no source was found for `kernel`"):
        exec(NO_SOURCE, {"__name__": "nowhere"})


def test_no_source_on_the_command_line():
    done = subprocess.run([sys.executable, "-c", NO_SOURCE], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ValueError: @jit functions should be defined in a Python file" in done.stderr


def test_lambda():
    with pytest.raises(ValueError, match="@jit needs a function that is defined with `def`, found `.*<lambda>`"):
        nereid.jit(lambda out: tl.store(out, 1))


@pytest.mark.parametrize("thing", [3, print, object, None.__class__], ids=repr)
def test_not_a_function(thing):
    with pytest.raises(TypeError, match="@jit needs a Python function, found"):
        nereid.jit(thing)


def test_twice():
    with pytest.raises(TypeError, match="@jit was applied twice to the same function"):
        nereid.jit(in_a_module)


@nereid.jit
def in_a_module(out):
    tl.store(out, 5)


class Holder:

    @staticmethod
    @nereid.jit
    def method(out):
        # a comment
        tl.store(out, 3)


def run(kernel):
    out = np.zeros(1, np.int32)
    kernel[(1, )](out)
    return out[0]


def test_static_methods(target):
    assert run(Holder.method) == 3


def test_nested_functions(target):

    @nereid.jit
    def inner(out):
        value = """
not indented
"""
        tl.static_assert(len(value) == 14)
        tl.store(out, 4)

    assert run(inner) == 4


def test_many_decorators(target):

    @nereid.jit(
        debug=False,
        do_not_specialize=["n"],
    )
    # and a comment between
    def kernel(out, n=2):
        tl.store(out, n)

    assert run(kernel) == 2


def test_positions_in_errors(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, tl.nothing(1))

    with pytest.raises(nereid.CompilationError) as caught:
        run(kernel)
    lines, first = __import__("inspect").getsourcelines(kernel.fn)
    column = lines[2].index("tl.nothing") + 1
    text = str(caught.value)
    assert f"test_source.py:{first + 2}:" in text and "tl.store(out, tl.nothing(1))" in text
    assert f":{first + 2}:{column}" in text or f":{first + 2}:{column + 3}" in text


@pytest.fixture
def module(tmp_path):
    """Writes and imports a module."""

    def make(text, name="changing"):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        result = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(result)
        return path, result

    return make


def test_file_changed_since_import(target, module):
    head = "import nereid, nereid.language as tl\n"
    path, changing = module(head + "def kernel(out):\n    tl.store(out, 1)\n")
    path.write_text(head + "def other(out, n):\n    tl.store(out, n)\n")
    linecache.clearcache()
    kernel = nereid.jit(changing.kernel)
    with pytest.raises((RuntimeError, AttributeError), match="kernel"):
        run(kernel)


def test_parameters_changed_since_import(target, module):
    head = "import nereid, nereid.language as tl\n"
    path, changing = module(head + "def kernel(out):\n    tl.store(out, 1)\n")
    path.write_text(head + "def kernel(out, n):\n    tl.store(out, n)\n")
    linecache.clearcache()
    with pytest.raises(RuntimeError, match="the source of `kernel` in .*changing.py does not match the function that was "
                       "imported: the file has changed since"):
        run(nereid.jit(changing.kernel))


def test_annotations_as_text(target, module):
    _, postponed = module("""
from __future__ import annotations
import nereid, nereid.language as tl

@nereid.jit
def kernel(out, n: tl.int64 = 1, N: tl.constexpr = 4):
    tl.static_assert(n.dtype == tl.int64)
    tl.store(out, tl.sum(tl.arange(0, N)) + n)
""")
    assert run(postponed.kernel) == 7
    assert postponed.kernel.constexprs == [2] and postponed.kernel.params[1].annotation_type == "i64"


def test_replacing_the_source(target):
    kernel = nereid.jit(in_a_module.fn)
    assert run(kernel) == 5
    kernel._unsafe_update_src(kernel.src.replace("5", "6"))
    assert run(kernel) == 6


def test_what_others_read():
    kernel = in_a_module
    assert kernel.src == "def in_a_module(out):\n    tl.store(out, 5)\n"
    assert kernel.arg_names == ["out"] and kernel.__name__ == "in_a_module" and kernel.fn.__name__ == "in_a_module"
    assert kernel.__globals__ is globals() and kernel.module == __name__
    assert kernel.parse().body[0].name == "in_a_module" and len(kernel.cache_key) == 64
    assert kernel.params[0].name == "out" and not kernel.params[0].is_constexpr and not kernel.params[0].has_default


def test_pickling():
    kernel = nereid.jit(in_a_module.fn)
    key = kernel.cache_key
    kernel.fn, kernel.__dict__["__globals__"] = None, None  # as PyTorch does before it hands a kernel to another process
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy.src == kernel.src and copy.arg_names == ["out"] and copy.cache_key == key
    assert [param.name for param in copy.params] == ["out"] and not copy.params[0].is_constexpr

# ---- the text, without `inspect` ------------------------------------------------------------------------


CASES = '''
def plain(a):
    return a
def one_line(a): return a
@decorated
@decorated(1,
   "def x(): ",
)
def with_decorators(a,
        b="""
def inner():
""", *, c=(1,
2)):
    x = 1

    # within
    if x:
        def inner(): pass
    # at the end

  # less than the body
# outside
class C:
    def method(self):
        """text

not the end"""
        return "it's" + 'a " quote' + '\\''
    # of the class
    async def late(self):
        x = [1,
2]
        y = x \\
+ x
        # last
def tabs():
	if 1:
	    pass
	return 2
def raw(a=r"\\\\", b=b'\\\\x'):
    return a  # comment (with [brackets
def fields(a):
    return f"{a}"
def ends_the_file(a):
    return (a,
)'''


def test_the_text_is_what_inspect_finds(tmp_path):
    path = tmp_path / "cases.py"
    path.write_text(CASES)
    paths = [path, *(pathlib.Path(importlib.util.find_spec(name).origin) for name in ("argparse", "ast", "dataclasses", "textwrap", "typing"))]
    compared = left = 0
    for path in paths:
        for code in _codes(compile(path.read_text(), str(path), "exec")):
            function = types.FunctionType(code, {}, closure=tuple(types.CellType() for _ in code.co_freevars))
            linecache.clearcache()
            found = _jit._block(function)
            left += found is None
            if found is not None:
                lines, first = inspect.getsourcelines(function)
                assert found[0] == lines, function
                assert re.match(r"\s*(async\s+)?def\s+" + code.co_name + r"\b", lines[found[1]]), function
                compared += 1
    assert compared > 300 and left < compared / 4  # f-strings are left to `inspect`


def test_what_linecache_knows(tmp_path):
    """Who has looked at the file before makes no difference, unless the text is not the file's."""
    path = tmp_path / "known.py"
    path.write_text("def f(a):\n    return a\n")
    scope = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    linecache.clearcache()
    alone = _jit._block(scope["f"])
    assert linecache.getlines(str(path)) == alone[0] and _jit._block(scope["f"]) == alone
    path.write_text("def f(a):\n    return a + 1\n")
    assert _jit._block(scope["f"])[0] == inspect.getsourcelines(scope["f"])[0] != alone[0]
    linecache.cache[str(path)] = (20, None, ["def f(a):\n", "    return 3\n"], str(path))  # no file's
    assert _jit._block(scope["f"]) is None and _jit.source(scope["f"])[2] == "def f(a):\n    return 3\n"
    linecache.clearcache()


def _codes(code):
    generic = "<generic parameters of "  # from Python 3.12 on: holds the function, and the bounds of its type parameters by their names
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            bound = code.co_name.startswith(generic) and code.co_name != f"{generic}{inner.co_name}>"
            if not inner.co_name.startswith("<") and inner.co_flags & inspect.CO_OPTIMIZED and not bound:
                yield inner
            yield from _codes(inner)


def test_parameters_are_those_of_the_signature():

    def plain(a, b, /, c: int, d: "text" = 3, *, e=None, f: tl.constexpr):
        pass

    def others(a, *rest, b=1, **more):
        pass

    for function in (plain, others, lambda: None, functools.wraps(plain)(lambda x: None)):
        wanted = inspect.signature(function).parameters
        found = _jit.params(function)
        assert [param.name for param in found] == list(wanted)
        for param, other in zip(found, wanted.values()):
            for attribute in ("default", "annotation"):
                one, two = getattr(param, attribute), getattr(other, attribute)
                assert _jit.is_empty(one) == _jit.is_empty(two) and (one is two or _jit.is_empty(one))


def test_parameters_without_a_default_show_inspects():
    assert in_a_module.params[0].default is inspect.Parameter.empty and not in_a_module.params[0].has_default


def test_other_encodings(tmp_path):
    for encoding, head in (("latin-1", "# coding: latin-1\n"), ("utf-8-sig", ""), ("utf-8", "")):
        path = tmp_path / f"module_{encoding.replace('-', '_')}.py"
        path.write_bytes((head + "import nereid\n@nereid.jit\ndef kernel(x):\r\n    'é'\r\n    pass").encode(encoding))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.kernel.src == "def kernel(x):\n    'é'\n    pass\n"
        assert module.kernel.raw_src[0] == "@nereid.jit\n"


def test_a_file_that_changes_is_read_again(tmp_path):
    path = tmp_path / "changing.py"
    for value in (1, 22):
        text = f"import nereid\n@nereid.jit\ndef kernel(x):\n    return {value}\n"
        path.write_text(text)
        scope = {"__name__": "changing"}
        exec(compile(text, str(path), "exec"), scope)
        assert scope["kernel"].src == f"def kernel(x):\n    return {value}\n"
