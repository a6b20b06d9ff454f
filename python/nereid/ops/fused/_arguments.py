"""Checks of arguments that fused operators share. They raise what the operators' docstrings say, with the name of the argument."""

import torch

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def floats(**tensors):
    """Raises TypeError unless all tensors (None aside) are of a float dtype from 16 bits on."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.dtype not in FLOATS:
            raise TypeError(f"`{name}` has dtype {tensor.dtype}: expected float16, bfloat16, float32 or float64")


def one_dtype(**tensors):
    """Raises TypeError unless all tensors (None aside) have one dtype."""
    named = [(name, tensor.dtype) for name, tensor in tensors.items() if tensor is not None]
    for name, dtype in named[1:]:
        if dtype != named[0][1]:
            raise TypeError(f"`{name}` has dtype {dtype}, `{named[0][0]}` {named[0][1]}: expected one dtype")


def one_device(**tensors):
    """Raises ValueError unless all tensors (None aside) are on one device."""
    named = [(name, tensor.device) for name, tensor in tensors.items() if tensor is not None]
    for name, device in named[1:]:
        if device != named[0][1]:
            raise ValueError(f"`{name}` is on {device}, `{named[0][0]}` on {named[0][1]}: expected one device")


def shape(tensor, expected, name):
    """Raises ValueError unless the tensor, where it is not None, has this shape."""
    if tensor is not None and tuple(tensor.shape) != tuple(expected):
        raise ValueError(f"`{name}` has shape {tuple(tensor.shape)}: expected {tuple(expected)}")
