"""`python -m nereid script.py args...`: runs a script with `import triton` meaning Nereid.

Also `python -m nereid -m module args...` and `python -m nereid -c "code" args...`, as Python itself takes them. Where the first word is neither a
file nor the name of one, it is a command of the program `nereid`: `python -m nereid doctor`.
"""

import os
import runpy
import sys

USAGE = """usage: python -m nereid script.py [arguments...]
       python -m nereid -m module [arguments...]
       python -m nereid -c code [arguments...]
       python -m nereid command [arguments...]

Runs Python code with `import triton` meaning Nereid, also in its child processes, or a command of the program `nereid`: doctor, cache,
compile, explain... (`python -m nereid help` lists them). A file comes before a command of its name; `--` before a script says that it is one."""


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-m", "-c", "--") and len(arguments) < 2:
        print(f"nereid: {arguments[0]} needs an argument\n\n{USAGE}", file=sys.stderr)
        return 2
    if not arguments[0].startswith("-") and not _is_script(arguments[0]) or arguments[0] == "--version":
        return _hand_over(arguments)
    from nereid._alias import install_as_triton
    install_as_triton()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        _set_first_folder(os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        _set_first_folder("")
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    else:
        if arguments[0] == "--":
            arguments = arguments[1:]
        if not os.path.exists(arguments[0]):
            print(f"nereid: cannot open `{arguments[0]}`", file=sys.stderr)
            return 2
        sys.argv = arguments
        _set_first_folder(os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


def _set_first_folder(folder):
    """Where a program finds its own modules, unless Python was started with -P or -I."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _is_script(word):
    """Whether a word is the path of a script, there or not. A folder is one with `__main__.py` in it: others are called `cache`, too."""
    return (os.path.isfile(word) or os.path.exists(os.path.join(word, "__main__.py")) or os.sep in word or word.endswith((".py", ".pyc", ".pyz", ".zip")))


def cli():
    """The console script `nereid`."""
    return _hand_over(sys.argv[1:])


def _hand_over(arguments):
    """Becomes the packaged command line tool."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "nereid")
    if not os.path.exists(program):
        print("nereid: this installation carries no command line tool", file=sys.stderr)
        return 1
    if arguments and arguments[0] in ("run", "doctor"):  # with the interpreter of this installation, which need not be in PATH
        arguments = [arguments[0], "--python", sys.executable, *arguments[1:]]
    os.execv(program, ["nereid", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
