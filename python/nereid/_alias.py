"""`import triton` meaning Nereid.

A finder in front of `sys.meta_path` answers for `triton` and everything under it with the modules of this package: the same objects,
so that classes and functions are the same under both names. Without `install_as_triton()` nothing of this happens,
and an installed Triton stays what it is.

Child processes inherit the switch through the environment variable NEREID_AS_TRITON, which `nereid_alias.pth` in
site-packages honours when an interpreter starts.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types

_NAME = "triton"
_OWN = "nereid"
_OWN_ATTRIBUTES = {"__name__", "__spec__", "__loader__", "__package__", "__path__", "__file__", "__version__",
                   "__nereid_alias__"}


class _AliasModule(types.ModuleType):
    """The module `triton`: Nereid's attributes, Triton's version."""

    def __getattr__(self, name):
        return getattr(sys.modules[_OWN], name)

    def __setattr__(self, name, value):
        if name in _OWN_ATTRIBUTES or isinstance(value, types.ModuleType):
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
            own = importlib.import_module(_OWN)
            module = _AliasModule(_NAME, own.__doc__)
            module.__nereid_alias__ = True
            module.__version__ = os.environ.get("NEREID_TRITON_VERSION", "3.6.0")
            return module
        module = importlib.import_module(_OWN + spec.name[len(_NAME):])
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
        own = importlib.util.find_spec(_OWN + fullname[len(_NAME):])
        if own is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(own), origin=own.origin,
                                              is_package=own.submodule_search_locations is not None)
        spec.submodule_search_locations = own.submodule_search_locations
        return spec


def install_as_triton():
    """Makes `import triton` mean Nereid, in this process and in its children."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    loaded = sys.modules.get(_NAME)
    if loaded is not None:
        raise RuntimeError(f"triton is already imported from {getattr(loaded, '__file__', 'somewhere')}: call "
                           "nereid.install_as_triton() before anything imports it")
    sys.meta_path.insert(0, _Finder())
    os.environ["NEREID_AS_TRITON"] = "1"
