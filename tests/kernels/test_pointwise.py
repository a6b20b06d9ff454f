"""Elementwise operators as operator libraries make them: kernels generated as text around a scalar function, for every rank, with
strides; activations with gradients; promotion of types; lists of tensors in one launch."""

import importlib.util

import nereid as triton
import nereid.language as tl
import nereid.language.math as tl_math
import pytest
import torch
from nereid.language.extra.cuda import libdevice
from reference import close

_pow, _tanh, _erf, _div_rn = libdevice.pow, libdevice.tanh, libdevice.erf, tl_math.div_rn


# ---- scalar functions -------------------------------------------------------------------------------


@triton.jit
def add_func(x, y, alpha):
    return x + y * alpha


@triton.jit
def gelu_tanh(x):
    x_fp32 = x.to(tl.float32)
    return 0.5 * x_fp32 * (1 + _tanh(x_fp32 * 0.79788456 * (1 + 0.044715 * _pow(x_fp32, 2.0))))


@triton.jit
def gelu_none_backward(x, dy):
    x = x.to(tl.float32)
    cdf = 0.5 * (1 + _erf(x * 0.7071067811))
    pdf = 0.3989422803 * tl.exp(-0.5 * x * x)
    return (cdf + x * pdf) * dy


@triton.jit
def silu_backward_kernel(dy, x):
    dy_fp32 = dy.to(tl.float32)
    x_fp32 = x.to(tl.float32)
    sigma = 1 / (1 + tl.exp(-x_fp32))
    return dy_fp32 * sigma * (1.0 + x_fp32 * (1.0 - sigma))


@triton.jit
def elu_forward(x, alpha, scale, input_scale):
    return tl.where(x > 0, scale * input_scale * x, scale * alpha * (tl.exp(x.to(tl.float32) * input_scale) - 1))


@triton.jit
def where_inner(condition, self, other):
    return tl.where(condition, self, other)


@triton.jit
def masked_fill_func(inp, mask, value):
    return tl.where(mask == 1, value, inp)


@triton.jit
def clamp_func(x, mini, maxi):
    return tl.minimum(maxi, tl.maximum(mini, x.to(tl.float32)))


@triton.jit
def int_floordiv(x, y):
    # Division that rounds down, from one that truncates.
    r = x % y
    c1 = r != 0
    c2 = (x < 0) ^ (y < 0)
    return tl.where(c1 & c2, x // y - 1, x // y)


@triton.jit
def remainder_func(x, y):
    r = x % y
    c1 = r != 0
    c2 = (x < 0) ^ (y < 0)
    return tl.where(c1 & c2, r + y, r)


@triton.jit
def isclose_func(x, y, rtol, atol, equal_nan: tl.constexpr):
    cast_x = x if x.dtype.is_fp64() else x.to(tl.float32)
    cast_y = y if x.dtype.is_fp64() else y.to(tl.float32)
    if x.dtype.is_bf16():
        close_ = cast_x == cast_y
    else:
        close_ = x == y
    if equal_nan:
        close_ |= (cast_x != cast_x) & (cast_y != cast_y)
    allowed = atol + tl.abs(rtol * cast_y)
    return close_ | (tl.abs(cast_x - cast_y) <= allowed)


@triton.jit
def polar_func(abs_, angle):
    return abs_ * tl.cos(angle), abs_ * tl.sin(angle)


@triton.jit
def bitwise_func(x, y):
    return (x & y) | (~x & (x ^ y)) | ((x >> 1) & 1) | (y << 2)


@triton.jit
def logical_func(x, y):
    return (x.to(tl.int1) & y.to(tl.int1)) | (x.to(tl.int1) ^ y.to(tl.int1))


# ---- the generator ----------------------------------------------------------------------------------


def generate(tmp_path, function, rank, inputs, outputs, scalars, constants=""):
    """A kernel of `rank` dimensions around `function`: strides and shape as arguments, a loop when tiles outnumber programs."""
    names = [f"in{i}" for i in range(inputs)] + [f"out{i}" for i in range(outputs)]
    parameters = [f"{n}_ptr: tl.tensor, {''.join(f'{n}_stride{d}: int, ' for d in range(rank))}" for n in names]
    text = "import math\nimport nereid as triton\nfrom nereid import language as tl\n\n\n"
    no_special = [f"val{i}" for i in range(scalars)]
    text += f"@triton.jit(do_not_specialize={no_special!r})\n" if scalars else "@triton.jit\n"
    text += "def kernel(" + "".join(p + "\n    " for p in parameters) + "".join(f"val{i}, " for i in range(scalars)) + constants
    text += "".join(f"s{d}: int, " for d in range(rank)) + "num_tasks: int, tiles_per_cta: int, "
    text += "tile_size: tl.constexpr, one_tile_per_cta: tl.constexpr):\n"
    arguments = [f"in{i}" for i in range(inputs)] + [f"val{i}" for i in range(scalars)] + (["equal_nan"] if constants else [])
    results = ", ".join(f"out{i}" for i in range(outputs))

    def body(indent):
        lines = []
        if rank:
            lines.append("mask = tid < num_tasks")
            lines += [f"i{d} = tid % s{d}\ntid //= s{d}" for d in reversed(range(rank))]
        at = lambda n: " + ".join([f"{n}_ptr"] + [f"i{d} * {n}_stride{d}" for d in range(rank)])
        mask = ", mask=mask" if rank else ""
        lines += [f"in{i} = tl.load({at(f'in{i}')}{mask}).to(in{i}_ptr.type.element_ty)" for i in range(inputs)]
        lines.append(f"{results} = scalar_function({', '.join(arguments)})")
        lines += [f"tl.store({at(f'out{i}')}, out{i}.to(out{i}_ptr.type.element_ty){mask})" for i in range(outputs)]
        return "\n".join(" " * indent + part for line in lines for part in line.split("\n")) + "\n"

    if rank == 0:
        text += body(4)
    else:
        text += "    pid = tl.program_id(0)\n    num_ctas = tl.num_programs(0)\n    init_tid = pid * tile_size + tl.arange(0, tile_size)\n"
        text += "    if one_tile_per_cta:\n        tid = init_tid\n" + body(8)
        text += "    else:\n        for j in range(0, tiles_per_cta):\n            tid = init_tid + j * tile_size * num_ctas\n" + body(12)
    path = tmp_path / f"pointwise_{function.__name__}_{rank}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.scalar_function = function  # not imported: put there after the module was made
    return module.kernel


def launch(tmp_path, function, inputs, outputs, scalars=(), constants="", values=(), programs=None):
    shape = outputs[0].shape
    kernel = generate(tmp_path, function, len(shape), len(inputs), len(outputs), len(scalars), constants)
    arguments = []
    for tensor in inputs:
        tensor = tensor.expand(shape)
        arguments += [tensor, *tensor.stride()]
    for tensor in outputs:
        arguments += [tensor, *tensor.stride()]
    n = outputs[0].numel()
    tiles = triton.cdiv(n, 128)
    grid = programs or max(tiles, 1)
    kernel[(grid, 1, 1)](*arguments, *scalars, *values, *shape, n, triton.cdiv(tiles, grid), tile_size=128, one_tile_per_cta=tiles == grid,
                         num_warps=4)


SHAPES = [(), (300, ), (19, 7), (5, 6, 11), (3, 4, 5, 6), (2, 3, 2, 5, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ranks_strides_and_broadcasting(shape, tmp_path, target):
    x = torch.randn(tuple(reversed(shape))).permute(tuple(reversed(range(len(shape)))))
    y = torch.randn(shape[-1:])
    out = torch.empty(shape)
    launch(tmp_path, add_func, [x, y], [out], scalars=[0.5])
    close(out, x.double() + 0.5 * y.double(), 2)
    if len(shape) > 1:
        launch(tmp_path, add_func, [x, y], [out.transpose(0, 1).contiguous().transpose(0, 1)], scalars=[2], programs=2)
        stepped = torch.randn(*shape[:-1], shape[-1] * 2)[..., ::2]
        launch(tmp_path, add_func, [stepped, y], [out], scalars=[2], programs=2)
        close(out, stepped.double() + 2 * y.double(), 2)


F = torch.nn.functional
ACTIVATIONS = {
    "gelu_tanh": (gelu_tanh, lambda x: F.gelu(x, approximate="tanh"), 1, ()),
    "elu": (elu_forward, lambda x: F.elu(x, 0.7), 1, (0.7, 1.0, 1.0)),
    "clamp": (clamp_func, lambda x: x.clamp(-0.5, 0.75), 1, (-0.5, 0.75)),
    "gelu_backward": (gelu_none_backward, None, 2, ()),
    "silu_backward": (silu_backward_kernel, None, 2, ()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name, dtype, tmp_path, target):
    function, reference, inputs, scalars = ACTIVATIONS[name]
    tensors = [torch.randn(11, 30).to(dtype) for _ in range(inputs)]
    out = torch.empty(11, 30, dtype=dtype)
    launch(tmp_path, function, tensors, [out], scalars=scalars)
    if reference is None:
        x, dy = tensors if name == "gelu_backward" else reversed(tensors)
        leaf = x.double().requires_grad_()
        (F.gelu if name == "gelu_backward" else F.silu)(leaf).backward(dy.double())
        want = leaf.grad
    else:
        want = reference(tensors[0].double())
    close(out, want, 32 if dtype == torch.float32 else 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.bool, torch.int64], ids=str)
def test_where_and_masked_fill(dtype, tmp_path, target):
    condition = torch.rand(13, 17) > 0.5
    make = lambda: torch.randint(-50, 50, (13, 17)).to(dtype) if dtype != torch.bool else torch.rand(13, 17) > 0.5
    x, y, out = make(), make(), make()
    launch(tmp_path, where_inner, [condition, x, y], [out])
    assert torch.equal(out, torch.where(condition, x, y))
    launch(tmp_path, masked_fill_func, [x, condition], [out], scalars=[1])
    assert torch.equal(out, x.masked_fill(condition, 1))


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64], ids=str)
def test_integer_division(dtype, tmp_path, target):
    x, y = torch.randint(-1000, 1000, (9, 40), dtype=dtype), torch.randint(1, 30, (40, ), dtype=dtype)
    y[::3] *= -1
    out = torch.empty_like(x)
    launch(tmp_path, int_floordiv, [x, y], [out])
    assert torch.equal(out, torch.div(x, y, rounding_mode="floor"))
    launch(tmp_path, remainder_func, [x, y], [out])
    assert torch.equal(out, torch.remainder(x, y))
    launch(tmp_path, bitwise_func, [x, y], [out])
    want = (x & y) | (~x & (x ^ y)) | ((x >> 1) & 1) | (y << 2)
    assert torch.equal(out, want.to(dtype))
    flags = torch.empty(9, 40, dtype=torch.bool)
    launch(tmp_path, logical_func, [x, y], [flags])
    assert torch.equal(flags, (x != 0) | (y != 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("equal_nan", [False, True])
def test_isclose(equal_nan, dtype, tmp_path, target):
    x = torch.randn(100).to(dtype)
    y = x + torch.tensor([0.0, 1e-6, 1e-3, 1.0])[torch.randint(0, 4, (100, ))].to(dtype)
    x[3] = y[3] = float("nan")
    x[4] = y[4] = x[5] = float("inf")
    out = torch.empty(100, dtype=torch.bool)
    launch(tmp_path, isclose_func, [x, y], [out], scalars=[1e-4, 1e-5], constants="equal_nan: tl.constexpr, ", values=[equal_nan])
    up = torch.float64 if dtype == torch.float64 else torch.float32
    assert torch.equal(out, torch.isclose(x.to(up), y.to(up), 1e-4, 1e-5, equal_nan))


def test_two_outputs(tmp_path, target):
    r, angle = torch.rand(5, 33), torch.rand(5, 33) * 6
    out = torch.view_as_real(torch.empty(5, 33, dtype=torch.complex64))
    launch(tmp_path, polar_func, [r, angle], [out[..., 0], out[..., 1]])
    close(out, torch.view_as_real(torch.polar(r.double(), angle.double())), 8)


@triton.jit
def type_test_kernel(x_ptr, y_ptr, o_ptr, n, TILE: tl.constexpr):
    i = tl.arange(0, TILE)
    x = tl.load(x_ptr + i, mask=i < n)
    y = tl.load(y_ptr + i, mask=i < n)
    z = x + y
    if z.dtype.is_floating():
        z = z * 2
    elif z.dtype.is_int64() or z.dtype.is_int32():
        z = z * 3
    else:
        z = z * 5
    if x.dtype.primitive_bitwidth < 32 and x.dtype.is_int_signed():
        z += 1
    tl.store(o_ptr + i, z, mask=i < n)


@pytest.mark.parametrize("a, b, factor", [(torch.float16, torch.int64, 2), (torch.bfloat16, torch.int32, 2), (torch.int8, torch.int16, 5),
                                          (torch.int16, torch.int32, 3), (torch.uint8, torch.int64, 3)], ids=str)
def test_promotion_and_type_queries(a, b, factor, target):
    x, y = torch.randint(0, 9, (20, )).to(a), torch.randint(0, 9, (20, )).to(b)
    out = torch.empty(20)
    type_test_kernel[(1, )](x, y, out, 20, TILE=32)
    close(out, (x.double() + y.double()) * factor + (a in (torch.int8, torch.int16)), 0)


@triton.jit
def strided_copy_kernel(x_ptr, y_ptr, n_rows, stride: tl.int64, offset, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    rows = pid * BLOCK + tl.arange(0, BLOCK).to(tl.int64)
    tl.store(y_ptr + rows, tl.load(x_ptr + rows * stride + offset, mask=rows < n_rows, other=0), mask=rows < n_rows)


def test_offsets_of_64_bits(target):
    """Products and sums beyond 2^31 that come back: nothing in between is cut to 32 bits."""
    x, y = torch.arange(100, dtype=torch.float32), torch.empty(3)
    strided_copy_kernel[(1, )](x, y, 1, 2 ** 33 + 10, 7, BLOCK=2)
    assert y[0] == 7.0
    strided_copy_kernel[(1, )](x, y, 3, 10, 7, BLOCK=4)
    assert y.tolist() == [7.0, 17.0, 27.0]


@triton.jit
def fused_adamw_kernel(param_ptrs, grad_ptrs, m_ptrs, v_ptrs, sizes, block_starts, lr, beta1, beta2, eps, wd, step, NUM: tl.constexpr,
                       BLOCK: tl.constexpr):
    """One launch for a list of tensors: addresses in memory, the tensor of a program found by counting."""
    pid = tl.program_id(0)
    which = 0
    for i in tl.static_range(1, NUM):
        which += (pid >= tl.load(block_starts + i)).to(tl.int32)
    start = (pid - tl.load(block_starts + which)) * BLOCK
    offs = start + tl.arange(0, BLOCK)
    mask = offs < tl.load(sizes + which)
    p_ptr = tl.load(param_ptrs + which).to(tl.pointer_type(tl.float32))
    g_ptr = tl.load(grad_ptrs + which).to(tl.pointer_type(tl.float32))
    m_ptr = tl.load(m_ptrs + which).to(tl.pointer_type(tl.float32))
    v_ptr = tl.load(v_ptrs + which).to(tl.pointer_type(tl.float32))
    p, g = tl.load(p_ptr + offs, mask=mask), tl.load(g_ptr + offs, mask=mask)
    m = beta1 * tl.load(m_ptr + offs, mask=mask) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + offs, mask=mask) + (1 - beta2) * g * g
    tl.store(m_ptr + offs, m, mask=mask)
    tl.store(v_ptr + offs, v, mask=mask)
    correction1 = 1 - tl.exp2(step * tl.log2(beta1))
    correction2 = 1 - tl.exp2(step * tl.log2(beta2))
    p = p * (1 - lr * wd)
    p -= lr * (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(p_ptr + offs, p, mask=mask)


@pytest.mark.not_in_mode("checked", "its addresses come from memory, and lead to none of the arguments")
@pytest.mark.not_emulated("its addresses come from memory, and lead to none of the arguments")
def test_optimizer_over_a_list(target):
    sizes = [100, 7, 300]
    device = "cuda" if target == "cuda" and torch.cuda.is_available() else "cpu"
    params, grads = ([torch.randn(n) for n in sizes] for _ in range(2))
    mine = [[t.clone().to(device) for t in params], [t.to(device) for t in grads], [torch.zeros(n, device=device) for n in sizes],
            [torch.zeros(n, device=device) for n in sizes]]
    addresses = [torch.tensor([t.data_ptr() for t in ts], device=device) for ts in mine]
    blocks = [triton.cdiv(n, 64) for n in sizes]
    starts = torch.tensor([sum(blocks[:i]) for i in range(3)], dtype=torch.int32, device=device)
    leaves = [p.double().requires_grad_() for p in params]
    optimizer = torch.optim.AdamW(leaves, lr=0.1, weight_decay=0.05)
    for step in (1, 2):
        for leaf, g in zip(leaves, grads):
            leaf.grad = g.double()
        optimizer.step()
        fused_adamw_kernel[(sum(blocks), )](*addresses, torch.tensor(sizes, dtype=torch.int32, device=device), starts, 0.1, 0.9, 0.999,
                                            1e-8, 0.05, float(step), NUM=3, BLOCK=64)
    for got, leaf in zip(mine[0], leaves):
        close(got.cpu(), leaf.detach(), 512)


@triton.jit
def convert_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr, SATURATE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if SATURATE:
        x = tl.clamp(x.to(tl.float32), -448.0, 448.0)
    y = x.to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + i, y, mask=i < n)


@pytest.mark.parametrize("source, result", [(torch.float32, torch.bfloat16), (torch.float32, torch.float8_e4m3fn), (torch.float16, torch.int8),
                                            (torch.int64, torch.float16), (torch.bool, torch.float32), (torch.float32, torch.bool),
                                            (torch.bfloat16, torch.float64)], ids=str)
def test_casts(source, result, target):
    x = (torch.randn(200) * 30).to(source)
    y = torch.zeros(200).to(result)
    convert_kernel[(2, )](x, y, 200, BLOCK=128, SATURATE=result == torch.float8_e4m3fn)
    want = x.clamp(-448, 448).to(result) if result == torch.float8_e4m3fn else x.to(result)
    assert torch.equal(y.double(), want.double())
