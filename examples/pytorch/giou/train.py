"""A training step of a small detector whose loss of boxes is computed in four ways (losses.py): which is fastest, and how exact are they?

    python examples/pytorch/giou/train.py                             on a GPU, if there is one
    python examples/pytorch/giou/train.py --device cpu --size tiny    some seconds

prints a table of times and errors. `--trace FILE` writes one step of each variant for Chrome's or Perfetto's viewer, with the ranges forward, loss, loss
backward, backward and optimizer. The exit status is 1 where a loss or its gradient is wrong or training does not lower the loss.
"""

import argparse
import collections
import contextlib
import sys
import time

import nereid.torch

nereid.torch.use(cpu=True)

import torch  # noqa: E402
from losses import LOSSES, in_pytorch  # noqa: E402
from torch import nn  # noqa: E402

#: Name → images of a batch, pixels of a side, channels of the first layer, steps that are timed.
SIZES = {"tiny": (2, 32, 8, 3), "small": (8, 128, 16, 20), "full": (16, 640, 32, 50)}
#: Name → (dtype of autocast or None, whether predicted boxes are converted to fp32 before the loss, largest error of loss and of gradient).
PRECISIONS = {"fp32": (None, False, 1e-5, 1e-4), "bf16, boxes converted": (torch.bfloat16, True, 1e-5, 2e-2),
              "bf16, boxes as they are": (torch.bfloat16, False, 5e-2, 2e-1)}  # yapf: disable
STRIDE = 4


class Detector(nn.Module):
    """Convolutions down to a grid of cells, each of which predicts a box around its centre and whether there is an object."""

    def __init__(self, channels, pixels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, channels, 3, 2, 1), nn.SiLU(), nn.Conv2d(channels, 2 * channels, 3, 2, 1), nn.SiLU(),
                                  nn.Conv2d(2 * channels, 2 * channels, 3, 1, 1), nn.SiLU())
        self.head = nn.Conv2d(2 * channels, 5, 1)
        cells = pixels // STRIDE
        centres = (torch.arange(cells) + 0.5) / cells
        self.register_buffer("centres", torch.stack((centres.expand(cells, cells), centres[:, None].expand(cells, cells)), -1).reshape(-1, 2))

    def forward(self, images):
        """(B, 3, pixels, pixels) images. Returns (B * cells², 4) boxes, in shares of the image, and as many logits."""
        out = self.head(self.body(images)).permute(0, 2, 3, 1).flatten(1, 2)
        reach, logits = nn.functional.softplus(out[..., :4]).to(out.dtype) * 0.25, out[..., 4]
        centres = self.centres.to(out.dtype)
        boxes = torch.cat((centres - reach[..., :2], centres + reach[..., 2:]), -1)
        return boxes.reshape(-1, 4), logits.flatten()


def batch_of(images, pixels, device):
    """Noise with bright rectangles. Returns the images and, for each cell, the box whose centre lies in it, or zeros."""
    cells, objects = pixels // STRIDE, 6
    x = 0.1 * torch.rand(images, 3, pixels, pixels)
    wanted = torch.zeros(images, cells, cells, 4)
    for image in range(images):
        for left, top, width, height in (torch.rand(objects, 4) * torch.tensor([0.6, 0.6, 0.3, 0.3]) + torch.tensor([0.0, 0.0, 0.1, 0.1])).tolist():
            x[image, :, int(top * pixels):int((top + height) * pixels), int(left * pixels):int((left + width) * pixels)] += 0.5
            cell = [int((start + length / 2) * cells) for start, length in ((top, height), (left, width))]
            wanted[image, cell[0], cell[1]] = torch.tensor([left, top, left + width, top + height])
    return x.to(device), wanted.reshape(-1, 4).to(device)


class Ranges:
    """Named parts of a step: for profilers, and their times in milliseconds."""

    def __init__(self, device):
        self.on_gpu, self.times, self.events = device.type == "cuda", collections.defaultdict(list), []

    @contextlib.contextmanager
    def __call__(self, name):
        with torch.profiler.record_function(name):
            if self.on_gpu:
                events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                events[0].record()
                yield
                events[1].record()
                self.events.append((name, *events))
            else:
                start = time.perf_counter()
                yield
                self.times[name].append((time.perf_counter() - start) * 1e3)

    def fastest(self):
        if self.on_gpu:
            torch.cuda.synchronize()
            for name, start, end in self.events:
                self.times[name].append(start.elapsed_time(end))
            self.events.clear()
        return {name: min(times) for name, times in self.times.items()}


def step(model, optimizer, loss, images, wanted, precision, ranges):
    """One step of training. Returns its loss of boxes and the boxes with their gradient."""
    dtype, convert, *_ = PRECISIONS[precision]
    with ranges("step"):
        with ranges("forward"), torch.autocast(images.device.type, dtype or torch.bfloat16, enabled=dtype is not None):
            boxes, logits = model(images)
            objects = nn.functional.binary_cross_entropy_with_logits(logits, (wanted[:, 3] > 0).to(logits.dtype))
        leaf = boxes.detach().contiguous().requires_grad_()
        with ranges("loss"):
            value = loss(leaf.float() if convert else leaf, wanted)
        with ranges("loss backward"):
            value.backward()
        with ranges("backward"):
            torch.autograd.backward((boxes, objects), (leaf.grad, torch.ones_like(objects)))
        with ranges("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    return value.detach(), leaf


def errors(value, leaf, wanted):
    """Of the loss, relative, and of its gradient, relative to the largest element, against PyTorch in fp64 on the same boxes."""
    exact = leaf.detach().double().requires_grad_()
    expected = in_pytorch(exact, wanted.double())
    expected.backward()
    return abs(value.item() - expected.item()) / expected.item(), ((leaf.grad - exact.grad).abs().max() / exact.grad.abs().max()).item()


def run(name, precision, size, device, trace):
    """Trains with one variant. Returns the row of the table and whether results are right."""
    images, pixels, channels, steps = SIZES[size]
    torch.manual_seed(0)
    model = Detector(channels, pixels).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    x, wanted = batch_of(images, pixels, device)
    losses = []
    for _ in range(3):  # compiles
        value, leaf = step(model, optimizer, LOSSES[name], x, wanted, precision, Ranges(device))
        losses.append(value)
    of_loss, of_gradient = errors(value, leaf, wanted)
    ranges = Ranges(device)
    for _ in range(steps):
        losses.append(step(model, optimizer, LOSSES[name], x, wanted, precision, ranges)[0])
    times = ranges.fastest()
    if trace is not None:
        with torch.profiler.profile() as profile:
            step(model, optimizer, LOSSES[name], x, wanted, precision, Ranges(device))
        profile.export_chrome_trace(f"{trace}.{name.replace(', ', '-')}.{precision.split(',')[0]}.json")
    *_, loss_bound, gradient_bound = PRECISIONS[precision]
    right = of_loss < loss_bound and of_gradient < gradient_bound and losses[-1] < losses[0]
    row = f"| {name} | {precision} | {times['loss']:.3f} | {times['loss backward']:.3f} | {times['step']:.2f} | {losses[0]:.4f} | {losses[-1]:.4f} | {of_loss:.0e} | {of_gradient:.0e} |"
    return row, right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", choices=SIZES, default="full" if torch.cuda.is_available() else "small")
    parser.add_argument("--trace", metavar="FILE", help="first part of the names of traces")
    options = parser.parse_args()
    device = torch.device(options.device)
    images, pixels, _, steps = SIZES[options.size]
    print(f"{torch.cuda.get_device_name(device) if device.type == 'cuda' else f'CPU, {torch.get_num_threads()} threads'}, PyTorch {torch.__version__}: "
          f"{images} images of {pixels}x{pixels}, {images * (pixels // STRIDE)**2} boxes, fastest of {steps} steps\n")
    print("| loss of boxes | precision | loss, ms | its gradient, ms | step, ms | first loss | last loss | error of loss | of gradient |")
    print("|---|---|---|---|---|---|---|---|---|")
    wrong = []
    for precision in PRECISIONS:
        for name in LOSSES:
            row, right = run(name, precision, options.size, device, options.trace)
            print(row, flush=True)
            if not right:
                wrong.append(f"{name} ({precision})")
    if wrong:
        print(f"\nwrong: {', '.join(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
