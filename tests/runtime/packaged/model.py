"""Packages of `packaged_model.py`, for test_packages.py.

    model.py make FOLDER [BACKEND]    a package of AOTInductor, an exported program, and for each number of rows an input and what eager PyTorch gives
    model.py load FOLDER              runs the package, without Nereid and without the definition of the kernel
    model.py compile FOLDER           loads the exported program and compiles it

Each prints `ok`, or raises.
"""

import pathlib
import sys

import torch

ROWS, COLUMNS = (7, 20), 64


def make(folder, backend="cpp"):
    from packaged_model import Model
    torch.manual_seed(1)
    model = Model().eval()
    settings = {"cpu_backend": backend, "_use_fp64_for_unbacked_floats": False}
    with torch.no_grad(), torch._inductor.config.patch(settings):
        given = torch.export.export(model, (torch.randn(7, COLUMNS), ), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)}, ))
        torch.export.save(given, folder / "exported.pt2")
        torch._inductor.aoti_compile_and_package(given, package_path=str(folder / "model.pt2"))
        for rows in ROWS:
            x = torch.randn(rows, COLUMNS)
            x.numpy().tofile(folder / f"input{rows}")
            model(x).numpy().tofile(folder / f"wanted{rows}")


def check(folder, run):
    with torch.no_grad():
        for rows in ROWS:
            x, wanted = (torch.from_file(str(folder / f"{name}{rows}"), size=rows * columns).view(rows, columns) for name, columns in (("input", COLUMNS), ("wanted", 32)))
            torch.testing.assert_close(run(x), wanted, rtol=1e-4, atol=1e-4)


def main():
    what, folder, *rest = sys.argv[1:]
    folder = pathlib.Path(folder)
    if what == "make":
        make(folder, *rest)
    elif what == "load":
        check(folder, torch._inductor.aoti_load_package(str(folder / "model.pt2")))
        assert "nereid" not in sys.modules
    else:
        import packaged_model  # noqa: F401
        check(folder, torch.compile(torch.export.load(folder / "exported.pt2").module()))
    print("ok")


if __name__ == "__main__":
    main()
