"""Functions as sources of compilations, and compiling them. The `__module__` of `ASTSource` is `source`, as of our other source."""

from .. import _loaded
from .._utils import tuple_of
from ..backends.compiler import Language


def settled(target, options):
    """The target (that of the current device for None), its backend, and the keywords that it knows, with the target where one was chosen.

    TypeError: the target is no `GPUTarget`. Wrong values of options are refused by the backend.
    """
    import dataclasses

    from ..backends._table import make_backend
    from ..backends.compiler import GPUTarget, target_text
    chosen = target is not None
    if not chosen:
        from ..runtime.driver import driver
        target = driver.active.get_current_target()
    if not isinstance(target, GPUTarget):
        raise TypeError(f"target must be of GPUTarget type, found {type(target).__name__}")
    backend = make_backend(target)
    known = {field.name for field in dataclasses.fields(backend.parse_options({}))}
    given = {name: value for name, value in (options or {}).items() if name in known and value is not None}
    backend.parse_options(given)  # refuses wrong values
    if target.backend == "cuda" and "arch" in given:
        target, chosen = GPUTarget("cuda", backend.parse_arch(given["arch"]), 32), True
    if chosen:
        given["target"] = target_text(target)
        if target.backend == "cpu" and target.arch != "native":
            given["features"] = target.arch
    for name in ("arch", "backend_name", "warp_size"):  # what the target says
        given.pop(name, None)
    return target, backend, given


def compile_function(src, target, options, launched=False):
    """`compile` of an `ASTSource`. launched: for launches of the function itself, which find the kernel by the options that they have; else for launchers that take its cubin."""
    import contextlib
    import hashlib

    from ..runtime.cache import get_cache_key
    from .. import knobs
    target, backend, given = settled(target, options)
    if target.backend == "cuda" and not launched:
        given.setdefault("clusters", False)  # the launchers start as many blocks as `num_ctas` says
        if knobs.nereid.tensor_copies == "always":
            given.setdefault("pointer_copies", False)  # the launchers make no tensor maps
    rules = given.get("triton_version") or src.fn._release() or knobs.nereid.triton_version
    if rules:  # part of the key
        given["triton_version"] = rules
    kernel = src.fn._compile(src._items(), given, src._kernel_name())
    key = get_cache_key(src, backend, backend.parse_options(given), {})
    kernel.__dict__.update(src=src, hash=hashlib.sha256(key.encode()).hexdigest())
    kernel.__dict__.pop("metadata", None)  # it names the hash
    kernel._options  # kept for copies
    if target.backend == "cuda" and not launched:
        with contextlib.suppress(RuntimeError, OSError):
            kernel._export()
    if "knobs" in _loaded:
        _loaded["knobs"]._tell_listener(kernel)
    return kernel


class ASTSource:
    """A function with the types of its arguments.

    signature: the type of each parameter by name ("*fp32", "i32", "constexpr", a tuple of types). constexprs: values by name, or by
    path: `(2,)` is the third parameter, `(2, 0)` the first item of the tuple there. attrs: facts by path,
    `{(0,): [["tt.divisibility", 16]]}`.
    """

    __module__ = "nereid.compiler.source"

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
        from .effects import effects_module
        return effects_module(compile_function(self, target, dict(vars(options)) if options is not None else None))

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
        from ..runtime._function import Specialization
        names = self.fn.arg_names
        return self.fn.repr(Specialization(self.signature, {names[path[0]]: value for path, value in self.constants.items()
                                                            if len(path) == 1}))

    def _items(self):
        return tuple(self._item(self._type_of(param.num, param.name), (param.num, ), param) for param in self.fn.params)
