"""What `sitecustomize` and `triton` of this folder share. The folder is on PYTHONPATH of the children of a process in which `import triton` means Nereid
(nereid/_alias.py), also where these are another Python, so nothing here needs a certain version of the language.
"""

import os
import sys

FOLDER = os.path.dirname(__file__)


def start():
    """Makes `import triton` mean Nereid if the environment says so; otherwise this folder leaves `sys.path`."""
    if sys.version_info >= (3, 11) and os.environ.get("NEREID_AS_TRITON") not in (None, "", "0"):
        try:
            import nereid
        except ImportError as error:
            if error.name != "nereid":
                raise
            sys.path.append(os.path.dirname(os.path.dirname(FOLDER)))  # the parent had found it in a way that the child does not know
            import nereid
        from nereid import _alias
        if _alias._is_on():
            nereid.install_as_triton()
            return
    sys.path[:] = [folder for folder in sys.path if folder != FOLDER]
