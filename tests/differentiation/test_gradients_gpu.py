"""Differentiable operators on tensors of a GPU: streams, torch.compile with Inductor, autocast, scalars of the host."""

import jvp_check
import nereid
import nereid.ops
import pytest
import test_grad_loads
import test_grad_picked
import test_partial_sums
import test_whole_gradients
import torch
import torch.nn.functional as F
from test_autograd import norm, reference_norm, swiglu
from test_jvp_kernels import layer_norm

pytestmark = pytest.mark.usefixtures("gpu")


@nereid.jit
def _gated(x, y):
    return x * nereid.language.sigmoid(x) * y


gated = nereid.ops.pointwise(_gated)


def given(*shape, dtype=torch.float32):
    return jvp_check.random(*shape).to("cuda", dtype).requires_grad_()


def near(found, expected, dtype=torch.float32):
    for one, other in zip(found, expected, strict=True):
        tolerance = 1e-5 if dtype == torch.float32 else 2e-2
        torch.testing.assert_close(one.double(), other.double(), rtol=tolerance, atol=tolerance * float(other.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_operators(dtype):
    gate, up = given(300, 500, dtype=dtype), given(300, 500, dtype=dtype)
    dy = torch.randn_like(gate)
    wide = [x.detach().double().requires_grad_() for x in (gate, up)]
    expected = torch.autograd.grad(F.silu(wide[0]) * wide[1], wide, dy.double())
    near(torch.autograd.grad(swiglu(gate, up, BLOCK=1024), (gate, up), dy), expected, dtype)
    near(torch.autograd.grad(gated(gate, up), (gate, up), dy), expected, dtype)
    assert gated(gate, up).device.type == "cuda"


def test_on_another_stream():
    gate, up = given(1000, 1000), given(1000, 1000)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = torch.autograd.grad(swiglu(gate * 2, up, BLOCK=1024).sum(), (gate, up))
    torch.cuda.current_stream().wait_stream(stream)
    near(found, torch.autograd.grad((F.silu(gate * 2) * up).sum(), (gate, up)))


def test_rows():
    x, w = given(64, 512), given(512)
    found = torch.autograd.grad(norm(x, w, eps=0.1)[0].sum(), (x, w))
    near(found, torch.autograd.grad(reference_norm(x, w, 0.1)[0].sum(), (x, w)), torch.float16)


def test_compiled_by_inductor():
    gate, up = given(1000), given(1000)
    compiled = torch.compile(lambda gate, up: (swiglu(gate.sin(), up, BLOCK=256) * 2).sum(), fullgraph=True)
    near(torch.autograd.grad(compiled(gate, up), (gate, up)), torch.autograd.grad((F.silu(gate.sin()) * up * 2).sum(), (gate, up)))


def test_autocast():
    network = torch.nn.Linear(64, 256).cuda()
    x = torch.randn(16, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        gate, up = network(x).chunk(2, 1)
        y = swiglu(gate.contiguous(), up.contiguous(), BLOCK=256)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert network.weight.grad.dtype == torch.float32 and bool(network.weight.grad.isfinite().all())


def test_scalars_of_the_host():
    x, factor = given(1000), torch.tensor(0.5, requires_grad=True)
    gated(x, factor).sum().backward()
    assert factor.grad.device.type == "cpu"
    torch.testing.assert_close(factor.grad, F.silu(x.detach()).sum().cpu(), rtol=1e-4, atol=1e-3)


def test_sums_without_atomic_additions():
    """Norms in three passes, boxes, weights that all programs read: equal to PyTorch's, and the same bits in every run."""
    rows, n = 2000, 1000
    x, w, b, dy = (jvp_check.random(*shape).to("cuda", torch.float32) for shape in ((rows, n), (n, ), (n, ), (rows, n)))
    gradient = nereid.grad(layer_norm, ("X", "W", "B"), "Y")
    runs = []
    for _ in range(5):
        found = [torch.full_like(each, float("nan")) for each in (x, w, b)]
        gradient.backward[(rows, )](x, torch.empty_like(x), w, b, x.new_empty(rows), x.new_empty(rows), n, n, 1e-5, dX=found[0], dW=found[1], dB=found[2], dY=dy, BLOCK_SIZE=256)
        runs.append(found)
    assert all(torch.equal(one, other) for run in runs for one, other in zip(run, runs[0]))
    wide = [each.double().requires_grad_() for each in (x, w, b)]
    near(runs[0], torch.autograd.grad(F.layer_norm(wide[0], (n, ), wide[1], wide[2], 1e-5), wide, dy.double()))
    text = gradient.explain()
    assert "`X` is summed by the program that owns it" in text and "`W` is summed in partial sums" in text


@pytest.mark.parametrize("name", test_grad_loads.CASES)
def test_several_loads(name):
    kernel, grid, tensors, options, _ = test_grad_loads.CASES[name]
    given = {each: jvp_check.random(*shape) for each, shape in tensors.items()}
    dy = jvp_check.random(*tensors["y"])
    found = {}
    for device in ("cpu", "cuda"):
        moved = {each: value.to(device) for each, value in given.items()}
        found[device] = torch.full_like(moved["x"], float("nan"))
        nereid.grad(kernel, "x", "y").backward[grid](**moved, dx=found[device], dy=dy.to(device), **options)
    torch.testing.assert_close(found["cuda"].cpu(), found["cpu"], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", test_partial_sums.CASES)
def test_partial_sums_of_several_grids(name):
    kernel, grid, tensors, options, summed = test_partial_sums.CASES[name]
    given = {each: jvp_check.random(*shape) for each, shape in tensors.items()}
    wrt = tuple(each for each in tensors if each != "y")
    dy = jvp_check.random(*tensors["y"])
    found = {}
    for device in ("cpu", "cuda"):
        moved = {each: value.to(device) for each, value in given.items()}
        found[device], text = test_partial_sums.launch(kernel, grid, moved | options, wrt, dy.to(device))
        assert all(f"the gradient of `{each}` is summed in partial sums" in text for each in summed)
    for each in found["cpu"]:
        torch.testing.assert_close(found["cuda"][each].cpu(), found["cpu"][each], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_picked_elements_of_rows(dtype, monkeypatch):
    monkeypatch.setattr(test_grad_picked, "DEVICE", "cuda")
    for n in (7, 517):
        test_grad_picked.test_cross_entropy(test_grad_picked.online, 1.0, False, dtype, n)
        test_grad_picked.test_cross_entropy(test_grad_picked.early, 1.5, True, dtype, n)
        test_grad_picked.test_cross_entropy(test_grad_picked.in_branch, 1.0, True, dtype, n)
    test_grad_picked.test_label_smoothing_in_two_passes(dtype)
    test_grad_picked.test_elements_that_other_programs_store(dtype)
    test_grad_picked.test_elements_of_other_rows_and_of_none(40)
    test_grad_picked.test_elements_of_other_rows_and_of_none(48)
    test_grad_picked.test_a_row_without_a_gradient_of_its_own()
    test_grad_picked.test_several_rows_of_a_program()
    test_grad_picked.test_two_elements_of_a_row()
    test_grad_picked.test_saved_logarithm_of_the_sum(False)
    test_grad_picked.test_saved_logarithm_of_the_sum(True)
    test_grad_picked.test_a_gradient_has_the_same_bits_in_every_launch()


def test_recorded_into_a_graph():
    """The third launch, which would be tried (test_whole_gradients.py), is recorded; so is one that is neither cleared nor converted."""
    gradient = nereid.grad(test_whole_gradients.rows, "x", "y")
    x = given(4, 8, dtype=torch.bfloat16).detach()
    w, y, dy, dx = x[0].clone(), torch.empty_like(x), torch.ones_like(x), torch.empty_like(x)

    def launch():
        gradient.backward[(4, )](x, w, y, 8, 8, 1.0, 1, dy=dy, dx=dx, BLOCK=8)

    for launches in (2, 2):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(launches):
                launch()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch()
        dx.fill_(float("nan"))
        graph.replay()
        near([dx], [2 * x * w], torch.bfloat16)
    assert gradient.backward._whole.of(next(iter(gradient.backward._whole._known))) == {"dx"}
