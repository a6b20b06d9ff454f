"""Kernels compiled ahead of time put together: `python -m nereid.tools.link` (`triton.tools.link`).

    python -m nereid.tools.link add.*.h -o add

reads headers that `nereid.tools.compile` wrote and writes `add.h` and `add.c`: for each kernel `add(..., algo_id)`, which picks among the
files of one kernel the one whose assumptions the arguments meet (the more of them the better), `add_default(...)`, which takes the first
algorithm, `add_get_num_algos()`, `load_add()` and `unload_add()`. An algorithm is a set of constants, warps and stages.
"""

import re
import sys
from argparse import ArgumentParser
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

desc = """Makes one entry point of kernels compiled ahead of time, which picks the one that suits the arguments."""


class LinkerError(Exception):
    """The headers do not fit together."""


@dataclass
class KernelLinkerMeta:
    """One header: the name of its function is `orig_kernel_name_sig_hash_triton_suffix`. sizes: what each argument is said to be (1 or
    divisible by 16), or None."""
    orig_kernel_name: str
    arg_names: Sequence[str]
    arg_ctypes: Sequence[str]
    sizes: Sequence[int | None]
    sig_hash: str
    triton_suffix: str
    suffix: str
    num_specs: int
    cpu: bool = False
    prefix: str = ""

    @property
    def public(self):
        """The name for users."""
        return self.prefix + self.orig_kernel_name

    @property
    def function(self):
        return f"{self.orig_kernel_name}_{self.sig_hash}_{self.triton_suffix}"

    def _text(self, arguments, types=True):
        stream = [] if self.cpu else ["CUstream stream" if types else "stream"]
        return stream + [f"{kind} {name}".replace("* ", "*") if types else name for kind, name in arguments]

    @property
    def result(self):
        return "int" if self.cpu else "CUresult"


def gen_signature_with_full_args(m):
    """The parameters of the dispatcher, those that may be always 1 included."""
    return ", ".join(m._text(zip(m.arg_ctypes, m.arg_names))[0 if m.cpu else 1:])


def gen_signature(m):
    """The parameters of the kernel of one header."""
    passed = [(kind, name) for kind, name, size in zip(m.arg_ctypes, m.arg_names, m.sizes) if size != 1]
    return ", ".join(m._text(passed)[0 if m.cpu else 1:])


def _all(m, further=()):
    return ", ".join([*m._text(zip(m.arg_ctypes, m.arg_names)), *further]) or "void"


def _passed(m, types):
    pairs = [(kind, name) for kind, name, size in zip(m.arg_ctypes, m.arg_names, m.sizes) if size != 1]
    return ", ".join(m._text(pairs, types)) or ("void" if types else "")


class HeaderParser:
    """Reads the line of each header that is for this program. `kernels`: what was found, by kernel and algorithm."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.linker_directives = re.compile(r"//[\s]*tt-linker(-cpu)?:[\s]*([\w]+):(.*):(.+)")
        self.kernel_name = re.compile(r"^([\w]+)_([\w]+)_([\w]+)$")
        self.c_sig = re.compile(r"[\s]*(.+[\s*])(\w+)[,]?")
        self.kernels = defaultdict(list)

    def extract_linker_meta(self, header: str):
        """Adds the kernels of a header's text; says how many there were."""
        found = 0
        for line in header.splitlines():
            match = self.linker_directives.match(line)
            if not match:
                continue
            cpu, function, signature, algorithm = match.groups()
            name, sig_hash, suffix = self._match_name(function)
            types, names = self._match_c_sig(signature)
            specs, sizes = self._match_suffix(suffix, names)
            self._add_kernel("_".join([self.prefix + name, algorithm]),
                             KernelLinkerMeta(name, names, types, sizes, sig_hash, suffix, algorithm, specs, bool(cpu),
                                              self.prefix))
            found += 1
        return found

    def _match_name(self, ker_name: str):
        match = self.kernel_name.match(ker_name)
        if not match:
            raise LinkerError(f"{ker_name} is not a valid kernel name")
        return match.groups()

    def _match_c_sig(self, c_sig: str):
        types, names = [], []
        for part in filter(None, (part.strip() for part in c_sig.split(","))):
            match = self.c_sig.match(part)
            if not match:
                raise LinkerError(f"{c_sig} is not a valid argument signature")
            types.append(match.group(1).strip())
            names.append(match.group(2))
        return types, names

    def _match_suffix(self, suffix: str, names):
        """How many arguments something is said of, and what of each."""
        marks = _marks(suffix, -1, len(names))
        if marks is None:
            raise LinkerError(f"{suffix} is not a valid kernel suffix of {len(names)} arguments")
        sizes = [{"c": 1, "d": 16}.get(mark) for mark in marks]
        return sum(size is not None for size in sizes), sizes

    def _add_kernel(self, name: str, ker: KernelLinkerMeta):
        for other in self.kernels[name]:
            if list(other.arg_ctypes) != list(ker.arg_ctypes) or list(other.arg_names) != list(ker.arg_names):
                raise LinkerError(f"Mismatched signature for kernel {name}: \n\texisting sig is: {','.join(other.arg_ctypes)}\n\t"
                                  f"current is: {','.join(ker.arg_ctypes)}")
        self.kernels[name].append(ker)


def _marks(text, before, count):
    """The marks of `count` increasing indices above `before`, written without a space, each with "c", "d" or nothing behind it; None
    when the text is not that."""
    if count == 0:
        return [] if not text else None
    for length in range(1, len(text) + 1):
        if not text[:length].isdigit():
            break
        if int(text[:length]) <= before:
            continue
        mark = text[length:length + 1] if text[length:length + 1] in ("c", "d") else ""
        further = _marks(text[length + len(mark):], int(text[:length]), count - 1)
        if further is not None:
            return [mark, *further]
    return None


def make_algo_decls(name: str, metas: Sequence[KernelLinkerMeta]) -> str:
    """Declarations of one algorithm."""
    return f"""
{metas[-1].result} {name}({_all(metas[-1])});
void load_{name}(void);
void unload_{name}(void);
"""


def make_global_decl(meta: KernelLinkerMeta) -> str:
    """Declarations of a kernel's functions over all algorithms."""
    name = meta.public
    return f"""
{meta.result} {name}_default({_all(meta)});
{meta.result} {name}({_all(meta, ("int algo_id", ))});
void load_{name}(void);
void unload_{name}(void);
"""


def make_default_algo_kernel(meta: KernelLinkerMeta) -> str:
    """The function that takes the first algorithm."""
    arguments = ", ".join([*meta._text(zip(meta.arg_ctypes, meta.arg_names), types=False), "0"])
    return f"""
{meta.result} {meta.public}_default({_all(meta)}) {{
  return {meta.public}({arguments});
}}
"""


def make_kernel_hints_dispatcher(name: str, metas: Sequence[KernelLinkerMeta]) -> str:
    """The function of one algorithm: the kernel whose assumptions the arguments meet, those with most assumptions first."""
    metas = sorted(metas, key=lambda meta: -meta.num_specs)
    meta = metas[-1]
    code = [f"\n// launcher for: {name}"]
    code += [f"{each.result} {each.function}({_passed(each, types=True)});" for each in metas]
    code += ["", f"{meta.result} {name}({_all(meta)}) {{"]
    for each in metas:
        conditions = []
        for kind, argument, size in zip(each.arg_ctypes, each.arg_names, each.sizes):
            value = f"(uintptr_t){argument}" if "*" in kind else argument
            if size is not None:
                conditions.append(f"({value} % {size} == 0)" if size != 1 else f"({value} == 1)")
        condition = " && ".join(conditions) or "1"
        code.append(f"  if ({condition})\n    return {each.function}({_passed(each, types=False)});")
    code += [f"  return {'-2' if meta.cpu else 'CUDA_ERROR_INVALID_VALUE'};", "}", ""]
    for mode in ("load", "unload"):
        code += [f"// {mode} for: {name}"]
        code += [f"void {mode}_{each.function}(void);" for each in metas]
        code += [f"void {mode}_{name}(void) {{"] + [f"  {mode}_{each.function}();" for each in metas] + ["}", ""]
    return "\n".join(code)


def make_kernel_meta_const_dispatcher(meta: KernelLinkerMeta) -> str:
    """The function that takes an algorithm by its number."""
    name = meta.public
    arguments = ", ".join(meta._text(zip(meta.arg_ctypes, meta.arg_names), types=False))
    return f"""
{meta.result} {name}({_all(meta, ("int algo_id", ))}) {{
  assert(algo_id >= 0 && algo_id < {name}_get_num_algos());
  return {name}_kernels[algo_id]({arguments});
}}
"""


def make_func_pointers(names: str, meta: KernelLinkerMeta) -> str:
    """The table of a kernel's algorithms."""
    name = meta.public
    entries = "".join(f"  {each},\n" for each in names)
    return f"""
typedef {meta.result} (*{name}_func_t)({_all(meta)});
static {name}_func_t {name}_kernels[] = {{
{entries}}};
"""


def make_kernel_load_def(names: str, meta: KernelLinkerMeta) -> str:
    """Loading and unloading all kernels of all algorithms."""
    code = ""
    for mode in ("load", "unload"):
        calls = "".join(f"  {mode}_{each}();\n" for each in names)
        code += f"\nvoid {mode}_{meta.public}(void) {{\n{calls}}}\n"
    return code


def make_get_num_algos_decl(meta: KernelLinkerMeta) -> str:
    return f"\nint {meta.public}_get_num_algos(void);\n"


def make_get_num_algos_def(meta: KernelLinkerMeta) -> str:
    name = meta.public
    return f"\nint {name}_get_num_algos(void) {{\n  return (int)(sizeof({name}_kernels) / sizeof({name}_kernels[0]));\n}}\n"


def link(headers: Sequence[Path], out: Path, prefix: str = ""):
    """Reads headers, writes `out` with `.h` and `.c`."""
    parser = HeaderParser(prefix)
    for path in headers:
        path = Path(path)
        if not parser.extract_linker_meta(path.read_text()):
            raise LinkerError(f"{path} is not a header of nereid.tools.compile")
    by_kernel = defaultdict(dict)
    for name, metas in parser.kernels.items():
        by_kernel[metas[0].orig_kernel_name][name] = metas
    if len({meta.cpu for metas in parser.kernels.values() for meta in metas}) != 1:
        raise LinkerError("kernels of a GPU and of the CPU cannot be put together")
    cpu = next(iter(parser.kernels.values()))[0].cpu
    includes = ("" if cpu else "#include <cuda.h>\n") + "#include <stdint.h>\n"
    header, source = "", includes + "#include <assert.h>\n"
    for algorithms in by_kernel.values():
        meta = next(iter(algorithms.values()))[0]
        _same_parameters(algorithms)
        header += "".join(make_algo_decls(name, metas) for name, metas in algorithms.items())
        header += make_get_num_algos_decl(meta) + make_global_decl(meta)
        source += "".join(make_kernel_hints_dispatcher(name, metas) for name, metas in algorithms.items())
        names = list(algorithms)
        source += make_func_pointers(names, meta) + make_get_num_algos_def(meta) + make_kernel_meta_const_dispatcher(meta)
        source += make_kernel_load_def(names, meta) + make_default_algo_kernel(meta)
    guard = "".join(c if c.isalnum() else "_" for c in Path(out).name).upper() + "_H"
    header = (f"#ifndef {guard}\n#define {guard}\n{includes}\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{header}\n"
              "#ifdef __cplusplus\n}\n#endif\n#endif\n")
    Path(out).with_name(Path(out).name + ".h").write_text(header)
    Path(out).with_name(Path(out).name + ".c").write_text(source)


def _same_parameters(algorithms):
    """All algorithms of a kernel are in one table, so they take the same parameters."""
    first = next(iter(algorithms.values()))[0]
    for name, metas in algorithms.items():
        if list(metas[0].arg_ctypes) != list(first.arg_ctypes):
            raise LinkerError(f"Mismatched signature for kernel {name}: \n\texisting sig is: {','.join(first.arg_ctypes)}\n\t"
                              f"current is: {','.join(metas[0].arg_ctypes)}")


def main():
    """The command line."""
    parser = ArgumentParser(prog="link", description=desc)
    parser.add_argument("headers", nargs="+", help="headers that nereid.tools.compile wrote")
    parser.add_argument("--out", "-o", type=Path, required=True, help="where to write: this with `.h` and `.c`")
    parser.add_argument("--prefix", type=str, default="", help="goes before the names of the functions")
    args = parser.parse_args()
    try:
        link(args.headers, args.out, args.prefix)
    except (LinkerError, OSError) as error:
        sys.exit(f"nereid.tools.link: {error}")


if __name__ == "__main__":
    main()
