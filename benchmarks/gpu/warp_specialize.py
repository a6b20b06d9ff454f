"""Matrix products with and without warp specialisation: `python benchmarks/gpu/warp_specialize.py [--seconds 1.0] [--sizes 2048,4096,8192]`

One source, compiled with `warp_specialize=True` and without, from descriptors, one tile a program and
persistent. Each case first has its results compared with a product in float64, in a process of its own that is stopped when it hangs; cases
that are wrong or hang are reported and not timed. Then the right ones are measured in turns with Triton (where it is installed) and
cuBLAS, with a cold L2 cache and normal random data, in a process that is stopped as well. Prints a line a case; takes under 120 seconds.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

from child import child, right_ones

KERNELS = '''
import LANGUAGE as lib
import LANGUAGE.language as tl


@lib.jit
def place(tile, num_m, num_n, GROUP: tl.constexpr):
    width = GROUP * num_n
    first = tile // width * GROUP
    rows = min(num_m - first, GROUP)
    return first + tile % width % rows, tile % width // rows


@lib.jit
def one_tile(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    m, n = place(tl.program_id(0), tl.cdiv(M, BM), tl.cdiv(N, BN), 8)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=SPECIALISE):
        acc = tl.dot(a.load([m * BM, k * BK]), b.load([k * BK, n * BN]), acc)
    c.store([m * BM, n * BN], acc.to(tl.float16))


@lib.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr):
    num_m, num_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), warp_specialize=SPECIALISE):
        m, n = place(tile, num_m, num_n, 8)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([m * BM, k * BK]), b.load([k * BK, n * BN]), acc)
        c.store([m * BM, n * BN], acc.to(tl.float16))
'''

# Kernel, block, warps, stages.
CONFIGURATIONS = [("one_tile", (128, 256, 64), 8, 3), ("one_tile", (128, 256, 64), 8, 4), ("one_tile", (128, 128, 64), 4, 3), ("one_tile", (64, 128, 64), 4, 8),
                  ("persistent", (128, 256, 64), 8, 3), ("persistent", (128, 128, 64), 4, 3), ("persistent", (128, 128, 64), 8, 4)]
# Divided, by how stores overlap with the next tile (NEREID_OVERLAP_STORES), divided in a loop over programs that the compiler makes (NEREID_PERSISTENT_PRODUCTS), and not divided.
MODES = {"always": "never", "groups": "groups", "programs": "groups", "never": ""}


def name_of(configuration, mode):
    kernel, block, warps, stages = configuration
    return f"{kernel} {'x'.join(map(str, block))} w{warps} s{stages} {mode}"


def module_of(language, folder):
    path = pathlib.Path(folder, f"kernels_{language}.py")
    path.write_text(KERNELS.replace("LANGUAGE", language))
    import importlib.util
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call_of(module, language, configuration, a, b, c, mode):
    """A function that launches the kernel; compiles it."""
    specialise = mode != "never"
    if language == "triton":
        from triton.tools.tensor_descriptor import TensorDescriptor
    else:
        from nereid.tools.tensor_descriptor import TensorDescriptor
    import torch
    kernel, (bm, bn, bk), warps, stages = configuration
    (m, k), n = a.shape, b.shape[1]
    describe = lambda tensor, block: TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)
    arguments = describe(a, [bm, bk]), describe(b, [bk, bn]), describe(c, [bm, bn]), m, n, k
    tiles = -(-m // bm) * -(-n // bn)
    programs = min(tiles, torch.cuda.get_device_properties(0).multi_processor_count) if kernel == "persistent" else tiles
    function = getattr(module, kernel)
    if language == "nereid":  # until the next call of this function
        import nereid
        nereid.knobs.nereid.overlap_stores = MODES[mode]
        nereid.knobs.nereid.persistent_products = "always" if mode == "programs" else "never"
    launch = lambda: function[(programs, )](*arguments, BM=bm, BN=bn, BK=bk, SPECIALISE=specialise, num_warps=warps, num_stages=stages)
    launch()
    return launch


def sizes_of(text):
    """M, N, K of "4096" or "4096x4096x512"."""
    numbers = [int(each) for each in text.split("x")]
    return numbers if len(numbers) == 3 else numbers * 3


def operands(m, n, k, seed=0):
    import torch
    generator = torch.Generator("cuda").manual_seed(seed)
    a = torch.randn(m, k, device="cuda", dtype=torch.float16, generator=generator)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16, generator=generator)
    return a, b, torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)


def check(configuration, mode):
    """Compares some shapes with float64: sizes that do not divide, K of no, one and many blocks; the largest relative error."""
    import torch
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        module = module_of("nereid", folder)
        for m, n, k in [(512, 512, 512), (1000, 776, 328), (256, 512, 64), (136, 264, 8), (2048, 2048, 2048)]:
            for repeat in range(3):
                a, b, c = operands(m, n, k, repeat)
                call_of(module, "nereid", configuration, a, b, c, mode)
                torch.cuda.synchronize()
                expected = a.double() @ b.double()
                worst = max(worst, float(((c.double() - expected).abs() / (k**0.5)).nan_to_num(float("inf")).max()))
    print(json.dumps({"worst": worst, "right": worst < 4e-3}))


def captured(launch):
    """The same launch from a graph: without the host's part, and with the settings of now."""
    import torch
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay


def measure(size, names, seconds, only):
    import torch
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from measure import Bench
    m, n, k = sizes_of(size)
    a, b, c = operands(m, n, k)
    calls, labels = [], []
    with tempfile.TemporaryDirectory() as folder:
        module = module_of("nereid", folder)
        for configuration in CONFIGURATIONS:
            for mode in MODES:
                if name_of(configuration, mode) not in names:
                    continue
                calls.append(captured(call_of(module, "nereid", configuration, a, b, c, mode)))
                labels.append(name_of(configuration, mode))
        try:
            triton = module_of("triton", folder)
            for configuration in (each for each in CONFIGURATIONS if only in name_of(each, "")):
                for mode in ("never", "always"):
                    try:
                        calls.append(captured(call_of(triton, "triton", configuration, a, b, c, mode)))
                        labels.append("triton " + name_of(configuration, mode))
                    except Exception as error:
                        print(f"  triton {name_of(configuration, mode)}: {type(error).__name__}: {str(error)[:120]}")
        except ImportError:
            print("  no Triton")
        torch.matmul(a, b, out=c)
        calls.append(captured(lambda: torch.matmul(a, b, out=c)))
        labels.append("cuBLAS")
        times = Bench().medians(calls, seconds)
    for label, ms in sorted(zip(labels, times), key=lambda pair: pair[1]):
        print(f"  {m}x{n}x{k}  {label:48} {ms * 1000:9.1f} us  {2 * m * n * k / ms / 1e9:7.1f} TFLOP/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring, a size")
    parser.add_argument("--sizes", default="2048,4096,8192", help="of square products, or MxNxK, separated by commas")
    parser.add_argument("--only", default="", help="configurations whose name contains this")
    parser.add_argument("--modes", default="always,never", help=f"of {','.join(MODES)}: divided, with stores that overlap or not, and not divided")
    parser.add_argument("--check", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--mode", default="always", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--names", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check is not None:
        return check(CONFIGURATIONS[options.check], options.mode)
    if options.measure:
        return measure(options.measure, options.names.split(","), options.seconds, options.only)
    start = time.monotonic()
    jobs = [(name_of(configuration, mode), ["--check", str(i), "--mode", mode]) for i, configuration in enumerate(CONFIGURATIONS) for mode in options.modes.split(",")
            if options.only in name_of(configuration, "")]
    right = right_ones(__file__, jobs, 6)
    for size in options.sizes.split(","):
        text, error = child(__file__, ["--measure", size, "--names", ",".join(right), "--only", options.only, "--seconds", str(options.seconds)], 40)
        print((text or "") + (f"  {size}: {error}" if error else ""), flush=True)
        if time.monotonic() - start > 110:
            break


if __name__ == "__main__":
    main()
