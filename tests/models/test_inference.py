"""examples/inference: tokens are those of transformers, whatever joins, leaves, or loses its pages."""

import runpy
import time

import batching
import bert_batches
import paged_llama
import paged_times
import pytest
import torch
from conftest import EXAMPLES

MAIN = runpy.run_path(str(EXAMPLES / "inference" / "__main__.py"))
TINY = ["--size", "tiny", "--device", "cpu"]


@pytest.fixture(scope="module")
def model():
    return paged_llama.random_model("tiny", torch.float32, "cpu")


def _engine(model, pages=16, page=16, **settings):
    return batching.Engine(paged_llama.PagedLlama(model, pages, page), **settings)


def test_continuous_batching(capsys):
    """Twelve sequences through eight places, token by token."""
    assert MAIN["main"]([*TINY, "--check", "--sequences", "12", "--batch", "8", "--progress"]) == 0
    printed = capsys.readouterr()
    assert "all 192 tokens are transformers'" in printed.out
    assert "12 sequences, at most 8 at once" in printed.out and "tokens/s" in printed.out and "GiB of the process at the peak" in printed.out
    assert "12/12 sequences" in printed.err


def test_pages_run_out_and_prompts_in_parts(model):
    """Sequences that lose their pages go on with the same tokens; prompts longer than a step are read in parts."""
    engine = _engine(model, pages=6, page=16, batch=4, prompt_tokens=10)
    prompts = [[3 + (7 * i + j * j) % 200 for j in range(13 + 5 * i)] for i in range(5)]
    requests = [engine.submit(prompt, 30) for prompt in prompts]
    assert len(list(engine.run())) == 150
    assert engine.times.preempted > 0 and engine.times.prompt_steps > 5
    assert sorted(engine.free) == list(range(6))
    for request in requests:
        assert request.tokens == MAIN["greedy"](model, request.prompt, 30)
    assert len({token for request in requests for token in request.tokens}) > 10


def test_a_request_joins_while_others_run(model):
    engine = _engine(model, batch=8)
    first = engine.submit([5, 6, 7], 12)
    for _ in range(4):
        engine.step()
    assert len(first.tokens) == 4
    second = engine.submit([9] * 20, 5, stop=-1)
    list(engine.run())
    assert first.tokens == MAIN["greedy"](model, [5, 6, 7], 12) and second.tokens == MAIN["greedy"](model, [9] * 20, 5)
    assert first.reason == second.reason == "length"


@pytest.mark.parametrize("pages, batch", [(16, 8), (6, 4), (16, 2)])
def test_steps_that_start_ahead(model, pages, batch):
    """The tokens are the same if a step starts before those of the last one are read: with stops, different lengths, requests that join, and too few pages."""
    found = []
    for ahead in (False, True):
        engine = _engine(model, pages=pages, page=16, batch=batch, prompt_tokens=40, ahead=ahead)
        prompts = [[3 + (7 * i + j * j) % 200 for j in range(9 + 5 * i)] for i in range(5)]
        stops = [-1, MAIN["greedy"](model, prompts[1], 20)[11], -1, MAIN["greedy"](model, prompts[3], 20)[2], -1]
        started = []
        requests = [engine.submit(prompt, 12 + 4 * i, stop=stop) for i, (prompt, stop) in enumerate(zip(prompts[:4], stops))]
        events = []
        while engine.waiting or engine.running or engine._started:
            events += engine.step()
            started.append(engine._started is not None)
            if len(events) == 20:
                requests.append(engine.submit(prompts[4], 30))
        if len(requests) < 5:
            requests.append(engine.submit(prompts[4], 30))
            events += list(engine.run())
        assert any(started) == ahead and sorted(engine.free) == list(range(pages)) and not engine.running
        assert len(events) == sum(len(request.tokens) for request in requests)
        assert [token for request in requests for token in request.tokens] == [token for request in requests for event in events if event.request is request for token in [event.token]]
        found.append([(request.tokens, request.reason) for request in requests])
    assert found[0] == found[1]
    assert [reason for _, reason in found[0]] == ["length", "stop", "length", "stop", "length"]
    assert found[0][4][0] == MAIN["greedy"](model, prompts[4], 30)


def test_steps_that_draw_do_not_read_prompts(model, monkeypatch):
    """What the host does for a step that draws does not depend on the length of the sequences: it had compared prompts and copied them for each request of the batch."""
    assert batching.Request(0, [1, 2], 3, 0.0, 0, 1.0, -1) != batching.Request(0, [1, 2], 3, 0.0, 0, 1.0, -1)
    engine = _engine(model, batch=2)
    for _ in range(2):
        engine.submit([5, 6, 7], 6)
    engine.step()
    monkeypatch.setattr(batching.Request, "text", lambda request: pytest.fail("a prompt was read again"))
    assert len(list(engine.run())) == 10


def test_stop(model):
    expected = MAIN["greedy"](model, [5, 6, 7], 12)
    engine = _engine(model)
    request = engine.submit([5, 6, 7], 12, stop=expected[3])
    list(engine.run())
    assert request.tokens == expected[:expected.index(expected[3]) + 1] and request.reason == "stop"


def test_sampling(model):

    def drawn(seed, **settings):
        torch.manual_seed(seed)
        engine = _engine(model)
        requests = [engine.submit([5, 6 + i, 7], 12, **settings) for i in range(8)]
        list(engine.run())
        return [request.tokens for request in requests]

    greedy = drawn(0)
    assert drawn(0, temperature=1.0, top_k=1) == greedy
    assert drawn(0, temperature=1.0, top_p=1e-6) == greedy
    assert drawn(0, temperature=1.0) == drawn(0, temperature=1.0) != greedy
    assert drawn(1, temperature=1.0) != drawn(0, temperature=1.0)


def test_each_request_has_its_own_settings(model):
    torch.manual_seed(0)
    engine = _engine(model)
    requests = [engine.submit([5, 6, 7], 12, temperature=2.0 * (i % 2)) for i in range(8)]
    list(engine.run())
    expected = MAIN["greedy"](model, [5, 6, 7], 12)
    assert [request.tokens == expected for request in requests] == [True, False] * 4


def test_requests_that_do_not_fit(model):
    engine = _engine(model, pages=2, page=16)
    with pytest.raises(ValueError, match="a prompt of 20 tokens and 13 new ones: expected 32 or fewer together"):
        engine.submit([1] * 20, 13)
    with pytest.raises(ValueError, match="`prompt` has 0 tokens: expected at least one, each from 0 to 255"):
        engine.submit([], 1)
    with pytest.raises(ValueError, match="`prompt` has 1 tokens"):
        engine.submit([256], 1)
    with pytest.raises(ValueError, match="limit 0, temperature 0.0, top_k 0, top_p 1.0: expected"):
        engine.submit([1], 0)
    with pytest.raises(ValueError, match="`longest` is 500: expected 1 to 256"):
        _engine(model, longest=500)
    with pytest.raises(ValueError, match="`graphs` is True: expected a model on a GPU"):
        _engine(model, graphs=True)


def test_streaming(capsys):
    assert MAIN["main"]([*TINY, "--stream", "--sequences", "2", "--new", "3", "--temperature", "0.8", "--top-k", "20", "--top-p", "0.9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:6]] == ["0", "1"] * 3
    assert lines[4].endswith("(end: length)") and not lines[2].endswith("(end: length)")


def test_a_wrong_token_is_reported(capsys):
    request = batching.Request(4, [1], 2, 0.0, 0, 1.0, -1, tokens=[7, 8])
    assert MAIN["checked"]([request], [[7, 9]]) == 1
    assert capsys.readouterr().out == "sequence 4: token 1 is 8, transformers' is 9\n"


def test_times(capsys):
    assert MAIN["main"]([*TINY, "--measure", "--compare", "--batch", "2", "--prompt", "16", "--new", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[2].split()[0] == "1" and lines[3].split()[0] == "2" and "speed of ours" in lines[1]
    assert MAIN["main"]([*TINY, "--measure", "--batches", "3", "1", "--prompt", "16", "--new", "4"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == ["3", "1"]
    with pytest.raises(SystemExit):
        MAIN["main"]([*TINY, "--measure", "--prompt", "300"])
    assert "expected at most 256 together" in capsys.readouterr().err


def test_weights_are_shared(model):
    """The model and its decoders, one after the other, have one set of weights, and the model computes what it did."""
    ids = torch.tensor([[5, 6, 7]])
    before = model(ids).logits
    for _ in range(2):
        decoder = paged_llama.PagedLlama(model, 2, 16)
        for mine, layer in zip(decoder.layers, model.model.layers, strict=True):
            weights = [linear.weight for linear in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj)]
            assert [part.data_ptr() for part in mine.qkv.split([len(weight) for weight in weights])] == [weight.data_ptr() for weight in weights]
            assert mine.gate.data_ptr() == layer.mlp.gate_proj.weight.data_ptr()
    assert torch.equal(model(ids).logits, before)


def test_times_of_compiled_models(model, capsys, monkeypatch):
    """Both ways through transformers draw the same tokens; what Inductor would make of them is not the subject. The cache's tensors are marked as fixed, without which Inductor leaves out CUDA graphs."""
    plain, caches = torch.compile, []

    def compile_eagerly(call, mode=None, **settings):
        traced = plain(call, backend="eager", **settings)

        def run(*given, **named):
            caches.append(named.get("past_key_values"))
            return traced(*given, **named)

        return run

    monkeypatch.setattr(torch, "compile", compile_eagerly)
    _, _, expected = paged_times.atens(model, 2, 9, 6)
    _, _, found = paged_times.compiled(model, 2, 9, 6)
    fixed = [tensor for cache in caches for layer in cache.layers for tensor in (layer.keys, layer.values, layer.cumulative_length)]
    assert fixed and all(hasattr(tensor, "_dynamo_static_input_type") for tensor in fixed)
    assert found.shape == (2, 6) and torch.equal(found, expected) and len(expected.unique()) > 3
    assert MAIN["main"]([*TINY, "--measure", "--compare", "aten", "compile", "--batch", "1", "--prompt", "16", "--new", "4"]) == 0
    title = capsys.readouterr().out.splitlines()[1]
    assert title.count("speed of ours") == 2 and "torch.compile: prompt tokens/s" in title
    assert MAIN["main"](["--model", "bert", *TINY, "--compare", "compile", "--batch", "2"]) == 0
    printed = capsys.readouterr().out
    assert "torch.compile: " in printed and "ATen" not in printed


def test_a_first_call_that_compiles_does_not_count():
    calls = []

    def call():
        calls.append(len(calls))
        time.sleep(0.6 if len(calls) == 1 else 0.01)

    assert bert_batches._seconds(call, "cpu") < 0.3 and len(calls) > 2


def test_profile(capsys):
    assert MAIN["main"](["--model", "bert", *TINY, "--profile", "--batch", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("ATen, one pass:") < printed.index("ours, one pass:") and printed.count("aten::addmm") >= 2


def test_bert(capsys):
    assert MAIN["main"](["--model", "bert", *TINY, "--check", "--batch", "4"]) == 0
    printed = capsys.readouterr().out
    assert "4 sequences of 32 tokens" in printed and "error against float64" in printed


@pytest.mark.parametrize("arguments, text", [(["--model", "bert", "--size", "7b"], "--size 7b: expected one of tiny, base, large"), (["--check", "--temperature", "1"], "expected temperature 0"),
                                             (["--model", "bert", "--stream"], "draws no tokens"), (["--compare"], "--compare: expected --measure"), (["--profile"], "--profile: expected --model bert"),
                                             (["--new", "0"], "--new 0: expected 1 or more"), (["--batches", "2"], "--batches: expected --measure"),
                                             (["--measure", "--batches", "2", "0"], "--batches 0: expected 1 or more")])
def test_options_that_do_not_fit(arguments, text, capsys):
    with pytest.raises(SystemExit):
        MAIN["main"](arguments)
    assert text in capsys.readouterr().err
