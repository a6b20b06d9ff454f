"""The ways a test brings data into a kernel and out of it: rank, mask and strides.

An `Access` turns "an expression on blocks x0, x1..." into a kernel of that rank, and data into tensors laid out as the class
says. The expression's result has the operands' shape.
"""

import dataclasses

import numpy as np
import torch

import harness
import nereid
import nereid.language as tl


@dataclasses.dataclass(frozen=True)
class Access:
    name: str
    shape: tuple       #: of the data
    block: tuple       #: of the block, at least as large; () for scalars
    layout: str = "c"  #: "c" contiguous, "strided", "negative", "transposed", "offset"

    def __str__(self):
        return self.name

    def place(self, data, dtype):
        """A tensor with this layout holding `data`, and its strides in elements."""
        if self.layout == "negative":  # `run` turns it round
            return harness.to_tensor(np.flip(data, -1), dtype)
        tensor = harness.to_tensor(data, dtype)
        if self.layout == "strided":
            wide = harness.empty(dtype, (*self.shape[:-1], self.shape[-1] * 3))
            wide[..., ::3] = tensor
            return wide[..., ::3]
        if self.layout == "transposed":
            return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        if self.layout == "offset":  # not aligned to anything but the element
            store = harness.empty(dtype, (tensor.numel() + 1,))
            store[1:] = tensor.reshape(-1)
            return store[1:].reshape(self.shape)
        return tensor

    def kernel(self, expression, inputs, outputs=1, prologue=""):
        """Text of a kernel that loads `inputs` blocks and stores `expression` (a tuple for several outputs)."""
        rank = len(self.block)
        names = [f"x{i}" for i in range(inputs)]
        outs = [f"y{i}" for i in range(outputs)]
        parameters = [f"{n}_ptr" for n in names + outs]
        sizes = [f"n{d}" for d in range(max(rank, 1))]
        strides = [f"{n}_s{d}" for n in names for d in range(max(rank, 1))]
        out_strides = [f"o{d}" for d in range(max(rank, 1))]
        lines = [prologue, "@triton.jit", f"def kernel({', '.join(parameters + sizes + strides + out_strides)}):"]
        if rank == 0:
            lines += ["    i = tl.program_id(0)"]
            lines += [f"    {n} = tl.load({n}_ptr + i * {n}_s0)" for n in names]
            lines += [f"    r = {expression}"]
            results = ["r"] if outputs == 1 else [f"r[{i}]" for i in range(outputs)]
            lines += [f"    tl.store({o}_ptr + i * o0, {r})" for o, r in zip(outs, results)]
            return "\n".join(lines) + "\n"
        index = {1: ["[:]"], 2: ["[:, None]", "[None, :]"], 3: ["[:, None, None]", "[None, :, None]", "[None, None, :]"]}[rank]
        for d in range(rank):
            lines += [f"    i{d} = tl.arange(0, {self.block[d]}){index[d] if rank > 1 else ''}"]
        masked = self.block != self.shape
        mask = " & ".join(f"(i{d} < n{d})" for d in range(rank))
        if masked:
            lines += [f"    mask = {mask}"]
        tail = ", mask=mask" if masked else ""
        for n in names:
            offset = " + ".join(f"i{d} * {n}_s{d}" for d in range(rank))
            lines += [f"    {n} = tl.load({n}_ptr + ({offset}){tail})"]
        lines += [f"    r = {expression}"]
        results = ["r"] if outputs == 1 else [f"r[{i}]" for i in range(outputs)]
        offset = " + ".join(f"i{d} * o{d}" for d in range(rank))
        lines += [f"    tl.store({o}_ptr + ({offset}), {r}{tail})" for o, r in zip(outs, results)]
        return "\n".join(lines) + "\n"

    def run(self, expression, data, in_dtypes, out_dtypes, prologue=""):
        """Runs the expression on arrays of this shape; the outputs as tensors."""
        source = self.kernel(expression, len(data), len(out_dtypes), prologue)
        kernel = harness.make(source)
        tensors = [self.place(d, t) for d, t in zip(data, in_dtypes)]
        outputs = [harness.empty(t, self.shape) for t in out_dtypes]
        arguments, strides = [], []
        for tensor, dtype in zip(tensors, in_dtypes):
            if self.layout == "negative":
                arguments.append(backwards(tensor, dtype))
                strides.append(-1)
            else:
                arguments.append(tensor)
                strides += tensor.stride()
        kernel[(self.shape[0] if not self.block else 1,)](*arguments, *outputs, *self.shape, *strides, *outputs[0].stride())
        return outputs


def backwards(tensor, dtype):
    """A vector from its last element to its first. Torch has no negative strides, NumPy has."""
    if dtype.kind == "fp8" or dtype.name == "bfloat16":
        return nereid.reinterpret(tensor.view(torch.uint8 if dtype.bits == 8 else torch.int16).numpy()[::-1], getattr(tl, dtype.name))
    return tensor.numpy()[::-1]


SCALAR = Access("scalar", (5,), ())
RANK1 = [Access("1d", (128,), (128,)), Access("1d-masked", (101,), (128,)), Access("1d-strided", (100,), (128,), "strided"),
         Access("1d-negative", (77,), (128,), "negative"), Access("1d-offset", (97,), (128,), "offset")]
RANK2 = [Access("2d", (16, 32), (16, 32)), Access("2d-masked", (13, 27), (16, 32)),
         Access("2d-transposed", (13, 27), (16, 32), "transposed"), Access("2d-strided", (3, 11), (4, 16), "strided")]
RANK3 = [Access("3d-masked", (3, 5, 7), (4, 8, 8))]
EVERY = [SCALAR, *RANK1, *RANK2, *RANK3]
FEW = [SCALAR, RANK1[1], RANK2[2]]
