"""Parts of a benchmark in processes of their own: a kernel that hangs, or after which the GPU does not answer, ends its part only."""

import concurrent.futures
import json
import os
import subprocess
import sys


def child(program, arguments, timeout, setting=None):
    """Runs `program`, a file, with other arguments. Returns (its output, None, if it did not end, None when all went well, or else what went wrong in a line). timeout: seconds. setting: variables of its environment."""
    try:
        done = subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True, timeout=timeout, env={**os.environ, **(setting or {})})
    except subprocess.TimeoutExpired:
        return None, "it hangs"
    return (done.stdout, None) if done.returncode == 0 else (done.stdout, (done.stderr.strip().splitlines() or ["?"])[-1][:300])


def right_ones(program, jobs, processes):
    """Checks results, and says how. jobs: (name, arguments of `program`) each; the last line that `program` prints then is JSON with "right" and "worst", an error. Returns the names whose results are right."""
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        checks = list(pool.map(lambda job: child(program, job[1], 60), jobs))
    right = []
    for (name, _), (text, error) in zip(jobs, checks):
        found = json.loads(text.splitlines()[-1]) if not error and text else {}
        print(f"{name:48} {error or ('right' if found['right'] else 'WRONG')}, error {found.get('worst')}", flush=True)
        if found.get("right"):
            right.append(name)
    return right
