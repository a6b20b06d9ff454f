"""Which target the launches of a test run on."""

import contextlib
import importlib.util
import os
import pathlib


def package():
    """The folder of the `nereid` that this process imports: of a build, or one that is installed."""
    found = importlib.util.find_spec("nereid")
    return str(pathlib.Path(found.origin).parent) if found else "not found"


@contextlib.contextmanager
def launches_on(target):
    """A context whose launches run on `target` ("cpu", "cuda"), or with "" where their arguments are, and on a GPU where these do not say.

    Child processes keep the NEREID_TARGET of this one.
    """
    from nereid import knobs
    from nereid.runtime.driver import cpu, cuda, driver
    of_children = os.environ.get("NEREID_TARGET")
    driver.set_active(cpu if target == "cpu" else cuda)
    try:
        with knobs.nereid.scope():
            knobs.nereid.target = target
            if of_children is not None:
                os.environ["NEREID_TARGET"] = of_children
            yield
    finally:
        driver.reset_active()
