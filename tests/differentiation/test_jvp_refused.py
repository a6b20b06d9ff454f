"""What has no derivative is refused, at its line and with a remedy; beside each refusal stands the nearest kernel that is differentiated.

Names of diagnostics: DerivativeRefused, DerivativeOfBits, DerivativeOfFloat8, DerivativePointerMixed, DerivativePointerUnknown,
DerivativeElementType, DerivativeReadsOutput, DerivativeWritesInput, DerivativeAtomic, DerivativeLost, NoTangents, TangentOfUnknown,
TangentOfConstexpr, TangentTwice, TangentNameTaken, TangentType, NoTangentOfType, TangentsOfTile.
"""

import re

import harness
import nereid
import jvp_check
import pytest
import torch

F64 = torch.float64
N = 16


def kernel_of(body, parameters="x, y"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return harness.make(f"from nereid.language.extra import libdevice\n\n\n@triton.jit\ndef kernel({parameters}, N: tl.constexpr):\n"
                        f"    i = tl.arange(0, N)\n{lines}")


def launch(kernel, arguments, wrt=("x", ), out=("y", ), **names):
    given = {f"d{name}": torch.zeros_like(arguments[name]) for name in dict.fromkeys((*wrt, *out))}
    nereid.jvp(kernel, wrt, out)[(1, )](**arguments, **given, N=N, **names)
    return given


def arguments(**more):
    return {"x": jvp_check.random(N), "y": torch.zeros(N, dtype=F64), **more}


def refused(kernel, arguments, message, line, **roles):
    """The launch is refused with this message, at the line of the kernel that contains `line`."""
    with pytest.raises(nereid.CompilationError) as caught:
        launch(kernel, arguments, **roles)
    text = str(caught.value)
    assert message in text, text
    assert line in text[text.index(message):].splitlines()[1], text


def test_bits_of_floats():
    refused(kernel_of("b = tl.load(x + i).to(tl.int64, bitcast=True)\nf = (b + 1).to(tl.float64, bitcast=True)\ntl.store(y + i, f)"), arguments(),
            "this fp64 is made from bits of a float that depends on `wrt`", "f = (b + 1)")
    refused(kernel_of("b = tl.load(x + i).to(tl.int64, bitcast=True)\nf = (b >> 52).to(tl.float64)\ntl.store(y + i, f)"), arguments(),
            "this fp64 is made from bits of a float that depends on `wrt`", "f = (b >> 52)")
    # Comparisons of bits are constant in pieces.
    given = launch(kernel_of("v = tl.load(x + i)\nb = v.to(tl.int64, bitcast=True)\ntl.store(y + i, tl.where(b < 0, -v, v))"), arguments())
    assert (given["dy"] == 0).all()


def test_sorting_is_refused():
    refused(kernel_of("s = tl.sort(tl.load(x + i))\ntl.store(y + i, s)"), arguments(), "this fp64 is made from bits", "s = tl.sort")


def test_floats_of_8_bits():
    refused(kernel_of("v = tl.load(x + i).to(tl.float32)\ne = v.to(tl.float8e5)\ntl.store(y + i, e.to(tl.float64))"), arguments(),
            "fp8e5 is too coarse for tangents", "e = v.to")
    launch(kernel_of("e = i.to(tl.float32).to(tl.float8e5)\ntl.store(y + i, tl.load(x + i) * e.to(tl.float64))"), arguments())


def test_addresses_of_which_some_have_tangents():
    body = "v = tl.load(tl.where(i > 3, x + i, w + i))\ntl.store(y + i, v)"
    refused(kernel_of(body, "x, w, y"), arguments(w=jvp_check.random(N)), "may also come from `w`, which has none: name `w` in `wrt` or `out`", "v = tl.load")
    launch(kernel_of(body, "x, w, y"), arguments(w=jvp_check.random(N)), wrt=("x", "w"))
    branch = "if n > 1:\n    p = x\nelse:\n    p = w\nv = tl.load(p + i)\ntl.store(y + i, v)"
    refused(kernel_of(branch, "x, w, y, n"), arguments(w=jvp_check.random(N), n=5), "may also come from `w`", "if n > 1:")


def test_pointers_from_memory_and_integers():
    body = "p = tl.load(table).to(tl.pointer_type(tl.float64))\nv = tl.load(p + i)\ntl.store(y + i, v * tl.load(x + i))"
    table = torch.zeros(1, dtype=torch.int64)
    refused(kernel_of(body, "x, table, y"), arguments(table=table), "the pointer comes from memory or from an integer", "v = tl.load(p + i)")
    body = "p = x.to(tl.int64).to(tl.pointer_type(tl.float64))\nv = tl.load(p + i)\ntl.store(y + i, v)"
    refused(kernel_of(body), arguments(), "the pointer comes from memory or from an integer", "v = tl.load(p + i)")


def test_accesses_of_another_type():
    body = "v = tl.load(x.to(tl.pointer_type(tl.float32)) + i)\ntl.store(y + i, v)"
    refused(kernel_of(body), arguments(), "`x` is accessed as fp32, but its elements, and those of its tangent, are fp64", "v = tl.load")
    body = "b = tl.load(x.to(tl.pointer_type(tl.int64)) + i)\nf = b.to(tl.float64, bitcast=True)\ntl.store(y + i, f)"
    refused(kernel_of(body), arguments(), "this fp64 is made from bits", "f = b.to")
    body = "tl.store(y.to(tl.pointer_type(tl.int64)) + i, i.to(tl.int64))\ntl.store(y + i, tl.load(x + i))"
    refused(kernel_of(body), arguments(), "`y` is accessed as int64", "tl.store(y.to")


def test_roles_of_buffers():
    body = "v = tl.load(x + i)\no = tl.load(y + i)\ntl.store(y + i, v * o)"
    refused(kernel_of(body), arguments(), "`y` is read here but is named only in `out`: name it in `wrt` too", "o = tl.load")
    launch(kernel_of(body), arguments(), wrt=("x", "y"))
    body = "tl.store(x + i, i.to(tl.float64))\nv = tl.load(x + i)\ntl.store(y + i, v)"
    refused(kernel_of(body), arguments(), "`x` is written here but is named only in `wrt`: name it in `out` too", "tl.store(x + i")
    launch(kernel_of(body), arguments(), out=("x", "y"))


def test_tangents_that_would_be_lost():
    body = "v = tl.load(x + i)\ntl.store(s + i, v * v)\nw = tl.load(s + i)\ntl.store(y + i, w)"
    scratch = torch.zeros(N, dtype=F64)
    refused(kernel_of(body, "x, s, y"), arguments(s=scratch), "is stored to `s`, which the kernel also reads, and its tangent would be lost", "tl.store(s + i")
    launch(kernel_of(body, "x, s, y"), arguments(s=scratch), wrt=("x", "s"), out=("s", "y"))
    launch(kernel_of("v = tl.load(x + i)\ntl.store(s + i, v * v)\ntl.store(y + i, v)", "x, s, y"), arguments(s=scratch))  # nobody reads it


@pytest.mark.parametrize("call", ["tl.atomic_max(y + i, tl.load(x + i))", "tl.atomic_xchg(y + i, tl.load(x + i))",
                                  "old = tl.atomic_add(y + i, tl.load(x + i))\ntl.store(x + i, old)"])
def test_atomics(call):
    refused(kernel_of(call), arguments(), "this atomic operation on `y` cannot be differentiated: only additions can", call.splitlines()[0], wrt=("x", "y"),
            out=("x", "y"))


@pytest.mark.parametrize("call, name", [("tl.store(y + i, tl.atomic_load(x + i))", "x"), ("tl.atomic_store(y + i, tl.load(x + i))", "y")])
def test_atomic_loads_and_stores(call, name):
    refused(kernel_of(call), arguments(), f"this atomic operation on `{name}` cannot be differentiated: only additions can", call)


def test_flags_have_no_tangents():
    """Integers that programs read and write atomically stay as they are."""
    kernel = kernel_of("seen = tl.atomic_load(flag)\ntl.store(y + i, tl.load(x + i) * seen.to(tl.float64))\ntl.atomic_store(flag + 1, seen + 1)", "x, y, flag")
    flag, given = torch.tensor([3, 0], dtype=torch.int32), arguments()
    dx, dy = torch.ones(N, dtype=F64), torch.zeros(N, dtype=F64)
    nereid.jvp(kernel, ("x", ), ("y", ))[(1, )](**given, flag=flag, dx=dx, dy=dy, N=N)
    assert flag.tolist() == [3, 4] and torch.equal(dy, 3 * dx) and torch.equal(given["y"], 3 * given["x"])


def test_foreign_code():
    body = ("v = tl.load(x + i).to(tl.float32)\nv = tl.inline_asm_elementwise('addps $0, $1', '=x,x', [v], tl.float32, True, 1)\n"
            "tl.store(y + i, v.to(tl.float64))")
    refused(kernel_of(body), arguments(), "inline assembly cannot be differentiated", "v = tl.inline_asm")
    refused(kernel_of("v = libdevice.lgamma(tl.load(x + i))\ntl.store(y + i, v)"), arguments(), "`__nv_lgamma` cannot be differentiated: the function has no rule",
            "v = libdevice")
    launch(kernel_of("v = libdevice.lgamma(i.to(tl.float64) + 1.0) * tl.load(x + i)\ntl.store(y + i, v)"), arguments())


def test_the_line_within_a_function_that_is_called():
    kernel = harness.make("@triton.jit\ndef inner(v):\n    return v.to(tl.int64, bitcast=True).to(tl.float64, bitcast=True) + 1.0\n\n\n"
                          "@triton.jit\ndef kernel(x, y, N: tl.constexpr):\n    i = tl.arange(0, N)\n    v = inner(tl.load(x + i) * 2.0)\n    tl.store(y + i, v)\n")
    with pytest.raises(nereid.CompilationError, match="made from bits"):
        launch(kernel, arguments())


# ---- what is asked for --------------------------------------------------------------------------------


@nereid.jit
def scaled(x, y, alpha, n, N: nereid.language.constexpr):
    i = nereid.language.arange(0, N)
    nereid.language.store(y + i, nereid.language.load(x + i, mask=i < n) * alpha)


@nereid.jit
def taken(x, dx, y):
    nereid.language.store(y, nereid.language.load(x))


@pytest.mark.parametrize("roles,message", [
    ((("z", ), ("y", )), "`scaled` has no parameter `z` to differentiate: it has `x`, `y`, `alpha`, `n`, `N`"),
    ((("N", ), ("y", )), "parameter `N` of `scaled` is a constexpr, which has no tangent"),
    (((), ("y", )), "`scaled` cannot be differentiated without inputs and outputs"),
    ((("x", ), ()), "`scaled` cannot be differentiated without inputs and outputs"),
])
def test_names(roles, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        nereid.jvp(scaled, *roles)


def test_names_of_tangents():
    with pytest.raises(ValueError, match=re.escape("the tangent of `x` cannot be called `dx`: `taken` has a parameter of this name")):
        nereid.jvp(taken, "x", "y")
    x, y, dy = torch.ones(1), torch.zeros(1), torch.zeros(1)
    nereid.jvp(taken, {"x": "x_tangent"}, "y")[(1, )](x, None, y, x_tangent=torch.full((1, ), 3.0), dy=dy)
    assert dy.item() == 3
    with pytest.raises(ValueError, match="two names"):
        nereid.jvp(taken, {"x": "a"}, {"x": "b"})
    with pytest.raises(TypeError, match="names of parameters"):
        nereid.jvp(taken, {"x": 3}, "y")
    with pytest.raises(TypeError, match="needs a kernel made with @jit, found function"):
        nereid.jvp(lambda x: x, "x", "y")


def test_types_of_tangents():
    x, y = torch.ones(N), torch.zeros(N)
    derivative = nereid.jvp(scaled, ("x", "alpha"), "y")
    common = dict(x=x, y=y, alpha=2.0, n=N, N=N, dy=torch.zeros(N))
    with pytest.raises(nereid.CompilationError, match=re.escape("`dx` must be `pointer<fp32>`, since it belongs to `x`, found `pointer<fp64>`")):
        derivative[(1, )](**common, dx=torch.ones(N, dtype=F64), dalpha=1.0)
    with pytest.raises(nereid.CompilationError, match="`dalpha` must be `fp32`, since it belongs to `alpha`"):
        derivative[(1, )](**common, dx=x, dalpha=x)
    with pytest.raises(nereid.CompilationError, match="`n` has no tangent: expected a number or a pointer of fp16, bf16, fp32 or fp64"):
        nereid.jvp(scaled, ("x", "n"), "y")[(1, )](**{**common, "n": 14}, dx=x, dn=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dx'"):
        derivative[(1, )](**common, dalpha=1.0)
