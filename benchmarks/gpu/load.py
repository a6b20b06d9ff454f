"""The same file of kernels under Nereid and under an installed Triton, in one process."""

import importlib.util
import operator
import pathlib
import sys

import nereid
import nereid.language

KERNELS = pathlib.Path(__file__).resolve().parent / "kernels.py"
SEED = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels" / "seed.py"


def _load(path, package, language, name):
    """Runs the file with both `nereid` and `triton` meaning `package`."""
    meanings = {"nereid": package, "nereid.language": language, "triton": package, "triton.language": language}
    before = {key: sys.modules.get(key) for key in meanings}
    sys.modules.update(meanings)
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        for key, value in before.items():
            if value is None:
                del sys.modules[key]
            else:
                sys.modules[key] = value
    sys.modules[name] = module
    return module


class Library:
    """One of the two: its package, and the kernels' modules."""

    def __init__(self, name, package, language):
        self.name = name
        self.package = package
        self.seed = _load(SEED, package, language, f"seed_kernels_of_{name}")
        self.kernels = _load(KERNELS, package, language, f"benchmark_kernels_of_{name}")

    def kernel(self, name):
        """The kernel of this name, in either module; "NAME.fn" is one without its tuner."""
        first = name.split(".")[0]
        return operator.attrgetter(name)(self.seed if hasattr(self.seed, first) else self.kernels)


def libraries(with_triton=True):
    """Nereid, and Triton when it is installed and wanted."""
    found = [Library("nereid", nereid, nereid.language)]
    if with_triton and importlib.util.find_spec("triton") is not None:
        import torch
        import triton
        import triton.language
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        found.append(Library("triton", triton, triton.language))
    return found
