"""Which calls routing data give to ATen, `tune` and `verify`."""

import json
import pathlib
import sys
import warnings

import pytest
import torch

import nereid
import nereid.ops
from nereid.ops import _register, _router, _routes, products

SLOW, FAST = 0.5, 1.5
ROUTES = [True, False]  # with the router, without


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """No data but those of a test. The data that are shipped for this machine would count as well."""
    _router.load()  # from the folder that there is
    monkeypatch.setattr(nereid.knobs.nereid, "ops_cache", str(tmp_path))
    monkeypatch.setattr(_routes, "shipped", lambda device: None)
    monkeypatch.setattr(_routes, "_in_force", {})
    monkeypatch.setattr(products, "CHOSEN", {})
    yield tmp_path
    products.tiles.cache_clear()


def measured(*points):
    """Puts points into the file of this machine: (operator, dtype, kind, sizes, speed)."""
    routes = _routes.Routes(_routes.machine("cpu"))
    for point in points:
        routes.add(*point)
    _routes.keep(routes)
    _routes._in_force.clear()  # they have to be read from the file


def ways():
    """{base operator: ways that its calls went}, of the calls since the last time."""
    found = {}
    for row in nereid.ops.report(clear=True):
        found.setdefault(row.overload.partition(".")[0], set()).add(row.reason or row.route)
    return found


@pytest.mark.parametrize("router", ROUTES)
def test_the_nearest_point_decides(router):
    measured(("exp", torch.float32, "flat", (2**10, ), SLOW), ("exp", torch.float32, "flat", (2**16, ), FAST), ("exp", torch.float32, "tiled", (2**10, ), FAST))
    small, large, turned = torch.randn(1000), torch.randn(2**16), torch.randn(32, 64)[:, ::2]
    with nereid.ops.use(router=router, routing=True):
        for x, way in ((small, "ATen is faster"), (large, "nereid"), (torch.randn(4), "ATen is faster"), (turned, "nereid"), (small.double(), "nereid")):
            torch.testing.assert_close(torch.exp(x), torch.special.expm1(x) + 1)
            assert ways()["exp"] == {way}, x.shape
    with nereid.ops.use(router=router, routing=False):
        torch.exp(small)
        assert ways()["exp"] == {"nereid"}


@pytest.mark.parametrize("router", ROUTES)
def test_all_forms_of_an_operator_are_routed(router):
    measured(("exp", torch.float32, "flat", (64, ), SLOW), ("_softmax", torch.float32, "inner", (8, 8), SLOW), ("sum", torch.float32, "outer", (8, 8), SLOW))
    x = torch.randn(8, 8)
    wanted = x.exp()
    with nereid.ops.use(router=router, routing=True):
        out = torch.exp(x, out=torch.empty(8, 8))
        y = x.clone().exp_()
        assert ways()["exp"] == {"ATen is faster"} and "exp_" not in ways()
        for _ in range(2):  # recorded, then repeated
            torch.softmax(x, -1), x.sum(0), x.sum(1)
        found = ways()
    torch.testing.assert_close(out, wanted)
    torch.testing.assert_close(y, wanted)
    assert found["_softmax"] == {"ATen is faster"} and found["sum"] == {"ATen is faster", "nereid"}


def test_layouts_modes_and_norms_are_told_apart():
    x, table = torch.randn(2, 8, 6, 6), torch.randn(10, 4)
    indices, offsets = torch.arange(6), torch.tensor([0, 3])
    measured(("avg_pool2d", torch.float32, "all channels-last", (96, 6), SLOW), ("avg_pool2d", torch.float32, "all", (96, 6), FAST),
             ("_embedding_bag", torch.float32, "all mode 1", (10, 4), SLOW), ("_embedding_bag", torch.float32, "all mode 0", (10, 4), FAST),
             ("_pdist_forward", torch.float32, "all p other", (10, 4), SLOW), ("_pdist_forward", torch.float32, "all p 1", (10, 4), FAST))
    aten = torch.ops.aten
    with nereid.ops.use(routing=True):
        for name, call, way in (("avg_pool2d", lambda: aten.avg_pool2d(x, [2, 2]), "nereid"),
                                ("avg_pool2d", lambda: aten.avg_pool2d(x.contiguous(memory_format=torch.channels_last), [2, 2]), "ATen is faster"),
                                ("_embedding_bag", lambda: aten._embedding_bag(table, indices, offsets, False, 0), "nereid"),
                                ("_embedding_bag", lambda: aten._embedding_bag(table, indices, offsets, False, 1), "ATen is faster"),
                                ("_pdist_forward", lambda: aten._pdist_forward(table, 1.0), "nereid"), ("_pdist_forward", lambda: aten._pdist_forward(table, 2.5), "ATen is faster")):
            call()
            assert ways()[name] == {way}


def test_dtypes_of_16_bits_stand_for_one_another():
    measured(("exp", torch.bfloat16, "flat", (64, ), SLOW))
    with nereid.ops.use(routing=True):
        torch.exp(torch.randn(64).half())
        assert ways()["exp"] == {"ATen is faster"}
        torch.exp(torch.randn(64))
        assert ways()["exp"] == {"nereid"}


@pytest.mark.parametrize("router", ROUTES)
def test_operators_that_are_kept(router):
    measured(("exp", torch.float32, "flat", (64, ), SLOW), ("cos", torch.float32, "flat", (64, ), SLOW))
    with nereid.ops.use(router=router, routing=["exp"]):
        torch.exp(torch.randn(64)), torch.cos(torch.randn(64))
    assert ways() == {"exp": {"nereid"}, "cos": {"ATen is faster"}}
    with pytest.raises(LookupError, match="did you mean `exp`"):
        nereid.ops.enable(routing=["expp"])
    with pytest.raises(ValueError, match="`routing` is 3"):
        nereid.ops.enable(routing=3)


def test_the_setting(monkeypatch):
    measured(("exp", torch.float32, "flat", (64, ), SLOW))
    for value, way in ((False, "nereid"), (True, "ATen is faster")):
        monkeypatch.setattr(nereid.knobs.nereid, "ops_routing", value)
        with nereid.ops.use():
            torch.exp(torch.randn(64))
        assert ways()["exp"] == {way}


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}', '{"format": 99, "machine": {}, "points": {}, "tiles": {}}', '[]',
                                  '{"format": 1, "machine": {}, "tiles": {}, "points": {"exp": [["float3", "flat", [1], 0.5]]}}'])
def test_damaged_file(own_folder, text):
    _routes.own_path("cpu").write_text(text)
    with pytest.warns(RuntimeWarning, match="no routing data of this version .* remove it"):
        with nereid.ops.use(routing=True):
            torch.exp(torch.randn(64))
    assert ways()["exp"] == {"nereid"}
    with pytest.warns(RuntimeWarning, match="it is replaced"):
        measured(("exp", torch.float32, "flat", (64, ), SLOW))
    with nereid.ops.use(routing=True):
        torch.exp(torch.randn(64))
    assert ways()["exp"] == {"ATen is faster"}


def test_tune(own_folder):
    x, counter = torch.randn(48, 40), torch.zeros(8)
    with nereid.ops.tune(seconds=0.001):
        torch.exp(x), x @ x.t(), torch.softmax(x, 1), counter.add_(1), torch.rand(3)
    assert counter.tolist() == [1] * 8  # measured on copies
    data = json.loads(_routes.own_path("cpu").read_text())
    assert {"exp", "mm", "_softmax", "add"} <= set(data["points"]) and "uniform" not in data["points"]
    assert list(data["tiles"]) == ["float32 1 48 48 40"]
    first = data["points"]["exp"]
    assert [point[:3] for point in first] == [["float32", "flat", [10.9]]] and first[0][3] > 0
    products.CHOSEN.clear()
    _routes._in_force.clear()
    with nereid.ops.use(routing=True):  # the tiles are read again, what was measured is in force
        torch.testing.assert_close(x @ x.t(), (x.double() @ x.t().double()).float())
    assert products.tiles(x.device, torch.float32, 1, 48, 48, 40) == products.Tiles(*data["tiles"]["float32 1 48 48 40"])


def test_tune_counts_at_once(own_folder):
    nereid.ops.enable(only=["exp"], routing=True)
    for speed, way in ((SLOW, "ATen is faster"), (FAST, "nereid")):
        with nereid.ops.tune(only=["exp"], seconds=0.001):
            tuner = _register._stack[-1].tuner
            tuner._times = lambda calls, device, speed=speed: [1, speed][:len(calls)]
            torch.exp(torch.randn(64))
        ways()
        torch.exp(torch.randn(64))
        assert ways()["exp"] == {way}


def test_tune_where_nothing_can_be_written(own_folder, monkeypatch):
    (own_folder / "file").touch()
    monkeypatch.setattr(nereid.knobs.nereid, "ops_cache", str(own_folder / "file"))
    with pytest.warns(RuntimeWarning, match="could not be written"):
        with nereid.ops.tune(only=["exp"], seconds=0.001):
            _register._stack[-1].tuner._times = lambda calls, device: [1, SLOW]
            torch.exp(torch.randn(64))
    with nereid.ops.use(routing=True):
        torch.exp(torch.randn(64))
    assert ways()["exp"] >= {"ATen is faster"}
    with pytest.raises(ValueError, match="`seconds` is 0"):
        with nereid.ops.tune(seconds=0):
            pass


def test_verify(monkeypatch):
    x = torch.randn(8, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with nereid.ops.use(verify=True):
            torch.exp(x), torch.softmax(x, -1), x.add_(1), torch.add(1, x), torch.rand(4), x @ x, torch.tensor([3, 1, 2]).sort()
    rows = {row.overload: row for row in nereid.ops.report(clear=True)}
    assert all(row.differs == 0 for row in rows.values() if row.route == "nereid") and rows["mm"].error < 1e-5 and rows["add_.Tensor"].error == 0
    assert "differs" not in str(nereid.ops.report())

    module = sys.modules["nereid.ops.pointwise"]  # the package has a function of this name
    run = module.run
    monkeypatch.setattr(module, "run", lambda *args: [result * 2 for result in run(*args)])
    with pytest.warns(RuntimeWarning, match=r"exp differs from ATen's result \(\(8, 8\) float32\)") as found:
        with nereid.ops.use(only=["exp"], verify=True):
            torch.exp(x), torch.exp(x)
    assert len(found) == 1  # once for each overload
    report = nereid.ops.report(clear=True)
    assert report[0].differs == 2 and abs(report[0].error - 1) < 1e-6
    assert str(report).splitlines()[0].split() == ["overload", "device", "route", "reason", "calls", "differs", "error"]


def test_data_that_are_shipped():
    """Each file can be read, and speaks of operators that are declared."""
    for path in (pathlib.Path(nereid.ops.__file__).parent / "routes").glob("*.json"):
        routes = _routes.read(path)
        assert routes.machine["device"] in ("cpu", "cuda") and routes.points
        assert {operator for operator, _, _ in routes.points} <= set(nereid.ops.OPERATORS)


def test_the_nearest_machine():
    def gpu(generation, units, name="a"):
        return {"device": "cuda", "name": name, "generation": generation, "units": units}

    here = gpu(90, 132)
    order = [gpu(90, 132), gpu(90, 132, "b"), gpu(90, 114, "b"), gpu(89, 132, "b"), gpu(80, 132, "b"), gpu(100, 148, "b")]
    assert sorted(reversed(order), key=lambda machine: _routes._distance(here, machine))[:3] == order[:3]
    assert min(order[3:], key=lambda machine: _routes._distance(gpu(86, 80), machine)) == order[3]


def lengths(call, sizes):
    """Runs `call(size)` for all sizes; {way: calls} of the overload that was called most, of ours."""
    nereid.ops.report(clear=True)
    for size in sizes:
        call(size)
    return {row.reason or row.route: row.calls for row in nereid.ops.report(clear=True)}


def indices(size):
    x, index = torch.arange(1000), torch.arange(size)
    assert torch.equal(torch.ops.aten.index(x, [index]), x[:size])


def test_shapes_that_keep_changing():
    """Calls that would all run in Python become ATen's; they are ours again once shapes are repeated."""
    with nereid.ops.use(only=["index"], routing=True):
        found = lengths(indices, range(1, 301))
        assert found["shapes keep changing"] >= 260 and found["nereid"] <= 40
        assert lengths(indices, range(301, 401)) == {"shapes keep changing": 100}
        found = lengths(indices, [7, 400] * 400)  # one that was ours, and one that was ATen's: no Python
        assert found["nereid"] >= 500
        assert lengths(indices, [7, 400] * 10) == {"nereid": 20}


def test_elements_that_are_read():
    """What depends on elements is never recorded: each call would run in Python."""
    x, mask = torch.arange(1000), torch.arange(1000) % 3 == 0
    with nereid.ops.use(only=["index"], routing=True):
        found = lengths(lambda _: torch.testing.assert_close(torch.ops.aten.index(x, [mask]), torch.arange(0, 1000, 3)), range(100))
    assert found["shapes keep changing"] >= 60


def test_a_model_with_many_shapes():
    """Forty shapes in turns: all of them are recorded in the end."""
    with nereid.ops.use(only=["index"], routing=True):
        lengths(indices, list(range(1, 41)) * 100)
        assert lengths(indices, range(1, 41)) == {"nereid": 40}


def test_large_calls_stay_ours():
    """What takes longer than a call in Python costs."""
    x = torch.arange(2**20)
    with nereid.ops.use(only=["index"], routing=True):
        found = lengths(lambda size: torch.ops.aten.index(x, [torch.arange(size)]), range(1, 101))
    assert found == {"nereid": 100}


def test_results_never_depend_on_earlier_calls_where_they_must_not():
    with nereid.ops.use(only=["index"], routing=False):
        assert lengths(indices, range(1, 101)) == {"nereid": 100}
    with nereid.ops.use(only=["index"], routing=["index"]):
        assert lengths(indices, range(1, 101)) == {"nereid": 100}
    torch.use_deterministic_algorithms(True)
    try:
        with nereid.ops.use(only=["index"], routing=True):
            assert lengths(indices, range(1, 101)) == {"nereid": 100}
    finally:
        torch.use_deterministic_algorithms(False)


def attention(p):

    def call(size):
        x = torch.randn(1, 1, size, 16)
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x, p)

    return call


def test_random_numbers_are_always_drawn_by_the_same_kernel():
    """But without dropout none are drawn."""
    with nereid.ops.use(only=["native_dropout", "_scaled_dot_product_flash_attention_for_cpu"], routing=True):
        assert "shapes keep changing" not in lengths(lambda size: torch.native_dropout(torch.ones(size), 0.5, True), range(1, 101))
        assert lengths(attention(0.0), range(1, 101))["shapes keep changing"] >= 60
