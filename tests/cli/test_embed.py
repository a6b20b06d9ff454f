"""`nereid embed`: what it writes, and how it fails. That the files work is tested by tests/install."""

import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

import pytest

from test_cli import PROGRAM, fails, nereid


KERNELS = str(pathlib.Path(__file__).resolve().parents[1] / "install" / "consumer" / "kernels.py")
ADD = ["embed", KERNELS, "--kernel", "add"]
F32 = "*fp32, *fp32, *fp32, i32, 1024"


def write(folder, *arguments):
    result = nereid(*arguments, "-o", str(folder / "out"))
    assert result.returncode == 0, result.stderr
    assert result.stdout == result.stderr == ""
    return (folder / "out.h").read_text(), (folder / "out.c").read_text()


def test_files(tmp_path):
    header, tables = write(tmp_path, *ADD, "--signature", F32, "--target", "cpu:avx2", "--target", "ptx:80")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.0.avx2.o", "out.c", "out.h"]
    assert "nereid::Pointer<const float> x_ptr, nereid::Pointer<const float> y_ptr, nereid::Pointer<float> out_ptr, " \
        "nereid::Number<int32_t> n)" in header
    assert "static constexpr int64_t BLOCK = 1024;" in header
    assert "void operator()(nereid::Grid nereid_grid, const nereid::Stream &nereid_stream, nereid::Pointer<const float> x_ptr, " in header
    assert "NRD_CPU_AVX2" in tables
    listed = nereid(*ADD, "--signature", F32, "--target", "cpu:avx2", "--list-outputs", "-o", "a/b").stdout
    assert listed.splitlines() == ["a/b.c", "a/b.h", "a/b.0.avx2.o"]


def test_the_same_input_gives_the_same_files(tmp_path):
    arguments = [*ADD, "--signature", F32, "--target", "cpu:avx512", "--target", "ptx:80"]
    texts = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        texts.append((*write(tmp_path / name, *arguments), (tmp_path / name / "out.0.avx512.o").read_bytes()))
    assert texts[0] == texts[1]


def test_signatures_for_one_backend(tmp_path):
    signatures = ["--signature", F32 + " | on=cpu", "--signature", "*fp32, *fp32, *fp32, i32, 256 | num_warps=8, on=cuda"]
    header, tables = write(tmp_path, *ADD, *signatures, "--target", "cpu:baseline", "--target", "ptx:80")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.0.baseline.o", "out.c", "out.h"]
    assert "80, 0, 1, 8," in tables
    assert "nereid::Number<int64_t> BLOCK)" in header  # two values: the launch chooses


def test_names(tmp_path):
    header, _ = write(tmp_path, *ADD, "--signature", F32, "--target", "ptx:80", "--name", "sum", "--namespace", "a::b")
    assert "namespace a::b {" in header
    assert "inline constexpr sum_kernel sum{};" in header
    assert "static inline nrd_status a_b_sum_launch(" in header
    one = tmp_path / "one.py"
    one.write_text("def only(p, template):\n    pass\n")
    header, _ = write(tmp_path, "embed", str(one), "--signature", "*i8, u1", "--target", "ptx:80")
    assert "nereid::Pointer<const int8_t> p, nereid::Number<bool> template_)" in header


@pytest.mark.parametrize("arguments, message", [
    ([], "error: `nereid embed` needs the argument `--signature`: the type of each parameter, or its value where it is a constexpr, as in `*fp32, *fp32, i32, 1024`"),  # CliMissingSignature
    (["--signature", F32, "--target", "cuda"], "error: a kernel cannot be embedded for `cuda`: expected `cpu`, `cpu:baseline`, "
     "`cpu:avx2`, `cpu:avx512`, `cpu:avx512bf16`, `cpu:sapphirerapids`, `cpu:graniterapids`, `cpu:aarch64`, `cpu:neoverse-n1`, `cpu:neoverse-v1`, `cuda:90` or `ptx:80` (and other architectures)"),  # EmbedBadTarget
    (["--signature", F32 + " | on=cpu", "--target", "ptx:80"],
     "error: no signature is for any of the targets: nothing would be embedded"),  # EmbedNothing
    (["--signature", F32, "--name", "my-kernel"], "error: `my-kernel` is no name of C++"),  # EmbedBadName
    (["--signature", "(*fp32, i32), *fp32, *fp32, i32, 1024"],
     "error: parameter `x_ptr` is a tuple, which an embedded kernel cannot take: give its items as parameters"),  # EmbedTuple
    (["--signature", F32 + " | num_warps"], "error: option `num_warps` needs a value: `NAME=VALUE`"),
    (["--signature", "*fp32, *fp32, *fp32, i32"], "error: `add` needs a value for its parameter `BLOCK`"),
])
def test_wrong_arguments(arguments, message):
    result = nereid(*ADD, *arguments)
    assert result.returncode == 2
    assert result.stderr.strip() == message


def test_signatures_that_cannot_be_told_apart(tmp_path):  # EmbedAmbiguous, EmbedConstant
    scale = ["embed", KERNELS, "--kernel", "scale", "--target", "ptx:80", "-o", str(tmp_path / "out")]
    kinds = [f"*fp32, None, *fp32, i32, {kind}, True, u1, 128" for kind in ("fp32", "fp64")]
    fails(2, "error: the signatures differ in the type of `factor`, fp32 and fp64, which a call cannot tell apart: give the "
          "kernels different names with `--name`", *scale, "--signature", kinds[0], "--signature", kinds[1])
    values = [f"*fp32, None, *fp32, i32, fp32, {value}, u1, 128" for value in ("True", "'yes'")]
    fails(2, "error: the signatures give constexpr `double` the values True and 'yes': a launch chooses among integers and "
          "bools only", *scale, "--signature", values[0], "--signature", values[1])


def test_kernels_that_are_too_large(tmp_path):  # EmbedTooLarge
    def fails_with(message, body, parameters, signature):
        file = tmp_path / "large.py"
        file.write_text(f"import triton.language as tl\n\n\ndef large({', '.join(parameters)}):\n{body}\n")
        fails(2, f"error: `large` cannot be embedded: it needs {message}", "embed", str(file), "--signature", signature, "--target", "cuda:90",
              "-o", str(tmp_path / "out"))

    numbers = [f"n{i}" for i in range(256)]
    fails_with("257 words of arguments for a launch, which holds at most 256", f"    tl.store(p, {' + '.join(numbers)})", ["p", *numbers],
               "*i32, " + ", ".join(["i32"] * 256))
    pointers = [f"p{i}" for i in range(17)]
    body = "".join(f"    d = tl.make_tensor_descriptor({p}, shape=[n, 64], strides=[64, 1], block_shape=[16, 64])\n"
                   "    d.store([0, 0], d.load([16, 0]))\n" for p in pointers)
    fails_with("17 tensor maps for a launch, which holds at most 16", body, [*pointers, "n"], ", ".join(["*fp16:16"] * 17) + ", i32")


def test_cmake_folder():  # CliNoPackage
    result = nereid("--cmake-dir")
    if result.returncode == 0:
        assert (pathlib.Path(result.stdout.strip()) / "nereidConfig.cmake").exists()
    else:  # a build folder
        assert result.stderr.startswith("error: no CMake package is installed with this program in `")


def elf(data):
    """The machine and the names of the defined functions of an object file for 64-bit machines."""
    assert data[:6] == b"\x7fELF\x02\x01"
    kind, machine = struct.unpack_from("<HH", data, 16)
    assert kind == 1  # relocatable
    start, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + size * i) for i in range(count)]
    names = set()
    for section in sections:
        if section[1] == 2:  # symbols
            strings = sections[section[6]][4]
            for at in range(section[4], section[4] + section[5], 24):
                name, info, _, where, _, _ = struct.unpack_from("<IBBHQQ", data, at)
                if info == 0x12 and where:  # a global function
                    names.add(data[strings + name:data.index(b"\0", strings + name)].decode())
    return machine, names


@pytest.mark.parametrize("level", ["avx512bf16", "sapphirerapids", "graniterapids", "neoverse-n1", "neoverse-v1"])
def test_levels_for_products(tmp_path, level):
    header, tables = write(tmp_path, *ADD, "--signature", F32, "--target", f"cpu:{level}")
    assert f"{{NRD_CPU_{level.upper().replace('-', '_')}, " in tables and f"cpu:{level}" in header


def test_aarch64(tmp_path):
    """That the code runs is tested by tests/install/aarch64.cmake, where there is an emulator."""
    header, tables = write(tmp_path, *ADD, "--signature", F32, "--target", "cpu:aarch64")
    assert elf((tmp_path / "out.0.aarch64.o").read_bytes()) == (183, {"nereid_kernels_add_form2_cpu_0_aarch64"})
    assert "NRD_CPU_AARCH64" in tables and "cpu:aarch64" in header
    alone = tmp_path / "alone.o"
    command = ["compile", KERNELS, "--kernel", "add", "--signature", F32, "--emit", "obj", "-o", str(alone)]
    codes = []
    for options in (("--target", "cpu:aarch64"), ("--features", "aarch64"), ("--target", "cpu:aarch64", "--features", "aarch64")):
        assert nereid(*command, *options).returncode == 0
        assert elf(alone.read_bytes()) == (183, {"add"})
        codes.append(alone.read_bytes())
    assert codes[0] == codes[1] == codes[2]
    fails(2, "error: option `--features` expects `aarch64`, as in `--target`, found `avx2`", *command, "--target", "cpu:aarch64", "--features", "avx2")
    fails(1, "error: the target cannot compile this kernel: unknown CPU features `riscv`: expected `native`, `graniterapids`, `sapphirerapids`, "
          "`avx512bf16`, `avx512`, `avx2`, `baseline`, `neoverse-v1`, `neoverse-n1` or `aarch64`", *command, "--target", "cpu:riscv")


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="there is no emulator of other processors")
def test_a_processor_without_these_instructions(tmp_path):
    """The machine that builds needs none of the instructions of the code, and the code does not depend on it."""
    arguments = [*ADD, "--signature", F32, *(f"--target=cpu:{name}" for name in ("baseline", "avx2", "avx512", "aarch64"))]
    for name, emulator in (("here", []), ("there", ["qemu-x86_64", "-cpu", "Nehalem"])):
        (tmp_path / name).mkdir()
        result = subprocess.run([*emulator, PROGRAM, *arguments, "-o", str(tmp_path / name / "out")], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
    here, there = (sorted((path.name, path.read_bytes()) for path in (tmp_path / name).iterdir()) for name in ("here", "there"))
    assert len(here) == 6 and here == there


# ---- forms: generated files, tables, calls and the run time of different versions -------------------


@functools.cache
def library():
    """The headers and the run time of embedded kernels: the wheel's, or what this build folder installs; None where there is no compiler."""
    import nereid as package
    folder = pathlib.Path(package.__file__).parent
    if not list(folder.rglob("libnereid_embedded.a")):
        build = folder.parents[1]
        if not (build / "cmake_install.cmake").exists():
            return None
        folder = pathlib.Path(tempfile.mkdtemp(prefix="nereid-embedded-"))
        subprocess.run(["cmake", "--install", build, "--prefix", folder, "--component", "cpp"], check=True, capture_output=True)
    headers = next(folder.rglob("nereid/embedded.h")).parents[1]
    return (headers, next(folder.rglob("libnereid_embedded.a"))) if shutil.which("c++") and shutil.which("cc") else None


def compiled(*command):
    """The result of the C or C++ compiler."""
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)


def with_form(path, number):
    """A generated file, or the headers, as those of another form would be."""
    for file in [path] if path.is_file() else path.rglob("*.h"):
        text = file.read_text()
        text = re.sub(r"(#define NRD_EMBEDDED_VERSION|NRD_EMBEDDED_VERSION !=) \d+", rf"\1 {number}", text)
        file.write_text(re.sub(r"_form\d+_", f"_form{number}_", re.sub(r"= \{\n    \d+, sizeof", f"= {{\n    {number}, sizeof", text)))


CALLS = """#include "out.h"
#include <cstdio>
#include <vector>
int main() {
  std::vector<float> x(100, 1.0f), out(100);
  nereid::Status status = kernels::add.tryLaunch({1}, x, x, out, 100);
  std::printf("%s\\n", status ? "ran" : status.error().what());
  nrd_embedded_launch how = {sizeof how, {1, 1, 1}};
  bool ran = kernels_add_launch(&how, x.data(), x.data(), out.data(), 100) == NRD_OK;
  std::printf("%s\\n", ran ? "ran" : nrd_status_message());
}
"""


@pytest.mark.parametrize("table, calls, message", [
    (2, 2, "ran"),
    (2, 3, "a call of kernel `add` was compiled with headers for form 3, its table was embedded in form 2, and the run time is for form 2: "
     "build all of them with one version"),
    (3, 2, "a call of kernel `add` was compiled with headers for form 2, its table was embedded in form 3, and the run time is for form 2: "
     "build all of them with one version"),
    (3, 3, "kernel `add` was embedded in form 3, and this program is linked with a run time for form 2: embed it again"),
])
def test_objects_of_another_form_are_refused(tmp_path, table, calls, message):
    if library() is None:
        pytest.skip("links C++ programs with an installed library: there is no `c++`, or no wheel is installed")
    headers, archive = library()
    write(tmp_path, *ADD, "--signature", F32, "--target", "cpu:avx2" if os.uname().machine == "x86_64" else "cpu:aarch64")
    folders = {}
    for number in {table, calls}:
        folders[number] = tmp_path / f"form{number}"
        shutil.copytree(headers, folders[number])
        shutil.copy(tmp_path / "out.h", folders[number])
        with_form(folders[number], number)
    with_form(tmp_path / "out.c", table)
    code = (tmp_path / "out.c").read_text().replace(f"_form{table}_", "_form2_")    # the code of the CPU stays
    (tmp_path / "out.c").write_text(code)
    (tmp_path / "out.h").unlink()
    (tmp_path / "main.cpp").write_text(CALLS)
    done = compiled("cc", "-c", "-I", folders[table], tmp_path / "out.c", "-o", tmp_path / "out.o")
    assert done.returncode == 0, done.stderr
    done = compiled("c++", "-std=c++20", "-I", folders[calls], tmp_path / "main.cpp", tmp_path / "out.o", *tmp_path.glob("out.0.*.o"), archive,
                    "-lpthread", "-ldl", "-lm", "-o", tmp_path / "program")
    assert done.returncode == 0, done.stderr
    printed = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60).stdout
    assert printed.splitlines() == [message, message]
    if message == "ran":  # the same program with a setting that it does not take
        printed = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=60, env=os.environ | {"NEREID_CPU_THREADS": "many"}).stdout
        assert printed.splitlines() == ["setting `NEREID_CPU_THREADS` expects an integer of at least 0"] * 2


def test_generated_files_of_another_form_do_not_compile(tmp_path):
    if library() is None:
        pytest.skip("links C++ programs with an installed library: there is no `c++`, or no wheel is installed")
    write(tmp_path, *ADD, "--signature", F32, "--target", "cpu:baseline" if os.uname().machine == "x86_64" else "cpu:aarch64")
    shutil.copytree(library()[0], tmp_path / "newer")
    with_form(tmp_path / "newer", 3)
    (tmp_path / "main.cpp").write_text(CALLS)
    for command, file in (("cc", "out.c"), (("c++", "-std=c++20"), "main.cpp")):
        command = [command] if isinstance(command, str) else command
        done = compiled(*command, "-fsyntax-only", "-I", library()[0], "-I", tmp_path, tmp_path / file)
        assert done.returncode == 0, done.stderr
        done = compiled(*command, "-fsyntax-only", "-I", tmp_path / "newer", "-I", tmp_path, tmp_path / file)
        assert done.returncode != 0 and "this file was made for form 2 of <nereid/embedded.h>" in done.stderr
    # Nor does the code of a CPU link with tables of another form.
    with_form(tmp_path / "out.c", 3)
    with_form(tmp_path / "out.h", 3)
    done = compiled("cc", "-I", tmp_path / "newer", "-I", tmp_path, "-shared", "-fPIC", "-Wl,--no-undefined", tmp_path / "out.c", *tmp_path.glob("out.0.*.o"), library()[1],
                    "-lstdc++", "-lpthread", "-ldl", "-lm", "-o", tmp_path / "out.so")
    assert done.returncode != 0 and "undefined reference to `nereid_kernels_add_form3_cpu_0_" in done.stderr
