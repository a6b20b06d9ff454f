"""Tensors are read by PyTorch's C interface, not by its Python objects: a launch sees them as they are at that moment.

Each kind is read twice at least: the first tensor of a class and dtype goes another way than the later ones.
"""

import os
import pathlib
import subprocess
import sys
import textwrap

import nereid
import nereid.language as tl
import pytest
import torch
from fake_driver import LAUNCHES, fake, needs_compiler, run  # noqa: F401  (`fake` is a fixture)
from nereid import _native

DTYPES = {
    torch.bool: "i1", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32",
    torch.float64: "fp64", torch.float8_e5m2: "fp8e5", torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2fnuz: "fp8e5b16",
    torch.float8_e4m3fnuz: "fp8e4b8"
}


def read(tensor):
    return _native.pointer(tensor)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cls", [torch.Tensor, torch.nn.Parameter])
def test_dtypes_and_classes(dtype, cls):
    tensors = [torch.zeros(size).to(dtype) for size in (5, 6, 7)]
    if cls is torch.nn.Parameter:
        tensors = [torch.nn.Parameter(tensor, requires_grad=False) for tensor in tensors]
    assert [read(tensor) for tensor in tensors] == [(DTYPES[dtype], tensor.data_ptr()) for tensor in tensors]
    views = [tensor[3:] for tensor in tensors]
    assert [read(view) for view in views] == [(DTYPES[dtype], view.data_ptr()) for view in views]


def test_a_tensor_that_changes():
    tensor, other = torch.zeros(4), torch.ones(1000)
    for _ in range(3):
        assert read(tensor) == ("fp32", tensor.data_ptr())
    before = tensor.data_ptr()
    tensor.resize_(100_000)
    assert tensor.data_ptr() != before and read(tensor) == ("fp32", tensor.data_ptr())
    tensor.set_(other[8:])
    assert read(tensor) == ("fp32", other.data_ptr() + 32)
    tensor.data = torch.zeros(3, dtype=torch.bfloat16)
    assert read(tensor) == ("bf16", tensor.data_ptr())
    tensor.data = torch.zeros(0)
    assert read(tensor) == ("fp32", 0)
    layer = torch.nn.Linear(4, 4)
    for weight in (layer.weight, layer.half().weight, layer.double().weight):
        assert weight is layer.weight and read(weight) == (DTYPES[weight.dtype], weight.data_ptr())


def test_another_tensor_in_its_place():
    for size in range(1, 200):
        tensor = torch.zeros(size, dtype=(torch.float32, torch.int8)[size % 2])
        assert read(tensor) == (("fp32", "i8")[size % 2], tensor.data_ptr())
        del tensor  # the next one's Python object often gets its address


@nereid.jit
def put(out, at, BLOCK: tl.constexpr):
    i = at + tl.arange(0, BLOCK)
    tl.store(out + i, 7)


@pytest.mark.cpu_only("checked mode")
@pytest.mark.parametrize("make", [
    lambda base: base, lambda base: base[4:12], lambda base: base[::3], lambda base: base.view(4, 16).t()[2:5],
    lambda base: base.view(4, 16)[1:3, 5:7], lambda base: base[:1].expand(50), lambda base: base[9], lambda base: base[64:],
    lambda base: base[:0], lambda base: base.view(2, 2, 16).movedim(0, 2)[1]
])
def test_extents(target, make):
    """The bytes that may be touched, by which checked mode judges."""
    base = torch.zeros(64)
    for _ in range(2):
        view = make(base)
        reach = sum((size - 1) * stride for size, stride in zip(view.shape, view.stride())) if view.numel() else -1
        if reach >= 0:
            put[(1, )](view, reach, 1, checked=True)
            assert base[view.storage_offset() + reach] == 7
        with pytest.raises(Exception, match="out of bounds|outside"):
            put[(1, )](view, reach + 1, 1, checked=True)


@pytest.mark.cpu_only("checked mode")
def test_a_tensor_that_grows_in_checked_mode(target):
    out = torch.zeros(4)
    put[(1, )](out, 0, 4, checked=True)
    out.resize_(64)
    put[(1, )](out, 60, 4, checked=True)
    assert (out[60:] == 7).all()
    out.resize_(4)
    with pytest.raises(Exception, match="out of bounds|outside"):
        put[(1, )](out, 60, 4, checked=True)


class Hidden(torch.Tensor):
    """A subclass may hide where its data is: it is asked."""

    def data_ptr(self):
        return super().data_ptr() + 8


def test_subclasses_are_asked():
    tensor = torch.zeros(8)
    for _ in range(2):
        assert read(tensor.as_subclass(Hidden)) == ("fp32", tensor.data_ptr() + 8)


@pytest.mark.parametrize("make, error", [(lambda: torch.zeros(4, device="meta"), "is on device meta"),
                                         (lambda: torch.zeros(4, dtype=torch.complex64), "elements of type torch.complex64"),
                                         (lambda: torch.zeros(4).to_sparse(), ".")])
def test_what_kernels_cannot_take(make, error):
    read(torch.zeros(4))
    read(torch.zeros(4))
    for _ in range(2):
        with pytest.raises(Exception, match=error):
            read(make())


def test_lazy_copies_are_made():
    """A copy that PyTorch puts off until someone writes: a kernel may."""
    original = torch.ones(16)
    copies = [torch._lazy_clone(original) for _ in range(2)]
    for copy in copies:
        assert read(copy) == ("fp32", copy.data_ptr()) and copy.data_ptr() != original.data_ptr()


LIES = {
    "an address": "int aoti_torch_get_data_ptr(void *tensor, void **out) { *out = (void *)4096; return 0; }",
    "a device": "int aoti_torch_get_device_type(void *tensor, int *out) { *out = 1; return 0; }",
    "a rank": "int aoti_torch_get_dim(void *tensor, long *out) { *out = 0; return 0; }",
    "nothing": "int aoti_torch_get_sizes(void *tensor, long **out) { return 1; }",
    "the truth": "int nothing_to_see;",
}


@pytest.mark.parametrize("lie", LIES)
def test_an_interface_that_does_not_agree(lie, tmp_path):
    """Where the quick way says something else than DLPack, DLPack is believed, now and later."""
    (tmp_path / "lie.c").write_text(LIES[lie])
    library = tmp_path / "lie.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", str(tmp_path / "lie.c"), "-o", str(library)], check=True)
    script = f"""
        import ctypes, torch
        ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)
        from nereid import _native
        for size in range(1, 6):
            for tensor in (torch.zeros(size), torch.zeros(size).half(), torch.nn.Parameter(torch.zeros(size))):
                assert _native.pointer(tensor)[1] == tensor.data_ptr() != 0
        print("read")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, cwd=pathlib.Path.cwd())
    assert done.stdout == "read\n", done.stderr


STREAMS = """
#include <stdint.h>
struct Api { uint32_t major, minor; void *functions[5]; int (*stream)(int32_t, int32_t, void **); };
static struct Api changed;
uintptr_t one = 0x77, other = 0x77;
int fails = 0, refuses = 0;
extern void PyErr_SetString(void *, const char *);
extern void *PyExc_RuntimeError;
static int current(int32_t type, int32_t device, void **out) {
  *out = (void *)one;
  if (refuses)
    PyErr_SetString(PyExc_RuntimeError, "no GPU");
  return refuses;
}
int aoti_torch_get_current_cuda_stream(int32_t device, void **out) { *out = (void *)other; return fails; }
void *table(struct Api *real) { changed = *real; changed.stream = current; return &changed; }
"""


def changed_streams(folder):
    """The beginning of a program: both ways of PyTorch to ask for the current stream are those of STREAMS, whose variables `set` changes."""
    (folder / "streams.c").write_text(STREAMS)
    library = folder / "streams.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", str(folder / "streams.c"), "-o", str(library)], check=True)
    return textwrap.dedent(f"""
        import ctypes, torch
        streams = ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)
        streams.table.restype, streams.table.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        table = streams.table(get(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))
        torch.Tensor.__dlpack_c_exchange_api__ = new(table, b"dlpack_exchange_api", None)

        def set(name, value):
            (ctypes.c_int if name in ("fails", "refuses") else ctypes.c_size_t).in_dll(streams, name).value = value

        from nereid import _native
        _native.pointer(torch.zeros(3))
    """)


@pytest.mark.parametrize("first, taken", [("one = 0x77", 0x99), ("other = 0x11", 0x88), ("fails = 1", 0x88)])
def test_the_current_stream(first, taken, tmp_path):
    """PyTorch has two ways to ask for it: the shorter one is taken where both said the same, and the other one where it fails."""
    name, value = first.split(" = ")
    script = changed_streams(tmp_path) + textwrap.dedent(f"""
        set({name!r}, {value})
        print(_native.current_stream(0))
        set("one", 0x88), set("other", 0x99), set("fails", 0)
        print(_native.current_stream(0))
        set("fails", 1)
        print(_native.current_stream(0))
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=pathlib.Path.cwd())
    assert done.stdout.split() == [str(0x77), str(taken), str(0x88)], done.stdout + done.stderr


@needs_compiler
def test_pytorch_finds_no_gpu(fake, tmp_path):
    """Its CUDA build on a driver that is too old for it, but not for us: it raises an exception when it is asked for a stream, also in a launch, which has given the interpreter's lock back."""
    launches = """
        set("fails", 1), set("refuses", 1)
        print([record(launch(Array("cuda:0"), 8)).count("launch") for _ in range(3)])
        set("refuses", 0)
        print(record(launch(Array("cuda:0"), 8)).count("launch"), _native.current_stream(0))
    """
    lines = run(textwrap.dedent(LAUNCHES) + changed_streams(tmp_path) + textwrap.dedent(launches), tmp_path, NEREID_LIBCUDA=fake)
    assert lines == ["[1, 1, 1]", f"1 {0x77}"]
