"""Determines from its bytecode what the result of a heuristic depends on.

A heuristic is a user's Python function of the dict of all arguments. Where it provably does nothing but compute with numbers, texts and
None that it reads from that dict by constant names, its result is remembered for the values that it reads (docs/dispatch.md).
Everything else is called at every launch. An instruction that is not known here makes a function one of those.
"""

import builtins
import dis
import functools
import math
import sys
import types

from .. import _alias, _host

_PRIMITIVES = (int, float, bool, str, type(None))

# Builtins whose result depends on their arguments alone; called with numbers and texts only.
_FUNCTIONS = {id(function) for function in (abs, bool, divmod, float, int, len, max, min, pow, round)}
_FUNCTIONS |= {id(function) for function in vars(math).values() if isinstance(function, types.BuiltinFunctionType)}
_FUNCTIONS |= {id(function) for function in (_host.cdiv, _host.next_power_of_2)}
_METHODS = {"bit_length", "endswith", "startswith"}

# Instructions that only move values about, or work on the ones on the stack.
_HARMLESS = {
    "BUILD_TUPLE", "COMPARE_OP", "CONTAINS_OP", "COPY", "COPY_FREE_VARS", "EXTENDED_ARG", "IS_OP", "NOP", "NOT_TAKEN", "POP_TOP",
    "PRECALL", "PUSH_NULL", "RESUME", "RETURN_VALUE", "SWAP", "TO_BOOL", "UNARY_INVERT", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_POSITIVE",
    "BINARY_OP", "BINARY_SUBSCR", "CALL", "LOAD_SMALL_INT", "JUMP_FORWARD", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"
}


class _Unproven(Exception):
    pass


def _is_primitive(value):
    return type(value) in _PRIMITIVES or type(value) in (tuple, frozenset) and all(map(_is_primitive, value))


def _names_of(instruction):
    """The local variables of an instruction, two of some."""
    return instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval, )


def _is_subscript(instruction):
    return instruction.opname == "BINARY_SUBSCR" or instruction.opname == "BINARY_OP" and instruction.argrepr == "[]"


@functools.lru_cache(maxsize=4096)
def _scan(code):
    """(names whose values are read, names only compared with None, names of globals each with attributes, closure variables); None
    when the code does more."""
    if code.co_argcount != 1 or code.co_kwonlyargcount or code.co_flags & 0x2ac or code.co_cellvars:  # variadic, generator, coroutine
        return None
    try:
        return _read(list(dis.get_instructions(code)), code.co_varnames[0])
    except _Unproven:
        return None


def _read(code, parameter):
    values, nones, names, cells = [], [], [], []
    at = 0

    def following(offset):
        """A later instruction of the same pattern: nothing jumps to it."""
        index = at + offset
        if index >= len(code) or code[index].is_jump_target:
            raise _Unproven
        return code[index]

    while at < len(code):
        instruction = code[at]
        name = instruction.opname
        if name.startswith("LOAD_FAST") and parameter in _names_of(instruction):
            item = following(1)
            if name not in ("LOAD_FAST", "LOAD_FAST_BORROW") or item.opname != "LOAD_CONST" or type(item.argval) is not str:
                raise _Unproven
            if not _is_subscript(following(2)) or item.argval in ("grid", "warmup"):
                raise _Unproven
            then = code[at + 3] if at + 3 < len(code) else None
            compared = then is not None and (
                then.opname.endswith(("_NONE", "_NOT_NONE")) or then.opname == "LOAD_CONST" and then.argval is None
                and following(4).opname == "IS_OP")
            (nones if compared and not then.is_jump_target else values).append(item.argval)
            at += 3
            continue
        if name in ("LOAD_GLOBAL", "LOAD_DEREF"):
            path = [instruction.argval]
            while at + 1 < len(code) and code[at + 1].opname in ("LOAD_ATTR", "LOAD_METHOD") and not code[at + 1].is_jump_target:
                at += 1
                path.append(code[at].argval)
            (names if name == "LOAD_GLOBAL" else cells).append(tuple(path))
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            if instruction.argval not in _METHODS:
                raise _Unproven
        elif name in ("LOAD_CONST", "RETURN_CONST"):
            if not _is_primitive(instruction.argval):
                raise _Unproven
        elif name.startswith(("LOAD_FAST", "STORE_FAST")):
            if parameter in _names_of(instruction):
                raise _Unproven
        elif not (name in _HARMLESS or name.startswith("POP_JUMP")):
            raise _Unproven
        at += 1
    return tuple(dict.fromkeys(values)), tuple(name for name in dict.fromkeys(nones) if name not in values), tuple(names), tuple(cells)


def _follow(value, path, guards):
    """Attributes of modules; the module `triton` hands out this package's (nereid/_alias.py)."""
    for name in path:
        if not isinstance(value, types.ModuleType):
            raise _Unproven
        found = getattr(value, name)
        if type(value) is _alias._AliasModule and name not in vars(value):
            guards.append((vars(value), name, ...))
            value = sys.modules["nereid"]
        if vars(value).get(name) is not found:
            raise _Unproven
        guards.append((vars(value), name, found))
        value = found
    if not _is_primitive(value) and id(value) not in _FUNCTIONS:
        raise _Unproven


def _guards_of(function, names):
    """Guards for the globals that the function reads."""
    guards = []
    for name, *path in names:
        if name in function.__globals__:
            value = function.__globals__[name]
            guards.append((function.__globals__, name, value))
        else:
            value = getattr(builtins, name)
            guards.append((function.__globals__, name, ...))
        _follow(value, path, guards)
    return guards


def _unique(guards):
    return tuple({(id(container), name): (container, name, value) for container, name, value in guards}.values())


def reads(rule):
    """The dependencies of `rule(arguments)`: (names whose values it reads, names that it compares with None, guards). None when they
    cannot be determined. A guard is (dict or cell, name, object) for another value that it reads; the object `...` means that the name must be
    absent, the name `...` that the guard is a cell."""
    if type(rule) is not types.FunctionType:
        return None
    found = _scan(rule.__code__)
    if found is None:
        return None
    values, nones, names, cells = found
    try:
        guards = _guards_of(rule, names)
        for name, *path in cells:
            cell = rule.__closure__[rule.__code__.co_freevars.index(name)]
            guards.append((cell, ..., cell.cell_contents))
            _follow(cell.cell_contents, path, guards)
    except (_Unproven, AttributeError, ValueError):
        return None
    return values, nones, _unique(guards)


def grid_reads(grid):
    """The same of the function of a grid, for all functions of its code and globals, whatever their closures hold: (((name of an
    argument, whether it is only compared with None), ...), guards, ((number of a closure's cell, its contents), ...)). The contents
    `...` stand for any number or text. None when it is not proven that it only computes."""
    found = _scan(grid.__code__)
    if found is None:
        return None
    values, nones, names, cells = found
    contents = []
    try:
        guards = _guards_of(grid, names)
        for name, *path in cells:
            number = grid.__code__.co_freevars.index(name)
            value = grid.__closure__[number].cell_contents
            contents.append((number, ... if _is_primitive(value) and not path else value))
            _follow(value, path, guards)
    except (_Unproven, AttributeError, ValueError):
        return None
    return tuple((name, False) for name in values) + tuple((name, True) for name in nones), _unique(guards), tuple(contents)
