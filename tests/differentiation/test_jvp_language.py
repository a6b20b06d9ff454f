"""Forward derivatives of everything but elementwise operations: memory, control flow, shapes, reductions, scans, products, atomics."""

import nereid
import nereid.language as tl
import jvp_check
import pytest
import torch
from nereid.tools.tensor_descriptor import TensorDescriptor

F64 = torch.float64


def zeros(*shape):
    return torch.zeros(*shape, dtype=F64)


# ---- memory -------------------------------------------------------------------------------------------


@nereid.jit
def masked(x, y, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=alpha)
    shifted = tl.load(x + i + 1, mask=i + 1 < n)
    tl.store(y + i, v * v + shifted * alpha, mask=i < 2 * n)


def test_masks_and_other_values():
    """Lanes that are masked off have the tangent of `other`."""
    jvp_check.check(masked, (3, ), dict(x=jvp_check.random(40), y=zeros(96), n=40, alpha=1.5), ("x", "alpha"), ("y", ), BLOCK=32, untouched=("y", ),
                    step=2**-10)


@nereid.jit
def in_place(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, tl.sin(v), mask=i < n)
    w = tl.load(x + i, mask=i < n)
    tl.store(x + i, w * v, mask=i < n)


def test_a_buffer_that_is_read_and_written():
    jvp_check.check(in_place, (2, ), dict(x=jvp_check.random(50), n=50), ("x", ), ("x", ), BLOCK=32)


@nereid.jit
def partly(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(y + i, v * 2.0)
    tl.store(z + i, i.to(tl.float64))


def test_outputs_that_do_not_depend_on_inputs_have_zero_tangents():
    found = jvp_check.check(partly, (1, ), dict(x=jvp_check.random(16), y=zeros(16), z=zeros(16)), ("x", ), ("y", "z"), N=16, single=None)
    assert (found["z"] == 0).all()


def test_outputs_without_tangents_are_still_written():
    x, y, z = jvp_check.random(16), zeros(16), zeros(16)
    dy = torch.empty(16, dtype=F64)
    nereid.jvp(partly, "x", "y")[(1, )](x, y, z, dx=torch.ones(16, dtype=F64), dy=dy, N=16)
    assert (dy == 2).all() and (z == torch.arange(16)).all()


def test_a_tangent_of_none_is_zero():
    x, w, y, dy = jvp_check.random(16), jvp_check.random(16), zeros(16), zeros(16)

    @nereid.jit
    def product(x, w, y, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(y + i, tl.load(x + i) * tl.load(w + i))

    derivative = nereid.jvp(product, ("x", "w"), "y")
    derivative[(1, )](x, w, y, dx=None, dw=torch.ones(16, dtype=F64), dy=dy, N=16)
    torch.testing.assert_close(dy, x)
    derivative[(1, )](x, w, y, dx=torch.ones(16, dtype=F64), dw=None, dy=dy, N=16)
    torch.testing.assert_close(dy, w)


@nereid.jit
def walked(x, y, n, stride, BLOCK: tl.constexpr):
    pointers = x + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, ), tl.float64)
    for k in range(n):
        total += tl.load(pointers) * (k + 1)
        pointers += stride
    tl.store(y + tl.arange(0, BLOCK), total)


def test_pointers_that_loops_advance():
    jvp_check.check(walked, (1, ), dict(x=jvp_check.random(5, 40), y=zeros(32), n=5, stride=40), ("x", ), ("y", ), BLOCK=32, single=None)


@nereid.jit
def chosen(x, w, y, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    if flag > 0:
        source = x
    else:
        source = w
    picked = tl.load(tl.where(i % 2 == 0, x + i, w + i))
    tl.store(y + i, tl.load(source + i) * picked)


@pytest.mark.parametrize("flag", [0, 2])
def test_pointers_that_branches_and_selections_choose(flag):
    jvp_check.check(chosen, (1, ), dict(x=jvp_check.random(16), w=jvp_check.random(16), y=zeros(16), flag=flag), ("x", "w"), ("y", ), N=16)


@nereid.jit
def indexed(x, index, y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(index + i)
    tl.store(y + i, tl.load(x + at) * tl.load(x + at + 1))


def test_indices_from_memory():
    index = torch.randint(0, 30, (16, ), generator=jvp_check.GENERATOR, dtype=torch.int32)
    jvp_check.check(indexed, (1, ), dict(x=jvp_check.random(32), index=index, y=zeros(16)), ("x", ), ("y", ), N=16)


@nereid.jit
def blocks(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_block_ptr(x, (M, N), (N, 1), (0, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(y, (M, N), (N, 1), (0, 0), (BM, BN), (1, 0))
    for _ in range(tl.cdiv(N, BN)):
        v = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, v * v, boundary_check=(0, 1))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


def test_block_pointers():
    jvp_check.check(blocks, (1, ), dict(x=jvp_check.random(13, 41), y=zeros(13, 41), M=13, N=41), ("x", ), ("y", ), BM=16, BN=16)


@nereid.jit
def described(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    for k in range(tl.cdiv(N, BN)):
        v = source.load([0, k * BN])
        target.store([0, k * BN], tl.sin(v) * source.shape[0].to(v.dtype))


def test_descriptors_made_in_the_kernel():
    jvp_check.check(described, (1, ), dict(x=jvp_check.random(13, 40), y=zeros(13, 40), M=13, N=40), ("x", ), ("y", ), BM=16, BN=16)


@nereid.jit
def given(source, target, BM: tl.constexpr, BN: tl.constexpr):
    for k in range(tl.cdiv(source.shape[1], BN)):
        target.store([0, k * BN], tl.sin(source.load([0, k * BN])))


def test_descriptors_of_the_host():
    """The tangent's descriptor has sizes and strides of its own."""
    x, y = jvp_check.random(13, 40), zeros(13, 40)
    dx, dy = zeros(13, 48), zeros(13, 64)
    dx[:, :40] = jvp_check.random(13, 40)

    def of(tensor):
        return TensorDescriptor.from_tensor(tensor, [16, 16])

    nereid.jvp(given, "source", "target")[(1, )](of(x), of(y), dsource=of(dx[:, :40]), dtarget=of(dy[:, :40]), BM=16, BN=16)
    torch.testing.assert_close(y, torch.sin(x))
    torch.testing.assert_close(dy[:, :40], torch.cos(x) * dx[:, :40])
    assert (dy[:, 40:] == 0).all()


@nereid.jit
def through(source, target, BM: tl.constexpr, BN: tl.constexpr):
    k = tl.program_id(0) * BN
    target.store([0, k], tl.sin(source.load([0, k])))


def test_descriptors_that_round_to_tf32():
    """The derivative of rounding is that of the number itself, forward and backward. Descriptors of derivatives have the type of the argument; derivatives are not rounded."""
    x, dx = jvp_check.random(16, 48).float(), jvp_check.random(16, 48).float()
    y, dy = torch.zeros(16, 48), torch.zeros(16, 48)

    def of(tensor, rounds=False):
        return TensorDescriptor.from_tensor(tensor, [16, 16], round_f32_to_tf32=rounds)

    bits = x.view(torch.int32)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    assert (rounded != x).any()
    nereid.jvp(through, "source", "target")[(3, )](of(x, True), of(y), dsource=of(dx, True), dtarget=of(dy), BM=16, BN=16)
    torch.testing.assert_close(y, torch.sin(rounded), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(dy, torch.cos(rounded) * dx, rtol=1e-6, atol=1e-6)
    gradient = torch.zeros(16, 48)
    nereid.grad(through, "source", "target").backward[(3, )](of(x, True), of(y), dsource=of(gradient, True), dtarget=of(dx), BM=16, BN=16)
    torch.testing.assert_close(gradient, torch.cos(rounded) * dx, rtol=1e-6, atol=1e-6)


@nereid.jit
def of_tuple(inputs, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(inputs[0] + i) * tl.load(inputs[1] + i) + inputs[2])


def test_tuples():
    x, w, y, dy = jvp_check.random(16), jvp_check.random(16), zeros(16), zeros(16)
    dx, dw = jvp_check.random(16), jvp_check.random(16)
    derivative = nereid.jvp(of_tuple, "inputs", "y")
    derivative[(1, )]((x, w, 1.0), y, dinputs=(dx, dw, 0.5), dy=dy, N=16)
    torch.testing.assert_close(dy, x * dw + w * dx + 0.5)
    derivative[(1, )]((x, w, 1.0), y, dinputs=(dx, None, None), dy=dy, N=16)
    torch.testing.assert_close(dy, w * dx)


@nereid.jit
def added(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.atomic_add(y + i % 8, v * v, mask=i < n)
    tl.atomic_add(y + 8, tl.sum(v))


def test_atomic_additions():
    """Tangents are added to what is there: the directions of `y` itself."""
    jvp_check.check(added, (2, ), dict(x=jvp_check.random(50), y=zeros(9), n=50), ("x", "y"), ("y", ), BLOCK=32, single=1e-4)


# ---- control flow -------------------------------------------------------------------------------------


@nereid.jit
def newton(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    for k in range(N):
        v = tl.load(x + k)
        root = v
        steps = 0
        while tl.abs(root * root - v) > 1e-12 and steps < 50:
            root = 0.5 * (root + v / root)
            steps += 1
        tl.store(y + k, root)


def test_while_loops():
    jvp_check.check(newton, (1, ), dict(x=jvp_check.random(8, low=0.5, high=4.0), y=zeros(8)), ("x", ), ("y", ), N=8, single=None)


@nereid.jit
def branches(x, w, y, N: tl.constexpr):
    for k in range(N):
        v = tl.load(x + k)
        r = v
        if v > 0.5:
            r = v * v * tl.load(w + k)
            if v > 1.0:
                r += 3.0 * v
        elif v < -0.5:
            r = v * 0.0 + 2.0
        tl.store(y + k, r)


def test_branches():
    jvp_check.check(branches, (1, ), dict(x=jvp_check.random(32), w=jvp_check.random(32), y=zeros(32)), ("x", "w"), ("y", ), N=32)


@nereid.jit
def recurrence(x, a, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK, ), tl.float64)
    other = tl.full((BLOCK, ), 1.0, tl.float64)
    for t in range(n):
        v = tl.load(x + t * BLOCK + i)
        state, other = tl.load(a + i) * state + v * other, other * 0.9
        tl.store(y + t * BLOCK + i, state)


def test_recurrences():
    jvp_check.check(recurrence, (1, ), dict(x=jvp_check.random(9, 16), a=jvp_check.random(16, low=-0.9, high=0.9), y=zeros(9, 16), n=9), ("x", "a"), ("y", ),
                    BLOCK=16, single=None)


@nereid.jit
def _square(v):
    return v * v


@nereid.jit(noinline=True)
def _cube(v):
    return v * _square(v)


@nereid.jit
def calling(x, y, N: tl.constexpr):
    for k in tl.static_range(N):
        tl.store(y + k, _cube(tl.load(x + k)))


def test_functions_that_are_called():
    jvp_check.check(calling, (1, ), dict(x=jvp_check.random(16), y=zeros(16)), ("x", ), ("y", ), N=16)


# ---- shapes -------------------------------------------------------------------------------------------

SHAPES = {
    "reshape": "tl.reshape(x, (N, M))", "trans": "tl.trans(x)", "broadcast": "x + tl.sum(x, axis=1)[:, None]", "join": "tl.reshape(tl.join(x, x * x), (N, 2 * M))",
    "split": "tl.reshape(tl.split(tl.reshape(x, (M, N // 2, 2)))[1] * 2.0, (M, N // 2))", "cat": "tl.cat(tl.ravel(x), tl.ravel(x * x), can_reorder=False)",
    "permute": "tl.permute(tl.reshape(x, (M, 2, N // 2)), (1, 2, 0))", "flip": "tl.flip(x) * x", "expand": "tl.expand_dims(x, 0) * 2.0",
    "gather": "tl.gather(x, (tl.arange(0, M)[:, None] * 3 + tl.arange(0, N)[None, :]) % N, axis=1)",
    "slice": "x[0:4, 2:6] * 3.0", "interleave": "tl.interleave(x, x * 2.0)", "view": "tl.view(x, (M * N,)) * tl.ravel(x)",
}


def _stored(expression, extra=""):
    import harness
    return harness.make(f"""{extra}
@triton.jit
def kernel(x_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    r = {expression}
    flat = tl.ravel(r)
    tl.store(y_ptr + tl.arange(0, flat.shape[0]), flat)
""")


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    jvp_check.check(_stored(SHAPES[name]), (1, ), dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(256)), ("x_ptr", ), ("y_ptr", ), M=8, N=16,
                    untouched=("y_ptr", ), single=None if name == "view" else 1e-4)


# ---- reductions and scans -----------------------------------------------------------------------------

COMBINERS = """
@triton.jit
def times(a, b):
    return a * b

@triton.jit
def logaddexp(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))

@triton.jit
def linear(a, x, b, y):
    return b * a, b * x + y

@triton.jit
def welford(n, mean, m2, k, other, s2):
    delta = other - mean
    total = n + k
    return total, mean + delta * (k / total), m2 + s2 + delta * delta * n * k / total

"""
REDUCTIONS = {
    "sum": "tl.sum(x, axis=1)", "sum of columns": "tl.sum(x, axis=0)", "max": "tl.max(x, axis=1)", "min": "tl.min(x, axis=0)",
    "max and index": "tl.max(x, axis=1, return_indices=True)[0]", "index": "tl.sum(x * 1.0, axis=1) * tl.argmax(x, axis=1).to(tl.float64)",
    "min and any index": "tl.min(x, axis=1, return_indices=True, return_indices_tie_break_left=False)[0]",
    "product": "tl.reduce(x, 1, times)", "logaddexp": "tl.reduce(x, 0, logaddexp)", "linear": "tl.reduce((x * 0.5, x), 1, linear)[1]",
    "linear in one": "tl.reduce((tl.full((M, N), 0.5, tl.float64), x), 1, linear)[1]",
    "variance": "tl.reduce((tl.full((M, N), 1.0, tl.float64), x, tl.zeros((M, N), tl.float64)), 1, welford)[2]",
    "cumsum": "tl.cumsum(x, axis=1)", "cumsum reversed": "tl.cumsum(x, axis=0, reverse=True)", "cumprod": "tl.cumprod(x, axis=1)",
    "scan": "tl.associative_scan((x * 0.5, x), 1, linear)[1]", "scan reversed": "tl.associative_scan((x * 0.5, x), 1, linear, reverse=True)[1]",
    "softmax": "tl.softmax(x, dim=1)",
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_and_scans(name):
    jvp_check.check(_stored(REDUCTIONS[name], COMBINERS), (1, ), dict(x_ptr=jvp_check.random(8, 16), y_ptr=zeros(128)), ("x_ptr", ), ("y_ptr", ), M=8, N=16,
                    untouched=("y_ptr", ), single=None if "fl" in REDUCTIONS[name] else 1e-3)


@pytest.mark.parametrize("call", ["tl.max(x, axis=1)", "tl.max(x, axis=1, return_indices=True)[0]", "tl.min(x, axis=1)"])
def test_of_equal_elements_the_first_one_gives_the_tangent(call):
    x, y, dy = torch.zeros(4, 16, dtype=F64), zeros(4), zeros(4)
    dx = jvp_check.random(4, 16)
    nereid.jvp(_stored(call), "x_ptr", "y_ptr")[(1, )](x, y, dx_ptr=dx, dy_ptr=dy, M=4, N=16)
    torch.testing.assert_close(dy, dx[:, 0])


@nereid.jit
def mapped(x, w, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    first, second = tl.map_elementwise(_product_and_sum, tl.load(x + i), tl.load(w + i))
    tl.store(y + i, first)
    tl.store(z + i, second)


@nereid.jit
def _product_and_sum(a, b):
    if a > 0.0:
        return a * b, a + b
    else:
        return b * b, a


def test_functions_mapped_over_elements():
    jvp_check.check(mapped, (1, ), dict(x=jvp_check.random(16), w=jvp_check.random(16), y=zeros(16), z=zeros(16)), ("x", "w"), ("y", "z"), N=16)


# ---- products -----------------------------------------------------------------------------------------


@nereid.jit
def product(a, b, c, d, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(a + m * K + k[None, :])
    w = tl.load(b + k[:, None] * N + n)
    r = tl.dot(x, w, acc=tl.load(c + m * N + n), input_precision=PRECISION)
    tl.store(d + m * N + n, r)


@pytest.mark.parametrize("wrt", ["abc", "a", "b", "c"])
def test_products(wrt):
    jvp_check.check(product, (1, ), dict(a=jvp_check.random(16, 32), b=jvp_check.random(32, 16), c=jvp_check.random(16, 16), d=zeros(16, 16)), tuple(wrt), ("d", ),
                    M=16, N=16, K=32, PRECISION="ieee")


@pytest.mark.parametrize("precision,tolerance", [("tf32", 2e-3), ("tf32x3", 1e-4), ("ieee", 1e-5), ("bf16x3", 1e-3), ("bf16x6", 1e-4)])
def test_precisions_of_products(precision, tolerance):
    a, b, c, d = (jvp_check.random(16, 16).float() for _ in range(4))
    da, db, dd = (jvp_check.random(16, 16).float() for _ in range(3))
    nereid.jvp(product, ("a", "b"), "d")[(1, )](a, b, c, d, da=da, db=db, dd=dd, M=16, N=16, K=16, PRECISION=precision)
    expected = a.double() @ db.double() + da.double() @ b.double()
    assert (dd.double() - expected).abs().max() < tolerance * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_of_narrow_floats(dtype):
    a, b, da, db = (jvp_check.random(16, 16).to(dtype) for _ in range(4))
    c, d, dd = zeros(16, 16).float(), zeros(16, 16).float(), zeros(16, 16).float()
    nereid.jvp(product, ("a", "b"), "d")[(1, )](a, b, c, d, da=da, db=db, dd=dd, M=16, N=16, K=16, PRECISION=None)
    torch.testing.assert_close(dd.double(), a.double() @ db.double() + da.double() @ b.double(), rtol=1e-3, atol=1e-3)


# ---- random numbers -----------------------------------------------------------------------------------


@nereid.jit
def dropped(x, y, p, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    keep = tl.rand(seed, i) > p
    tl.store(y + i, tl.where(keep, tl.load(x + i) / (1 - p), 0.0) + tl.randn(seed, i))


def test_random_numbers_are_constant():
    jvp_check.check(dropped, (1, ), dict(x=jvp_check.random(64), y=zeros(64), p=0.3, seed=7), ("x", ), ("y", ), N=64, step=1e-3, rtol=1e-5, atol=1e-5)
