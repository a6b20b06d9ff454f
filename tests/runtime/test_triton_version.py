"""Which release of Triton holds: the setting, PyTorch's, that of Nereid's own kernels; what newer releases and PyTorch on top of them ask of the host side."""

import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import Future

import pytest
import torch

import nereid

ROOT = pathlib.Path(nereid.__file__).parents[1]

KERNELS = """
import nereid, torch
import nereid.language as tl

@nereid.jit
def kernel(x_ptr, o_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(o_ptr, tl.maximum(x, x).dtype == tl.bfloat16)

def says():
    out = torch.zeros(1, dtype=torch.int32)
    compiled = kernel[(1, )](torch.zeros(16, dtype=torch.bfloat16), out)
    return ["3.8 or older", "3.9"][out.item()], compiled

"""


def run(code, tmp_path, **environment):
    path = tmp_path / "script.py"
    path.write_text(KERNELS + textwrap.dedent(code))
    kept = {name: value for name, value in os.environ.items() if name not in ("NEREID_AS_TRITON", "NEREID_TRITON_VERSION", "PYTHONPATH")}
    return subprocess.run([sys.executable, path], env={**kept, "NEREID_CACHE": "0", "PYTHONPATH": os.pathsep.join([environment.pop("front", ""), str(ROOT)]), **environment},
                          capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("setting, alias, expected", [("", False, "3.8 or older"), ("3.9", False, "3.9"), ("3.8", False, "3.8 or older"), ("3.9.1+git12", False, "3.9"),
                                                      ("3.9", True, "3.9"), ("", True, "3.8 or older"), ("4.1", True, "3.9"), ("3.4.5", True, "3.8 or older")])
def test_the_setting_chooses(setting, alias, expected, tmp_path):
    """Without it PyTorch does, under the alias: 2.13 is made for 3.7.1."""
    code = ("nereid.install_as_triton()\n" if alias else "") + "print(says()[0])"
    done = run(code, tmp_path, **({"NEREID_TRITON_VERSION": setting} if setting else {}))
    assert done.stdout == expected + "\n", done.stderr


@pytest.mark.parametrize("version, expected", [("2.14.1", "3.8 or older"), ("2.15.0", "3.9")])
def test_the_installed_pytorch_chooses_under_the_alias_only(version, expected, tmp_path):
    folder = tmp_path / "front" / f"torch-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    done = run("print(says()[0]); nereid.install_as_triton(); kernel._clear_cache(); print(says()[0])\n"
               "@nereid.jit\ndef again(x_ptr, o_ptr):\n    x = tl.load(x_ptr + tl.arange(0, 16))\n    tl.store(o_ptr, tl.maximum(x, x).dtype == tl.bfloat16)\n"
               "kernel = again\nprint(says()[0])", tmp_path, front=str(tmp_path / "front"))
    assert done.stdout.splitlines() == ["3.8 or older", "3.8 or older", expected], done.stderr


def test_programs_choose_with_the_knob_and_the_option(tmp_path):
    done = run("""
        print(says()[0])
        with nereid.knobs.nereid.scope():
            nereid.knobs.nereid.triton_version = "3.9"
            print(says()[0])
        print(says()[0])
        nereid.knobs.nereid.triton_version = "3.9"
        print(says()[0])
        del nereid.knobs.nereid.triton_version
        print(says()[0])
        out = torch.zeros(1, dtype=torch.int32)
        kernel[(1, )](torch.zeros(16, dtype=torch.bfloat16), out, triton_version="3.9")
        print(out.item())
    """, tmp_path)
    assert done.stdout.splitlines() == ["3.8 or older", "3.9", "3.8 or older", "3.9", "3.8 or older", "1"], done.stderr


def test_the_first_launch_reads_no_metadata_by_importlib(tmp_path):
    """`importlib.metadata` takes longer than the launch."""
    done = run("""
        import sys
        sys.modules.pop("importlib.metadata", None)
        nereid.install_as_triton()
        print(says()[0], nereid._alias._version_of_torch is not None, "importlib.metadata" in sys.modules)
    """, tmp_path)
    assert done.stdout == "3.8 or older True False\n", done.stderr


@pytest.mark.parametrize("propagates", [True, False])
def test_the_knob_counts_under_the_alias_after_the_first_launch(propagates, tmp_path):
    done = run(f"""
        nereid.install_as_triton()
        nereid.knobs.propagate_env = {propagates}
        other = kernel
        copied = kernel.__copy__()
        print(says()[0])
        kernel = copied
        print(says()[0])
        nereid.knobs.nereid.triton_version = "3.9"
        print(says()[0])
        kernel = other
        print(says()[0])
        try:
            nereid.knobs.nereid.triton_version = "newest"
        except ValueError as error:
            print(error)
        print(says()[0])
        del nereid.knobs.nereid.triton_version
        print(says()[0])
    """, tmp_path)
    old, new = "3.8 or older", "3.9"
    assert done.stdout.splitlines() == [old, old, new, new, "setting `NEREID_TRITON_VERSION` expects a release of Triton such as `3.8`, found `newest`", new, old], done.stderr


def test_kernels_on_disk_are_those_of_their_release(tmp_path):
    said = []
    for setting in ("3.8", "3.9", "3.8", "3.9"):
        done = run("print(says()[0], len(list(__import__('pathlib').Path(__import__('os').environ['NEREID_CACHE_DIR']).rglob('*'))) > 0)", tmp_path, NEREID_CACHE="1",
                   NEREID_CACHE_DIR=str(tmp_path / "cache"), NEREID_TRITON_VERSION=setting)
        said.append(done.stdout)
    assert said == ["3.8 or older True\n", "3.9 True\n"] * 2


def test_a_setting_that_is_no_release(tmp_path):
    done = run("print(says()[0])", tmp_path, NEREID_TRITON_VERSION="newest")
    assert done.returncode == 1 and not done.stdout and "ValueError: error: setting `NEREID_TRITON_VERSION` expects a release of Triton such as `3.8`, found `newest`" in done.stderr
    done = run("nereid.install_as_triton(); import triton; print(triton.__version__)", tmp_path, NEREID_TRITON_VERSION="newest")
    assert done.returncode == 1 and "setting `NEREID_TRITON_VERSION` expects a release of Triton such as `3.8`, found `newest`" in done.stderr


def test_a_short_version_is_completed(tmp_path):
    done = run("nereid.install_as_triton(); import triton; print(triton.__version__)", tmp_path, NEREID_TRITON_VERSION="3.8")
    assert done.stdout == "3.8.0\n", done.stderr


def test_own_kernels_are_compiled_by_the_rules_they_are_written_for():
    from nereid.ops.kernels import sorting
    assert {function._release() for function in vars(sorting).values() if isinstance(function, nereid.runtime.JITFunction)} == {"3.6"}


def test_tuners_check_names_since_39(tmp_path):
    code = """
        @nereid.autotune([nereid.Config({})], key=["missing"])
        @nereid.jit
        def tuned(n):
            pass
        print(nereid.Config({"A": 1}))
    """
    assert run(code, tmp_path, NEREID_TRITON_VERSION="3.8").stdout == "A: 1, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None\n"
    assert "ValueError: key contains names that are not kernel arguments: missing. Valid argument names are: n." in run(code, tmp_path, NEREID_TRITON_VERSION="3.9").stderr
    code = 'print(nereid.Config({"A": 1}))'
    assert run(code, tmp_path, NEREID_TRITON_VERSION="3.9").stdout == "A: 1, num_warps: 4, num_ctas: 1, num_stages: 3, maxnreg: None, ir_override: None\n"


def test_pytorchs_static_launcher_leaves_descriptors_to_ours():
    """PyTorch 2.14 asks `metadata.tensordesc_meta[0]` while it makes a static launcher; NotImplementedError makes it take the kernel's own."""

    @nereid.jit
    def described(desc, x_ptr):
        nereid.language.store(x_ptr, nereid.language.sum(desc.load([0, 0])))

    @nereid.jit
    def plain(x_ptr):
        nereid.language.store(x_ptr, 1.0)

    from nereid.tools.tensor_descriptor import TensorDescriptor
    x = torch.ones(16, 16)
    kernel = described.warmup(TensorDescriptor.from_tensor(x, [16, 16]), x, grid=(1, ))
    assert kernel.metadata.tensordesc_meta
    with pytest.raises(NotImplementedError, match="own launcher"):
        kernel.metadata.tensordesc_meta[0]
    with pytest.raises(NotImplementedError):
        pickle.loads(pickle.dumps(kernel.metadata.tensordesc_meta))[0]
    assert not plain.warmup(x, grid=(1, )).metadata.tensordesc_meta


@pytest.mark.parametrize("order", ["3.6", "3.9"])
def test_futures_of_kernels_in_both_orders(order):
    finished, failed = [], []
    good, bad = Future(), Future()
    good.set_result(type("Kernel", (), {"name": "its name"})())
    bad.set_exception(ValueError("no"))
    make = lambda future: nereid.FutureKernel(finished.append, future, failed.append) if order == "3.6" else nereid.FutureKernel(finished.append, failed.append, future)
    assert make(good).name == "its name" and finished == [good.result()] and not failed
    kernel = make(bad)
    assert kernel.result(ignore_errors=True) is None and failed == [kernel]
    with pytest.raises(TypeError, match="needs the future"):
        nereid.FutureKernel(finished.append)


def test_libraries_of_c_and_cpp(tmp_path, monkeypatch):
    import ctypes

    from nereid.runtime import build
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NEREID_CACHE_DIR", str(tmp_path / "cache"))
    path = build.compile_so_from_src("int twice(int x) { return 2 * x; }", "twice")
    assert ctypes.CDLL(path).twice(21) == 42
    source = tmp_path / "thrice.cpp"
    source.write_text('#include <vector>\nextern "C" int thrice(int x) { std::vector<int> all(3, x); int sum = 0; for (int each : all) sum += each; return sum; }')
    assert ctypes.CDLL(build.compile_so_from_file(str(source), "thrice")).thrice(4) == 12
    assert build.compile_so_from_file(str(source), "thrice") == build.compile_so_from_file(str(source), "thrice")
    with pytest.raises(ValueError, match="Unrecognized file extension: thrice.f90"):
        build.compile_so_from_file("thrice.f90", "thrice")
    with pytest.raises(ValueError, match="must be `c` or `c"):
        build.compile_so_from_src("", "none", language="fortran")


def test_scales_as_floats():
    from nereid.tools.mxfp import fp8e8m0_to_float32
    found = fp8e8m0_to_float32(torch.tensor([0, 1, 126, 127, 128, 254, 255], dtype=torch.uint8))
    assert found[:6].tolist() == [2.0**-127, 2.0**-126, 0.5, 1.0, 2.0, 2.0**127] and found[6].isnan()


def test_where_a_function_stands():

    @nereid.jit
    def function(x):
        pass

    assert function.file_name == __file__ and function.def_file_col_number == 5
    assert pathlib.Path(__file__).read_text().splitlines()[function.def_file_line_number - 1] == "    def function(x):"


def test_paths_of_nested_values():
    from nereid import _utils
    found = []
    _utils.apply_with_path((1, [2, (3, )], 4), lambda path, item: found.append((path, item)))
    assert found == [((0, ), 1), ((1, 0), 2), ((1, 1, 0), 3), ((2, ), 4)]
    assert _utils.is_iterable((1, )) and not _utils.is_iterable("text")


def test_contraction_is_disabled_by_force(monkeypatch):
    language = nereid.knobs.language
    assert language.fp_fusion_enabled(None) and not language.fp_fusion_enabled(False)
    monkeypatch.setenv("TRITON_FORCE_DISABLE_FP_FUSION", "1")
    assert not language.fp_fusion_enabled(True)
