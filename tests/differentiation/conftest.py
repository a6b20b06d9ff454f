"""The kernels that tests make from text are made by the language tests' harness."""

import pathlib
import sys

for folder in (pathlib.Path(__file__).parents[1] / "language", pathlib.Path(__file__).parent):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
