"""`.type` of values known at compile time: `tl.constexpr_type`, equal for equal values."""

import nereid
import nereid.language as tl
import numpy as np
import pytest


@nereid.jit
def types(out, N: tl.constexpr, M: tl.constexpr, TEXT: tl.constexpr):
    tl.static_assert(N.type == N.type)
    tl.static_assert(N.type == M.type)
    tl.static_assert(N.type != TEXT.type)
    tl.static_assert(N.type == tl.constexpr_type(4))
    tl.static_assert(TEXT.type == tl.constexpr_type("text"))
    tl.static_assert(isinstance(N.type, tl.constexpr_type))
    tl.static_assert(not isinstance(N, tl.constexpr_type))
    tl.static_assert(not isinstance(out.type, tl.constexpr_type))
    tl.static_assert(N.type != tl.int32)
    tl.store(out, N.type.value)
    if isinstance(N.type, tl.constexpr_type):
        tl.store(out + 1, 1)
    if hasattr(N, "type"):
        tl.store(out + 2, 1)
    tl.store(out + 3, getattr(N, "type").value)


def test_types_of_constants(target):
    out = np.zeros(4, np.int32)
    types[(1, )](out, 4, 4, "text")
    assert out.tolist() == [4, 1, 1, 4]


@nereid.jit
def folded(out, n, none):
    tl.static_assert(n.type == tl.constexpr_type(1))  # folded, as it is 1
    tl.static_assert(none.type == tl.constexpr_type(None))
    tl.store(out, n.type.value)


def test_types_of_arguments_that_are_folded(target):
    out = np.zeros(1, np.int32)
    folded[(1, )](out, 1, None)
    assert out[0] == 1


def seen(value, _semantic=None):
    assert repr(value.type) == "constexpr_type[4]" and value.type == tl.constexpr_type(4)
    return value


@nereid.jit
def in_python(out, N: tl.constexpr):
    tl.store(out, seen(N))


def test_python_code_sees_the_same(target):
    seen.__triton_builtin__ = True
    out = np.zeros(1, np.int32)
    in_python[(1, )](out, 4)
    assert out[0] == 4
    assert tl.constexpr(4).type == tl.constexpr_type(4) != tl.constexpr(5).type


@nereid.jit
def unknown(out, N: tl.constexpr):
    tl.store(out, N.typ)


def test_another_attribute_is_an_error(target):
    with pytest.raises(nereid.CompilationError, match="int has no attribute `typ`"):
        unknown[(1, )](np.zeros(1, np.int32), 4)
