"""What a file of programs says about each of them. One process runs all, because loading PyTorch's compiler takes longest."""

import os
import subprocess
import sys


def said(file, device, names, timeout, **environment):
    """{name: what follows it in a line of output}. The program is called with the device and names. Where one ends its process, it gets the status and the errors, and another process
    runs those after it. environment: variables besides those of this process; None: without one."""
    variables = {name: value for name, value in {**os.environ, "PYTHONFAULTHANDLER": "1", **environment}.items() if value is not None}
    found = {}
    while left := [name for name in names if name not in found]:
        done = subprocess.run([sys.executable, file, device, *left], env=variables, capture_output=True, text=True, timeout=timeout)
        lines = [line.partition(" ") for line in done.stdout.splitlines()]
        found.update((name, text) for name, _, text in lines if name in left)
        if missing := [name for name in left if name not in found]:
            found[missing[0]] = f"the process ended with status {done.returncode}: {done.stderr[-6000:]}"
    return found
