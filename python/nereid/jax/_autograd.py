"""`autograd`: a kernel and its gradient as a differentiable function of JAX."""

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from nereid.differentiation import _bound, _explained, _free, _is_rule, _written_kernel, grad
from nereid.differentiation import _names as _names_in

from ._call import _copy_of, _names, is_array, launched


def _is_floating(dtype):
    return jnp.issubdtype(dtype, jnp.floating)


@jax.tree_util.register_pytree_node_class
class _Saved:
    """What the backward pass needs: the arrays of the call, and which of them have a gradient."""

    def __init__(self, arrays, wanted):
        self.arrays, self.wanted = arrays, wanted

    def tree_flatten(self):
        return self.arrays, self.wanted

    @classmethod
    def tree_unflatten(cls, wanted, arrays):
        return cls(tuple(arrays), wanted)


class Function:
    """A differentiable function of JAX. Made by `autograd`.

    Called with the kernel's parameters, without those in `out` and in `arguments`, in their order or by name; further keywords are compile
    options. Returns the array in `out`, or a tuple of them.
    """

    __module__ = "nereid.jax"

    def __init__(self, kernel, wrt, out, grid, arguments, vmap_method):
        self.kernel, self.grid = kernel, grid
        self._wrt = tuple(_names_in(wrt, "wrt"))
        self._rules = dict(out) if isinstance(out, dict) else dict.fromkeys((out, ) if isinstance(out, str) else out)
        self._fixed = dict(arguments or {})
        self._vmap_method = vmap_method
        self._check()
        self._params = tuple(name for name in kernel.arg_names if name not in self._rules and name not in self._fixed)
        self._defaults = {param.name: param.default for param in kernel.params if param.has_default}
        self._not_given = dict.fromkeys(self._fixed, "in `arguments`") | dict.fromkeys(self._rules, "allocated, as `out` says")
        # A gradient is `d` and the name of its parameter, unless the kernel has a parameter of this name.
        self._gradient_of = {name: _free(f"d{name}", kernel.arg_names) for name in (*self._wrt, *self._rules)}
        self._gradients = {}  # by the outputs that are differentiated
        self.__name__, self.__doc__ = kernel.__name__, kernel.__doc__

    def _check(self):
        kernel = self.kernel
        for what, names in (("wrt", self._wrt), ("out", self._rules), ("arguments", self._fixed)):
            for name in names:
                if name not in kernel.arg_names:
                    raise ValueError(f"`{name}` in `{what}` is no parameter of `{kernel.__name__}`: it has {_names(kernel.arg_names)}")
        if not self._wrt or not self._rules:
            raise ValueError(f"`{kernel.__name__}` cannot be differentiated without inputs and outputs: name parameters in `wrt` and in `out`")
        for name, rule in self._rules.items():
            if name in self._wrt:
                raise ValueError(f"`{name}` is in `wrt` and in `out`: a function does not change its inputs; let the kernel write another array")
            if name in self._fixed:
                raise ValueError(f"`{name}` is in `arguments` and in `out`: XLA allocates outputs")
            if isinstance(rule, str) and (rule not in kernel.arg_names or rule in self._rules):
                raise ValueError(f"`out` says that `{name}` is like `{rule}`, which is no input of `{kernel.__name__}`")
            if not (rule is None or isinstance(rule, str) or callable(rule) or hasattr(rule, "shape") and hasattr(rule, "dtype")):
                raise TypeError(f"`{name}` in `out` is {type(rule).__name__}: expected the name of an input, a `jax.ShapeDtypeStruct`, or a function of the arguments "
                                "that returns one")

    def __call__(self, *args, **kwargs):
        given = self._given(args, kwargs)
        arrays = {name: jnp.asarray(value) for name, value in given.items() if is_array(value)}
        for name in self._wrt:
            if name in self._fixed or given[name] is None:
                continue
            if name not in arrays:
                raise TypeError(f"{self.__name__}: `{name}` is in `wrt`: expected an array, found {type(given[name]).__name__}")
            if not _is_floating(arrays[name].dtype):
                raise TypeError(f"{self.__name__}: `{name}` is in `wrt` and has dtype {arrays[name].dtype.name}: only floating-point arrays have gradients")
        rest = {name: value for name, value in given.items() if name not in arrays}
        return self._differentiable(tuple(arrays), rest)(*arrays.values())

    def _given(self, args, kwargs):
        """{parameter or option: value} of a call."""
        return _bound(self.__name__, self._params, self._defaults, self._not_given, args, kwargs)

    def _differentiable(self, names, rest):
        """The function of the arrays alone. names: their parameters; rest: all other arguments."""

        @jax.custom_vjp
        def function(*arrays):
            return self._forward(dict(zip(names, arrays)), rest)

        def forward(*arrays):
            wanted = []
            for name, array in zip(names, arrays):
                if array.perturbed and name in self._wrt:
                    wanted.append(name)
                elif array.perturbed and _is_floating(array.value.dtype):
                    raise ValueError(f"{self.__name__}: `{name}` is differentiated and is not in `wrt`: name it there, or give `jax.lax.stop_gradient({name})`")
            arrays = tuple(array.value for array in arrays)
            return self._forward(dict(zip(names, arrays)), rest), _Saved(arrays, tuple(wanted))

        def backward(saved, gradients):
            found = self._backward(dict(zip(names, saved.arrays)), rest, gradients, saved.wanted)
            return tuple(found.get(name) for name in names)

        function.defvjp(forward, backward, symbolic_zeros=True)
        return function

    def _arguments(self, arrays, rest):
        """(all arguments but the outputs, by name; the options; shape and dtype of each output)."""
        options = {name: value for name, value in rest.items() if name not in self.kernel.arg_names}
        named = {**arrays, **{name: value for name, value in rest.items() if name not in options}}
        for name, value in self._fixed.items():
            named[name] = value(named) if _is_rule(value) else value
        outs = {}
        for name, rule in self._rules.items():
            if rule is None:
                rule = self._wrt[0]
            if isinstance(rule, str):
                if not is_array(named.get(rule)):
                    raise TypeError(f"{self.__name__}: `{name}` is to be like `{rule}`, which is no array")
                rule = named[rule]
            elif callable(rule):
                rule = rule(named)
                if not hasattr(rule, "shape") or not hasattr(rule, "dtype"):
                    raise TypeError(f"{self.__name__}: the rule of `{name}` in `out` returned {type(rule).__name__}: expected a `jax.ShapeDtypeStruct`")
            outs[name] = jax.ShapeDtypeStruct(rule.shape, rule.dtype)
        return named, options, outs

    def _grid_of(self, named, outs):
        return self.grid({**named, **outs}) if callable(self.grid) else self.grid

    def _forward(self, arrays, rest):
        named, options, outs = self._arguments(arrays, rest)
        found = launched(self.kernel, (), {**named, **options}, outs, self._grid_of(named, outs), None, self._vmap_method, is_differentiated=True)
        return next(iter(found.values())) if len(found) == 1 else tuple(found.values())

    def _gradient(self, outs):
        """The kernel of the gradient from these outputs."""
        if outs not in self._gradients:
            gradient = grad(self.kernel, {name: self._gradient_of[name] for name in self._wrt}, {name: self._gradient_of[name] for name in outs})
            self._gradients[outs] = gradient
        return self._gradients[outs].backward.kernel

    def _backward(self, arrays, rest, gradients, wanted):
        named, options, outs = self._arguments(arrays, rest)
        gradients = dict(zip(outs, gradients if isinstance(gradients, tuple) else (gradients, )))
        given = {}
        for name, out in outs.items():
            gradient = gradients[name]
            zero = isinstance(gradient, SymbolicZero) or not _is_floating(out.dtype)
            given[name] = None if zero else gradient
        floating = tuple(name for name, out in outs.items() if _is_floating(out.dtype))
        if not wanted or all(gradient is None for gradient in given.values()):
            return {}
        # The kernel neither reads nor writes the outputs themselves: what has their type takes their place.
        places = {name: jnp.zeros(out.shape, out.dtype) if given[name] is None else given[name] for name, out in outs.items()}
        seeds = {self._gradient_of[name]: given[name] for name in floating}
        # Gradients are summed, those of narrow inputs in fp32.
        sums = {name: jnp.zeros(arrays[name].shape, _wide(arrays[name].dtype)) for name in wanted}
        passed = {self._gradient_of[name]: sums.get(name) for name in self._wrt}
        written = {self._gradient_of[name]: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in sums.items()}
        arguments = {**named, **places, **seeds, **passed, **options}
        found = launched(self._gradient(floating), (), arguments, written, self._grid_of(named, outs), {name: name for name in written}, self._vmap_method,
                         is_differentiated=True)
        return {name: found[self._gradient_of[name]].astype(arrays[name].dtype) for name in wanted}

    def explain(self):
        """For each gradient kernel that was compiled, how each gradient is summed and why, as text."""
        texts = [_explained((compiled, 0) for compiled in _copy_of(gradient.backward.kernel)._kernels()) for gradient in self._gradients.values()]
        return "\n".join(text for text in texts if text) or "nothing is compiled yet: run a backward pass"

    def __repr__(self):
        return f"<differentiable {self.kernel!r}: {', '.join(self._wrt)} -> {', '.join(self._rules)}>"


def _wide(dtype):
    return jnp.float32 if dtype.itemsize == 2 else dtype


def autograd(kernel, wrt, out, grid, *, arguments=None, vmap_method=None):
    """A kernel and its gradient as a differentiable function of JAX.

        swiglu = nereid.jax.autograd(swiglu_kernel, wrt=("gate", "up"), out="y", grid=lambda a: (nereid.cdiv(a["n"], a["BLOCK"]), ),
                                     arguments={"n": lambda a: a["gate"].size, "BLOCK": 1024})
        jax.grad(lambda gate, up: swiglu(gate, up).sum())(gate, up)

    It is a `jax.custom_vjp` of `nereid.jax.call`, and calls the kernel of `nereid.grad` in the backward pass, for the inputs that are differentiated only.

    kernel: a `@jit` function; of one with `autotune` or `heuristics` the function itself, whose constexprs are given like other arguments.
    wrt: names of the inputs that have gradients, arrays of floating-point numbers.
    out: the outputs, which the kernel writes and calls return, in this order: {name: shape and dtype}: the name of an input (those of the input), a
    `jax.ShapeDtypeStruct`, or a function of the arguments by name that returns one. Names alone: like the first input in `wrt`. Outputs of integers have no gradient.
    grid: a tuple, or a function of all arguments by name, outputs included, that returns one; also that of the backward launch.
    arguments: parameters that calls do not give: {name: value, or a function of the arguments by name}.
    vmap_method: as of `nereid.jax.call`.

    Calls raise what `nereid.jax.call` raises, and ValueError for an input that is differentiated and is not in `wrt`. Forward mode and second derivatives are
    errors.

    Raises ValueError for names that are no parameters, TypeError for what is no kernel.
    """
    return Function(_written_kernel(kernel, "nereid.jax.autograd"), wrt, out, grid, arguments, vmap_method)
