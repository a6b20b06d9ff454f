"""Which alternatives of a gradient kernel a launch takes (docs/differentiation.md, "Transposed schedules").

Whether a gradient is summed in a transposed schedule follows from scalars and the grid. The compiler tells the conditions ("gradient_conditions" in the metadata of a kernel that is
compiled with the option `gradient_facts`), as steps of integer arithmetic (src/differentiate/Conditions.h). Here they are evaluated, for the option `gradient_conditions` of the kernel that
is launched: it contains what these launches execute, and nothing else.
"""

import operator

#: Kinds of devices whose kernels get only the alternatives that are taken (for GPUs measured in docs/notes/performance.md, "Gradients on GPUs").
CHOSEN_ON = ("cpu", "cuda")


def _quotient(a, b):
    """Rounded towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _unsigned(value, bits):
    return value & ((1 << bits) - 1)


def _signed(value, bits):
    """What so many bits hold; of one bit 0 or 1."""
    value = _unsigned(value, bits)
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


_COMPARISONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
#: {operation: a function of the width of the operands and of these}
_OPERATIONS = {
    "addi": lambda bits, a, b: a + b,
    "subi": lambda bits, a, b: a - b,
    "muli": lambda bits, a, b: a * b,
    "divsi": lambda bits, a, b: _quotient(a, b),
    "remsi": lambda bits, a, b: a - b * _quotient(a, b),
    "divui": lambda bits, a, b: _unsigned(a, bits) // _unsigned(b, bits),
    "remui": lambda bits, a, b: _unsigned(a, bits) % _unsigned(b, bits),
    "minsi": lambda bits, a, b: min(a, b),
    "maxsi": lambda bits, a, b: max(a, b),
    "minui": lambda bits, a, b: min(a, b, key=lambda value: _unsigned(value, bits)),
    "maxui": lambda bits, a, b: max(a, b, key=lambda value: _unsigned(value, bits)),
    "andi": lambda bits, a, b: a & b,
    "ori": lambda bits, a, b: a | b,
    "xori": lambda bits, a, b: a ^ b,
    "select": lambda bits, condition, a, b: a if condition else b,
    "extsi": lambda bits, a: -a if bits == 1 else a,
    "extui": lambda bits, a: _unsigned(a, bits),
    "trunci": lambda bits, a: a,
    "index_cast": lambda bits, a: a,
    "index_castui": lambda bits, a: _unsigned(a, bits),
    **{f"cmpi.{name}": lambda bits, a, b, compare=compare: int(compare(a, b)) for name, compare in _COMPARISONS.items() if name in ("eq", "ne")},
    **{f"cmpi.s{name}": lambda bits, a, b, compare=compare: int(compare(a, b)) for name, compare in _COMPARISONS.items() if name not in ("eq", "ne")},
    **{f"cmpi.u{name}": lambda bits, a, b, compare=compare: int(compare(_unsigned(a, bits), _unsigned(b, bits)))
       for name, compare in _COMPARISONS.items() if name not in ("eq", "ne")},
}


def _parsed(steps):
    """[(operation, widths of its operands and of its result, numbers)] of a text."""
    parsed = []
    for step in steps.split("; "):
        head, *numbers = step.split()
        operation, *types = head.split(":")
        widths = [int(each[1:]) for each in types]
        if operation.startswith("cmpi"):
            widths.append(1)
        parsed.append((operation, widths[0], widths[-1], [int(number) for number in numbers]))
    return parsed


def evaluate(parsed, scalars, counts):
    """Whether a condition holds; None where a scalar is no integer, or the arithmetic is not defined. scalars: {argument: value}."""
    values = []
    for operation, bits, result, numbers in parsed:
        if operation == "constant":
            value = numbers[0]
        elif operation == "programs":
            value = counts[numbers[0]]
        elif operation == "argument":
            value = scalars.get(numbers[0])
            if not isinstance(value, int):
                return None
        else:
            operands = [values[number] for number in numbers]
            if operation in ("divsi", "remsi", "divui", "remui") and operands[1] == 0:
                return None
            value = _OPERATIONS[operation](bits, *operands)
        values.append(_signed(value, result))
    return bool(values[-1])


class Conditions:
    """Those of a gradient kernel, from one that was compiled for its facts."""

    def __init__(self, facts):
        self._names = {param["argument"]: param["name"] for param in facts._values["params"] if "argument" in param}
        self._parsed = [(each["id"], _parsed(each["steps"])) for each in facts._values.get("gradient_conditions", ())]
        self.scalars = {self._names[numbers[0]] for _, parsed in self._parsed for operation, _, _, numbers in parsed if operation == "argument"}

    def option(self, given, counts):
        """The value of the option `gradient_conditions` for a launch, "" where there are no conditions. given: {parameter: value}."""
        scalars = {argument: given.get(name) for argument, name in self._names.items() if name in self.scalars}
        found = ((name, evaluate(parsed, scalars, counts)) for name, parsed in self._parsed)
        return ",".join(f"{name}={int(holds)}" for name, holds in found if holds is not None)
