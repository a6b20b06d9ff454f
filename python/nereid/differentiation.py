"""Derivatives of kernels, made by the compiler: docs/differentiation.md.

    j = nereid.jvp(kernel, wrt=("x", "w"), out=("y",))
    j[grid](x, w, y, n, dx=dx, dw=dw, dy=dy, BLOCK=128)
"""

from ._jit import JITFunction, KernelParam, Param
from ._jit import Empty as _EMPTY

_INPUT, _OUTPUT = 1, 2  # roles of a tangent: NRD_TANGENT_* of nereid.h


def _names(given, what):
    """{parameter: name of its tangent} of `wrt` or `out`."""
    if isinstance(given, str):
        given = (given, )
    if not isinstance(given, dict):
        given = {name: None for name in given}
    for name, tangent in given.items():
        if not isinstance(name, str) or not isinstance(tangent, (str, type(None))):
            raise TypeError(f"`{what}` must be names of parameters, or a dict of them and the names of their tangents, found {given!r}")
    return given


class JVP(JITFunction):
    """A kernel that computes, beside its outputs, their tangents. Made by `jvp`."""

    __module__ = "nereid.differentiation"

    @classmethod
    def _of(cls, kernel, wrt, out):
        self = cls.__new__(cls)
        state = kernel.__copy__().__dict__
        self.__dict__.update(state, _built=False, kernel=None, _hash=None)
        self.primal = kernel
        inputs, outputs = _names(wrt, "wrt"), _names(out, "out")
        tangents = []
        for name in dict.fromkeys((*inputs, *outputs)):
            chosen = {given[name] for given in (inputs, outputs) if given.get(name) is not None}
            if len(chosen) > 1:
                raise ValueError(f"the tangent of `{name}` has two names: {', '.join(f'`{each}`' for each in sorted(chosen))}")
            roles = _INPUT * (name in inputs) | _OUTPUT * (name in outputs)
            tangents.append((name, chosen.pop() if chosen else f"d{name}", roles))
        self._tangents = tuple(tangents)
        by_name = {param.name: param for param in kernel.params}
        self.params = list(kernel.params)
        for name, tangent, _ in tangents:
            of = by_name.get(name)
            annotation = of._param.annotation if of is not None and not of.is_const else _EMPTY
            self.params.append(KernelParam(len(self.params), Param(tangent, _EMPTY, annotation), of is not None and of.do_not_specialize,
                                           of is not None and of.do_not_specialize_on_alignment, kernel.__globals__))
        self.arg_names = [param.name for param in self.params]
        from ._jit import _Hooks
        self.pre_run_hooks = _Hooks(self)
        self._build()  # finds mistakes now, not at the first launch
        return self

    @property
    def cache_key(self):
        """That of the kernel, and what is differentiated."""
        return f"{self.primal.cache_key}-{self._tangents!r}"

    def __repr__(self):
        return f"JVP({self.module}:{self.__qualname__}, {', '.join(tangent for _, tangent, _ in self._tangents)})"


def jvp(kernel, wrt, out):
    """The derivative of a kernel in a direction (forward mode), as a kernel.

    It is launched as `kernel` is, with the tangents as further arguments: `d` and the name of the parameter. A tangent has the type of its
    parameter; that of a tensor also its shape and strides. The tangents of inputs are read, those of outputs are written, and the
    kernel's own outputs as well. A tangent that is None is taken as zero (inputs) or not stored (outputs).

    kernel: a `@jit` function; of one with `autotune` or `heuristics` the function itself, whose constexprs the launch gives.
    wrt: the parameters to differentiate with respect to: names, or {name: name of its tangent}.
    out: the parameters whose tangents to compute. A tensor that is read and written stands in both.

    Raises ValueError for names that are no parameters, CompilationError at the first launch for what has no derivative.
    """
    while not isinstance(kernel, JITFunction):
        inner = getattr(kernel, "fn", None)
        if inner is None:
            raise TypeError(f"jvp needs a kernel made with @jit, found {type(kernel).__name__}")
        kernel = inner
    if isinstance(kernel, JVP):
        raise TypeError("forward derivatives of derivatives are not supported: differentiate the kernel that was written")
    return JVP._of(kernel, wrt, out)
