"""The operators' attention against every backend of `scaled_dot_product_attention`, forward and backward.

    python benchmarks/ops/attention_backends.py [--problems 128,128c,64,64c,256,256c] [--seconds 1.5] [--forward 128x128x8x3,...] [--check]

fp16, 32 heads of 16384 tokens in batches of sequences of 4096 or --length. First results and gradients of `nereid.ops.attention` are compared with float64: lengths that divide by no block, causal masks, fewer heads of keys, queries
without keys, large magnitudes. Then forward (the chosen tiles, those of --forward: queries x keys x warps x stages, and x threshold, and the path without tensor descriptors) and backward (all launches; in one pass and in two, the same variants) are
measured in turns with cuDNN and flash attention, with a cold L2 cache. A line has the median time, TFLOP/s, and the speed in relation to the best backend.
"""

import argparse
import pathlib
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
from measure import Bench

from nereid.ops import attention
from nereid.ops.attention import Rules, Tiles

BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def expected(q, k, v, g, scale, causal, end):
    """Result, log-sum-exp and gradients in float64; 0 and -inf for queries without keys."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).transpose(-1, -2) * scale
    if causal:
        shift = k.shape[2] - q.shape[2] if end else 0
        seen = torch.arange(k.shape[2], device=q.device)[None] <= torch.arange(q.shape[2], device=q.device)[:, None] + shift
        scores = scores.masked_fill(~seen, float("-inf"))
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0)[..., None])
    out = weights @ v.repeat_interleave(groups, 1)
    out.backward(g.double())
    return out.detach(), lse.detach(), q.grad, k.grad, v.grad


def check():
    """Prints the largest errors, relative to the norm of what is expected; whether all are small."""
    good = True
    for dim in (64, 128, 256):
        for dtype, bound in ((torch.float16, 2e-3), (torch.bfloat16, 1.2e-2)):
            for heads, key_heads, length, keys, causal, end, size in ((2, 2, 1024, 1024, False, False, 1), (2, 2, 1024, 1024, True, False, 1), (4, 1, 517, 700, True, True, 1), (4, 2, 700, 333, True, True, 1),
                                                                      (2, 2, 300, 777, False, False, 12), (2, 1, 640, 640, True, False, 12), (1, 1, 129, 65, False, False, 1)):
                generator = torch.Generator("cuda").manual_seed(dim + length)
                make = lambda h, n, by=1.0: (torch.randn(2, h, n, dim, device="cuda", generator=generator) * by).to(dtype)
                q, k, v, g = make(heads, length, size), make(key_heads, keys, size), make(key_heads, keys), make(heads, length)
                if size == 1:  # maxima that grow from block to block
                    k *= torch.linspace(0.2, 2, keys, device="cuda").to(dtype)[:, None]
                out, lse = torch.full_like(q, float("nan")), torch.full(q.shape[:3], float("nan"), device="cuda")
                grads, others = ([torch.full_like(x, float("nan")) for x in (q, k, v)] for _ in range(2))
                rules = Rules(right=0 if causal else None, end=end)
                attention.attend(out, lse, q, k, v, None, dim**-0.5, rules, float("-inf"))
                attention.differentiate(grads, g, q, k, v, None, out, lse, dim**-0.5, rules)
                calls = backward_calls((others, g, q, k, v, None, out, lse, dim**-0.5), rules, [])
                calls["operator, two passes"]()
                others += [torch.full_like(x, float("nan")) for x in (q, k, v)]
                backward_calls((others[3:], g, q, k, v, None, out, lse, dim**-0.5), rules, [])["operator, one pass"]()
                want = expected(q, k, v, g, dim**-0.5, causal, end)
                errors = []
                for got, right in zip((out, lse, *grads, *others), (*want, *want[2:], *want[2:])):
                    finite = torch.isfinite(right)
                    same = torch.equal(got.double()[~finite], right[~finite])
                    errors.append(float(((got.double() - right)[finite].norm() / right[finite].norm()).nan_to_num(float("inf"))) if same else float("inf"))
                limits = (bound, 1e-4, *[4 * bound * (4 if size > 1 else 1)] * 9)
                if any(error > limit for error, limit in zip(errors, limits)):
                    good = False
                    print(f"WRONG d={dim} {dtype} {heads}/{key_heads} heads, {length}x{keys}, causal {causal}, end {end}, x{size}: {errors}", flush=True)
    print(f"right: {good}", flush=True)
    return good


def medians(calls, seconds):
    """Median milliseconds of each call on the GPU, which waits before each, so that what the host takes is not measured."""
    bench = Bench()
    readings, rounds = [[] for _ in calls], max(5, int(seconds / sum(statistics.median(times) / 1000 + 0.001 for times in bench.once(calls, 3))))
    events = []
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            bench.flush.zero_()
            torch.cuda._sleep(800_000)
            start.record()
            call()
            end.record()
            events.append((i, start, end))
    torch.cuda.synchronize()
    for i, start, end in events:
        readings[i].append(start.elapsed_time(end))
    return [statistics.median(times) for times in readings]


def forward_calls(q, k, v, rules, tiles):
    """{name: a launch of the forward kernel}."""
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    attend = lambda: attention.attend(out, lse, q, k, v, None, q.shape[3]**-0.5, rules)
    chosen, can_copy = attention.forward_tiles, attention.can_copy
    found = {"operator": attend}

    def with_tile(tile, copied):

        def call():
            attention.forward_tiles, attention.can_copy = (lambda *_: tile) if tile else chosen, can_copy if copied is None else lambda *_: copied
            try:
                attend()
            finally:
                attention.forward_tiles, attention.can_copy = chosen, can_copy

        return call

    found["operator, pointers"] = with_tile(None, False)
    for text in tiles:
        found[f"operator {text}"] = with_tile(Tiles(*map(int, text.split("x"))), True)
    return found


def backward_calls(operands, rules, tiles):
    """{name: the launches of the gradients}. operands: of `attention.differentiate`. tiles: of the kernel of one pass, or `KEYS/QUERIES` of both kernels of two passes."""
    names = ("copied_backward_tiles", "COPIED_GRADIENT_WIDTHS", "in_one_pass")

    def with_changes(**changes):

        def call():
            before = {name: getattr(attention, name) for name in names}
            for name, value in changes.items():
                setattr(attention, name, value)
            try:
                attention.differentiate(*operands, rules)
            finally:
                for name, value in before.items():
                    setattr(attention, name, value)

        return call

    copied = lambda one_pass: {"COPIED_GRADIENT_WIDTHS": (64, 128, 256), "in_one_pass": lambda width: one_pass}
    found = {
        "operator": with_changes(), "operator, pointers": with_changes(COPIED_GRADIENT_WIDTHS=()), "operator, two passes": with_changes(**copied(False)),
        "operator, one pass": with_changes(**copied(True))
    }
    for text in tiles:
        cut = [Tiles(*map(int, one.split("x"))) for one in text.split("/")]
        found[f"operator {text}"] = with_changes(**copied(len(cut) == 1), copied_backward_tiles=lambda *_, cut=cut: (cut + [None])[:2])
    return found


def measure(problem, tiles, backward_tiles, length, seconds):
    dim, causal = int(problem.rstrip("c")), problem.endswith("c")
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v, g = (torch.randn(16384 // length, 32, length, dim, dtype=torch.float16, device="cuda", generator=generator) for _ in range(4))
    rules = Rules(right=0 if causal else None)
    out, lse, grads = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda"), [torch.empty_like(q) for _ in range(3)]
    attention.attend(out, lse, q, k, v, None, dim**-0.5, rules)
    forward = forward_calls(q, k, v, rules, tiles)
    backward = backward_calls((grads, g, q, k, v, None, out, lse, dim**-0.5), rules, backward_tiles)
    x, y, z = (t.detach().requires_grad_() for t in (q, k, v))
    for name, backend in BACKENDS.items():

        def call(backend=backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(x, y, z, is_causal=causal)

        def silent(call=call):
            with torch.no_grad():
                call()

        try:
            result = call()
            torch.autograd.grad(result, (x, y, z), g, retain_graph=True)
            backward[name] = lambda result=result: torch.autograd.grad(result, (x, y, z), g, retain_graph=True)
        except Exception as error:
            print(f"  {name}, backward: {str(error).splitlines()[0][:120]}")
        try:
            silent()
            forward[name] = silent
        except Exception as error:
            print(f"  {name}: {str(error).splitlines()[0][:120]}")
    flop = 4 * 16384 * 32 * length * dim / (2 if causal else 1)
    for label, calls, factor in (("forward", forward, 1), ("backward", backward, 2.5)):
        ready = {}
        for name, call in calls.items():
            try:
                call()
                torch.cuda.synchronize()
                ready[name] = call
            except Exception as error:
                print(f"  {label} {name}: {str(error).splitlines()[0][:150]}")
        times = dict(zip(ready, medians(list(ready.values()), seconds)))
        best = min((times[name] for name in BACKENDS if name in times), default=float("nan"))
        for name, ms in sorted(times.items(), key=lambda pair: pair[1]):
            print(f"  {label:8} d={problem:5} {name:30} {ms * 1000:9.1f} us {factor * flop / ms / 1e9:7.1f} TFLOP/s  {best / ms:6.3f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default="128,128c,64,64c,256,256c")
    parser.add_argument("--forward", default="", help="further tiles, queries x keys x warps x stages or these x threshold, separated by commas")
    parser.add_argument("--backward", default="", help="the same for gradients through descriptors: of the kernel of one pass, or of the two kernels: of keys and values, `/`, of queries")
    parser.add_argument("--length", type=int, default=4096, help="tokens of a sequence, a divisor of 16384")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each of forward and backward of a problem")
    parser.add_argument("--check", action="store_true", help="only compare with float64")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    if not check() or options.check:
        return
    for problem in options.problems.split(","):
        measure(problem, *([text for text in of.split(",") if text] for of in (options.forward, options.backward)), options.length, options.seconds)


if __name__ == "__main__":
    main()
