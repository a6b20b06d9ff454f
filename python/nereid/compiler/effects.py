"""The arguments that a kernel may write, for clients that inspect its IR."""

import re


def effects_module(kernel):
    """The kernel as PyTorch's analysis walks it (`_C.libtriton.ir.module`)."""
    from .._C.libtriton import ir
    effects = []
    for param in kernel._values["params"]:
        if param["constant"]:
            continue
        kind = param["signature"]
        descriptor = re.match(r"tensordesc<\w+\[([\d, ]*)\]", kind)
        if descriptor:
            effects += ["rw" if param["written"] else "r", *[""] * (2 * (descriptor.group(1).count(",") + 1))]
        else:
            effects.append("" if not kind.startswith("*") else "rw" if param["written"] else "r")
    return ir.module(kernel.name, kernel.asm["tile"], effects)
