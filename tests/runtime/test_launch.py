"""Launching: grids, specialisation, options, compiled kernels."""

import copy
import pickle
import sys
import threading

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch


@nereid.jit
def where_am_i(out):
    index = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)
    tl.store(out + index, index + 1)


@nereid.jit
def scale(out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, i * n, mask=i < BLOCK)


# ---- the grid ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(3, ), (2, 3), (2, 3, 4), [5], 4, lambda meta: (6, ), (np.int64(2), ), lambda meta: 3],
                         ids=lambda v: "function" if callable(v) and not isinstance(v, type) else str(v))
def test_grids(target, grid):
    shape = grid({}) if callable(grid) else grid
    count = int(np.prod(shape))
    out = np.zeros(count + 1, np.int32)
    where_am_i[grid](out)
    assert out.tolist() == list(range(1, count + 1)) + [0]


@pytest.mark.parametrize("grid", [(0, ), (2, 0), (0, 3, 4)])
def test_an_empty_grid_launches_nothing(target, grid):
    out = np.zeros(4, np.int32)
    where_am_i[grid](out)
    assert not out.any()


@pytest.mark.parametrize("grid, error, text", [
    ((-1, ), ValueError, "the grid must not be negative, found -1 in dimension 0"),
    ((2, -3), ValueError, "the grid must not be negative, found -3 in dimension 1"),
    ((2**31, ), ValueError, "the grid must not be larger than 2147483647, found 2147483648 in dimension 0"),
    ((2**70, ), ValueError, "the grid must not be larger than 2147483647"),
    ((), ValueError, r"the grid must be one to three integers, or a function .*, found \(\)"),
    ((1, 1, 1, 2), ValueError, r"a grid has three dimensions: expected 1 for every size after the third, found 2 in dimension 3"),
    ((1.5, ), TypeError, "the grid must be made of integers, found 1.5 in dimension 0"),
    ("abc", TypeError, "the grid must be one to three integers, or a function .*, found 'abc'"),
    (None, TypeError, "the grid must be one to three integers, or a function .*, found None"),
    (lambda meta: None, TypeError, "the grid must be one to three integers, or a function .*, found None"),
], ids=lambda v: "function" if callable(v) and not isinstance(v, type) else str(v))
def test_bad_grids(target, grid, error, text):
    with pytest.raises(error, match=text):
        where_am_i[grid](np.zeros(4, np.int32))


def test_grid_function_sees_every_argument(target):
    seen = {}

    def grid(meta):
        seen.update(meta)
        return (1, )

    out = np.zeros(8, np.int32)
    scale[grid](out, 3, BLOCK=8)
    assert set(seen) == {"out", "n", "BLOCK"} and seen["BLOCK"] == 8 and seen["out"] is out


def test_errors_of_grid_functions_come_through(target):
    with pytest.raises(ZeroDivisionError):
        scale[lambda meta: (1 // 0, )](np.zeros(8, np.int32), 3, BLOCK=8)


# ---- specialisation ------------------------------------------------------------------------------------


def kernels_for(kernel, calls):
    return [kernel[(1, )](*args, **kwargs) for args, kwargs in calls]


def test_integers_are_specialised_by_one_and_sixteen(target):

    @nereid.jit
    def kernel(out, n):
        tl.store(out, n)

    out = np.zeros(1, np.int64)
    one, two, three, sixteen, zero, large = (kernel[(1, )](out, n) for n in (1, 2, 3, 16, 0, 2**40))
    assert two is three and sixteen is zero
    assert len({id(k) for k in (one, two, sixteen, large)}) == 4
    assert out[0] == 2**40


def test_do_not_specialize(target):

    @nereid.jit(do_not_specialize=["n"])
    def kernel(out, n):
        tl.store(out, n)

    out = np.zeros(1, np.int64)
    assert len({id(kernel[(1, )](out, n)) for n in (1, 2, 16)}) == 1


def test_do_not_specialize_on_alignment(target):

    @nereid.jit(do_not_specialize_on_alignment=["n"])
    def kernel(out, n):
        tl.store(out, n)

    out = np.zeros(1, np.int64)
    one, two, sixteen = (kernel[(1, )](out, n) for n in (1, 2, 16))
    assert two is sixteen and one is not two


def test_do_not_specialize_a_constexpr_is_an_error(target):

    @nereid.jit(do_not_specialize=["N"])
    def kernel(out, N: tl.constexpr):
        tl.store(out, N)

    with pytest.raises(nereid.CompilationError, match="`N` is a constexpr and cannot be in do_not_specialize"):
        kernel[(1, )](np.zeros(1), 3)


def test_annotated_parameters_are_not_folded(target):

    @nereid.jit
    def kernel(out, n: tl.int64, x: "fp32"):
        tl.static_assert(n.dtype == tl.int64)
        tl.store(out, n + x)

    out = np.zeros(1, np.float32)
    kernel[(1, )](out, 1, 2.0)
    assert out[0] == 3


def test_pointers_are_specialised_by_alignment_and_type(target):
    memory = torch.zeros(64, dtype=torch.int32)
    a = scale[(1, )](memory, 3, BLOCK=8)
    assert scale[(1, )](memory[4:], 3, BLOCK=8) is a
    assert scale[(1, )](memory[1:], 3, BLOCK=8) is not a
    assert scale[(1, )](memory.long(), 3, BLOCK=8) is not a


def test_options_make_kernels(target):
    out = np.zeros(8, np.int32)
    assert scale[(1, )](out, 3, BLOCK=8) is scale[(1, )](out, 5, BLOCK=8)
    assert scale[(1, )](out, 3, BLOCK=8, debug=True) is not scale[(1, )](out, 3, BLOCK=8)


def test_gpu_options_are_accepted(target):
    out = np.zeros(8, np.int32)
    scale[(1, )](out, 2, BLOCK=8, num_warps=8, num_stages=2, num_ctas=1)
    assert out.tolist() == [2 * i for i in range(8)]


# ---- compiled kernels ----------------------------------------------------------------------------------


@pytest.mark.cpu_only("the CPU's stages; a GPU's: tests/device")
def test_names_of_options_made_at_run_time(target):
    """They are other objects each time, which must not be kept with each launch."""
    out = np.zeros(8, np.int32)
    precision = "".join(["ie", "ee"])
    for i in range(30):
        if i == 10:
            before = sys.getrefcount(precision)
        scale[(1, )](out, 3, 8, **{"".join(["default_dot_", "input_precision"]): precision})
    assert sys.getrefcount(precision) == before


@pytest.mark.cpu_only("stages of a kernel for the CPU; those of a GPU: tests/device")
def test_compiled_kernel(target):
    out = np.zeros(8, np.int32)
    compiled = scale[(1, )](out, 3, BLOCK=8)
    assert compiled.name == "scale"
    assert "tile.store" in compiled.asm["tile"] and compiled.asm["ttir"] == compiled.asm["tile"]
    assert "define" in compiled.asm["llir"]
    assert isinstance(compiled.asm["asm"], str) and isinstance(compiled.asm["obj"], bytes)
    assert set(compiled.asm) >= {"tile", "llir", "asm", "obj"}
    assert compiled.metadata.name == "scale" and compiled.metadata.target.backend == "cpu" and compiled.hash
    assert sum(compiled.times.values()) > 0
    with pytest.raises(KeyError, match="no stage 'ptx': there are tile"):
        compiled.asm["ptx"]


def test_launching_a_compiled_kernel(target):
    out = np.zeros(8, np.int32)
    compiled = scale[(1, )](out, 3, BLOCK=8)
    compiled[(1, )](out, 5, 8)
    assert out.tolist() == [5 * i for i in range(8)]


def test_warmup_compiles_without_launching(target):
    out = torch.zeros(8, dtype=torch.int32)
    compiled = scale.warmup(torch.int32, 3, BLOCK=8, grid=(1, ))
    assert "tile.store" in compiled.asm["tile"]
    assert scale.warmup(nereid.MockTensor(torch.int32), 3, BLOCK=8, grid=(1, )) is compiled
    assert not out.any()


def test_direct_call_is_refused():
    with pytest.raises(RuntimeError) as refused:
        scale(1, 2, 3)
    message, note = str(refused.value).split("\n")
    assert message == "`scale` was called as a Python function: launch it with a grid, `scale[grid](...)`; only kernels call it without one"
    assert note == "note: in Triton's words: Cannot call @triton.jit'd outside of the scope of a kernel"


def test_builtins_outside_of_kernels_are_refused():
    with pytest.raises(ValueError, match="Did you forget to add @triton.jit"):
        tl.arange(0, 4)


# ---- KernelInterface -----------------------------------------------------------------------------------


def test_overridden_run_is_used(target):
    calls = []

    class Spy(nereid.JITFunction):

        def run(self, *args, grid, warmup, **kwargs):
            calls.append((grid, warmup))
            return super().run(*args, grid=grid, warmup=warmup, **kwargs)

    out = np.zeros(8, np.int32)
    Spy(scale.fn)[(1, )](out, 2, BLOCK=8)
    assert calls == [((1, ), False)] and out[7] == 14


def test_run_replaced_on_an_object_is_used(target):
    kernel = nereid.jit(scale.fn)
    kernel.run = lambda *args, grid, warmup, **kwargs: ("mine", grid, args, kwargs)
    assert kernel[(3, )](1, 2, BLOCK=8) == ("mine", (3, ), (1, 2), {"BLOCK": 8})


def test_pre_run_hooks(target):
    kernel = nereid.jit(scale.fn)
    seen = []
    kernel.add_pre_run_hook(lambda *args, **kwargs: seen.append((args[1], kwargs)))
    out = np.zeros(8, np.int32)
    kernel[(1, )](out, 2, BLOCK=8)
    assert seen == [(2, {"BLOCK": 8})] and out[7] == 14
    for add in ("append", "extend", "insert", "__iadd__"):
        kernel, called = nereid.jit(scale.fn), []
        kernel[(1, )](out, 2, BLOCK=8)
        hook = lambda *args, **kwargs: called.append(args[1])
        getattr(kernel.pre_run_hooks, add)(*{"append": (hook, ), "insert": (0, hook)}.get(add, ([hook], )))
        kernel[(1, )](out, 3, BLOCK=8)
        assert called == [3], add
    copied = copy.copy(kernel)
    copied[(1, )](out, 4, BLOCK=8)
    assert called == [3, 4]
    kernel.pre_run_hooks.clear()
    kernel[(1, )](out, 5, BLOCK=8)
    assert called == [3, 4]
    assert pickle.loads(pickle.dumps(scale)).pre_run_hooks == []


@pytest.mark.parametrize("name", ["a b", "1st", "größe", "a.b", ""])
def test_names_that_machine_code_cannot_have(target, name):  # KernelName
    kernel = nereid.jit(scale.fn, repr=lambda specialization: name)
    compile = lambda: kernel.warmup(np.zeros(8, np.int32), 2, BLOCK=8, grid=(1, ))
    if not name:  # no name of its own
        assert compile().name == "scale"
        return
    with pytest.raises(nereid.CompilationError, match=f"`{name}` cannot be the name of a kernel: expected ASCII letters"):
        compile()


def test_launches_from_many_threads(target):
    kernel = nereid.jit(scale.fn)
    outs = [np.zeros(8, np.int32) for _ in range(8)]

    def work(out, n):
        for _ in range(50):
            kernel[(1, )](out, n, BLOCK=8)

    threads = [threading.Thread(target=work, args=(out, n + 2)) for n, out in enumerate(outs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out[7] for out in outs] == [7 * (n + 2) for n in range(8)]


@nereid.jit
def told(out, a, b, c: tl.constexpr = 3, d: tl.constexpr = 4):
    tl.store(out, a * 1000 + b * 100 + c * 10 + d)


def test_keywords_that_are_remembered():
    """What a launch's keywords mean is known by the tuple of their names; each of these follows each other one, and itself."""
    out = torch.zeros(1, dtype=torch.int32)
    launches = [
        (lambda: told[(1, )](out, a=5, b=6), 5634),
        (lambda: told[(1, )](out, b=5, a=6), 6534),
        (lambda: told[(1, )](out, 5, b=6), 5634),
        (lambda: told[(1, )](out, 5, 6, d=7, num_warps=4), 5637),
        (lambda: told[(1, )](out, 5, 6, num_warps=8, d=8), 5638),
        (lambda: told[(1, )](out, 5, 6, num_warps=4, c=9), 5694),
        (lambda: told[(1, )](out, 5, **{"b": 7, "num_" + "stages": 2}), 5734),
        (lambda: told[(1, )](a=2, b=3, out=out), 2334),
    ]
    with_name = lambda *args: told[(1, )](*args, b=1)
    for first, one in launches:
        for second, other in launches:
            for launch, wanted in ((first, one), (first, one), (second, other), (second, other)):
                out.zero_()
                launch()
                assert out.item() == wanted
        with_name(out, 4)
        assert out.item() == 4134
        with pytest.raises(TypeError, match=r"told\(\) got multiple values for argument 'b'"):
            with_name(out, 4, 5)
        with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'a'"):
            with_name(out)
    with pytest.raises(KeyError, match="num_wraps"):
        told[(1, )](out, 1, b=2, num_wraps=4)
