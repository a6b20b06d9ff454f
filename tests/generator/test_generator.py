"""The generator itself: what it makes is deterministic, has a meaning, reaches every operation, and gets small when it fails.

The long runs are `python -m tests.generator` (scripts/test.sh runs it with a new seed each time)."""

import collections
import json
import os
import signal
import time

import numpy as np
import pytest

from generator import generate, minimise, observed, overflow, rows, run, tiles, tree
from generator.dtypes import ALL, BF16, E4M3, E5M2, F16, FP8, I8, I64, U8, U32, Value, from_memory, round_float, to_memory
from generator.worker import Worker
from simulator import needs_simulator

#: Seeds of programs of tiles that take each way: pairs, rows of clusters, split products, loops over programs.
TILES = (100001, 100015, 100057)


def test_the_same_seed_gives_the_same_program():
    for seed in (3, 77):
        first, second = (generate.program_of_seed(seed) for _ in range(2))
        assert tree.source_of(first) == tree.source_of(second)
        assert all(np.array_equal(a.bits.view(np.uint8), b.bits.view(np.uint8)) for a, b in zip(first.buffers, second.buffers))


@pytest.mark.parametrize("dtype", [F16, BF16, *FP8], ids=str)
def test_narrow_floats_against_torch(dtype):
    """The evaluator's own rounding, on values around every representable one."""
    torch = pytest.importorskip("torch")
    kind = {F16: torch.float16, BF16: torch.bfloat16, E4M3: torch.float8_e4m3fn, E5M2: torch.float8_e5m2}[dtype]
    codes = np.arange(1 << dtype.bits).astype(f"u{dtype.bits // 8}").view(dtype.memory)
    values = from_memory(codes, dtype).astype(np.float64)
    values = values[np.isfinite(values)]
    around = np.concatenate([values, values * (1 + 1e-4), (values[1:] + values[:-1]) / 2]).astype(np.float32).astype(np.float64)
    around = around[np.abs(around) < dtype.largest * 0.99]
    want = torch.from_numpy(around).float().to(kind).double().numpy()
    np.testing.assert_array_equal(np.asarray(round_float(around, dtype), np.float64), want)
    finite = np.isfinite(from_memory(codes, dtype))
    again = to_memory(from_memory(codes, dtype), dtype)
    np.testing.assert_array_equal(again[finite], codes[finite])


@pytest.mark.parametrize("seed", range(0, 6124, 511))
def test_some_programs(seed, target):
    program = generate.program_of_seed(seed)
    failure = run.check(program, (target, ), variants=False)
    assert failure is None, f"{failure}\n{tree.source_of(program)}"


@pytest.mark.cpu_only("checked mode is the CPU's")
@pytest.mark.parametrize("seed", range(100, 6124, 1003))
def test_some_programs_in_checked_and_debug_mode(seed, target):
    program = generate.program_of_seed(seed, overflows=generate.overflows_in(seed, ("debug", )))
    failure = run.check(program, (target, ), variants=False, modes=("checked", "debug"))
    assert failure is None, f"{failure}\n{tree.source_of(program)}"


def test_programs_without_overflow():
    for seed in (5, 6, 7, 9):
        seen = overflow.Overflow()
        tree.run(generate.program_of_seed(seed, overflows=False), overflow=seen)
        assert seen.state == overflow.NEVER


I8_MAX = np.array([127, 0, 0], np.int8)


@pytest.mark.parametrize("call, state", [
    (lambda o: o.binary(np.add, Value(I8, I8_MAX), Value(I8, np.int8(0))), overflow.NEVER),
    (lambda o: o.binary(np.add, Value(I8, I8_MAX), Value(I8, np.int8(1))), overflow.SURELY),
    (lambda o: o.binary(np.subtract, Value(U8, np.uint8(0)), Value(U8, np.uint8(1))), overflow.SURELY),
    (lambda o: o.binary(np.multiply, Value(U32, np.uint32(2**32 - 1)), Value(U32, np.uint32(2**32 - 1))), overflow.SURELY),
    (lambda o: o.binary(np.multiply, Value(I64, np.int64(2**62)), Value(I64, np.int64(8))), overflow.NEVER),
    (lambda o: o.sum(Value(I8, np.array([100, 27], np.int8)), 0), overflow.NEVER),
    (lambda o: o.sum(Value(I8, np.array([100, 28], np.int8)), 0), overflow.SURELY),
    (lambda o: o.sum(Value(I8, np.array([100, 28, -9], np.int8)), 0), overflow.MAYBE),
    (lambda o: o.sum(Value(I8, np.array([100, 28, -9], np.int8)), 0, running=True), overflow.SURELY),
    (lambda o: o.product(Value(I8, np.array([16, 7], np.int8)), 0), overflow.NEVER),
    (lambda o: o.product(Value(I8, np.array([16, 16, 0], np.int8)), 0), overflow.MAYBE),
    (lambda o: o.product(Value(I8, np.array([16, 16, 0], np.int8)), 0, running=True), overflow.SURELY),
    (lambda o: o.product(Value(I8, np.array([16, 16], np.int8)), 0), overflow.SURELY),
])
def test_what_overflows(call, state):
    seen = overflow.Overflow()
    call(seen)
    assert seen.state == state


def test_programs_tell_what_they_compute():
    """Among a few programs are prints, assertions that hold and that fail, and static ones, in the kernel and in functions of both kinds."""
    seen = collections.Counter()

    def enough():
        return (seen["lines"] > 50 and seen["known"] > 4 and seen["failing"]
                and all(seen[kind, noinline] for kind in (tree.Print, tree.Check) for noinline in (False, True)))

    for seed in range(150):
        if enough():
            break
        program = generate.program_of_seed(seed)
        noted = observed.Observed()
        tree.run(program, observed=noted)
        seen["lines"] += sum(map(len, noted.lines.values()))
        seen["known"] += len(noted.known)
        seen["failing"] += bool(noted.failing)
        for function in program.functions:
            for s in tree.statements_of(tree.Program([], [], [], function.body, (1, ), {})):
                seen[type(s), function.noinline] += 1
    assert enough(), seen


def printing(*lines):
    noted = observed.Observed()
    noted.print((0, 1, 0), tree.Print("print 1", [None]), [Value(I8, np.array([[-1, 20]], np.int8))])
    return observed.difference("\n".join(lines), noted, in_order=True)


@pytest.mark.parametrize("lines, message", [
    (("pid (0, 1, 0) idx (0, 0) print 1: -1", "pid (0, 1, 0) idx (0, 1) print 1: 20"), None),
    (("pid (0, 1, 0) idx (0, 1) print 1: 20", "pid (0, 1, 0) idx (0, 0) print 1: -1"), "line 0"),
    (("pid (0, 1, 0) idx (0, 0) print 1: -1", ), "prints 1 lines, expected 2"),
    (("pid (0, 0, 0) idx (0, 0) print 1: -1", "pid (0, 0, 0) idx (0, 1) print 1: 20"), "program (0, 0, 0) prints 2 lines, expected 0"),
])
def test_what_is_printed_is_compared(lines, message):
    found = printing(*lines)
    assert found is None if message is None else message in found


def assertion(message="check 1", line=7, calls=1, pid="(1, 0, 0)"):
    return f"k.py:{line}:5: run-time error: assertion failed: {message}\n" + "k.py:9:5: note: called from here\n" * calls + f"note: in program {pid}"


@pytest.mark.parametrize("changes, message", [
    ({}, None), ({"message": "check 2"}, "`check 2` fails first"), ({"line": 8}, "line 8, expected 7"), ({"calls": 0}, "0 calls, expected 1"),
    ({"pid": "(0, 1, 0)"}, "expected program (1, 0, 0)"),
])
def test_reports_of_assertions_are_compared(changes, message):
    noted = observed.Observed()
    noted.fail((0, 1, 0), "check 2", 0)
    noted.fail((1, 0, 0), "check 1", 1)    # in order the programs of x come first
    found = run.misreported(assertion(**changes), noted, "\n" * 6 + '    tl.device_assert(v1, "check 1")')
    assert found is None if message is None else message in found


def test_a_static_assertion_turned_round_must_fail(monkeypatch):
    condition = tree.Known(tree.var("x1"), "dtype", "int32", "known 1")
    assert condition.text() == "x1.dtype == tl.int32"
    condition.holds = False
    assert condition.text() == "x1.dtype != tl.int32"
    program = next(p for p in map(generate.program_of_seed, range(80)) if any(isinstance(s, tree.Known) for s in tree.statements_of(p)))
    noted = observed.Observed()
    tree.run(program, observed=noted)
    assert run.refuse_one(program, noted) is None
    monkeypatch.setattr(tree.Known, "text", lambda self: "True")    # a compiler that never refuses
    failure = run.refuse_one(program, noted)
    assert failure.kind == "told" and "expected `CompileTimeAssertionFailure" in failure.text


def test_every_cell_can_be_built():
    """Each operation with each dtype in some control form, each operation in each form: without compiling anything."""
    counts = collections.Counter()
    table = {}
    for index, (row, dtype, form) in enumerate(generate.CELLS):
        if form != "leave":   # there the operation may be left out
            table.setdefault((row.name, dtype), []).append((row, dtype, form))
    for number, options in enumerate(table.values()):
        focus = options[number % len(options)]
        if any((counted(focus[0]), str(focus[1])) == (name, dtype) for name, dtype, _ in counts):
            continue   # a program made for another cell has it
        program = None
        for attempt in range(100):
            try:
                program = generate.Generator(1000 * number + attempt, focus, 0).make_program()
                break
            except generate.Reject:
                continue
        assert program is not None, f"no program for {focus[0].name} on {focus[1]} in the form {focus[2]}"
        tree.run(program, counts)
    seen = {(name, dtype) for name, dtype, _ in counts}
    missing = [f"{row.name} x {dtype}" for row, dtypes in ((r, r.dtypes) for r in rows.ROWS) for dtype in dtypes
               if (counted(row), str(dtype)) not in seen]
    assert not missing, ", ".join(missing)


#: Builtins under the names of the rows that make them, where these differ.
ROWS_OF = {
    "associative_scan": "scan:c_add", "reduce": "reduce:c_add", "make_tensor_descriptor": "described", "load_tensor_descriptor": "described",
    "multiple_of": "hint", "max_contiguous": "hint", "max_constancy": "hint", "make_block_ptr": "windowed", "advance": "windowed",
    "map_elementwise": "mapped:m_compare", "inline_asm_elementwise": "asm:add", "num_programs": "pid", "program_id": "pid", "to": "cast", "trans": "transpose", "view": "reshape",
}
#: Builtins that no random program holds, and why.
REASONS = {
    **dict.fromkeys(("block_type", "constexpr", "dtype", "pointer_type", "tensor", "tensor_descriptor", "tuple"), "types"),
    **dict.fromkeys(("debug_barrier", "device_assert", "device_print", "range", "static_assert", "static_range", "store", "store_tensor_descriptor"),
                    "statements of their own"),
    **dict.fromkeys(("exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "rsqrt", "erf", "sigmoid", "softmax"), "the class with tolerances"),
    "static_print": "no result: test_control_flow",
    **dict.fromkeys(("philox", "philox_impl", "rand4x", "randn", "randn4x", "pair_uniform_to_normal", "uint_to_uniform_float"),
                    "parts of randint4x and rand, or approximate: test_random"),
    "bitonic_merge": "a step of sort: test_sorting",
    "condition": "an option of while: test_control_flow", "item": "the same as a reshape to a scalar: test_shapes",
    "atomic_poll": "waits for other programs: test_atomics",
    **dict.fromkeys(("at_most", "detach", "expect_zero", "recompute", "with_tangent"), "the identity, of their first operand"), "save": "a store: tests/differentiation/test_hints.py", "extern_elementwise": "an author's own code: test_extern",
    "to_tensor": "what every number goes through",
}


def test_every_builtin_has_a_row_or_a_reason():
    import nereid
    names = {row.name for row in rows.ROWS}
    missing = sorted(b["name"] for b in json.loads(nereid.language_json())
                     if not b["name"].startswith("_") and ROWS_OF.get(b["name"], b["name"]) not in names and b["name"] not in REASONS)
    assert not missing, f"no random program holds {', '.join(missing)}: add a row to tests/generator/rows.py, or a reason"


def counted(row):
    return {"dot_of_transposed": "dot"}.get(row.name, row.name)


def test_minimising_keeps_the_failure():
    """With a check that fails on programs that hold a product, what remains is little more than the product."""
    for seed in range(200):
        program = generate.program_of_seed(seed)
        if len(program.body) > 6 and any(n.op == "mul" for n in tree.nodes_of(program.body)):
            break

    def check(candidate):
        found = any(n.op == "mul" for n in tree.nodes_of(candidate.body))
        return run.Failure("wrong", "cpu", "") if found else None

    begin = time.monotonic()
    small, failure = minimise.minimise(program, check(program), check, 120)
    assert time.monotonic() - begin < 120, "there is always something to try: it goes back and forth"
    assert failure is not None and any(n.op == "mul" for n in tree.nodes_of(small.body))
    assert len(small.body) <= 3 and not small.functions and len(list(tree.nodes_of(small.body))) <= 12, tree.source_of(small)


def test_programs_of_tiles_take_the_ways_of_gpus():
    """Programs of `--kind tiles` are the same each time, have settings that force the ways of GPUs of architecture 90, and among a few their code takes each way."""
    seen = collections.Counter()
    for seed in TILES:
        program = generate.program_of_seed(seed, kind="tiles")
        again = generate.program_of_seed(seed, kind="tiles")
        assert tree.source_of(program) == tree.source_of(again) and program.settings == again.settings
        module, path = run.load_kernel(tree.source_of(program))
        with run.settings_of(program):
            seen.update(name for _, name, _ in run.ways_of(module.kernel.warmup(*run.Arguments(program, False).values, grid=program.grid, target="cuda:90", **program.options)))
        path.unlink()
    assert set(seen) == {*tiles.WAYS, *tiles.FACTS}


@needs_simulator
@pytest.mark.parametrize("seed", TILES)
def test_some_programs_of_tiles(seed):
    program = generate.program_of_seed(seed, kind="tiles")
    failure = run.check(program, ("sim:cuda:90", ), variants=False)
    assert failure is None, f"{failure}\n{program.settings}\n{tree.source_of(program)}"


def test_settings_of_a_program_end_with_it():
    import nereid
    program = tree.Program([], [], [], [], (1, ), {}, settings={"tensor_copies": "always"})
    with run.settings_of(program):
        assert nereid.knobs.nereid.tensor_copies == "always"
    assert nereid.knobs.nereid.tensor_copies != "always"


def test_too_large_for_a_gpu_is_not_passed():
    """Too large for a GPU: not compared, and told; too large for the CPU: a failure."""
    from nereid.runtime.errors import OutOfResources
    error = OutOfResources(300000, 232448, "shared memory")
    skipped = []
    assert run.failed("cuda:90 num_warps=8", error, skipped) is None
    assert skipped == ["cuda:90"] and isinstance(skipped[0], run.TooLarge)
    assert run.failed("cpu", error, skipped).kind == "internal" and len(skipped) == 1


def test_a_crash_says_where():
    worker = Worker({"targets": ("cpu", ), "compile_targets": ()})
    worker.ask(0)
    while not worker.trace.exists() and worker.process.is_alive():
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(worker.process.pid, signal.SIGSEGV)
    failure, *_ = worker.answer(10) or worker.answer(10)
    assert failure.kind == "crash" and "signal 11" in failure.text and "most recent call first" in failure.text, failure
