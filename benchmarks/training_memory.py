"""Counts the bytes of a training step of examples/train/aquila on one device, without a device: tensors are PyTorch's meta tensors, so every size runs in seconds anywhere.

    python benchmarks/training_memory.py --size 1.3B --batch 4
    python benchmarks/training_memory.py --size 1.3B --batch 4 --measure        on a GPU: three steps as well, and the most memory that they took

For --operators (aten and fused; the operators of "nereid" allocate what those of "fused" do) and --recompute: parameters and the optimizer's state; what autograd keeps of the forward pass,
by operator that made it; the most bytes at once in the forward and the backward pass, and where. Storages are counted as they are made and freed. What an operator allocates for itself alone is counted
where it is large: in the backward pass of `linear_cross_entropy`. Allocators round and cut blocks; that is not counted.
"""

import argparse
import collections
import pathlib
import sys
import unittest.mock
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 2**30


def loss_workspace(arguments):
    """Bytes that `linear_cross_entropy_backward` allocates besides its results."""
    from nereid.ops.fused.losses import gradient_parts
    _, _, x, weight, _, _, _, _, needed, *_ = arguments
    rows, classes = gradient_parts(x.shape[0], weight.shape[0], needed, x.element_size())
    sums = 4 * (x.numel() * (classes < weight.shape[0]) + weight.numel() * (rows < x.shape[0]))
    return rows * classes * x.element_size() + sums


INTERNAL = {"nereid::linear_cross_entropy_backward": loss_workspace}


class Counter(TorchDispatchMode):
    """Counts the storages that operators make. live: bytes now; most: the most of them so far; place: the operator then; made: {operator: bytes that live now}."""

    def __init__(self):
        super().__init__()
        self.live = self.most = 0
        self.place, self.made, self.known = "", collections.Counter(), set()

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        name = function._schema.name
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor, name)
        internal = INTERNAL.get(name)
        extra = internal(arguments) if internal else 0
        if self.live + extra > self.most:
            self.most, self.place = self.live + extra, name
        return result

    def add(self, tensor, name):
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.known or not size:
            return
        self.known.add(key)
        self.live += size
        self.made[name] += size
        weakref.finalize(storage, self.free, key, size, name)

    def free(self, key, size, name):
        self.known.discard(key)
        self.live -= size
        self.made[name] -= size

    def restart(self):
        self.most, self.place = self.live, ""


def on_meta(aquila):
    """PyTorch's operators as they run on a GPU: its attention and RMSNorm have other kernels there than on the meta device."""

    class Norm(torch.autograd.Function):
        """What PyTorch's kernel for RMSNorm allocates and keeps: the sums of rows in fp32 and its input."""

        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight, torch.empty(x.shape[:-1], dtype=torch.float32, device=x.device))
            return torch.empty_like(x)

        @staticmethod
        def backward(ctx, grad):
            x, weight, _ = ctx.saved_tensors
            return torch.empty_like(x), torch.empty_like(weight)

    class Aten(aquila.Aten):

        @staticmethod
        def norm(x, weight):
            return Norm.apply(x, weight.to(x.dtype))

        @staticmethod
        def attend(q, k, v):
            return torch.ops.aten._scaled_dot_product_flash_attention(*(x.transpose(1, 2) for x in (q, k, v)), 0.0, True)[0].transpose(1, 2)

    return Aten


def count(aquila, size, operators, recompute, batch, sequence):
    """{what: bytes} of a step, "kept" as {operator: bytes} and "place": the operator at the peak."""
    with torch.device("meta"), unittest.mock.patch.dict(aquila.OPERATORS, aten=on_meta(aquila)):
        decoder = aquila.Decoder(size, operators, torch.bfloat16, recompute)
        decoder.cos = decoder.sin = torch.empty(sequence, size.head // 2)
        tokens = torch.empty(batch, sequence, dtype=torch.int64)
    parameters = sum(parameter.numel() for parameter in decoder.parameters())
    with Counter() as counter:
        counter.known.update(tensor.untyped_storage()._cdata for tensor in (tokens, decoder.cos, decoder.sin, *decoder.parameters()))
        loss = decoder(tokens, tokens)
        forward, kept, live = counter.most, +counter.made, counter.live
        counter.restart()
        loss.backward()
        found = {"parameters": 4 * parameters, "optimizer": 8 * parameters, "kept": kept, "kept of all": live, "forward": forward, "backward": counter.most, "place": counter.place,
                 "gradients": 4 * parameters}  # yapf: disable
    # The optimizer's step allocates nothing of size: it begins with all gradients, and nothing that the forward pass kept.
    found["most"] = found["parameters"] + found["optimizer"] + max(forward, found["backward"], found["gradients"])
    return found


def measure(options, operators, recompute):
    """The most bytes that three steps take on the GPU, by PyTorch's allocator."""
    import tempfile

    import parallel
    import train
    with tempfile.TemporaryDirectory() as folder:
        given = train.arguments(["--size", options.size, "--operators", "nereid" if operators == "fused" else operators, "--batch", str(options.batch), "--steps", "3", "--save-every", "0", "--out", folder]
                                + (["--recompute", recompute] if recompute else []) + (["--sequence", str(options.sequence)] if options.sequence else []))
        torch.cuda.reset_peak_memory_stats()
        world, trainer = train.begin(given)
        trainer.run()
        found = torch.cuda.max_memory_allocated()
    del trainer, world, parallel
    torch.cuda.empty_cache()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sys.path.insert(0, str(ROOT / "examples" / "train" / "aquila"))
    import model as aquila
    parser.add_argument("--size", default="1.3B", choices=aquila.SIZES)
    parser.add_argument("--batch", type=int, default=4, help="sequences at once")
    parser.add_argument("--sequence", type=int, default=0, help="tokens of a sequence (default: the size's)")
    parser.add_argument("--operators", default="aten,fused", help="with commas: aten, fused")
    parser.add_argument("--recompute", default="none,cheap", help="with commas: none, cheap, all")
    parser.add_argument("--measure", action="store_true", help="run three steps on the GPU as well")
    options = parser.parse_args()
    for name, allowed in (("operators", ("aten", "fused")), ("recompute", ("none", "cheap", "all"))):
        for value in getattr(options, name).split(","):
            if value not in allowed:
                parser.error(f"--{name} {value}: expected some of {', '.join(allowed)}")
    for name, least in (("batch", 1), ("sequence", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: expected {least} or more")
    size = aquila.SIZES[options.size]
    sequence = options.sequence or size.sequence
    print(f"{options.size}, {options.batch} sequences of {sequence} tokens, GiB")
    print("| operators | parameters | optimizer | gradients | kept of the forward pass | most in the forward pass | in the backward pass | at | most in all | to the first |" + (" measured | to the first |" if options.measure else ""))
    print("|---" * (12 if options.measure else 10) + "|")
    first, details = None, []
    for operators in options.operators.split(","):
        for recompute in options.recompute.split(","):
            recompute = None if recompute == "none" else recompute
            found = count(aquila, size, operators, recompute, options.batch, sequence)
            label = operators + (f", {recompute}" if recompute else "")
            numbers = [found["most"]] + ([measure(options, operators, recompute)] if options.measure else [])
            first = first or numbers
            cells = [f"{found[name] / GIB:.2f}" for name in ("parameters", "optimizer", "gradients", "kept of all", "forward", "backward")] + [found["place"].split("::")[1]]
            cells += [cell for mine, base in zip(numbers, first) for cell in (f"{mine / GIB:.2f}", f"{mine / base:.3f}")]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)
            details.append((label, found["kept"]))
    tokens = options.batch * sequence * size.layers * size.width
    print("\nKept of the forward pass, by the operator that made it: GiB, and bytes by token, layer and element of the width")
    for label, kept in details:
        print(f"{label}: " + ", ".join(f"{name.split('::')[1]} {size / GIB:.2f} ({size / tokens:.1f})" for name, size in kept.most_common() if size > 0.005 * GIB))


if __name__ == "__main__":
    main()
