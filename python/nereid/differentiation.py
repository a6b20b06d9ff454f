"""Derivatives of kernels, made by the compiler: docs/differentiation.md.

    j = nereid.jvp(kernel, wrt=("x", "w"), out=("y",))
    j[grid](x, w, y, n, dx=dx, dw=dw, dy=dy, BLOCK=128)         # tangents: reads dx and dw, writes y and dy

    g = nereid.grad(kernel, wrt=("x", "w"), out=("y",))
    g.backward[grid](x, w, y, n, dy=dy, dx=dx, dw=dw, BLOCK=128)  # gradients: reads dy, writes dx and dw

    gg = nereid.grad(g.backward, wrt={"x": "ddx", "dy": "ddy"}, out={"dx": "sx"})  # a second derivative: how dx depends on x and dy
"""

import math

from . import _gradient_conditions, _whole_gradients
from ._jit import Empty as _EMPTY
from ._jit import JITFunction, KernelInterface, KernelParam, Param, _Hooks, _is_interpreting

_INPUT, _OUTPUT, _PARTIAL, _SAVED, _STEP = 1, 2, 4, 8, 16  # roles of a tangent: NRD_TANGENT_* of nereid.h


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


def _tangents_of(wrt, out):
    """(parameter, name of its tangent, roles), in the order of the further parameters."""
    inputs, outputs = _names(wrt, "wrt"), _names(out, "out")
    tangents = []
    for name in dict.fromkeys((*inputs, *outputs)):
        chosen = {given[name] for given in (inputs, outputs) if given.get(name) is not None}
        if len(chosen) > 1:
            raise ValueError(f"the tangent of `{name}` has two names: {', '.join(f'`{each}`' for each in sorted(chosen))}")
        roles = _INPUT * (name in inputs) | _OUTPUT * (name in outputs)
        tangents.append((name, chosen.pop() if chosen else f"d{name}", roles))
    return tuple(tangents)


def _written_kernel(kernel, asked):
    """The `@jit` function below decorators."""
    if isinstance(kernel, Gradient):
        raise TypeError(f"{asked} needs a kernel, found a gradient: give its `backward`")
    while not isinstance(kernel, JITFunction):
        inner = kernel.kernel if isinstance(kernel, _Backward) else getattr(kernel, "fn", None)
        if inner is None:
            raise TypeError(f"{asked} needs a kernel made with @jit, found {type(kernel).__name__}")
        kernel = inner
    return kernel


def _launch_parameters(tangents):
    """The parameters behind the tangents, with partial sums: as nrd_function_set_gradients says."""
    rows = [f"{tangent}_row" for _, tangent, roles in tangents if roles & _PARTIAL]
    return [*rows, *(f"programs_{axis}" for axis in range(3))] if rows else []


class Derivative(JITFunction):
    """A kernel that computes tangents or gradients. Made by `jvp` and `grad`."""

    __module__ = "nereid.differentiation"

    @classmethod
    def _of(cls, kernel, tangents, is_reverse, has_outputs=False):
        """has_outputs: of a gradient that also writes what the kernel writes."""
        self = cls.__new__(cls)
        self.__dict__.update(kernel.__copy__().__dict__, _built=False, kernel=None, _hash=None)
        self.primal = kernel
        by_name = {param.name: param for param in kernel.params}
        if is_reverse and not any(roles & _PARTIAL for *_, roles in tangents):
            taken = {*by_name, *(tangent for _, tangent, _ in tangents)}
            self.saved, self.step = _free("saved", taken), _free("step", taken)
            tangents = (*tangents, ("", self.saved, _SAVED), ("", self.step, _STEP))
        self._tangents = tangents
        # One entry for each derivative: (tangents, whether it is a gradient, whether it has the outputs). The extension reads them.
        self._derivatives = (*kernel.__dict__.get("_derivatives", ()), (tangents, is_reverse, has_outputs))
        self.params = list(kernel.params)
        for name, tangent, roles in tangents:
            of = by_name.get(name)
            # A gradient has not always the type of its parameter.
            keeps_type = of is not None and not of.is_const and not (is_reverse and roles & _INPUT)
            default = {_SAVED: None, _STEP: 0}.get(roles, _EMPTY)
            self.params.append(KernelParam(len(self.params), Param(tangent, default, of._param.annotation if keeps_type else _EMPTY),
                                           of is not None and of.do_not_specialize, of is not None and of.do_not_specialize_on_alignment,
                                           kernel.__globals__))
        for name in _launch_parameters(tangents):
            # A kernel that knows of the rows' alignment accesses several elements at once.
            unspecialized = not name.endswith("_row")
            self.params.append(KernelParam(len(self.params), Param(name, _EMPTY, _EMPTY), unspecialized, unspecialized, kernel.__globals__))
        self.arg_names = [param.name for param in self.params]
        self.pre_run_hooks = _Hooks(self)
        self._build()  # finds mistakes now, not at the first launch
        return self

    @property
    def cache_key(self):
        """That of the kernel, and what is differentiated."""
        return f"{self.primal.cache_key}-{self._derivatives[-1]!r}"

    def __repr__(self):
        kind = "gradient" if self._derivatives[-1][1] else "jvp"
        return f"<{kind} of {self.module}:{self.__qualname__}, {', '.join(tangent for name, tangent, _ in self._tangents if name)}>"


def jvp(kernel, wrt, out):
    """The derivative of a kernel in a direction (forward mode), as a kernel.

    It is launched as `kernel` is, with the tangents as further arguments: `d` and the name of the parameter. A tangent has the type of its
    parameter; that of a tensor also its shape and strides. The tangents of inputs are read, those of outputs are written, and the
    kernel's own outputs as well. A tangent that is None is taken as zero (inputs) or not stored (outputs).

    kernel: a `@jit` function; of one with `autotune` or `heuristics` the function itself, whose constexprs the launch gives.
    wrt: the parameters to differentiate with respect to: names, or {name: name of its tangent}.
    out: the parameters whose tangents to compute. A tensor that is read and written stands in both.

    The `backward` of a gradient is a kernel, too, which adds to gradients: those of inputs and their tangents are zero before the launch.

    Raises ValueError for names that are no parameters, CompilationError at the first launch for what has no derivative.
    """
    return Derivative._of(_written_kernel(kernel, "jvp"), _tangents_of(wrt, out), False)


class _Backward(KernelInterface):
    """Launches a gradient kernel on gradients that are zero, narrow ones in fp32, and on partial sums where these pay; one with two steps twice, with memory
    for what the first saves."""

    def __init__(self, kernel, narrow=()):
        self.kernel = kernel
        self._narrow = frozenset(narrow)  # gradients that are summed in their own dtype
        self._has_outputs = kernel._derivatives[-1][2]
        self._inputs = [tangent for _, tangent, roles in kernel._tangents if roles & _INPUT]
        self._whole = _whole_gradients.WholeGradients(kernel, self._inputs)
        self._shared = {}  # compiled kernel → {gradient: the axes of the grid whose programs add to the same elements}
        self._conditions = {}  # the same → the conditions of its schedules
        self._partial = {}  # names of gradients → the kernel that gives them as partial sums
        self._rows = {}  # compiled kernel → how many partial sums it had last
        self._saved_bytes = {}  # compiled kernel → how many bytes each of its programs saves, 0 for one step
        self._may_save = False  # whether any of them saves
        self._memory = {}  # device → memory for kernels that save nothing; it is not read
        self._launched = set()  # of the compiled kernels without partial sums, which may be compiled to know `_shared` alone
        self._chosen = {}  # key of a launch → (gradients that it writes whole, what `_summed` says of them, the option that `_options` gives)
        self._defaults = {param.name: param.default for param in kernel.primal.params if param.has_default}
        self._interprets = _is_interpreting()  # as for kernels, what holds when it is made

    def run(self, *args, grid, warmup, **kwargs):
        named = dict(zip(self.kernel.arg_names, args))
        if len(args) > len(self.kernel.arg_names):
            return self.kernel.run(*args, grid=grid, warmup=warmup, **kwargs)  # which refuses them
        given = named | kwargs
        # Where a dtype stands for a tensor, the grid may not be known.
        counts = self._counts(grid, given) if not warmup or any(hasattr(given.get(name), "untyped_storage") for name in self._inputs) else None
        if counts is not None:
            grid = counts  # a function is called once
        if warmup:
            return self._launch(args, named, kwargs, grid, counts, True, frozenset())
        self._check_places(given)
        key = self._whole.key(given, counts)
        has_no_key = key is None and self._whole.is_started
        whole = self._whole.of(key)
        compiled = self._launch(args, named, kwargs, grid, counts, False, whole or frozenset(), key, has_no_key)
        if compiled is None or (whole is not None and self._whole.has_seen(compiled)):
            return compiled

        def again(others, whole):
            self._launch(args, named | {name: each for name, each in others.items() if name in named}, kwargs | {name: each for name, each in others.items() if name in kwargs}, grid, counts,
                         False, whole)

        self._whole.launched(key, compiled, given, again)
        return compiled

    def _launch(self, args, named, kwargs, grid, counts, warmup, whole, key=None, has_no_key=False):
        """whole: gradients that the launch writes whole (_whole_gradients.py). key: of the launch, None where nothing is known of others like it; has_no_key: and
        never will be."""
        summed, options = self._choose(key, named, kwargs, counts, whole, has_no_key)
        if summed:
            return self._run_partial(named | kwargs | options if options else named | kwargs, *summed, warmup, whole)
        finish = []
        device = None
        for name in self._inputs:
            values = named if name in named else kwargs
            given = values.get(name)
            if name not in whole:
                own, given = given, _accumulator(given, finish, not warmup, name in self._narrow)
                if given is not own:
                    if values is named:
                        named = named | {name: given}
                    else:
                        kwargs = kwargs | {name: given}
            if device is None and hasattr(given, "zero_"):
                device = given.device
        args = tuple(named.values())  # in the order of the parameters
        if device is None:  # arrays, descriptors, tuples
            compiled = self.kernel.run(*args, grid=grid, warmup=warmup, **kwargs)
        else:
            compiled = self._run_steps(args, kwargs | options if options else kwargs, grid, counts, warmup, device)
        self._launched.add(compiled)
        if not warmup:
            for copy in finish:
                copy()
        return compiled

    def _check_places(self, given):
        """Gradients of inputs are cleared and overwritten: one that has the place of another gradient, or of what the kernel reads, would lose it."""
        places = {}
        for _, tangent, _ in self.kernel._tangents:
            place = getattr(given.get(tangent), "data_ptr", int)()
            if place and (other := places.setdefault(place, tangent)) != tangent and (tangent in self._inputs or other in self._inputs):
                raise ValueError(f"the gradients `{other}` and `{tangent}` are in one place in memory: give each a tensor of its own")
        if self._interprets or _checks({name: value for name, value in given.items() if name not in self.kernel.arg_names}):
            self._check_overlaps(given)

    def _check_overlaps(self, given):
        """The same for all elements, in checked mode. Outputs that are neither read nor written may be in the place of a gradient."""
        unused = set() if self._has_outputs else {name for name, _, roles in self.kernel._tangents if roles & _OUTPUT}
        read = [(name, tensor) for name, value in given.items() if name not in unused and name not in self._inputs for tensor in _tensors_of(value)]
        written = [(name, tensor) for name in self._inputs for tensor in _tensors_of(given.get(name))]
        for i, (name, tensor) in enumerate(written):
            for other, its in (*written[:i], *read):
                if _meet(tensor, its):
                    raise ValueError(f"the gradient `{name}` shares memory with {f'`{other}`' if other != name else 'itself'}: its elements need places of their own")

    def _choose(self, key, named, kwargs, counts, whole, has_no_key):
        """What `_summed` and `_options` say, without asking again for what launches with this key are."""
        known = self._chosen.get(key) if key is not None else None
        if known is not None and known[0] == whole:
            return known[1:]
        options, is_complete = (None, True) if has_no_key else self._options(named, kwargs, counts)
        summed = self._summed(named, kwargs | options if options else kwargs, counts, whole)
        if key is not None and is_complete:
            if len(self._chosen) >= _whole_gradients.MOST_KEYS:
                self._chosen.clear()
            self._chosen[key] = whole, summed, options
        return summed, options

    def _options(self, named, kwargs, counts):
        """The option that leaves alternatives out that the launch does not take, None where there are none or not known; and whether keys of launches tell the scalars
        from which this follows."""
        given = self._defaults | named | kwargs
        device = next((value.device for value in map(given.get, self._inputs) if hasattr(value, "zero_")), None)
        chosen_on = _gradient_conditions.CHOSEN_ON
        if device is None or device.type not in chosen_on or "gradient_conditions" in kwargs or not self._whole.has_key(named | kwargs, counts):
            return None, True
        facts = self._facts(named, kwargs, counts, device)
        if facts._values["target"].split(":")[0] not in chosen_on:
            return None, True
        conditions = self._conditions.get(facts)
        if conditions is None:
            conditions = self._conditions[facts] = _gradient_conditions.Conditions(facts)
        is_new = self._whole.is_started and self._whole.learn(conditions.scalars)
        option = conditions.option(given, counts)
        return {"gradient_conditions": option} if option else None, not is_new

    def _summed(self, named, kwargs, counts, whole):
        """(gradients that are partial sums, programs along the axes, programs to launch); None where there are none."""
        given = named | kwargs
        gradients = {name: given.get(name) for name in self._inputs if name not in whole}
        if not any(hasattr(each, "untyped_storage") for each in gradients.values()):
            return None
        programs = math.prod(counts) if counts else 0
        if not 1 < programs < 1 << 31:
            return None
        from . import _partial_sums
        tensors = [each for each in (given.get(tangent) for _, tangent, _ in self.kernel._tangents) if hasattr(each, "untyped_storage")]
        rows = _partial_sums.rows_for(programs, tensors[0].device)
        elements = sum(tensor.numel() for tensor in tensors)
        chosen = [name for name, each in gradients.items() if _partial_sums.is_worth(each, rows, elements)]
        if not chosen or any(name in self.kernel.arg_names for name in _launch_parameters([("", name, _PARTIAL) for name in chosen])):
            return None
        shared = self._shared_axes(named, kwargs, counts, tensors[0].device)
        chosen = tuple(name for name in chosen if any(shared.get(name, 0) >> axis & 1 and counts[axis] > 1 for axis in range(3)))
        if not chosen:
            return None
        if tensors[0].is_cuda:
            kernel, arguments = self._with_partial(given, chosen, counts, 1, whole, [], False)
            most = _partial_sums.most_rows([gradients[name] for name in chosen], elements)
            rows = _partial_sums.rows_of(kernel.run(grid=(1, ), warmup=True, **arguments), programs, tensors[0].device, most) or rows
        return chosen, counts, rows

    def _counts(self, grid, given):
        """How many programs there are along each axis; None where the grid does not say."""
        counts = grid(self._defaults | given) if callable(grid) else grid
        if counts is None:
            return None
        counts = counts if isinstance(counts, (tuple, list)) else (counts, )
        return (*(int(count) for count in counts), 1, 1)[:3]

    def _shared_axes(self, named, kwargs, grid, device):
        """What the compiler finds before it makes code: of the kernel without partial sums. Nothing for one with two steps, which has none."""
        compiled = self._facts(named, kwargs, grid, device)
        shared = self._shared.get(compiled)
        if shared is None:
            found = {param["name"]: param["shared_axes"] for param in compiled._values["params"] if "shared_axes" in param}
            shared = self._shared[compiled] = {} if self._has_steps(compiled) else found
        return shared

    def _facts(self, named, kwargs, grid, device):
        """The kernel without partial sums and with all alternatives, compiled as far as its differentiation."""

        def wide(name, value):
            return _accumulator(value, [], False, name in self._narrow) if name in self._inputs else value

        return self.kernel.run(*(wide(name, value) for name, value in named.items()), grid=grid, warmup=True,
                               **{name: wide(name, value) for name, value in kwargs.items() if name != "gradient_conditions"}, **self._asking(device), gradient_facts=True)

    def _asking(self, device):
        """With these arguments a kernel with two steps stores how many bytes each program saves, and one with one step does all."""
        memory = self._memory.get(device)
        if memory is None:
            import torch
            memory = self._memory[device] = torch.empty(16, dtype=torch.uint8, device=device)
        return {self.kernel.saved: memory, self.kernel.step: -1}

    def _has_steps(self, compiled):
        return any(param["name"] == self.kernel.saved and param["written"] for param in compiled._values["params"])

    def _ask(self, args, kwargs, grid, device):
        """How many bytes each program of a kernel with two steps saves; 0 where the grid has no programs. Other threads may ask for other kernels."""
        import torch
        answer = torch.zeros(16, dtype=torch.uint8, device=device)
        self.kernel.run(*args, grid=grid, warmup=False, **kwargs, **{self.kernel.saved: answer, self.kernel.step: -1})
        return int.from_bytes(answer[:8].tolist(), "little")

    def _run_steps(self, args, kwargs, grid, counts, warmup, device):
        """Launches the kernel without partial sums. While no kernel with two steps is known, without compiling first."""
        asking = self._asking(device)
        may_save = self._may_save
        compiled = self.kernel.run(*args, grid=grid, warmup=warmup or may_save, **kwargs, **asking)
        if warmup or compiled is None:
            return compiled
        saved_bytes = self._saved_bytes.get(compiled)
        if saved_bytes is None:
            saved_bytes = 0
            if self._has_steps(compiled):
                saved_bytes = self._ask(args, kwargs, grid, device)
                if not saved_bytes:  # the grid is empty, and so no program has answered
                    return compiled
                self._may_save = True
            self._saved_bytes[compiled] = saved_bytes
        if not saved_bytes:
            if may_save:  # it was not launched
                self.kernel.run(*args, grid=grid, warmup=False, **kwargs, **asking)
            return compiled
        import torch
        memory = torch.empty(max(16, math.prod(counts) * saved_bytes), dtype=torch.uint8, device=device)
        for step in range(2):
            self.kernel.run(*args, grid=grid, warmup=False, **kwargs, **{self.kernel.saved: memory, self.kernel.step: step})
        return compiled

    def _with_partial(self, given, chosen, counts, rows, whole, finish, clear):
        """The kernel that gives the chosen gradients as partial sums, and its arguments. `finish`, `clear`: as for `_accumulator`."""
        kernel = self._partial.get(chosen)
        if kernel is None:
            tangents = tuple((name, tangent, roles | _PARTIAL * (tangent in chosen)) for name, tangent, roles in self.kernel._tangents if name)
            kernel = self._partial[chosen] = Derivative._of(self.kernel.primal, tangents, True, self._has_outputs)
        from . import _partial_sums
        given = dict(given)
        gradients = [given[name] for name in chosen]
        sums = _partial_sums.make(gradients, rows)
        finish.append(lambda: _partial_sums.add(sums, gradients))
        for name, matrix in zip(chosen, sums):
            given[name] = matrix
            given[f"{name}_row"] = matrix.stride(0)
        for name in self._inputs:
            if name not in chosen and name in given and name not in whole:
                given[name] = _accumulator(given[name], finish, clear, name in self._narrow)
        return kernel, given | {f"programs_{axis}": count for axis, count in enumerate(counts)}

    def _run_partial(self, given, chosen, counts, rows, warmup, whole):
        finish = []
        kernel, arguments = self._with_partial(given, chosen, counts, rows, whole, finish, not warmup)
        compiled = kernel.run(grid=(rows, ), warmup=warmup, **arguments)
        if not warmup:
            for each in finish:
                each()
        self._rows[compiled] = rows
        return compiled

    def _compiled(self):
        """(kernel, how many partial sums it has or 0) of all that were launched or compiled for a launch."""
        for kernel in (self.kernel, *self._partial.values()):
            for compiled in kernel._kernels():
                if compiled in self._rows or compiled in self._launched:
                    yield compiled, self._rows.get(compiled, 0)

    def __repr__(self):
        return f"<backward {self.kernel!r}>"


def _accumulator(gradient, finish, clear, narrow):
    """What the kernel adds to in place of this gradient: itself, or one of fp32 unless `narrow`; zero, with `clear`. `finish` gets what remains to be done
    after the launch."""
    if gradient is None:
        return None
    if isinstance(gradient, tuple):
        items = [_accumulator(item, finish, clear, narrow) for item in gradient]
        return type(gradient)(*items) if hasattr(gradient, "_fields") else tuple(items)
    base = getattr(gradient, "base", None)
    if hasattr(gradient, "block_shape") and base is not None:  # a tensor descriptor
        if clear:
            base.zero_()
        return gradient
    if not hasattr(gradient, "zero_"):
        if clear:
            if not hasattr(gradient, "dtype"):
                raise TypeError(f"a gradient is {type(gradient).__name__}: expected a tensor of the shape of its parameter, or None")
            gradient[...] = 0
        return gradient
    distinct = _distinct(gradient)
    if gradient.element_size() == 2 and gradient.is_floating_point() and not narrow:
        import torch

        # As large as the memory behind a view: a kernel may add to elements outside.
        memory = torch.empty(gradient.untyped_storage().nbytes() // 2, dtype=torch.float32, device=gradient.device)
        if clear:
            memory.zero_()
        finish.append(lambda: distinct.copy_(memory.as_strided(distinct.size(), distinct.stride(), distinct.storage_offset())))
        return memory.as_strided(gradient.size(), gradient.stride(), gradient.storage_offset())
    if clear:
        distinct.zero_()
    return gradient


def shares_memory(tensor):
    """Whether elements may share memory: strides, sorted, do not step over what the smaller ones reach."""
    reach = 0
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _checks(options):
    """Whether a launch is in checked mode."""
    checked = options.get("nereid_checked", options.get("checked"))
    if checked is None:
        import os
        checked = os.environ.get("NEREID_CHECKED", "").strip().lower() in ("1", "true", "yes", "on", "y")
    return bool(checked)


def _tensors_of(value):
    """The tensors of PyTorch in the memory of a CPU that an argument leads to, without those that have no elements."""
    if isinstance(value, tuple):
        return [tensor for item in value for tensor in _tensors_of(item)]
    if hasattr(value, "block_shape"):  # a tensor descriptor
        value = getattr(value, "base", None)
    return [value] if hasattr(value, "untyped_storage") and value.device.type == "cpu" and value.numel() else []


def _meet(a, b):
    """Whether an element of one tensor shares a byte with one of the other."""

    def bytes_of(tensor):
        size = tensor.element_size()
        sizes = [1 if stride == 0 else count for count, stride in zip(tensor.shape, tensor.stride())]
        strides = [stride * size for stride in tensor.stride()]
        return tensor.data_ptr(), (*sizes, size), (*strides, 1), size + sum((count - 1) * stride for count, stride in zip(sizes, strides))

    (at, *_, length), (other, *_, its) = bytes_of(a), bytes_of(b)
    if at >= other + its or other >= at + length:
        return False
    import torch
    begin = min(at, other)
    marks = torch.zeros(max(at + length, other + its) - begin, dtype=torch.bool)
    views = [marks.as_strided(sizes, strides, place - begin) for place, sizes, strides, _ in map(bytes_of, (a, b))]
    views[0].fill_(True)
    return bool(views[1].any())


def _distinct(gradient):
    """Each element of a tensor once: of an expanded one, whose dimensions of stride 0 hold one element, these without the repetitions."""
    if gradient.is_contiguous():
        return gradient
    distinct = gradient
    for dim, stride in enumerate(gradient.stride()):
        if stride == 0 and gradient.size(dim) > 1:
            distinct = distinct.narrow(dim, 0, 1)
    if shares_memory(distinct):
        raise ValueError(f"elements of a gradient overlap in memory: its shape is {tuple(gradient.shape)}, its strides {tuple(gradient.stride())}; give a "
                         f"tensor whose elements have places of their own")
    return distinct


class Gradient:
    """The gradient of a kernel. Made by `grad`.

    backward: launched as the kernel is, `backward[grid](*args, dy=dy, dx=dx)`: reads the gradients of the outputs and writes those of the
    inputs, of the same dtype, shape and strides. The gradient of a number is a tensor of one element. None for that of an output is
    zero, for that of an input it is not computed.
    """

    __module__ = "nereid.differentiation"

    def __init__(self, kernel, wrt, out, narrow=(), outputs=False):
        self.kernel = kernel
        tangents = _tangents_of(wrt, out)
        names = {name: tangent for name, tangent, roles in tangents if roles & _INPUT}
        narrow = (narrow, ) if isinstance(narrow, str) else narrow
        for name in narrow:
            if name not in names:
                raise ValueError(f"`narrow` names `{name}`, which is not in `wrt`: expected some of {', '.join(f'`{each}`' for each in names)}")
        self.backward = _Backward(Derivative._of(kernel, tangents, True, outputs), [names[name] for name in narrow])

    def explain(self):
        """For each kernel that was compiled, how each gradient is summed and why, as text. It compiles them again."""
        return _explained(self.backward._compiled()) or "nothing is compiled yet: launch `backward`, or call `backward.warmup`"

    def __repr__(self):
        return f"<gradient of {self.kernel!r}>"


def _explained(kernels):
    """How the kernels of a gradient sum each gradient, as text; "" where there are none. kernels: (compiled kernel, how many partial sums it has or 0)."""
    import json
    lines = []
    for compiled, rows in kernels:
        lines.append(f"{compiled.name}({', '.join(f'{name}: {kind}' for name, kind in compiled.src.signature.items())}):")
        lines += [f"  {gradient['text']}" for gradient in json.loads(compiled.asm["explain"])["gradients"]]
        if rows:
            lines.append(f"  last launched with {rows} partial sums")
    return "\n".join(lines)


def _free(name, taken):
    """The name, or one made from it that is not taken: what the gradient of a parameter is called."""
    while name in taken:
        name = f"gradient_{name}"
    return name


def _bound(name, params, defaults, not_given, args, kwargs):
    """{parameter: value} of a call, with keywords that are no parameters; not_given: {parameter: why a call does not give it}."""
    if len(args) > len(params):
        raise TypeError(f"{name}({', '.join(params)}) takes {len(params)} arguments, found {len(args)}")
    given = dict(zip(params, args))
    for each, value in kwargs.items():
        if each in given:
            raise TypeError(f"{name}: `{each}` is given twice")
        if each in not_given:
            raise TypeError(f"{name}: `{each}` is not given in a call: it is {not_given[each]}")
        given[each] = value
    for each in params:
        if each not in given:
            if each not in defaults:
                raise TypeError(f"{name}: the argument `{each}` is missing")
            given[each] = defaults[each]
    return given


def _is_rule(value):
    """Whether it computes an argument of an operator from others."""
    import functools
    import types
    return isinstance(value, (types.FunctionType, types.MethodType, functools.partial))


def grad(kernel, wrt, out, narrow=(), outputs=False):
    """The gradient of a kernel (reverse mode): `grad(kernel, wrt, out).backward[grid](*args, dy=dy, dx=dx)`.

    kernel: a `@jit` function whose `while` loops around what is differentiated have a bound (`tl.at_most`); of one with `autotune` or `heuristics` the
    function itself. The `backward` of another gradient gives second derivatives; the names of their gradients must differ from those that it has.
    wrt: the parameters whose gradients to compute: names, or {name: name of its gradient}.
    out: the parameters whose gradients are given. No parameter stands in both.
    narrow: parameters in `wrt` whose gradients of fp16 and bf16 are summed in this dtype, not in fp32: each addition to memory rounds, and there is no buffer of fp32 to
        clear and to convert. Partial sums stay in fp32.
    outputs: whether `backward` also writes everything that the kernel writes: outputs and gradients in one launch, for losses, whose own gradient is known beforehand.
        Outputs that the kernel adds to are not cleared. What `tl.save` stores is stored, and not read.

    Raises ValueError for names that are no parameters or not in `wrt`, CompilationError at the first launch for what has no gradient.
    """
    if not isinstance(outputs, bool):
        raise TypeError(f"`outputs` is True or False, found {outputs!r}: the outputs' names are given in `out`")
    return Gradient(_written_kernel(kernel, "grad"), wrt, out, narrow, outputs)


def derivative(function):
    """A decorator: a rule for the derivative of a `@jit` function that kernels call, in place of what the compiler would derive.

        @nereid.derivative(softplus)
        @nereid.jit
        def softplus_tangent(x, dx):
            return dx * tl.sigmoid(x)

    The rule takes the parameters of `function`, by the same names and in the same order, then the tangents of those that have one: `d` and the name; the
    derivative in the others is zero. It returns the tangent of the result, a tuple of them for several results, and is linear in tangents. It serves
    `jvp` and `grad`, which transposes it. Within the rule nothing has a derivative but the tangents. Kernels that are not differentiated do not contain it.

    function: a `@jit` function with named parameters, which no kernel has called yet. The rule is returned as it is.

    Raises TypeError for what is no `@jit` function, ValueError for parameters that do not fit and for a second rule, RuntimeError where a kernel
    that calls the function has been compiled.
    """
    if not isinstance(function, JITFunction):
        raise TypeError(f"derivative needs a function made with @jit, found {type(function).__name__}")

    def attach(rule):
        if not isinstance(rule, JITFunction):
            raise TypeError(f"a rule is a function made with @jit, found {type(rule).__name__}")
        _attach(function, rule)
        return rule

    return attach


def _attach(function, rule):
    """Puts a function in place of `function` that calls it with constant arguments, and gives the result the tangent that the rule computes."""
    import ast

    from . import language
    name, names = function.__name__, function.arg_names
    if function.__dict__.get("_has_rule"):
        raise ValueError(f"`{name}` has a rule already")
    if function._built:
        raise RuntimeError(f"`{name}` is part of a compiled kernel already: give its derivative where it is defined")
    tangents = rule.arg_names[len(names):]
    possible = {f"d{param.name}": param.name for param in function.params if not param.is_constexpr}
    if rule.arg_names[:len(names)] != names or not tangents or any(tangent not in possible for tangent in tangents):
        raise ValueError(f"`{rule.__name__}` takes {', '.join(f'`{each}`' for each in rule.arg_names)}: a rule of `{name}` takes "
                         f"{', '.join(f'`{each}`' for each in names)}, then `d` and a name for each of them that has a tangent")
    parameters = function.parse().body[0].args
    if parameters.vararg or parameters.kwarg:
        raise ValueError(f"`{name}` takes any number of arguments: a rule needs parameters with names")
    primal = function.__copy__()
    given = ", ".join(f"{each}=_nereid_tl.detach({each})" for each in names)
    seeds = ", ".join(f"{tangent}=_nereid_tl.with_tangent(_nereid_tl.zeros_like(_nereid_tl.to_tensor({of})), {of})"
                      for tangent, of in possible.items() if tangent in tangents)
    text = (f"def {name}({ast.unparse(parameters)}):\n"
            f"    return _nereid_tl.with_tangent(_nereid_function({given}), _nereid_rule({given}, {seeds}))\n")
    scope = {**function.__globals__, "_nereid_tl": language, "_nereid_function": primal, "_nereid_rule": rule}
    function.__dict__.update({"_text": text, "_src": text, "__globals__": scope, "_file": f"<rule of {name}>", "starting_line_number": 1, "_hash": None,
                              "_has_rule": True})
