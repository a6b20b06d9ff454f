"""What can be an argument of a kernel, and the text of the error for what cannot."""

import array
import enum

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch


@nereid.jit
def copy(src, dst, n, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(dst + i, tl.load(src + i * stride, mask=i < n), mask=i < n)


@nereid.jit
def scalar(dst, x):
    tl.store(dst, x)


@nereid.jit
def constant(dst, VALUE: tl.constexpr):
    tl.store(dst, VALUE)


class Mode(enum.IntEnum):
    FAST = 7


# ---- arrays --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                                   "float32", "float64"])
def test_numpy_dtypes(target, dtype):
    src = np.arange(20).astype(dtype)
    dst = np.zeros(20, dtype)
    copy[(1, )](src, dst, 20, 1, BLOCK=32)
    assert np.array_equal(src, dst)


@pytest.mark.parametrize("dtype", [
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2
], ids=str)
def test_torch_dtypes(target, dtype):
    src = torch.arange(20).float().to(dtype)
    dst = torch.zeros(20).to(dtype)
    copy[(1, )](src, dst, 20, 1, BLOCK=32)
    assert torch.equal(src.view(torch.uint8), dst.view(torch.uint8))


def test_parameters_of_modules(target):
    src = torch.nn.Parameter(torch.rand(8))
    dst = torch.zeros(8)
    copy[(1, )](src, dst, 8, 1, BLOCK=8)
    assert torch.equal(src, dst)


def test_subclasses_of_tensors_go_through_data_ptr(target):

    class Wrapped(torch.Tensor):
        asked = 0

        def data_ptr(self):
            Wrapped.asked += 1
            return super().data_ptr()

    src = torch.rand(8).as_subclass(Wrapped)
    dst = torch.zeros(8)
    copy[(1, )](src, dst, 8, 1, BLOCK=8)
    assert torch.equal(torch.Tensor(src), dst) and Wrapped.asked == 1


def test_anything_with_data_ptr_and_dtype(target):

    class Duck:
        dtype = "float32"

        def __init__(self, tensor):
            self.tensor = tensor

        def data_ptr(self):
            return self.tensor.data_ptr()

    src, dst = torch.rand(8, device=target), torch.zeros(8)
    copy[(1, )](Duck(src), dst, 8, 1, BLOCK=8)
    assert torch.equal(src.cpu(), dst)


def test_anything_with_dlpack(target):

    class Producer:

        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self):
            return self.tensor.__dlpack__()

    src, dst = torch.rand(8, device=target), torch.zeros(8)
    copy[(1, )](Producer(src), dst, 8, 1, BLOCK=8)
    assert torch.equal(src.cpu(), dst)


@pytest.mark.cpu_only("buffers are memory of the host")
def test_buffers(target):
    src, dst = array.array("f", range(8)), bytearray(32)
    copy[(1, )](src, memoryview(dst).cast("f"), 8, 1, BLOCK=8)
    assert memoryview(dst).cast("f").tolist() == list(range(8))


def test_strided_views(target):
    base = np.arange(40, dtype=np.float32)
    dst = np.zeros(10, np.float32)
    copy[(1, )](base[::4], dst, 10, 4, BLOCK=16)
    assert np.array_equal(dst, base[::4])
    copy[(1, )](base[::-1], dst, 10, -1, BLOCK=16)
    assert np.array_equal(dst, base[::-1][:10])
    copy[(1, )](np.broadcast_to(base[3:4], (10, )), dst, 10, 0, BLOCK=16)
    assert np.array_equal(dst, np.full(10, 3, np.float32))


@pytest.mark.cpu_only("checked mode is the CPU's")
def test_extent_of_views_in_checked_mode(target):
    base = np.arange(40, dtype=np.float32)
    dst = np.zeros(10, np.float32)
    copy[(1, )](base[::-1], dst, 10, -1, BLOCK=16, checked=True)
    assert np.array_equal(dst, base[::-1][:10])
    with pytest.raises(RuntimeError, match="src"):
        copy[(1, )](base[:5], dst, 10, 1, BLOCK=16, checked=True)


def test_read_only_array_as_input(target):
    src = np.arange(8, dtype=np.float32)
    src.flags.writeable = False
    dst = np.zeros(8, np.float32)
    copy[(1, )](src, dst, 8, 1, BLOCK=8)
    assert np.array_equal(src, dst)


@pytest.mark.cpu_only("arrays of the host say that they are read-only")
def test_read_only_array_as_output_is_refused(target):
    dst = np.zeros(8, np.float32)
    dst.flags.writeable = False
    with pytest.raises(ValueError, match="`dst`.*read-only"):
        copy[(1, )](np.ones(8, np.float32), dst, 8, 1, BLOCK=8)
    assert not dst.any()


def test_reinterpret(target):
    src = torch.arange(8, dtype=torch.int8) - 4
    dst = torch.zeros(8, dtype=torch.int32)
    copy[(1, )](nereid.reinterpret(src, tl.uint8), dst, 8, 1, BLOCK=8)
    assert dst.tolist() == [v % 256 for v in range(-4, 4)]


@pytest.mark.parametrize("value, text", [
    (np.zeros(3, np.complex64), "argument `src`: elements of type complex64 are not supported in kernels"),
    (torch.zeros(3, dtype=torch.complex64), "argument `src`: elements of type torch.complex64 are not supported in kernels"),
    (np.zeros(3, ">f4"), "argument `src`: elements of type >f4 are not supported in kernels"),
    (np.zeros(3, "f4,i4"), "argument `src`: elements of type .* are not supported in kernels"),
    (object(), r"failed to specialize argument of type: object \(argument `src`\)"),
    ("text", r"failed to specialize argument of type: str \(argument `src`\)"),
    ([1, 2], r"failed to specialize argument of type: list \(argument `src`\); pass a tuple"),
    ({}, r"failed to specialize argument of type: dict \(argument `src`\)"),
    (np.int64(3), r"failed to specialize argument of type: numpy.int64 \(argument `src`\); pass a Python number, `x.item\(\)`"),
    (np.float32(3), r"failed to specialize argument of type: numpy.float32 \(argument `src`\); pass a Python number"),
    (torch.float32, r"failed to specialize argument of type: torch.dtype \(argument `src`\)"),
], ids=lambda v: type(v).__name__ if not isinstance(v, str) else None)
def test_unsupported_objects(target, value, text):
    with pytest.raises(TypeError, match=text):
        copy[(1, )](value, np.zeros(3), 3, 1, BLOCK=4)


def test_meta_tensor_is_refused(target):
    with pytest.raises(ValueError, match="argument `src` is on device meta: kernels run on the CPU or on an NVIDIA GPU"):
        copy[(1, )](torch.zeros(3, device="meta"), torch.zeros(3), 3, 1, BLOCK=4)


# ---- numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, -1, 2**31 - 1, 2**31, -2**31, 2**63 - 1, -2**63])
def test_integers_of_64_bits(target, value):
    dst = np.zeros(1, np.int64)
    scalar[(1, )](dst, value)
    assert dst[0] == value


def test_largest_unsigned_integer(target):
    dst = np.zeros(1, np.uint64)
    scalar[(1, )](dst, 2**64 - 1)
    assert dst[0] == 2**64 - 1


@pytest.mark.parametrize("value", [2**64, -2**63 - 1])
def test_too_large_integers(target, value):
    with pytest.raises(OverflowError, match=f"integer to be specialized too large to represent: {value}"):
        scalar[(1, )](np.zeros(1, np.int64), value)


@pytest.mark.parametrize("value", [True, 2.5, np.float64(2.5), Mode.FAST])
def test_other_numbers(target, value):
    dst = np.zeros(1, np.float32)
    scalar[(1, )](dst, value)
    assert dst[0] == float(value)


@pytest.mark.parametrize("value", [3, True, 2.5, np.int64(5), np.float32(0.5), Mode.FAST, tl.constexpr(4)])
def test_constants(target, value):
    dst = np.zeros(1, np.float32)
    constant[(1, )](dst, value)
    assert dst[0] == float(value)


# ---- binding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args, kwargs, text", [
    ((), {}, r"copy\(\) missing 5 required positional arguments: 'src', 'dst', 'n', 'stride', and 'BLOCK'"),
    ((1, 2, 3), {"stride": 1}, r"copy\(\) missing 1 required positional argument: 'BLOCK'"),
    ((1, 2, 3), {}, r"copy\(\) missing 2 required positional arguments: 'stride' and 'BLOCK'"),
    ((1, 2, 3, 4, 5, 6), {}, r"copy\(\) takes 5 positional arguments but 6 were given"),
    ((1, 2, 3), {"n": 4}, r"copy\(\) got multiple values for argument 'n'"),
])
def test_missing_and_surplus_arguments(target, args, kwargs, text):
    with pytest.raises(TypeError, match=text):
        copy[(1, )](*args, **kwargs)


def test_unknown_keyword(target):
    a = np.zeros(1, np.float32)
    with pytest.raises(KeyError, match="Keyword argument numwarps was specified but unrecognised, did you mean `num_warps`"):
        scalar[(1, )](a, 1, numwarps=4)
    with pytest.raises(KeyError, match="Keyword argument something_else was specified but unrecognised"):
        scalar[(1, )](a, 1, something_else=4)


@pytest.mark.parametrize("name", ["device", "device_type", "stream"])
def test_retired_keywords(target, name):
    with pytest.raises(AssertionError, match=f"{name} option is deprecated"):
        scalar[(1, )](np.zeros(1), 1, **{name: 0})


@nereid.jit
def defaults(dst, x=3, y=None, SCALE: tl.constexpr = 2):
    value = x * SCALE
    if y is not None:
        value = value + y
    tl.store(dst, value)


@pytest.mark.parametrize("kwargs, want", [({}, 6), ({"x": 5}, 10), ({"y": 1}, 7), ({"SCALE": 10, "y": 4}, 34)])
def test_defaults_and_keywords(target, kwargs, want):
    dst = np.zeros(1, np.int32)
    defaults[(1, )](dst, **kwargs)
    assert dst[0] == want


