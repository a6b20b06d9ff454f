"""The language tests on a simulated GPU: `PYTHONPATH=...:tests SIMULATED_TARGET=cuda:80 pytest -p simulated tests/language -k NAME`.

Every launch compiles for that GPU, with one stage (SIMULATED_STAGES says otherwise), for one block a program (SIMULATED_BLOCKS: `num_ctas`, of `cuda:90`), and runs the emitted code thread by thread in `nereid-simulate`
(tests/unit/nvidia/Simulate.cpp; NEREID_TEST_SIMULATOR names it, if it is not in build/release or build/debug). Slow: for a few small kernels at a time. What the
simulator does not know (inline assembly, much of libdevice, arguments that are tuples) is an error that says so; a program that waits for a
later one never ends.
"""

import os
import pathlib
import struct
import subprocess
import tempfile

import pytest
from nereid.runtime.jit import JITFunction
from simulator import TOOL, launch_options

TARGET = os.environ.get("SIMULATED_TARGET", "cuda:80")
STAGES = int(os.environ.get("SIMULATED_STAGES", "1"))
BLOCKS = int(os.environ.get("SIMULATED_BLOCKS", "1"))


def _simulate(function, *arguments, grid, warmup, **options):
    from device_arrays import _bytes_of, _is_host_array
    if warmup:
        return _compile(function, *arguments, grid=grid, warmup=True, **options)
    compiled = _compile(function, *arguments, grid=grid, warmup=True, **{"num_stages": STAGES, "num_ctas": BLOCKS, **options, "target": TARGET})
    text = compiled.asm["gpu"]
    if callable(grid):
        grid = grid(dict(zip(function.arg_names, arguments)) | options)
    names = dict(zip(function.arg_names, arguments)) | options
    with tempfile.TemporaryDirectory() as folder:
        code = pathlib.Path(folder, "kernel.mlir")
        code.write_text(text)
        memory, words = {}, []
        for name, value in names.items():
            if _is_host_array(value):
                data, _ = _bytes_of(value)
                start = data.data_ptr()
                if start not in memory:
                    path = pathlib.Path(folder, f"memory{len(memory)}")
                    path.write_bytes(bytes(start % 256) + data.numpy().tobytes() + bytes(256))
                    memory[start] = (path, data)
                address = value.data_ptr() if hasattr(value, "data_ptr") else value.ctypes.data
                words.append(f"{name}={memory[start][0]}:{start % 256 + address - start}")
            elif isinstance(value, float):
                wide = f"{name}\": f64" in text
                words.append(f"{name}={struct.unpack('<Q' if wide else '<I', struct.pack('<d' if wide else '<f', value))[0]}")
            elif isinstance(value, (bool, int)):
                words.append(f"{name}={int(value) & (1 << 64) - 1}")
        sizes = ",".join(str(n) for n in (grid if isinstance(grid, tuple) else (grid, )))
        done = subprocess.run([TOOL, str(code), *launch_options(compiled, folder), "--grid", sizes, *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the simulated kernel failed: {done.stderr[:4000]}")
        for start, (path, data) in memory.items():
            data.numpy()[:] = memoryview(path.read_bytes())[start % 256:start % 256 + data.numel()]
    return compiled


_compile = JITFunction.run
JITFunction.run = _simulate


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    if "target" in pyfuncitem.funcargs:
        pyfuncitem.funcargs["target"] = "cuda"
    return (yield)
