"""Kernels run where their tensors are: what tests/runtime/test_places.py shows with a stand-in for the driver, on a GPU."""

import os
import threading

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid.runtime import driver

pytestmark = pytest.mark.usefixtures("on_gpu")


@nereid.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


def run(x, y, out, kernel=add):
    """The kind of device that it ran on, once its result was found right."""
    out[:] = 0
    used = kernel[(5, )](x, y, out, 1000, BLOCK=256)
    if driver.get_active_gpus():
        torch.cuda.synchronize()
    assert np.array_equal(np.asarray(torch.as_tensor(out).cpu()), np.asarray(torch.as_tensor(x).cpu() + torch.as_tensor(y).cpu()))
    return used.metadata.target.backend


def three(make=torch.rand, **options):
    return make(1000, **options), make(1000, **options), make(1000, **options)


def test_one_function_takes_turns():
    places = {"cpu": three(), "cuda": three(device="cuda")}
    arrays = three(lambda n: np.random.rand(n).astype(np.float32))
    for turn in range(12):
        for place, tensors in places.items():
            for _ in range(1 + turn // 4):
                assert run(*tensors) == place
        assert run(*arrays) == "cpu"


def test_pinned_memory():
    pinned, host, device = three(pin_memory=True), three(), three(device="cuda")
    for _ in range(4):
        assert run(*pinned) == "cuda"
        assert run(*host) == "cpu"
        assert run(pinned[0], host[1], host[2]) == "cpu"
        assert run(pinned[0], device[1], device[2]) == "cuda"
    found = []
    thread = threading.Thread(target=lambda: found.append(run(*pinned)))  # without a context of its own
    thread.start()
    thread.join()
    assert found == ["cuda"]


def test_mixed_places():
    host, device = three(), three(device="cuda")
    for _ in range(4):
        assert run(*device) == "cuda"
        for arguments, words in (((host[0], *device[1:]), "`x` is on the CPU and argument `y` on cuda:0"),
                                 ((*device[:2], host[2]), "`out` is on the CPU and argument `x` on cuda:0")):
            with pytest.raises(ValueError, match=words):
                add[(5, )](*arguments, 1000, BLOCK=256)


def test_tuned_kernels():
    tuned = nereid.autotune([nereid.Config({"BLOCK": size}) for size in (256, 512)], key=["n"])(nereid.jit(add.fn))

    def launch(x, y, out):
        used = tuned[(5, )](x, y, out, 1000)
        torch.cuda.synchronize()
        assert torch.equal(out, x + y)
        return used.metadata.target.backend

    places = {"cpu": three(), "cuda": three(device="cuda")}
    for _ in range(4):
        for place, tensors in places.items():
            assert launch(*tensors) == place
    assert len(tuned.cache) == 2


def test_tensors_of_the_host_do_not_use_the_gpu(tmp_path):
    """A program that stays on the CPU may fork and use CUDA in its children."""
    import subprocess
    import sys
    script = tmp_path / "script.py"
    script.write_text("""
import os, torch, nereid, nereid.language as tl
@nereid.jit
def double(x):
    tl.store(x + tl.arange(0, 8), tl.load(x + tl.arange(0, 8)) * 2)
for _ in range(4):
    x = torch.ones(8)
    double[(1, )](x)
    assert x.sum() == 16
if os.fork() == 0:
    y = torch.ones(8, device="cuda")
    double[(1, )](y)
    os._exit(0 if y.sum().item() == 16 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))
""")
    environment = {name: value for name, value in os.environ.items() if name != "NEREID_TARGET"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr


def test_torch_compile_on_both(tmp_path):
    """Code that PyTorch generates for the CPU and for the GPU in one process, in turns."""
    import subprocess
    import sys
    script = tmp_path / "script.py"
    script.write_text("""
import nereid
nereid.install_as_triton()
import torch, torch._inductor.config as config
config.cpu_backend = "triton"
config.compile_threads = 1
compiled = torch.compile(lambda x: torch.softmax(x * 2 + 1, -1))
for _ in range(3):
    for device in ("cpu", "cuda"):
        x = torch.rand(37, 61, device=device)
        assert torch.allclose(compiled(x), torch.softmax(x * 2 + 1, -1), atol=1e-6)
""")
    import os
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=500, env=environment)
    assert done.returncode == 0, done.stderr
