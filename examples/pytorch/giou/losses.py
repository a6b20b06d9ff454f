"""The loss of boxes, 1 - GIoU, four times: in PyTorch, compiled, with a kernel, with the kernel compiled.

The kernel is `giou_kernel` of examples/kernels/seed.py as it was written; nothing in it knows of gradients. They come from `nereid.grad`, which
differentiates it (docs/differentiation.md).
"""

import pathlib
import sys

import nereid
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "kernels"))
from seed import giou_kernel  # noqa: E402

BLOCK = 256  # boxes of a program; the kernel masks nothing, so the number of boxes is padded to a multiple
_gradient = nereid.grad(giou_kernel, wrt=("preds_ptr", ), out=("output_ptr", ))


def giou_in_pytorch(predicted, wanted):
    """predicted, wanted: (N, 4) boxes as left, top, right, bottom, of any floating-point dtypes. Returns GIoU of each pair, 0 where the wanted box
    is none (its bottom is 0), and which pairs have one."""
    epsilon = 1e-5
    left, top, right, bottom = predicted.unbind(-1)
    wanted_left, wanted_top, wanted_right, wanted_bottom = wanted.unbind(-1)
    inter = (torch.minimum(right, wanted_right) - torch.maximum(left, wanted_left)) * (torch.minimum(bottom, wanted_bottom) - torch.maximum(top, wanted_top))
    union = (right - left) * (bottom - top) + (wanted_right - wanted_left) * (wanted_bottom - wanted_top) - inter
    hull = (torch.maximum(right, wanted_right) - torch.minimum(left, wanted_left)) * (torch.maximum(bottom, wanted_bottom) - torch.minimum(top, wanted_top))
    giou = inter / union.clamp(min=epsilon) - (hull - union) / hull.clamp(min=epsilon)
    valid = wanted_bottom > 0
    return torch.where(valid, giou, 0), valid


@torch.library.custom_op("giou_example::gradient", mutates_args=())
def _gradient_of_boxes(predicted: torch.Tensor, wanted: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient of the predicted boxes: an operator of its own, because PyTorch's compiler does not look into kernels that are made by differentiation."""
    result = torch.empty_like(predicted)
    values, valid = torch.empty_like(gradient), torch.empty(gradient.shape, dtype=torch.bool, device=gradient.device)
    _gradient.backward[(len(predicted) // BLOCK, )](predicted, wanted, values, valid, doutput_ptr=gradient.contiguous(), dpreds_ptr=result, BLOCK_SIZE=BLOCK)
    return result


@_gradient_of_boxes.register_fake
def _(predicted, wanted, gradient):
    return torch.empty_like(predicted)


class _Giou(torch.autograd.Function):

    @staticmethod
    def forward(context, predicted, wanted):
        context.save_for_backward(predicted, wanted)
        values = torch.empty(len(predicted), dtype=torch.float32, device=predicted.device)
        valid = torch.empty(len(predicted), dtype=torch.bool, device=predicted.device)
        giou_kernel[(len(predicted) // BLOCK, )](predicted, wanted, values, valid, BLOCK_SIZE=BLOCK)
        context.mark_non_differentiable(valid)
        return values, valid

    @staticmethod
    def backward(context, gradient, _):
        return _gradient_of_boxes(*context.saved_tensors, gradient), None


def giou_by_kernel(predicted, wanted):
    """As `giou_in_pytorch`, for contiguous tensors: one launch, and one for the gradient."""
    count = len(predicted)
    missing = -count % BLOCK
    if missing:  # boxes of zeros are none
        predicted, wanted = (torch.nn.functional.pad(boxes, (0, 0, 0, missing)) for boxes in (predicted, wanted))
    values, valid = _Giou.apply(predicted, wanted)
    return values[:count], valid[:count]


def _loss(giou):

    def loss(predicted, wanted):
        values, valid = giou(predicted, wanted)
        return ((1 - values) * valid).sum() / valid.sum().clamp(min=1)

    return loss


in_pytorch = _loss(giou_in_pytorch)
by_kernel = _loss(giou_by_kernel)

#: Name of a variant → its loss: a function of (N, 4) predicted and wanted boxes that returns a number.
LOSSES = {
    "PyTorch": in_pytorch,
    "PyTorch, compiled": torch.compile(in_pytorch),
    "kernel": by_kernel,
    "kernel, compiled": torch.compile(by_kernel, fullgraph=True),
}
