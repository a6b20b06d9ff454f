"""Base classes of drivers."""

import abc

from .. import _alias


class Benchmarker:
    """A function that measures: `(fn, *, quantiles, **kwargs) -> milliseconds`."""

    def __call__(self, kernel_call, *, quantiles, **kwargs):
        raise NotImplementedError


# C types of arguments, by signature.
_C_TYPES = {
    "i1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u1": "uint8_t", "u8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "fp16": "double", "bf16": "double", "fp32": "double", "f32": "double",
    "fp64": "double",
}  # yapf: disable


class DriverBase(metaclass=abc.ABCMeta):
    """The devices of one kind: which is current, its target, its streams."""

    @classmethod
    @abc.abstractmethod
    def is_active(cls):
        """Whether there is such a device."""

    @abc.abstractmethod
    def get_current_target(self):
        """The `GPUTarget` of the current device."""

    @abc.abstractmethod
    def get_active_torch_device(self):
        """The current device as torch's."""

    @abc.abstractmethod
    def map_python_to_cpp_type(self, ty):
        """The C type that an argument of this signature has in a launcher."""

    @abc.abstractmethod
    def get_benchmarker(self):
        """A `Benchmarker` for it."""

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream):
        """Memory for a kernel's profile where the program has set no allocator."""
        raise NotImplementedError(f"{type(self).__name__} allocates no memory for profiles")


class GPUDriver(DriverBase):
    """A driver of GPUs."""

    def assemble_tensormap_to_arg(self, tensormaps_info, args):
        """Tensor maps are made by the launcher: the arguments stay."""
        return args

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream):
        """`size` zero bytes of the current device, as a torch tensor that lives until the stream (a number, 0 or None for the usual one) is
        done with it; torch aligns them by 512."""
        import torch
        device = self.get_active_torch_device()
        if not stream:
            return torch.zeros(size, dtype=torch.int8, device=device)
        outer = torch.cuda.ExternalStream(stream, device=device)
        with torch.cuda.stream(outer):
            scratch = torch.zeros(size, dtype=torch.int8, device=device)
        scratch.record_stream(outer)
        return scratch


def c_type(signature, pointer):
    """The C type of a signature; `pointer` for pointers."""
    return pointer if signature.startswith("*") else _C_TYPES[signature]


def expand_signature(signature, tensordesc_meta=None, descriptor_type="nvTmaDesc"):
    """A signature's types with those of a descriptor in its place: base, sizes, strides."""
    import re
    result = []
    for entry in signature:
        match = re.match(r"tensordesc<(\w+)\[([\d, ]*)\]", entry) if isinstance(entry, str) else None
        if match is None:
            result.append(entry)
            continue
        rank = match.group(2).count(",") + 1
        result += [f"*{match.group(1)}", *["i64"] * (2 * rank), "i1", *_rounding("i1"), *["i32"] * rank, *["i64"] * rank]
    return result


def _rounding(flag):
    """Since Triton 3.7 a descriptor also says whether fp32 numbers are rounded to TF32."""
    return [flag] if _alias.release() >= (3, 7) else []


def decompose_descriptor(arg):
    """A descriptor as base, sizes, strides, whether NaN is read outside, whether fp32 is rounded to TF32 (since Triton 3.7), sizes, strides."""
    return [arg.base, *arg.shape, *arg.strides, arg.padding == "nan", *_rounding(arg.round_f32_to_tf32), *arg.shape, *arg.strides]


def wrap_handle_tensordesc_impl(launcher, signature, tensordesc_meta, make_tensordesc_arg):
    """A launcher that takes descriptors: the kernel's own launcher does."""
    return launcher
