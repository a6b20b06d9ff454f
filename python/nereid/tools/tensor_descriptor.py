"""Tensor descriptors made on the host, to be passed to kernels."""

import dataclasses
from typing import Any, List

_MAX_RANK = 5
_ALIGNMENT = 16  # of the base and of the strides, in bytes


def _require(condition, text):
    if not condition:
        raise AssertionError(text)


def _address(base):
    """Where the first element is, or None for what has no memory (fake tensors of tracers)."""
    if type(base).__name__ in ("FakeTensor", "FunctionalTensor"):
        return None
    if hasattr(base, "data_ptr"):
        return base.data_ptr()
    interface = getattr(base, "__cuda_array_interface__", None) or base.__array_interface__
    return interface["data"][0]


def _is_floating(dtype):
    return dtype.is_floating_point if hasattr(dtype, "is_floating_point") else dtype.kind in "fV"


@dataclasses.dataclass
class TensorDescriptor:
    """A tensor as blocks of one size; in a kernel it is what `tl.make_tensor_descriptor` gives.

    :param base: the tensor (torch, NumPy, CuPy...) whose first element is the first element; its address is a multiple of 16.
    :param shape: the sizes, one to five positive integers.
    :param strides: how many elements neighbours lie apart; the last is 1, the others are multiples of 16 bytes.
    :param block_shape: the sizes of a block.
    :param padding: what a load gives outside the tensor: `"zero"`, or `"nan"` for floats.
    :param round_f32_to_tf32: whether loads round fp32 to TF32 (10 bits of mantissa): to the nearest, ties to even; infinities and NaN stay.

    Raises AssertionError for what is refused.
    """
    base: Any
    shape: List[int]
    strides: List[int]
    block_shape: List[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self):
        rank = len(self.shape)
        _require(len(self.strides) == rank and len(self.block_shape) == rank, f"rank mismatch: {self}")
        _require(rank > 0, "rank must not be zero")
        _require(rank <= _MAX_RANK, "rank cannot be more than 5")
        _require((_address(self.base) or 0) % _ALIGNMENT == 0, "base must be 16-byte aligned")
        _require(all(size > 0 for size in self.block_shape), "block_shape must be positive")
        itemsize = self.base.dtype.itemsize
        _require(all(stride * itemsize % _ALIGNMENT == 0 for stride in self.strides[:-1]), "strides must be 16-byte aligned")
        _require(all(size > 0 for size in self.shape), "shape must be positive")
        _require(self.strides[-1] == 1, "Last dimension must be contiguous")
        _require(self.padding in ("zero", "nan"), "Illegal value for padding")
        _require(self.padding == "zero" or _is_floating(self.base.dtype),
                 "Padding option `nan` is only supported for floating point tensors")
        _require(not self.round_f32_to_tf32 or str(self.base.dtype).endswith("float32"), "round_f32_to_tf32 is only supported for float32 tensors")

    @staticmethod
    def from_tensor(tensor, block_shape, padding="zero", round_f32_to_tf32=False):
        """The descriptor of a whole tensor with its own shape and strides."""
        itemsize = tensor.dtype.itemsize
        strides = tensor.stride() if hasattr(tensor, "stride") else [stride // itemsize for stride in tensor.strides]
        return TensorDescriptor(tensor, tensor.shape, strides, block_shape, padding, round_f32_to_tf32)
