"""Models of `transformers` with random weights, in sizes that fit a test, a workstation or a GPU. Nothing is downloaded.

    model, inputs = zoo.made("llama-3", "tiny", torch.float32, "cpu")

`MODELS` maps a name to a function of a `Size` that returns (model class, configuration, inputs by name).
"""

import dataclasses

import torch

__all__ = ["DTYPES", "MODELS", "SIZES", "Size", "chosen", "made"]

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclasses.dataclass(frozen=True)
class Size:
    """Lengths that all models follow. heads: of attention; a model with grouped heads has half as many of keys and values. image: pixels of a side, in patches of `patch` pixels."""
    hidden: int
    layers: int
    heads: int
    wide: int  # the hidden layer of a feed-forward block
    vocabulary: int
    batch: int
    tokens: int
    image: int
    patch: int
    state: int  # of a state space


SIZES = {
    "tiny": Size(32, 2, 4, 64, 64, 2, 12, 16, 4, 8),
    "small": Size(256, 4, 8, 768, 2048, 4, 128, 64, 16, 32),
    "base": Size(2048, 16, 16, 5504, 32000, 4, 1024, 224, 16, 128),
}


def _sizes(size, **more):
    return dict(vocab_size=size.vocabulary, hidden_size=size.hidden, num_hidden_layers=size.layers, num_attention_heads=size.heads, intermediate_size=size.wide, **more)


def _vision(size):
    return {key: value for key, value in _sizes(size, image_size=size.image, patch_size=size.patch).items() if key != "vocab_size"}


def _tokens(size):
    """Numbers of tokens, (batch, tokens), none of them one of the special ones below 3."""
    return 3 + torch.arange(size.batch * size.tokens).view(size.batch, size.tokens) * 7 % (size.vocabulary - 5)


def _text(size, **more):
    """Tokens, of which those of the last sequence end three quarters of the way."""
    lengths = torch.full((size.batch, 1), size.tokens)
    lengths[-1] = size.tokens * 3 // 4
    mask = torch.arange(size.tokens) < lengths
    tokens = _tokens(size)
    return dict(input_ids=tokens, attention_mask=mask.long(), labels=tokens.masked_fill(~mask, -100), **more)


def _pixels(size):
    return torch.linspace(-1, 1, size.batch * 3 * size.image**2).view(size.batch, 3, size.image, size.image)


def bert(size):
    from transformers import BertConfig, BertForMaskedLM
    return BertForMaskedLM, BertConfig(**_sizes(size, max_position_embeddings=size.tokens)), _text(size, token_type_ids=torch.zeros(size.batch, size.tokens, dtype=torch.long))


def llama_2(size):
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM, LlamaConfig(**_sizes(size)), _text(size)


def llama_3(size):
    """Grouped heads and scaled rotary positions."""
    from transformers import LlamaConfig, LlamaForCausalLM
    rope = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
    return LlamaForCausalLM, LlamaConfig(num_key_value_heads=size.heads // 2, max_position_embeddings=131072, rope_parameters=rope, **_sizes(size)), _text(size)


def qwen3(size):
    """Queries and keys are normalised by heads."""
    from transformers import Qwen3Config, Qwen3ForCausalLM
    return Qwen3ForCausalLM, Qwen3Config(num_key_value_heads=size.heads // 2, head_dim=size.hidden // size.heads, **_sizes(size)), _text(size)


def mixtral(size):
    """Four experts, two of them for each token."""
    from transformers import MixtralConfig, MixtralForCausalLM
    return MixtralForCausalLM, MixtralConfig(num_key_value_heads=size.heads // 2, num_local_experts=4, output_router_logits=True, **_sizes(size)), _text(size)


def gemma(size):
    """Heads of twice the usual width, GeGLU, weights of norms around 0, and logits from the embedding's weight."""
    from transformers import GemmaConfig, GemmaForCausalLM
    return GemmaForCausalLM, GemmaConfig(num_key_value_heads=1, head_dim=2 * size.hidden // size.heads, **_sizes(size)), _text(size)


def gpt2(size):
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel, GPT2Config(vocab_size=size.vocabulary, bos_token_id=1, eos_token_id=2, n_embd=size.hidden, n_layer=size.layers, n_head=size.heads, n_inner=size.wide,
                                       n_positions=size.tokens), _text(size)


def t5(size):
    """An encoder and a decoder with learned biases of attention."""
    from transformers import T5Config, T5ForConditionalGeneration
    return T5ForConditionalGeneration, T5Config(vocab_size=size.vocabulary, d_model=size.hidden, d_kv=size.hidden // size.heads, d_ff=size.wide, num_layers=size.layers, num_heads=size.heads,
                                                decoder_start_token_id=0, feed_forward_proj="gated-gelu"), _text(size)


def vit(size):
    from transformers import ViTConfig, ViTForImageClassification
    return ViTForImageClassification, ViTConfig(num_labels=5, **_vision(size)), {"pixel_values": _pixels(size), "labels": torch.arange(size.batch) % 5}


def clip(size):
    """Pairs of a text and an image, four times the usual number: the loss compares all with all."""
    size = dataclasses.replace(size, batch=4 * size.batch)
    from transformers import CLIPConfig, CLIPModel
    inputs = _text(size, pixel_values=_pixels(size), return_loss=True)
    del inputs["labels"]
    text = _sizes(size, max_position_embeddings=size.tokens, bos_token_id=1, eos_token_id=2)
    return CLIPModel, CLIPConfig(text_config=text, vision_config=_vision(size), projection_dim=size.hidden // 2), inputs


def whisper(size):
    """Convolutions over spectra, an encoder and a decoder."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    layers = {f"{side}_{name}": number for side in ("encoder", "decoder") for name, number in (("layers", size.layers), ("attention_heads", size.heads), ("ffn_dim", size.wide))}
    config = WhisperConfig(vocab_size=size.vocabulary, d_model=size.hidden, num_mel_bins=8, max_source_positions=size.tokens, max_target_positions=size.tokens, pad_token_id=0, bos_token_id=1,
                           eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None, **layers)
    spectra = torch.linspace(-1, 1, size.batch * 8 * 2 * size.tokens).view(size.batch, 8, 2 * size.tokens)
    return WhisperForConditionalGeneration, config, {"input_features": spectra, "labels": _tokens(size)}


def llava(size):
    """Patches of an image take the places of the first tokens of a Llama."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration
    patches = (size.image // size.patch)**2
    config = LlavaConfig(vision_config=CLIPVisionConfig(**_vision(size)), text_config=LlamaConfig(**_sizes(size)), image_token_index=size.vocabulary - 1, image_seq_length=patches)
    image = torch.full((size.batch, patches), size.vocabulary - 1)
    tokens = torch.cat([image, _tokens(size)], 1)
    return LlavaForConditionalGeneration, config, {
        "input_ids": tokens, "attention_mask": torch.ones_like(tokens), "pixel_values": _pixels(size), "labels": torch.cat([image.fill_(-100), _tokens(size)], 1)
    }


def mamba(size):
    from transformers import MambaConfig, MambaForCausalLM
    inputs = _text(size)
    del inputs["attention_mask"]
    return MambaForCausalLM, MambaConfig(vocab_size=size.vocabulary, hidden_size=size.hidden, num_hidden_layers=size.layers, state_size=size.state), inputs


def mamba_2(size):
    from transformers import Mamba2Config, Mamba2ForCausalLM
    inputs = _text(size)
    del inputs["attention_mask"]
    config = Mamba2Config(vocab_size=size.vocabulary, hidden_size=size.hidden, num_hidden_layers=size.layers, state_size=size.state, num_heads=size.heads, head_dim=2 * size.hidden // size.heads,
                          n_groups=2, chunk_size=min(256, size.tokens // 2), pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return Mamba2ForCausalLM, config, inputs


MODELS = {function.__name__.replace("_", "-"): function for function in (bert, llama_2, llama_3, qwen3, mixtral, gemma, gpt2, t5, vit, clip, whisper, llava, mamba, mamba_2)}


def chosen(names):
    """The models that the names begin, in the order of `MODELS`: "llama" for both Llamas; all for no names. Raises ValueError for a name that begins none."""
    for name in names:
        if not any(model.startswith(name) for model in MODELS):
            raise ValueError(f"no model `{name}`: expected a beginning of {', '.join(MODELS)}")
    return [model for model in MODELS if not names or any(model == name or model.startswith(name) and name not in MODELS for name in names)]


def _without_dropout(config):
    for key, value in vars(config).items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
        elif hasattr(value, "to_dict"):
            _without_dropout(value)


def made(name, size="tiny", dtype=torch.float32, device="cpu", *, seed=0, dropout=True, **settings):
    """(model in training mode, its inputs by name). The weights depend on the seed alone. dropout: False sets all its probabilities to 0. settings: of the configuration."""
    model_class, config, inputs = MODELS[name](SIZES[size] if isinstance(size, str) else size)
    for key, value in settings.items():
        setattr(config, key, value)
    if not dropout:
        _without_dropout(config)
    torch.manual_seed(seed)
    model = model_class(config).to(device=device, dtype=dtype)
    placed = {}
    for key, value in inputs.items():
        if isinstance(value, torch.Tensor):
            value = value.to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)
        placed[key] = value
    return model.train(), placed
