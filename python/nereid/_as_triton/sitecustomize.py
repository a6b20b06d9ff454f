"""Start-up of an interpreter that has this folder on PYTHONPATH: see `_nereid_start`."""

import sys

import _nereid_start

_nereid_start.start()


def _run_next():
    """Runs the `sitecustomize` that this one hides."""
    own = sys.modules.pop("sitecustomize")
    hidden = [(i, folder) for i, folder in enumerate(sys.path) if folder == _nereid_start.FOLDER]
    sys.path[:] = [folder for folder in sys.path if folder != _nereid_start.FOLDER]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own
    finally:
        for place, folder in hidden:
            sys.path.insert(place, folder)


_run_next()
