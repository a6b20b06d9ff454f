"""`map_elementwise`: a function on scalars for every element, with control flow of its own."""

import numpy as np
import pytest
import torch

import harness

COVERED = {"map_elementwise"}


def run(functions, call, inputs, outputs, size, warps=4):
    loads = "".join(f"    x{i} = tl.load(x{i}_ptr + i)\n" for i in range(len(inputs)))
    names = [f"x{i}_ptr" for i in range(len(inputs))] + [f"o{i}_ptr" for i in range(len(outputs))]
    results = ", ".join(f"y{i}" for i in range(len(outputs)))
    stores = "".join(f"    tl.store(o{i}_ptr + i, y{i})\n" for i in range(len(outputs)))
    harness.make(f"""{functions}

@triton.jit
def kernel({', '.join(names)}):
    i = tl.arange(0, {size})
{loads}    {results} = {call}
{stores}""")[(1,)](*inputs, *outputs, num_warps=warps)
    return outputs


SELU = """@triton.jit
def selu(x, alpha):
    if x > 0:
        return x
    else:
        return alpha * (tl.exp(x) - 1)
"""


@pytest.mark.parametrize("size", [2, 32, 128, 1024])
def test_branches(size, target):
    x = torch.linspace(-3, 3, size)
    got, = run(SELU, "tl.map_elementwise(selu, x0, 1.5)", [x], [torch.zeros(size)], size)
    torch.testing.assert_close(got, torch.where(x > 0, x, 1.5 * torch.expm1(x)), rtol=1e-5, atol=1e-6)


def test_loops_of_different_lengths(target):
    steps = """@triton.jit
def steps(n):
    count = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        count += 1
    return count
"""
    x = torch.arange(1, 257, dtype=torch.int32)

    def collatz(n):
        count = 0
        while n != 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    got, = run(steps, "tl.map_elementwise(steps, x0)", [x], [torch.zeros_like(x)], 256)
    assert got.tolist() == [collatz(n) for n in x.tolist()]


def test_several_results_of_different_types(target):
    both = """@triton.jit
def both(a, b):
    return a < b, (a + b).to(tl.float32), a * b
"""
    a, b = torch.arange(64, dtype=torch.int32), torch.arange(64, dtype=torch.int32).flip(0)
    less, total, product = run(both, "tl.map_elementwise(both, x0, x1)", [a, b],
                               [torch.zeros(64, dtype=torch.bool), torch.zeros(64), torch.zeros(64, dtype=torch.int32)], 64)
    assert torch.equal(less, a < b) and torch.equal(total, (a + b).float()) and torch.equal(product, a * b)


@pytest.mark.parametrize("size,pack", [(128, 2), (1024, 4), (2, 2), (64, 8)])
def test_several_elements_a_call(size, pack, target):
    """The arguments come element by element of the first, then of the second; so do the results."""
    a, b = ", ".join(f"a{i}" for i in range(pack)), ", ".join(f"b{i}" for i in range(pack))
    total, less = ", ".join(f"a{i} + b{i}" for i in range(pack)), ", ".join(f"tl.minimum(a{i}, b{i})" for i in range(pack))
    function = f"""@triton.jit
def pairs({a}, {b}):
    return {total}, {less}
"""
    x, y = torch.randint(-100, 100, (size,), dtype=torch.int32), torch.randint(-100, 100, (size,), dtype=torch.int32)
    got = run(function, f"tl.map_elementwise(pairs, x0, x1, pack={pack})", [x, y], [torch.zeros_like(x), torch.zeros_like(x)], size)
    assert torch.equal(got[0], x + y) and torch.equal(got[1], torch.minimum(x, y))


def test_arguments_are_broadcast(target):
    out = torch.zeros(16, 8, dtype=torch.int32)
    harness.make("""@triton.jit
def add(a, b):
    return a * 8 + b

@triton.jit
def kernel(o_ptr):
    row, column = tl.arange(0, 16)[:, None], tl.arange(0, 8)[None, :]
    tl.store(o_ptr + row * 8 + column, tl.map_elementwise(add, row, column))
""")[(1,)](out)
    assert torch.equal(out.flatten(), torch.arange(128, dtype=torch.int32))


def test_loads_and_stores_through_pointers(target):
    """Binary search in a sorted array, and a mark at what was found."""
    search = """@triton.jit
def search(table, marks, x):
    low, high = 0, 64
    while low < high:
        middle = (low + high) // 2
        if tl.load(table + middle) < x:
            low = middle + 1
        else:
            high = middle
    tl.store(marks + low, 1)
    return low

@triton.jit
def kernel(table_ptr, marks_ptr, x_ptr, o_ptr):
    i = tl.arange(0, 32)
    tl.store(o_ptr + i, tl.map_elementwise(search, table_ptr, marks_ptr, tl.load(x_ptr + i)))
"""
    table = torch.arange(64, dtype=torch.int32) * 3
    x = torch.arange(32, dtype=torch.int32) * 5
    marks, out = torch.zeros(65, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    harness.make(search)[(1,)](table, marks, x, out)
    want = np.searchsorted(table.numpy(), x.numpy())
    np.testing.assert_array_equal(out.numpy(), want)
    np.testing.assert_array_equal(np.flatnonzero(marks.numpy()), np.unique(want))


def test_scalar_arguments_are_a_call(target):
    out = torch.zeros(1)
    harness.make(f"""{SELU}
@triton.jit
def kernel(x, o_ptr):
    tl.store(o_ptr, tl.map_elementwise(selu, x, 2.0))
""")[(1,)](-1.0, out)
    torch.testing.assert_close(out, 2 * torch.expm1(torch.tensor([-1.0])))


def test_in_a_loop_and_reduced(target):
    x = torch.randn(256)
    out = torch.zeros(1)
    harness.make(f"""{SELU}
@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 64)
    total = tl.zeros((64,), tl.float32)
    for start in range(0, 256, 64):
        total += tl.map_elementwise(selu, tl.load(x_ptr + start + i), 1.0)
    tl.store(o_ptr, tl.sum(total))
""")[(1,)](x, out)
    torch.testing.assert_close(out[0], torch.nn.functional.elu(x).sum(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("function,call,match", [
    ("def f(a):\n    return a", "tl.map_elementwise(f)", "must have at least 1 input tensor"),  # MapNoArguments
    ("def f(a):\n    return a", "tl.map_elementwise(f, x0, pack=128)", "between 1 and 64"),
    ("def f(a, b, c):\n    return a, b, c", "tl.map_elementwise(f, x0, pack=3)", "cannot take 3 elements at a time of 64"),  # MapOddPack
    ("def f(a, b):\n    return a", "tl.map_elementwise(f, x0, pack=2)", "values for each of its 2 elements, found 1"),  # MapResultCount
    ("def f(a, b):\n    return a, b.to(tl.float32)", "tl.map_elementwise(f, x0, pack=2)", "type mismatch in unpacked results"),  # MapResultTypes
    ("def f(a):\n    return a + tl.arange(0, 4)", "tl.map_elementwise(f, x0)", "must return scalars"),  # MapResult
    ("def f(a):\n    return tl.sum(tl.arange(0, 4)) + a", "tl.map_elementwise(f, x0)", "cannot use a block"),  # MapForbids
    ("def f(a):\n    tl.debug_barrier()\n    return a", "tl.map_elementwise(f, x0)", "cannot use a barrier"),
])
def test_refusals(function, call, match, target):
    import nereid
    x = torch.zeros(64, dtype=torch.int32)
    with pytest.raises(nereid.CompilationError, match=match):
        run("@triton.jit\n" + function, call, [x], [torch.zeros_like(x)], 64)
