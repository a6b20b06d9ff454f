"""Checks of the wheel: its tag, its size, what it carries, the glibc it needs.

    python scripts/check_wheel.py dist/nereid-*.whl
"""

import pathlib
import re
import struct
import sys
import zipfile

SHT_SYMTAB, SHT_DYNAMIC = 2, 6
LARGEST = 40_000_000
NEWEST_GLIBC = (2, 34)
TAG = "cp311-abi3-manylinux_2_34_x86_64"
CONTENTS = [
    "nereid/__init__.py", "nereid/_native.abi3.so", "nereid/libnereid.so.1", "nereid/libnereid_compiler.so.1", "nereid/bin/nereid", "nereid/language/_builtins.py",
    "nereid/libnereid_embedded.a", "nereid/include/nereid/nereid.hpp", "nereid/include/nereid/embedded.hpp",
    "nereid/cmake/nereidConfig.cmake", "nereid/cmake/nereidAddKernels.cmake", "nereid_alias.pth",
    "nereid/_as_triton/sitecustomize.py", "nereid/_as_triton/_nereid_start.py", "nereid/_as_triton/triton/__init__.py", "nereid/ops/router/interface.h",
    "nereid/ops/router/router.cpp", "nereid/jax/handlers/handlers.cpp", "nereid/jax/handlers/interface.h"
]
ROUTER = re.compile(r"nereid/ops/router-torch[\d.]+\.so")
# Of the machine, not ours to ship.
SYSTEM_LIBRARIES = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64|libgcc_s|libz|libnereid)\.so")
# What a router finds in the process that has loaded PyTorch.
PYTORCHS = re.compile(r"^(libtorch_cpu|libc10|libstdc\+\+)\.so")


def sections(data):
    """The section headers of an ELF file."""
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, _ = struct.unpack_from("<HHH", data, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]


def needed_libraries(data):
    """DT_NEEDED of an ELF file."""
    headers = sections(data)
    for header in headers:
        if header[1] != SHT_DYNAMIC:
            continue
        strings = headers[header[6]][4]
        for position in range(header[4], header[4] + header[5], 16):
            tag, value = struct.unpack_from("<QQ", data, position)
            if tag == 1:
                start = strings + value
                yield data[start:data.index(b"\0", start)].decode()


def problems(path):
    if not path.name.endswith(f"-{TAG}.whl"):
        yield f"the tag is not {TAG}"
    if path.stat().st_size > LARGEST:
        yield f"{path.stat().st_size / 1e6:.1f} MB, at most {LARGEST / 1e6:.0f} MB"
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        for name in CONTENTS:
            if name not in names:
                yield f"{name} is missing"
        for name in sorted(names):
            data = wheel.read(name)
            if not data.startswith(b"\x7fELF"):
                continue
            versions = {tuple(map(int, v.split(b"."))) for v in re.findall(rb"\0GLIBC_(\d+\.\d+)(?=\0)", data)}
            if versions and max(versions) > NEWEST_GLIBC:
                yield f"{name} needs glibc {'.'.join(map(str, max(versions)))}, at most {'.'.join(map(str, NEWEST_GLIBC))}"
            for library in needed_libraries(data):
                if not SYSTEM_LIBRARIES.match(library) and not (ROUTER.fullmatch(name) and PYTORCHS.match(library)):
                    yield f"{name} needs {library}, which the wheel does not carry"
            if any(header[1] == SHT_SYMTAB for header in sections(data)):
                yield f"{name} is not stripped"


def main():
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    if len(paths) != 1 or not paths[0].exists():
        print("usage: check_wheel.py WHEEL (there must be exactly one)", file=sys.stderr)
        return 2
    found = list(problems(paths[0]))
    for problem in found:
        print(f"{paths[0].name}: {problem}")
    if not found:
        print(f"{paths[0].name}: ok, {paths[0].stat().st_size / 1e6:.1f} MB")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
