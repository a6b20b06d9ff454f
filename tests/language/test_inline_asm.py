"""`inline_asm_elementwise`: PTX on a GPU, x86 on the CPU; packing, several results, broadcasting, what is refused."""

import re

import numpy as np
import pytest
import torch

import harness
from harness import DTYPES

COVERED = {"inline_asm_elementwise"}
pytestmark = pytest.mark.not_emulated("its assembly is of x86")

#: The same computation for each target: (assembly, constraints).
ADD_ONE = {"cuda": ("add.s32 $0, $1, 1;", "=r,r"), "cpu": ("leal 1($1), $0", "=r,r")}
ADD_F32 = {"cuda": ("add.f32 $0, $1, $2;", "=f,f,f"), "cpu": ("movaps $1, $0; addss $2, $0", "=&x,x,x")}
SUM_AND_DIFFERENCE = {
    "cuda": ("add.s32 $0, $2, $3; sub.s32 $1, $2, $3;", "=&r,=&r,r,r"),
    "cpu": ("movl $2, $0; addl $3, $0; movl $2, $1; subl $3, $1", "=&r,=&r,r,r,~{flags}"),
}
#: Four bytes of a register at once.
FLIP_BYTES = {"cuda": ("xor.b32 $0, $1, 0xffffffff;", "=r,r"), "cpu": ("movl $1, $0; notl $0", "=&r,r")}


def asm(table, target):
    text, constraints = table[target]
    return f'asm="{text}", constraints="{constraints}"'


def run(body, out, *inputs, size=64, grid=(1,), warps=4):
    names = [f"x{i}_ptr" for i in range(len(inputs))]
    loads = "".join(f"    x{i} = tl.load(x{i}_ptr + i)\n" for i in range(len(inputs)))
    outs = [f"o{i}_ptr" for i in range(len(out))]
    text = "".join(f"    {line}\n" for line in body.strip().splitlines())
    harness.make(f"""@triton.jit
def kernel({', '.join(names + outs)}):
    i = tl.arange(0, {size})
{loads}{text}""")[grid](*inputs, *out, num_warps=warps)
    return out


@pytest.mark.parametrize("size", [1, 2, 64, 1024])
def test_one_result(size, target):
    x = torch.arange(size, dtype=torch.int32)
    got, = run(f"y = tl.inline_asm_elementwise({asm(ADD_ONE, target)}, args=[x0], dtype=tl.int32, is_pure=True, pack=1)\n"
               "tl.store(o0_ptr + i, y)", [torch.zeros_like(x)], x, size=size)
    assert torch.equal(got, x + 1)


def test_arguments_are_broadcast_and_keep_their_types(target):
    x = torch.arange(64, dtype=torch.float32)
    got, = run("row = tl.arange(0, 8).to(tl.float32)[None, :]\ncolumn = tl.arange(0, 8).to(tl.float32)[:, None]\n"
               f"y = tl.inline_asm_elementwise({asm(ADD_F32, target)}, args=[row, column * 8], dtype=tl.float32, is_pure=True, pack=1)\n"
               "tl.store(o0_ptr + tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :], y)", [torch.zeros(64)], x)
    assert torch.equal(got, x)


@pytest.mark.parametrize("dtypes", ["(tl.int32, tl.int32)", "[tl.int32, tl.int32]"])
def test_several_results(dtypes, target):
    x, y = torch.arange(64, dtype=torch.int32), torch.arange(64, dtype=torch.int32) ** 2
    s, d = run(f"s, d = tl.inline_asm_elementwise({asm(SUM_AND_DIFFERENCE, target)}, args=[x0, x1], dtype={dtypes}, is_pure=True, pack=1)\n"
               "tl.store(o0_ptr + i, s)\ntl.store(o1_ptr + i, d)", [torch.zeros_like(x), torch.zeros_like(x)], x, y)
    assert torch.equal(s, x + y) and torch.equal(d, x - y)


@pytest.mark.parametrize("size", [2, 32, 1024])  # fewer elements than a thread's share, and more
@pytest.mark.parametrize("dtype,pack", [("int8", 4), ("int8", 2), ("uint8", 1), ("int8", 8), ("int16", 2), ("int16", 4)])
def test_narrow_values_share_registers(dtype, pack, size, target):
    dtype = DTYPES[dtype]
    registers = {("int8", 8): 2, ("int16", 4): 2}.get((dtype.name, pack), 1)
    table = FLIP_BYTES
    if registers == 2:
        table = {"cuda": ("xor.b32 $0, $2, 0xffffffff; xor.b32 $1, $3, 0xffffffff;", "=&r,=&r,r,r"),
                 "cpu": ("movl $2, $0; notl $0; movl $3, $1; notl $1", "=&r,=&r,r,r")}
    x = harness.to_tensor(harness.values(dtype, (size,)), dtype)
    got, = run(f"y = tl.inline_asm_elementwise({asm(table, target)}, args=[x0], dtype=tl.{dtype}, is_pure=True, pack={pack})\n"
               "tl.store(o0_ptr + i, y)", [torch.zeros_like(x)], x, size=size)
    np.testing.assert_array_equal(got.numpy(), ~x.numpy())


def test_sixteen_bit_floats_in_pairs(target):
    """The sign of two bf16 at once; four elements are two registers."""
    table = {"cuda": ("xor.b32 $0, $2, 0x80008000; xor.b32 $1, $3, 0x80008000;", "=&r,=&r,r,r"),
             "cpu": ("movl $2, $0; xorl $$0x80008000, $0; movl $3, $1; xorl $$0x80008000, $1", "=&r,=&r,r,r,~{flags}")}
    x = torch.randn(128).bfloat16()
    got, = run(f"y = tl.inline_asm_elementwise({asm(table, target)}, args=[x0], dtype=tl.bfloat16, is_pure=True, pack=4)\n"
               "tl.store(o0_ptr + i, y)", [torch.zeros_like(x)], x, size=128)
    assert torch.equal(got.view(torch.int16), (-x).view(torch.int16))


def test_a_result_wider_than_its_argument(target):
    """Bytes to integers and floats, four at a time: one register in, eight out."""
    if target == "cuda":
        text = "{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $8; cvt.u32.u8 $0, t0; cvt.u32.u8 $1, t1; cvt.u32.u8 $2, t2; cvt.u32.u8 $3, t3; } " + \
            " ".join(f"cvt.rn.f32.s32 ${i + 4}, ${i};" for i in range(4)) + " ".join(f"max.f32 ${i + 4}, ${i + 4}, ${i + 9};" for i in range(4))
        constraints = ",".join(["=&r"] * 8) + ",r,r,r,r,r"
    else:
        text = "; ".join(f"movl $8, ${i}; shrl $$({8 * i}), ${i}; andl $$255, ${i}; cvtsi2ssl ${i}, ${i + 4}; maxss ${i + 9}, ${i + 4}" for i in range(4))
        constraints = ",".join(["=&r"] * 4 + ["=&x"] * 4) + ",r,x,x,x,x,~{flags}"
    a, b = torch.arange(64, dtype=torch.uint8) * 3, torch.full((64,), 50.0)
    c, d = run(f"c, d = tl.inline_asm_elementwise(asm='{text}', constraints='{constraints}', args=[x0, x1], dtype=(tl.int32, tl.float32), "
               "is_pure=True, pack=4)\ntl.store(o0_ptr + i, c)\ntl.store(o1_ptr + i, d)",
               [torch.zeros(64, dtype=torch.int32), torch.zeros(64)], a, b)
    assert torch.equal(c, a.int()) and torch.equal(d, a.float().clamp(min=50))


def test_scalars_and_no_arguments(target):
    table = {"cuda": ("mov.u32 $0, 7;", "=r"), "cpu": ("movl $$7, $0", "=r")}
    x = torch.zeros(64, dtype=torch.int32)
    got, = run(f"seven = tl.inline_asm_elementwise({asm(table, target)}, args=[], dtype=tl.int32, is_pure=False, pack=1)\n"
               f"eight = tl.inline_asm_elementwise({asm(ADD_ONE, target)}, args=[seven], dtype=tl.int32, is_pure=True, pack=1)\n"
               "tl.store(o0_ptr + i, x0 + seven * eight)", [torch.zeros_like(x)], x)
    assert torch.equal(got, x + 56)


def test_results_of_effects_may_be_ignored(target):
    table = {"cuda": ("membar.gl; // $0", "=r,~{memory}"), "cpu": ("mfence # $0", "=r,~{memory}")}
    x = torch.arange(64, dtype=torch.int32)
    got, = run(f"tl.inline_asm_elementwise({asm(table, target)}, args=[], dtype=tl.int32, is_pure=False, pack=1)\n"
               "tl.store(o0_ptr + i, x0)", [torch.zeros_like(x)], x)
    assert torch.equal(got, x)


def test_no_instruction_runs_everywhere(target):
    x = torch.arange(64, dtype=torch.int32)
    got, = run("y = tl.inline_asm_elementwise('', '=r,0', args=[x0], dtype=tl.int32, is_pure=True, pack=1)\n"
               "tl.store(o0_ptr + i, y)", [torch.zeros_like(x)], x)
    assert torch.equal(got, x)


def test_in_a_loop_beside_stores(target):
    """An effect stays where it is: reads before the store see the old values."""
    x = torch.arange(64, dtype=torch.int32)
    run("for _ in range(3):\n"
        "    v = tl.load(o0_ptr + i)\n"
        f"    w = tl.inline_asm_elementwise({asm(ADD_ONE, target)}, args=[v], dtype=tl.int32, is_pure=False, pack=1)\n"
        "    tl.store(o0_ptr + 63 - i, w)", [x])
    want = torch.arange(64, dtype=torch.int32)
    for _ in range(3):
        want = (want + 1).flip(0)
    if target == "cpu":  # between the threads of a GPU the order needs a barrier
        assert torch.equal(x, want)


PTX_IDIOMS = {
    # int4 weights: two nibbles of a byte, four bytes at a time
    "unpack_int4": ("""{
        .reg .b32 low, high;
        and.b32 low, $2, 0x0f0f0f0f;
        shr.b32 high, $2, 4;
        and.b32 high, high, 0x0f0f0f0f;
        prmt.b32 $0, low, high, 0x5140;
        prmt.b32 $1, low, high, 0x7362;
    }""", "=r,=r,r", "uint8", "int16", 4, lambda x: (x & 15).astype(np.int64) | ((x >> 4).astype(np.int64) << 8)),
    "lop3": ("lop3.b32 $0, $1, 0x0f0f0f0f, 0x01010101, 0xea;", "=r,r", "int32", "int32", 1,
             lambda x: (x & 0x0f0f0f0f) | 0x01010101),
    "tanh": ("tanh.approx.f32 $0, $1;", "=f,f", "float32", "float32", 1, np.tanh),
    "ex2": ("ex2.approx.ftz.f32 $0, $1;", "=f,f", "float32", "float32", 1, np.exp2),
    "rcp": ("rcp.approx.ftz.f32 $0, $1;", "=f,f", "float32", "float32", 1, lambda x: 1 / x),
    "fma": ("fma.rn.f32 $0, $1, $1, $1;", "=f,f", "float32", "float32", 1, lambda x: x * x + x),
    "bf16_bits": ("mov.b16 $0, $1;", "=h,h", "bfloat16", "bfloat16", 1, lambda x: x),
    "half_pairs": ("mul.f16x2 $0, $1, $1;", "=r,r", "float16", "float16", 2, lambda x: x * x),
    "bf16_to_f32": ("{ .reg .b16 a, b; mov.b32 {a, b}, $2; mov.b32 $0, {0, a}; mov.b32 $1, {0, b}; }", "=r,=r,r", "bfloat16",
                    "float32", 2, lambda x: x),
    "f32_to_f16x2": ("cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", "float32", "float16", 2, lambda x: x),
    "wide": ("mul.wide.s32 $0, $1, $1;", "=l,r", "int32", "int64", 1, lambda x: x * x),
    "double": ("add.f64 $0, $1, $1;", "=d,d", "float64", "float64", 1, lambda x: x + x),
}


@pytest.mark.parametrize("idiom", PTX_IDIOMS)
def test_ptx_idioms(idiom, target):
    text, constraints, source, to, pack, reference = PTX_IDIOMS[idiom]
    if target == "cpu":
        import nereid
        with pytest.raises(nereid.CompilationError, match=r"PTX.*compiled for the CPU.*is_cuda"):  # AsmIsPtx
            launch_idiom(idiom)
        return
    source_type, to_type = DTYPES[source], DTYPES[to]
    low, high = (1, 4) if source_type.is_float else (0, 200)
    data = harness.values(source_type, (256,), 3, low, high)
    want = reference(data)
    got = launch_idiom(idiom, data)
    harness.check(got, want, to_type, ulp=4096 if idiom == "tanh" else 4 if to_type.is_float else 0)


def launch_idiom(idiom, data=None):
    text, constraints, source, to, pack, _ = PTX_IDIOMS[idiom]
    data = np.ones(256) if data is None else data
    x, out = harness.to_tensor(data, DTYPES[source]), harness.empty(DTYPES[to], (256,))
    harness.make(f'''@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 256)
    y = tl.inline_asm_elementwise("""{text}""", "{constraints}", [tl.load(x_ptr + i)], dtype=tl.{to}, is_pure=True, pack={pack})
    tl.store(o_ptr + i, y)
''')[(1,)](x, out)
    return out


def test_e4m3_pairs_to_bf16(target):
    """The conversion of quantised kernels: e4m3 to f16 by the hardware, two at a time, through f32 to bf16."""
    if target == "cpu":
        return
    codes = torch.arange(256, dtype=torch.uint8)
    codes[[127, 255]] = 0
    out = torch.zeros(256, dtype=torch.bfloat16)
    harness.make('''@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 256)
    if tl.target_info.cuda_capability_geq(8, 9):  # before, no such instruction
        y = tl.inline_asm_elementwise("""{
            .reg .b16 low, high;
            .reg .b32 a, b;
            .reg .f16 h<4>;
            .reg .f32 f<4>;
            mov.b32 {low, high}, $2;
            cvt.rn.f16x2.e4m3x2 a, low;
            cvt.rn.f16x2.e4m3x2 b, high;
            mov.b32 {h0, h1}, a;
            mov.b32 {h2, h3}, b;
            cvt.f32.f16 f0, h0; cvt.f32.f16 f1, h1; cvt.f32.f16 f2, h2; cvt.f32.f16 f3, h3;
            cvt.rn.bf16x2.f32 $0, f1, f0;
            cvt.rn.bf16x2.f32 $1, f3, f2;
        }""", "=r,=r,r", [tl.load(x_ptr + i)], dtype=tl.bfloat16, is_pure=True, pack=4)
    else:
        y = tl.load(x_ptr + i).to(tl.float8e4nv, bitcast=True).to(tl.bfloat16)
    tl.store(o_ptr + i, y)
''')[(1,)](codes, out)
    assert torch.equal(out, codes.view(torch.float8_e4m3fn).to(torch.bfloat16))


def refused(body, match):
    import nereid
    x = torch.zeros(64, dtype=torch.int32)
    with pytest.raises(nereid.CompilationError, match=match):
        run(body, [torch.zeros_like(x)], x)


def test_refusals(target):
    good = asm(ADD_ONE, target)
    text, _ = ADD_ONE[target]
    call = "tl.store(o0_ptr + i, tl.inline_asm_elementwise({}, args=[x0], dtype=tl.int32, is_pure=True, pack=1))"
    refused(call.format(f"asm='{text}', constraints='=r,=r,r'"), r"name 2 outputs, but the results take 1 registers")  # AsmRegisters
    refused(call.format(f"asm='{text}', constraints='=r'"), r"name 0 inputs, but the arguments take 1 registers")
    refused(f"tl.inline_asm_elementwise({good}, args=[x0], dtype=tl.int32, is_pure=True, pack=0)", "`pack` must be between 1 and 64")  # PackSize
    refused(f"tl.inline_asm_elementwise({good}, args=[x0], dtype=(), is_pure=True, pack=1)", "needs a result")  # AsmNoResult
    other = asm(ADD_ONE, "cpu" if target == "cuda" else "cuda")
    refused(call.format(other), "is not PTX, and the kernel is compiled for a GPU" if target == "cuda" else "PTX")  # AsmIsX86


def test_nonsense_is_an_error_of_the_author(target):
    import nereid
    text = {"cpu": "nonsense $1, $0", "cuda": "add.s32 $0, $1, 1;"}[target]
    constraints = {"cpu": "=r,r", "cuda": "=?,r"}[target]
    # AssemblyRefused, at the call
    with pytest.raises(nereid.CompilationError, match=r"(?s)py:\d+:\d+: error: the assembler refuses this assembly: .*inline_asm_elementwise\("):
        x = torch.zeros(64, dtype=torch.int32)
        run(f"tl.store(o0_ptr + i, tl.inline_asm_elementwise('{text}', '{constraints}', args=[x0], dtype=tl.int32, is_pure=True, pack=1))",
            [x.clone()], x)


INLINED = """@triton.jit
def inner(x):
    return tl.inline_asm_elementwise("nonsense.s32 $0, $1;", "=r,r", args=[x], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def kernel(x, o):
    i = tl.arange(0, 32)
    tl.store(o + i, inner(tl.load(x + i)))
"""


@pytest.mark.parametrize("target_name", ["cpu", "cuda:90"])
@pytest.mark.cpu_only("both targets compile without a GPU")
def test_refused_assembly_names_its_line_and_the_calls(target_name):
    import nereid
    text = INLINED if target_name != "cpu" else INLINED.replace("nonsense.s32 $0, $1;", "nonsense $1, $0")
    kernel = harness.make(text)
    pointer = nereid.MockTensor("i32")
    if target_name != "cpu":  # without a GPU it is assembled when the machine code is asked for
        with pytest.raises((RuntimeError, nereid.CompilationError), match=r"nonsense|no assembler") as caught:
            kernel.warmup(pointer, pointer, grid=(1, ), target=target_name).asm["cubin"]
        if "no assembler" in str(caught.value):
            pytest.skip("the refusal is NVIDIA's assembler's, which requirements-dev.txt installs")
        assert re.search(r"py:7:\d+: (error: )?the assembler refuses this assembly: .*nonsense", str(caught.value))
        return
    with pytest.raises(nereid.CompilationError) as caught:
        kernel.warmup(pointer, pointer, grid=(1, ), target=target_name)
    lines = str(caught.value).splitlines()
    assert re.search(r"py:7:\d+: error: the assembler refuses this assembly: .*nonsense", lines[0]), lines
    assert "tl.inline_asm_elementwise" in lines[1]
    note = next(i for i, line in enumerate(lines) if re.search(r"py:13:\d+: note: called from here", line))
    assert "inner(tl.load(x + i))" in lines[note + 1]


def test_assembly_that_writes_memory(target):
    """Through pointers among the arguments; the array counts as written."""
    table = {"cuda": ("st.global.b32 [$1], $2; mov.u32 $0, 0;", "=r,l,r,~{memory}"), "cpu": ("movl $2, ($1); xorl $0, $0", "=&r,r,r,~{memory},~{flags}")}
    x = torch.arange(64, dtype=torch.int32)
    out = torch.zeros(64, dtype=torch.int32)
    kernel = harness.make(f"""@triton.jit
def kernel(x_ptr, o_ptr):
    i = tl.arange(0, 64)
    tl.inline_asm_elementwise({asm(table, target)}, args=[o_ptr + i, tl.load(x_ptr + i) * 3], dtype=tl.int32, is_pure=False, pack=1)
    tl.debug_barrier()
    tl.store(x_ptr + 63 - i, tl.load(o_ptr + i))
""")
    kernel[(1,)](x, out)
    assert torch.equal(out, torch.arange(64, dtype=torch.int32) * 3)
    assert torch.equal(x, out.flip(0))
