"""What a kernel does to its arguments, in the form of a module of IR that can be walked.

PyTorch asks for a kernel's IR to learn which tensors it writes. The compiler knows; a `module` shows just that: a function with the kernel's
parameters, a `tt.load` for each pointer and a `tt.store` for each that is written.
"""

import itertools


class context:
    """Nothing: an IR context belongs to one compilation."""


def load_dialects(context):
    """Nothing to do."""


_ids = itertools.count(1)


class _Identified:

    def __init__(self):
        self._id = next(_ids)

    def id(self):
        return self._id


class value(_Identified):
    """A parameter of the kernel."""


class region(_Identified):
    """The body of the kernel."""


class block(_Identified):
    """The parameters, and where the operations are."""

    def __init__(self, parent, arguments):
        super().__init__()
        self._parent = parent
        self._arguments = arguments

    def get_parent(self):
        return self._parent

    def get_num_arguments(self):
        return len(self._arguments)

    def get_argument(self, index):
        return self._arguments[index]


class operation(_Identified):
    """A load, a store, or the function that holds them."""

    def __init__(self, name, operands=(), parent=None, regions=(), symbol=""):
        super().__init__()
        self._name = name
        self._operands = operands
        self._block = parent
        self._regions = regions
        self._symbol = symbol

    def get_name(self):
        return self._name

    def get_num_operands(self):
        return len(self._operands)

    def get_operand(self, index):
        return self._operands[index]

    def get_num_results(self):
        return 0

    def get_num_regions(self):
        return len(self._regions)

    def get_region(self, index):
        return self._regions[index]

    def get_block(self):
        return self._block

    def get_str_attr(self, name):
        return self._symbol if name == "sym_name" else None


class module:
    """`text`: the tile IR. `effects`: for each parameter of the code "" (a number), "r" (read) or "rw" (may be written)."""

    def __init__(self, name, text, effects):
        self._text = text
        body = region()
        arguments = [value() for _ in effects]
        entry = block(body, arguments)
        self._operations = [operation("tt.load", (argument, ), entry) for argument, effect in zip(arguments, effects) if "r" in effect]
        self._operations += [operation("tt.store", (argument, argument), entry) for argument, effect in zip(arguments, effects)
                             if "w" in effect]
        self._operations += [operation("tt.return", (), entry), operation("tt.func", (), None, (body, ), name)]

    def walk(self, function):
        """Calls `function(operation)` for all, inner ones first."""
        for op in self._operations:
            function(op)

    def verify(self):
        return True

    def str(self):
        return self._text

    def __str__(self):
        return self._text
