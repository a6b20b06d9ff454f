"""What a launch of a gradient compiles, and what it does on the host: kernels without machine code that tell where partial sums pay, what is known of launches alike."""

import os
import subprocess
import sys

import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from test_partial_sums import scaled


def arguments(rows=300, n=13):
    x, w, dy = (jvp_check.random(*shape).float() for shape in ((rows, n), (n + 1, ), (rows, n)))
    return dict(x=x, w=w, y=torch.zeros_like(x), n=n), dict(dx=torch.empty_like(x), dw=torch.empty_like(w), dy=dy)


def expected(given, dy):
    x, w, n = given["x"].double().requires_grad_(), given["w"].double().requires_grad_(), given["n"]
    return torch.autograd.grad((x * w[:n])**2 + w[n], (x, w), dy.double())


def check(found, given):
    for name, other in zip(("dx", "dw"), expected(given, found["dy"])):
        torch.testing.assert_close(found[name].double(), other, rtol=1e-3, atol=1e-2)


def test_one_kernel_has_machine_code():
    """Where partial sums pay, the kernel without them only tells so."""
    given, gradients = arguments()
    backward = nereid.grad(scaled, ("x", "w"), "y").backward
    backward[(300, )](**given, **gradients, BLOCK=16)
    check(gradients, given)
    facts, = backward.kernel._kernels()
    assert "machine code" not in facts.times and "differentiate" in facts.times
    partial, = (compiled for kernel in backward._partial.values() for compiled in kernel._kernels())
    assert "machine code" in partial.times
    assert [compiled for compiled, _ in backward._compiled()] == [partial]


def test_facts_of_a_gradient():
    given, gradients = arguments()
    backward = nereid.grad(scaled, ("x", "w"), "y").backward
    kernel = backward.kernel.warmup(**given, **gradients, saved=None, step=-1, BLOCK=16, grid=(300, ), gradient_facts=True)
    params = {param["name"]: param for param in kernel._values["params"]}
    assert params["dw"]["shared_axes"] & 1 and not params["dx"].get("shared_axes", 0) & 1
    assert params["dx"]["written"] and not params["x"]["written"]
    assert kernel._values["options"]["gradient_facts"] is True
    assert list(kernel.asm) == ["tile", "obj"] and "tile.atomic_rmw" in kernel.asm["tile"]
    with pytest.raises(RuntimeError, match="no `obj` of `scaled`: the kernel was compiled with `gradient_facts` and has no machine code"):
        kernel.asm["obj"]
    whole = backward.kernel.warmup(**given, **gradients, saved=None, step=-1, BLOCK=16, grid=(300, ))
    of_whole = {param["name"]: param for param in whole._values["params"]}
    assert params == of_whole
    with pytest.raises(ValueError, match="option `gradient_facts` expects False for a launch, found `True`"):
        kernel[(300, )](given["x"], given["w"], given["y"], given["n"], 16, gradients["dx"], gradients["dw"], gradients["dy"], None, -1)


def test_facts_are_of_gradients():
    x = torch.zeros(16)

    @nereid.jit
    def copy(x, y):
        tl.store(y, tl.load(x))

    for kernel, more in ((copy, {}), (nereid.jvp(copy, "x", "y"), dict(dx=x, dy=x))):
        with pytest.raises(ValueError, match="option `gradient_facts` expects a gradient, found `copy`"):
            kernel.warmup(x, x, **more, grid=(1, ), gradient_facts=True)


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import nereid, torch
from test_gradient_launches import arguments, check
from test_partial_sums import scaled
given, gradients = arguments()
backward = nereid.grad(scaled, ("x", "w"), "y").backward
backward[(300,)](**given, **gradients, BLOCK=16)
check(gradients, given)
for compiled in (*backward.kernel._kernels(), *(each for kernel in backward._partial.values() for each in kernel._kernels())):
    print("kernel cache" in compiled.times)
nereid.flush_cache()
"""


def test_facts_come_from_disk(tmp_path):
    environment = {**os.environ, "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path)}
    for known in ("False", "True"):
        done = subprocess.run([sys.executable, "-c", SCRIPT.format(folder=os.path.dirname(__file__))], capture_output=True, text=True, env=environment)
        assert done.stdout.split() == [known, known], done.stderr


def test_a_function_of_the_grid_is_called_once():
    given, gradients = arguments()
    calls = []

    def grid(named):
        calls.append(named["BLOCK"])
        return 300, 1

    backward = nereid.grad(scaled, ("x", "w"), "y").backward
    for launches in range(1, 6):
        backward[grid](**given, **gradients, BLOCK=16)
        check(gradients, given)
        assert len(calls) == launches


def test_a_view_of_the_same_shape_gets_no_partial_sums():
    """What a launch is remembered by tells tensors that have their memory for themselves from those that have not."""
    given, gradients = arguments()
    backward = nereid.grad(scaled, ("x", "w"), "y").backward
    for _ in range(4):
        backward[(300, )](**given, **gradients, BLOCK=16)
    assert len(backward.kernel._kernels()) == 1  # the facts
    memory = torch.full((64, ), 5.0)
    view = gradients | dict(dw=memory[:14])
    backward[(300, )](**given, **view, BLOCK=16)
    check(view, given)
    assert (memory[14:] == 5).all()
    assert len(backward.kernel._kernels()) == 2  # the kernel that adds atomically, too


def test_many_sizes_are_forgotten(monkeypatch):
    monkeypatch.setattr("nereid._whole_gradients.MOST_KEYS", 3)
    backward = nereid.grad(scaled, ("x", "w"), "y").backward
    for rows in (*range(280, 290), 280):
        given, gradients = arguments(rows)
        backward[(rows, )](**given, **gradients, BLOCK=16)
        check(gradients, given)
        assert len(backward._chosen) <= 3


def test_errors_of_a_gradient_are_those_of_its_differentiation():
    """What decides on partial sums compiles first; what it finds wrong is what a launch without partial sums says."""

    @nereid.jit
    def searching(x, w, y, n):
        row = tl.program_id(0)
        value = tl.load(x + row) * tl.load(w)
        while value < n:  # its rounds cannot be counted beforehand
            value = value * 2 * tl.load(w, volatile=True)
        tl.store(y + row, value)

    x, w, y = torch.ones(4), torch.ones(1), torch.ones(4)
    gradient = nereid.grad(searching, ("x", "w"), "y")
    for _ in range(2):
        with pytest.raises(nereid.CompilationError, match="while") as found:
            gradient.backward[(4, )](x, w, y, 5.0, dx=torch.empty(4), dw=torch.empty(1), dy=torch.ones(4))
        assert "at_most" in str(found.value)


@nereid.jit
def looked_up(table, index, y, width, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(table + tl.load(index + tl.program_id(0)) * width + i, mask=i < width, other=0.0)
    tl.store(y + tl.program_id(0) * width + i, value, mask=i < width)


@pytest.mark.parametrize("narrow,sum_of_ones", [((), 300.0), ("table", 256.0), (("table", ), 256.0)])
def test_sums_in_the_dtype_of_a_gradient(narrow, sum_of_ones):
    """In bf16, 256 + 1 is 256."""
    width, rows = 4096, 1000
    table, index = torch.randn(rows, width).bfloat16(), torch.full((300, ), 7)
    index[100] = 3
    dy, found = torch.ones(301, width).bfloat16(), torch.full_like(table, float("nan"))
    index = torch.cat((index, torch.tensor([7])))
    gradient = nereid.grad(looked_up, "table", "y", narrow)
    for _ in range(4):
        gradient.backward[(301, )](table, index, torch.empty_like(dy), width, dy=dy, dtable=found, BLOCK=4096)
        expected = torch.zeros(rows, width)
        expected[7], expected[3] = sum_of_ones, 1.0
        assert torch.equal(found.float(), expected)
    operator = nereid.autograd(looked_up, "table", {"y": lambda a: a["table"].new_empty(301, width)}, (301, ), arguments={"width": width, "BLOCK": 4096}, narrow=narrow)
    table.requires_grad_()
    assert torch.equal(torch.autograd.grad(operator(table, index), table, dy)[0].float(), expected)


def test_names_of_narrow_gradients():
    with pytest.raises(ValueError, match="`narrow` names `index`, which is not in `wrt`: expected some of `table`"):
        nereid.grad(looked_up, "table", "y", narrow="index")
    with pytest.raises(ValueError, match="`narrow` names `index`, which is not in `wrt`"):
        nereid.autograd(looked_up, "table", "y", (1, ), narrow="index")
