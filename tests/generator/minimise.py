"""Makes a failing program small: parts are taken away as long as it fails in the same way.

A candidate must still have a meaning (the evaluator runs it), and its failure must be of the same kind on the same target.
"""

import copy
import time

from .tree import Assign, For, If, Node, While, lit, nodes_of, run, text_of


def _lists(program):
    """All lists of statements, outermost first."""
    def inside(statements):
        yield statements
        for s in statements:
            if isinstance(s, If):
                yield from inside(s.then)
                yield from inside(s.orelse)
            elif isinstance(s, (For, While)):
                yield from inside(s.body)
    yield from inside(program.body)
    for function in program.functions:
        yield from inside(function.body)


def _size(program):
    return sum(len(text_of(n)) for n in nodes_of(program.body)) + 20 * sum(len(s) for s in _lists(program)) + 10 * len(program.scalars) \
        + 30 * len(program.functions) + 5 * len(program.grid) + sum(program.grid)


def _without_statements(program):
    """Copies without a stretch of statements, long ones first."""
    lists = list(_lists(program))
    for index, statements in enumerate(lists):
        length = len(statements)
        while length:
            for start in range(len(statements) - length, -1, -length):
                other = copy.deepcopy(program)
                del list(_lists(other))[index][start:start + length]
                yield other
            length //= 2


def _unwrapped(program):
    """Copies with the inside of an `if` or a loop in its place."""
    for index, statements in enumerate(_lists(program)):
        for position, s in enumerate(statements):
            if isinstance(s, (If, For, While)):
                for part in ("then", "orelse", "body"):
                    if getattr(s, part, None):
                        other = copy.deepcopy(program)
                        target = list(_lists(other))[index]
                        inner = getattr(target[position], part)
                        before = [Assign([s.name], lit(0))] if isinstance(s, For) else []
                        target[position:position + 1] = before + inner
                        yield other


def _positions(program):
    """Where expressions are: (path of a statement, field), as functions that get and set them in a copy."""
    for index, statements in enumerate(_lists(program)):
        for position, s in enumerate(statements):
            for field in ("value", "condition", "pointer", "mask", "low", "high"):
                if isinstance(getattr(s, field, None), Node):
                    yield index, position, field


def _subnodes(node, path=()):
    yield path, node
    for i, arg in enumerate(node.args):
        yield from _subnodes(arg, path + (i, ))


def _simpler_expressions(program):
    """Copies with an expression replaced by one of its operands, or by a small number."""
    for index, position, field in _positions(program):
        root = getattr(list(_lists(program))[index][position], field)
        for path, node in _subnodes(root):
            replacements = [lambda n, i=i: n.args[i] for i in range(len(node.args))]
            if node.op not in ("lit", "var", "arange"):
                replacements.append(lambda n: lit(1))
            for replace in replacements:
                other = copy.deepcopy(program)
                statement = list(_lists(other))[index][position]
                if not path:
                    setattr(statement, field, replace(getattr(statement, field)))
                else:
                    parent = getattr(statement, field)
                    for step in path[:-1]:
                        parent = parent.args[step]
                    parent.args[path[-1]] = replace(parent.args[path[-1]])
                yield other
        if field == "mask":
            other = copy.deepcopy(program)
            list(_lists(other))[index][position].mask = None
            yield other


def _simpler_surroundings(program):
    if program.outlined:
        for outlined in ((), (0, 1, True), (program.outlined[0], 1, program.outlined[2])):
            if outlined != program.outlined:
                other = copy.deepcopy(program)
                other.outlined = outlined
                yield other
    if program.grid != (1, ):
        other = copy.deepcopy(program)
        other.grid = (1, )
        yield other
    for key, value, default in (("num_warps", 4, 4), ("num_warps", 1, 4), ("num_stages", 1, 3)):
        if program.options.get(key, default) > value:   # smaller only: it would go back and forth until the time is over
            other = copy.deepcopy(program)
            other.options[key] = value
            yield other
    for statements_index, statements in enumerate(_lists(program)):
        for position, s in enumerate(statements):
            if isinstance(s, For) and s.hints:
                other = copy.deepcopy(program)
                list(_lists(other))[statements_index][position].hints = {}
                yield other


def _without_unused(program):
    """The program without arguments and functions that nothing names."""
    other = copy.deepcopy(program)
    changed = True
    while changed:
        nodes = list(nodes_of(other.body))
        for f in other.functions:
            nodes += list(nodes_of([f]))
        names = {n.attrs.get("name") for n in nodes if n.op == "var"} | {n.attrs.get("function") for n in nodes if n.op == "call"}
        size = len(other.buffers) + len(other.scalars) + len(other.functions)
        other.buffers = [b for b in other.buffers if b.name in names]
        other.scalars = [s for s in other.scalars if s.name in names]
        other.functions = [f for f in other.functions if f.name in names]
        changed = size != len(other.buffers) + len(other.scalars) + len(other.functions)
    return other


def minimise(program, failure, check, seconds=60.0):
    """The smallest failing program found in the time, with its failure. `check(program)` gives a failure or None."""
    end = time.monotonic() + seconds

    def fails(candidate):
        try:
            run(candidate)
        except Exception:
            return None
        found = check(candidate)
        return found if failure.same_as(found) else None

    best, best_failure = program, failure
    smaller = _without_unused(program)
    found = fails(smaller)
    if found:
        best, best_failure = smaller, found
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidates in (_without_statements, _unwrapped, _simpler_surroundings, _simpler_expressions):
            again = True
            while again and time.monotonic() < end:
                again = False
                for candidate in candidates(best):
                    if time.monotonic() > end:
                        break
                    candidate = _without_unused(candidate)
                    if _size(candidate) >= _size(best) and candidates is not _simpler_surroundings:
                        continue
                    found = fails(candidate)
                    if found:
                        best, best_failure, again, progress = candidate, found, True, True
                        break
    return best, best_failure
