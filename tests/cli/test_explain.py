"""nereid explain: the facts of the report, its advice, the page."""

import html.parser
import json
import re
import xml.dom.minidom

import pytest

from test_cli import SEED, fails, nereid

ADD = "*fp32:16, *fp32:16, *fp32:16, i32{}, 1024"
MATMUL = ("*{0}:16, *{0}:16, *{0}:16, i32:16, i32:16, i32:16, i32:16, i32:1, i32:16, i32:1, i32:16, i32:1, {1}, {2}, {3}, 8, None")


def report(file, kernel, signature, *options, target="cuda:90"):
    result = nereid("explain", str(file), "--kernel", kernel, "--signature", signature, "--target", target, "--json", *options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def advice(facts):
    return [(hint["name"], hint["place"]["line"]) for hint in facts["hints"]]


def test_facts_of_a_product():
    facts = report(SEED, "matmul_full_kernel", MATMUL.format("fp16", 128, 128, 64))
    assert facts["schema"] == 1 and facts["target"] == "cuda:90"
    line = facts["source"]["text"].split("\n").index("        accumulator = tl.dot(a, b, accumulator)") + 1
    product, = facts["products"]
    assert (product["unit"], product["shape"], product["k"], product["place"]["line"]) == ("wgmma", [128, 128], 64, line)
    loop, = facts["loops"]
    assert loop["text"] == "(K + 63) / 64" and loop["stages"] == 3
    assert loop["trips"] == ["div", ["add", ["argument", "K"], 63], 64]
    assert [access["route"] for access in facts["accesses"]] == ["asynchronous copy", "asynchronous copy", "registers"]
    assert all(access["bytes"] == 16 and access["sectors"] == access["least_sectors"] for access in facts["accesses"])
    work = {(item["what"], item["parameter"]): item["amount"] for item in facts["work"]}
    assert work == {("read", "a_ptr"): 16384, ("read", "b_ptr"): 16384, ("fp16 product", ""): 2 * 128 * 128 * 64, ("write", "c_ptr"): 32768}
    shared = facts["shared"]
    assert shared["bytes"] == max(b["offset"] + b["bytes"] for b in shared["buffers"]) == 98304
    for a in shared["buffers"]:  # whose lives meet have different bytes
        for b in shared["buffers"]:
            apart = a["end"] < b["begin"] or b["end"] < a["begin"]
            assert a is b or apart or a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
    assert all(access["conflicts"] == 1 for access in shared["accesses"])
    assert len(facts["lines"]["gpu"]) > 100 and line in facts["lines"]["gpu"]
    assert {stage["stage"] for stage in facts["times"]} >= {"front end", "gpu passes", "ptx"}


def test_blocks_that_share_a_product(monkeypatch):
    """On GPUs with clusters, where the setting asks for it."""
    arguments = ["explain", SEED, "--kernel", "matmul_full_kernel", "--signature", MATMUL.format("fp16", 64, 64, 64), "--target"]
    text = "up to 4 blocks share the iterations of a program's product"
    assert text not in nereid(*arguments, "cuda:90").stdout
    monkeypatch.setenv("NEREID_SPLIT_PRODUCTS", "idle")
    assert text in nereid(*arguments, "cuda:90").stdout
    assert text not in nereid(*arguments, "cuda:80").stdout


def test_rows_fetched_ahead(tmp_path, monkeypatch):
    """A block runs several programs: said, with the access of the row that it fetches for the next one."""
    file = tmp_path / "rows.py"
    file.write_text("""import nereid
import nereid.language as tl

@nereid.jit
def mean(out, x, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * n + columns, mask=columns < n, other=0).to(tl.float32)
    tl.store(out + tl.program_id(0) * n + columns, values - tl.sum(values, axis=0) / n, mask=columns < n)
""")
    options = [str(file), "mean", "*bf16:16, *bf16:16, i32:16, 32768", "--num-warps", "16"]
    text = "a block runs several, and fetches the rows of the next one ahead"
    arguments = ["explain", options[0], "--kernel", "mean", "--signature", options[2], "--target", "cuda:90", "--num-warps"]
    assert text in nereid(*arguments, "16").stdout
    load, store = report(*options)["accesses"]
    assert (load["what"], load["route"], load["bytes"], load["place"]["line"]) == ("load", "asynchronous copy", 16, 7)
    assert (store["what"], store["route"]) == ("store", "registers")
    monkeypatch.setenv("NEREID_PERSISTENT_ROWS", "never")
    assert text not in nereid(*arguments, "16").stdout
    assert [access["route"] for access in report(*options)["accesses"]] == ["registers"] * 2


def test_loop_over_programs(tmp_path, monkeypatch):
    """A product whose blocks run several programs: said, in other words than of rows."""
    file = tmp_path / "product.py"
    file.write_text("""import nereid
import nereid.language as tl

@nereid.jit
def product(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [N, K], [K, 1], [BLOCK, 64])
    b = tl.make_tensor_descriptor(b_ptr, [K, BLOCK], [BLOCK, 1], [64, BLOCK])
    c = tl.make_tensor_descriptor(c_ptr, [N, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    row = tl.program_id(0) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in tl.range(0, K, 64, warp_specialize=True):
        acc = tl.dot(a.load([row, k]), b.load([k, 0]), acc)
    c.store([row, 0], acc.to(tl.float16))
""")
    arguments = ["explain", str(file), "--kernel", "product", "--signature", "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, 128", "--target", "cuda:90", "--num-warps", "8"]
    text = "a block runs several, and fetches the first blocks of the next one while it writes results"
    said = nereid(*arguments).stdout
    assert text in said and "the rows of the next one" not in said
    picture = """\
divided warps
  warps 0 to 7: compute, 232 registers a thread
  warp 8: copies, 40 registers a thread
  line 11: 3 slots of 32768 bytes, filled with 128x64xfp16 of `a_ptr`, 64x128xfp16 of `b_ptr`
  turns of the loop of line 11, in order and not in time{}:
"""
    assert picture.format("; programs a, b, drawn with 4 each") + """\
    warp 8 copies `a_ptr`, `b_ptr`  a0 a1 a2 a3    b0    b1    b2
    warps 0 to 7 compute, store        a0--- a1--- a2--- a3--- store b0--- b1--- b2---
""" in said
    monkeypatch.setenv("NEREID_PERSISTENT_PRODUCTS", "never")
    said = nereid(*arguments).stdout
    assert text not in said
    assert picture.format("") + """\
    warp 8 copies `a_ptr`, `b_ptr`  0- 1- 2- 3-    4-    5-    6-
    warps 0 to 7 compute               0---- 1---- 2---- 3---- 4---- 5---- 6----
""" in said
    page = tmp_path / "page.html"
    nereid(*arguments, "--html", str(page))
    assert "<h2>Divided warps</h2>" in page.read_text()
    monkeypatch.setenv("NEREID_WARP_SPECIALIZE", "never")
    assert "divided warps" not in nereid(*arguments).stdout


def test_channels_of_attention(tmp_path):
    """Two channels with slots of their own, between a warp that copies and eight that compute."""
    file = tmp_path / "attention.py"
    file.write_text("""import nereid
import nereid.language as tl

@nereid.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, BLOCK)
    k_d = tl.make_tensor_descriptor(k_ptr, [N, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    v_d = tl.make_tensor_descriptor(v_ptr, [N, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    q = tl.load(q_ptr + rows[:, None] * BLOCK + columns[None, :])
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i in tl.range(0, N, BLOCK, warp_specialize=True):
        p = tl.exp2(tl.dot(q, k_d.load([i, 0]).T))
        acc = tl.dot(p.to(tl.float16), v_d.load([i, 0]), acc)
    tl.store(o_ptr + rows[:, None] * BLOCK + columns[None, :], acc)
""")
    facts = report(str(file), "attention", "*fp16:16, *fp16:16, *fp16:16, *fp32:16, i32:16, 128", "--num-warps", "8", "--num-stages", "2")
    assert [(part["first_warp"], part["warps"]) for part in facts["parts"]] == [(0, 8), (8, 1)]
    assert [(channel["slots"], channel["bytes"], channel["products"], channel["place"]["line"]) for channel in facts["channels"]] == [(2, 32768, 2, 12)] * 2
    assert [[block["parameter"] for block in channel["blocks"]] for channel in facts["channels"]] == [["k_ptr"], ["v_ptr"]]


def test_programs_of_attention(tmp_path, monkeypatch):
    """Queries have a channel with one slot, which is none of the loop's; both programs are drawn."""
    file = tmp_path / "attention.py"
    file.write_text("""import nereid
import nereid.language as tl

@nereid.jit
def attention(q_ptr, k_ptr, v_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    q_d = tl.make_tensor_descriptor(q_ptr, [N, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    k_d = tl.make_tensor_descriptor(k_ptr, [N, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    v_d = tl.make_tensor_descriptor(v_ptr, [N, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    o_d = tl.make_tensor_descriptor(o_ptr, [N, BLOCK], [BLOCK, 1], [BLOCK, BLOCK])
    q = q_d.load([row, 0])
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i in tl.range(0, N, BLOCK, warp_specialize=True):
        p = tl.exp2(tl.dot(q, k_d.load([i, 0]).T))
        acc = tl.dot(p.to(tl.float16), v_d.load([i, 0]), acc)
    o_d.store([row, 0], acc.to(tl.float16))
""")
    arguments = ["explain", str(file), "--kernel", "attention", "--signature", "*fp16:16, *fp16:16, *fp16:16, *fp16:16, i32:16, 128", "--target", "cuda:90", "--num-warps", "8", "--num-stages", "3"]
    text = "a block runs several, and fetches the first blocks of the next one while it writes results"
    monkeypatch.setenv("NEREID_PERSISTENT_ATTENTION", "never")
    assert text not in nereid(*arguments).stdout
    monkeypatch.delenv("NEREID_PERSISTENT_ATTENTION")
    said = nereid(*arguments).stdout
    assert text in said
    assert """\
divided warps
  warps 0 to 7: compute, 240 registers a thread
  warp 8: copies, 24 registers a thread
  line 11: 1 slot of 32768 bytes, filled with 128x128xfp16 of `q_ptr`
  line 13: 3 slots of 32768 bytes, filled with 128x128xfp16 of `k_ptr`
  line 13: 3 slots of 32768 bytes, filled with 128x128xfp16 of `v_ptr`
  turns of the loop of line 13, in order and not in time; programs a, b, drawn with 4 each:
    warp 8 copies `k_ptr`        a0    a1    a2    a3          b0          b1          b2
    warp 8 copies `v_ptr`           a0    a1    a2    a3          b0          b1          b2
    warps 0 to 7 compute, store        a0--------- a1--------- a2--------- a3--------- store b0--------- b1--------- b2---------
""" in said
    assert said.count("turns of the loop") == 1
    assert "line 16   store 128x128xfp16 of `o_ptr`: 8 bytes a thread, 8 sectors a warp" in said and "line 16   128x128xfp16 through shuffles" in said


def test_advice_about_width():
    assert advice(report(SEED, "add_kernel", ADD.format(":16"))) == []
    lines = [number for number, text in enumerate(open(SEED), 1)
             if text.strip() in ("x = tl.load(x_ptr + offsets, mask=mask)", "y = tl.load(y_ptr + offsets, mask=mask)")][:2]
    facts = report(SEED, "add_kernel", ADD.format(""))
    assert advice(facts)[:2] == [("NarrowMask", lines[0]), ("NarrowMask", lines[1])]
    assert facts["hints"][0]["remedy"].endswith("`i32:16` for `n_elements`")
    unaligned = report(SEED, "add_kernel", "*fp32, *fp32:16, *fp32:16, i32:16, 1024")
    assert advice(unaligned) == [("NarrowAlignment", lines[0])]
    assert "the alignment of `x_ptr` is unknown" in unaligned["hints"][0]["what"]


COALESCING = """
import triton
import triton.language as tl

@triton.jit
def transposed(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i[:, None] * n + i[None, :], tl.load(x + i[:, None] + i[None, :] * n) + 1)

@triton.jit
def records(x, y):
    i = tl.arange(0, 1024)
    tl.store(y + i, tl.load(x + i * 4))

@triton.jit
def fifths(x, y):
    i = tl.arange(0, 1024)
    tl.store(y + i, tl.load(x + i * 5))

@triton.jit
def thirds(x, y, n):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(y + i, tl.load(x + i * 3, mask=i < n))

@triton.jit
def columns(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    at = i[:, None] + i[None, :] * n
    tl.store(y + at, tl.load(x + at) * 2)

@triton.jit
def copied(x, y, n, m):
    i = tl.make_tensor_descriptor(x, [n, m], [m, 1], [64, 64])
    o = tl.make_tensor_descriptor(y, [n, m], [m, 1], [64, 64])
    o.store([0, 0], i.load([0, 0]))

@triton.jit
def triangle(x, y, n: tl.constexpr):
    start = tl.program_id(0) * 64
    sum = tl.zeros((64,), tl.float32)
    for at in range(start, start + n, 64):
        sum += tl.load(x + at + tl.arange(0, 64))
    tl.store(y + tl.arange(0, 64), sum)

@triton.jit
def rows(x, y, stride):
    i = tl.arange(0, 1024)
    tl.store(y + i, tl.load(x + i * stride))

@triton.jit
def gathered(x, y, at):
    i = tl.arange(0, 1024)
    tl.store(y + i, tl.load(x + tl.load(at + i)))

@triton.jit
def full(a, b, c, precision: tl.constexpr, n: tl.constexpr):
    i = tl.arange(0, n)
    at = i[:, None] * n + i[None, :]
    tl.store(c + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision=precision))

@triton.jit
def storing(a, b, c, k, n: tl.constexpr):
    i = tl.arange(0, n)
    at = i[:, None] * n + i[None, :]
    for step in range(k):
        p = tl.dot(tl.load(a + at + step * n * n), tl.load(b + at + step * n * n))
        tl.store(c + at + step * n * n, p)

@triton.jit
def walking(a, b, c, k, n: tl.constexpr):
    i = tl.arange(0, n)
    at = i[:, None] * n + i[None, :]
    sum = tl.zeros((n, n), tl.float32)
    for step in range(k):
        sum += tl.dot(tl.load(a + at + step * n * n), tl.load(b + at + step * n * n))
    tl.store(c + at, sum)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    file = tmp_path_factory.mktemp("explain") / "kernels.py"
    file.write_text(COALESCING)
    return file


@pytest.mark.parametrize("kernel,signature,names,words", [
    ("records", "*fp32:16, *fp32:16", ["Strided"], "neighbouring elements are 16 bytes apart: a warp touches 32 sectors"),
    ("thirds", "*fp32:16, *fp32:16, i32", ["Strided"], "neighbouring elements are 12 bytes apart"),
    ("rows", "*fp32:16, *fp32:16, i32", ["UnknownStride"], "neighbouring lanes are `stride` elements apart"),
    ("gathered", "*fp32:16, *fp32:16, *i32:16", ["Gathered"], "its addresses come from numbers that are read from memory"),
    ("full", "*fp32:16, *fp32:16, *fp32:16, 'ieee', 64", ["SlowProduct"], "fp32 in full precision was asked for"),
    ("full", "*fp16:16, *fp16:16, *fp32:16, 'tf32', 32", ["NoWgmma"], "M is 32, wgmma computes 64 rows at once"),
    ("storing", "*fp16:16, *fp16:16, *fp32:16, i32, 64", ["NotPipelined"], "it writes to global memory"),
])
def test_advice(kernels, kernel, signature, names, words):
    facts = report(kernels, kernel, signature)
    found = [hint for hint in facts["hints"] if hint["name"] in names]
    assert [hint["name"] for hint in found] == names
    assert words in found[0]["what"]
    assert found[0]["remedy"]


def test_facts_of_lines(kernels):
    blocks = report(kernels, "copied", "*fp32:16, *fp32:16, i32:16, i32:16")["accesses"]
    assert [(block["what"], block["parameter"], block["route"]) for block in blocks] == [("load", "x", "copy engine"), ("store", "y", "copy engine")]
    loop, = report(kernels, "triangle", "*fp32:16, *fp32:16, 256")["loops"]
    assert loop["text"] == "4"  # whose bounds have a common part
    both = report(SEED, "add_kernel", ADD.format(""), target="cpu")["accesses"]
    assert [access["place"]["line"] for access in both] == sorted(access["place"]["line"] for access in both)


def test_page_of_columns(kernels, tmp_path):
    """A thread's neighbouring elements are side by side in the picture, though they are in one column."""
    out = tmp_path / "page.html"
    result = nereid("explain", str(kernels), "--kernel", "columns", "--signature", "*fp32:16, *fp32:16, 64", "--target", "cuda:90", "--html", str(out))
    assert result.returncode == 0, result.stderr
    text = out.read_text()
    assert "column 0, rows 0 to 3: warp 0, lane 0, registers 0 to 3" in text and "the tensor&#39;s rows from left to right" in text


def test_page_of_a_file_with_other_line_ends(tmp_path):
    file = tmp_path / "ends.py"
    file.write_bytes(b"import triton.language as tl\r\n\r\ndef kernel(x):\r\n    tl.store(x, 1)\r\n")
    out = tmp_path / "page.html"
    assert nereid("explain", str(file), "--signature", "*i32", "--target", "cuda:90", "--html", str(out)).returncode == 0
    assert "tl.store(x, 1)\n</span>" in out.read_bytes().decode()


def test_advice_about_stages_and_warps(kernels):
    signature = "*fp16:16, *fp16:16, *fp32:16, i32, 64"
    assert "NotPipelined" not in dict(advice(report(kernels, "walking", signature)))
    alone = report(kernels, "walking", signature, "--num-stages", "1")
    assert [hint["what"].split(": ")[1] for hint in alone["hints"] if hint["name"] == "NotPipelined"] == ["`num_stages` is 1"]
    narrow = report(kernels, "walking", signature, "--num-warps", "2")
    assert [hint["what"].split(": ")[1] for hint in narrow["hints"] if hint["name"] == "NoWgmma"] == [
        "`num_warps` is 2, wgmma takes groups of 4 warps"]


def test_estimate():
    facts = report(SEED, "matmul_full_kernel", MATMUL.format("fp16", 128, 128, 64), "--grid", "cdiv(M, 128) * cdiv(N, 128)",
                   "--arg", "M=512", "--arg", "N=256", "--arg", "K=1000", "--arg", "a_ptr=randn:(M)x(K):fp16")
    launch = facts["launch"]
    assert launch["complete"]
    assert launch["operations"]["fp16 product"] == 8 * 16 * 2 * 128 * 128 * 64
    assert launch["requested_bytes"] == 8 * (16 * 2 * 16384 + 32768)
    assert launch["moved_bytes"] == 512 * 1000 * 2 + 8 * 16 * 16384 + 8 * 32768  # a once, the others' sizes are not known
    assert launch["bound"] in launch["seconds"]
    unknown = report(SEED, "matmul_full_kernel", MATMUL.format("fp16", 128, 128, 64), "--grid", "8")
    assert not unknown["launch"]["complete"]


def test_text():
    result = nereid("explain", SEED, "--kernel", "add_kernel", "--signature", ADD.format(""), "--target", "cuda:90")
    assert "occupancy      64 of 64 warps of a multiprocessor (100 %), limited by warps" in result.stdout or "registers      not known" in result.stdout
    assert "reads `x_ptr`: 4096 bytes" in result.stdout
    assert re.search(r"seed\.py:\d+:\d+: cost: this load is 4 bytes wide instead of 16", result.stdout)
    assert result.stdout.count("a bound that is a multiple of 16") == 1


class Checker(html.parser.HTMLParser):
    """Counts tags, and that each that was opened is closed."""
    VOID = {"meta", "input", "br", "link"}

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.lines, self.outside = [], set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        for name, value in attrs:
            if name == "data-l":
                self.lines.add((self.pane(), value))
            if name == "src" or name == "href" and not value.startswith("#") or (value or "").startswith(("http:", "https:", "//")):
                if name != "xmlns":
                    self.outside.append((tag, name, value))
            if name == "id" and (value or "").startswith("pane-"):
                self.current = value
        if tag not in self.VOID:
            self.open.append(tag)

    current = ""

    def pane(self):
        return self.current if "section" in self.open else ""

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-5:])
        self.open.pop()


def test_times_below_a_microsecond():
    result = nereid("explain", SEED, "--kernel", "add_kernel", "--signature", ADD.format(""), "--target", "cuda:90", "--grid", "1")
    assert re.search(r"takes +at least [0-9]+\.[0-9] ns on NVIDIA H200, bound by memory", result.stdout)


def test_page(tmp_path):
    out = tmp_path / "page.html"
    result = nereid("explain", SEED, "--kernel", "matmul_full_kernel", "--signature", MATMUL.format("fp16", 64, 64, 32), "--target", "cuda:90",
                    "--html", str(out))
    assert result.returncode == 0, result.stderr
    text = out.read_text()
    page = Checker()
    page.feed(text)
    assert page.open == [] and page.outside == []
    assert {"svg", "table", "script", "style", "details"} <= page.seen
    line = str(open(SEED).read().split("\n").index("        accumulator = tl.dot(a, b, accumulator)") + 1)
    for pane in ("source", "tile", "gpu", "ptx"):
        assert ("pane-" + pane, line) in page.lines, pane
    assert "prefers-color-scheme: dark" in text
    assert f'<a class="no" href="#L{line}">' in text and f'id="L{line}"' in text  # reached with the keyboard
    assert re.search(r'<header title="[^"]*/seed.py">seed.py</header>', text)
    assert "nvdisasm warning" not in text and "//## File" not in text
    assert not re.search(r"<summary>[^<]*<a", text)  # a link in there would also open it
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    assert len(pictures) >= 5 and len(set(pictures)) == len(pictures)
    assert len(text) < 1_000_000
    for picture in pictures:
        xml.dom.minidom.parseString(picture)
        assert set(re.findall(r'fill="([^"#]*)', picture)) <= {"", "currentColor"}  # no function of CSS, which few programs but browsers read
    assert "warp 3, lane 31" in text
    accumulator = next(picture for picture in pictures if "64x64xfp32" in picture)
    assert ">0:31</text>" in accumulator and ">0:0</text>" in accumulator  # two elements wide, and still labelled


def test_page_escapes(tmp_path):
    file = tmp_path / "odd.py"
    file.write_text("import triton.language as tl\n\ndef kernel(x):\n    # </span><script>alert(1)</script> & \"quotes\"\n    tl.store(x, 1)\n")
    out = tmp_path / "page.html"
    assert nereid("explain", str(file), "--signature", "*i32", "--target", "cuda:90", "--html", str(out)).returncode == 0
    text = out.read_text()
    assert "alert(1)" in text and "<script>alert" not in text
    Checker().feed(text)


def test_cpu(tmp_path):
    facts = report(SEED, "softmax_kernel", "*fp32:16, *fp32:16, i32:16, i32:16, i32:16, 1024", target="cpu")
    assert facts["sm"] == 0 and "occupancy" not in facts
    assert facts["resources"]["scratch_bytes"] > 0
    out = tmp_path / "page.html"
    result = nereid("explain", SEED, "--kernel", "softmax_kernel", "--signature", "*fp32:16, *fp32:16, i32:16, i32:16, i32:16, 1024",
                    "--target", "cpu", "--html", str(out))
    assert result.returncode == 0, result.stderr
    for pane in ("tile", "loops", "asm"):
        assert f'id="pane-{pane}"' in out.read_text()


@pytest.mark.parametrize("features,dtype,unit,packing", [
    ("avx512bf16", "bf16", "vdpbf16ps", "groups of 2 along K, rows interleaved"),
    ("sapphirerapids", "bf16", "tdpbf16ps", "groups of 2 along K, rows interleaved"),
    ("avx512", "bf16", "multiply-adds of fp32", None),
    ("avx512bf16", "fp32", "multiply-adds of fp32", None),
    ("baseline", "fp32", "multiply-adds of fp32", None),
    ("neoverse-v1", "bf16", "bfmmla", "right operand into groups of 4 along K, rows interleaved"),
    ("neoverse-n1", "bf16", "multiply-adds of fp32", None),
])
def test_products_on_the_cpu(features, dtype, unit, packing):
    facts = report(SEED, "matmul_full_kernel", MATMUL.format(dtype, 64, 64, 32), target=f"cpu:{features}")
    product, = facts["products"]
    assert product["shape"] == [64, 64] and product["k"] == 32 and (product["a"], product["accumulator"]) == (dtype, "fp32")
    assert product["unit"].startswith(unit) and ("2x2 tiles" if features == "sapphirerapids" else "registers") + " as accumulators" in product["unit"]
    assert (packing or "") in product["packing"] and bool(product["packing"]) == bool(packing)
    assert bool(product["why"]) == (features in ("avx512", "neoverse-n1") and dtype == "bf16")
    bits = 128 if features in ("baseline", "neoverse-v1", "neoverse-n1") else 512
    assert f"registers of {bits} bits" in facts["resources"]["instructions"]
    assert ("bf16" in facts["resources"]["instructions"]) == (features in ("avx512bf16", "sapphirerapids", "neoverse-v1"))


def test_the_roof_of_the_cpu():
    """A measured kernel is compared with what the machine reaches, in memory or caches and in arithmetic."""
    adding = ["explain", SEED, "--kernel", "add_kernel", "--target", "cpu", "--measure", "--grid", "cdiv(n_elements, BLOCK_SIZE)",
              *arguments("x_ptr=randn:(n_elements)", "y_ptr=randn:(n_elements)", "output_ptr=empty:(n_elements)", "n_elements=1000000", "BLOCK_SIZE=1024")]
    result = nereid(*adding, "--json")
    assert result.returncode == 0, result.stderr
    launch = json.loads(result.stdout)["launch"]
    assert launch["bound"] == "memory" and set(launch["seconds"]) == {"memory", "fp32"} and "thread" in launch["peaks_of"]
    rates = {"memory": 12e6 / launch["seconds"]["memory"], "fp32": 1e6 / launch["seconds"]["fp32"]}
    assert 1e8 < rates["memory"] < 1e13 and 1e8 < rates["fp32"] < 1e14
    text = nereid(*adding).stdout
    assert "bound by memory" in text and "% of the memory's peak" in text


def test_lanes_on_the_cpu():
    for features, lanes in (("baseline", 8), ("avx2", 16), ("avx512", 32)):
        facts = report(SEED, "add_kernel", ADD.format(""), target=f"cpu:{features}")
        assert [access["lanes"] for access in facts["accesses"]] == [lanes] * 3
    result = nereid("explain", SEED, "--kernel", "add_kernel", "--signature", ADD.format(""), "--target", "cpu:avx2")
    assert result.returncode == 0 and "AVX2, 16 registers of 256 bits" in result.stdout
    assert "vectors, 16 elements a round" in result.stdout


def test_cpu_advice(kernels):
    facts = report(SEED, "add_kernel", ADD.format(""), target="cpu")
    assert [access["route"] for access in facts["accesses"]] == ["vectors"] * 3 and facts["hints"] == []
    records = report(kernels, "records", "*fp32:16, *fp32:16", target="cpu")
    assert {access["route"] for access in records["accesses"]} == {"vectors", "vectors, their elements rearranged"}
    assert records["hints"] == []
    fifths = report(kernels, "fifths", "*fp32:16, *fp32:16", target="cpu")
    assert [hint["name"] for hint in fifths["hints"]] == ["CpuGather"]
    assert "not in vectors, because neighbouring elements are 20 bytes apart" in fifths["hints"][0]["what"]
    gathered = report(kernels, "gathered", "*fp32:16, *fp32:16, *i32:16", target="cpu")
    assert ["read from memory" in hint["what"] for hint in gathered["hints"]] == [True]
    rows = report(kernels, "rows", "*fp32:16, *fp32:16, i32", target="cpu")
    assert {access["route"] for access in rows["accesses"]} == {"vectors", "vectors when the stride is 1, which is tested while running"}


def test_wrong_arguments(tmp_path):
    head = ["explain", SEED, "--kernel", "add_kernel", "--target", "cuda:90"]
    fails(2, "error: `nereid explain` needs to know the parameters: `--signature`, or `--arg NAME=VALUE` for each", *head)  # CliNeedsSignature
    fails(2, "error: `nereid explain --measure` needs `--grid`, the number of programs: a formula of the arguments, as `cdiv(n, BLOCK)`", *head,
          "--measure", "--signature", ADD.format(""), *arguments("x_ptr=ones:64", "y_ptr=ones:64", "output_ptr=ones:64", "n_elements=64", "BLOCK_SIZE=64"))  # CliNeedsGrid
    fails(2, "error: `add_kernel` needs a value for its parameter `y_ptr`", *head, *arguments("x_ptr=ones:64", "output_ptr=ones:64", "n_elements=64", "BLOCK_SIZE=64"))
    fails(1, f"error: cannot write `{tmp_path}/no/a.html`: No such file or directory", *head, "--signature", ADD.format(""), "--html", f"{tmp_path}/no/a.html")
    fails(2, "error: cannot read `no.py`: No such file or directory", "explain", "no.py", "--signature", "i32")


def arguments(*texts):
    return [word for text in texts for word in ("--arg", text)]
