"""What host code needs beside kernels."""

from .. import _later

__getattr__, __dir__ = _later.names(globals(), modules=("build_extern", "compile", "disasm", "link", "mxfp", "ragged_tma", "tensor_descriptor"))
