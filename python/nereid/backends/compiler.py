"""Names of targets."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class GPUTarget:
    """What a kernel is compiled for: `GPUTarget("cuda", 90, 32)`; the CPU is `GPUTarget("cpu", "native", 1)`."""
    backend: str
    arch: int | str
    warp_size: int


def target_of(text):
    """The target that a name of the library ("cpu", "cuda:90") stands for."""
    backend, _, arch = text.partition(":")
    return GPUTarget(backend, int(arch), 32) if arch else GPUTarget(backend, "native" if backend == "cpu" else 0,
                                                                  1 if backend == "cpu" else 32)
