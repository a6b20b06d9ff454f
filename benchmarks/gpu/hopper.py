"""What was or is off by default on Hopper until it is measured, in one run of at most 100 seconds:
`python benchmarks/gpu/hopper.py [--budget 98]`

1. Products in persistent loops (warp_specialize.py): stores that overlap with the next tile (`groups`, the default since it was the fastest in all sizes)
   against stores that are waited for (`always`), not divided (`never`), Triton and cuBLAS.
2. Attention (attention.py): what multiplications by factors of 1 that are left out (`skip`), a threshold of references and, with heads of 64, 16 warps gain.

All variants are compared with float64 first; those that are wrong or hang are reported and not timed.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).parent
BASE = "divided 128x128 s3"
# Script, its share of the budget, arguments.
RUNS = [
    ("warp_specialize.py", 0.45, ["--only", "persistent 128x256x64", "--modes", "always,groups,never", "--sizes", "4096x4096x512,4096,8192", "--seconds", "0.8"]),
    ("attention.py", 0.35, ["--problems", "128c,128", "--variants", f"{BASE},{BASE} skip,{BASE} threshold skip", "--seconds", "3"]),
    ("attention.py", 0.2, ["--problems", "64,64c", "--variants", "pipelined 128x64,pipelined 128x64 threshold skip,divided 256x64 w16 s3,divided 256x64 w16 s3 threshold skip",
                           "--seconds", "2"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=98.0, help="seconds altogether")
    options = parser.parse_args()
    end, share = time.monotonic() + options.budget, 0.0
    for script, its, arguments in RUNS:
        share += its
        left = end - options.budget * (1 - share) - time.monotonic() # what a run leaves is the next one's
        print(f"== {script} {' '.join(arguments)} ({left:.0f} s)", flush=True)
        if script == "attention.py":
            arguments = [*arguments, "--budget", f"{max(left - 15, 1):.0f}"]
        process = subprocess.Popen([sys.executable, FOLDER / script, *arguments], start_new_session=True)
        try:
            process.wait(timeout=max(left, 1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # it has started others
            print("  out of time", flush=True)


if __name__ == "__main__":
    main()
