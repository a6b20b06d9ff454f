"""What `nereid.jax.call` refuses, and how; beside each refusal stands the nearest call that works."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_kernels import add, copy, numbers, scale, scale_by_loaded, typed_number

import nereid
import nereid.jax
import nereid.language as tl
from nereid.jax import _version

X = np.arange(8, dtype=np.float32)
OUT = jax.ShapeDtypeStruct((8, ), jnp.float32)
GRID = (1, )


def call(kernel, *inputs, **options):
    options = {"out_shape": OUT, "grid": GRID, "n": 8, "BLOCK": 8, **options}
    return nereid.jax.call(kernel, *inputs, **{name: value for name, value in options.items() if value is not ...})


def test_neighbours_of_the_refused():
    np.testing.assert_array_equal(call(add, X, X), X + X)
    np.testing.assert_array_equal(call(copy, X), X)


@pytest.mark.parametrize("make, error, text", [
    (lambda: call(add, X), ValueError, r"`add` has 2 parameters without a value \(`y`, `out`\) for 1 outputs"),
    (lambda: call(add, X, X, X, X, X, X), TypeError, "`add` takes 5 arguments besides its outputs, found 6"),
    (lambda: call(add, X, X, n=...), ValueError, r"`add` has 2 parameters without a value \(`out`, `n`\) for 1 outputs: give the others by keyword"),
    (lambda: call(add, X, X, BLOCK=...), TypeError, "add: no value for `BLOCK`"),
    (lambda: call(add, X, X, x=X), TypeError, "add: `x` is given twice"),
    (lambda: call(add, X, X, out_shape={"result": OUT}), ValueError, "`result` in `out_shape` is no parameter of `add`: it has `x`, `y`, `out`, `n`, `BLOCK`"),
    (lambda: call(add, X, X, out_shape=[OUT, OUT]), ValueError, r"`add` has 1 parameters without a value \(`out`\) for 2 outputs"),
    (lambda: call(add, X, X, out_shape=[]), ValueError, "`add` has no outputs"),
    (lambda: call(add, X, X, out_shape=(8, )), TypeError, "item 0 of `out_shape` is int: expected a shape with a dtype"),
    (lambda: call(add, X, X, out_shape=None), TypeError, "`out_shape` is NoneType: expected a shape with a dtype"),
    (lambda: call(add, X, X, out_shape=jax.ShapeDtypeStruct((8, ), jnp.float64)), TypeError, "`out_shape` has dtype float64, which JAX has only with"),
    (lambda: call(add, X, X, out_shape=jax.ShapeDtypeStruct((8, ), jnp.complex64)), TypeError, "`out_shape` has dtype complex64, which kernels do not support"),
    (lambda: call(copy, jnp.zeros(8, jnp.complex64)), TypeError, "copy: `x` has dtype complex64, which kernels do not support: expected one of bool, int8"),
    (lambda: call(copy, jnp.zeros(8, jnp.float8_e4m3b11fnuz)), TypeError, "copy: `x` has dtype float8_e4m3b11fnuz, which kernels do not support"),
    (lambda: call(copy, jnp.zeros(8, jnp.int4)), TypeError, "copy: `x` has dtype int4, which kernels do not support"),
    (lambda: call(copy, jax.random.split(jax.random.key(0), 8)), TypeError, r"copy: `x` has dtype key<fry>, which kernels do not support"),
    (lambda: call(copy, [1.0, 2.0]), TypeError, r"copy: `x` is list: expected an array of JAX or NumPy, a number or None; give `jnp.asarray\(x\)`"),
    (lambda: call(copy, "x"), TypeError, "copy: `x` is str: expected an array of JAX or NumPy, a number or None$"),
    (lambda: call(copy, X, BLOCK=jnp.int32(8)), TypeError, "copy: the constexpr `BLOCK` is an array: it must be known when JAX traces"),
    (lambda: jax.jit(lambda block: call(copy, X, BLOCK=block))(8), TypeError, "copy: the constexpr `BLOCK` is a traced value: .* name it in `static_argnames`"),
    (lambda: call(copy, X, BLOCK=[8]), TypeError, "copy: the constexpr `BLOCK` is list, which is not hashable"),
    (lambda: jax.jit(lambda n: call(copy, X, grid=(n, )))(8), TypeError, "copy: the grid is a traced value: it must be known when JAX traces"),
    (lambda: call(copy, X, grid=(1, 1, 1, 1)), ValueError, "copy: the grid has 4 sizes: expected one to three"),
    (lambda: call(copy, X, grid=(1.5, )), TypeError, "copy: the grid has a size of type float: expected integers"),
    (lambda: call(copy, X, grid=(-1, )), ValueError, "copy: the grid must be 0 to 2147483647, found -1"),
    (lambda: call(copy, X, num_threads=2**33), ValueError, "num_threads must be an integer from 0 to 2147483647, found 8589934592"),
    (lambda: call(copy, X, num_threads=2**70), ValueError, "num_threads must be an integer from 0 to 2147483647, found 1180591620717411303424"),
    (lambda: call(copy, X, num_threads=-1), ValueError, "num_threads must be an integer from 0 to 2147483647, found -1"),
    (lambda: call(copy, X, vmap_method="expand_dims"), ValueError, "`vmap_method` is 'expand_dims': expected None or \"sequential\""),
    (lambda: call(scale, X, factor=2.0, out_shape={"x": OUT}, x=X), TypeError, "given twice|`scale` takes"),
    (lambda: call(scale, factor=2.0, out_shape={"x": OUT}, x=X), ValueError, "scale: `x` is an input and in `out_shape`: say `input_output_aliases"),
    (lambda: call(add, X, X, out_shape=jax.ShapeDtypeStruct((2, -1), jnp.float32)), ValueError, r"`out_shape` has the shape \(2, -1\): sizes are not negative"),
    (lambda: call(add, X, X, input_output_aliases=[(0, 0)]), TypeError, "`input_output_aliases` is list: expected a dict"),
    (lambda: call(add, X, X, input_output_aliases={0: 0.5}), TypeError, "`input_output_aliases` names output 0.5: expected a position or the name of a parameter"),
    (lambda: call(add, X, X, input_output_aliases={True: 0}), TypeError, "`input_output_aliases` names input True: expected a position"),
    (lambda: call(copy, X, num_warps=[4]), TypeError, "copy: the option `num_warps` is list: expected a number, a text or a tuple that is known when JAX traces"),
    (lambda: jax.jit(lambda w: call(copy, X, num_warps=w))(4), TypeError, "copy: the option `num_warps` is DynamicJaxprTracer: expected a number"),
    (lambda: call(add, X, X, input_output_aliases={5: 0}), ValueError, "`input_output_aliases` names input 5: there are 2 inputs"),
    (lambda: call(add, X, X, input_output_aliases={0: 1}), ValueError, "`input_output_aliases` names output 1: there are 1"),
    (lambda: call(add, X, X, input_output_aliases={"z": 0}), ValueError, "`z` in `input_output_aliases` is no parameter of `add`"),
    (lambda: call(add, X, X, out_shape={"out": OUT}, input_output_aliases={"x": "y"}), ValueError, "`y` in `input_output_aliases` is not in `out_shape`"),
    (lambda: call(add, X, X, out_shape={"out": OUT}, input_output_aliases={"n": "out"}), ValueError, "add: `n` in `input_output_aliases` is no array"),
    (lambda: call(add, X, X, out_shape={"out": OUT}, input_output_aliases={"x": "out", "y": "out"}), ValueError, "gives output 0 the memory of two inputs"),
    (lambda: call(scale, X, factor=2.0, out_shape=jax.ShapeDtypeStruct((4, ), jnp.float32), input_output_aliases={0: 0}), ValueError,
     r"scale: `x` is float32\[8\] and cannot share memory with output 0, which is float32\[4\]"),
    (lambda: call(scale, X, factor=2.0, out_shape=jax.ShapeDtypeStruct((8, ), jnp.int32), input_output_aliases={0: 0}), ValueError, "which is int32"),
    (lambda: nereid.jax.call(typed_number, jnp.int32(3), out_shape={"out": OUT}, grid=GRID), TypeError,
     r"typed_number: `n` is a number \(i32\), found an array of rank 0, of which kernels get the address"),
    (lambda: call(lambda x: x, X), TypeError, "nereid.jax.call needs a kernel made with @jit, found function"),
    (lambda: call(nereid.autotune([nereid.Config({"BLOCK": 8})], key=["n"])(copy), X), TypeError,
     "found Autotuner: nothing is measured while JAX traces; give `kernel.fn` with the constexprs"),
    (lambda: call(copy, X, num_worps=4), KeyError, "num_worps was specified but unrecognised, did you mean `num_warps`"),
])  # yapf: disable
def test_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


@nereid.jit
def writes_its_input(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 0.0, mask=i < n)
    tl.store(out + i, 0.0, mask=i < n)


@nereid.jit
def never_writes(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(out + i, mask=i < n), mask=i < n)


def test_written_inputs_and_unwritten_outputs():
    with pytest.raises(ValueError, match="`writes_its_input` writes `x`, which is an input: arrays of JAX do not change; name it in `out_shape`, or give an output its memory"):
        call(writes_its_input, X)
    outs = call(writes_its_input, X, out_shape={"x": OUT, "out": OUT}, input_output_aliases={"x": "x"})
    assert not outs["x"].any() and not outs["out"].any()
    with pytest.raises(ValueError, match="`never_writes` never writes `out`, which is an output: its elements would be undefined"):
        call(never_writes, X, out_shape={"x": OUT, "out": OUT}, input_output_aliases={"x": "x"})


def test_target_of_another_platform():
    with pytest.raises(ValueError, match="copy: the target `cuda:90` was asked for, and JAX compiles for `cpu`: leave it out"):
        call(copy, X, target="cuda:90")
    np.testing.assert_array_equal(call(copy, X, target="cpu"), X)


def test_derivative_of_a_call_names_the_remedy():
    for differentiate in (jax.grad(lambda x: call(copy, x).sum()), lambda x: jax.jvp(lambda x: call(copy, x), (x, ), (x, ))):
        with pytest.raises(NotImplementedError, match=r"copy: a call of a kernel has no derivative by itself: .* `nereid.jax.autograd\(copy, wrt=..., out=..., grid=...\)`"):
            differentiate(jnp.asarray(X))


def test_error_in_the_kernel_is_the_compilers_with_a_note():
    with pytest.raises(nereid.CompilationError) as caught:
        nereid.jax.call(scale, X, jnp.float32(2), out_shape=OUT, grid=GRID, input_output_aliases={0: 0}, n=8, BLOCK=8)
    assert any("`factor`: the kernel gets the address of an array of rank 0" in note for note in caught.value.__notes__)
    np.testing.assert_array_equal(nereid.jax.call(scale_by_loaded, X, jnp.float32(2), out_shape=OUT, grid=GRID, n=8, BLOCK=8), 2 * X)


def test_torch_tensors_are_referred_to_dlpack():
    import torch
    with pytest.raises(TypeError, match=r"copy: `x` is Tensor: .* give `jax.dlpack.from_dlpack\(x\)`"):
        call(copy, torch.zeros(8))


def test_kernel_that_expects_no_alignment():
    """The remedy that the error about alignment names (tests/jax/test_jax_cuda.py)."""
    unaligned = nereid.jit(copy.fn, do_not_specialize_on_alignment=["x", "out"])
    np.testing.assert_array_equal(call(unaligned, X), X)


def test_folder_instead_of_jax(monkeypatch):
    monkeypatch.delattr(jax, "__version__")
    with pytest.raises(ImportError, match="nereid.jax needs JAX 0.7.0 or later, found a folder of that name"):
        _version.check()


@pytest.mark.parametrize("version, is_old", [("0.4.38", True), ("0.6.99", True), ("0.7.0", False), ("0.10.2", False), ("1.0.0.dev20260101", False), ("0.7", True)])
def test_versions(monkeypatch, version, is_old):
    monkeypatch.setattr(jax, "__version__", version)
    if is_old:
        with pytest.raises(ImportError, match=f"nereid.jax needs JAX 0.7.0 or later, found {version}: pip install --upgrade jax"):
            _version.check()
    else:
        _version.check()


def run(code, **environment):
    """The last line that a program of its own prints."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_without_jax():
    text = run("""
        import sys
        sys.modules["jax"] = None
        try:
            import nereid.jax
        except ImportError as error:
            print(error.name, error)
    """)
    assert text.startswith("jax nereid.jax needs JAX 0.7.0 or later, which cannot be imported (") and text.endswith("pip install jax")


def test_interpret_mode(tmp_path):
    script = tmp_path / "kernels.py"
    script.write_text("import nereid\nimport nereid.language as tl\n\n\n@nereid.jit\ndef copy(x, out):\n    tl.store(out, tl.load(x))\n")
    text = run("""
        import jax.numpy as jnp, nereid.jax, kernels
        try:
            nereid.jax.call(kernels.copy, jnp.ones(1), out_shape=jnp.ones(1), grid=1)
        except TypeError as error:
            print(error)
    """, NEREID_INTERPRET="1", PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    assert text == "nereid.jax.call cannot run `copy` in interpret mode, which needs arrays with data: unset NEREID_INTERPRET"
