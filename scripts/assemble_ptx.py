#!/usr/bin/env python3
"""Assembles every PTX file of a folder with ptxas, each for the architecture it names; fails when one does not assemble, or when
ptxas says that the code will run slower than it could (its advisories, waits added between wgmma instructions).

    assemble_ptx.py FOLDER [--ptxas PROGRAM] [-j N]

ptxas: the option, NEREID_PTXAS, NVIDIA's package `nvidia-cuda-nvcc` beside this Python, PATH.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import time

ADVISORY = re.compile(r".*(?:Potential Performance Loss| is injected).*")


def find_ptxas():
    """The path of ptxas; None when there is none."""
    given = os.environ.get("NEREID_PTXAS")
    if given:
        return given
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    for place in ("nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"):
        if (packages / place / "ptxas").exists():
            return str(packages / place / "ptxas")
    return shutil.which("ptxas")


def assemble(ptxas, path, timeout=300):
    """Assembles one file; the problems as a list of lines."""
    target = re.search(r"^\.target\s+(\w+)", path.read_text(), re.MULTILINE)
    if not target:
        return [f"{path}: no .target"]
    try:
        result = subprocess.run([ptxas, "-v", f"-arch={target[1]}", str(path), "-o", os.devnull], capture_output=True, text=True,
                                timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return [f"{path}: ptxas did not finish within {timeout} s"]
    output = result.stdout + result.stderr
    if result.returncode != 0:
        return [f"{path}: {line}" for line in output.splitlines() if "error" in line or "fatal" in line][:5] or [f"{path}: {output}"]
    return [f"{path}: {advice}" for advice in ADVISORY.findall(output)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ptxas", default=find_ptxas())
    parser.add_argument("-j", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if not arguments.ptxas:
        print("no ptxas: install the package `nvidia-cuda-nvcc`, or name one by --ptxas")
        return 2
    files = sorted(arguments.folder.glob("**/*.ptx"))
    if not files:
        print(f"no PTX files in {arguments.folder}")
        return 2
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.j) as pool:
        problems = list(pool.map(lambda path: assemble(arguments.ptxas, path), files))
    for lines in problems:
        for line in lines:
            print(line)
    bad = sum(bool(lines) for lines in problems)
    print(f"{len(files) - bad} of {len(files)} PTX files assemble without advice ({time.monotonic() - start:.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
