"""ATen's own schemas: which overloads of an operator belong together, and which of them may be registered.

A base operator `relu` has functional overloads (`aten::relu`), in-place ones (`aten::relu_`) and `out=` ones (`aten::relu.out`). `forms` finds
them all from the schemas that PyTorch holds, so a declaration names the base operator only.
"""

import dataclasses
import functools

import torch

#: The keys of the dispatcher that operators are registered for, by type of device.
KEYS = {"cpu": "CPU", "cuda": "CUDA"}


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of an overload that is no output.

    name: as in the schema. type: the schema's text, without the alias annotation: "Tensor", "Scalar", "Tensor?", "Scalar?", "int", "int[]",
    "float", "bool", "str?", ... required: it has no default. default: the value if it has one.
    """
    name: str
    type: str
    required: bool
    default: object = None

    @property
    def is_tensor(self):
        return self.type in ("Tensor", "Tensor?")

    @property
    def is_number(self):
        return self.type in ("Scalar", "Scalar?", "float", "float?", "int", "int?", "SymInt", "bool")


@dataclasses.dataclass(frozen=True)
class Form:
    """One overload of a base operator.

    base: the base operator, "add". name: the overload as the dispatcher knows it, without "aten::": "add.Tensor", "relu_", "add.out"; of operators that are
    not ATen's with their namespace: "nereid::swiglu".
    kind: "functional", "inplace" (the result is the first argument; of operators on lists of tensors there is none) or "out". arguments: in order, without the outputs.
    positional: how many of them may be given by position. outs: the names of the outputs of kind "out".
    returns: the number of results; a list of tensors counts as one.
    """
    base: str
    name: str
    kind: str
    arguments: tuple
    positional: int
    outs: tuple
    returns: int

    @property
    def qualified(self):
        return self.name if "::" in self.name else "aten::" + self.name

    @property
    def overload(self):
        """The object in `torch.ops`."""
        namespace, _, name = self.qualified.partition("::")
        packet, _, name = name.partition(".")
        return getattr(getattr(getattr(torch.ops, namespace), packet), name or "default")

    def bind(self, args, kwargs):
        """The arguments of a call by name, defaults filled in, and the list of its outputs (None unless the kind is "out")."""
        values = dict(zip(self._names, args))
        values.update(kwargs)
        outs = [values.pop(name) for name in self.outs] if self.outs else None
        for argument in self.arguments:
            if argument.name not in values:
                values[argument.name] = argument.default
        return values, outs

    @functools.cached_property
    def _names(self):
        return [argument.name for argument in self.arguments]


def forms(base, lists=False):
    """All overloads of a base operator whose results are tensors (with integers beside them): [Form], functional ones first, then in-place, then `out=`.

    lists: those instead that work on lists of tensors: they return a list, or nothing and write what they are given.
    Raises LookupError if ATen has no operator of that name.
    """
    found = [form for packet in (base, base + "_") for form in _forms_of(base, packet, lists)]
    if not found:
        raise LookupError(f"ATen has no operator `{base}`: expected the name of an operator without namespace, overload and trailing `_`, such as \"add\"")
    return sorted(found, key=lambda form: ("functional", "inplace", "out").index(form.kind))


def _forms_of(base, packet, lists):
    overloads = torch._C._jit_get_schemas_for_operator(f"aten::{packet}")
    for schema in overloads:
        if any(str(argument.type) in ("t", "List[t]", "Any") for argument in schema.arguments):
            continue  # TorchScript's own, not the dispatcher's
        name = packet + (f".{schema.overload_name}" if schema.overload_name else "")
        kinds = [str(result.type) for result in schema.returns]
        if not torch._C._dispatch_has_kernel(f"aten::{name}"):
            continue
        if kinds not in ([], ["List[Tensor]"]) if lists else "Tensor" not in kinds or not set(kinds) <= {"Tensor", "int", "SymInt"}:
            continue
        outs = tuple(argument.name for argument in schema.arguments if argument.is_out)
        inputs = [argument for argument in schema.arguments if not argument.is_out]
        written = [argument for argument in inputs if argument.alias_info is not None and argument.alias_info.is_write]
        if outs:
            kind = "out"
        elif written and written[:1] == inputs[:1] and len(schema.returns) == 1 and schema.returns[0].alias_info is not None or lists and inputs[0] in written and not schema.returns:
            kind = "inplace"
        elif not written and schema.returns and not any(result.alias_info is not None for result in schema.returns):
            kind = "functional"
        else:
            continue  # a view, or something that writes elsewhere
        yield Form(base, name, kind, tuple(map(_argument, inputs)), sum(not argument.kwarg_only for argument in inputs), outs, len(schema.returns))


def form_of(overload):
    """The `Form` of an operator that is not ATen's. overload: an object in `torch.ops`."""
    schema = overload._schema
    base = schema.name.partition("::")[2]
    return Form(base, schema.name, "functional", tuple(map(_argument, schema.arguments)), sum(not argument.kwarg_only for argument in schema.arguments), (),
                len(schema.returns))


def _argument(argument):
    text = str(argument.real_type) if hasattr(argument, "real_type") else str(argument.type)
    optional = text.startswith("Optional[")
    text = text[len("Optional["):-1] if optional else text
    text = {"number": "Scalar"}.get(text, text)
    if text.startswith("List["):
        text = text[len("List["):-1] + "[]"
    required = not argument.has_default_value()
    return Argument(argument.name, text + ("?" if optional else ""), required, None if required else argument.default_value)


def is_leaf(name, key="CPU"):
    """Whether a kernel registered for overload `name` ("add.Tensor") at `key` leaves autograd as it is.

    An operator with a CompositeImplicitAutograd kernel is differentiated through what it is composed of. A kernel at a backend key
    replaces this composition for autograd, too, and gradients become None without an error; unless ATen has a kernel
    of its own at that key, with which autograd already lives.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return not has(f"aten::{name}", "CompositeImplicitAutograd") or has(f"aten::{name}", key)


def require_leaf(name, key="CPU"):
    """Raises ValueError unless `is_leaf`."""
    if not is_leaf(name, key):
        raise ValueError(f"`aten::{name}` is composed of other operators (CompositeImplicitAutograd): a kernel at {key} would make its gradient None. "
                         "Declare the operators that it calls instead")
