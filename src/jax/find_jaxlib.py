"""Prints what a build against the installed jaxlib needs, for CMake: version of XLA's foreign function interface;folder of its headers. Fails without jaxlib."""

import importlib.util
import pathlib
import re

headers = pathlib.Path(importlib.util.find_spec("jaxlib").submodule_search_locations[0]) / "include"
text = (headers / "xla" / "ffi" / "api" / "c_api.h").read_text()
major, minor = (re.search(rf"^#define XLA_FFI_API_{part} (\d+)", text, re.MULTILINE).group(1) for part in ("MAJOR", "MINOR"))
print(f"{major}.{minor}", headers, sep=";", end="")
