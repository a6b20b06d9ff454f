"""`extern_elementwise`: functions of an author's own LLVM bitcode (or LLVM IR as text), called from `@tl.core.extern` functions."""

import numpy as np
import pytest
import torch

import harness

COVERED = {"extern_elementwise"}

LIBRARY = """
define float @twice(float %x) {
  %y = fadd float %x, %x
  ret float %y
}
define double @twice_double(double %x) {
  %y = fmul double %x, 2.0
  ret double %y
}
define i32 @mix(i32 %a, float %b) {
  %c = fptosi float %b to i32
  %d = call i32 @helper(i32 %a, i32 %c)
  ret i32 %d
}
define internal i32 @helper(i32 %a, i32 %b) {
  %c = mul i32 %a, %b
  ret i32 %c
}
"""

FUNCTIONS = """from nereid.language import core


@core.extern
def twice(arg0, _semantic=None):
    return core.extern_elementwise("mine", {path!r}, [arg0], {{
        (core.dtype("fp32"), ): ("twice", core.dtype("fp32")),
        (core.dtype("fp64"), ): ("twice_double", core.dtype("fp64")),
    }}, is_pure=True, _semantic=_semantic)


@core.extern
def mix(arg0, arg1, _semantic=None):
    return core.extern_elementwise("mine", {path!r}, [arg0, arg1], {{(core.dtype("int32"), core.dtype("fp32")): ("mix", core.dtype("int32"))}},
                                   is_pure=False, _semantic=_semantic)


@core.extern
def add(arg0, arg1, _semantic=None):
    return core.extern_elementwise("mine", {path!r}, [arg0, arg1], {{(core.dtype("fp32"), core.dtype("fp32")): ("twice", core.dtype("fp32"))}}, True,
                                   _semantic=_semantic)


@core.extern
def nothing(arg0, _semantic=None):
    return core.extern_elementwise("mine", {path!r}, [arg0], {{}}, is_pure=True, _semantic=_semantic)


@core.extern
def absent(arg0, _semantic=None):
    return core.extern_elementwise("mine", {path!r}, [arg0], {{(core.dtype("fp32"), ): ("no_such_function", core.dtype("fp32"))}}, is_pure=True,
                                   _semantic=_semantic)
"""


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "mine.ll"
    path.write_text(LIBRARY)
    return str(path)


def run(call, inputs, out, path="", **options):
    names = [f"x{i}" for i in range(len(inputs))]
    loads = "".join(f"    {n} = tl.load({n}_ptr + i)\n" for n in names)
    harness.make(f"""{FUNCTIONS.format(path=path)}

@triton.jit
def kernel({', '.join(n + '_ptr' for n in names)}, out):
    i = tl.arange(0, 64)
{loads}    tl.store(out + i, {call})
""")[(1,)](*inputs, out, **options)
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_overloads_by_type(dtype, library, target):
    x = torch.randn(64, dtype=dtype)
    assert torch.equal(run("twice(x0)", [x], torch.zeros_like(x), extern_libs={"mine": library}), 2 * x)


def test_the_path_of_the_call(library, target):
    x = torch.randn(64)
    assert torch.equal(run("twice(x0)", [x], torch.zeros_like(x), path=library), 2 * x)


def test_the_launch_decides_which_file(library, tmp_path, target):
    other = tmp_path / "other.ll"
    other.write_text("define float @twice(float %x) {\n  ret float 7.0\n}\n")
    x = torch.randn(64)
    assert torch.equal(run("twice(x0)", [x], torch.zeros_like(x), path=library, extern_libs={"mine": str(other)}), torch.full((64,), 7.0))
    assert torch.equal(run("twice(x0)", [x], torch.zeros_like(x), path=library, extern_libs={"mine": library}), 2 * x)


def test_several_types_broadcast_and_numbers(library, target):
    a, b = torch.arange(64, dtype=torch.int32), torch.full((64,), 3.7)
    assert torch.equal(run("mix(x0, x1)", [a, b], torch.zeros_like(a), extern_libs={"mine": library}), a * 3)
    assert torch.equal(run("mix(x0, 2.5)", [a], torch.zeros_like(a), extern_libs={"mine": library}), a * 2)


def test_scalars(library, target):
    x = torch.zeros(64)
    assert torch.equal(run("twice(1.5) + 0 * x0", [x], torch.zeros(64), extern_libs={"mine": library}), torch.full((64,), 3.0))


def test_functions_of_the_device_library(target):
    """Its symbols exist on both targets."""
    out, x = torch.zeros(64), torch.rand(64)
    harness.make("""from nereid.language import core


@core.extern
def arc(arg0, _semantic=None):
    return core.extern_elementwise("libdevice", "", [arg0], {(core.dtype("fp32"), ): ("__nv_asinf", core.dtype("fp32"))}, is_pure=True,
                                   _semantic=_semantic)


@triton.jit
def kernel(x_ptr, out):
    i = tl.arange(0, 64)
    tl.store(out + i, arc(tl.load(x_ptr + i)))
""")[(1,)](x, out)
    torch.testing.assert_close(out, torch.asin(x))


def test_refusals(library, target):
    import nereid
    x = torch.zeros(64)
    for call, inputs, match in (
            ("twice(x0)", [x.int()], r"the external function takes arguments of the types \(fp32\), \(fp64\), found \(int32\)"),  # ExternTypes
            ("nothing(x0)", [x], "`arg_type_symbol_dict` is empty: expected the types of the arguments with the symbol and the type of its result"),  # ExternNoOverload
            ("absent(x0)", [x], "no library has the function `no_such_function`"),
    ):
        with pytest.raises(nereid.CompilationError, match=match):
            run(call, inputs, torch.zeros(64), extern_libs={"mine": library})
    with pytest.raises(nereid.CompilationError, match="cannot read the library"):
        run("twice(x0)", [x], torch.zeros(64), extern_libs={"mine": library + ".missing"})


def test_a_wrong_number_of_arguments(library, target):
    import nereid
    kernel = harness.make("""from nereid.language import core


@core.extern
def pair(arg0, arg1, _semantic=None):
    return core.extern_elementwise("mine", "", [arg0, arg1], {(core.dtype("fp32"), ): ("twice", core.dtype("fp32"))}, True, _semantic=_semantic)


@triton.jit
def kernel(out):
    i = tl.arange(0, 64)
    tl.store(out + i, pair(1.0, 2.0))
""")
    with pytest.raises(nereid.CompilationError, match="wrong number of arguments of the external function: expected 1, found 2"):  # ExternCount
        kernel[(1,)](torch.zeros(64), extern_libs={"mine": library})


def test_not_bitcode(tmp_path, target):
    import nereid
    path = tmp_path / "text.bc"
    path.write_text("no library")
    with pytest.raises(nereid.CompilationError, match="is no LLVM bitcode"):
        run("twice(x0)", [torch.zeros(64)], torch.zeros(64), extern_libs={"mine": str(path)})


def test_option_values():
    x = torch.zeros(64)
    with pytest.raises(ValueError, match="a dictionary {name: path}"):
        run("twice(x0)", [x], torch.zeros(64), extern_libs={"mine": 3})
