"""Kernels whose blocks the copy engine (TMA) moves, on simulated threads of sm_90: right results, and each proxy fence, transaction count, wait and release that is changed is found.

The tool reads the code as text after the GPU passes, so a fault is a line that is left out or changed. Needs no GPU.
"""

import re
import subprocess

import nereid
import nereid.language as tl
import numpy as np
import pytest
from simulator import TOOL, launch_options, needs_simulator

pytestmark = needs_simulator


@nereid.jit
def described(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DIVIDED: tl.constexpr):
    m, n = tl.program_id(0) * BM, 0
    x = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    y = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    z = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    total = tl.zeros([BM, BN], tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=DIVIDED):
        total = tl.dot(x.load([m, k]), y.load([k, n]), total)
    z.store([m, n], total.to(c.dtype.element_ty))


@nereid.jit
def pointers(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DIVIDED: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    along = tl.arange(0, BK)
    total = tl.zeros([BM, BN], tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=DIVIDED):
        x = tl.load(a + rows[:, None] * K + (k + along)[None, :], mask=(rows < M)[:, None] & (k + along < K)[None, :], other=0)
        y = tl.load(b + (k + along)[:, None] * N + columns[None, :], mask=(k + along < K)[:, None] & (columns < N)[None, :], other=0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])


@nereid.jit
def changed(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DIVIDED: tl.constexpr):
    """An operand goes through registers to shared memory, and the result is added to what a store has left there."""
    m, n = tl.program_id(0) * BM, 0
    x = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    y = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    z = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    rows, columns = m + tl.arange(0, BM), n + tl.arange(0, BN)
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(x.load([m, k]), y.load([k, n]) * 2, total)
    tl.store(c + rows[:, None] * N + columns[None, :], (total * 0 + 1).to(c.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])
    tl.debug_barrier()
    old = z.load([m, n])
    z.store([m, n], (total / 2).to(c.dtype.element_ty) + old - 1)


@nereid.jit
def rewritten(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DIVIDED: tl.constexpr):
    """Threads double a block of rows in memory, which the copies of the loop behind read."""
    m, n = tl.program_id(0) * BM, 0
    x = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    y = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    z = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    rows, columns = m + tl.arange(0, BM)[:, None], tl.arange(0, BK)[None, :]
    for k in range(0, K, BK):
        places = a + rows * K + k + columns
        mask = (rows < M) & (k + columns < K)
        tl.store(places, tl.load(places, mask=mask) * 2, mask=mask)
    tl.debug_barrier()
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(x.load([m, k]), y.load([k, n]), total)
    z.store([m, n], (total / 2).to(c.dtype.element_ty))


@nereid.jit
def attention(q, k, v, c, LENGTH, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, TURNED: tl.constexpr, DIVIDED: tl.constexpr):
    """Queries (BM, HEAD), keys (LENGTH, HEAD), values (LENGTH, HEAD) or, TURNED, (HEAD, LENGTH)."""
    queries = tl.make_tensor_descriptor(q, [BM, HEAD], [HEAD, 1], [BM, HEAD]).load([0, 0])
    keys = tl.make_tensor_descriptor(k, [LENGTH, HEAD], [HEAD, 1], [BN, HEAD])
    if TURNED:
        values = tl.make_tensor_descriptor(v, [HEAD, LENGTH], [LENGTH, 1], [HEAD, BN])
    else:
        values = tl.make_tensor_descriptor(v, [LENGTH, HEAD], [HEAD, 1], [BN, HEAD])
    total, sums, most = tl.zeros([BM, HEAD], tl.float32), tl.zeros([BM], tl.float32), tl.full([BM], float("-inf"), tl.float32)
    for n in tl.range(0, LENGTH, BN, warp_specialize=DIVIDED):
        scores = tl.dot(queries, keys.load([n, 0]).T)
        top = tl.maximum(most, tl.max(scores, 1))
        weights, factors = tl.exp2(scores - top[:, None]), tl.exp2(most - top)
        sums, most = sums * factors + tl.sum(weights, 1), top
        if TURNED:
            block = values.load([0, n]).T
        else:
            block = values.load([n, 0])
        total = tl.dot(weights.to(block.dtype), block, total * factors[:, None])
    tl.make_tensor_descriptor(c, [BM, HEAD], [HEAD, 1], [BM, HEAD]).store([0, 0], (total / sums[:, None]).to(c.dtype.element_ty))


SIZES = (136, 64, 224)    #: the last block of rows reaches beyond the tensor


class Launch:
    """A kernel, compiled once and run as often as asked. dtype: of the operands; rows, depth: of a block; maps: the launch has tensor maps; without, what needs none runs in place of the copy engine."""

    def __init__(self, kernel, folder, stages=3, warps=4, divided=False, maps=True, rows=64, dtype=tl.float16, depth=32):
        M, N, K = SIZES
        self.grid = (nereid.cdiv(M, rows), )
        self.compiled = kernel.warmup(*map(nereid.MockTensor, (dtype, dtype, tl.float16)), M, N, K, rows, 64, depth, divided, grid=self.grid, target="cuda:90", num_stages=stages, num_warps=warps)
        self.code, self.folder, self.maps = self.compiled.asm["gpu"], folder, maps
        self.a, self.b = ((np.arange(rows * columns).reshape(rows, columns) * by % 5 - 2).astype(np.float16) for rows, columns, by in ((M, K, 3), (K, N, 7)))
        self.want = (self.a.astype(np.float32) @ self.b.astype(np.float32)).astype(np.float16)
        if dtype == tl.float8e5:    # the first byte of a half
            self.a, self.b = ((x.view(np.uint16) >> 8).astype(np.uint8) for x in (self.a, self.b))

    def run(self, code=None):
        """None where the result is right, or what is wrong."""
        options = launch_options(self.compiled, self.folder)
        if not self.maps:
            del options[options.index("--maps"):]
        (path := self.folder / "kernel.mlir").write_text(code or self.code)
        words = [f"{name}={size}" for name, size in zip("MNK", SIZES)]
        for name, array in (("a", self.a), ("b", self.b), ("c", np.zeros_like(self.want))):
            (self.folder / name).write_bytes(array.tobytes())
            words.append(f"{name}={self.folder / name}:0")
        done = subprocess.run([TOOL, path, *options, "--grid", ",".join(map(str, self.grid)), *words],
                              capture_output=True, text=True, timeout=300)
        if done.returncode:
            return done.stderr
        got = np.frombuffer((self.folder / "c").read_bytes(), np.float16).reshape(self.want.shape)
        return None if np.array_equal(got, self.want) else "wrong numbers"

    def without(self, line):
        """The code without each line that holds this, in turn."""
        lines = self.code.splitlines(True)
        return ["".join(lines[:i] + lines[i + 1:]) for i, text in enumerate(lines) if re.search(line, text)]


FORMS = {
    "described": (described, {}, {}),
    "divided": (described, {"divided": True}, {}),
    "changed": (changed, {"stages": 1}, {}),
    "rewritten": (rewritten, {}, {}),
    "pointers": (pointers, {}, {"tensor_copies": "always"}),
    "pointers without maps": (pointers, {"maps": False}, {"tensor_copies": "always"}),
    "persistent": (described, {}, {"persistent_products": "always"}),
    "persistent groups": (described, {"warps": 8, "rows": 128}, {"persistent_products": "always"}),
    # wgmma multiplies the transposed blocks, and groups of warps hold other rows of the result than behind its conversion.
    "persistent turned": (described, {"warps": 8, "dtype": tl.float8e5}, {"persistent_products": "always"}),
}


@pytest.fixture(params=FORMS)
def launch(request, tmp_path):
    return launched(request.param, tmp_path)


def launched(form, tmp_path):
    kernel, options, knobs = FORMS[form]
    with nereid.knobs.nereid.scope():
        for name, value in {"tensor_copies": "never", "persistent_products": "asked", **knobs}.items():
            setattr(nereid.knobs.nereid, name, value)
        launch = Launch(kernel, tmp_path, **options)
    assert launch.compiled.metadata.tensor_maps and launch.compiled.metadata.persistent == form.startswith("persistent")
    return launch


#: Fences of `pointers` that a launch runs: before the copies by the engine, or in the loop in its place.
RUN = {"pointers": [0], "pointers without maps": [1]}


def test_results_and_each_fence(launch, request):
    """Without any of the proxy fences that it runs a kernel is reported: none is redundant."""
    assert launch.run() is None
    codes = launch.without(r"ngpu\.fence_async")
    run = RUN.get(request.node.callspec.params["launch"], range(len(codes)))
    assert len(codes) >= 2
    for at, code in enumerate(codes):
        wrong = launch.run(code)
        assert "a proxy fence is missing" in wrong if at in run else wrong is None


@pytest.mark.parametrize("form", ["changed", "rewritten"])
def test_a_fence_of_shared_memory_alone(form, tmp_path):
    """Ordinary stores to global memory, which the engine then reads (one block, or those of a loop), take a fence for all memory."""
    launch = launched(form, tmp_path)
    assert launch.code.count("ngpu.fence_async global") == 1
    assert "a proxy fence is missing: the copy engine accesses global memory" in launch.run(launch.code.replace("ngpu.fence_async global", "ngpu.fence_async"))


@pytest.mark.parametrize("form, line, change, said", [
    ("described", r"(mbarrier_expect \S+, )\d+", r"\g<1>8208", "deadlock"),
    ("described", r".*mbarrier_wait.*\n", "", "no order: a product"),
    ("described", r".*wgmma_wait 1\n", "", "product"),
    ("divided", r".*mbarrier_wait.*\n", "", "no order|which a product in flight reads|more arrivals than"),
    ("divided", r"(mbarrier_wait \S+), (\S+)", r"\g<1>, %c1_i32", "deadlock|no order|more arrivals than"),
    ("described", r"( *)ngpu.tma_store (\S+) to (\S+)\[%\w+,", r"\1%before = arith.constant -1 : i32\n\1ngpu.tma_store \2 to \3[%before,", "illegal instruction"),
    ("persistent", r".*tma_store_wait.*\n", "", "while the copy engine reads|before the copy engine has read|a store"),
])
def test_faults_of_the_protocol(form, line, change, said, tmp_path):
    """Each such place changed, one after the other: wrong transaction counts, wrong phases, reads before the copy has ended, slots filled again too early, buffers written again before the store has read them, stores in front of a tensor."""
    launch = launched(form, tmp_path)
    places = list(re.finditer(line, launch.code))
    assert places
    for place in places:
        wrong = launch.run(launch.code[:place.start()] + place.expand(change) + launch.code[place.end():])
        assert re.search(said, wrong or ""), f"{wrong}: {place[0]}"


def test_short_launches_do_not_ask_the_engine(tmp_path):
    """`auto` decides between the versions by the multiply-adds of the launch, and by the rows and columns of its result."""
    with nereid.knobs.nereid.scope():
        nereid.knobs.nereid.tensor_copies = "auto"
        launch = Launch(pointers, tmp_path, depth=64)
    assert launch.compiled.metadata.tensor_maps and launch.run() is None
    bounds = {"work": 64 * (2**30 // 64**3), "rows": 256}    # of turns times the step, of rows and columns

    def lowered(*names):
        code = launch.code
        for name in names:
            code = re.sub(f"= arith.constant {bounds[name]} : i64", "= arith.constant 1 : i64", code)
            assert code != launch.code
        return code

    # Which version runs shows where the fence of the mbarriers, the first one, is missing.
    unfenced = lambda code: launch.run(code.replace("ngpu.fence_async", "", 1))
    assert all(unfenced(lowered(*names)) is None for names in ((), ("work", ), ("rows", )))
    always = lowered("work", "rows")
    assert launch.run(always) is None and "a proxy fence is missing" in unfenced(always)


@pytest.mark.parametrize("few", (True, False))
def test_slots_that_an_iteration_refills(few, tmp_path):
    """Products by mma.sync with many stages: in launches of few programs an iteration copies to the slot that it has read. Each barrier that runs is needed: one or two of the loop, two of the results."""
    launch = Launch(pointers, tmp_path, stages=5, warps=2)
    code = launch.code if few else re.sub(r"(= arith\.constant) 264 : i64", r"\1 1 : i64", launch.code)
    assert (code == launch.code) == few and launch.compiled.metadata.shared == 4 * 2 * 32 * (64 + 64)
    assert launch.run(code) is None
    launch.code = code
    found = [launch.run(each) for each in launch.without(r"ngpu\.barrier")]
    runs = [True, True, False, True, True] if few else [False, False, True, True, True]
    assert len(found) == len(runs)
    assert all("race at byte" in wrong if run else wrong is None for run, wrong in zip(runs, found))
    waits = [launch.run(each) for each in launch.without(r"ngpu\.async_wait [23]")]
    assert [bool(wrong) for wrong in waits] == [few, not few]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [tl.float16, tl.float8e5])
def test_attention_of_8_bits(dtype, turned, tmp_path):
    """Weights of 8 bits reach the second product through shared memory, and so do values in rows of the head: such loops of two products are divided, but do not overlap."""
    length, head, rows = 192, 64, 128
    random = np.random.default_rng(0)
    q, k, v = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((rows, head), (length, head), (length, head)))
    q *= np.float16(0.25)
    arguments = [q, k, v.T.copy() if turned else v]
    compiled = attention.warmup(*map(nereid.MockTensor, (dtype, dtype, dtype, tl.float16)), length, head, rows, 64, turned, True, grid=(1, ), target="cuda:90", num_warps=8, num_stages=3)
    assert "ngpu.warp_specialize" in compiled.asm["gpu"]
    if dtype == tl.float8e5:
        arguments = [(x.view(np.uint16) >> 8).astype(np.uint8) for x in arguments]
    (path := tmp_path / "kernel.mlir").write_text(compiled.asm["gpu"])
    words = [f"LENGTH={length}"]
    for name, array in zip("qkvc", (*arguments, np.zeros((rows, head), np.float16))):
        (tmp_path / name).write_bytes(array.tobytes())
        words.append(f"{name}={tmp_path / name}:0")
    done = subprocess.run([TOOL, path, *launch_options(compiled, tmp_path), "--grid", "1", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    got = np.frombuffer((tmp_path / "c").read_bytes(), np.float16).reshape(rows, head).astype(np.float64)
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    want = weights @ v.astype(np.float64) / weights.sum(1, keepdims=True)
    assert np.linalg.norm(got - want) <= (1e-3 if dtype == tl.float16 else 0.1) * np.linalg.norm(want)
