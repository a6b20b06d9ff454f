"""bitsandbytes: its Triton back end (formats of 4 and 8 bits, optimisers) against the package's code tables and PyTorch."""

import torch

import host
from host import case, rand, randn


def ops():
    """The back end, which asks for the kind of the accelerator when it is imported."""
    if host.DEVICE == "cpu":
        torch.accelerator.current_accelerator = lambda *_, **__: torch.device("cuda")
    from bitsandbytes.backends.triton import ops
    return ops


def tables(kind):
    from bitsandbytes.functional import get_4bit_type
    return get_4bit_type(kind, device="cpu").to(host.DEVICE)


def unpacked(packed, absmax, kind, blocksize, shape):
    """What 4-bit codes mean, two to a byte, the first in the upper half."""
    codes = torch.stack([packed.flatten() >> 4, packed.flatten() & 15], 1).flatten().long()
    return (tables(kind)[codes].view(-1, blocksize) * absmax[:, None]).view(shape)


def four_bits(kind, dtype, shape, blocksize=64):
    """Codes are as near as any; what comes back is the table's value."""
    x = randn(*shape, dtype=dtype)
    packed, absmax = ops().quantize_4bit(x, blocksize, kind, torch.uint8)
    back = ops().dequantize_4bit(packed, absmax, blocksize, kind, shape, dtype)
    values = unpacked(packed, absmax, kind, blocksize, shape)
    blocks = x.float().view(-1, blocksize)
    largest = blocks.abs().amax(1)
    scaled = blocks / largest[:, None]
    nearest = (scaled[..., None] - tables(kind)).abs().amin(-1)
    found = (scaled - values.view(-1, blocksize) / largest[:, None]).abs()
    return (absmax, back.float(), found.clamp_min(nearest)), (largest, values.to(dtype).float(), nearest)


@case(1e-3)
def nf4():
    return four_bits("nf4", torch.float32, (48, 128))


@case(1e-3)
def fp4():
    return four_bits("fp4", torch.float32, (48, 128))


@case(2e-2)
def nf4_bfloat16():
    return four_bits("nf4", torch.bfloat16, (16, 256), 128)


@case(2e-3)
def gemv_4bit():
    weight, x = randn(32, 128), randn(3, 128)
    packed, absmax = ops().quantize_4bit(weight, 64, "nf4", torch.uint8)
    return (ops().gemv_4bit(x, packed, (32, 128), absmax, tables("nf4"), 64),
            x @ unpacked(packed, absmax, "nf4", 64, (32, 128)).T)


def dynamic_map():
    from bitsandbytes.functional import create_dynamic_map
    return create_dynamic_map(signed=True).to(host.DEVICE)


@case(1e-5)
def blockwise_8bit():
    x, code = randn(40, 256), dynamic_map()
    codes, absmax = ops().quantize_blockwise(x, code, 256)
    blocks = x.view(-1, 256)
    largest = blocks.abs().amax(1)
    scaled = blocks / largest[:, None]
    nearest = (scaled[..., None] - code).abs().amin(-1)
    chosen = code[codes.long()].view(-1, 256)
    back = ops().dequantize_blockwise(codes, absmax, code, 256, torch.float32)
    return (absmax, back, (scaled - chosen).abs().clamp_min(nearest)), (largest, (chosen * largest[:, None]).view(40, 256), nearest)


def adam(p, g, m, v, step, lr, betas, eps, decay):
    m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
    rate = lr * (1 - betas[1] ** step) ** 0.5 / (1 - betas[0] ** step)
    return p * (1 - lr * decay) - rate * m / (v.sqrt() + eps * (1 - betas[1] ** step) ** 0.5), m, v


@case(1e-5)
def adam_32bit():
    p, g, m, v = randn(1000), randn(1000), randn(1000), rand(1000)
    expected = adam(p, g, m, v, 3, 1e-2, (0.9, 0.99), 1e-8, 0.1)
    ops().optimizer_update_32bit("adam", g, p, m, v, None, 0.0, 0.0, 0.9, 0.99, 0.0, 0.0, 1e-8, 0.1, 3, 1e-2, 1.0)
    return (p, m, v), expected


@case(1e-5)
def momentum_32bit():
    p, g, m = randn(1000), randn(1000), randn(1000)
    moment = 0.9 * m + g
    expected = p - 1e-2 * moment, moment
    ops().optimizer_update_32bit("momentum", g, p, m, None, None, 0.0, 0.0, 0.9, 0.0, 0.0, 0.0, 1e-8, 0.0, 3, 1e-2, 1.0)
    return (p, m), expected


@case(2e-2)
def adam_8bit():
    from bitsandbytes.functional import create_dynamic_map
    signed, unsigned = dynamic_map(), create_dynamic_map(signed=False).to(host.DEVICE)
    p, g = randn(1024), randn(1024)
    state, absmax = ops().quantize_blockwise(randn(1024) * 0.1, signed, 256)
    squares, largest = ops().quantize_blockwise(rand(1024) * 0.1 + 0.01, unsigned, 256)
    m, v = (code[kept.long()].view(-1, 256).mul(top[:, None]).view(-1) for code, kept, top in ((signed, state, absmax), (unsigned, squares, largest)))
    expected, moment, square = adam(p, g, m, v, 3, 1e-2, (0.9, 0.99), 1e-8, 0.0)
    ops().optimizer_update_8bit_blockwise("adam", g, p, state, squares, 0.9, 0.99, 0.0, 0.0, 1e-8, 3, 1e-2, signed, unsigned, absmax, largest)
    m, v = (code[kept.long()].view(-1, 256).mul(top[:, None]).view(-1) for code, kept, top in ((signed, state, absmax), (unsigned, squares, largest)))
    return (p, m, v), (expected, moment, square)
