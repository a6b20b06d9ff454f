"""AdamW, norms and clipping of gradients, over many tensors at once."""

import math

import torch

from .._launch import DTYPES, OPMATH, launch
from .._lists import MANY, SOME, batches, is_dense, laid_out, same_order
from .._strided import step_up
from ..kernels import optimizers as kernels
from . import _arguments
from ._declare import operator
from ._distributed import by_placement, combined, is_distributed, part_of, placed_as

_SIZES = {"firsts": "i32", "offset": "i64", "count": "i32"}


def _require_dense(name, tensors):
    for i, tensor in enumerate(tensors):
        if tensor.numel() and not is_dense(tensor):
            raise ValueError(f"`{name}[{i}]` has strides {tuple(tensor.stride())} for the shape {tuple(tensor.shape)}: expected a dense tensor")


def _check_lists(params, **lists):
    for name, tensors in lists.items():
        if len(tensors) != len(params):
            raise ValueError(f"`{name}` has {len(tensors)} tensors: expected {len(params)}, as `params`")


def _check_adamw(params, grads, exp_avgs, exp_avg_sqs, steps, masters, lr, beta1, beta2, eps, weight_decay, maximize=False, lr_tensor=None, grad_scale=None,
                 found_inf=None):
    _check_lists(params, grads=grads, exp_avgs=exp_avgs, exp_avg_sqs=exp_avg_sqs, steps=steps, **({"masters": masters} if masters else {}))
    for i, param in enumerate(params):
        _arguments.floats(**{f"params[{i}]": param})
        for name, tensor in (("grads", grads[i]), ("exp_avgs", exp_avgs[i]), ("exp_avg_sqs", exp_avg_sqs[i]), *([("masters", masters[i])] if masters else [])):
            label = f"{name}[{i}]"
            _arguments.floats(**{label: tensor})
            _arguments.shape(tensor, param.shape, label)
            _arguments.one_device(**{"params[0]": params[0], label: tensor})
            if tensor.numel() and tensor.stride() != param.stride() and not same_order(tensor, param):
                raise ValueError(f"`{label}` has strides {tuple(tensor.stride())}: expected {tuple(param.stride())}, those of the parameter")
        if masters and masters[i].dtype != OPMATH.get(param.dtype, param.dtype):
            raise TypeError(f"`masters[{i}]` has dtype {masters[i].dtype}: expected {OPMATH.get(param.dtype, param.dtype)}")
        if steps[i].numel() != 1 or steps[i].dtype != torch.float32:
            raise ValueError(f"`steps[{i}]` has dtype {steps[i].dtype} and {steps[i].numel()} elements: expected float32 and one")
        _arguments.one_device(**{"params[0]": params[0], f"params[{i}]": param, f"steps[{i}]": steps[i]})
    _require_dense("params", params)
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
        raise ValueError(f"`beta1`, `beta2` are {beta1}, {beta2}: expected numbers from 0 to 1, 1 excluded")
    for name, tensor in (("lr_tensor", lr_tensor), ("grad_scale", grad_scale), ("found_inf", found_inf)):
        if tensor is not None:
            _arguments.shape(tensor.reshape(()) if tensor.numel() == 1 else tensor, (), name)
            _arguments.one_device(**{"params[0]": params[0], name: tensor})


def _logarithm(beta):
    return math.log(beta) if beta else float("-inf")


_ADAMW = ("adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] steps, Tensor(e!)[] masters, float lr, float beta1, float beta2, float eps, "
          "float weight_decay, bool maximize=False, Tensor? lr_tensor=None, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()")


@operator(_ADAMW, fake=_check_adamw)
def adamw_step(params, grads, exp_avgs, exp_avg_sqs, steps, masters, lr, beta1, beta2, eps, weight_decay, maximize, lr_tensor, grad_scale, found_inf):
    """The operator behind `adamw_`; the lists are not empty."""
    _check_adamw(params, grads, exp_avgs, exp_avg_sqs, steps, masters, lr, beta1, beta2, eps, weight_decay, maximize, lr_tensor, grad_scale, found_inf)
    device = params[0].device
    block = 1024 if device.type == "cpu" else 2048
    lists = [params, grads, exp_avgs, exp_avg_sqs, steps, *([masters] if masters else [])]
    numbers = {
        "lr": float(lr), "lr_tensor": lr_tensor, "beta1": float(beta1), "beta2": float(beta2), "log_beta1": _logarithm(beta1), "log_beta2": _logarithm(beta2), "eps": float(eps),
        "decay": float(weight_decay), "greatest": None, "grad_scale": grad_scale, "found_inf": found_inf
    }
    for batch in batches(lists, SOME):
        kinds, aligned, firsts, sizes, programs = laid_out(batch, SOME, block)
        arguments = {
            "params": kinds[0], "grads": kinds[1], "averages": kinds[2], "squares": kinds[3], "masters": kinds[5] if masters else None, "steps": kinds[4], "firsts": firsts,
            "sizes": sizes, **numbers
        }
        dtype = OPMATH.get(kinds[0][0].dtype, kinds[0][0].dtype)
        constants = {"DECOUPLED": True, "MAXIMIZE": maximize, "COUNTED": False, "COMPUTE": DTYPES[dtype], "ALIGNED": aligned, "BLOCK": block}
        launch(kernels.adam, programs, device, arguments, constants, _SIZES, num_warps=4)
    for batch in batches([steps], MANY):
        counted = laid_out(batch, MANY, 1)[0][0]
        launch(kernels.count_steps, 1, device, {"steps": counted, "found_inf": found_inf}, {}, num_warps=1)


def adamw_(params, grads, exp_avgs, exp_avg_sqs, steps, lr, beta1, beta2, eps, weight_decay, maximize=False, masters=(), lr_tensor=None, grad_scale=None, found_inf=None):
    """A step of AdamW, in place, for all tensors with few launches.

    params: floats of any dtypes, dense, on one device. grads, exp_avgs, exp_avg_sqs: of the shapes and strides of params, of any float dtypes. steps: one fp32
    number by parameter, how many steps were taken; they grow by 1. masters: the parameters in fp32 (fp64 for fp64) for those in fp16 and bf16; they are what
    is updated then, and params get them rounded. 16-bit floats are computed in fp32.

    lr_tensor: a number on the device in place of `lr`. grad_scale: a number on the device that gradients are divided by first (they are not written). found_inf: a number
    on the device; nothing changes unless it is 0. maximize: gradients count with the other sign.

    Raises TypeError for dtypes, ValueError for shapes, strides, devices or lengths of lists that do not fit.
    """
    if len(params):
        adamw_step(params, grads, exp_avgs, exp_avg_sqs, steps, masters, lr, beta1, beta2, eps, weight_decay, maximize, lr_tensor, grad_scale, found_inf)


_ORDERS = {1.0: 1, 2.0: 2, math.inf: 0}


def _norm_dtype(tensors):
    return torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32


def _check_norm(tensors, ord=2.0):
    for i, tensor in enumerate(tensors):
        _arguments.floats(**{f"tensors[{i}]": tensor})
        _arguments.one_device(**{"tensors[0]": tensors[0], f"tensors[{i}]": tensor})
    _require_dense("tensors", tensors)
    if ord not in _ORDERS:
        raise ValueError(f"`ord` is {ord}: expected 1, 2 or inf")


def _fake_norm(tensors, ord=2.0):
    _check_norm(tensors, ord)
    return torch.empty((), dtype=_norm_dtype(tensors), device=tensors[0].device)


@operator("gradient_norm(Tensor[] tensors, float ord=2.) -> Tensor", fake=_fake_norm)
def norm_of_tensors(tensors, ord):
    """The operator behind `gradient_norm`; the list is not empty."""
    _check_norm(tensors, ord)
    device, dtype = tensors[0].device, _norm_dtype(tensors)
    block, blocks = (1024, 16) if device.type == "cpu" else (4096, 8)
    launches = [laid_out(batch, MANY, block * blocks) for batch in batches([tensors], MANY)]
    count = sum(programs for *_, programs in launches)
    out = torch.empty((), dtype=dtype, device=device)
    parts = torch.empty((count, ), dtype=dtype, device=device)
    constants, first = {"ORD": _ORDERS[ord], "COMPUTE": DTYPES[dtype]}, 0
    for kinds, aligned, firsts, sizes, programs in launches:
        launch(kernels.power_sums, programs, device, {"out": parts, "tensors": kinds[0], "firsts": firsts, "sizes": sizes, "offset": first},
               {**constants, "ALIGNED": aligned, "BLOCK": block, "BLOCKS": blocks}, _SIZES, num_warps=4)
        first += programs
    block = 1024 if device.type == "cpu" else step_up(count, (128, 1024, 4096))
    launch(kernels.norm_of_parts, 1, device, {"out": out, "parts": parts, "count": count}, {**constants, "BLOCK": block}, _SIZES, num_warps=4 if block < 4096 else 16)
    return out


def gradient_norm(tensors, ord=2):
    """The norm of all elements of all tensors, as of one vector: a tensor without dimensions, fp32 (fp64 if one of the tensors is).

    tensors: a list of dense float tensors of one device, not empty. ord: 1, 2 or inf. It does not depend on the order of programs; the host does not wait. Of DTensors all elements count,
    also those of other processes, which have to call it as well.

    Raises TypeError for other dtypes; ValueError for an empty list, strides, devices or orders that do not fit.
    """
    if not len(tensors):
        raise ValueError("`tensors` is empty: expected at least one tensor")
    if not any(map(is_distributed, tensors)):
        return norm_of_tensors(tensors, ord)
    if ord not in _ORDERS:
        raise ValueError(f"`ord` is {ord}: expected 1, 2 or inf")
    if ord == math.inf:
        return torch.stack([combined(norm_of_tensors(parts, ord), mesh, cut, "max") for mesh, cut, parts in by_placement(tensors)]).amax()
    return sum(combined(norm_of_tensors(parts, ord)**ord, mesh, cut, "sum") for mesh, cut, parts in by_placement(tensors))**(1 / ord)


def _check_clip(grads, max_norm, norm):
    _check_norm(grads)
    _arguments.floats(norm=norm)
    _arguments.one_device(**{"grads[0]": grads[0], "norm": norm})
    if norm.numel() != 1:
        raise ValueError(f"`norm` has {norm.numel()} elements: expected one")


@operator("clip_gradients_(Tensor(a!)[] grads, float max_norm, Tensor norm) -> ()", fake=_check_clip)
def clip_step(grads, max_norm, norm):
    """The operator behind `clip_gradients_`; the list is not empty."""
    _check_clip(grads, max_norm, norm)
    device = grads[0].device
    block = 1024 if device.type == "cpu" else 4096
    for batch in batches([grads], MANY):
        kinds, aligned, firsts, sizes, programs = laid_out(batch, MANY, block)
        dtype = OPMATH.get(kinds[0][0].dtype, kinds[0][0].dtype)
        launch(kernels.scale_down, programs, device, {"tensors": kinds[0], "firsts": firsts, "sizes": sizes, "norm": norm, "most": float(max_norm)},
               {"COMPUTE": DTYPES[dtype], "ALIGNED": aligned, "BLOCK": block}, _SIZES, num_warps=4)


def clip_gradients_(grads, max_norm, norm):
    """Multiplies all gradients, in place, by max_norm / (norm + 1e-6) where that is below 1, as `torch.nn.utils.clip_grad_norm_`; the host does not wait.

    grads: a list of dense float tensors of one device; max_norm: a number; norm: a float tensor with one element there, such as that of `gradient_norm`. Where the norm
    is not-a-number, so are the gradients afterwards. Of DTensors each process scales its parts.

    Raises TypeError for other dtypes; ValueError for strides or devices that do not fit.
    """
    if len(grads):
        clip_step(list(map(part_of, grads)), max_norm, norm.full_tensor() if is_distributed(norm) else norm)


class AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW(fused=True)` on `adamw_`; its state has the same form, also in `state_dict`, with the numbers of steps on the device.

    params, lr, betas, eps, weight_decay, maximize: as there; amsgrad is not supported. lr may be a tensor on the device: then a changed rate is no new signature for
    recorded calls. state_dtype: the dtype of exp_avg and exp_avg_sq of 16-bit parameters; None: that of the parameters. master_weights: 16-bit parameters have an fp32
    copy in their state, "master_param", which is what is updated. Parameters may be DTensors, as FSDP2 and tensor parallelism make them: then so is their state, and each process updates its
    parts; gradients that come as partial sums are added up first.

    Gradients of `torch.amp.GradScaler` are unscaled on the device; steps that it finds infinities in are skipped there.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *, maximize=False, state_dtype=torch.float32, master_weights=False):
        self.state_dtype, self.master_weights = state_dtype, master_weights
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad=False, maximize=maximize, fused=True)

    def _begin(self, param):
        """The state of a parameter before its first step."""
        dtype = self.state_dtype if self.state_dtype is not None and param.dtype in OPMATH else param.dtype
        state = self.state[param]
        state["step"] = torch.zeros((), dtype=torch.float32, device=param.device)
        state["exp_avg"] = torch.zeros_like(param, dtype=dtype, memory_format=torch.preserve_format)
        state["exp_avg_sq"] = torch.zeros_like(param, dtype=dtype, memory_format=torch.preserve_format)
        if self.master_weights and param.dtype in OPMATH:
            state["master_param"] = param.detach().to(OPMATH[param.dtype], memory_format=torch.preserve_format)

    @torch.no_grad()
    def step(self, closure=None):
        """Performs a step. closure: a function that computes the loss again and returns it, or None. Returns the loss, or None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        grad_scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        for group in self.param_groups:
            by_device = {}
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if grad.is_sparse:
                    raise RuntimeError("AdamW does not support sparse gradients")
                state = self.state[param]
                if not state:
                    self._begin(param)
                own, grad = part_of(param.detach()), part_of(placed_as(grad, param))
                if grad.stride() != own.stride():
                    grad = torch.empty_like(own).copy_(grad)
                master = state.get("master_param")
                lists = by_device.setdefault((param.device, master is None), ([], [], [], [], [], []))
                for tensors, tensor in zip(lists, (own, grad, state["exp_avg"], state["exp_avg_sq"], state["step"], master)):
                    if tensor is not None:
                        tensors.append(part_of(tensor))
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for (device, _), lists in by_device.items():
                rate = lr.to(device) if isinstance(lr, torch.Tensor) else None
                adamw_(*lists[:5], 0.0 if rate is not None else lr, beta1, beta2, group["eps"], group["weight_decay"], group["maximize"], lists[5], rate,
                       *(None if number is None else number.to(device) for number in (grad_scale, found_inf)))
        return loss

    def load_state_dict(self, state_dict):
        """As of any optimizer. States keep the dtypes that this optimizer gives them, whatever they are in `state_dict`."""
        super().load_state_dict(state_dict)  # it converts states to the dtypes of parameters
        saved = [index for group in state_dict["param_groups"] for index in group["params"]]
        for index, param in zip(saved, (param for group in self.param_groups for param in group["params"])):
            given = state_dict["state"].get(index)
            if not given or param.dtype not in OPMATH:
                continue
            state = self.state[param]
            for name in ("exp_avg", "exp_avg_sq"):
                dtype = self.state_dtype if self.state_dtype is not None else param.dtype
                state[name] = given[name].detach().to(device=param.device, dtype=dtype, copy=True)
            if self.master_weights:
                master = given.get("master_param", param)
                state["master_param"] = master.detach().to(device=param.device, dtype=OPMATH[param.dtype], copy=True)
