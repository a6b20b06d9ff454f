"""The inputs of `compile`: a function with types for its parameters, or a file of intermediate code."""

import pathlib

from .. import _native
from .._jit import JITFunction
from ..backends.compiler import Language
from ._ast_source import ASTSource

__all__ = ["ASTSource", "IRSource", "TileFunction"]


class TileFunction(JITFunction):
    """A kernel whose text is tile IR (`triton.compile("name.ttir")`)."""

    _is_tile = True

    def _with_python(self):
        return self

    def __reduce__(self):
        return _tile_function, (self._text, self._file)


class IRSource:
    """A file that holds a stage of a compilation: tile IR, as `asm["tile"]` gives it ("name.ttir", "name.tile").

    Its first kernel is `fn`, a function whose parameters have the types of the IR.
    """

    def __init__(self, path, context=None, backend=None):
        self.path = pathlib.Path(path)
        self.ext = self.path.suffix[1:]
        self.language = Language.TRITON
        if self.ext not in ("ttir", "tile", "mlir"):
            raise ValueError(f"a compilation can start from tile IR (`.ttir`, `.tile`), found `{self.path.name}`")
        self.src = self.path.read_text()
        self.fn = _tile_function(self.src, str(self.path))
        self.name = self.fn.__name__
        self.signature = {param.name: param.annotation_type for param in self.fn.params}
        self.constants, self.attrs = {}, {}

    def hash(self):
        import hashlib
        return hashlib.sha256(self.src.encode()).hexdigest()

    def parse_options(self):
        return {}

    def make_ir(self, target, options, codegen_fns, module_map, context):
        return self.src

    def _items(self):
        return tuple(self.signature.values())

    def _kernel_name(self):
        return None


def _tile_function(text, file):
    """The first kernel of a text of tile IR as a `JITFunction`; the Python function under it is a mere declaration."""
    import linecache
    name, params = _native.tile_kernels(text, file)[0]
    lines = [f"def {name}({', '.join(f'{param}: {kind!r}' for param, kind in params)}):\n", f"    'a kernel of {file}'\n"]
    known_as = f"<declarations of {file}>"
    linecache.cache[known_as] = len("".join(lines)), None, lines, known_as
    scope = {"__name__": __name__}
    exec(compile("".join(lines), known_as, "exec"), scope)
    function = TileFunction(scope[name])
    function._text, function._file = text, file
    return function
