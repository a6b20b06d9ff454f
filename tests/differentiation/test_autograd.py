"""Kernels as differentiable operators of PyTorch: `nereid.autograd`."""

import importlib.util
import pathlib
import re

import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
import torch.nn.functional as F
from nereid import _autograd

F64 = torch.float64


@nereid.jit
def swiglu_kernel(gate, up, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + i, mask=i < n)
    wide = g.to(tl.float32) if g.dtype.primitive_bitwidth < 32 else g
    tl.store(y + i, (wide * tl.sigmoid(wide)).to(g.dtype) * tl.load(up + i, mask=i < n), mask=i < n)


def grid_of_blocks(a):
    return (nereid.cdiv(a["n"], a["BLOCK"]), )


def size_of_gate(a):
    return a["gate"].numel()


swiglu = nereid.autograd(swiglu_kernel, wrt=("gate", "up"), out="y", grid=grid_of_blocks, arguments={"n": size_of_gate})


@pytest.fixture(params=["plain", "operator"])
def route(request, monkeypatch):
    """Calls on plain tensors do not go through PyTorch's dispatcher; under autocast, transforms and modes they do."""
    if request.param == "operator":
        monkeypatch.setattr(_autograd, "_are_plain", lambda tensors: False)
    return request.param


def given(*shape, dtype=F64):
    return jvp_check.random(*shape).to(dtype).requires_grad_()


@nereid.jit
def norm_kernel(x, w, y, rstd, rank, stride, eps, N: tl.constexpr, MODE: tl.constexpr = "plain"):
    """Two float outputs and one of integers: which elements are greater than the last one."""
    row = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + row * stride + i)
    r = tl.rsqrt(tl.sum(v * v) / N + eps)
    if MODE == "doubled":
        r = 2 * r
    tl.store(rstd + row, r)
    tl.store(y + row * N + i, v * r * tl.load(w + i))
    tl.store(rank + row * N + i, (v > eps).to(tl.int32))


def rows_of(dtype=None):

    def allocate(a):
        return torch.empty(a["x"].shape[0], dtype=dtype or a["x"].dtype, device=a["x"].device)

    return allocate


def whole_of(dtype=None):

    def allocate(a):
        return torch.empty(a["x"].shape, dtype=dtype or a["x"].dtype, device=a["x"].device)

    return allocate


norm = nereid.autograd(norm_kernel, wrt=("x", "w"), out={"y": whole_of(), "rstd": rows_of(), "rank": whole_of(torch.int32)},
                       grid=lambda a: (a["x"].shape[0], ), arguments={"stride": lambda a: a["x"].stride(0), "N": lambda a: a["x"].shape[1]}, non_contiguous="keep")


def reference_norm(x, w, eps, scale=1.0):
    r = scale * torch.rsqrt((x * x).mean(1) + eps)
    return x * r[:, None] * w, r


def test_values_and_gradients(target, route):
    gate, up = given(1000), given(1000)
    y = swiglu(gate, up, BLOCK=128)
    torch.testing.assert_close(y, F.silu(gate) * up)
    found = torch.autograd.grad(y, (gate, up), dy := jvp_check.random(1000))
    for one, other in zip(found, torch.autograd.grad(F.silu(gate) * up, (gate, up), dy)):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(target, dtype):
    gate, up = given(300, dtype=dtype), given(300, dtype=dtype)
    y = swiglu(gate, up, BLOCK=128)
    y.backward(torch.ones_like(y))
    wide = [x.detach().double().requires_grad_() for x in (gate, up)]
    (F.silu(wide[0]) * wide[1]).sum().backward()
    assert y.dtype == gate.grad.dtype == dtype
    for one, other in zip((gate, up), wide):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=2e-2, atol=2e-2)


def test_gradcheck(route):
    assert torch.autograd.gradcheck(lambda gate, up: swiglu(gate, up, BLOCK=16), (given(3, 7), given(3, 7)))
    assert torch.autograd.gradcheck(lambda x, w: norm(x, w, eps=0.1)[:2], (given(3, 8), given(8)), nondet_tol=1e-12)


def operands(operator, *args, **kwargs):
    """What a call passes to the operator itself."""


    class Recorded(Exception):
        pass

    def record(*given):
        raise Recorded(given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_autograd, "_are_plain", lambda tensors: False)
        patch.setattr(operator, "_overload", record)
        with pytest.raises(Recorded) as recorded:
            operator(*args, **kwargs)
    return recorded.value.args[0]


def test_opcheck():
    torch.library.opcheck(swiglu.operator, operands(swiglu, given(40), given(40), BLOCK=16))
    torch.library.opcheck(swiglu.operator, operands(swiglu, given(40), given(40).detach(), BLOCK=16))
    torch.library.opcheck(norm.operator, operands(norm, given(3, 8), given(8), eps=0.1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):

    def loss(gate, up):
        return (swiglu(gate * 2, up, BLOCK=16) + 1).sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for n in (50, 70):
        gate, up = given(n), given(n)
        found = torch.autograd.grad(compiled(gate, up), (gate, up))
        for one, other in zip(found, torch.autograd.grad((F.silu(gate * 2) * up).sum(), (gate, up))):
            torch.testing.assert_close(one, other)


def test_compiled_with_several_outputs():

    def loss(x, w):
        y, rstd, rank = norm(x, w, eps=0.1, MODE="doubled")
        return (y * y).sum() + rstd.sum() + rank.sum()

    x, w = given(3, 8), given(8)
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(x, w), (x, w))
    y, r = reference_norm(x, w, 0.1, 2.0)
    for one, other in zip(found, torch.autograd.grad((y * y).sum() + r.sum(), (x, w))):
        torch.testing.assert_close(one, other)


def test_compiled_by_inductor():
    gate, up = given(50, dtype=torch.float32), given(50, dtype=torch.float32)
    compiled = torch.compile(lambda gate, up: (swiglu(gate.sin(), up, BLOCK=16) * 2).sum(), fullgraph=True)
    found = torch.autograd.grad(compiled(gate, up), (gate, up))
    for one, other in zip(found, torch.autograd.grad((F.silu(gate.sin()) * up * 2).sum(), (gate, up))):
        torch.testing.assert_close(one, other)


def test_inputs_without_a_gradient(route):
    """The kernel computes gradients that are asked for only."""
    gate, up = given(64), given(64).detach()
    operator = nereid.autograd(swiglu_kernel, wrt=("gate", "up"), out="y", grid=grid_of_blocks, arguments={"n": size_of_gate, "BLOCK": 32})
    operator(gate, up).sum().backward()
    torch.testing.assert_close(gate.grad, torch.autograd.grad((F.silu(gate) * up).sum(), gate)[0])
    assert "of `gate`" in operator.explain() and "of `up`" not in operator.explain()
    with torch.no_grad():
        assert not operator(gate, up).requires_grad


def test_outputs_without_a_gradient(route):
    for which in (0, 1):
        x, w = given(3, 8), given(8)
        outs = norm(x, w, eps=0.1)
        assert not outs[2].requires_grad and outs[2].dtype == torch.int32
        found = torch.autograd.grad(outs[which].sum(), (x, w), allow_unused=True)
        expected = torch.autograd.grad(reference_norm(x, w, 0.1)[which].sum(), (x, w), allow_unused=True)
        torch.testing.assert_close(found[0], expected[0])
        torch.testing.assert_close(found[1], expected[1] if which == 0 else torch.zeros_like(w))


def test_gradients_of_any_strides(route):
    """Those of expanded and of transposed outputs."""
    gate, up = given(8, 8), given(8, 8)
    for function in (lambda y: y.sum(), lambda y: (y.t() * torch.arange(8.0)).sum(), lambda y: y[::2, 1].sum()):
        found = torch.autograd.grad(function(swiglu(gate, up, BLOCK=16)), (gate, up))
        for one, other in zip(found, torch.autograd.grad(function(F.silu(gate) * up), (gate, up))):
            torch.testing.assert_close(one, other)


def test_tensors_that_are_not_contiguous(route):
    gate, up = given(8, 8), given(8, 8)
    with pytest.raises(ValueError, match=re.escape("`gate` is not contiguous, its strides are (1, 8): give `gate.contiguous()`")):
        swiglu(gate.t(), up, BLOCK=16)
    copying = nereid.autograd(swiglu_kernel, wrt=("gate", "up"), out="y", grid=grid_of_blocks, arguments={"n": size_of_gate, "BLOCK": 16}, non_contiguous="copy")
    row = given(8)
    for build in (lambda: (gate.t(), up), lambda: (row.expand(8, 8), up), lambda: (gate[:, ::2], up[:, 1::2])):
        leaves = (gate, up, row)
        found = torch.autograd.grad(copying(*build()).sum(), leaves, allow_unused=True)
        one, other = build()
        expected = torch.autograd.grad((F.silu(one) * other).sum(), leaves, allow_unused=True)
        for a, b in zip(found, expected):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b)


def test_strides_that_the_kernel_takes(route):
    x, w = given(3, 16), given(8)
    found = torch.autograd.grad(norm(x[:, 4:12], w, eps=0.1)[0].sum(), (x, w))
    for one, other in zip(found, torch.autograd.grad(reference_norm(x[:, 4:12], w, 0.1)[0].sum(), (x, w))):
        torch.testing.assert_close(one, other)
    with pytest.raises(ValueError, match=re.escape("elements of `x` share memory, its strides are (0, 1)")):
        norm(given(8).expand(3, 8), w, eps=0.1)


@nereid.jit
def scaled_kernel(x, slope, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * slope, mask=i < n)


def test_numbers_with_a_gradient(route):
    scaled = nereid.autograd(scaled_kernel, ("x", "slope"), "y", lambda a: (2, ), numbers="slope", arguments={"n": lambda a: a["x"].numel(), "BLOCK": 32})
    x, slope = given(50, dtype=torch.float32), torch.tensor(0.25, requires_grad=True)
    scaled(x, slope).sum().backward()
    torch.testing.assert_close(slope.grad, x.detach().sum())
    torch.testing.assert_close(x.grad, torch.full((50, ), 0.25))
    compiled = torch.compile(scaled, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x, slope).sum(), slope)[0], x.detach().sum())
    with pytest.raises(ValueError, match=re.escape("`slope` is a number: expected a tensor of one element, found the shape (2,)")):
        scaled(x, torch.ones(2))


def test_number_without_a_gradient():
    scaled = nereid.autograd(scaled_kernel, "x", "y", (2, ), arguments={"n": lambda a: a["x"].numel()})
    x = given(50)
    scaled(x, 3.0, BLOCK=32, num_warps=8).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((50, ), 3.0, dtype=F64))
    with pytest.raises(TypeError, match="`x` is in `wrt`: expected a tensor, found float"):
        scaled(3.0, 3.0, BLOCK=32)


def test_second_use_of_a_graph(route):
    gate, up = given(20), given(20)
    y = swiglu(gate, up, BLOCK=16).sum()
    first = torch.autograd.grad(y, gate, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(y, gate)[0], first)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, gate)


def test_inputs_that_change_before_the_backward_pass(route):
    gate, up = given(20).detach(), given(20)
    y = swiglu(gate, up, BLOCK=16)
    gate.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_in_a_network_with_autocast():
    torch.manual_seed(0)
    network = torch.nn.Linear(8, 64)
    x = torch.randn(4, 8)
    with torch.autocast("cpu", torch.bfloat16):
        gate, up = network(x).chunk(2, 1)
        y = swiglu(gate.contiguous(), up.contiguous(), BLOCK=32)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    found = network.weight.grad.clone()
    network.zero_grad()
    gate, up = network(x).chunk(2, 1)
    (F.silu(gate) * up).sum().backward()
    torch.testing.assert_close(found, network.weight.grad, rtol=5e-2, atol=5e-2)


def test_operators_that_autocast_converts():
    operator = nereid.autograd(swiglu_kernel, wrt=("gate", "up"), out="y", grid=grid_of_blocks, arguments={"n": size_of_gate, "BLOCK": 32})
    operator.operator.register_autocast("cpu", torch.bfloat16)
    gate, up = given(40, dtype=torch.float32), given(40, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        y = operator(gate, up)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert gate.grad.dtype == torch.float32


def test_which_calls_go_through_the_dispatcher(monkeypatch):
    gate, up = given(20), given(20)
    calls = []
    original = swiglu._overload
    monkeypatch.setattr(swiglu, "_overload", lambda *args: calls.append(1) or original(*args))
    swiglu(gate, up, BLOCK=32)
    assert not calls
    with torch.autocast("cpu", torch.bfloat16):
        swiglu(gate, up, BLOCK=32)
    assert len(calls) == 1
    from torch._subclasses import FakeTensorMode
    with FakeTensorMode() as mode:
        assert swiglu(mode.from_tensor(gate), mode.from_tensor(up), BLOCK=32).shape == (20, )
    assert len(calls) == 2


def test_empty_tensors(route):
    gate, up = given(0), given(0)
    swiglu(gate, up, BLOCK=16).sum().backward()
    assert gate.grad.shape == (0, )


# ---- refusals -------------------------------------------------------------------------------------------


def test_vmap_is_refused(route):
    up = given(20)
    with pytest.raises(NotImplementedError, match="swiglu_kernel: `vmap` cannot batch a kernel"):
        torch.vmap(lambda gate: swiglu(gate, up, BLOCK=16))(given(3, 20))


def test_wrong_operators():

    def wrong(error, message, kernel=swiglu_kernel, wrt="gate", out="y", grid=(1, ), **options):
        with pytest.raises(error, match=re.escape(message)):
            nereid.autograd(kernel, wrt, out, grid, **options)

    wrong(ValueError, "`gat` in `wrt` is no parameter of `swiglu_kernel`: it has `gate`, `up`, `y`, `n`, `BLOCK`", wrt="gat")
    wrong(ValueError, "`z` in `out` is no parameter", out="z")
    wrong(ValueError, "`m` in `arguments` is no parameter", arguments={"m": 1})
    wrong(ValueError, "`up` in `numbers` is not in `wrt`", numbers="up")
    wrong(ValueError, "cannot be differentiated without inputs and outputs", wrt=())
    wrong(ValueError, "`y` is in `wrt` and in `out`", wrt=("gate", "y"))
    wrong(ValueError, "`y` is in `arguments` and in `out`", arguments={"y": 1})
    wrong(ValueError, "`out` says that `y` is like 'z': expected the name of an input of `swiglu_kernel`", out={"y": "z"})
    wrong(ValueError, "`non_contiguous` is 'copied': expected one of 'refuse', 'copy', 'keep'", non_contiguous="copied")
    wrong(ValueError, "how `y` is allocated has to be said", kernel=scaled_kernel, wrt="slope", numbers="slope")
    wrong(TypeError, "autograd needs a kernel made with @jit, found int", kernel=3)


def test_wrong_calls():
    gate, up = given(20), given(20)

    def wrong(error, message, *args, **kwargs):
        with pytest.raises(error, match=re.escape(message)):
            swiglu(*args, **kwargs)

    wrong(TypeError, "swiglu_kernel(gate, up, BLOCK) takes 3 arguments, found 4", gate, up, 16, 3)
    wrong(TypeError, "`gate` is given twice", gate, up, 16, gate=gate)
    wrong(TypeError, "the argument `BLOCK` is missing", gate, up)
    wrong(TypeError, "`y` is not given in a call: it is allocated, as `out` says", gate, up, 16, y=gate)
    wrong(TypeError, "`n` is not given in a call: it is in `arguments`", gate, up, 16, n=20)
    wrong(TypeError, "`BLOCK` is dtype: expected a tensor, a number, a text of one line or None", gate, up, tl.float32)
    with pytest.raises(ValueError, match="`up` requires a gradient and is not in `wrt`: name it there, or give `up.detach\\(\\)`"):
        nereid.autograd(swiglu_kernel, "gate", "y", grid_of_blocks, arguments={"n": size_of_gate})(gate, up, 16)
    with pytest.raises(TypeError, match="the rule of `y` in `out` returned int: expected a new tensor"):
        nereid.autograd(swiglu_kernel, ("gate", "up"), {"y": lambda a: 3}, grid_of_blocks, arguments={"n": size_of_gate})(gate, up, 16)


@pytest.mark.parametrize("rule", [lambda a: a["gate"], lambda a: a["gate"].view(-1), lambda a: a["gate"][:]], ids=["itself", "view", "slice"])
def test_rules_that_return_the_memory_of_an_input_are_refused(rule):
    """The backward pass would read what the kernel has written."""
    operator = nereid.autograd(swiglu_kernel, ("gate", "up"), {"y": rule}, grid_of_blocks, arguments={"n": size_of_gate})
    with pytest.raises(ValueError, match="the rule of `y` in `out` returned memory of `gate`: expected a new tensor"):
        operator(given(20), given(20), 16)


def test_tensors_without_data():
    gate = torch.empty(20, dtype=F64, device="meta", requires_grad=True)
    y = nereid.autograd(swiglu_kernel, ("gate", "up"), "y", grid_of_blocks, arguments={"n": size_of_gate})(gate, gate.detach(), 16)
    y.sum().backward()
    assert y.is_meta and gate.grad.is_meta and y.shape == gate.grad.shape == (20, )


@nereid.jit
def writes_more_kernel(x, y, scratch, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(scratch + i, v, mask=i < n)
    tl.store(y + i, v, mask=i < n)


def test_kernels_that_write_their_arguments():
    operator = nereid.autograd(writes_more_kernel, "x", "y", (1, ), arguments={"BLOCK": 32})
    with pytest.raises(ValueError, match="`writes_more_kernel` writes `scratch`, which is not in `out`"):
        operator(given(20), torch.zeros(20, dtype=F64), 20)


def test_functions_as_constants():
    """Constants of any kind are given once."""

    @nereid.jit
    def twice(x):
        return 2 * x

    @nereid.jit
    def applied_kernel(x, y, n, F: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, F(tl.load(x + i, mask=i < n)).to(T), mask=i < n)

    operator = nereid.autograd(applied_kernel, "x", "y", (1, ), arguments={"F": twice, "T": tl.float64, "BLOCK": 32})
    assert torch.autograd.gradcheck(lambda x: operator(x, 20), (given(20), ))


# ---- a loss that somebody wrote --------------------------------------------------------------------------

SEED = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels" / "seed.py"


@pytest.fixture(scope="module")
def giou():
    spec = importlib.util.spec_from_file_location("seed_kernels_to_differentiate", SEED)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    boxes = lambda a: a["preds_ptr"].new_empty(len(a["preds_ptr"]))
    return nereid.autograd(module.giou_kernel, wrt=("preds_ptr", "targets_ptr"), out={"output_ptr": boxes, "valid_ptr": lambda a: boxes(a).bool()},
                           grid=lambda a: (len(a["preds_ptr"]) // a["BLOCK_SIZE"], ))


def reference_giou(a, b):
    inner = torch.minimum(a, b)[:, 2:] - torch.maximum(a, b)[:, :2]
    outer = torch.maximum(a, b)[:, 2:] - torch.minimum(a, b)[:, :2]
    inner, outer = inner.prod(1), outer.prod(1)
    union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - inner
    value = inner / union.clamp(min=1e-5) - (outer - union) / outer.clamp(min=1e-5)
    return torch.where(b[:, 3] > 0, value, 0.0)


def boxes(n, dtype):
    generator = torch.Generator().manual_seed(n)
    corner, size = (torch.rand(2, n, 2, generator=generator, dtype=F64) for _ in range(2))
    both = torch.cat([corner, corner + 0.5 + size], 2).to(dtype)
    preds, targets = both[0].clone(), both[1].clone()
    targets[::7] = 0
    return preds.requires_grad_(), targets.requires_grad_()


@pytest.mark.parametrize("dtype, tolerance", [(F64, 1e-10), (torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_generalised_intersection_over_union(giou, target, dtype, tolerance):
    preds, targets = boxes(512, dtype)
    loss, valid = giou(preds, targets, BLOCK_SIZE=256)
    assert torch.equal(valid, targets[:, 3] > 0)
    found = torch.autograd.grad(loss, (preds, targets), dy := jvp_check.random(512).to(dtype))
    wide = [x.detach().double().requires_grad_() for x in (preds, targets)]
    differ = (preds != targets).all(1)  # the gradient of the greater of two equal numbers is divided by PyTorch
    for one, other in zip(found, torch.autograd.grad(reference_giou(*wide), wide, dy.double())):
        torch.testing.assert_close(one.double()[differ], other[differ], rtol=tolerance, atol=tolerance * float(other.abs().max()))


def test_the_loss_within_a_compiled_function(giou):
    preds, targets = boxes(512, F64)

    def loss(preds, targets):
        value, valid = giou(preds.exp(), targets, BLOCK_SIZE=256)
        return torch.where(valid, 1 - value, 0.0).mean()

    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(preds, targets), preds)[0]
    expected = torch.where(targets[:, 3] > 0, 1 - reference_giou(preds.exp(), targets), 0.0).mean()
    torch.testing.assert_close(found, torch.autograd.grad(expected, preds)[0])


class Gated(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.gate, self.up = torch.nn.Linear(8, 16), torch.nn.Linear(8, 16)

    def forward(self, x, function):
        return function(self.gate(x), self.up(x))


def test_parameters_that_are_sharded(tmp_path):
    """Under FSDP2, with a group of one process. The mesh is the CPU's: without one, FSDP2 moves the parameters to the machine's GPU."""
    import torch.distributed as distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    network, x = Gated(), torch.randn(4, 8)
    network(x, lambda gate, up: F.silu(gate) * up).sum().backward()
    expected = [parameter.grad.clone() for parameter in network.parameters()]
    network.zero_grad()
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        fully_shard(network, mesh=init_device_mesh("cpu", (1, )))
        network(x, lambda gate, up: swiglu(gate, up, BLOCK=32)).sum().backward()
        for parameter, gradient in zip(network.parameters(), expected):
            torch.testing.assert_close(parameter.grad.full_tensor(), gradient)
    finally:
        distributed.destroy_process_group()
