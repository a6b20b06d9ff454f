"""Transposed schedules: gradients of blocks that several programs read, each summed in a loop by the program that owns it.

Many tests launch the gradient kernel itself on gradients that begin as NaN: a sum by atomic additions would stay NaN, so numbers say that each element was stored."""

import grad_check
import jvp_check
import nereid
import nereid.language as tl
import pytest
import torch
from nereid.differentiation import _explained


@nereid.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr, ORDER: tl.constexpr, WRAP: tl.constexpr, GROUP: tl.constexpr):
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    if ORDER == "axes":
        pid_m = tl.program_id(0)
        pid_n = tl.program_id(1)
    elif ORDER == "rows":
        pid = tl.program_id(0)
        pid_m = pid // num_n
        pid_n = pid % num_n
    elif ORDER == "columns":
        pid = tl.program_id(0)
        pid_m = pid % num_m
        pid_n = pid // num_m
    elif ORDER == "groups":
        pid = tl.program_id(0)
        width = GROUP * num_n
        group = pid // width
        first = group * GROUP
        size = min(num_m - first, GROUP)
        pid_m = first + (pid % width) % size
        pid_n = (pid % width) // size
    else:  # as older tutorials write it
        pid = tl.program_id(0)
        width = num_n * GROUP
        first = pid // width * GROUP
        size = min(num_m - first, GROUP)
        pid_m = first + pid % size
        pid_n = pid % width // size
    rows = pid_m * BM + tl.arange(0, BM)
    columns = pid_n * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32)
    if WRAP:
        a_ptrs = a_ptr + (rows % M)[:, None] * stride_am + inner[None, :] * stride_ak
        b_ptrs = b_ptr + inner[:, None] * stride_bk + (columns % N)[None, :] * stride_bn
        for k in range(0, tl.cdiv(K, BK)):
            a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
            b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
            acc = tl.dot(a, b, acc)
            a_ptrs += BK * stride_ak
            b_ptrs += BK * stride_bk
    else:
        for k in range(0, K, BK):
            at = k + inner
            a = tl.load(a_ptr + rows[:, None] * stride_am + at[None, :] * stride_ak, mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
            b = tl.load(b_ptr + at[:, None] * stride_bk + columns[None, :] * stride_bn, mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0)
            acc += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn, acc.to(c_ptr.dtype.element_ty),
             mask=(rows[:, None] < M) & (columns[None, :] < N))


ORDERS = ("axes", "rows", "columns", "groups", "groups of older tutorials")


def matrix(rows, columns, dtype, is_transposed=False, gap=1):
    """A random matrix, of which elements stand `gap` apart in memory."""
    shape = (columns, rows) if is_transposed else (rows, columns)
    whole = jvp_check.random(shape[0], shape[1] * gap).to(dtype)[:, ::gap]
    return whole.T if is_transposed else whole


def like(tensor, dtype):
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype).fill_(float("nan"))


def explained_kernels(gradient):
    """What `explain` says of the kernels that were launched without `backward`."""
    return _explained((compiled, 0) for compiled in gradient.backward.kernel._kernels())


def stored(kernel, grid, arguments, wrt, given, **options):
    """The gradients that the kernel stores, NaN where it does not. `arguments` with gradients of the outputs."""
    wide = {name: torch.float64 if arguments[name].dtype == torch.float64 else torch.float32 for name in wrt}
    found = {name: like(arguments[name], wide[name]) for name in wrt}
    gradient = nereid.grad(kernel, wrt, tuple(given))
    gradient.backward.kernel[grid](**arguments, **{f"d{name}": value for name, value in given.items()}, **{f"d{name}": value for name, value in found.items()},
                                   **options)
    return found, explained_kernels(gradient)


def of_product(M, N, K, dtype, order, wrap, a=None, b=None, grid=None, **options):
    a = matrix(M, K, dtype) if a is None else a
    b = matrix(K, N, dtype) if b is None else b
    c = torch.zeros(M, N, dtype=dtype)
    blocks = dict(dict(BM=16, BN=16, BK=32, GROUP=3), **options)
    tiles = (nereid.cdiv(M, blocks["BM"]), nereid.cdiv(N, blocks["BN"]))
    grid = grid or (tiles if order == "axes" else (tiles[0] * tiles[1], ))
    arguments = dict(a_ptr=a, b_ptr=b, c_ptr=c, M=M, N=N, K=K, stride_am=a.stride(0), stride_ak=a.stride(1), stride_bk=b.stride(0), stride_bn=b.stride(1),
                     stride_cm=N, stride_cn=1)
    dc = matrix(M, N, dtype)
    found, text = stored(product, grid, arguments, ("a_ptr", "b_ptr"), dict(c_ptr=dc), ORDER=order, WRAP=wrap, **blocks)
    expected = dict(a_ptr=dc.double() @ b.double().T, b_ptr=a.double().T @ dc.double())
    return found, expected, text


TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-4, torch.float16: 2e-3, torch.bfloat16: 2e-3}


def compare(found, expected, dtype):
    for name, value in found.items():
        torch.testing.assert_close(value.double(), expected[name], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 10)


@pytest.mark.parametrize("shape", [(70, 50, 90), (16, 16, 32), (2, 33, 7), (65, 3, 64)])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_every_element_of_both_operands_is_stored(order, wrap, shape):
    found, expected, text = of_product(*shape, torch.float64, order, wrap)
    assert text.count("has a transposed schedule") == 2, text
    compare(found, expected, torch.float64)


@nereid.jit
def whole_product(a_ptr, b_ptr, c_ptr, rounds, stride_am, stride_bk, stride_cm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DISTANCE: tl.constexpr):
    """Sizes are multiples of the blocks: no access has a mask. Rounds are `DISTANCE` apart."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float64)
    for number in range(0, rounds):
        at = number * DISTANCE + tl.arange(0, BK)
        acc += tl.dot(tl.load(a_ptr + rows[:, None] * stride_am + at[None, :]), tl.load(b_ptr + at[:, None] * stride_bk + columns[None, :]))
    tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :], acc)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("distance", [8, 11])
@pytest.mark.parametrize("BM, BN", [(32, 16), (16, 32), (8, 8), (16, 16)])
def test_tiles_of_the_sizes_of_the_forward_kernel(BM, BN, distance, rounds):
    """Blocks of several rounds: of rounds that the loop has, and of positions that it reads."""
    M, N, BK = 64, 64, 8
    width = (rounds - 1) * distance + BK
    a, b, dc = matrix(M, width, torch.float64), matrix(width, N, torch.float64), matrix(M, N, torch.float64)
    found = dict(a_ptr=torch.full((M, width + 40), float("nan"), dtype=torch.float64), b_ptr=torch.full((width + 40, N), float("nan"), dtype=torch.float64))
    da, db = found["a_ptr"][:, :width], found["b_ptr"][:width]
    wide = [torch.cat([a, torch.ones(M, 40, dtype=torch.float64)], 1), torch.cat([b, torch.ones(40, N, dtype=torch.float64)])]
    gradient = nereid.grad(whole_product, ("a_ptr", "b_ptr"), "c_ptr")
    gradient.backward.kernel[(M // BM, N // BN)](wide[0], wide[1], dc, rounds, width + 40, N, N, da_ptr=da, db_ptr=db, dc_ptr=dc, BM=BM, BN=BN, BK=BK, DISTANCE=distance)
    text = explained_kernels(gradient)
    assert text.count("has a transposed schedule") == 2, text
    read = torch.zeros(width, dtype=torch.bool)
    for k in range(rounds):
        read[k * distance:k * distance + BK] = True
    expected = dict(da=(dc @ b.T)[:, read], db=(a.T @ dc)[read])
    compare(dict(da=da[:, read], db=db[read]), expected, torch.float64)
    for rest in (da[:, ~read], db[~read], found["a_ptr"][:, width:], found["b_ptr"][width:]):
        assert rest.isnan().all()


@pytest.mark.parametrize("distance, block", [(8, "16x16"), (11, "16x8")])
def test_blocks_of_rounds_that_follow_one_another(distance, block):
    x = torch.empty(256, 1024, dtype=torch.float64)
    compiled = nereid.grad(whole_product, ("a_ptr", "b_ptr"), "c_ptr").backward.kernel.warmup(x, x, x, 32, 1024, 1024, 1024, da_ptr=x, db_ptr=x, dc_ptr=x, BM=16, BN=16, BK=8,
                                                                                          DISTANCE=distance, grid=(16, 16))
    assert f"-> (tensor<{block}xf64>)" in compiled.asm["tile"] and ("-> (tensor<16x8xf64>)" in compiled.asm["tile"]) == (distance == 11)


@nereid.jit
def repeated_columns(a_ptr, b_ptr, c_ptr, N, rounds, stride, width, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Columns from N on repeat the first ones, and are stored."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float64)
    for number in range(0, rounds):
        at = number * BK + tl.arange(0, BK)
        acc += tl.dot(tl.load(a_ptr + rows[:, None] * stride + at[None, :]), tl.load(b_ptr + at[:, None] * N + (columns % N)[None, :]))
    tl.store(c_ptr + rows[:, None] * width + columns[None, :], acc)


def test_positions_that_wrap_around_and_count():
    M, N, K, width = 64, 40, 24, 64
    a, b, dc = matrix(M, K, torch.float64), matrix(K, N, torch.float64), matrix(M, width, torch.float64)
    found, text = stored(repeated_columns, (4, 4), dict(a_ptr=a, b_ptr=b, c_ptr=dc, N=N, rounds=K // 8, stride=K, width=width), ("a_ptr", ), dict(c_ptr=dc), BM=16, BN=16, BK=8)
    assert "has a transposed schedule" in text, text
    compare(found, dict(a_ptr=dc @ b[:, torch.arange(width) % N].T), torch.float64)


def test_products_of_a_gpu():
    """The schedules of both operands multiply tiles of the forward kernel's sizes, without remainders in their loops."""
    a = torch.empty(256, 640, dtype=torch.bfloat16)
    compiled = nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr").backward.kernel.warmup(a, a, a, 256, 256, 640, 640, 1, 640, 1, 640, 1, da_ptr=a, db_ptr=a, dc_ptr=a, BM=128, BN=128,
                                                                                    BK=64, ORDER="groups", WRAP=True, GROUP=8, num_warps=8, target="cuda:90", grid=(4, ))
    loops = [text.split("scf.yield")[0] for text in compiled.asm["tile"].split("scf.for")[1:]]
    loops = [text for text in loops if "tensor<128x64xbf16>, tensor<64x128xbf16> -> tensor<128x128xf32>" in text]
    assert len(loops) >= 2 and not any("arith.remsi" in text for text in loops), compiled.asm["tile"]
    assert compiled.asm["ptx"].count("m64n128k16") >= 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("wrap", [False, True])
def test_types(wrap, dtype):
    found, expected, _ = of_product(70, 50, 90, dtype, "groups", wrap)
    compare(found, expected, dtype)


@pytest.mark.parametrize("a, b", [((False, 2), (False, 3)), ((True, 1), (False, 1)), ((False, 1), (True, 1)), ((True, 1), (True, 1))])
@pytest.mark.parametrize("wrap", [False, True])
def test_strides(wrap, a, b):
    M, N, K = 70, 50, 90
    found, expected, _ = of_product(M, N, K, torch.float64, "groups", wrap, matrix(M, K, torch.float64, *a), matrix(K, N, torch.float64, *b))
    compare(found, expected, torch.float64)


def test_the_same_bits_in_every_run():
    generator = jvp_check.GENERATOR.get_state()
    runs = []
    for _ in range(4):
        jvp_check.GENERATOR.set_state(generator)
        runs.append(of_product(150, 130, 170, torch.float32, "groups", True)[0])
    for run in runs[1:]:
        for name in run:
            assert torch.equal(run[name], runs[0][name])


@pytest.mark.parametrize("order, grid", [("groups", (19, )), ("groups", (23, )), ("rows", (19, ))])
def test_grids_that_are_not_the_tiles(order, grid):
    """The tiles that the kernel computes do not fill a rectangle, or one is computed twice: gradients are summed by atomic additions."""
    M, N, K = 70, 50, 90
    a, b, dc = matrix(M, K, torch.float64), matrix(K, N, torch.float64), matrix(M, N, torch.float64)
    c = torch.zeros(M, N, dtype=torch.float64)
    arguments = dict(a_ptr=a, b_ptr=b, c_ptr=c, M=M, N=N, K=K, stride_am=K, stride_ak=1, stride_bk=N, stride_bn=1, stride_cm=N, stride_cn=1)
    blocks = dict(BM=16, BN=16, BK=32, ORDER=order, WRAP=False, GROUP=5)
    found = grad_check.gradients(product, grid, arguments, ("a_ptr", "b_ptr"), ("c_ptr", ), dict(c_ptr=dc), **blocks)
    weight = torch.zeros(M, N, dtype=torch.float64)  # how often each output is computed
    for pid in range(grid[0]):
        if order == "rows":
            m, n = pid // 4, pid % 4
        else:
            inside, size = pid % 20, min(5 - pid // 20 * 5, 5)
            if size <= 0:
                continue
            m, n = pid // 20 * 5 + inside % size, inside // size
        weight[m * 16:m * 16 + 16, n * 16:n * 16 + 16] += 1
    compare(found, dict(a_ptr=(weight * dc) @ b.T, b_ptr=a.T @ (weight * dc)), torch.float64)


@nereid.jit
def product_of_two_rows(a_ptr, b_ptr, c_ptr, N, K, num_m, num_n, B: tl.constexpr):
    """The last group of rows has another order for the output than for `a`."""
    pid = tl.program_id(0)
    width = 3 * num_n
    first = pid // width * 3
    size = min(num_m - first, 3)
    rows = (first + pid % size) * B + tl.arange(0, B)
    rows_of_a = (first + pid % width % size) * B + tl.arange(0, B)
    columns = pid % width // size * B + tl.arange(0, B)
    at = tl.arange(0, B)
    a = tl.load(a_ptr + rows_of_a[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
    b = tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=at[:, None] < K, other=0.0)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], tl.dot(a, b))


def test_rows_of_groups_in_two_orders():
    M, N, K = 80, 48, 7
    a, b, dc = matrix(M, K, torch.float64), matrix(K, N, torch.float64), matrix(M, N, torch.float64)
    arguments = dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros_like(dc), N=N, K=K, num_m=5, num_n=3)
    found = grad_check.gradients(product_of_two_rows, (15, ), arguments, ("a_ptr", "b_ptr"), ("c_ptr", ), dict(c_ptr=dc), B=16)
    turned = torch.cat([dc[:48], dc[64:], dc[48:64]])  # row 3 of `a` makes row 4 of the output
    compare(found, dict(a_ptr=turned @ b.T, b_ptr=a.T @ turned), torch.float64)


def test_more_rows_of_tiles_than_the_matrix_has():
    found, expected, _ = of_product(70, 50, 90, torch.float64, "rows", False, grid=(7 * 4, ))
    compare(found, expected, torch.float64)


def test_few_blocks_do_not_occupy_the_machine():
    """A gradient of one block, to which many programs add."""
    M, N, K = 16 * 40, 16, 32
    found, expected, _ = of_product(M, N, K, torch.float64, "axes", False)
    compare({"a_ptr": found["a_ptr"]}, expected, torch.float64)
    assert found["b_ptr"].isnan().all()
    a, b, dc = matrix(M, K, torch.float64), matrix(K, N, torch.float64), matrix(M, N, torch.float64)
    found = grad_check.gradients(product, (40, 1), dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros(M, N, dtype=torch.float64), M=M, N=N, K=K, stride_am=K, stride_ak=1,
                                                        stride_bk=N, stride_bn=1, stride_cm=N, stride_cn=1), ("a_ptr", "b_ptr"), ("c_ptr", ), dict(c_ptr=dc),
                                 BM=16, BN=16, BK=32, ORDER="axes", WRAP=False, GROUP=1)
    compare(found, dict(a_ptr=dc @ b.T, b_ptr=a.T @ dc), torch.float64)


def test_transpose_of_the_forward_derivative():
    M, N, K = 37, 29, 41
    arguments = dict(a_ptr=jvp_check.random(M, K), b_ptr=jvp_check.random(K, N), c_ptr=torch.zeros(M, N, dtype=torch.float64), M=M, N=N, K=K, stride_am=K,
                     stride_ak=1, stride_bk=N, stride_bn=1, stride_cm=N, stride_cn=1)
    grad_check.check(product, (6, ), arguments, ("a_ptr", "b_ptr"), ("c_ptr", ), BM=16, BN=16, BK=16, ORDER="groups", WRAP=True, GROUP=2)


@nereid.jit
def batched(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    num_n = tl.cdiv(N, BN)
    batch = tl.program_id(1)
    rows = pid // num_n * BM + tl.arange(0, BM)
    columns = pid % num_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float64)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        a = tl.load(a_ptr + batch * M * K + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + batch * K * N + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    acc += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    tl.store(c_ptr + batch * M * N + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def test_batches_and_a_bias():
    B, M, N, K = 3, 37, 29, 41
    a, b, bias, dc = jvp_check.random(B, M, K), jvp_check.random(B, K, N), jvp_check.random(N), jvp_check.random(B, M, N)
    found, text = stored(batched, (3 * 2, B), dict(a_ptr=a, b_ptr=b, bias_ptr=bias, c_ptr=torch.zeros_like(dc), M=M, N=N, K=K), ("a_ptr", "b_ptr", "bias_ptr"),
                         dict(c_ptr=dc), BM=16, BN=16, BK=16)
    assert text.count("has a transposed schedule") == 3, text
    assert "in a loop over the quotient of program_id(0) and program_id(1)" in text
    compare(found, dict(a_ptr=dc @ b.transpose(1, 2), b_ptr=a.transpose(1, 2) @ dc, bias_ptr=dc.sum((0, 1))), torch.float64)


@nereid.jit
def outer(x, w, y, N: tl.constexpr):
    """y[i, j] = x[i] * sin(w[j])"""
    i = tl.program_id(0) * N + tl.arange(0, N)
    j = tl.program_id(1) * N + tl.arange(0, N)
    tl.store(y + i[:, None] * (N * tl.num_programs(1)) + j[None, :], tl.load(x + i)[:, None] * tl.sin(tl.load(w + j))[None, :])


def test_blocks_without_a_loop():
    x, w, dy = jvp_check.random(32), jvp_check.random(24), jvp_check.random(32, 24)
    found, text = stored(outer, (4, 3), dict(x=x, w=w, y=torch.zeros_like(dy)), ("x", "w"), dict(y=dy), N=8)
    assert "has a transposed schedule" in text
    compare(found, dict(x=dy @ w.sin(), w=(dy.T @ x) * w.cos()), torch.float64)


@nereid.jit
def scaled_product(a_ptr, b_ptr, s_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr):
    """c = (a * s) @ b"""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float64)
    for k in range(0, K, BLOCK):
        at = k + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0)
        acc += tl.dot(a * tl.load(s_ptr + at, mask=at < K, other=0.0)[None, :], b)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc, mask=(rows[:, None] < M) & (columns[None, :] < N))


def test_beside_partial_sums():
    """The operands have schedules, in which the programs are those of the kernel, of which each launched one computes several."""
    M, N, K = 133, 90, 41
    a, b, s, dc = jvp_check.random(M, K), jvp_check.random(K, N), jvp_check.random(K), jvp_check.random(M, N)
    gradient = nereid.grad(scaled_product, ("a_ptr", "b_ptr", "s_ptr"), "c_ptr")
    runs = []
    for _ in range(2):
        found = dict(da_ptr=torch.full_like(a, float("nan")), db_ptr=torch.full_like(b, float("nan")), ds_ptr=torch.full_like(s, float("nan")))
        gradient.backward[(9, 6)](a, b, s, torch.zeros_like(dc), M, N, K, dc_ptr=dc, **found, BLOCK=16)
        runs.append(found)
    text = gradient.explain()
    assert text.count("has a transposed schedule") == 2 and "the gradient of `s_ptr` is summed in partial sums" in text, text
    expected = dict(da_ptr=dc @ b.T * s, db_ptr=(a * s).T @ dc, ds_ptr=(a * (dc @ b.T)).sum(0))
    compare(runs[0], expected, torch.float64)
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in expected)


# ---- what keeps atomic additions, and why


def explained(kernel, grid, arguments, wrt, out, **options):
    gradient = nereid.grad(kernel, wrt, out)
    gradient.backward.kernel.warmup(**arguments, **{f"d{name}": arguments[name] for name in (wrt, out)}, grid=grid, **options)
    return explained_kernels(gradient)


def test_positions_that_wrap_to_outputs_without_a_mask():

    @nereid.jit
    def repeated(x, w, y, M, N: tl.constexpr):
        i = tl.program_id(0) * N + tl.arange(0, N)
        j = tl.program_id(1) * N + tl.arange(0, N)
        v = tl.load(x + i % M)[:, None] * tl.load(w + j)[None, :]
        tl.store(y + i[:, None] * (N * tl.num_programs(1)) + j[None, :], v)

    x, w, dy = jvp_check.random(13), jvp_check.random(16), jvp_check.random(16, 16)
    arguments = dict(x=x, w=w, y=torch.zeros_like(dy), M=13)
    assert "positions that wrap around may have a gradient: their outputs are not masked" in explained(repeated, (2, 2), arguments, "x", "y", N=8)
    found = grad_check.gradients(repeated, (2, 2), arguments, ("x", ), ("y", ), dict(y=dy), N=8)
    rows = dy @ w
    compare(found, dict(x=rows[:13] + torch.cat([rows[13:], torch.zeros(10, dtype=torch.float64)])), torch.float64)


@nereid.jit
def wrapped(x, w, y, z, M, L, N: tl.constexpr, CASE: tl.constexpr):
    """y[p, i, j] = x[i % M, j] * w[p, j], for some i."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    j = tl.arange(0, N)
    at = (tl.program_id(1) * N * tl.num_programs(0) + i[:, None]) * N + j[None, :]
    v = tl.load(x + (i % M)[:, None] * N + j[None, :]) * tl.load(w + tl.program_id(1) * N + j)[None, :]
    if CASE == "another bound":
        tl.store(y + at, v, mask=(i < L)[:, None])
    elif CASE == "other positions":
        tl.store(y + at, v, mask=(i - 2 < M)[:, None])
    elif CASE == "one of two outputs":
        tl.store(y + at, v, mask=(i < M)[:, None])
        tl.store(z + at, 2.0 * v)
    elif CASE == "a mask of the other dimension":
        tl.store(y + at, v * tl.load(z + at, mask=(j < L - 10)[None, :], other=0.0))
    else:
        tl.store(y + at, v, mask=(i < M)[:, None])


@pytest.mark.parametrize("case", ["another bound", "other positions", "one of two outputs", "a mask of the other dimension", "their own"])
def test_positions_that_wrap_behind_masks(case):
    """All but the last let positions pass that wrap around."""
    x, w, z = jvp_check.random(13, 8), jvp_check.random(3, 8), jvp_check.random(3, 16, 8)
    given = dict(y=jvp_check.random(3, 16, 8), z=jvp_check.random(3, 16, 8))
    arguments = dict(x=x, w=w, y=torch.zeros_like(z), z=z, M=13, L=15)
    out = ("y", "z") if case == "one of two outputs" else ("y", )
    text = explained(wrapped, (2, 3), arguments, "x", "y", N=8, CASE=case) if len(out) == 1 else ""
    assert ("has a transposed schedule" in text) == (case == "their own"), text
    found = grad_check.gradients(wrapped, (2, 3), arguments, ("x", ), out, given, N=8, CASE=case)
    leaf, i = x.clone().requires_grad_(), torch.arange(16)
    v = leaf[i % 13] * w[:, None]
    value = v * given["y"] * ((i < {"another bound": 15, "other positions": 15, "a mask of the other dimension": 16}.get(case, 13))[:, None])
    if case == "one of two outputs":
        value = value + 2.0 * v * given["z"]
    elif case == "a mask of the other dimension":
        value = value * z * (torch.arange(8) < 5)
    value.sum().backward()
    compare(found, dict(x=leaf.grad), torch.float64)


@nereid.jit
def triangular_product(a_ptr, b_ptr, c_ptr, N, K, B: tl.constexpr, ADDS: tl.constexpr):
    """The first (row + 1) * B columns of `a` times `b`; or a product that all programs along an axis that is not used add to the output."""
    rows = tl.program_id(0) * B + tl.arange(0, B)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float64)
    for k in range(0, K if ADDS else (tl.program_id(0) + 1) * B, B):
        at = k + tl.arange(0, B)
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        acc += tl.dot(a, tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=at[:, None] < K, other=0.0))
    if ADDS:
        tl.atomic_add(c_ptr + rows[:, None] * N + columns[None, :], acc)
    else:
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


@nereid.jit
def divided_twice(x, w, y, rows, more, N: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, N)
    tl.store(y + (pid // rows * rows + pid % rows) * N + i, tl.load(x + pid // rows * N + i) * tl.load(w + pid // more))


def test_program_ids_that_are_divided_by_two_numbers():
    x, w, dy = jvp_check.random(6, 8), jvp_check.random(4), jvp_check.random(12, 8)
    found = dict(x=torch.zeros_like(x), w=torch.zeros_like(w))
    kernel = nereid.grad(divided_twice, ("x", "w"), "y").backward.kernel  # `backward` takes partial sums for vectors
    kernel[(12, )](x, w, torch.zeros_like(dy), 2, 3, dx=found["x"], dw=found["w"], dy=dy, N=8)
    rows = (dy * w.repeat_interleave(3)[:, None]).view(6, 2, 8)
    compare(found, dict(x=rows.sum(1), w=(dy * x.repeat_interleave(2, 0)).view(4, 3, 8).sum((1, 2))), torch.float64)


@nereid.jit
def wide_rows(x, w, y, M, s):
    """Rows of 8 elements at every second multiple of `s`; the last one of a batch reaches into the next batch."""
    i = tl.arange(0, 2)
    k = tl.arange(0, 8)
    v = tl.load(x + tl.program_id(0) * (M * s) + (2 * i)[:, None] * s + k[None, :], mask=(2 * i)[:, None] < M, other=0.0)
    at = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * 16 + i[:, None] * 8 + k[None, :]
    tl.store(y + at, v * tl.load(w + tl.program_id(1)))


def test_masks_of_positions_that_are_counted_in_steps():
    x, w, dy = jvp_check.random(60), jvp_check.random(2), jvp_check.random(3, 2, 2, 8)
    found = grad_check.gradients(wide_rows, (3, 2), dict(x=x, w=w, y=torch.zeros_like(dy), M=3, s=4), ("x", ), ("y", ), dict(y=dy))
    leaf = x.clone().requires_grad_()
    batch, i, k = torch.meshgrid(torch.arange(3), torch.arange(2), torch.arange(8), indexing="ij")
    (leaf[batch * 12 + i * 8 + k][:, None] * w[:, None, None] * dy).sum().backward()
    compare(found, dict(x=leaf.grad), torch.float64)


def test_loops_that_are_longer_in_other_programs():
    a, b, dc = jvp_check.random(48, 48), jvp_check.random(48, 32), jvp_check.random(48, 32)
    arguments = dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros_like(dc), N=32, K=48)
    assert "the number of rounds of a loop is not the same in all programs" in explained(triangular_product, (3, 2), arguments, "a_ptr", "c_ptr", B=16, ADDS=False)
    found = grad_check.gradients(triangular_product, (3, 2), arguments, ("a_ptr", "b_ptr"), ("c_ptr", ), dict(c_ptr=dc), B=16, ADDS=False)
    kept = torch.arange(48)[None, :] < (torch.arange(48)[:, None] // 16 + 1) * 16
    compare(found, dict(a_ptr=(dc @ b.T) * kept, b_ptr=(a * kept).T @ dc), torch.float64)


def test_programs_that_compute_the_same():
    a, b, dc = jvp_check.random(48, 48), jvp_check.random(48, 32), jvp_check.random(48, 32)
    arguments = dict(a_ptr=a, b_ptr=b, c_ptr=torch.zeros_like(dc), N=32, K=48)
    for copies in (1, 3):
        found = grad_check.gradients(triangular_product, (3, 2, copies), arguments, ("a_ptr", "b_ptr"), ("c_ptr", ), dict(c_ptr=dc), B=16, ADDS=True)
        compare(found, dict(a_ptr=copies * dc @ b.T, b_ptr=copies * a.T @ dc), torch.float64)


def test_loops_that_are_no_sums():

    @nereid.jit
    def decayed(x, w, y, n, N: tl.constexpr):
        row = tl.program_id(0)
        at = tl.program_id(1) * N + tl.arange(0, N)
        acc = tl.zeros((N, ), tl.float64)
        for k in range(n):
            acc = acc * 0.5 + tl.load(x + k * N * tl.num_programs(1) + at) * tl.load(w + row)
        tl.store(y + row * N * tl.num_programs(1) + at, acc)

    x, w, dy = jvp_check.random(3, 16), jvp_check.random(5), jvp_check.random(5, 16)
    arguments = dict(x=x, w=w, y=torch.zeros_like(dy), n=3)
    assert "a loop around it is no sum: what a round adds depends on other rounds" in explained(decayed, (5, 2), arguments, "x", "y", N=8)
    found = grad_check.gradients(decayed, (5, 2), arguments, ("x", ), ("y", ), dict(y=dy), N=8)
    total = (w[:, None] * dy).sum(0)
    compare(found, dict(x=torch.stack([total * 0.25, total * 0.5, total])), torch.float64)


def test_what_only_another_loop_computes():

    @nereid.jit
    def activated(x, w, y, n, N: tl.constexpr):
        row = tl.program_id(0)
        at = tl.program_id(1) * N + tl.arange(0, N)
        acc = tl.zeros((N, ), tl.float64)
        for k in range(n):
            acc += tl.load(x + k * N * tl.num_programs(1) + at) * tl.load(w + row * n + k)
        tl.store(y + row * N * tl.num_programs(1) + at, acc * acc)

    x, w = jvp_check.random(3, 16), jvp_check.random(5, 3)
    y = torch.zeros(5, 16, dtype=torch.float64)
    gradient = nereid.grad(activated, "x", "y")
    gradient.backward.kernel.warmup(x, w, y, 3, dx=x, dy=y, N=8, grid=(5, 2))  # without memory for a second step
    text = explained_kernels(gradient)
    assert "its schedule is not transposed: what a tile adds to it is computed in a loop" in text


def test_program_ids_that_are_no_tile_numbers():

    @nereid.jit
    def scaled(x, w, y, N: tl.constexpr):
        i = tl.program_id(0) * N + tl.arange(0, N)
        j = tl.program_id(1) // 2 * N + tl.program_id(1) % 3 + tl.arange(0, N)
        tl.store(y + (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * N + tl.arange(0, N), tl.load(x + i) * tl.load(w + j))

    x, w, dy = jvp_check.random(16), jvp_check.random(32), jvp_check.random(2, 4, 8)
    arguments = dict(x=x, w=w, y=torch.zeros_like(dy))
    found = grad_check.gradients(scaled, (2, 4), arguments, ("x", "w"), ("y", ), dict(y=dy), N=8)
    dx, dw = torch.zeros_like(x), torch.zeros_like(w)
    for i in range(2):
        for j in range(4):
            at = j // 2 * 8 + j % 3
            dx[i * 8:i * 8 + 8] += dy[i, j] * w[at:at + 8]
            dw[at:at + 8] += dy[i, j] * x[i * 8:i * 8 + 8]
    compare(found, dict(x=dx, w=dw), torch.float64)


@pytest.mark.parametrize("order, wrap", [("axes", False), ("groups", True)])
def test_code_for_gpus(order, wrap):
    half = torch.ones(64, dtype=torch.float16)
    gradient = nereid.grad(product, ("a_ptr", "b_ptr"), "c_ptr")
    compiled = gradient.backward.warmup(half, half, half, 4096, 4096, 4096, 4096, 1, 4096, 1, 4096, 1, da_ptr=half, db_ptr=half, dc_ptr=half, BM=128, BN=128,
                                        BK=64, ORDER=order, WRAP=wrap, GROUP=8, num_warps=8, grid=(1024, 1), target="cuda:90")
    assert compiled.asm["ptx"].count("wgmma.mma_async") >= 8
    assert compiled.asm["ptx"].count("st.global") >= 2
    assert compiled.asm["cubin"]


# ---- two steps: contributions from adjoints that a first launch saves


@nereid.jit
def activated(a_ptr, b_ptr, bias_ptr, residual_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, WRAP: tl.constexpr,
              ACTIVATION: tl.constexpr):
    """c = activation(a @ b + bias) + residual"""
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    first = pid // (GROUP * num_n) * GROUP
    size = min(num_m - first, GROUP)
    pid_m = first + pid % (GROUP * num_n) % size
    pid_n = pid % (GROUP * num_n) // size
    rows = pid_m * BM + tl.arange(0, BM)
    columns = pid_n * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    acc = tl.zeros((BM, BN), dtype=tl.float64 if a_ptr.dtype.element_ty == tl.float64 else tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        if WRAP:
            a = tl.load(a_ptr + (rows % M)[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
            b = tl.load(b_ptr + at[:, None] * N + (columns % N)[None, :], mask=at[:, None] < K, other=0.0)
        else:
            a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
            b = tl.load(b_ptr + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    acc += tl.load(bias_ptr + columns, mask=columns < N, other=0.0)[None, :]
    if ACTIVATION == "leaky_relu":
        acc = tl.where(acc >= 0, acc, 0.01 * acc)
    elif ACTIVATION == "silu":
        acc = acc * tl.sigmoid(acc)
    acc += tl.load(residual_ptr + rows[:, None] * N + columns[None, :], mask=inside, other=0.0)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(c_ptr.dtype.element_ty), mask=inside)


WRT = ("a_ptr", "b_ptr", "bias_ptr", "residual_ptr")
BLOCKS = dict(BM=16, BN=16, BK=32, GROUP=3)


def of_activated(M, N, K, dtype):
    tensors = dict(a_ptr=matrix(M, K, dtype), b_ptr=matrix(K, N, dtype), bias_ptr=matrix(1, N, dtype)[0], residual_ptr=matrix(M, N, dtype))
    return dict(tensors, c_ptr=torch.zeros(M, N, dtype=dtype), M=M, N=N, K=K), (nereid.cdiv(M, 16) * nereid.cdiv(N, 16), ), matrix(M, N, dtype)


def expected_of(arguments, activation, dc):
    leaves = [arguments[name].double().requires_grad_() for name in WRT]
    a, b, bias, residual = leaves
    functions = {"": lambda x: x, "leaky_relu": torch.nn.functional.leaky_relu, "silu": torch.nn.functional.silu}
    (functions[activation](a @ b + bias) + residual).backward(dc.double())
    return {name: leaf.grad for name, leaf in zip(WRT, leaves)}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("activation", ["", "leaky_relu", "silu"])
def test_activations(activation, wrap, dtype):
    arguments, grid, dc = of_activated(70, 50, 90, dtype)
    gradient = nereid.grad(activated, WRT, "c_ptr")
    runs = []
    for _ in range(2):
        found = {name: torch.full_like(arguments[name], float("nan")) for name in WRT}
        gradient.backward[grid](**arguments, dc_ptr=dc, **{f"d{name}": value for name, value in found.items()}, **BLOCKS, WRAP=wrap, ACTIVATION=activation)
        runs.append(found)
    tolerance = {torch.float64: 1e-11, torch.float32: 1e-4, torch.float16: 2e-2}[dtype]
    for name, value in expected_of(arguments, activation, dc).items():
        torch.testing.assert_close(found[name].double(), value, rtol=tolerance, atol=tolerance * 10)
        assert torch.equal(found[name], runs[0][name])
    text = gradient.explain()
    assert text.count("has a transposed schedule") >= 3, text
    assert text.count("from what a first step has saved") == (3 if activation else 0), text


def test_each_step_stores_all_of_what_it_owes():
    """The first step saves, the second stores; neither adds."""
    arguments, grid, dc = of_activated(70, 50, 90, torch.float64)
    kernel = nereid.grad(activated, WRT[:3], "c_ptr").backward.kernel
    found = {name: torch.full_like(arguments[name], float("nan")) for name in WRT[:3]}
    given = dict(arguments, dc_ptr=dc, **{f"d{name}": value for name, value in found.items()}, **BLOCKS, WRAP=True, ACTIVATION="silu")
    size = torch.zeros(2, dtype=torch.int64)
    kernel[grid](**given, saved=size.view(torch.uint8), step=-1)
    saved_bytes = int(size[0])
    assert saved_bytes == 16 * 16 * 8 + 16 * 8  # of the product, of the bias
    assert all(value.isnan().all() for value in found.values())
    memory = torch.full((grid[0] * saved_bytes // 8, ), float("nan"), dtype=torch.float64)
    kernel[grid](**given, saved=memory.view(torch.uint8), step=0)
    assert not memory.isnan().any() and all(value.isnan().all() for value in found.values())
    kernel[grid](**given, saved=memory.view(torch.uint8), step=1)
    expected = expected_of(arguments, "silu", dc)
    compare(found, {name: expected[name] for name in found}, torch.float64)


def test_memory_that_is_no_pointer():
    """Diagnostic SavedType."""
    arguments, grid, dc = of_activated(70, 50, 90, torch.float64)
    kernel = nereid.grad(activated, "a_ptr", "c_ptr").backward.kernel
    with pytest.raises(nereid.CompilationError, match="`saved` must be a pointer or None, since it leads to memory for what the first step of a gradient saves for the second, found `int32`"):
        kernel[grid](**arguments, dc_ptr=dc, da_ptr=torch.zeros_like(arguments["a_ptr"]), **BLOCKS, WRAP=False, ACTIVATION="silu", saved=7)


def test_a_grid_that_is_not_the_tiles_in_two_steps():
    arguments, grid, dc = of_activated(70, 50, 90, torch.float64)
    found = grad_check.gradients(activated, (grid[0] - 1, ), arguments, WRT[:2], ("c_ptr", ), dict(c_ptr=dc), **dict(BLOCKS, GROUP=5), WRAP=False, ACTIVATION="silu")
    cut = dc.clone()
    cut[64:, 48:] = 0  # the last tile is not computed
    expected = expected_of(arguments, "silu", cut)
    compare(found, {name: expected[name] for name in found}, torch.float64)


def test_an_empty_grid_before_others():
    """No program of the first launch says how many bytes it saves."""
    arguments, grid, dc = of_activated(70, 50, 90, torch.float64)
    backward = nereid.grad(activated, WRT[:2], "c_ptr").backward
    backward._asking(dc.device)[backward.kernel.saved].fill_(1)
    for programs in (0, grid[0]):
        found = {name: torch.full_like(arguments[name], float("nan")) for name in WRT[:2]}
        backward[(programs, )](**arguments, dc_ptr=dc, **{f"d{name}": value for name, value in found.items()}, **BLOCKS, WRAP=False, ACTIVATION="silu")
        expected = expected_of(arguments, "silu", dc if programs else torch.zeros_like(dc))
        compare(found, {name: expected[name] for name in found}, torch.float64)


def test_autograd_makes_both_steps():
    f = nereid.autograd(activated, wrt=WRT, out={"c_ptr": lambda a: a["a_ptr"].new_empty(len(a["a_ptr"]), a["b_ptr"].shape[1])},
                        grid=lambda a: (nereid.cdiv(a["M"], a["BM"]) * nereid.cdiv(a["N"], a["BN"]), ),
                        arguments=dict(BLOCKS, WRAP=True, ACTIVATION="silu", M=lambda a: a["a_ptr"].shape[0], N=lambda a: a["b_ptr"].shape[1],
                                       K=lambda a: a["a_ptr"].shape[1]))
    arguments, _, dc = of_activated(70, 50, 90, torch.float64)
    leaves = {name: arguments[name].clone().requires_grad_() for name in WRT}
    f(**leaves).backward(dc)
    expected = expected_of(arguments, "silu", dc)
    compare({name: leaf.grad for name, leaf in leaves.items()}, expected, torch.float64)
    assert "from what a first step has saved" in f.explain()


def test_code_of_two_steps_for_gpus():
    half = torch.ones(64, dtype=torch.float16)
    gradient = nereid.grad(activated, ("a_ptr", "b_ptr"), "c_ptr")
    compiled = gradient.backward.warmup(half, half, half, half, half, 4096, 4096, 4096, da_ptr=half, db_ptr=half, dc_ptr=half, BM=128, BN=128, BK=64, GROUP=8,
                                        WRAP=True, ACTIVATION="silu", num_warps=8, grid=(1024, ), target="cuda:90")
    assert f"{128 * 128 * 2}" in compiled.asm["tile"]  # bytes that a program saves: in the type of the product's operands
    assert compiled.asm["ptx"].count("wgmma.mma_async") >= 12
    assert compiled.asm["cubin"]


@nereid.jit
def sums_used_in_loop(a_ptr, b_ptr, c_ptr, d_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, USE: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    at = rows[:, None] * N + columns[None, :]
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    acc = tl.zeros((BM, BN), tl.float64)
    for round in range(0, tl.cdiv(K, BK)):
        k = round * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + columns[None, :], mask=(k[:, None] < K) & (columns[None, :] < N), other=0.0)
        if USE == "stored before":
            tl.store(c_ptr + round * M * N + at, acc, mask=inside)
        acc += tl.dot(a, b)
        if USE == "added":
            tl.atomic_add(c_ptr + at, 2.0 * acc, mask=inside)
    tl.store(d_ptr + at, acc, mask=inside)


@pytest.mark.parametrize("use", ["stored before", "added"])
def test_sums_that_the_loop_itself_uses(use):
    """What a round adds reaches what later rounds store: their adjoints differ from round to round."""
    M, N, K = 37, 30, 40
    arguments = dict(a_ptr=jvp_check.random(M, K), b_ptr=jvp_check.random(K, N), c_ptr=torch.zeros(3, M, N, dtype=torch.float64),
                     d_ptr=torch.zeros(M, N, dtype=torch.float64), M=M, N=N, K=K)
    given = dict(c_ptr=jvp_check.random(3, M, N), d_ptr=jvp_check.random(M, N))
    found = grad_check.gradients(sums_used_in_loop, (3, 2), arguments, ("a_ptr", "b_ptr"), ("c_ptr", "d_ptr"), given, BM=16, BN=16, BK=16, USE=use)
    a, b = arguments["a_ptr"].clone().requires_grad_(), arguments["b_ptr"].clone().requires_grad_()
    acc, value = torch.zeros(M, N, dtype=torch.float64), 0.0
    for i in range(3):
        if use == "stored before":
            value = value + (acc * given["c_ptr"][i]).sum()
        acc = acc + a[:, i * 16:i * 16 + 16] @ b[i * 16:i * 16 + 16]
        if use == "added":
            value = value + (2.0 * acc * given["c_ptr"][0]).sum()
    (value + (acc * given["d_ptr"]).sum()).backward()
    compare(found, dict(a_ptr=a.grad, b_ptr=b.grad), torch.float64)


@nereid.jit
def added_in_places(a_ptr, b_ptr, r_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PLACES: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    at = rows[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float64)
    if "begin" in PLACES:
        acc += tl.load(r_ptr + at, mask=inside, other=0.0)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        a = tl.load(a_ptr + (rows % M)[:, None] * K + inner[None, :], mask=inner[None, :] < K, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=(inner[:, None] < K) & (columns[None, :] < N), other=0.0)
        acc += tl.trans(tl.dot(tl.trans(b), tl.trans(a)))
        if "loop" in PLACES:
            acc += 0.1 * tl.load(r_ptr + at, mask=inside, other=0.0)
    if "behind" in PLACES:
        acc *= tl.load(r_ptr + at, mask=inside, other=2.0)
    tl.store(c_ptr + at, acc / (1.5 + acc * acc), mask=(rows[:, None] < M - 3) & (columns[None, :] < N))


@pytest.mark.parametrize("places, wrt", [(places, wrt) for places in ("begin", "loop", "behind", "begin, loop", "begin, behind", "loop, behind", "begin, loop, behind")
                                         for wrt in (("a_ptr", "b_ptr", "r_ptr"), ("b_ptr", "r_ptr"))] +
                         [("begin, loop, behind", wrt) for wrt in (("a_ptr", ), ("b_ptr", ), ("r_ptr", ), ("a_ptr", "b_ptr"), ("a_ptr", "r_ptr"))])
def test_a_summand_that_is_read_in_several_places(places, wrt):
    """Its gradient is added to in several places of the step that saves what the second step needs; the step reads the saved adjoint as it is and transposed."""
    arguments = dict(a_ptr=jvp_check.random(21, 13), b_ptr=jvp_check.random(13, 30), r_ptr=jvp_check.random(21, 30), c_ptr=torch.zeros(21, 30, dtype=torch.float64), M=21, N=30, K=13)
    grad_check.check(added_in_places, (2, 2), arguments, wrt, ("c_ptr", ), rtol=1e-9, begin=0.0, BM=16, BN=16, BK=8, PLACES=places)


@nereid.jit
def wrapped_blocks(x, v, y, M, L, N: tl.constexpr):
    flat = (tl.program_id(0) * N + tl.arange(0, N))[:, None] * N + tl.arange(0, N)[None, :]
    position = flat % M
    value = 2.0 * tl.load(x + position) + tl.load(v + flat, mask=position < L, other=0.0) * (1 + tl.program_id(1))
    tl.store(y + tl.program_id(1) * (N * N * tl.num_programs(0)) + flat, value)


def test_a_schedule_behind_one_that_cannot_be_written():
    """Positions of two dimensions wrap around in the addresses of the first, and in the mask of the second, which keeps its remainder."""
    x, v, dy = jvp_check.random(128), jvp_check.random(128), jvp_check.random(3, 128)
    arguments = dict(x=x, v=v, y=torch.zeros_like(dy), M=100, L=20)
    gradient = nereid.grad(wrapped_blocks, ("x", "v"), "y")
    gradient.backward.kernel.warmup(**arguments, dx=x, dv=v, dy=dy, grid=(2, 3), N=8)
    text = explained_kernels(gradient)
    assert "positions wrap around in a way that is not known" in text and "the gradient of `v` has a transposed schedule" in text, text
    found = grad_check.gradients(wrapped_blocks, (2, 3), arguments, ("x", "v"), ("y", ), dict(y=dy), N=8)
    a, b, i = x.clone().requires_grad_(), v.clone().requires_grad_(), torch.arange(128)
    value = 2.0 * a[i % 100] + torch.where(i % 100 < 20, b, 0.0) * torch.arange(1, 4)[:, None]
    (value * dy).sum().backward()
    compare(found, dict(x=a.grad, v=b.grad), torch.float64)


@nereid.jit
def scaled_rows(x, w, b, y, z, M, L, N: tl.constexpr, WRAPS: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    row, lane = i[:, None] * N, tl.arange(0, N)[None, :]
    to = tl.program_id(1) * tl.num_programs(0) * N * N + row + lane
    factor = tl.load(w + ((i % M)[:, None] * N if WRAPS else row) + lane)
    bias = tl.load(b + row + lane, mask=(i % M < L)[:, None], other=0.0)
    tl.store(y + to, tl.sin(tl.load(x + to)) * factor + bias, mask=(i < M)[:, None])
    tl.store(z + to, bias * (1 + tl.program_id(1)))


@pytest.mark.parametrize("wraps", [False, True])
def test_blocks_with_the_same_owner_are_summed_together(wraps):
    """Weights and biases of rows: one loop over the tiles that read them, unless the mask of one has a remainder that the addresses of the other leave out."""
    M, L, N, programs = 29, 21, 8, 5
    x, dy, dz = (jvp_check.random(programs, 32, N) for _ in range(3))
    w, b = jvp_check.random(32, N), jvp_check.random(32, N)
    arguments = dict(x=x, w=w, b=b, y=torch.zeros_like(dy), z=torch.zeros_like(dz), M=M, L=L)
    gradient = nereid.grad(scaled_rows, ("w", "b"), ("y", "z"))
    kernel = gradient.backward.kernel.warmup(**arguments, dw=w, db=b, dy=dy, dz=dz, grid=(4, programs), N=N, WRAPS=wraps)
    text = explained_kernels(gradient)
    assert all(f"the gradient of `{name}` has a transposed schedule" in text for name in "wb"), text
    found = grad_check.gradients(scaled_rows, (4, programs), arguments, ("w", "b"), ("y", "z"), dict(y=dy, z=dz), N=N, WRAPS=wraps)
    rows, read = (torch.arange(32) < M)[:, None] * dy, (torch.arange(32) % M < L)[:, None]
    compare(found, dict(w=(rows * x.sin()).sum(0), b=(rows + dz * torch.arange(1, programs + 1)[:, None, None]).sum(0) * read), torch.float64)
    assert kernel.asm["tile"].count("scf.for") == (4 if wraps else 2), kernel.asm["tile"]
