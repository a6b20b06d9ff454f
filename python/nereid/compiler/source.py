"""What `compile` compiles: a function with types for its parameters, or a file of intermediate code."""

import pathlib

from .. import _native
from .._utils import tuple_of
from ..backends.compiler import Language


class ASTSource:
    """A function with the types of its arguments.

    signature: the type of each parameter by name ("*fp32", "i32", "constexpr", a tuple of types). constexprs: values by name, or by
    path: `(2,)` is the third parameter, `(2, 0)` the first item of the tuple there. attrs: facts by path,
    `{(0,): [["tt.divisibility", 16]]}`.
    """

    def __init__(self, fn, signature, constexprs=None, attrs=None):
        self.fn = fn
        self.language = Language.TRITON
        self.ext = "ttir"
        self.name = fn.__name__
        self.signature = signature
        self.constants = {}
        for key, value in (constexprs or {}).items():
            if isinstance(key, str):
                if key not in fn.arg_names:
                    raise ValueError(f"`{key}` is no parameter of `{fn.__name__}`")
                key = fn.arg_names.index(key)
            self.constants[(key, ) if isinstance(key, int) else tuple(key)] = value
        self.attrs = attrs or {}
        if isinstance(signature, str):
            self.signature = dict(enumerate(part.strip() for part in signature.split(",")))
        for key in self.signature:
            if not isinstance(key, (str, int)):
                raise TypeError(f"Signature keys must be string, found {key!r}")

    def hash(self):
        """Identifies the function's text, the types, facts and constants."""
        import hashlib
        constants = sorted((path, getattr(value, "cache_key", value)) for path, value in self.constants.items())
        text = "-".join([self.fn.cache_key, str(self.attrs), str(sorted(self.signature.items(), key=str)), str(constants)])
        return hashlib.sha256(text.encode()).hexdigest()

    def parse_options(self):
        return {}

    def make_ir(self, target, options, codegen_fns, module_map, context):
        """The first stage of the compilation: its text, and which arguments are written."""
        from .compiler import compile
        from .effects import effects_module
        return effects_module(compile(self, target, dict(vars(options)) if options is not None else None))

    def _type_of(self, index, name):
        if name in self.signature:
            return self.signature[name]
        return self.signature.get(index)

    def _item(self, kind, path, param):
        """The argument at a path as `KernelBase._compile` takes it."""
        if path in self.constants:
            return [self.constants[path]]
        if isinstance(kind, tuple):
            items = [self._item(part, (*path, i), param) for i, part in enumerate(kind)]
            return tuple_of(type(kind), items)
        if kind is None or kind == "constexpr":
            if len(path) == 1 and param.has_default:
                return [param.default]
            raise ValueError(f"`{param.name}` of `{self.name}` needs a value in `constexprs`, or a type in the signature")
        divisible = any(tuple(attr) == ("tt.divisibility", 16) for attr in self.attrs.get(path, ()))
        return kind + (":16" if divisible else "")

    def _kernel_name(self):
        """The name that the function's `repr` chooses, None without one."""
        if getattr(self.fn, "_repr", None) is None:
            return None
        from ..runtime.jit import Specialization
        names = self.fn.arg_names
        return self.fn.repr(Specialization(self.signature, {names[path[0]]: value for path, value in self.constants.items()
                                                            if len(path) == 1}))

    def _items(self):
        return tuple(self._item(self._type_of(param.num, param.name), (param.num, ), param) for param in self.fn.params)


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

    from ..runtime.jit import TileFunction
    name, params = _native.tile_kernels(text, file)[0]
    lines = [f"def {name}({', '.join(f'{param}: {kind!r}' for param, kind in params)}):\n", f"    'a kernel of {file}'\n"]
    known_as = f"<declarations of {file}>"
    linecache.cache[known_as] = len("".join(lines)), None, lines, known_as
    scope = {"__name__": __name__}
    exec(compile("".join(lines), known_as, "exec"), scope)
    function = TileFunction(scope[name])
    function._text, function._file = text, file
    return function
