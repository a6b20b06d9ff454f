"""Forward passes of a BERT with fused operators (`nereid.models.patch`) on `nereid.ops`, in CUDA graphs on GPUs; those of ATen and of `torch.compile` beside them if asked for."""

import time

import torch

import nereid.models
import nereid.ops

SIZES = {
    "tiny": dict(vocab_size=256, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128),
    "base": {},
    "large": dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
}


def _captured(call):
    """A function that repeats a call, without arguments, from a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()

    def replay():
        graph.replay()
        return out

    return replay


def _seconds(call, device):
    """The least time of a call, in several for at least half a second. One before them, which may compile, does not count."""
    call()
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < 0.5 or best == float("inf"):
        begin = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


def _profiled(title, call, device):
    """Prints which kernels (on CPUs: operators) a call spends its time in."""
    kinds = [torch.profiler.ProfilerActivity.CPU] + ([torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else [])
    call()
    with torch.profiler.profile(activities=kinds) as profile:
        call()
        if device == "cuda":
            torch.cuda.synchronize()
    print(f"{title}, one pass:")
    print(profile.key_averages().table(sort_by=f"self_{device}_time_total", row_limit=12, max_name_column_width=70))


@torch.no_grad()
def run(chosen, dtype, peak):
    """Prints what was measured; returns the program's status: 1 if `--check` finds that hidden states differ by more than twice ATen's error against float64 and a unit of rounding."""
    from transformers import BertConfig, BertModel
    tokens = 32 if chosen.size == "tiny" and chosen.tokens == 512 else chosen.tokens
    config = BertConfig(max_position_embeddings=max(512, tokens), **SIZES[chosen.size])
    torch.manual_seed(chosen.seed)
    model = BertModel(config).eval().to(chosen.device, dtype)
    inputs = {"input_ids": 3 + torch.arange(chosen.batch * tokens, device=chosen.device).view(chosen.batch, tokens) * 7 % (config.vocab_size - 5)}

    def states():
        return model(**inputs).last_hidden_state

    def timed(call):
        return _seconds(_captured(call) if chosen.graphs and chosen.device == "cuda" else call, chosen.device)

    theirs = states() if chosen.check else None
    if chosen.profile:
        _profiled("ATen", states, chosen.device)
    others = {}
    if "aten" in chosen.compare:
        others["ATen"] = timed(states)
    if "compile" in chosen.compare:
        forward = torch.compile(model, dynamic=False, fullgraph=True)
        others["torch.compile"] = timed(lambda: forward(**inputs).last_hidden_state)
    if chosen.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with nereid.ops.use(), nereid.models.patch(model):
        if chosen.profile:
            _profiled("ours", states, chosen.device)
        call = _captured(states) if chosen.graphs and chosen.device == "cuda" else states
        mine = call().clone()
        seconds = _seconds(call, chosen.device)
    print(f"bert {chosen.size}, {chosen.dtype}, {chosen.device}: {chosen.batch} sequences of {tokens} tokens in {1e3 * seconds:.2f} ms, {chosen.batch * tokens / seconds:.0f} tokens/s; {peak(chosen.device)}")
    for name, their_seconds in others.items():
        print(f"{name}: {1e3 * their_seconds:.2f} ms; speed of ours {their_seconds / seconds:.2f}")
    if not chosen.check:
        return 0
    exact = model.double()(**inputs).last_hidden_state
    errors = [(torch.linalg.vector_norm(found.double() - exact) / torch.linalg.vector_norm(exact)).item() for found in (mine, theirs)]
    print(f"error against float64: {errors[0]:.2e}, ATen's {errors[1]:.2e}")
    return int(errors[0] > 2 * errors[1] + torch.finfo(dtype).eps / 2)
