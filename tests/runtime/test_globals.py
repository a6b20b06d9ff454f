"""What kernels may read from around them, and what happens when it changes."""

import collections
import math
import types

import nereid
import nereid.language as tl
import numpy as np
import pytest

WIDTH = tl.constexpr(4)
ANNOTATED: tl.constexpr = 5
PLAIN = 6
DTYPE = tl.float32
Pair = collections.namedtuple("Pair", ["first", "second"])
settings = types.ModuleType("settings")
settings.FACTOR = 3


@nereid.jit
def double(x):
    return x * 2


def run(kernel, *args, **kwargs):
    out = np.zeros(1, np.float32)
    kernel[(1, )](out, *args, **kwargs)
    return out[0]


def test_constants_functions_modules_and_types(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, (double(WIDTH) + ANNOTATED + settings.FACTOR + math.floor(math.pi)) * tl.full((), 1, DTYPE))

    assert run(kernel) == 8 + 5 + 3 + 3


def test_plain_globals_are_refused(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, PLAIN)

    with pytest.raises(nereid.CompilationError, match="Cannot access global variable PLAIN from within @jit'ed function"
                       ) as caught:
        run(kernel)
    assert isinstance(caught.value.__cause__, NameError)
    assert "write `PLAIN = tl.constexpr(...)`" in str(caught.value)
    assert "tl.store(out, PLAIN)" in str(caught.value) and "test_globals.py" in str(caught.value)


def test_plain_globals_can_be_allowed(target, monkeypatch):
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")

    @nereid.jit
    def kernel(out):
        tl.store(out, PLAIN)

    assert run(kernel) == 6


def test_plain_globals_as_default_values_of_called_functions(target):

    @nereid.jit
    def helper(x, y=PLAIN):
        return x + y

    @nereid.jit
    def kernel(out):
        tl.store(out, helper(1))

    assert run(kernel) == 7


def test_unknown_names(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, nowhere)  # noqa: F821

    with pytest.raises(nereid.CompilationError, match="`nowhere`"):
        run(kernel)


def test_changed_global(target):
    global WIDTH

    @nereid.jit
    def kernel(out):
        tl.store(out, WIDTH)

    assert run(kernel) == 4
    before = WIDTH
    try:
        WIDTH = tl.constexpr(9)
        with pytest.raises(
                RuntimeError,
                match=r"Global variable WIDTH has changed since we compiled this kernel, from constexpr\[4\] to constexpr\[9\]"):
            run(kernel)
        WIDTH = tl.constexpr(4)  # equal again
        assert run(kernel) == 4
    finally:
        WIDTH = before


def test_changed_global_of_a_called_function(target):
    scope = {}

    @nereid.jit
    def helper(x):
        return x + WIDTH

    @nereid.jit
    def kernel(out):
        tl.store(out, helper(1))

    global WIDTH
    assert run(kernel) == 5
    before = WIDTH
    try:
        WIDTH = tl.constexpr(10)
        with pytest.raises(RuntimeError, match="Global variable WIDTH has changed"):
            run(kernel)
    finally:
        WIDTH = before
    assert not scope


def test_changed_attribute_of_a_module(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, settings.FACTOR)

    assert run(kernel) == 3
    settings.FACTOR = 4
    try:
        with pytest.raises(RuntimeError, match="Global variable FACTOR has changed since we compiled this kernel, from 3 to 4"):
            run(kernel)
    finally:
        settings.FACTOR = 3


def test_deleted_global(target):
    global DOOMED
    DOOMED = tl.constexpr(1)

    @nereid.jit
    def kernel(out):
        tl.store(out, DOOMED)

    assert run(kernel) == 1
    del DOOMED
    with pytest.raises(RuntimeError, match="Global variable DOOMED has been deleted since we compiled this kernel"):
        run(kernel)


def test_closures(target):

    def make(value, function):

        @nereid.jit
        def kernel(out):
            tl.store(out, function(value))

        return kernel

    @nereid.jit
    def triple(x):
        return x * 3

    two, three = make(tl.constexpr(7), double), make(tl.constexpr(8), triple)
    assert (run(two), run(three), run(two)) == (14, 24, 14)


def test_changed_closure_variable(target):
    value = tl.constexpr(1)

    @nereid.jit
    def kernel(out):
        tl.store(out, value)

    assert run(kernel) == 1
    value = tl.constexpr(2)
    with pytest.raises(RuntimeError, match="Global variable value has changed since we compiled this kernel"):
        run(kernel)


def test_closure_variable_without_a_value(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, later)

    with pytest.raises(nereid.CompilationError, match="name 'later' is not defined yet"):
        run(kernel)
    later = tl.constexpr(1)
    assert run(kernel) == 1


def test_plain_closure_variables_are_refused(target):
    value = 3

    @nereid.jit
    def kernel(out):
        tl.store(out, value)

    with pytest.raises(nereid.CompilationError, match="Cannot access global variable value from within @jit'ed function"):
        run(kernel)


def test_functions_as_constants(target):

    @nereid.jit
    def kernel(out, FUNCTION: tl.constexpr):
        tl.store(out, FUNCTION(5))

    @nereid.jit
    def negate(x):
        return -x

    assert (run(kernel, double), run(kernel, negate), run(kernel, FUNCTION=double)) == (10, -5, 10)


def test_names_imported_from_the_language(target):
    from nereid import cdiv, next_power_of_2
    from nereid.language import arange, constexpr, store, sum

    @nereid.jit
    def kernel(out, n, N: constexpr):
        store(out, sum(arange(0, 4)) + cdiv(n, 4) + next_power_of_2(N))

    assert run(kernel, 10, 5) == 6 + 3 + 8


def test_device_libraries(target):
    from nereid.language.extra import libdevice
    from nereid.language.extra.cuda import libdevice as cuda_libdevice

    @nereid.jit
    def kernel(out, x):
        tl.store(out, libdevice.exp(x) + cuda_libdevice.exp(x) + tl.extra.libdevice.exp(x) + tl.math.exp(x))

    assert run(kernel, 0.5) == pytest.approx(4 * math.exp(0.5), rel=1e-6)
