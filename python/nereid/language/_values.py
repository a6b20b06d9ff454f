"""Types of blocks, pointers and tuples, and values of a running compilation, as Python sees them: the rest of `core`.

Their `__module__` is that of `core`, also in pickles. Every function of `tl` enters the compiler's builtin table through
`_native.call_builtin`.
"""

import builtins
import functools
import operator
import re

from .. import _native
from . import core
from .core import (_BINARY_OPERATORS, _COMPARISONS, _SIGNATURES, TRITON_MAX_TENSOR_NUMEL, _unwrap_if_constexpr, _unwrap_shape, bfloat16, constexpr,
                   constexpr_type, dtype, float32, int1, int32)

_NO_KERNEL = ("Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)")


# ---- functions with `_semantic` ---------------------------------------------------------------------


#: The attribute that tells functions of the language from others.
TRITON_BUILTIN = "__triton_builtin__"


def builtin(fn):
    """Marks a Python function that kernels may call: it runs during the compilation, gets constants as `constexpr` and tensors as
    `tensor`, and calls the language with `_semantic=_semantic`."""
    import inspect
    signature = inspect.signature(fn)

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        if kwargs.get("_semantic") is None:
            raise ValueError(_NO_KERNEL)
        return fn(*args, **kwargs)

    if "_semantic" not in signature.parameters:
        raise TypeError(f"a builtin takes the keyword `_semantic`: add `_semantic=None` to {fn.__qualname__}")
    setattr(wrapper, TRITON_BUILTIN, True)
    wrapper.signature = signature
    return wrapper


def extern(fn):
    """Marks a function that stands for a symbol of a device library."""
    return builtin(fn)


def is_builtin(fn):
    """Whether a function is one of the language or made with `@builtin`."""
    return bool(getattr(fn, TRITON_BUILTIN, False))


def _call(name, args, kwargs, _semantic=None):
    return _native.call_builtin(_semantic, name, args, kwargs)


#: Triton's names of operations of `_semantic` that have another name here.
_SEMANTIC_NAMES = {
    "less_than": "lt", "less_equal": "le", "greater_than": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
    "and_": "and", "or_": "or", "xor_": "xor", "shl": "lshift", "ashr": "rshift", "lshr": "rshift", "minus": "neg", "plus": "pos",
    "broadcast_impl_value": "broadcast", "broadcast_impl_shape": "broadcast_to",
}


def _semantic_method(semantic, name):
    """`_semantic.name(...)`: the builtin of that name, or of an operator."""
    if name == "tensor":
        return tensor
    if name == "bitcast":
        return lambda value, type: _native.call_builtin(semantic, "cast", (value, type), {"bitcast": True})
    name = _SEMANTIC_NAMES.get(name, name)
    return lambda *args, **kwargs: _native.call_builtin(semantic, name, args, kwargs)


class pointer_type(dtype):
    """A pointer to elements of a type."""

    __nereid_builtin__ = "pointer_type"  # what the class means inside a kernel

    def __init__(self, element_ty, address_space=1, const=False):
        element_ty = _unwrap_if_constexpr(element_ty)
        if not isinstance(element_ty, dtype):
            raise TypeError(f"element_ty has type `{type(element_ty).__name__}`; expected `dtype`.")
        self.element_ty = element_ty
        self.address_space = address_space
        self.const = const
        self.name = f"{'const_' if const else ''}pointer<{element_ty}>"
        self.primitive_bitwidth = 64
        self.itemsize = 8

    @property
    def _signature(self):
        return ("*k" if self.const else "*") + self.element_ty._signature

    def is_ptr(self):
        return True

    def is_const(self):
        return self.const

    def __eq__(self, other):
        other = _unwrap_if_constexpr(other)
        return (isinstance(other, pointer_type) and self.element_ty == other.element_ty
                and self.address_space == other.address_space and self.const == other.const)

    __hash__ = dtype.__hash__

    @property
    def scalar(self):
        return self

    def __repr__(self):
        return f"triton.language.pointer_type({self.element_ty!r}, {self.address_space}, {self.const})"

    def mangle(self):
        return f"P{self.element_ty.mangle()}"

    def __reduce__(self):
        return type(self), (self.element_ty, self.address_space, self.const)


class block_type(dtype):
    """A block of elements of a type."""

    __nereid_builtin__ = "block_type"  # what the class means inside a kernel

    def __init__(self, element_ty, shape):
        shape = builtins.tuple(_unwrap_shape(shape))
        if not shape:
            raise TypeError("0d block_type is forbidden")
        if any(not isinstance(size, int) or size < 1 for size in shape):
            raise ValueError(f"the shape of a block is made of positive integers, found {list(shape)}")
        self.element_ty = element_ty
        self.shape = shape
        self.numel = functools.reduce(operator.mul, shape)
        if self.numel > TRITON_MAX_TENSOR_NUMEL:
            raise ValueError(f"numel ({self.numel}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})")
        self.name = f"<{[str(size) for size in shape]}, {element_ty}>"
        self.primitive_bitwidth = element_ty.primitive_bitwidth
        self.itemsize = element_ty.itemsize

    @property
    def _signature(self):
        return self.element_ty._signature

    @property
    def _shape(self):
        return self.shape

    @property
    def nbytes(self):
        return self.numel * (self.element_ty.primitive_bitwidth // 8)

    def is_block(self):
        return True

    def get_block_shapes(self):
        return self.shape

    def with_element_ty(self, scalar_ty):
        return block_type(scalar_ty, self.shape)

    def __eq__(self, other):
        return isinstance(other, block_type) and self.element_ty == other.element_ty and self.shape == other.shape

    __hash__ = dtype.__hash__

    @property
    def scalar(self):
        return self.element_ty

    def __repr__(self):
        return f"triton.language.block_type({self.element_ty!r}, {list(self.shape)})"

    def mangle(self):
        return f"{self.element_ty.mangle()}S{'_'.join(str(size) for size in self.shape)}S"

    def __reduce__(self):
        return type(self), (self.element_ty, self.shape)


class tensor_descriptor_type(dtype):
    """The type of a tensor descriptor: what its blocks are, whether NaN is read outside, and whether loads round to TF32."""

    def __init__(self, block, pads_nan=False, rounds_tf32=False):
        self.block_type = block
        self.pads_nan = pads_nan
        self.rounds_tf32 = rounds_tf32
        self.name = f"tensordesc<{block.element_ty._signature}{list(block.shape)}{', nan' if pads_nan else ''}{', tf32' if rounds_tf32 else ''}>"
        self.primitive_bitwidth = 0
        self.itemsize = 0

    @property
    def _signature(self):
        return self.name

    def __eq__(self, other):
        return isinstance(other, tensor_descriptor_type) and self.name == other.name

    __hash__ = dtype.__hash__

    def __repr__(self):
        return f"triton.language.tensor_descriptor_type({self.block_type!r})"

    def mangle(self):
        return f"TD{self.block_type.mangle()}"

    def __reduce__(self):
        return type(self), (self.block_type, self.pads_nan, self.rounds_tf32)


class tuple_type:
    """The type of a tuple: the types of its items."""

    def __init__(self, types, fields=None):
        self.types = types
        self.fields = fields

    def __eq__(self, other):
        return isinstance(other, tuple_type) and self.types == other.types and self.fields == other.fields

    def __hash__(self):
        return hash((type(self), builtins.tuple(self.types)))

    def __iter__(self):
        return iter(self.types)

    def __getitem__(self, index):
        return self.types[index]

    def __repr__(self):
        return f"[{','.join(str(t) for t in self.types)}]"

    def mangle(self):
        return "T" + "_".join(t.mangle() for t in self.types) + "T"


pi32_t = pointer_type(int32)

_DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[([^]]*)\](, nan)?(, tf32)?>")


def str_to_ty(name, c=None):
    """The type that a signature's text means: "*fp32", "i64", "u1", "constexpr"."""
    if isinstance(name, builtins.tuple):
        return tuple_type([str_to_ty(item, c) for item in name])
    if name == "constexpr":
        return constexpr_type(None)
    if name.startswith("*"):
        const_pointer = name.startswith("*k")
        return pointer_type(str_to_ty(name[2 if const_pointer else 1:], c), const=const_pointer)
    if match := _DESCRIPTOR.fullmatch(name):
        element, shape, *options = match.groups()
        return tensor_descriptor_type(block_type(str_to_ty(element, c), [int(size) for size in shape.split(",")]), *map(bool, options))
    if name not in _SIGNATURES:
        raise KeyError(name)
    return _SIGNATURES[name]


def _make_type(signature, shape):
    """Called by the extension to make the Python object of a type."""
    element = str_to_ty(signature)
    return element if shape is None else block_type(element, shape)


def get_int_dtype(bitwidth, signed):
    """The integer type of a width and sign."""
    if bitwidth == 1:
        return int1
    found = _SIGNATURES.get(f"{'i' if signed else 'u'}{bitwidth}")
    if found is None:
        raise ValueError(f"Unsupported bitwidth {bitwidth} and signedness {signed}")
    return found


# ---- values of a running compilation ----------------------------------------------------------------


class tuple:
    """A tuple of values of the language."""

    __nereid_builtin__ = "tuple"  # what the class means inside a kernel

    def __init__(self, args, type=None):
        self.values = list(args)
        self.type = type or tuple_type([getattr(value, "type", None) for value in self.values])

    def __getitem__(self, index):
        if isinstance(index, builtins.slice):
            return tuple(self.values[builtins.slice(*map(_unwrap_if_constexpr, (index.start, index.stop, index.step)))])
        return self.values[_unwrap_if_constexpr(index)]

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def __add__(self, other):
        return tuple(self.values + list(other))

    def __radd__(self, other):
        return tuple(list(other) + self.values)

    def __mul__(self, other):
        return tuple(self.values * _unwrap_if_constexpr(other))

    def __eq__(self, other):
        return (isinstance(other, (tuple, builtins.tuple, list)) and len(self.values) == len(other)
                and all(bool(a == b) for a, b in zip(self.values, other)))

    def __hash__(self):
        return hash(builtins.tuple(self.values))

    def __repr__(self):
        return f"({', '.join(repr(value) for value in self.values)})"


def _members():
    """The module of the functions of the language; `METHODS` of them are members of tensors, too."""
    from . import _builtins
    return _builtins


class _TensorClass(type):
    """The class of `tensor`: functions of the language are its members."""

    def __getattr__(cls, name):
        if not name.startswith("_") and name in _members().METHODS:
            return getattr(_members(), name)
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")

    def __dir__(cls):
        return sorted({*super().__dir__(), *_members().METHODS})


class tensor(metaclass=_TensorClass):
    """A scalar, pointer or block of a running compilation, as Python code that runs during it sees one.

    `handle` is opaque and means nothing once the compilation has ended; `tensor(handle, type)` sees the same bits as another type.
    """

    __nereid_builtin__ = "tensor"  # what the class means inside a kernel
    _is_of_compilation = True

    def __init__(self, handle, type):
        self.handle = handle
        self.type = type
        self.shape = tuple(constexpr(size) for size in type._shape)
        self.numel = constexpr(type.numel if type.is_block() else 1)
        self.dtype = type.scalar

    def __str__(self):
        return f"{self.dtype}[{', '.join(repr(size) for size in self.shape)}]"

    __repr__ = __str__

    @property
    def T(self):
        return _call("trans", (self, ), {})

    def __getattr__(self, name):
        if not name.startswith("_") and name in _members().METHODS:
            return getattr(_members(), name).__get__(self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self):
        return sorted({*super().__dir__(), *_members().METHODS})

    def __getitem__(self, index, _semantic=None):
        return _call("getitem", (self, index), {}, _semantic)

    def __bool__(self):
        raise TypeError("the value of a tensor is not known at compile time: Python code cannot branch on it")

    __hash__ = object.__hash__


class tensor_descriptor_base(tensor):
    """A tensor descriptor of a running compilation; as an annotation: a parameter that is one."""

    __nereid_builtin__ = "tensor_descriptor_base"  # what the class means inside a kernel


class tensor_descriptor(tensor_descriptor_base):
    """A tensor descriptor, as `make_tensor_descriptor` gives it."""

    __nereid_builtin__ = "tensor_descriptor"  # what the class means inside a kernel


def _tensor_operator(name, reflected):

    def forward(self, other, _semantic=None):
        return _call(name, (self, other), {}, _semantic)

    def backward(self, other, _semantic=None):
        return _call(name, (other, self), {}, _semantic)

    return backward if reflected else forward


for _name in _BINARY_OPERATORS:
    setattr(tensor, f"__{_name}__", _tensor_operator(_name, False))
    setattr(tensor, f"__r{_name}__", _tensor_operator(_name, True))
for _name in _COMPARISONS:
    setattr(tensor, f"__{_name}__", _tensor_operator(_name, False))
for _name in ("neg", "pos", "invert"):
    setattr(tensor, f"__{_name}__", lambda self, _semantic=None, name=_name: _call(name, (self, ), {}, _semantic))



def _with_methods(cls, **options):
    """`super()` of a subclass looks into the classes themselves and asks no `__getattr__`: with the first subclass of a program, `tensor`
    gets the functions of the language as its own."""
    for name in _members().METHODS:
        if name not in vars(tensor):
            setattr(tensor, name, getattr(_members(), name))
    super(tensor, cls).__init_subclass__(**options)


# Behind the subclasses of this module: the functions are loaded when a program has one of its own.
tensor.__init_subclass__ = classmethod(_with_methods)

base_type = dtype
base_value = tensor


class slice:
    """A subscript `start:stop:step`."""

    def __init__(self, start, stop, step):
        self.start = start
        self.stop = stop
        self.step = step


def _promote_bfloat16_to_float32(t, _semantic=None):
    """A bf16 tensor as fp32; everything else as it is."""
    return _call("cast", (t, float32), {}, _semantic) if t.type.scalar == bfloat16 else t


_promote_bfloat16_to_float32.__triton_builtin__ = True


_native.register(make_type=_make_type, tuple=tuple, tensor=tensor)

for _value in (block_type, pointer_type, slice, tensor, tensor_descriptor, tensor_descriptor_base, tensor_descriptor_type, tuple,
               tuple_type):
    _value.__module__ = f"{__package__}.core"
del _name, _value
