"""Declarations of operators: one for each base operator of ATen, in one registry.

A declaration is data: it names the operator, the overloads are found from ATen's schemas (`_schema.py`), and the family (pointwise,
reduction, scan, ...) says how a call becomes launches. Routes (`_register.py`) only read it.
"""

import contextlib
import dataclasses

from . import _schema, _shapes

#: {name of the base operator: Operator}, in the order of declaration.
OPERATORS = {}


@dataclasses.dataclass(frozen=True)
class Native:
    """What `Operator.call` returns where ATen's own kernel is to run. reason: a few words for the report, such as "dtype"."""
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operator:
    """One base operator of ATen; each family is a subclass with its own data.

    name: the base operator, "add" (no namespace, no overload, no trailing `_`).
    without: overloads that are left to ATen, {"sum.DimnameList": "why"}.
    """
    name: str
    without: dict = dataclasses.field(default_factory=dict)

    #: The family's name, for the report: "pointwise", "reduction", ...
    family = None
    #: The keys of the dispatcher that it is registered at; None: all of `_schema.KEYS`.
    keys = None
    #: Whether its overloads are those on lists of tensors (`_schema.forms`).
    lists = False

    def accepts(self, form):
        """Whether the operator serves this overload (`_schema.Form`): by its schema alone, before any call."""
        raise NotImplementedError

    def call(self, form, values, outs):
        """Runs one call on the Python route.

        values: {argument: value} with all arguments of the form but the outputs; outs: a list of tensors for kind "out", else None.
        Returns what the overload returns (for "inplace" the first argument, for "out" the outputs), or `Native(reason)`. It must not
        change anything, and allocate as little as possible, before it returns `Native`.
        """
        raise NotImplementedError

    def shape_class(self, form, values):
        """The class of a call in routing data (`_routes`), among calls of one dtype: (kind, sizes), or None for a call that routing data do not cover."""
        return _shapes.shape_class(values)

    def configurations(self, form, values):
        """What `tune` may choose from for a call: (problem, [Tiles]) of a matrix product, or None."""
        return None

    def routing_dtype(self, values):
        """The dtype that a call has in routing data."""
        return _shapes.class_dtype(values)

    @property
    def forms(self):
        """The overloads that are registered: [Form]."""
        return _FORMS[self.name]


_FORMS = {}
#: Operators of this package that the PyTorch at hand lacks or composes of others: {name: why}.
ABSENT = {}
_tolerant = False


@contextlib.contextmanager
def as_far_as_known():
    """A `with` block in which declarations that this version of PyTorch has no place for are noted in ABSENT instead of raising."""
    global _tolerant
    _tolerant = True
    try:
        yield
    finally:
        _tolerant = False


def declare(operator):
    """Adds an operator to the registry and returns it.

    Raises LookupError if ATen has no such operator, ValueError for a second declaration, for an operator that is composed of others
    (CompositeImplicitAutograd, see `_schema.is_leaf`), and for one of whose overloads none is accepted.
    """
    try:
        leaves = _leaves(operator)
    except (LookupError, ValueError) as error:
        if not _tolerant:
            raise
        ABSENT[operator.name] = str(error)
        return operator
    OPERATORS[operator.name] = operator
    _FORMS[operator.name] = leaves
    return operator


def _leaves(operator):
    """The forms that an operator is registered for."""
    if operator.name in OPERATORS:
        raise ValueError(f"`{operator.name}` is declared twice")
    known = _schema.forms(operator.name, operator.lists)
    for name in operator.without:
        if name not in [form.name for form in known]:
            raise LookupError(f"`without` of `{operator.name}` names `{name}`, which is not among its overloads: {', '.join(form.name for form in known)}")
    accepted = [form for form in known if form.name not in operator.without and operator.accepts(form)]
    leaves = [form for form in accepted if any(_schema.is_leaf(form.name, key) for key in _schema.KEYS.values())]
    if not accepted:
        raise ValueError(f"`{operator.name}` serves no overload: expected arguments like those of one of {', '.join(form.name for form in known)}")
    if not leaves:
        _schema.require_leaf(accepted[0].name)
    return tuple(leaves)


def select(only=None, without=None):
    """The forms that a choice names: [(Operator, Form)]. only, without: names of base operators ("add") or overloads ("add.Tensor"), or None.

    Raises LookupError for a name that no operator has, with the nearest one.
    """
    known = {name for operator in OPERATORS.values() for name in (operator.name, *(form.name for form in operator.forms))}
    for name in (*(only or ()), *(without or ())):
        if name not in known:
            import difflib
            nearest = difflib.get_close_matches(name, known, 1)
            raise LookupError(f"no operator or overload `{name}` is registered" + (f"; did you mean `{nearest[0]}`?" if nearest else ""))

    def named(names, operator, form):
        return operator.name in names or form.name in names

    return [(operator, form) for operator in OPERATORS.values() for form in operator.forms
            if (only is None or named(only, operator, form)) and (without is None or not named(without, operator, form))]
