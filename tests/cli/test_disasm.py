"""nereid disasm, nereid completion, and output that does not arrive."""

import os
import shutil
import subprocess

import pytest

from test_cli import ADD, PROGRAM, SEED, fails, nereid

SIGNATURE = ADD[ADD.index("--signature") + 1]


def test_object(tmp_path):
    out = tmp_path / "add.o"
    assert nereid(*ADD, "--features", "avx2", "--emit", "obj", "-o", str(out)).returncode == 0
    text = nereid("disasm", str(out)).stdout
    assert text.startswith("add_kernel:\n") and "retq" in text and "vaddps" in text and "ymm" in text
    assert ".byte" not in text
    two = nereid("disasm", str(out), str(out)).stdout
    assert two.count("add_kernel:") == 2 and two.startswith(f"{out}:\n")
    written = tmp_path / "add.s"
    assert nereid("disasm", str(out), "-o", str(written)).stdout == ""
    assert written.read_text() == text


def test_names_of_what_is_called(tmp_path):
    file = tmp_path / "k.py"
    file.write_text("import triton.language as tl\n\ndef k(x):\n    tl.device_assert(tl.load(x) == 1, 'one')\n")
    text = nereid("disasm", str(file), "--signature", "*i32", "--target", "cpu", "--option", "debug=True").stdout
    assert "# nereid_cpu_fail" in text


def test_kernel_of_a_file():
    text = nereid("disasm", SEED, "--kernel", "add_kernel", "--signature", SIGNATURE, "--target", "cpu", "--features", "baseline").stdout
    assert "addps" in text and "ymm" not in text
    fails(2, "error: `nereid disasm` needs the argument `--signature`: the type of each parameter, or its value where it is a constexpr, as in `*fp32, *fp32, i32, 1024`", "disasm", SEED, "--kernel", "add_kernel", "--target", "cpu")


def disassembler():
    """A folder with NVIDIA's disassembler: a toolkit's, or that of the real Triton's package."""
    import importlib.util
    import pathlib
    found = shutil.which("nvdisasm")
    if found:
        return str(pathlib.Path(found).parent.parent)
    triton = importlib.util.find_spec("triton")
    folder = pathlib.Path(triton.origin).parent / "backends" / "nvidia" if triton and triton.origin else None
    return str(folder) if folder and (folder / "bin" / "nvdisasm").exists() else None


@pytest.mark.skipif(disassembler() is None, reason="needs nvdisasm")
def test_cubin_with_its_source(tmp_path):
    out, page = tmp_path / "add.cubin", tmp_path / "add.html"
    gpu = [*ADD[1:], "--target", "cuda:90"]
    if nereid("compile", *gpu, "--emit", "cubin", "-o", str(out)).returncode:
        pytest.skip("needs an assembler")
    environment = {"NEREID_CUDA_PATH": disassembler()}
    text = nereid("disasm", str(out), **environment).stdout
    number, line = next((i, line) for i, line in enumerate(open(SEED), 1) if "x = tl.load(x_ptr + offsets" in line)
    assert f"seed.py:{number}: {line.strip()}\n" in text and "LDG.E" in text
    assert "//## File" in nereid("disasm", str(out), "--no-source", **environment).stdout
    assert nereid("explain", *gpu, "--html", str(page), **environment).returncode == 0
    sass = page.read_text().split('id="pane-sass"')[1]
    assert f'<span data-l="{number}">' in sass and "LDG.E" in sass


def test_what_is_no_code(tmp_path):
    text, broken, aarch = tmp_path / "a.txt", tmp_path / "b.o", tmp_path / "c.o"
    text.write_text("hello")
    fails(1, f"error: cannot disassemble `{text}`: it is neither a cubin nor an object file", "disasm", str(text))  # CliCannotDisassemble
    assert nereid(*ADD, "--emit", "obj", "-o", str(broken)).returncode == 0
    data = broken.read_bytes()
    for cut in (64, 100, len(data) // 2):
        broken.write_bytes(data[:cut])
        result = nereid("disasm", str(broken))
        assert result.returncode in (0, 1) and (result.stdout or "cannot disassemble" in result.stderr)
    assert nereid(*ADD, "--features", "aarch64", "--emit", "obj", "-o", str(aarch)).returncode == 0
    fails(1, f"error: cannot disassemble `{aarch}`: it is for aarch64: only x86-64 and NVIDIA GPUs are known", "disasm", str(aarch))
    fails(2, "error: cannot read `no.o`: No such file or directory", "disasm", "no.o")
    fails(2, f"error: cannot read `{tmp_path}`: Is a directory", "disasm", str(tmp_path))
    fails(2, "error: `nereid disasm` needs the argument `FILE`", "disasm")


def test_completion():
    bash = nereid("completion", "bash").stdout
    if shutil.which("bash"):
        script = bash + "\nCOMP_WORDS=(nereid expl); COMP_CWORD=1; _nereid; echo ${COMPREPLY[@]}\n" \
                        "COMP_WORDS=(nereid compile --sig); COMP_CWORD=2; _nereid; echo ${COMPREPLY[@]}\n"
        assert subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.split() == ["explain", "--signature"]
    assert nereid("completion", "zsh").stdout.startswith("#compdef nereid")
    assert "complete -c nereid -n '__fish_seen_subcommand_from compile' -l kernel -r -d" in nereid("completion", "fish").stdout
    fails(2, "error: `nereid completion` needs the argument `SHELL`", "completion")
    fails(2, "error: `nereid completion` cannot use the argument `tcsh`", "completion", "tcsh")


def test_help_of_each_command():
    names = [line.split()[0] for line in nereid("--help").stdout.split("commands:\n")[1].split("\n\n")[0].splitlines()]
    assert {"bench", "cache", "compile", "completion", "disasm", "doctor", "explain", "opt", "run"} <= set(names)
    for name in names:
        text = nereid("help", name).stdout
        assert text.startswith(f"usage: nereid {name} ")
        if name != "opt":
            assert nereid(name, "--help").stdout == text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["doctor"], ["compile", SEED, "--list"], [*ADD, "--emit", "tile"]])
def test_output_that_does_not_arrive(words):
    with open("/dev/full", "w") as full:
        result = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert result.stderr == "error: cannot write `standard output`: No space left on device\n"


def test_a_reader_that_goes():
    result = subprocess.run(f"{PROGRAM} compile {SEED} --kernel add_kernel --signature '{SIGNATURE}' --emit llir | head -n 1; exit ${{PIPESTATUS[0]}}",
                            shell=True, executable=shutil.which("bash"), capture_output=True, text=True)
    assert result.stderr == "" and len(result.stdout.splitlines()) == 1


def test_damaged_object(tmp_path):
    """A section's header that points behind the end, a symbol by a name that is not there; test_c_abi_arguments.py damages more."""
    out = tmp_path / "add.o"
    assert nereid(*ADD, "--emit", "obj", "-o", str(out)).returncode == 0
    image = out.read_bytes()
    sections = int.from_bytes(image[40:48], "little")
    for section in range(1, 8):
        for field in (0, 4, 24, 32, 40, 44, 56):  # name, type, offset, size, link, info, size of an entry
            damaged = bytearray(image)
            damaged[sections + 64 * section + field + 3] = 0x7f
            out.write_bytes(damaged)
            result = nereid("disasm", str(out))
            assert result.returncode in (0, 1), (section, field, result.returncode, result.stderr)
            assert result.returncode == 0 or result.stderr.startswith("error: cannot disassemble"), result.stderr
