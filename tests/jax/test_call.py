"""`nereid.jax.call`: results in all kinds of traced functions, compared with JAX's own."""

import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_kernels import (add, asserting, changing, copy, maximum_is_bf16, numbers, places, relay, scale, scale_by_loaded, store_constant, sum_and_difference,
                         with_defaults)

import nereid
import nereid.jax
from nereid.jax._call import DTYPES

pytestmark = pytest.mark.timeout(300)

#: What JAX raises for a failed program: where it runs on the calling thread, and where it is waited for.
FAILED = (ValueError, jax.errors.JaxRuntimeError)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def added(x, y, **options):
    return nereid.jax.call(add, x, y, out_shape=like(x), grid=(nereid.cdiv(x.size, 256), ), n=x.size, BLOCK=256, **options)


def scaled(x, factor=2.5):
    return nereid.jax.call(scale, x, out_shape=like(x), grid=(nereid.cdiv(x.size, 256), ), input_output_aliases={0: 0}, factor=factor, n=x.size, BLOCK=256)


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal(1000, dtype=np.float32)


def same(got, expected):
    np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


def test_eager(device, x):
    y = added(jnp.asarray(x), x)
    assert isinstance(y, jax.Array) and y.devices() == {device}
    same(y, x + x)


def test_jit(device, x):
    same(jax.jit(lambda x: added(x * 2, x) + 1)(x), x * 2 + x + 1)


def test_program_holds_a_custom_call_and_no_callback(x):
    text = jax.jit(added).lower(x, x).as_text()
    assert "@nereid_jax_cpu" in text and 'kernel = "add"' in text and "callback" not in text


def test_compiles_when_it_is_lowered_and_not_again(x):
    launches = []
    jitted = jax.jit(lambda x: launches.append(1) or added(x, x))
    lowered = jitted.lower(x).compile()
    same(lowered(x), x + x)
    jitted(x), jitted(x)
    assert len(launches) == 1


@pytest.mark.parametrize("name", [name for name in DTYPES if name not in ("int64", "uint64", "float64")])
def test_dtypes(device, name):
    values = jnp.asarray(np.random.default_rng(1).integers(0, 2 if name == "bool" else 7, 300)).astype(name)

    def copied(values):
        return nereid.jax.call(copy, values, out_shape=like(values), grid=(2, ), n=300, BLOCK=256)

    for f in (copied, jax.jit(copied)):
        got = f(values)
        assert got.dtype == values.dtype
        same(got.astype(jnp.float32), values.astype(jnp.float32))


@pytest.mark.parametrize("name", ["int64", "uint64", "float64"])
def test_wide_dtypes(device, name):
    with jax.enable_x64(True):
        values = jnp.arange(300).astype(name) * 2**40
        got = jax.jit(lambda v: nereid.jax.call(copy, v, out_shape=like(v), grid=(2, ), n=300, BLOCK=256))(values)
        assert got.dtype == values.dtype
        same(got, values)


def test_results_have_the_structure_of_out_shape(device, x):
    y = x[::-1].copy()
    grid, given = (4, ), {"n": 1000, "BLOCK": 256}
    for kind in (list, tuple):
        outs = nereid.jax.call(sum_and_difference, x, y, out_shape=kind([like(x), like(x)]), grid=grid, **given)
        assert type(outs) is kind
        same(outs[0], x + y), same(outs[1], x - y)
    outs = nereid.jax.call(sum_and_difference, x, y, out_shape={"difference": like(x), "total": like(x)}, grid=grid, **given)
    assert list(outs) == ["difference", "total"]
    same(outs["total"], x + y), same(outs["difference"], x - y)


def test_inputs_by_name_and_outputs_between_them(device, x):
    # Positional inputs pass over an output that is named.
    same(nereid.jax.call(add, x, x, 1000, out_shape={"out": like(x)}, grid=(4, ), BLOCK=256)["out"], x + x)
    same(nereid.jax.call(add, y=x, x=2 * x, out_shape=like(x), grid=(4, ), n=1000, BLOCK=256), 3 * x)


def test_numbers(device):
    out = jax.ShapeDtypeStruct((5, ), jnp.float32)
    for whole, real, flag, big in ((7, 0.5, True, 2**40 + 3), (1, -2.0, False, 2**63 + 5), (np.int32(16), np.float32(1.5), np.bool_(True), np.int64(9))):
        got = jax.jit(lambda: nereid.jax.call(numbers, out_shape={"out": out}, grid=1, whole=whole, real=real, flag=flag, nothing=None, big=big))()
        same(got["out"], np.array([whole, real, flag, int(big) % 1000, 1], np.float32))


def test_defaults(device):
    values = np.arange(8, dtype=np.float32)
    f = jax.jit(lambda x: nereid.jax.call(with_defaults, x, out_shape=like(x), grid=lambda a: a["BLOCK"] // 8))
    same(f(values), 3 * values)
    same(nereid.jax.call(with_defaults, values, out_shape=like(values), grid=1, factor=-1.0), -values)


def test_equal_numbers_of_other_types_are_other_calls(device):
    out = jax.ShapeDtypeStruct((5, ), jnp.float32)
    for value in (1, True, 1.0):
        got = nereid.jax.call(numbers, out_shape={"out": out}, grid=1, whole=value, real=value, flag=value, nothing=None, big=5)
        same(got["out"], [1, 1, 1, 5, 1])


def test_zeros_of_both_signs_are_other_calls():
    out = {"out": jax.ShapeDtypeStruct((1, ), jnp.float32)}
    for _ in range(2):
        for value in (0.0, -0.0):
            for got in (nereid.jax.call(store_constant, out_shape=out, grid=(1, ), VALUE=value)["out"],
                        jax.jit(lambda: nereid.jax.call(store_constant, out_shape=out, grid=(1, ), VALUE=value)["out"])(),
                        nereid.jax.call(with_defaults, np.ones(8, np.float32), out_shape=jax.ShapeDtypeStruct((8, ), jnp.float32), grid=(1, ), factor=value)[:1]):
                np.testing.assert_array_equal(np.signbit(got), [value.hex()[0] == "-"])


def test_calls_outside_of_jit_follow_changes_of_text_and_settings():
    """Each change is followed by the next call, and going back to the former state gives the former result."""
    called = lambda kernel: float(nereid.jax.call(kernel, out_shape={"out": jax.ShapeDtypeStruct((1, ), jnp.float32)}, grid=(1, ))["out"][0])
    kernel = changing.__copy__()
    assert called(kernel) == 1
    before = kernel.src
    kernel._unsafe_update_src(before.replace("1.0", "4.0"))
    assert called(kernel) == 4
    kernel._unsafe_update_src(before)
    assert called(kernel) == 1
    x = np.zeros(16, jnp.bfloat16)
    release = lambda: int(nereid.jax.call(maximum_is_bf16, x, out_shape=jax.ShapeDtypeStruct((1, ), jnp.int32), grid=(1, ))[0])
    assert release() == 0
    with nereid.knobs.nereid.scope():
        nereid.knobs.nereid.triton_version = "3.9"
        assert release() == 1
    assert release() == 0


def test_array_of_rank_0_is_an_address(device, x):
    f = jax.jit(lambda x, factor: nereid.jax.call(scale_by_loaded, x, factor, out_shape=like(x), grid=(4, ), n=1000, BLOCK=256))
    same(f(x, 3.0), x * np.float32(3))
    same(f(x, jnp.float32(-1)), -x)


def test_grids(device):
    out = jax.ShapeDtypeStruct((24, ), jnp.int32)
    expected = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    same(nereid.jax.call(places, out_shape=out, grid=(2, 3, 4)), expected)
    same(nereid.jax.call(places, out_shape=out, grid=lambda a: (2, 3, a["out"].shape[0] // 6)), expected)
    same(nereid.jax.call(places, out_shape=jax.ShapeDtypeStruct((3, ), jnp.int32), grid=np.int64(3)), [0, 1, 2])


def test_no_elements_and_no_programs(device):
    empty = jnp.zeros((0, 4))
    assert added(empty, empty).shape == (0, 4)


def test_in_place(device, x):
    array = jnp.asarray(x)
    same(jax.jit(scaled)(array), x * np.float32(2.5))
    same(array, x)  # arrays do not change
    same(jax.jit(lambda x: scaled(x) + x)(array), x * np.float32(2.5) + x)
    by_name = nereid.jax.call(scale, array, out_shape={"x": like(array)}, grid=(4, ), input_output_aliases={"x": "x"}, factor=3.0, n=1000, BLOCK=256)
    same(by_name["x"], x * np.float32(3))


def test_shared_memory_with_a_parameter_of_its_own(device, x):
    got = jax.jit(lambda x: nereid.jax.call(add, x, x, out_shape={"out": like(x)}, grid=(4, ), input_output_aliases={"x": "out"}, n=1000, BLOCK=256))(x)
    same(got["out"], x + x)


def test_donated_memory_is_reused(device, x):
    array = jax.device_put(jnp.asarray(x) + 0, device)
    address = array.unsafe_buffer_pointer()
    got = jax.jit(scaled, donate_argnums=0)(array)
    assert array.is_deleted() and got.unsafe_buffer_pointer() == address
    same(got, x * np.float32(2.5))


def test_scan_cond_and_while(device, x):
    last, sums = jax.jit(lambda x: jax.lax.scan(lambda c, _: (scaled(c, 0.5), added(c, c).sum()), x, None, length=5))(x)
    same(last, x * np.float32(0.5**5))
    np.testing.assert_allclose(sums, [2 * x.sum() * 0.5**i for i in range(5)], rtol=1e-4)
    chosen = jax.jit(lambda flag, x: jax.lax.cond(flag, lambda x: scaled(x), lambda x: added(x, x), x))
    same(chosen(True, x), x * np.float32(2.5)), same(chosen(False, x), x + x)
    same(jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda i, x: scaled(x, 2.0), x))(x), x * 16)


def test_vmap(device, x):
    rows = x.reshape(5, 200)
    with pytest.raises(NotImplementedError, match='add: `vmap` cannot batch a kernel: let a dimension of its grid run over the batch, or give `vmap_method="sequential"`'):
        jax.vmap(added)(rows, rows)
    sequential = jax.jit(jax.vmap(lambda x, y: added(x, y, vmap_method="sequential"), in_axes=(0, None)))
    same(sequential(rows, rows[0]), rows + rows[0])
    same(jax.vmap(lambda x, y: added(x, y, vmap_method="sequential"), in_axes=(1, 0), out_axes=1)(rows.T, rows), 2 * rows.T)
    twice = jax.vmap(jax.vmap(lambda x, y: added(x, y, vmap_method="sequential")))
    same(twice(x.reshape(2, 5, 100), x.reshape(2, 5, 100)), 2 * x.reshape(2, 5, 100))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_each_device_runs_its_part(x, kind, check):
    mesh = jax.make_mesh((4, ), ("i", ), axis_types=(kind, ), devices=jax.devices("cpu"))
    split = jax.device_put(x, NamedSharding(mesh, P("i")))
    programs = jax.jit(jax.shard_map(lambda x: added(x, jnp.full(250, jax.lax.axis_index("i"), jnp.float32)), mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check))
    got = programs(split)
    assert got.sharding.spec == P("i")
    same(got, x + np.repeat(np.arange(4, dtype=np.float32), 250))
    total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(scaled(x).sum(), "i"), mesh=mesh, in_specs=P("i"), out_specs=P(), check_vma=check))(split)
    np.testing.assert_allclose(total, 2.5 * x.sum(), rtol=1e-4)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_outside_of_shard_map_operands_are_gathered(x, kind):
    mesh = jax.make_mesh((4, ), ("i", ), axis_types=(kind, ), devices=jax.devices("cpu"))
    split = jax.device_put(x, NamedSharding(mesh, P("i")))
    with jax.set_mesh(mesh):
        same(jax.jit(lambda x: added(x, x) * 2)(split), x * 4)


def test_threads_and_devices_at_once(x):
    """Handlers run on XLA's threads, several at once, beside the threads of kernels."""
    mesh = jax.make_mesh((4, ), ("i", ), axis_types=(AxisType.Auto, ), devices=jax.devices("cpu"))
    large = np.tile(x, 400)
    split = jax.jit(jax.shard_map(lambda x: scaled(added(x, x), 0.5), mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    whole = jax.jit(lambda x: added(scaled(x, 4.0), added(x, x)))
    split(large), whole(large)
    wrong = []

    def run():
        for _ in range(10):
            if not (np.asarray(split(large)) == large).all() or not (np.asarray(whole(large)) == large * 6).all():
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_programs_that_wait_for_one_another():
    """Four devices at once, from several threads: each launch has threads enough to end."""
    mesh = jax.make_mesh((4, ), ("i", ), axis_types=(AxisType.Auto, ), devices=jax.devices("cpu"))
    out = jax.ShapeDtypeStruct((16, ), jnp.int32)

    def relayed(flags):
        return nereid.jax.call(relay, flags, out_shape={"out": out, "flags": out}, grid=(16, ), input_output_aliases={"flags": "flags"})["out"]

    programs = jax.jit(jax.shard_map(relayed, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
    expected = np.tile(np.arange(1, 17), 4)
    wrong = []

    def run():
        for _ in range(5):
            if not (np.asarray(programs(np.zeros(64, np.int32))) == expected).all():
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_jit(x):
    with jax.disable_jit():
        same(jax.jit(lambda x: added(x * 2, x) + 1)(x), x * 2 + x + 1)


def test_shapes_without_lowering(x):
    def refused(x):
        raise AssertionError("compiled")

    kernel = nereid.jit(add.fn)
    kernel._launch = refused
    f = lambda x: nereid.jax.call(kernel, x, x, out_shape=like(x), grid=(4, ), n=1000, BLOCK=256)  # noqa: E731
    assert jax.eval_shape(f, x).shape == (1000, ) and "nereid_call" in str(jax.make_jaxpr(f)(x))


def test_one_thread(x):
    """`num_threads` is an option of the launch."""
    same(jax.jit(lambda x: added(x, x, num_threads=1))(x), x + x)


def test_options_of_the_compiler(device, x):
    same(added(x, x, num_warps=2, num_stages=1), x + x)


def test_runs_after_the_cache_of_the_function_was_cleared(x):
    jitted = jax.jit(lambda x: added(x, x))
    jitted(x)
    add._clear_cache()
    same(jitted(x), x + x)


def test_failed_assertion_is_an_error_of_the_program():
    f = jax.jit(lambda x: nereid.jax.call(asserting, x, out_shape=like(x), grid=(1, ), debug=True))
    same(f(jnp.ones(1)), [1])
    with pytest.raises(FAILED, match="expected a positive number"):
        f(-jnp.ones(1)).block_until_ready()
    same(f(jnp.ones(1)), [1])


def test_failed_assertion_in_a_process_of_its_own(device):
    """On a GPU no call of a process works after a failed assertion."""
    code = """
        import os
        import jax, jax.numpy as jnp
        import nereid.jax
        from jax_kernels import asserting

        f = jax.jit(lambda x: nereid.jax.call(asserting, x, out_shape=x, grid=(1, ), debug=True))
        print(float(f(jnp.ones(1))[0]), flush=True)
        try:
            f(-jnp.ones(1)).block_until_ready()
        except (ValueError, jax.errors.JaxRuntimeError) as error:
            print("refused", error, flush=True)
        os._exit(0)  # JAX's own end needs the GPU
    """
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *filter(None, sys.path)])
    platforms = "cpu" if device.platform == "cpu" else "cuda,cpu"
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": platforms})
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0] == "1.0" and lines[1].startswith("refused "), done.stdout + done.stderr
    assert "expected a positive number" in (done.stdout if device.platform == "cpu" else done.stderr), done.stdout + done.stderr


def test_checked_mode(x):
    f = jax.jit(lambda x: nereid.jax.call(copy, x, out_shape=like(x), grid=(4, ), n=1100, BLOCK=256, checked=True))
    with pytest.raises(FAILED, match="`x`"):
        f(x).block_until_ready()
    same(jax.jit(lambda x: nereid.jax.call(copy, x, out_shape=like(x), grid=(4, ), n=1000, BLOCK=256, checked=True))(x), x)


def test_kernels_of_tangents(device, x):
    j = nereid.jvp(add, wrt=("x", "y"), out=("out", ))
    outs = nereid.jax.call(j, x, x, out_shape={"out": like(x), "dout": like(x)}, grid=(4, ), n=1000, BLOCK=256, dx=2 * x, dy=3 * x)
    same(outs["out"], x + x), same(outs["dout"], 2 * x + 3 * x)
