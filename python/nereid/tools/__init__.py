"""Tools for host code."""

from .. import _names_later

__getattr__, __dir__ = _names_later(globals(), modules=("build_extern", "compile", "disasm", "link", "mxfp", "ragged_tma", "tensor_descriptor"))
