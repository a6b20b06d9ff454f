"""Inference on the fused operators of `nereid.ops`. An example program, no server: random weights, random prompts, tokens as numbers.

    python examples/inference --model llama --size tiny --device cpu --check          continuous batching over a paged cache, compared with transformers token by token
    python examples/inference --model llama --size 7b --batch 64 --sequences 128 --prompt 2048 --new 128
    python examples/inference --model llama --size 7b --measure --compare --prompt 512 --batches 1 8 64     prompts, and steps of 1, 8 and 64 sequences, ATen's times beside them
    python examples/inference --model bert --size large --batch 64 --tokens 512       forward passes of a patched BERT

`--stream` prints tokens as they are drawn. Printed at the end: tokens per second of prompts and of drawing, and memory. The status is 1 if `--check` finds another token.
"""

import argparse
import random
import resource
import sys
import time

import torch

import nereid.ops

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def peak(device):
    """Memory at its peak, in words."""
    if device == "cuda":
        return f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB of the GPU at the peak"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB of the process at the peak"


class Progress:
    """A line on the standard error that says how far a run is, twice a second."""

    def __init__(self, shown, total):
        self.shown, self.total, self.start, self.next = shown, total, time.perf_counter(), 0.0

    def __call__(self, engine, done, tokens, end=False):
        now = time.perf_counter()
        if self.shown and (end or now >= self.next):
            self.next = now + 0.5
            text = f"{done}/{self.total} sequences, {len(engine.running)} running, {len(engine.waiting)} waiting, {tokens} tokens, {tokens / (now - self.start):.0f} tokens/s"
            print(f"\r{text:<100}", end="\n" if end else "", file=sys.stderr, flush=True)


def prompts(chosen, vocabulary):
    """Lists of random tokens, half to all of `--prompt` long."""
    numbers = random.Random(chosen.seed)
    return [[numbers.randrange(3, vocabulary) for _ in range(numbers.randint(max(1, chosen.prompt // 2), chosen.prompt))] for _ in range(chosen.sequences)]


def greedy(model, prompt, count):
    """The tokens that transformers draws after a prompt on ATen."""
    given = torch.tensor([prompt], device=model.device)
    found = model.generate(input_ids=given, attention_mask=torch.ones_like(given), max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0)
    return found[0, len(prompt):].tolist()


def llama(chosen, parser):
    import batching
    import paged_llama
    model = paged_llama.random_model(chosen.size, DTYPES[chosen.dtype], chosen.device, chosen.seed)
    if chosen.measure:
        import paged_times
        try:
            paged_times.measured(model, chosen)
        except ValueError as error:
            parser.error(str(error))
        return 0
    given = prompts(chosen, model.config.vocab_size)
    expected = [greedy(model, prompt, chosen.new) for prompt in given] if chosen.check else []
    if chosen.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    longest = min(chosen.prompt + chosen.new, model.config.max_position_embeddings)
    pages = chosen.pages or chosen.batch * -(-longest // chosen.page)
    decoder = paged_llama.PagedLlama(model, pages, chosen.page)
    del model
    try:
        engine = batching.Engine(decoder, chosen.batch, chosen.prompt_tokens, longest, None if chosen.graphs else False)
        requests = [engine.submit(prompt, chosen.new, chosen.temperature, chosen.top_k, chosen.top_p) for prompt in given]
    except ValueError as error:
        parser.error(str(error))
    torch.manual_seed(chosen.seed)
    with nereid.ops.use():
        tokens, seconds = drawn(engine, len(requests), chosen)
    times, (weights, cache) = engine.times, decoder.bytes()
    print(f"llama {chosen.size}, {chosen.dtype}, {chosen.device}: {len(requests)} sequences, at most {chosen.batch} at once, {tokens} tokens in {seconds:.2f} s")
    print(f"prompts: {times.prompt_tokens} tokens in {times.prompt_steps} steps, {times.prompt_tokens / max(times.prompt_seconds, 1e-9):.0f} tokens/s")
    if times.draw_steps:
        print(f"drawing: {times.draw_tokens} tokens in {times.draw_steps} steps, {times.draw_tokens / times.draw_seconds:.0f} tokens/s, {1e3 * times.draw_seconds / times.draw_steps:.2f} ms a step, "
              f"{times.draw_tokens / times.draw_steps:.1f} sequences a step; {times.preempted} times a sequence lost its pages")
    print(f"memory: weights {weights / 2**30:.2f} GiB, cache {cache / 2**30:.2f} GiB, {peak(chosen.device)}")
    return checked(requests, expected) if chosen.check else 0


def drawn(engine, total, chosen):
    """Runs an engine to its end and shows what it does. (tokens, seconds)"""
    progress = Progress(chosen.progress, total)
    done = tokens = 0
    start = time.perf_counter()
    for event in engine.run():
        tokens += 1
        done += bool(event.request.reason)
        if chosen.stream:
            print(f"{event.request.number}: {event.token}" + (f" (end: {event.request.reason})" if event.request.reason else ""), flush=True)
        progress(engine, done, tokens)
    progress(engine, done, tokens, end=True)
    return tokens, time.perf_counter() - start


def checked(requests, expected):
    """Compares tokens with those of transformers, prints the first difference, returns the program's status."""
    for request, tokens in zip(requests, expected):
        for place, (mine, theirs) in enumerate(zip(request.tokens, tokens, strict=True)):
            if mine != theirs:
                print(f"sequence {request.number}: token {place} is {mine}, transformers' is {theirs}")
                return 1
    print(f"all {sum(map(len, expected))} tokens are transformers'")
    return 0


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python examples/inference", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("llama", "bert"), default="llama")
    parser.add_argument("--size", default="tiny", help="llama: tiny, 1b, 7b, 8b; bert: tiny, base, large")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=DTYPES, help="default: bf16 on GPUs, fp32 on CPUs")
    parser.add_argument("--batch", type=int, default=8, help="sequences at once (default: 8)")
    parser.add_argument("--sequences", type=int, default=12, help="in all (default: 12)")
    parser.add_argument("--prompt", type=int, default=24, help="tokens of the longest prompt (default: 24)")
    parser.add_argument("--new", type=int, default=16, help="tokens to draw for each (default: 16)")
    parser.add_argument("--page", type=int, default=64, help="tokens of a page of the cache (default: 64)")
    parser.add_argument("--pages", type=int, default=0, help="of the cache (default: enough for the batch)")
    parser.add_argument("--prompt-tokens", type=int, default=2048, help="of prompts that a step reads (default: 2048)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: the most probable token (default)")
    parser.add_argument("--top-k", type=int, default=0, help="0: all tokens (default)")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--tokens", type=int, default=512, help="bert: of a sequence (default: 512; tiny: 32)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-graphs", dest="graphs", action="store_false", help="without CUDA graphs")
    parser.add_argument("--stream", action="store_true", help="print each token as it is drawn")
    parser.add_argument("--progress", action="store_true", default=sys.stderr.isatty())
    parser.add_argument("--check", action="store_true", help="compare with transformers on ATen: llama token by token, bert by its hidden states")
    parser.add_argument("--measure", action="store_true", help="llama: time prompts and steps of several batches")
    parser.add_argument("--batches", type=int, nargs="+", metavar="N", help="of --measure (default: 1, 2, 4, ... up to --batch)")
    parser.add_argument("--compare", nargs="*", choices=("aten", "compile"), help="times of transformers as well, on ATen (default), compiled by torch.compile, or both (llama: with --measure)")
    parser.add_argument("--profile", action="store_true", help="bert: print the kernels that ATen and ours spend most time in")
    chosen = parser.parse_args(arguments)
    sizes = {"llama": ("tiny", "1b", "7b", "8b"), "bert": ("tiny", "base", "large")}[chosen.model]
    if chosen.size not in sizes:
        parser.error(f"--size {chosen.size}: expected one of {', '.join(sizes)}")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU")
    if chosen.batches and not chosen.measure:
        parser.error("--batches: expected --measure as well")
    if chosen.batches and min(chosen.batches) < 1:
        parser.error(f"--batches {min(chosen.batches)}: expected 1 or more")
    for name in ("batch", "sequences", "prompt", "new", "page", "tokens"):
        if getattr(chosen, name) < 1:
            parser.error(f"--{name} {getattr(chosen, name)}: expected 1 or more")
    if chosen.check and chosen.model == "llama" and (chosen.temperature > 0 or chosen.measure):
        parser.error("--check compares the most probable tokens: expected temperature 0, and no --measure")
    chosen.compare = [] if chosen.compare is None else chosen.compare or ["aten"]
    if chosen.compare and chosen.model == "llama" and not chosen.measure:
        parser.error("--compare: expected --measure as well")
    if chosen.profile and chosen.model != "bert":
        parser.error("--profile: expected --model bert as well")
    if chosen.model == "bert" and (chosen.stream or chosen.measure or chosen.temperature > 0):
        parser.error("--model bert draws no tokens: expected no --stream, --measure or --temperature")
    chosen.dtype = chosen.dtype or ("bf16" if chosen.device == "cuda" else "fp32")
    chosen.progress = chosen.progress and not chosen.stream
    if chosen.model == "bert":
        import bert_batches
        return bert_batches.run(chosen, DTYPES[chosen.dtype], peak)
    return llama(chosen, parser)


if __name__ == "__main__":
    sys.exit(main())
