"""`torch.compile` as it is by default, installed both ways: kernels compiled in worker processes, PyTorch's cache of graphs empty and full.

The package is that of this process, seen as a folder on PYTHONPATH (`pip install --target`, a wheel that was unpacked), where no `.pth` file is read, and
as site-packages of a virtual environment. In both, the real Triton may be found as well: if a worker took it, its kernels would not run here.
On a GPU PyTorch's own launcher of cubins is used, and it must be able to launch everything.
"""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import venv

import nereid
import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "runtime" / "inductor_cases.py"
ROOT = pathlib.Path(nereid.__file__).parents[1]
PTH = pathlib.Path(__file__).resolve().parents[2] / "python" / "nereid_alias.pth"


@pytest.fixture(scope="module", params=["target", "environment"])
def installed(request, tmp_path_factory):
    """(interpreter, environment variables) of an installation."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NEREID_", "TRITON_", "TORCH", "PYTHONPATH"))}
    if request.param == "target":
        return sys.executable, {**clean, "PYTHONPATH": str(ROOT)}
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = pathlib.Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (packages / "nereid").symlink_to(ROOT / "nereid")
    (packages / PTH.name).write_text(PTH.read_text())
    import torch
    (packages / "torch.pth").write_text(f"{pathlib.Path(torch.__file__).parents[1]}\n")  # and everything beside it
    return str(folder / "bin" / "python"), clean


def compiled(installed, folder, target, *arguments):
    """What the program says about each case, and its counts."""
    program, environment = installed
    done = subprocess.run([program, PROGRAM, target, *arguments], capture_output=True, text=True, timeout=1200,
                          env={**environment, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "NEREID_CACHE_DIR": str(folder / "nereid"),
                               "TORCHINDUCTOR_COMPILE_THREADS": "2"})
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert "counts" in found, done.stderr[-3000:]
    return found, json.loads(found.pop("counts"))


def test_default_workers(installed, tmp_path, target):
    """A model, and a tuned kernel of the user within a compiled function. The second process finds the graphs on disk."""
    names = ["llama", "tuned_kernel_of_the_user"]
    for warm in (False, True):
        found, counts = compiled(installed, tmp_path, target, "--workers", "0", *names)
        assert found == dict.fromkeys(names, "ok")
        hits, misses = counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"]
        assert counts["workers"] == 2 and (hits > 0 and misses == 0 if warm else hits == 0 and misses > 0), counts


@pytest.mark.usefixtures("gpu")
def test_the_static_launcher(installed, tmp_path):
    """Strict: an error where PyTorch cannot launch a cubin by itself. Loaded from the bundle by the second process."""
    for warm in (False, True):
        found, counts = compiled(installed, tmp_path, "cuda", "--workers", "2", "--static", "llama", "pointwise", "reductions")
        assert set(found.values()) == {"ok"} and len(found) == 3, found
        assert counts["workers"] == 2 and counts["triton_bundler_load_static_autotuner" if warm else "triton_bundler_save_kernel"] > 0, counts


def test_isolated_children(installed):
    """Python's -E and -I hide PYTHONPATH: in site-packages the `.pth` file gives children the alias all the same."""
    program, environment = installed
    ask = "import importlib.util; found = importlib.util.find_spec('triton'); print(hasattr(getattr(found, 'loader', None), 'own'))"
    code = f"import subprocess, sys; [subprocess.run([sys.executable, flag, '-c', {ask!r}]) for flag in ('-E', '-I')]"
    done = subprocess.run([program, "-m", "nereid", "-c", code], capture_output=True, text=True, env=environment)
    in_site_packages = "PYTHONPATH" not in environment or ROOT.name in ("site-packages", "dist-packages")
    assert done.stdout.split() == [str(in_site_packages)] * 2, done.stderr


def test_doctor_knows(installed):
    program, environment = installed
    done = subprocess.run([program, "-m", "nereid.tools.children"], capture_output=True, text=True, env=environment)
    report = json.loads(done.stdout)
    assert report["with_alias"]["nereid"] and pathlib.Path(report["with_alias"]["path"]).samefile(ROOT / "nereid"), report
    assert not report["plain"].get("nereid"), report
