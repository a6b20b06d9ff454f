"""Importing is cheap, and takes nothing along that it does not need."""

import subprocess
import sys


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_takes_neither_torch_nor_numpy_along():
    text = python("import sys, nereid, nereid.language, nereid.runtime\nprint([m for m in ('torch', 'numpy', 'triton') if m in sys.modules])")
    assert text.strip() == "[]"


def test_names_are_found_lazily():
    text = python("import sys, nereid\nprint('nereid.language' in sys.modules)\nprint(sorted(nereid.__all__) == sorted(set(nereid.__all__)))\n"
                  "print([name for name in nereid.__all__ if getattr(nereid, name, None) is None])")
    assert text.split("\n")[:3] == ["False", "True", "[]"]


def test_unknown_names():
    text = python("import nereid\ntry:\n    nereid.jti\nexcept AttributeError as error:\n    print(error)")
    assert text == "module 'nereid' has no attribute 'jti'\n"


def test_launching_takes_little_along():
    """A new process pays for what it imports: tuning, files and threads of Python come when they are used."""
    text = python("import sys, nereid, nereid.language as tl\nnereid.jit\n"
                  "print([m for m in ('nereid.runtime.autotuner', 'nereid.runtime.cache', 'nereid.knobs', 'concurrent.futures', 'logging', "
                  "'tempfile', 'subprocess', 'importlib.resources', 'nereid.language.extra') if m in sys.modules])\n"
                  "import nereid.runtime\n"
                  "print(nereid.runtime.autotuner.Autotuner is nereid.runtime.Autotuner is nereid.Autotuner, nereid.runtime.cache.CacheManager.__name__,"
                  " 'autotune' in dir(nereid.runtime))")
    assert text.split("\n")[:2] == ["[]", "True CacheManager True"]
