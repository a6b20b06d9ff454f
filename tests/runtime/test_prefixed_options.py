"""Options of launches with the prefix `nereid_`, for kernels whose parameters have the names of options."""

import numpy as np
import pytest

import nereid
import nereid.language as tl

pytestmark = pytest.mark.cpu_only("the target is named here")


@nereid.jit
def towards(x, target, num_threads, checked: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(x + i, tl.load(target + i) + num_threads + checked)


@nereid.jit
def fill(out, n, VALUE: tl.constexpr):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(out + i, VALUE, mask=i < n)


@pytest.fixture
def arrays():
    return np.zeros(16, np.int32), np.arange(16, dtype=np.int32)


def test_parameters_with_names_of_options(arrays):
    x, target = arrays
    kernel = towards[(1, )](x, target=target, num_threads=3, checked=4, nereid_target="cpu", nereid_num_threads=2, nereid_checked=True)
    assert (x == target + 7).all() and kernel.metadata.target.backend == "cpu" and kernel.metadata.checked
    assert not towards[(1, )](x, target, 3, 4, nereid_target="cpu").metadata.checked
    for _ in range(3):  # by the fast path
        x[:] = 0
        towards[(1, )](x, target=target, num_threads=1, checked=0, nereid_target="cpu")
        assert (x == target + 1).all()
    with pytest.raises(RuntimeError, match="outside of `target`"):
        towards[(1, )](x, target[:8], 0, 0, nereid_checked=True, nereid_target="cpu")


def test_the_option_is_the_same_one(arrays):
    x, _ = arrays
    assert fill[(1, )](x, 16, VALUE=1, target="cpu", enable_fp_fusion=False) is fill[(1, )](x, 16, VALUE=1, nereid_target="cpu", nereid_enable_fp_fusion=False)
    with pytest.raises(ValueError, match="num_threads must be an integer from 0"):
        fill[(1, )](x, 16, VALUE=1, nereid_num_threads=-1)


def test_warmup(arrays):
    x, target = arrays
    kernel = towards.warmup(x, target, 3, 4, grid=(1, ), nereid_target="cuda:90")
    assert kernel.metadata.target.backend == "cuda" and kernel.metadata.target.arch == 90


def test_wrong_names(arrays):
    x, _ = arrays
    with pytest.raises(KeyError, match="nereid_targt was specified but unrecognised, did you mean `nereid_target`"):
        fill[(1, )](x, 16, VALUE=1, nereid_targt="cpu")
    with pytest.raises(KeyError, match="nereid_xyzzy was specified but unrecognised"):
        fill[(1, )](x, 16, VALUE=1, nereid_xyzzy=1)
    with pytest.raises(TypeError, match="target and nereid_target are the same option"):
        fill[(1, )](x, 16, VALUE=1, target="cpu", nereid_target="cpu")


def test_configurations(arrays):
    x, _ = arrays
    tuned = nereid.autotune([nereid.Config({"VALUE": 5, "nereid_num_threads": 1, "nereid_num_warps": 2})], key=["n"])(fill)
    assert tuned[(1, )](x, 16, nereid_target="cpu").metadata.num_warps == 2
    assert (x == 5).all()
    several = nereid.autotune([nereid.Config({"VALUE": 5, "nereid_debug": debug}) for debug in (False, True)], key=["n"])(fill)
    for _ in range(3):
        several[(1, )](x, 16, nereid_target="cpu")
    assert several.best_config.kwargs["VALUE"] == 5


def test_hooks(arrays):
    x, target = arrays
    seen = []

    def hook(**given):
        seen.append(given["compile"]["num_warps"])

    nereid.knobs.runtime.jit_post_compile_hook = hook
    try:
        fill[(1, )](x, 16, VALUE=77, nereid_target="cpu", nereid_num_warps=8)
    finally:
        nereid.knobs.runtime.jit_post_compile_hook = None
    assert seen == [8]


def test_gradients():
    torch = pytest.importorskip("torch")

    @nereid.jit
    def square(x, out, checked):
        i = tl.arange(0, 16)
        v = tl.load(x + i)
        tl.store(out + i, v * v * checked)

    gradient = nereid.grad(square, "x", "out")
    x, out, dx, dout = torch.randn(16), torch.zeros(16), torch.zeros(16), torch.ones(16)
    kernel = gradient.backward.warmup(x, out, 2.0, dx=dx, dout=dout, grid=(1, ), nereid_target="cpu", nereid_checked=True)
    assert kernel.metadata.checked
    gradient.backward[(1, )](x, out, 2.0, dx=dx, dout=dout, nereid_target="cpu")
    torch.testing.assert_close(dx, 4 * x)
    both = torch.zeros(24)
    # `checked` is 2.0, the mode is off: only checked mode looks for gradients that share memory.
    gradient.backward[(1, )](x, out, 2.0, dx=both[:16], dout=both[8:], nereid_target="cpu")
    with pytest.raises(ValueError, match="shares memory with `dout`"):
        gradient.backward[(1, )](x, out, 2.0, dx=both[:16], dout=both[8:], nereid_target="cpu", nereid_checked=True)
