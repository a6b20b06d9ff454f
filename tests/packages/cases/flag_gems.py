"""flag-gems: PyTorch's operators as kernels, each against the operator itself."""

import sys

import torch
import torch.nn.functional as F

import flag_gems
from host import CASES, case, rand, randint, randn

ops = flag_gems.ops
for module in list(sys.modules.values()):  # where its tensors live, if not on a GPU
    if getattr(module, "__name__", "").startswith("flag_gems") and getattr(module, "device", None) == "cuda":
        module.device = randn(1).device.type


def same(name, function, reference, make, tolerance=2e-5, gpu_tolerance=None):
    if not hasattr(ops, name.split(":")[0]):
        return
    def run():
        values = make()
        return (getattr(ops, name.split(":")[0]) if function is None else function)(*clones(values)), reference(*clones(values))
    CASES.append((name, run, tolerance, gpu_tolerance or tolerance))


def clones(values):
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in values]


def positive(*shape):
    return rand(*shape) + 0.1


def small(*shape):
    return rand(*shape) * 1.8 - 0.9


UNARY = ["abs", "angle", "ceil", "cos", "erf", "exp", "exp2", "expm1", "isfinite", "isinf", "isnan", "isneginf", "logical_not", "neg", "reciprocal", "round", "sgn_", "sigmoid",
         "signbit", "sin", "square", "tan", "tanh", "atan", "cosh", "sinh_", "i0", "special_i0e", "special_i1", "arcsinh", "floor_", "digamma_", "hardsigmoid", "hardswish_", "relu", "relu6",
         "silu", "gelu", "elu", "celu", "selu", "softplus", "log_sigmoid", "nan_to_num", "softshrink", "contiguous", "zeros_like", "ones_like"]
for name in UNARY:
    plain = name.rstrip("_").removeprefix("special_")
    reference = ({"log_sigmoid": F.logsigmoid, "contiguous": torch.Tensor.contiguous}.get(plain)
                 or getattr(torch.special if name.startswith("special") else torch, plain, None) or getattr(F, plain))
    same(name, None, reference, lambda: (randn(5, 37) * 2,), 1e-4)
for name in ["log", "log10", "log1p_", "rsqrt", "sqrt", "logit"]:
    same(name, None, getattr(torch, name.rstrip("_")), lambda: (rand(5, 37) * 0.8 + 0.1,), 1e-4)
for name in ["acos", "arctanh_"]:
    same(name, None, getattr(torch, name.rstrip("_")), lambda: (small(5, 37),), 1e-4)
for name in ["add", "sub", "mul", "true_divide", "floor_divide", "remainder", "maximum", "minimum", "atan2", "copysign", "fmin", "hypot", "logaddexp", "eq", "ne", "lt", "le", "gt", "ge",
             "logical_and", "logical_or", "logical_xor", "isclose"]:
    same(name, None, getattr(torch, name), lambda: (randn(6, 1, 33), randn(4, 33) + 3))
for name in ["bitwise_and_tensor", "bitwise_or_tensor"]:
    same(name, None, getattr(torch, name.removesuffix("_tensor")), lambda: (randint(-99, 99, 6, 33), randint(-99, 99, 33)))
same("bitwise_not", None, torch.bitwise_not, lambda: (randint(-99, 99, 40),))
same("pow_tensor_tensor", None, torch.pow, lambda: (positive(5, 30), randn(5, 30)), 1e-4)
same("pow_tensor_scalar", None, torch.pow, lambda: (randn(5, 30), 3), 1e-4)
same("addcmul", None, torch.addcmul, lambda: (randn(5, 30), randn(5, 30), randn(30)))
same("addcdiv", None, torch.addcdiv, lambda: (randn(5, 30), randn(5, 30), positive(30)))
same("lerp_tensor", None, torch.lerp, lambda: (randn(5, 30), randn(5, 30), rand(5, 30)))
same("clamp", None, torch.clamp, lambda: (randn(5, 30), -0.5, 0.7))
same("clamp_min", None, lambda x, y: torch.clamp_min(x, y), lambda: (randn(5, 30), 0.2))
same("threshold", None, torch.threshold, lambda: (randn(5, 30), 0.2, -1.0))
same("polar", None, torch.polar, lambda: (positive(5, 30), randn(5, 30)), 1e-4)
for name in ["sum", "prod", "amax", "max", "min", "mean", "argmax", "argmin", "any", "all", "count_nonzero", "std", "trace"]:
    same(name, None, getattr(torch, name), lambda: (randn(33, 61),), 1e-4)
for name, plain in [("sum_dim", "sum"), ("mean_dim", "mean")]:
    same(name, None, getattr(torch, plain), lambda: (randn(7, 33, 61), [1]), 1e-4)
for name, plain in [("max_dim", "max"), ("min_dim", "min"), ("prod_dim", "prod"), ("any_dim", "any"), ("all_dim", "all"), ("cumsum", "cumsum"), ("cummax", "cummax"), ("cummin", "cummin"),
                    ("argmax:dim", "argmax")]:
    same(name, None, getattr(torch, plain), lambda: (randn(7, 33, 61), 1), 1e-4)
same("cumsum:long_rows", None, torch.cumsum, lambda: (randn(3, 20000), 1), 1e-4)  # launched with a grid of four sizes
same("var_mean", None, torch.var_mean, lambda: (randn(7, 133), [1]), 1e-4)
same("vector_norm", None, torch.linalg.vector_norm, lambda: (randn(7, 133),), 1e-4)
same("softmax", None, torch.softmax, lambda: (randn(7, 133), -1), 1e-4)
same("log_softmax", None, torch.log_softmax, lambda: (randn(7, 133), 1), 1e-4)
same("softmax:middle", lambda x, d: ops.softmax(x, d), torch.softmax, lambda: (randn(7, 33, 20), 1), 1e-4)
same("sort", None, torch.sort, lambda: (randn(7, 133),))
same("sort:integers", None, torch.sort, lambda: (torch.randperm(5000).to(randn(1).device),))
same("topk", None, torch.topk, lambda: (randn(7, 300), 5))
same("quantile", None, torch.quantile, lambda: (randn(7, 65), 0.3, 1), 1e-4)
same("mm", None, torch.mm, lambda: (randn(70, 90), randn(90, 50)), 1e-4, 5e-3)
same("bmm", None, torch.bmm, lambda: (randn(3, 40, 64), randn(3, 64, 50)), 1e-4, 5e-3)
same("addmm", None, torch.addmm, lambda: (randn(50), randn(70, 90), randn(90, 50)), 1e-4, 5e-3)
same("baddbmm", None, torch.baddbmm, lambda: (randn(3, 40, 50), randn(3, 40, 64), randn(3, 64, 50)), 1e-4, 5e-3)
same("mm:fp16", lambda a, b: ops.mm(a, b), torch.mm, lambda: (randn(128, 256, dtype=torch.float16), randn(256, 128, dtype=torch.float16)), 5e-3)
same("mv", None, torch.mv, lambda: (randn(70, 90), randn(90)), 1e-4)
same("addmv", None, torch.addmv, lambda: (randn(70), randn(70, 90), randn(90)), 1e-4)
same("dot", None, torch.dot, lambda: (randn(5000), randn(5000)), 1e-3)
same("vdot", None, torch.vdot, lambda: (randn(500), randn(500)), 1e-3)
same("addr", None, torch.addr, lambda: (randn(70, 90), randn(70), randn(90)))
same("kron", None, torch.kron, lambda: (randn(7, 9), randn(3, 4)))
same("conv1d", None, F.conv1d, lambda: (randn(2, 8, 40), randn(16, 8, 3)), 1e-4, 5e-3)
same("conv2d", None, F.conv2d, lambda: (randn(2, 8, 20, 20), randn(16, 8, 3, 3), randn(16)), 1e-4, 5e-3)
same("conv3d", None, F.conv3d, lambda: (randn(1, 4, 8, 8, 8), randn(8, 4, 3, 3, 3)), 1e-4, 5e-3)
same("layer_norm", lambda *v: ops.layer_norm(*v)[0], lambda *v: F.layer_norm(*v), lambda: (randn(9, 64), [64], randn(64), randn(64)), 1e-4)
same("group_norm", lambda x, w, b: ops.group_norm(x, w, b, 2, 8, 30, 4)[0], lambda x, w, b: F.group_norm(x, 4, w, b), lambda: (randn(2, 8, 30), randn(8), randn(8)), 1e-4)
same("rms_norm", None, F.rms_norm, lambda: (randn(9, 64), [64], randn(64), 1e-5), 1e-4)
same("batch_norm", lambda x, w, b, m, v: (ops.batch_norm(x, w, b, m, v, training=True)[0], m, v), lambda x, w, b, m, v: (F.batch_norm(x, m, v, w, b, True), m, v),
     lambda: (randn(6, 8, 30), randn(8), randn(8), randn(8), rand(8)), 1e-4)
same("avg_pool2d", None, F.avg_pool2d, lambda: (randn(2, 3, 16, 16), [2, 2]))
same("max_pool2d_with_indices", None, lambda x, k: F.max_pool2d(x, k, return_indices=True), lambda: (randn(2, 3, 16, 16), [2, 2]))
same("embedding", None, lambda w, i: F.embedding(i, w), lambda: (randn(50, 64), randint(0, 50, 7, 3)))
same("gather", None, torch.gather, lambda: (randn(20, 30), 1, randint(0, 30, 20, 9)))
same("scatter", None, torch.scatter, lambda: (randn(20, 30), 0, torch.rand(9, 30).argsort(0).to(randn(1).device), randn(9, 30)))
same("scatter_add_", None, torch.scatter_add, lambda: (randn(20, 30), 0, randint(0, 20, 9, 30), randn(9, 30)), 1e-4)
same("index_select", None, torch.index_select, lambda: (randn(20, 30), 0, randint(0, 20, 9)))
same("index_add", None, torch.index_add, lambda: (randn(20, 30), 0, randint(0, 20, 9), randn(9, 30)), 1e-4)
same("index", None, lambda x, i: x[i[0]], lambda: (randn(20, 30), [randint(0, 20, 9)]))
same("index_put", None, lambda x, i, v: x.index_put(tuple(i), v), lambda: (randn(20, 30), [torch.randperm(20)[:9].to(randn(1).device)], randn(9, 30)))
same("masked_fill", None, torch.masked_fill, lambda: (randn(20, 30), randn(20, 30) > 0, 3.5))
same("masked_select", None, torch.masked_select, lambda: (randn(20, 30), randn(20, 30) > 0))
same("masked_scatter", None, torch.masked_scatter, lambda: (randn(20, 30), randn(20, 30) > 0, randn(600)))
same("nonzero", None, torch.nonzero, lambda: (randint(0, 2, 20, 30),))
same("isin", None, torch.isin, lambda: (randint(0, 50, 20, 30), randint(0, 50, 9)))
same("_unique2", lambda x: ops._unique2(x, return_inverse=True, return_counts=True), lambda x: torch._unique2(x, return_inverse=True, return_counts=True), lambda: (randint(0, 50, 400),))
same("unique_consecutive", lambda x: ops.unique_consecutive(x)[0], torch.unique_consecutive, lambda: (randint(0, 4, 400),))
same("flip", None, torch.flip, lambda: (randn(5, 6, 7), [0, 2]))
same("roll", None, torch.roll, lambda: (randn(5, 6, 7), [2], [1]))
same("tile", None, torch.tile, lambda: (randn(5, 6), (2, 3)))
same("repeat", None, lambda x, n: x.repeat(n), lambda: (randn(5, 6), (2, 3)))
same("repeat_interleave_self_int", None, torch.repeat_interleave, lambda: (randn(5, 6), 3, 1))
same("cat", None, torch.cat, lambda: ([randn(5, 6), randn(3, 6)], 0))
same("stack", None, torch.stack, lambda: ([randn(5, 6), randn(5, 6)], 1))
same("hstack", None, torch.hstack, lambda: ([randn(5, 6), randn(5, 3)],))
same("vstack", None, torch.vstack, lambda: ([randn(5, 6), randn(2, 6)],))
same("tril", None, torch.tril, lambda: (randn(30, 40), 2))
same("triu", None, torch.triu, lambda: (randn(30, 40), -2))
same("diag", None, torch.diag, lambda: (randn(30),))
same("diag_embed", None, torch.diag_embed, lambda: (randn(4, 30),))
same("t_copy", None, torch.t_copy, lambda: (randn(30, 7),))
same("pixel_unshuffle", None, F.pixel_unshuffle, lambda: (randn(2, 3, 8, 8), 2))
same("reflection_pad1d", None, lambda x, p: F.pad(x, p, "reflect"), lambda: (randn(2, 3, 20), (3, 2)))
same("reflection_pad2d", None, lambda x, p: F.pad(x, p, "reflect"), lambda: (randn(2, 3, 20, 12), (3, 2, 1, 4)))
same("replication_pad1d", None, lambda x, p: F.pad(x, p, "replicate"), lambda: (randn(2, 3, 20), (3, 2)))
same("constant_pad_nd", None, torch.constant_pad_nd, lambda: (randn(4, 5), (1, 2, 3, 0), 1.5))
same("glu", None, F.glu, lambda: (randn(7, 64),), 1e-4)
same("prelu", None, F.prelu, lambda: (randn(4, 6, 8), randn(6)))
same("mse_loss", None, F.mse_loss, lambda: (randn(7, 64), randn(7, 64)), 1e-4)
same("soft_margin_loss", None, F.soft_margin_loss, lambda: (randn(7, 64), randn(7, 64).sign()), 1e-4)
same("one_hot", None, F.one_hot, lambda: (randint(0, 9, 40), 9))
same("upsample_nearest2d", lambda x: ops.upsample_nearest2d(x, [20, 24]), lambda x: F.interpolate(x, (20, 24)), lambda: (randn(2, 3, 10, 8),))
same("_upsample_bicubic2d_aa", lambda x: ops._upsample_bicubic2d_aa(x, [20, 24]), lambda x: F.interpolate(x, (20, 24), mode="bicubic", antialias=True), lambda: (randn(1, 3, 10, 8),), 1e-3)
same("scaled_dot_product_attention", lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, is_causal=True), lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
     lambda: tuple(randn(1, 2, 128, 64, dtype=torch.float16) for _ in range(3)), 5e-3)
same("logical_and_", None, torch.logical_and, lambda: (randint(0, 2, 20) > 0, randint(0, 2, 20) > 0))
same("select_scatter", None, torch.select_scatter, lambda: (randn(5, 6), randn(6), 0, 2))
same("slice_scatter", lambda x, y: ops.slice_scatter(x, y, 0, 1, 3), lambda x, y: torch.slice_scatter(x, y, 0, 1, 3), lambda: (randn(5, 6), randn(2, 6)))
same("conj_physical", None, torch.conj_physical, lambda: (torch.complex(randn(30), randn(30)),))


@case()
def constructors():
    device = randn(1).device
    actual = (ops.arange(17, device=device), ops.eye(9, device=device), ops.full((3, 4), 2.5, device=device), ops.linspace(0, 1, 50, device=device), ops.ones((7,), device=device))
    expected = (torch.arange(17), torch.eye(9), torch.full((3, 4), 2.5), torch.linspace(0, 1, 50), torch.ones(7))
    return actual, expected


@case(0.1)
def randoms():
    device = randn(1).device
    moments = lambda x: torch.stack([x.float().mean(), x.float().square().mean()])
    return ([moments(ops.rand((20000,), device=device)), moments(ops.randn((20000,), device=device)).abs() + 1], [torch.tensor([0.5, 1 / 3]), torch.tensor([1.0, 2.0])])


@case()
def randperm():
    values = ops.randperm(3000, device=randn(1).device)
    return values.sort().values, torch.arange(3000)
