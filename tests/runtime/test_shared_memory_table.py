"""The reasons that benchmarks/shared_memory.py gives, which it finds in the GPU IR of both compilers."""

import importlib.util
import pathlib

import pytest

_spec = importlib.util.spec_from_file_location("shared_memory", pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "shared_memory.py")
table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(table)

RING = "%1 = ngpu.local_alloc <3x64x32xf16, #layout1> {offset = 0 : i32}\n"
CONVERSION = "%2 = ngpu.local_alloc %9 : tensor<32x32xf32, #layout2> -> <32x32xf32, #layout3> {offset = 12288 : i32}\n"
THEIRS = "%k = ttg.local_alloc : () -> !ttg.memdesc<{}x32x64xf16, #shared, #smem, mutable> loc(#loc1)\n"


@pytest.mark.parametrize("mine, wanted, ours, theirs, reason", [
    (1000, 0, "", "", "LITTLE"),
    (12288, 8192, RING, THEIRS.format(2), "SLOT"),  # of the transposed shape there
    (12288, 4096, RING, THEIRS.format(1), "FURTHER"),
    (12288, 4096, RING, THEIRS.format(3), None),
    (12288, 0, RING, "", "AHEAD"),
    (14600, 0, RING, "", "AHEAD LITTLE"),  # 2312 bytes above the ring
    (20000, 0, RING, "", None),  # more than small buffers take
    (24576, 8192, RING + RING.replace("offset = 0", "offset = 12288"), THEIRS.format(2), "SLOT AHEAD"),  # one of the two
    (16384, 8192, RING + CONVERSION, THEIRS.format(2), "SLOT ONCE"),
    (12288 + 4096, 12288, CONVERSION, "", "ONCE"),
    (12288 + 4096, 12288, CONVERSION, "%5 = ttg.convert_layout %4 : tensor<32x32xf32, #mma> -> tensor<32x32xf32, #blocked> loc(#l)", "WHOLE"),
    (12288 + 4096, 8192, CONVERSION, "", None),
    # Behind the loop, over the ring.
    (16384, 12288, RING + CONVERSION.replace("32x32", "64x64").replace("12288", "0"), THEIRS.format(2) + "%5 = ttg.convert_layout %4 : tensor<64x64xf32, #m>", "WHOLE"),
    (16384, 8192, RING + CONVERSION.replace("32x32", "64x64").replace("12288", "0"), THEIRS.format(2), "SLOT ONCE"),
])
def test_reasons(mine, wanted, ours, theirs, reason):
    expected = "; ".join(getattr(table, name) for name in reason.split()) if reason else ""
    assert table.reason_of(mine, wanted, ours, theirs) == expected


def test_the_page_counts_what_has_no_reason():
    rows = [("a", 10, 5, ""), ("b", 10, 5, f"{table.SLOT}; {table.ONCE}"), ("c", 5, 5, ""), ("d", 7, "Error: no", "")]
    text, missing = table.page(rows, ["tests"], 1)
    assert missing == 1 and "| `a` | 10 | 5 | not known yet |" in text and "| `b` | 10 | 5 | A, E |" in text
    assert f"| A | {table.SLOT} | 1 |" in text and f"| F | {table.LITTLE} | 0 |" in text
