"""Programs run by clusters: whether results are right, and how long they take: `python benchmarks/gpu/clusters.py`.

For wide rows of softmax and RMSNorm (fp32 and bf16) and for `num_ctas` 1, 2, 4 and 8, with the same number of warps for each block and with the same number for
each program: the largest error against PyTorch in fp32, whether two runs agree bit for bit, microseconds (median of 15 trials that take turns)
and the memory rate in TB/s. Then a sort, a scan and a gather across blocks, for their results alone. Needs a GPU of architecture 90; about 40 seconds.
Exits with 1 if a result is wrong.
"""

import statistics
import sys

import nereid
import nereid.language as tl
import torch


@nereid.jit
def softmax(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + columns, (powers / tl.sum(powers, axis=0)).to(out.dtype.element_ty), mask=columns < n)


@nereid.jit
def rms_norm(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / n + 1e-6)
    tl.store(out + row + columns, (values * scale).to(out.dtype.element_ty), mask=columns < n)


@nereid.jit
def rearrange(sorted_out, sums, gathered, x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * BLOCK + at)
    tl.store(sorted_out + tl.program_id(0) * BLOCK + at, tl.sort(values))
    tl.store(sums + tl.program_id(0) * BLOCK + at, tl.cumsum(values, axis=0))
    tl.store(gathered + tl.program_id(0) * BLOCK + at, tl.gather(values, (at * 37 + 11) % BLOCK, axis=0))


REFERENCES = {
    softmax: lambda x: torch.softmax(x.float(), -1),
    rms_norm: lambda x: x.float() * torch.rsqrt((x.float()**2).mean(-1, keepdim=True) + 1e-6),
}


def microseconds(launches, trials=15, repeats=10):
    """The median time of each of several launches, which take turns; a trial is the mean of `repeats`."""
    times = [[] for _ in launches]
    for launch in launches:
        launch()
    for _ in range(trials):
        for launch, mine in zip(launches, times):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(repeats):
                launch()
            end.record()
            end.synchronize()
            mine.append(start.elapsed_time(end) * 1000 / repeats)
    return [statistics.median(mine) for mine in times]


def wide_rows():
    wrong = 0
    for kernel in (softmax, rms_norm):
        for dtype in (torch.float32, torch.bfloat16):
            for columns in (8192, 32768, 65536, 131072):
                rows = max(1, (1 << 27) // columns // dtype.itemsize)
                x = torch.randn(rows, columns, device="cuda", dtype=dtype)
                expected = REFERENCES[kernel](x[:64])
                results, launches = [], []
                for blocks in (1, 2, 4, 8):
                    for warps in sorted({32 // blocks, 8} if blocks > 1 else {8, 16, 32}):
                        out = torch.empty_like(x)

                        def launch(out=out, blocks=blocks, warps=warps):
                            return kernel[(rows, )](out, x, columns, BLOCK=nereid.next_power_of_2(columns), num_ctas=blocks, num_warps=warps)

                        compiled = launch()
                        first = out.clone()
                        out.zero_()
                        launch()
                        error = (first[:64].float() - expected).abs().max().item() / expected.abs().max().item()
                        good = error < (1e-2 if dtype == torch.bfloat16 else 1e-5) and torch.equal(first, out)
                        wrong += not good
                        results.append((blocks, warps, error, good, compiled.n_regs, compiled.n_spills))
                        launches.append(launch)
                for (blocks, warps, error, good, registers, spills), time in zip(results, microseconds(launches)):
                    rate = 2 * x.numel() * dtype.itemsize / time / 1e6
                    print(f"{kernel.__name__:9} {str(dtype)[6:]:9} {rows:5} x {columns:6}  num_ctas {blocks}  num_warps {warps:2}  {time:8.1f} us  "
                          f"{rate:5.2f} TB/s  {registers:3} registers, {spills} spills  error {error:.1e}{'' if good else '  WRONG'}", flush=True)
                copy = torch.empty_like(x)
                time, = microseconds([lambda: copy.copy_(x)])
                print(f"{'copy':9} {str(dtype)[6:]:9} {rows:5} x {columns:6}  {time:45.1f} us  {2 * x.numel() * dtype.itemsize / time / 1e6:5.2f} TB/s", flush=True)
    return wrong


def rearrangements():
    wrong = 0
    BLOCK = 4096
    x = torch.randint(-1000, 1000, (132, BLOCK), device="cuda", dtype=torch.int32)
    index = (torch.arange(BLOCK, device="cuda") * 37 + 11) % BLOCK
    for blocks in (1, 2, 4, 8, 16):
        outs = [torch.empty_like(x) for _ in range(3)]
        rearrange[(132, )](*outs, x, BLOCK=BLOCK, num_ctas=blocks, num_warps=4)
        good = [torch.equal(out, expected) for out, expected in zip(outs, (x.sort(-1).values, x.cumsum(-1).int(), x[:, index]))]
        wrong += good.count(False)
        print(f"num_ctas {blocks:2}: sort {good[0]}, scan {good[1]}, gather {good[2]}", flush=True)
    return wrong


if __name__ == "__main__":
    print(torch.cuda.get_device_name())
    failures = rearrangements() + wide_rows()
    print("all right" if not failures else f"{failures} WRONG")
    sys.exit(bool(failures))
