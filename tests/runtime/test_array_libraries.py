"""Arrays of other libraries as arguments, by objects that behave as theirs: DLPack of each version, CuPy's and TensorFlow's ways. JAX's own arrays: tests/jax/test_arrays.py."""

import sys

import numpy as np
import pytest
from dlpack_capsules import Vector
from fake_driver import LAUNCHES, fake, needs_compiler, run  # noqa: F401

import nereid
import nereid.language as tl


@nereid.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def vector(array, **about):
    made = Vector(array.ctypes.data, array.size, **about)
    made.keeps = array
    return made


@pytest.fixture
def x():
    return np.arange(8, dtype=np.float32)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 1), (1, 9)])
def test_dlpack_of_each_version(x, version):
    y = np.zeros(8, np.float32)
    given = vector(x, version=version)
    double[(1, )](given, vector(y, version=version), 8, BLOCK=8)
    assert (y == 2 * x).all()
    assert given.asked == [{"max_version": (1, 3)}] + [{}] * (version is None)


def test_dlpack_of_an_unknown_version(x):
    with pytest.raises(BufferError, match="argument `x`: its `__dlpack__` gives version 2 of DLPack, expected version 1"):
        double[(1, )](vector(x, version=(2, 0)), x.copy(), 8, BLOCK=8)


def test_dlpack_that_is_read_only(x):
    y = np.zeros(8, np.float32)
    double[(1, )](vector(x, version=(1, 0), read_only=True), y, 8, BLOCK=8)
    assert (y == 2 * x).all()
    with pytest.raises(ValueError, match="argument `y` is read-only, but `double` stores through it"):
        double[(1, )](x, vector(y, version=(1, 0), read_only=True), 8, BLOCK=8)
    double[(1, )](x, vector(y, version=(1, 0)), 8, BLOCK=8)


def test_dlpack_that_is_no_capsule_or_a_used_one(x):

    class Gives:

        def __init__(self, given):
            self.given = given

        def __dlpack__(self, **keywords):
            return self.given

        def __dlpack_device__(self):
            return 1, 0

    used = x.__dlpack__()

    y = np.zeros(8, np.float32)
    double[(1, )](Gives(used), y, 8, BLOCK=8)
    assert (y == 2 * x).all()
    np.from_dlpack(Gives(used))  # takes the array: the capsule has another name
    with pytest.raises(BufferError, match="argument `x`: its `__dlpack__` gives a capsule whose array another library has taken; a new capsule is needed for each use"):
        double[(1, )](Gives(used), y, 8, BLOCK=8)
    for given in (None, 3):
        with pytest.raises(BufferError, match="argument `x`: its `__dlpack__` gives no capsule of DLPack"):
            double[(1, )](Gives(given), y, 8, BLOCK=8)


def test_error_of_dlpack_is_the_objects_own(x):

    class Refuses:

        def __dlpack__(self, **keywords):
            raise BufferError("on another machine")

    with pytest.raises(BufferError, match="on another machine"):
        double[(1, )](Refuses(), x, 8, BLOCK=8)


def test_tensor_of_tensorflow(x):
    """`tf.Tensor` on the CPU has a buffer that is read-only, and `__dlpack__` of before version 1."""

    class EagerTensor(np.ndarray):

        def __dlpack__(self, **keywords):
            raise AssertionError("its buffer is enough")

    tensor = x.view(EagerTensor)
    tensor.flags.writeable = False
    y = np.zeros(8, np.float32)
    double[(1, )](tensor, y, 8, BLOCK=8)
    assert (y == 2 * x).all()
    with pytest.raises(ValueError, match="argument `y` is read-only, but `double` stores through it"):
        double[(1, )](x, tensor, 8, BLOCK=8)


def test_immutable_array_whose_buffer_cannot_be_described(x):
    """As bfloat16 of TensorFlow and JAX: the buffer is refused, DLPack gives the memory, which stays read-only."""

    class Refusing(np.ndarray):

        def __dlpack__(self):
            return memory.__dlpack__()

    memory = vector(x)
    source = np.zeros(8, "datetime64[s]").view(Refusing)
    with pytest.raises(ValueError, match="cannot include dtype 'M' in a buffer"):
        memoryview(source)
    y = np.zeros(8, np.float32)
    double[(1, )](source, y, 8, BLOCK=8)
    assert (y == 2 * x).all()
    with pytest.raises(ValueError, match="argument `y` is read-only, but `double` stores through it"):
        double[(1, )](x, source, 8, BLOCK=8)


@needs_compiler
def test_cupy_and_dlpack_on_gpus(fake, tmp_path):  # noqa: F811
    """CuPy's arrays say where they are by `__cuda_array_interface__`; other libraries' by DLPack, with the number of the GPU."""
    lines = run(LAUNCHES + """
    from dlpack_capsules import CUDA, Vector

    class CuPy(Vector):  # has both; the interface comes first

        def __init__(self, address, read_only=False):
            super().__init__(address, 8, device=(CUDA, 0))
            self.__cuda_array_interface__ = {"data": (address, read_only), "typestr": "<f4", "shape": (8, ), "strides": None, "version": 3, "stream": 1}

        __cuda_array_interface__ = None

    array = CuPy(0x20000)
    print(record(launch(array, 3)), array.asked)
    print(record(launch(CuPy(0x20000, read_only=True), 3)))
    print(record(launch(Vector(0x30000, 8, device=(CUDA, 1)), 3)))
    print(record(launch(Vector(0x30000, 8, device=(CUDA, 1), version=(1, 0), read_only=True), 3)))
    """, tmp_path, NEREID_LIBCUDA=fake, PYTHONPATH=":".join([__file__.rpartition("/")[0], *filter(None, sys.path)]))
    assert lines[0].startswith("launch on 0 grid 4,2,1") and "20000" in lines[0] and lines[0].endswith("[]")
    assert "argument `x` is read-only" in lines[1] and "argument `x` is read-only" in lines[3]
    assert lines[2].startswith("launch on 1 grid 4,2,1") and "30000" in lines[2]


