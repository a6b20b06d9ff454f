"""Products whose programs share copies in pairs (NEREID_MULTICAST): `python benchmarks/gpu/multicast.py [--seconds 1.0] [--sizes 2048,4096,...] [--check-only]`

Three sources: descriptors in a persistent loop and with one tile a program (those of warp_specialize.py), and the tutorial's product on plain pointers
through the copy engine (that of split_products.py). Each is compiled with and without sharing; the undivided kernels on plain pointers that are the default stand beside them.
Each case is first compared with float64, in a process of its own that is stopped when it hangs, for sizes that do not divide, odd numbers of
tiles and of programs. Then the right ones are measured in turns with cuBLAS: from graphs, with a cold L2 cache, normal random data.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER))
from child import child, right_ones

# Kernel, block, warps, stages.
CONFIGURATIONS = [("persistent", (128, 256, 64), 8, 3), ("persistent", (128, 256, 64), 8, 4), ("persistent", (256, 128, 64), 8, 4), ("persistent", (128, 128, 64), 4, 4),
                  ("one_tile", (128, 256, 64), 8, 3), ("one_tile", (128, 256, 64), 8, 4), ("one_tile", (128, 128, 64), 4, 3), ("pointers", (128, 256, 64), 8, 4),
                  ("pointers", (128, 256, 64), 8, 3), ("pointers", (256, 128, 64), 8, 4), ("pointers", (128, 128, 64), 8, 4), ("pointers", (128, 128, 64), 4, 3)]
#: Is the loop divided, and are copies shared?
MODES = {"undivided": (False, False), "divided": (True, False), "shared": (True, True)}
CHECKED = [(512, 512, 512), (1000, 776, 328), (1096, 1288, 72), (256, 512, 64), (136, 264, 8), (384, 256, 4096), (2048, 2048, 2048)]


def name_of(configuration, mode):
    kernel, block, warps, stages = configuration
    return f"{kernel} {'x'.join(map(str, block))} w{warps} s{stages} {mode}"


def functions(folder):
    import split_products
    import warp_specialize
    module = warp_specialize.module_of("nereid", folder)
    return {"persistent": module.persistent, "one_tile": module.one_tile, "pointers": split_products.load(folder)}


def launch_of(kernels, configuration, mode, a, b, c, programs=None):
    """A function that launches the kernel; the settings are those of the mode until the next call."""
    import nereid
    import torch
    from nereid.tools.tensor_descriptor import TensorDescriptor
    kernel, (bm, bn, bk), warps, stages = configuration
    divided, shared = MODES[mode]
    knobs = nereid.knobs.nereid
    knobs.multicast = shared
    knobs.persistent_products = "never"
    knobs.tensor_copies = "always" if divided and kernel == "pointers" else "never"
    knobs.warp_specialise = "always" if divided else "never"
    (m, k), n = a.shape, b.shape[1]
    tiles = -(-m // bm) * -(-n // bn)
    if kernel == "pointers":
        launch = lambda: kernels[kernel][(tiles, )](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), bm, bn, bk, 8, num_warps=warps, num_stages=stages)
    else:
        describe = lambda tensor, block: TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)
        arguments = describe(a, [bm, bk]), describe(b, [bk, bn]), describe(c, [bm, bn]), m, n, k
        many = torch.cuda.get_device_properties(0).multi_processor_count
        grid = programs or (min(tiles, many - many % 2) if kernel == "persistent" else tiles)
        launch = lambda: kernels[kernel][(grid, )](*arguments, BM=bm, BN=bn, BK=bk, SPECIALISE=divided, num_warps=warps, num_stages=stages)
    compiled = launch()
    if shared and not compiled.metadata.pairs:
        raise RuntimeError("nothing is shared")
    return launch


def check(configuration, mode):
    """Prints the largest error, in standard deviations of a term."""
    import torch
    from warp_specialize import operands
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        kernels = functions(folder)
        for m, n, k in CHECKED:
            for programs in (None, 2, 6, 7) if configuration[0] == "persistent" else (None, None):
                a, b, c = operands(m, n, k, m + (programs or 0))
                try:
                    launch_of(kernels, configuration, mode, a, b, c, programs)
                    torch.cuda.synchronize()
                except Exception as error:
                    raise SystemExit(f"{m}x{n}x{k}, {programs or 'all'} programs: {type(error).__name__}: {str(error).splitlines()[0]}")
                expected = a.double() @ b.double()
                worst = max(worst, float(((c.double() - expected).abs() / k**0.5).nan_to_num(float("inf")).max()))
    print(json.dumps({"worst": worst, "right": worst < 4e-3}))


def measure(size, names, seconds):
    import torch
    from measure import Bench
    from warp_specialize import captured, operands, sizes_of
    m, n, k = sizes_of(size)
    a, b, c = operands(m, n, k)
    torch.matmul(a, b, out=c)
    labels, calls = ["cuBLAS"], [captured(lambda: torch.matmul(a, b, out=c))]
    with tempfile.TemporaryDirectory() as folder:
        kernels = functions(folder)
        for configuration in CONFIGURATIONS:
            for mode in MODES:
                if name_of(configuration, mode) in names:
                    calls.append(captured(launch_of(kernels, configuration, mode, a, b, c)))
                    labels.append(name_of(configuration, mode))
        times = dict(zip(labels, Bench().medians(calls, seconds)))
    for label, ms in sorted(times.items(), key=lambda pair: pair[1]):
        print(f"  {m}x{n}x{k}  {label:44} {ms * 1000:9.1f} us  {2 * m * n * k / ms / 1e9:6.0f} TFLOP/s  {times['cuBLAS'] / ms:.3f} of cuBLAS")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring, a size")
    parser.add_argument("--sizes", default="4096x4096x512,2048,4096,8192,1024", help="of square products, or MxNxK, separated by commas")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--budget", type=float, default=115.0, help="seconds altogether")
    parser.add_argument("--check-only", action="store_true", help="do not measure")
    parser.add_argument("--check", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--names", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check is not None:
        return check(CONFIGURATIONS[options.check], options.mode)
    if options.measure:
        return measure(options.measure, options.names.split(","), options.seconds)
    start = time.monotonic()
    names = [(name_of(configuration, mode), ["--check", str(i), "--mode", mode]) for i, configuration in enumerate(CONFIGURATIONS) for mode in MODES]
    right = right_ones(__file__, [job for job in names if options.only in job[0]], 8)
    print(f"checked in {time.monotonic() - start:.0f} s", flush=True)
    for size in [] if options.check_only else options.sizes.split(","):
        left = options.budget - (time.monotonic() - start)
        if left < 5:
            print(f"  {size}: out of time")
            continue
        text, error = child(__file__, ["--measure", size, "--names", ",".join(right), "--seconds", str(options.seconds)], min(left, 45))
        print((text or "") + (f"  {size}: {error}" if error else ""), flush=True)


if __name__ == "__main__":
    main()
