"""Nereid: the Triton language, compiled by a C++ compiler.

    import nereid
    import nereid.language as tl

    @nereid.jit
    def kernel(...): ...

    kernel[grid](...)

Names are imported when first used, so that importing the package costs next to nothing.
"""

from . import _later

__version__ = "0.1.0"

# Where each name lives. One list: `__getattr__`, `__all__` and the alias read it.
_HOMES = {
    "nereid.runtime.jit": [
        "jit", "JITFunction", "KernelInterface", "constexpr_function", "ConstexprFunction", "MockTensor", "TensorWrapper",
        "reinterpret",
    ],
    "nereid.runtime.autotuner": ["autotune", "Autotuner", "Config", "heuristics", "Heuristics"],
    "nereid.errors": ["TritonError", "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct",
                      "InterpreterError", "OutOfResources"],
    "nereid.runtime._allocation": ["set_allocator"],
    "nereid.runtime._async_compile": ["AsyncCompileMode", "FutureKernel"],
    "nereid.runtime._precompile": ["precompile", "record"],
    "nereid.compiler": ["CompiledKernel", "compile"],
    "nereid.language._classes": ["aggregate"],
    "nereid._host": ["cdiv", "next_power_of_2", "must_use_result"],
    "nereid._alias": ["install_as_triton"],
    "nereid._native": ["flush_cache", "language_json"],
}
_MODULES = ["language", "runtime", "compiler", "backends", "errors", "testing", "tools", "knobs"]
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *_MODULES, *_HOME_OF]

__getattr__, __dir__ = _later.names(globals(), _HOME_OF, (*_MODULES, "_C"))
