"""`device_print`, `device_assert` and `static_assert`: the part of the generator that makes programs tell what they compute, in the kernel, in
branches and loops, and in functions, which take all that this needs from their callers.

The choices have random numbers of their own, and no variables: a program is the same with and without them."""

import numpy as np

from .dtypes import BOOL, FP8, Reject, Value
from .tree import Check, Known, Print, var

#: Elements that one `device_print` shows of a value.
MOST_PRINTED = 64


class Observing:
    """A part of `Generator`."""

    def observe_some(self):
        """After a statement, in some programs: what it left is printed or asserted."""
        if not self.observes or self.watch.random() > (0.8 if self.inside_function else 0.4):
            return
        try:
            self.watch.choice((self.observe_print, self.observe_check, self.observe_check, self.observe_known))()
        except Reject:
            pass

    def _seen(self, accept):
        found = self.variables(accept)
        if not found:
            raise Reject("nothing to observe")
        return self.watch.choice(found[-6:])

    def observe_print(self):
        values = [self._seen(lambda v: v.array.size <= MOST_PRINTED) for _ in range(self.watch.choice((1, 1, 2, 3)))]
        if self.watch.random() < 0.2:
            values = []
        whole = all(v.dtype.is_int for v in values)
        self.emit(Print(self.message("print"), [v.node for v in values], whole and bool(values) and self.watch.random() < 0.2))

    def observe_check(self):
        """A bound that holds of the values seen here, and most often of those of other programs and rounds."""
        e = self._seen(lambda v: v.dtype not in FP8)
        mask = None
        if e.dtype is BOOL:
            condition, mask = e, (e if self.watch.random() < 0.8 else None)
        else:
            bound = max((np.max(value) for value in self._values(e)), key=float)
            if not abs(float(bound)) < 2 ** 31:
                raise Reject("no number to compare with")
            bound = float(bound) if e.dtype.is_float else int(bound)
            kind = self.watch.random()
            if kind < 0.6:
                condition = self.make("le", e, bound)
            else:    # the greatest are masked off, or not
                condition = self.make("lt", e, bound)
                mask = self.make("ne", e, bound) if kind < 0.8 else None
        self.emit(Check(condition.node, self.message("check"), mask.node if mask else None))

    def _values(self, e):
        """A variable's values: in all programs where these are known here, else in one."""
        name = e.node.attrs["name"]
        if self.level == 0 and not self.inside_function:
            found = [m.scope[name].array for m in self.machines if isinstance(m.scope.get(name), Value)]
            if found:
                return found
        return [e.value.array]

    def observe_known(self):
        numbers = [(name, value) for name, value in self.rep.scope.items()
                   if isinstance(value, (bool, int, float)) and name not in self.protected and name.startswith("a")]
        if numbers and self.watch.random() < 0.5:
            name, value = self.watch.choice(numbers)
            return self.emit(Known(var(name), "number", value, self.message("known")))
        e = self._seen(lambda v: True)
        about = self.watch.choice(("dtype", "shape", "rank") if e.shape else ("dtype", ))
        want = {"dtype": e.dtype.name, "shape": e.shape, "rank": len(e.shape)}[about]
        self.emit(Known(e.node, about, want, self.message("known")))

    def message(self, word):
        """A text that no other statement of the program has."""
        self.said = getattr(self, "said", 0) + 1
        return f"{word} {self.said}"
