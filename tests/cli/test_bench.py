"""nereid bench: arguments from the command line, configurations, its three forms of output."""

import csv
import io
import json

import pytest

from test_cli import SEED, fails, nereid
from test_explain import arguments

ARGS = arguments("n_elements=65536", "x_ptr=randn:(n_elements)", "y_ptr=rand:(n_elements):fp32", "output_ptr=empty:65536")
BENCH = ["bench", SEED, "--kernel", "add_kernel", "--target", "cpu", "--duration", "1", "--warmup", "1"]
GRID = ["--grid", "cdiv(n_elements, BLOCK_SIZE)"]


def test_table():
    result = nereid(*BENCH, *ARGS, *GRID, "--config", "BLOCK_SIZE=1024", "--config", "BLOCK_SIZE=4096, num_threads=1")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "add_kernel on the CPU, warm caches"
    assert [line.split("  ")[0] for line in lines[2:]] == ["BLOCK_SIZE=1024", "BLOCK_SIZE=4096, num_threads=1"]
    assert sum(line.endswith("fastest") for line in lines) == 1
    assert all("B/s" in line and "FLOP/s" in line for line in lines[2:])


def test_csv_and_json(tmp_path):
    common = [*BENCH, *ARGS, *GRID, "--arg", "BLOCK_SIZE=1024"]
    row, = csv.DictReader(io.StringIO(nereid(*common, "--csv").stdout))
    assert row["kernel"] == "add_kernel" and float(row["median_ms"]) > 0 and int(row["runs"]) >= 5
    assert int(row["bytes"]) == 3 * 4 * 65536 and int(row["flops"]) == 65536
    assert float(row["gb_per_s"]) == pytest.approx(3 * 4 * 65536 / float(row["median_ms"]) / 1e6, rel=1e-2)
    out = tmp_path / "times.json"
    result = nereid(*common, "--json", "-o", str(out), "--bytes", "n_elements * 8", "--flops", "n_elements", "--cache", "cold")
    assert result.returncode == 0 and result.stdout == ""
    one, = json.loads(out.read_text())
    assert (one["bytes"], one["cache"]) == (65536 * 8, "cold")
    assert one["low_ms"] <= one["median_ms"] <= one["high_ms"]


def test_a_configuration_that_fails(tmp_path):
    file = tmp_path / "k.py"
    file.write_text("import triton.language as tl\n\ndef k(x, n: tl.constexpr):\n    tl.static_assert(n < 64)\n    tl.store(x, n)\n")
    words = ["bench", str(file), "--target", "cpu", "--duration", "1", "--warmup", "0", "--arg", "x=zeros:1:i32", "--grid", "1"]
    result = nereid(*words, "--config", "n=1", "--config", "n=64")
    assert result.returncode == 0 and "failed: static assertion failed" in result.stdout
    assert nereid(*words, "--config", "n=64").returncode == 1


def test_results_are_those_of_the_arguments(tmp_path):
    file = tmp_path / "k.py"
    file.write_text("import triton.language as tl\n\ndef k(x, n):\n    i = tl.arange(0, 64)\n"
                    "    tl.device_assert(tl.load(x + i) == i * n, 'fill')\n")
    words = ["bench", str(file), "--target", "cpu", "--duration", "1", "--warmup", "0", "--grid", "1", "--option", "debug=True"]
    assert nereid(*words, *arguments("n=1", "x=arange:64:i32")).returncode == 0
    assert nereid(*words, *arguments("n=2", "x=arange:64:i32")).returncode == 1
    for element in ("fp16", "bf16", "fp64", "i8", "i64"):
        assert nereid(*words, *arguments("n=0", f"x=zeros:64:{element}")).returncode == 0
        assert nereid(*words, *arguments("n=0", f"x=ones:64:{element}")).returncode == 1


def test_wrong_arguments(tmp_path):
    fails(2, "error: `nereid bench` needs `--grid`, the number of programs: a formula of the arguments, as `cdiv(n, BLOCK)`", *BENCH, *ARGS)
    fails(2, "error: `add_kernel` has no parameter `x_prt`, did you mean `x_ptr`?", *BENCH, *GRID, "--arg", "x_prt=randn:4")  # UnknownKeywordNear
    fails(2, "error: `add_kernel` has no parameter `zzzzzz`", *BENCH, *GRID, "--arg", "zzzzzz=1")  # UnknownKeyword
    fails(2, "error: unknown filling `randm` of the tensor `x_ptr`: expected `randn`", *BENCH, *GRID, *ARGS, *arguments("x_ptr=randm:4", "BLOCK_SIZE=4"))  # CliUnknownFilling
    fails(2, "error: `(q)` is no size of the tensor `x_ptr`: expected a whole number, or a formula in brackets", *BENCH, *GRID, *ARGS, *arguments("x_ptr=randn:(q)", "BLOCK_SIZE=4"))  # CliBadSize
    result = nereid(*BENCH, *GRID, *ARGS, *arguments("x_ptr=randn:4:fp17", "BLOCK_SIZE=4"))
    assert result.returncode == 2
    assert result.stderr.startswith("error: unknown element type `fp17` of the tensor `x_ptr`: expected one of `fp32`, `fp16`")  # CliUnknownElement
    fails(2, "error: `randn` gives fractions, which `x_ptr` of `i32` cannot hold: use `randint(N)`", *BENCH, *GRID, *ARGS, *arguments("x_ptr=randn:4:i32", "BLOCK_SIZE=4"))  # CliFillingOfFloats
    result = nereid(*BENCH, *GRID, *ARGS, *arguments("n_elements=many", "BLOCK_SIZE=4", "x_ptr=ones:4", "y_ptr=ones:4"))
    assert "error: argument `n_elements`: expected a number, a formula of numbers, or a tensor as `randn:4096x4096:fp16`, found `many`" in result.stderr  # CliBadArgument
    fails(2, "error: `M` in the formula `M + 1` is no argument with a whole number for a value", *BENCH, *ARGS, "--arg", "BLOCK_SIZE=4", "--grid", "M + 1")  # CliUnknownInFormula
    result = nereid(*BENCH, *ARGS, "--arg", "BLOCK_SIZE=4", "--grid", "1 +")
    assert result.stderr.startswith("error: `1 +` is no formula: expected whole numbers, names of arguments")  # CliBadFormula
    fails(2, "error: option `--duration` expects milliseconds, found `long`", *BENCH, *ARGS, *GRID, "--duration", "long")  # BadOptionValue
    fails(2, "error: option `--cache` expects `cold` or `warm`, found `hot`", *BENCH, *ARGS, *GRID, "--cache", "hot")
    fails(2, "error: `BLOCK` in a configuration is neither a parameter of `add_kernel` nor a compile option", *BENCH, *ARGS, *GRID, "--config", "BLOCK=4")  # CliBadConfiguration
    result = nereid(*BENCH, *GRID, *arguments("n_elements=4", "BLOCK_SIZE=4", "x_ptr=empty:1048576x1000000:fp64", "y_ptr=ones:4", "output_ptr=ones:4"))
    assert (result.returncode, result.stderr.strip()) == (1, "error: cannot allocate the 8388608000000 bytes of the tensor `x_ptr`")  # CliNoMemory
    result = nereid(*BENCH, *GRID, *arguments("n_elements=4", "BLOCK_SIZE=4", "x_ptr=empty:4294967296x4294967296", "y_ptr=ones:4", "output_ptr=ones:4"))
    assert (result.returncode, result.stderr.strip()) == (1, "error: cannot allocate the 9223372036854775807 bytes of the tensor `x_ptr`")
    fails(2, "error: the number 9223372036854775808 does not fit into 64 bits", *BENCH, *GRID, *arguments("n_elements=9223372036854775808", "BLOCK_SIZE=4", "x_ptr=ones:4", "y_ptr=ones:4", "output_ptr=ones:4"))


def test_numbers_of_other_bases():
    common = [*BENCH, *ARGS, *GRID, "--json", "--arg", "BLOCK_SIZE=64"]
    for text in ("0x10000", "0b10000000000000000", "+65536"):
        row, = json.loads(nereid(*common, "--arg", f"n_elements={text}", "--flops", "n_elements").stdout)
        assert row["flops"] == 65536


def test_no_gpu():
    result = nereid(*BENCH[:4], *ARGS, *GRID, "--target", "cuda:90", "--arg", "BLOCK_SIZE=64", NEREID_LIBCUDA="/no/libcuda.so")
    assert result.returncode in (1, 2) and "no NVIDIA driver was found" in result.stderr


def test_one_impossible_configuration():
    """A row of its own, whatever is wrong with it; the others are measured."""
    result = nereid(*BENCH, *ARGS, *GRID, "--config", "BLOCK_SIZE=1024", "--config",
                    "BLOCK_SIZE=1024, num_warps=many", "--config", "BLOCK_SIZE=0", "--config", "BLOCK_SIZE=1024, n_elements=x.y")
    assert result.returncode == 0, result.stderr
    rows = result.stdout.splitlines()[2:]
    assert len(rows) == 4 and "FLOP/s" in rows[0]
    assert all("failed: " in row for row in rows[1:]), result.stdout


def test_tensors_that_are_too_small():  # CliKernelFaulted
    small = arguments("n_elements=50000000", "x_ptr=rand:16", "y_ptr=rand:16", "output_ptr=empty:16", "BLOCK_SIZE=1024")
    for _ in range(10):  # what such a kernel overwrites is different each time
        result = nereid(*BENCH, *small, *GRID)
        assert result.returncode == 1
        assert "`--checked` finds accesses outside of the tensors" in result.stderr and "the kernel ended the process (" in result.stderr
    result = nereid(*BENCH, *small, *GRID, "--checked")
    assert result.returncode == 1
    assert "failed: " in result.stdout and "x_ptr" in result.stdout, result.stdout


def test_shapes_as_tuples():
    for shape in ("(M,N)", "(M, N)", "M,N", "(M)x(N)", "((M),N*1)", "(M*N,)"):
        result = nereid(*BENCH, *ARGS, *GRID, "--arg", "BLOCK_SIZE=1024",
                        "--arg", f"x_ptr=randn:{shape.replace('M', 'n_elements').replace('N', '1')}")
        assert result.returncode == 0, (shape, result.stderr)
