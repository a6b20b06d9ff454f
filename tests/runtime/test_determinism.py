"""The same input gives the same code, byte for byte: in every process, whatever its hash seed, addresses, threads, order of
compilation, locale, time zone and working folder."""

import json
import os
import pathlib
import subprocess
import sys

import nereid

SCRIPT = pathlib.Path(__file__).with_name("determinism_kernels.py")


def start(threads, order, folder, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    packages = [str(pathlib.Path(nereid.__file__).absolute().parent.parent), environment.get("PYTHONPATH", "")]
    environment.update(variables, NEREID_ALWAYS_COMPILE="1", NEREID_CPU_LINE_INFO="1", PYTHONPATH=os.pathsep.join(filter(None, packages)))
    return subprocess.Popen([sys.executable, SCRIPT, str(threads), order], cwd=folder, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def test_same_code_in_every_process(tmp_path):
    processes = [
        start(1, "forwards", pathlib.Path.cwd(), PYTHONHASHSEED="1", LC_ALL="C.UTF-8", TZ="UTC"),
        # Another allocator state, other addresses, everything at the same time.
        start(4, "backwards", tmp_path, PYTHONHASHSEED="77", LC_ALL="C", LANG="de_DE.UTF-8", TZ="Asia/Kathmandu", MALLOC_ARENA_MAX="1",
              MALLOC_PERTURB_="165", NEREID_CPU_THREADS="1", COLUMNS="40"),
        # Code for a processor that is named is the same whatever processor, address space and number of cores there are.
        start(2, "explicit", tmp_path, NEREID_CPU_FEATURES="baseline", MALLOC_PERTURB_="3"),
    ]
    results = []
    for process in processes:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        results.append(json.loads(out))
    first, second, third = results
    assert first.keys() == second.keys() and len(first) >= 50 and len(third) == 25
    different = [f"{kernel}: {stage}" for other in (second, third) for kernel, stages in other.items() for stage in stages
                 if stages[stage] != first[kernel][stage]]
    assert not different, different
