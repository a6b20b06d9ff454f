"""PyTorch's operators, computed by kernels in the language.

    import nereid.ops
    nereid.ops.enable()                       # ATen's kernels on CPUs and GPUs are replaced; disable() restores them
    with nereid.ops.use(only=["silu"]): ...
    print(nereid.ops.report())                # what ran where, how often, and why

`pointwise` makes an operator from a scalar function: docs/ops.md. The package needs PyTorch; `import nereid` does not import it.
"""

from ._declare import OPERATORS, Native, Operator, declare
from ._register import disable, enable, native, report, tune, use
from .pointwise import pointwise
from .reduction import reduction
from .scan import scan
from . import aten as _aten  # noqa: F401  declares the operators

__all__ = ["OPERATORS", "Native", "Operator", "declare", "disable", "enable", "native", "pointwise", "reduction", "report", "scan", "tune", "use"]
