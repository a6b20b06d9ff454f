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
