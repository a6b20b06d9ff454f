"""What tuning costs, and how good its choice is: the seed matrix product over 20 configurations, ours and Triton's.

    python benchmarks/tuning.py                     on a GPU where there is one, and on the CPU
    python benchmarks/tuning.py --triton            Triton's on the same GPU as well
    python benchmarks/tuning.py --size 4096 --choices 8

Each tuning is the first launch of a process of its own: `cold` with empty caches, `kernels` with the kernels on disk but no result of
tuning, `warm` with everything on disk. Then, in one process: every configuration is measured for long and in turns, and the kernel is tuned
`--choices` times, with and without the comparison in turns at the end; how much slower than the best is what was chosen?
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SEED = HERE.parent / "examples" / "kernels" / "seed.py"

#: (M, N, K of a block, group, warps, stages)
CONFIGS = [(128, 256, 64, 8, 8, 3), (256, 128, 64, 8, 8, 3), (128, 128, 64, 8, 4, 4), (128, 128, 64, 8, 8, 3), (128, 128, 32, 8, 4, 4),
           (128, 128, 64, 8, 4, 3), (64, 256, 32, 8, 4, 4), (256, 64, 32, 8, 4, 4), (128, 64, 64, 8, 4, 4), (64, 128, 64, 8, 4, 4),
           (128, 64, 32, 8, 4, 4), (64, 128, 32, 8, 4, 4), (64, 64, 64, 8, 4, 3), (64, 64, 32, 8, 2, 5), (128, 32, 32, 8, 4, 4),
           (32, 64, 32, 8, 2, 5), (64, 32, 32, 8, 2, 5), (256, 256, 64, 8, 8, 3), (128, 256, 32, 8, 8, 4), (256, 128, 32, 8, 8, 4)]
CPU_CONFIGS = [(m, n, k, g, 4, 3) for m, n, k in ((16, 16, 16), (32, 32, 32), (32, 64, 32), (64, 64, 32), (64, 64, 64)) for g in (1, 2, 4, 8)]


def load(library):
    """The package, and the kernel under it."""
    if library == "triton":
        import triton as package
        import triton.language as language
    else:
        import nereid as package
        import nereid.language as language
    sys.path.insert(0, str(HERE / "gpu"))
    from load import _load
    return package, _load(SEED, package, language, "seed_kernels").matmul_full_kernel


def problem(size, device):
    import torch
    dtype = torch.float16 if device == "cuda" else torch.float32
    torch.manual_seed(0)
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return a, b, torch.empty(size, size, device=device, dtype=dtype)


def tuned(package, kernel, device):
    configs = [package.Config({"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": group}, num_warps=warps, num_stages=stages)
               for m, n, k, group, warps, stages in (CONFIGS if device == "cuda" else CPU_CONFIGS)]
    return package.autotune(configs=configs, key=["M", "N", "K"])(kernel)


def launch(package, kernel, tensors, size):
    a, b, c = tensors
    kernel[lambda meta: (package.cdiv(size, meta["BLOCK_SIZE_M"]) * package.cdiv(size, meta["BLOCK_SIZE_N"]), )](
        a, b, c, size, size, size, *a.stride(), *b.stride(), *c.stride(), ACTIVATION="leaky_relu")


def short(config):
    block = [config.kwargs[f"BLOCK_SIZE_{axis}"] for axis in "MNK"]
    return f"{'x'.join(map(str, block))} g{config.kwargs['GROUP_SIZE_M']} w{config.num_warps} s{config.num_stages}"


def one(library, size, device):
    """The first launch of this process."""
    import torch
    package, kernel = load(library)
    if device == "cpu":
        package.runtime.driver.set_active_to_cpu()
    tensors = problem(size, device)
    if device == "cuda":
        (tensors[0] @ tensors[1]).sum().item()
    tuner = tuned(package, kernel, device)
    start = time.perf_counter()
    launch(package, tuner, tensors, size)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    times = {short(config): time[0] for config, time in tuner.configs_timings.items()}
    print(json.dumps({"seconds": seconds, "best": short(tuner.best_config), "milliseconds": times[short(tuner.best_config)],
                      "next": sorted((round(time, 4), name) for name, time in times.items())[:4],
                      "failed": sum(time == float("inf") for time in times.values())}))


def child(library, size, device, folder, **environment):
    caches = {"NEREID_CACHE_DIR": f"{folder}/nereid", "TRITON_CACHE_DIR": f"{folder}/triton", "CUDA_CACHE_DISABLE": "1"}
    done = subprocess.run([sys.executable, __file__, "--one", library, "--size", str(size), "--device", device], capture_output=True,
                          text=True, env={**os.environ, **caches, **environment})
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def choices(size, device, count):
    """How good the choices of `count` tunings are."""
    os.environ["NEREID_TUNING_CACHE"] = "0"
    package, kernel = load("nereid")
    from nereid.runtime import _tuning
    if device == "cpu":
        package.runtime.driver.set_active_to_cpu()
    tensors = problem(size, device)

    def tune(last_step):
        tuner = tuned(package, kernel, device)
        native = _tuning._native
        search = native.Search

        class Search:  # ends before the step that is left out

            def __init__(self, *args):
                self._search = search(*args)

            def __getattr__(self, name):
                return getattr(self._search, name)

            def next(self):
                task = self._search.next()
                return ("done", ) + task[1:] if task[0] == "compare" and last_step != "compare" else task

        native.Search = Search
        try:
            launch(package, tuner, tensors, size)
        finally:
            native.Search = search
        return tuner

    first = tune("compare")
    names = [config for config, time in first.configs_timings.items() if time[0] < float("inf")]
    times = {config: [] for config in names}

    def call_of(config):
        a, b, c = tensors
        grid = lambda meta: (package.cdiv(size, meta["BLOCK_SIZE_M"]) * package.cdiv(size, meta["BLOCK_SIZE_N"]), )
        return lambda: kernel[grid](a, b, c, size, size, size, *a.stride(), *b.stride(), *c.stride(), ACTIVATION="leaky_relu",
                                    **config.all_kwargs())

    fastest = sorted(names, key=lambda config: first.configs_timings[config][0])[:8]
    for _ in range(6):
        for config in fastest:
            times[config] += package.testing.do_bench(call_of(config), warmup=5, rep=40, return_mode="all")
    true = {config: sorted(times[config])[len(times[config]) // 2] for config in fastest}
    best = min(true.values())
    print(f"measured in turns: {', '.join(f'{short(config)} {time:.4f}' for config, time in sorted(true.items(), key=lambda item: item[1])[:5])}")
    for last_step in ("compare", "measure"):
        chosen = [tune(last_step).best_config for _ in range(count)]
        lost = [true.get(config, float("nan")) / best - 1 for config in chosen]
        print(f"{count} tunings, {'with' if last_step == 'compare' else 'without'} the comparison in turns: "
              f"{len(set(map(short, chosen)))} different choices, slower than the best by "
              f"{sum(lost) / count * 100:.2f} % on average, {max(lost) * 100:.2f} % at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, help="of the square matrices: 4096 on a GPU, 256 on the CPU by default")
    parser.add_argument("--device", choices=["cpu", "cuda"])
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--choices", type=int, default=5, help="tunings to judge the choice by; 0 for none")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    import torch
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    size = args.size or (4096 if device == "cuda" else 256)
    if args.one:
        return one(args.one, size, device)
    print(f"{len(CONFIGS if device == 'cuda' else CPU_CONFIGS)} configurations, {size}x{size}, "
          f"{torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}")
    for library in ["nereid", "triton"] if args.triton and device == "cuda" else ["nereid"]:
        with tempfile.TemporaryDirectory() as folder:
            runs = {"cold": child(library, size, device, folder, NEREID_TUNING_CACHE="0")}
            if library == "nereid":
                runs["kernels"] = child(library, size, device, folder)
                runs["warm"] = child(library, size, device, folder)
            else:
                runs["kernels"] = child(library, size, device, folder, TRITON_CACHE_AUTOTUNING="1")
                runs["warm"] = child(library, size, device, folder, TRITON_CACHE_AUTOTUNING="1")
        for name, run in runs.items():
            print(f"{library:8} {name:8} {run['seconds']:8.3f} s   {run['best']:28} {run['milliseconds']:.4f} ms, {run['failed']} failed", flush=True)
            print(" " * 28 + ", ".join(f"{name} {time}" for time, name in run["next"]))
    if args.choices:
        choices(size, device, args.choices)
    return 0


if __name__ == "__main__":
    sys.exit(main())
