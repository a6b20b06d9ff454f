"""Errors of `nereid.ops` and of ATen in one dtype against fp64, for the operators of a training step of a transformer and their gradients.

    python benchmarks/ops/accuracy.py [--device cuda] [--dtype float32] [--only attention,products] [--seeds 4] [--attention ieee]

An error is the root of the sum of squares of the difference, relative to that of the result of ATen in fp64 on the same (rounded) inputs; over `--seeds` draws. A line a case: the errors of
the result and of each gradient, ours / ATen's; the last lines give what is above 1.25 of ATen's error. --attention: how attention multiplies fp32 on GPUs, "tf32x3" (the default) or "ieee".
"""

import argparse
import sys

import torch
import torch.nn.functional as F

import nereid.ops
from nereid.ops import attention


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def with_bias(q, k, v, bias):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def cases():
    """{family: {name: (function, shapes of its floats, the last arguments)}}"""
    products = {}
    for k in (16, 64, 256, 1024, 4096, 8192):
        products[f"mm 256x256x{k}"] = (torch.mm, ((256, k), (k, 256)))
        products[f"addmm 256x256x{k}"] = (torch.addmm, ((256, ), (256, k), (k, 256)))
    for k in (16, 64, 512):
        products[f"bmm 8x64x64x{k}"] = (torch.bmm, ((8, 64, k), (8, k, 64)))
    for rows, inner, outer in ((64, 32, 64), (1024, 512, 512)):
        products[f"linear {rows}x{inner}x{outer}"] = (F.linear, ((rows, inner), (outer, inner), (outer, )))
    heads = {}
    for length, d in ((16, 16), (64, 32), (256, 64), (1024, 64), (1024, 128), (4096, 64)):
        shape = (2, 4, length, d) if length < 4096 else (1, 2, length, d)
        heads[f"attention {length}, d {d}"] = (F.scaled_dot_product_attention, (shape, ) * 3)
        heads[f"causal {length}, d {d}"] = (causal, (shape, ) * 3)
    heads["with a bias 64, d 32"] = (with_bias, ((2, 4, 64, 32), ) * 3 + ((2, 4, 64, 64), ))
    rows = {}
    for n in (32, 1000, 4096):
        rows |= {f"layer_norm {n}": (lambda x, w, b: F.layer_norm(x, w.shape, w, b), ((512, n), (n, ), (n, ))), f"rms_norm {n}": (lambda x, w: F.rms_norm(x, w.shape, w), ((512, n), (n, ))),
                 f"softmax {n}": (lambda x: torch.softmax(x, -1), ((512, n), )), f"log_softmax {n}": (lambda x: torch.log_softmax(x, -1), ((512, n), )),
                 f"cross_entropy {n}": (lambda x: F.cross_entropy(x, torch.arange(512, device=x.device) * 7 % x.shape[1]), ((512, n), ))}
    rows |= {"sum of rows 65536": (lambda x: x.sum(1), ((8, 65536), )), "sum of columns 65536": (lambda x: x.sum(0), ((65536, 8), )), "mean of all": (lambda x: x.mean(), ((4096, 512), )),
             "embedding": (lambda w: F.embedding(torch.arange(8192, device=w.device) % 37, w), ((64, 128), ))}
    elements = {name: (function, ((512, 512), ) * count) for name, function, count in (
        ("gelu", F.gelu, 1), ("gelu, tanh", lambda x: F.gelu(x, approximate="tanh"), 1), ("silu", F.silu, 1), ("sigmoid", torch.sigmoid, 1), ("tanh", torch.tanh, 1), ("exp", torch.exp, 1),
        ("sin", torch.sin, 1), ("cos", torch.cos, 1), ("rsqrt", lambda x: (x * x + 1).rsqrt(), 1), ("pow", lambda x: (x * x + 1).pow(1.7), 1), ("mse_loss", F.mse_loss, 2),
        ("sigmoid loss", F.binary_cross_entropy_with_logits, 2))}
    return {"products": products, "attention": heads, "rows": rows, "elements": elements}


def results(function, tensors, dtype, seed):
    """The result and the gradients of a case; the cotangent is random, the same in all dtypes."""
    given = [tensor.to(dtype).requires_grad_() for tensor in tensors]
    result = function(*given)
    generator = torch.Generator().manual_seed(seed)
    cotangent = torch.randn(result.shape, generator=generator).to(tensors[0].dtype).to(result.device, dtype)
    return [result.detach(), *torch.autograd.grad(result, given, cotangent)]


def errors(function, shapes, device, dtype, seeds):
    """[(our error, ATen's)] of the result and each gradient."""
    squares = None
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        tensors = [torch.randn(shape, generator=generator).to(dtype).to(device) for shape in shapes]
        wide, native = (results(function, tensors, kind, seed) for kind in (torch.float64, dtype))
        with nereid.ops.use(routing=False):
            ours = results(function, tensors, dtype, seed)
        found = [[float((one.double() - exact).square().sum()) for one in both] + [float(exact.square().sum())] for *both, exact in zip(ours, native, wide)]
        squares = found if squares is None else [[a + b for a, b in zip(*both)] for both in zip(squares, found)]
    return [((mine / size)**0.5, (its / size)**0.5) for mine, its, size in squares]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--attention", choices=["ieee", "tf32x3"], help="how attention multiplies fp32 on GPUs")
    options = parser.parse_args()
    if options.attention:
        computation = attention.computation
        attention.computation = lambda query, device: computation(query, device) | {"PRECISION": options.attention}
    if options.device == "cuda":
        print(torch.cuda.get_device_name(), torch.__version__)
    above = []
    for family, members in cases().items():
        if options.only and family not in options.only.split(","):
            continue
        for name, (function, shapes) in members.items():
            found = errors(function, shapes, options.device, getattr(torch, options.dtype), options.seeds)
            print(f"{name:26}", "  ".join(f"{mine:.2e} / {its:.2e}" for mine, its in found), flush=True)
            above += [f"{name}, {'result' if i == 0 else f'gradient {i}'}: {mine / its:.2f}" for i, (mine, its) in enumerate(found) if its and mine > 1.25 * its]
    print("above 1.25 of ATen's error:", *above, sep="\n  ")


if __name__ == "__main__":
    sys.exit(main())
