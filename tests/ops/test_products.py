"""Matrix products: sizes that no tile divides, strides, dtypes, factors, outputs. Every overload, against ATen's kernel in fp64 or, for integers, exactly."""

import pytest
import torch

import nereid.ops
import opinfo
from nereid.ops import products

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
NAMES = ("mm", "bmm", "mv", "addmm", "addmv", "baddbmm", "addbmm", "addr", "_addmm_activation", "_int_mm")


def random(dtype, *shape, device="cpu"):
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.float64).to(dtype).to(device)
    return torch.randint(0 if dtype == torch.uint8 else -6, 7, shape, dtype=dtype, device=device)


def check(function, *args, overload=None, **kwargs):
    """Compares a call with ATen's kernel, and in fp64; `overload` is what has to be served. Tensors of `kwargs` (outputs) are cloned for each call."""

    def call(change=lambda tensor: tensor):
        copies = {name: change(value.clone()) if isinstance(value, torch.Tensor) else value for name, value in kwargs.items()}
        return function(*[change(x.detach()) if isinstance(x, torch.Tensor) else x for x in args], **copies)

    native = call()
    floating = native.dtype.is_floating_point
    wide = call(lambda tensor: opinfo.widened(tensor)) if floating else None
    nereid.ops.report(clear=True)
    with nereid.ops.use(only=NAMES):
        ours = call()
    report = nereid.ops.report()
    assert [row.route for row in report] == ["nereid"] and overload in (None, report[0].overload), report
    magnitude = opinfo.magnitude([x for x in args if isinstance(x, torch.Tensor)], native)
    opinfo.check(ours, native, wide, 4, f"{function}", False, 64 * magnitude)
    return ours


def refused(dtype, target):
    """Whether ATen has no products of this dtype, as it has none of integers on GPUs; then it is checked that the error is ATen's."""
    if target == "cpu" or dtype not in INTEGERS:
        return False
    with nereid.ops.use(only=NAMES), pytest.raises(NotImplementedError, match="not implemented for"):
        torch.mm(random(dtype, 3, 4, device=target), random(dtype, 4, 5, device=target))
    return True


SIZES = [(1, 1, 1), (3, 5, 7), (1, 40, 70), (40, 1, 70), (33, 65, 129), (64, 128, 256), (16, 16, 3000), (100, 200, 5), (2, 3, 0), (130, 17, 64), (5, 3, 20000)]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_sizes(dtype, target):
    if refused(dtype, target):
        return
    for m, n, k in SIZES:
        check(torch.mm, random(dtype, m, k, device=target), random(dtype, k, n, device=target), overload="mm")
    check(torch.mv, random(dtype, 70, 90, device=target), random(dtype, 90, device=target), overload="mv")
    check(torch.mv, random(dtype, 3, 20000, device=target), random(dtype, 20000, device=target), overload="mv")
    check(torch.bmm, random(dtype, 3, 20, 30, device=target), random(dtype, 3, 30, 40, device=target), overload="bmm")
    check(torch.bmm, random(dtype, 3, 20, 30, device=target), random(dtype, 3, 30, 1, device=target), overload="bmm")


def layouts(x):
    """The same values in other places: transposed, every second element, a column block of a wider matrix, batches innermost."""
    yield "plain", x
    yield "transposed", x.mT.contiguous().mT
    wide = torch.zeros((*x.shape[:-2], 2 * x.shape[-2], 3 * x.shape[-1]), dtype=x.dtype, device=x.device)
    wide[..., ::2, ::3] = x
    yield "sliced", wide[..., ::2, ::3]
    part = torch.zeros((*x.shape[:-1], x.shape[-1] + 3), dtype=x.dtype, device=x.device)
    part[..., 1:-2] = x
    yield "a part", part[..., 1:-2]
    if x.dim() == 3:
        yield "batches innermost", x.permute(1, 2, 0).contiguous().permute(2, 0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.int8], ids=str)
def test_strides(dtype, target):
    if refused(dtype, target):
        return
    for m, n, k in ((40, 50, 70), (64, 1, 130), (1, 80, 96)):
        a, b = random(dtype, m, k, device=target), random(dtype, k, n, device=target)
        for _, left in layouts(a):
            for _, right in layouts(b):
                check(torch.mm, left, right)
    a, b = random(dtype, 3, 17, 24, device=target), random(dtype, 3, 24, 33, device=target)
    for _, left in layouts(a):
        for _, right in layouts(b):
            check(torch.bmm, left, right)
    check(torch.bmm, a[:1].expand(5, -1, -1), b[:1].expand(5, -1, -1))
    check(torch.mv, a[0].t(), random(dtype, 34, device=target)[::2])
    check(torch.mv, a[0], random(dtype, 1, device=target).expand(24))


def calls(dtype, target):
    """[(function, arguments)] with a tensor that is added."""
    a, b, c, d = (random(dtype, *shape, device=target) for shape in ((20, 30), (30, 40), (3, 20, 30), (3, 30, 40)))
    for shape in ((20, 40), (40, ), (20, 1), (1, )):
        yield torch.addmm, (random(dtype, *shape, device=target), a, b)
        yield torch.baddbmm, (random(dtype, *shape, device=target), c, d)
        yield torch.addbmm, (random(dtype, *shape, device=target), c, d)
        yield torch._addmm_activation, (random(dtype, *shape, device=target), a, b)
        yield torch.addr, (random(dtype, *shape, device=target), a[:, 0], b[0])
    yield torch.addmv, (random(dtype, 20, device=target), a, b[:, 0])
    yield torch.addmv, (random(dtype, 1, device=target), a, b[:, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int16, torch.uint8], ids=str)
def test_added(dtype, target):
    if refused(dtype, target):
        return
    for function, args in calls(dtype, target):
        for factors in ({}, {"beta": 3, "alpha": 2}, {"beta": 0}, *([{"beta": 0.5, "alpha": -1.5}] if dtype.is_floating_point else [])):
            check(function, *args, **factors)
    if dtype.is_floating_point:
        a, b = random(dtype, 20, 30, device=target), random(dtype, 30, 40, device=target)
        c = random(dtype, 40, device=target)
        if (dtype, target) == (torch.float64, "cuda"):  # ATen's own takes cuBLAS' GELU, which is off by 1e-10 in fp64
            with nereid.ops.use(only=NAMES):
                ours = torch._addmm_activation(c, a, b, use_gelu=True)
            assert opinfo.served("_addmm_activation")
            torch.testing.assert_close(ours, torch.nn.functional.gelu(torch.addmm(c, a, b), approximate="tanh"), rtol=1e-14, atol=1e-14)
        else:
            check(torch._addmm_activation, c, a, b, use_gelu=True)


@pytest.mark.parametrize("name", ["addmm", "addmv", "baddbmm", "addbmm", "addr"])
def test_nan_is_ignored_where_beta_is_zero(name, target):
    for function, args in calls(torch.float32, target):
        if function.__name__ == name:
            nothing = torch.full_like(args[0], float("nan"))
            assert check(function, nothing, *args[1:], beta=0).isfinite().all()
            assert check(function, nothing, *args[1:]).isnan().any()


def test_nothing_to_sum(target):
    """K = 0, no batch, alpha = 0: what is added remains, and without it zeros."""
    x = torch.full((4, ), 2.0, device=target)
    empty = torch.empty
    check(torch.mm, empty(3, 0, device=target), empty(0, 4, device=target))
    check(torch.mv, empty(3, 0, device=target), empty(0, device=target))
    check(torch.bmm, empty(2, 3, 0, device=target), empty(2, 0, 4, device=target))
    for beta in (0, 3):
        check(torch.addmm, x, empty(3, 0, device=target), empty(0, 4, device=target), beta=beta)
        check(torch.addmv, x[:3], empty(3, 0, device=target), empty(0, device=target), beta=beta)
        check(torch.addbmm, x, empty(0, 3, 5, device=target), empty(0, 5, 4, device=target), beta=beta)
        check(torch.baddbmm, x, empty(2, 3, 0, device=target), empty(2, 0, 4, device=target), beta=beta)
    nan = torch.full((4, 4), float("nan"), device=target)
    assert check(torch.addmm, x, nan, nan, alpha=0, beta=2).eq(4).all()
    assert check(torch.addmv, x, nan, nan[0], alpha=0, beta=2).eq(4).all()
    for shapes in (((0, 3), (3, 4)), ((3, 4), (4, 0)), ((0, 0), (0, 0))):
        check(torch.mm, *(empty(shape, device=target) for shape in shapes))


def test_infinities(target):
    a, b = random(torch.float32, 40, 50, device=target), random(torch.float32, 50, 60, device=target)
    a[3, 7], a[5, 9], b[11, 13] = float("inf"), float("nan"), float("-inf")
    check(torch.mm, a, b)
    check(torch.mv, a, b[:, 13])


@pytest.mark.cpu_only("`_int_mm` is registered for CPUs only: cuBLAS runs it on GPUs")
def test_int_mm(target):
    for m, n, k in ((3, 5, 7), (40, 70, 300), (17, 1, 100), (1, 33, 100), (4, 4, 0)):
        a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
        assert check(torch._int_mm, a, b).dtype == torch.int32
    a = torch.full((2, 60000), -128, dtype=torch.int8)
    assert check(torch._int_mm, a, a.t()).eq(128 * 128 * 60000).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_outputs(dtype, target):
    if refused(dtype, target):
        return
    a, b, x = random(dtype, 20, 30, device=target), random(dtype, 30, 40, device=target), random(dtype, 20, 40, device=target)
    for out in (torch.zeros_like(x), torch.zeros_like(x.t()).t(), torch.zeros(20, 80, dtype=dtype, device=target)[:, ::2], x.new_empty(0)):
        check(torch.mm, a, b, out=out, overload="mm.out")
        check(lambda self, *args, **kwargs: torch.addmm(self, *args, **kwargs), x, a, b, beta=2, out=out, overload="addmm.out")
    for function in ("addmm_", "addbmm_"):
        args = (a, b) if function == "addmm_" else (a[None].expand(2, -1, -1), b[None].expand(2, -1, -1))
        check(lambda *args, self, function=function, **kwargs: getattr(self, function)(*args, **kwargs), *args, self=x, beta=2, overload=function)
    check(lambda *args, self: self.baddbmm_(*args), a[None], b[None], self=x[None], overload="baddbmm_")
    check(lambda *args, self: self.addmv_(*args), a, b[:, 0], self=x[:, 0].contiguous(), overload="addmv_")
    check(lambda *args, self: self.addr_(*args), a[:, 0], b[0], self=x)


def routes():
    return {(row.overload, row.route, row.reason) for row in nereid.ops.report()}


def test_what_is_left_to_aten(target):
    a, b = random(torch.float32, 6, 6, device=target), random(torch.float32, 6, 6, device=target)
    nereid.ops.enable(only=NAMES)
    for make, reason in ((lambda: torch.mm(a.to(torch.complex64), b.to(torch.complex64)), "dtype"), (lambda: torch.mm(a, b, out=a), "overlap"),
                         (lambda: torch.mv(a, b[0], out=b[0]), "overlap")):
        nereid.ops.report(clear=True)
        make()
        assert {(route, why) for _, route, why in routes()} == {("aten", reason)}
    for call, text in ((lambda: torch.mm(b, b[:5]), "cannot be multiplied"), (lambda: torch.mm(b, b.double()), "dtype"), (lambda: torch.mm(b[0], b), "matrix"),
                       (lambda: torch.addmm(b[:5, :5], b, b), "expanded size"), (lambda: b[0].clone().addmm_(b, b), "size|shape"),
                       (lambda: torch.mm(b, b, out=b[:1].expand(6, 6)), "unsupported operation"), (lambda: torch.mm(b, b, out=b.new_empty(6, 6, dtype=torch.float64)), "dtype"),
                       (lambda: b[0].clone().addr_(b[0], b[0]), "2D tensor expected, got 1D"), (lambda: b[:5].clone().addr_(b[0], b[0]), "size mismatch")):
        with pytest.raises(RuntimeError, match=text):
            call()


@pytest.mark.parametrize("name,rank", [("mm", 2), ("addmm", 2), ("bmm", 3), ("baddbmm", 3)])
def test_out_dtype(name, rank, target):
    """The overloads with `out_dtype`, which ATen has on GPUs only: sums of 16-bit products in fp32."""
    operator = nereid.ops.OPERATORS[name]
    form = next((form for form in operator.forms if form.name == f"{name}.dtype"), None)
    if form is None:
        pytest.skip(f"PyTorch {torch.__version__} has no overload `{name}.dtype`")
    a, b = (random(torch.bfloat16, *shape, device=target) for shape in ((2, 20, 30)[3 - rank:], (2, 30, 40)[3 - rank:]))
    for added in ([torch.bfloat16, torch.float32] if operator.added else [None]):
        args = (a, b) if added is None else (random(added, 40, device=target), a, b)
        exact = a.double() @ b.double() + (0 if added is None else args[0].double())
        for dtype in (torch.float32, torch.bfloat16):
            if added not in (None, torch.bfloat16, dtype):
                continue
            found = operator.call(form, *form.bind((*args, dtype), {}))
            assert found.dtype == dtype and (found.double() - exact).abs().max() <= exact.abs().max() * (1e-6 if dtype == torch.float32 else 8e-3)
    assert type(operator.call(form, *form.bind((*args, torch.float64), {}))) is nereid.ops.Native


def test_repeated_calls(target):
    """The router repeats a call of the same shapes; another alpha, another stride or an overlap is another call."""
    a, b, x = random(torch.float32, 20, 30, device=target), random(torch.float32, 30, 40, device=target), random(torch.float32, 40, device=target)
    with nereid.ops.use(only=NAMES):
        for _ in range(3):
            for alpha in (1, 2.5):
                left, right = torch.randn_like(a), torch.randn_like(b)
                found = torch.addmm(x, left, right, alpha=alpha)
                close(found, x.double() + alpha * (left.double() @ right.double()))
                close(torch.addmm(x, left, right.t().contiguous().t(), alpha=alpha), found.double())
    square = random(torch.float32, 30, 30, device=target)
    with nereid.ops.use(only=NAMES):
        for out in (torch.empty_like(square), square.clone(), torch.empty_like(square)):
            close(torch.mm(square, square, out=out), square.double() @ square.double())
            nereid.ops.report(clear=True)
            torch.mm(out, square, out=out)  # undefined in ATen
            assert [row.reason for row in nereid.ops.report()] == ["overlap"]


def close(found, exact):
    assert (found.double() - exact).abs().max() <= 1e-4 * exact.abs().max()


def test_parts(target, monkeypatch):
    """Deep products are cut into parts, which are added in their order: the same numbers each time, and alpha, beta and the activation count once."""
    a, b, x = random(torch.float32, 20, 3000, device=target), random(torch.float32, 3000, 30, device=target), random(torch.float32, 30, device=target)
    found = []
    monkeypatch.setattr(products, "tiles", lambda *args, **kwargs: products.Tiles(16, 16, 32, 7))
    launch = products.launch
    monkeypatch.setattr(products, "launch", lambda kernel, grid, *args, **kwargs: (found.append((kernel.__name__, grid)), launch(kernel, grid, *args, **kwargs)))
    first = check(torch._addmm_activation, x, a, b, beta=-2, alpha=0.25)
    assert [name for name, _ in found] == ["product", "add_parts"] and found[0][1] == (4, 7)
    with nereid.ops.use(only=NAMES):
        assert all(torch.equal(torch._addmm_activation(x, a, b, beta=-2, alpha=0.25), first) for _ in range(3))
    found.clear()
    check(torch.addmm, x.half(), a.half(), b.half(), beta=2)
    check(torch.bmm, a.view(2, 10, 3000), b.view(2, 1500, 30).transpose(1, 2).reshape(2, 30, 1500).transpose(1, 2)[:, :1000].repeat(1, 3, 1))
    check(torch.addbmm, x, a.view(20, 5, 600).transpose(0, 1), b.view(5, 600, 30))
    assert [name for name, _ in found].count("add_parts") == 3


@pytest.mark.parametrize("processors", [60, 132])
def test_tiles_of_gpus(processors):
    """The model prefers large tiles where they fill the machine, and parts where there are few and deep ones."""
    h = torch.float16
    large = products.gpu_tiles(processors, h, 1, 8192, 8192, 8192)
    assert (large.m, large.n) in ((128, 256), (256, 128)) and large.parts == 1
    deep = products.gpu_tiles(processors, h, 1, 64, 64, 1 << 16)
    assert deep.parts > 4
    small = products.gpu_tiles(processors, h, 1, 16, 4096, 4096)
    assert small.m <= 32
    for dtype in (h, torch.float32, torch.float64):
        for m, n, k in ((1, 1, 1), (7, 9, 11), (4096, 11008, 4096)):
            cut = products.gpu_tiles(processors, dtype, 1, m, n, k)
            assert cut.m * cut.n <= 256 * 128 and cut.parts >= 1 and (dtype != torch.float64 or cut.m * cut.n <= 64 * 64)


@pytest.mark.parametrize("m", [1, 5, 16, 17, 32, 64, 100, 1000])
def test_tiles_of_cpus_fit(m):
    """No tile has twice as many rows or columns as the product."""
    for n in (16, 100, 4096, 100000):
        for k in (10, 1024):
            cut = products.tiles(torch.device("cpu"), torch.float32, 1, m, n, k)
            assert cut.m < 2 * max(m, 8) and cut.n < 2 * max(n, 16) and cut.parts >= 1


def test_chosen_tiles_go_first(target, monkeypatch):
    name = "cpu" if target == "cpu" else torch.cuda.get_device_name()
    monkeypatch.setitem(products.CHOSEN, (name, torch.float32, 1, 50, 60, 70), products.Tiles(16, 32, 16))
    products.tiles.cache_clear()
    found = []
    launch = products.launch
    monkeypatch.setattr(products, "launch", lambda *args, **kwargs: (found.append(args[4]), launch(*args, **kwargs)))
    check(torch.mm, random(torch.float32, 50, 70, device=target), random(torch.float32, 70, 60, device=target))
    products.tiles.cache_clear()
    assert (found[0]["BM"], found[0]["BN"], found[0]["BK"]) == (16, 32, 16)


GROUPED = {"rows": ((24, 32), (4, 32, 16)), "columns": ((4, 16, 32), (32, 24)), "summed": ((16, 24), (24, 32)), "batch": ((4, 8, 32), (4, 32, 16))}


@pytest.mark.parametrize("form", GROUPED)
def test_grouped_mm(form, target):
    """All forms with their gradients, which are ATen's, of products of groups again."""
    # On GPUs ATen's own kernel stops the device at groups that are no multiples of 16 bytes.
    offs = None if form == "batch" else torch.tensor([3, 8, 8, 24] if target == "cpu" else [8, 16, 16, 24], dtype=torch.int32, device=target)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for flipped in (False, True):
            a, b = (random(dtype, *shape, device=target) for shape in GROUPED[form])
            if flipped:
                a, b = (x.mT.contiguous().mT for x in (a, b))
            got, want = [], []
            for results, ours in ((want, False), (got, True)):
                with nereid.ops.use(only=["_grouped_mm", "bmm", "mm"] if ours else []):
                    leaves = [x.detach().requires_grad_() for x in (a, b)]
                    nereid.ops.report(clear=True)
                    results.append(torch._grouped_mm(*leaves, offs=offs))
                    if ours:
                        assert [(row.overload, row.route) for row in nereid.ops.report()] == [("_grouped_mm", "nereid")]
                    results += torch.autograd.grad(results[0], leaves, torch.ones_like(results[0]))
            for x, y in zip(got, want):
                assert x.dtype == y.dtype and x.stride() == y.stride()
                torch.testing.assert_close(x, y, atol=0.13 if dtype == torch.bfloat16 else 0.02 if dtype == torch.float16 else 1e-4, rtol=1e-2)


def test_grouped_mm_leaves_to_aten_what_it_refuses(target):
    a, b, offs = random(torch.float32, 8, 16, device=target), random(torch.float32, 2, 16, 8, device=target), torch.tensor([3, 8], dtype=torch.int32, device=target)
    for change, message in (({"offs": offs.long()}, "int32"), ({"offs": None}, "offsets"), ({"bias": a[0]}, "Bias"), ({"a": a.double(), "b": b.double()}, "Double"),
                            ({"a": random(torch.float32, 8, 17, device=target)[:, 1:]}, "16 bytes")):
        given = {"a": a, "b": b, "offs": offs, "bias": None} | change
        with nereid.ops.use(only=["_grouped_mm"]), pytest.raises((RuntimeError, ValueError), match=message):
            torch._grouped_mm(given["a"], given["b"], offs=given["offs"], bias=given["bias"])


def test_scaled_grouped_mm(target):
    """On the CPU ATen has none: what the operator computes is asked directly."""
    operator = nereid.ops.OPERATORS["_scaled_grouped_mm"]
    form, = operator.forms
    a, b = random(torch.float32, 20, 32, device=target).to(torch.float8_e4m3fn), random(torch.float32, 3, 16, 32, device=target).to(torch.float8_e4m3fn).mT
    a_scale, b_scale, offs = random(torch.float32, 20, device=target), random(torch.float32, 3, 16, device=target), torch.tensor([4, 4, 20], dtype=torch.int32, device=target)
    args, kwargs = (a, b, a_scale, b_scale), {"offs": offs, "out_dtype": torch.bfloat16}
    got = operator.call(form, form.bind(args, kwargs)[0], None)
    groups = torch.bucketize(torch.arange(20), offs.cpu(), right=True).to(target)
    want = torch.einsum("mk,mkn->mn", a.double(), b.double()[groups]) * a_scale.double()[:, None] * b_scale.double()[groups]
    assert got.dtype == torch.bfloat16 and got.stride() == (16, 1)
    torch.testing.assert_close(got.double(), want, atol=0.2, rtol=1e-2)
    for change, why in (({"bias": a_scale}, "bias"), ({"out_dtype": torch.float32}, "dtype"), ({"offs": offs.long()}, "offsets")):
        assert operator.call(form, form.bind(args, kwargs | change)[0], None).reason == why
    if target != "cpu":
        with nereid.ops.use(only=["_scaled_grouped_mm"]):
            nereid.ops.report(clear=True)
            torch.testing.assert_close(torch._scaled_grouped_mm(*args, **kwargs), got, atol=0, rtol=0)
            assert [row.route for row in nereid.ops.report()] == ["nereid"]


@pytest.mark.parametrize("m,k,n", [(64, 2048, 96), (8, 1000, 64), (200, 257, 100)])
def test_long_sums_on_cpus(m, k, n):
    """The error of a product in fp32 does not grow with the root of its summed dimension: sums of 256 products are added up."""
    from nereid.ops import fused
    torch.manual_seed(0)
    x, weight = torch.randn(m, k), torch.randn(n, k)
    exact = x.double() @ weight.double().T

    def error(found, exact=exact):
        return ((found.double() - exact).norm() / exact.norm()).item()

    with nereid.ops.use(routing=False):
        found = [x @ weight.T, torch.addmm(torch.zeros(n), x, weight.T), fused.linear(x, weight), x.T.contiguous().T @ weight.T.contiguous()]
    assert all(error(its) < 3.3e-7 for its in found), [error(its) for its in found]
    assert error(fused.linear_swiglu(x, weight / k**0.5, weight / k**0.5), torch.nn.functional.silu(exact / k**0.5) * exact / k**0.5) < 6e-7
