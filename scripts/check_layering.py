"""Checks who may include and import whom, against the tables of docs/README.md: C++ includes between rooms, Python imports between modules.

    python scripts/check_layering.py [--graph]      --graph prints the arrows that were found

C++: a room is a folder of the table "Includes", with its subfolders that are no rooms themselves. A row says which rooms its files may
include. A part of a room ("part of" another row) may include what its room may, and what its own row says. There is no circle between
rooms, and every exception ("Exceptions") is still needed. Headers of the table "Headers without" do not reach certain headers at all.
Files of the folders of the table "Shared code" name no vendor of GPUs, and no line of them that speaks of lanes, warps or threads has the
number of lanes of one vendor's warps.

Python: the table "Imports" lists layers, the lowest first. A module imports from its own layer and from lower ones, and no circle of
modules is closed, neither by imports at the start of a module nor by imports inside functions. Not counted are the packages above a
module, which Python imports with it. A name that a package only finds for others (`_names_later`) counts as an import of the module
where it lives. `nereid._PROVIDERS` is the one place where a lower module may name a higher one. No module sets attributes of a class of
another one; `nereid._loaded`, where modules enter themselves, is the exception.
"""

import argparse
import ast
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/README.md"
SOURCES = {".cpp", ".h", ".hpp", ".c", ".inc", ".def", ".td"}
PACKAGE = "nereid"


class Problem(Exception):
    """The tables cannot be read."""


# ---- the tables -------------------------------------------------------------------------------------


def rows_of(text, heading):
    """The rows of the first table below a heading of this text, each a list of cells."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise Problem(f"{PAGE}: expected a heading `{heading}` with a table below it")
    lines = [line.strip() for line in found.group(1).splitlines() if line.strip().startswith("|")]
    if len(lines) < 2:
        raise Problem(f"{PAGE}: expected a table below the heading `{heading}`")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


class Rooms:
    """The tables about includes."""

    def __init__(self, text):
        self.allowed, self.part_of = {}, {}
        for name, allowed in rows_of(text, "Includes"):
            room, *whole = quoted(name)
            self.allowed[room] = set(quoted(allowed))
            if whole:
                self.part_of[room] = whole[0]
        known = set(self.allowed)
        for room, allowed in self.allowed.items():
            for other in sorted(({*allowed, self.part_of.get(room, room)}) - known):
                raise Problem(f"{PAGE}: the row of `{room}` names `{other}`, which is no room of the table")
        self.exceptions = {(quoted(file)[0], quoted(header)[0]): reason for file, header, reason in rows_of(text, "Exceptions")}
        self.without = {quoted(header)[0]: quoted(others) for header, others in rows_of(text, "Headers without")}

    def of(self, path):
        """The row that a path belongs to, the innermost one; None without one."""
        folder = path
        while folder:
            folder = folder.rpartition("/")[0]
            if folder in self.allowed:
                return folder
        return None

    def whole(self, room):
        return self.part_of.get(room, room)

    def may(self, room, other):
        target = self.whole(other)
        allowed = self.allowed[room] | self.allowed[self.whole(room)]
        return self.whole(room) == target or other in allowed or target in allowed


# ---- C++ --------------------------------------------------------------------------------------------


def includes_of(root, path):
    """The files of this repository that a file includes: pairs of line and path."""
    for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
        found = re.match(r"\s*#\s*include\s*[<\"]([^>\"]+)[>\"]", line)
        if not found:
            continue
        for base in ("src", "include", str(pathlib.PurePosixPath(path).parent)):
            if (root / base / found.group(1)).is_file():
                yield number, posixpath.normpath(f"{base}/{found.group(1)}")
                break


def check_includes(root, text, graph=None):
    rooms = Rooms(text)
    files = sorted(str(file.relative_to(root)) for base in ("src", "include") for file in (root / base).rglob("*")
                   if file.suffix in SOURCES)
    arrows, used, included = {}, set(), {}
    for path in files:
        room = rooms.of(path)
        if room is None:
            yield f"{path}: its folder belongs to no room of the table `Includes` in {PAGE}: add a row"
            continue
        for number, other in includes_of(root, path):
            included.setdefault(path, []).append(other)
            target = rooms.of(other)
            if target is None:
                continue  # reported for that file
            if (path, other) in rooms.exceptions:
                if not rooms.may(room, target):
                    used.add((path, other))
                    continue
            elif not rooms.may(room, target):
                yield (f"{path}:{number}: `{room}` may not include `{target}` ({other}): {PAGE} lists what it may include; move the "
                       "declaration down, or ask through an interface")
                continue
            if rooms.whole(room) != rooms.whole(target):
                arrows.setdefault(rooms.whole(room), {}).setdefault(rooms.whole(target), f"{path}:{number}")
    for path, other in sorted(set(rooms.exceptions) - used):
        yield f"{PAGE}: the exception `{path}` -> `{other}` is no longer needed: remove its line"
    for room in sorted(rooms.allowed):
        if not any(rooms.of(path) == room for path in files):
            yield f"{PAGE}: the room `{room}` has no files: remove its row"
    for circle in circles(arrows):
        yield described("rooms", circle, arrows)
    for header, forbidden in rooms.without.items():
        yield from check_reach(header, forbidden, included, set(files))
    if graph is not None:
        graph.update(arrows)


def check_reach(header, forbidden, included, files):
    """Whether a header includes, over others too, one that it must not."""
    for name in (header, *forbidden):
        if name not in files:
            yield f"{PAGE}: the table `Headers without` names {name}, which does not exist"
            return
    ways, todo = {header: [header]}, [header]
    for path in todo:
        for other in included.get(path, ()):
            if other not in ways:
                ways[other] = [*ways[path], other]
                todo.append(other)
    for name in forbidden:
        if name in ways:
            yield f"{header}: reaches {name}, which {PAGE} excludes: {' -> '.join(ways[name])}"


# What only one vendor's GPUs, libraries and tools are called.
VENDORS = re.compile(r"nvidia|nvvm|nvptx|cuda|\bptx|cubin|libdevice|__nv_|\bsm_\d|hopper|ampere|\bh[12]00\b|\bamd|rocdl|\bhip\b|hsaco|\bgfx\d",
                     re.IGNORECASE)
PLACES = re.compile(r"lane|warp|thread", re.IGNORECASE)
LANES = re.compile(r"(?<![\w.])(?:32|31|64|63|0x1f|0x3f|5|6)(?![\w.])")
# Numbers that stand beside such words without being a number of lanes: widths of integers, room for elements.
NOT_LANES = re.compile(r"APInt\(\d+|SmallVector<[^;=]*?, \d+>|SmallDense\w+<[^;=]*?, \d+>|getInt\w*Ty\(\)|Int\d+|uint\d+_t|"
                       r"\? \d+ : \d+|[bB]its (?:/|==) \d+")


def without_comments(text):
    """C++ with its comments blank, line by line."""
    text = re.sub(r"/\*.*?\*/", lambda found: "\n" * found.group().count("\n"), text, flags=re.DOTALL)
    return [line.partition("//")[0] for line in text.splitlines()]


def check_shared(root, text):
    """What shared code says of one vendor's machines."""
    used, exceptions = set(), {quoted(file)[0] for file, _ in rows_of(text, "Exceptions of shared code")}
    for row in rows_of(text, "Shared code"):
        for folder in quoted(row[0]):
            for path in sorted((root / folder).rglob("*")):
                if path.suffix not in SOURCES:
                    continue
                shown, content = str(path.relative_to(root)), path.read_text(errors="replace")
                found = [f"{shown}:{number}: names `{word.group()}`, which belongs to one vendor: say what the machine can do, and move the "
                         "rest to its target"
                         for number, line in enumerate(content.splitlines(), 1) for word in [VENDORS.search(line)] if word]
                found += [f"{shown}:{number}: supposes a number of lanes: ask `Machine::lanes` or the layout"
                          for number, line in enumerate(without_comments(content), 1)
                          if path.suffix != ".td" and PLACES.search(line) and LANES.search(NOT_LANES.sub("", line))]
                if found and shown in exceptions:
                    used.add(shown)
                else:
                    yield from found
    for shown in sorted(exceptions - used):
        yield f"{PAGE}: {shown} needs no exception: remove its row of the table `Exceptions of shared code`"


# ---- circles ----------------------------------------------------------------------------------------


def circles(arrows):
    """The groups of nodes that reach one another, each as one closed way through it. arrows: {node: {node: where}}."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            group = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(group) > 1:
                found.append(shortest(group, arrows))

    for node in sorted(arrows):
        if node not in number:
            visit(node)
    return found


def shortest(group, arrows):
    """A shortest closed way within a group that has one."""
    best = None
    for start in sorted(group):
        ways, todo = {start: [start]}, [start]
        for node in todo:
            for other in sorted(arrows.get(node, ())):
                if other == start and (best is None or len(ways[node]) < len(best)):
                    best = ways[node]
                if other in group and other not in ways:
                    ways[other] = [*ways[node], other]
                    todo.append(other)
    return best


def described(kind, circle, arrows):
    steps = [f"{node} -> {other} ({arrows[node][other]})" for node, other in zip(circle, [*circle[1:], circle[0]])]
    return f"a circle of {kind}: " + ", ".join(steps)


# ---- Python -----------------------------------------------------------------------------------------


class Module:
    """A module: its tree, the names it finds for others, what it imports."""

    def __init__(self, name, path, root):
        self.name = name
        self.path = path
        self.shown = str(path.relative_to(root))
        self.package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        self.tree = ast.parse(path.read_text())
        self.scope = {"__name__": name, "globals": lambda: None, "_names_later": self._later}
        self.homes, self.submodules = {}, ()
        for statement in self.tree.body:  # constants, and the tables of names
            if isinstance(statement, ast.Assign):
                try:
                    value = eval(compile(ast.Expression(statement.value), self.shown, "eval"), self.scope)
                except Exception:
                    continue
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        self.scope[target.id] = value

    def _later(self, scope, homes=(), modules=(), fresh=(), rest=None):
        self.homes.update(dict(homes))
        self.submodules = (*self.submodules, *modules)
        return None, None


class Imports:
    """All imports of a package: `arrows` {module: {module: where}}, and which of them stand inside functions only."""

    def __init__(self, root, generated):
        source = root / "python"
        self.modules = {}
        for path in sorted((source / PACKAGE).rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.modules[name] = Module(name, path, root)
        self.known = {*self.modules, *generated}
        self.arrows, self.lazy = {}, set()
        for name, others in generated.items():
            self.arrows[name] = {other: PAGE for other in others}
        for module in self.modules.values():
            self._read(module)

    def _target(self, base, name=None):
        """The module that `from base import name` needs."""
        if name is not None and f"{base}.{name}" in self.known:
            return f"{base}.{name}"
        home = self.modules[base].homes.get(name) if base in self.modules else None
        while base not in self.known and base:
            base = base.rpartition(".")[0]
        return self._target(home, name) if home else base

    def _read(self, module):
        aliases = {}

        def add(target, node, inside):
            if not target or target == module.name:
                return
            where = f"{module.shown}:{node.lineno}"
            known = self.arrows.setdefault(module.name, {})
            if target not in known or (module.name, target) in self.lazy and not inside:
                known[target] = where
                self.lazy.discard((module.name, target))
                if inside:
                    self.lazy.add((module.name, target))

        def visit(node, inside):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] == PACKAGE:
                        add(self._target(alias.name), node, inside)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parts = module.package.split(".")
                    base = ".".join([*parts[:len(parts) - node.level + 1], *([node.module] if node.module else [])])
                if base.partition(".")[0] == PACKAGE:
                    for alias in node.names:
                        target = self._target(base, alias.name)
                        add(target, node, inside)
                        if target == f"{base}.{alias.name}":
                            aliases[alias.asname or alias.name] = target
            elif isinstance(node, ast.Call):
                for text in literals(node):
                    add(self._target(text), node, inside)
            elif isinstance(node, ast.Subscript) and is_modules(node.value) and isinstance(node.slice, ast.Constant):
                if str(node.slice.value).startswith(PACKAGE + "."):
                    add(self._target(node.slice.value), node, inside)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
                holder = self.modules.get(aliases[node.value.id])
                if holder is not None and node.attr in holder.homes:
                    add(self._target(holder.homes[node.attr], node.attr), node, inside)
            inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            for child in ast.iter_child_nodes(node):
                visit(child, inside)

        visit(module.tree, False)


def is_modules(node):
    """Whether an expression is `sys.modules`."""
    return isinstance(node, ast.Attribute) and node.attr == "modules"


def literals(call):
    """Modules of the package that a call names in a text: `sys.modules.get("nereid.x")`, `import_module("nereid.x")`."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    dynamic = name in ("__import__", "import_module", "_module") or name in ("get", "pop") and is_modules(getattr(function, "value", None))
    for argument in call.args[:1] if dynamic else ():
        if isinstance(argument, ast.Constant) and str(argument.value).startswith(PACKAGE + "."):
            yield argument.value


def check_imports(root, text, graph=None):
    layers, generated = [], {}
    for name, cell in rows_of(text, "Imports"):
        layers.append((name, quoted(cell)))
    for name, cell in rows_of(text, "Generated modules"):
        generated[quoted(name)[0]] = quoted(cell)
    imports = Imports(root, generated)
    for name, others in generated.items():
        for other in others:
            if other not in imports.known:
                yield f"{PAGE}: `{name}` is said to import `{other}`, which does not exist"
    heights, used = {}, set()
    for module in sorted(imports.known):
        # The longest pattern that fits: a name, or `name.*` for what is below a package.
        fits = [(len(pattern), height, pattern) for height, (_, patterns) in enumerate(layers) for pattern in patterns
                if pattern == module or pattern.endswith(".*") and f"{module}.".startswith(pattern[:-1])]
        if not fits:
            yield f"{module}: belongs to no layer of the table `Imports` in {PAGE}: add it to a row"
            continue
        _, heights[module], pattern = max(fits)
        used.add(pattern)
    for name, patterns in layers:
        for pattern in patterns:
            if pattern not in used:
                yield f"{PAGE}: `{pattern}` of the layer `{name}` fits no module: remove it"
    for module, others in sorted(imports.arrows.items()):
        for other, where in sorted(others.items()):
            if module in heights and other in heights and heights[other] > heights[module]:
                how = " inside a function" if (module, other) in imports.lazy else ""
                yield (f"{where}: {module} (layer {layers[heights[module]][0]}) may not import {other} (layer {layers[heights[other]][0]})"
                       f"{how}: imports go to lower layers ({PAGE})")
    for circle in circles(imports.arrows):
        inside = sum((node, other) in imports.lazy for node, other in zip(circle, [*circle[1:], circle[0]]))
        yield described("modules", circle, imports.arrows) + (f"; {inside} of these inside functions" if inside else "")
    yield from check_names(imports)
    for module in imports.modules.values():
        yield from check_patches(module)
    if graph is not None:
        graph.update(imports.arrows)


def check_names(imports):
    """What a module says about where names live is true."""
    package = imports.modules[PACKAGE]
    tables = [(module, name, home) for module in imports.modules.values() for name, home in module.homes.items()]
    tables += [(package, name, home) for name, home in package.scope.get("_PROVIDERS", {}).items()]
    for module, name, home in tables:
        if home not in imports.known and home != f"{PACKAGE}._native":
            yield f"{module.shown}: `{name}` is said to live in {home}, which does not exist"


def check_patches(module):
    """Attributes that a module sets of what it imports from another module of the package."""
    imported = {alias.asname or alias.name for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom)
                and (node.level or (node.module or "").partition(".")[0] == PACKAGE) for alias in node.names} - {"_loaded"}
    for node in ast.walk(module.tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else ()
        owners = [target.value for target in targets if isinstance(target, ast.Attribute)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            owners = node.args[:1]
        for owner in owners:
            if isinstance(owner, ast.Name) and owner.id in imported:
                yield f"{module.shown}:{node.lineno}: sets an attribute of `{owner.id}`, which another module defines: define it there"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graph", action="store_true", help="print the arrows that were found")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the repository to check")
    args = parser.parse_args(arguments)
    graph = {}
    try:
        text = (args.root / PAGE).read_text()
        problems = [*check_includes(args.root, text, graph), *check_shared(args.root, text), *check_imports(args.root, text, graph)]
    except Problem as problem:
        problems = [str(problem)]
    if args.graph:
        for node, others in sorted(graph.items()):
            print(f"{node}: {', '.join(sorted(others))}")
    print("\n".join(problems) if problems else "layering: ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
