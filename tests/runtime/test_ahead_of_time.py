"""`triton.tools.compile` and `triton.tools.link`: kernels as C code, compiled by the C compiler, run on the CPU and against a stand-in of the
CUDA driver."""

import os
import platform
import shutil
import subprocess
import sys

import nereid
import nereid.language as tl
import pytest
from nereid.tools.compile import CompileArgs, compile_kernel
from nereid.tools.link import HeaderParser, LinkerError, link

CC = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang-22")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")

KERNELS = """
import nereid
import nereid.language as tl

@nereid.jit
def add(x, y, n, alpha, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + alpha, mask=i < n)

@nereid.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_assert(n > 0, "empty")
    tl.store(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))

@nereid.jit
def square(x, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    block = tl.load(x + i)
    tl.store(out + i, tl.dot(block, block))
"""

#: What the generated code uses of the driver, writing down what it is asked for.
CUDA_H = """
#include <stdint.h>
#include <stdio.h>
#include <stddef.h>
#ifndef FAKE_CUDA
#define FAKE_CUDA
typedef int CUresult;
typedef void *CUstream, *CUmodule, *CUfunction;
typedef unsigned long long CUdeviceptr;
#define CUDA_SUCCESS 0
#define CUDA_ERROR_INVALID_VALUE 1
typedef enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 } CUfunction_attribute;
static inline CUresult cuGetErrorString(CUresult code, const char **text) { (void)code; *text = "error"; return 0; }
static inline CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  printf("load %c%c%c\\n", ((const char *)image)[1], ((const char *)image)[2], ((const char *)image)[3]);
  *module = (CUmodule)image; return 0;
}
static inline CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  printf("function %s\\n", name); *function = module; return 0;
}
static inline CUresult cuModuleUnload(CUmodule module) { (void)module; printf("unload\\n"); return 0; }
static inline CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) { (void)f, (void)a; printf("shared %d\\n", v); return 0; }
static inline CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                      unsigned shared, CUstream stream, void **args, void **extra) {
  (void)f, (void)by, (void)bz, (void)shared, (void)extra;
  printf("launch %u %u %u threads %u stream %d:", gx, gy, gz, bx, stream != NULL);
  printf(" x=%llu y=%llu n=%d\\n", *(CUdeviceptr *)args[0], *(CUdeviceptr *)args[1], *(int32_t *)args[2]);
  return 0;
}
#endif
"""


@nereid.jit
def move(x, y, n):
    source = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [16, 64])
    target = tl.make_tensor_descriptor(y, [n, 64], [64, 1], [16, 64])
    target.store([0, 0], source.load([0, 0]))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "cuda.h").write_text(CUDA_H)
    return tmp_path


def make(folder, signature, name="add", target="cpu", **options):
    options = {"grid": "(n + BLOCK - 1) / BLOCK, 1, 1", **options}
    return compile_kernel(CompileArgs(path=str(folder / "kernels.py"), kernel_name=name, signature=signature, target=target,
                                      out_path=folder / name, **options))


def build_and_run(folder, main, *sources, status=0):
    (folder / "main.c").write_text(main)
    program = folder / "program"
    built = subprocess.run([CC, "-Wall", "-Wextra", "-Werror", "-I", folder, "-o", program, folder / "main.c", *sources, "-lm"],
                           capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([program], capture_output=True, text=True)
    assert ran.returncode == status, ran.stderr
    return ran


def test_the_cpu(folder):
    function, (source, header) = make(folder, "*fp32:16, *fp32:16, i32, fp32, 64")
    assert function.startswith("add_") and function.endswith("_0d1d23") and source.name == f"add.{function[4:]}.c"
    ran = build_and_run(folder, f"""
#include "{header.name}"
int main(void) {{
  static _Alignas(16) float x[100], y[101];
  for (int i = 0; i < 100; ++i)
    x[i] = (float)i;
  y[100] = -1;
  load_{function}();
  if ({function}(x, y, 100, 0.5f))
    return 1;
  unload_{function}();
  printf("%g %g %g\\n", y[0], y[99], y[100]);
  return 0;
}}""", source)
    assert ran.stdout == "0.5 99.5 -1\n"


def test_assertions_on_the_cpu(folder):
    function, (source, header) = make(folder, "*fp32, *fp32, i32, 32", name="total", grid="1, 1, 1")
    main = f"""
#include "{header.name}"
int main(void) {{
  float x[3] = {{1, 2, 3}}, out = 0;
  int failed = {function}(x, &out, 3);
  printf("%g\\n", out);
  return failed;
}}"""
    assert build_and_run(folder, main, source).stdout == "6\n"


@pytest.mark.parametrize("features, word", [("avx512", "zmm"), ("avx2", "ymm"), ("baseline", "xmm"), ("native", "mm")])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for registers of x86-64")
def test_instruction_sets(folder, features, word):
    _, (source, _) = make(folder, "*fp32, *fp32, i32, fp32, 64", target=f"cpu:{features}")
    text = source.read_text()
    assert f"for the CPU ({features})" in text and word in text
    assert features == "native" or not any(other in text for other in ("zmm", "ymm") if other > word)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs code for x86-64")
def test_tiles_are_asked_for(folder):
    """-3 where there are no tile registers: the kernel is not entered."""
    function, (source, header) = make(folder, "*i8, *i32, 32", name="square", target="cpu:sapphirerapids", grid="1, 1, 1")
    ran = build_and_run(folder, f"""
#include "{header.name}"
int main(void) {{
  static int8_t x[32 * 32];
  static int32_t out[32 * 32];
  for (int i = 0; i < 32 * 32; ++i)
    x[i] = -3;
  int status = {function}(x, out);
  printf("%d %d\\n", status, out[1023]);
  return 0;
}}""", source)
    with open("/proc/cpuinfo") as flags:
        assert ran.stdout == ("0 288\n" if "amx_int8" in flags.read() else "-3 0\n")


@pytest.mark.parametrize("where", ["cpu", "cuda:90:32"])
def test_dispatch_by_hints(folder, where):
    headers, sources = [], []
    for signature in ("*fp32:16, *fp32:16, i32:16, fp32, 64", "*fp32, *fp32, i32, fp32, 64", "*fp32, *fp32, i32:1, fp32, 64"):
        for stages in (3, 2):
            _, (source, header) = make(folder, signature, target=where, num_stages=stages, num_warps=4)
            sources.append(source)
            headers.append(header)
    link(headers, folder / "all")
    assert (folder / "all.h").read_text().count("int add_get_num_algos(void);") == 1
    if where == "cpu":
        ran = build_and_run(folder, """
#include "all.h"
#include <stdio.h>
int main(void) {
  static _Alignas(16) float x[66], y[66];
  load_add();
  int failed = add_default(x, y, 64, 1.f) | add(x + 1, y + 1, 3, 2.f, 1) | add(x + 64, y + 65, 1, 3.f, 0);
  unload_add();
  printf("%d %d %g %g %g %g\\n", failed, add_get_num_algos(), y[0], y[1], y[3], y[65]);
  return 0;
}""", folder / "all.c", *sources)
        assert ran.stdout == "0 2 1 2 2 3\n"
    else:
        ran = build_and_run(folder, """
#include "all.h"
#include <stdio.h>
int main(void) {
  add_default(0, 4096, 8192, 128, 1.f);
  add((CUstream)8, 4096, 8196, 65, 1.f, 0);
  add_default(0, 4, 8, 16, 1.f);
  add_default(0, 0, 0, 0, 1.f);
  unload_add();
  return 0;
}""", folder / "all.c", *sources)
        lines = ran.stdout.splitlines()
        assert lines[:3] == ["load ELF", "function add", "launch 2 1 1 threads 128 stream 0: x=4096 y=8192 n=128"]
        assert lines[3:6] == ["load ELF", "function add", "launch 2 1 1 threads 128 stream 1: x=4096 y=8196 n=65"]
        assert lines[6] == "launch 1 1 1 threads 128 stream 0: x=4 y=8 n=16"
        assert lines[7:] == ["unload", "unload"]  # an empty grid launches nothing


def test_the_command_lines(folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    (folder / "kernels.py").write_text(KERNELS.replace("nereid", "triton"))
    common = [sys.executable, "-m"]
    done = subprocess.run([*common, "nereid.tools.compile", folder / "kernels.py", "-n", "add", "-s", "*fp32, *fp32, i32, fp32, 64", "-g",
                           "(n + 63) / 64, 1, 1", "-t", "cpu", "-w", "2", "-ns", "1", "-on", "plus", "-o", folder / "out"],
                          capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    (header, ) = folder.glob("out.*.h")
    assert "// tt-linker-cpu: plus_" in header.read_text() and header.read_text().count(":64_warps2xstages1") == 1
    done = subprocess.run([*common, "nereid.tools.link", header, "-o", folder / "all", "--prefix", "my_"], capture_output=True, text=True,
                          env=environment)
    assert done.returncode == 0, done.stderr
    assert "int my_plus_default(float *x, float *y, int32_t n, float alpha);" in (folder / "all.h").read_text()
    done = subprocess.run([*common, "nereid.tools.compile", folder / "kernels.py", "-n", "add", "-s", "i32", "-g", "1,1,1", "-t", "cpu"],
                          capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "the signature of `add` needs 5 entries (x, y, n, alpha, BLOCK), found 1" in done.stderr
    # By Triton's name; what the compiler refuses is said without a traceback.
    tool = [*common, "nereid", "-m", "triton.tools.compile", folder / "kernels.py", "-n", "add", "-s", "*fp32, *fp32, i32, fp32, 64", "-g", "1,1,1"]
    done = subprocess.run([*tool, "-t", "cpu", "-o", folder / "named"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stderr == "" and list(folder.glob("named.*.h"))
    for options, message in ((["-w", "3"], "num_warps must be a power of 2"), (["-t", "cuda:99:32"], "unknown GPU architecture `cuda:99`")):
        done = subprocess.run([*tool, "-t", "cuda:90:32", *options], capture_output=True, text=True, env=environment)
        assert done.returncode == 1 and done.stderr.startswith("nereid.tools.compile: ") and message in done.stderr


@pytest.mark.parametrize("signature, options, message", [
    ("*fp32, *fp32, i32:8, fp32, 64", {}, "Only 1 and 16 are valid hints, got 8"),
    ("*fp32, *fp32, i32, fp32, BLOCK", {}, "`BLOCK` is a constexpr and needs a value, found 'BLOCK'"),
    ("*fp32, *fp32, number, fp32, 64", {}, "`n`: 'number' is no type of a parameter"),
    ("*fp32, *fp32, i32, fp32:1, 64", {}, "`alpha`: only integers can be said to be 1, found 'fp32:1'"),
    ("tensordesc<fp32[4]>, *fp32, i32, fp32, 64", {}, "descriptors cannot be passed to kernels compiled ahead of time"),
    ("*fp32, *fp32, i32, fp32, 64", {"grid": "1"}, "the grid has three parts"),
    ("*fp32, *fp32, i32, fp32, 64", {"target": "tpu"}, "a target is `cuda:<architecture>:32` or `cpu`, found 'tpu'"),
])
def test_wrong_command_lines(folder, signature, options, message):
    with pytest.raises(ValueError) as caught:
        make(folder, signature, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize("where", ["cpu", "cuda:80", "cuda:90"])
def test_descriptors_that_the_kernel_makes(folder, where):
    """Through pointers on every GPU: the copy engine of new ones wants maps, which only launches of the library make."""
    (folder / "kernels.py").write_text("""
import nereid
import nereid.language as tl

@nereid.jit
def move(x, y, n):
    source = tl.make_tensor_descriptor(x, [n, 64], [64, 1], [16, 64])
    target = tl.make_tensor_descriptor(y, [n, 64], [64, 1], [16, 64])
    target.store([0, 0], source.load([0, 0]) * 2)
""")
    function, (source, header) = make(folder, "*fp32:16, *fp32:16, i32", name="move", grid="1, 1, 1", target=where)
    if where != "cpu":
        assert "cuLaunchKernel" in source.read_text()
        return
    ran = build_and_run(folder, f"""
#include "{header.name}"
int main(void) {{
  static _Alignas(16) float x[16 * 64], y[16 * 64];
  for (int i = 0; i < 16 * 64; ++i)
    x[i] = (float)i;
  int failed = {function}(x, y, 3);
  printf("%d %g %g\\n", failed, y[3 * 64 - 1], y[3 * 64]);
  return failed;
}}""", source)
    assert ran.stdout == "0 382 0\n"


def test_descriptors_without_maps():
    """What the tool asks for can be asked of `compile`, too: a kernel that any launcher can start."""
    from nereid.backends.compiler import GPUTarget
    from nereid.compiler import ASTSource, compile
    ptx = {}
    for copies in (True, False):
        kernel = compile(ASTSource(move, {"x": "*fp16", "y": "*fp16", "n": "i32"}, attrs={(0, ): [["tt.divisibility", 16]], (1, ): [["tt.divisibility", 16]]}),
                         GPUTarget("cuda", 90, 32), {"tensor_copies": copies})
        ptx[copies] = kernel.asm["ptx"]
        assert (kernel.metadata.tensor_maps > 0) == copies
    assert "cp.async.bulk.tensor" in ptx[True] and "cp.async.bulk.tensor" not in ptx[False]


def test_headers_that_do_not_fit_together(tmp_path):
    parser = HeaderParser()
    assert parser.extract_linker_meta("// tt-linker: k_ab_0d12c:CUdeviceptr x, float f, int32_t n:8_warps4xstages3\n") == 1
    (meta, ) = parser.kernels["k_8_warps4xstages3"]
    assert meta.sizes == [16, None, 1] and meta.num_specs == 2 and meta.arg_names == ["x", "f", "n"]
    with pytest.raises(LinkerError, match="Mismatched signature for kernel k_8_warps4xstages3"):
        parser.extract_linker_meta("// tt-linker: k_cd_012:CUdeviceptr x, double f, int32_t n:8_warps4xstages3\n")
    with pytest.raises(LinkerError, match="is not a valid kernel suffix"):
        parser.extract_linker_meta("// tt-linker: k_cd_02:CUdeviceptr x, double f, int32_t n:8_warps4xstages3\n")
    (tmp_path / "other.h").write_text("int f(void);\n")
    with pytest.raises(LinkerError, match="is not a header of nereid.tools.compile"):
        link([tmp_path / "other.h"], tmp_path / "all")
    many = ", ".join(f"int32_t a{i}" for i in range(12))
    suffix = "".join(f"{i}{'d' if i == 10 else ''}" for i in range(12))
    assert parser.extract_linker_meta(f"// tt-linker: m_ef_{suffix}:{many}:8_warps4xstages3\n")
    assert parser.kernels["m_8_warps4xstages3"][0].sizes[10] == 16


