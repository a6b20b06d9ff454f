"""`nereid.torch.use()`, in fresh processes: which `triton` PyTorch's compiler gets, and what prevents it. Compiled programs are those of
test_torch_compile.py and tests/install, which call it, too.
"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import nereid
import pytest

pytest.importorskip("torch", reason="PyTorch's compiler is what is tested")

ROOT = pathlib.Path(nereid.__file__).parents[1]


def run(code, *folders, **environment):
    """A program of a process where nothing of Nereid is set, with folders before everything else on PYTHONPATH."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NEREID_", "TRITON_", "TORCH"))}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600,
                          env={**clean, "PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)]), **environment})


@pytest.fixture
def other(tmp_path):
    """A folder with another Triton."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("__version__ = '1.2.3'\ndef cdiv(x, y): return 0\n")
    return tmp_path


def test_gpus_alone_take_no_import_of_pytorch():
    done = run("""
        import sys
        import nereid.torch
        assert not nereid.torch.is_used()
        nereid.torch.use()
        nereid.torch.use()
        assert nereid.torch.is_used() and "torch" not in sys.modules
        import triton
        assert triton.jit is __import__("nereid").jit
    """)
    assert done.returncode == 0, done.stderr


def test_the_cpu_is_switched_on_and_off(other):
    """Where another Triton comes first in sys.path."""
    done = run("""
        import nereid.torch
        nereid.torch.use()
        import torch
        import torch._inductor.config as config
        assert config.cpu_backend == "cpp"
        nereid.torch.use(cpu=True)
        assert config.cpu_backend == "triton"
        nereid.torch.use()
        assert config.cpu_backend == "triton"
        from torch._inductor import metrics
        torch.testing.assert_close(torch.compile(torch.sin)(torch.ones(100)), torch.ones(100).sin())
        assert metrics.generated_kernel_count == 1
        from torch._inductor.runtime.triton_compat import triton
        assert triton.jit is __import__("nereid").jit
        nereid.torch.use(cpu=False)
        assert config.cpu_backend == "cpp"
    """, other)
    assert done.returncode == 0, done.stderr


def test_a_triton_that_is_used_cannot_be_replaced(other):
    (other / "client.py").write_text("from triton import cdiv\n")
    done = run("import client, nereid.torch; nereid.torch.use()", other)
    assert f"RuntimeError: triton 1.2.3 is already imported from {other}/triton/__init__.py and used by client: call nereid.torch.use() before that" in done.stderr
    assert "python -m nereid" in done.stderr
    done = run("import triton, nereid.torch; nereid.torch.use()", other)
    assert "used by __main__: call" in done.stderr


def test_a_triton_that_nothing_uses_is_replaced(other):
    done = run("""
        import nereid.torch
        def version():
            import triton
            return triton.__version__
        import torch.utils._triton
        assert version() == "1.2.3" and torch.utils._triton.get_triton_version() == (1, 2)
        nereid.torch.use()
        assert version() == "4.5.6" and torch.utils._triton.get_triton_version() == (4, 5)
        import subprocess, sys
        print(subprocess.run([sys.executable, "-c", "import triton; print(triton.__version__)"], capture_output=True, text=True).stdout)
    """, other, NEREID_TRITON_VERSION="4.5.6")
    assert done.stdout.strip() == "4.5.6", done.stderr


@pytest.mark.parametrize("imported, fails", [("torch._inductor.config", True), ("torch", False)])
def test_pytorch_that_found_no_triton(imported, fails):
    done = run(f"""
        import sys
        sys.modules["triton"] = None  # it cannot be imported
        import {imported}
        import torch.utils._triton
        assert not torch.utils._triton.has_triton_package()
        del sys.modules["triton"]
        import nereid.torch
        nereid.torch.use()
        assert torch.utils._triton.has_triton_package()
    """)
    assert (done.returncode == 1) == fails, done.stderr
    assert ("RuntimeError: PyTorch's compiler has been imported without a Triton (torch._inductor." in done.stderr) == fails


def test_under_the_alias():
    """The process was started with `import triton` meaning Nereid."""
    done = run("""
        import sys
        import nereid.torch
        assert nereid.torch.is_used()
        import torch._inductor.config
        nereid.torch.use(cpu=True)
    """, NEREID_AS_TRITON="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code, message", [("use(cpu='cuda')", "TypeError: `cpu` must be True, False or None, found 'cuda'"),
                                           ("sys.path[:] = [p for p in sys.path if 'packages' not in p]; use()", "ImportError: nereid.torch needs PyTorch")])
def test_wrong_uses(code, message):
    assert message in run(f"import sys; from nereid.torch import use; {code}").stderr


def test_the_trial():
    """What `nereid doctor --torch` shows: in the process and in a worker the same Triton, and right results."""
    done = run("import runpy; runpy.run_module('nereid.torch', run_name='__main__')", NEREID_TRITON_VERSION="3.7.1")
    report = json.loads(done.stdout)
    assert report["triton"] == report["worker"] == {"nereid": True, "version": "3.7.1", "path": str(ROOT / "nereid")}, report
    assert report["cpu"] == report.get("cuda", {"kernels": 1}) == {"kernels": 1}
