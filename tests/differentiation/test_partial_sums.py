"""Gradients of what many programs read: partial sums, a row for each launched program, that a second launch adds. No atomic additions; the same bits in every run."""

import re

import grad_check
import jvp_check
import nereid
import nereid._partial_sums as partial_sums
import nereid.language as tl
import pytest
import torch
from test_grad_loads import zeros
from test_jvp_kernels import layer_norm, rms_norm

F64 = torch.float64


@nereid.jit
def scaled(x, w, y, n, BLOCK: tl.constexpr):
    """A row of weights, and a number that all programs read."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n)
    u = v * tl.load(w + i, mask=i < n)
    tl.store(y + row * n + i, u * u + tl.load(w + n), mask=i < n)


@nereid.jit
def biased(x, b, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Tiles of a matrix, and a bias of each column."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=inside)
    tl.store(y + m[:, None] * N + n[None, :], tl.exp(v + tl.load(b + n, mask=n < N)[None, :]), mask=inside)


@nereid.jit
def in_chunks(x, w, y, n, flag, BLOCK: tl.constexpr):
    """Weights loaded in a loop, in a branch, and at addresses that depend on the program."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    total = 0.0 * tl.load(w + row % 3)
    for k in range(0, n, BLOCK):
        v = tl.load(x + row * n + k + i, mask=k + i < n, other=0.0)
        total += tl.sum(v * tl.load(w + k + i, mask=k + i < n, other=0.0), 0)
        if row > flag:
            total += tl.sum(v * v * tl.load(w + i, mask=i < n, other=0.0), 0)
    tl.store(y + row, tl.sin(total) + tl.load(w + row % 3))


@nereid.jit
def in_branches(x, w, y, flag, BLOCK: tl.constexpr):
    """Weights at the same addresses in all programs, of which some load them."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    at = w + i
    v = tl.load(x + row * BLOCK + i)
    if row > flag:
        v = v * tl.load(at)
    tl.store(y + row * BLOCK + i, tl.sin(v))


@nereid.jit
def along_three_axes(x, w, y, BLOCK: tl.constexpr):
    a, b, c = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (c * tl.num_programs(1) + b) * tl.num_programs(0) + a
    i = tl.arange(0, BLOCK)
    tl.store(y + at * BLOCK + i, tl.load(x + at * BLOCK + i) * tl.load(w + b * BLOCK + i) * (1 + a + 2 * c))


CASES = {
    "a row and a number": (scaled, (301, ), dict(x=(301, 13), w=(14, ), y=(301, 13)), dict(n=13, BLOCK=16), ("w", )),
    "columns": (biased, (7, 3), dict(x=(50, 40), b=(40, ), y=(50, 40)), dict(M=50, N=40, BM=8, BN=16), ("b", )),
    "chunks": (in_chunks, (150, ), dict(x=(150, 21), w=(21, ), y=(150, )), dict(n=21, flag=70, BLOCK=8), ("w", )),
    "branches": (in_branches, (150, ), dict(x=(150, 8), w=(8, ), y=(150, 8)), dict(flag=70, BLOCK=8), ("w", )),
    "three axes": (along_three_axes, (5, 4, 9), dict(x=(180, 8), w=(4, 8), y=(180, 8)), dict(BLOCK=8), ("w", )),
}


def launch(kernel, grid, arguments, wrt, dy, dtype=None, **options):
    """(gradients, what `explain` says)"""
    gradient = nereid.grad(kernel, wrt, "y")
    found = {f"d{name}": torch.full_like(arguments[name], float("nan")) for name in wrt}
    gradient.backward[grid](**arguments, **found, dy=dy, **options)
    return found, gradient.explain()


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    kernel, grid, tensors, options, summed = CASES[name]
    arguments = {each: jvp_check.random(*shape) for each, shape in tensors.items()}
    wrt = tuple(each for each in tensors if each != "y")
    constants = {each: value for each, value in options.items() if each.isupper() and each not in ("M", "N")}
    numbers = {each: value for each, value in options.items() if each not in constants}
    grad_check.check(kernel, grid, arguments | numbers, wrt, ("y", ), **constants)
    dy = jvp_check.random(*tensors["y"])
    found, text = launch(kernel, grid, arguments | numbers, wrt, dy, **constants)
    again, _ = launch(kernel, grid, arguments | numbers, wrt, dy, **constants)
    assert all(torch.equal(found[each], again[each]) for each in found)
    for each in summed:
        assert f"the gradient of `{each}` is summed in partial sums" in text
    rows = min(grid[0] * (grid + (1, ))[1] * (grid + (1, 1))[2], partial_sums._ROWS_ON_CPU)
    assert f"last launched with {rows} partial sums" in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_types(dtype):
    x, w, dy = (jvp_check.random(*shape).to(dtype) for shape in ((300, 13), (14, ), (300, 13)))
    found, text = launch(scaled, (300, ), dict(x=x, w=w, y=torch.zeros_like(x), n=13), ("x", "w"), dy, BLOCK=16)
    wide = [each.double().requires_grad_() for each in (x, w)]
    y = (wide[0] * wide[1][:13])**2 + wide[1][13]
    for name, expected in zip(("dx", "dw"), torch.autograd.grad(y, wide, dy.double())):
        torch.testing.assert_close(found[name].double(), expected, rtol=2e-2 if dtype != torch.float32 else 1e-4, atol=2.0 if dtype == torch.bfloat16 else 0.2)
    assert "`w` is summed in partial sums" in text


def test_norms_of_people():
    rows, n = 200, 77
    x, w, b, dy = (jvp_check.random(*shape).float() for shape in ((rows, n), (n, ), (n, ), (rows, n)))
    gradient = nereid.grad(layer_norm, ("X", "W", "B"), "Y")
    dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
    gradient.backward[(rows, )](x, torch.zeros_like(x), w, b, torch.zeros(rows), torch.zeros(rows), n, n, 1e-5, dX=dx, dW=dw, dB=db, dY=dy, BLOCK_SIZE=32)
    given = [each.double().requires_grad_() for each in (x, w, b)]
    expected = torch.autograd.grad(torch.nn.functional.layer_norm(given[0], (n, ), given[1], given[2], 1e-5), given, dy.double())
    for one, other in zip((dx, dw, db), expected):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
    text = gradient.explain()
    assert "`W` is summed in partial sums" in text and "`B` is summed in partial sums" in text


def test_what_has_no_partial_sums():
    """Owned elements, one program, gradients that are large, views, and gradients that are not wanted."""
    x, w, y = jvp_check.random(300, 13), jvp_check.random(14), zeros(300, 13)
    given = dict(x=x, w=w, y=y, n=13)
    for case in ("one program", "large", "a view", "not wanted"):
        gradient = nereid.grad(scaled, ("x", "w"), "y")
        dw = zeros(1 << 22) if case == "large" else zeros(20)[:14] if case == "a view" else None if case == "not wanted" else zeros(14)
        gradient.backward[(1 if case == "one program" else 300, )](**given, dx=torch.zeros_like(x), dw=dw, dy=torch.ones_like(y), BLOCK=16)
        assert "partial sums" not in gradient.explain(), case


@pytest.mark.parametrize("lengths", [(40, 7), (16, 33), (1, 1)])
def test_rows_of_two_gradients(lengths):
    """As on a GPU, where one launch adds those of two gradients. Both are cleared together, and their rows begin at multiples of 64 bytes."""
    gradients = [torch.full((n, ), float("nan")) for n in lengths]
    sums = partial_sums.make(gradients, 37)
    for each in sums:
        assert each.shape[0] == 37 and each.data_ptr() % 64 == 0 and each.stride(0) % 16 == 0 and not each.any()
        each.copy_(torch.randn_like(each))
    assert sums[0].data_ptr() + sums[0].numel() * 4 == sums[1].data_ptr()
    arguments = [value for rows, gradient in zip(sums, gradients) for value in (rows, gradient, gradient.numel(), rows.stride(0))]
    programs = sum(-(-n // 16) for n in lengths)
    partial_sums._add_rows_of_two[(programs, )](*arguments, 37, COLUMNS=16, AT_ONCE=32)
    for rows, gradient in zip(sums, gradients):
        torch.testing.assert_close(gradient, rows.sum(0)[:gradient.numel()])


def test_sums_of_two_types():
    gradients = [torch.zeros(5, dtype=torch.bfloat16), torch.zeros(3, dtype=F64), torch.zeros(20)]
    sums = partial_sums.make(gradients, 3)
    assert [(each.dtype, each.shape) for each in sums] == [(torch.float32, (3, 16)), (F64, (3, 16)), (torch.float32, (3, 32))]
    for number, each in enumerate(sums):
        each.fill_(number + 1)
    partial_sums.add(sums, gradients)
    assert [gradient.unique().tolist() for gradient in gradients] == [[3], [6], [9]]


def test_fewer_rows_than_programs_and_more():
    for programs in (2, partial_sums._ROWS_ON_CPU, partial_sums._ROWS_ON_CPU + 1):
        x, w, dy = jvp_check.random(programs, 5), jvp_check.random(6), jvp_check.random(programs, 5)
        found, _ = launch(scaled, (programs, ), dict(x=x, w=w, y=torch.zeros_like(x), n=5), ("x", "w"), dy, BLOCK=8)
        expected = (2 * x * x * w[:5] * dy).sum(0)
        torch.testing.assert_close(found["dw"][:5], expected)
        torch.testing.assert_close(found["dw"][5], dy.sum())


def test_grids_that_are_functions_and_positional_arguments():
    x, w, dy = jvp_check.random(50, 13), jvp_check.random(14), jvp_check.random(50, 13)
    dx, dw = torch.empty_like(x), torch.empty_like(w)
    gradient = nereid.grad(scaled, ("x", "w"), "y")
    gradient.backward[lambda a: (a["x"].shape[0], )](x, w, zeros(50, 13), 13, 16, dx, dw, dy)
    torch.testing.assert_close(dw[13], dy.sum())
    assert "partial sums" in gradient.explain()


def test_operators_of_pytorch():
    norm = nereid.autograd(rms_norm, wrt=("X", "W"), out={"Y": "X"}, grid=lambda a: (len(a["X"]), ),
                           arguments={"N": lambda a: a["X"].shape[1], "BLOCK": 64, "Residual": lambda a: torch.zeros_like(a["X"])})
    x, w = jvp_check.random(40, 50).requires_grad_(), jvp_check.random(50).requires_grad_()
    reference = x * torch.rsqrt((x * x).mean(1, keepdim=True) + 0.125) * w
    dy = jvp_check.random(40, 50)
    found, expected = torch.autograd.grad(norm(x, w, eps=0.125), (x, w), dy), torch.autograd.grad(reference, (x, w), dy)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    assert "`W` is summed in partial sums" in norm.explain()


def test_rows_that_mix_programs_are_found():
    """A seeded bug: with rows of which two programs share one, the rounds of both are added; with rows that are too short, neighbours overlap."""
    x, w, dy = jvp_check.random(10, 13), jvp_check.random(14), jvp_check.random(10, 13)
    gradient = nereid.grad(scaled, ("x", "w"), "y")
    found = dict(dx=torch.zeros_like(x), dw=torch.zeros_like(w))
    expected, _ = launch(scaled, (10, ), dict(x=x, w=w, y=torch.zeros_like(x), n=13), ("x", "w"), dy, BLOCK=16)
    backward = gradient.backward
    sums = torch.zeros(10, 16, dtype=F64)
    given = dict(x=x, w=w, y=torch.zeros_like(x), n=13, dx=found["dx"], dy=dy, BLOCK=16)
    kernel = type(backward.kernel)._of(scaled, (("x", "dx", 1), ("w", "dw", 5), ("y", "dy", 2)), True)
    for row, right in ((16, True), (8, False)):
        sums.zero_()
        kernel[(10, )](**given, dw=sums, dw_row=row, programs_0=10, programs_1=1, programs_2=1)
        assert torch.allclose(sums.sum(0)[:14], expected["dw"]) == right


@pytest.mark.parametrize("arch", ["cuda:80", "cuda:90"])
def test_machine_code_of_gpus(arch):
    gradient = nereid.grad(scaled, ("x", "w"), "y")
    given = dict(x=torch.zeros(300, 13), w=torch.zeros(14), y=torch.zeros(300, 13), n=13)
    compiled = gradient.backward.warmup(**given, dx=given["x"], dw=given["w"], dy=given["y"], BLOCK=16, grid=(300, ), target=arch)
    assert compiled.asm["cubin"] and "dw_row" in [param["name"] for param in compiled._values["params"]]
    assert "bar.sync" in compiled.asm["ptx"]  # the sum in registers, then the row's


@nereid.jit
def weighted(x, w, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + tl.program_id(0) * n + i, tl.load(x + tl.program_id(0) * n + i, mask=i < n) * tl.load(w + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("row, is_vector", [(4096, True), (4100, False)])
def test_rows_are_accessed_in_vectors(row, is_vector):
    """The launcher's rows begin at multiples of 16 elements, and the kernel is compiled for that. Else elements were accessed one by one, those of tensors in the same layout as well."""
    x, w = torch.zeros(8, 4096, dtype=torch.bfloat16), torch.zeros(4096, dtype=torch.bfloat16)
    kernel = type(nereid.grad(weighted, "x", "y").backward.kernel)._of(weighted, (("x", "dx", 1), ("w", "dw", 5), ("y", "dy", 2)), True)
    given = dict(x=x, w=w, y=x, n=4096, dx=x, dw=torch.zeros(4, row), dy=x, dw_row=row, programs_0=8, programs_1=1, programs_2=1)
    ptx = kernel.warmup(**given, BLOCK=4096, grid=(4, ), target="cuda:90").asm["ptx"]
    accesses = set(re.findall(r"(?:ld|st)\.global[a-z0-9.:_]*", ptx))
    assert accesses and all(".v4.b32" in access for access in accesses) == is_vector, accesses


# ---- buffers of fp32 for gradients of 16 bits


@nereid.jit
def shifted(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i - 1) * tl.load(x + i + 1) + tl.load(x), mask=i < n)


def test_a_view_beyond_which_the_kernel_reads():
    whole = jvp_check.random(34).to(torch.bfloat16)
    dwhole, dy = torch.full_like(whole, 7.0), torch.ones(32, dtype=torch.bfloat16)
    nereid.grad(shifted, "x", "y").backward[(4, )](whole[1:33], torch.zeros_like(dy), 32, dx=dwhole[1:33], dy=dy, BLOCK=8)
    wide = whole.double().requires_grad_()
    (wide[:32] * wide[2:] + wide[1]).sum().backward()
    torch.testing.assert_close(dwhole[1:33].double(), wide.grad[1:33], rtol=2e-2, atol=2e-2)
    assert dwhole[0] == 7 and dwhole[33] == 7


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_gradients_with_strides(dtype):

    @nereid.jit
    def rows(x, y, sm, sn, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + tl.program_id(0) * BLOCK + i, tl.load(x + tl.program_id(0) * sm + i * sn) * 2)

    dy = jvp_check.random(4, 8).to(dtype)
    y = torch.zeros_like(dy)
    for dx, expected in ((torch.full((8, 4), 9.0, dtype=dtype).t(), 2 * dy), (torch.full((4, 16), 9.0, dtype=dtype)[:, ::2], 2 * dy),
                         (torch.full((1, 8), 9.0, dtype=dtype).expand(4, 8), 2 * dy.double().sum(0, keepdim=True).to(dtype).expand(4, 8))):
        nereid.grad(rows, "x", "y").backward[(4, )](torch.ones_like(dx), y, *dx.stride(), dx=dx, dy=dy, BLOCK=8)
        torch.testing.assert_close(dx, expected, rtol=2e-2 if dtype == torch.bfloat16 else 1e-12, atol=2e-2 if dtype == torch.bfloat16 else 1e-12)
    overlapping = torch.zeros(20, dtype=dtype).as_strided((4, 8), (4, 1))
    with pytest.raises(ValueError, match=r"elements of a gradient overlap in memory: its shape is \(4, 8\), its strides \(4, 1\)"):
        nereid.grad(rows, "x", "y").backward[(4, )](torch.ones(4, 8, dtype=dtype), y, 4, 1, dx=overlapping, dy=dy, BLOCK=8)
