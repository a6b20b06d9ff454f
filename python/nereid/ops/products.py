"""Matrix products: the host side of `kernels/products.py`, and which configuration of the kernel a product gets.

`tiles` is the one place that chooses: a function of device, dtype and sizes, computed, never measured at a call. `CHOSEN` overrides it.
"""

import dataclasses
import functools
import math

import torch

import nereid.language as tl

from ._launch import launch
from ._strided import NARROW, STORAGE, cdiv, programs_wanted, step_up
from .kernels.products import add_parts, integer_product, product, vector_product


@dataclasses.dataclass(frozen=True)
class Tiles:
    """How a product is cut. m, n, k: of a tile. parts: into how many parts the summed dimension is cut. group: rows of tiles that are walked together."""
    m: int
    n: int
    k: int
    parts: int = 1
    group: int = 8
    warps: int = 4
    stages: int = 3


#: {problem: Tiles}: measured choices, which go before the computed ones. A problem is (name of the device, "cpu" for the host, dtype, batches, m, n, k).
CHOSEN = {}


#: GPUs add up the 16 or 32 products of a tile of fp32 in full precision first, in tiles of at most so many elements and sums of at most so many products: the error of one long sum grows
#: with the root of its length. Tiles of 128x128 lack the registers (1.14 to 1.2 times the time); ATen adds up longer sums in one go, too.
BY_TILE = 64 * 64, 512


def problem(device, dtype, batches, m, n, k):
    return "cpu" if device.type == "cpu" else torch.cuda.get_device_properties(device).name, dtype, batches, m, n, k


def choose(problem, choice):
    """Gives a problem these tiles from now on."""
    CHOSEN[problem] = choice
    tiles.cache_clear()


@functools.lru_cache(4096)
def tiles(device, dtype, batches, m, n, k, precision="ieee", wide=False):
    """The tiles of a product of `batches` matrices (m, k) by (k, n).

    device: a torch.device; dtype: of the operands; precision: "ieee" or "tf32", of fp32; wide: whether sizes on CPUs may be other than powers of two, and wide blocks of columns pay.
    """
    measured = CHOSEN.get(problem(device, dtype, batches, m, n, k)) if CHOSEN else None
    if measured:
        return measured
    if device.type == "cpu":
        return cpu_tiles(dtype, batches, m, n, k, wide)
    return gpu_tiles(torch.cuda.get_device_properties(device).multi_processor_count, dtype, batches, m, n, k, precision)


def candidates(device, dtype, batches, m, n, k, precision="ieee"):
    """The tiles that are worth measuring for a product, the computed choice first."""
    if device.type == "cpu":
        first = cpu_tiles(dtype, batches, m, n, k)
        others = [dataclasses.replace(first, m=block_m, n=block_n, k=block_k) for block_m in (8, 32, 64, 128) for block_n in (32, 64) for block_k in (64, 128)
                  if block_m <= 2 * m and block_n <= 2 * n]
        return list(dict.fromkeys([first, *others]))
    found = sorted(estimates(torch.cuda.get_device_properties(device).multi_processor_count, dtype, batches, m, n, k, precision), key=lambda pair: pair[0])
    return [choice for _, choice in found[:8]]


def cpu_tiles(dtype, batches, m, n, k, wide=False):
    block_m, block_n, block_k = step_up(m, (4, 8, 16, 32, 64)), step_up(n, (16, 32, 64, 128) if m <= 16 else (16, 32, 64)), step_up(k, (16, 32, 64, 128))
    if wide and m > 16 and n > 64:
        # The left operand is copied again for each block of columns, so blocks are wide where every thread has two; the width changes no result.
        tiles, wanted = batches * cdiv(m, block_m), 2 * torch.get_num_threads()
        widths = [size for size in range(64, 321, 16) if size <= 80 or tiles * cdiv(n, size) >= wanted]
        block_n = min(widths, key=lambda size: cdiv(n, size) * (size + 24))
    if wide and m > 16 and k > 128:  # the sums are read and written again for each block; longer ones have larger errors in fp32
        block_k = min(range(64, 257 if dtype.itemsize == 2 and n >= 256 else 129, 32), key=lambda size: cdiv(k, size) * (size + 24))
    if m >= 128 and batches * cdiv(m, 128) * cdiv(n, block_n) >= 64:
        block_m = 128
    count = batches * cdiv(m, block_m) * cdiv(n, block_n)
    steps = cdiv(k, block_k)
    parts = min(8 // count, steps // 4) if count < 8 and m * n <= 64 * 64 else 1
    return Tiles(block_m, block_n, block_k, max(1, parts), group=4)


@dataclasses.dataclass(frozen=True)
class Rates:
    """A model of a GPU, in microseconds and bytes. Fitted to the times of benchmarks/ops/tiles.py on an H200 (root mean square error of the logarithms 0.14); single numbers are what
    the fit gives, not properties of the machine.

    multiplied: multiply-adds of a multiprocessor in a microsecond, with a tile whose share is 1. alone: what one of the programs that could share a multiprocessor lacks of the rate
    of two. trip: how long a tile of operands is on its way, while `stages` - 1 of them are. pulled: bytes that a multiprocessor reads. start: of a program before its first product;
    stored: for an element of the result. memory, cache: bytes that all multiprocessors read from memory and from the L2 cache. launch: of a kernel; parts: of the second kernel that
    adds parts, added: for an element of a part.
    """
    multiplied: float
    alone: float = 0.32
    trip: float = 0.81
    pulled: float = 8e4
    start: float = 1.45
    stored: float = 3.1e-5
    memory: float = 6e6
    cache: float = 1.03e7
    launch: float = 6.3
    parts: float = 1.8
    added: float = 1.7e-6


_UNIT_RATES, _SCALAR_RATES = Rates(2.63e6), Rates(2.2e5, alone=0.4, trip=0, pulled=math.inf)
#: Tiles of the matrix units: (m, n, k, warps, stages, share of the rate, programs that run on a multiprocessor at once). 16-bit operands; tf32 ones have half of k.
_UNITS = (
    (128, 256, 64, 8, 3, 1.05, 1), (128, 256, 64, 8, 4, 1.05, 1), (256, 128, 64, 8, 3, 0.99, 1), (256, 128, 64, 8, 4, 1.01, 1), (128, 192, 64, 8, 4, 1.02, 1),
    (128, 128, 64, 8, 3, 1.05, 2), (128, 128, 64, 8, 4, 1.0, 1), (128, 128, 64, 4, 4, 1.05, 2), (128, 64, 64, 4, 4, 0.78, 2), (64, 128, 64, 4, 4, 0.79, 2),
    (64, 256, 64, 4, 3, 0.74, 1), (64, 256, 64, 4, 4, 0.83, 1), (64, 64, 64, 4, 4, 0.64, 4), (32, 128, 64, 4, 4, 0.181, 4), (64, 32, 64, 4, 4, 0.31, 4), (32, 64, 64, 4, 4, 0.203, 4),
    (16, 128, 128, 4, 3, 0.091, 4), (16, 64, 128, 4, 4, 0.22, 4), (32, 32, 128, 4, 3, 0.187, 4), (16, 32, 128, 4, 4, 0.13, 6),
)
#: The same for multiply-adds (fp32 in full precision) and for fp64; not measured.
_SCALARS = (
    (128, 128, 16, 8, 3, 1.0, 1), (128, 64, 16, 4, 3, 0.9, 2), (64, 128, 16, 4, 3, 0.9, 2), (64, 64, 16, 4, 3, 0.75, 4), (64, 32, 32, 4, 3, 0.6, 4), (32, 64, 32, 4, 3, 0.6, 4),
    (32, 32, 32, 4, 3, 0.45, 6), (16, 64, 32, 4, 3, 0.4, 6), (16, 32, 32, 4, 3, 0.3, 8),
)


def gpu_tiles(processors, dtype, batches, m, n, k, precision="ieee"):
    """The tiles that a model of the GPU finds quickest."""
    return min(estimates(processors, dtype, batches, m, n, k, precision), key=lambda pair: pair[0])[1]


def estimates(processors, dtype, batches, m, n, k, precision):
    """(microseconds, Tiles) for all tiles: rounds of programs times the time of each, not less than memory and the L2 cache take."""
    units = dtype in (torch.float16, torch.bfloat16, torch.int8) or dtype == torch.float32 and precision != "ieee"
    narrow = dtype in (torch.float16, torch.bfloat16, torch.int8)
    rates, size = _UNIT_RATES if units else _SCALAR_RATES, dtype.itemsize
    for block_m, block_n, block_k, warps, stages, share, programs in _UNITS if units else _SCALARS:
        if dtype == torch.float64 and block_m * block_n > 64 * 64:
            continue
        if units and not narrow:
            block_k //= 2
        count = batches * cdiv(m, block_m) * cdiv(n, block_n)
        steps = cdiv(k, block_k)
        rate = share * rates.multiplied * (1 if narrow or not units else 0.5)

        def round_time(running, depth):
            # Programs that share a multiprocessor share its rate; one program alone does not reach that of several.
            reached = min(1, running / min(programs, 2) * (1 - rates.alone) + rates.alone) if programs > 1 else 1
            step = running * block_k * max(block_m * block_n / (rate * reached), (block_m + block_n) * size / rates.pulled)
            return depth * max(step, rates.trip / (stages - 1)) + running * block_m * block_n * rates.stored + rates.start

        for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            if parts > 1 and (count * parts > 4 * processors or steps < 4 * parts):
                break
            depth = cdiv(steps, parts)
            rounds, rest = divmod(count * parts, processors * programs)
            time = rounds * round_time(programs, depth) + (round_time(cdiv(rest, processors), depth) if rest else 0)
            moved = size * batches * (m + n) * k + batches * m * n * (size if parts == 1 else 8 * parts)
            time = max(time, moved / rates.memory, count * parts * depth * block_k * (block_m + block_n) * size / rates.cache) + rates.launch
            if parts > 1:
                time += rates.parts + parts * m * n * batches * rates.added
            yield time, Tiles(block_m, block_n, block_k, parts, 8, warps, stages)


def fp32_precision(device):
    """"tf32" where PyTorch's settings allow it for products of fp32 on this device, else "ieee"."""
    return "tf32" if device.type == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"


def by_tile(device, cut, products):
    """Whether sums of so many products of fp32 in full precision are made of those of tiles."""
    return device.type != "cpu" and cut.m * cut.n <= BY_TILE[0] and products <= BY_TILE[1]


def multiply(out, a, b, bias, sizes, strides, alpha=1, beta=1, activation=None, outer=1, residual=None, saved=None, precision=None):
    """Writes out[b, m, n] = activation(alpha * sum over o, k of a[b, o, m, k] * b[b, o, k, n] + beta * bias[b, m, n]) + residual[m, n].

    out, a, b, bias: tensors of one device, bias or None; a and b of one dtype. sizes: (batches, m, n, k), outer: that of o; none of batches, m, n is 0.
    strides: of out (batch, m, n), a (batch, o, m, k), b (batch, o, k, n), bias (batch, m, n), 0 where they are broadcast. alpha, beta: numbers.
    activation: None, "relu", "gelu", "gelu_tanh", "silu". residual: a matrix or None; saved: None, or a tensor with the strides of `out` into which goes what the
    activation is applied to; both for floats and one batch only. precision: of fp32, "ieee" or "tf32"; None: as PyTorch's settings for products say. `out` shares no memory with a and b, and with bias only the same elements.
    """
    batches, m, n, k = sizes
    out_strides, a_strides, b_strides, bias_strides = strides
    if alpha == 0:
        k = 0
    floating = a.dtype.is_floating_point
    number = float if floating else int
    alpha, beta = number(alpha), number(beta)
    if bias is None or beta == 0:
        bias, bias_strides = None, (0, 0, 0)
    fixed = {"ALPHA": alpha != 1, "BETA": beta != 1, "ACTIVATION": activation}
    numbers = {"alpha": alpha, "beta": beta}
    if k == 0:
        outer = 1
    if n == 1 and outer == 1:
        extra = None if residual is None and saved is None else (residual, 0 if residual is None else residual.stride(0), None, saved)
        _by_vector(out, a, b, bias, extra, (batches, m, k), (out_strides[:2], (a_strides[0], *a_strides[2:]), (b_strides[0], b_strides[2]), bias_strides[:2]), numbers, fixed)
        return
    if m == 1 and outer == 1:
        extra = None if residual is None and saved is None else (residual, 0 if residual is None else residual.stride(1), None, saved)
        _by_vector(out, b, a, bias, extra, (batches, n, k), ((out_strides[0], out_strides[2]), (b_strides[0], b_strides[3], b_strides[2]), (a_strides[0], a_strides[3]),
                                                      (bias_strides[0], bias_strides[2])), numbers, fixed)
        return
    if a.dtype in (torch.int16, torch.int32, torch.int64):
        _integers(out, a, b, bias, sizes, strides, bias_strides, k, outer, numbers, fixed)
        return
    a_unit, b_unit = ("k" if a_strides[3] == 1 else "m" if a_strides[2] == 1 else None), ("n" if b_strides[3] == 1 else "k" if b_strides[2] == 1 else None)
    if a.dtype != torch.float32:
        precision = "ieee"
    elif precision is None:
        precision = fp32_precision(a.device)
    # A right operand that lies along k is turned again for each block of rows, so that narrow blocks, which stay in the first cache, are better where there are several.
    cut = tiles(a.device, a.dtype, batches, m, n, k * outer, precision, wide=b_unit != "k" or m <= 64)
    if a.device.type == "cpu" and outer > 1 and cut.k > k:  # no more than is summed at once
        cut = dataclasses.replace(cut, k=cpu_tiles(a.dtype, batches, m, n, k).k)
    steps = cdiv(k, cut.k) * outer
    each = max(1, cdiv(steps, cut.parts))
    parts = max(1, cdiv(steps, each))
    acc = tl.float64 if a.dtype == torch.float64 else tl.float32 if floating else tl.int32
    epilogue = acc if floating or out.dtype == torch.int32 else tl.int32
    workspace = torch.empty((parts, batches, m, n), dtype=STORAGE[acc], device=a.device) if parts > 1 else None
    out_unit = out_strides[2] == 1
    a_other, b_other = (a_strides[2] if a_unit == "k" else a_strides[3]), (b_strides[2] if b_unit == "n" else b_strides[3])
    unit = 16 // a.element_size()

    def aligned_to(*numbers):
        return all(number % unit == 0 for number in numbers)

    aligned = (aligned_to(a_other, *a_strides[:2]) | aligned_to(b_other, *b_strides[:2]) << 1 | aligned_to(n, *out_strides[:2]) << 2 | aligned_to(m) << 3
               | aligned_to(k) << 4)
    extra = None
    if residual is not None or saved is not None:
        row, column = residual.stride() if residual is not None else (0, 1)
        extra = residual, row, None if column == 1 and (row % unit == 0 or not aligned & 4) else column, saved
    even = (m % cut.m == 0) | (n % cut.n == 0) << 1 | (k % cut.k == 0) << 2
    # The step from tile to tile along k counts, too.
    reach = max(cut.m * a_strides[2] + cut.k * a_strides[3], cut.k * b_strides[2] + cut.n * b_strides[3], cut.m * n,
                *(cut.m * x[1] + cut.n * x[2] for x in (out_strides, bias_strides)),
                cut.m * residual.stride(0) + cut.n * residual.stride(1) if residual is not None else 0)
    count = batches * cdiv(m, cut.m) * cdiv(n, cut.n)
    arguments = {
        "out": out, "a": a, "b": b, "bias": bias if parts == 1 else None, "extra": extra if parts == 1 else None, "parts": workspace, **numbers, "m_size": m, "n_size": n, "k_size": k, "outer_size": outer,
        "batches": batches, "tiles_of_part": each, "out_strides": out_strides, "a_strides": a_strides, "b_strides": b_strides, "bias_strides": _row_or(bias_strides)
    }
    own = fixed if parts == 1 else {"ALPHA": False, "BETA": False, "ACTIVATION": None}
    constants = {
        "ACC": acc, "OPERAND": tl.int8 if a.dtype == torch.uint8 else None, "EPILOGUE": epilogue, "PRECISION": precision, **own, "OUTER": outer > 1, "BATCH": batches > 1,
        "A_UNIT": a_unit, "B_UNIT": b_unit, "OUT_UNIT": out_unit, "ALIGNED": aligned, "MULTIPLE": unit, "EVEN": even, "IN_ORDER": a.device.type == "cpu", "BY_TILE": a.dtype == torch.float32 and precision == "ieee" and by_tile(a.device, cut, each * cut.k), "GROUP": cut.group, "BM": cut.m, "BN": cut.n, "BK": cut.k,
        "WIDE": reach > NARROW
    }
    launch(product, (count, parts), a.device, arguments, constants, _SIZES, num_warps=cut.warps, num_stages=cut.stages)
    if parts > 1:
        add_up(out, workspace, bias, extra, (batches, m, n, parts), out_strides, bias_strides, epilogue, numbers, fixed)


#: Sizes take 32 bits in kernels, strides and places in memory 64.
_SIZES = {name: "i32" for name in ("m_size", "n_size", "k_size", "outer_size", "batches", "tiles_of_part", "count")}


def _row_or(bias_strides):
    """None in place of the strides of a contiguous row that all rows share."""
    return None if tuple(bias_strides) == (0, 0, 1) else bias_strides


def add_up(out, workspace, bias, extra, sizes, out_strides, bias_strides, epilogue, numbers, fixed):
    """Adds the parts of a product in their order and finishes the sums, as `multiply` does. workspace: (parts, batches, m, n); extra: as for the kernel; sizes: (batches, m, n, parts)."""
    batches, m, n, parts = sizes
    block_m, block_n = (step_up(m, (1, 8)), step_up(n, (16, 128))) if n > 1 else (step_up(m, (16, 256)), 1)
    arguments = {
        "out": out, "parts": workspace, "bias": bias, "extra": extra, **numbers, "m_size": m, "n_size": n, "batches": batches, "count": parts, "out_strides": out_strides,
        "bias_strides": _row_or(bias_strides)
    }
    reach = max((block_m - 1) * s[1] + (block_n - 1) * s[2] for s in (out_strides, bias_strides, (0, n, 1), (0, *((extra[1], extra[2] or 1) if extra else (0, 0)))))
    unit = 16 // out.element_size()
    constants = {"EPILOGUE": epilogue, **fixed, "OUT_UNIT": out_strides[2] == 1, "ALIGNED": n % unit == 0 and out_strides[1] % unit == 0 and out_strides[0] % unit == 0, "MULTIPLE": unit, "BM": block_m, "BN": block_n, "WIDE": reach > NARROW}
    launch(add_parts, batches * cdiv(m, block_m) * cdiv(n, block_n), out.device, arguments, constants, _SIZES, num_warps=4)


def _integers(out, a, b, bias, sizes, strides, bias_strides, k, outer, numbers, fixed):
    batches, m, n, _ = sizes
    out_strides, a_strides, b_strides, _ = strides
    block_m, block_n = step_up(m, (4, 16)), step_up(n, (16, 64))
    reach = max((block_m - 1) * a_strides[2], (block_n - 1) * b_strides[3], *((block_m - 1) * s[1] + (block_n - 1) * s[2] for s in (out_strides, bias_strides)))
    arguments = {
        "out": out, "a": a, "b": b, "bias": bias, **numbers, "m_size": m, "n_size": n, "k_size": k, "outer_size": outer, "out_strides": out_strides,
        "a_strides": a_strides, "b_strides": b_strides, "bias_strides": _row_or(bias_strides)
    }
    constants = {
        "ACC": tl.int64 if a.dtype == torch.int64 else tl.int32, **fixed, "B_UNIT": "n" if b_strides[3] == 1 else None, "OUT_UNIT": out_strides[2] == 1, "BM": block_m,
        "BN": block_n, "BK": 4, "WIDE": reach > NARROW
    }
    launch(integer_product, batches * cdiv(m, block_m) * cdiv(n, block_n), a.device, arguments, constants, _SIZES, num_warps=4)


def _by_vector(out, a, x, bias, extra, sizes, strides, numbers, fixed):
    """out[b, m] = activation(alpha * sum over k of a[b, m, k] * x[b, k] + beta * bias[b, m])."""
    batches, m, k = sizes
    out_strides, a_strides, x_strides, bias_strides = strides
    device = a.device
    columns = a_strides[1] < a_strides[2] and m > 1
    if device.type == "cpu":
        block_m, block_k = (step_up(m, (16, 128, 1024, 4096)), 4) if columns else (step_up(m, (1, 4)), step_up(k, (16, 128, 1024)))
        least = 65536
    else:
        block_m, block_k = (step_up(m, (16, 64)), step_up(k, (16, 32))) if columns else (step_up(m, (1, 4)), step_up(k, (64, 256, 512)))
        least = 4 * block_m * block_k
    programs, steps = batches * cdiv(m, block_m), cdiv(k, block_k)
    parts = max(1, min(programs_wanted(device) // 2 // programs, steps * block_m * block_k // least, 64))
    each = max(1, cdiv(steps, parts))
    parts = max(1, cdiv(steps, each))
    acc = tl.float64 if a.dtype == torch.float64 else tl.float32 if a.dtype.is_floating_point else tl.int64 if torch.int64 in (a.dtype, out.dtype) else tl.int32
    workspace = torch.empty((parts, batches, m), dtype=STORAGE[acc], device=device) if parts > 1 else None
    unit, multiple = a_strides[1 if columns else 2] == 1, 16 // a.element_size()
    reach = max(block_m * a_strides[1] + block_k * a_strides[2], block_k * x_strides[1], block_m * out_strides[1], block_m * bias_strides[1])
    arguments = {
        "out": out, "a": a, "x": x, "bias": bias if parts == 1 else None, "extra": extra if parts == 1 else None, "parts": workspace, **numbers, "m_size": m, "k_size": k, "batches": batches, "tiles_of_part": each,
        "out_strides": out_strides, "a_strides": a_strides, "x_strides": x_strides, "bias_strides": bias_strides
    }
    own = fixed if parts == 1 else {"ALPHA": False, "BETA": False, "ACTIVATION": None}
    constants = {
        "ACC": acc, "EPILOGUE": acc, **own, "COLUMNS": columns, "UNIT": unit, "X_UNIT": x_strides[1] == 1,
        "ALIGNED": (a_strides[0] % multiple == 0 and a_strides[2 if columns else 1] % multiple == 0) | ((m if columns else k) % multiple == 0) << 1, "MULTIPLE": multiple, "LANES": device.type != "cpu", "BM": block_m, "BK": block_k, "WIDE": reach > NARROW
    }
    launch(vector_product, (programs, parts), device, arguments, constants, _SIZES, num_warps=4)
    if parts > 1:
        # As a column: a residual has the stride along its one dimension that is longer than 1.
        add_up(out, workspace, bias, extra and (*extra[:2], 0, extra[3]), (batches, m, 1, parts), (*out_strides, 1), (*bias_strides, 0), acc, numbers, fixed)
