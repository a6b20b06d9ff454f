"""Runs programs on the compiler's targets and compares the memory they leave.

`check(program, settings)` returns None or a `Failure`. What a check does beside the plain comparison depends on the seed: the same
kernel with another number of warps, stages or another instruction set must give the same bits. With modes ("checked", "debug") it
runs in these too. What a program prints is compared, and what it asserts: such a program runs in debug mode, too.
"""

import contextlib
import copy
import dataclasses
import importlib.util
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import traceback

import numpy as np

from .dtypes import BF16, BOOL, F32, FP8, I64, from_memory
from .observed import Observed, difference
from .overflow import NEVER, SURELY, Overflow
from .tiles import FACTS, WAYS
from .tree import Check, Known, Print, argument_value, run, source_of, statements_of

_FOLDER = None


@dataclasses.dataclass
class Failure:
    kind: str        #: "refused", "internal", "wrong", "told" (prints, assertions), "changed input", "crash", "hang", "evaluator"
    target: str
    text: str

    def fingerprint(self):
        """Failures that read alike are one; of what is wrong at run time the values do not matter."""
        text = re.sub(r"`[^`]*`|/\S+|[^a-zA-Z ]", "", self.text[:400])[:120] if self.kind in ("refused", "internal", "evaluator") else ""
        return self.kind, self.target.split()[0], text

    def same_as(self, other):
        return other is not None and self.fingerprint() == other.fingerprint()


def folder():
    global _FOLDER
    if _FOLDER is None:
        _FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="nereid-generator-"))
    return _FOLDER


_COUNT = 0


def load_kernel(source, name="kernel"):
    global _COUNT
    _COUNT += 1
    stem = f"generated_{os.getpid()}_{_COUNT}"
    path = folder() / f"{stem}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    spec.loader.exec_module(module)
    return module, path


_TL_NAMES = {BF16: "bfloat16", **{d: d.name for d in FP8}, BOOL: "int1"}


class Arguments:
    """The arguments of a launch: buffers in the memory of the target, scalars."""

    def __init__(self, program, device):
        import nereid
        import nereid.language as tl
        self.program, self.device, self.arrays, self.values = program, device, {}, []
        if device:
            import torch
        for buffer in program.buffers:
            if device:
                # The bytes alone matter; the dtype is named below. Aligned as an allocation is.
                array = torch.from_numpy(np.ascontiguousarray(buffer.bits).view(np.uint8).copy()).cuda()
                view = array[buffer.base * buffer.bits.itemsize:]
            else:
                space = np.zeros(buffer.bits.nbytes + 64, np.uint8)
                shift = -space.ctypes.data % 64
                array = space[shift:shift + buffer.bits.nbytes]
                array[:] = np.ascontiguousarray(buffer.bits).view(np.uint8)
                # Begins at the base and reaches to both ends of the memory, as checked mode sees it.
                before, after = buffer.base * buffer.bits.itemsize, (len(buffer.bits) - buffer.base) * buffer.bits.itemsize
                view = np.lib.stride_tricks.as_strided(array[before:], (after, before + 1), (1, -1))
            self.arrays[buffer.name] = array
            self.values.append(nereid.reinterpret(view, getattr(tl, buffer.dtype.name)))
        self.values += [s.value for s in program.scalars]

    def memory(self):
        result = {}
        for buffer in self.program.buffers:
            array = self.arrays[buffer.name]
            data = array.cpu().numpy() if self.device else array
            result[buffer.name] = data.view(buffer.bits.dtype)
        return result


def differences(program, got, want):
    """A text about the first buffer that differs, or None."""
    for buffer in program.buffers:
        a, b = got[buffer.name], want[buffer.name]
        a, b = (np.ascontiguousarray(v).view(f"u{v.dtype.itemsize}") for v in (a, b))
        if np.array_equal(a, b):
            continue
        if not buffer.output:
            return f"{buffer.name}: memory that the kernel does not write has changed"
        x, y = (from_memory(v.view(buffer.dtype.memory), buffer.dtype) for v in (a, b))
        if buffer.dtype is BOOL:
            wrong = a != b
        elif not buffer.dtype.is_float:
            wrong = x != y
        else:
            same_nan = np.isnan(x) & np.isnan(y)
            if buffer.approximate:
                bound = 2e-5 if buffer.dtype is F32 else 1e-11
                with np.errstate(all="ignore"):
                    wrong = ~(np.abs(x - y) <= bound * np.maximum(np.abs(y), 1)) & ~same_nan & (x != y)
            else:
                wrong = (a != b) & ~same_nan
        if np.any(wrong):
            index = int(np.argmax(wrong))
            return (f"{buffer.name} ({buffer.dtype}): {np.count_nonzero(wrong)} of {wrong.size} elements differ, first at "
                    f"{index - buffer.base}: {x[index]!r} instead of {y[index]!r}")
    return None


def describe(error):
    text = getattr(error, "error_message", None) or str(error)
    return f"{type(error).__name__}: {text}"


def is_internal(error):
    text = str(error)
    return "internal error" in text or type(error).__name__ not in (
        "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "TypeError", "ValueError")


class TooLarge(str):
    """In the list of what was skipped: a GPU for which a program is too large, as it may be."""


def failed(target, error, skipped=None):
    """The failure that an exception is; None where the program is too large for a GPU, which the list `skipped` then tells."""
    if type(error).__name__ == "OutOfResources" and not target.startswith("cpu"):
        if skipped is not None:
            skipped.append(TooLarge(target.split()[0]))
        return None
    return Failure("internal" if is_internal(error) else "refused", target, describe(error))


def compile_only(program, target, options=None, assemble=False, skipped=None):
    """Compiles for a GPU that need not be there, up to PTX or to machine code; the failure or None, and the PTX."""
    module, path = load_kernel(source_of(program))
    import nereid
    import nereid.language as tl
    arguments = [nereid.MockTensor(getattr(tl, b.dtype.name)) for b in program.buffers] + [s.value for s in program.scalars]
    try:
        kernel = module.kernel.warmup(*arguments, grid=program.grid, target=target, **{**program.options, **(options or {})})
        if assemble:
            kernel.asm["cubin"]
        return None, kernel.asm["ptx"]
    except Exception as error:
        return failed(target, error, skipped), None
    finally:
        del sys.modules[module.__name__]
        path.unlink()


class NotSimulated(Exception):
    """The simulator does not know an instruction of the kernel: it says nothing about the program."""

    def __init__(self, text):
        """`text`: what the simulator wrote; kept is the function called or the instruction, without its values."""
        line = text.split("the simulator does not know:", 1)[1].strip().split("\n")[0]
        called = re.search(r"@([\w.]+)|asm (?:\w+ )*\"([^\"]{1,40})", line)
        super().__init__((called.group(1) or called.group(2)) if called else " ".join(re.sub(r"%\S+", "", line).split())[:60])


def simulate(kernel, program):
    """The memory that a kernel compiled for a GPU leaves on the simulated block of threads (tests/unit/nvidia/Simulate.cpp), and what it prints."""
    tool = os.environ.get("NEREID_TEST_SIMULATOR", str(pathlib.Path(__file__).parents[2] / "build/release/tests/unit/nvidia/nereid-simulate"))
    with tempfile.TemporaryDirectory() as name:
        code = pathlib.Path(name, "kernel.mlir")
        code.write_text(kernel.asm["gpu"])
        words = []
        for buffer in program.buffers:
            path = pathlib.Path(name, buffer.name)
            path.write_bytes(bytes(256) + np.ascontiguousarray(buffer.bits).tobytes() + bytes(256))
            words.append(f"{buffer.name}={path}:{256 + buffer.base * buffer.bits.itemsize}")
        for scalar in program.scalars:
            value = scalar.value
            bits = struct.unpack("<I", struct.pack("<f", value))[0] if isinstance(value, float) else \
                int(value) & (1 << getattr(getattr(argument_value(scalar), "dtype", I64), "bits", 64)) - 1
            words.append(f"{scalar.name}={bits}")
        maps = ()
        if plans := getattr(kernel.metadata, "tensor_map_plans", None):
            path = pathlib.Path(name, "maps.json")
            path.write_text(json.dumps(plans))
            maps = ("--maps", str(path))
        done = subprocess.run([tool, str(code), "--shared", str(kernel.metadata.shared), *maps, "--blocks", str(blocks_of(kernel.metadata, program)), "--grid", ",".join(map(str, program.grid)), *words],
                              capture_output=True, text=True, timeout=120)
        if done.returncode:
            if "the simulator does not know" in done.stderr:
                raise NotSimulated(done.stderr)
            raise RuntimeError(f"the simulated kernel failed: {done.stderr[:2000]}")
        return {b.name: np.frombuffer(pathlib.Path(name, b.name).read_bytes()[256:-256], b.bits.dtype) for b in program.buffers}, done.stdout


@contextlib.contextmanager
def printed():
    """A list, to which comes what the process writes to its standard output meanwhile."""
    found = []
    sys.stdout.flush()
    before = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield found
        finally:
            sys.stdout.flush()
            os.dup2(before, 1)
            os.close(before)
            file.seek(0)
            found.append(file.read().decode())


def check(program, targets=("cpu", ), compile_targets=(), variants=True, want=None, assemble=0, skipped=None, modes=(), ways=None):
    """None, or the first failure. `want` is the memory that NumPy leaves, where it is known already. Of the kernels that
    are only compiled, those whose seed is a multiple of `assemble` become machine code. To the list `skipped` goes what the
    simulator did not know, and for which GPU the program is too large: nothing has been compared then. `modes`: of "checked" (which only the CPU has) and "debug". `ways`: a Counter, to which the ways go that the code on simulated threads takes, as ("way", name, "")."""
    overflow, observed = Overflow(), Observed()
    tells = any(isinstance(s, (Check, Known, Print)) for s in statements_of(program))
    try:
        want = run(program, overflow=overflow, observed=observed) if want is None or modes or tells else want
    except Exception:
        return Failure("evaluator", "numpy", traceback.format_exc())
    for target in compile_targets:
        failure, _ = compile_only(program, target, {"debug": True} if "debug" in modes else None, bool(assemble) and program.seed % assemble == 0, skipped)
        if failure:
            return failure
    if observed.known:
        failure = refuse_one(program, observed)
        if failure:
            return failure
    source = source_of(program)
    if all(t == "sim" for t in targets):    # the quick one: nothing in the background
        source = re.sub(r"num_stages=[0-9]+", "num_stages=1", source)
    module, path = load_kernel(source)
    try:
        for target in targets:
            if program.ordered and target != "cpu":
                continue
            for launch in launches(program, target, variants, modes, overflow.state, observed):
                if target.startswith("sim"):
                    failure = check_simulated(module.kernel, program, target, launch, want, observed, skipped, ways)
                else:
                    failure = check_launch(module.kernel, program, target, launch, want, observed, source, skipped)
                if failure:
                    return failure
    finally:
        del sys.modules[module.__name__]
        path.unlink()
    return None


def check_launch(kernel, program, target, launch, want, observed, source, skipped=None):
    """The failure of one launch, or None."""
    arguments = Arguments(program, target == "cuda")
    name = target + "".join(f" {k}={v}" for k, v in launch.options.items() if program.options.get(k) != v)
    try:
        with printed() as texts:
            kernel[program.grid](*arguments.values, target=target, **launch.options)
            got = arguments.memory()
    except Exception as error:
        if launch.overflow != NEVER and "overflow detected for operation" in str(error):
            return None
        if launch.asserts and "assertion failed" in str(error):
            text = misreported(str(error), observed, source)
            return Failure("told", name, text) if text else None
        return failed(name, error, skipped)
    if launch.overflow == SURELY:
        return Failure("wrong", name, "an integer overflows, and debug mode does not say so")
    if launch.asserts and observed.failing:
        return Failure("told", name, f"an assertion fails, and debug mode does not say so: {observed.first_failing()}")
    text = differences(program, got, want)
    if text:
        return Failure("wrong", name, text)
    text = difference(texts[0], observed, in_order=target == "cpu")
    return Failure("told", name, text) if text else None


@contextlib.contextmanager
def settings_of(program):
    import nereid
    with nereid.knobs.nereid.scope():
        for name, value in program.settings.items():
            setattr(nereid.knobs.nereid, name, value)
        yield


def ways_of(compiled):
    """What the code of a kernel does of what few kernels do: keys of a Counter."""
    text, metadata = compiled.asm["gpu"], compiled.metadata
    return [("way", name, "") for name, pattern in WAYS.items() if re.search(pattern, text)] + [("way", name, "") for name, holds in FACTS.items() if holds(metadata)]


def blocks_of(metadata, program):
    """How many blocks of a cluster run a program, or the programs of a pair, where the launcher chooses."""
    if metadata.pairs and program.grid[0] % 2 == 0:
        return 2
    return min(metadata.most_splits, (1, 2, 4, 8)[program.seed % 4])


def check_simulated(kernel, program, target, launch, want, observed, skipped=None, ways=None):
    """The same on simulated threads."""
    device = target.removeprefix("sim:") if ":" in target else "cuda:80"
    arguments = Arguments(program, False)
    try:
        with settings_of(program):    # `asm` compiles when it is first read
            compiled = kernel.warmup(*arguments.values, grid=program.grid, target=device, **(launch.options if ":" in target else {**launch.options, "num_stages": 1}))
            if ways is not None:
                ways.update(ways_of(compiled))
            got, printed_text = simulate(compiled, program)
    except NotSimulated as unknown:
        if skipped is not None:
            skipped.append(str(unknown))
        return None
    except Exception as error:
        if launch.asserts and observed.failing and re.search(r"Assertion `(.*?)[,`]", str(error)):
            message = re.search(r"Assertion `(.*?)[,`]", str(error))[1]
            expected = [text for text, _ in observed.first_failing()]
            return None if message in expected else Failure("told", target, f"`{message}` is reported, expected one of {expected}")
        return failed(target, error, skipped)
    if launch.asserts and observed.failing:
        return Failure("told", target, f"an assertion fails, and debug mode does not say so: {observed.first_failing()}")
    text = differences(program, got, want)
    if text:
        return Failure("wrong", target, text)
    text = difference(printed_text, observed, in_order=False)
    return Failure("told", target, text) if text else None


def misreported(error, observed, source):
    """What is wrong with the report of an assertion on the CPU, or None: its message, line, calls and program."""
    said = re.search(r":(\d+):\d+: run-time error: assertion failed: (.*)", error)
    if not said:
        return f"no place: {error}"
    calls = dict(observed.first_failing())
    if said[2] not in calls:
        return f"`{said[2]}` fails first, expected one of {sorted(calls)}: {error}"
    line = next(number for number, text in enumerate(source.splitlines(), 1) if f'"{said[2]}"' in text)
    if int(said[1]) != line:
        return f"line {said[1]}, expected {line}: {error}"
    if error.count("called from here") != calls[said[2]]:
        return f"{error.count('called from here')} calls, expected {calls[said[2]]}: {error}"
    pid = min(observed.failing, key=lambda each: each[::-1])
    return None if f"in program {pid}" in error else f"expected program {pid}: {error}"


def refuse_one(program, observed):
    """With one of the static assertions that the compiler comes to turned round the compilation must fail there."""
    other = copy.deepcopy(program)
    found = [s for s in statements_of(other) if isinstance(s, Known) and s.message in observed.known]
    one = found[program.seed % len(found)]
    one.holds = False
    failure, _ = compile_only(other, "cpu")
    wanted = f"CompileTimeAssertionFailure: static assertion failed: {one.message}"
    if failure is None or not failure.text.startswith(wanted):
        return Failure("told", "cpu", f"expected `{wanted}`, found `{failure and failure.text}`")
    return None


@dataclasses.dataclass
class Launch:
    options: dict
    overflow: int = NEVER     #: whether integers that wrap stop it
    asserts: bool = False     #: whether assertions do


def launches(program, target, variants, modes, overflow, observed):
    """The launches of a program: what it says, for some seeds others that must not change a
    bit, and those of the modes. Debug mode reports integers that wrap (`overflow`): such a program also runs without that check."""
    yield Launch(program.options)
    if "checked" in modes and target == "cpu":
        yield Launch({**program.options, "checked": True})
    stops = target != "cuda" or not observed.failing     # on a GPU an assertion that fails takes the process along
    if "debug" in modes:
        if stops and (overflow == NEVER or target == "cpu"):
            yield Launch({**program.options, "debug": True}, overflow, True)
    if "debug" in modes and overflow != NEVER or "debug" not in modes and any(isinstance(s, Check) for s in statements_of(program)):
        if stops:
            yield Launch({**program.options, "debug": True, "sanitize_overflow": False}, NEVER, True)
    if not variants:
        return
    if target == "cpu" and program.seed % 6 == 0:
        yield Launch({**program.options, "features": ("avx2", "baseline", "avx512")[program.seed // 6 % (3 if _has_avx512() else 2)]})
    if target == "cuda" and program.seed % 4 == 0:
        yield Launch({**program.options, "num_warps": 8 if program.options["num_warps"] < 4 else 2})
    if target == "cuda" and program.seed % 4 == 1:
        yield Launch({**program.options, "num_stages": 1 + program.options["num_stages"] % 4})


def _has_avx512():
    try:
        return "avx512f" in pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
