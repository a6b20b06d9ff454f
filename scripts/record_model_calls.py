#!/usr/bin/env python3
"""Which ATen overloads models call, and which of them `nereid.ops` serves: scripts/record_model_calls.py [MODEL ...]

Models of `transformers` with small configurations and random weights run on the CPU, once forward and one training step (gradients clipped, AdamW in its three
implementations). Every call that reaches a backend is recorded below autograd. An overload is

    registered    `nereid.ops` has a kernel for it
    random        registered for GPUs only: on CPUs ATen draws its random numbers
    composed      ATen computes it by other overloads, which are recorded instead, unless GPUs have a kernel of their own (WHOLE_ON_GPUS)
    view          a view or an allocation: nothing is computed
    missing       left to ATen

Printed are the overloads that are missing, by number of calls, and for each model the share of calls with floating-point tensors that is registered.
`--all` prints every overload. `--run` runs the models again with `nereid.ops.use()`, compares losses and gradients with ATen's, and prints the share of calls that ran there and why
others did not: what is registered still leaves some calls to ATen.
"""

import argparse
import collections
import sys

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

#: Prefixes of operators that GPUs have kernels of, though CPUs compose them of others, or hide their work in a library.
WHOLE_ON_GPUS = ("_foreach_", "_fused_", "_amp_", "convolution", "_grouped_mm")
#: They allocate, or only look at a tensor's description.
NOTHING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_", "_local_scalar_dense", "is_same_size"}
STATES = ("registered", "random", "missing", "composed", "view")


# Models: functions that return (model, inputs by name). Inputs are on the CPU, floats among them of fp32.


def _small(**more):
    return dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, **more)


def _text(**more):
    tokens = torch.arange(24).view(2, 12) * 7 % 61
    return dict(input_ids=tokens, attention_mask=(torch.arange(12) < torch.tensor([[12], [9]])).long(), labels=tokens, **more)


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, **_small())), _text()


def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM
    return MixtralForCausalLM(MixtralConfig(num_key_value_heads=2, num_local_experts=4, output_router_logits=True, **_small())), _text()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, bos_token_id=1, eos_token_id=2, n_embd=32, n_layer=2, n_head=4, n_positions=32)), _text()


def bert():
    from transformers import BertConfig, BertForMaskedLM
    return BertForMaskedLM(BertConfig(max_position_embeddings=32, **_small())), _text(token_type_ids=torch.zeros(2, 12, dtype=torch.long))


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    settings = _small(image_size=16, patch_size=4, num_labels=5)
    del settings["vocab_size"]
    return ViTForImageClassification(ViTConfig(**settings)), {"pixel_values": torch.linspace(-1, 1, 2 * 3 * 256).view(2, 3, 16, 16), "labels": torch.tensor([1, 4])}


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    layers = {f"{side}_{name}": number for side in ("encoder", "decoder") for name, number in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))}
    config = WhisperConfig(vocab_size=64, d_model=32, num_mel_bins=8, max_source_positions=16, max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                           decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None, dropout=0.1, **layers)
    return WhisperForConditionalGeneration(config), {"input_features": torch.linspace(-1, 1, 2 * 8 * 32).view(2, 8, 32), "labels": torch.arange(3, 19).view(2, 8)}


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, feed_forward_proj="gated-gelu")
    return T5ForConditionalGeneration(config), _text()


def mamba():
    from transformers import MambaConfig, MambaForCausalLM
    inputs = _text()
    del inputs["attention_mask"]
    return MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=8)), inputs


def clip():
    from transformers import CLIPConfig, CLIPModel
    text, vision = _small(max_position_embeddings=16, bos_token_id=1, eos_token_id=2), _small(image_size=16, patch_size=4)
    del vision["vocab_size"]
    inputs = _text(pixel_values=torch.linspace(-1, 1, 2 * 3 * 256).view(2, 3, 16, 16), return_loss=True)
    del inputs["labels"]
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)), inputs


MODELS = {function.__name__: function for function in (llama, mixtral, gpt2, bert, vit, whisper, t5, mamba, clip)}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
#: How AdamW updates: GPUs take the first by default, CPUs the second.
OPTIMIZERS = {"foreach": {"foreach": True}, "loop": {"foreach": False}, "fused": {"fused": True}}


def made(name, dtype, seed=0):
    """(model of that dtype, its inputs) with weights that depend on the seed alone."""
    torch.manual_seed(seed)
    model, inputs = MODELS[name]()
    inputs = {key: value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value for key, value in inputs.items()}
    return model.to(dtype), inputs


def step(model, inputs, optimizers=OPTIMIZERS):
    """Forward without gradients, then training steps, one for each way to update. Returns (losses, gradients of the first step by parameter)."""
    model.eval()
    with torch.no_grad():
        losses, gradients = [model(**inputs).loss.detach()], {}
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for settings in optimizers.values():
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, **settings)
        torch.manual_seed(1)
        loss = model(**inputs).loss
        loss.backward()
        if not gradients:
            gradients = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=settings.get("foreach", True))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, gradients


class Recorder(TorchDispatchMode):
    """A `with` block that counts calls: `calls` is a Counter of (overload, whether floating-point tensors take part)."""

    def __init__(self):
        super().__init__()
        self.calls = collections.Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not function._schema.name.startswith("aten::"):
            return function(*args, **kwargs)  # marks of the profiler, operators of other packages
        name = function._schema.name.removeprefix("aten::") + (f".{function._overloadname}" if function._overloadname != "default" else "")
        if state(name) == "composed":
            # The kernel itself, with this mode in force, so that what it calls comes here.
            kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
            with self:
                result = kernel.call_boxed(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU), *args, **kwargs)
            floats = False
        else:
            result = function(*args, **kwargs)
            floats = any(isinstance(leaf, torch.Tensor) and leaf.is_floating_point() for leaf in pytree.tree_leaves((args, kwargs, result)))
        self.calls[name, floats] += 1
        return result


_states = {}


def state(name):
    """One of STATES for an overload of ATen, "add.Tensor"."""
    if not _states:
        import nereid.ops
        for operator in nereid.ops.OPERATORS.values():
            for form in operator.forms:
                _states[form.name] = "registered" if operator.keys is None or "CPU" in operator.keys else "random"
    if name not in _states:
        packet, _, overload = name.partition(".")
        schema = getattr(getattr(torch.ops.aten, packet), overload or "default")._schema
        aliases = [result.alias_info for result in schema.returns]
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if packet in NOTHING or aliases and all(alias is not None and not alias.is_write for alias in aliases):
            _states[name] = "view"
        elif has(f"aten::{name}", "CPU") or packet.startswith(WHOLE_ON_GPUS):
            _states[name] = "missing"
        else:
            _states[name] = "composed"
    return _states[name]


def recorded(name, dtype):
    """{overload: [calls, those with floating-point tensors]} of a model's steps."""
    model, inputs = made(name, dtype)
    with Recorder() as recorder:
        step(model, inputs)
    found = {}
    for (overload, floats), calls in recorder.calls.items():
        counts = found.setdefault(overload, [0, 0])
        counts[0] += calls
        counts[1] += calls * floats
    return found


def share(found):
    """(calls with floating-point tensors of registered overloads, all of them that compute something)."""
    counted = {overload: floats for overload, (_, floats) in found.items() if state(overload) in ("registered", "random", "missing")}
    return sum(floats for overload, floats in counted.items() if state(overload) != "missing"), sum(counted.values())


def compared(name, dtype):
    """Runs a model with ATen's kernels and with `nereid.ops`: (largest difference of losses, and of gradients relative to their largest magnitude; counts of the report)."""
    import nereid.ops
    first = {"foreach": OPTIMIZERS["foreach"]}
    theirs = step(*made(name, dtype), first)
    nereid.ops.report(clear=True)
    with nereid.ops.use():
        mine = step(*made(name, dtype), first)
    rows = nereid.ops.report(clear=True)
    largest = max(gradient.abs().max().item() for gradient in theirs[1].values())
    off = max((mine[1][key].double() - gradient.double()).abs().max().item() for key, gradient in theirs[1].items())
    return max(abs(a.item() - b.item()) for a, b in zip(mine[0], theirs[0])), off / largest, rows


def print_table(found, states):
    total = sum(calls for calls, _ in found.values())
    rows = [(overload, *counts, state(overload)) for overload, counts in found.items() if state(overload) in states]
    for overload, calls, floats, its in sorted(rows, key=lambda row: (STATES.index(row[3]), -row[1], row[0])):
        print(f"{its:<11} {overload:<48} {calls:>7} {floats:>7} {100 * calls / total:>6.2f} %")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="of " + ", ".join(MODELS) + "; all by default")
    parser.add_argument("--all", action="store_true", help="print every overload, not only those that are missing")
    parser.add_argument("--run", action="store_true", help="run the models with nereid.ops as well")
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    chosen = parser.parse_args(arguments)
    for name in chosen.models:
        if name not in MODELS:
            parser.error(f"no model `{name}`: expected some of {', '.join(MODELS)}")
    everything, lines = {}, []
    for name in chosen.models or MODELS:
        for dtype in chosen.dtypes:
            found = recorded(name, DTYPES[dtype])
            served, total = share(found)
            missing = sorted(overload for overload in found if state(overload) == "missing")
            lines.append(f"{name:<8} {dtype}  {served:>6} of {total:>6} calls with floating-point tensors are registered: {100 * served / total:.1f} %; "
                         f"{len(found)} overloads, {len(missing)} missing")
            for overload, counts in found.items():
                held = everything.setdefault(overload, [0, 0])
                everything[overload] = [a + b for a, b in zip(held, counts)]
            if chosen.run:
                loss, gradient, rows = compared(name, DTYPES[dtype])
                ours = sum(row.calls for row in rows if row.route == "nereid")
                left = collections.Counter()
                for row in rows:
                    if row.route != "nereid":
                        left[f"{row.overload}: {row.reason}"] += row.calls
                lines.append(f"{'':<8} {dtype}  {ours} of {ours + sum(left.values())} calls of registered overloads ran in nereid.ops; loss off by {loss:.2g}, gradients by {gradient:.2g}; "
                             "left to ATen: " + (", ".join(f"{what} ({calls})" for what, calls in left.most_common(6)) or "none"))
    print(f"{'state':<11} {'overload':<48} {'calls':>7} {'floats':>7}  share")
    print_table(everything, STATES if chosen.all else ("missing", ))
    print()
    print("\n".join(lines))
    counts = collections.Counter(state(overload) for overload in everything)
    print(f"\n{len(everything)} overloads: " + ", ".join(f"{counts[its]} {its}" for its in STATES))


if __name__ == "__main__":
    sys.exit(main())
