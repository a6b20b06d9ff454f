"""`fused.recompute`: gradients as without it, and nothing is kept that can be computed again."""

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F

from nereid.ops import fused


def inputs_of(dtype=torch.float32, rows=12, width=32):
    numbers = torch.Generator().manual_seed(3)
    shapes = [(rows, width), (width, ), (24, width), (24, width), (width, 24)]
    dtypes = [dtype] * 4 + [{torch.bfloat16: torch.float32, torch.float32: torch.float64}[dtype]]
    return [torch.randn(shape, generator=numbers, dtype=dtype).requires_grad_() for shape, dtype in zip(shapes, dtypes)]


class Plain:
    """The same calls without recomputation."""

    def __call__(self, function, *arguments):
        return function(*arguments)

    def known(self, tensor, function, *arguments):
        return tensor

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def block(again, x, weight, gate, up, down, made=None, norm=fused.rms_norm, swiglu=fused.swiglu):
    """A norm, two layers that share its result, a gated activation, a cast weight. made: a list that gets references to the memory of what can be computed again."""
    normalised = again(norm, x, weight)
    hidden = again(swiglu, F.linear(normalised, gate), F.linear(normalised, up))
    cast = again(torch.Tensor.to, down, x.dtype)
    if made is not None:
        made += [StorageWeakRef(t.untyped_storage()) for t in (normalised, hidden, cast)]
    return F.linear(hidden, cast) + x


def gradients(context, inputs, call=block):
    with context as again:
        out = call(again, *inputs)
    return torch.autograd.grad(out.square().sum(), inputs, allow_unused=True)


def equal(mine, plain):
    assert len(mine) == len(plain)
    for number, (x, y) in enumerate(zip(mine, plain)):
        assert torch.equal(x, y), number


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_have_the_same_bits(dtype):
    inputs = inputs_of(dtype)
    equal(gradients(fused.recompute(), inputs), gradients(Plain(), inputs))


def test_nothing_is_kept():
    """The memory of what can be computed again is free after the forward pass, and in the backward pass when its last user has had it."""
    for context, kept in ((Plain(), True), (fused.recompute(), False)):
        made = []
        with context as again:
            out = block(again, *inputs_of(), made=made)
            assert not any(reference.expired() for reference in made)
        assert [reference.expired() for reference in made] == [not kept] * 3
        del out


def test_computed_once_for_all_users_and_then_let_go():
    x, weight, gate, up, _ = inputs_of()
    calls = []

    def norm(x, weight):
        result = fused.rms_norm(x, weight)
        calls.append(StorageWeakRef(result.untyped_storage()))
        return result

    with fused.recompute() as again:
        normalised = again(norm, x, weight)
        out = F.linear(normalised, gate).sum() + F.linear(normalised, up).sum() + normalised.T.contiguous().square().sum()
    del normalised
    for count in (2, 3):
        first = torch.autograd.grad(out, [gate, up], retain_graph=True)
        assert len(calls) == count, "gradients of the layers need it once"
    torch.autograd.grad(out, [x, weight, gate, up])
    assert all(reference.expired() for reference in calls)
    equal(first, torch.autograd.grad(F.linear(fused.rms_norm(x, weight), gate).sum() + F.linear(fused.rms_norm(x, weight), up).sum(), [gate, up]))


def test_views_of_it():
    """What is saved is a part of it, in another order."""
    x, weight, gate, _, _ = inputs_of()

    def call(again, x, weight, gate):
        normalised = again(fused.rms_norm, x, weight)
        part = normalised.view(3, 4, 32).transpose(0, 1)[1:, :, 3:19]
        return part * part.flip(0) + (normalised[5:7, ::2] @ gate[:16]).sum()

    equal(gradients(fused.recompute(), [x, weight, gate], call), gradients(Plain(), [x, weight, gate], call))


def test_one_of_two_results():
    x, weight, gate, _, _ = inputs_of(torch.bfloat16)
    residual = x.detach().flip(0).requires_grad_()
    made = []

    def call(again, x, residual, weight, gate):
        normalised, total = fused.add_rms_norm(x, residual, weight)
        normalised = again.known(normalised, fused.rms_norm, total, weight)
        made.append(StorageWeakRef(normalised.untyped_storage()))
        return F.linear(normalised, gate).sum() + total

    equal(gradients(fused.recompute(), [x, residual, weight, gate], call), gradients(Plain(), [x, residual, weight, gate], call))
    with fused.recompute() as again:
        out = call(again, x, residual, weight, gate)
    assert made[-1].expired() and out.requires_grad


def test_gradients_of_gradients():
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, 5, dtype=torch.float64, requires_grad=True)

    def call(x, w):
        with fused.recompute() as again:
            y = again(torch.sin, x @ w)
            return again(torch.tanh, y) * y @ w

    assert torch.autograd.gradcheck(call, (x, w))
    assert torch.autograd.gradgradcheck(call, (x, w))


def test_memory_that_is_used_again():
    """Another tensor may get the address of one that was let go, but not within the context."""
    x = torch.randn(64, 64, requires_grad=True)

    def call(again, x):
        total = 0
        for number in range(20):
            total = total + (again(torch.cos, x * number) * (x + number).sin()).square()
        return total

    equal(gradients(fused.recompute(), [x], call), gradients(Plain(), [x], call))


def test_changed_in_place_before_it_is_saved():
    x = torch.randn(8, requires_grad=True)

    def call(again, x):
        return again(torch.cos, x).mul_(3).square()

    equal(gradients(fused.recompute(), [x], call), gradients(Plain(), [x], call))


def test_an_argument_that_is_its_result():
    """A cast that casts nothing, and a view: there is nothing to gain."""
    x, _, gate, _, _ = inputs_of()

    def call(again, x, gate):
        return F.linear(again(torch.Tensor.to, x, torch.float32), again(torch.Tensor.view, gate, 24, 32))

    equal(gradients(fused.recompute(), [x, gate], call), gradients(Plain(), [x, gate], call))


def test_autocast():
    x, _, gate, _, down = inputs_of()

    def call(again, x, gate, down):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return F.linear(again(lambda x, w: F.gelu(F.linear(x, w)), x, gate), down.float())

    equal(gradients(fused.recompute(), [x, gate, down], call), gradients(Plain(), [x, gate, down], call))


def test_errors():
    x = torch.randn(4, 8, requires_grad=True)
    offset = torch.ones(8)
    with fused.recompute() as again:
        out = again(torch.add, x, offset).square().sum()
    offset.add_(1)
    with pytest.raises(RuntimeError, match="recompute: an argument of add was changed in place after the forward pass"):
        out.backward()

    rows = [4]

    def changing(x):
        rows[0] -= 1
        return x[:rows[0]] * 2

    with fused.recompute() as again:
        out = again(changing, x).square().sum()
    with pytest.raises(RuntimeError, match=r"changing gave torch.float32 of \(2, 8\) .* expected a function that always gives the same"):
        out.backward()


def test_after_an_error_in_the_context():
    x = torch.randn(4, requires_grad=True)
    with pytest.raises(ValueError):
        with fused.recompute() as again:
            again(torch.cos, x)
            raise ValueError
    y = torch.cos(x)
    reference = StorageWeakRef(y.untyped_storage())
    out = y.square()
    del y
    assert not reference.expired() and out.requires_grad


def test_subclasses_are_kept():

    class Tagged(torch.Tensor):
        pass

    x = torch.randn(4, 4).as_subclass(Tagged).requires_grad_()
    y = x.detach().as_subclass(torch.Tensor).requires_grad_()
    call = lambda again, x: again(torch.cos, x).square()
    mine, plain = gradients(fused.recompute(), [x], call), gradients(Plain(), [y], call)
    assert torch.equal(mine[0].as_subclass(torch.Tensor), plain[0])


def test_compiled():
    """One graph under torch.compile, in which the context does nothing."""
    inputs = inputs_of()

    def call(*inputs):
        with fused.recompute() as again:
            return block(again, *inputs)

    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    equal(torch.autograd.grad(compiled(*inputs).square().sum(), inputs), gradients(Plain(), inputs))
