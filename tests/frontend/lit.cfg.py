"""Tests of the front end: kernels with RUN and CHECK comments. tests/frontend/CMakeLists.txt sets the environment."""
import os

import lit.formats

config.name = "nereid-frontend"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".py"]
config.excludes = ["lit.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.environ["NEREID_TEST_OUTPUT"]
config.environment["PATH"] = os.pathsep.join(
    [os.path.dirname(os.environ["NEREID_FRONTEND"]), os.environ["LLVM_TOOLS"], os.environ["PATH"]])
