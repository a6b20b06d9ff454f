"""Hooks of launches and compilations."""

import array
import gc

import nereid
import nereid.language as tl
import numpy
import pytest
import torch
from nereid import knobs
from nereid.compiler import LazyDict


@pytest.fixture(autouse=True)
def untouched():
    runtime, compilation = knobs.runtime, knobs.compilation
    chains = [runtime.launch_enter_hook, runtime.launch_exit_hook, runtime.kernel_load_start_hook, runtime.kernel_load_end_hook,
              runtime.kernel_unload_hook]
    yield
    for chain in chains:
        for call in list(chain.calls):
            chain.remove(call)
    runtime.jit_cache_hook = runtime.jit_post_compile_hook = runtime.add_stages_inspection_hook = compilation.listener = None


def kernel(**options):

    @nereid.jit(**options)
    def fill(x, n, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), n)

    return fill


def test_launch_hooks(target):
    fill = kernel(launch_metadata=lambda grid, metadata, args: {"grid": grid, "bytes": args["BLOCK"] * 4, "warps": metadata.num_warps})
    events = []

    def enter(metadata):
        assert isinstance(metadata, LazyDict)
        events.append(("enter", metadata.get()))

    x = torch.zeros(8, device=target)
    fill[(1, )](x, 1, BLOCK=8)
    knobs.runtime.launch_enter_hook.add(enter)
    knobs.runtime.launch_exit_hook.add(lambda metadata: events.append(("exit", float(x[0]))))
    compiled = fill[lambda meta: (meta["BLOCK"] // 8, )](x, 5, BLOCK=8, num_warps=2)
    assert [event[0] for event in events] == ["enter", "exit"] and events[1][1] == 5
    data = events[0][1]
    assert data["name"] == "fill" and data["grid"] == (1, ) and data["bytes"] == 32 and data["warps"] == compiled.metadata.num_warps
    assert {"function", "stream"} <= set(data)
    compiled[(1, )](x, 7, 8)
    assert len(events) == 4 and x[0] == 7
    knobs.runtime.launch_enter_hook.remove(enter)
    fill[(1, )](x, 9, BLOCK=8)
    assert len(events) == 5 and x[0] == 9


def test_compile_hooks(target):
    fill = kernel()
    events = []
    knobs.runtime.jit_cache_hook = lambda **about: events.append(("before", about))
    knobs.runtime.jit_post_compile_hook = lambda **about: events.append(("after", about))
    x = torch.zeros(8, device=target)
    fill[(1, )](x, 16, BLOCK=8, num_warps=2)
    fill[(1, )](x, 32, BLOCK=8, num_warps=2)
    assert [event[0] for event in events] == ["before", "after"]
    before, after = events[0][1], events[1][1]
    assert set(before) == {"key", "repr", "fn", "compile", "is_manual_warmup", "already_compiled"}
    assert (before["already_compiled"], after["already_compiled"], before["is_manual_warmup"]) == (False, False, False)
    assert before["fn"].jit_function is fill and before["key"] == after["key"]
    assert (before["fn"].module, before["fn"].name) == (__name__, "kernel.<locals>.fill")
    assert before["repr"].startswith("kernel.<locals>.fill[num_warps=2, ") and before["repr"].endswith("](x: *fp32, n: i32, BLOCK: constexpr)")
    described = before["compile"]
    assert described["signature"] == {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"} and described["constants"] == {(2, ): 8}
    assert described["num_warps"] == 2 and described["configs"] == [{(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]}]
    # The data compiles the same kernel in another function of this text.
    twin = nereid.jit(fill.fn)
    knobs.runtime.jit_cache_hook = knobs.runtime.jit_post_compile_hook = None
    preloaded = twin.preload(described["specialization_data"])
    assert twin[(1, )](x, 48, BLOCK=8, num_warps=2) is preloaded


@pytest.mark.parametrize("make, signature, aligned", [
    (lambda: numpy.zeros(8, numpy.float32), "*fp32", True),
    (lambda: numpy.zeros(9, numpy.int16)[1:], "*i16", False),
    (lambda: memoryview(bytearray(8)), "*u8", None),
    (lambda: array.array("d", [0.0] * 8), "*fp64", None),
])
def test_compile_hooks_and_arrays(make, signature, aligned):
    fill = kernel()
    told = []
    knobs.runtime.jit_cache_hook = lambda **about: told.append(about)
    knobs.runtime.jit_post_compile_hook = lambda **about: told.append(about)
    x = make()
    fill[(1, )](x, 3, BLOCK=8)
    fill[(1, )](x, 4, BLOCK=8)
    assert len(told) == 2 and list(x)[:8] == [4] * 8
    described = told[0]["compile"]
    assert described["signature"] == {"x": signature, "n": "i32", "BLOCK": "constexpr"}
    if aligned is not None:
        assert ((0, ) in described["configs"][0]) == aligned
    assert told[0]["key"] == told[1]["key"]


def test_compile_hooks_of_a_gpu_that_is_not_here():
    """A warm-up for another architecture needs no driver, with hooks as without."""
    fill = kernel()
    told = []
    knobs.runtime.jit_cache_hook = knobs.runtime.jit_post_compile_hook = lambda **about: told.append(about)
    compiled = fill.warmup(numpy.zeros(8, numpy.float32), 3, BLOCK=8, num_warps=2, target="cuda:80", grid=(1, ))
    assert ".target sm_80" in compiled.asm["ptx"]
    assert [about["is_manual_warmup"] for about in told] == [True, True]
    described = told[0]["compile"]
    assert described["signature"] == {"x": "*fp32", "n": "i32", "BLOCK": "constexpr"} and described["num_warps"] == 2
    assert described["device"] == "cuda:0" and '"cuda:80"' in described["specialization_data"]
    # The data makes the kernel that a launch takes, not one of `compile`, which is for other launchers.
    twin = nereid.jit(fill.fn)
    knobs.runtime.jit_cache_hook = knobs.runtime.jit_post_compile_hook = None
    preloaded = twin.preload(described["specialization_data"])
    assert twin.warmup(numpy.zeros(8, numpy.float32), 3, BLOCK=8, num_warps=2, target="cuda:80", grid=(1, )) is preloaded


def test_compile_hooks_and_what_is_no_argument():
    knobs.runtime.jit_cache_hook = lambda **about: None
    with pytest.raises(TypeError, match="failed to specialize argument of type: numpy.float32"):
        kernel()[(1, )](numpy.float32(3), 3, BLOCK=8)


def test_a_cache_hook_can_take_over(target):
    fill = kernel()
    knobs.runtime.jit_cache_hook = lambda **about: True
    x = torch.zeros(8, device=target)
    assert fill[(1, )](x, 5, BLOCK=8) is None and x[0] == 0 and len(fill.device_caches) == 0


def test_listener(target):
    fill = kernel()
    heard = []
    knobs.compilation.listener = lambda **about: heard.append(about)
    x = torch.zeros(8, device=target)
    for value in (2, 3, 1):
        fill[(1, )](x, value, BLOCK=8)
    assert len(heard) == 2 and not heard[0]["cache_hit"] and heard[0]["metadata"]["name"] == "fill"
    assert heard[0]["times"].total > 0 and heard[0]["src"].fn is fill


def test_load_hooks(target):
    fill = kernel()
    events = []
    knobs.runtime.kernel_load_start_hook.add(lambda module, function, name, group, hash: events.append((module, function, name)))
    knobs.runtime.kernel_load_end_hook.add(lambda module, function, name, group, hash: events.append((function is not None, name)))
    x = torch.zeros(8, device=target)
    for _ in range(2):
        fill[(1, )](x, 5, BLOCK=8)
    assert events == [(None, None, "fill"), (True, "fill")]


@pytest.mark.parametrize("way", ["the function goes", "its cache is cleared"])
def test_unload_hook(target, way):
    gc.collect()
    fill, events = kernel(), []
    knobs.runtime.kernel_load_end_hook.add(lambda *about: events.append(about))
    knobs.runtime.kernel_unload_hook.add(lambda *about: events.append(about))
    fill[(1, )](torch.zeros(8, device=target), 5, BLOCK=8)
    assert len(events) == 1
    if way == "the function goes":
        del fill
    else:
        fill.device_caches[0][0].clear()
    gc.collect()
    assert len(events) == 2 and events[0] == events[1] and events[0][2] == "fill"


def test_stages_may_be_looked_at_but_not_replaced(target):
    seen = []
    knobs.runtime.add_stages_inspection_hook = lambda backend, stages, options, language, capability: seen.extend(stages)
    x = torch.zeros(8, device=target)
    kernel()[(1, )](x, 5, BLOCK=8)
    assert "tile" in seen
    knobs.runtime.add_stages_inspection_hook = lambda backend, stages, *rest: stages.update(tile=None)
    with pytest.raises(NotImplementedError, match="cannot be replaced"):
        kernel()[(1, )](x, 5, BLOCK=8)
