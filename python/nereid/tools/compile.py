"""A kernel compiled ahead of time, as C source: `python -m nereid.tools.compile` (`triton.tools.compile`).

    python -m nereid.tools.compile kernels.py -n add -s "*fp32:16, *fp32:16, i32, 1024" -g "(n + 1023) / 1024, 1, 1" -t cuda:90:32 -o add

writes `add.<suffix>.c` and `add.<suffix>.h`: machine code inside, and functions that load it, launch it and unload it. The suffix tells the
signature apart, so that several of one kernel can be put together by `nereid.tools.link`. For GPUs the C code needs `cuda.h` and the
driver; for `-t cpu` a C compiler of the same kind of machine (gcc or clang), nothing else.

The signature has one entry a parameter: a type, a type with `:16` (always divisible by 16) or `:1` (always 1), or the value of a
constexpr. fp16 and bf16 numbers are passed as their bits, in an uint16_t.
"""

import argparse
import ast
import hashlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from .. import _signature
from ..compiler._shared_objects import INCLUDES, SUPPORT, TILES
from ..errors import TritonError

desc = """Compiles a kernel ahead of time into C source code that holds its machine code, with functions to load, launch and unload it."""


@dataclass
class CompileArgs:
    """What the command line says. signature, grid: texts, their parts separated by commas. target: "cuda:90:32" or "cpu", by default
    the GPU of this machine, or the CPU where there is none."""
    path: str = ""
    kernel_name: str = ""
    signature: str = ""
    grid: str = ""
    target: Optional[str] = None
    num_warps: int = 1
    num_stages: int = 3
    out_name: Optional[str] = None
    out_path: Optional[Path] = None


_C_TYPES = {
    "u1": "uint8_t", "i1": "uint8_t", "fp16": "uint16_t", "bf16": "uint16_t", "fp32": "float", "f32": "float",
    "fp64": "double", **{f"{sign}{bits}": f"{'u' * (sign == 'u')}int{bits}_t" for sign in "iu" for bits in (8, 16, 32, 64)},
}  # yapf: disable


@dataclass
class _Parameter:
    """One parameter: its place, name, type ("*fp32", "i32"; None for a constexpr), what is known of it (1, 16 or None), its value."""
    index: int
    name: str
    type: Optional[str]
    hint: Optional[int]
    value: object = None

    def c_type(self, cpu):
        if self.type.startswith("*"):
            if not cpu:
                return "CUdeviceptr"
            element = self.type[1:].removeprefix("k")
            return ("const " if self.type.startswith("*k") else "") + _C_TYPES.get(element, "void") + " *"
        return _C_TYPES[self.type]


def _parameters(fn, signature):
    parts = _signature.split(signature)
    if len(parts) != len(fn.arg_names):
        raise ValueError(f"the signature of `{fn.__name__}` needs {len(fn.arg_names)} entries ({', '.join(fn.arg_names)}), found {len(parts)}")
    parameters = []
    for index, (name, text) in enumerate(zip(fn.arg_names, parts)):
        constexpr = index in fn.constexprs
        try:
            value = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            value = None
            if text != "None":
                if constexpr:
                    raise ValueError(f"`{name}` is a constexpr and needs a value, found {text!r}") from None
                kind, _, hint = text.partition(":")
                if hint not in ("", "1", "16"):
                    raise ValueError(f"Only 1 and 16 are valid hints, got {hint}")
                if kind.startswith(("tensordesc", "nvTmaDesc")):
                    raise ValueError(f"`{name}`: descriptors cannot be passed to kernels compiled ahead of time; make them in the kernel")
                if not (kind.startswith("*") or kind in _C_TYPES):
                    raise ValueError(f"`{name}`: {kind!r} is no type of a parameter")
                if hint == "1" and not kind.startswith(("i", "u")):
                    raise ValueError(f"`{name}`: only integers can be said to be 1, found {text!r}")
                parameters.append(_Parameter(index, name, kind, int(hint) if hint else None, 1 if hint == "1" else None))
                continue
        parameters.append(_Parameter(index, name, None, None, value))
    return parameters


def _load(path, name):
    """The kernel of this name in a file, which is executed in its folder."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise AttributeError(f"{path} has no kernel {name!r}")
    kernel = getattr(module, name)
    from ..runtime.jit import JITFunction
    while not isinstance(kernel, JITFunction):  # a tuner, or heuristics
        if not type(kernel).__module__.startswith("nereid"):
            raise ValueError(f"`{name}` of {path} is no kernel of Nereid: it is a {type(kernel).__module__}.{type(kernel).__name__}")
        kernel = kernel.fn
    return kernel


def _target(text):
    from ..backends.compiler import GPUTarget
    from ..runtime.driver import driver
    if text is None:
        return driver.active.get_current_target()
    parts = text.split(":")
    if parts[0] == "cpu":
        return GPUTarget("cpu", parts[1] if len(parts) > 1 else "native", 1)
    if parts[0] != "cuda" or len(parts) not in (2, 3) or not parts[1].isdigit():
        raise ValueError(f"a target is `cuda:<architecture>:32` or `cpu`, found {text!r}")
    return GPUTarget("cuda", int(parts[1]), int(parts[2]) if len(parts) == 3 else 32)


def _grid(text):
    parts = _signature.split(text, "()[]{}")  # `<` and `>>` are operators here
    if len(parts) != 3:
        raise ValueError(f"the grid has three parts, like `(n + 1023) / 1024, 1, 1`, found {text!r}")
    return parts


def compile_kernel(args: CompileArgs):
    """Compiles; gives the name of the launching function and the files that were written."""
    kernel = _load(args.path, args.kernel_name)
    parameters = _parameters(kernel, args.signature)
    target, grid = _target(args.target), _grid(args.grid)
    cpu = target.backend == "cpu"
    digest = hashlib.sha256()
    digest.update(" ".join(_signature.split(args.signature)).encode())
    digest.update(f"{args.num_warps}x{args.num_stages}x{target}".encode())
    signature_hash = digest.hexdigest()[:8]
    suffix = "".join(f"{p.index}{'c' if p.hint == 1 else 'd' if p.hint == 16 else ''}" for p in parameters if p.type)
    base = args.out_name or args.kernel_name
    function = f"{base}_{signature_hash}_{suffix}"

    compiled = _compile(kernel, parameters, target, args, f"{function}_entry" if cpu else None)
    constants = [str(p.value) for p in parameters if p.type is None]
    algorithm = "x".join([_identifier("x".join(constants))] * bool(constants)) + f"_warps{args.num_warps}xstages{args.num_stages}"
    code = _Code(function, compiled, parameters, grid, cpu, algorithm)
    out = Path(args.out_path) if args.out_path else Path(args.path).parent / base
    written = []
    for extension, text in (("c", code.source()), ("h", code.header())):
        path = out.with_name(f"{out.name}.{signature_hash}_{suffix}.{extension}")
        path.write_text(text)
        written.append(path)
    return function, written


def _identifier(text):
    return "".join(c if c.isalnum() else "_" for c in text)


def _compile(kernel, parameters, target, args, name):
    from ..compiler import ASTSource, compile
    from ..runtime.jit import JITFunction
    if name is not None:
        # The entry's name must tell it apart from those of other signatures.
        kernel = JITFunction(kernel.fn, do_not_specialize=kernel.do_not_specialize,
                             do_not_specialize_on_alignment=kernel.do_not_specialize_on_alignment, debug=kernel.debug,
                             noinline=kernel.noinline, repr=lambda specialization: name)
    signature = {p.name: "constexpr" if p.type is None or p.hint == 1 else p.type for p in parameters}
    constants = {p.name: p.value for p in parameters if p.type is None or p.hint == 1}
    attrs = {(p.index, ): [["tt.divisibility", 16]] for p in parameters if p.hint == 16}
    options = {"num_warps": args.num_warps, "num_stages": args.num_stages}
    if target.backend == "cuda":
        options["tensor_copies"] = False  # their maps are made by a launch of the library; descriptors become pointers
    return compile(ASTSource(kernel, signature, constants, attrs), target=target, options=options)


class _Code:
    """The C text of one compiled kernel."""

    def __init__(self, function, compiled, parameters, grid, cpu, algorithm):
        self.function, self.compiled, self.grid, self.cpu, self.algorithm = function, compiled, grid, cpu, algorithm
        self.parameters = parameters
        self.passed = [p for p in parameters if p.type and p.hint != 1]
        #: All run-time parameters of the dispatcher, including those that are always 1.
        self.full = [p for p in parameters if p.type]

    def _list(self, parameters):
        texts = [] if self.cpu else ["CUstream stream"]
        texts += [f"{p.c_type(self.cpu)} {p.name}".replace("* ", "*") for p in parameters]
        return ", ".join(texts) or "void"

    @property
    def result(self):
        return "int" if self.cpu else "CUresult"

    def header(self):
        about = ", ".join(f"{p.c_type(self.cpu)} {p.name}".replace("* ", "*") for p in self.full)
        include = "" if self.cpu else "#include <cuda.h>\n"
        return f"""#ifndef TT_KERNEL_INCLUDES
#define TT_KERNEL_INCLUDES

{include}#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#endif

#ifdef __cplusplus
extern "C" {{
#endif
void unload_{self.function}(void);
void load_{self.function}(void);
// tt-linker{'-cpu' * self.cpu}: {self.function}:{about}:{self.algorithm}
{self.result} {self.function}({self._list(self.passed)});
#ifdef __cplusplus
}}
#endif
"""

    def _about(self):
        facts = [f"{p.name} = {p.value!r}" for p in self.parameters if p.type is None or p.hint == 1]
        facts += [f"{p.name} is divisible by 16" for p in self.parameters if p.hint == 16]
        return "\n".join(f" *   {fact}" for fact in facts).replace("*/", "* /") or " *   nothing"

    def _constants(self):
        """C definitions of the constants that are compiled in, for the expressions of the grid."""
        integers = [p for p in self.parameters if type(p.value) is int and (p.type is None or p.hint == 1)]
        return "".join(f"  const int64_t {p.name} = {p.value};\n  (void){p.name};\n" for p in integers)

    def source(self):
        return (self._cpu_source if self.cpu else self._cuda_source)()

    def _cuda_source(self):
        metadata, f = self.compiled.metadata, self.function
        cubin = self.compiled.asm["cubin"]
        lines = "\n".join("  " + ", ".join(f"0x{byte:02x}" for byte in cubin[i:i + 20]) + "," for i in range(0, len(cubin), 20))
        shared = getattr(metadata, "shared", 0)
        arguments = ", ".join([f"&{p.name}" for p in self.passed] + ["&global_scratch", "&profile_scratch"])
        return f"""/* {f}: made by nereid.tools.compile.
 *
 * Compiled in:
{self._about()}
 */
#include <cuda.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const unsigned char {f}_cubin[{len(cubin)}] __attribute__((aligned(16))) = {{
{lines}
}};
static CUmodule {f}_mod = NULL;
static CUfunction {f}_func = NULL;

static void {f}_check(CUresult code) {{
  const char *text = NULL;
  if (code == CUDA_SUCCESS)
    return;
  cuGetErrorString(code, &text);
  fprintf(stderr, "Triton Error [CUDA]: %s\\n", text ? text : "unknown error");
  exit((int)code);
}}

static CUresult {f}_try_load(void) {{
  CUresult code = cuModuleLoadData(&{f}_mod, {f}_cubin);
  if (code == CUDA_SUCCESS)
    code = cuModuleGetFunction(&{f}_func, {f}_mod, "{metadata.name}");
  if (code == CUDA_SUCCESS && {shared} > 49152)
    code = cuFuncSetAttribute({f}_func, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {shared});
  return code;
}}

/* Loads the kernel into the current context; ends the program when that fails. A launch does it by itself. */
void load_{f}(void) {{
  {f}_check({f}_try_load());
}}

void unload_{f}(void) {{
  if ({f}_mod != NULL)
    {f}_check(cuModuleUnload({f}_mod));
  {f}_mod = NULL;
  {f}_func = NULL;
}}

{self.result} {f}({self._list(self.passed)}) {{
  CUdeviceptr global_scratch = 0, profile_scratch = 0;
  void *args[] = {{{arguments}}};
{self._constants()}  unsigned int gX = {self.grid[0]};
  unsigned int gY = {self.grid[1]};
  unsigned int gZ = {self.grid[2]};
  if ({f}_func == NULL) {{
    CUresult code = {f}_try_load();
    if (code != CUDA_SUCCESS)
      return code;
  }}
  if (gX == 0 || gY == 0 || gZ == 0)
    return CUDA_SUCCESS;
  return cuLaunchKernel({f}_func, gX, gY, gZ, {metadata.num_warps} * 32, 1, 1, {shared}, stream, args, NULL);
}}
"""

    def _cpu_source(self):
        metadata, f = self.compiled.metadata, self.function
        scratch = metadata.scratch_bytes
        uses_tiles = metadata.uses_tiles
        check = "  if (!nereid_has_tiles())\n    return -3;\n" if uses_tiles else ""
        assembly = "\n".join("  " + _quoted(line) for line in self.compiled.asm["asm"].splitlines() if line.strip())
        packing = "\n".join(f"  memcpy(&slots[{i}], &{p.name}, sizeof {p.name});" for i, p in enumerate(self.passed))
        return f"""/* {f}: made by nereid.tools.compile for the CPU ({metadata.features}).
 *
 * Runs the programs of its grid on the calling thread, in order. 0, or -1 when there is no memory{", -3 when Linux refuses the tile registers of AMX" * uses_tiles}.
 *
 * Compiled in:
{self._about()}
 */
{INCLUDES}{TILES * uses_tiles}{SUPPORT}
/* Runs programs [begin, end); arguments are slots of 8 bytes. */
extern void {metadata.name}(const void *args, nereid_launch_info *info, int64_t begin, int64_t end, void *scratch)
    __asm__("{metadata.name}");

__asm__(
{assembly}
  ".text\\n");

void load_{f}(void) {{}}
void unload_{f}(void) {{}}

int {f}({self._list(self.passed)}) {{
  uint64_t slots[{max(len(self.passed), 1)}] = {{0}};
{self._constants()}  unsigned int gX = {self.grid[0]};
  unsigned int gY = {self.grid[1]};
  unsigned int gZ = {self.grid[2]};
  nereid_launch_info info = {{{{(int32_t)gX, (int32_t)gY, (int32_t)gZ}}, 0, NULL, NULL}};
  void *scratch = NULL;
{check}  if ({scratch} > 0 && posix_memalign(&scratch, 64, {max(scratch, 1)}))
    return -1;
{packing}
  {metadata.name}(slots, &info, 0, (int64_t)gX * gY * gZ, scratch);
  free(scratch);
  return 0;
}}
"""


def _quoted(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="compile", description=desc)
    parser.add_argument("path", help="Python file with the kernel; it is executed")
    parser.add_argument("--kernel-name", "-n", type=str, default="", required=True, help="name of the kernel")
    parser.add_argument("--target", "-t", type=str, default=None,
                        help="`cuda:90:32`, or `cpu`; by default what this machine has")
    parser.add_argument("--num-warps", "-w", type=int, default=1, help="warps of a program")
    parser.add_argument("--num-stages", "-ns", type=int, default=3, help="depth of pipelined loops")
    parser.add_argument("--out-name", "-on", type=str, default=None, help="name of the functions, by default the kernel's")
    parser.add_argument("--out-path", "-o", type=Path, default=None, help="where to write: this with a suffix, and `.c` and `.h`")
    parser.add_argument("--signature", "-s", type=str, required=True,
                        help='"*fp32:16, i32, 1024": types, hints, values of constexprs')
    parser.add_argument("--grid", "-g", type=str, required=True, help='"(n + 1023) / 1024, 1, 1": C expressions of the parameters')
    arguments = parser.parse_args()
    if "triton" not in sys.modules:
        from .._alias import install_as_triton
        install_as_triton()
    try:
        compile_kernel(CompileArgs(**vars(arguments)))
    except (ValueError, OSError, AttributeError, AssertionError, TritonError) as error:
        sys.exit(f"nereid.tools.compile: {error}")


if __name__ == "__main__":
    main()
