"""The devices of this machine: which one launches go to, its properties, its current stream.

`driver.active` is what launches go to when neither their arguments nor an option says: the GPU where there is one.
"""

from .. import _native
from ..backends.cpu.driver import CPUDriver
from ..backends.driver import DriverBase
from ..backends.nvidia.driver import CudaDriver

cpu = CPUDriver()
cuda = CudaDriver()


class DriverConfig:
    """`triton.runtime.driver`."""

    def __init__(self):
        self._chosen = None

    @property
    def default(self):
        """The driver of launches when none was chosen."""
        return cuda if CudaDriver.is_active() else cpu

    @property
    def active(self):
        """The driver that launches go to."""
        name = "cuda" if _native.default_target().startswith("cuda") else "cpu"
        if self._chosen is not None and getattr(self._chosen, "name", name) == name:
            return self._chosen
        return cuda if name == "cuda" else cpu

    def set_active(self, driver):
        """Launches whose arguments could go either way go to this driver: an object of a backend's `driver` class."""
        _native.set_fallback_target(driver.get_current_target().backend if not hasattr(driver, "name") else driver.name)
        self._chosen = driver
        _native.choices_changed()  # a tuner's choice is one for a kind of device

    def set_active_to_cpu(self):
        """Launches whose arguments could go either way run on the CPU."""
        self.set_active(cpu)

    def set_active_to_gpu(self):
        """Launches whose arguments could go either way go to the GPU. Raises, saying which part is missing, when there is none."""
        _native.check_cuda()
        self.set_active(cuda)

    def reset_active(self):
        """Launches whose arguments could go either way go to the GPU again where there is one."""
        _native.set_fallback_target("")
        self._chosen = None
        _native.choices_changed()

    def get_active_gpus(self):
        """The drivers of GPUs that are usable."""
        return [cuda] if CudaDriver.is_active() else []


driver = DriverConfig()


def arrays_of(values):
    """The arrays and tensors among arguments, those behind descriptors and in tuples included."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from arrays_of(value)
        elif hasattr(value, "dtype") and not isinstance(value, type):
            yield value
        elif hasattr(value, "base") and hasattr(value, "block_shape"):
            yield from arrays_of([value.base])


def device_of(arguments):
    """The number of the GPU that a launch with these arguments (a dict) goes to; None for the CPU."""
    target = arguments.get("nereid_target", arguments.get("target"))
    arrays = list(arrays_of(arguments.values()))
    if arrays or isinstance(target, str):
        return _native.device_of_arguments(arrays, target if isinstance(target, str) else None)
    return None if driver.active is cpu else cuda.get_current_device()


__all__ = ["DriverBase", "DriverConfig", "backends", "cpu", "cuda", "driver"]


def __getattr__(name):
    """`triton.runtime.driver` is this module or the object `driver`, depending on who imported what first: both answer alike."""
    if name == "backends":
        from .. import backends
        return backends.backends
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(driver, name)
