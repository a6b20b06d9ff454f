"""Times of decoding over a paged cache with other tiles than `row_tiles` of nereid/ops/fused/paged_attention.py chooses, against its choice.

    python benchmarks/ops/paged_tiles.py [--seconds 0.05]
"""

import argparse
import importlib
import pathlib
import sys

import torch

from nereid.ops import fused

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))

#: (rows, keys, warps, stages) and how many programs there should be for each multiprocessor.
TILES = ((16, 64, 4, 3, 2), (16, 64, 4, 3, 3), (16, 64, 4, 3, 6), (16, 64, 4, 3, 12), (16, 64, 4, 4, 3), (16, 64, 4, 4, 12), (16, 128, 4, 3, 2), (16, 128, 8, 3, 2), (16, 128, 8, 3, 8), (16, 64, 8, 3, 12))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.05)
    options = parser.parse_args()
    from measure import Bench, relative_error
    paged, bench = importlib.import_module("nereid.ops.fused.paged_attention"), Bench()
    operator, choice, splits = fused.FUSED["paged_attention"], paged.row_tiles, paged._splits
    heads, key_heads, dim, page = 32, 8, 128, 16
    for batches, length in ((64, 4096), (1, 131072)):
        count = batches * length // page
        table, lengths = torch.randperm(count, device="cuda").int().view(batches, -1), torch.full((batches, ), length, dtype=torch.int32, device="cuda")
        wide = [torch.randn(count, page, key_heads, dim, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
        q = torch.randn(batches, heads, dim, dtype=torch.bfloat16, device="cuda")
        for kind, scale in (("bf16", None), ("fp8", torch.ones(1, device="cuda"))):
            caches = wide if scale is None else [x.to(torch.float8_e4m3fn) for x in wide]
            size, calls = sum(x.numel() * x.element_size() for x in caches), {}

            def call():
                # Not through the dispatcher, which would repeat the record of the first call.
                return operator.run(**operator.form.bind((q, *caches, table, lengths), {"max_length": length, "k_scale": scale, "v_scale": scale})[0])[0]

            expected = call()
            for tiles in (None, *TILES):
                paged.row_tiles = choice if tiles is None else lambda *args, tiles=tiles: tiles[:4]
                paged._splits = splits if tiles is None else lambda device, programs, keys, each, tiles=tiles: max(1, min(
                    tiles[4] * torch.cuda.get_device_properties(device).multi_processor_count // programs, keys // 256, 64))
                stream = torch.cuda.Stream()
                try:
                    with torch.cuda.stream(stream):
                        call()
                    torch.cuda.synchronize()
                    captured = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(captured):
                        found = call()
                    captured.replay()
                    print(f"{batches}x{length} {kind} {tiles}: difference {relative_error(found, expected):.1e}", flush=True)
                    calls[tiles] = captured.replay
                except Exception as problem:
                    torch.cuda.synchronize()
                    print(f"{batches}x{length} {kind} {tiles}: {type(problem).__name__}: {problem}"[:200], flush=True)
            paged.row_tiles, paged._splits = choice, splits
            for tiles, milliseconds in zip(calls, bench.medians(list(calls.values()), options.seconds * len(calls))):
                print(f"{batches}x{length} {kind} {tiles or 'chosen'} {milliseconds * 1000:8.1f} us {size / milliseconds / 1e6:8.1f} GB/s")


if __name__ == "__main__":
    main()
