"""Asks one compiler what expressions of the language mean: the type of the result, or the refusal.

    python front_end.py triton|nereid CASES ANSWERS

CASES is a JSON list of `{"id", "params": {name: type}, "setup": [lines], "ask": expression, "module": text}`; ANSWERS becomes a JSON
object, per id `{"shows": text}` or `{"refuses": text, "causes": [classes]}`, of the error and of the exceptions chained behind it. Cases with the same parameters, set-up and module share one kernel as long as
every one of them compiles. Runs in a process of its own, since the two compilers answer to the same name.
"""

import contextlib
import hashlib
import importlib.util
import io
import itertools
import json
import pathlib
import re
import sys
import tempfile

HEADER = "import triton\nimport triton.language as tl\nfrom typing import NamedTuple\n\n\n"


class RealTriton:
    """The front end of the real Triton: it makes its IR without a GPU."""

    def __init__(self):
        from triton._C.libtriton import ir
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.compiler.compiler import make_backend
        self.ir, self.source = ir, ASTSource
        self.target = GPUTarget("cuda", 90, 32)
        self.backend = make_backend(self.target)
        self.options = self.backend.parse_options({})

    def compile(self, kernel, params):
        context = self.ir.context()
        self.ir.load_dialects(context)
        self.backend.load_dialects(context)
        source = self.source(kernel, dict(params), {}, {})
        source.make_ir(self.target, self.options, self.backend.get_codegen_implementation(self.options),
                       self.backend.get_module_map(), context)


class Nereid:

    def __init__(self):
        import nereid
        import nereid.language
        nereid.install_as_triton()

    def compile(self, kernel, params):
        import nereid
        import torch
        kernel.warmup(*[nereid.MockTensor(torch.float32) if text.startswith("*") else 3 for text in params.values()], grid=(1, ))


def load(text, folder):
    name = "oracle_" + hashlib.sha1(text.encode()).hexdigest()[:16]
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def kernel_text(cases):
    first = cases[0]
    params = ", ".join(f'{name}: "{kind}"' for name, kind in first["params"].items())
    lines = [f"    {line}" for line in first["setup"]]
    for number, case in enumerate(cases):
        lines.append(f"    tl.static_print('@{number}@', {case['ask']}, '@')")
    return f"{HEADER}{first.get('module', '')}\n\n@triton.jit\ndef kernel({params}):\n" + "\n".join(lines or ["    pass"]) + "\n"


def causes_of(error):
    found = [type(error).__name__]
    while error.__cause__ is not None:
        error = error.__cause__
        found.append(type(error).__name__)
    return found


def message_of(error):
    """The error at the root, without places and source lines."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}"


def ask(compiler, cases, folder):
    """One answer per case, or None when the kernel of several does not compile."""
    output = io.StringIO()
    try:
        module = load(kernel_text(cases), folder)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            compiler.compile(module.kernel, cases[0]["params"])
    except Exception as error:  # the answer, whatever it is
        return [{"refuses": message_of(error), "causes": causes_of(error)}] if len(cases) == 1 else None
    found = dict(re.findall(r"@(\d+)@ (.*?) @", output.getvalue(), re.DOTALL))
    return [{"shows": found.get(str(number), "nothing")} for number in range(len(cases))]


def answer(compiler, cases, folder):
    """Answers of cases with one set-up: halved until they compile."""
    answers = ask(compiler, cases, folder)
    if answers is not None:
        return answers
    middle = len(cases) // 2
    return answer(compiler, cases[:middle], folder) + answer(compiler, cases[middle:], folder)


def main():
    which, cases_path, answers_path = sys.argv[1:]
    cases = json.loads(pathlib.Path(cases_path).read_text())
    compiler = RealTriton() if which == "triton" else Nereid()
    key = lambda case: json.dumps([case["params"], case["setup"], case.get("module", ""), case.get("group", "")])
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for _, group in itertools.groupby(sorted(cases, key=key), key=key):
            group = list(group)
            for case, found in zip(group, answer(compiler, group, pathlib.Path(folder))):
                answers[case["id"]] = found
    pathlib.Path(answers_path).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
