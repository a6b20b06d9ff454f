"""The tutorial's product with its plain pointers through the copy engine: `python benchmarks/gpu/plain_copies.py [--seconds 225] [--dtypes fp16]`

One source (`matmul_full_kernel` of examples/kernels/seed.py), compiled with `NEREID_TENSOR_COPIES` `never` and `always`, and `always` with
`NEREID_WARP_SPECIALIZE=always`. First results are compared with float64: sizes that divide and do not, all four orders of operands, rows that lie
further apart, tensors of batches. Each configuration is checked in a process of its own that is stopped when it hangs; what is wrong or hangs is
reported and not timed. Then the right ones are tuned over one list and measured in turns with Triton (where it is installed; its own choice
of the list) and cuBLAS: cold L2 cache, normal random data, medians. `--launch` measures instead what a launch costs the host. At most 240
seconds, which are enough for one dtype (fp16, or `--dtypes bf16`); prints a line a case.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from child import child

DTYPES = {"fp16": "float16", "bf16": "bfloat16"}
#: NEREID_TENSOR_COPIES and NEREID_WARP_SPECIALIZE
MODES = {"never": ("never", "never"), "always": ("always", "never"), "always+ws": ("always", "always")}
#: blocks of M, N and K, stages, warps
CONFIGURATIONS = [(128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 4), (128, 128, 64, 3, 8), (64, 128, 64, 4, 4),
                  (64, 64, 64, 4, 4), (128, 64, 64, 4, 4)]
#: Small ones for few rows.
NARROW = [(64, 64, 64, 4, 4), (64, 128, 64, 4, 4), (16, 64, 128, 4, 4), (16, 128, 128, 4, 4), (64, 64, 128, 3, 4)]
SHAPES = [(512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 512), (16, 4096, 4096)]
CHECKED = [0, 2, 3, 6]  # of CONFIGURATIONS

BATCHES = '''
import nereid
import nereid.language as tl


@nereid.jit
def batched(a, b, c, M, N, K, batch_a, batch_b, batch_c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    at = a + tl.program_id(2) * batch_a + m[:, None] * K + k[None, :]
    bt = b + tl.program_id(2) * batch_b + k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        rest = K - i * BK
        acc = tl.dot(tl.load(at, (m[:, None] < M) & (k[None, :] < rest), 0.0), tl.load(bt, (k[:, None] < rest) & (n[None, :] < N), 0.0), acc)
        at += BK
        bt += BK * N
    tl.store(c + tl.program_id(2) * batch_c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))
'''


def cdiv(a, b):
    return -(-a // b)


def with_mode(mode, make):
    """What `make` compiles under a mode's settings."""
    import nereid
    knobs = nereid.knobs.nereid
    before = knobs.tensor_copies, knobs.warp_specialise
    knobs.tensor_copies, knobs.warp_specialise = MODES[mode]
    try:
        return make()
    finally:
        knobs.tensor_copies, knobs.warp_specialise = before


def compiled(kernel, configuration, a, b, c):
    """A function that launches the product, with no search for a kernel; compiles it."""
    bm, bn, bk, stages, warps = configuration
    (m, k), n = a.shape, b.shape[1]
    grid = cdiv(m, bm) * cdiv(n, bn),
    arguments = a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), bm, bn, bk, 8, ""
    made = kernel.warmup(*arguments, grid=grid, num_warps=warps, num_stages=stages)
    launch = made[grid]
    return lambda: launch(*arguments)


def launched(kernel, configuration, a, b, c):
    """The same through the function itself."""
    bm, bn, bk, stages, warps = configuration
    (m, k), n = a.shape, b.shape[1]
    grid = cdiv(m, bm) * cdiv(n, bn),
    arguments = a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), bm, bn, bk, 8, ""
    call = lambda: kernel[grid](*arguments, num_warps=warps, num_stages=stages)
    call()
    return call


def random(shape, dtype, seed):
    import torch
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(*shape, device="cuda", dtype=torch.float32, generator=generator).to(getattr(torch, DTYPES[dtype]))


def operands(m, n, k, dtype, order="nn", far=0, seed=0):
    """A and B in an order ("t": the other way round in memory), rows `far` elements further apart, and a result full of NaN."""
    import torch
    matrix = lambda rows, columns, other, seed: (random((columns, rows + far), dtype, seed)[:, :rows].t() if other == "t" else random(
        (rows, columns + far), dtype, seed)[:, :columns])
    a, b = matrix(m, k, order[0], seed), matrix(k, n, order[1], seed + 1)
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=a.dtype)


def check(index, mode, dtype):
    """Results against float64; the largest error in units of the square root of K, and what was wrong."""
    import importlib.util
    import tempfile

    import torch
    from load import libraries
    kernel = libraries(with_triton=False)[0].seed.matmul_full_kernel
    configuration = CONFIGURATIONS[index]
    bound = 4e-3 if dtype == "fp16" else 3e-2
    worst, wrong = 0.0, []

    def judge(name, got, want, k):
        nonlocal worst
        error = float(((got.double() - want).abs() / max(k, 1)**0.5).nan_to_num(float("inf")).max())
        worst = max(worst, error)
        if error > bound:
            wrong.append(name)

    cases = [(512, 512, 512, order, 0) for order in ("nn", "nt", "tn", "tt")] + [(1000, 776, 328, order, 0) for order in ("nn", "nt", "tn", "tt")]
    cases += [(300, 260, 200, "nn", 24), (136, 264, 8, "nn", 0), (256, 512, 64, "nt", 64), (257, 129, 333, "nn", 0), (250, 250, 250, "tt", 3),
              (16, 4096, 512, "nn", 0), (1, 8, 72, "nt", 8)]
    for m, n, k, order, far in cases:
        for repeat in range(2):
            a, b, c = operands(m, n, k, dtype, order, far, repeat)
            with_mode(mode, lambda: launched(kernel, configuration, a, b, c))
            torch.cuda.synchronize()
            judge(f"{m}x{n}x{k} {order} {far}", c, a.double() @ b.double(), k)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "batches.py")
        path.write_text(BATCHES)
        spec = importlib.util.spec_from_file_location("batches", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        bm, bn, bk, stages, warps = configuration
        for m, n, k in [(200, 264, 136), (256, 256, 256)]:
            a, b = random((3, m, k), dtype, 1), random((3, k, n), dtype, 2)
            c = torch.full((3, m, n), float("nan"), device="cuda", dtype=a.dtype)
            with_mode(
                mode, lambda: module.batched[(cdiv(m, bm), cdiv(n, bn), 3)](a, b, c, m, n, k, m * k, k * n, m * n, BM=bm, BN=bn, BK=bk, num_warps=
                                                                            warps, num_stages=stages))
            torch.cuda.synchronize()
            judge(f"3x{m}x{n}x{k}", c, a.double() @ b.double(), k)
    print(json.dumps({"worst": worst, "wrong": wrong}))


def tuned(bench, kernel, configurations, tensors, seconds, mode=None):
    """(configuration, call) of the fastest, None where none runs."""
    makers = {}
    for configuration in configurations:
        make = lambda configuration=configuration: compiled(kernel, configuration, *tensors)
        makers[configuration] = (lambda make=make: with_mode(mode, make)) if mode else make
    configuration, call, failures = bench.tune(makers, seconds)
    return (configuration, call) if call else None


def measure(shape, dtype, right, seconds):
    import torch
    from load import libraries
    from measure import Bench
    m, n, k = shape
    tensors = operands(m, n, k, dtype)
    a, b, c = tensors
    bench, found = Bench(), libraries()
    configurations = NARROW if m <= 32 else CONFIGURATIONS
    candidates = {}
    for mode in MODES:
        usable = [each for i, each in enumerate(configurations) if m <= 32 or i not in CHECKED or [i, mode] in right]
        candidates[mode] = tuned(bench, found[0].seed.matmul_full_kernel, usable, tensors, seconds, mode)
    if len(found) > 1:

        def of_triton(configuration):
            bm, bn, bk, stages, warps = configuration
            grid = cdiv(m, bm) * cdiv(n, bn),
            call = lambda: found[1].seed.matmul_full_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), bm, bn, bk, 8, "",
                                                                 num_warps=warps, num_stages=stages)
            call()
            return call

        configuration, call, _ = bench.tune({each: (lambda each=each: of_triton(each)) for each in configurations}, seconds)
        candidates["triton"] = (configuration, call) if call else None
    candidates["cuBLAS"] = (), lambda: torch.matmul(a, b, out=c)
    candidates = {name: each for name, each in candidates.items() if each}
    times = dict(zip(candidates, bench.medians([call for _, call in candidates.values()], seconds)))
    for name, ms in sorted(times.items(), key=lambda pair: pair[1]):
        configuration = "x".join(map(str, candidates[name][0][:3])) + "".join(f" {what}{value}" for what, value in zip("sw", candidates[name][0][3:]))
        print(f"  {m}x{n}x{k} {dtype}  {name:10} {configuration:20} {ms * 1000:9.1f} us {2 * m * n * k / ms / 1e9:7.1f} TFLOP/s"
              f"  {times['cuBLAS'] / ms:6.3f} of cuBLAS" + (f"  {times['triton'] / ms:6.3f} of Triton" if "triton" in times else ""))
    for other in ("always", "always+ws"):
        if {other, "never"} <= candidates.keys():
            _, ratio, rounds = bench.pairs([candidates["never"][1], candidates[other][1]], seconds)
            print(f"  {m}x{n}x{k} {dtype}  {other} is {ratio:.3f} times as fast as never ({rounds} pairs)")


def launch_cost():
    """Microseconds that the host takes for a launch, kernels without and with two maps, in turns; and with addresses that change."""
    import torch
    from load import libraries
    kernel = libraries(with_triton=False)[0].seed.matmul_full_kernel
    sets = [operands(64, 64, 64, "fp16", seed=i) for i in range(8)]
    calls = {mode: [with_mode(mode, lambda: compiled(kernel, (64, 64, 64, 3, 4), *each)) for each in sets] for mode in ("never", "always")}
    ways = {"same tensors": lambda mode: [calls[mode][0]] * 8, "eight sets of tensors": lambda mode: calls[mode]}
    for name, calls_of in ways.items():
        readings = {mode: [] for mode in calls}
        for _ in range(40):
            for mode in calls:
                of_mode = calls_of(mode)
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(25):
                    for call in of_mode:
                        call()
                readings[mode].append((time.perf_counter() - start) / 200 * 1e6)
        medians = {mode: statistics.median(values) for mode, values in readings.items()}
        print(f"launch, {name}: never {medians['never']:.3f} us, always {medians['always']:.3f} us, difference "
              f"{medians['always'] - medians['never']:+.3f} us (at most +0.15)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=225, help="altogether")
    parser.add_argument("--dtypes", default="fp16", help="fp16, bf16 or both")
    parser.add_argument("--launch", action="store_true", help="what a launch costs the host, and nothing else")
    parser.add_argument("--check", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        return launch_cost()
    if options.check:
        return check(*json.loads(options.check))
    if options.measure:
        return measure(*json.loads(options.measure))
    start, right, dtypes = time.monotonic(), [], options.dtypes.split(",")
    left = lambda: options.seconds - (time.monotonic() - start)
    jobs = [(i, mode, dtypes[0]) for i in CHECKED for mode in MODES if mode != "never"] + [(0, mode, dtype) for dtype in dtypes for mode in MODES]
    for i, mode, dtype in dict.fromkeys(jobs):
        text, error = child(__file__, ["--check", json.dumps([i, mode, dtype])], min(40, max(left(), 1)))
        found = json.loads(text.splitlines()[-1]) if not error and text else {"wrong": [error]}
        verdict = error or ("WRONG: " + ", ".join(found["wrong"]) if found["wrong"] else "right")
        print(f"{CONFIGURATIONS[i]} {mode} {dtype}: {verdict}, error {found.get('worst')}", flush=True)
        if not found["wrong"]:
            right.append([i, mode])
        if left() < options.seconds * 0.5:
            print("no time for the other checks")
            break
    right += [[i, "never"] for i in CHECKED]
    rows = [(shape, dtype) for dtype in dtypes for shape in SHAPES]
    for done, (shape, dtype) in enumerate(rows):
        seconds = max(0.3, min(2.0, left() / (len(rows) - done) / 8))
        text, error = child(__file__, ["--measure", json.dumps([shape, dtype, right, seconds])], max(min(60, left()), 1))
        print((text or "") + (f"  {shape} {dtype}: {error}" if error else ""), flush=True)
        if left() < 5:
            print("no time for the other sizes")
            break


if __name__ == "__main__":
    main()
