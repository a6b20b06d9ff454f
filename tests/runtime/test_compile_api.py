"""`triton.compile`, backends and drivers, what compiled kernels and jit functions tell: the interface that other programs build on."""

import copy
import json
import pickle
import re
import subprocess
import sys
import threading

import nereid
import nereid.language as tl
import numpy as np
import pytest
import torch
from nereid import _native
from nereid.backends import backends
from nereid.backends.compiler import BaseBackend, GPUTarget
from nereid.compiler import ASTSource, CompiledKernel, LazyDict, make_backend
from nereid.runtime import driver
from nereid.runtime import jit as jit_module
from nereid.runtime.jit import JITFunction, KernelInterface

FACTOR = tl.constexpr(3)


@nereid.jit
def helper(x):
    return x * FACTOR


@nereid.jit
def scale(x, n, pair, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, helper(tl.load(x + i, mask=i < n)) + pair[0] + pair[1], mask=i < n)


SIGNATURE = {"x": "*fp32", "n": "i32", "pair": ("constexpr", ("fp32")), "BLOCK": "constexpr"}


def compiled(**options):
    source = ASTSource(scale, SIGNATURE, {"BLOCK": 16, (2, 0): 5}, {(0, ): [["tt.divisibility", 16]]})
    return nereid.compile(source, target=GPUTarget("cpu", "native", 0), options=options)


def test_compile_and_run():
    kernel = compiled(num_warps=8)
    x = torch.ones(16)
    kernel.run(1, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, 10, (5, 0.5), 16)
    assert x.tolist() == [8.5] * 10 + [1.0] * 6
    kernel[(1, )](x, 16, (5, 0.5), 16)
    assert x[0] == 31 and x[15] == 8.5


def test_what_a_compiled_kernel_tells():
    kernel = compiled(num_warps=8, enable_fp_fusion=False)
    assert isinstance(kernel, CompiledKernel) and kernel.name == "scale" and kernel.src.fn is scale
    metadata = kernel.metadata
    assert metadata._asdict()["num_warps"] == 8 and metadata.num_stages == 3 and metadata.num_ctas == 1 and metadata.shared == 0
    assert metadata.target == GPUTarget("cpu", "native", 0) and metadata.hash == kernel.hash and metadata.enable_fp_fusion is False
    assert metadata.global_scratch_size == 0 and metadata.profile_scratch_size == 0 and metadata.triton_version
    assert bytes.fromhex(kernel.hash) and kernel.packed_metadata == (8, 1, 0)
    assert {"tile", "llir", "obj"} <= set(kernel.asm) and kernel.asm["source"] == scale.src
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (0, 0, 0) and kernel.launch_metadata((1, ), 0) is None


def test_the_source_of_a_launched_kernel():
    kernel = scale.warmup(torch.float32, 16, (1, 2.5), 16, grid=(1, ))
    assert kernel.src.signature == {"x": "*fp32", "n": "i32", "pair": ("constexpr", "fp32"), "BLOCK": "constexpr"}
    assert kernel.src.constants == {(2, 0): 1, (3, ): 16}
    assert kernel.src.attrs == {(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]}


@pytest.mark.parametrize("signature, constants, error, text", [
    ({"x": "*fp32", "n": "i32", "pair": ("fp32", "fp32")}, {}, ValueError, "`BLOCK` of `scale` needs a value in `constexprs`"),
    ({"x": "*fp33", "n": "i32", "pair": ("fp32", "fp32")}, {"BLOCK": 16}, ValueError, "the signature of `x` expects a type such as"),
])
def test_wrong_sources(signature, constants, error, text):
    with pytest.raises(error, match=text):
        nereid.compile(ASTSource(scale, signature, constants), target=GPUTarget("cpu", "native", 0))


def test_wrong_targets():
    with pytest.raises(TypeError, match="target must be of GPUTarget type"):
        nereid.compile(ASTSource(scale, SIGNATURE, {"BLOCK": 16, (2, 0): 5}), target="cuda")
    with pytest.raises(RuntimeError, match=r"0 compatible backends for target \(mars\)"):
        make_backend(GPUTarget("mars", 1, 1))


def test_compiled_for_another_target():
    source = ASTSource(scale, SIGNATURE, {"BLOCK": 16, (2, 0): 5})
    kernel = nereid.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 2})
    assert ".visible .entry scale" in kernel.asm["ptx"] and kernel.metadata.target == GPUTarget("cuda", 90, 32)
    assert kernel.metadata.num_warps == 2 and kernel.metadata.warp_size == 32 and kernel.metadata.arch == "sm90"


def test_pickled_kernels():
    kernel = compiled()
    again = pickle.loads(pickle.dumps(kernel))
    assert again.hash == kernel.hash and again.metadata.name == "scale"
    x = torch.ones(16)
    again.run(1, 1, 1, 0, None, None, None, None, None, x, 16, (5, 0.0), 16)
    assert x.tolist() == [8.0] * 16 and "tile" in again.asm


def test_stages_can_be_assigned_and_pickled():
    """PyTorch's workers send what a kernel's `__dict__` holds; programs treat `asm` as the dict that it is in Triton."""
    kernel = nereid.compile(ASTSource(scale, SIGNATURE, {"BLOCK": 16, (2, 0): 5}), target=GPUTarget("cuda", 90, 32))
    stages = {name: kernel.asm[name] for name in ("source", "ttir", "ptx")}
    copied = pickle.loads(pickle.dumps(kernel.__dict__["asm"]))
    assert {name: copied[name] for name in stages} == stages and "ptx" in copied and list(copied)[:2] == ["tile", "gpu"]
    with pytest.raises(KeyError, match="no stage 'nonsense': there are tile, gpu, "):
        copied["nonsense"]
    for asm in (kernel.asm, copied):
        length = len(asm)
        asm["ttir"], asm["note"] = "changed", "new"
        assert asm["tile"] == asm["ttir"] == "changed" and kernel.asm is not None and len(asm) == length + 1
        del asm["note"]
        assert "note" not in asm and pickle.loads(pickle.dumps(asm))["tile"] == "changed"
    assert pickle.loads(pickle.dumps(kernel)).asm["ttir"] == "changed"
    assert "asm" not in pickle.loads(pickle.dumps(compiled())).__dict__


# ---- jit functions -------------------------------------------------------------------------------------


wrong = False


@nereid.constexpr_function
def doubled(number):
    if wrong:
        raise ValueError("not this time")
    return 2 * number


@nereid.jit
def with_a_function_of_python(x, BLOCK: tl.constexpr):
    i = tl.arange(0, doubled(BLOCK))
    tl.store(x + i, tl.load(x + i) + 1)


@pytest.mark.parametrize("machine", [GPUTarget("cuda", 90, 32), GPUTarget("cpu", "baseline", 1)], ids=["cuda", "cpu"])
def test_stages_of_kernels_that_call_functions_of_python(machine, monkeypatch):
    """Stages that are not kept are compiled again when they are read, and the functions are called again."""
    make = lambda size: nereid.compile(ASTSource(with_a_function_of_python, {"x": "*fp32"}, {"BLOCK": size}), target=machine)
    kernel = make(16)
    assert "tensor<32x" in kernel.asm["tile"] and all(kernel.asm[name] for name in kernel.asm if name != "cubin")
    assert json.loads(kernel.asm["explain"])["kernel"] == "with_a_function_of_python"
    kernel = make(32)
    monkeypatch.setitem(globals(), "wrong", True)
    for stage in ("tile", "explain"):
        with pytest.raises(RuntimeError, match=f"there is no `{stage}` of `with_a_function_of_python`: (.|\n)*ValueError: not this time"):
            kernel.asm[stage]


def test_what_a_jit_function_tells():
    assert scale.arg_names == ["x", "n", "pair", "BLOCK"] and scale.constexprs == [3] and [p.num for p in scale.params] == [0, 1, 2, 3]
    assert scale.src.startswith("def scale(") and scale._src == scale.src and scale.raw_src[0].startswith("@nereid.jit")
    assert scale.__name__ == "scale" and scale.module == __name__ and scale._fn_name == f"{__name__}.scale" == scale.repr(None)
    assert scale.parse().body[0].name == "scale" and scale.get_capture_scope()["helper"] is helper
    assert not scale.noinline and scale.kernel is None and scale.launch_metadata is None and "BLOCK" in scale.signature.parameters
    with pytest.raises(AttributeError, match="Cannot set attribute 'src' directly"):
        scale.src = "def f(): pass"
    with pytest.raises(RuntimeError, match="Cannot call @triton.jit'd outside of the scope of a kernel"):
        scale(1)


def function_in(tmp_path, monkeypatch, text):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"kernels_{abs(hash((text, str(tmp_path))))}"
    (tmp_path / f"{name}.py").write_text("import nereid\nimport nereid.language as tl\n" + text)
    return __import__(name)


PROGRAM = """
N = tl.constexpr({n})
UNUSED = tl.constexpr({unused})

@nereid.jit
def innermost(x):
    return x + {added}

@nereid.jit
def inner(x):
    return innermost(x) * N

@nereid.jit
def outer(p):
    tl.store(p, inner(tl.load(p)))
"""


def test_cache_key_covers_what_is_called_and_read(tmp_path, monkeypatch):

    def key(**changed):
        values = {"n": 1, "unused": 1, "added": 1, **changed}
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        monkeypatch.setattr(jit_module, "get_full_name", lambda fn: fn.__qualname__)  # the same in every file
        return function_in(folder, monkeypatch, changed.pop("before", "") + PROGRAM.format(**values)).outer.cache_key

    base = key()
    assert key() == base == key(unused=2)
    assert key(n=2) != base and key(added=2) != base and key(before="\n") != base
    module = function_in(tmp_path, monkeypatch, PROGRAM.format(n=7, unused=1, added=1))
    assert module.outer.hash == module.outer.cache_key
    assert [(name, value) for (name, _), (value, _) in module.outer.used_global_vals.items()] == [("N", module.N)]


def test_names_of_kernels():
    seen = []

    def name(specialization):
        seen.append((specialization.signature["x"], specialization.constants))
        return f"scale_{specialization.constants['BLOCK']}"

    kernel = nereid.jit(scale.fn, repr=name)
    x = torch.ones(8)
    first = kernel[(1, )](x, 1, (0, 0.0), 8)
    assert first.name == "scale_8" and first.metadata.name == "scale_8" and "scale_8" in first.asm["tile"]
    assert kernel[(1, )](x, 1, (0, 0.0), 8) is first and seen == [("*fp32", {"n": 1, "BLOCK": 8})]
    assert kernel[(1, )](x, 1, (0, 0.0), 4).name == "scale_4"


def test_caches_of_a_function():
    kernel = nereid.jit(scale.fn)
    assert len(kernel.device_caches) == 0
    x = torch.ones(8)
    launched = [kernel[(1, )](x, n, (0, 0.0), 8) for n in (1, 2, 3)]
    kernels, _, target, backend, binder = kernel.device_caches[0]
    assert len(kernels) == 2 and {kernel.hash for kernel in launched} == set(kernels)
    assert isinstance(target, GPUTarget) and isinstance(backend, BaseBackend)
    assert binder(x, 1, (0, 0.0), 8)[1][1] == ("constexpr", 1)
    kernels.clear()
    assert len(kernel.device_caches[0][0]) == 0


def test_preload_with_local_functions(target):
    """Functions that are local to another one are found among those that were made here, by name and text."""

    def local(k):

        @nereid.jit
        def add(x):
            return x + k

        return add

    @nereid.jit
    def apply(out, FN: tl.constexpr, ALL: tl.constexpr):
        tl.store(out, ALL[0](FN(5)))

    described = []
    nereid.knobs.runtime.jit_post_compile_hook = lambda **about: described.append(about["compile"]["specialization_data"])
    try:
        ONE, TWO = local(tl.constexpr(1)), local(tl.constexpr(2))
        out = torch.zeros(1, dtype=torch.int32, device=target)
        for function in (ONE, TWO):
            apply[(1, )](out, function, (function, 3))
    finally:
        nereid.knobs.runtime.jit_post_compile_hook = None
    assert len(described) == 2 and '"jit_function"' in described[0]
    for function, data, result in ((ONE, described[0], 7), (TWO, described[1], 9)):
        twin = nereid.jit(apply.fn)
        preloaded = twin.preload(data)
        assert twin[(1, )](out, function, (function, 3)) is preloaded and out.item() == result
    with pytest.raises(RuntimeError, match="Unable to resolve JITFunction .*:nobody.<locals>.add for preload: a local function must have been "
                       "defined before, and still be there"):
        nereid.jit(apply.fn).preload(described[0].replace("<locals>.local.<locals>.add", "<locals>.local.<locals>.add").replace(
            "test_preload_with_local_functions.<locals>.local", "nobody"))


def test_preload():
    kernel = nereid.jit(scale.fn)
    data = {"name": kernel._fn_name, "signature": {"x": "*fp32", "n": "i32", "pair": ["constexpr", "fp32"], "BLOCK": "constexpr"},
            "constant_keys": [[3], [2, 0]], "constant_vals": [16, 1], "attrs_keys": [[0]], "attrs_vals": [[["tt.divisibility", 16]]],
            "options": {}, "key": ""}
    preloaded = kernel.preload(json.dumps(data))
    assert kernel[(1, )](torch.ones(16), 9, (1, 2.5), 16) is preloaded
    with pytest.raises(RuntimeError, match="Specialization data is for other but trying to preload for"):
        kernel.preload(json.dumps({**data, "name": "other"}))


def test_copies_and_subclasses():

    class Counting(JITFunction):
        launches = 0

        def run(self, *args, grid, warmup, **kwargs):
            self.launches += 1
            return super().run(*args, grid=grid, warmup=warmup, **kwargs)

    kernel = Counting(scale.fn)
    x = torch.ones(8)
    kernel[(1, )](x, 8, (0, 0.0), BLOCK=8)
    assert kernel.launches == 1 and x[0] == 3
    for copied in (copy.copy(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(scale))):
        copied[(1, )](x, 8, (0, 0.0), BLOCK=8)
        assert copied.cache_key == kernel.cache_key
    assert x[0] == 81

    class Twice(KernelInterface):

        def run(self, *args, grid, warmup, **kwargs):
            scale.run(*args, grid=grid, warmup=warmup, **kwargs)
            return scale.run(*args, grid=grid, warmup=warmup, **kwargs)

    Twice()[(1, )](x, 8, (0, 0.0), BLOCK=8)
    assert x[0] == 729


def test_first_launches_of_many_threads():
    kernel = nereid.jit(scale.fn)
    arrays = [np.ones(8, np.float32) for _ in range(8)]
    threads = [threading.Thread(target=lambda x=x: kernel[(1, )](x, 8, (0, 0.0), 8)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((x == 3).all() for x in arrays) and len(kernel.device_caches[0][0]) == 1


@pytest.mark.parametrize("options, error, text", [
    ({"num_warps": 3}, AssertionError, "num_warps must be a power of 2"),
    ({"ir_override": "x.ttir"}, ValueError, "cannot read `x.ttir`"),
    ({"stream": 1}, AssertionError, "stream option is deprecated"),
    ({"warps": 1}, KeyError, "Keyword argument warps was specified but unrecognised"),
])
def test_refused_keywords(target, options, error, text):
    with pytest.raises(error, match=text):
        scale[(1, )](torch.ones(8), 8, (0, 0.0), 8, **options)


def test_reserved_keywords(target):
    x = torch.ones(8)
    scale[(1, )](x, 8, (0, 0.0), 8, num_warps=2, num_ctas=1, num_stages=2, maxnreg=None, ptx_version=None, enable_fp_fusion=True,
                 enable_reflect_ftz=True, launch_cooperative_grid=False, launch_pdl=False, supported_fp8_dtypes=("fp8e5", ),
                 allowed_dot_input_precisions=("ieee", ), max_num_imprecise_acc_default=0, extern_libs=None, debug=False,
                 sanitize_overflow=False, default_dot_input_precision="ieee", instrumentation_mode="", num_cpu_threads=1, vec_lib="libsleef",
                 enable_fast_math=True, ir_override=None)
    assert x[0] == 3


def test_architecture_and_assembler_options():
    target = GPUTarget("cuda", 90, 32)
    source = ASTSource(scale, SIGNATURE, {"BLOCK": 16, (2, 0): 5})
    plain = nereid.compile(source, target)
    assert ".target sm_90a" in plain.asm["ptx"] and plain.metadata.arch == "sm90" and plain.metadata.ptx_options is None
    other = nereid.compile(source, target, {"arch": "sm80", "ptx_version": 78})
    assert ".target sm_80\n" in other.asm["ptx"] and ".version 7.8\n" in other.asm["ptx"]
    assert other.metadata.target == GPUTarget("cuda", 80, 32) and other.metadata.arch == "sm80"
    kernel = nereid.jit(scale.fn).warmup(nereid.MockTensor(torch.float32), 8, (0, 0.0), 16, grid=(1, ), target="cuda", arch="sm_86")
    assert ".target sm_86\n" in kernel.asm["ptx"]
    with pytest.raises(ValueError, match="option `arch` expects an architecture like `sm80`, found"):
        scale.warmup(nereid.MockTensor(torch.float32), 8, (0, 0.0), 16, grid=(1, ), target="cuda", arch="volta")
    with pytest.raises(ValueError, match="must have the form"):
        nereid.compile(source, target, {"arch": "volta"})


@pytest.mark.skipif("found" not in json.loads(_native.doctor())["tools"]["assembler"], reason="needs an assembler of PTX")
def test_options_of_the_assembler():
    source = ASTSource(scale, SIGNATURE, {"BLOCK": 16, (2, 0): 5})
    # Where there is a GPU machine code is made at once.
    with pytest.raises((RuntimeError, nereid.CompilationError), match="no-such-option"):
        nereid.compile(source, GPUTarget("cuda", 90, 32), {"ptx_options": "--no-such-option"}).asm["cubin"]


# ---- backends and drivers ------------------------------------------------------------------------------


def test_backends():
    assert set(backends) == {"cpu", "nvidia"}
    for name, target in (("cpu", GPUTarget("cpu", "native", 0)), ("nvidia", GPUTarget("cuda", 90, 32))):
        backend = make_backend(target)
        assert isinstance(backend, backends[name].compiler) and backend.hash() == make_backend(target).hash()
        options = backend.parse_options({"num_warps": 8, "not_an_option": 1})
        assert options.num_warps == 8 and options.hash() != backend.parse_options({}).hash()
        stages = {}
        backend.add_stages(stages, options)
        assert backend.binary_ext in stages and backend.parse_attr("D") == [["tt.divisibility", 16]]
        assert backend.get_module_map() and backend.get_codegen_implementation(options)


def test_driver(target):
    active = driver.active
    assert isinstance(active, backends["nvidia" if target == "cuda" else "cpu"].driver) and active.is_active()
    properties = active.utils.get_device_properties(active.get_current_device())
    assert {"max_shared_mem", "multiprocessor_count", "warpSize", "max_num_regs", "mem_clock_rate", "mem_bus_width"} <= set(properties)
    assert active.get_current_target().backend == target and active.get_active_torch_device().type == target
    assert active.map_python_to_cpp_type("i32") == "int32_t" and isinstance(active.get_current_stream(active.get_current_device()), int)
    assert active.get_benchmarker() and active.get_device_interface() is getattr(torch, target)
    mine = type(active)()
    driver.set_active(mine)
    assert driver.active is mine


def test_lazy_dict():
    data = LazyDict({"a": 1})
    data.add(lambda x: {"b": x}, (2, ))
    assert data.get() == {"a": 1, "b": 2} == data.get()


def test_what_is_left_out_says_so():
    with pytest.raises(ImportError, match="is not part of Nereid"):
        __import__("nereid.profiler")


def test_gluon_is_not_found():
    """Packages that have kernels for it as well look whether it is there, and must not find it."""
    code = """
import nereid
nereid.install_as_triton()
import importlib.util, triton.experimental
assert importlib.util.find_spec("triton.experimental.gluon") is None and not hasattr(triton.experimental, "gluon")
try:
    from triton.experimental import gluon
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "gluon" in done.stdout, done.stderr


TILE_TEXT = """module {
  func.func @twice(%p: !tile.ptr<f32> {tile.name = "x", tile.divisibility = 16 : i64}, %n: i32 {tile.name = "count.0"}) attributes {tile.kernel} {
    %i = tile.range 0 to 16 : tensor<16xi32>
    %limit = tile.splat %n : i32 -> tensor<16xi32>
    %mask = arith.cmpi slt, %i, %limit : tensor<16xi32>
    %base = tile.splat %p : !tile.ptr<f32> -> tensor<16x!tile.ptr<f32>>
    %at = tile.addptr %base, %i : tensor<16x!tile.ptr<f32>>, tensor<16xi32>
    %x = tile.load %at mask %mask : tensor<16x!tile.ptr<f32>>, mask tensor<16xi1> -> tensor<16xf32>
    %y = arith.addf %x, %x : tensor<16xf32>
    tile.store %at, %y mask %mask : tensor<16x!tile.ptr<f32>>, tensor<16xf32>, mask tensor<16xi1>
    return
  }
}
"""


@pytest.mark.parametrize("ending", ["ttir", "tile"])
def test_compile_a_file_of_tile_ir(tmp_path, ending):
    path = tmp_path / f"kernel.{ending}"
    path.write_text(TILE_TEXT)
    kernel = nereid.compile(str(path), target=GPUTarget("cpu", "native", 0), options={"num_warps": 8})
    assert kernel.name == "twice" and kernel.metadata.num_warps == 8
    assert kernel.src.signature == {"x": "*fp32", "count_0": "i32"} and kernel.src.fn.arg_names == ["x", "count_0"]
    x = torch.ones(16)
    kernel[(1, )](x, 1)
    assert x.tolist() == [2.0] + [1.0] * 15
    copied = pickle.loads(pickle.dumps(kernel))
    copied[(1, )](x, 16)
    assert x.tolist() == [4.0] + [2.0] * 15
    assert "cmpi slt" in kernel.asm["tile"] and "ret" in kernel.asm["asm"]
    ptx = nereid.compile(str(path), target=GPUTarget("cuda", 80, 32), options={"num_warps": 2}).asm["ptx"]
    assert ".entry twice(" in ptx and ".reqntid 64" in ptx


def test_tile_ir_round_trip(tmp_path):
    """What `asm["tile"]` gives compiles to the same kernel; another text of the same name and parameters is another kernel."""
    path = tmp_path / "scale.tile"
    path.write_text(compiled().asm["tile"])
    x = torch.ones(16)
    again = nereid.compile(str(path), target=GPUTarget("cpu", "native", 0))
    again[(1, )](x, 10, 0.5)
    assert x.tolist() == [8.5] * 10 + [1.0] * 6
    path.write_text(compiled().asm["tile"].replace("8.000000e+00", "9.000000e+00").replace("3.000000e+00", "4.000000e+00"))
    other = nereid.compile(str(path), target=GPUTarget("cpu", "native", 0))
    x = torch.ones(16)
    other[(1, )](x, 1, 0.5)
    assert x[0] == 9.5 and other.hash != again.hash


@pytest.mark.parametrize("text,message", [
    ("module {\n  tt.func public @k(%arg0: !tt.ptr<f32>) {\n    tt.return\n  }\n}\n", "holds IR of Triton's own dialect `tt`, which only Triton reads"),
    (TILE_TEXT.replace("tile.splat", "tile.splatter"), "holds no tile IR: 4:14: "),
    (TILE_TEXT.replace("attributes {tile.kernel}", ""), "holds no kernel: no function has the attribute `tile.kernel`"),
    ("module {\n  func.func @k(%x: tensor<4xi32>) attributes {tile.kernel} {\n    return\n  }\n}\n",
     "the parameter `arg0` has the type tensor<4xi32>: expected a scalar or a pointer"),
])
def test_files_that_hold_no_tile_ir(tmp_path, text, message):
    # TileSourceForeign, TileSourceInvalid, TileSourceNoKernel, TileSourceParameter
    path = tmp_path / "kernel.ttir"
    path.write_text(text)
    with pytest.raises(nereid.CompilationError, match=re.escape(message)):
        nereid.compile(str(path), target=GPUTarget("cpu", "native", 0))
    with pytest.raises(ValueError, match="a compilation can start from tile IR"):
        nereid.compile(str(tmp_path / "kernel.ttgir"), target=GPUTarget("cpu", "native", 0))


def test_launches_of_a_compiled_kernel():
    kernel = compiled()
    launch, x = kernel[(1, )], torch.ones(16)
    for wanted in (8.5, 31.0):
        assert launch(x, 16, (5, 0.5), 16) is None and x.tolist() == [wanted] * 16
    x = torch.ones(16)
    launch(x, 3, (5, 0.5), 16, stream=0)
    assert x.tolist() == [8.5] * 3 + [1.0] * 13
    kernel[lambda meta: (meta["n"] - 2, )](x, 3, (5, 0.5), 16, **{"str" + "eam": None})
    assert x.tolist() == [31.0] * 3 + [1.0] * 13
    with pytest.raises(TypeError, match=r"launch\(\) got an unexpected keyword argument 'num_warps'"):
        launch(x, 3, (5, 0.5), 16, num_warps=4)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'BLOCK'"):
        launch(x, 3, (5, 0.5))
    with pytest.raises(TypeError, match="takes 4 positional arguments but 5 were given"):
        launch(x, 3, (5, 0.5), 16, 17)
    with pytest.raises(ValueError, match="a grid has three dimensions"):
        kernel[(1, 1, 1, 2)](x, 3, (5, 0.5), 16)
    assert x.tolist() == [31.0] * 3 + [1.0] * 13
    copied = copy.copy(kernel)
    copied[(1, )](x, 1, (1, 1.0), 16)
    assert x.tolist()[:2] == [99.0, 31.0]


def test_launches_of_a_compiled_kernel_are_seen_by_hooks():
    seen = []
    kernel = compiled()
    launch, x = kernel[(1, )], torch.ones(16)
    launch(x, 1, (5, 0.5), 16)
    nereid.knobs.runtime.launch_enter_hook.add(hook := lambda data: seen.append(data.get()["name"]))
    try:
        launch(x, 1, (5, 0.5), 16)
    finally:
        nereid.knobs.runtime.launch_enter_hook.remove(hook)
    launch(x, 1, (5, 0.5), 16)
    assert seen == ["scale"] and x[0] == ((8.5 * 3) + 5.5) * 3 + 5.5


def test_a_compiled_kernel_goes_with_its_launcher():
    """Whoever holds a launcher holds its kernel, and nothing else does after a launch."""
    from weakref import ref
    kernel = nereid.compile(ASTSource(scale, SIGNATURE, {"BLOCK": 16, (2, 0): 5}, {}), target=GPUTarget("cpu", "native", 0),
                            options={"num_warps": 2})
    gone, launch, x = ref(kernel), kernel[(1, )], torch.ones(16)
    launch(x, 1, (5, 0.5), 16)
    held = type(kernel) is CompiledKernel
    del kernel
    launch(x, 1, (5, 0.5), 16)
    assert held and gone() is not None and x[0] == 8.5 * 3 + 5.5


def test_grids_are_remembered_by_the_object():
    counts = {}
    for grid in [(2, ), (2, ), (3, ), [2], [3], (True, ), (2, 2), [1]]:
        launch = many[grid]
        for _ in range(3):
            x = torch.zeros(16, dtype=torch.int32)
            launch(x)
            counts.setdefault(str(grid), set()).add(int(x.sum()))
        if isinstance(grid, list):  # a list may change
            grid[0] += 1
            x = torch.zeros(16, dtype=torch.int32)
            launch(x)
            assert x.sum() == grid[0]
    assert counts == {"(2,)": {2}, "(3,)": {3}, "[2]": {2}, "[3]": {3}, "(True,)": {1}, "(2, 2)": {4}, "[1]": {1}}

    class Index:
        value = 1

        def __index__(self):
            self.value += 1
            return self.value

    launch, sums = many[(Index(), )], []
    for _ in range(3):
        x = torch.zeros(16, dtype=torch.int32)
        launch(x)
        sums.append(int(x.sum()))
    assert sums == [2, 3, 4]


@nereid.jit
def many(x):
    tl.atomic_add(x, 1)
