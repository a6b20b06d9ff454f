"""Matrix products of normalised rows and of gated activations whose operand is not kept for the backward pass.

A linear layer saves its input for the gradient of its matrix. Where that input is a normalisation or a gated activation, everything that it follows from is saved as well,
so these functions save that alone, and the backward pass computes the input once more: RMSNorm by its kernel, SwiGLU in the kernel of its own gradient. The products are
PyTorch's, or those of `nereid.ops.enable()`.
"""

import torch
from torch.nn import functional as F

from . import _arguments
from .gated import swiglu, swiglu_again_backward
from .norms import add_rms_norm, rms_norm, rms_norm_backward

__all__ = ["add_rms_norm_linear", "rms_norm_linear", "swiglu_linear"]


def _check(x, matrices, width, name="x"):
    if not matrices:
        raise ValueError("`matrices` is empty: expected at least one matrix")
    named = {f"matrices[{i}]": matrix for i, matrix in enumerate(matrices)}
    _arguments.floats(**{name: x}, **named)
    _arguments.one_dtype(**{name: x}, **named)
    _arguments.one_device(**{name: x}, **named)
    for label, matrix in named.items():
        if matrix.dim() != 2 or matrix.shape[1] != width:
            raise ValueError(f"`{label}` has shape {tuple(matrix.shape)}: expected (n, {width})")


def _plain(*tensors):
    """Whether the functions below apply: no tensors of subclasses (DTensors), no autocast; otherwise PyTorch differentiates the steps one by one."""
    device = tensors[0].device.type
    return all(tensor is None or type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in tensors) and (device == "meta" or not torch.is_autocast_enabled(device))


def _rows(x):
    return x.reshape(-1, x.shape[-1])


class _NormLinear(torch.autograd.Function):

    @staticmethod
    def forward(ctx, eps, offset, x, residual, weight, *matrices):
        normalised, total = (rms_norm(x, weight, eps, offset), x) if residual is None else add_rms_norm(x, residual, weight, eps, offset)
        ctx.save_for_backward(total, weight, *matrices)
        ctx.eps, ctx.offset, ctx.added = eps, offset, residual is not None
        ctx.set_materialize_grads(False)
        products = tuple(F.linear(normalised, matrix) for matrix in matrices)
        return (*products, total) if ctx.added else products

    @staticmethod
    def backward(ctx, *grads):
        total, weight, *matrices = ctx.saved_tensors
        needed = ctx.needs_input_grad
        total_grad = grads[-1] if ctx.added else None
        used = [i for i in range(len(matrices)) if grads[i] is not None]
        of_matrices = [None] * len(matrices)
        if not used:
            return None, None, total_grad, total_grad, None, *of_matrices
        of_normalised = None
        if any(needed[2:5]):
            for i in used:
                if of_normalised is None:
                    of_normalised = torch.mm(_rows(grads[i]), matrices[i])
                else:
                    of_normalised.addmm_(_rows(grads[i]), matrices[i])
        if any(needed[5:]):
            normalised = _rows(rms_norm(total, weight, ctx.eps, ctx.offset))
            for i in used:
                if needed[5 + i]:
                    of_matrices[i] = torch.mm(_rows(grads[i]).t(), normalised)
            del normalised
        if of_normalised is None:
            return None, None, total_grad, total_grad, None, *of_matrices
        of_x, of_weight = rms_norm_backward(of_normalised.view(total.shape), total_grad, total, weight, ctx.eps, ctx.offset)
        return None, None, of_x, of_x if ctx.added else None, of_weight, *of_matrices


def rms_norm_linear(x, weight, matrices, eps=1e-6, weight_offset=0.0):
    """[normalised @ matrix.T for each matrix] of normalised = rms_norm(x, weight, eps, weight_offset), which is not kept for the backward pass.

    x: (..., k); matrices: (n, k) each, n may differ; of one float dtype and device. weight: (k,), of any float dtype, or None. The gradient of `normalised` is added up over the matrices by
    the products themselves. Under autocast and for DTensors the steps are PyTorch's operators and `rms_norm`, and keep what those keep. Gradients have no gradients.

    Raises TypeError for other dtypes, ValueError for shapes, devices or numbers of matrices that do not fit.
    """
    matrices = list(matrices)
    if not _plain(x, weight, *matrices):
        normalised = rms_norm(x, weight, eps, weight_offset)
        return [F.linear(normalised, matrix) for matrix in matrices]
    _check(x, matrices, x.shape[-1] if x.dim() else 0)
    return list(_NormLinear.apply(eps, weight_offset, x, None, weight, *matrices))


def add_rms_norm_linear(x, residual, weight, matrices, eps=1e-6, weight_offset=0.0):
    """(products, total): `rms_norm_linear` of total = x + residual, rounded to x's dtype; total is returned, too. residual: of x's shape and dtype."""
    matrices = list(matrices)
    if not _plain(x, residual, weight, *matrices):
        normalised, total = add_rms_norm(x, residual, weight, eps, weight_offset)
        return [F.linear(normalised, matrix) for matrix in matrices], total
    _check(x, matrices, x.shape[-1] if x.dim() else 0)
    *products, total = _NormLinear.apply(eps, weight_offset, x, residual, weight, *matrices)
    return products, total


class _GatedLinear(torch.autograd.Function):

    @staticmethod
    def forward(ctx, gate, up, matrix):
        ctx.save_for_backward(gate, up, matrix)
        return F.linear(swiglu(gate, up), matrix)

    @staticmethod
    def backward(ctx, grad):
        gate, up, matrix = ctx.saved_tensors
        rows = _rows(grad)
        of_gate, of_up, hidden = swiglu_again_backward(torch.mm(rows, matrix).view(gate.shape), gate, up)
        of_matrix = torch.mm(rows.t(), _rows(hidden)) if ctx.needs_input_grad[2] else None
        return of_gate, of_up, of_matrix


def swiglu_linear(gate, up, matrix):
    """swiglu(gate, up) @ matrix.T; the activation is not kept for the backward pass.

    gate, up: (..., k), of one shape; matrix: (n, k); of one float dtype and device. Everything else as for `rms_norm_linear`.
    """
    if not _plain(gate, up, matrix):
        return F.linear(swiglu(gate, up), matrix)
    _check(gate, [matrix], gate.shape[-1] if gate.dim() else 0, "gate")
    return _GatedLinear.apply(gate, up, matrix)
