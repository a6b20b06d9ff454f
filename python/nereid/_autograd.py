"""`nereid.autograd`: a kernel and its gradient as an operator of PyTorch. docs/differentiation.md."""

import hashlib

import torch

from .differentiation import _bound, _free, _is_rule, _names, _written_kernel, grad, shares_memory

_NAMESPACE = "nereid_autograd"
_NON_CONTIGUOUS = ("refuse", "copy", "keep")
_taken = set()  # names of operators


class Operator:
    """A differentiable operator of PyTorch. Made by `autograd`.

    Called with the kernel's parameters, without those in `out` and in `arguments`, in their order or by name; further keywords are compile
    options. Returns the tensor in `out`, or a tuple of them.

    operator: what `torch.library.custom_op` returned, for `torch.library.opcheck`, `register_autocast` and the like.
    """

    __module__ = "nereid._autograd"

    def __init__(self, kernel, wrt, out, grid, arguments, numbers, non_contiguous, saved, narrow):
        self.kernel = kernel
        self.grid = grid
        self._wrt = tuple(_names(wrt, "wrt"))
        self._rules = dict(out) if isinstance(out, dict) else dict.fromkeys((out, ) if isinstance(out, str) else out)
        self._fixed = dict(arguments or {})
        self._numbers = (numbers, ) if isinstance(numbers, str) else tuple(numbers)
        self._non_contiguous = non_contiguous
        self._saved = (saved, ) if isinstance(saved, str) else tuple(saved)
        self._narrow = (narrow, ) if isinstance(narrow, str) else tuple(narrow)
        self._check()
        self._tensor_wrt = tuple(name for name in self._wrt if name not in self._numbers)
        for name, rule in self._rules.items():
            if rule is None:
                if not self._tensor_wrt:
                    raise ValueError(f"how `{name}` is allocated has to be said, as `out={{\"{name}\": ...}}`: all of `wrt` are numbers")
                self._rules[name] = self._tensor_wrt[0]
        self._params = tuple(name for name in kernel.arg_names if name not in self._rules and name not in self._fixed)
        self._defaults = {param.name: param.default for param in kernel.params if param.has_default}
        self._not_given = dict.fromkeys(self._fixed, "in `arguments`") | dict.fromkeys(self._rules, "allocated, as `out` says")
        # A gradient is `d` and the name of its parameter, unless the kernel has a parameter of this name.
        self._gradient_of = {name: _free(f"d{name}", kernel.arg_names) for name in (*self._wrt, *self._rules)}
        self._gradients = {}  # by the outputs that are differentiated
        self._higher_gradients = {}  # by these and the order
        self._calls = {}  # what calls hold, by their text
        self._checked = set()
        self.__name__ = kernel.__name__
        self.__doc__ = kernel.__doc__
        self._register()

    def _check(self):
        kernel = self.kernel
        for what, names in (("wrt", self._wrt), ("out", self._rules), ("arguments", self._fixed), ("numbers", self._numbers)):
            for name in names:
                if name not in kernel.arg_names:
                    raise ValueError(f"`{name}` in `{what}` is no parameter of `{kernel.__name__}`: it has {', '.join(f'`{each}`' for each in kernel.arg_names)}")
        if not self._wrt or not self._rules:
            raise ValueError(f"`{kernel.__name__}` cannot be differentiated without inputs and outputs: name parameters in `wrt` and in `out`")
        for name in self._rules:
            if name in self._wrt:
                raise ValueError(f"`{name}` is in `wrt` and in `out`: an operator does not write its inputs; let the kernel write another tensor")
            if name in self._fixed:
                raise ValueError(f"`{name}` is in `arguments` and in `out`: outputs are allocated by the rules in `out`")
        for name, rule in self._rules.items():
            if rule is None or _is_rule(rule):
                continue
            if rule not in kernel.arg_names or rule in self._rules:
                raise ValueError(f"`out` says that `{name}` is like {rule!r}: expected the name of an input of `{kernel.__name__}`, or a function "
                                 f"of the arguments that returns a new tensor")
        for name in self._saved:
            if name not in self._rules:
                raise ValueError(f"`{name}` in `saved` is not in `out`: name there how it is allocated")
        for name in self._narrow:
            if name not in self._wrt:
                raise ValueError(f"`narrow` names `{name}`, which is not in `wrt`")
        if all(name in self._saved for name in self._rules):
            raise ValueError(f"all outputs of `{kernel.__name__}` are in `saved`: the operator would return nothing")
        for name in self._numbers:
            if name not in self._wrt:
                raise ValueError(f"`{name}` in `numbers` is not in `wrt`: numbers without a gradient are given as numbers")
        if self._non_contiguous not in _NON_CONTIGUOUS:
            raise ValueError(f"`non_contiguous` is {self._non_contiguous!r}: expected one of {', '.join(map(repr, _NON_CONTIGUOUS))}")

    def _register(self):
        schema = "(Tensor[] tensors, SymInt[] integers, float[] floats, str call)"
        backward = "(Tensor[] tensors, SymInt[] integers, float[] floats, str call, Tensor[] gradients, int[] given, int[] wanted, Tensor[] kept)"
        results = "Tensor" if len(self._rules) == 1 else f"({', '.join(['Tensor'] * len(self._rules))})"
        name = _operator_name(self)
        custom = torch.library.custom_op
        self.operator = custom(f"{_NAMESPACE}::{name}", self._forward, mutates_args=(), schema=f"{schema} -> {results}")
        self._backward_operator = custom(f"{_NAMESPACE}::{name}_backward", self._backward, mutates_args=(), schema=f"{backward} -> Tensor[]")
        higher = "(Tensor[] tensors, SymInt[] integers, float[] floats, str call, Tensor[] given, int[] places, int[] wanted, int order)"
        self._higher_operator = custom(f"{_NAMESPACE}::{name}_higher", self._higher, mutates_args=(), schema=f"{higher} -> Tensor[]")
        self.operator.register_fake(self._fake_forward)
        self._backward_operator.register_fake(self._fake_backward)
        self.operator.register_autograd(self._differentiate, setup_context=self._save)
        self._backward_operator.register_autograd(self._differentiate_twice, setup_context=self._save_twice)
        self._higher_operator.register_fake(self._fake_higher)
        self._higher_operator.register_autograd(self._differentiate_higher, setup_context=self._save_higher)
        for each in (self.operator, self._backward_operator, self._higher_operator):
            each.register_vmap(self._refuse_vmap)
        self._overload = getattr(getattr(torch.ops, _NAMESPACE), name).default

    # ---- calls: plain Python that torch.compile traces

    def __call__(self, *args, **kwargs):
        given = _bound(self.__name__, self._params, self._defaults, self._not_given, args, kwargs)
        tensors, integers, floats, kinds = [], [], [], []
        grad_enabled = torch.is_grad_enabled()
        for name, value in given.items():
            if isinstance(value, torch.Tensor):
                if name not in self._wrt and grad_enabled and value.requires_grad:
                    raise ValueError(f"{self.__name__}: `{name}` requires a gradient and is not in `wrt`: name it there, or give `{name}.detach()`")
                kinds.append(f"{name}:tensor")
                tensors.append(value)
            elif value is None or isinstance(value, bool):
                kinds.append(f"{name}:{value}")
            elif isinstance(value, (int, torch.SymInt)):
                kinds.append(f"{name}:integer")
                integers.append(value)
            elif isinstance(value, float):
                kinds.append(f"{name}:float")
                floats.append(value)
            elif isinstance(value, str) and "\n" not in value:
                kinds.append(f"{name}:text:{value}".replace("%", "%25").replace(";", "%3B"))
            else:
                raise TypeError(f"{self.__name__}: `{name}` is {type(value).__name__}: expected a tensor, a number, a text of one line or None; other "
                                f"constants are given once, as `arguments={{\"{name}\": ...}}`")
        for name in self._tensor_wrt:
            if f"{name}:tensor" not in kinds and name in given and given[name] is not None:
                raise TypeError(f"{self.__name__}: `{name}` is in `wrt`: expected a tensor, found {type(given[name]).__name__}; a number that has a "
                                f"gradient is named in `numbers`, and given as a tensor of one element")
        call = ";".join(kinds)  # one line: Inductor writes it into comments
        if torch.compiler.is_compiling() or not _are_plain(tensors):
            return self._shown(self._overload(tensors, integers, floats, call))
        if grad_enabled and any(tensor.requires_grad for tensor in tensors):
            return self._shown(_Plain.apply(self, integers, floats, call, *tensors))
        return self._shown(self._forward(tensors, integers, floats, call))

    def _shown(self, outputs):
        """What a call returns: all but what is saved for the backward pass."""
        if not self._saved:
            return outputs
        shown = tuple(output for name, output in zip(self._rules, outputs) if name not in self._saved)
        return shown if len(shown) > 1 else shown[0]

    # ---- what runs

    def _kinds(self, call):
        kinds = self._calls.get(call)
        if kinds is None:
            kinds = self._calls[call] = [kind.replace("%3B", ";").replace("%25", "%").split(":", 2) for kind in call.split(";")] if call else []
        return kinds

    def _arguments(self, tensors, integers, floats, call, fake=False):
        """{parameter: argument}, and compile options, without outputs. Tensors by value stay tensors with `fake`."""
        tensors, integers, floats = iter(tensors), iter(integers), iter(floats)
        arguments = {}
        for name, kind, *text in self._kinds(call):
            if kind == "tensor":
                value = next(tensors)
                if name in self._numbers:
                    if value.numel() != 1:
                        raise ValueError(f"{self.__name__}: `{name}` is a number: expected a tensor of one element, found the shape {tuple(value.shape)}")
                    value = value if fake else value.item()
                else:
                    value = self._laid_out(name, value)
            elif kind == "integer":
                value = next(integers)
            elif kind == "float":
                value = next(floats)
            else:
                value = text[0] if text else {"None": None, "True": True, "False": False}[kind]
            arguments[name] = value
        for name, value in self._fixed.items():
            arguments[name] = value(arguments) if _is_rule(value) else value
        return arguments

    def _laid_out(self, name, tensor):
        if tensor.is_contiguous():
            return tensor
        if self._non_contiguous == "copy":
            return tensor.contiguous()
        if self._non_contiguous == "refuse":
            raise ValueError(f"{self.__name__}: `{name}` is not contiguous, its strides are {tuple(tensor.stride())}: give `{name}.contiguous()`; or say "
                             f"`non_contiguous=\"copy\"` for a kernel that expects contiguous tensors, \"keep\" for one that takes strides")
        if name in self._wrt and shares_memory(tensor):
            raise ValueError(f"{self.__name__}: elements of `{name}` share memory, its strides are {tuple(tensor.stride())}: give `{name}.contiguous()`")
        return tensor

    def _allocated(self, arguments):
        outs = {}
        for name, rule in self._rules.items():
            if _is_rule(rule):
                outs[name] = rule(arguments)
                if not isinstance(outs[name], torch.Tensor):
                    raise TypeError(f"{self.__name__}: the rule of `{name}` in `out` returned {type(outs[name]).__name__}: expected a new tensor")
                self._check_is_new(name, outs, arguments)
            elif not isinstance(arguments.get(rule), torch.Tensor):
                raise TypeError(f"{self.__name__}: `{name}` is to be like `{rule}`, which is no tensor")
            else:
                outs[name] = torch.empty_like(arguments[rule])
        return outs

    def _check_is_new(self, name, outs, arguments):
        """The kernel overwrites it: PyTorch would not know that an input, which the backward pass reads, has changed."""
        memory = outs[name].untyped_storage()._cdata
        for other, value in (*arguments.items(), *outs.items()):
            if other != name and isinstance(value, torch.Tensor) and value.untyped_storage()._cdata == memory:
                raise ValueError(f"{self.__name__}: the rule of `{name}` in `out` returned memory of `{other}`: expected a new tensor, as of `torch.empty_like`")

    def _forward(self, tensors, integers, floats, call):
        arguments = self._arguments(tensors, integers, floats, call)
        outs = self._allocated(arguments)
        compiled = self.kernel[self._grid_of(arguments | outs)](**arguments, **outs)
        if compiled is not None and compiled not in self._checked:
            self._check_writes(compiled)
        return _returned(outs)

    def _fake_forward(self, tensors, integers, floats, call):
        return _returned(self._allocated(self._arguments(tensors, integers, floats, call, fake=True)))

    def _grid_of(self, arguments):
        return self.grid(arguments) if callable(self.grid) else self.grid

    def _check_writes(self, compiled):
        """A kernel may write what it is given besides its outputs: PyTorch would not know."""
        written = {param["name"] for param in compiled._values["params"] if param["written"]}
        for name in self.kernel.arg_names:
            if name in written and name not in self._rules:
                raise ValueError(f"`{self.__name__}` writes `{name}`, which is not in `out`: an operator writes new tensors only")
        self._checked.add(compiled)

    # ---- gradients

    def _save(self, ctx, inputs, output):
        tensors, *ctx.rest = inputs
        kept = [value for name, value in zip(self._rules, output) if name in self._saved] if self._saved else ()
        ctx.save_for_backward(*tensors, *kept)
        if kept:
            ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)

    def _differentiate(self, ctx, *gradients):
        integers, floats, _ = ctx.rest
        found = self._found(ctx, gradients, ctx.needs_input_grad[0], self._backward_operator)
        return found, None if integers else [], None if floats else [], None

    def _found(self, ctx, gradients, needed, backward):
        """The gradient of each tensor of a call, None where none is needed. `backward` computes those that are."""
        saved, (integers, floats, call) = list(ctx.saved_tensors), ctx.rest
        names = self._tensor_names(call)
        tensors, kept = saved[:len(names)], saved[len(names):]
        wanted = [i for i, name in enumerate(names) if needed[i] and name in self._wrt]
        found = [None] * len(tensors)
        # Lists without None: PyTorch's operators do not differentiate others.
        given = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if wanted and given:
            for i, gradient in zip(wanted, backward(tensors, integers, floats, call, [gradients[i] for i in given], given, wanted, kept)):
                found[i] = gradient
        return found

    def _gradient(self, outs):
        """The gradient from these outputs."""
        gradient = self._gradients.get(outs)
        if gradient is None:
            gradient = self._gradients[outs] = grad(self.kernel, {name: self._gradient_of[name] for name in self._wrt}, {name: self._gradient_of[name] for name in outs}, self._narrow)
        return gradient

    def _differentiated(self, outs):
        """The outputs that have gradients."""
        return tuple(name for name in outs if outs[name].is_floating_point() and name not in self._saved)

    def _backward(self, tensors, integers, floats, call, gradients, given, wanted, kept):
        arguments = self._arguments(tensors, integers, floats, call)
        outs = self._allocated(arguments) | dict(zip(self._kept_names(), kept))
        floating = self._differentiated(outs)
        from_outs = self._place_gradients(outs, floating, gradients, given)
        found = self._new_gradients(tensors, call, wanted, arguments)
        passed = {self._gradient_of[name]: None for name in self._wrt} | {self._gradient_of[name]: each for name, each in found.items()}
        self._gradient(floating).backward[self._grid_of(arguments | outs)](**arguments, **outs, **from_outs, **passed)
        return self._as_inputs(tensors, wanted, found)

    def _place_gradients(self, outs, floating, gradients, given):
        """{name: gradient or None} of the outputs, which take the places of the outputs themselves: the kernel neither reads nor writes these."""
        names = list(outs)
        placed = {self._gradient_of[name]: None for name in floating}
        for i, gradient in zip(given, gradients):
            name, out = names[i], outs[names[i]]
            if name in floating:
                outs[name] = placed[self._gradient_of[name]] = gradient if gradient.stride() == out.stride() else out.copy_(gradient)
        return placed

    def _kept_names(self):
        return [name for name in self._rules if name in self._saved]

    def _fake_backward(self, tensors, integers, floats, call, gradients, given, wanted, kept):
        arguments = self._arguments(tensors, integers, floats, call, fake=True)
        found = self._new_gradients(tensors, call, wanted, arguments)
        return [torch.empty_like(tensors[i]) if name in self._numbers else gradient for i, (name, gradient) in zip(wanted, found.items())]

    def _new_gradients(self, tensors, call, wanted, arguments):
        """{parameter: an empty tensor for its gradient} of the wanted tensors."""
        names = self._tensor_names(call)
        return {names[i]: self._new_gradient(names[i], tensors[i], arguments) for i in wanted}

    def _new_gradient(self, name, tensor, arguments):
        if name in self._numbers:
            wide = self.kernel.params[self.kernel.arg_names.index(name)].annotation_type == "fp64"
            return torch.empty(1, dtype=torch.float64 if wide else torch.float32, device=self._device(arguments, tensor))
        like = arguments[name]
        return torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=like.device)

    def _tensor_names(self, call):
        return [name for name, kind, *_ in self._kinds(call) if kind == "tensor"]

    # ---- second derivatives and higher ones. What a derivative of order k reads has places: those of `wrt`, those of the outputs' gradients, then, of each lower order, those of the
    # gradients of what it writes, in the order of what is read there. What it writes has the places of what the order below reads.

    def _places(self, order):
        """How many places there are in what a derivative of this order reads."""
        count, below = len(self._wrt) + len(self._rules), len(self._wrt)
        for _ in range(order - 1):
            count, below = count + below, count
        return count

    def _origin(self, place):
        """The input or output whose shape and dtype what has this place has."""
        while place >= self._places(1):
            order = 1
            while self._places(order + 1) <= place:
                order += 1
            place -= self._places(order)
        return (*self._wrt, *self._rules)[place]

    @staticmethod
    def _save_twice(ctx, inputs, output):
        tensors, integers, floats, call, gradients, given, wanted, kept = inputs
        ctx.save_for_backward(*tensors, *gradients)
        ctx.rest = integers, floats, call, given, wanted, len(kept)
        ctx.set_materialize_grads(False)

    def _differentiate_twice(self, ctx, sensitivities):
        integers, floats, call, given, wanted, kept = ctx.rest
        names = self._tensor_names(call)
        places = [len(self._wrt) + i for i in given]
        of_tensors, of_gradients = self._once_more(ctx, sensitivities, integers, floats, call, places, [self._wrt.index(names[i]) for i in wanted], 1)
        return of_tensors, None if integers else [], None if floats else [], None, of_gradients, None if given else [], None if wanted else [], [None] * kept

    @staticmethod
    def _save_higher(ctx, inputs, output):
        tensors, integers, floats, call, given, *ctx.rest = inputs
        ctx.save_for_backward(*tensors, *given)
        ctx.call = integers, floats, call
        ctx.set_materialize_grads(False)

    def _differentiate_higher(self, ctx, sensitivities):
        (integers, floats, call), (places, wanted, order) = ctx.call, ctx.rest
        of_tensors, of_given = self._once_more(ctx, sensitivities, integers, floats, call, places, wanted, order)
        return of_tensors, None if integers else [], None if floats else [], None, of_given, None if places else [], None if wanted else [], None

    def _once_more(self, ctx, sensitivities, integers, floats, call, places, wanted, order):
        """The gradients of the tensors and of the given gradients of a derivative of this order, which is the call of `ctx`; None where none is needed."""
        names = self._tensor_names(call)
        tensors, given = list(ctx.saved_tensors[:len(names)]), list(ctx.saved_tensors[len(names):])
        found = [None] * len(ctx.saved_tensors)
        sensitive = [i for i, each in enumerate(sensitivities) if each is not None]
        needed = {i: self._wrt.index(name) for i, name in enumerate(names) if ctx.needs_input_grad[0][i] and name in self._wrt}
        needed |= {len(tensors) + i: place for i, place in enumerate(places) if ctx.needs_input_grad[4][i]}
        if sensitive and needed:
            its_places = [*places, *(self._places(order) + wanted[i] for i in sensitive)]
            gradients = self._higher_operator(tensors, integers, floats, call, [*given, *(sensitivities[i] for i in sensitive)], its_places, list(needed.values()), order + 1)
            for i, gradient in zip(needed, gradients):
                found[i] = gradient
        return found[:len(tensors)], found[len(tensors):]

    def _higher_gradient(self, outs, order):
        """Of the derivative of this order from these outputs: the gradient, the parameters that it reads and those that it writes by their places (None: outputs without a gradient), and
        {parameter that a lower order writes: that of its gradient}."""
        found = self._higher_gradients.get((outs, order))
        if found is not None:
            return found
        if order == 1:
            gradients = {name: self._gradient_of[name] for name in outs}
            found = self._gradient(outs), [*self._wrt, *map(gradients.get, self._rules)], [self._gradient_of[name] for name in self._wrt], gradients
        else:
            below, inputs, outputs, unused = self._higher_gradient(outs, order - 1)
            taken, names = list(below.backward.kernel.arg_names), {}
            for name in filter(None, (*inputs, *outputs)):
                names[name] = _free(f"d{name}", taken)
                taken.append(names[name])
            given = {name: names[name] for name in outputs if name}
            gradient = grad(below.backward, {name: names[name] for name in inputs if name}, given)
            found = gradient, [*inputs, *map(given.get, outputs)], [names.get(name) for name in inputs], unused | given
        self._higher_gradients[outs, order] = found
        return found

    def _higher(self, tensors, integers, floats, call, given, places, wanted, order):
        """A derivative of order 2 or more. given: gradients, which have `places`; wanted: places of the gradients to compute."""
        arguments = self._arguments(tensors, integers, floats, call)
        outs = self._allocated(arguments)
        grid = self._grid_of(arguments | outs)
        gradient, inputs, outputs, unused = self._higher_gradient(self._differentiated(outs), order)
        by_name = dict(zip(self._tensor_names(call), tensors))

        def new(place):
            name = self._origin(place)
            return torch.empty_like(outs[name]) if name in outs else self._new_gradient(name, by_name[name], arguments)

        passed = dict.fromkeys(filter(None, (*inputs[len(self._wrt):], *outputs)), None)
        for place, value in zip(places, given):
            if inputs[place] is not None:
                like = new(place)
                passed[inputs[place]] = value if (value.shape, value.stride(), value.dtype, value.device) == (like.shape, like.stride(), like.dtype, like.device) else like.copy_(value.reshape(like.shape))
        found = {place: new(place) for place in wanted}
        passed |= {outputs[place]: each for place, each in found.items()}
        # What lower orders write is neither read nor written: only its type counts, which is that of its gradient.
        for name, its_gradient in unused.items():
            if name not in outs:
                passed[name] = passed[its_gradient]
            elif passed[its_gradient] is not None:
                outs[name] = passed[its_gradient]
        gradient.backward[grid](**arguments, **outs, **passed)
        return [self._as_input(by_name, self._origin(place), each) for place, each in found.items()]

    def _fake_higher(self, tensors, integers, floats, call, given, places, wanted, order):
        arguments = self._arguments(tensors, integers, floats, call, fake=True)
        outs = self._allocated(arguments)
        by_name = dict(zip(self._tensor_names(call), tensors))
        names = map(self._origin, wanted)
        return [torch.empty_like(outs[name]) if name in outs else torch.empty_like(by_name[name]) if name in self._numbers else self._new_gradient(name, by_name[name], arguments) for name in names]

    def _as_input(self, by_name, name, gradient):
        return gradient.to(by_name[name].dtype).reshape(by_name[name].shape) if name in self._numbers else gradient

    def _as_inputs(self, tensors, wanted, found):
        by_name = {name: tensors[i] for i, name in zip(wanted, found)}
        return [self._as_input(by_name, name, gradient) for name, gradient in found.items()]

    @staticmethod
    def _device(arguments, number):
        """Where the gradient of a number is: with the tensors of the kernel."""
        return next((value.device for value in arguments.values() if isinstance(value, torch.Tensor) and value is not number), number.device)

    def _refuse_vmap(self, info, in_dims, *args):
        raise NotImplementedError(f"{self.__name__}: `vmap` cannot batch a kernel: let a dimension of the kernel's grid run over the batch")

    def explain(self):
        """For each gradient kernel that was compiled, how each gradient is summed and why, as text."""
        return "\n".join(gradient.explain() for gradient in self._gradients.values()) or "nothing is compiled yet: run a backward pass"

    def __repr__(self):
        return f"<differentiable {self.kernel!r}: {', '.join(self._wrt)} -> {', '.join(self._rules)}>"


class _Plain(torch.autograd.Function):
    """A call on tensors that nothing watches but autograd: as through the operator, whose dispatch costs most of the host's time."""

    @staticmethod
    def forward(ctx, operator, integers, floats, call, *tensors):
        outs = operator._forward(tensors, integers, floats, call)
        operator._save(ctx, (tensors, integers, floats, call), outs)
        ctx.operator = operator
        if isinstance(outs, tuple):
            ctx.mark_non_differentiable(*(out for name, out in zip(operator._rules, outs) if not out.is_floating_point() or name in operator._saved))
        elif not outs.is_floating_point():
            ctx.mark_non_differentiable(outs)
        return outs

    @staticmethod
    def backward(ctx, *gradients):
        operator = ctx.operator
        # With `create_graph=True` the operator stays in the graph.
        backward = operator._backward_operator if torch.is_grad_enabled() else operator._backward
        return (None, None, None, None, *operator._found(ctx, gradients, ctx.needs_input_grad[4:], backward))


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_transforms = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)


def _are_plain(tensors):
    """Whether the tensors have data, and no subclass, mode, function transform or autocast has a say in calls with them. False where PyTorch cannot tell."""
    if _dispatch_modes is None or _transforms is None or _dispatch_modes() or _transforms() is not None:
        return False
    return all(type(tensor) in _PLAIN and not tensor.is_meta for tensor in tensors) and not any(torch.is_autocast_enabled(tensor.device.type) for tensor in tensors)


def _returned(outs):
    return next(iter(outs.values())) if len(outs) == 1 else tuple(outs.values())


def _operator_name(operator):
    """A name that tells kernels apart, also those of other versions of a program, since PyTorch keeps compiled graphs by it."""
    kernel = operator.kernel
    about = repr((kernel.module, kernel.__qualname__, kernel.src, operator._wrt, sorted(operator._fixed), operator._numbers, operator._non_contiguous, operator._saved, operator._narrow,
                  [(name, rule if isinstance(rule, str) else "") for name, rule in operator._rules.items()]))
    plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in kernel.__name__)
    name = f"{plain}_{hashlib.sha256(about.encode()).hexdigest()[:8]}"
    number, free = 2, name
    while free in _taken:
        free, number = f"{name}_{number}", number + 1
    _taken.add(free)
    return free


def autograd(kernel, wrt, out, grid, *, arguments=None, numbers=(), non_contiguous="refuse", saved=(), narrow=()):
    """A kernel and its gradient as a differentiable operator of PyTorch.

        swiglu = nereid.autograd(swiglu_kernel, wrt=("gate", "up"), out="y", grid=lambda a: (nereid.cdiv(a["n"], a["BLOCK"]), ),
                                 arguments={"n": lambda a: a["gate"].numel(), "BLOCK": 1024})
        y = swiglu(gate, up)

    It works under `torch.compile`, and calls the kernel of `nereid.grad` in the backward pass, for the inputs that need a gradient only.

    kernel: a `@jit` function; of one with `autotune` or `heuristics` the function itself, whose constexprs are given like other arguments.
    wrt: names of the inputs that have gradients.
    out: the outputs, which the kernel writes and calls return, in this order: {name: how it is allocated}, the name of an input (dtype, shape
    and strides are its), or a function of the arguments by name that returns a new tensor, which runs on tensors without data
    under `torch.compile`. Names alone: like the first tensor in `wrt`. Outputs of integers have no gradient.
    grid: a tuple, or a function of all arguments by name, outputs included, that returns one. It runs before the forward and the backward launch.
    arguments: parameters that calls do not give: {name: value, or a function of the arguments by name}.
    numbers: parameters in `wrt` that the kernel takes as numbers; calls give tensors of one element, whose value is read (on a GPU the host waits
    for it). It has the precision of the parameter, fp32 without an annotation.
    non_contiguous: tensors that are not contiguous are an error ("refuse"), are copied ("copy": for kernels that expect contiguous ones), or are
    given as they are ("keep": for kernels that take strides; elements of inputs in `wrt` share no memory).
    saved: outputs in which the kernel keeps values for its gradient (`tl.save`). They live until the backward pass, and calls do not return them.
    narrow: names in `wrt` whose gradients of fp16 and bf16 are summed in this dtype, as `grad` says.

    Calls raise TypeError for missing or unknown arguments, ValueError for tensors that are not contiguous, for an input that requires a gradient
    and is not in `wrt`, and for a kernel that writes what is not in `out`; CompilationError as kernels and `grad` do. `vmap` raises
    NotImplementedError.

    Raises ValueError for names that are no parameters, TypeError for what is no kernel.
    """
    return Operator(_written_kernel(kernel, "autograd"), wrt, out, grid, arguments, numbers, non_contiguous, saved, narrow)
