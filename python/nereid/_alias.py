"""`import triton` meaning Nereid.

A finder in front of `sys.meta_path` answers for `triton` and everything under it with the modules of this package: the same objects,
so that classes and functions are the same under both names. It also answers `importlib.metadata` for a distribution `triton`. Without
`install_as_triton()` nothing of this happens, and an installed Triton stays what it is.

Child processes get the same by their environment: NEREID_AS_TRITON=1 says what `import triton` means, and the folder `_as_triton` of this
package, which goes to the front of PYTHONPATH, puts it into effect when an interpreter starts (its `sitecustomize`), at the latest
when `triton` is imported (its package `triton`). The folder goes into `sys.path` as well, because spawned processes and PyTorch's workers are
given that of their parent. In site-packages, `nereid_alias.pth` does the same without PYTHONPATH. All of them import `nereid`, and importing it
under NEREID_AS_TRITON=1 installs the finder. Without that variable the folder steps aside.

This module is read by every child process: it imports nothing that an interpreter does not have at its start.
"""

import os
import sys

_NAME = "triton"
_OWN = "nereid"
_OWN_ATTRIBUTES = {"__name__", "__spec__", "__loader__", "__package__", "__path__", "__file__", "__version__",
                   "__nereid_alias__"}
_SWITCH = "NEREID_AS_TRITON"
_PACKAGE = os.path.dirname(os.path.abspath(__file__))
#: The folder that is added to PYTHONPATH.
_FOLDER = os.path.join(_PACKAGE, "_as_triton")
#: TORCH_CUSTOM_PYTHONPATH is what PyTorch gives its workers as PYTHONPATH, where it is set.
_PATHS = ("PYTHONPATH", "TORCH_CUSTOM_PYTHONPATH")

# Which Triton a release of PyTorch is made for, for builds whose metadata do not say it (those for the CPU, some made from source).
_TRITON_OF_TORCH = {(2, 8): "3.4.0", (2, 9): "3.5.1", (2, 10): "3.6.0", (2, 11): "3.6.0", (2, 12): "3.7.0", (2, 13): "3.7.1", (2, 14): "3.8.0",
                    (2, 15): "3.9.0"}
_VERSION_WITHOUT_TORCH = "3.6.0"


_version_of_torch = None  # `_version()` without the setting, once it is known


def _version():
    """The version of Triton that programs are told: NEREID_TRITON_VERSION, else the one that the installed PyTorch is made for.

    ValueError: the setting is no version.
    """
    global _version_of_torch
    text = _setting()
    if text:
        return _checked(text)
    if _version_of_torch is None:
        _version_of_torch = _wanted_by_torch()
    return _version_of_torch


def _setting():
    """The text of NEREID_TRITON_VERSION, or of its knob."""
    group = getattr(sys.modules.get(_OWN + ".knobs"), "nereid", None)
    return group.triton_version if group is not None else os.environ.get("NEREID_TRITON_VERSION")


def _checked(text):
    """The setting as a version of three numbers."""
    import re
    found = re.fullmatch(r"\d{1,4}\.\d{1,4}((\.|a|b|r|\+).*)?", text)
    if found is None:
        raise ValueError(f"setting `NEREID_TRITON_VERSION` expects a release of Triton such as `3.8`, found `{text}`")
    return text if found.group(1) else text + ".0"


def release():
    """(major, minor) of the Triton whose rules hold on the host: where `import triton` means Nereid that of `triton.__version__`, else that of the
    setting, else (3, 6)."""
    on = _finder() is not None or _setting()
    major, minor = (_version() if on else _VERSION_WITHOUT_TORCH).split(".")[:2]
    return int(major), int("".join(digit for digit in minor if digit.isdigit()))


def _wanted_by_torch():
    """The version that the installed PyTorch requires by its metadata, else the one that its release was made for."""
    import re
    version, requirements = _metadata_of_torch()
    for requirement in requirements:
        if found := re.match(r"(?:pytorch-)?triton(?:-\w+)?\s*\(?[=~]=\s*(\d+(?:\.\d+)+)", requirement):
            return found.group(1)
    if found := re.match(r"(\d+)\.(\d+)", str(version)):
        release = min((int(found.group(1)), int(found.group(2))), max(_TRITON_OF_TORCH))
        return _TRITON_OF_TORCH.get(release, _VERSION_WITHOUT_TORCH)
    return _VERSION_WITHOUT_TORCH


def _metadata_of_torch():
    """(version, requirements) of the installed PyTorch, ("", ()) without one.

    The first launch needs them, and `importlib.metadata` would take longer than it: they are read from the first `torch-*.dist-info` on the path, and by that
    module only where there is a PyTorch and no such folder.
    """
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:  # not there, or an archive
            continue
        for name in names:
            if name.startswith("torch-") and name.endswith(".dist-info"):
                try:
                    with open(os.path.join(folder, name, "METADATA"), encoding="utf-8", errors="replace") as file:
                        head = file.read().partition("\n\n")[0].splitlines()
                except OSError:
                    continue
                fields = [line.partition(": ") for line in head]
                return (next((value for field, _, value in fields if field == "Version"), ""),
                        [value for field, _, value in fields if field == "Requires-Dist"])
    from importlib.machinery import PathFinder
    loaded = sys.modules.get("torch")
    if loaded is None and PathFinder.find_spec("torch") is None:
        return "", ()
    import importlib.metadata
    try:
        torch = importlib.metadata.distribution("torch")
        return torch.version, torch.requires or ()
    except importlib.metadata.PackageNotFoundError:
        return getattr(loaded, "__version__", ""), ()


class _AliasModule(type(sys)):
    """The module `triton`: Nereid's attributes, Triton's version."""

    def __getattr__(self, name):
        if name == "__version__":  # when it is first asked for: PyTorch's metadata take milliseconds to read
            self.__version__ = _version()
            return self.__version__
        return getattr(sys.modules[_OWN], name)

    def __setattr__(self, name, value):
        if name in _OWN_ATTRIBUTES or isinstance(value, type(sys)):
            super().__setattr__(name, value)
        else:
            setattr(sys.modules[_OWN], name, value)

    def __delattr__(self, name):
        if name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(sys.modules[_OWN], name)

    def __dir__(self):
        return dir(sys.modules[_OWN])


class _Loader:

    def __init__(self, own):
        self.own = own  # the spec of our module

    def create_module(self, spec):
        if spec.name == _NAME:
            own = __import__(_OWN)
            module = _AliasModule(_NAME, own.__doc__)
            module.__nereid_alias__ = True
            return module
        module = __import__(_OWN + spec.name[len(_NAME):], fromlist=("__name__", ))
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        if not isinstance(module, _AliasModule):
            module.__spec__ = self.spec  # the module keeps its own name

    # For `python -m triton.tools.compile`.
    def get_code(self, name):
        return self.own.loader.get_code(self.own.name)

    def get_source(self, name):
        return self.own.loader.get_source(self.own.name)

    def get_filename(self, name):
        return self.own.loader.get_filename(self.own.name)

    def is_package(self, name):
        return self.own.submodule_search_locations is not None


class _Finder:

    def find_spec(self, fullname, path=None, target=None):
        if fullname != _NAME and not fullname.startswith(_NAME + "."):
            return None
        import importlib.machinery
        import importlib.util
        own = importlib.util.find_spec(_OWN + fullname[len(_NAME):])
        if own is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(own), origin=own.origin,
                                              is_package=own.submodule_search_locations is not None)
        spec.submodule_search_locations = own.submodule_search_locations
        return spec

    def find_distributions(self, context):
        """A distribution `triton` for queries about this process; not for queries about given folders."""
        if "path" in vars(context) and context.path is not sys.path or context.name is not None and context.name.lower() != _NAME:
            return ()
        import importlib.metadata
        import pathlib

        class Distribution(importlib.metadata.Distribution):

            def read_text(self, filename):
                if filename != "METADATA":
                    return None
                return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {_version()}\nSummary: Nereid, imported as triton\n"

            def locate_file(self, path):
                return pathlib.Path(_PACKAGE).parent / path

        return (Distribution(), )


def _is_on():
    """Whether the environment says that `import triton` means this package. ValueError: it says something else."""
    if os.environ.get(_SWITCH, "0") not in ("0", "1"):
        from . import _native
        _native.check_settings()
    return os.environ.get(_SWITCH, "0").strip().lower() not in ("", "0", "false", "off", "no")


def _finder():
    """The installed finder, or None."""
    return next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)


def _foreign():
    """Another `triton` that this process has imported, or None."""
    loaded = sys.modules.get(_NAME)
    return None if loaded is None or isinstance(loaded, _AliasModule) else loaded


def _is_shim(folder):
    return os.path.basename(folder) == "_as_triton" and os.path.basename(os.path.dirname(folder)) == _OWN


def _split(name):
    text = os.environ.get(name)
    return text.split(os.pathsep) if text else []


_switch_before = None  # NEREID_AS_TRITON before install_as_triton()


def install_as_triton():
    """Makes `import triton` mean Nereid, in this process and, by NEREID_AS_TRITON and PYTHONPATH, in its children.

    RuntimeError: another `triton` has been imported already.
    """
    global _switch_before
    if _finder() is not None:
        return
    foreign = _foreign()
    if foreign is not None:
        raise RuntimeError(f"triton is already imported from {getattr(foreign, '__file__', 'somewhere')}: call "
                           "nereid.install_as_triton() before anything imports it")
    sys.meta_path.insert(0, _Finder())
    if not _is_on():
        _switch_before = os.environ.get(_SWITCH)
        os.environ[_SWITCH] = "1"
    for name in _PATHS:
        folders = _split(name)
        if folders[:1] != [_FOLDER] and (folders or name == "PYTHONPATH"):
            os.environ[name] = os.pathsep.join([_FOLDER, *(folder for folder in folders if folder != _FOLDER)])
    if _FOLDER not in sys.path:  # the first entry is the script's folder, which programs replace
        sys.path.insert(0 if sys.flags.safe_path else 1, _FOLDER)


def uninstall_as_triton():
    """Takes `install_as_triton()` back: `import triton` means what is installed under that name, in this process and in its later children.

    Modules that have imported `triton` keep what they have. Where there is no alias, nothing happens.
    """
    global _switch_before
    finder = _finder()
    if finder is None:
        return
    sys.meta_path.remove(finder)
    if _foreign() is None:
        for name in [name for name in sys.modules if name == _NAME or name.startswith(_NAME + ".")]:
            del sys.modules[name]
    sys.path[:] = [folder for folder in sys.path if folder != _FOLDER]
    values = {_SWITCH: _switch_before}
    for name in _PATHS:  # others may have added to it meanwhile
        values[name] = os.pathsep.join(folder for folder in _split(name) if folder != _FOLDER) or None
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _switch_before = None


def _start():
    """`install_as_triton()` because the environment says so: called when the package is imported.

    RuntimeWarning: this process imports another `triton`, or another copy of this package, than the process that set the environment.
    """
    if not _is_on():
        return
    foreign = _foreign()
    if foreign is not None:
        import warnings
        warnings.warn(
            f"{_SWITCH}={os.environ[_SWITCH]} says that `import triton` means Nereid, as in the process that started this one, but triton "
            f"{getattr(foreign, '__version__', '')} is already imported from {getattr(foreign, '__file__', 'somewhere')}: kernels of the two "
            f"processes are not the same. Start Python with {_FOLDER} first on PYTHONPATH and without -E and -I, or unset {_SWITCH}",
            RuntimeWarning, stacklevel=4)
        return
    others = [folder for folder in _split("PYTHONPATH") if _is_shim(folder)][:1]
    if others and os.path.realpath(others[0]) != os.path.realpath(_FOLDER):
        import warnings
        warnings.warn(
            f"this process imports Nereid from {_PACKAGE}, the process that started it from {os.path.dirname(others[0])}: put the same one on "
            "both paths", RuntimeWarning, stacklevel=4)
    install_as_triton()
