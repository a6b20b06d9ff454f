"""Python declarations of the functions of a bitcode library: `python -m nereid.tools.build_extern` (`triton.tools.build_extern`).

    python -m nereid.tools.build_extern --lib-path libdevice.10.bc --lib-name libdevice --output-dir . --llvm-dis llvm-dis

writes `libdevice.py`: one `@core.extern` function for each name, with the types it takes and the symbol for each.
"""

import argparse
import os
import re
import subprocess
import tempfile
from abc import ABC, abstractmethod
from typing import Dict, List, Optional

_TYPES = {"double": "fp64", "float": "fp32", "i32": "int32", "i64": "int64"}


class Symbol:
    """One function of a library: its symbol, the name of the operation, types as texts ("fp32")."""

    def __init__(self, name: str, op_name: str, ret_type: str, arg_names: List[str], arg_types: List[str]) -> None:
        self.name = name
        self.op_name = op_name
        self.ret_type = ret_type
        self.arg_names = list(arg_names)
        self.arg_types = list(arg_types)


def convert_type(type_str) -> Optional[str]:
    """The language's name of a type of LLVM; None when it has none."""
    return _TYPES.get(type_str)


def to_unsigned(type_str) -> str:
    """The unsigned type of the same width."""
    return {"int32": "uint32", "int64": "uint64"}.get(type_str, type_str)


class ExternLibrary(ABC):
    """A library and its symbols; `grouping`: symbols of one operation stand in one function."""

    def __init__(self, name: str, path: str, format: bool = True, grouping: bool = True) -> None:
        self.name = name
        self.path = path
        self.format = format
        self.grouping = grouping
        self.symbols: Dict[str, Symbol] = {}

    @abstractmethod
    def parse_symbols(self, input_file) -> None:
        """Reads the symbols of a file of LLVM IR."""

    @abstractmethod
    def _output_stubs(self) -> str:
        """The Python text."""

    def generate_stub_file(self, output_dir) -> None:
        """Writes `<name>.py`."""
        text = self._output_stubs()
        if not text:
            raise ValueError(f"{self.path} has no functions to declare")
        with open(os.path.join(output_dir, f"{self.name}.py"), "w") as file:
            file.write(text)


class Libdevice(ExternLibrary):
    """NVIDIA's libdevice: `__nv_sinf` and `__nv_sin` are the operation `sin`."""

    _DEFINE = re.compile(r"define\s+(?:[a-z_]+\s+)*?(?P<ret>\w+)\s+@(?P<name>__nv_\w+)\((?P<args>[^)]*)\)")

    def __init__(self, path) -> None:
        super().__init__("libdevice", path)
        self._symbol_groups: Dict[str, List[Symbol]] = {}

    @staticmethod
    def _extract_symbol(line) -> Optional[Symbol]:
        match = Libdevice._DEFINE.search(line)
        if not match:
            return None
        kinds, names = [], []
        for index, argument in enumerate(filter(None, (part.strip() for part in match["args"].split(",")))):
            words = [word for word in argument.split() if word not in ("noundef", "signext", "zeroext", "%")]
            kinds.append(convert_type(words[0]))
            names.append(words[-1].lstrip("%") if len(words) > 1 and words[-1].lstrip("%").isidentifier() else f"arg{index}")
        result = convert_type(match["ret"])
        if result is None or None in kinds:
            return None  # pointers, vectors
        name = match["name"]
        operation = name.removeprefix("__nv_")
        if operation.startswith("u") and operation in ("umulhi", "umul24", "usad", "uhadd", "urhadd", "umul64hi"):
            kinds, result = [to_unsigned(kind) for kind in kinds], to_unsigned(result)
        return Symbol(name, operation, result, names, kinds)

    def _group_symbols(self) -> None:
        """By operation: a name with an `f` behind it, or with `ll`, is the same with other types."""
        for symbol in self.symbols.values():
            operation = symbol.op_name
            shorter = operation[2:] if operation.startswith("ll") else operation[:-1] if operation.endswith("f") else None
            if shorter and f"__nv_{shorter}" in self.symbols:
                other = self.symbols[f"__nv_{shorter}"]
                if len(other.arg_types) == len(symbol.arg_types) and other.arg_types != symbol.arg_types:
                    operation = shorter
            self._symbol_groups.setdefault(operation, []).append(symbol)

    def parse_symbols(self, input_file) -> None:
        for line in input_file:
            symbol = self._extract_symbol(line)
            if symbol is not None:
                self.symbols[symbol.name] = symbol
        self._group_symbols()

    def _output_stubs(self) -> str:
        text = '"""Functions of libdevice; made by nereid.tools.build_extern."""\n\nfrom triton.language import core\n'
        for operation, symbols in sorted(self._symbol_groups.items()):
            names = symbols[0].arg_names
            rows = []
            for symbol in symbols:
                kinds = "".join(f'core.dtype("{kind}"), ' for kind in symbol.arg_types)
                rows.append(f'        ({kinds}): ("{symbol.name}", core.dtype("{symbol.ret_type}")),\n')
            arguments = ", ".join(names)
            text += (f"\n\n@core.extern\ndef {operation}({arguments + ', ' * bool(names)}_semantic=None):\n"
                     f"    return core.extern_elementwise(\"\", \"\", [{arguments}], {{\n{''.join(rows)}"
                     "    }, is_pure=True, _semantic=_semantic)\n")
        return text if self._symbol_groups else ""


class LLVMDisassembler:
    """Turns bitcode into text with the program `llvm-dis`."""

    def __init__(self, path) -> None:
        self.path = path
        handle, self.ll_file = tempfile.mkstemp(suffix=".ll")
        os.close(handle)

    def disasm(self, lib_path: str) -> None:
        """Writes the text of a library to `ll_file`."""
        try:
            subprocess.run([self.path, lib_path, "-o", self.ll_file], check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise RuntimeError(f"there is no program {self.path}") from error
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"`{self.path}` failed: {error.stderr.strip()}") from error


_LIBRARIES = {"libdevice": Libdevice}


def build(llvm_dis_path: str, lib_path: str, lib_name: str, output_dir: str) -> None:
    """Writes the declarations of a library's functions into a folder."""
    if lib_name not in _LIBRARIES:
        raise ValueError(f"unknown library {lib_name!r}: there is {', '.join(_LIBRARIES)}")
    library = _LIBRARIES[lib_name](lib_path)
    disassembler = LLVMDisassembler(llvm_dis_path)
    try:
        disassembler.disasm(lib_path)
        with open(disassembler.ll_file) as file:
            library.parse_symbols(file)
    finally:
        os.remove(disassembler.ll_file)
    library.generate_stub_file(output_dir)


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="build_extern", description="Declares the functions of a bitcode library for kernels.")
    parser.add_argument("--llvm-dis", dest="llvm_dis_path", default="llvm-dis", help="the program llvm-dis")
    parser.add_argument("--lib-path", required=True, help="the library's file")
    parser.add_argument("--lib-name", required=True, help="its name: libdevice")
    parser.add_argument("--output-dir", "-o", default=".", help="where to write")
    args = parser.parse_args()
    build(args.llvm_dis_path, args.lib_path, args.lib_name, args.output_dir)


if __name__ == "__main__":
    main()
