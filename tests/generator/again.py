"""`python -m tests.generator.again FILE.pickle [--target cuda]`: runs a kept program again and says how it ends."""

import argparse
import pickle
import sys

from .run import check
from .tree import source_of


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.generator.again", description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--compile", default="", help="only compile, for these targets")
    parser.add_argument("--compile-mode", default="", metavar="MODES", help="checked, debug, or both with a comma")
    options = parser.parse_args()
    with open(options.file, "rb") as file:
        program = pickle.load(file)
    print(source_of(program))
    compiled = tuple(options.compile.split(",")) if options.compile else ()
    failure = check(program, () if compiled else (options.target, ), compiled, modes=tuple(filter(None, options.compile_mode.split(","))))
    print(failure or "ok")
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
