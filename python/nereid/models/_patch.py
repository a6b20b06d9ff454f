"""`patch`: fused operators in a model that exists; `patches`: in models that are made."""

import collections
import contextlib
import dataclasses
import inspect

import torch
from transformers import PreTrainedModel
from transformers.monkey_patching import get_patch_mapping, register_patch_mapping, unregister_patch_mapping

from ._interfaces import LOSSES, NAME, experts_reason, register
from ._layers import ROWS, fused_class

#: What can be replaced, and by what means.
PARTS = {
    "attention": "AttentionInterface, AttentionMaskInterface",
    "experts": "ExpertsInterface",
    "losses": "PreTrainedModel.loss_function",
    "norms": "class of the module",
    "mlp": "class of the module",
    "rotary": "class of the module",
    "layers": "class of the module",
}
#: Modules that are no loss for having no fused form: what they do is one operator of ATen already, or nothing.
_SINGLE = ("Linear", "Embedding", "LayerNorm", "Conv1d", "Conv2d", "Conv1D", "Dropout", "Tanh", "GELUActivation", "GELUTanh", "NewGELUActivation", "SiLU", "SiLUActivation", "ModuleList", "Identity")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A line of a `Patched`. what: a class, or a part of the model. count: of modules. by: operators; why: the reason against it."""
    part: str
    what: str
    count: int
    by: str = ""
    why: str = ""


class Patched:
    """What `patch` did. replaced, left: lists of `Entry`; as text a table. `undo()` restores the model; as a context manager it does so at the end of the block."""

    def __init__(self, model):
        self.model = model
        self.replaced, self.left = [], []
        self._steps = []

    def undo(self):
        """Restores the model. A second call changes nothing. Raises RuntimeError if something else (fully_shard, say) has changed the class of a module since; the rest is restored."""
        changed = []
        while self._steps:
            try:
                self._steps.pop()()
            except _Changed as error:
                changed.append(str(error))
        if changed:
            raise RuntimeError(f"not restored, because their class was changed after `patch`: {', '.join(changed)}")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.undo()

    def __str__(self):
        lines = [f"{type(self.model).__name__}: {sum(entry.count for entry in self.replaced)} replaced, {sum(entry.count for entry in self.left)} left"]
        lines += [f"  {entry.part:<9} {entry.count:>4} {entry.what}: {entry.by}" for entry in self.replaced]
        lines += [f"  left      {entry.count:>4} {entry.what}: {entry.why}" for entry in self.left]
        return "\n".join(lines)

    __repr__ = __str__


class _Changed(Exception):
    pass


def _parts(only, without):
    for name in (*(only or ()), *without):
        if name not in PARTS:
            raise ValueError(f"no part `{name}`: expected some of {', '.join(PARTS)}")
    return [name for name in PARTS if (only is None or name in only) and name not in without]


def _bodies(model):
    """The models within a model that have a configuration of their own, the outermost first."""
    found = {}
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            found.setdefault(id(module.config), module)
    return list(found.values())


def _interfaces(patched, part, settable, current, choose):
    """Chooses `NAME` in a registry, in a model and those within it. settable: of a model's class; current: of a configuration; choose: a method's name of the model."""
    saved = [(body, current(body.config)) for body in _bodies(patched.model)]
    able = [(body, before) for body, before in saved if settable(body)]

    def restore():
        for body, before in able:
            if current(body.config) != before:
                getattr(body, choose)(before)

    for body, before in saved:
        if (body, before) not in able:
            patched.left.append(Entry(part, type(body).__name__, 1, why=f"its class does not use the registry of {part}"))
    if able:
        patched._steps.append(restore)
        for body, _ in able:
            if current(body.config) != NAME:
                getattr(body, choose)(NAME)
        patched.replaced.append(Entry(part, ", ".join(type(body).__name__ for body, _ in able), len(able), f"{part} of {NAME}"))


def _attention(patched):

    def settable(body):
        return body._can_set_attn_implementation() and any("Attention" in type(module).__name__ for module in body.modules())

    if not any("Attention" in type(module).__name__ for module in patched.model.modules()):
        return
    _interfaces(patched, "attention", settable, lambda config: config._attn_implementation, "set_attn_implementation")
    if any(getattr(config, name, 0) for config in [body.config for body in _bodies(patched.model)]
           for name in ("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop")):
        patched.left.append(Entry("attention", "training steps", 1, why="attention with dropout is PyTorch's: fused attention has none"))


def _experts(patched):
    modules = [module for module in patched.model.modules() if hasattr(module, "is_concatenated") and hasattr(module, "has_gate")]
    if not modules:
        return
    reason = experts_reason(modules[0])
    if reason is not None:
        patched.left.append(Entry("experts", type(modules[0]).__name__, len(modules), why=reason))
        return
    _interfaces(patched, "experts", lambda body: body._can_set_experts_implementation(), lambda config: config._experts_implementation, "set_experts_implementation")


def _losses(patched):
    model = patched.model
    if "loss_function" not in inspect.unwrap(type(model).forward).__code__.co_names:
        if "labels" in inspect.signature(type(model).forward).parameters:
            patched.left.append(Entry("losses", type(model).__name__, 1, why="its forward computes the loss by itself"))
        return
    kind = model.loss_function.__name__
    if kind not in LOSSES:
        patched.left.append(Entry("losses", kind, 1, why="no fused form"))
    elif "_loss_function" in vars(model):
        patched.left.append(Entry("losses", kind, 1, why="the model has a loss of its own"))
    else:
        model.loss_function = LOSSES[kind]
        patched._steps.append(lambda: vars(model).pop("_loss_function", None))
        patched.replaced.append(Entry("losses", kind, 1, "cross_entropy"))


def _swap(module, made, name):
    original = type(module)
    module.__class__ = made

    def restore():
        if type(module) is not made:
            raise _Changed(name)
        module.__class__ = original

    return restore


def _modules(patched, parts):
    counts, left = collections.Counter(), collections.Counter()
    for name, module in patched.model.named_modules():
        kind = type(module)
        row = ROWS.get(kind.__name__)
        if row is None or not kind.__module__.startswith("transformers."):
            if not list(module.children()) and list(module.parameters(recurse=False)) and kind.__name__ not in _SINGLE:
                left[kind.__name__, "no fused form is known"] += 1
            continue
        if row.part not in parts:
            continue
        reason = "it has a `forward` of its own" if "forward" in vars(module) else row.reason(module)
        if reason is not None:
            left[kind.__name__, reason] += 1
            continue
        patched._steps.append(_swap(module, fused_class(kind), name))
        counts[row.part, kind.__name__, row.by] += 1
    patched.replaced += [Entry(part, what, count, by) for (part, what, by), count in counts.items()]
    patched.left += [Entry("", what, count, why=why) for (what, why), count in left.items()]


def patch(model, only=None, without=()):
    """Puts fused operators into a model of transformers, in place, and returns a `Patched` that says what was replaced, what was left and why, and that undoes it.

    model: a `transformers.PreTrainedModel`, on any device and in any float dtype, before or after torch.compile has been called on it (code that is compiled already is not changed, but
    recompiled at the next call). only, without: names of `PARTS`. Parameters, their names and the hooks of modules stay. Attention, masks and experts go through the registries of
    transformers, the loss through the model's own setting; norms, feed-forward blocks, rotary positions and the additions around norms have registries only for models that are yet
    to be made (`patches`), so the class of a module becomes a subclass with a fused forward. Attention in training steps with dropout is left to PyTorch.

    Raises TypeError for other objects, ValueError for parts that do not exist and for models in which nothing can be replaced, a model that is patched already among them.
    """
    if not isinstance(model, PreTrainedModel):
        if isinstance(model, torch.nn.Module):
            raise TypeError(f"`model` is a {type(model).__name__}: expected a model of transformers (PreTrainedModel); other modules can use nereid.ops.fused.modules, or nereid.ops.enable()")
        raise TypeError(f"`model` is a {type(model).__name__}: expected a model of transformers (PreTrainedModel)")
    parts = _parts(only, without)
    patched = Patched(model)
    if any(type(module).__module__ == fused_class.__module__ for module in model.modules()):
        raise ValueError(f"`{type(model).__name__}` is patched already: expected a model without fused modules; call `undo()` of the earlier result first")
    register()
    try:
        for part, apply in (("attention", _attention), ("experts", _experts), ("losses", _losses)):
            if part in parts:
                apply(patched)
        _modules(patched, parts)
    except BaseException:
        patched.undo()
        raise
    if not patched.replaced:
        raise ValueError(f"nothing in `{type(model).__name__}` can be replaced: " + ("; ".join(f"{entry.what}: {entry.why}" for entry in patched.left) or "no class of its modules is known"))
    return patched


@contextlib.contextmanager
def patches(only=None, without=()):
    """A block in which models that `from_config` and `from_pretrained` of transformers make get fused modules, through `transformers.monkey_patching.register_patch_mapping`.

        with nereid.models.patches():
            model = AutoModelForCausalLM.from_config(config, attn_implementation="nereid")

    only, without: as for `patch`, of "norms", "mlp", "rotary" and "layers"; attention and experts are chosen by the arguments of `from_config`. Raises ValueError for other parts, and where
    one of the classes has a mapping already.
    """
    parts = [part for part in _parts(only, without) if PARTS[part] == "class of the module"]
    wrong = [name for name in (*(only or ()), *without) if PARTS[name] != "class of the module"]
    if wrong:
        raise ValueError(f"the part `{wrong[0]}` is no class: expected some of norms, mlp, rotary, layers; choose {wrong[0]} in the model's arguments")
    register()
    mapping = {}
    for name, row in ROWS.items():
        original = _original(name) if row.part in parts else None
        if original is not None:
            mapping[name] = fused_class(original)
    taken = sorted(set(mapping) & set(get_patch_mapping()))
    if taken:
        raise ValueError(f"transformers has a mapping for `{taken[0]}` already: expected none; call unregister_patch_mapping first")
    register_patch_mapping(mapping)
    try:
        yield
    finally:
        unregister_patch_mapping(list(mapping))


def _original(name):
    """The class of transformers with this name, or None where this version has none."""
    stem = next(stem for stem in ("RMSNorm", "LayerNorm", "MLP", "Attention", "DecoderLayer", "Intermediate", "SelfOutput", "Output", "") if name.endswith(stem))
    family = {"qwen3moe": "qwen3_moe"}.get(name.removesuffix(stem).lower(), name.removesuffix(stem).lower())
    try:
        module = __import__(f"transformers.models.{family}.modeling_{family}", fromlist=(name, ))
    except ImportError:
        return None
    return getattr(module, name, None)
