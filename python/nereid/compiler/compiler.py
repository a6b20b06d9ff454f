"""`compile`, and the compiled kernel that it and launches return."""

from .. import _loaded, _names_later
from .._jit import CompiledKernel
from .._kernel import AsmDict, LazyDict
from ._ast_source import ASTSource, compile_function, settled

__all__ = ["ASTSource", "AsmDict", "CompiledKernel", "LazyDict", "Launcher", "compile", "max_shared_mem"]


def max_shared_mem(device):
    """Bytes of shared memory that a block may have."""
    from ..runtime.driver import driver
    return driver.active.utils.get_device_properties(device)["max_shared_mem"]


def compile(src, target=None, options=None, _env_vars=None):
    """Compiles an `ASTSource`, or a file of tile IR, for a target (that of the current device by default).

    options: keywords as of launches; those that the target does not know are left out. Returns the `CompiledKernel`.
    """
    if isinstance(src, ASTSource):
        return compile_function(src, target, options)
    _, _, given = settled(target, options)
    from .source import IRSource
    if not isinstance(src, IRSource):
        src = IRSource(src)
    kernel = src.fn._compile(src._items(), given, src._kernel_name())
    kernel.src = src
    if "knobs" in _loaded:
        _loaded["knobs"]._tell_listener(kernel)
    return kernel


class Launcher:
    """Starts the kernel of a source, as `CompiledKernel.run` does."""

    def __init__(self, src, metadata):
        self.kernel = compile(src, metadata.target, metadata._asdict())

    def __call__(self, *args):
        self.kernel.run(*args)


# What a launch does not need is imported when it is first asked for; `triton_key` and `get_cache_key` are also imported from here.
__getattr__, __dir__ = _names_later(globals(), {
    "backends": "nereid.backends", "GPUTarget": "nereid.backends.compiler", "make_backend": "nereid.backends._table",
    "IRSource": "nereid.compiler.source", "triton_key": "nereid.runtime.cache", "get_cache_key": "nereid.runtime.cache"
}, fresh=("triton_key", "get_cache_key"))
