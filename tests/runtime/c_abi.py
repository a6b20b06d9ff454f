"""The C ABI as its headers declare it, called through ctypes: functions with their parameters, and arguments that are right.

Run alone (`python tests/runtime/c_abi.py null|random|memory [seconds] [seed]`) it makes the calls of test_c_abi_arguments.py, each line of
its output a call that came back; `random` draws arguments until the time is over, for long runs and under sanitizers.
"""

import contextlib
import ctypes
import pathlib
import random
import re
import resource
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests" / "install" / "consumer" / "kernels.py"
HEADERS = ("nereid.h", "settings.h", "tuner.h", "measure.h", "device.h")
# They wait for a fork of this thread, end the process's kernels, or are to be called once a process.
LEFT_OUT = ("nrd_close_for_fork", "nrd_await_quiet", "nrd_cache_write_at_once")
ONCE = ("nrd_opt", )
ARGUMENT, RESOURCES = 4, 6  # nrd_error_kind
STATUS_ARGUMENT = 1  # nrd_status


class Parameter:

    def __init__(self, text):
        self.optional = "NRD_OPTIONAL" in text
        text = text.replace("NRD_OPTIONAL", "")
        match = re.fullmatch(r"\s*(.*?)\s*(\w+)\s*(\[\d*\])?\s*", text)
        self.type = re.sub(r"\s+", " ", match[1] + ("*" if match[3] else "")).replace(" *", "*").strip()
        self.name = match[2]

    @property
    def is_pointer(self):
        return "*" in self.type or self.type in ("nrd_stream_provider", "nrd_tuner_grid")


class Declaration:

    def __init__(self, result, name, parameters):
        self.result, self.name, self.parameters = re.sub(r"\s+", " ", result).replace(" *", "*").strip(), name, parameters

    @property
    def gives_error(self):
        return self.result == "nrd_error*"


def declarations():
    """Every function that the headers export."""
    found = []
    for header in HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (ROOT / "include" / "nereid" / header).read_text(), flags=re.S)
        for result, name, parameters in re.findall(r"^NRD_API\s+([^;()]*?)\b(nrd_\w+)\(([^;]*)\);", text, flags=re.S | re.M):
            if name == "nrd_set_environment_guard":
                parameters = "void *NRD_OPTIONAL guard"
            items = [] if parameters.strip() in ("void", "") else parameters.split(",")
            found.append(Declaration(result, name, [Parameter(item) for item in items]))
    return found


class Arg(ctypes.Structure):

    class Value(ctypes.Union):
        _fields_ = [("i", ctypes.c_int64), ("u", ctypes.c_uint64), ("f", ctypes.c_double), ("p", ctypes.c_void_p)]

    _anonymous_ = ["value"]
    _fields_ = [("kind", ctypes.c_uint8), ("dtype", ctypes.c_uint8), ("read_only", ctypes.c_uint8), ("memory", ctypes.c_uint8),
                ("divisibility", ctypes.c_uint32), ("value", Value), ("low", ctypes.c_void_p), ("high", ctypes.c_void_p),
                ("descriptor", ctypes.c_void_p)]


class Launch(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint32 * 3), ("num_threads", ctypes.c_uint32), ("checked", ctypes.c_uint8),
                ("device", ctypes.c_uint8), ("with_stream", ctypes.c_uint8), ("reserved", ctypes.c_uint8),
                ("stream", ctypes.c_void_p)]


class Plan(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("warmup", ctypes.c_double), ("duration", ctypes.c_double), ("min_runs", ctypes.c_uint32),
                ("max_runs", ctypes.c_uint32), ("cold", ctypes.c_uint8), ("reserved", ctypes.c_uint8 * 7)]


class Stream(ctypes.Structure):
    _fields_ = [("device", ctypes.c_int32), ("reserved", ctypes.c_uint32), ("handle", ctypes.c_void_p)]


class Tuple(ctypes.Structure):
    _fields_ = [("items", ctypes.c_void_p), ("count", ctypes.c_size_t), ("fields", ctypes.c_void_p), ("host_class", ctypes.c_uint64),
                ("class_name", ctypes.c_void_p)]


NUMBERS = {"int": ctypes.c_int, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64,
           "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t, "double": ctypes.c_double, "uint8_t": ctypes.c_uint8,
           "nrd_error_kind": ctypes.c_int, "nrd_value_kind": ctypes.c_int, "nrd_status": ctypes.c_int}
TEXTS = {"path": str(KERNELS).encode(), "signature": b"fp32", "stage": b"asm", "decimal": b"12", "target": b"cpu", "text": b"x = 1\n"}
COUNTS = ("count", "size", "rank", "arg_count", "keyword_count", "capacity", "configs", "bytes", "argc")


def find_library():
    import nereid
    folder = pathlib.Path(nereid.__file__).parent
    return str([*folder.glob("libnereid.so*"), *folder.parents[1].glob("src/runtime/libnereid.so*")][0])


class Abi:
    """The library, and arguments by the types of parameters."""

    def __init__(self):
        self.library = ctypes.CDLL(find_library())
        self.functions = declarations()
        self.keep = []
        for function in self.functions:
            entry = getattr(self.library, function.name)
            entry.restype = (None if function.result == "void" else NUMBERS.get(function.result, ctypes.c_void_p))
        self.by_name = {function.name: function for function in self.functions}
        self.module, self.function, self.kernel = (ctypes.c_void_p() for _ in range(3))
        self.succeed(self.library.nrd_module_load(str(KERNELS).encode(), ctypes.byref(self.module)))
        self.succeed(self.library.nrd_function_create(self.module, b"add", None, None, ctypes.byref(self.function)))
        signature = (ctypes.c_char_p * 5)(b"*fp32", b"*fp32", b"*fp32", b"i32", b"1024")
        self.succeed(self.library.nrd_compile(self.function, signature, ctypes.c_size_t(5), None, ctypes.byref(self.kernel)))
        self.options = ctypes.c_void_p(self.library.nrd_options_new())
        self.tuner = ctypes.c_void_p(self.library.nrd_tuner_new(self.function))
        self.search = ctypes.c_void_p(self.library.nrd_search_new(ctypes.c_size_t(1), ctypes.c_double(0), ctypes.c_uint32(1)))

    def text(self, name, error):
        function = getattr(self.library, name)
        return ctypes.string_at(function(ctypes.c_void_p(error))).decode(errors="replace")

    def describe(self, error):
        """(kind, name, message) of an error, which is freed."""
        found = (self.library.nrd_error_get_kind(ctypes.c_void_p(error)), self.text("nrd_error_name", error),
                 self.text("nrd_error_message", error))
        self.library.nrd_error_free(ctypes.c_void_p(error))
        return found

    def succeed(self, error):
        assert not error, self.describe(error)

    def buffer(self, size=512):
        self.keep.append(ctypes.create_string_buffer(size))
        return ctypes.cast(self.keep[-1], ctypes.c_void_p)

    def array(self, kind, *values):
        self.keep.append((kind * len(values))(*values))
        return ctypes.cast(self.keep[-1], ctypes.c_void_p)

    def right(self, function, parameter):
        """An argument that the function accepts, whatever the others are."""
        kind, name = parameter.type, parameter.name
        if kind in NUMBERS:
            value = {"nrd_search_new": 1}.get(function.name, 1 if name in COUNTS else 0)
            return NUMBERS[kind](-1 if name == "device" else value)
        if kind == "nrd_stream":
            return Stream(device=-1)
        if kind in ("nrd_stream_provider", "nrd_tuner_grid"):
            return ctypes.c_void_p(None)
        plain = kind.replace("const ", "").replace(" const", "").replace("const", "").replace(" ", "")
        if plain in ("nrd_function*", "nrd_module*", "nrd_kernel*", "nrd_options*", "nrd_tuner*", "nrd_search*"):
            return getattr(self, plain[4:-1])
        if plain == "nrd_value*":
            return ctypes.c_void_p(self.library.nrd_value_int(ctypes.c_int64(1)))
        if plain == "nrd_error*":
            return ctypes.c_void_p(self.library.nrd_module_load(b"/none", self.buffer()))
        if plain == "char*" and "const" in kind:
            if function.name == "nrd_options_set" and name == "name":
                return ctypes.c_char_p(b"num_warps")
            return ctypes.c_char_p(TEXTS.get(name, b"add"))
        if plain == "char**" and ("const" in kind or name == "argv"):
            return self.array(ctypes.c_char_p, b"BLOCK")
        if plain == "nrd_value**" and "const" in kind and not name == "out":
            return self.array(ctypes.c_void_p, self.library.nrd_value_int(ctypes.c_int64(64)))
        if plain == "nrd_launch*":
            self.keep.append(Launch())
            return ctypes.cast(ctypes.pointer(self.keep[-1]), ctypes.c_void_p)
        if plain == "nrd_measure_plan*":
            self.keep.append(Plan(size=ctypes.sizeof(Plan)))
            return ctypes.cast(ctypes.pointer(self.keep[-1]), ctypes.c_void_p)
        if plain == "nrd_host*":
            return ctypes.c_void_p(None)
        return self.buffer()  # what is filled, or read as zeros

    def call(self, name, *arguments):
        return getattr(self.library, name)(*arguments)


def null_calls(abi):
    """Each function with each of its pointers null; what came back is right, or an AssertionError says what did."""
    done = 0
    for function in abi.functions:
        if function.name in LEFT_OUT:
            continue
        for parameter in function.parameters:
            if not parameter.is_pointer or (parameter.optional and function.name in ONCE):
                continue
            if parameter.optional and function.name.endswith("_launch"):
                continue
            print(function.name, parameter.name, flush=True)
            arguments = [ctypes.c_void_p(None) if other is parameter else abi.right(function, other) for other in function.parameters]
            result = abi.call(function.name, *arguments)
            what = f"{function.name} with {parameter.name} null"
            if function.gives_error:
                kind, name, message = abi.describe(result) if result else (0, "", "")
                if parameter.optional:
                    assert name not in ("NullArgument", "NullArray"), (what, message)
                else:
                    assert (kind, name[:4]) == (ARGUMENT, "Null"), (what, kind, name, message)
                    assert f"`{function.name}` needs its argument `{parameter.name}" in message, (what, message)
            elif function.result == "nrd_status" and not parameter.optional:
                assert result == STATUS_ARGUMENT, (what, result)
                assert parameter.name in ctypes.string_at(abi.library.nrd_status_message()).decode(), what
            elif function.result not in ("void", "nrd_status", "nrd_error_kind") and not parameter.optional:
                assert not result, (what, result)
            done += 1
    return done


def random_calls(abi, seconds, seed):
    """Calls with arguments that are right, null, absurd or random; all that is asked is that they come back."""
    draw = random.Random(seed)
    fast = [f for f in abi.functions if f.name not in LEFT_OUT + ONCE and not f.name.endswith("_free") and f.parameters
            and f.name not in ("nrd_set_environment_guard", "nrd_set_stream_provider", "nrd_memory_allocate", "nrd_cache_clear",
                               "nrd_set_default_target", "nrd_memory_copy", "nrd_memory_fill", "nrd_stream_destroy",
                               "nrd_stream_synchronize", "nrd_call_builtin", "nrd_call_function", "nrd_search_new")]
    numbers = (0, 1, 2, 7, 255, 65536, -1, -2, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -2**63)
    texts = (b"", b"\xff\xfe", b"a" * 5000, b"add", b"*fp32:16", b"i32", b"(((", b"None", b"-1", b"num_warps", b"cuda:90", b"\x00", b"%s%n")
    end, done = time.time() + seconds, 0
    while time.time() < end:
        function = draw.choice(fast)
        arguments = []
        for parameter in function.parameters:
            plain = parameter.type.replace("const ", "")
            lottery = draw.random()
            if parameter.is_pointer and lottery < 0.1:
                arguments.append(ctypes.c_void_p(None))
            elif parameter.type in NUMBERS and parameter.type != "double" and lottery < 0.6 and parameter.name not in COUNTS:
                arguments.append(NUMBERS[parameter.type](draw.choice(numbers)))
            elif parameter.type == "double" and lottery < 0.6:
                arguments.append(ctypes.c_double(draw.choice((0.0, -1.0, 1e300, float("nan"), float("inf")))))
            elif plain == "char*" and lottery < 0.6 and parameter.name != "text" and parameter.name != "key":
                arguments.append(ctypes.c_char_p(draw.choice(texts)))
            elif plain == "nrd_arg*":
                args = (Arg * 8)()
                for arg in args:
                    arg.kind, arg.dtype = draw.choice((*range(11), 200)), draw.choice((*range(19), 99))
                    arg.memory, arg.divisibility = draw.choice((0, 1, 2, 3)), draw.choice((0, 1, 16))
                    arg.u = draw.choice((0, 1, 16, 2**40)) if arg.kind in (0, 1, 2, 3, 5) else 0
                abi.keep.append(args)
                arguments.append(ctypes.cast(args, ctypes.c_void_p))
            else:
                arguments.append(abi.right(function, parameter))
        counts = [i for i, parameter in enumerate(function.parameters) if parameter.name == "count"]
        if counts and any(parameter.type.endswith("nrd_arg*") for parameter in function.parameters):
            arguments[counts[0]] = ctypes.c_size_t(draw.choice((0, 3, 4, 5, 8)))
        print(function.name, [getattr(a, "value", a) for a in arguments], file=sys.stderr, flush=True)
        result = abi.call(function.name, *arguments)
        if function.gives_error and result:
            kind, name, message = abi.describe(result)
            assert 1 <= kind <= 7 and name and message, function.name
            assert kind != 7, (function.name, message)  # our own mistake
        abi.keep = abi.keep[-1000:]
        done += 1
    return done


@contextlib.contextmanager
def room_for(mebibytes):
    """What is called inside gets no more address space than this beyond what is in use."""
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (mebibytes << 20), resource.RLIM_INFINITY))
    try:
        yield
    finally:  # only the library is under the limit, not what the test says of it
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def memory_calls(abi):
    """Under a limit of memory: an error that says so, and the library goes on."""
    size = 256 << 20
    text, length, column = b"#" * size, ctypes.c_size_t(size), ctypes.c_uint32(1)
    out = ctypes.c_void_p()
    with room_for(64):
        value = abi.library.nrd_value_str(text, length)
        error = abi.library.nrd_module_parse(text, length, b"big.py", column, ctypes.byref(out))
    assert not value
    kind, name, message = abi.describe(error)
    assert (kind, name) == (RESOURCES, "OutOfMemory"), (kind, name, message)
    print("nrd_module_parse", message, flush=True)
    # A compilation, with more and more memory (what one took the next one can use); each ends with a kernel or with an error.
    text = (b"import triton.language as tl\n\ndef long(x, N: tl.constexpr):\n    for i in tl.static_range(N):\n"
            b"        tl.store(x + i, tl.load(x + i) * i)\n")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    abi.succeed(abi.library.nrd_module_parse(text, ctypes.c_size_t(len(text)), b"long.py", ctypes.c_uint32(1), ctypes.byref(module)))
    abi.succeed(abi.library.nrd_function_create(module, b"long", None, None, ctypes.byref(function)))
    count, ended = ctypes.c_size_t(2), set()
    for room in (0, 16, 32, 33, 34, 36, 40, 44, 50, 60, 70, 80, 100, 150, 512):
        signature = (ctypes.c_char_p * 2)(b"*fp32", str(2000 + room).encode())  # another kernel each time
        kernel = ctypes.c_void_p()
        assert abi.library.nrd_cache_flush(ctypes.c_uint64(10_000))  # its thread would be under the limit, too
        with room_for(room):
            error = abi.library.nrd_compile(function, signature, count, None, ctypes.byref(kernel))
        if error:
            kind, name, message = abi.describe(error)
            ended.add(name)
            assert kind == RESOURCES or name == "CompilationTooLarge" or "Cannot allocate memory" in message, (kind, name, message)
        print("nrd_compile", room, bool(kernel), flush=True)
    assert "CompilationTooLarge" in ended, ended
    abi.succeed(abi.library.nrd_compile(function, signature, count, None, ctypes.byref(kernel)))
    return 1


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "null"
    with tempfile.TemporaryDirectory() as folder:
        import os
        os.environ["NEREID_CACHE_DIR"] = folder
        abi = Abi()
        if what == "null":
            print(null_calls(abi), "calls")
        elif what == "random":
            seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
            print(random_calls(abi, float(sys.argv[2]), seed), "calls")
        else:
            memory_calls(abi)
