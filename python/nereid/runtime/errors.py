"""Errors of the run time, under the names that clients import them by."""

from ..errors import AutotunerError, OutOfResources, PTXASError, TritonError

__all__ = ["AutotunerError", "OutOfResources", "PTXASError", "TritonError"]
