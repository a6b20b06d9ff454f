"""Ways to compute a product of 8-bit floats with scales for blocks of 128 (the operator `scaled_mm`), against one another: pointers or tensor descriptors, one or two pieces of rows in a program, stages, warps
divided into producers and consumers.

    python benchmarks/ops/block_scaled.py [--size 8192] [--seconds 0.05] [--compile]

Results are compared with float64 on a part of the rows. --compile only assembles the code for sm_90 and prints the registers, without a GPU.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import torch

import nereid
import nereid.language as tl
from nereid.ops.kernels.products import grouped

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))


@nereid.jit
def piece_of(descriptor, places, row, k, COPIES: tl.constexpr):
    if COPIES:
        return descriptor.load([row, k])
    else:
        return tl.load(places)


@nereid.jit
def block_product(out, a, b, a_scale, b_scale, M, N, K, PIECES: tl.constexpr, DUAL: tl.constexpr, COPIES: tl.constexpr, DIVIDED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr, STAGES: tl.constexpr):
    """Sizes are multiples of the blocks. PIECES: of BM rows in a program; DUAL: a product is scaled and added while the next one runs."""
    tile_m, tile_n = grouped(tl.program_id(0), M // (BM * PIECES), N // BN, GROUP)
    row, column = tile_m * (BM * PIECES), tile_n * BN
    i, k_of = tl.arange(0, BM), tl.arange(0, 128)[None, :]
    blocks = K // 128
    a_rows = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, 128]) if COPIES else None
    b_rows = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, 128]) if COPIES else None
    a_places = a + (row + i)[:, None].to(tl.int64) * K + k_of
    b_places = b + (column + tl.arange(0, BN))[:, None].to(tl.int64) * K + k_of
    a_scales = a_scale + (row + i) * blocks
    b_scales = b_scale + column // 128 * blocks
    totals = ()
    for p in tl.static_range(PIECES):
        totals = totals + (tl.zeros((BM, BN), tl.float32), )
    before, factor = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, ), tl.float32)
    for block in tl.range(0, blocks, num_stages=STAGES, warp_specialize=DIVIDED):
        y = piece_of(b_rows, b_places, column, block * 128, COPIES).T
        b_factor = tl.load(b_scales + block)
        if DUAL:
            found = tl.dot(piece_of(a_rows, a_places, row, block * 128, COPIES), y, out_dtype=tl.float32)
            totals = (totals[0] + before * factor[:, None], )
            before, factor = found, tl.load(a_scales + block) * b_factor
        else:
            next_totals = ()
            for p in tl.static_range(PIECES):
                x = piece_of(a_rows, a_places + p * BM * K, row + p * BM, block * 128, COPIES)
                its = tl.load(a_scales + p * BM * blocks + block) * b_factor
                next_totals = next_totals + (totals[p] + tl.dot(x, y, out_dtype=tl.float32) * its[:, None], )
            totals = next_totals
        a_places += 128
        b_places += 128
    if DUAL:
        totals = (totals[0] + before * factor[:, None], )
    for p in tl.static_range(PIECES):
        places = out + (row + p * BM + i)[:, None].to(tl.int64) * N + (column + tl.arange(0, BN))[None, :]
        tl.store(places, totals[p].to(out.dtype.element_ty))


#: name: (constants, warps)
VARIANTS = {
    "pointers 128x128": (dict(PIECES=1, DUAL=True, COPIES=False, DIVIDED=False, BM=128, BN=128, STAGES=4), 8),
    "pointers 64x128, 4 warps": (dict(PIECES=1, DUAL=True, COPIES=False, DIVIDED=False, BM=64, BN=128, STAGES=4), 4),
    "pointers 2x128x128": (dict(PIECES=2, DUAL=False, COPIES=False, DIVIDED=False, BM=128, BN=128, STAGES=3), 8),
    "pointers 2x128x128, 4 stages": (dict(PIECES=2, DUAL=False, COPIES=False, DIVIDED=False, BM=128, BN=128, STAGES=4), 8),
    "descriptors 128x128": (dict(PIECES=1, DUAL=True, COPIES=True, DIVIDED=False, BM=128, BN=128, STAGES=4), 8),
    "descriptors 128x128, divided": (dict(PIECES=1, DUAL=True, COPIES=True, DIVIDED=True, BM=128, BN=128, STAGES=5), 8),
    "descriptors 128x128, divided, not dual": (dict(PIECES=1, DUAL=False, COPIES=True, DIVIDED=True, BM=128, BN=128, STAGES=5), 8),
    "descriptors 2x128x128": (dict(PIECES=2, DUAL=False, COPIES=True, DIVIDED=False, BM=128, BN=128, STAGES=4), 8),
    "descriptors 2x128x128, divided": (dict(PIECES=2, DUAL=False, COPIES=True, DIVIDED=True, BM=128, BN=128, STAGES=4), 8),
}
TYPES = {"out": "*bf16", "a": "*fp8e4nv", "b": "*fp8e4nv", "a_scale": "*fp32", "b_scale": "*fp32", "M": "i32", "N": "i32", "K": "i32"}


def assemble(name, constants, warps):
    """Prints the registers of a variant for sm_90."""
    from nereid.backends.compiler import GPUTarget
    from nereid.compiler import ASTSource
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
    import assemble_ptx
    names = block_product.arg_names
    constants = constants | {"GROUP": 8}
    source = ASTSource(block_product, signature={key: TYPES.get(key, "constexpr") for key in names}, constexprs={(names.index(key), ): value for key, value in constants.items()},
                       attrs={(names.index(key), ): [["tt.divisibility", 16]] for key in TYPES})
    compiled = nereid.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ptx"
        path.write_text(compiled.asm["ptx"])
        done = subprocess.run([assemble_ptx.find_ptxas(), "-v", "-arch=sm_90a", path, "-o", path.with_suffix(".cubin")], capture_output=True, text=True)
    said = ", ".join(re.findall(r"Used \d+ registers|[1-9]\d* bytes spill \w+|C75\d\d[^\n]*", done.stderr))
    print(f"{name:44} {said or done.stderr[:200]}; {compiled.metadata.shared} bytes of shared memory; wgmma {compiled.asm['ptx'].count('wgmma.mma_async.')}, tma {compiled.asm['ptx'].count('cp.async.bulk.tensor')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    if options.compile:
        for name, (constants, warps) in VARIANTS.items():
            assemble(name, constants, warps)
        return
    from measure import Bench, relative_error
    from nereid.ops import fused
    n = options.size
    a, b = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    a_scale, b_scale, one = torch.rand(n, n // 128, device="cuda") + 0.1, torch.rand(n // 128, n // 128, device="cuda") * 0.01, torch.ones(1, device="cuda")
    rows = slice(n - 256, n)
    wide = a[rows].double() * a_scale[rows].double().repeat_interleave(128, 1)
    expected = wide @ (b.double() * b_scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)).t()
    calls = {"operator": lambda: fused.scaled_mm(a, b, a_scale, b_scale), "one scale": lambda: fused.scaled_mm(a, b, one, one), "torch, one scale": lambda: torch._scaled_mm(
        a, b.t(), one, one, out_dtype=torch.bfloat16)}
    print(f"operator: error {relative_error(calls['operator']()[rows], expected):.2e}")
    for name, (constants, warps) in VARIANTS.items():
        out = torch.full((n, n), float("nan"), dtype=torch.bfloat16, device="cuda")

        def call(out=out, constants=constants, warps=warps):
            grid = (n // (constants["BM"] * constants["PIECES"]) * (n // constants["BN"]), )
            block_product[grid](out, a, b, a_scale, b_scale, n, n, n, **constants, GROUP=8, num_warps=warps)

        try:
            call()
            print(f"{name}: error {relative_error(out[rows], expected):.2e}", flush=True)
            calls[name] = call
        except Exception as problem:
            print(f"{name}: failed, {type(problem).__name__}: {problem}"[:300], flush=True)
    for name, milliseconds in zip(calls, Bench().medians(list(calls.values()), options.seconds * len(calls))):
        print(f"{name:44}{milliseconds * 1000:9.1f} us {2 * n**3 / milliseconds / 1e9:8.1f} TFLOP/s")
    print(torch.cuda.get_device_name())


if __name__ == "__main__":
    main()
