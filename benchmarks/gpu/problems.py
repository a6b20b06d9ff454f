"""The problems and configurations of sweep.py.

A problem is one kernel on one set of tensors; its configurations are what a user could choose for it. Nothing here needs a GPU until
`tensors` is called: compilation takes the dtypes alone.
"""

import dataclasses
import typing

import torch
import torch.nn.functional as F

from sections import BOUNDS, CUDA, _attention_reference, cdiv, power_of_2

WARPS = (1, 2, 4, 8, 16, 32)
BLOCKS = [1 << bits for bits in range(8, 17)]
NAMES = {torch.float16: "fp16", torch.float32: "fp32"}


class Config(typing.NamedTuple):
    label: str  #: unique within the problem
    constants: dict  #: constexpr parameters
    options: dict  #: num_warps, num_stages
    grid: tuple


@dataclasses.dataclass
class Problem:
    name: str
    family: str  #: what one geometric mean is taken over
    kernel: str
    dtypes: list  #: of the tensors among the kernel's arguments
    arguments: typing.Callable  #: the arguments that are not constexpr, from tensors or dtypes
    tensors: typing.Callable  #: on the GPU
    output: int  #: which of the tensors is written
    judged: typing.Callable  #: what of the output is compared: a list of tensors
    want: typing.Callable  #: the same in float64, from the tensors
    bound: float  #: relative error in the Euclidean norm
    configs: list

    def keys(self):
        return [f"{self.name}, {config.label}" for config in self.configs]


def _warp_configs(rows, block):
    return [Config(f"block {block}, {warps} warps", {"BLOCK_SIZE": block}, {"num_warps": warps}, (rows, )) for warps in WARPS]


def _widths(block):
    """A full block; rows of 77 % of it that start at multiples of 16 elements; rows of an odd width."""
    aligned = block * 99 // 128 // 16 * 16
    return block, aligned, aligned - 3


def softmax(rows):
    for dtype in (torch.float32, torch.float16):
        for block in BLOCKS:
            for cols in _widths(block):
                assert power_of_2(cols) == block

                def tensors(cols=cols, dtype=dtype):
                    x = torch.randn(rows, cols, **CUDA).to(dtype)
                    return [torch.empty_like(x), x]

                yield Problem(f"softmax {NAMES[dtype]} {rows}x{cols}", f"softmax {NAMES[dtype]}", "softmax_kernel", [dtype] * 2,
                              lambda t, cols=cols: (*t, cols, cols, cols), tensors, 0, lambda out: [out],
                              lambda t: [torch.softmax(t[1].double(), 1)], BOUNDS[dtype], _warp_configs(rows, block))


def layer_norm(rows):
    for dtype in (torch.float16, torch.float32):
        for block in BLOCKS:
            for cols in _widths(block):

                def tensors(cols=cols, dtype=dtype):
                    x = torch.randn(rows, cols, **CUDA).to(dtype)
                    return [x, torch.empty_like(x), torch.rand(cols, **CUDA).to(dtype), torch.randn(cols, **CUDA).to(dtype)]

                yield Problem(f"layer norm {NAMES[dtype]} {rows}x{cols}", f"layer norm {NAMES[dtype]}", "layer_norm_kernel", [dtype] * 4,
                              lambda t, cols=cols: (*t, cols, cols, 1e-5), tensors, 1, lambda out: [out],
                              lambda t, cols=cols: [F.layer_norm(t[0].double(), (cols, ), t[2].double(), t[3].double())],
                              BOUNDS[dtype], _warp_configs(rows, block))


#: blocks of M, N and K, stages, warps
MATMUL = [(128, 256, 64, 3, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 4), (128, 128, 64, 3, 8), (128, 128, 64, 3, 4), (128, 128, 64, 2, 8),
          (128, 128, 32, 4, 4), (128, 128, 32, 4, 8), (64, 256, 32, 4, 4), (256, 64, 32, 4, 4), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4),
          (128, 64, 32, 4, 4), (64, 128, 32, 4, 4), (64, 64, 64, 3, 4), (64, 64, 64, 4, 4), (64, 64, 32, 5, 2), (128, 32, 32, 4, 4),
          (32, 64, 32, 5, 2), (64, 32, 32, 5, 2), (256, 256, 64, 3, 8), (128, 256, 32, 4, 8), (256, 128, 32, 4, 8), (32, 32, 64, 4, 4)]


def matmul(_):
    for size, order in ((4096, "nn"), (2048, "nn"), (512, "nn"), (4096, "nt")):

        def tensors(size=size):
            return [torch.randn(size, size, dtype=torch.float16, **CUDA) for _ in range(2)] + [torch.empty(size, size, dtype=torch.float16, **CUDA)]

        transposed = order == "nt"
        strides = (size, 1, *((1, size) if transposed else (size, 1)), size, 1)
        configs = [
            Config(f"{m}x{n}x{k}, {stages} stages, {warps} warps",
                   dict(BLOCK_SIZE_M=m, BLOCK_SIZE_N=n, BLOCK_SIZE_K=k, GROUP_SIZE_M=8, ACTIVATION=""),
                   dict(num_warps=warps, num_stages=stages), (cdiv(size, m) * cdiv(size, n), )) for m, n, k, stages, warps in MATMUL
        ]
        yield Problem(f"matmul fp16 {order} {size}^3", "matmul fp16", "matmul_full_kernel", [torch.float16] * 3,
                      lambda t, size=size, strides=strides: (*t, size, size, size, *strides), tensors, 2, lambda out: [out],
                      lambda t, transposed=transposed: [t[0].double() @ (t[1].t() if transposed else t[1]).double()],
                      BOUNDS[torch.float16], configs)


def one_block(_):
    """Products of one block of K, without a loop."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):

        def tensors(dtype=dtype):
            return [*(torch.randn(*shape, **CUDA).to(dtype) for shape in ((512, 32), (32, 512))), torch.empty(512, 512, **CUDA)]

        configs = [
            Config(f"{m}x{n}x{k}, {warps} warps", dict(BLOCK_SIZE_M=m, BLOCK_SIZE_N=n, BLOCK_SIZE_K=k), dict(num_warps=warps),
                   (cdiv(512, m), cdiv(512, n))) for m, n, k, warps in ((128, 256, 64, 4), (64, 256, 32, 4), (128, 128, 32, 4), (128, 64, 32, 4))
        ]
        yield Problem(f"one block {str(dtype).removeprefix('torch.')} 512x512x32", "one block", "matmul_kernel.fn",
                      [dtype, dtype, torch.float32], lambda t: (*t, 512, 512, 32, 32, 1, 512, 1, 512, 1), tensors, 2, lambda out: [out],
                      lambda t: [t[0].double() @ t[1].double()], 2e-3 if dtype == torch.float32 else BOUNDS[torch.float32], configs)


def attention(_, batch=4, heads=32, sequence=4096):
    for dim in (64, 128):
        for causal in (False, True):

            def tensors(dim=dim):
                return [torch.randn(batch, heads, sequence, dim, dtype=torch.float16, **CUDA) for _ in range(4)]

            scale = 1.4426950408889634 / dim**0.5
            configs = [
                Config(f"{m}x{n}, {stages} stages, {warps} warps", dict(HEAD=dim, BLOCK_M=m, BLOCK_N=n, CAUSAL=causal),
                       dict(num_warps=warps, num_stages=stages), (sequence // m, batch * heads)) for m in (64, 128)
                for n in (32, 64, 128) for stages in (2, 3, 4) for warps in (4, 8) if n <= m or not causal
            ]
            yield Problem(f"attention fp16 d={dim}{' causal' if causal else ''} {batch}x{heads}x{sequence}", "attention fp16",
                          "attention_kernel", [torch.float16] * 4,
                          lambda t, dim=dim, scale=scale: (*t, sequence * dim, dim, sequence, scale), tensors, 3,
                          lambda out: [out[0, 0], out[-1, -1]],
                          lambda t, causal=causal: _attention_reference(*t[:3], causal), 2e-3, configs)


FAMILIES = {function.__name__: function for function in (softmax, layer_norm, matmul, attention, one_block)}


def problems(names, rows=4096):
    return [problem for name in names for problem in FAMILIES[name](rows)]
