"""Comparison with references in float64."""

import torch

EPS = {torch.float64: 2.0 ** -52, torch.float32: 2.0 ** -23, torch.float16: 2.0 ** -10, torch.bfloat16: 2.0 ** -7}


def close(got, want, ulp=16.0, atol=None, eps=None):
    """Every element within `ulp` units in the last place (of `got`'s dtype, or of `eps`) of the larger of itself and of the
    typical size of the tensor; exact for integers. NaN and infinities must agree."""
    assert got.shape == want.shape, f"{tuple(got.shape)} instead of {tuple(want.shape)}"
    if not got.dtype.is_floating_point:
        assert torch.equal(got, want.to(got.dtype)), f"{(got != want).sum()} of {got.numel()} differ"
        return
    eps = eps or EPS[got.dtype]
    got, want = got.detach().double(), want.detach().double()
    finite = torch.isfinite(want)
    same = torch.equal(torch.isfinite(got), finite) and torch.equal(got[~finite].nan_to_num(7), want[~finite].nan_to_num(7))
    assert same, "NaN or infinities differ"
    if not finite.any():
        return
    got, want = got[finite], want[finite]
    scale = torch.maximum(want.abs(), want.abs().mean())
    bound = ulp * eps * scale + (atol or 0.0)
    error = (got - want).abs() - bound
    worst = error.argmax()
    assert error[worst] <= 0, (f"{got[worst]} instead of {want[worst]}: off by {(got - want)[worst]:.3g}, allowed "
                               f"{bound[worst]:.3g}; {int((error > 0).sum())} of {error.numel()} are off")


TF32 = 2.0 ** -10  #: spacing of 1.0 in the default type of fp32 products on GPUs
