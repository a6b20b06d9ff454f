"""What benchmarks/ops/kernels.py measures: calls by family, over shapes of models, and one call of every pointwise operator, reduction and scan."""

import itertools

import torch
import torch.nn.functional as F

import nereid.ops

HALF, FULL = torch.bfloat16, torch.float32
#: (rows, columns): tokens times width in Llama-2-7B and BERT-large, a batch of scores, a very long row, small ones, a long row.
SHAPES = [(4096, 4096), (2048, 11008), (8192, 1024), (16384, 512), (1, 1 << 24), (64, 4096), (32, 128), (1, 1 << 20)]
#: Of `every`: a large one and a small one.
FEW = (SHAPES[0], SHAPES[5])


def pointwise(device, dtype, shape):
    x, y = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    mask = torch.rand(shape, device=device) > 0.5
    row, column = torch.randn(shape[1], device=device).to(dtype), torch.randn(shape[0], 1, device=device).to(dtype)
    cases = {
        "add": lambda: x + y, "mul": lambda: x * y, "silu": lambda: F.silu(x), "gelu": lambda: F.gelu(x), "where": lambda: torch.where(mask, x, y),
        "add row": lambda: x + row, "mul column": lambda: x * column, "add number": lambda: x + 1.5, "lt": lambda: x < y, "exp": lambda: torch.exp(x),
        "tanh": lambda: torch.tanh(x), "pow": lambda: torch.pow(x, 2), "clamp": lambda: torch.clamp(x, -1, 1), "to fp32": lambda: x.to(FULL if dtype is HALF else HALF),
        "silu_backward": lambda: torch.ops.aten.silu_backward(y, x), "gelu_backward": lambda: torch.ops.aten.gelu_backward(y, x)
    }
    if shape[0] > 1:
        turned = torch.randn(shape[1], shape[0], device=device).to(dtype).t()
        wide = torch.randn(shape[0], 2 * shape[1], device=device).to(dtype)
        cases |= {"add transposed": lambda: x + turned, "copy transposed": lambda: turned.contiguous(), "add sliced": lambda: wide[:, ::2] + y,
                  "silu sliced": lambda: F.silu(wide[:, :shape[1]])}
    return cases


def reductions(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    return {"sum": lambda: x.sum(), "sum rows": lambda: x.sum(1), "sum columns": lambda: x.sum(0), "mean rows": lambda: x.mean(1), "max rows": lambda: x.max(1),
            "amax columns": lambda: x.amax(0), "argmax rows": lambda: x.argmax(1), "var rows": lambda: x.var(1), "norm": lambda: torch.linalg.vector_norm(x),
            "any": lambda: (x != 0).any(), "prod rows": lambda: x.prod(1)}


def scans(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    return {"cumsum rows": lambda: x.cumsum(1), "cumsum columns": lambda: x.cumsum(0), "cummax rows": lambda: x.cummax(1)}


def rows(device, dtype, shape):
    n = shape[1]
    x, y = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    weight, bias = (torch.randn(n, device=device).to(dtype) for _ in range(2))
    if n > 65536:
        return {"softmax": lambda: torch.softmax(x, -1)}
    output = torch.softmax(x, -1)
    _, mean, rstd = torch.native_layer_norm(x, (n, ), weight, bias, 1e-5)
    return {
        "softmax": lambda: torch.softmax(x, -1), "log_softmax": lambda: torch.log_softmax(x, -1),
        "softmax_backward": lambda: torch.ops.aten._softmax_backward_data(y, output, -1, dtype),
        "log_softmax_backward": lambda: torch.ops.aten._log_softmax_backward_data(y, output, -1, dtype),
        "layer_norm": lambda: F.layer_norm(x, (n, ), weight, bias),
        "layer_norm_backward": lambda: torch.ops.aten.native_layer_norm_backward(y, x, (n, ), mean, rstd, weight, bias, [True, True, True])
    }


def products(device, dtype, shape):
    if shape[0] == 1 or shape[1] < 1024 and shape[0] > 8192:
        return {}
    x, w = torch.randn(shape, device=device).to(dtype), torch.randn(shape[1], 4096, device=device).to(dtype)
    turned, bias, gradient = w.t().contiguous().t(), torch.randn(4096, device=device).to(dtype), torch.randn(shape[0], 4096, device=device).to(dtype)
    batch = x.view(-1, 32, shape[1] // 2) if shape[0] % 16 == 0 else x[None]
    return {"mm": lambda: x @ w, "linear": lambda: x @ turned, "addmm": lambda: torch.addmm(bias, x, w), "addmm linear": lambda: torch.addmm(bias, x, turned),
            "weight gradient": lambda: x.t() @ gradient, "bmm": lambda: torch.bmm(batch, batch.transpose(1, 2)), "mv": lambda: torch.mv(x, w[:, 0].contiguous())}


def narrow(device, dtype, shape):
    """Products with few rows, columns or terms, as matrices and as linear layers."""
    if shape != FEW[0]:
        return {}
    cases = {}
    for m, n, k in itertools.product((16, 256, 4096), (32, 256, 4096), (32, 256, 4096)):
        if max(m, n, k) <= 256 or (m, n, k) == (4096, 4096, 4096):
            continue
        x, w, turned = (torch.randn(size, device=device).to(dtype) for size in ((m, k), (k, n), (n, k)))
        cases |= {f"mm {m}x{n}x{k}": lambda x=x, w=w: x @ w, f"linear {m}x{n}x{k}": lambda x=x, w=turned: x @ w.t()}
    return cases


def attention(device, dtype, shape):
    if shape != SHAPES[0] or dtype is not HALF:
        return {}
    cases = {}
    for length in (512, 2048, 8192):
        q, k, v = (torch.randn(max(1, 16384 // length), 16, length, 128, device=device).to(dtype) for _ in range(3))
        cases[f"attention {length}"] = lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v)
        cases[f"causal {length}"] = lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return cases


def moves(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    places = torch.randint(0, shape[0], (shape[0], ), device=device)
    columns = torch.randint(0, shape[1], shape, device=device)
    middle = (shape[1] + 1) // 2
    whole = {}
    if dtype is FULL:
        integers = (x * 1e6).long()
        whole = {"sort int64": lambda: integers.sort(1), "topk int64": lambda: integers.topk(min(50, shape[1]), 1), "kthvalue int64": lambda: integers.kthvalue(middle, 1),
                 "median int64": lambda: integers.median(1)}
    return whole | {"cat": lambda: torch.cat([x, x]), "cat columns": lambda: torch.cat([x, x], 1), "index rows": lambda: x[places], "index_select": lambda: x.index_select(0, places),
            "gather": lambda: x.gather(1, columns), "flip": lambda: x.flip(1), "tril": lambda: x.tril(), "pad": lambda: F.pad(x, (1, 1)), "clone": lambda: x.clone(),
            "full": lambda: torch.full_like(x, 2), "index_add": lambda: x.index_add(0, places, x), "scatter_add": lambda: x.scatter_add(1, columns, x),
            "sort": lambda: x.sort(1), "topk": lambda: x.topk(min(50, shape[1]), 1), "roll": lambda: x.roll(1, 1),
            "kthvalue": lambda: x.kthvalue(middle, 1), "median": lambda: x.median(1), "index_put": lambda: x.index_put((places, ), x, accumulate=True)}


#: name: (shape of x without the batch, shape of the weights, options, batch on a GPU). ResNet-50, its first layer, ConvNeXt and MobileNet (depthwise), ResNeXt, ViT's patches,
#: UNet (3x3, up), Whisper's two, Mamba, a 3-D UNet.
CONVOLUTIONS = {
    "3x3 64@56": ((64, 56, 56), (64, 64, 3, 3), {"padding": 1}, 64), "3x3 128@28": ((128, 28, 28), (128, 128, 3, 3), {"padding": 1}, 64),
    "3x3 256@14": ((256, 14, 14), (256, 256, 3, 3), {"padding": 1}, 64), "3x3 512@7": ((512, 7, 7), (512, 512, 3, 3), {"padding": 1}, 64),
    "3x3 128@56/2": ((128, 56, 56), (128, 128, 3, 3), {"padding": 1, "stride": 2}, 64), "1x1 64-256@56": ((64, 56, 56), (256, 64, 1, 1), {}, 64),
    "1x1 1024-256@14": ((1024, 14, 14), (256, 1024, 1, 1), {}, 64), "1x1 256-512@56/2": ((256, 56, 56), (512, 256, 1, 1), {"stride": 2}, 64),
    "7x7 3-64@224/2": ((3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}, 64), "depthwise 7x7 96@56": ((96, 56, 56), (96, 1, 7, 7), {"padding": 3, "groups": 96}, 64),
    "depthwise 3x3 192@28": ((192, 28, 28), (192, 1, 3, 3), {"padding": 1, "groups": 192}, 64),
    "groups 32 3x3 128@56": ((128, 56, 56), (128, 4, 3, 3), {"padding": 1, "groups": 32}, 64), "patches 16 3-768@224": ((3, 224, 224), (768, 3, 16, 16), {"stride": 16}, 64),
    "3x3 320@64": ((320, 64, 64), (320, 320, 3, 3), {"padding": 1}, 4), "3x3 1280@16": ((1280, 16, 16), (1280, 1280, 3, 3), {"padding": 1}, 4),
    "up 2x2 256-128@64": ((256, 64, 64), (256, 128, 2, 2), {"stride": 2, "transposed": True}, 4), "1d 3 80-768@3000": ((80, 3000), (768, 80, 3), {"padding": 1}, 8),
    "1d 3 768@3000/2": ((768, 3000), (768, 768, 3), {"padding": 1, "stride": 2}, 8), "1d causal 4 5120@2048": ((5120, 2048), (5120, 1, 4), {"padding": 3, "groups": 5120}, 4),
    "3d 3 32-64@32": ((32, 32, 32, 32), (64, 32, 3, 3, 3), {"padding": 1}, 2),
}


def convolutions(device, dtype, shape):
    """Contiguous and, of planes, channels-last tensors: the result, and the gradients of the input and of the weights. The second of FEW stands for batches of one."""
    if shape not in FEW:
        return {}
    cases = {}
    for name, (x_shape, w_shape, options, batch) in CONVOLUTIONS.items():
        rank, batch = len(x_shape) - 1, batch if shape == FEW[0] else 1
        stride, padding, groups, transposed = ([options.get("stride", 1)] * rank, [options.get("padding", 0)] * rank, options.get("groups", 1),
                                               options.get("transposed", False))
        more = (stride, padding, [1] * rank, transposed, [0] * rank, groups)
        x, w = torch.randn(batch, *x_shape, device=device).to(dtype), (torch.randn(w_shape, device=device) / w_shape[1] ** 0.5).to(dtype)
        bias = torch.randn(w_shape[1] if transposed else w_shape[0], device=device).to(dtype)
        for layout in ("", " channels-last") if rank == 2 else ("", ):
            if layout:
                x, w = x.contiguous(memory_format=torch.channels_last), w.contiguous(memory_format=torch.channels_last)
            y = torch.ops.aten.convolution(x, w, bias, *more)

            def backward(mask, x=x, w=w, y=y, more=more):
                return torch.ops.aten.convolution_backward(y, x, w, None, *more, mask)

            cases[name + layout] = lambda x=x, w=w, bias=bias, more=more: torch.ops.aten.convolution(x, w, bias, *more)
            if x_shape[0] != 3:
                cases[f"{name}{layout} input"] = lambda backward=backward: backward([True, False, False])
            cases[f"{name}{layout} weights"] = lambda backward=backward: backward([False, True, False])
    return cases


def planes(device, dtype, shape):
    """Pooling, interpolation, padding, patches and sampling of images, volumes and lines, and their gradients: ResNet's first layers, feature pyramids, UNet, flow, video. The
    second of FEW stands for small batches."""
    if shape not in FEW:
        return {}
    aten, batch, cases = torch.ops.aten, 32 if shape == FEW[0] else 1, {}

    def made(*size, last=False):
        x = torch.randn(size, device=device).to(dtype)
        return x.contiguous(memory_format=torch.channels_last) if last else x

    for layout in ("", " channels-last"):
        x = made(batch, 64, 112, 112, last=bool(layout))
        y, places = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
        cases |= {
            f"max_pool 3/2{layout}": lambda x=x: aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1]),
            f"max_pool 3/2 backward{layout}": lambda x=x, y=y, places=places: aten.max_pool2d_with_indices_backward(y, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places),
            f"avg_pool 2{layout}": lambda x=x: aten.avg_pool2d(x, [2, 2]), f"avg_pool 2 backward{layout}": lambda x=x, y=y: aten.avg_pool2d_backward(
                y, x, [2, 2], [2, 2], [0, 0], False, True, None), f"adaptive_avg_pool 7{layout}": lambda x=x: aten._adaptive_avg_pool2d(x, [7, 7]),
        }
    x, small, volume = made(batch, 64, 112, 112), made(batch, 64, 56, 56), made(max(1, batch // 8), 32, 16, 56, 56)
    line = made(batch, 512, 3000)
    for mode, args in (("nearest", ()), ("bilinear", (False, )), ("bicubic", (False, ))):
        call = getattr(aten, f"upsample_{mode}2d")
        cases[f"upsample {mode} x2"] = lambda call=call, args=args: call(small, [112, 112], *args)
        call = getattr(aten, f"upsample_{mode}2d_backward")
        cases[f"upsample {mode} x2 backward"] = lambda call=call, args=args: call(x, [112, 112], small.shape, *args)
    pooled, inside = aten.max_pool3d_with_indices(volume, [2, 2, 2], [2, 2, 2])
    places = torch.rand(batch, 112, 112, 2, device=device).to(dtype) * 2 - 1
    cases |= {
        "upsample nearest-exact x2": lambda: aten._upsample_nearest_exact2d(small, [112, 112]), "upsample linear x2": lambda: aten.upsample_linear1d(line, [6000], False),
        "upsample trilinear x2": lambda: aten.upsample_trilinear3d(volume, [32, 112, 112], False),
        "max_pool3d 2": lambda: aten.max_pool3d_with_indices(volume, [2, 2, 2], [2, 2, 2]), "max_pool3d 2 backward": lambda: aten.max_pool3d_with_indices_backward(
            pooled, volume, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False, inside), "avg_pool3d 2": lambda: aten.avg_pool3d(volume, [2, 2, 2]),
        "adaptive_avg_pool3d 1": lambda: aten._adaptive_avg_pool3d(volume, [1, 1, 1]), "adaptive_max_pool 7": lambda: aten.adaptive_max_pool2d(x, [7, 7]),
        "pad reflect": lambda: aten.reflection_pad2d(x, [1, 1, 1, 1]), "pad replicate": lambda: aten.replication_pad2d(x, [1, 1, 1, 1]),
        "pad reflect line": lambda: aten.reflection_pad1d(line, [200, 200]), "pad reflect backward": lambda padded=F.pad(x, (1, 1, 1, 1)): aten.reflection_pad2d_backward(
            padded, x, [1, 1, 1, 1]), "pad replicate volume": lambda: aten.replication_pad3d(volume, [1] * 6),
        "im2col 3": lambda: aten.im2col(small, [3, 3], [1, 1], [1, 1], [1, 1]),
        "col2im 3": lambda columns=aten.im2col(small, [3, 3], [1, 1], [1, 1], [1, 1]): aten.col2im(columns, [56, 56], [3, 3], [1, 1], [1, 1], [1, 1]),
        "pixel_shuffle": lambda: aten.pixel_shuffle(x, 2),
    }
    for name, mode in (("bilinear", 0), ("nearest", 1), ("bicubic", 2)):
        cases[f"grid_sampler {name}"] = lambda mode=mode: aten.grid_sampler_2d(x, places, mode, 0, False)
        cases[f"grid_sampler {name} backward"] = lambda mode=mode: aten.grid_sampler_2d_backward(x, x, places, mode, 0, False, [True, True])
    if dtype is FULL:
        big = made(max(1, batch // 4), 3, 1024, 1024)
        for name in ("bilinear", "bicubic"):
            cases[f"resize {name}"] = lambda call=getattr(aten, f"_upsample_{name}2d_aa"): call(big, [224, 224], False)
            cases[f"resize {name} backward"] = lambda call=getattr(aten, f"_upsample_{name}2d_aa_backward"), g=made(big.shape[0], 3, 224, 224): call(
                g, [224, 224], big.shape, False)
    return cases


def bags(device, dtype, shape):
    """Embedding bags of recommendation models (a table of a million rows, 64 indices in a bag) and small ones; embeddings of words, each of which occurs about 8 times or often."""
    if shape not in FEW:
        return {}
    aten = torch.ops.aten
    rows, width, count, length = (1 << 20, 64, 4096, 64) if shape == FEW[0] else (30000, 128, 256, 8)
    table, weights = torch.randn(rows, width, device=device).to(dtype), torch.randn(count * length, device=device).to(dtype)
    indices, offsets = torch.randint(0, rows, (count * length, ), device=device), torch.arange(0, count * length, length, device=device)
    gradient, cases = torch.randn(count, width, device=device).to(dtype), {}
    for mode, name in enumerate(("sum", "mean", "max")):
        _, owners, sizes, places = aten._embedding_bag(table, indices, offsets, False, mode)
        cases[f"bag {name}"] = lambda mode=mode: aten._embedding_bag(table, indices, offsets, False, mode)
        cases[f"bag {name} backward"] = lambda mode=mode, owners=owners, sizes=sizes, places=places: aten._embedding_bag_backward(
            gradient, indices, offsets, owners, sizes, places, rows, False, mode, False, None)
    owners = torch.arange(count, device=device).repeat_interleave(length)
    words, size, tokens = (32000, 1024, 8192) if shape == FEW[0] else (1000, 128, 256)
    spoken, rare = torch.randn(tokens, size, device=device).to(dtype), torch.randint(0, tokens // 8, (tokens, ), device=device)
    cases |= {"embedding": lambda: aten.embedding(table, indices), "embedding backward": lambda: aten.embedding_dense_backward(spoken, rare, words, -1, False),
              "embedding backward often": lambda often=rare % 37: aten.embedding_dense_backward(spoken, often, words, -1, False)}
    return cases | {"bag weighted": lambda: aten._embedding_bag(table, indices, offsets, False, 0, False, weights),
                    "bag weights backward": lambda: aten._embedding_bag_per_sample_weights_backward(gradient, table, indices, offsets, owners, 0)}


def distances(device, dtype, shape):
    """Distances between rows, cross products, limits of norms and margin losses."""
    if shape not in FEW:
        return {}
    aten, count = torch.ops.aten, 1024 if shape == FEW[0] else 128
    x, vectors = torch.randn(count * 4, 1000, device=device).to(dtype), torch.randn(count * 256, 3, device=device).to(dtype)
    turned = vectors.flip(0)
    cases = {"cross": lambda: aten.linalg_cross(vectors, turned), "renorm": lambda: aten.renorm(x, 2, 0, 1.0)}
    if dtype is not FULL:
        return cases
    a, b, target = torch.randn(count, 64, device=device), torch.randn(count, 64, device=device), torch.randint(0, 1000, (count * 4, ), device=device)
    lists = torch.full((count * 4, 1000), -1, device=device)
    lists[:, :5] = torch.randint(0, 1000, (count * 4, 5), device=device)
    for p in (1.0, 2.0, 3.0):
        between, pairs = aten._cdist_forward(a, b, p, 2), aten._pdist_forward(a, p)
        cases |= {f"cdist {p:.0f}": lambda p=p: aten._cdist_forward(a, b, p, 2), f"pdist {p:.0f}": lambda p=p: aten._pdist_forward(a, p),
                  f"cdist {p:.0f} backward": lambda p=p, between=between: aten._cdist_backward(between, a, b, p, between),
                  f"pdist {p:.0f} backward": lambda p=p, pairs=pairs: aten._pdist_backward(pairs, a, p, pairs)}
    return cases | {
        "multi_margin": lambda: aten.multi_margin_loss(x, target), "multi_margin backward": lambda g=x.sum(): aten.multi_margin_loss_backward(g, x, target, 1, 1),
        "multilabel_margin": lambda: aten.multilabel_margin_loss_forward(x, lists, 1),
        "multilabel_margin backward": lambda g=x.sum(), flags=aten.multilabel_margin_loss_forward(x, lists, 1)[1]: aten.multilabel_margin_loss_backward(g, x, lists, 1, flags)
    }


def every(device, dtype, shape):
    """One functional call of each pointwise operator, reduction and scan, made from its schema."""
    if shape not in FEW:
        return {}
    cases = {}
    for operator in nereid.ops.OPERATORS.values():
        if operator.family not in ("pointwise", "reduction", "scan"):
            continue
        for form in operator.forms:
            call = _call(operator, form, device, dtype, shape) if form.kind == "functional" else None
            if call is not None:
                cases[form.name] = call
                break
    return cases


#: Operators of `every` that are defined for positive numbers only, or are another computation for negative ones.
POSITIVE = ("binary_cross_entropy", "binary_cross_entropy_backward", "digamma", "float_power", "lgamma", "log", "log10", "log2", "logit", "logit_backward", "mvlgamma", "poisson_nll_loss", "polygamma",
            "pow", "rsqrt", "special_entr", "sqrt", "xlogy")


def _call(operator, form, device, dtype, shape):
    """A call of a form with tensors of values between 0.1 and 0.9 of either sign (ATen's kernels for CPUs have branches for registers of one sign), or of positive integers where the operator takes
    no floats; None where the schema asks for more."""
    if operator.family == "pointwise" and dtype not in next(iter(operator.rules.values())).dtypes:
        dtype = torch.int32
    args, kwargs = [], {}
    for argument in form.overload._schema.arguments:
        kind = str(argument.type)
        if argument.name == "dim":
            value = 1 if kind in ("int", "Optional[int]") else [1]
        elif kind == "Tensor":
            value = torch.rand(shape, device=device) * 0.8 + 0.1
            if argument.name in ("condition", "mask"):
                value = value > 0.5
            elif not dtype.is_floating_point:
                value = (value * 8).to(dtype)
            else:
                value = (value if operator.name in POSITIVE else torch.where(torch.rand(shape, device=device) < 0.5, -value, value)).to(dtype)
        elif argument.has_default_value():
            continue
        elif kind in ("number", "float"):
            value = 0.5 if dtype.is_floating_point else 1
        elif kind == "int":
            value = 1
        elif kind == "bool":
            value = False
        elif kind.startswith("Optional"):
            value = None
        else:
            return None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)

    def call():
        return form.overload(*args, **kwargs)

    try:
        call()
    except (RuntimeError, ValueError, TypeError):  # it wants other arguments: indices, matrices, other dtypes
        return None
    return call


FAMILIES = {"pointwise": pointwise, "reductions": reductions, "scans": scans, "rows": rows, "products": products, "narrow": narrow, "attention": attention, "convolutions": convolutions, "moves": moves, "planes": planes,
            "bags": bags, "distances": distances, "every": every}
