"""Prints what a build against the installed PyTorch needs, for CMake: minor version;folder;_GLIBCXX_USE_CXX11_ABI. Fails without PyTorch."""

import pathlib

import torch

print(".".join(torch.__version__.split(".")[:2]), pathlib.Path(torch.__file__).parent, int(torch._C._GLIBCXX_USE_CXX11_ABI), sep=";", end="")
