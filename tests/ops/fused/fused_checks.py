"""How fused operators are judged: against a definition in plain PyTorch, computed in fp64 by ATen's kernels."""

import torch


def random(*shape, dtype=torch.float32, device="cpu", seed=0, scale=1.0):
    """Normal numbers, the same ones on every device."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype).to(device)


def layouts(x):
    """The same values in other places: [(name, tensor)]: as it is, transposed in memory, a part of something wider, every second element."""
    found = [("plain", x)]
    if x.dim() > 1:
        found.append(("transposed", x.transpose(0, -1).contiguous().transpose(0, -1)))
    wide = torch.zeros((*x.shape[:-1], 2 * x.shape[-1] + 3), dtype=x.dtype, device=x.device)
    wide[..., 1:x.shape[-1] + 1] = x
    found.append(("a part", wide[..., 1:x.shape[-1] + 1]))
    spread = torch.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype, device=x.device)
    spread[..., ::2] = x
    found.append(("every second", spread[..., ::2]))
    return found


def in_double(value):
    """Tensors of floats in fp64; everything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(in_double(item) for item in value)
    return value.detach().double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def compare(got, want, dtype=None, units=2.0, absolute=None, what="result"):
    """got, want: tensors or (nested) lists of them. Differs by at most `units` units in the last place of `dtype` (by default that of `got`), relative to the value
    and, `absolute` of them (by default the same number), to the largest magnitude of the tensor."""
    if isinstance(got, (list, tuple)):
        assert len(got) == len(want), f"{what}: {len(got)} results, expected {len(want)}"
        for i, (a, b) in enumerate(zip(got, want)):
            compare(a, b, dtype, units, absolute, f"{what} {i}")
        return
    if got is None or want is None:
        assert got is None and want is None, f"{what}: one of them is None"
        return
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if not got.is_floating_point():
        assert torch.equal(got.cpu(), want.cpu().to(got.dtype)), f"{what}: differs"
        return
    a, b = got.detach().double().cpu(), want.detach().double().cpu()
    assert torch.equal(a.isnan(), b.isnan()), f"{what}: not-a-numbers differ"
    a, b = a.nan_to_num(0), b.nan_to_num(0)
    finite = a.isfinite() & b.isfinite()
    assert torch.equal(a[~finite], b[~finite]), f"{what}: infinities differ"
    a, b = a[finite], b[finite]
    if not a.numel():
        return
    eps = torch.finfo(dtype or got.dtype).eps
    allowed = eps * (units * b.abs() + (units if absolute is None else absolute) * b.abs().max())
    worst = ((a - b).abs() - allowed).max().item()
    assert worst <= 0, f"{what}: off by {(a - b).abs().max().item():.3g}, at most {worst:.3g} beyond what {units} units of {dtype or got.dtype} allow"


def check(operator, definition, tensors, *others, units=2.0, gradients=True, **named):
    """An operator and its gradients against a definition.

    operator, definition: called with tensors, then `others` and `named`. The definition gets the floats among them in fp64 and returns what the operator
    returns. gradients: those of all floats that are tensors, with random gradients of the results.
    """
    leaves = [tensor.detach().clone().requires_grad_(gradients) if tensor is not None and tensor.is_floating_point() else tensor for tensor in tensors]
    # `clone` keeps strides of dense tensors only
    leaves = [tensor.detach().requires_grad_(gradients) if leaf is not None and tensor.is_floating_point() and leaf.stride() != tensor.stride() else leaf
              for leaf, tensor in zip(leaves, tensors)]
    wide = [leaf.detach().double().requires_grad_(gradients) if leaf is not None and leaf.is_floating_point() else leaf for leaf in leaves]
    got, want = operator(*leaves, *others, **named), definition(*wide, *others, **named)
    compare(got, want, units=units)
    if not gradients:
        return
    pairs = [(a, b) for a, b in zip(*(value if isinstance(value, (list, tuple)) else [value] for value in (got, want)))
             if a is not None and a.is_floating_point() and a.requires_grad]
    grads = [random(*a.shape, dtype=a.dtype, device=a.device, seed=7 + i) for i, (a, _) in enumerate(pairs)]
    inputs = [(a, b) for a, b in zip(leaves, wide) if a is not None and a.is_floating_point()]
    mine = torch.autograd.grad([a for a, _ in pairs], [a for a, _ in inputs], grads, allow_unused=True)
    theirs = torch.autograd.grad([b for _, b in pairs], [b for _, b in inputs], [grad.double() for grad in grads], allow_unused=True)
    for i, (a, b) in enumerate(zip(mine, theirs)):
        if a is None or b is None:
            a = torch.zeros_like(inputs[i][0]) if a is None else a
            b = torch.zeros_like(inputs[i][1]) if b is None else b
        compare(a, b, units=2 * units, what=f"gradient of tensor {i}")
    return got
