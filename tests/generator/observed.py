"""What a program tells while it runs: the lines of `device_print`, and the assertions that fail, which debug mode reports."""

import numpy as np

from .dtypes import to_memory


class Observed:

    def __init__(self):
        self.lines = {}      #: program -> its lines, in order
        self.failing = {}    #: program -> [(message, number of calls around)]
        self.known = set()   #: messages of the static assertions that the compiler comes to

    def print(self, pid, statement, values):
        lines = self.lines.setdefault(tuple(pid), [])
        head = f"pid ({', '.join(map(str, pid))})"
        if not values:
            lines.append(f"{head} {statement.label}")
        for number, value in enumerate(values):
            operand = f"(operand {number}) " if len(values) > 1 else ""
            widths = [len(str(size - 1)) for size in value.shape]
            texts = _hexadecimal(value) if statement.hex else _decimal(value)
            for index, text in zip(np.ndindex(value.shape), texts):
                place = ", ".join(f"{i:{width}}" for i, width in zip(index, widths))
                lines.append(f"{head} idx ({place}) {statement.label}: {operand}{text}")

    def fail(self, pid, message, calls):
        self.failing.setdefault(tuple(pid), []).append((message, calls))

    def first_failing(self):
        """The messages that may be reported, each with its number of calls: those of the first program that fails."""
        return self.failing[min(self.failing, key=lambda pid: pid[::-1])] if self.failing else []


def _decimal(value):
    for number in np.ravel(value.array):
        if not value.dtype.is_float:
            yield str(int(number))
        else:
            yield "nan" if np.isnan(number) else f"{float(number):f}"


def _hexadecimal(value):
    bits = np.ascontiguousarray(to_memory(np.ravel(value.array), value.dtype))
    for number in bits.view(f"u{bits.dtype.itemsize}"):
        yield f"0x{int(number):0{2 * bits.dtype.itemsize}x}"


def by_program(text):
    """The printed lines by the program that they name: each program's are in order, those of several are not."""
    found = {}
    for line in text.splitlines():
        try:
            pid = tuple(int(n) for n in line.removeprefix("pid (").split(")")[0].split(","))
        except ValueError:
            pid = ()
        found.setdefault(pid, []).append(line)
    return found


def difference(text, observed, in_order):
    """What is wrong with the printed lines, or None. `in_order`: those of one program are printed one after the other."""
    got = by_program(text)
    for pid in sorted({*got, *observed.lines}):
        ours, want = got.get(pid, []), observed.lines.get(pid, [])
        if not in_order:
            ours, want = sorted(ours), sorted(want)
        if ours != want:
            index = next((i for i, (a, b) in enumerate(zip(ours, want)) if a != b), min(len(ours), len(want)))
            shown = [lines[index] if index < len(lines) else "nothing" for lines in (ours, want)]
            return f"program {pid} prints {len(ours)} lines, expected {len(want)}; line {index}: {shown[0]!r} instead of {shown[1]!r}"
    return None
