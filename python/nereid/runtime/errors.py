"""Errors of the run time, under the names that clients import them by."""

from ..errors import AutotunerError, InterpreterError, OutOfResources, PTXASError, TritonError

__all__ = ["AutotunerError", "InterpreterError", "OutOfResources", "PTXASError", "TritonError"]
