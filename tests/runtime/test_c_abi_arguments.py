"""What the C ABI says of arguments that it cannot use: every function of the headers with every pointer null, and much else.

The calls of whole families run in a process of their own (c_abi.py), whose last line of output names the call that did not come back.
"""

import ctypes
import os
import pathlib
import subprocess
import sys

import pytest

from c_abi import ARGUMENT, Abi, Arg, Launch, Plan, Tuple

HERE = pathlib.Path(__file__).parent


def run(*arguments):
    done = subprocess.run([sys.executable, str(HERE / "c_abi.py"), *arguments], capture_output=True, text=True, timeout=600,
                          env=dict(os.environ))
    last = (done.stderr or done.stdout).strip().splitlines()[-3:]
    assert done.returncode == 0, f"status {done.returncode}; last: {last}"
    return done.stdout


def test_every_pointer_null():
    """Generated from the headers: 150 calls and more, each with one null pointer."""
    assert int(run("null").split()[-2]) > 150


@pytest.mark.parametrize("seed", range(3))
def test_random_arguments(seed):
    assert int(run("random", "3", str(seed)).split()[-2]) > 100


def test_out_of_memory():
    """A text and compilations that do not fit the memory: errors, and the library works afterwards."""
    run("memory")


@pytest.fixture(scope="module")
def abi():
    return Abi()


def fails(abi, error, name, *parts, kind=ARGUMENT):
    assert error
    found = abi.describe(error)
    assert found[:2] == (kind, name), found
    for part in parts:
        assert part in found[2], found


def test_null_inside_arrays(abi):
    out = ctypes.c_void_p()
    signature = (ctypes.c_char_p * 5)(b"*fp32", None, b"*fp32", b"i32", b"1024")
    fails(abi, abi.library.nrd_compile(abi.function, signature, ctypes.c_size_t(5), None, ctypes.byref(out)), "NullArgument",
          "`nrd_compile` needs its argument `signature[1]`, which is null")
    names = (ctypes.c_char_p * 2)(b"BLOCK", None)
    fails(abi, abi.library.nrd_tuner_set_key(abi.tuner, names, ctypes.c_size_t(2)), "NullArgument", "`names[1]`")
    values = (ctypes.c_void_p * 1)(None)
    assert abi.library.nrd_value_tuple(values, ctypes.c_size_t(1), None, ctypes.c_uint64(0)) is None


def test_counts_beyond_reason(abi):
    out = ctypes.c_void_p()
    signature = (ctypes.c_char_p * 1)(b"i32")
    for count in (2**64 - 1, 2**40, 65537):
        fails(abi, abi.library.nrd_compile(abi.function, signature, ctypes.c_size_t(count), None, ctypes.byref(out)), "BadApiArgument",
              "argument `count` of `nrd_compile`: expected at most 65536", str(count))
    args = (Arg * 5)()
    launch = Launch(grid=(1, 1, 1))
    for count in (2**60, 6):
        fails(abi, abi.library.nrd_dispatch(abi.function, args, ctypes.c_size_t(count), None, ctypes.byref(launch), None),
              "LaunchTooManyArguments", str(count))
        fails(abi, abi.library.nrd_kernel_launch(abi.kernel, args, ctypes.c_size_t(count), ctypes.byref(launch)),
              "LaunchTooManyArguments", str(count))


def test_null_behind_arguments(abi):
    """Tuples and descriptors that are null, or whose items are."""
    launch = Launch(grid=(1, 1, 1))
    for kind, value in ((8, None), (8, Tuple(count=2)), (8, Tuple(count=2**50, items=1)), (10, Tuple(count=1)), (7, None)):
        args = (Arg * 5)()
        for arg in args:
            arg.kind, arg.p = kind, ctypes.addressof(value) if value is not None else None
        for call in (lambda: abi.library.nrd_dispatch(abi.function, args, ctypes.c_size_t(5), None, ctypes.byref(launch), None),
                     lambda: abi.library.nrd_kernel_launch(abi.kernel, args, ctypes.c_size_t(5), ctypes.byref(launch))):
            found = abi.describe(call())
            assert found[:2] == (ARGUMENT, "LaunchBadArgument"), (kind, found)


def test_hosts_without_callbacks(abi):
    host, out = (ctypes.c_void_p * 11)(), ctypes.c_void_p()
    fails(abi, abi.library.nrd_function_create(abi.module, b"add", host, None, ctypes.byref(out)), "NullArgument", "`host->lookup`")


def test_numbers_out_of_range(abi):
    assert abi.library.nrd_tuner_text(abi.tuner, ctypes.c_size_t(99)) is None
    assert abi.library.nrd_function_param_name(abi.function, ctypes.c_size_t(2**63)) is None
    times = (ctypes.c_double * 3)()
    for config in (1, 2**63):
        abi.library.nrd_search_ready(abi.search, ctypes.c_size_t(config))
        abi.library.nrd_search_fail(abi.search, ctypes.c_size_t(config))
        abi.library.nrd_search_report(abi.search, ctypes.c_size_t(config), times, ctypes.c_size_t(3))
        assert abi.library.nrd_search_timing(abi.search, ctypes.c_size_t(config), times) == 0
    plan, runs = Plan(size=8), ctypes.c_size_t()
    launch = Launch(grid=(1, 1, 1))
    fails(abi, abi.library.nrd_kernel_measure(abi.kernel, (Arg * 4)(), ctypes.c_size_t(4), ctypes.byref(launch), ctypes.byref(plan),
                                              times, ctypes.c_size_t(3), ctypes.byref(runs)), "BadApiArgument", "`plan->size`")


def test_texts_that_are_no_utf8(abi):
    out = ctypes.c_void_p()
    fails(abi, abi.library.nrd_function_create(abi.module, b"\xff\xfe\x80", None, None, ctypes.byref(out)), "NoSuchFunction")
    fails(abi, abi.library.nrd_module_load(b"/\xff\xfe", ctypes.byref(out)), "CannotReadFile")
    value = ctypes.c_void_p(abi.library.nrd_value_int(ctypes.c_int64(1)))
    assert abi.describe(abi.library.nrd_options_set(abi.options, b"\xff", value))[0] == ARGUMENT


def test_damaged_objects(abi, tmp_path):
    """Bytes of an object changed at random, or cut off: text or an error, whatever is damaged."""
    size = ctypes.c_size_t()
    abi.library.nrd_kernel_stage.restype = ctypes.c_void_p
    data = abi.library.nrd_kernel_stage(abi.kernel, b"obj", ctypes.byref(size))
    image = ctypes.string_at(data, size.value)
    script = tmp_path / "damage.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(HERE)!r})\n" + """
import ctypes, random, c_abi
library = ctypes.CDLL(c_abi.find_library())
library.nrd_disassemble.restype = ctypes.c_void_p
image = open(sys.argv[1], "rb").read()
sections = int.from_bytes(image[40:48], "little")
texts = 0
for seed in range(600):
    draw = random.Random(seed)
    damaged = bytearray(image)
    # Headers of the file and of sections, anything, or the end cut off.
    for _ in range(draw.choice((1, 2, 10))):
        at = draw.choice((draw.randrange(64), draw.randrange(sections, len(image)), draw.randrange(len(image))))
        damaged[at] = draw.choice((0, 255, 127, draw.randrange(256)))
    if draw.random() < 0.2:
        damaged = damaged[:draw.randrange(len(damaged))]
    print(seed, flush=True)
    text = ctypes.c_void_p()
    error = library.nrd_disassemble(bytes(damaged), ctypes.c_size_t(len(damaged)), b"damaged.o", ctypes.byref(text))
    texts += not error
    (library.nrd_error_free if error else library.nrd_string_free)(ctypes.c_void_p(error) if error else text)
assert 0 < texts < 600, texts
""")
    (tmp_path / "k.o").write_bytes(image)
    done = subprocess.run([sys.executable, str(script), str(tmp_path / "k.o")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.returncode, done.stdout.split()[-1:], done.stderr[-500:])
