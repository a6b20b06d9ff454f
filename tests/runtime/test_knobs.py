"""`triton.knobs`: values, the environment, groups, hooks, and what the knobs do."""

import os
import subprocess
import sys
from pathlib import Path

import nereid
import nereid.language as tl
import numpy as np
import pytest
from nereid import knobs

GROUPS = ["build", "redis", "cache", "compilation", "autotuning", "runtime", "language", "nvidia", "amd", "proton", "nereid"]


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    """Every test starts and ends with groups of its own and without variables."""
    saved = {name: getattr(knobs, name) for name in GROUPS}
    environment = dict(os.environ)
    for name, group in saved.items():
        setattr(knobs, name, group.copy().reset())
        for knob in group.knob_descriptors.values():
            if knob.key != "NEREID_TARGET":
                os.environ.pop(knob.key, None)
                if knob.setting != "NEREID_TARGET":
                    os.environ.pop(knob.setting, None)
    yield
    for name, group in saved.items():
        setattr(knobs, name, group)
    os.environ.clear()
    os.environ.update(environment)
    knobs.propagate_env = True
    knobs.refresh_knobs()


def store_one():

    @nereid.jit
    def kernel(out):
        tl.store(out, 1)

    return kernel


@pytest.mark.parametrize("text, value", [("1", True), ("true", True), ("ON", True), ("y", True), ("Yes", True), ("0", False),
                                         ("", False), ("2", False), ("no", False)])
def test_a_bool_of_the_environment(text, value):
    os.environ["TRITON_KERNEL_DUMP"] = text
    assert knobs.compilation.dump_ir is value


def test_given_values_go_before_the_environment_and_into_it():
    group = knobs.compilation
    group.dump_ir = True
    assert os.environ["TRITON_KERNEL_DUMP"] == "1"
    os.environ["TRITON_KERNEL_DUMP"] = "0"
    assert group.dump_ir is True
    del group.dump_ir
    assert group.dump_ir is False
    group.dump_ir = True
    os.environ["TRITON_KERNEL_DUMP"] = "0"
    group.dump_ir = knobs.env
    assert group.dump_ir is False
    knobs.language.fp32_default = None
    assert "TRITON_F32_DEFAULT" not in os.environ and knobs.language.fp32_default is None


@pytest.mark.parametrize("before", [None, "3.7"])
@pytest.mark.parametrize("take_away", [lambda group: delattr(group, "triton_version"), lambda group: setattr(group, "triton_version", knobs.env), lambda group: group.reset()])
def test_a_value_that_is_taken_away_leaves_the_environment_as_it_was(before, take_away, monkeypatch):
    """The variable of a knob in the group `nereid` is the library's own: it would go on to count."""
    monkeypatch.delenv("NEREID_TRITON_VERSION", raising=False)
    if before is not None:
        monkeypatch.setenv("NEREID_TRITON_VERSION", before)
    group = knobs.nereid
    group.triton_version = "3.8"
    group.triton_version = "3.9"
    with pytest.raises(ValueError, match="expects a release of Triton"):
        group.triton_version = "newest"
    assert os.environ["NEREID_TRITON_VERSION"] == "3.9"
    take_away(group)
    assert os.environ.get("NEREID_TRITON_VERSION") == before and group.triton_version == (before or "")
    with pytest.raises(ValueError, match="expects a release of Triton"):
        group.triton_version = "newest"
    assert os.environ.get("NEREID_TRITON_VERSION") == before
    group.triton_version = "3.9"
    monkeypatch.setenv("NEREID_TRITON_VERSION", "3.6")  # by the program itself: that stays
    take_away(group)
    assert os.environ["NEREID_TRITON_VERSION"] == "3.6"


def test_without_propagation_the_environment_stays():
    knobs.propagate_env = False
    knobs.compilation.dump_ir = True
    assert "TRITON_KERNEL_DUMP" not in os.environ and knobs.compilation.dump_ir


def test_copy_reset_scope_and_knobs():
    group = knobs.cache
    group.dir = "/somewhere"
    copy = group.copy()
    copy.dir = "/elsewhere"
    assert group.dir == "/somewhere" and copy.reset() is copy and copy.__dict__ == {}
    with group.scope():
        group.dir = "/inside"
        group.dump_dir = "/dumps"
        assert os.environ["TRITON_DUMP_DIR"] == "/dumps"
    assert group.dir == "/somewhere" and "TRITON_DUMP_DIR" not in os.environ
    assert os.environ["TRITON_CACHE_DIR"] == "/elsewhere"  # as before the context
    assert set(group.knobs) == {"home_dir", "dump_dir", "override_dir", "dir", "manager_class", "remote_manager_class"}


def test_folders_below_the_home_folder():
    os.environ["TRITON_HOME"] = "/home/someone"
    assert knobs.cache.dir == "/home/someone/.triton/cache"
    assert knobs.cache.dump_dir == "/home/someone/.triton/dump"
    assert knobs.cache.get_triton_dir("x") == "/home/someone/.triton/x"


def test_pytorchs_folder_counts_before_the_library(monkeypatch):
    """PyTorch sets TRITON_CACHE_DIR where it collects the files of kernels, whatever a user's NEREID_CACHE_DIR is."""
    monkeypatch.setenv("NEREID_CACHE_DIR", "/mine")
    assert knobs.cache.dir == "/mine"
    monkeypatch.setenv("TRITON_CACHE_DIR", "/of/pytorch")
    assert knobs.cache.dir == "/of/pytorch"


def test_numbers_and_classes():
    assert knobs.redis.port == 6379
    os.environ["TRITON_REDIS_PORT"] = "abc"
    with pytest.raises(RuntimeError, match="Unable to use TRITON_REDIS_PORT=abc: expected int"):
        knobs.redis.port
    os.environ["TRITON_CACHE_MANAGER"] = "os.abc"
    with pytest.raises(RuntimeError, match="Unable to read TRITON_CACHE_MANAGER: 'os.abc' isn't of the form MODULE:CLASS"):
        knobs.cache.manager_class
    os.environ["TRITON_CACHE_MANAGER"] = "pathlib:Path"
    with pytest.raises(RuntimeError, match="Unable to use 'pathlib:Path' from TRITON_CACHE_MANAGER: not of type 'CacheManager'"):
        knobs.cache.manager_class


def test_programs(tmp_path):
    fake = tmp_path / "ptxas"
    fake.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.3, V12.3.1'\n")
    fake.chmod(0o755)
    os.environ["TRITON_PTXAS_PATH"] = str(fake)
    assert knobs.nvidia.ptxas == knobs.NvidiaTool(str(fake), "12.3")
    fake.unlink()
    os.environ.update(NEREID_CUDA_PATH="", PATH=str(tmp_path))
    if not knobs.nvidia_knobs.ptxas.default_path:
        with pytest.raises(RuntimeError, match="Cannot find ptxas"):
            knobs.nvidia.ptxas


def test_hook_chains():
    calls = []
    first, second = (lambda x, i=i: calls.append((i, x)) for i in range(2))
    for backwards in (False, True):
        chain = knobs.HookChain(reversed=backwards)
        chain.add(first)
        chain.add(second)
        chain.add(first)
        chain("a")
        chain.remove(first)
        chain.remove(first)
        chain("b")
    assert calls == [(0, "a"), (1, "a"), (1, "b"), (1, "a"), (0, "a"), (1, "b")]


def test_watchers_hear_of_hooks_and_knobs():
    heard = []
    watcher = lambda: heard.append(len(knobs.runtime.launch_enter_hook.calls))
    knobs._watch(watcher)
    try:
        knobs.runtime.launch_enter_hook.add(print)
        knobs.runtime.debug = True
    finally:
        knobs.runtime.launch_enter_hook.remove(print)
        knobs._watchers.remove(watcher)
    assert heard == [0, 1, 1, 0]


def test_values_reach_the_compiler(capfd):
    kernel = store_one()
    out = np.zeros(1, np.int32)
    with knobs.nereid.scope():
        knobs.nereid.time = True
        kernel[(1, )](out)
        assert "compilation of kernel" in capfd.readouterr().err
    store_one()[(1, )](out)
    assert capfd.readouterr().err == ""


def test_the_environment_is_read_when_a_kernel_is_compiled(capfd):
    out = np.zeros(1, np.int32)
    store_one()[(1, )](out)
    os.environ["NEREID_TIME"] = "1"
    store_one()[(1, )](out)
    assert "compilation of kernel" in capfd.readouterr().err


def test_settings_that_decide_the_code_make_other_kernels():

    @nereid.jit
    def kernel(out, a, b):
        tl.store(out, tl.load(a) * tl.load(b) + 1.0)

    def compiled():
        return kernel.warmup(*(nereid.MockTensor(tl.float32), ) * 3, grid=(1, ))

    first = compiled()
    assert compiled() is first
    knobs.language.default_fp_fusion = False
    assert compiled() is not first and not compiled().metadata.options["enable_fp_fusion"]
    os.environ.pop("TRITON_DEFAULT_FP_FUSION")
    del knobs.language.default_fp_fusion
    assert compiled() is first


def test_a_wrong_value_of_a_setting():
    with pytest.raises(ValueError, match="setting `NEREID_CPU_THREADS` expects an integer of at least 0, found `many`"):
        knobs.nereid.cpu_threads = "many"


@pytest.mark.parametrize("name, value, allowed", [
    ("NEREID_STRICT", "2", "`0` or `1`"),
    ("NEREID_CPU_THREADS", "many", "an integer of at least 0"),
    ("NEREID_TUNING_BUDGET", "-1", "an integer of at least 0"),
    ("NEREID_PERSISTENT_PRODUCTS", "wrong", "`asked`, `always` or `never`"),
    ("NEREID_PERSISTENT_ATTENTION", "wrong", "`measured`, `always` or `never`"),
    ("NEREID_F32_DEFAULT", "fp8", "`ieee`, `tf32`, `tf32x3`, `bf16x3` or `bf16x6`"),
    ("NEREID_TRITON_VERSION", "newest", "a release of Triton such as `3.8`"),
])
def test_a_wrong_value_in_the_environment_ends_the_first_use(name, value, allowed):
    message = f"setting `{name}` expects {allowed}, found `{value}`"
    kernel, out = store_one(), np.zeros(1, np.int32)
    kernel[(1, )](out)
    os.environ[name] = value
    with pytest.raises(ValueError, match=message):
        getattr(knobs.nereid, name[7:].lower())
    with pytest.raises(ValueError, match=message):  # also of a kernel that is compiled already
        kernel[(1, )](out)
    with pytest.raises(ValueError, match=message):
        store_one().warmup(nereid.MockTensor(tl.int32), grid=(1, ))
    del os.environ[name]
    kernel[(1, )](out)


@pytest.mark.parametrize("name", ["NEREID_STRICT", "NEREID_SPLIT_PRODUCTS", "NEREID_AS_TRITON", "NEREID_INTERPRET"])
def test_a_wrong_value_ends_a_program(name, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import nereid, numpy
import nereid.language as tl

@nereid.jit
def kernel(out):
    tl.store(out, 1)

kernel[(1, )](numpy.zeros(1, numpy.int32))
print("went on")
""")
    done = subprocess.run([sys.executable, script], env={**os.environ, "PYTHONPATH": str(Path(nereid.__file__).parents[1]), name: "wrong"}, capture_output=True, text=True)
    assert done.returncode == 1 and not done.stdout and f"setting `{name}` expects `" in done.stderr, done


def test_debug():

    @nereid.jit
    def kernel(out):
        tl.device_assert(tl.load(out) == 7, "not seven")

    kernel[(1, )](np.zeros(1, np.int32))
    knobs.runtime.debug = True
    with pytest.raises(RuntimeError, match="not seven"):
        kernel[(1, )](np.zeros(1, np.int32))


FAILING = """
import sys
import nereid, torch
import nereid.language as tl
from nereid import knobs

@nereid.jit
def kernel(out):
    tl.device_assert(tl.load(out) == 7, "not seven")

def run():
    kernel[(1, )](torch.zeros(1, dtype=torch.int32, device=sys.argv[1]))
    if sys.argv[1] == "cuda":
        torch.cuda.synchronize()

run()
knobs.runtime.debug = True
try:
    run()
except Exception as error:
    print(type(error).__name__, error, file=sys.stderr)
    sys.exit(3)
"""


def test_debug_where_the_device_is_lost_by_it(target, tmp_path):
    """A failed assertion ends the CUDA context, so a process of its own has it."""
    program = tmp_path / "failing.py"
    program.write_text(FAILING)
    done = subprocess.run([sys.executable, program, target], capture_output=True, text=True, env={**os.environ, "NEREID_TARGET": target})
    assert done.returncode == 3 and "not seven" in done.stderr, done.stderr


def test_dump(tmp_path):
    knobs.cache.dump_dir = tmp_path
    knobs.compilation.dump_ir = True
    compiled = store_one()[(1, )](np.zeros(1, np.int32))
    files = sorted(path.name for path in (tmp_path / compiled.hash).iterdir())
    assert files == ["kernel.asm", "kernel.llir", "kernel.loops", "kernel.o", "kernel.tile"]


def test_a_dump_that_fails(tmp_path):
    """A full disk is an error of the launch, not the end of the process."""
    (tmp_path / "kernel.tile").symlink_to("/dev/full")
    os.environ["NEREID_DUMP_DIR"] = str(tmp_path)
    with pytest.raises(RuntimeError, match=f"cannot write `{tmp_path}/kernel.tile`: No space left on device"):
        store_one()[(1, )](np.zeros(1, np.int32))


@pytest.mark.parametrize("variable, text", [("LLVM_IR_ENABLE_DUMP", "LLVM IR of kernel before optimisation"),
                                            ("MLIR_ENABLE_DUMP", "IR Dump Before")])
def test_printing_of_programs(variable, text, capfd):
    for value, printed in (("1", True), ("kernel", True), ("other", False)):
        os.environ[variable] = value
        store_one()[(1, )](np.zeros(1, np.int32))
        assert (text in capfd.readouterr().err) == printed


def test_without_llvm_optimisations():
    def made():

        @nereid.jit
        def kernel(x, y, N: tl.constexpr):
            v = tl.load(x + tl.arange(0, N))
            tl.store(y + tl.arange(0, N), tl.exp(v) * v + tl.cumsum(v))

        return kernel

    x, code = np.linspace(-1, 1, 64, dtype=np.float32), []
    for without in ("1", "0"):
        os.environ["DISABLE_LLVM_OPT"] = without
        y = np.zeros_like(x)
        compiled = made()[(1, )](x, y, 64)
        np.testing.assert_allclose(y, np.exp(x) * x + np.cumsum(x), rtol=1e-5, atol=1e-5)
        code.append((compiled.asm["llir"], compiled.asm["asm"]))
    (llir, assembly), (optimised_llir, optimised_assembly) = code
    assert llir != optimised_llir
    assert assembly.count("sp") > optimised_assembly.count("sp") + 10  # the code generator for CPUs leaves its own out, too: registers are spilled


def test_override_arch():
    knobs.runtime.override_arch = "sm80"
    compiled = store_one().warmup(nereid.MockTensor(tl.int32), grid=(1, ), target="cuda")
    assert compiled.metadata.target.arch == 80 and ".target sm_80" in compiled.asm["ptx"]
    knobs.runtime.override_arch = "fast"
    with pytest.raises(ValueError, match="setting `NEREID_OVERRIDE_ARCH` expects an architecture like `sm80`, found `fast`"):
        store_one().warmup(nereid.MockTensor(tl.int32), grid=(1, ), target="cuda")


def test_line_info():
    def ptx():
        return store_one().warmup(nereid.MockTensor(tl.int32), grid=(1, ), target="cuda:90").asm["ptx"]

    assert "\t.loc" in ptx()
    knobs.compilation.disable_line_info = True
    assert "\t.loc" not in ptx()


def test_the_table_of_the_documentation():
    root = Path(__file__).parents[2]
    made = subprocess.run([sys.executable, root / "scripts" / "knobs_table.py"], capture_output=True, text=True, check=True)
    assert made.stdout == (root / "docs" / "reference" / "knobs.md").read_text(), "run scripts/knobs_table.py > docs/reference/knobs.md"


def test_every_knob_says_what_it_does():
    for name in GROUPS:
        for knob in getattr(knobs, name).knob_descriptors.values():
            assert bool(knob.effect) != bool(knob.ignored), (name, knob.name)
