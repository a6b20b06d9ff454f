"""Times of prompts and of steps that draw, for several batches, on `nereid.ops` and, if asked for, of transformers on ATen and compiled by `torch.compile`."""

import time

import batching
import paged_llama
import torch

import nereid.ops


def _wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _engine(decoder, batch, chosen):
    """An engine with a batch of requests, all admitted at once."""
    engine = batching.Engine(decoder, batch, chosen.prompt_tokens, chosen.prompt + chosen.new, chosen.graphs and chosen.device == "cuda")
    for number in range(batch):
        prompt = [3 + (number + place * 7) % (decoder.config.vocab_size - 5) for place in range(chosen.prompt)]
        engine.submit(prompt, chosen.new, chosen.temperature, chosen.top_k, chosen.top_p)
    return engine


def ours(decoder, batch, chosen):
    """(seconds for the prompts of a batch, seconds of a step that draws), of the second of two runs. The first step that draws compiles or captures and is not counted."""
    for _ in range(2):
        engine = _engine(decoder, batch, chosen)
        while engine.waiting or any(not request.tokens for request in engine.running):
            engine.step()
        first = engine.times.prompt_seconds
        if engine.running:
            engine.step()
        start, steps = time.perf_counter(), 0
        while engine.running:
            engine.step()
            steps += 1
        seconds = (time.perf_counter() - start) / max(1, steps)
    return first, seconds


def _transformers(model, batch, prompt, new, cache_for, read, step):
    """The same of transformers, and the tokens, (batch, new): prompts in one forward pass, then a token for each sequence at a time, without a comparison or transfer of tokens.
    The last of three runs. cache_for(): an empty cache, for each run; read and step: the model's forward for prompts and for single tokens."""
    tokens = 3 + torch.arange(batch * prompt, device=model.device).view(batch, prompt) * 7 % (model.config.vocab_size - 5)
    for _ in range(3):
        cache = cache_for()
        _wait(model.device)
        start = time.perf_counter()
        logits = read(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        _wait(model.device)
        first = time.perf_counter() - start
        start = time.perf_counter()
        drawn = [logits[:, -1].argmax(-1, keepdim=True)]
        for _ in range(new - 1):
            torch.compiler.cudagraph_mark_step_begin()
            logits = step(input_ids=drawn[-1], past_key_values=cache, use_cache=True).logits
            drawn.append(logits[:, -1].argmax(-1, keepdim=True))
        _wait(model.device)
        seconds = (time.perf_counter() - start) / max(1, new - 1)
    return first, seconds, torch.cat(drawn, 1)


@torch.no_grad()
def atens(model, batch, prompt, new):
    """Of transformers on ATen, with a cache that grows."""
    from transformers import DynamicCache
    # A new cache for each run: `reset` of transformers 5.17 keeps the length of a cache that grows.
    return _transformers(model, batch, prompt, new, lambda: DynamicCache(config=model.config), model, model)


@torch.no_grad()
def compiled(model, batch, prompt, new):
    """Of transformers compiled by `torch.compile`, with a cache of fixed size; single tokens with `reduce-overhead` (CUDA graphs). Which Triton serves Inductor is the process' matter."""
    from transformers import StaticCache
    torch.compiler.reset()

    # Tensors that are made while a graph is traced count as inputs that it changes, and it then runs without CUDA graphs.
    config, cache = model.config, StaticCache(config=model.config, max_cache_len=prompt + new)
    cache.early_initialization(batch, config.num_key_value_heads, config.head_dim, model.dtype, model.device)

    def empty():
        cache.reset()
        return cache

    read = torch.compile(model.forward, dynamic=False)
    step = torch.compile(model.forward, dynamic=False, mode="reduce-overhead")
    return _transformers(model, batch, prompt, new, empty, read, step)


OTHERS = {"aten": ("ATen", atens), "compile": ("torch.compile", compiled)}
"""What `--compare` may name: how the table calls it, and its times."""


def measured(model, chosen):
    """Prints the table. Raises ValueError for prompts and new tokens that do not fit."""
    total = chosen.prompt + chosen.new
    if total > model.config.max_position_embeddings or chosen.new < 3:
        raise ValueError(f"--prompt {chosen.prompt} and --new {chosen.new}: expected at most {model.config.max_position_embeddings} together, and 3 or more new tokens to time")
    batches = chosen.batches or [1 << i for i in range(chosen.batch.bit_length()) if 1 << i <= chosen.batch]
    decoder = paged_llama.PagedLlama(model, chosen.pages or max(batches) * -(-total // chosen.page), chosen.page)
    print(f"llama {chosen.size}, {chosen.dtype}, {chosen.device}; prompts of {chosen.prompt} tokens, {chosen.new} drawn")
    titles = "".join(f"  {OTHERS[name][0]}: prompt tokens/s  ms a step  speed of ours" for name in chosen.compare)
    print(f"{'batch':>5}  {'prompt tokens/s':>15} {'ms a step':>9} {'tokens/s':>9}" + titles)
    for batch in batches:
        with nereid.ops.use():
            first, step = ours(decoder, batch, chosen)
        line = f"{batch:>5}  {batch * chosen.prompt / first:>15.0f} {1e3 * step:>9.2f} {batch / max(step, 1e-9):>9.0f}"
        for name in chosen.compare:
            title, times = OTHERS[name]
            their_first, their_step, _ = times(model, batch, chosen.prompt, chosen.new)
            line += f"  {batch * chosen.prompt / their_first:>{len(title) + 17}.0f}  {1e3 * their_step:>9.2f}  {their_first / first:>5.2f}, {their_step / max(step, 1e-9):>6.2f}"
        print(line, flush=True)
