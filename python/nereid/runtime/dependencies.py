"""The dependencies of a function of the language besides its own text: the functions it calls and the constants it reads.

The text is walked for names; a dotted name is followed through modules and objects as far as it leads to something a kernel can use.
"""

import ast
import builtins
import hashlib

from ..language import core


class _Finder(ast.NodeVisitor):

    def __init__(self, scope):
        self.scope = scope
        self.locals = set()
        self.found = []

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Store):
            self.locals.add(node.id)
            return None
        if node.id in self.locals or hasattr(builtins, node.id) and node.id not in self.scope:
            return None
        if node.id not in self.scope:
            return None
        value = self.scope[node.id]
        self.found.append((node.id, value))
        return value

    def visit_Attribute(self, node):
        base = self.visit(node.value)
        if base is None:
            return None
        value = getattr(base, node.attr, None)
        if value is not None:
            self.found.append((ast.unparse(node), value))
        return value

    def visit_FunctionDef(self, node):
        self.locals.update(arg.arg for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
        for vararg in (node.args.vararg, node.args.kwarg):
            if vararg is not None:
                self.locals.add(vararg.arg)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)


def dependencies(function):
    """(functions by name, constants by name) that the text of a `JITCallable` mentions."""
    scope = function.get_capture_scope()
    finder = _Finder(scope)
    finder.visit(function.parse())
    functions, constants = {}, {}
    for name, value in finder.found:
        if isinstance(value, core.constexpr) or isinstance(value, (bool, int, float, str)) and "." not in name:
            constants[name] = value
        elif getattr(value, "__nereid_builtin__", None) or core.is_builtin(value):
            continue
        elif hasattr(value, "cache_key") and value is not function:
            functions[name] = value
    return functions, constants


def cache_key(function, _open=(), lines=True):
    """The hash of the function's text, where it stands (unless `lines` is false), and of all that it depends on; and the constants that
    it reads."""
    text = [f"{function._fn_name}:{function.starting_line_number if lines else 0}:{function.src}"]
    functions, constants = dependencies(function)
    used = {}
    for name, callee in sorted(functions.items()):
        if callee in _open:  # recursion
            continue
        if hasattr(callee, "parse") and hasattr(callee, "get_capture_scope"):
            key, below = cache_key(callee, (*_open, function), lines)
            used.update(below)
        else:
            key = callee.cache_key
        text.append(f"{name}={key}")
    scope = function.__globals__
    for name, value in sorted(constants.items()):
        text.append(f"{name}={value!r}")
        used[(name, id(scope))] = (value, scope)
    return hashlib.sha256("\n".join(text).encode()).hexdigest(), used
