"""Kernels of the CPU target as shared objects, for programs without this package: stages "so" and "launcher.so" of a compiled kernel, which AOTInductor
puts into its packages.

The first one has the kernel's entry under its name. The second one has

    void run_from_nativert(uint32_t x, uint32_t y, uint32_t z, int threads, void **arguments, void *kernel);

which runs the programs of a grid in order on the calling thread, however many `threads` are allowed. arguments: one for each parameter of the function,
constants included: a pointer to a tensor's data, the address of an integer or of an fp32, anything for a constant. kernel: the entry.
"""

import json
import shutil
import subprocess
import tempfile

from .. import knobs

#: C: what an entry is called with, and what a kernel calls that asserts, waits for other programs, or prints.
SUPPORT = r"""
#ifndef NEREID_LAUNCH_INFO
#define NEREID_LAUNCH_INFO
typedef struct nereid_launch_info {
  int32_t grid[3];
  int32_t reserved;
  const void *sites;
  void *launch;
} nereid_launch_info;
#endif

/* What a kernel calls that asserts, waits for other programs, or prints. */
__attribute__((weak, noreturn)) void nereid_cpu_fail(nereid_launch_info *info, int64_t program, int32_t kind, int32_t site,
                                                     int64_t a, int64_t b, int64_t c) {
  (void)info, (void)kind, (void)site, (void)a, (void)b, (void)c;
  fprintf(stderr, "kernel failed in program %lld\n", (long long)program);
  abort();
}
__attribute__((weak)) void nereid_cpu_spin(nereid_launch_info *info) { (void)info; }
__attribute__((weak)) void nereid_cpu_print(nereid_launch_info *info, int64_t program, int32_t site, int32_t operand,
                                            const void *data) {
  (void)info, (void)program, (void)site, (void)operand, (void)data;
}
"""
INCLUDES = "#include <inttypes.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
#: C, for a kernel with products of tiles: asks Linux for the tile registers of AMX.
TILES = r"""#include <sys/syscall.h>
#include <unistd.h>

/* Whether this process may use the tile registers of AMX. The first call asks Linux for them. */
static int nereid_has_tiles(void) {
  static int known = -1;
  int has = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (has < 0) {
    has = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
    __atomic_store_n(&known, has, __ATOMIC_RELAXED);
  }
  return has;
}
"""
_REQUEST = r"""
__attribute__((constructor)) static void nereid_request_tiles(void) {
  if (!nereid_has_tiles())
    fprintf(stderr, "Linux refuses the tile registers of AMX, which a kernel of this library needs\n");
}
"""
_SIZES = {"u1": 1, "i1": 1, "fp32": 4, **{f"{sign}{bits}": bits // 8 for sign in "iu" for bits in (8, 16, 32, 64)}}


def _linked(source, *objects):
    """The shared object of a C text and objects. RuntimeError: there is no C compiler, or it fails."""
    compiler = knobs.build.cc or shutil.which("clang") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("a shared object of a kernel takes a C compiler: install gcc or clang, or set CC")
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/source.c", "w") as file:
            file.write(source)
        for i, data in enumerate(objects):
            with open(f"{folder}/{i}.o", "wb") as file:
                file.write(data)
        names = ["source.c", *(f"{i}.o" for i in range(len(objects)))]
        done = subprocess.run([compiler, "-O2", "-shared", "-fPIC", *names, "-o", "out.so", "-lm"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"`{compiler}` does not link a kernel: {done.stderr.strip()}")
        with open(f"{folder}/out.so", "rb") as file:
            return file.read()


def kernel(obj, metadata):
    """The shared object of a kernel's object file, with this metadata, JSON. When it is loaded it asks for the registers that the kernel needs.
    RuntimeError: no C compiler."""
    tiles = TILES + _REQUEST if json.loads(metadata)["uses_tiles"] else ""
    return _linked(INCLUDES + tiles + SUPPORT, obj)


def launcher(metadata):
    """The shared object that launches a kernel with this metadata, JSON. RuntimeError: a parameter that is not passed so, or no C compiler."""
    about = json.loads(metadata)
    packing, slot = [], 0
    for i, parameter in enumerate(about["params"]):
        if parameter["constant"]:
            continue
        kind = parameter["signature"].partition(":")[0]
        if kind.startswith("*"):
            packing.append(f"  slots[{slot}] = (uint64_t)(uintptr_t)arguments[{i}];")
        elif kind in _SIZES:
            packing.append(f"  memcpy(&slots[{slot}], arguments[{i}], {_SIZES[kind]});")
        else:
            # PyTorch 2.13 declares a number of Python fp64, and passes the address of an fp32.
            remedy = "; torch._inductor.config._use_fp64_for_unbacked_floats = False makes numbers fp32" if kind == "fp64" else ""
            raise RuntimeError(f"the launcher of a kernel for a program in C takes pointers, integers and fp32, but parameter `{parameter['name']}` of "
                               f"`{about['name']}` is {kind}{remedy}")
        slot += 1
    scratch = about["scratch_bytes"]
    return _linked(INCLUDES + SUPPORT + "\n".join([
        "typedef void (*entry)(const void *slots, nereid_launch_info *info, int64_t begin, int64_t end, void *scratch);",
        "void run_from_nativert(uint32_t x, uint32_t y, uint32_t z, int threads, void **arguments, void *kernel) {",
        "  (void)threads;",
        f"  uint64_t slots[{max(slot, 1)}] = {{0}};",
        "  nereid_launch_info info = {{(int32_t)x, (int32_t)y, (int32_t)z}, 0, NULL, NULL};",
        "  void *scratch = NULL;",
        f"  if ({scratch} > 0 && posix_memalign(&scratch, 64, {max(scratch, 1)})) {{",
        '    fprintf(stderr, "no memory for a kernel\\n");',
        "    abort();",
        "  }",
        *packing,
        "  ((entry)kernel)(slots, &info, 0, (int64_t)x * y * z, scratch);",
        "  free(scratch);",
        "}\n"]))  # yapf: disable
