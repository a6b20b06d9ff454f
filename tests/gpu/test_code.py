"""Code for NVIDIA GPUs, made where there is none: the seed kernels for each generation, assembled by ptxas. What the command line
says about machine code."""

import importlib.util
import os
import pathlib
import re
import shutil
import site
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = str(ROOT / "examples" / "kernels" / "seed.py")


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


assemble_ptx = _load(ROOT / "scripts" / "assemble_ptx.py")
PTXAS = assemble_ptx.find_ptxas()


def find_program():
    given = os.environ.get("CLI_UNDER_TEST")
    if given:
        return given
    spec = importlib.util.find_spec("nereid")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        inside = pathlib.Path(folder) / "bin" / "nereid"
        if inside.exists():
            return str(inside)
    return shutil.which("nereid")


PROGRAM = find_program()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="the command line is not built")

MATMUL = "{0}, {0}, {1}, i32, i32:16, i32:16, i32:16, i32:1, i32:16, i32:1, i32:16, i32:1, {2}, {3}, {4}, 8, '{5}'"
#: kernel, its signature, further options
KERNELS = {
    "add": ("add_kernel", "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", []),
    "add-unaligned": ("add_kernel", "*fp32, *fp32, *fp32, i32, 1024", []),
    "softmax": ("softmax_kernel", "*fp32:16, *fp32:16, i32:16, i32:16, i32:16, 4096", ["--num-warps", "8"]),
    "layer-norm": ("layer_norm_kernel", "*fp16:16, *fp16:16, *fp16:16, *fp16:16, i32:16, i32, fp32, 8192", ["--num-warps", "8"]),
    "giou": ("giou_kernel", "*fp32:16, *fp32:16, *fp32:16, *u1, 1024", []),
    "embedding": ("embedding_lookup_kernel", "*fp32:16, *i32:16, *fp32:16, i32, i32, 256", []),
    "matmul-fp16": ("matmul_full_kernel", MATMUL.format("*fp16:16", "*fp16:16", 128, 256, 64, ""), ["--num-warps", "8"]),
    "matmul-bf16-4-warps": ("matmul_full_kernel", MATMUL.format("*bf16:16", "*bf16:16", 128, 128, 32, "leaky_relu"), []),
    "matmul-fp32": ("matmul_full_kernel", MATMUL.format("*fp32:16", "*fp32:16", 64, 64, 32, ""), ["--num-stages", "4"]),
    "matmul-fp8": ("matmul_full_kernel", MATMUL.format("*fp8e4nv:16", "*fp16:16", 128, 128, 64, "")
                   .replace("i32:16, i32:1, i32:16, i32:1, 128", "i32:1, i32:16, i32:16, i32:1, 128"), ["--num-warps", "8"]),
    "matmul-fp8-row-major-b": ("matmul_full_kernel", MATMUL.format("*fp8e4nv:16", "*fp16:16", 128, 128, 64, ""), ["--num-warps", "8"]),
}


def compile_(kernel, signature, *arguments, **environment):
    return subprocess.run([PROGRAM, "compile", SEED, "--kernel", kernel, "--signature", signature, *arguments], capture_output=True,
                          text=True, timeout=300, env={**os.environ, **environment})


@pytest.mark.parametrize("arch", ["80", "86", "89", "90", "100", "120"])
@pytest.mark.parametrize("name", KERNELS)
def test_assembles(name, arch, tmp_path):
    kernel, signature, options = KERNELS[name]
    result = compile_(kernel, signature, "--target", f"cuda:{arch}", "--verify", *options)
    assert result.returncode == 0, result.stderr
    assert f".visible .entry {kernel}(" in result.stdout
    assert re.search(rf"^\.target sm_{arch}a?$", result.stdout, re.MULTILINE)
    if not PTXAS:
        pytest.skip("no ptxas")
    path = tmp_path / "kernel.ptx"
    path.write_text(result.stdout)
    assert assemble_ptx.assemble(PTXAS, path) == []


def find_disassembler():
    """nvdisasm: of a toolkit, or of the real Triton's package; None when there is none."""
    found = shutil.which("nvdisasm")
    triton = importlib.util.find_spec("triton")
    inside = pathlib.Path(triton.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm" if triton and triton.origin else None
    return found or (str(inside) if inside and inside.exists() else None)


def loops_of(sass, instruction):
    """The loops of machine code that hold an instruction, each as a list of lines."""
    lines = sass.splitlines()
    labels = {line.rstrip(":"): i for i, line in enumerate(lines) if re.fullmatch(r"\.L_x_\d+:", line)}
    for end, line in enumerate(lines):
        back = re.search(r"BRA `\((\.L_x_\d+)\)", line)
        if back and labels.get(back[1], end) < end and any(instruction in each for each in lines[labels[back[1]]:end]):
            yield lines[labels[back[1]]:end]


@pytest.mark.skipif(not PTXAS or not find_disassembler(), reason="needs ptxas and nvdisasm")
@pytest.mark.parametrize("a,columns,warps", [("i32:16, i32:1", 256, "8"), ("i32:1, i32:16", 256, "8"), ("i32:16, i32:1", 128, "4")])
def test_products_share_registers_with_additions_only(a, columns, warps, tmp_path):
    # Multiply-adds of 64 bits for addresses and copies of register pairs took 7 % of a product's time on an H200.
    signature = f"*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, {a}, i32:16, i32:1, i32:16, i32:1, 128, {columns}, 64, 8, ''"
    result = compile_("matmul_full_kernel", signature, "--target", "cuda:90", "--num-warps", warps)
    assert result.returncode == 0, result.stderr
    (tmp_path / "k.ptx").write_text(result.stdout)
    subprocess.run([PTXAS, "-arch=sm_90a", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.cubin")], check=True, timeout=60)
    sass = subprocess.run([find_disassembler(), "-c", str(tmp_path / "k.cubin")], check=True, capture_output=True, text=True, timeout=60).stdout
    loops = list(loops_of(sass, "HGMMA"))
    assert len(loops) == 1 and sum("LDGSTS" in line for line in loops[0]) >= 12
    assert [line for line in loops[0] if "IMAD.WIDE" in line or "IMAD.MOV" in line] == []


ADD = KERNELS["add"][:2]


def test_stages():
    for kind, part in (("tile", "tile.load"), ("gpu", "#ngpu.layout"), ("layouts", "layouts of @add_kernel"), ("llir", "define ptx_kernel void @add_kernel"),
                       ("ptx", ".reqntid 256"), ("meta", '"target":"cuda:90"')):
        result = compile_(*ADD, "--target", "cuda:90", "--num-warps", "8", "--emit", kind)
        assert result.returncode == 0, result.stderr
        assert part in result.stdout


def test_same_input_same_ptx():
    texts = {compile_(*ADD, "--target", "cuda:90").stdout for _ in range(3)}
    assert len(texts) == 1


def test_lines_change_nothing_else():
    kernel, signature, options = KERNELS["softmax"]
    lines = compile_(kernel, signature, "--target", "cuda:90", *options).stdout
    none = compile_(kernel, signature, "--target", "cuda:90", *options, NEREID_LINE_INFO="0").stdout
    assert ".loc\t1 8" in lines  # the kernel's lines, 77 to 89

    def code(text):
        text = re.sub(r"\.file.*|\.section.*", "", text)
        return [line for line in text.splitlines() if line.strip() and not re.match(r"\s*(\.loc|\$L__(tmp|func)|//)", line)]
    assert code(lines) == code(none)


def test_without_an_assembler(tmp_path):
    environment = {"NEREID_ASSEMBLER": "driver", "NEREID_LIBCUDA": str(tmp_path / "libcuda.so")}
    result = compile_(*ADD, "--target", "cuda:90", **environment)
    assert result.returncode == 0 and ".target sm_90a" in result.stdout
    result = compile_(*ADD, "--target", "cuda:90", "--emit", "cubin", "-o", str(tmp_path / "add.cubin"), **environment)
    assert result.returncode == 1
    assert result.stderr.startswith("error: there is no `cubin` of `add_kernel`: there is no assembler for NVIDIA's machine code: "
                                    f"there is no NVIDIA driver (`{tmp_path}/libcuda.so`); install ")  # StageUnavailable
    assert not (tmp_path / "add.cubin").exists()


@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
def test_cubin(tmp_path):
    out = tmp_path / "add.cubin"
    result = compile_(*ADD, "--target", "cuda:90", "--emit", "cubin", "-o", str(out), NEREID_PTXAS=PTXAS)
    assert result.returncode == 0, result.stderr
    assert out.read_bytes()[:4] == b"\x7fELF"


def test_header_is_of_the_cpu():
    result = compile_(*ADD, "--target", "cuda:90", "--emit", "header")
    assert result.returncode == 2
    assert result.stderr.strip() == ("error: a header describes an object file of the target `cpu`, not of `cuda:90`: machine code for a "
                                     "GPU is loaded by the CUDA driver")  # CliNoHeader


def test_unknown_architecture():
    result = compile_(*ADD, "--target", "cuda:75")
    assert result.returncode == 1
    assert result.stderr.startswith("error: the target cannot compile this kernel: unknown GPU architecture `cuda:75`: expected one of "
                                    "`cuda:80`, ")


def test_advice_of_the_assembler_is_shown(tmp_path):
    program = tmp_path / "ptxas"
    program.write_text("""#!/bin/sh
case "$1" in --version) echo "Cuda compilation tools, release 13.0, V13.0.1"; exit;; esac
echo "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'add_kernel'"
echo "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'add_kernel'"
echo "ptxas info    : (C7508) Potential Performance Loss: wgmma.mma_async instructions are serialized due to the presence of Extern calls in the function 'add_kernel'"
echo "ptxas warning : Unrecognized option"
while [ "$1" != -o ]; do shift; done
printf '\\177ELF' >"$2"
""")
    program.chmod(0o755)
    result = compile_(*ADD, "--target", "cuda:90", "--emit", "cubin", "-o", str(tmp_path / "add.cubin"), NEREID_PTXAS=str(program))
    assert result.returncode == 0, result.stderr
    start, end = "warning: `add_kernel`: ", " (found with num_warps=4, num_stages=3, BLOCK_SIZE=1024)"
    assert result.stderr.splitlines() == [
        start + "products on matrix units run one after the other: the values alive at the same time do not fit a thread's 255 registers; what "
        "helps: `num_warps=8` or smaller blocks" + end,
        start + "products on matrix units run one after the other: a function is called between them; what helps: a function without `noinline`, "
        "and no `device_print` or assertion between products" + end,
        start + "the assembler says: ptxas warning : Unrecognized option; what helps: other `ptx_options`, where it names one" + end]  # TargetAdvice


DISASSEMBLER = shutil.which("nvdisasm") or any(
    (pathlib.Path(folder) / "triton/backends/nvidia/bin/nvdisasm").exists() for folder in site.getsitepackages())


def find_tool(name):
    places = [pathlib.Path(folder) / "triton/backends/nvidia/bin" / name for folder in site.getsitepackages()]
    return shutil.which(name) or next((str(place) for place in places if place.exists()), None)


ROW = "*fp32:16, *fp32:16, i32:16, i32:16, i32:16, {}"
LAYER_NORM_ROW = "*fp16:16, *fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, fp32, {}"


@pytest.mark.skipif(not find_tool("cuobjdump"), reason="registers are read by cuobjdump, which comes with CUDA and with Triton's wheel")
@pytest.mark.parametrize("kernel, signature, warps, blocks", [("softmax_kernel", ROW.format(4096), 16, 4), ("softmax_kernel", ROW.format(16384), 16, 2),
                                                              ("softmax_kernel", ROW.format(16384), 8, 2),
                                                              ("layer_norm_kernel", LAYER_NORM_ROW.format(16384), 8, 2),
                                                              ("layer_norm_kernel", LAYER_NORM_ROW.format(4096), 16, 4)])
def test_blocks_that_registers_leave_room_for(kernel, signature, warps, blocks, tmp_path):
    """nvJitLink by itself takes up to twice these registers."""
    out = tmp_path / "row.cubin"
    found = [path.parents[1] for folder in site.getsitepackages() for path in pathlib.Path(folder).glob("nvidia/*/lib/libnvJitLink.so.1*")]
    environment = {"NEREID_ASSEMBLER": "nvjitlink"} | ({"NEREID_CUDA_PATH": str(found[0])} if found else {})
    result = compile_(kernel, signature, "--target", "cuda:90", "--num-warps", str(warps), "--emit", "cubin", "-o", str(out), **environment)
    if "no library `libnvJitLink` was found" in result.stderr:
        pytest.skip("about nvJitLink, which requirements-dev.txt installs")
    assert result.returncode == 0, result.stderr
    text = subprocess.run([find_tool("cuobjdump"), "-res-usage", str(out)], capture_output=True, text=True, check=True).stdout
    registers, stack = int(re.search(r"REG:(\d+)", text)[1]), int(re.search(r"STACK:(\d+)", text)[1])
    assert registers <= 65536 // (32 * warps * blocks) and stack <= 16


@pytest.mark.skipif(not (PTXAS and DISASSEMBLER), reason="no assembler or no disassembler")
@pytest.mark.parametrize("name, instructions", [("add", ["LDG.E.128", "STG.E.128"]), ("softmax", ["LDG.E.128", "STG.E.128"]),
                                                ("matmul-fp16", ["HGMMA.64x256x16.F32"]), ("matmul-fp8", ["QGMMA.64x128x32.F32"])])
def test_machine_code(name, instructions):
    kernel, signature, options = KERNELS[name]
    result = compile_(kernel, signature, "--target", "cuda:90", "--emit", "sass", *options)
    assert result.returncode == 0, result.stderr
    for instruction in instructions:
        assert f" {instruction}" in result.stdout
    assert not re.search(r" (LDL|STL)\b", result.stdout)  # no local memory


def _libdevice_calls():
    """A call of every overload of the table, on arguments made from `v`, an int32."""
    text = (ROOT / "src" / "frontend" / "builtins" / "libdevice.def").read_text()
    rows = [(name, types.split(",")) for name, types in re.findall(r'^OVERLOAD\((\w+), "([\w,]+)"', text, re.MULTILINE)]
    rows += [(name, [dtype] * int(count)) for name, count in re.findall(r"^FLOATS\((\w+), (\d)\)", text, re.MULTILINE) for dtype in ("fp32", "fp64")]
    names = {"fp32": "float32", "fp64": "float64"}
    for name, types in rows:
        yield f"libdevice.{name}({', '.join(f'v.to(tl.{names.get(t, t)})' for t in types)})"


def test_every_function_of_libdevice(tmp_path):
    lines = [f"    tl.store(x + i + 128 * {k}, {call}.to(tl.float32))" for k, call in enumerate(_libdevice_calls())]
    file = tmp_path / "every.py"
    file.write_text("import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\n\n@triton.jit\ndef every(x):\n"
                    "    i = tl.arange(0, 128)\n    v = i + tl.program_id(0)\n" + "\n".join(lines) + "\n")
    result = subprocess.run([PROGRAM, "compile", str(file), "--signature", "*fp32:16", "--target", "cuda:90"], capture_output=True,
                            text=True, timeout=300)
    if "`libdevice.10.bc` was not found" in result.stderr:
        pytest.skip("no libdevice")
    assert result.returncode == 0, result.stderr
    assert "__nv_" not in result.stdout
    if PTXAS:
        path = tmp_path / "every.ptx"
        path.write_text(result.stdout)
        assert assemble_ptx.assemble(PTXAS, path) == []


def test_libdevice_that_is_missing(tmp_path):
    file = tmp_path / "inverse.py"
    file.write_text("import triton.language as tl\n\n\ndef inverse(x):\n    tl.store(x, tl.extra.libdevice.erfinv(tl.load(x)))\n")
    result = subprocess.run([PROGRAM, "compile", str(file), "--signature", "*fp32", "--target", "cuda:90"], capture_output=True, text=True,
                            timeout=300, env={**os.environ, "NEREID_LIBDEVICE": str(tmp_path / "libdevice.bc")})
    assert result.returncode == 1
    assert f"cannot read `{tmp_path}/libdevice.bc`: No such file or directory" in result.stderr
