"""`python -m nereid script.py args...`: runs a script with `import triton` meaning Nereid.

Also `python -m nereid -m module args...` and `python -m nereid -c "code" args...`, as Python itself takes them.
"""

import os
import runpy
import sys

USAGE = """usage: python -m nereid script.py [arguments...]
       python -m nereid -m module [arguments...]
       python -m nereid -c code [arguments...]

Runs Python code with `import triton` meaning Nereid, also in its child processes."""


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        print(f"nereid: {arguments[0]} needs an argument\n\n{USAGE}", file=sys.stderr)
        return 2
    from nereid._alias import install_as_triton
    install_as_triton()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    else:
        if not os.path.exists(arguments[0]):
            print(f"nereid: cannot open `{arguments[0]}`", file=sys.stderr)
            return 2
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


def cli():
    """The console script `nereid`: hands over to the packaged command line tool."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "nereid")
    if not os.path.exists(program):
        print("nereid: this installation carries no command line tool", file=sys.stderr)
        return 1
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("run", "doctor"):  # with the interpreter of this installation, which need not be in PATH
        arguments[1:1] = ["--python", sys.executable]
    os.execv(program, ["nereid", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
