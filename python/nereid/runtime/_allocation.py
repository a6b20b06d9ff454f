"""Memory that kernels request at run time.

Nereid's kernels do not use it: descriptors that a kernel makes need no allocator. An allocator that a program sets is stored, as
programs written for Triton expect, and returned by the functions of this module.
"""

from contextvars import ContextVar
from typing import Optional, Protocol


class Buffer(Protocol):
    """Memory of a device."""

    def data_ptr(self) -> int:
        ...


class Allocator(Protocol):
    """Gives memory of a device that stays as long as the buffer is referenced."""

    def __call__(self, size: int, alignment: int, stream: Optional[int]) -> Buffer:
        ...


class NullAllocator:
    """The allocator before one is set: raises RuntimeError."""

    def __call__(self, size: int, alignment: int, stream: Optional[int]) -> Buffer:
        raise RuntimeError("Kernel requires a runtime memory allocation, but no allocator was set. "
                           "Use triton.set_allocator to specify an allocator.")


_NULL_ALLOCATOR = NullAllocator()

#: Of the context: other threads do not see what one has set.
_allocator: ContextVar[Allocator] = ContextVar("_allocator", default=_NULL_ALLOCATOR)


def set_allocator(allocator: Allocator) -> None:
    """Says where memory comes from that kernels launched in this context ask for: `allocator(size, alignment, stream)`."""
    _allocator.set(allocator)


class _AllocatorWrapper:
    """An allocator that can be replaced."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator

    def get(self) -> Allocator:
        return self._allocator

    def set(self, allocator: Allocator) -> None:
        self._allocator = allocator

    def __call__(self, size: int, alignment: int, stream: Optional[int]) -> Buffer:
        return self._allocator(size, alignment, stream)


_profile_allocator = _AllocatorWrapper(_NULL_ALLOCATOR)


def set_profile_allocator(allocator: Optional[Allocator]) -> None:
    """The same for the buffers of instrumented kernels; None takes it away."""
    _profile_allocator.set(allocator if allocator is not None else _NULL_ALLOCATOR)


def has_profile_allocator() -> bool:
    """Whether one is set."""
    return _profile_allocator.get() is not _NULL_ALLOCATOR
