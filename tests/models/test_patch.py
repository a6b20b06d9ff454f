"""`nereid.models.patch`: logits and gradients as good as the unpatched model's, what it says, and that it can be undone."""

import copy
import dataclasses

import compare
import pytest
import torch
import transformers
import zoo
from transformers.monkey_patching import get_patch_mapping

import nereid.models

#: {model: {part: modules replaced}} of the tiny models, which have two layers.
REPLACED = {
    "bert": {"attention": 1, "layers": 4, "mlp": 2},
    "llama-2": {"attention": 1, "losses": 1, "layers": 2, "rotary": 2, "mlp": 2, "norms": 5},
    "llama-3": {"attention": 1, "losses": 1, "layers": 2, "rotary": 2, "mlp": 2, "norms": 5},
    "qwen3": {"attention": 1, "losses": 1, "layers": 2, "rotary": 2, "mlp": 2, "norms": 9},
    "mixtral": {"attention": 1, "experts": 1, "losses": 1, "layers": 2, "rotary": 2, "norms": 5},
    "gemma": {"attention": 1, "losses": 1, "layers": 2, "rotary": 2, "mlp": 2, "norms": 5},
    "gpt2": {"attention": 1, "losses": 1},
    "t5": {"attention": 3, "norms": 12},
    "vit": {"attention": 1},
    "clip": {"attention": 3},
    "whisper": {"attention": 1},
    "llava": {"attention": 3, "losses": 1, "layers": 2, "rotary": 2, "mlp": 2, "norms": 5},
    "mamba": {"losses": 1, "norms": 3},
    "mamba-2": {"losses": 1, "norms": 3},
}


def _make(name, dtype=torch.float32, **settings):
    return lambda seed=0: zoo.made(name, "tiny", dtype, seed=seed, dropout=False, **settings)


def _judged(make, dtype=torch.float32):
    result = compare.compared(make, dtype, patch=nereid.models.patch, operators=False, seeds=6)
    assert result.holds, (result.worst, result.mine[result.worst], result.atens[result.worst])
    return result


def _counts(patched):
    counts = {}
    for entry in patched.replaced:
        counts[entry.part] = counts.get(entry.part, 0) + entry.count
    return counts


@pytest.mark.parametrize("name", REPLACED)
def test_replaced_and_undone(name):
    model, inputs = _make(name)()
    model.eval()
    classes, state = [type(module) for module in model.modules()], list(model.state_dict())
    with torch.no_grad():
        before = compare._logits(model(**inputs))
        patched = nereid.models.patch(model)
        assert _counts(patched) == REPLACED[name]
        assert list(model.state_dict()) == state
        assert f"{type(model).__name__}: {sum(REPLACED[name].values())} replaced" in str(patched)
        patched.undo()
        patched.undo()
        assert [type(module) for module in model.modules()] == classes
        assert torch.equal(compare._logits(model(**inputs)), before)
    assert "_loss_function" not in vars(model)


@pytest.mark.parametrize("name", ["bert", "llama-3", "qwen3", "mixtral", "gemma", "t5", "clip"])
def test_step(name):
    _judged(_make(name))


def test_step_in_bf16():
    assert _judged(_make("llama-3", torch.bfloat16), torch.bfloat16).mine["logits"] > 1e-4


def test_fused_operators_run(monkeypatch):
    """What the table says is what is called."""
    from nereid.models import _interfaces, _layers
    called = []

    class Recording:

        def __getattr__(self, name):
            called.append(name)
            return getattr(nereid.ops.fused, name)

    monkeypatch.setattr(_layers, "fused", Recording())
    monkeypatch.setattr(_interfaces, "fused", Recording())
    model, inputs = _make("llama-3")()
    with nereid.models.patch(model):
        model(**inputs)
    assert {name: called.count(name) for name in called} == {"rms_norm": 3, "add_rms_norm": 2, "rope": 2, "attention": 2, "linear_swiglu": 2, "cross_entropy": 1}


@pytest.mark.parametrize("name", ["llama-3", "t5", "gpt2"])
def test_generation(name):
    """Greedy tokens with a cache, from prompts of several lengths, are those of the unpatched model."""
    model, inputs = zoo.made(name, dataclasses.replace(zoo.SIZES["tiny"], tokens=24), dropout=False)
    inputs = {key: value[:, :12] for key, value in inputs.items()}
    inputs["attention_mask"][1, 9:] = 0
    model.eval()
    mask = inputs["attention_mask"].flip(1) if name != "t5" else inputs["attention_mask"]  # decoders have their padding on the left
    settings = dict(input_ids=inputs["input_ids"], attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
    expected = model.generate(**settings)
    with nereid.models.patch(model):
        assert torch.equal(model.generate(**settings), expected)


def test_positions_by_sequence():
    """Rotary positions that differ between the sequences of a batch."""
    model, inputs = _make("llama-3")()
    model.eval()
    positions = torch.arange(12) * torch.tensor([[1], [3]])
    with torch.no_grad():
        expected = model(input_ids=inputs["input_ids"], position_ids=positions).logits
        with nereid.models.patch(model):
            found = model(input_ids=inputs["input_ids"], position_ids=positions).logits
    assert torch.allclose(found, expected, atol=1e-6)
    with torch.no_grad():
        assert not torch.allclose(model(input_ids=inputs["input_ids"]).logits, expected, atol=1e-5)


def test_compiled():
    """torch.compile sees one graph, forward and backward."""
    model, inputs = _make("llama-3")()
    with nereid.models.patch(model):
        eager = compare.step(model, inputs)
        model.zero_grad()
        compiled = compare.step(torch.compile(model, backend="aot_eager", fullgraph=True), inputs)
    assert torch.allclose(compiled.logits, eager.logits, atol=1e-6)
    names = {name.removeprefix("_orig_mod."): gradient for name, gradient in compiled.gradients.items()}
    assert all(torch.allclose(names[name], gradient, atol=1e-6) for name, gradient in eager.gradients.items())


def test_gradient_checkpointing():
    model, inputs = _make("llama-3")()
    with nereid.models.patch(model):
        plain = compare.step(model, inputs)
        model.zero_grad()
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()  # its name until transformers 5.17 and after it
        again = compare.step(model, inputs)
    assert all(torch.equal(again.gradients[name], gradient) for name, gradient in plain.gradients.items())


def test_autocast():
    """Under autocast products are those of the dtype that autocast chooses, as without the patch."""
    model, inputs = _make("llama-3")()
    with torch.autocast("cpu", torch.bfloat16):
        theirs = compare.step(model, inputs)
        model.zero_grad()
        with nereid.models.patch(model):
            mine = compare.step(model, inputs)
    assert mine.logits.dtype == theirs.logits.dtype
    assert (mine.logits - theirs.logits).abs().max() < 0.02 * theirs.logits.abs().max()
    assert abs(mine.loss - theirs.loss) < 0.02


def test_dropout_of_attention_is_left():
    """In training steps with dropout PyTorch's attention runs, with the same random numbers as before."""
    model, inputs = zoo.made("bert", "tiny")
    torch.manual_seed(3)
    expected = model(**inputs).logits
    with nereid.models.patch(model) as patched:
        assert "attention with dropout is PyTorch's" in str(patched)
        torch.manual_seed(3)
        assert torch.allclose(model(**inputs).logits, expected, atol=1e-5)


def test_hooks_and_adapters_still_run():
    """A layer that is more than its weight is called, not read."""
    model, inputs = _make("llama-2")()

    class Adapted(torch.nn.Linear):

        def forward(self, x):
            return super().forward(x) + 1

    mlp = model.model.layers[0].mlp
    mlp.gate_proj.__class__ = Adapted
    seen = []
    model.model.layers[1].mlp.up_proj.register_forward_hook(lambda module, arguments, result: seen.append(1))
    model.model.layers[1].post_attention_layernorm.register_forward_hook(lambda module, arguments, result: seen.append(2))
    expected = model(**inputs).logits
    assert seen == [2, 1]
    with nereid.models.patch(model):
        assert torch.allclose(model(**inputs).logits, expected, atol=1e-5)
    assert seen == [2, 1] * 2


def test_parts():
    model, _ = _make("llama-2")()
    with nereid.models.patch(model, only=["norms"]) as patched:
        assert _counts(patched) == {"norms": 5}
    with nereid.models.patch(model, without=["attention", "layers"]) as patched:
        assert _counts(patched) == {"losses": 1, "rotary": 2, "mlp": 2, "norms": 5}
    with pytest.raises(ValueError, match="no part `norm`: expected some of attention, experts, losses, norms, mlp, rotary, layers"):
        nereid.models.patch(model, only=["norm"])


def test_eager_attention_keeps_its_rotation():
    model, inputs = _make("llama-2")()
    model.set_attn_implementation("eager")
    with nereid.models.patch(model, without=["attention"]) as patched:
        assert "LlamaAttention: attn_implementation is \"eager\"" in str(patched)
        assert model(**inputs, output_attentions=True).attentions[0].shape == (2, 4, 12, 12)
    assert model.config._attn_implementation == "eager"


def test_models_that_are_made():
    config = _make("llama-3")()[0].config
    with nereid.models.patches():
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="nereid")
    assert not get_patch_mapping()
    assert type(model.model.layers[0].mlp).__module__.startswith("nereid.models")
    plain = transformers.LlamaForCausalLM(copy.deepcopy(config))
    plain.set_attn_implementation("sdpa")
    plain.load_state_dict(model.state_dict())
    inputs = _make("llama-3")()[1]
    assert torch.allclose(model(**inputs).logits, plain(**inputs).logits, atol=1e-5)
    assert type(plain.model.layers[0].mlp).__module__.startswith("transformers")
    with pytest.raises(ValueError, match="the part `attention` is no class"):
        with nereid.models.patches(only=["attention"]):
            pass


def test_what_cannot_be_patched():
    with pytest.raises(TypeError, match="`model` is a Linear: expected a model of transformers"):
        nereid.models.patch(torch.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="`model` is a str: expected a model of transformers"):
        nereid.models.patch("llama")
    resnet = transformers.ResNetModel(transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1]))
    with pytest.raises(ValueError, match="nothing in `ResNetModel` can be replaced: BatchNorm2d: no fused form is known"):
        nereid.models.patch(resnet)
    model, _ = _make("llama-2")()
    with nereid.models.patch(model):
        with pytest.raises(ValueError, match="`LlamaForCausalLM` is patched already"):
            nereid.models.patch(model)


def test_another_model():
    """An architecture that is in no table: attention and losses go through the registries, the rest is named."""
    config = transformers.OlmoConfig(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64)
    model = transformers.OlmoForCausalLM(config)
    tokens = torch.arange(12).view(1, 12)
    expected = model(input_ids=tokens, labels=tokens)
    with nereid.models.patch(model) as patched:
        assert _counts(patched) == {"attention": 1, "losses": 1}
        found = model(input_ids=tokens, labels=tokens)
    assert torch.allclose(found.logits, expected.logits, atol=1e-5) and torch.allclose(found.loss, expected.loss)


def test_undo_after_another_change():
    model, _ = _make("llama-2")()
    patched = nereid.models.patch(model)
    norm = model.model.norm
    norm.__class__ = type("Sharded", (type(norm), ), {})
    with pytest.raises(RuntimeError, match="changed after `patch`: model.norm$"):
        patched.undo()
    assert type(model.model.layers[0].mlp).__module__.startswith("transformers")


def test_sinks_are_refused():
    from nereid.models._interfaces import attention
    x = torch.zeros(1, 2, 4, 8)
    with pytest.raises(ValueError, match="`s_aux` is given: fused attention has no sinks"):
        attention(torch.nn.Module(), x, x, x, None, s_aux=torch.zeros(2))


def test_importing_the_package_imports_no_models():
    import subprocess
    import sys
    code = "import sys, nereid; assert not {'torch', 'transformers', 'nereid.models', 'nereid.ops'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_masks_that_are_not_needed(monkeypatch):
    """Where no padding is given, attention has no bias, also in releases of transformers that make a mask whenever a CUDA graph is captured or a graph is traced."""
    from nereid.models import _interfaces
    from transformers import masking_utils
    for name in ("_ignore_bidirectional_mask_sdpa", "_ignore_causal_mask_sdpa"):
        monkeypatch.setattr(masking_utils, name, lambda *arguments, **settings: False)
    biases, plain = [], _interfaces.fused.attention

    def attention(query, key, value, bias=None, **settings):
        biases.append((bias is None, settings["causal"]))
        return plain(query, key, value, bias, **settings)

    for name, causal in (("bert", False), ("llama-2", True)):
        model, inputs = _make(name)()
        model.eval()
        given = {"input_ids": inputs["input_ids"]}
        with torch.no_grad():
            before = compare._logits(model(**given))
            nereid.models.patch(model)
            monkeypatch.setattr(_interfaces.fused, "attention", attention)
            after = compare._logits(model(**given))
            assert biases == [(True, causal)] * 2, name
            torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)
            padded = torch.ones_like(given["input_ids"])
            padded[0, :2] = 0
            model(**given, attention_mask=padded)
            assert biases[2:] == [(False, False)] * 2, name
        monkeypatch.setattr(_interfaces.fused, "attention", plain)
        biases.clear()


@pytest.mark.parametrize("settings, plain", [(dict(q_length=8, kv_length=8, q_offset=0), True), (dict(q_length=8, kv_length=9, q_offset=1), False), (dict(q_length=8, kv_length=16, q_offset=0), False),
                                             (dict(q_length=1, kv_length=16, q_offset=3), False), (dict(q_length=8, kv_length=8, q_offset=torch.tensor(0)), False),
                                             (dict(q_length=8, kv_length=8, q_offset=0, local_size=4), False), (dict(q_length=8, kv_length=8, q_offset=0, allow_is_causal_skip=False), False),
                                             (dict(q_length=8, kv_length=16, allow_is_causal_skip=False, allow_is_bidirectional_skip=True), True), ({}, False)])
def test_what_needs_no_mask(settings, plain):
    from nereid.models import _interfaces
    assert _interfaces._plain(**settings) is plain
    assert not _interfaces._plain(**settings, attention_mask=torch.ones(1, 16))
