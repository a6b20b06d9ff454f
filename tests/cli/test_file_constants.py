"""What names of a file mean without Python: random programs at the top level of a file, run by Python and read by
`nereid compile`. A kernel sees the value that Python gives a name, or an error says that it is not known; never another
value. A name that Python leaves without one is not asked for more: Python would stop where it is used."""

import concurrent.futures
import os
import random
import subprocess


from test_cli import PROGRAM


NAMES = "abcdef"
UNKNOWN = ("len(sys.argv) > 0", "os.sep == '/'", "os.getpid() < 0")
KERNEL = '''

@jit
def kernel_{name}(p):
    tl.static_assert({expression} == {value!r}, "another value")
    tl.store(p, 1)
'''


class Writer:
    """Writes one program. `known` are the names that have a value for certain, as every path has set them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.functions = self.loops = 0

    def put(self, depth, text):
        self.lines.append("    " * depth + text)

    def number(self):
        return str(self.random.randint(-3, 9))

    def name(self):
        return self.random.choice(NAMES)

    def expression(self):
        pick = self.random.randrange(14)
        name, other = self.name(), self.name()
        if pick < 3:
            return self.number()
        if pick == 3 or pick > 10:
            return f"{name} {self.random.choice('+-*')} {self.number()}"
        if pick == 4:
            return f"{name} if {other} > {self.number()} else {self.number()}"
        if pick == 5:
            return f"({name}, {other})[{self.random.randint(-2, 1)}]"
        if pick == 6:
            return f"({name} := {self.number()}) + {other}"
        if pick == 7:
            return f"max({name}, {other})"
        if pick == 8:
            return f"[{name}, {other}, {self.number()}][1]"
        return name

    def condition(self):
        if self.random.random() < 0.2:
            return self.random.choice(UNKNOWN)
        return f"{self.name()} {self.random.choice(['>', '<', '==', '!='])} {self.number()}"

    def block(self, depth, inside_loop=False):
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, inside_loop)

    def statement(self, depth, inside_loop=False):
        pick = self.random.randrange(20 if depth < 3 else 7)
        if self.random.random() < 0.5:
            pick = self.random.randrange(5)
        name, other = self.name(), self.name()
        if pick < 3:
            self.put(depth, f"{name} = {self.expression()}")
        elif pick == 3:
            self.put(depth, f"{name} {self.random.choice('+-*')}= {self.number()}")
        elif pick == 4:
            self.put(depth, self.random.choice([f"{name}, {other} = {other}, {name}", f"{name} = {other} = {self.number()}",
                                                f"{name}, *rest = {other}, 1, 2", f"{name}: int = {self.expression()}"]))
        elif pick == 5:
            if inside_loop and self.random.random() < 0.5:
                self.put(depth, f"if {self.condition()}: {self.random.choice(['break', 'continue'])}")
            else:
                self.put(depth, f"globals()[{name!r}] = {self.number()}" if self.random.random() < 0.1 else f"{name} = {other}")
        elif pick == 6:
            self.put(depth, self.random.choice(["items.append(7)", "items[0] = 5", "alias = items", "alias.append(8)",
                                                f"{name} = len(items)", f"{name} = items[0]", "items = [1, 2]",
                                                f"items += [{self.number()}]", "alias.clear() if len(alias) > 4 else None"]))
        elif pick < 10:
            self.put(depth, f"if {self.condition()}:")
            self.block(depth + 1, inside_loop)
            if self.random.random() < 0.4:
                self.put(depth, f"elif {self.condition()}:")
                self.block(depth + 1, inside_loop)
            if self.random.random() < 0.5:
                self.put(depth, "else:")
                self.block(depth + 1, inside_loop)
        elif pick < 12:
            self.put(depth, "try:")
            self.block(depth + 1, inside_loop)
            if self.random.random() < 0.5:
                self.put(depth + 1, self.random.choice(["1 // 0", "missing", "import no_such_module", "int('x')"]))
                self.block(depth + 1, inside_loop)
            self.put(depth, self.random.choice(["except Exception:", f"except Exception as {name}:"]))
            self.block(depth + 1, inside_loop)
            if self.random.random() < 0.3:
                self.put(depth, "else:")
                self.block(depth + 1, inside_loop)
            if self.random.random() < 0.3:
                self.put(depth, "finally:")
                self.block(depth + 1)
        elif pick == 12:
            self.put(depth, f"for {name} in range({self.random.randint(0, 3)}):")
            self.block(depth + 1, True)
            if self.random.random() < 0.3:
                self.put(depth, "else:")
                self.block(depth + 1, inside_loop)
        elif pick == 13:
            self.loops += 1
            turns = f"turns{self.loops}"
            self.put(depth, f"{turns} = {self.random.randint(0, 3)}")
            self.put(depth, f"while {turns} > 0:")
            self.put(depth + 1, f"{turns} -= 1")
            self.block(depth + 1, True)
        elif pick == 14:
            self.put(depth, f"with contextlib.suppress(Exception) as {name}:" if self.random.random() < 0.3 else
                     "with contextlib.suppress(Exception):")
            self.block(depth + 1)
        elif pick == 15:
            self.functions += 1
            self.put(depth, f"def change{self.functions}():")
            self.put(depth + 1, f"global {name}")
            self.put(depth + 1, f"{name} = {self.number()}")
            if self.random.random() < 0.7:
                self.put(depth, f"change{self.functions}()")
        elif pick == 16:
            self.put(depth, f"class {self.random.choice(['Holder', name])}:")
            self.put(depth + 1, f"{name} = {self.number()}")
            self.put(depth + 1, f"{other} = {self.expression()}")
        elif pick == 17:
            self.put(depth, self.random.choice([f"{name} = sum({other} for {other} in (1, 2))",
                                                f"{name} = [{other} for {other} in (1, 2)][0]",
                                                f"{name} = (lambda {other}: {other} + 1)(3)",
                                                f"{name} = sum([({other} := i) for i in (1, 2)])"]))
        elif pick == 18:
            self.put(depth, f"del {name}")
            self.put(depth, f"{self.random.choice([name, other])} = {self.number()}")
        else:
            self.put(depth, f"match {other}:")
            self.put(depth + 1, f"case {abs(int(self.number()))}:")
            self.block(depth + 2, inside_loop)
            self.put(depth + 1, f"case {name}:")
            self.block(depth + 2, inside_loop)


def program(seed):
    """A file without kernels that Python runs to its end, and what its names mean then."""
    writer = Writer(seed)
    for _ in range(20):
        writer.lines = []
        writer.put(0, "import contextlib, os, sys")
        writer.put(0, ", ".join(NAMES) + " = " + ", ".join(writer.number() for _ in NAMES))
        writer.put(0, "items = [3, 4]\nalias = items")
        for _ in range(writer.random.randint(2, 7)):
            writer.statement(0)
        text = "\n".join(writer.lines) + "\n"
        values = {"__name__": "program"}
        try:
            exec(compile(text, "program", "exec"), values)
        except Exception:
            continue
        return text, values
    return None


def check(seed, folder):
    """How many names were known and how many were not."""
    written = program(seed)
    if written is None:
        return 0, 0
    text, values = written
    path = folder / f"program_{seed}.py"
    asked = [(name, name, values.get(name, "missing")) for name in NAMES if isinstance(values.get(name, 0), int)]
    asked += [(name, f"len({name})", len(values[name])) for name in ("items", "alias")]
    kernels = "".join(KERNEL.format(name=name, expression=expression, value=value) for name, expression, value in asked)
    path.write_text("import triton.language as tl\nfrom triton import jit\n" + text + kernels)
    known = unknown = 0
    for name, _, _ in asked:
        result = subprocess.run([PROGRAM, "compile", str(path), "--kernel", f"kernel_{name}", "--signature", "*i32",
                                 "--target", "cpu", "--emit", "tile", "-o", os.devnull], capture_output=True, text=True, timeout=120)
        if result.returncode == 0:
            known += 1
        else:
            unknown += 1
            said = "without Python" in result.stderr or "in different ways" in result.stderr
            assert said or name not in values, f"{result.stderr}\n{path.read_text()}"
    return known, unknown


def test_random_programs(tmp_path):
    first = 1000 * int(os.environ.get("NEREID_TEST_SEED", "0"))
    count = int(os.environ.get("NEREID_TEST_PROGRAMS", "60"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda seed: check(seed, tmp_path), range(first, first + count)))
    known, unknown = map(sum, zip(*results))
    assert known > unknown // 4 and unknown > 0, f"{known} names known, {unknown} not: the programs test too little"
