"""What is measured: one function a section. Each yields rows (dicts) as it goes, so that a section cut short keeps what it has.

A row has `case`, `ms` by library, `error` by library and its `bound`, and `work` in bytes or FLOP, from which the table makes GB/s or
TFLOP/s.
"""

import functools
import math

import torch
import torch.nn.functional as F

from measure import poison, relative_error

BOUNDS = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float8_e4m3fn: 5e-2}
CUDA = {"device": "cuda"}


def cdiv(a, b):
    return -(-a // b)


def power_of_2(n):
    return 1 << (n - 1).bit_length()


class Run:
    """What sections share: the libraries, the clock, and the way to compare."""

    def __init__(self, bench, libraries, left):
        self.bench = bench
        self.libraries = libraries
        self.left = left  #: seconds that the section still has

    def row(self, case, outputs, want, bound, configs, call, other=None, other_name="torch", check=True, **work):
        """Tunes `call(library, config)` over `configs` for each library, checks the outputs, measures all in turns.

        outputs: the tensors that the calls write; want: a function that gives their float64 values, or None to compare libraries
        with `other` only.
        """
        calls, row = {}, {"case": case, "ms": {}, "error": {}, "bound": bound, "config": {}, "failures": {}, **work}
        expected = want() if check else None
        for library in self.libraries:
            # What varies is bound here: the calls are measured when the loops have moved on.
            makers = {config: functools.partial(functools.partial, call, library, config) for config in configs}
            config, best, failures = self.bench.tune(makers, self.left() / 6)
            row["failures"][library.name] = failures
            if best is None:
                continue
            if check:
                poison(*outputs)
                best()
                torch.cuda.synchronize()
                row["error"][library.name] = max(relative_error(o, w) for o, w in zip(outputs, expected))
            row["config"][library.name] = list(config) if isinstance(config, tuple) else config
            calls[library.name] = best
        del expected
        if other is not None:
            other()
            calls[other_name] = other
        if calls:
            row["ms"] = dict(zip(calls, self.bench.medians(list(calls.values()))))
        return row


# ---- memory ----------------------------------------------------------------------------------------------


def add(run):
    for n in (1 << 20, 1 << 24, 1 << 27, 98432 * 100):
        x, y, out = (torch.randn(n, **CUDA) for _ in range(3))
        yield run.row(
            f"add {n}", [out], lambda: [x.double() + y.double()], 1e-7, [(1024, 4), (2048, 8)],
            lambda lib, c: lib.seed.add_kernel[(cdiv(n, c[0]), )](x, y, out, n, BLOCK_SIZE=c[0], num_warps=c[1]),
            lambda: torch.add(x, y, out=out), bytes=12 * n)


def softmax(run, rows=4096):
    for cols in (256, 781, 1024, 2048, 4096, 8192, 16384):
        x = torch.randn(rows, cols, **CUDA)
        out = torch.empty_like(x)
        block = power_of_2(cols)
        yield run.row(
            f"softmax {rows}x{cols}", [out], lambda: [torch.softmax(x.double(), 1)], BOUNDS[x.dtype], [4, 8, 16],
            lambda lib, warps: lib.seed.softmax_kernel[(rows, )](out, x, x.stride(0), out.stride(0), cols, BLOCK_SIZE=block,
                                                                num_warps=warps),
            lambda: torch.softmax(x, 1, out=out), bytes=8 * rows * cols)


def layer_norm(run, rows=4096):
    for dtype in (torch.float16, torch.float32):
        for cols in (1024, 4096, 8192, 16384):
            x = torch.randn(rows, cols, **CUDA).to(dtype)
            w, b = torch.rand(cols, **CUDA).to(dtype), torch.randn(cols, **CUDA).to(dtype)
            out = torch.empty_like(x)
            block = power_of_2(cols)
            name = str(dtype).removeprefix("torch.")
            yield run.row(
                f"layer norm {name} {rows}x{cols}", [out],
                lambda: [F.layer_norm(x.double(), (cols, ), w.double(), b.double())], BOUNDS[dtype], [4, 8, 16],
                lambda lib, warps: lib.seed.layer_norm_kernel[(rows, )](x, out, w, b, x.stride(0), cols, 1e-5, BLOCK_SIZE=block,
                                                                       num_warps=warps),
                lambda: F.layer_norm(x, (cols, ), w, b), bytes=2 * rows * cols * x.element_size())


def _boxes(n, dtype):
    corner, size = torch.rand(n, 2, **CUDA) * 10, torch.rand(n, 2, **CUDA) * 4 + 4
    moved = corner + torch.rand(n, 2, **CUDA) * 2
    return tuple(torch.cat([c, c + size], 1).to(dtype).contiguous() for c in (corner, moved))


def _giou(p, t):
    (pl, pt, pr, pb), (tl, tt, tr, tb) = p.unbind(1), t.unbind(1)
    inter = (torch.minimum(pr, tr) - torch.maximum(pl, tl)) * (torch.minimum(pb, tb) - torch.maximum(pt, tt))
    union = (pr - pl) * (pb - pt) + (tr - tl) * (tb - tt) - inter
    enclose = (torch.maximum(pr, tr) - torch.minimum(pl, tl)) * (torch.maximum(pb, tb) - torch.minimum(pt, tt))
    value = inter / union.clamp(min=1e-5) - (enclose - union) / enclose.clamp(min=1e-5)
    return torch.where(tb > 0, value, 0.0), tb > 0


def giou(run, n=1 << 24):
    for dtype, bound in ((torch.float32, 1e-5), (torch.float16, 5e-2), (torch.bfloat16, 5e-1)):
        preds, targets = _boxes(n, dtype)
        out, valid = torch.empty(n, dtype=dtype, **CUDA), torch.empty(n, dtype=torch.bool, **CUDA)
        name = str(dtype).removeprefix("torch.")
        yield run.row(
            f"giou {name} {n}", [out, valid], lambda: [v.double() for v in _giou(preds.double(), targets.double())], bound,
            [(256, 4), (512, 4), (1024, 8)],
            lambda lib, c: lib.seed.giou_kernel[(n // c[0], )](preds, targets, out, valid, BLOCK_SIZE=c[0], num_warps=c[1]),
            bytes=n * (9 * preds.element_size() + 1))


def seed(run):
    """Every seed kernel at the shape it was shown with: correctness first of all."""
    x = torch.randn(583, 931, **CUDA)
    out = torch.empty_like(x)
    yield run.row(
        "softmax as first announced 583x931", [out], lambda: [torch.softmax(x.double(), 1)], 1e-5, [4],
        lambda lib, c: lib.seed.softmax[(583, )](out, out.stride(0), out.stride(1), x, x.stride(0), x.stride(1), 583, 931),
        lambda: torch.softmax(x, 1, out=out), bytes=8 * x.numel())
    weight = torch.randn(1000, 512, **CUDA)
    index = torch.zeros(1, dtype=torch.int32, **CUDA)
    scaled = torch.empty_like(weight)
    yield run.row(
        "embedding rows, scaled 1000x512", [scaled], lambda: [weight.double() * 1.414], 1e-6, [1024],
        lambda lib, block: lib.seed.embedding_lookup_kernel[(cdiv(512000, block), )](scaled, index, weight, 1000, 512,
                                                                                     BLOCK_SIZE=block),
        lambda: torch.mul(weight, 1.414, out=scaled), bytes=8 * weight.numel())
    for dtype, bound in ((torch.float32, 2e-3), (torch.float16, 1e-5), (torch.bfloat16, 1e-5)):
        a, b = torch.randn(512, 32, **CUDA).to(dtype), torch.randn(32, 512, **CUDA).to(dtype)
        c = torch.empty(512, 512, **CUDA)
        grid = lambda meta: (cdiv(512, meta["BLOCK_SIZE_M"]), cdiv(512, meta["BLOCK_SIZE_N"]))
        yield run.row(
            f"matmul, one K block, autotuned {str(dtype).removeprefix('torch.')}", [c], lambda: [a.double() @ b.double()], bound, [0],
            lambda lib, _: lib.seed.matmul_kernel[grid](a, b, c, 512, 512, 32, *a.stride(), *b.stride(), *c.stride()),
            flop=2 * 512 * 512 * 32)


# ---- matrix products -------------------------------------------------------------------------------------

LARGE = [(128, 256, 64, 3, 8), (128, 128, 64, 3, 8), (128, 128, 64, 4, 4), (256, 128, 64, 3, 8), (128, 128, 32, 4, 8)]
SMALL = [(64, 64, 64, 4, 4), (64, 64, 64, 6, 4), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 128, 64, 6, 4), (64, 128, 128, 4, 4), (128, 128, 64, 3, 8)]
SKINNY = [(16, 128, 128, 4, 4), (16, 64, 128, 4, 4), (16, 256, 64, 4, 4)]
UNALIGNED = [(128, 64, 32, 4, 4), (128, 128, 32, 3, 8), (128, 128, 32, 4, 4), (64, 64, 32, 4, 4)]
WIDE_K = [(256, 128, 128, 3, 8), (128, 256, 128, 3, 8), (128, 128, 128, 3, 8), (128, 128, 64, 4, 4)]
FP32 = [(128, 256, 32, 3, 8), (128, 128, 32, 3, 8), (128, 128, 32, 4, 4), (64, 128, 32, 4, 4)]
IEEE = [(64, 64, 16, 3, 4), (128, 64, 16, 3, 8), (64, 64, 32, 2, 4)]


def _matmul(run, m, n, k, dtype, configs, transposed_a=False, transposed_b=False, activation="", precision=None, out_dtype=None,
            bound=None, library_call=None, label=None):
    if dtype == torch.float8_e4m3fn:
        make = lambda r, c: torch.randn(r, c, **CUDA).to(dtype)
    else:
        make = lambda r, c: torch.randn(r, c, dtype=dtype, **CUDA)
    a = make(k, m).t() if transposed_a else make(m, k)
    b = make(n, k).t() if transposed_b else make(k, n)
    c = torch.empty(m, n, dtype=out_dtype or dtype, **CUDA)

    def want():
        product = a.double() @ b.double()
        return [F.leaky_relu(product) if activation else product]

    def call(lib, config):
        bm, bn, bk, stages, warps = config
        grid = (cdiv(m, bm) * cdiv(n, bn), )
        common = dict(BLOCK_SIZE_M=bm, BLOCK_SIZE_N=bn, BLOCK_SIZE_K=bk, GROUP_SIZE_M=8, num_stages=stages, num_warps=warps)
        arguments = (a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())
        if precision:
            lib.kernels.matmul_precision_kernel[grid](*arguments, **common, PRECISION=precision)
        else:
            lib.seed.matmul_full_kernel[grid](*arguments, **common, ACTIVATION=activation)

    if library_call is None:
        library_call = (lambda: F.leaky_relu(a @ b)) if activation else (lambda: torch.matmul(a, b, out=c))
    else:
        ready = library_call(a, b)
        library_call = ready
    order = "".join("t" if t else "n" for t in (transposed_a, transposed_b))
    name = label or f"{str(dtype).removeprefix('torch.')}{' + leaky ReLU' if activation else ''} {order}"
    return run.row(f"matmul {name} {m}x{n}x{k}", [c], want, bound or BOUNDS[dtype], configs, call, library_call, "cuBLAS",
                   flop=2 * m * n * k)


def matmul_fp16(run):
    for size in (4096, 2048, 8192, 1024, 512):
        yield _matmul(run, size, size, size, torch.float16, SMALL if size <= 1024 else LARGE)
    yield _matmul(run, 4096, 4096, 512, torch.float16, LARGE)
    yield _matmul(run, 16, 4096, 4096, torch.float16, SKINNY)
    yield _matmul(run, 4095, 4097, 4093, torch.float16, UNALIGNED)


def matmul_bf16(run):
    for size in (4096, 2048, 8192):
        yield _matmul(run, size, size, size, torch.bfloat16, LARGE)
    yield _matmul(run, 4096, 4096, 4096, torch.bfloat16, LARGE, activation="leaky_relu")


def matmul_orders(run):
    for ta, tb in ((False, True), (True, False), (True, True)):
        yield _matmul(run, 4096, 4096, 4096, torch.float16, LARGE, ta, tb)


def matmul_fp8(run):

    def scaled(a, b):
        one = torch.ones((), **CUDA)
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.float16)

    for size in (4096, 8192):
        yield _matmul(run, size, size, size, torch.float8_e4m3fn, WIDE_K, transposed_b=True, out_dtype=torch.float16, bound=1e-2,
                      library_call=scaled)


def matmul_tf32(run):
    torch.backends.cuda.matmul.allow_tf32 = True
    for tb in (False, True):
        yield _matmul(run, 4096, 4096, 4096, torch.float32, FP32, transposed_b=tb, precision="tf32", bound=2e-3,
                      label=f"tf32 n{'t' if tb else 'n'}")
    torch.backends.cuda.matmul.allow_tf32 = False


def matmul_ieee(run):
    torch.backends.cuda.matmul.allow_tf32 = False
    yield _matmul(run, 2048, 2048, 2048, torch.float32, IEEE, precision="ieee", bound=1e-5, label="ieee fp32")


def matmul_descriptor(run):
    for size in (2048, 4096, 8192):
        a, b = (torch.randn(size, size, dtype=torch.float16, **CUDA) for _ in range(2))
        c = torch.empty_like(a)

        def call(lib, config):
            bm, bn, bk, stages, warps = config
            lib.kernels.matmul_descriptor_kernel[(cdiv(size, bm) * cdiv(size, bn), )](
                a, b, c, size, size, size, BLOCK_SIZE_M=bm, BLOCK_SIZE_N=bn, BLOCK_SIZE_K=bk, GROUP_SIZE_M=8, num_stages=stages,
                num_warps=warps)

        yield run.row(f"matmul descriptors fp16 {size}^3", [c], lambda: [a.double() @ b.double().t()], 1e-3, LARGE[:4], call,
                      lambda: torch.matmul(a, b.t(), out=c), "cuBLAS", flop=2 * size**3)


# ---- attention -------------------------------------------------------------------------------------------


def _attention_reference(q, k, v, causal):
    """float64, of the first and the last head."""
    results = []
    for batch, head in ((0, 0), (q.shape[0] - 1, q.shape[1] - 1)):
        qd, kd, vd = (t[batch, head].double() for t in (q, k, v))
        scores = qd @ kd.t() / math.sqrt(qd.shape[-1])
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        results.append(torch.softmax(scores, -1) @ vd)
    return results


def attention(run, batch=4, heads=32, sequence=4096):
    for dim in (64, 128):
        for causal in (False, True):
            q, k, v = (torch.randn(batch, heads, sequence, dim, dtype=torch.float16, **CUDA) for _ in range(3))
            out = torch.empty_like(q)
            scale = 1.4426950408889634 / math.sqrt(dim)

            def call(lib, config):
                bm, bn, stages, warps = config
                lib.kernels.attention_kernel[(sequence // bm, batch * heads)](
                    q, k, v, out, q.stride(1), q.stride(2), sequence, scale, HEAD=dim, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal,
                    num_stages=stages, num_warps=warps)

            yield run.row(
                f"attention d={dim}{' causal' if causal else ''} {batch}x{heads}x{sequence}", [out[0, 0], out[-1, -1]],
                lambda: _attention_reference(q, k, v, causal), 2e-3,
                [(128, 64, 3, 8), (128, 128, 3, 8), (128, 64, 3, 4), (64, 64, 3, 4), (128, 64, 2, 4)], call,
                lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal), "SDPA",
                flop=4 * batch * heads * sequence * sequence * dim // (2 if causal else 1))


# ---- the host --------------------------------------------------------------------------------------------


def launch(run):
    """Microseconds of a launch from Python, as `ms`: 6 tensors and 8 numbers, a tuple as grid."""
    import statistics
    import time
    tensors = [torch.zeros(16, **CUDA) for _ in range(6)]
    numbers = [3, 5, 7, 9, 11, 13, 1.5, 2.5]
    out = torch.zeros(16, **CUDA)
    row = {"case": "launch, 6 tensors + 8 numbers (microseconds)", "ms": {}, "error": {}, "bound": 0, "failures": {}}

    def many(call):
        readings = []
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(500):
                call()
            readings.append((time.perf_counter() - start) / 500 * 1e6)
        torch.cuda.synchronize()
        return statistics.median(readings)

    for library in run.libraries:
        kernel = library.kernels.launch_kernel
        call = lambda: kernel[(1, )](*tensors, *numbers)
        call()
        row["ms"][library.name] = many(call)
    row["ms"]["torch"] = many(lambda: torch.add(out, 1.0, out=out))
    yield row


def compile_time(run):
    """Milliseconds of Nereid's own stages and of the assembler, in a warm process."""
    library = run.libraries[0]
    for name, warm in {
            "add": lambda w: library.seed.add_kernel.warmup(*[torch.float32] * 3, 1000, BLOCK_SIZE=1024, grid=(1, ), num_warps=w),
            "softmax": lambda w: library.seed.softmax_kernel.warmup(torch.float32, torch.float32, 1024, 1024, 1000, BLOCK_SIZE=1024,
                                                                    grid=(1, ), num_warps=w),
            "matmul": lambda w: library.seed.matmul_full_kernel.warmup(
                *[torch.float16] * 3, 4096, 4096, 4096, 4096, 1, 4096, 1, 4096, 1, BLOCK_SIZE_M=128, BLOCK_SIZE_N=128,
                BLOCK_SIZE_K=64, GROUP_SIZE_M=8, ACTIVATION="", grid=(1, ), num_warps=w),
            "attention": lambda w: library.kernels.attention_kernel.warmup(
                *[torch.float16] * 4, 4096 * 64, 64, 4096, 0.18, HEAD=64, BLOCK_M=128, BLOCK_N=64, CAUSAL=True, grid=(1, ),
                num_warps=w),
    }.items():
        warm(4)
        times = warm(8).times
        row = {"case": f"compile {name}", "ms": {}, "error": {}, "bound": 0, "failures": {}, "stages": times}
        assembler = sum(ms for stage, ms in times.items() if "assembl" in stage or "cubin" in stage)
        row["ms"] = {"nereid": sum(times.values()) - assembler, "assembler": assembler}
        yield row


SECTIONS = {
    function.__name__: function
    for function in (seed, add, softmax, layer_norm, giou, matmul_fp16, matmul_bf16, matmul_orders, matmul_fp8, matmul_tf32,
                     matmul_ieee, matmul_descriptor, attention, launch, compile_time)
}
