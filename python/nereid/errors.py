"""The exceptions of the package."""


class TritonError(Exception):
    """Base of all errors of the language and its compiler."""


class CompilationError(TritonError):
    """The kernel's text is wrong. The message shows each place with its source line; `__cause__` is the Python exception behind it,
    if one was raised while Python code ran during the compilation.

    Attributes: `diagnostic`, the name of the first problem ("UnknownName"); `error_message`, its text alone; `triton_text`, the text
    in Triton's form ("at 3:8: ...").
    """

    #: Lines of the source that a message shows at most, up to the one it is about.
    source_line_count_max_in_message = 12

    def __init__(self, src=None, node=None, error_message=None):
        super().__init__(src, node, error_message)
        self.src = src
        self.node = node
        self.error_message = error_message
        self.diagnostic = None
        self.triton_text = None
        self.message = self._format_message()

    def _format_message(self):
        """"at L:C:", the lines up to there, a caret, the message; without a node the source and the message."""
        text = [] if self.error_message is None else [str(self.error_message)]
        if self.node is None or not hasattr(self.node, "lineno"):
            return "\n".join([*([self.src] if self.src else []), *text])
        line, column = self.node.lineno, self.node.col_offset
        lines = (self.src or "").split("\n")[max(line - self.source_line_count_max_in_message, 0):line]
        where = [*lines, " " * column + "^"] if self.src is not None else [" <source unavailable>"]
        return "\n".join([f"at {line}:{column}:", *where, *text])

    @classmethod
    def _from_library(cls, message, diagnostic, summary, triton_text):
        error = cls(None, None, summary)
        error.message = message
        error.diagnostic = diagnostic
        error.triton_text = triton_text
        return error

    def __str__(self):
        return self.message

    def __reduce__(self):
        return _restore, (type(self), self.args, {**self.__dict__, "node": None})


def _restore(cls, args, state):
    error = cls(*args)
    error.__dict__.update(state)
    return error


class CompileTimeAssertionFailure(CompilationError):
    """`static_assert` failed."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python that is not part of the language."""


class OutOfResources(TritonError):
    """A kernel needs more of something than the device has."""

    def __init__(self, required, limit, name, message=None):
        super().__init__(required, limit, name, message)
        self.required = required
        self.limit = limit
        self.name = name
        self.message = message

    def __str__(self):
        return self.message or (f"out of resource: {self.name}, Required: {self.required}, Hardware limit: {self.limit}. Reducing block "
                "sizes or `num_stages` may help.")


class ResourcesExhausted(TritonError, RuntimeError):
    """This machine ran out of memory or disk."""


class InternalError(TritonError, RuntimeError):
    """A mistake of the compiler itself; please report it."""


class InterpreterError(TritonError, RuntimeError):
    """A kernel failed that runs in interpret mode (TRITON_INTERPRET=1); `__cause__` is what happened."""

    def __init__(self, error_message=None):
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self):
        return str(self.error_message or "")


class AutotunerError(TritonError):
    """No configuration is left, or none works."""

    def __init__(self, error_message=None):
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self):
        return f"Autotuner error: {self.error_message or ''}"


class PTXASError(TritonError):
    """The assembler of the GPU target refused a program."""

    def __init__(self, error_message=None):
        super().__init__(error_message)
        self.error_message = error_message

    def __str__(self):
        return f"PTXAS error: {self.error_message or ''}"


from . import _native  # noqa: E402

_native.register(CompilationError=CompilationError, CompileTimeAssertionFailure=CompileTimeAssertionFailure,
                 UnsupportedLanguageConstruct=UnsupportedLanguageConstruct, OutOfResources=OutOfResources, ResourcesExhausted=ResourcesExhausted,
                 InternalError=InternalError)
