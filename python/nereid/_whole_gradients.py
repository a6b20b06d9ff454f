"""Gradients that every launch writes whole: they need neither be cleared before nor be summed in fp32.

The compiler tells of which gradients the places follow from the grid and from scalars alone, and which it stores once ("fixed_places", "one_store" and "decides_places" in the metadata of
a gradient kernel). Whether a launch writes every element, and whether it stores where it might have to add, is tried out: one launch more, on memory full of NaN. What is not written, or
is added to, stays NaN. If nothing is NaN, everything is stored by every launch with the same sizes, scalars and grid.
"""

from .runtime.specialise import specialize_argument

_LAUNCHES_BEFORE = 1  # with the same sizes: what is launched once is not tried
_TRIES = 3  # values of a launch may be NaN themselves
MOST_KEYS = 1024  # of launches that something is known of


class WholeGradients:
    """What is known of the launches of a gradient kernel. inputs: names of its gradients of inputs."""

    def __init__(self, kernel, inputs):
        self._inputs = inputs
        self._tangents = {tangent for _, tangent, _ in kernel._tangents}
        self._constexprs = {param.name for param in kernel.params if param.is_constexpr}
        self._params = {param.name: param for param in kernel.params}
        self._deciding = None  # scalars from which places follow, of all compiled kernels; None before the first
        self._known = {}  # key → frozenset of gradients, or how often it was launched and tried
        self._seen = set()  # compiled kernels whose scalars are in `_deciding`

    @property
    def is_started(self):
        """Whether it is known which scalars decide places."""
        return self._deciding is not None

    def learn(self, names):
        """Scalars that decide places, of a compiled kernel. Whether some are new, so that keys made before lack them."""
        if self._deciding is not None and names <= self._deciding:
            return False
        self._deciding = names | (self._deciding or set())
        self._known.clear()
        return True

    def has_key(self, given, counts):
        """Whether launches with such arguments have a key, once it is known which scalars decide places."""
        return self._key(given, counts, ()) is not None

    def key(self, given, counts):
        """Of a launch: all from which places follow; None where that is not known. given: {parameter or option: value}; counts: of programs along the axes, or None."""
        return None if self._deciding is None else self._key(given, counts, self._deciding)

    def _key(self, given, counts, deciding):
        if counts is None:
            return None
        key = [counts]
        for name, value in given.items():
            if value is None or name in self._constexprs or name not in self._params:
                key.append((name, value))
            elif hasattr(value, "untyped_storage"):
                if name in self._tangents:
                    key.append((name, value.dtype, value.shape, value.stride(), value.device, value.untyped_storage().nbytes()))
                else:
                    key.append((name, value.dtype))
            elif isinstance(value, (bool, int, float)):
                # A kernel that was compiled for what is known of a scalar (1, a multiple of 16) may not have it, and so not tell that it decides.
                key.append((name, type(value), value) if name in deciding else (name, *specialize_argument(self._params[name], None, value)))
            else:
                return None
        key = tuple(key)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def of(self, key):
        """The gradients that a launch with this key writes whole; None where that is not known yet."""
        known = self._known.get(key) if key is not None else None
        return known if isinstance(known, frozenset) else None

    def has_seen(self, compiled):
        """Whether it is known which scalars of a compiled kernel decide places."""
        return compiled in self._seen

    def launched(self, key, compiled, given, again):
        """Learns from a launch. again: a function of {gradient: other memory} and of those that are neither cleared nor summed in fp32, which launches once more."""
        if compiled not in self._seen:
            deciding = {param["name"] for param in compiled._values["params"] if "decides_places" in param}
            self._seen.add(compiled)
            if self.learn(deciding):
                return
        known = self._known.get(key, 0)
        if key is None or isinstance(known, frozenset):
            return
        if len(self._known) >= MOST_KEYS:
            self._known.clear()
        self._known[key] = known + 1
        if known < _LAUNCHES_BEFORE:
            return
        import torch
        facts = {param["name"]: param for param in compiled._values["params"]}
        gradients = {name: given[name] for name in self._inputs if hasattr(given.get(name), "untyped_storage")}
        names = frozenset(name for name, gradient in gradients.items() if _may_be_whole(gradient, facts.get(name, {})))
        if names and any(gradient.is_cuda for gradient in gradients.values()) and torch.cuda.is_current_stream_capturing():
            self._known[key] = known
            return
        found = frozenset()
        if names:
            try:
                others = {name: memory_like(gradient) for name, gradient in gradients.items()}
            except torch.OutOfMemoryError:
                self._known[key] = found
                return
            for name in names:
                others[name].fill_(float("nan"))
            # What else the kernel writes may be sums, to which the trial must not add.
            others |= {name: memory_like(value) for name, value in given.items()
                       if name not in others and "written" in facts.get(name, {}) and facts[name]["written"] and hasattr(value, "untyped_storage")}
            again(others, names)
            found = frozenset(name for name in names if not bool(torch.isnan(others[name]).any()))
        if found == names or known + 1 >= _LAUNCHES_BEFORE + _TRIES:
            self._known[key] = found


def memory_like(tensor):
    """Other memory for a kernel that gets the strides of `tensor`, which may be a view with gaps: as much as there is behind it."""
    import torch
    memory = torch.empty(tensor.untyped_storage().nbytes() // tensor.element_size(), dtype=tensor.dtype, device=tensor.device)
    return memory.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


def _may_be_whole(gradient, facts):
    """Whether it is worth trying: its places are fixed, sums of several contributions are not in 16 bits, and it has its memory for itself."""
    return ("fixed_places" in facts and ("one_store" in facts or gradient.element_size() > 2) and gradient.is_contiguous() and gradient.is_floating_point()
            and gradient.untyped_storage().nbytes() == gradient.numel() * gradient.element_size())
