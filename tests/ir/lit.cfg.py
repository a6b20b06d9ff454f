"""Tests of the IR: each file names its commands in RUN lines. tests/ir/CMakeLists.txt sets the environment."""
import os

import lit.formats

config.name = "nereid-ir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.environ["NEREID_TEST_OUTPUT"]
config.environment["PATH"] = os.pathsep.join(
    [os.path.dirname(os.environ["NEREID_OPT"]), os.environ["LLVM_TOOLS"], os.environ["PATH"]])
