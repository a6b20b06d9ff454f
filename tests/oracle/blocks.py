"""More questions of `statements.py`: conditions of `while` and what its body may do, `topk` and `sort`, what descriptors take and do, `dot_scaled`."""

import itertools

#: Bodies of `f(x, y, b, C: tl.constexpr = True, D: tl.constexpr = False, N: tl.constexpr = 3)`: an int32, an fp32, a block of 16 int32.
CONDITIONS = ["x", "x > 0", "not x", "x != 0", "y", "y > 0", "-x", "x + 1", "x & 1", "x % 2 == 0", "C", "D", "N", "N > 0", "N > 5", "not C", "not D", "True", "False", "1",
              "0", "2.5", "0.0", "None", "'a'", "''", "()", "(1,)", "b", "b > 0", "tl.sum(b)", "tl.sum(b) > 0", "tl.max(b > 0, 0)", "x > 0 and y > 0", "x > 0 or C",
              "x > 0 and C", "C and x > 0", "D and x > 0", "C or x > 0", "x and y", "x.to(tl.int1)", "x.to(tl.int8)", "x.to(tl.int64)", "(x > 0) & (y > 0)", "x is None", "x is not None",
              "tl.float32", "(x > 0)[None]", "tl.full((1,), 1, tl.int1)", "tl.full((), 1, tl.int1)", "tl.program_id(0)", "tl.program_id(0) < 3", "0 < x < 5", "x in (1, 2)", "N - 3"]
WHILES = [f"while {condition}:\n    x = x - 1\nreturn x" for condition in CONDITIONS] + [
    "while x > 0:\n    pass\nreturn x",
    "while x > 0:\n    x -= 1\nelse:\n    x = 5\nreturn x",
    "while x > 0:\n    x = x - 1.0\nreturn x",
    "while x > 0:\n    x = x.to(tl.int64) - 1\nreturn x",
    "while x > 0:\n    z = x\n    x = x - z\nreturn z",
    "z = 1\nwhile x > 0:\n    z = x\n    x = x - z\nreturn z",
    "z = 1.0\nwhile x > 0:\n    z = x\n    x = x - 1\nreturn z",
    "z: tl.constexpr = 1\nwhile x > 0:\n    z = x\n    x = x - 1\nreturn z",
    "z: tl.constexpr = 1\nwhile x > 0:\n    x = x - z\nreturn z",
    "while x > 0:\n    z: tl.constexpr = 1\n    x = x - z\nreturn x",
    "while x > 0:\n    b = b + 1\n    x = x - 1\nreturn b",
    "while x > 0:\n    b = b[None, :]\n    x = x - 1\nreturn b",
    "while x > 0:\n    b = x\n    x = x - 1\nreturn b",
    "while x > 0:\n    break\nreturn x",
    "while x > 0:\n    continue\nreturn x",
    "while x > 0:\n    if x > 3:\n        break\n    x = x - 1\nreturn x",
    "while x > 0:\n    if C:\n        x = x - 1\n    else:\n        x = x - 2.0\nreturn x",
    "while x > 0:\n    while y > 0:\n        y = y - 1\n    x = x - 1\nreturn y",
    "while x > 0:\n    for k in range(3):\n        x = x - k\nreturn x",
    "while x > 0:\n    for k in tl.static_range(3):\n        x = x - k\nreturn x",
    "for k in range(3):\n    while x > 0:\n        x = x - k\nreturn x",
    "while x > 0:\n    x, y = x - 1, y + 1\nreturn y",
    "t = (x, y)\nwhile x > 0:\n    t = (t[0] + 1, t[1])\n    x = x - 1\nreturn t",
    "t = (x, y)\nwhile x > 0:\n    t = (t[0] + 1,)\n    x = x - 1\nreturn t",
    "t = (x, 1)\nwhile x > 0:\n    t = (t[0] + 1, 2)\n    x = x - 1\nreturn t",
    "t = tl.float32\nwhile x > 0:\n    t = tl.float16\n    x = x - 1\nreturn x",
    "t = 'a'\nwhile x > 0:\n    t = 'b'\n    x = x - 1\nreturn x",
    "while x > 0:\n    tl.device_assert(x > 0)\n    x = x - 1\nreturn x",
    "while x > 0:\n    x = tl.nope(x)\nreturn x",
    "while D:\n    x = tl.nope(x)\nreturn x",
    "while (z := x) > 0:\n    x = x - 1\nreturn x",
    "x2 = x.to(tl.uint8)\nwhile x2 > 0:\n    x2 -= 1\nreturn x2",
    "x2 = x.to(tl.float16)\nwhile x2 > 0:\n    x2 -= 1\nreturn x2",
    "while x > 0:\n    del x\nreturn 1",
    "while x > 0:\n    x += True\nreturn x",
    "acc = tl.zeros((16,), tl.float32)\nwhile x > 0:\n    acc += b\n    x -= 1\nreturn acc",
    "acc = tl.zeros((16,), tl.float16)\nwhile x > 0:\n    acc += y\n    x -= 1\nreturn acc",
    "acc = 0\nwhile x > 0:\n    acc += y\n    x -= 1\nreturn acc",
    "acc = 0.0\nwhile x > 0:\n    acc += y\n    x -= 1\nreturn acc",
    "acc = 0.0\nwhile x > 0:\n    acc += 1\n    x -= 1\nreturn acc",
    "acc = 2 ** 40\nwhile x > 0:\n    acc += 1\n    x -= 1\nreturn acc",
]

#: Of blocks `a` (8 x 16, fp32), `b` (16, int32), `h` (4 x 4, fp16), `one` (1, fp32).
TOPK = [f"tl.topk({x}, {k})" for x, k in itertools.product(["a", "b", "h", "one", "a > 0", "a[None]", "b.to(tl.int64)", "b.to(tl.uint8)", "i", "a.to(tl.float8e5)"], [1, 2, 4, 16])] + [
    f"tl.topk({arguments})" for arguments in (
        "a, 8, 1", "a, 8, 0", "a, 8, -1", "a, 8, 2", "a, 8, dim=1", "a, 8, dim=None", "a, k=8", "a, 8.0", "a, 3", "a, 5", "a, 0", "a, -1", "a, None", "a, i", "a, 32", "a, N", "a, 8, descending=True",
        "a, 8, 1, True", "a", "a, 'x'", "a, True", "a, 8, dim=i", "a, 8, dim=1.0", "p, 2", "(a, a), 2", "a, (2,)", "b, 16, 0", "b, 8, dim=-2", "x=a, k=2", "None, 2", "1.0, 1")] + [
    f"tl.sort({arguments})" for arguments in (
        "a", "b", "h", "one", "i", "a, 1", "a, 0", "a, -1", "a, dim=1", "a, dim=None", "a, 1, True", "a, descending=True", "a, descending=False", "a, descending=i", "a, 2", "a > 0", "b.to(tl.int64)",
        "a[None]", "p", "a, dim=i", "a, descending=N", "a, descending=1")] + [
    "a.topk(4)", "b.sort()", "b.sort(descending=True)", "tl.flip(a)", "tl.flip(a, 1)", "tl.flip(a, 0)", "tl.flip(b)", "tl.flip(a, -1)", "tl.flip(a, 2)", "tl.flip(i)", "a.flip()"]

#: Behind `DESCRIPTOR_SETUP`: `d` of 8 x 16 fp32, `e` of 16 int32, `s` strided with an offset, and blocks.
DESCRIPTOR_SETUP = ["d = tl.make_tensor_descriptor(p, [64, 64], [64, 1], [8, 16])", "e = tl.make_tensor_descriptor(q, [64], [1], [16])",
                    "a = tl.zeros((8, 16), tl.float32)", "c = tl.zeros((16,), tl.int32)", "r = tl.arange(0, 8)"]
DESCRIPTORS = [
    "d.load([0, 0])", "d.load([i, 0])", "d.load([i, i])", "d.load([0])", "d.load([0, 0, 0])", "d.load((0, i))", "d.load(0)", "d.load(i)", "d.load([0.5, 0])", "d.load([i.to(tl.int64), 0])",
    "d.load([r, 0])", "d.load([None, 0])", "d.load(offsets=[0, 0])", "d.load([0, 0], mask=a > 0)", "e.load([0])", "e.load([i])", "e.load(i)", "tl.load_tensor_descriptor(d, [0, 0])",
    "tl.load_tensor_descriptor(d, [0, i])", "tl.load_tensor_descriptor(p, [0])", "tl.load(d)", "d.load(0, 0)",
    "d.store([0, 0], a)", "d.store([0, 0], 1.0)", "d.store([0, 0], 1)", "d.store([0, 0], i)", "d.store([0, 0], a.to(tl.float16))", "d.store([0, 0], a.to(tl.int32))", "d.store([0, 0], a[0:4])",
    "d.store([0, 0], tl.zeros((8, 8), tl.float32))", "d.store([0, 0], tl.zeros((16, 8), tl.float32))", "d.store([0, 0], c)", "d.store([0, 0], a[None])", "d.store([0], a)", "d.store([0, 0])",
    "e.store([0], c)", "e.store([0], 1)", "e.store([0], 1.5)", "e.store([0], c.to(tl.int64))", "e.store([0], c.to(tl.float32))", "e.store([0], tl.zeros((8,), tl.int32))", "e.store([0], True)", "e.store([0], None)",
    "e.store([0], 'a')", "e.store([0], (1, 2))", "d.store(value=a, offsets=[0, 0])", "tl.store_tensor_descriptor(d, [0, 0], a)", "tl.store_tensor_descriptor(d, [0, 0], 1.0)", "tl.store(d, a)",
    "d.store([0, 0], p)", "e.store([i], c + 1)", "e.store([i], c > 0)", "e.store([i], i)",
    *[f"{x}.atomic_{name}({at}, {value})" for name in ("add", "min", "max", "and", "or", "xor") for x, at, value in (("d", "[0, 0]", "a"), ("e", "[0]", "c"), ("e", "[0]", "1"), ("d", "[0, 0]", "1.0"))],
    "d.atomic_add([0], a)", "d.atomic_add([0, 0], c)", "d.atomic_add([0, 0], a.to(tl.float16))", "e.atomic_add([0], c.to(tl.int64))", "e.atomic_add([0], c.to(tl.uint32))", "d.atomic_cas([0, 0], a, a)",
    "d.atomic_xchg([0, 0], a)", "e.atomic_add([0])",
    "d.gather(r, 0)", "d.gather(r, i)", "d.gather(i, 0)", "d.gather([0], 0)", "e.gather(r, 0)", "d.scatter(a, r, 0)", "d.scatter(a, i, 0)", "d.scatter(c, r, 0)", "e.scatter(c, r, 0)",
    "d.shape", "d.strides", "d.block_shape", "d.dtype", "d.base", "d.T", "d + 1", "d.nope", "d.padding", "len(d.shape)", "d.shape[0]", "d.strides[1]", "d.block_shape[0]",
    *[f"tl.make_tensor_descriptor({arguments}).block_shape" for arguments in (
        "p, [64, 64], [64, 1], [8, 16]", "p, (64, 64), (64, 1), (8, 16)", "p, [64, 64], [64, 1], [8, 2]", "p, [64, 64], [64, 1], [8, 4]", "p, [64, 64], [64, 2], [8, 16]", "p, [64, 64], [1, 64], [8, 16]",
        "p, [64], [64, 1], [8, 16]", "p, [64, 64], [64], [8, 16]", "p, [64, 64], [64, 1], [16]", "p, [i, i], [i, 1], [8, 16]", "p, [i, i], [i, i], [8, 16]", "p, [64, 64], [64, 1], [8, 12]",
        "p, [64, 64], [64, 1], [0, 16]", "p, [64, 64], [64, 1], [i, 16]", "p, [], [], []", "p, [64], [1], [16]", "p, [64], [1], [2]", "p, [64], [1], [1]", "i, [64], [1], [16]", "p + r, [64], [1], [16]",
        "p, [4, 4, 4, 4, 4], [256, 64, 16, 4, 1], [1, 1, 1, 4, 4]", "p, [4, 4, 4, 4, 4, 4], [1024, 256, 64, 16, 4, 1], [1, 1, 1, 1, 4, 4]", "p, [64, 64], [64.0, 1], [8, 16]",
        "p, [64.0, 64], [64, 1], [8, 16]", "p, [64, 64], [i.to(tl.int64), 1], [8, 16]", "p, [i.to(tl.int64), 64], [64, 1], [8, 16]", "p, [64, 64], [64, 1], [8, 16], 'zero'", "p, [64, 64], [64, 1], [8, 16], 'nan'",
        "p, [64, 64], [64, 1], [8, 16], padding_option='nan'", "q, [64], [1], [16], 'nan'", "p, [64, 64], [64, 1], [8, 16], 'x'", "p, [64, 64], [64, 1]", "p, shape=[64, 64], strides=[64, 1], block_shape=[8, 16]",
        "p, 64, 1, 16", "p, [64, 64], [64, -1], [8, 16]", "p, [64, 64], [0, 1], [8, 16]", "p, [64, 64], [64, True], [8, 16]", "None, [64], [1], [16]")],
]

#: Of `a8` (32 x 64, bits of 8-bit floats), `b8` (64 x 32), `a4`, `b4` (packed fp4), `h`, `g` (bf16) and scales for 64 elements of K.
SCALED_SETUP = ["a8 = tl.full((32, 64), 0, tl.uint8)", "b8 = tl.full((64, 32), 0, tl.uint8)", "a4 = tl.full((32, 32), 0, tl.uint8)", "b4 = tl.full((32, 32), 0, tl.uint8)",
                "h = tl.zeros((32, 64), tl.bfloat16)", "g = tl.zeros((64, 32), tl.bfloat16)", "k = tl.zeros((32, 64), tl.float16)", "m = tl.zeros((64, 32), tl.float16)",
                "s = tl.full((32, 2), 127, tl.uint8)", "t = tl.full((32, 2), 127, tl.uint8)", "c = tl.zeros((32, 32), tl.float32)", "f = tl.full((32, 64), 0, tl.float8e5)", "e = tl.full((64, 32), 0, tl.float8e5)"]
_left = {"e5m2": "a8", "e4m3": "a8", "e2m1": "a4", "bf16": "h", "fp16": "k"}
_right = {"e5m2": "b8", "e4m3": "b8", "e2m1": "b4", "bf16": "g", "fp16": "m"}
SCALED = [f"tl.dot_scaled({_left[x]}, s, '{x}', {_right[y]}, t, '{y}')" for x in _left for y in _right] + [
    f"tl.dot_scaled({_left[x]}, None, '{x}', {_right[y]}, t, '{y}')" for x, y in (("bf16", "e5m2"), ("fp16", "e2m1"), ("e5m2", "e5m2"), ("bf16", "bf16"))] + [
    f"tl.dot_scaled({_left[x]}, s, '{x}', {_right[y]}, None, '{y}')" for x, y in (("e5m2", "bf16"), ("e2m1", "fp16"), ("e5m2", "e5m2"), ("e4m3", "bf16"))] + [
    f"tl.dot_scaled({arguments})" for arguments in (
        "a8, s, 'e5m2', b8, None, 'e5m2'", "a8, None, 'e5m2', b8, None, 'e5m2'", "a8, s, 'e5m2', b8, t, 'e5m2', c", "a8, s, 'e5m2', b8, t, 'e5m2', acc=c", "a8, s, 'e5m2', b8, t, 'e5m2', fast_math=True",
        "a8, s, 'e5m2', b8, t, 'e5m2', out_dtype=tl.float32", "a8, s, 'e5m2', b8, t, 'e5m2', out_dtype=tl.float16", "a8, s, 'e5m2', b8, t, 'e5m2', out_dtype=tl.bfloat16", "a8, s, 'e5m2', b8, t, 'e5m2', acc=c.to(tl.float16)",
        "a8, s, 'e5m2', b8, t, 'e5m2', acc=c[None]", "a8, s, 'e5m2', b8, t, 'e5m2', acc=a8", "a8, s, 'e3m2', b8, t, 'e5m2'", "a8, s, 'nope', b8, t, 'e5m2'", "a8, s, 'e5m2', b8, t, None", "a8, s, tl.float8e5, b8, t, 'e5m2'",
        "f, s, 'e5m2', e, t, 'e5m2'", "f, s, 'e4m3', e, t, 'e4m3'", "a8, t, 'e5m2', b8, s.to(tl.int8), 'e5m2'", "a8, s.to(tl.int32), 'e5m2', b8, t, 'e5m2'", "a8, s.to(tl.float32), 'e5m2', b8, t, 'e5m2'",
        "a8, s, 'e5m2', a8, t, 'e5m2'", "a8, s, 'bf16', b8, t, 'bf16'", "h, s, 'e5m2', b8, t, 'e5m2'", "a8, s[:, 0:1], 'e5m2', b8, t, 'e5m2'", "a8, tl.full((32, 4), 127, tl.uint8), 'e5m2', b8, t, 'e5m2'",
        "a8, tl.full((2, 32), 127, tl.uint8), 'e5m2', b8, t, 'e5m2'", "a8, tl.full((16, 2), 127, tl.uint8), 'e5m2', b8, t, 'e5m2'", "a8, i, 'e5m2', b8, t, 'e5m2'", "a8, 1, 'e5m2', b8, t, 'e5m2'",
        "a8, s, 'e5m2', b8, t", "a8, s, 'e5m2'", "a4, s, 'e2m1', b4, t, 'e2m1', lhs_k_pack=True", "a4, s, 'e2m1', b4, t, 'e2m1', rhs_k_pack=True", "a4, s, 'e2m1', b8, t, 'e2m1', rhs_k_pack=False",
        "tl.full((16, 64), 0, tl.uint8), tl.full((16, 2), 127, tl.uint8), 'e2m1', b8, t, 'e5m2', lhs_k_pack=False", "a8, s, 'e5m2', b4, t, 'e5m2', rhs_k_pack=False",
        "a8[None], s[None], 'e5m2', b8[None], t[None], 'e5m2'", "a8[0:16], s[0:16], 'e5m2', b8, t, 'e5m2'", "i, s, 'e5m2', b8, t, 'e5m2'", "lhs=a8, lhs_scale=s, lhs_format='e5m2', rhs=b8, rhs_scale=t, rhs_format='e5m2'")]


def all_cases():
    for body in dict.fromkeys(WHILES):
        lines = "\n".join("    " + line for line in body.splitlines())
        module = f"@triton.jit\ndef f(x, y, b, C: tl.constexpr = True, D: tl.constexpr = False, N: tl.constexpr = 3):\n{lines}\n"
        yield {"id": body, "params": {"i": "i32", "g": "fp32"}, "setup": [], "ask": "f(i, g, tl.arange(0, 16))", "module": module}
    setup = ["a = tl.zeros((8, 16), tl.float32)", "b = tl.arange(0, 16)", "h = tl.zeros((4, 4), tl.float16)", "one = tl.zeros((1,), tl.float32)", "N: tl.constexpr = 4"]
    for ask in dict.fromkeys(TOPK):
        yield {"id": ask, "params": {"p": "*fp32", "i": "i32"}, "setup": setup, "ask": ask, "module": ""}
    for ask in dict.fromkeys(DESCRIPTORS):
        yield {"id": ask, "params": {"p": "*fp32", "q": "*i32", "i": "i32"}, "setup": DESCRIPTOR_SETUP, "ask": ask, "module": ""}
    for ask in dict.fromkeys(SCALED):
        yield {"id": ask, "params": {"i": "i32"}, "setup": SCALED_SETUP, "ask": ask, "module": ""}
