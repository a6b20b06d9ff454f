"""`import triton` in an interpreter whose start-up did not run `sitecustomize` of the folder above (`python -S`, a spawned child of `python -I`)."""

import sys

import _nereid_start

del sys.modules["triton"]  # this module, which is to be another one
_nereid_start.start()
import triton  # noqa: E402, F401
