"""What the cases of `tests/packages` share: the host of a GPU on a machine without one, a record of what was compiled, and comparisons.

Published packages ask PyTorch about the GPU before they launch. On the CPU target those questions are answered here, in the driver: the packages'
files and Nereid stay as they are.
"""

import contextlib
import importlib.abc
import importlib.machinery
import inspect
import sys
import time
import types

import torch

DEVICE = "cpu"  #: where the tensors of the cases live


class Properties:
    """What `torch.cuda.get_device_properties` says of an H200."""
    name = "NVIDIA H200"
    major, minor = 9, 0
    multi_processor_count = 132
    total_memory = 140 << 30
    warp_size = 32
    max_threads_per_multi_processor = 2048
    shared_memory_per_block = 49152
    shared_memory_per_block_optin = 232448
    shared_memory_per_multiprocessor = 233472
    regs_per_multiprocessor = 65536
    L2_cache_size = 50 << 20


class Context(contextlib.nullcontext):
    """`with torch.cuda.device(...)` and streams, without a GPU."""
    cuda_stream = 0
    device = torch.device("cpu")

    def __init__(self, *_, **__):
        super().__init__()

    def synchronize(self):
        pass

    wait_stream = wait_event = record_event = lambda self, *_: self


class Generator:
    """A generator of random numbers whose state is a seed and an offset, as a GPU's is."""

    def __init__(self):
        self.state = torch.tensor([1234, 0])

    def get_state(self):
        return self.state.view(torch.uint8).clone()

    def set_state(self, state):
        self.state = state.view(torch.int64).clone()


def answer_for_a_gpu():
    """`torch.cuda` of a machine without a GPU answers as an H200 machine does, so that packages' checks of the host pass."""
    cuda = torch.cuda
    cuda.get_device_properties = lambda *_: Properties
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_device_name = lambda *_: Properties.name
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.synchronize = lambda *_: None
    cuda.empty_cache = lambda: None
    cuda.current_stream = lambda *_: Context()
    cuda.device = cuda.device_of = cuda.stream = Context
    cuda.is_current_stream_capturing = lambda: False
    cuda.default_generators = (Generator(),)
    torch.Tensor.is_cuda = property(lambda self: True)
    import triton.testing
    for name, answer in (("get_dram_gbps", 4800.0), ("get_max_tensorcore_tflops", 989.0), ("get_max_simd_tflops", 67.0)):  # for models of performance
        setattr(triton.testing, name, lambda *_, answer=answer: answer)
    triton.testing.nvsmi = lambda names: [1980 for _ in names]  # clocks


class Absent(types.ModuleType):
    """A compiled extension module that is not there: imports, but whatever it offers cannot do anything."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(name)

    def __call__(self, *arguments, **keywords):
        if len(arguments) == 1 and callable(arguments[0]) and not keywords:
            return arguments[0]  # a decorator
        return Absent("result")

    def __mro_entries__(self, bases):
        return (object,)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names or name in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


def pretend(*names):
    """Modules `names` import as absent ones: packages import their compiled extensions beside their kernels."""
    sys.meta_path.append(Finder(set(names)))


def bare_package(name, folder):
    """Package `name` without its `__init__`, for packages whose top level wants much that their kernels do not."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__spec__.submodule_search_locations = module.__path__
    sys.modules[name] = module
    return module


class Record:
    """Every compilation of this process: its source, its options and how long it took."""

    def __init__(self):
        import triton
        self.compiled = []
        self.quiet = False
        triton.knobs.compilation.listener = self.note

    def note(self, *, src, metadata, times, **_):
        if not self.quiet:
            self.compiled.append((src, metadata, times))

    def names(self):
        return sorted({kernel_name(source) for source, _, _ in self.compiled})

    def compile_for(self, target, limit, each=None):
        """Compiles what was compiled for `target`, another one, within `limit` seconds: [(name, ms, error)]. Calls `each(source, options, kernel)`
        for every kernel that compiles."""
        import triton
        self.quiet = True
        seen, answers, end = set(), [], time.time() + limit
        for source, metadata, _ in list(self.compiled):
            key = (kernel_name(source), repr(sorted(source.signature.items())), repr(source.constants), repr(source.attrs))
            if key in seen or time.time() > end:
                continue
            seen.add(key)
            options = {name: metadata[name] for name in ("num_warps", "num_stages") if name in metadata}
            start = time.perf_counter()
            error = None
            try:
                kernel = triton.compile(source, target=target, options=options)
                if each:
                    each(source, options, kernel)
            except Exception as reason:
                error = f"{type(reason).__name__}: {reason}"
            answers.append((key[0], (time.perf_counter() - start) * 1e3, error))
        self.quiet = False
        return answers


def kernel_name(source):
    function = source.fn
    return f"{getattr(function, 'module', None) or function.fn.__module__}.{function.fn.__qualname__}"


def randn(*shape, dtype=torch.float32, grad=False, scale=1.0):
    value = (torch.randn(*shape) * scale).to(dtype).to(DEVICE)
    return value.requires_grad_(grad)


def rand(*shape, dtype=torch.float32, grad=False):
    return torch.rand(*shape).to(dtype).to(DEVICE).requires_grad_(grad)


def randint(low, high, *shape, dtype=torch.int64):
    return torch.randint(low, high, shape, dtype=dtype).to(DEVICE)


def tensor(*arguments, **keywords):
    return torch.tensor(*arguments, **keywords).to(DEVICE)


def flat(value):
    """The tensors of nested results."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return []


def compare(actual, expected, tolerance):
    """Fails unless both hold equal tensors: the root of the mean square of the difference is at most `tolerance` of the expected values', the largest
    difference at most twenty times that; integers are equal."""
    actual, expected = flat(actual), flat(expected)
    assert len(actual) == len(expected) and expected, f"{len(actual)} tensors for {len(expected)}"
    for number, (left, right) in enumerate(zip(actual, expected)):
        left, right = left.detach().cpu(), right.detach().cpu()
        assert left.shape == right.shape, f"result {number}: shape {tuple(left.shape)} for {tuple(right.shape)}"
        if not right.dtype.is_floating_point and not right.dtype.is_complex:
            wrong = (left.to(torch.int64) != right.to(torch.int64)).sum().item()
            assert wrong == 0, f"result {number}: {wrong} of {right.numel()} integers differ"
            continue
        if right.dtype.is_complex:
            left, right = torch.view_as_real(left), torch.view_as_real(right)
        left, right = left.double(), right.double()
        same = (left == right) | (left.isnan() & right.isnan())
        assert bool((left.isfinite() | same).all()), f"result {number}: {(~(left.isfinite() | same)).sum().item()} of {right.numel()} not finite"
        difference = torch.where(same, torch.zeros_like(right), left - right)
        finite = right[right.isfinite()]
        size = finite.square().mean().sqrt().item() if finite.numel() else 0.0
        error = difference.square().mean().sqrt().item() if difference.numel() else 0.0
        worst = difference.abs().max().item() if difference.numel() else 0.0
        bound = tolerance * max(size, 1e-6)
        assert error <= bound and worst <= 20 * bound, f"result {number}: mean error {error:.3g}, worst {worst:.3g}, size {size:.3g}, tolerance {tolerance}"


def with_gradients(function, inputs, weight_seed=1):
    """The tensors `function(*inputs)` returns, and the gradients of a weighted sum of them for each input that wants one."""
    inputs = [value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value for value in inputs]
    outputs = flat(function(*inputs))
    generator = torch.Generator().manual_seed(weight_seed)
    kept = [value.detach().clone() for value in outputs]
    wanted = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    if not wanted:
        return kept
    total = sum((value.float() * torch.randn(value.shape, generator=generator).to(value.device)).sum()
                for value in outputs if value.dtype.is_floating_point and value.requires_grad)
    return kept + list(torch.autograd.grad(total, wanted))


CASES = []  #: (name, function that returns (actual, expected), tolerance, keywords)


def case(tolerance=1e-5, gpu_tolerance=None, name=None):
    """A case: a function that returns what the package computed and what PyTorch does. `gpu_tolerance` is for products, TF32 there."""
    def register(function):
        CASES.append((name or function.__name__, function, tolerance, gpu_tolerance or tolerance))
        return function
    return register


def gradients(name, function, reference, *inputs, tolerance=1e-5, gpu_tolerance=None):
    """A case from a function, its reference and a function that makes the inputs: results and gradients are compared."""
    make = inputs[0] if len(inputs) == 1 and inspect.isfunction(inputs[0]) else lambda: inputs
    def run():
        values = make()
        return with_gradients(function, values), with_gradients(reference, values)
    CASES.append((name, run, tolerance, gpu_tolerance or tolerance))
