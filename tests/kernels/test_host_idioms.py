"""What libraries do around kernels: their own launch caches and tuners on top of ours, hooks, functions of the host in kernels,
imports by every path."""

import subprocess
import sys
import threading

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close

# ---- a cache of launches above the decorators -------------------------------------------------------


class Entry(triton.KernelInterface):
    """Keeps what the first launch made, by types and values of the arguments; later launches go to the compiled kernel."""

    def __init__(self, fn):
        self.fn = fn
        self.arg_names = fn.arg_names
        self.kernel_cache = {}
        self.lock = threading.Lock()
        self.misses = 0
        while not isinstance(fn, triton.JITFunction):
            fn = fn.fn
        self.jit_function = fn
        self.specialize_indices = [p.num for p in fn.params if not p.is_constexpr and not p.do_not_specialize]
        self.do_not_specialize_indices = [p.num for p in fn.params if not p.is_constexpr and p.do_not_specialize]

    def key(self, spec_args, dns_args, const_args):

        def spec_arg(arg):
            if hasattr(arg, "data_ptr"):
                return (arg.dtype, arg.data_ptr() % 16 == 0)
            return (type(arg), arg)

        def dns_arg(arg):
            if hasattr(arg, "data_ptr"):
                return arg.dtype
            if not isinstance(arg, int):
                return type(arg)
            return "i32" if -(2**31) <= arg <= 2**31 - 1 else "i64"

        return tuple(map(spec_arg, spec_args)) + tuple(map(dns_arg, dns_args)) + tuple(const_args)

    def run(self, *args, **kwargs):
        grid = kwargs["grid"]
        spec_args, dns_args, const_args, k_args = [], [], [], {}
        for i, param in enumerate(self.jit_function.params):
            if i < len(args):
                value = args[i]
            elif param.name in kwargs:
                value = kwargs[param.name]
            elif param.has_default:
                value = param.default
            else:
                continue  # tuned, or a rule's
            if i in self.specialize_indices:
                spec_args.append(value)
            elif i in self.do_not_specialize_indices:
                dns_args.append(value)
            else:
                const_args.append(value)
            k_args[param.name] = value
        key = self.key(spec_args, dns_args, const_args)
        with self.lock:
            cached = self.kernel_cache.get(key)
        if cached is None:
            self.misses += 1
            kernel = self.fn.run(*args, **kwargs)
            fn, tuned = self.fn, {}
            while not isinstance(fn, triton.JITFunction):
                if isinstance(fn, triton.Autotuner):
                    tuned.update(fn.best_config.kwargs)
                elif isinstance(fn, triton.runtime.Heuristics):
                    for name, rule in fn.values.items():
                        tuned[name] = rule({**k_args, **tuned})
                else:
                    raise RuntimeError("Invalid Runtime Function")
                fn = fn.fn
            with self.lock:
                self.kernel_cache[key] = (kernel, tuned)
            return kernel
        kernel, tuned = cached
        k_args.update(tuned)
        if callable(grid):
            grid = grid(k_args)
        grid = tuple(grid) + (1, 1)
        kernel[grid[0:3]](*[k_args[param.name] for param in self.jit_function.params])
        return kernel


@Entry
@triton.autotune(configs=[triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 256}, num_warps=4)], key=["n"])
@triton.heuristics({"HAS_BIAS": lambda args: args["bias_ptr"] is not None, "EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit(do_not_specialize=["alpha"])
def axpb_kernel(x_ptr, bias_ptr, y_ptr, alpha, n, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = True if EVEN else offs < n
    y = tl.load(x_ptr + offs, mask=mask) * alpha
    if HAS_BIAS:
        y += tl.load(bias_ptr + offs, mask=mask)
    tl.store(y_ptr + offs, y, mask=mask)


def test_a_cache_above_tuner_and_rules(target):
    axpb_kernel.kernel_cache.clear()
    axpb_kernel.misses = 0
    grid = lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), )
    for n, bias, alpha in [(512, True, 2), (512, True, 3), (512, False, 2), (300, True, 5), (300, True, 7), (512, True, 2 ** 40)]:
        x, b, y = torch.randn(n), torch.randn(n) if bias else None, torch.empty(n)
        axpb_kernel[grid](x, b, y, alpha, n)
        close(y, x.double() * alpha + (b.double() if bias else 0), 4)
    assert axpb_kernel.misses == 4


class KeptTuner(triton.Autotuner):
    """Tunes by itself and keeps what it found where the library wants it; keys may be classes of values."""

    def __init__(self, *args, strategy=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.strategy = strategy or {}
        self.kept = {}

    def get_key(self, args):
        values = [self.strategy.get(name, lambda v: v)(args[name]) for name in self.keys if name in args]
        return tuple(values + [str(arg.dtype) for arg in args.values() if hasattr(arg, "dtype")])

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        all_args = {**self.nargs, **kwargs}
        key = self.get_key({k: v for k, v in all_args.items() if k in self.arg_names})
        if key not in self.kept:
            timings = {config: self._bench(*args, config=config, **kwargs) for config in self.prune_configs(kwargs)}
            self.kept[key] = min(timings, key=lambda config: timings[config][0])
        config = self.best_config = self.kept[key]
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        result = self.fn.run(*args, **kwargs, **config.all_kwargs())
        self.nargs = None
        return result


def kept_tuner(configs, key, strategy=None, **options):
    return lambda fn: KeptTuner(fn, fn.arg_names, configs, key, options.pop("reset_to_zero", None), options.pop("restore_value", None),
                                strategy=strategy, **options)


@kept_tuner([triton.Config({"BLOCK": b}) for b in (32, 128)], key=["n"], strategy={"n": lambda n: n.bit_length()},
            restore_value=["x_ptr"], prune_configs_by={"early_config_prune": lambda configs, nargs, **kw: configs[:2]})
@triton.jit
def halve_in_place_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 0.5, mask=offs < n)


def test_a_tuner_derived_from_ours(target):
    halve_in_place_kernel.kept.clear()
    for n in (100, 120, 300):
        x = torch.randn(n)
        y = x.clone()
        halve_in_place_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]), )](y, n)
        assert torch.equal(y, x * 0.5)  # tuned on the data, which were put back
    assert len(halve_in_place_kernel.kept) == 2


hooked = []


def _note(nargs):
    hooked.append(nargs["BLOCK"])


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, pre_hook=_note), triton.Config({"BLOCK": 128})], key=[], reset_to_zero=["total_ptr"])
@triton.jit
def total_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total_ptr, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0)))


def test_reset_to_zero_and_hooks(target):
    x, total = torch.randint(-5, 5, (1000, )).float(), torch.zeros(1)
    total_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]), )](x, total, 1000)
    assert total.item() == x.sum().item()
    assert hooked


# ---- functions of the host in kernels ---------------------------------------------------------------


def unwrap_if_constexpr(o):
    return o.value if isinstance(o, tl.constexpr) else o


@tl.constexpr
def get_int_t(num_bits: tl.constexpr, signed: tl.constexpr) -> tl.dtype:
    return tl.core.get_int_dtype(unwrap_if_constexpr(num_bits), unwrap_if_constexpr(signed))


@tl.constexpr
def one_zeros(num_bits: tl.constexpr) -> int:
    return 1 << (unwrap_if_constexpr(num_bits) - 1)


@triton.constexpr_function
def largest_block(n, limit=64):
    return min(triton.next_power_of_2(n), limit)


@triton.jit
def ordered_bits_kernel(x_ptr, y_ptr, n: tl.constexpr):
    BLOCK: tl.constexpr = largest_block(n)
    for start in tl.static_range(0, n, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < n)
        bits: tl.constexpr = x.dtype.primitive_bitwidth
        u = x.to(get_int_t(bits, False), bitcast=True)
        sign = (u >> bits - 1)
        flip = tl.where(sign != 0, ~tl.zeros_like(u), one_zeros(bits))
        tl.store(y_ptr + offs, (u ^ flip).to(tl.int64), mask=offs < n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_constexpr_as_a_decorator(dtype, target):
    x, y = torch.randn(100).to(dtype), torch.empty(100, dtype=torch.int64)
    ordered_bits_kernel[(1, )](x, y, 100)
    assert torch.equal(y.argsort(), x.argsort()) and y.min() >= 0


# ---- imports ----------------------------------------------------------------------------------------

IMPORTS = '''
import tempfile, importlib.util
import torch
import triton
import triton.language as tl
import triton.language.extra.libdevice as a
import triton.language.extra.cuda.libdevice as b
from triton import cdiv, next_power_of_2
from triton.language import core, math as tl_math, standard
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.libdevice import rsqrt
from triton.language.math import exp2
from triton.language.standard import sigmoid
from triton.runtime import Autotuner, Config, Heuristics, JITFunction, KernelInterface, driver
from triton.runtime.autotuner import autotune, heuristics
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import KernelParam
from triton.compiler import CompiledKernel
from triton.backends.compiler import GPUTarget
from triton.testing import assert_close, do_bench
from triton.tools.tensor_descriptor import TensorDescriptor

major, minor = map(int, triton.__version__.split(".")[:2])
assert (major, minor) >= (3, 3)
assert hasattr(tl, "make_tensor_descriptor") and hasattr(triton, "set_allocator")

LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=1.0)
    y = libdevice.exp(x) + cuda_libdevice.exp(x) + a.exp(x) + b.exp(x) + exp2(x / LN2) + tl_math.exp(x) + tl.math.exp(x) + core.exp(x)
    y += tl.extra.libdevice.exp(x) + tl.extra.cuda.libdevice.exp(x)
    tl.store(y_ptr + i, y * rsqrt(x + 1) * sigmoid(x) + standard.cdiv(n, BLOCK), mask=i < n)


x = torch.rand(1000)
y = torch.empty_like(x)
kernel[(cdiv(1000, 256), )](x, y, 1000, BLOCK=next_power_of_2(200))
d = x.double()
torch.testing.assert_close(y.double(), 10 * d.exp() * (d + 1).rsqrt() * torch.sigmoid(d) + 4, rtol=1e-5, atol=1e-5)
print("fine")
'''


@pytest.mark.cpu_only("child processes run on the CPU")
def test_imports_by_every_path(tmp_path, target):
    script = tmp_path / "client.py"
    script.write_text(IMPORTS)
    result = subprocess.run([sys.executable, "-m", "nereid", script], capture_output=True, text=True)
    assert result.stdout.strip() == "fine", result.stderr
