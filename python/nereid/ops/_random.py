"""Random numbers on GPUs: PyTorch's generator, and how its order of numbers becomes launches (kernels/random.py)."""

import dataclasses
import functools

import torch

from ._launch import launch, unrepeatable
from ._strided import cdiv
from .kernels import random as kernels

#: Threads in a block of PyTorch's kernels: part of the order of its numbers.
_THREADS = 256
BLOCK = 256


@functools.cache
def _most_blocks(index):
    properties = torch.cuda.get_device_properties(index)
    return properties.multi_processor_count * (properties.max_threads_per_multi_processor // _THREADS)


@dataclasses.dataclass(frozen=True)
class Order:
    """How the numbers of a tensor are distributed: threads, calls of the generator by each, and by how much the generator's offset grows."""
    threads: int
    calls: int
    increment: int


def order(numel, per_call, most_blocks):
    """The `Order` of `numel` numbers, `per_call` of them by one call; a GPU runs `most_blocks` blocks at once."""
    blocks = min(cdiv(numel, _THREADS), most_blocks)
    calls = (numel - 1) // (_THREADS * blocks * per_call) + 1
    return Order(_THREADS * blocks, calls, 4 * calls)


def ready(generator, device):
    """Whether the generator of a device can be used from here: not while a CUDA graph is captured, whose offsets only PyTorch's kernels read."""
    return (generator is None or generator.device.type == "cuda") and not torch.cuda.is_current_stream_capturing()


def advanced(generator, device, increment):
    """(seed, offset) of a CUDA generator (None: the device's), whose offset then grows by `increment`."""
    unrepeatable("random numbers")
    if generator is None:
        generator = torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    offset = generator.get_offset()
    generator.set_offset(offset + increment)
    return generator.initial_seed(), offset


def signed(seed):
    """A seed of 64 bits as kernels get it."""
    return seed - 2**64 if seed >= 2**63 else seed


def draw(out, seed, offset, kind, make, scalars, wide, its_order):
    """Writes numbers into a contiguous tensor. kind: "uniform", "normal", "bits"; make: a function of kernels/random.py with its `scalars`; wide: two numbers by a call."""
    launch(kernels.draw, (cdiv(its_order.threads, BLOCK), its_order.calls), out.device, {
        "out": out, "seed": signed(seed), "offset": offset, "numel": out.numel(), "threads": its_order.threads, "scalars": tuple(scalars)
    }, {"FROM": kind, "MAKE": make, "WIDE": wide, "BLOCK": BLOCK})


def drop(out, kept, x, seed, offset, p, its_order):
    """out = x with elements set to 0 with the probability p, the others scaled; kept: which are left. All contiguous."""
    launch(kernels.dropped, (cdiv(its_order.threads, BLOCK), its_order.calls), x.device, {
        "out": out, "kept": kept, "x": x, "seed": signed(seed), "offset": offset, "numel": x.numel(), "threads": its_order.threads, "share": 1.0 - p,
        "scale": 1.0 / (1.0 - p)
    }, {"BLOCK": BLOCK})


def order_on(device, numel, per_call):
    return order(numel, per_call, _most_blocks(torch.cuda.current_device() if device.index is None else device.index))
