"""`triton.tools`: four-bit floats, ragged arrays, machine code as text."""

import os
import shutil
import sysconfig

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid import _signature
from nereid.tools import disasm
from nereid.tools.compile import _grid
from nereid.tools.mxfp import MXFP4Tensor, MXScaleTensor
from nereid.tools.ragged_tma import atomic_add_ragged, create_ragged_descriptor, load_ragged, store_ragged

FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_fp4_values_and_rounding():
    every = MXFP4Tensor(data=torch.tensor(FP4 + [-float(v) for v in FP4]))
    assert every.data.tolist() == list(range(16)) and every.to(torch.float32).tolist() == FP4 + [-v for v in FP4]
    given = torch.tensor([0.25, 0.2501, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 5.01, 100.0, -np.inf, -0.75])
    assert MXFP4Tensor(data=given).to(torch.float32).tolist() == [0, 0.5, 1, 1, 2, 2, 4, 4, 6, 6, -6, -1]
    with pytest.raises(ValueError, match="e2m1 has no NaN"):
        MXFP4Tensor(data=torch.tensor([np.nan]))
    with pytest.raises(AssertionError, match="Currently only float32 is supported"):
        every.to(torch.float16)
    with pytest.raises(ValueError, match="Either parameter data or size must be provided"):
        MXFP4Tensor()


@pytest.mark.parametrize("shape", [(4, 6), (3, 5), (2, 3, 7)])
def test_fp4_packing(shape):
    tensor = MXFP4Tensor(size=shape).random()
    for dim in range(len(shape)):
        packed = tensor.to_packed_tensor(dim)
        assert packed.shape[dim] == (shape[dim] + 1) // 2
        first, second = (tensor.data.index_select(dim, torch.tensor([i])) for i in (0, 1))
        assert torch.equal(packed.narrow(dim, 0, 1), first | second << 4)
        assert torch.equal(tensor.unpack_packed_tensor(packed, dim, shape), tensor.data)


def test_scales():
    given = torch.tensor([1.0, 2.0, 3.0, 0.7, 6.0, 1e-40, 0.0, -1.0, np.nan, np.inf])
    scales = MXScaleTensor(data=given)
    assert scales.data.tolist() == [127, 128, 128, 126, 129, 0, 255, 255, 255, 255]
    every = MXScaleTensor(size=(256, ))
    every.data = torch.arange(256, dtype=torch.uint8)
    assert every.to(torch.float32)[:255].tolist() == [2.0**(i - 127) for i in range(255)] and every.to(torch.float32)[255].isnan()
    some = MXScaleTensor(size=(100, )).random(low=0.5, high=4.0).to(torch.float32)
    assert set(some.tolist()) <= {0.5, 1.0, 2.0, 4.0}


@nereid.jit
def copy_batch(source, destination, offset, size, ROWS: tl.constexpr):
    for row in range(0, ROWS, 4):
        block = load_ragged(source, offset, size, [row, 0])
        store_ragged(destination, offset, size, [row, 0], block + 1)


@nereid.jit
def add_batch(destination, offset, size):
    atomic_add_ragged(destination, offset, size, [0, 0], tl.full((8, 16), 2.0, tl.float32))


def test_ragged_arrays(target):
    source = torch.arange(20 * 16, dtype=torch.float32).reshape(20, 16)
    destination = torch.zeros_like(source)
    if target == "cuda":
        source, destination = source.cuda(), destination.cuda()
    reads, writes = (create_ragged_descriptor(t, [4, 16]) for t in (source, destination))
    copy_batch[(1, )](reads, writes, 3, 6, ROWS=8)
    assert torch.equal(destination[3:9], source[3:9] + 1) and not destination[:3].any() and not destination[9:].any()
    add_batch[(1, )](create_ragged_descriptor(destination, [8, 16]), 9, 5)
    assert (destination[9:14] == 2).all() and not destination[14:].any()


def test_ragged_dimensions_in_the_middle(target):

    @nereid.jit
    def kernel(source, out, offset, size):
        block = load_ragged(source, offset, size, [1, 0, 0], 1)
        i = tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :]
        tl.store(out + i, tl.reshape(block, (4, 16)))

    source = torch.arange(2 * 10 * 16, dtype=torch.float32).reshape(2, 10, 16)
    out = torch.ones(4, 16)
    if target == "cuda":
        source, out = source.cuda(), out.cuda()
    kernel[(1, )](create_ragged_descriptor(source, [1, 4, 16], ragged_dim=1), out, 2, 3)
    assert torch.equal(out[:3], source[1, 2:5]) and not out[3:].any()


def test_the_last_dimension_is_not_ragged():
    with pytest.raises(AssertionError, match="last dimension cannot be ragged"):
        create_ragged_descriptor(torch.zeros(4, 16), [4, 16], ragged_dim=-1)


def test_control_codes():
    assert disasm.parseCtrl("                 /* 0x000e240000000a00 */") == "--:-:0:-:2"
    assert disasm.parseCtrl("                 /* 0x004fda0003f06270 */") == "04:-:-:Y:d"


@pytest.fixture
def listing(tmp_path, monkeypatch):
    """A `cuobjdump` that prints a listing."""
    text = """
\t\tFunction : k
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   S2R R5, SR_TID.X ;     /* 0x0000000000057919 */
                                                          /* 0x000e240000002100 */
        /*0010*/              @!P0 BRA 0x0 ;              /* 0xfffffffc00000947 */
                                                          /* 0x000fea000383ffff */
""".replace("\\t", "\t")
    program = tmp_path / "cuobjdump"
    program.write_text(f"#!/bin/sh\nif [ \"$1\" = --version ]; then echo release 13.0,; exit; fi\n"
                       f"[ \"$1 $2 $3\" = '-sass -fun none' ] && {{ echo no function >&2; exit 3; }}\ncat <<'X'\n{text}X\n")
    program.chmod(0o755)
    monkeypatch.setenv("TRITON_CUOBJDUMP_PATH", str(program))


def test_machine_code(listing):
    assert disasm.path_to_cuobjdump()[1] == "13.0"
    assert disasm.get_sass(b"cubin").splitlines() == [
        "Function:k", "LBB0:", "--:-:0:-:2\tS2R R5, SR_TID.X;", "--:-:-:-:5\t@!P0 BRA LBB0;"
    ]
    with pytest.raises(RuntimeError, match="cuobjdump` failed: no function"):
        disasm.get_sass(b"cubin", "none")


def test_declarations_of_a_library(tmp_path):
    from nereid.tools import build_extern
    program = tmp_path / "llvm-dis"
    program.write_text("""#!/bin/sh
cat > "$3" <<'X'
define float @__nv_sinf(float %x) #0 {
define double @__nv_sin(double %x) #0 {
define i32 @__nv_umulhi(i32 %x, i32 %y) #0 {
define double @__nv_modf(double %x, ptr %y) #0 {
define internal i32 @other(i32 %x) {
X
""")
    program.chmod(0o755)
    build_extern.build(str(program), "library.bc", "libdevice", str(tmp_path))
    text = (tmp_path / "libdevice.py").read_text()
    compile(text, "libdevice.py", "exec")
    assert text.count("@core.extern") == 2 and "def sin(x, _semantic=None):" in text and "modf" not in text
    assert '(core.dtype("fp32"), ): ("__nv_sinf", core.dtype("fp32")),' in text
    assert '(core.dtype("uint32"), core.dtype("uint32"), ): ("__nv_umulhi", core.dtype("uint32")),' in text
    with pytest.raises(ValueError, match="unknown library 'libother': there is libdevice"):
        build_extern.build(str(program), "library.bc", "libother", str(tmp_path))
    with pytest.raises(RuntimeError, match="there is no program"):
        build_extern.build(str(tmp_path / "missing"), "library.bc", "libdevice", str(tmp_path))


def test_extension_modules_are_compiled_once(tmp_path, monkeypatch):
    from nereid import knobs
    from nereid.runtime.build import compile_module_from_src
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    source = """
#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(ANSWER); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0, 0, 0, 0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "small", "", -1, methods};
PyMODINIT_FUNC PyInit_small(void) { return PyModule_Create(&module); }
"""
    if not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h") or not shutil.which("gcc"):
        pytest.skip("needs gcc and Python.h")
    with knobs.build.scope():
        knobs.build.cc = "gcc"
        assert compile_module_from_src(source, "small", ccflags=["-DANSWER=42"]).answer() == 42
        knobs.build.cc = "false"
        assert compile_module_from_src(source, "small", ccflags=["-DANSWER=42"]).answer() == 42
        with pytest.raises(RuntimeError, match="`false` does not compile small"):
            compile_module_from_src(source, "small", ccflags=["-DANSWER=43"])


def test_texts_with_parts():
    assert _signature.split(" *fp32:16, i32 ,'a,(b', (i32, (1, 2)), 8,") == ["*fp32:16", "i32", "'a,(b'", "(i32, (1, 2))", "8", ""]
    assert _signature.split("tensordesc<fp16[16, 32], nan>, i32") == ["tensordesc<fp16[16, 32], nan>", "i32"]
    assert _signature.split(" ") == []
    assert _grid("(n + 7) >> 3, n < 8, f(1, 2)") == ["(n + 7) >> 3", "n < 8", "f(1, 2)"]
