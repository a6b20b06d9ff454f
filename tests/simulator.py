"""Where the simulator of GPU threads is (`nereid-simulate`, tests/unit/nvidia/Simulate.cpp), for tests that run the code of GPUs without one."""

import json
import os
import pathlib

import pytest

#: `scripts/test.sh` names the program, and then it has to be there.
NAMED = os.environ.get("NEREID_TEST_SIMULATOR")
_BUILDS = [pathlib.Path(__file__).parents[1] / "build" / build / "tests/unit/nvidia/nereid-simulate" for build in ("release", "debug")]
TOOL = pathlib.Path(NAMED) if NAMED else next((tool for tool in _BUILDS if tool.exists()), _BUILDS[0])

#: Why tests that need it are skipped; None: it is there.
MISSING = None if NAMED or TOOL.exists() else "runs the code of GPUs in nereid-simulate, which is built with Nereid and not installed: run scripts/build.sh, or set NEREID_TEST_SIMULATOR to the program"
needs_simulator = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")


def launch_options(compiled, folder):
    """The options of the tool that a compiled kernel asks for: its shared memory, and the plans of its tensor maps, which go to a file in `folder`."""
    options = ["--shared", str(compiled.metadata.shared)]
    if plans := getattr(compiled.metadata, "tensor_map_plans", None):
        path = pathlib.Path(folder, "maps.json")
        path.write_text(json.dumps(plans))
        options += ["--maps", str(path)]
    return options
