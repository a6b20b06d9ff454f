"""What only a GPU shows: other streams, CUDA graphs, tensors of more than 2^31 elements in every family. compute-sanitizer runs `sanitized_calls.py`."""

import gc

import pytest
import torch
import torch.nn.functional as F

import nereid.ops
from sanitized_calls import calls

pytestmark = pytest.mark.usefixtures("gpu")
MOST = 2**31


def outputs(result):
    return [item for item in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(item, torch.Tensor)]


def assert_near(got, want, what):
    for mine, its in zip(outputs(got), outputs(want), strict=True):
        assert mine.dtype == its.dtype and mine.shape == its.shape, what
        if its.is_floating_point():
            unit = torch.finfo(its.dtype).eps
            torch.testing.assert_close(mine.double(), its.double(), rtol=64 * unit, atol=max(1e-4, 2 * unit), equal_nan=True, msg=lambda text: f"{what}: {text}")
        else:
            assert torch.equal(mine, its), what


@pytest.mark.parametrize("name", calls("cpu"))
def test_graphs(name):
    """A call that a CUDA graph has captured sees what its inputs hold at each replay."""
    call, tensors = calls("cuda")[name]
    others = calls("cuda", seed=1)[name][1]
    with nereid.ops.native():
        wanted = call(*others)
    with nereid.ops.use(routing=False):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(2):
                call(*tensors)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = call(*tensors)
    for mine, its in zip(tensors, others):
        mine.copy_(its)
    graph.replay()
    torch.cuda.synchronize()
    assert_near(results, wanted, name)


@pytest.mark.parametrize("name", calls("cpu"))
def test_streams(name):
    """Calls run on the stream that is current: what it still waits for has happened before. Both the call that is recorded and the one that is repeated."""
    call, tensors = calls("cuda")[name]
    with nereid.ops.native():
        wanted = call(*tensors)
    late = [torch.empty_like(tensor).zero_() for tensor in tensors]
    torch.cuda.synchronize()
    with nereid.ops.use(routing=False):
        for _ in range(2):
            for tensor in late:
                tensor.zero_()
            torch.cuda.synchronize()
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                for mine, its in zip(late, tensors):
                    mine.copy_(its)
                results = call(*late)
            stream.synchronize()
            assert_near(results, wanted, name)


def bytes_of(size):
    """A tensor of int8 of this size, whose elements repeat with a period that no power of two shares."""
    period = torch.arange(251, dtype=torch.int16, device="cuda").sub(125).to(torch.int8)
    return period.repeat(-(-size // 251))[:size]


def wide(rows, width, dtype=torch.float16):
    """A matrix of more than 2^31 elements: rows repeat with a period of 1021."""
    some = torch.randn(1021, width, device="cuda").to(dtype)
    return some.repeat(-(-rows // 1021), 1)[:rows]


ROWS = MOST // 1024 + 3

HUGE = {
    "pointwise": lambda: (torch.add, (bytes_of(MOST + 77), 3)),
    "pointwise transposed": lambda: (torch.neg, (bytes_of((2**16 + 1) * (2**15 + 3)).view(2**16 + 1, 2**15 + 3).t(), )),
    "pointwise broadcast": lambda: (torch.add, (wide(ROWS, 1024), torch.randn(1024, device="cuda").half())),
    "reduction": lambda: (torch.sum, (bytes_of(MOST + 77), )),
    "reduction of rows": lambda: (lambda x: x.amax(1), (wide(ROWS, 1024), )),
    "reduction of columns": lambda: (lambda x: x.amax(0), (wide(ROWS, 1024), )),
    "place of the greatest": lambda: (torch.argmax, (torch.cat([bytes_of(MOST + 50), torch.full((7, ), 127, dtype=torch.int8, device="cuda")]), )),
    "scan": lambda: (lambda x: x.cumsum(0, dtype=torch.int32), (bytes_of(MOST + 77), )),
    "softmax": lambda: (lambda x: torch.softmax(x, -1), (wide(ROWS, 1024), )),
    "layer norm": lambda: (lambda x: F.layer_norm(x, (1024, )), (wide(ROWS, 1024), )),
    "product": lambda: (torch.mm, (wide(ROWS, 1024), torch.randn(1024, 16, device="cuda").half())),
    "product, large result": lambda: (torch.mm, (wide(MOST // 4096 + 3, 64), torch.randn(64, 4096, device="cuda").half())),
    "cat": lambda: (lambda x: torch.cat([x, x[:5]]), (bytes_of(MOST + 77), )),
    "flip": lambda: (lambda x: x.flip(0), (bytes_of(MOST + 77), )),
    "copy": lambda: (lambda x: x[1:].clone(), (bytes_of(MOST + 77), )),
    "index": lambda: (lambda x, i: x[i], (wide(ROWS, 1024), torch.arange(ROWS - 1, -1, -1, device="cuda"))),
    "gather": lambda: (lambda x, i: x.gather(0, i), (bytes_of(MOST + 77), torch.arange(MOST - 9, MOST + 77, device="cuda"))),
    "scatter": lambda: (lambda x, i: x.scatter(0, i, 5), (bytes_of(MOST + 77), torch.arange(MOST - 9, MOST + 77, device="cuda"))),
    "sort": lambda: (lambda x: torch.sort(x, -1)[0], (wide(MOST // 128 + 3, 128), )),
    "pooling": lambda: (lambda x: F.max_pool2d(x, 2), (wide(ROWS, 1024).view(1, ROWS, 32, 32), )),
    "fill": lambda: (lambda x: torch.full_like(x, 3), (bytes_of(MOST + 77), )),
    "embedding": lambda: (F.embedding, (torch.arange(ROWS - 1, ROWS - 2000, -1, device="cuda"), wide(ROWS, 1024))),
}


def chunks_equal(mine, its):
    """As torch.equal, without a mask of the whole size; sums and the like differ by rounding."""
    assert mine.dtype == its.dtype and mine.shape == its.shape and mine.stride() == its.stride()
    mine, its = (torch.as_strided(x, (x.numel(), ), (1, )) for x in (mine, its))
    for start in range(0, mine.numel(), 2**28):
        a, b = mine[start:start + 2**28], its[start:start + 2**28]
        if a.dtype.is_floating_point:
            assert bool(((a - b).abs() <= 2e-3 + 4e-3 * b.abs()).all()), f"differs from element {start} on"
        else:
            assert torch.equal(a, b), f"differs from element {start} on"


@pytest.mark.parametrize("name", HUGE)
def test_more_than_two_to_the_31(name):
    if torch.cuda.mem_get_info()[1] < 100e9:
        pytest.skip("needs a GPU with 100 GB")
    try:
        call, arguments = HUGE[name]()
        want = call(*arguments)
        with nereid.ops.use(routing=False):
            nereid.ops.report(clear=True)
            got = call(*arguments)
        assert any(row.route == "nereid" for row in nereid.ops.report()), nereid.ops.report()
        chunks_equal(got, want)
    finally:
        call = arguments = want = got = None
        gc.collect()
        torch.cuda.empty_cache()


@pytest.mark.parametrize("router", [True, False], ids=["router", "python"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool], ids=str)
def test_numbers_of_the_host_are_copied_by_aten(dtype, router):
    """Tensors without dimensions, into a GPU and back, also where they are expanded or converted."""
    number = torch.tensor(7).to(dtype)
    with nereid.ops.use(router=router):
        there = number.to("cuda")
        filled = torch.zeros(3, dtype=torch.float64, device="cuda").copy_(number)
        back = there.to("cpu")
    assert there.cpu().equal(number) and back.equal(number) and filled.cpu().equal(number.double().expand(3))
    rows = [row for row in nereid.ops.report() if row.overload == "copy_"]
    assert rows and all(row.route != "nereid" for row in rows), nereid.ops.report()


@pytest.mark.parametrize("router", [True, False], ids=["router", "python"])
def test_numbers_of_the_host_alone_are_left_to_aten(router):
    """An output on a GPU, and nothing else there: no kernel takes its only inputs as numbers."""
    number, out = torch.tensor(7.0), torch.zeros((), device="cuda")
    nereid.ops.report(clear=True)
    with nereid.ops.use(router=router):
        _accepted(lambda: torch.neg(number, out=out))
        torch.zeros(3, device="cuda").copy_(number)
    rows = [row for row in nereid.ops.report() if row.overload.partition(".")[0] in ("neg", "copy_") and row.device == "cuda"]
    assert rows and all(row.route == "aten" for row in rows), nereid.ops.report()


def _accepted(call):
    """Whether ATen takes a call, which depends on its version."""
    try:
        call()
    except RuntimeError:
        return False
    return True
