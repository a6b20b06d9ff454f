"""The CUDA side without a GPU: programs lowered for CUDA, and the handler called as XLA does, with the stand-in for NVIDIA's driver (tests/unit/runtime/fake_cuda.c)."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import jax
import pytest

HERE = pathlib.Path(__file__).parent
FAKE = HERE.parent / "unit" / "runtime" / "fake_cuda.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-22")
pytestmark = [pytest.mark.timeout(300), pytest.mark.skipif(COMPILER is None, reason="the stand-in for the driver is written in C: install a C compiler, such as gcc")]

PRELUDE = """
    import ctypes, os, re
    import jax, jax.numpy as jnp
    import nereid, nereid.jax
    from nereid.jax import _library
    from jax_kernels import add, copy, scale, softmax

    fake = ctypes.CDLL(os.environ["NEREID_LIBCUDA"])
    fake.fake_record.restype = ctypes.c_char_p
    frame = ctypes.CDLL(os.environ["CALL_FRAME"])
    frame.call_handler.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_int,
                                   ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t]
    x = jnp.zeros(1000)

    def lowered(f, *args):
        return jax.jit(f).trace(*args).lower(lowering_platforms=("cuda", )).as_text()

    def added(x):
        return nereid.jax.call(add, x, x, out_shape=x, grid=(nereid.cdiv(x.size, 256), 2), n=x.size, BLOCK=256, num_warps=8)

    def ids(text):
        return [int(number) for number in re.findall(r"\\bid = (-?\\d+) : i64", text)]

    def handled(number, name, operands, results, stream=0xABC0, device=0, params=4):
        handler = ctypes.cast(_library.load().nereid_jax_cuda, ctypes.c_void_p)
        text = ctypes.create_string_buffer(2000)
        addresses = (ctypes.c_uint64 * 16)(*operands, *results)
        fake.fake_reset()
        fake.fake_params(params)
        failed = frame.call_handler(handler, stream, device, number, name, addresses, len(operands), len(results), 1000, text, 2000)
        if failed:
            return text.value.decode()
        return [line for line in fake.fake_record().decode().splitlines() if "launch" in line][-1]
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuda")
    fake, frame = str(folder / "libcuda.so.1"), str(folder / "call_frame.so")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", fake, str(FAKE)], check=True)
    subprocess.run([COMPILER, "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}", "-o", frame, str(HERE / "call_frame.c")], check=True)
    return {"NEREID_LIBCUDA": fake, "CALL_FRAME": frame}


@pytest.fixture
def run(libraries, tmp_path):

    def run(code):
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(PRELUDE) + textwrap.dedent(code))
        environment = {name: value for name, value in os.environ.items() if name != "NEREID_TARGET"}
        path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, env={**environment, **libraries, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def test_lowering_compiles_for_the_gpu(run):
    text, stages = run("""
        text = lowered(added, x)
        print("@nereid_jax_cuda" in text, "@nereid_jax_cpu" in text, len(ids(text)))
        from nereid.jax._call import _copy_of
        print([sorted(kernel.asm)[0] for kernel in _copy_of(add)._kernels()], [kernel.metadata.target.arch for kernel in _copy_of(add)._kernels()],
              [kernel.metadata.num_warps for kernel in _copy_of(add)._kernels()])
    """)
    assert text == "True False 1"
    assert stages == "['cubin'] [90] [8]"


def test_launches_on_the_stream_and_device_of_the_call(run):
    lines = run("""
        number, = ids(lowered(added, x))
        for stream, device in ((0xABC0, 0), (0xDEF0, 0), (0xABC0, 1)):
            print(handled(number, b"add", [0x10000, 0x20000], [0x30000], stream, device))
        print(handled(number, b"add", [0x10000, 0x20000], [0x30000]))
    """)
    expected = "launch on {} grid 4,2,1 block 256,1,1 shared 0 stream 0x{} params 10000 20000 30000 3e8"
    assert lines == [expected.format(*each) for each in ((0, "abc0"), (0, "def0"), (1, "abc0"), (0, "abc0"))]


def test_arguments_reach_the_kernel(run):
    line, swapped = run("""
        number, = ids(lowered(added, x))
        print(handled(number, b"add", [0x10000, 0x20000], [0x30000]))
        print(handled(number, b"add", [0x20000, 0x10000], [0x40000]))
    """)
    assert "10000 20000 30000 3e8" in line and "20000 10000 40000 3e8" in swapped


def test_shared_memory_is_one_argument(run):
    text, line = run("""
        text = lowered(lambda x: nereid.jax.call(scale, x, out_shape=x, grid=(4, ), input_output_aliases={0: 0}, factor=2.5, n=1000, BLOCK=256), x)
        print("output_operand_alias" in text)
        print(handled(ids(text)[0], b"scale", [0x10000], [0x10000], params=3))
    """)
    assert text == "True" and "10000 40200000 3e8" in line  # 2.5 as fp32


def test_errors(run):
    missing, wrong, misaligned, failed = run("""
        number, = ids(lowered(added, x))
        print(handled(12345, b"other", [0x10000], [0x10000]))
        print(handled(number, b"add", [0x10000], [0x30000]))
        print(handled(number, b"add", [0x10004, 0x20000], [0x30000]))
        handler = ctypes.cast(_library.load().nereid_jax_cuda, ctypes.c_void_p)
        handled(number, b"add", [0x10000, 0x20000], [0x30000])
        text = ctypes.create_string_buffer(2000)
        fake.fake_fail(b"cuLaunchKernel", 700)
        failed = frame.call_handler(handler, 0, 0, number, b"add", (ctypes.c_uint64 * 3)(0x10000, 0x20000, 0x30000), 2, 1, 1000, text, 2000)
        print(failed, text.value.decode().splitlines()[0])
    """)
    assert missing == ("5: nereid.jax: the kernel `other` is not loaded in this process: trace the function that calls it here; exported programs do not carry kernels")
    assert wrong == "3: nereid.jax: `add` has 2 operands and 1 results, found 1 and 1"
    assert misaligned == ("3: nereid.jax: XLA placed `x` of `add` at an address that is no multiple of 16, for which it was compiled: name the parameter in "
                          "`do_not_specialize_on_alignment` of its `@jit`")
    assert failed.startswith("1 ") and "add" in failed


def test_alignment_is_not_needed_where_the_kernel_says_so(run):
    line, = run("""
        unaligned = nereid.jit(add.fn, do_not_specialize_on_alignment=["x", "y", "out"])
        number, = ids(lowered(lambda x: nereid.jax.call(unaligned, x, x, out_shape=x, grid=(4, 2), n=1000, BLOCK=256), x))
        print(handled(number, b"add", [0x10004, 0x20000], [0x30000]))
    """)
    assert "10004 20000 30000" in line


def test_may_be_recorded_into_graphs(run):
    assert run("""
        frame.traits_of.restype = ctypes.c_int64
        frame.traits_of.argtypes = [ctypes.c_void_p]
        print([frame.traits_of(ctypes.cast(getattr(_library.load(), name), ctypes.c_void_p)) for name in ("nereid_jax_cuda", "nereid_jax_cpu")])
    """) == ["[1, 0]"]


def test_backward_pass_for_the_gpu(run):
    assert run("""
        soft = nereid.jax.autograd(softmax, wrt="x", out="out", grid=lambda a: (a["x"].shape[0], ), arguments={"columns": lambda a: a["x"].shape[1], "BLOCK": 64})
        text = lowered(jax.value_and_grad(lambda x: soft(x).sum()), jnp.zeros((4, 50)))
        print(text.count("@nereid_jax_cuda"), len(set(ids(text))))
    """) == ["2 2"]


def test_other_platforms_are_refused(run):
    assert run("""
        try:
            jax.jit(added).trace(x).lower(lowering_platforms=("tpu", ))
        except NotImplementedError as error:
            print(error)
    """) == ["nereid.jax.call: `add` cannot run on tpu: kernels run on the CPU and on NVIDIA GPUs"]
