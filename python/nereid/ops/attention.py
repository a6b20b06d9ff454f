"""Attention: the host side of `kernels/attention.py`, and the sizes of its tiles."""

import dataclasses
import functools

import torch

import nereid.language as tl

from ._launch import DTYPES, launch
from ._strided import NARROW, cdiv, step_up
from .kernels.attention import backward_copied, backward_key, backward_query, backward_query_copied, correlation, forward, scaled_gradient
from .products import fp32_precision


@dataclasses.dataclass(frozen=True)
class Tiles:
    """Queries and keys of a tile. threshold: of the forward kernel, by how much, in powers of two, scores may exceed the reference of their row (`weigh` in kernels/attention.py)."""
    queries: int
    keys: int
    warps: int = 4
    stages: int = 2
    threshold: int = 0


#: Sizes of heads with which blocks of tensor descriptors are faster (docs/ops-attention.md).
COPIED_WIDTHS = (64, 128, 256)
#: The same for gradients, and those of them with which one pass is faster than two.
COPIED_GRADIENT_WIDTHS, ONE_PASS_WIDTHS = (64, 128, 256), (64, 128)
#: The threshold of tiles with which kernels leave out multiplications by 1.
THRESHOLD = 8


def can_copy(device, query, key, *others):
    """Whether kernels can load and store blocks of these tensors through tensor descriptors, and gain: GPUs of sm_90, 16 bits, strides that are positive multiples of 16 elements, sizes of
    heads that are equal and one of `COPIED_WIDTHS`, more than 64 queries."""
    if device.type != "cuda" or query.dtype not in (torch.float16, torch.bfloat16) or query.shape[2] <= 64 or not divides_warps(device):
        return False
    return all(x.shape[3] == query.shape[3] and x.shape[3] in COPIED_WIDTHS and x.stride(3) == 1 and max(x.shape) <= NARROW and all(0 < stride and stride % 16 == 0 for stride in x.stride()[:3])
               for x in (query, key, *others))


@functools.cache
def divides_warps(device):
    """Whether the compiler divides warps on a GPU: those with wgmma, sm_90."""
    return torch.cuda.get_device_capability(device)[0] == 9


def forward_tiles(device, dtype, queries, keys, width, copied=False, causal=False):
    """The tiles of the forward kernel. width: the larger of the two head sizes; copied: see `can_copy`; causal: whether queries see no keys behind some place.

    GPUs, 16 bits: 128 x 64 with 8 warps, that is 64 rows for each group of four warps that multiply together, and three slots, so that a product of queries and keys starts behind the one in
    flight (docs/pipelining.md); two where three do not fit. Nothing spills. Through descriptors 128 x 128 for heads of 128, 128 x 64 with two slots for heads of 256, and for heads of 64 256 x 64 in 16 warps or, causal, 128 x 128 with four slots: with these
    the compiler divides the warps (docs/warp-specialisation.md).
    """
    if copied and width <= 64:
        return Tiles(128, 128, 8, 4, THRESHOLD) if causal else Tiles(256, 64, 16, 3, THRESHOLD)
    if copied:
        return Tiles(128, 128, 8, 3, THRESHOLD) if width <= 128 else Tiles(128, 64, 8, 2, THRESHOLD)
    if device.type == "cpu":
        return Tiles(step_up(queries, (4, 16, 64)), step_up(keys, (16, 64, 128)))
    if dtype in (torch.float16, torch.bfloat16):
        rows = step_up(queries, (16, 64, 128))
        return Tiles(rows, 64, 4 if rows <= 64 else 8, 3 if width <= 192 else 2)
    return Tiles(step_up(queries, (16, 64)) if width <= 64 else 32, 32, 8 if dtype == torch.float32 and queries > 16 else 4, 2)


def backward_tiles(device, dtype, queries, keys, width):
    """The tiles of the backward kernels: (of that of keys, of that of queries). GPUs, 16 bits: the largest whose accumulators fit the registers."""
    if device.type == "cpu":
        return (Tiles(step_up(queries, (16, 64)), step_up(keys, (16, 64))), ) * 2
    if dtype in (torch.float16, torch.bfloat16):
        if width <= 64:
            return Tiles(64, 128, 8, 2), Tiles(128, 64, 8, 2)
        if width <= 128:
            return Tiles(64, 64, 8, 2), Tiles(128, 64, 8, 2)
        return Tiles(32, 64, 8, 2), Tiles(64, 32, 8, 2)
    return (Tiles(32, 32, 8 if dtype == torch.float32 else 4, 1), ) * 2


def copied_backward_tiles(width, one_pass):
    """As `backward_tiles`, of the kernels through tensor descriptors; in one pass the first one computes all gradients. With heads of 128 a thread holds 128 registers of sums, 32 each of two products
    in flight, and 16 of an operand; with heads of 64 and twice as many queries 64, twice 64, and 32."""
    if one_pass:
        return Tiles(128 if width <= 64 else 64 if width <= 128 else 32, 128 if width <= 128 else 64, 8, 2), None
    if width <= 128:
        return Tiles(64, 128, 8, 2), Tiles(128, 64, 8, 2)
    # In tiles of 64 queries both groups of four warps would compute the same scores.
    return Tiles(64, 64, 8, 2), Tiles(128, 32, 8, 3)


def in_one_pass(width):
    """Whether one kernel computes all gradients: those of queries are then sums that programs add in no fixed order, which `torch.use_deterministic_algorithms` forbids."""
    return width in ONE_PASS_WIDTHS and not torch.are_deterministic_algorithms_enabled()


def head_width(device, size):
    """The size of a block that holds a head's elements. GPUs: at multiples of 32, tiles are copied to shared memory 16 bytes at a time and multiplied there."""
    if device.type == "cpu":
        return cdiv(max(size, 1), 8) * 8
    return 16 if size <= 16 else cdiv(size, 32) * 32


def _accesses(*tensors, rows=0):
    """Constants that say how the tensors of a call lie in memory. rows: the greatest number of tokens of a sequence."""
    multiple = 16 // tensors[0].element_size()
    aligned = all(stride % multiple == 0 for x in tensors for stride in (*x.stride()[:3], x.shape[3]))
    # Rows are counted from the first of a sequence. A tile has at most 256 of them, and as many columns.
    wide = any((rows + 256) * x.stride(2) + 256 * x.stride(3) > NARROW for x in tensors)
    return {"UNIT": all(x.stride(3) == 1 for x in tensors), "HINT": multiple if aligned else 1, "WIDE": wide}


_SIZES = {name: "i32" for name in ("rules", "l_size", "s_size", "d_size", "dv_size", "heads", "key_heads", "batches", "lse_size")}
_STRIDES = ("out_strides", "q_strides", "k_strides", "v_strides")


@dataclasses.dataclass(frozen=True)
class Rules:
    """Which keys a query sees, and what becomes of its scores; see `kernels/attention.py`. left, right, cap, slopes: None if absent. end: whether the last query is at the last
    key; otherwise the first one is at the first. slopes: fp32, (batch, head), expanded."""
    left: int = None
    right: int = None
    end: bool = False
    cap: float = None
    slopes: torch.Tensor = None

    def arguments(self):
        cap = (None, None) if self.cap is None else (float(self.cap), 1 / self.cap)
        return {
            "slopes": self.slopes, "rules": (self.left, self.right, *cap),
            "slope_strides": (0, 0) if self.slopes is None else self.slopes.stride()
        }


@dataclasses.dataclass(frozen=True)
class Ragged:
    """A ragged batch: where sequences begin among the tokens of queries and of keys (batches + 1 places, int32 or int64), and the tokens of the longest ones.

    Tensors of such a batch are (1, head, token, size).
    """
    q_starts: torch.Tensor
    k_starts: torch.Tensor
    max_q: int
    max_k: int


def _strides(x, ragged, rank=4):
    """Strides of a tensor, 0 for the batch of a ragged one; zeros where there is no tensor."""
    if x is None:
        return (0, ) * rank
    return x.stride() if ragged is None else (0, *x.stride()[1:])


def _sizes(query, key, value, ragged):
    """({argument: size}, number of sequences)."""
    found = {"d_size": query.shape[3], "dv_size": value.shape[3], "heads": query.shape[1]}
    if ragged is None:
        return {"l_size": query.shape[2], "s_size": key.shape[2], **found}, query.shape[0]
    return {"l_size": ragged.max_q, "s_size": ragged.max_k, **found}, ragged.q_starts.shape[0] - 1


def computation(query, device):
    """Constants of all kernels."""
    double = query.dtype == torch.float64
    acc = tl.float64 if double else tl.float32
    precision = "ieee"
    if device.type == "cuda" and query.dtype == torch.float32:
        precision = "tf32" if fp32_precision(device) == "tf32" else "tf32x3"
    return {"ACC": acc, "OPERAND": acc if device.type == "cpu" else DTYPES[query.dtype], "PRECISION": precision, "NARROW": query.element_size() == 2}


def attend(out, logsumexp, query, key, value, bias, scale, rules=Rules(), empty=0.0, ragged=None):
    """Writes the result and, unless it is None, the log-sum-exp of attention.

    query (batch, head, l, d), key (batch, head of keys, s, d), value (batch, head of keys, s, dv), out (batch, head, l, dv): of one dtype and any strides;
    heads of queries are a multiple of those of keys. bias: (batch, head, l, s), expanded, or None; None for ragged batches. logsumexp: (batch, head, l or more), fp32 (fp64
    for fp64); places from l on get +inf. empty: the log-sum-exp of a query without keys. out has elements. ragged: `Ragged` or None.
    """
    device = query.device
    sizes, batches = _sizes(query, key, value, ragged)
    length, keys, heads = sizes["l_size"], sizes["s_size"], sizes["heads"]
    width, value_width = head_width(device, sizes["d_size"]), head_width(device, sizes["dv_size"])
    copied = ragged is None and can_copy(device, query, key, value, out)
    cut = forward_tiles(device, query.dtype, length, keys, max(width, value_width), copied, rules.right is not None)
    scales = (copied or device.type == "cuda") and bias is None and rules.cap is None and rules.slopes is None and scale > 0
    lse_size = 0 if logsumexp is None or ragged is not None else logsumexp.shape[2]
    arguments = {
        "out": out, "logsumexp": logsumexp, "query": query, "key": key, "value": value, "bias": bias, "q_starts": ragged and ragged.q_starts, "k_starts": ragged and ragged.k_starts,
        "scale": float(scale), "empty": float(empty), **rules.arguments(), **sizes, "batches": batches, "key_heads": key.shape[1], "lse_size": lse_size, "out_strides": _strides(out, ragged),
        "lse_strides": _strides(logsumexp, ragged, 3), "q_strides": _strides(query, ragged), "k_strides": _strides(key, ragged), "v_strides": _strides(value, ragged),
        "bias_strides": _strides(bias, None)
    }
    constants = {
        "HEADS": heads // key.shape[1], "END": rules.end, **computation(query, device), "D_EVEN": sizes["d_size"] == width and sizes["dv_size"] == value_width,
        **_accesses(query, key, value, out, rows=max(length, keys)), "BM": cut.queries, "BN": cut.keys, "BD": width, "BV": value_width,
        "COPIES": copied, "SCALES": scales, "THRESHOLD": cut.threshold
    }
    options = {"clusters": True} if copied else {}  # the launcher, which is the library's own, may start fewer blocks than there are programs
    launch(forward, cdiv(max(length, lse_size), cut.queries) * batches * heads, device, arguments, constants, _SIZES, _STRIDES if copied else (), num_warps=cut.warps, num_stages=cut.stages, **options)


def differentiate(grads, gradient, query, key, value, bias, out, logsumexp, scale, rules=Rules(), grad_bias=None, lse_gradient=None, ragged=None):
    """Writes the gradients of `attend`.

    grads: of query, key and value, like these. gradient: of out. grad_bias: (batch, head, l, s) for that of the bias, or None. lse_gradient: that of the log-sum-exp, or None. Other
    arguments: as for `attend`; all tensors have elements.
    """
    device = query.device
    sizes, batches = _sizes(query, key, value, ragged)
    length, keys, heads = sizes["l_size"], sizes["s_size"], sizes["heads"]
    width, value_width = head_width(device, sizes["d_size"]), head_width(device, sizes["dv_size"])
    by_keys, by_queries = backward_tiles(device, query.dtype, length, keys, max(width, value_width))
    scales = bias is None and grad_bias is None and rules.cap is None and rules.slopes is None and scale > 0
    copied = ragged is None and scales and query.shape[3] in COPIED_GRADIENT_WIDTHS and can_copy(device, query, key, value, gradient, *grads)
    common = computation(query, device)
    access = {
        "D_EVEN": sizes["d_size"] == width and sizes["dv_size"] == value_width, **_accesses(query, key, value, gradient, out, *grads, rows=max(length, keys))
    }
    sums = of_queries = None
    if copied:
        sums, delta = (torch.empty(*query.shape[:2], cdiv(length, 16) * 16, dtype=torch.float32, device=device) for _ in range(2))  # rows that the copy engine can load
        if in_one_pass(query.shape[3]):
            of_queries = torch.empty(query.shape, dtype=torch.float32, device=device)
    else:
        delta = torch.empty(query.shape[:3], dtype=torch.float64 if query.dtype == torch.float64 else torch.float32, device=device)
    starts = {"q_starts": ragged and ragged.q_starts, "k_starts": ragged and ragged.k_starts}
    strides = {
        "g_strides": _strides(gradient, ragged), "q_strides": _strides(query, ragged), "k_strides": _strides(key, ragged), "v_strides": _strides(value, ragged),
        "bias_strides": _strides(bias, None), "lse_strides": _strides(logsumexp, ragged, 3), "delta_strides": _strides(delta, ragged, 3)
    }
    launch(
        correlation, cdiv(length, by_queries.queries) * batches * heads, device, {
            "delta": delta, "sums": sums, "of_queries": of_queries, "gradient": gradient, "out": out, "logsumexp": logsumexp, "lse_gradient": lse_gradient, "q_starts": starts["q_starts"],
            "l_size": length, "dv_size": sizes["dv_size"], "heads": heads, "delta_strides": strides["delta_strides"], "lse_strides": strides["lse_strides"],
            "sums_strides": _strides(sums, ragged, 3), "sq_strides": _strides(of_queries, ragged), "g_strides": strides["g_strides"], "out_strides": _strides(out, ragged),
            "lg_strides": _strides(lse_gradient, ragged, 3)
        }, {"ACC": common["ACC"], **access, "BM": by_queries.queries, "BV": value_width}, _SIZES, num_warps=4)
    if copied:
        _differentiate_copied(grads, gradient, query, key, value, delta, sums, of_queries, scale, rules, common)
        return
    shared = {
        "gradient": gradient, "query": query, "key": key, "value": value, "bias": bias, **starts, "logsumexp": logsumexp, "delta": delta, "scale": float(scale), **rules.arguments(), **sizes,
        **strides
    }
    constants = {"HEADS": heads // key.shape[1], "END": rules.end, **common, **access, "BD": width, "BV": value_width}

    def run(kernel, programs, cut, own):
        launch(kernel, programs * batches, device, shared | own, constants | {"BM": cut.queries, "BN": cut.keys}, _SIZES, num_warps=cut.warps, num_stages=cut.stages)

    run(backward_key, cdiv(keys, by_keys.keys) * key.shape[1], by_keys,
        {"grad_key": grads[1], "grad_value": grads[2], "dk_strides": _strides(grads[1], ragged), "dv_strides": _strides(grads[2], ragged)})
    run(backward_query, cdiv(length, by_queries.queries) * heads, by_queries,
        {"grad_query": grads[0], "grad_bias": grad_bias, "dq_strides": _strides(grads[0], ragged), "db_strides": _strides(grad_bias, None)})


def _differentiate_copied(grads, gradient, query, key, value, delta, sums, of_queries, scale, rules, common):
    """The gradients through tensor descriptors. delta, sums, of_queries: see `correlation`; common: of `computation`. Other arguments: as for `differentiate`."""
    device, width = query.device, query.shape[3]
    sizes, batches = _sizes(query, key, value, None)
    length, keys, heads = sizes["l_size"], sizes["s_size"], sizes["heads"]
    shared = {
        "gradient": gradient, "query": query, "key": key, "value": value, "sums": sums, "delta": delta, "scale": float(scale), "rules": rules.arguments()["rules"], "l_size": length, "s_size": keys,
        "batches": batches, "heads": heads, "key_heads": key.shape[1], "g_strides": gradient.stride(), "q_strides": query.stride(), "k_strides": key.stride(), "v_strides": value.stride(),
        "sums_strides": sums.stride(), "delta_strides": delta.stride()
    }
    constants = {"HEADS": heads // key.shape[1], "END": rules.end, "ACC": common["ACC"], "OPERAND": common["OPERAND"], "BD": width}

    def run(kernel, programs, cut, own):
        arguments = shared | own
        launch(kernel, programs * batches, device, arguments, constants | {"BM": cut.queries, "BN": cut.keys}, _SIZES, [name for name in arguments if name.endswith("strides")],
               num_warps=cut.warps, num_stages=cut.stages)

    by_keys, by_queries = copied_backward_tiles(width, of_queries is not None)
    run(backward_copied, cdiv(keys, by_keys.keys) * key.shape[1], by_keys, {
        "grad_query": of_queries, "grad_key": grads[1], "grad_value": grads[2], "sq_strides": _strides(of_queries, None), "dk_strides": grads[1].stride(), "dv_strides": grads[2].stride()
    })
    if of_queries is None:
        run(backward_query_copied, cdiv(length, by_queries.queries) * heads, by_queries, {"grad_query": grads[0], "dq_strides": grads[0].stride()})
        return
    launch(scaled_gradient, cdiv(length, 64) * batches * heads, device, {
        "grad_query": grads[0], "of_queries": of_queries, "scale": float(scale), "l_size": length, "heads": heads, "dq_strides": grads[0].stride(), "sq_strides": of_queries.stride()
    }, {"BM": 64, "BD": width}, _SIZES, ("dq_strides", "sq_strides"), num_warps=4)
