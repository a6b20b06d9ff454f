"""PyTorch's compiler on Nereid: `torch.compile`, exported programs, and kernels within compiled functions.

    import nereid.torch
    nereid.torch.use()              # before anything imports triton: kernels for GPUs
    nereid.torch.use(cpu=True)      # kernels for the CPU as well

`python -m nereid.torch` compiles and runs kernels that way, and prints what came of it as JSON: `nereid doctor --torch` shows it. The page is
docs/pytorch.md.
"""

import importlib.util
import json
import os
import sys
import types

from . import _alias

_NAME = "triton"


def use(*, cpu=None):
    """Makes Inductor, PyTorch's compiler, use Nereid as its Triton: in this process, in its compile workers and in later child processes.

    It holds until the process ends, because Inductor's modules keep what they have imported. Further calls change only `cpu`.

    cpu: True: functions on CPU tensors are compiled to kernels in the language, too (`torch._inductor.config.cpu_backend = "triton"`); False: to
    C++, PyTorch's default; None leaves the setting as it is. For one function, `torch.compile(f, options={"cpu_backend": "triton"})`.

    ImportError: PyTorch is not installed. RuntimeError: another Triton has been imported, and modules of this process hold it, or Inductor has been
    imported without one. TypeError: `cpu` is none of these.
    """
    if cpu not in (None, True, False):
        raise TypeError(f"`cpu` must be True, False or None, found {cpu!r}")
    if "torch" not in sys.modules and importlib.util.find_spec("torch") is None:
        raise ImportError("nereid.torch needs PyTorch: pip install torch", name="torch")
    _take_over()
    if cpu is not None:
        import torch._inductor.config as config
        config.cpu_backend = "triton" if cpu else "cpp"


def is_used():
    """Whether `import triton` means Nereid in this process, so that Inductor uses it."""
    return _alias._finder() is not None and _alias._foreign() is None


_REMEDY = ("call nereid.torch.use() before that, at best in the first lines of the program, or run the program by `python -m nereid`, or set "
           "NEREID_AS_TRITON=1 and PYTHONPATH={folder}")

_replaced = {}  # modules of another Triton that nothing had used: extension modules must not be unloaded


def _take_over():
    remedy = _REMEDY.format(folder=_alias._FOLDER)
    foreign = _alias._foreign()
    if foreign is not None:
        holders = _holders()
        if holders:
            raise RuntimeError(f"triton {getattr(foreign, '__version__', '')} is already imported from {getattr(foreign, '__file__', 'somewhere')} and "
                               f"used by {_listed(holders)}: {remedy}")
        for name in [name for name in sys.modules if name.partition(".")[0] == _NAME]:
            _replaced[name] = sys.modules.pop(name)
        _forget()
    elif _alias._finder() is None and _looked_for_triton():
        loaded = sorted(name for name in sys.modules if name.startswith("torch._inductor."))
        if loaded:
            raise RuntimeError(f"PyTorch's compiler has been imported without a Triton ({_listed(loaded)}): {remedy}")
        _forget()
    _alias.install_as_triton()


def _listed(names):
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _holders():
    """Names of the modules in whose namespaces something of the imported Triton is."""

    def is_of_triton(value):
        kind = type(value)  # not isinstance, which asks objects for attributes
        name = value.__name__ if issubclass(kind, types.ModuleType) else value.__module__ if kind in (type, types.FunctionType) else kind.__module__
        return isinstance(name, str) and name.partition(".")[0] == _NAME

    return [name for name, module in list(sys.modules.items()) if name.partition(".")[0] != _NAME and isinstance(module, types.ModuleType)
            and any(is_of_triton(value) for value in list(vars(module).values()))]  # yapf: disable


def _questions():
    """Functions of PyTorch that remember what they found out about Triton."""
    module = sys.modules.get("torch.utils._triton")
    return [value for value in vars(module).values() if hasattr(value, "cache_clear")] if module is not None else []


def _looked_for_triton():
    return any(question.cache_info().currsize for question in _questions())


def _forget():
    for question in _questions():
        question.cache_clear()


# What `nereid doctor --torch` shows


def imported_triton():
    """{"nereid": whether `import triton` means Nereid in this process, "version": the version it reports, "path": its folder}."""
    import triton
    return {"nereid": hasattr(triton, "__nereid_alias__"), "version": triton.__version__, "path": os.path.dirname(triton.__file__ or "")}


def _compiled(device):
    """What came of a function compiled for a device: {"kernels": how many, "error": what went wrong}."""
    import torch
    from torch._inductor import metrics
    metrics.reset()
    try:
        x = torch.linspace(-3, 3, 1000, device=device)
        got = torch.compile(lambda x: torch.softmax(x * x + 1, 0))(x)
        torch.testing.assert_close(got, torch.softmax(x * x + 1, 0))
    except Exception as error:
        return {"kernels": 0, "error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {"kernels": metrics.generated_kernel_count}


def report():
    """A trial of PyTorch's compiler in this process, with its caches off.

    {"version": PyTorch's, "triton": `imported_triton()`, "worker": that of one of Inductor's worker processes, "cpu": ..., "cuda": ...}: of each
    device {"kernels": how many kernels Nereid has compiled for a small function}, with "error" where that failed; {"error": ...} alone where `use`
    is not possible. "cuda" is missing where PyTorch finds no such device.
    """
    try:
        use(cpu=True)
        import torch
        import torch._inductor.config as config
        from torch._inductor.async_compile import AsyncCompile
    except (ImportError, RuntimeError) as error:
        return {"error": str(error)}
    found = {"version": torch.__version__, "triton": imported_triton()}
    try:
        with config.patch(compile_threads=2):
            found["worker"] = AsyncCompile.process_pool().submit(imported_triton).result(timeout=120)
    except Exception as error:
        found["worker"] = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    with config.patch(force_disable_caches=True):
        for device in ("cpu", *["cuda"] * torch.cuda.is_available()):
            found[device] = _compiled(device)
    return found


if __name__ == "__main__":
    # This file runs as `__main__`; workers look for their functions in the module of its name.
    from nereid.torch import report as _report
    _answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps(_report()), file=_answers, flush=True)
