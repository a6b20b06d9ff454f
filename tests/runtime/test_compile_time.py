"""Python that runs during a compilation: user builtins, constexpr functions, classes of named tuples."""

import collections

import nereid
import nereid.language as tl
import numpy as np
import pytest

Point = collections.namedtuple("Point", ["x", "y"])
kept = []


def run(kernel, *args, size=1, dtype=np.float32, **kwargs):
    out = np.zeros(size, dtype)
    kernel[(1, )](out, *args, **kwargs)
    return out[0] if size == 1 else out


# ---- user builtins -------------------------------------------------------------------------------------


@nereid.jit
def refused(x, KIND: tl.constexpr):
    if KIND == "argument":
        tl.load(x, mask=tl.arange(0, 4) > 1)
    elif KIND == "assertion":
        tl.static_assert(KIND == "nothing", "never")
    elif KIND == "construct":
        del x
    elif KIND == "operator":
        x + x
    elif KIND == "subscript":
        x[0.5]


@nereid.jit
def calling(x, KIND: tl.constexpr):
    refused(x, KIND)


@nereid.jit
def calling_kernel(x, KIND: tl.constexpr):
    calling(x, KIND)


@pytest.mark.parametrize("kind, root", [
    ("argument", ValueError), ("subscript", ValueError), ("assertion", nereid.CompileTimeAssertionFailure),
    ("construct", nereid.compiler.errors.UnsupportedLanguageConstruct), ("operator", nereid.CompilationError)])
def test_causes(kind, root):
    """As in Triton: an error for the kernel and each function on the way, then the exception of what was refused, if it has one."""
    with pytest.raises(nereid.CompilationError) as caught:
        calling_kernel.warmup(nereid.MockTensor("fp32"), kind, grid=(1, ), target="cpu")
    errors = [caught.value]
    while errors[-1].__cause__ is not None:
        errors.append(errors[-1].__cause__)
    own = root in (ValueError, )
    assert len(errors) == 3 + own and type(errors[-1]) is root
    assert all(type(error) is nereid.CompilationError for error in errors[1:2]) and all(isinstance(error, nereid.CompilationError) for error in errors[:3])
    assert not own or str(errors[-1]) in str(caught.value)
    for error in errors[:3]:    # each can be shown
        assert "test_compile_time.py:" in str(error) and error.error_message == caught.value.error_message
    with pytest.raises(nereid.CompilationError) as caught:
        refused.warmup(nereid.MockTensor("fp32"), kind, grid=(1, ), target="cpu")
    assert type(caught.value.__cause__) is (ValueError if own else type(None))


@nereid.jit
def broadcasting(x):
    tl.broadcast_to(tl.arange(0, 16), (4, 16))


def test_tritons_words():
    """In the text a note behind our message; alone in Triton's form and in the exception behind the error."""
    with pytest.raises(nereid.CompilationError, match="Cannot broadcast, rank mismatch: ") as caught:
        broadcasting.warmup(nereid.MockTensor("fp32"), grid=(1, ), target="cpu")
    error, words = caught.value, "Cannot broadcast, rank mismatch: [16], [4, 16]"
    assert error.error_message == "cannot broadcast shape [16] to [4, 16]: expected equal ranks, add dimensions with `None` or `expand_dims`"
    assert f"error: {error.error_message}\n" in str(error) and f"\nnote: in Triton's words: {words}" in str(error)
    assert str(error.__cause__) == words and error.triton_text.split("\n")[-1] == words


@tl.core.builtin
def weighted(x, weight, _semantic=None):
    """Calls `tl.*`, a method, operators with and without `_semantic`, and sees bits as another type."""
    assert isinstance(x, tl.tensor) and isinstance(weight, tl.constexpr)
    assert x.type == tl.block_type(tl.float32, [8]) and x.shape == [8] and x.numel == 8
    y = tl.exp(x * weight, _semantic=_semantic)
    y = y.__add__(tl.full((8, ), 1.0, tl.float32, _semantic=_semantic), _semantic=_semantic)
    bits = y.to(tl.int32, bitcast=True, _semantic=_semantic)
    unsigned = tl.tensor(bits.handle, tl.block_type(tl.uint32, [8]))
    assert unsigned.dtype == tl.uint32
    return _semantic.where(unsigned > 0, y - 1, y)


def test_user_builtin(target):

    @nereid.jit
    def kernel(out, src):
        i = tl.arange(0, 8)
        tl.store(out + i, weighted(tl.load(src + i), 2.0))

    src = np.linspace(-1, 1, 8, dtype=np.float32)
    np.testing.assert_allclose(run(kernel, src, size=8), np.exp(src * 2.0), rtol=1e-5, atol=1e-6)


class Doubled(tl.tensor):
    """A class of the user's own: `super()` finds what `tensor` has, functions of the language and operators alike."""

    def sum(self, axis=None, _semantic=None):
        return super().sum(axis, _semantic=_semantic).__mul__(2.0, _semantic=_semantic)

    def __add__(self, other, _semantic=None):
        return super().__add__(super().__add__(other, _semantic=_semantic), _semantic=_semantic)


@tl.core.builtin
def doubled_sum(x, _semantic=None):
    x = Doubled(x.handle, x.type)
    assert isinstance(x, Doubled) and super(Doubled, x).max.__name__ == "max"
    return Doubled((x + 1.0).handle, x.type).sum(0, _semantic=_semantic)


def test_a_subclass_of_tensor_calls_its_base(target):

    @nereid.jit
    def kernel(out, src):
        tl.store(out, doubled_sum(tl.load(src + tl.arange(0, 8))))

    src = np.arange(8, dtype=np.float32)
    assert run(kernel, src) == 2 * (src + src + 1).sum()
    assert tl.tensor.sum is tl.sum and not hasattr(tl.tensor, "nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        super(Doubled, object.__new__(Doubled)).nonsense


@tl.core.builtin
def failing(x, _semantic=None):
    raise LookupError("no such thing")


def test_exceptions_become_the_cause(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, failing(1))

    with pytest.raises(nereid.CompilationError, match="LookupError: no such thing") as caught:
        run(kernel)
    assert type(caught.value.__cause__) is LookupError and caught.value.__cause__.args == ("no such thing", )
    assert caught.value.__cause__.__traceback__ is not None
    assert "tl.store(out, failing(1))" in str(caught.value)


@tl.core.builtin
def wrong_call(x, _semantic=None):
    return tl.arange(0, "many", _semantic=_semantic)


def test_errors_of_the_language_inside_user_builtins(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, wrong_call(1))

    with pytest.raises(nereid.CompilationError) as caught:
        run(kernel)
    assert isinstance(caught.value.__cause__, nereid.CompilationError)


@tl.core.builtin
def keep(x, _semantic=None):
    kept.append(x)
    return x


def test_tensors_die_with_their_compilation(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, keep(tl.program_id(0)))

    kept.clear()
    assert run(kernel) == 0
    assert "compilation has ended" in repr(kept[0].handle)

    @tl.core.builtin
    def reuse(_semantic=None):
        return kept[0]

    @nereid.jit
    def other(out):
        tl.store(out, reuse())

    with pytest.raises(nereid.CompilationError, match="this tensor belongs to a compilation that has ended"):
        run(other)
    with pytest.raises(ValueError, match="Did you forget to add @triton.jit"):
        kept[0] + 1


def test_tensors_have_no_truth_in_python(target):

    @tl.core.builtin
    def branch(x, _semantic=None):
        return 1 if x else 2

    @nereid.jit
    def kernel(out):
        tl.store(out, branch(tl.program_id(0)))

    with pytest.raises(nereid.CompilationError, match="Python code cannot branch on it"):
        run(kernel)


def test_builtins_need_semantic():
    with pytest.raises(ValueError, match="Did you forget to add @triton.jit"):
        failing(1)
    with pytest.raises(TypeError, match="a builtin takes the keyword `_semantic`"):
        tl.core.builtin(lambda x: x)


# ---- constexpr functions -------------------------------------------------------------------------------


@nereid.constexpr_function
def factorial(n):
    assert type(n) is int
    return n * factorial(n - 1) if n > 1 else 1


@nereid.constexpr_function
def shape_of(n):
    return (n, n // 2)


def test_constexpr_function(target):

    @nereid.jit
    def kernel(out, N: tl.constexpr):
        size: tl.constexpr = shape_of(N)
        tl.store(out, factorial(N) + tl.sum(tl.arange(0, size[1])))

    assert run(kernel, 4) == 24 + 1
    assert factorial(5) == 120 and factorial(tl.constexpr(3)) == 6


def test_constexpr_function_that_fails(target):

    @nereid.constexpr_function
    def divide(a, b):
        return a // b

    @nereid.jit
    def kernel(out):
        tl.store(out, divide(1, 0))

    with pytest.raises(nereid.CompilationError, match="ZeroDivisionError") as caught:
        run(kernel)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# ---- named tuples --------------------------------------------------------------------------------------


@nereid.jit
def swapped(p):
    return Point(p.y, p.x)


def test_named_tuples(target):

    @nereid.jit
    def kernel(out, n):
        p = swapped(Point(n, 2))
        tl.store(out, p.x * 10 + p.y + p[0])

    assert run(kernel, 7) == 20 + 7 + 2


def test_named_tuple_with_a_wrong_field(target):

    @nereid.jit
    def kernel(out):
        tl.store(out, Point(1, 2, 3).x)

    with pytest.raises(nereid.CompilationError, match="TypeError") as caught:
        run(kernel)
    assert isinstance(caught.value.__cause__, TypeError)


# ---- the classes on the host ---------------------------------------------------------------------------


def test_constexpr_arithmetic():
    a, b = tl.constexpr(7), tl.constexpr(2)
    for got, want in [(a + b, 9), (a - 1, 6), (10 - a, 3), (a * b, 14), (a / b, 3.5), (a // b, 3), (-a // b, -4), (a % b, 1),
                      (a**b, 49), (2**a, 128), (a << 1, 14), (a >> b, 1), (a & 3, 3), (a | 8, 15), (a ^ b, 5), (~a, -8),
                      (a < b, False), (a >= 7, True), (a == 7, True), (a != 7, False)]:
        assert isinstance(got, tl.constexpr) and got.value == want
    assert list(range(a)) == list(range(7)) and [10, 20, 30][b] == 30
    assert bool(tl.constexpr(0)) is False and tl.constexpr(tl.constexpr(3)).value == 3
    assert repr(a) == "constexpr[7]" and hash(a) == hash(tl.constexpr(7))
    assert tl.constexpr((4, 5))[1] == 5 and tl.constexpr("text").upper() == "TEXT"


def test_dtypes():
    assert str(tl.float32) == "fp32" and repr(tl.float8e4nv) == "triton.language.float8e4nv"
    for name in ("int1", "int8", "uint64", "float16", "bfloat16", "float64", "float8e5", "void"):
        dtype = getattr(tl, name)
        assert eval(repr(dtype), {"triton": nereid}) == dtype
    assert tl.int8.get_int_min_value() == -128 and tl.uint16.get_int_max_value() == 65535
    assert tl.bfloat16.is_floating() and tl.int1.is_bool() and tl.int1.is_int_unsigned() and tl.float8e5.is_fp8()
    assert tl.float16.primitive_bitwidth == 16 and tl.float16.fp_mantissa_width == 10 and tl.int64.itemsize == 8
    pointer = tl.pointer_type(tl.float16, const=True)
    assert str(pointer) == "const_pointer<fp16>" and pointer.element_ty == tl.float16 and pointer.is_ptr()
    assert tl.str_to_ty("*kfp16") == pointer and tl.str_to_ty("u1") == tl.int1
    block = tl.block_type(tl.int32, [4, 8])
    assert block.numel == 32 and block.nbytes == 128 and block.scalar == tl.int32 and len({block, tl.block_type(tl.int32, (4, 8))}) == 1


@pytest.mark.parametrize("make, error, text", [
    (lambda: tl.dtype("int7"), ValueError, "unknown type of the language: 'int7'"),
    (lambda: tl.block_type(tl.int32, []), TypeError, "0d block_type is forbidden"),
    (lambda: tl.block_type(tl.int32, [0]), ValueError, r"the shape of a block is made of positive integers, found \[0\]"),
    (lambda: tl.block_type(tl.int32, [2048, 1024]), ValueError, "exceeds triton maximum tensor numel"),
    (lambda: tl.pointer_type(3), TypeError, "element_ty has type `int`; expected `dtype`."),
    (lambda: tl.core.get_int_dtype(7, True), ValueError, "Unsupported bitwidth 7 and signedness True"),
])
def test_bad_types(make, error, text):
    with pytest.raises(error, match=text):
        make()
