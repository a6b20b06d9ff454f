"""Products whose iterations the blocks of a cluster share: `python benchmarks/gpu/split_products.py [--seconds 0.5] [--sizes 512,16x4096x4096,...]`

The tutorial's product on plain pointers, with NEREID_SPLIT_PRODUCTS `never`, `idle` and `full`, in the same process, from graphs, in turns,
with a cold L2 cache, beside cuBLAS. Each configuration is first compared with float64, for sizes that do not divide and several
launches (which must be equal bit for bit). Prints the times of all configurations of a size, then the best of each mode.
"""

import argparse
import importlib.util
import pathlib
import statistics
import tempfile
import time

import torch

SOURCE = '''
import nereid
import nereid.language as tl


@nereid.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    num_m, num_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * num_n
    first = program // width * GROUP
    rows = min(num_m - first, GROUP)
    m, n = first + program % width % rows, program % width // rows
    offs_m, offs_n, offs_k = (m * BM + tl.arange(0, BM)) % M, (n * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_m[:, None] * sam + offs_k[None, :] * sak)
    b_ptrs = b_ptr + (offs_k[:, None] * sbk + offs_n[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * sak
        b_ptrs += BK * sbk
    offs_m, offs_n = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + scm * offs_m[:, None] + scn * offs_n[None, :]
    tl.store(c_ptrs, acc.to(tl.float16), mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))
'''

MODES = ["never", "idle", "full"]
# Blocks, warps, stages.
SMALL_M = [(16, 32, 128, 4, 4), (16, 32, 256, 4, 3), (16, 64, 64, 4, 5), (16, 64, 128, 4, 4), (16, 128, 64, 4, 5), (16, 128, 128, 4, 3)]
SQUARE = [(64, 32, 64, 4, 5), (32, 64, 64, 4, 5), (64, 64, 64, 4, 4), (64, 128, 64, 4, 4), (128, 64, 64, 4, 4), (128, 128, 64, 4, 4), (128, 128, 64, 8, 3)]


def load(folder):
    path = pathlib.Path(folder, "split_products_kernels.py")
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.matmul


def sizes_of(text):
    numbers = [int(each) for each in text.split("x")]
    return numbers if len(numbers) == 3 else numbers * 3


def operands(m, n, k):
    generator = torch.Generator("cuda").manual_seed(m + n + k)
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.float16, generator=generator)
    return make(m, k), make(k, n), torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)


def launch_of(matmul, mode, configuration, a, b, c):
    import nereid
    bm, bn, bk, warps, stages = configuration
    (m, k), n = a.shape, b.shape[1]
    nereid.knobs.nereid.split_products = mode
    programs = -(-m // bm) * -(-n // bn)
    return lambda: matmul[(programs, )](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), bm, bn, bk, 8, num_warps=warps, num_stages=stages)


def check(matmul, mode, configuration):
    """The largest error of some sizes, in standard deviations of a term, or why there is none."""
    worst = 0.0
    for m, n, k in [(512, 512, 512), (16, 4096, 4096), (100, 264, 1000), (16, 72, 64), (64, 64, 8)]:
        a, b, c = operands(m, n, k)
        launch = launch_of(matmul, mode, configuration, a, b, c)
        launch()
        before = c.clone()
        for _ in range(3):
            c.fill_(float("nan"))
            launch()
            if not torch.equal(c, before):
                return f"two launches differ at {m}x{n}x{k}"
        worst = max(worst, float(((c.double() - a.double() @ b.double()).abs() / k**0.5).nan_to_num(float("inf")).max()))
    return worst if worst < 4e-3 else f"WRONG, error {worst}"


def captured(launch):
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay


def rounds_of(bench, calls, seconds):
    """How many rounds of all calls take so long; 9 to 400."""
    one = sum(min(readings) for readings in bench.once(calls, 3)) / 1000 + 0.00015 * len(calls)
    return max(9, min(400, int(seconds / one)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.5, help="of measuring, a size")
    parser.add_argument("--sizes", default="512,16x4096x4096,64x4096x4096,1024,16x8192x8192,256x256x8192")
    parser.add_argument("--modes", default=",".join(MODES))
    options = parser.parse_args()
    modes = options.modes.split(",")
    import sys
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from measure import Bench
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        matmul = load(folder)
        right = set()
        for configuration in SMALL_M + SQUARE:
            for mode in modes:
                found = check(matmul, mode, configuration)
                if isinstance(found, float):
                    right.add((mode, configuration))
                else:
                    print(f"{configuration} {mode}: {found}", flush=True)
        print(f"{len(right)} of {len(modes) * len(SMALL_M + SQUARE)} right, {time.monotonic() - start:.0f} s", flush=True)
        bench = Bench()
        for size in options.sizes.split(","):
            m, n, k = sizes_of(size)
            a, b, c = operands(m, n, k)
            names, calls = ["cuBLAS"], [captured(lambda: torch.matmul(a, b, out=c))]
            for configuration in SMALL_M if m <= 16 else SQUARE:
                for mode in modes:
                    if (mode, configuration) in right:
                        names.append((mode, configuration))
                        calls.append(captured(launch_of(matmul, mode, configuration, a, b, c)))
            readings = dict(zip(names, bench.once(calls, rounds_of(bench, calls, options.seconds))))
            times = {name: statistics.median(mine) for name, mine in readings.items()}
            print(f"{m}x{n}x{k}: cuBLAS {times['cuBLAS'] * 1000:.2f} us ({time.monotonic() - start:.0f} s)")
            for configuration in SMALL_M if m <= 16 else SQUARE:
                first = readings.get((modes[0], configuration))
                cells = [f"{mode} {times[mode, configuration] * 1000:7.2f}" for mode in modes if (mode, configuration) in times]
                cells += [f"{mode}/{modes[0]} {statistics.median(a / b for a, b in zip(readings[mode, configuration], first)):.3f}"
                          for mode in modes[1:] if first and (mode, configuration) in times]
                print(f"  {'x'.join(map(str, configuration[:3])):12} w{configuration[3]} s{configuration[4]}  " + "  ".join(cells))
            for mode in modes:
                best = min((times[each], each[1]) for each in times if each[0] == mode)
                print(f"  best {mode:6} {best[0] * 1000:7.2f} us  {best[1]}  {times['cuBLAS'] / best[0]:.3f} of cuBLAS", flush=True)


if __name__ == "__main__":
    main()
