"""The command line: what it prints and how it fails. `nereid` is looked for in CLI_UNDER_TEST, the package, its build folder, PATH."""

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = str(ROOT / "examples" / "kernels" / "seed.py")
ADD = ["compile", SEED, "--kernel", "add_kernel", "--signature", "*fp32:16, *fp32:16, *fp32:16, i32, 1024"]


def find_program():
    given = os.environ.get("CLI_UNDER_TEST")
    if given:
        return given
    try:
        import nereid
        package = pathlib.Path(nereid.__file__).parent
        for place in (package / "bin" / "nereid", package.parents[1] / "src" / "faces" / "cli" / "nereid"):  # a wheel; a build folder
            if place.exists():
                return str(place)
    except ImportError:
        pass
    found = shutil.which("nereid")
    assert found, "there is no program `nereid`, neither in the package nor in a build folder nor in PATH: set CLI_UNDER_TEST"
    return found


PROGRAM = find_program()


def nereid(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


def fails(status, message, *arguments):
    result = nereid(*arguments)
    assert result.stderr.strip() == message
    assert result.returncode == status
    assert result.stdout == ""


def test_help():
    result = nereid("--help")
    assert result.returncode == 0
    for command in ("compile", "doctor", "opt", "run"):
        assert f"\n  {command} " in result.stdout
        help_text = nereid(command, "--help") if command != "opt" else None
        if help_text:
            assert help_text.stdout.startswith(f"usage: nereid {command} ")
    assert "--signature TEXT" in nereid("compile", "--help").stdout
    assert nereid("compile", SEED, "--help").stdout == nereid("compile", "--help").stdout


def test_version():
    assert nereid("--version").stdout == "nereid " + (ROOT / "VERSION").read_text()


def test_wrong_command_lines():
    fails(2, "error: unknown command `compil`, did you mean `compile`?", "compil")  # CliUnknownCommandNear
    fails(2, "error: unknown command `zzzzzz`: `nereid --help` lists them", "zzzzzz")  # CliUnknownCommand
    fails(2, "error: `nereid compile` has no option `--emt`, did you mean `--emit`?", "compile", SEED, "--emt=asm")  # CliUnknownOptionNear
    fails(2, "error: `nereid compile` has no option `--quux`", "compile", SEED, "--quux")  # CliUnknownOption
    fails(2, "error: option `--kernel` needs a value: `NAME`", "compile", SEED, "--kernel")  # CliMissingValue
    fails(2, "error: option `--list` takes no value", "compile", SEED, "--list=1")  # CliSwitchTakesNoValue
    fails(2, "error: `nereid compile` needs the argument `FILE`", "compile")  # CliMissingArgument
    fails(2, "error: `nereid run` needs the argument `SCRIPT`", "run")
    fails(2, "error: `nereid compile` cannot use the argument `b.py`", "compile", SEED, "b.py")  # CliSurplusArgument
    fails(127, "error: cannot run `no-such-python`: No such file or directory", "run", "--python", "no-such-python", "x.py")  # CannotRunProgram


def test_which_kernel():
    result = nereid("compile", SEED)
    assert result.returncode == 2
    assert result.stderr.startswith("error: the file has several functions, choose one with `--kernel`: `softmax`, `add_kernel`")  # CliWhichKernel
    fails(2, f"error: `{SEED}` defines no function `add_kernal`, did you mean `add_kernel`?", "compile", SEED, "--kernel", "add_kernal")
    fails(2, "error: `add_kernel` needs a value for its parameter `x_ptr`", "compile", SEED, "--kernel", "add_kernel")


def test_unknown_stage():
    result = nereid(*ADD, "--emit", "ptx")
    assert result.returncode == 2
    assert result.stderr.startswith("error: there is no stage `ptx`: expected one of `tile`, ")  # CliUnknownStage
    assert result.stderr.endswith(", `header` or `meta` of the target `cpu`; for the stages of a GPU add `--target cuda:90` (or another architecture)\n")
    assert nereid(*ADD, "--emit", "ptxx").stderr.endswith(", `header` or `meta` of the target `cpu`\n")
    on_gpu = nereid(*ADD, "--target", "cuda:90", "--emit", "asm").stderr
    assert on_gpu.endswith(" or `meta` of the target `cuda:90`; for the stages of the CPU add `--target cpu`\n")


def test_opt(tmp_path):
    """Passes by name, of the library: there is no other program."""
    kernel = tmp_path / "kernel.mlir"
    kernel.write_text(nereid(*ADD, "--emit", "tile").stdout)
    result = nereid("opt", "--tile-pipeline", str(kernel), PATH=str(tmp_path))
    assert result.returncode == 0 and result.stderr == ""
    assert "func.func @add_kernel(" in result.stdout and "tile.store" in result.stdout
    kernel.write_text("tile.nonsense\n")
    wrong = nereid("opt", str(kernel))
    assert wrong.returncode == 1 and f"{kernel}:1:1: error: custom op 'tile.nonsense' is unknown" in wrong.stderr
    assert "--tile-pipeline" in nereid("opt", "--help").stdout
    assert nereid("help", "opt").stdout.startswith("usage: nereid opt [arguments of mlir-opt]")


def test_cannot_write_file(tmp_path):
    fails(1, f"error: cannot write `{tmp_path}/no/add.s`: No such file or directory", *ADD, "-o", f"{tmp_path}/no/add.s")  # CannotWriteFile


def test_unknown_compile_option():
    fails(2, "error: unknown option `num_wraps`, did you mean `num_warps`?", *ADD, "--option", "num_wraps=4")
    fails(2, "error: num_warps must be a power of 2, found 3", *ADD, "--option", "num_warps=3")


def test_signatures_of_large_tensors(tmp_path):
    file = tmp_path / "square.py"
    file.write_text("import triton.language as tl\n\ndef kernel(x, n):\n    tl.store(x + n * n, 1)\n")
    for signature, wide in (("*i8:16:large, i32", True), ("*i8:large, i32", True), ("*i8:16, i32", False)):
        result = nereid("compile", str(file), "--signature", signature, "--emit", "tile")
        assert ("arith.extsi" in result.stdout) == wide, result.stderr
    result = nereid("compile", str(file), "--signature", "*i8, i32:large")
    assert "expects `:large` after a pointer" in result.stderr


def test_compile_errors_show_the_source(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("import triton.language as tl\n\ndef kernel(x):\n    tl.store(x, y)\n")
    result = nereid("compile", str(file), "--signature", "*fp32")
    assert result.returncode == 1
    assert result.stderr.startswith(f"{file}:4:17: error: ")
    assert "   4 |     tl.store(x, y)\n" in result.stderr


@pytest.mark.parametrize("kind,part", [("tile", "tile.load"), ("llir", "define"), ("asm", "retq"), ("header", "add_kernel_launch("),
                                       ("meta", '"name":"add_kernel"')])
def test_stages(kind, part):
    result = nereid(*ADD, "--emit", kind)
    assert result.returncode == 0, result.stderr
    assert part in result.stdout


def test_tile_ir_compiles_without_a_signature(tmp_path):
    path = str(tmp_path / "add.tile")
    nereid(*ADD, "--emit", "tile", "-o", path)
    assert ".reqntid 256" in nereid("compile", path, "--target", "cuda:90", "--num-warps", "8").stdout
    assert nereid("compile", path, "--list").stdout == "add_kernel(x_ptr, y_ptr, output_ptr, n_elements)\n"


def test_header_of_a_descriptor(tmp_path):
    file = tmp_path / "copy.py"
    file.write_text("import triton.language as tl\n\ndef move(d, e):\n    e.store([0, 0], d.load([0, 0]))\n")
    text = nereid("compile", str(file), "--signature", "tensordesc<fp32[4, 8]>, tensordesc<fp32[4, 8]>:16", "--emit", "header").stdout
    assert "float *d, int32_t d_size0, int32_t d_size1, int64_t d_stride0, float *e, int32_t e_size0" in text
    assert "uint64_t nereid_slots[8]" in text


def test_headers_of_two_forms_are_refused(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("compiles C: there is no `cc`")
    text = nereid(*ADD, "--emit", "header").stdout
    other = text.replace("ADD_KERNEL_NEREID_H", "OTHER_NEREID_H").replace("add_kernel", "other_kernel")
    newer = other.replace("NEREID_LAUNCH_INFO 2", "NEREID_LAUNCH_INFO 3").replace("NEREID_LAUNCH_INFO != 2", "NEREID_LAUNCH_INFO != 3")
    assert newer != other != text
    for second, refused in ((other, False), (newer, True)):
        (tmp_path / "first.h").write_text(text)
        (tmp_path / "second.h").write_text(second)
        (tmp_path / "main.c").write_text('#include "first.h"\n#include "second.h"\n')
        done = subprocess.run([compiler, "-fsyntax-only", tmp_path / "main.c"], capture_output=True, text=True)
        assert (done.returncode != 0) == refused
        assert not refused or "compiled by different versions of Nereid cannot be included together" in done.stderr


def test_header_of_any_names(tmp_path):
    file = tmp_path / "names.py"
    file.write_text("import triton.language as tl\n\ndef names(slots, info, default, grid_x, flags, scratch, mode: tl.constexpr):\n"
                    "    tl.store(slots, info + default + grid_x)\n    tl.store(flags, tl.load(scratch) > 0)\n")
    header = tmp_path / "names.h"
    result = nereid("compile", str(file), "--signature", "*i32, i32, i32, i32, *i1, *i32, 'a*/b'", "--emit", "header", "-o", str(header))
    assert result.returncode == 0, result.stderr
    text = header.read_text()
    assert "int32_t *slots, int32_t info, int32_t default_, int32_t grid_x, uint8_t *flags, int32_t *scratch)" in text
    assert "mode = 'a* /b'" in text
    compiler = shutil.which("cc") or shutil.which("clang-22")
    for language in ("c", "c++") if compiler else ():
        subprocess.run([compiler, "-fsyntax-only", "-Werror", "-x", language, "-include", str(header), "/dev/null"], check=True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code that it compiles for x86-64")
def test_header_asks_for_tiles(tmp_path):
    """A kernel with products of AMX tiles runs where Linux gives the process their registers, and is refused elsewhere, on processors without AMX too."""
    compiler = shutil.which("cc") or shutil.which("clang-22")
    if compiler is None:
        pytest.skip("needs a C compiler: install gcc")
    file = tmp_path / "product.py"
    file.write_text("""
import triton.language as tl

def product(a, c):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    x = tl.load(a + i * 32 + j)
    tl.store(c + i * 32 + j, tl.dot(x, x))
""")
    for kind, name in (("header", "product.h"), ("obj", "product.o")):
        result = nereid("compile", str(file), "--signature", "*i8, *i32", "--features", "sapphirerapids", "--emit", kind, "-o", str(tmp_path / name))
        assert result.returncode == 0, result.stderr
    (tmp_path / "main.c").write_text("""#include "product.h"
int main(void) {
  static int8_t a[32 * 32];
  static int32_t c[32 * 32];
  for (int i = 0; i < 32 * 32; ++i)
    a[i] = -3;
  int status = product_launch(1, 1, 1, a, c);
  printf("%d %d\\n", status, c[1023]);
  return 0;
}
""")
    subprocess.run([compiler, "-Wall", "-Werror", "main.c", "product.o", "-o", "main"], cwd=tmp_path, check=True)
    output = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    assert output == ("0 288\n" if "amx_int8" in flags else "-3 0\n")


def test_object_and_metadata(tmp_path):
    out = tmp_path / "add.o"
    assert nereid(*ADD, "--emit", "obj", "-o", str(out)).returncode == 0
    assert out.read_bytes()[:4] == b"\x7fELF"
    meta = json.loads(nereid(*ADD, "--emit", "meta").stdout)
    assert [p["name"] for p in meta["params"]] == ["x_ptr", "y_ptr", "output_ptr", "n_elements", "BLOCK_SIZE"]
    assert [p["written"] for p in meta["params"]] == [False, False, True, False, False]
    assert meta["params"][4]["constant"] and meta["params"][4]["signature"] == "1024"


@pytest.mark.parametrize("features", ["avx2", "avx512", "avx512bf16", "sapphirerapids", "graniterapids", "baseline", "aarch64", "neoverse-n1", "neoverse-v1"])
def test_instruction_sets(features):
    text = nereid(*ADD, "--features", features).stdout
    wide = ("avx512", "avx512bf16", "sapphirerapids", "graniterapids")
    assert ("zmm" in text) == (features in wide)
    assert ("ymm" in text) <= (features in ("avx2", *wide))
    assert "tile" not in text
    assert ("fadd\tv" in text) == (features in ("aarch64", "neoverse-n1", "neoverse-v1"))


@pytest.mark.parametrize("dtype, features, instruction", [("bf16", "avx512bf16", "vdpbf16ps"), ("bf16", "avx512", "vfmadd231ps"),
                                                         ("bf16", "sapphirerapids", "tdpbf16ps"), ("i8", "sapphirerapids", "tdpbssd"),
                                                         ("fp8e5", "sapphirerapids", "tdpbf16ps"), ("fp16", "sapphirerapids", "vfmadd231ps"),
                                                         ("fp16", "graniterapids", "tdpfp16ps"), ("bf16", "graniterapids", "tdpbf16ps"),
                                                         ("i8", "avx512bf16", "vpdpbusd"), ("i8", "avx512", "vpmaddwd"),
                                                         ("i8", "avx2", "vpmaddwd"), ("i8", "baseline", "pmaddwd"),
                                                         ("bf16", "neoverse-v1", "bfmmla"), ("fp8e5", "neoverse-v1", "bfmmla"),
                                                         ("i8", "neoverse-v1", "smmla"), ("i8", "neoverse-n1", "sdot"),
                                                         ("bf16", "neoverse-n1", "fmla"), ("fp16", "neoverse-v1", "fmla"),
                                                         ("fp32", "aarch64", "fmla")])
def test_instructions_of_products(dtype, features, instruction, tmp_path):
    file = tmp_path / "product.py"
    file.write_text("""
import triton
import triton.language as tl

@triton.jit
def product(a, b, c):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    tl.store(c + i * 32 + j, tl.dot(tl.load(a + i * 32 + j), tl.load(b + i * 32 + j)))
""")
    out = "i32" if dtype == "i8" else "fp32"
    result = nereid("compile", str(file), "--signature", f"*{dtype}, *{dtype}, *{out}", "--features", features)
    assert result.returncode == 0, result.stderr
    found = set(re.findall(r"^\t(v?(?:dpbf16ps|pdpbusd|pmaddwd|fmadd231ps|pmulld|tdp\w+)|bfmmla|smmla|sdot|fmla)\b", result.stdout, re.M))
    assert found == {instruction}
    uses_tiles = instruction.startswith("tdp")
    assert [result.stdout.count(f"\t{word}") for word in ("ldtilecfg", "tilerelease")] == [uses_tiles] * 2


def test_assembly_of_an_author_for_aarch64(tmp_path):
    """LLVM without a parser for a machine's assembly ends the process where a kernel has some."""
    file = tmp_path / "assembly.py"
    file.write_text("""
import triton
import triton.language as tl

@triton.jit
def kernel(x, TEXT: tl.constexpr):
    i = tl.arange(0, 4)
    tl.store(x + i, tl.inline_asm_elementwise(TEXT, "=r,r", [tl.load(x + i)], dtype=tl.int32, is_pure=True, pack=1))
""")
    options = ("compile", str(file), "--features", "aarch64", "--emit", "obj", "-o", str(tmp_path / "out.o"), "--signature")
    right = nereid(*options, "*i32, 'add ${0:w}, ${1:w}, #1'")
    assert right.returncode == 0, right.stderr
    wrong = nereid(*options, "*i32, 'leal 1($1), $0'")
    assert wrong.returncode == 1 and "error: the assembler refuses this assembly: " in wrong.stderr and "leal" in wrong.stderr, wrong.stderr


def test_time_and_changes():
    result = nereid(*ADD, "--emit", "tile", "--time-passes", "--print-after-changed")
    assert "compilation of add_kernel for cpu (" in result.stderr and "BLOCK_SIZE=1024)" in result.stderr
    assert "front end" in result.stderr and "total" in result.stderr
    stages, passes = result.stderr.split("single passes")
    for one in ("  combine ", "LLVM: InstCombinePass", "code generator: x86-isel"):
        assert one in passes and one not in stages
    assert "IR Dump After" in result.stderr


def test_list():
    lines = nereid("compile", SEED, "--list").stdout.splitlines()
    assert "add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: constexpr)" in lines


def test_run(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, triton\nprint(triton.__name__, sys.argv[1:])\n")
    result = nereid("run", "--python", sys.executable, str(script), "--flag", "1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[-2:] == ["['--flag',", "'1']"]


def test_console_script(tmp_path, monkeypatch):
    """What pip installs as `nereid`: `run` and `doctor` take the Python of the installation, whatever is in PATH."""
    main = pytest.importorskip("nereid.__main__")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nereid").symlink_to(PROGRAM)
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.executable, sys.argv[1:])\n")
    monkeypatch.setattr(main, "__file__", str(tmp_path / "__main__.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder))

    def execute(program, words):
        result = subprocess.run([program, *words[1:]], capture_output=True, text=True, timeout=300)
        assert result.stderr == "" and result.returncode == 0
        raise SystemExit(result.stdout)

    monkeypatch.setattr(os, "execv", execute)

    def console(*arguments):
        monkeypatch.setattr(sys, "argv", ["nereid", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.cli()
        return ended.value.code

    assert console("run", str(script), "--python", "x") == f"{sys.executable} ['--python', 'x']\n"
    report = json.loads(console("doctor", "--json"))
    assert report["python"]["path"] == sys.executable and report["settings"]["problems"] == []
    assert console("--version") == "nereid " + (ROOT / "VERSION").read_text()

    def module(*arguments):
        with pytest.raises(SystemExit) as ended:
            main.main(list(arguments))
        return ended.value.code

    # `python -m nereid` knows the same commands; a file comes first, a folder only with something to run in it.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doctor").mkdir()
    (tmp_path / "cache").mkdir()
    assert json.loads(module("doctor", "--json"))["python"]["path"] == sys.executable
    assert module("cache", "path") == nereid("cache", "path").stdout
    assert module("--version") == console("--version")
    assert module("run", str(script), "x") == f"{sys.executable} ['x']\n"
    (tmp_path / "doctor" / "__main__.py").write_text("raise SystemExit(11)")
    (tmp_path / "explain").write_text("raise SystemExit(12)")
    for words, status in ((["doctor"], 11), (["explain"], 12), (["--", "explain"], 12)):
        assert subprocess.run([sys.executable, "-m", "nereid", *words], capture_output=True).returncode == status


def test_doctor():
    result = nereid("doctor", "--python", sys.executable, NEREID_CHEKED="1", NEREID_STRICT="1")
    assert result.returncode == 0
    assert "problem: unknown setting `NEREID_CHEKED`, did you mean `NEREID_CHECKED`?" in result.stdout
    assert "NEREID_STRICT=1" in result.stdout
    # Wrong values end every command, this one after its report.
    for arguments, output in ((["doctor", "--python", sys.executable], True), (["cache", "path"], False)):
        result = nereid(*arguments, NEREID_SPLIT_PRODUCTS="all")
        message = "setting `NEREID_SPLIT_PRODUCTS` expects `idle`, `full` or `never`, found `all`"
        assert result.returncode == 2 and message in result.stderr and (message in result.stdout) == output and bool(result.stdout) == output
    report = json.loads(nereid("doctor", "--json", "--python", sys.executable).stdout)
    assert report["cpu"]["cores"] >= 1
    # Without AMX nothing is asked of Linux; for a refusal see tests/runtime/test_tiles.py.
    tiles = report["cpu"]["tiles"]
    assert tiles["state"] in (("granted", "refused") if "amx-tile" in report["cpu"]["features"] else ("absent", )) and ("reason" in tiles) == (tiles["state"] == "refused")
    assert ("tile registers of AMX" in result.stdout) == (tiles["state"] != "absent")
    assert report["python"]["found"] and report["python"]["version"] == "%d.%d.%d" % sys.version_info[:3]
    assert json.loads(nereid("doctor", "--json", "--python", "no-such-python").stdout)["python"] == {"found": False}


def test_doctor_tells_which_triton_children_import(tmp_path):
    """With another Triton there, as things are and under the alias."""
    root = pathlib.Path(pytest.importorskip("nereid").__file__).parents[1]
    for folder, file, text in (("triton", "__init__.py", ""), ("triton-1.2.3.dist-info", "METADATA", "Metadata-Version: 2.1\nName: triton\nVersion: 1.2.3\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(text)
    text = nereid("doctor", "--python", sys.executable, PYTHONPATH=os.pathsep.join([str(tmp_path), str(root)]), NEREID_TRITON_VERSION="3.4.5").stdout
    assert f"`import triton` in a child process: Triton 1.2.3, in {tmp_path}/triton\n" in text
    assert f"the same under `python -m nereid`:  Nereid, as 3.4.5, in {root}/nereid\n" in text and "problem: children" not in text


@pytest.mark.parametrize("answer, expected", [
    ('{"plain": {}, "with_alias": {"nereid": false, "version": "1.2.3", "path": "/x"}}',
     ["child process: not installed", "`python -m nereid`:  Triton 1.2.3, in /x", "problem: children of a process that uses the alias do not get it"]),
    ('{"plain": {"error": "broken"}, "with_alias": {"error": "exit status 1"}}',
     ["child process: cannot be found out: broken", "`python -m nereid`:  cannot be found out: exit status 1", "problem: children of a process"]),
    ("no JSON", [])])
def test_doctor_calls_a_problem_of_children_one(tmp_path, answer, expected):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncase \"$*\" in *nereid.tools.children) echo '{answer}';; *) exec {sys.executable} \"$@\";; esac\n")
    python.chmod(0o755)
    text = nereid("doctor", "--python", str(python)).stdout
    assert all(part in text for part in expected) and ("`import triton`" in text) == bool(expected), text


@pytest.mark.parametrize("answer, expected", [
    ('{"version": "2.13.0", "triton": {"nereid": true, "version": "3.7.1", "path": "/x"}, "worker": {"error": "no answer"}, "cpu": {"kernels": 2}, '
     '"cuda": {"kernels": 0, "error": "OutOfMemory"}}',
     ["torch.compile PyTorch 2.13.0 after nereid.torch.use(cpu=True)\n", " `import triton`: Nereid, as 3.7.1, in /x\n",
      "the same in a compile worker: cannot be found out: no answer\n", "kernels for cpu: 2 compiled by Nereid, with the right result\n",
      "problem: kernels for cuda: OutOfMemory\n"]),
    ('{"error": "nereid.torch needs PyTorch"}', ["torch.compile problem: nereid.torch needs PyTorch\n"]),
    ("no JSON", ["torch.compile problem: the trial ended early\n"])])
def test_doctor_tries_pytorchs_compiler(tmp_path, answer, expected):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncase \"$*\" in *nereid.torch) echo '{answer}';; *) exec {sys.executable} \"$@\";; esac\n")
    python.chmod(0o755)
    text = nereid("doctor", "--torch", "--python", str(python)).stdout
    assert all(part in text for part in expected), text
    assert "nereid doctor --torch" in nereid("doctor", "--python", str(python)).stdout


def test_doctor_of_a_path_with_spaces(tmp_path):
    python = tmp_path / "with space" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nexec -a '{python}' {sys.executable} \"$@\"\n".replace("/bin/sh", "/bin/bash"))
    python.chmod(0o755)
    report = json.loads(nereid("doctor", "--json", "--python", str(python)).stdout)["python"]
    assert report["found"] and report["path"] == str(python)


@pytest.mark.parametrize("command", ["compile", "disasm"])
def test_files_without_an_end(command):
    """A device is a file like another, and gives bytes for ever."""
    result = nereid(command, "/dev/zero", "--signature", "*i32")
    assert result.returncode in (1, 2) and ("too large" in result.stderr or "null bytes" in result.stderr), result.stderr


def test_many_functions(tmp_path):
    file = tmp_path / "many.py"
    file.write_text("import triton.language as tl\n" + "".join(f"def k{i}(x):\n    tl.store(x, {i})\n" for i in range(20000)))
    assert nereid("compile", str(file), "--kernel", "k19999", "--signature", "*i32", "--emit", "tile").returncode == 0


def test_help_of_run_after_its_options():
    for arguments in (["run", "--help"], ["run", "--python", sys.executable, "--help"], ["help", "run"]):
        result = nereid(*arguments)
        assert result.returncode == 0 and result.stdout.startswith("usage: nereid run SCRIPT"), arguments


def test_unknown_stage_lists_all():
    gpu = [*ADD, "--target", "cuda:90", "--emit", "zzz"]
    message = nereid(*gpu).stderr
    for stage in ("tile", "gpu", "llir", "ptx", "cubin", "layouts", "sass", "explain", "meta"):
        assert f"`{stage}`" in message, message


@pytest.mark.parametrize("arch", [80, 86, 87, 89, 90, 100, 103, 120, 121])
def test_targets_of_the_documentation(arch):
    assert f"`cuda:{arch}`" in (ROOT / "docs" / "cli.md").read_text()
    assert nereid(*ADD, "--target", f"cuda:{arch}", "--emit", "meta").returncode == 0


def test_long_names_are_shortened():
    for arguments in (["a" * 100_000], ["compile", SEED, "--kernel", "k" * 100_000], ["compile", SEED, "--" + "o" * 100_000],
                      ["bench", SEED, "--kernel", "add_kernel", "--arg", "x" * 100_000 + "=1", "--grid", "1"]):
        result = nereid(*arguments)
        assert result.returncode == 2
        assert len(result.stderr) < 2000 and "bytes)..." in result.stderr


def test_completion_of_values():
    text = nereid("completion", "bash").stdout
    script = text + """
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _nereid; echo "${COMPREPLY[*]}"; }
ask nereid cache ""
ask nereid compile --emit p
ask nereid completion z
ask nereid bench --cache ""
ask nereid cache --f
ask nereid compile k.py --targ
"""
    lines = subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.splitlines()
    assert lines == ["show verify clear path", "ptx", "zsh", "cold warm", "--folder", "--target"]
    for shell in ("zsh", "fish"):
        text = nereid("completion", shell).stdout
        assert "verify" in text and "cubin" in text and "cold" in text
        if shutil.which(shell):
            assert subprocess.run([shell, "-n"], input=text, text=True).returncode == 0


def test_doctor_on_a_read_only_place(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if os.geteuid() == 0:  # who may write everywhere but on a mount that is read-only
        mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        closed = next((mount for mount in mounts if os.path.isdir(mount) and not os.access(mount, os.W_OK)), None)
        if closed is None:
            pytest.skip("root may write everywhere, and no file system is mounted read-only here")
    result = nereid("doctor", NEREID_CACHE="1", NEREID_CACHE_DIR=f"{closed}/nereid")
    assert "is not used: it cannot be made, its place cannot be written" in result.stdout, result.stdout


WIDE = """import nereid
import nereid.language as tl


@nereid.jit
def softmax(out, x, B: tl.constexpr):
    at = tl.arange(0, B)
    row = tl.load(x + tl.program_id(0) * B + at)
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + tl.program_id(0) * B + at, powers / tl.sum(powers, axis=0))
"""


def test_code_that_other_programs_launch_has_the_blocks_that_were_asked_for(tmp_path):
    """A launcher of one's own does not know of clusters that the compiler would choose for such a row."""
    (tmp_path / "wide.py").write_text(WIDE)
    arguments = ["compile", str(tmp_path / "wide.py"), "--kernel", "softmax", "--signature", "*fp32, *fp32, 131072", "--target", "cuda:90", "--num-warps", "8", "--emit", "ptx"]
    text = nereid(*arguments).stdout
    assert "reqnctapercluster" not in text and ".reqntid 256" in text
    assert ".reqnctapercluster 8" in nereid(*arguments, "--option", "clusters=True").stdout
