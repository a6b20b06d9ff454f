"""scripts/check_layering.py: what it finds in small repositories, and that generated modules import what its table says."""

import ast
import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("check_layering", ROOT / "scripts" / "check_layering.py")
layering = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layering)

PAGE = """
# The map

### Includes

| room | includes |
|---|---|
| `src/low` | |
| `src/high` | `src/low` |
| `src/high/devices` (part of `src/high`) | `src/special` |
| `src/special` | |

### Headers without

| header | never reaches |
|---|---|
| `src/high/face.h` | `src/special/special.h` |

### Shared code

| folders |
|---|
| `src/low` |

### Exceptions of shared code

| file | why |
|---|---|

### Exceptions

| file | includes | until |
|---|---|---|

### Imports

| layer | modules |
|---|---|
| base | `nereid`, `nereid._native` |
| middle | `nereid.middle.*` |
| top | `nereid.top` |

### Generated modules

| module | imports |
|---|---|
| `nereid._native` | |

## More
"""

FILES = {
    "src/low/low.h": "",
    "src/low/low.cpp": '#include "low/low.h"\n#include <vector>\n#include "llvm/ADT/StringRef.h"\n',
    "src/high/face.h": '#include "low/low.h"\n',
    "src/high/high.cpp": '#include "high/face.h"\n',
    "src/high/devices/device.cpp": '#include "high/face.h"\n#include "special/special.h"\n',
    "src/special/special.h": "",
    "python/nereid/__init__.py": "def _names_later(scope, homes=(), modules=(), fresh=(), rest=None):\n    return None, None\n"
                                 "_HOMES = {'nereid.middle.one': ['first'], 'nereid.top': ['last']}\n"
                                 "_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}\n"
                                 "_PROVIDERS = {'last': 'nereid.top'}\n"
                                 "__getattr__, __dir__ = _names_later(globals(), _HOME_OF)\n",
    "python/nereid/middle/__init__.py": "",
    "python/nereid/middle/one.py": "from .. import _names_later, _native\ndef first(): pass\n",
    "python/nereid/middle/two.py": "from . import one\n",
    "python/nereid/top.py": "from .middle.two import one\nfrom . import first\ndef last(): pass\n",
}


@pytest.fixture
def check(tmp_path, capsys):
    """Runs the script on the small repository with some files replaced, and `(old, new)` replaced in its page; gives what it printed."""

    def run(files=(), *replacements):
        page = PAGE
        for old, new in replacements:
            assert page.count(old) == 1
            page = page.replace(old, new)
        for name, text in {**FILES, **dict(files), "docs/README.md": page}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        code = layering.main(["--root", str(tmp_path)])
        printed = capsys.readouterr().out
        assert code == (printed != "layering: ok\n")
        return printed

    return run


def test_this_repository():
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "check_layering.py")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "layering: ok\n"), done.stdout + done.stderr


def test_the_small_repository(check):
    assert check() == "layering: ok\n"


def test_a_wrong_include(check):
    text = check({"src/low/low.cpp": '\n# include "high/face.h"\n'})
    assert text.startswith("src/low/low.cpp:2: `src/low` may not include `src/high` (src/high/face.h): docs/README.md lists")
    # Beside the file that includes it, without its folder.
    text = check({"src/low/low.cpp": '#include "../special/special.h"\n'})
    assert text.startswith("src/low/low.cpp:1: `src/low` may not include `src/special` (src/special/special.h)")


def test_a_part_of_a_room_may_more_than_its_room(check):
    text = check({"src/high/high.cpp": '#include "special/special.h"\n'})
    assert text.startswith("src/high/high.cpp:1: `src/high` may not include `src/special` (src/special/special.h)")


def test_a_circle_of_rooms(check):
    text = check({"src/low/low.cpp": '#include "high/face.h"\n'}, ("| `src/low` | |", "| `src/low` | `src/high` |"))
    assert text == ("a circle of rooms: src/high -> src/low (src/high/face.h:1), src/low -> src/high (src/low/low.cpp:1)\n")


def test_an_unknown_room(check):
    assert check({"src/new/file.cpp": ""}).startswith("src/new/file.cpp: its folder belongs to no room of the table `Includes`")
    assert "names `src/never`, which is no room" in check((), ("| `src/low` | |", "| `src/low` | `src/never` |"))
    assert "the room `src/empty` has no files" in check((), ("| `src/low` | |", "| `src/low` | |\n| `src/empty` | |"))


def test_exceptions_only_shrink(check):
    row = ("| file | includes | until |\n|---|---|---|", "| file | includes | until |\n|---|---|---|\n| `src/low/low.cpp` | `src/special/special.h` | later |")
    assert check({"src/low/low.cpp": '#include "special/special.h"\n'}, row) == "layering: ok\n"
    assert check({"src/low/low.cpp": ""}, row).startswith("docs/README.md: the exception `src/low/low.cpp` -> `src/special/special.h` is no longer needed")
    allowed = ("| `src/low` | |", "| `src/low` | `src/special` |")
    text = check({"src/low/low.cpp": '#include "special/special.h"\n'}, row, allowed)
    assert "is no longer needed" in text


def test_shared_code_names_no_vendor(check):
    assert check({"src/low/low.h": "// faster than nothing\nint cudaStream();\n"}).startswith("src/low/low.h:2: names `cuda`, which belongs to one vendor")
    assert check({"src/low/low.h": "// for sm_90\n"}).startswith("src/low/low.h:1: names `sm_9`")
    assert check({"src/high/face.h": "int cudaStream();\n"}) == "layering: ok\n"
    row = ("| file | why |\n|---|---|", "| file | why |\n|---|---|\n| `src/low/low.h` | a reason |")
    assert check({"src/low/low.h": "// for sm_90\n"}, row) == "layering: ok\n"
    assert check((), row).startswith("docs/README.md: src/low/low.h needs no exception")


@pytest.mark.parametrize("line", ["int lane = thread & 31;", "int warp = thread >> 5;", "for (int lane = 0; lane < 32; ++lane)", "threads = 64 * warps;"])
def test_shared_code_supposes_no_number_of_lanes(check, line):
    assert check({"src/low/low.cpp": f"\n{line}\n"}).startswith("src/low/low.cpp:2: supposes a number of lanes")


@pytest.mark.parametrize("line", [
    "int lane = thread & (lanes - 1);", "SmallVector<uint32_t, 5> lanes;", "word = bits / 32;", "// 32 lanes",
    "mmaAccumulator(warps, bits == 64 ? 64 : 32);", "int32_t warps;"
])
def test_other_numbers_beside_lanes(check, line):
    assert check({"src/low/low.cpp": f"{line}\n"}) == "layering: ok\n"


def test_headers_that_reach_others(check):
    text = check({"src/high/face.h": '#include "high/devices/inner.h"\n', "src/high/devices/inner.h": '#include "special/special.h"\n'})
    assert text == ("src/high/face.h: reaches src/special/special.h, which docs/README.md excludes: src/high/face.h -> "
                    "src/high/devices/inner.h -> src/special/special.h\n")
    assert "names src/high/other.h, which does not exist" in check((), ("| `src/high/face.h` |", "| `src/high/other.h` |"))


@pytest.mark.parametrize("text, line, how", [
    ("from .. import top\n", 1, ""),
    ("import os\nfrom ..top import last\n", 2, ""),
    ("def late():\n    from .. import top\n", 2, " inside a function"),
    ("def late():\n    import nereid.top\n", 2, " inside a function"),
    ("late = lambda: __import__('nereid.top')\n", 1, " inside a function"),
    ("import sys\ndef late():\n    return sys.modules.get('nereid.top')\n", 3, " inside a function"),
    ("import sys\ndef late():\n    return sys.modules['nereid.top']\n", 3, " inside a function"),
    ("from importlib import import_module\nimport_module('nereid.top')\n", 2, ""),
    ("from .. import last\n", 1, ""),  # a name that the package finds for others
], ids=range(9))
def test_a_wrong_import(check, text, line, how):
    found = check({"python/nereid/middle/two.py": text}).splitlines()
    assert f"python/nereid/middle/two.py:{line}: nereid.middle.two (layer middle) may not import nereid.top (layer top){how}: imports go to lower layers (docs/README.md)" in found


def test_a_circle_of_modules(check):
    text = check({"python/nereid/middle/one.py": "def first():\n    from . import two\n"})
    assert text == ("a circle of modules: nereid.middle.one -> nereid.middle.two (python/nereid/middle/one.py:2), "
                    "nereid.middle.two -> nereid.middle.one (python/nereid/middle/two.py:1); 1 of these inside functions\n")


def test_an_attribute_that_another_module_has(check):
    """`one.later` is found by `one` in `two`, which imports `three`: an arrow from `three` to `two`, and a circle."""
    text = check({"python/nereid/middle/one.py": "from .. import _names_later\n__getattr__, __dir__ = _names_later(globals(), {'later': 'nereid.middle.two'})\n",
                  "python/nereid/middle/two.py": "from . import three\nlater = 1\n",
                  "python/nereid/middle/three.py": "from . import one\ndef late():\n    return one.later\n",
                  "python/nereid/top.py": ""})
    assert "a circle of modules: nereid.middle.three -> nereid.middle.two (python/nereid/middle/three.py:3)" in text


@pytest.mark.parametrize("text", ["first.more = 1\n", "setattr(first, 'more', 1)\n", "def late():\n    first.count += 1\n"], ids=range(3))
def test_what_others_define_is_left_alone(check, text):
    text = "from .one import first\n" + text
    line = text.count("\n")
    assert check({"python/nereid/middle/two.py": text, "python/nereid/top.py": ""}) == (
        f"python/nereid/middle/two.py:{line}: sets an attribute of `first`, which another module defines: define it there\n")


def test_unknown_modules(check):
    assert "nereid.new: belongs to no layer of the table `Imports`" in check({"python/nereid/new.py": ""})


def test_names_that_live_nowhere(check, tmp_path):
    moved = FILES["python/nereid/__init__.py"].replace("{'last': 'nereid.top'}", "{'last': 'nereid.bottom'}")
    assert "`last` is said to live in nereid.bottom, which does not exist" in check({"python/nereid/__init__.py": moved})
    assert "`nereid.middle.none` of the layer `base` fits no module" in check((), ("| base | `nereid`,", "| base | `nereid.middle.none`, `nereid`,"))


def test_a_page_without_its_tables(check):
    assert check((), ("### Exceptions\n", "### Others\n")) == "docs/README.md: expected a heading `Exceptions` with a table below it\n"


def test_generated_modules_import_what_the_table_says():
    import nereid.language._builtins
    import nereid.language.extra._libdevice
    rows = layering.rows_of((ROOT / "docs" / "README.md").read_text(), "Generated modules")
    said = {layering.quoted(name)[0]: set(layering.quoted(cell)) for name, cell in rows}
    imports = layering.Imports(ROOT, {name: [] for name in said})
    for module in (nereid.language._builtins, nereid.language.extra._libdevice):
        package = module.__name__.rpartition(".")[0].split(".")
        found = set()
        for node in ast.walk(ast.parse(pathlib.Path(module.__file__).read_text())):
            assert not isinstance(node, ast.Import)
            if isinstance(node, ast.ImportFrom):
                base = ".".join([*package[:len(package) - node.level + 1], *([node.module] if node.module else [])])
                found |= {imports._target(base, alias.name) for alias in node.names}
        assert found - {"nereid._native"} == said.pop(module.__name__)
    assert said == {"nereid._native": set()}


def test_what_modules_call_from_above_is_there():
    import nereid
    for name in nereid._PROVIDERS:
        assert nereid._provided(name).__module__.startswith("nereid."), name
