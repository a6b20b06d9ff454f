"""torchao: 8-bit formats by blocks, products of int8 and of fp8, against the package's own references and PyTorch."""

import torch

import host
from host import case, rand, randint, randn


def blockwise():
    from torchao.kernel import blockwise_quantization
    return blockwise_quantization


def training():
    from torchao.prototype.blockwise_fp8_training import kernels
    return kernels


def scaled_blocks(x, rows, columns, largest=448.0):
    blocks = x.view(x.shape[0] // rows, rows, x.shape[1] // columns, columns)
    scale = blocks.abs().amax((1, 3)) / largest
    return (blocks / scale[:, None, :, None]).reshape(x.shape).to(torch.float8_e4m3fn), scale


def floats(*tensors):
    return tuple(x.float() for x in tensors)


@case(1e-3)
def blockwise_act_quant():
    x = randn(24, 256)
    return floats(*blockwise().fp8_blockwise_act_quant(x, 128)), floats(*scaled_blocks(x, 1, 128))


@case(1e-3)
def blockwise_weight_quant():
    x = randn(256, 256)
    return floats(*blockwise().fp8_blockwise_weight_quant(x, 128)), floats(*scaled_blocks(x, 128, 128))


@case(1e-6)
def blockwise_weight_dequant():
    quantised, scale = scaled_blocks(randn(256, 256), 128, 128)
    return blockwise().fp8_blockwise_weight_dequant(quantised, scale, 128), quantised.float() * scale.repeat_interleave(128, 0).repeat_interleave(128, 1)


@case(2e-3, 2e-3)
def blockwise_gemm():
    a, a_scale = scaled_blocks(randn(32, 256), 1, 128)
    b, b_scale = scaled_blocks(randn(128, 256), 128, 128)
    left = a.float() * a_scale.repeat_interleave(128, 1)
    right = b.float() * b_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return blockwise().blockwise_fp8_gemm(a, a_scale, b, b_scale, 128).float(), (left @ right.T).to(torch.get_default_dtype())


@case(1e-3)
def training_act_quant_lhs():
    x = randn(64, 256)
    return floats(*training().triton_fp8_blockwise_act_quant_lhs(x)), floats(*training().torch_blockwise_scale_act_quant_lhs(x))


@case(1e-3)
def training_act_quant_rhs():
    x = randn(256, 128)
    return floats(*training().triton_fp8_blockwise_act_quant_rhs(x)), floats(*training().torch_blockwise_scale_act_quant_rhs(x))


@case(1e-3)
def training_act_quant_transposed_lhs():
    x = randn(128, 256)
    return (floats(*training().triton_fp8_blockwise_act_quant_transposed_lhs(x)),
            floats(*training().torch_blockwise_scale_act_quant_lhs(x.t().contiguous())))


@case(1e-3)
def training_weight_quant_rhs():
    x = randn(256, 256)
    return floats(*training().triton_fp8_blockwise_weight_quant_rhs(x)), floats(*training().torch_blockwise_scale_weight_quant(x))


@case(1e-3)
def training_weight_quant_transposed_rhs():
    x = randn(256, 256)
    return (floats(*training().triton_fp8_blockwise_weight_quant_transposed_rhs(x)),
            floats(*training().torch_blockwise_scale_weight_quant(x.t().contiguous())))


@case(1e-3)
def training_gemm():
    kernels = training()
    a, a_scale = kernels.torch_blockwise_scale_act_quant_lhs(randn(64, 256))
    b, b_scale = kernels.torch_blockwise_scale_weight_quant(randn(128, 256))
    left, right = a.float() * a_scale.repeat_interleave(128, 1), b.float() * b_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return kernels.triton_fp8_gemm_1x128_128x128(a, b.t(), a_scale, b_scale.t()), left @ right.T


def int8(*shape):
    return randint(-128, 128, *shape, dtype=torch.int8)


@case()
def scaled_int8_mm():
    from torchao.prototype.quantized_training import int8_mm
    a, b, rows, columns = int8(70, 96), int8(96, 80), rand(70), rand(80)
    return int8_mm.scaled_int8_mm_cuda(a, b, rows, columns), (a.cpu().int() @ b.cpu().int()).to(a.device).float() * rows[:, None] * columns


@case()
def int_matmul():
    from torchao.kernel import intmm_triton
    a, b = int8(64, 96), int8(96, 64)
    c = torch.empty(64, 64, dtype=torch.int32, device=host.DEVICE)
    config = intmm_triton.int8_mm_kernel_configs[0]
    return intmm_triton.int_matmul_kernel(a, b, c, config), (a.cpu().int() @ b.cpu().int()).to(a.device)


@case()
def int_scaled_matmul():
    from torchao.kernel import intmm_triton
    a, b, scales = int8(64, 96), int8(96, 64), rand(64, 1)
    c = torch.empty(64, 64, device=host.DEVICE)
    config = intmm_triton.int8_mm_kernel_configs[0]
    return intmm_triton.int_scaled_matmul_kernel(a, b, scales.expand(64, 64), c, config), (a.cpu().int() @ b.cpu().int()).to(a.device).float() * scales


def tensorwise(name, *views):
    """fp8 with one scale, in one memory layout and in two."""
    from torchao.prototype.float8nocompile.kernels import fp8_dynamic_tensorwise as kernels
    x = randn(64, 96)
    from torchao.float8.float8_training_tensor import LinearMMConfig
    made = getattr(kernels, name)(x, torch.float8_e4m3fn, LinearMMConfig())
    made = made if isinstance(made, tuple) else (made, )
    scale = (448.0 / x.abs().max().double()).float()
    quantised = (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn).float()
    return tuple(each._data.float() for each in made), tuple(quantised.t() if view == "t" else quantised for view in views)


@case(1e-2)
def fp8_row_major():
    return tensorwise("hp_to_fp8_row_major", "n")


@case(1e-2)
def fp8_row_major_t():
    return tensorwise("hp_to_fp8_row_major_t", "t")


@case(1e-2)
def fp8_row_and_col_major():
    return tensorwise("hp_to_fp8_row_and_col_major", "n", "n")
