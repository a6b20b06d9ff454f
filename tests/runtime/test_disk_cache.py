"""Kernels on disk: what is a hit, and above all what is none."""

import importlib.util
import json
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import textwrap

import nereid
import nereid.language as tl
import numpy as np
import pytest
from nereid import _native, knobs
from nereid.backends.compiler import GPUTarget
from nereid.compiler import ASTSource, compile
from nereid.runtime.cache import triton_key
from nereid.runtime.jit import MockTensor

HEAD = """
import nereid
import nereid.language as tl

"""
ADD = HEAD + """
@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache's folder, empty."""
    monkeypatch.setenv("NEREID_CACHE", "1")
    monkeypatch.setenv("NEREID_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A module made of a text, as another process or an edited file would have it."""
    def make(text, file="module.py"):
        path = tmp_path / file
        path.write_text(textwrap.dedent(text))
        spec = importlib.util.spec_from_file_location("disk_cache_module", path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return make


def files(folder):
    assert nereid.flush_cache()
    return set(path for path in folder.glob("*/*") if not path.name.startswith(".")) if folder.exists() else set()


def run(kernel, *more, n=64, **options):
    """What the kernel makes of 0, 1, 2... and whether it came from disk."""
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, dtype=np.float32)
    kernel._clear_cache()
    compiled = kernel[(1, )](x, y, n, *more, **{"B": 64, **options})
    return y[5], list(compiled.times) == ["kernel cache"]


def test_a_kernel_comes_from_disk(folder, load):
    assert run(load(ADD).kernel) == (6, False)
    before = files(folder)
    assert run(load(ADD).kernel) == (6, True)
    assert files(folder) == before
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_in_another_process(folder, load, tmp_path):
    run(load(ADD).kernel)
    program = tmp_path / "program.py"
    program.write_text(ADD + """
import numpy as np
x, y = np.arange(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
compiled = kernel[(1, )](x, y, 64, B=64)
assert y[5] == 6
print(list(compiled.times))
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout == "['kernel cache']\n"


def test_switched_off(folder, load, monkeypatch):
    monkeypatch.setenv("NEREID_CACHE", "0")
    run(load(ADD).kernel)
    assert not folder.exists()
    monkeypatch.setenv("NEREID_CACHE", "1")
    run(load(ADD).kernel)
    monkeypatch.setenv("NEREID_ALWAYS_COMPILE", "1")
    assert run(load(ADD).kernel) == (6, False)


@pytest.mark.parametrize("edit", [("+ 1,", "+ 2,"), ("i < n)", "i <= n)"), ("B: tl.constexpr", "B: tl.constexpr = 64")])
def test_another_text(folder, load, edit):
    run(load(ADD).kernel)
    assert ADD.replace(*edit) != ADD
    assert not run(load(ADD.replace(*edit)).kernel)[1]
    assert run(load(ADD).kernel) == (6, True)


def test_moving_a_kernel(folder, load):
    """Code that names no lines stays good where the text stands elsewhere; an assertion names its line."""
    run(load(ADD).kernel)
    assert run(load("# a comment\n\n" + ADD, "elsewhere.py").kernel) == (6, True)
    asserting = ADD.replace("    tl.store", "    tl.device_assert(n < 1000, 'too many')\n    tl.store")
    run(load(asserting).kernel, debug=True)
    moved = load("\n\n\n" + asserting)
    assert not run(moved.kernel, debug=True)[1]
    x = np.zeros(2000, dtype=np.float32)
    with pytest.raises(Exception, match="too many") as caught:
        moved.kernel[(1, )](x, x, 2000, B=64, debug=True)
    line = moved.__loader__.get_data(moved.__file__).decode().split("\n").index("    tl.device_assert(n < 1000, 'too many')") + 1
    assert f":{line}:" in str(caught.value)


def test_specialisations_and_options(folder, load):
    kernel = load(ADD).kernel
    run(kernel)
    seen = files(folder)
    for options in ({"n": 63}, {"B": 128}, {"debug": True}, {"enable_fp_fusion": False}, {"features": "baseline"}):
        assert not run(kernel, **options)[1], options
        assert files(folder) > seen
        seen = files(folder)
        assert run(kernel, **options)[1], options
    # What concerns GPUs or a launch alone does not make another kernel.
    for options in ({"num_warps": 8}, {"num_stages": 2}, {"num_threads": 2}):
        assert run(kernel, **options)[1], options


def test_settings_that_decide_what_code_comes_out(folder, load, monkeypatch):
    run(load(ADD).kernel)
    monkeypatch.setenv("NEREID_LLVM_OPT", "0")
    assert not run(load(ADD).kernel)[1]
    assert run(load(ADD).kernel)[1]


GLOBAL = HEAD + """
SCALE = tl.constexpr({0})

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) * SCALE)
"""


def test_constants_of_the_module(folder, load):
    assert run(load(GLOBAL.format(2)).kernel) == (10, False)
    assert run(load(GLOBAL.format(3)).kernel) == (15, False)
    assert run(load(GLOBAL.format(2)).kernel) == (10, True)
    assert run(load(GLOBAL.format(3)).kernel) == (15, True)
    assert run(load(GLOBAL.format(2.0)).kernel) == (10, False), "2 is not 2.0"
    assert run(load(GLOBAL.format("True")).kernel) == (5, False), "nor is 1 True"


def test_constants_decide_what_is_asked_next(folder, load):
    text = HEAD + """
WHICH, A, B2, UNUSED = tl.constexpr({0}), tl.constexpr({1}), tl.constexpr({2}), {3}

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    if WHICH == 0:
        tl.store(y + i, tl.load(x + i) * A)
    else:
        tl.store(y + i, tl.load(x + i) * B2)
"""
    def take(*values):
        return run(load(text.format(*values)).kernel)

    assert take(0, 2, 3, 0) == (10, False)
    assert take(1, 2, 3, 0) == (15, False)
    assert take(0, 2, 4, 0) == (10, True), "B2 was not read"
    assert take(1, 5, 3, 0)[0] == 15
    assert take(1, 2, 4, 0) == (20, False)
    assert take(1, 2, 4, 1) == (20, True)
    assert take(0, 2, 3, 7) == (10, True)
    for which in 0, 1:
        for a in 2, 3:
            for b in 4, 5:
                for _ in range(2):
                    assert take(which, a, b, 0)[0] == 5 * (b if which else a)
                assert take(which, a, b, 0)[1]


def test_what_a_kernel_on_disk_would_have_read_does_not_count(folder, load):
    """Asking for a constant on behalf of another kernel must not make it one that may not change."""
    text = HEAD + """
WHICH, A = tl.constexpr({0}), tl.constexpr(2)

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    if WHICH == 0:
        tl.store(y + i, tl.load(x + i) * A)
    else:
        tl.store(y + i, tl.load(x + i))
"""
    run(load(text.format(0)).kernel)
    module = load(text.format(1))
    assert run(module.kernel) == (5, False)
    module.A = tl.constexpr(3)
    x = np.zeros(64, dtype=np.float32)
    module.kernel[(1, )](x, x, 64, B=64)  # A has changed, and it does not matter
    # What does count is checked after a hit as well.
    module = load(text.format(0))
    assert run(module.kernel) == (10, True)
    module.A = tl.constexpr(3)
    with pytest.raises(RuntimeError, match="Global variable A has changed"):
        module.kernel[(1, )](x, x, 64, B=64)


CALLEE = HEAD + """
FACTOR = tl.constexpr({1})

@nereid.jit
def inner(x):
    return {0}

@nereid.jit
def outer(x):
    return inner(x)

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, outer(tl.load(x + i)))
"""


def test_functions_that_are_called(folder, load):
    assert run(load(CALLEE.format("x + 1", 2)).kernel) == (6, False)
    assert run(load(CALLEE.format("x + 2", 2)).kernel) == (7, False)
    assert run(load(CALLEE.format("x + 1", 3)).kernel) == (6, True), "FACTOR is not read"
    assert run(load(CALLEE.format("x * FACTOR", 2)).kernel) == (10, False)
    assert run(load(CALLEE.format("x * FACTOR", 3)).kernel) == (15, False)
    assert run(load(CALLEE.format("x * FACTOR", 2)).kernel) == (10, True)


def test_functions_by_another_name(folder, load):
    text = HEAD + """
@nereid.jit
def a(x):
    return x + 1

@nereid.jit
def b(x):
    return x + 2

f, g = {0}, {1}

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, f(g(tl.load(x + i))))
"""
    expected = {("a", "a"): 7, ("a", "b"): 8, ("b", "a"): 8, ("b", "b"): 9}
    for names, result in expected.items():
        assert run(load(text.format(*names)).kernel) == (result, False)
    for names, result in expected.items():
        assert run(load(text.format(*names)).kernel) == (result, True)


def test_a_function_as_an_argument(folder, load):
    text = HEAD + """
@nereid.jit
def f(x):
    return x + {0}

@nereid.jit
def kernel(x, y, n, f: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, f(tl.load(x + i)))
"""
    for value, hit in (1, False), (2, False), (1, True):
        module = load(text.format(value))
        assert run(module.kernel, module.f) == (5 + value, hit)


def test_closures(folder, load):
    text = HEAD + """
def make(value):
    value = tl.constexpr(value)

    @nereid.jit
    def kernel(x, y, n, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(y + i, tl.load(x + i) + value)

    return kernel
"""
    module = load(text)
    assert [run(module.make(value)) for value in (1, 2, 1)] == [(6, False), (7, False), (6, True)]


def test_members_of_modules(folder, load):
    other = load("import nereid.language as tl\nVALUE = tl.constexpr(1)\n")
    sys.modules["disk_cache_other"] = other
    try:
        module = load(HEAD + """
import disk_cache_other as other

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) + other.VALUE)
""")
        assert run(module.kernel) == (6, False)
        assert run(module.kernel) == (6, True)
        other.VALUE = tl.constexpr(2)
        assert run(module.kernel) == (7, False)
        assert run(module.kernel) == (7, True)
    finally:
        del sys.modules["disk_cache_other"]


def test_constexpr_functions(folder, load):
    text = HEAD + """
TABLE = {{4: {1}}}

@nereid.constexpr_function
def f(n):
    return TABLE[4] + {0} * n

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) + f(B))
"""
    assert run(load(text.format(1, 0)).kernel) == (69, False)
    assert run(load(text.format(2, 0)).kernel) == (133, False)
    assert run(load(text.format(1, 1)).kernel) == (70, False), "what the function reads has changed"
    assert run(load(text.format(1, 0)).kernel) == (69, True)
    assert run(load(text.format("(lambda: 1)()", 0)).kernel) == (69, True), "another text, the same result"


def test_enumerations_and_objects(folder, load):
    text = HEAD + """
import enum

class Kind(enum.Enum):
    A = {0}

class Settings:
    shift = {1}

@nereid.jit
def kernel(x, y, n, B: tl.constexpr, settings: tl.constexpr = Settings()):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i) + settings.shift)
"""
    for shift, hit in (1, False), (2, False), (1, True):
        assert run(load(text.format(0, shift)).kernel) == (5 + shift, hit)


def test_damaged_entries_are_compiled_again(folder, load):
    run(load(CALLEE.format("x * FACTOR", 2)).kernel)
    good = {path: path.read_bytes() for path in files(folder)}
    assert len(good) == 2
    rng = random.Random(1)
    for path, content in good.items():
        for damage in range(12):
            bad = bytearray(content)
            if damage < 6:
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            elif damage < 9:
                del bad[rng.randrange(len(bad)):]
            else:
                bad = [b"", bytes(len(content)), rng.choice(list(good.values()))[:-1]][damage - 9]
            path.write_bytes(bytes(bad))
            assert run(load(CALLEE.format("x * FACTOR", 2)).kernel) == (10, False)
            assert {path: path.read_bytes() for path in files(folder)} == good
    assert run(load(CALLEE.format("x * FACTOR", 2)).kernel) == (10, True)


def test_swapped_entries(folder, load):
    run(load(ADD).kernel)
    one = files(folder)
    run(load(ADD.replace("+ 1", "+ 2")).kernel)
    other = [path for path in files(folder) if path not in one]
    for a in sorted(one):
        for b in other:
            first, second = a.read_bytes(), b.read_bytes()
            a.write_bytes(second), b.write_bytes(first)
            assert run(load(ADD).kernel)[0] == 6
            assert run(load(ADD.replace("+ 1", "+ 2")).kernel)[0] == 7
            a.write_bytes(first), b.write_bytes(second)


def test_a_folder_that_others_can_write_to(folder, load, tmp_path):
    run(load(ADD).kernel)
    folder.chmod(0o770)
    program = tmp_path / "program.py"
    program.write_text(ADD + """
import numpy as np
x, y = np.arange(64, dtype=np.float32), np.zeros(64, dtype=np.float32)
print("kernel cache" in kernel[(1, )](x, y, 64, B=64).times, "kernel cache" in kernel[(1, )](x, y, 63, B=64).times)
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
    assert done.stderr.count("must belong to this user and be closed to others (mode 0700)") == 1


def test_no_place_at_all(load, tmp_path, monkeypatch):
    monkeypatch.setenv("NEREID_CACHE", "1")
    for variable in ("NEREID_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert run(load(ADD).kernel) == (6, False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    run(load(ADD).kernel)
    assert run(load(ADD).kernel) == (6, True)
    assert (tmp_path / "xdg" / "nereid" / "kernels").is_dir()


def test_gpu_kernels(folder, load):
    """Without a GPU: the stages, and what a launch needs to know."""
    def compile():
        return load(ADD).kernel.warmup(MockTensor(tl.float32), MockTensor(tl.float32), 64, B=64, grid=(1, ), target="cuda:90")

    fresh, kept = compile(), compile()
    assert list(kept.times) == ["kernel cache"] != list(fresh.times)
    for stage in "ptx", "ttir", "ttgir", "llir":
        assert kept.asm[stage] == fresh.asm[stage], stage
    # The place of the function is part of PTX's line table.
    assert kept.metadata == fresh.metadata
    assert kept.packed_metadata == fresh.packed_metadata


def test_stages_are_made_again(folder, load):
    fresh, kept = [load(ADD).kernel.warmup(np.zeros(64, np.float32), np.zeros(64, np.float32), 64, B=64, grid=(1, )) for _ in range(2)]
    assert list(kept.times) == ["kernel cache"]
    for stage in fresh.asm:
        assert kept.asm[stage] == fresh.asm[stage], stage
    assert kept.metadata == fresh.metadata


BUILTIN = HEAD + """
import math
import os

from nereid.language import core

STEP = {0}

class Table:
    def __init__(self, value):
        self.value = value

TABLE = Table({1})

def local():
    import time
    return time.time()

def helper(x, _semantic):
    return tl.add(x, {2} + TABLE.value, _semantic=_semantic)

@core.builtin
def f(x, _semantic=None):
    return helper(tl.mul(x, STEP, _semantic=_semantic), _semantic) {3}

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, f(tl.load(x + i)))
"""


def test_builtins_of_the_user(folder, load):
    first = (2, 0, 1, "")
    assert run(load(BUILTIN.format(*first)).kernel) == (11, False)
    assert run(load(BUILTIN.format(*first)).kernel) == (11, True)
    for values, result in (((3, 0, 1, ""), 16), ((2, 1, 1, ""), 12), ((2, 0, 2, ""), 12), ((2, 0, 1, "if x is not None else None"), 11)):
        assert run(load(BUILTIN.format(*values)).kernel) == (result, False), values
        assert run(load(BUILTIN.format(*values)).kernel) == (result, True), values
    assert run(load(BUILTIN.format(*first)).kernel) == (11, True)


@pytest.mark.parametrize("reads", ["os.environ.get('STEP', '')", "os.getenv('STEP')", "open('/dev/null').read()", "np.float32(1)",
                                   "__import__('os').getpid()", "local()", "nereid.knobs.nereid.strict",
                                   "nereid.runtime.driver.active.get_current_device()"])
def test_builtins_that_read_what_cannot_be_told(folder, load, reads):
    module = BUILTIN.format(2, 0, 1, f"if ({reads}, 1) else None").replace("import math", "import math, numpy as np")
    assert run(load(module).kernel) == (11, False)
    assert files(folder) == set()


def test_objects_that_builtins_get(folder, load):
    text = HEAD + """
from nereid.language import core

class Settings:
    def __init__(self, shift):
        self.shift = shift

@core.builtin
def f(x, settings, _semantic=None):
    return tl.add(x, settings.value.shift if isinstance(settings, tl.constexpr) else settings.shift, _semantic=_semantic)

SETTINGS = tl.constexpr(Settings({0}))

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, f(tl.load(x + i), SETTINGS))
"""
    for shift, hit in (1, False), (2, False), (1, True), (2, True):
        assert run(load(text.format(shift)).kernel) == (5 + shift, hit)


def test_classes_of_values(folder, load):
    text = HEAD + """
@nereid.language.core._aggregate
class Pair:
    a: tl.tensor
    b: tl.constexpr

    def __init__(self, a, b):
        self.a = a
        self.b = tl.constexpr(b.value + {0})

    @nereid.jit
    def sum(self):
        return self.a + self.b + {1}

@nereid.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    pair = Pair(tl.load(x + i), 1)
    tl.store(y + i, pair.sum())
"""
    for values in ((0, 0), (1, 0), (0, 1)):
        assert run(load(text.format(*values)).kernel) == (6 + sum(values), False)
    for values in ((0, 0), (1, 0), (0, 1)):
        assert run(load(text.format(*values)).kernel)[0] == 6 + sum(values)


def compile_for_gpu(module, **options):
    module.kernel._clear_cache()
    source = ASTSource(module.kernel, {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}, {"B": 64})
    return compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def test_the_listener_hears_where_a_kernel_came_from(folder, load):
    heard = []
    knobs.compilation.listener = lambda **about: heard.append((about["cache_hit"], about["metadata"]["name"], about["times"].total > 0))
    try:
        compile_for_gpu(load(ADD))
        compile_for_gpu(load(ADD))
        run(load(ADD).kernel)
        run(load(ADD).kernel)
    finally:
        knobs.compilation.listener = None
    assert heard == [(False, "kernel", True), (True, "kernel", True), (False, "kernel", True), (True, "kernel", True)]


def test_triton_s_layout(folder, load, monkeypatch):
    """What PyTorch's launcher of cubins looks for is written for kernels from disk as well, once."""
    first = compile_for_gpu(load(ADD))
    if not first.metadata_group:
        pytest.skip("there is no assembler")
    place = pathlib.Path(first.metadata_group["kernel.json"]).parent
    assert sorted(path.name for path in place.iterdir()) == ["__grp__kernel.json", "kernel.cubin", "kernel.json", "kernel.ptx"]
    shutil.rmtree(place)
    again = compile_for_gpu(load(ADD))
    assert list(again.times) == ["kernel cache"] and again.hash == first.hash
    assert (place / "kernel.cubin").read_bytes() == again.asm["cubin"]
    assert (place / "kernel.ptx").read_text() == first.asm["ptx"]
    assert json.loads((place / "kernel.json").read_text())["name"] == "kernel"
    before = {path: path.stat().st_mtime_ns for path in place.iterdir()}
    assert compile_for_gpu(load(ADD)).metadata_group == again.metadata_group
    assert {path: path.stat().st_mtime_ns for path in place.iterdir()} == before
    monkeypatch.setenv("TRITON_STORE_BINARY_ONLY", "1")
    (place / "kernel.json").unlink()
    (place / "kernel.ptx").unlink()
    compile_for_gpu(load(ADD))
    assert sorted(path.name for path in place.iterdir()) == ["__grp__kernel.json", "kernel.cubin", "kernel.json"]


def test_compilers_have_a_key():
    key = triton_key()
    assert key.startswith("nereid-") and key == triton_key()
    assert _native.library()["build"] in key and len(_native.library()["build"]) >= 16


# ---- entries on their way ------------------------------------------------------------------------------

PROCESS = """
import os, sys
{before}
import numpy as np
sys.path.insert(0, {folder!r})

def compile_them(first, count):
    import nereid
    from kernels import make
    out = np.zeros(16, np.float32)
    for value in range(first, first + count):
        make(value)[(1, )](out, B=16)
        assert out[3] == value

{body}
"""
MAKE = """
import nereid, nereid.language as tl

def make(value):
    VALUE = tl.constexpr(value)

    @nereid.jit
    def kernel(out, B: tl.constexpr):
        tl.store(out + tl.arange(0, B), VALUE * 1.0)

    return kernel
"""


@pytest.fixture
def program(tmp_path, folder):
    """Runs a new process and says what is in the cache then: (kernels, damaged files, temporary files, process)."""
    (tmp_path / "kernels.py").write_text(MAKE)

    def run_program(body, before="import nereid"):
        path = tmp_path / "program.py"
        path.write_text(PROCESS.format(body=textwrap.dedent(body), before=textwrap.dedent(before), folder=str(tmp_path)))
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
        report = json.loads(_native.cache_json(str(folder)))
        return sum(entry["kind"] == "kernel" for entry in report["entries"]), len(report["damaged"]), report["temporary"], done

    return run_program


@pytest.mark.parametrize("end", [
    "", "raise SystemExit(3)", "1 / 0", "nereid.flush_cache(); os._exit(0)", "assert nereid.flush_cache(60) is True; os.kill(os.getpid(), 9)",
    "from nereid import _native; _native.write_cache_at_once(); compile_them(0, 6); os._exit(0)"], ids=["end", "exit", "error", "flushed", "killed", "at once"])
def test_a_process_that_ends_has_written_everything(program, end):
    kernels, damaged, temporary, done = program("compile_them(0, 6)\n" * ("at_once" not in end) + end)
    assert (kernels, damaged, temporary) == (6, 0, 0), done.stderr


def test_a_process_that_is_killed_leaves_no_part_of_an_entry(program):
    kernels, damaged, temporary, _ = program("compile_them(0, 6)\nos.kill(os.getpid(), 9)")
    assert kernels <= 6 and damaged == 0 and temporary <= 16
    # The next one writes what is missing.
    assert program("compile_them(0, 6)")[:2] == (6, 0)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("before", [False, True], ids=["imported by the worker", "imported before"])
def test_workers_of_multiprocessing(program, method, before):
    """They end by `os._exit`."""
    body = f"""
    import multiprocessing
    if __name__ == "__main__":
        {"compile_them(0, 2)" if before else "pass"}
        context = multiprocessing.get_context({method!r})
        workers = [context.Process(target=compile_them, args=(10 * i, 3)) for i in (1, 2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
    """
    kernels, damaged, temporary, done = program(body, "import nereid" if before else "")
    assert done.returncode == 0, done.stderr
    assert (kernels, damaged, temporary) == (8 if before else 6, 0, 0)


def test_a_forked_child_finds_what_was_on_its_way_and_writes_at_once(program):
    kernels, damaged, temporary, done = program("""
    compile_them(0, 3)
    child = os.fork()
    if child == 0:
        from kernels import make
        out = np.zeros(16, np.float32)
        known = make(2)[(1, )](out, B=16)
        compile_them(3, 2)
        os._exit(0 if "kernel cache" in known.times else 7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)
    assert done.returncode == 0, done.stderr
    assert (kernels, damaged, temporary) == (5, 0, 0)


def test_threads_that_compile_while_the_program_ends(program):
    """Daemon threads go on compiling until the interpreter stops them."""
    kernels, damaged, temporary, done = program("""
    import threading, itertools
    compiled = threading.Semaphore(0)

    def compile_on(number):
        for i in itertools.count():
            compile_them(i * 10 + number, 1)
            compiled.release()

    for number in range(3):
        threading.Thread(target=compile_on, args=(number, ), daemon=True).start()
    for _ in range(4):
        compiled.acquire()
    """)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert kernels >= 4 and damaged == 0


def test_a_full_disk_is_told_once(program):
    kernels, _, temporary, done = program("compile_them(0, 5)\nassert nereid.flush_cache()\ncompile_them(0, 5)", """
    import nereid, resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    """)
    assert done.returncode == 0 and kernels == temporary == 0
    assert done.stderr.count("warning:") == 1 and "File too large" in done.stderr, done.stderr
