"""Continuous batching over a `PagedLlama`: requests join and leave between steps, and pages of the cache go to those that run.

    engine = Engine(model, batch=8)
    requests = [engine.submit(prompt, 64) for prompt in prompts]
    for event in engine.run(): print(event.request.number, event.token)

A step either reads prompts, up to `prompt_tokens` of them, longer ones in parts, or draws one token for each sequence that runs. New requests are admitted while there are places and pages.
Where pages run out, the request that was admitted last gives its pages back and waits; it reads its prompt and what it has written again later.

On GPUs a step that draws is started before the tokens of the one before are known to the host, if the same sequences run in both: the GPU passes tokens on itself, and the host works meanwhile. A sequence that
turns out to have drawn its `stop` is computed once too often; that token is dropped.
"""

import collections
import dataclasses
import time

import numpy as np
import torch
from paged_llama import Step

from nereid.ops import fused


@dataclasses.dataclass(eq=False)
class Request:
    """A prompt and what is drawn for it; one is equal to itself alone. tokens: drawn so far; reason: "", or why it has ended ("length", "stop"). read: how many of its tokens are in the cache."""
    number: int
    prompt: list
    limit: int
    temperature: float
    top_k: int
    top_p: float
    stop: int
    tokens: list = dataclasses.field(default_factory=list)
    pages: list = dataclasses.field(default_factory=list)
    read: int = 0
    reason: str = ""

    def __len__(self):
        return len(self.prompt) + len(self.tokens)

    def text(self):
        return self.prompt + self.tokens


@dataclasses.dataclass(frozen=True)
class Event:
    """A token that was drawn."""
    request: Request
    token: int


@dataclasses.dataclass
class Times:
    """Steps, tokens and seconds, of prompts and of drawing; times that requests lost their pages."""
    prompt_steps: int = 0
    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    draw_steps: int = 0
    draw_tokens: int = 0
    draw_seconds: float = 0.0
    preempted: int = 0


def bucket(count):
    """The power of 2 that a batch is padded to, so that few sizes are compiled and captured."""
    return 1 << (count - 1).bit_length()


class Engine:
    """batch: sequences that run at once. prompt_tokens: of a step. longest: tokens that a sequence may have, at most the model's positions. graphs: CUDA graphs of the steps that draw; None: on GPUs.
    ahead: steps that draw start before the tokens of the last one are read; None: on GPUs."""

    def __init__(self, model, batch=8, prompt_tokens=2048, longest=None, graphs=None, ahead=None):
        longest = model.positions if longest is None else longest
        if not 1 <= longest <= model.positions:
            raise ValueError(f"`longest` is {longest}: expected 1 to {model.positions}, the model's positions")
        for name, number in (("batch", batch), ("prompt_tokens", prompt_tokens)):
            if number < 1:
                raise ValueError(f"`{name}` is {number}: expected 1 or more")
        if graphs and model.device.type != "cuda":
            raise ValueError("`graphs` is True: expected a model on a GPU")
        self.model, self.batch, self.prompt_tokens, self.longest = model, batch, prompt_tokens, longest
        self.graphs = model.device.type == "cuda" if graphs is None else graphs
        self.ahead = model.device.type == "cuda" if ahead is None else ahead
        self.width = -(-longest // model.page)
        self.free = list(range(model.pages - 1, -1, -1))
        self.waiting, self.running = collections.deque(), []
        self.times = Times()
        self._captured, self._pool = {}, None
        self._started = None  # a step that draws, not read yet: (requests, tokens)
        self._number = 0

    def submit(self, prompt, limit, temperature=0.0, top_k=0, top_p=1.0, stop=-1):
        """A `Request` for at most `limit` tokens after the prompt (a list of numbers of tokens). temperature 0: the most probable one; top_k, top_p: as for `fused.sample`. stop: a token that ends it.

        Raises ValueError for numbers that do not fit, and for requests that are longer than a sequence or the cache may be.
        """
        if not prompt or not all(0 <= token < self.model.config.vocab_size for token in prompt):
            raise ValueError(f"`prompt` has {len(prompt)} tokens: expected at least one, each from 0 to {self.model.config.vocab_size - 1}")
        if limit < 1 or temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
            raise ValueError(f"limit {limit}, temperature {temperature}, top_k {top_k}, top_p {top_p}: expected at least 1, 0, 0 and a number above 0, up to 1")
        most = min(self.longest, self.model.pages * self.model.page)
        if len(prompt) + limit > most:
            raise ValueError(f"a prompt of {len(prompt)} tokens and {limit} new ones: expected {most} or fewer together")
        request = Request(self._number, list(prompt), limit, float(temperature), int(top_k), float(top_p), stop)
        self._number += 1
        self.waiting.append(request)
        return request

    def run(self):
        """Yields an `Event` for each token until no request is left; requests may be submitted meanwhile."""
        while self.waiting or self.running or self._started:
            yield from self.step()

    def step(self):
        """One step: the events of it, none where only a part of a prompt was read."""
        start = time.perf_counter()
        parts = []
        if self._started:
            (chosen, tokens), self._started = self._started, None
        else:
            self._admit()
            reading = [request for request in self.running if request.read < len(request) - 1 or not request.tokens]
            parts = self._parts(reading)
            chosen, tokens = self._prompts(parts) if parts else self._draws()
        arrived = self._transfer(tokens)
        if not parts and self._may_run_ahead(chosen):
            self._started = self._draws(tokens)
        drawn = arrived()
        seconds = time.perf_counter() - start
        if parts:
            self.times.prompt_steps += 1
            self.times.prompt_seconds += seconds
        else:
            self.times.draw_steps += 1
            self.times.draw_seconds += seconds
        events = []
        for request, token in zip(chosen, drawn):
            if request.reason:  # ended by the step before, whose tokens were not known yet
                continue
            self.times.draw_tokens += not parts
            request.tokens.append(token)
            events.append(Event(request, token))
            if token == request.stop or len(request.tokens) == request.limit:
                request.reason = "stop" if token == request.stop else "length"
                self.running.remove(request)
                self._release(request)
        if self._started and all(request.reason for request in self._started[0]):
            self._started = None
        return events

    # Steps that start ahead.

    def _transfer(self, tokens):
        """Starts the way of tokens to the host, before later work of the stream; a function that waits for them."""
        if tokens.device.type != "cuda":
            return tokens.tolist
        there = torch.empty(tokens.shape, dtype=tokens.dtype, pin_memory=True)
        there.copy_(tokens, non_blocking=True)
        event = torch.cuda.Event()
        event.record()

        def arrived():
            event.synchronize()
            return there.tolist()

        return arrived

    def _may_run_ahead(self, drawing):
        """Will the sequences that draw draw again, with pages for it, and no other beside them? A sequence that has ended, but was computed once more, ends that."""
        if not self.ahead or drawing != self.running:
            return False
        if self.waiting and len(self.running) < self.batch or any(len(request.tokens) + 1 >= request.limit for request in drawing):
            return False
        return sum(-(-(len(request) + 1) // self.model.page) - len(request.pages) for request in drawing) <= len(self.free)

    # Pages.

    def _release(self, request):
        self.free += reversed(request.pages)
        request.pages, request.read = [], 0

    def _admit(self):
        while self.waiting and len(self.running) < self.batch:
            wanted = -(-(len(self.waiting[0]) + 1) // self.model.page)
            if wanted > len(self.free) and self.running:
                return
            self.running.append(self.waiting.popleft())

    def _reserve(self, request, length):
        """Gives a request the pages for `length` tokens; those that were admitted later lose theirs if need be. Returns False if it lost its own."""
        while -(-length // self.model.page) > len(request.pages):
            if not self.free:
                last = self.running.pop()
                self._release(last)
                self.waiting.appendleft(last)
                self.times.preempted += 1
                if last is request:
                    return False
                continue
            request.pages.append(self.free.pop())
        return True

    # Steps.

    def _parts(self, reading):
        """What the next step reads: (request, first token, end), with pages for it. Empty where nothing is left to read, or no pages for it."""
        parts, room = [], self.prompt_tokens
        for request in reading:
            end = min(len(request), request.read + room)
            if end == request.read or request not in self.running or not self._reserve(request, end):
                break
            parts.append((request, request.read, end))
            room -= end - request.read
        return parts

    def _prompts(self, parts):
        """Reads prompts. (requests that were read to the end, their next tokens)"""
        tokens, positions, slots, starts, lengths = [], [], [], [0], []
        for request, begin, end in parts:
            tokens += request.text()[begin:end]
            positions += range(begin, end)
            slots += self._slots(request, begin, end)
            starts.append(len(tokens))
            lengths.append(end)
            request.read = end
        self.times.prompt_tokens += len(tokens)
        padding = -len(tokens) % 16  # few alignments to compile for
        most = max(end - begin for _, begin, end in parts)
        device = self.model.device
        last = torch.tensor(starts[1:], device=device) - 1
        step = Step(torch.tensor(tokens + [0] * padding, device=device), torch.tensor(positions + [0] * padding, device=device), torch.tensor(slots + [-1] * padding, device=device),
                    self._table([request for request, _, _ in parts], len(parts)), torch.tensor(lengths, dtype=torch.int32, device=device),
                    torch.tensor(starts, dtype=torch.int32, device=device), last, bucket(most), bucket(max(lengths)))
        done = [i for i, (request, _, end) in enumerate(parts) if end == len(request)]
        requests = [parts[i][0] for i in done]
        logits = self.model.logits(step)
        if not requests:
            return [], torch.empty(0, dtype=torch.int64)
        return requests, fused.sample(logits[done] if len(done) < len(parts) else logits, *self._settings(requests, len(requests)))

    def _draws(self, before=None):
        """The next token of each sequence that runs. before: their last tokens, on the device, where `Request.tokens` lacks them yet. (requests, tokens)"""
        more = 0 if before is None else 1
        for request in list(self.running):
            if request in self.running:
                self._reserve(request, len(request) + more)
        requests = list(self.running)
        size = bucket(len(requests))
        padding = size - len(requests)
        places = [len(request) - 1 + more for request in requests]
        values = {
            "positions": torch.tensor(places + [0] * padding), "slots": torch.tensor([self._slot(request, place) for request, place in zip(requests, places)] + [-1] * padding),
            "table": self._table(requests, size, "cpu"), "lengths": torch.tensor([place + 1 for place in places] + [0] * padding, dtype=torch.int32)
        }
        last = torch.tensor([request.tokens[-1] for request in requests]) if before is None else before
        values["tokens"] = torch.nn.functional.pad(last, (0, padding))
        settings = self._settings(requests, size, "cpu")
        for request in requests:
            request.read = len(request) + more
        if self.graphs:
            return requests, self._replay(size, values, settings)[:len(requests)]
        device = self.model.device
        step = Step(**{name: value.to(device) for name, value in values.items()}, longest=bucket(max(places) + 1))
        return requests, fused.sample(self.model.logits(step), *(value.to(device) for value in settings))[:len(requests)]

    def _replay(self, size, values, settings):
        """A step from a CUDA graph for batches of this size, captured the first time."""
        if size not in self._captured:
            fixed = {name: value.to(self.model.device) for name, value in values.items()}
            chosen = [value.to(self.model.device) for value in settings]
            step = Step(**fixed, longest=self.longest)
            # Kernels are compiled and memory is found before the capture; writing the same keys again changes nothing.
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    fused.sample(self.model.logits(step), *chosen)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._pool):
                out = fused.sample(self.model.logits(step), *chosen)
            self._pool = graph.pool()
            self._captured[size] = graph, fixed, chosen, out
        graph, fixed, chosen, out = self._captured[size]
        for held, value in [*((fixed[name], value) for name, value in values.items()), *zip(chosen, settings)]:
            held.copy_(value if value.is_cuda else value.pin_memory(), non_blocking=True)
        graph.replay()
        return out

    def _slots(self, request, begin, end):
        page = self.model.page
        return [number * page + place for number in request.pages for place in range(page)][begin:end]

    def _slot(self, request, place):
        return request.pages[place // self.model.page] * self.model.page + place % self.model.page

    def _table(self, requests, size, device=None):
        rows = [request.pages + [0] * (self.width - len(request.pages)) for request in requests] + [[0] * self.width] * (size - len(requests))
        return torch.from_numpy(np.array(rows, np.int32)).to(device or self.model.device)

    def _settings(self, requests, size, device=None):
        """[temperatures, top_k, top_p] as `fused.sample` takes them, (size,)."""
        padding = size - len(requests)
        device = device or self.model.device
        return [torch.tensor([request.temperature for request in requests] + [0.0] * padding, device=device),
                torch.tensor([request.top_k for request in requests] + [0] * padding, device=device), torch.tensor([request.top_p for request in requests] + [1.0] * padding, device=device)]
