#!/usr/bin/env python3
"""Assembles the PTX in a folder (tests with `--target ptx` leave it) with ptxas, and refuses what ptxas advises against.

    scripts/check_ptx.py FOLDER [--jobs N] [--ptxas PROGRAM] [--expect N]

Exits with 1 when a file is not accepted or draws an advisory ("Potential Performance Loss"); with 2 when there is nothing to do.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys


def target_of(text):
    return re.search(r"^\.target\s+(sm_\w+)", text, re.MULTILINE).group(1)


def assemble(ptxas, path):
    """What is wrong with one file; empty when nothing is."""
    done = subprocess.run([ptxas, f"-arch={target_of(path.read_text())}", "-v", "-o", os.devnull, str(path)], capture_output=True,
                          text=True, timeout=300)
    log = done.stdout + done.stderr
    if done.returncode:
        return [line for line in log.splitlines() if "error" in line or "fatal" in line][:3] or [log[:300]]
    return [line for line in log.splitlines() if "Potential Performance Loss" in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--ptxas", default=os.environ.get("NEREID_PTXAS") or shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas")
    parser.add_argument("--expect", type=int, default=1, help="at least so many files must be there")
    arguments = parser.parse_args()
    if not shutil.which(arguments.ptxas):
        print(f"no ptxas was found ({arguments.ptxas}): install a CUDA toolkit, or name one with --ptxas")
        return 2
    files = sorted(arguments.folder.glob("*.ptx"))
    if len(files) < arguments.expect:
        print(f"{arguments.folder} holds {len(files)} PTX files, expected {arguments.expect} or more")
        return 2
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        problems = dict(zip(files, pool.map(lambda path: assemble(arguments.ptxas, path), files)))
    bad = {path: lines for path, lines in problems.items() if lines}
    for path, lines in bad.items():
        print(f"{path.name}:", *lines, sep="\n    ")
    print(f"{len(files) - len(bad)} of {len(files)} PTX files are accepted without advice")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
