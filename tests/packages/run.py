"""Other people's published packages on Nereid.

    python tests/packages/run.py [PACKAGE ...] [--device cpu|cuda] [--with real|nereid] [--folder FOLDER] [--report FILE]

Fetches the packages of the table below from the package index at the versions pinned there (their sources only: nothing of them is built or
installed), makes `import triton` mean Nereid, imports every module that holds a kernel, calls public functions and compares with PyTorch, and
compiles each kernel that ran for an H100 as well. Needs PyTorch, einops and transformers. Not part of CI: it needs the network and half an hour.

`--with real` runs the same on an installed Triton: what fails there, too, is not ours.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time
import traceback
import zipfile

HERE = pathlib.Path(__file__).resolve().parent

#: package on the index -> version, the folder of its modules, cases (the module in `cases`), names of compiled extensions that stand aside,
#: top-level packages taken without their `__init__`, environment
Package = collections.namedtuple("Package", "version under cases absent bare environment", defaults=("", "", (), (), {}))
PACKAGES = {
    "liger-kernel": Package("0.8.5", "liger_kernel", "liger_kernel"),
    # It refuses gradients on a GPU when Triton is older than 3.7.1, whose results are wrong there.
    "fla-core": Package("0.6.0", "fla", "fla", environment={"NEREID_TRITON_VERSION": "3.7.1"}),
    "flag-gems": Package("5.0.2", "flag_gems", "flag_gems", environment={"GEMS_VENDOR": "nvidia"}),
    "mamba-ssm": Package("2.3.2.post1", "mamba_ssm", "mamba_ssm", ("selective_scan_cuda", "causal_conv1d_cuda", "causal_conv1d")),
    "causal-conv1d": Package("1.7.0", "causal_conv1d", "causal_conv1d", ("causal_conv1d_cuda",)),
    "flash-attn": Package("2.8.3.post2", "flash_attn", "flash_attn", ("flash_attn_2_cuda",)),
    "xformers": Package("0.0.35", "xformers", "xformers", environment={"XFORMERS_ENABLE_TRITON": "1"}),
    "bitsandbytes": Package("0.50.2", "bitsandbytes", "bitsandbytes"),
    "unsloth": Package("2026.10.9", "unsloth/kernels", "unsloth", ("unsloth_zoo", "bitsandbytes"), ("unsloth",)),
    "deepspeed": Package("0.19.8", "deepspeed", "deepspeed"),
    "lightllm": Package("0.0.1", "lightllm", "lightllm"),
    "gemlite": Package("0.6.0.post2", "gemlite", "gemlite"),
    "torchao": Package("0.18.0", "torchao", "torchao"),
    "sglang": Package("0.5.23", "sglang", "sglang"),
    "vllm": Package("0.18.1", "vllm", "vllm"),
}

#: packages whose index has no wheel for every Python: their sources are unpacked, and these keep `pip` from asking for a CUDA toolkit
SOURCES = {"flash-attn", "mamba-ssm", "causal-conv1d", "vllm"}
WITHOUT_EXTENSIONS = {"FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE", "MAMBA_SKIP_CUDA_BUILD": "TRUE", "CAUSAL_CONV1D_SKIP_CUDA_BUILD": "TRUE",
                      "DS_BUILD_OPS": "0", "VLLM_TARGET_DEVICE": "empty"}


def fetch(name, folder):
    """The unpacked Python files of package `name`."""
    package = PACKAGES[name]
    target = folder / f"{name}-{package.version}"
    if target.exists():
        return target
    loads = folder / "archives"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "-d", str(loads), f"{name}=={package.version}"]
    if name in SOURCES:
        command.append("--no-binary=:all:")
    version = {"VLLM_VERSION_OVERRIDE": package.version} if name == "vllm" else {}
    subprocess.run(command, check=True, env={**os.environ, **WITHOUT_EXTENSIONS, **version})
    (archive,) = [path for path in loads.iterdir() if re.match(re.sub("[-_]", "[-_]", name) + "-" + re.escape(package.version), path.name)]
    partial = target.with_suffix(".partial")
    keep = (".py", ".json", ".yaml", ".config")
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            file.extractall(partial, [entry for entry in file.namelist() if entry.endswith(keep)])
    else:
        with tarfile.open(archive) as file:
            for entry in file.getmembers():
                _, _, inner = entry.name.partition("/")
                if entry.isfile() and inner.endswith(keep):
                    entry.name = inner
                    file.extract(entry, partial, filter="data")
    partial.rename(target)
    return target


def modules_with_kernels(root, under):
    """(names of the modules below `root`/`under` that hold kernels, how many kernels)."""
    names, kernels = [], 0
    for path in sorted((root / under).rglob("*.py")):
        found = re.findall(r"^\s*@(?:triton\.)?jit\b", path.read_text(errors="replace"), re.M)
        parts = list(path.relative_to(root).with_suffix("").parts)
        if found and all(part.isidentifier() for part in parts):
            kernels += len(found)
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names, kernels


def child(name, root, options):
    """Imports, runs and compiles one package in this process; prints what came of it as JSON."""
    import warnings
    warnings.filterwarnings("ignore")
    package = PACKAGES[name]
    os.environ.update(package.environment)
    sys.path[:0] = [str(HERE), str(root)]
    if options.triton == "nereid":
        import nereid
        nereid.install_as_triton()
    import host
    import torch
    host.DEVICE = options.device
    if options.device == "cpu":
        host.answer_for_a_gpu()
    host.pretend(*package.absent)
    for top in package.bare:
        host.bare_package(top, root / top)
    import importlib
    report = {"package": name, "version": package.version}
    names, report["kernels"] = modules_with_kernels(root, package.under)
    report["modules"], report["import_errors"] = len(names), {}
    report["imported"] = options.imports
    if options.imports:
        for module in names:
            try:
                importlib.import_module(module)
            except BaseException as error:
                report["import_errors"][module] = f"{type(error).__name__}: {error}"[:300]
    record = host.Record()
    report["cases"], report["failures"], report["slow"] = 0, {}, {}
    try:
        importlib.import_module("cases." + package.cases)
    except ModuleNotFoundError as error:
        if error.name != "cases." + package.cases:
            raise
    end = time.time() + options.limit
    for title, function, tolerance, gpu_tolerance in host.CASES:
        if options.only and not re.search(options.only, title):
            continue
        if time.time() > end:
            report["not_run"] = report.get("not_run", 0) + 1
            continue
        report["cases"] += 1
        torch.manual_seed(0)
        start = time.time()
        try:
            actual, expected = function()
            host.compare(actual, expected, tolerance if options.device == "cpu" else gpu_tolerance)
        except Exception as error:
            report["failures"][title] = f"{type(error).__name__}: {error}"[:1500]
            if options.verbose:
                traceback.print_exc()
        if options.verbose:
            print(f"{time.time() - start:7.2f} s {title}: {report['failures'].get(title, 'right')[:200]}", file=sys.stderr, flush=True)
    report["run"] = record.names()
    report["compilations"] = len(record.compiled)
    if options.device == "cpu" and options.triton == "nereid" and not options.no_gpu:
        from triton.backends.compiler import GPUTarget
        compiled = []
        answers = record.compile_for(GPUTarget("cuda", 90, 32), options.limit, lambda *kernel: compiled.append(kernel))
        report["compiled_for_gpu"] = len({kernel for kernel, _, error in answers if error is None} - {kernel for kernel, _, error in answers if error is not None})
        report["gpu_errors"] = {kernel: error[:1500] for kernel, _, error in answers if error is not None}
        report["slow"] = {kernel: round(time) for kernel, time, _ in answers if time > 1000}
        if options.shared:
            report["shared"] = compare_shared_memory(compiled)
    print("REPORT " + json.dumps(report), flush=True)


def compare_shared_memory(compiled):
    """The rows of benchmarks/shared_memory.py for kernels that were compiled here, compiled by the installed Triton as well."""
    import nereid
    nereid.uninstall_as_triton()
    for module in [name for name in sys.modules if name.split(".")[0] == "triton"]:
        del sys.modules[module]
    sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))
    import shared_memory
    comparison = shared_memory.Comparison()
    comparison.begin()
    for source, options, kernel in compiled:
        described = {"signature": source.signature, "constants": source.constants, "configs": [source.attrs],
                     "num_warps": options.get("num_warps", 4), "num_stages": options.get("num_stages", 3)}
        comparison.add(source.fn, described, kernel)
    return {"rows": sorted(set(comparison.rows.values()), key=str), "refused": comparison.refused}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="those of the table; all by default")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where the tensors live")
    parser.add_argument("--with", dest="triton", choices=["nereid", "real"], default="nereid", help="what `import triton` means")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/packages"), help="where the packages are unpacked")
    parser.add_argument("--report", type=pathlib.Path, help="a file for the results as JSON")
    parser.add_argument("--only", default="", help="a regular expression on the names of cases")
    parser.add_argument("--limit", type=float, default=900, help="seconds a package may take for its cases")
    parser.add_argument("--jobs", type=int, default=1, help="packages at a time")
    parser.add_argument("--no-imports", dest="imports", action="store_false", help="leave out the modules that no case needs")
    parser.add_argument("--no-gpu", action="store_true", help="do not compile for a GPU what ran on the CPU")
    parser.add_argument("--shared", action="store_true", help="compare the shared memory of these with the installed Triton's, in --report")
    parser.add_argument("--verbose", action="store_true", help="a line for each case, and whole tracebacks")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = options.packages or list(PACKAGES)
    unknown = sorted(set(chosen) - set(PACKAGES))
    if unknown:
        parser.error(f"no such package in the table: {', '.join(unknown)}")
    options.folder = options.folder.absolute()
    options.folder.mkdir(parents=True, exist_ok=True)
    roots = {name: fetch(name, options.folder) for name in chosen}
    if options.child:
        return child(chosen[0], roots[chosen[0]], options)
    reports = run_all(chosen, options)
    for report in reports:
        print_report(report)
    if options.report:
        options.report.write_text(json.dumps(reports, indent=1))
    return 1 if any(report.get("failures") or report.get("gpu_errors") or "crash" in report for report in reports) else 0


def run_all(chosen, options):
    """One process a package, `--jobs` at a time."""
    import concurrent.futures
    arguments = [option for option in sys.argv[1:] if option not in options.packages]

    def run(name):
        start = time.time()
        try:
            answer = subprocess.run([sys.executable, __file__, name, *arguments, "--child"], stdout=subprocess.PIPE, text=True,
                                    stderr=None if options.verbose else subprocess.PIPE, timeout=3 * options.limit + 60)
        except subprocess.TimeoutExpired:
            return {"package": name, "version": PACKAGES[name].version, "crash": "out of time"}
        lines = [line for line in answer.stdout.splitlines() if line.startswith("REPORT ")]
        if not lines:
            return {"package": name, "version": PACKAGES[name].version, "crash": f"status {answer.returncode}: {(answer.stderr or '')[-2000:]}"}
        return {**json.loads(lines[0][7:]), "seconds": round(time.time() - start)}

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(run, chosen))


def print_report(report):
    name = f"{report['package']} {report['version']}"
    if "crash" in report:
        print(f"{name}: {report['crash']}")
        return
    right = report["cases"] - len(report["failures"])
    imports = f", {len(report['import_errors'])} of them not imported" if report["imported"] else ""
    print(f"{name}: {report['kernels']} kernels in {report['modules']} modules{imports}; {right} of {report['cases']} cases "
          f"right, {len(report['run'])} kernels run in {report['compilations']} compilations, {report.get('compiled_for_gpu', '-')} compiled for a GPU; {report['seconds']} s")
    for kind in ("import_errors", "failures", "gpu_errors", "slow"):
        grouped = collections.defaultdict(list)
        for key, reason in report.get(kind, {}).items():
            grouped[str(reason)].append(key)
        for reason, keys in grouped.items():
            print(f"    {kind.replace('_', ' ')}: {', '.join(keys[:4])}{f' and {len(keys) - 4} more' if len(keys) > 4 else ''}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
