"""Launches on AArch64 in an emulator, for `pytest --target aarch64`; scripts/test_aarch64.sh builds what it takes and calls pytest.

Every launch compiles for AArch64 and sends the code, the arguments and the memory behind arrays to tests/aarch64/programs/runner.cpp (where the form of the
messages is), which runs under qemu-user in one process for all tests. Its memory has the addresses that it has here. Memory that
only an address says (`data_ptr()` in a tensor) is not sent, and accesses outside of allocations find nothing or end the emulator: an error.

NEREID_TEST_AARCH64 names the instruction set (default: neoverse-v1).
"""

import atexit
import hashlib
import inspect
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

FEATURES = os.environ.get("NEREID_TEST_AARCH64", "neoverse-v1")
RUNNER = pathlib.Path(__file__).parents[1] / "build/aarch64/runner"
#: `max`: every extension that the emulator knows; the others have what the names say and no more.
_PROCESSORS = {"neoverse-v1": "max", "neoverse-n1": "neoverse-n1", "aarch64": "cortex-a53"}
_ORDERS = {"in order": 0, "together": 1, "independent": 2}
_FAILURES = {1: "assertion failed: ", 2: "an access is outside of an argument: ", 3: "an offset overflowed", 4: "a masked-off lane was used"}
_INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (1, 8, 16, 32, 64)}


class AddressTaken(Exception):
    """The emulator itself is where an array is: another process of it will be elsewhere."""


class Emulator:
    """One process of the emulator, and the kernels that it has loaded."""

    def __init__(self):
        for program in ("qemu-aarch64", "aarch64-linux-gnu-ld", str(RUNNER)):
            if not shutil.which(program):
                raise RuntimeError(f"the target `aarch64` needs {program}: run scripts/test_aarch64.sh")
        self.folder = tempfile.TemporaryDirectory()
        self.process = None
        atexit.register(self.close)

    def start(self):
        environment = {**os.environ, "NEREID_CPU_THREADS": "2", "LC_ALL": "C"}
        environment.setdefault("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["qemu-aarch64", "-cpu", _PROCESSORS[FEATURES], str(RUNNER)], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def ended(self):
        """The error for a process that is gone."""
        status = self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")[-2000:]
        self.process = None
        return RuntimeError(f"the emulator of AArch64 ended with status {status} during a launch: {text}")

    def linked(self, code):
        """The path of a shared object with this code."""
        path = pathlib.Path(self.folder.name, hashlib.sha1(code).hexdigest())
        library = path.with_suffix(".so")
        if not library.exists():
            path.with_suffix(".o").write_bytes(code)
            subprocess.run(["aarch64-linux-gnu-ld", "-shared", "-o", library, path.with_suffix(".o")], check=True)
        return str(library)

    def read(self, size):
        data = self.process.stdout.read(size)
        if len(data) < size:
            raise self.ended()
        return data

    def number(self, form):
        return struct.unpack("<" + form, self.read(struct.calcsize(form)))[0]

    def text(self):
        return self.read(self.number("I")).decode(errors="replace")

    def launch(self, message, memory):
        """Sends a launch; brings back what it wrote. Failure of a program: (kind, site, program), else None; and what was printed."""
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(message)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None
        status = self.number("I")
        problem = self.text() if status == 2 else ""
        failure = struct.unpack("<iiq", self.read(16)) if status == 1 else None
        printed = self.text()
        if problem == "address taken":
            self.close()
            raise AddressTaken
        if problem:
            raise RuntimeError(f"the emulator of AArch64 did not launch a kernel: {problem}")
        for data, writeable in memory.values():
            result = self.read(data.numel())
            if writeable:
                data.numpy()[:] = np.frombuffer(result, np.uint8)
        return failure, printed


_emulator = None


def _text(value):
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def _pieces(layout):
    """The parts of a kernel's layout up to the bracket that closes it: "p", "c", or a list of parts."""
    parts = []
    for kind in layout:
        if kind == ")":
            break
        parts.append(_pieces(layout) if kind == "(" else kind)
    return parts


class _Arguments:
    """The slots of a launch, and the allocations behind its arrays."""

    def __init__(self, params):
        self.params = iter(params)
        self.slots = []
        self.memory = {}  # by address: the bytes, and whether they may be written

    def add(self, part, value):
        if isinstance(part, list):
            if hasattr(type(value), "__nereid_fields__"):
                value = [getattr(value, name) for name in type(value).__nereid_fields__]
            for each, item in zip(part, value):
                self.add(each, item)
            return
        param = next(self.params)
        if part == "p":
            self.add_passed(param["signature"].partition(":")[0], value)

    def add_passed(self, kind, value):
        if hasattr(value, "value") and type(value).__name__ == "constexpr":
            value = value.value
        if type(value).__name__ == "TensorDescriptor":
            self.slots += [self.address(value.base), *value.shape, *value.strides[:-1]]
        elif kind.startswith("*"):
            self.slots.append(self.address(value))
        elif kind in _INTEGERS:
            self.slots.append(int(value))
        else:
            value = float(value)
            if kind == "bf16":
                bits = torch.tensor(value, dtype=torch.float64).to(torch.bfloat16).view(torch.int16).item() & 0xffff
            else:
                wide, whole = {"fp16": (np.float16, np.uint16), "fp32": (np.float32, np.uint32), "fp64": (np.float64, np.uint64)}[kind]
                with np.errstate(over="ignore"):
                    bits = int(wide(value).view(whole))
            self.slots.append(bits)

    def address(self, value):
        from device_arrays import _bytes_of, _is_host_array
        if type(value).__name__ == "TensorWrapper":
            value = value.base
        if value is None or isinstance(value, (int, np.integer)):
            return int(value or 0)
        if not _is_host_array(value):
            return value.data_ptr()
        address = value.data_ptr() if isinstance(value, torch.Tensor) else value.ctypes.data
        if 0 not in value.shape:
            data, writeable = _bytes_of(value)
            known = self.memory.get(data.data_ptr())
            if known is None or known[0].numel() < data.numel():
                self.memory[data.data_ptr()] = (data, writeable or bool(known and known[1]))
        return address


def _message(compiled, path, grid, arguments):
    about = compiled._values
    order = "together" if about["options"]["launch_cooperative_grid"] else "independent" if about["independent_programs"] else "in order"
    parts = [_text(path), _text(about["name"]), struct.pack("<3iIQ", *grid, _ORDERS[order], about["scratch_bytes"])]
    slots = [slot & (1 << 64) - 1 for slot in arguments.slots]
    parts.append(struct.pack(f"<I{len(slots)}Q", len(slots), *slots))
    sites = about.get("sites", [])
    parts.append(struct.pack("<I", len(sites)))
    for site in sites:
        parts += [_text(site["file"]), _text(site["text"]), struct.pack("<iiII", site["line"], site["column"], site["hex"], len(site["operands"]))]
        for operand in site["operands"]:
            parts.append(struct.pack(f"<II{len(operand['shape'])}q", operand["kind"], len(operand["shape"]), *operand["shape"]))
    parts.append(struct.pack("<I", len(arguments.memory)))
    parts += [struct.pack("<QQ", address, data.numel()) for address, (data, _) in arguments.memory.items()]
    parts += [data.numpy().tobytes() for data, _ in arguments.memory.values()]
    return b"".join(parts)


def _sizes(function, grid, args, options):
    if callable(grid):
        named = {name: value for name, value in options.items() if name in function.arg_names}
        bound = inspect.signature(function.fn).bind(*args, **named)
        bound.apply_defaults()
        grid = grid(dict(bound.arguments) | options)
    grid = tuple(int(size) for size in grid) if isinstance(grid, (tuple, list, torch.Size)) else (int(grid), )
    return grid + (1, ) * (3 - len(grid))


def _run(compiled, grid, values):
    """Launches a compiled kernel with one value for each parameter."""
    global _emulator
    if _emulator is None:
        _emulator = Emulator()
    arguments = _Arguments(compiled._values["params"])
    for part, value in zip(_pieces(iter(compiled._native.layout())), values):
        arguments.add(part, value)
    if 0 in grid:
        return
    message = _message(compiled, _emulator.linked(compiled.asm["obj"]), grid, arguments)
    for attempt in range(8):
        try:
            failure, printed = _emulator.launch(message, arguments.memory)
            break
        except AddressTaken:
            if attempt == 7:
                raise
    if printed:
        sys.stdout.flush()
        os.write(1, printed.encode())
    if failure:
        kind, number, program = failure
        sites = compiled._values.get("sites", [])
        site = sites[number] if 0 <= number < len(sites) else {"file": "?", "line": 0, "column": 0, "text": ""}
        raise RuntimeError(f"{site['file']}:{site['line']}:{site['column']}: run-time error: {_FAILURES[kind]}{site['text']}\n"
                           f"note: in program {program} of kernel `{compiled._values['name']}`")


def install(monkeypatch):
    """Kernels of this test are compiled for AArch64, and launches run in the emulator. A launch that names an instruction set itself keeps it."""
    from nereid.compiler.compiler import CompiledKernel
    from nereid.runtime.jit import JITFunction
    run, launch_of = JITFunction.run, CompiledKernel.__getitem__

    def emulate(self, *args, grid, warmup, **options):
        if "features" in options or "target" in options:
            return run(self, *args, grid=grid, warmup=warmup, **options)
        compiled = run(self, *args, grid=grid, warmup=True, features=FEATURES, **options)
        if warmup:
            return compiled
        named = {name: value for name, value in options.items() if name in self.arg_names}
        bound = inspect.signature(self.fn).bind(*args, **named)
        bound.apply_defaults()
        _run(compiled, _sizes(self, grid, args, options), [bound.arguments[name] for name in self.arg_names])
        return compiled

    def emulate_launch_of(self, grid):
        if self._values["features"] != FEATURES:
            return launch_of(self, grid)
        sizes = _sizes(self.fn, grid, (), {})
        return lambda *args, stream=None: _run(self, sizes, args)

    monkeypatch.setattr(JITFunction, "run", emulate)
    monkeypatch.setattr(CompiledKernel, "__getitem__", emulate_launch_of)
