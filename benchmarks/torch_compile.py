"""Times torch.compile's default path on a decoder of the Llama architecture, with Nereid as Inductor's Triton and with the installed Triton: the first call, and calls after it.

    python benchmarks/torch_compile.py --size 1.3B                                       on a GPU: Nereid, Triton, and no compiler at all
    python benchmarks/torch_compile.py --size tiny --device cpu --kernels nereid,cpp     without a GPU: Nereid and Inductor's C++

Each row is a new process with empty caches, --rounds of them in turns. The model is that of examples/train/aquila with PyTorch's operators; bf16 on GPUs, fp32 on CPUs. "first" is the time of the first
call in seconds, compilation included, without imports; "ms" the median of --steps calls after it; both of a forward pass and of a training step (forward and backward, no optimizer). Losses and the
norm of all gradients are compared with those of the row without a compiler, or the first row. Exit code 1 if a process fails or a loss differs by more than 1 %.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = {"nereid": "Nereid", "triton": "Triton", "cpp": "Inductor's C++", "none": "no compiler"}


def measure(options):
    """One row, printed as JSON: what the child process does."""
    cpu = options.device == "cpu"
    if options.child == "nereid":
        import nereid.torch
        nereid.torch.use(cpu=cpu)
    import torch
    sys.path.insert(0, str(ROOT / "examples" / "train" / "aquila"))
    import model as aquila
    if options.child == "triton":
        import triton
        if hasattr(triton, "__nereid__") or "nereid" in triton.__file__:
            raise SystemExit("`import triton` means Nereid here: install Triton, and unset the variables of the alias")
    size = aquila.SIZES[options.size]
    sequence = options.sequence or size.sequence
    with torch.device(options.device):
        decoder = aquila.Decoder(size, "aten", torch.float32 if cpu else torch.bfloat16)
    decoder.begin(1, options.device, sequence)
    numbers = torch.Generator(options.device).manual_seed(2)
    tokens = torch.randint(size.vocabulary, (options.batch, sequence + 1), generator=numbers, device=options.device)
    given = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    call = decoder if options.child == "none" else torch.compile(decoder)

    def wait():
        if not cpu:
            torch.cuda.synchronize()

    def forward():
        with torch.no_grad():
            return call(*given)

    def training():
        decoder.zero_grad(set_to_none=True)
        loss = call(*given)
        loss.backward()
        return loss

    row = {}
    for name, step in (("forward", forward), ("training", training)):
        times = []
        for _ in range(1 + options.steps):
            wait()
            start = time.perf_counter()
            loss = step()
            wait()
            times.append(time.perf_counter() - start)
        row[name] = {"first": times[0], "ms": 1e3 * statistics.median(times[1:]), "loss": loss.item() / given[0].numel()}
        print(name, row[name], file=sys.stderr, flush=True)
    row["norm"] = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in decoder.parameters()])).item()
    row["bytes"] = 0 if cpu else torch.cuda.max_memory_allocated()
    print(json.dumps(row))


def child(options, kernels):
    """The row of a new process with empty caches; None if it failed."""
    with tempfile.TemporaryDirectory() as caches:
        places = {name: os.path.join(caches, name) for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "NEREID_CACHE_DIR")}
        command = [sys.executable, __file__, "--child", kernels, "--size", options.size, "--device", options.device, "--batch", str(options.batch), "--steps", str(options.steps),
                   "--sequence", str(options.sequence)]
        run = subprocess.run(command, env=os.environ | places | {"CUDA_CACHE_DISABLE": "1"}, capture_output=True, text=True)
    if run.returncode:
        print(f"{KERNELS[kernels]} failed:\n{run.stderr[-3000:]}", file=sys.stderr)
        return None
    return json.loads(run.stdout.splitlines()[-1])


def same(row, other):
    """Whether losses and gradients of two rows are the same but for rounding."""
    pairs = [(row[name]["loss"], other[name]["loss"]) for name in ("forward", "training")] + [(row["norm"], other["norm"])]
    return all(abs(mine - theirs) <= 0.01 * abs(theirs) for mine, theirs in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1.3B", choices=("tiny", "125M", "1.3B", "7B"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--kernels", default="", help=f"with commas: {', '.join(KERNELS)} (default: none,nereid,triton; on CPUs none,nereid,cpp)")
    parser.add_argument("--batch", type=int, default=2, help="sequences")
    parser.add_argument("--sequence", type=int, default=0, help="tokens of a sequence (default: the size's)")
    parser.add_argument("--steps", type=int, default=20, help="calls to take the median of")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--child", choices=KERNELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in ("batch", "steps", "rounds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: expected 1 or more")
    if options.child:
        return measure(options)
    chosen = (options.kernels or ("none,nereid,cpp" if options.device == "cpu" else "none,nereid,triton")).split(",")
    for name in chosen:
        if name not in KERNELS or name == ("triton" if options.device == "cpu" else "cpp"):
            parser.error(f"--kernels {name}: expected some of none, nereid, {'cpp' if options.device == 'cpu' else 'triton'}")
    rows = {name: [] for name in chosen}
    for _ in range(options.rounds):
        for name in chosen:
            rows[name].append(child(options, name))
    good = True
    print(f"{options.size}, {options.device}, {options.batch} sequences; the least of {options.rounds} processes")
    print("| | forward: first, s | ms | training step: first, s | ms | GiB | loss | same results |\n|---|---|---|---|---|---|---|---|")
    reference = next((row for name in sorted(chosen, key=lambda name: name != "none") for row in rows[name] if row), None)
    for name in chosen:
        found = [row for row in rows[name] if row]
        good &= len(found) == options.rounds
        if not found:
            print(f"| {KERNELS[name]} | failed |")
            continue
        cells = [f"{min(row[part][what] for row in found):.2f}" for part in ("forward", "training") for what in ("first", "ms")]
        equal = all(same(row, reference) for row in found)
        good &= equal
        print(f"| {KERNELS[name]} | {' | '.join(cells)} | {found[0]['bytes'] / 2**30:.2f} | {found[0]['training']['loss']:.5f} | {'yes' if equal else 'NO'} |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
