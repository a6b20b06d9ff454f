"""Fused operators of `nereid.ops` in models of the library `transformers`.

    patched = nereid.models.patch(model)      # attention, experts, norms, feed-forward blocks, rotary positions, losses
    print(patched)                            # what was replaced, what was left, and why
    patched.undo()

docs/models.md. The package needs PyTorch and transformers; `import nereid` imports neither.
"""

from ._interfaces import NAME, register
from ._patch import PARTS, Patched, patch, patches

__all__ = ["NAME", "PARTS", "Patched", "patch", "patches", "register"]
