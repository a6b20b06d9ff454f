"""Attention with and without warp specialisation: `python benchmarks/gpu/attention.py [--seconds 6] [--problems 128,128c,64,64c,256,256c] [--variants ...]`

One source, through tensor descriptors, compiled with `warp_specialize=True` and without, fp16, 4 x 32 heads of 4096 rows. Each kernel first has its
results compared with float64, in a process of its own that is stopped when it hangs (lengths of one, two and more blocks); kernels that are
wrong or hang are reported and not timed. The right ones are measured in turns with Triton (where it is installed) and
PyTorch's attention, by default and by cuDNN, with a cold L2 cache. Prints a line for each.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from child import child

KERNELS = '''
import LANGUAGE as lib
import LANGUAGE.language as tl


@lib.jit
def raised(m_i, top, THRESHOLD: tl.constexpr):
    """The reference of a row's exponentials: its maximum, or with a threshold (in powers of two) what is at most so far below it."""
    return tl.where(top > m_i + THRESHOLD, top, m_i) if THRESHOLD else tl.maximum(m_i, top)


@lib.jit
def blocks(acc, l_i, m_i, q, k_desc, v_desc, base, offs_m, offs_n, low, high, scale, MASKED: tl.constexpr, BLOCK_N: tl.constexpr,
           SPECIALISE: tl.constexpr, THRESHOLD: tl.constexpr):
    for start in tl.range(low, high, BLOCK_N, warp_specialize=SPECIALISE):
        k = k_desc.load([base + start, 0])
        qk = tl.dot(q, k.T)
        if MASKED:
            qk = qk * scale + tl.where(offs_m[:, None] >= (start + offs_n)[None, :], 0, -1.0e6)
            m_new = raised(m_i, tl.max(qk, 1), THRESHOLD)
            qk -= m_new[:, None]
        else:
            m_new = raised(m_i, tl.max(qk, 1) * scale, THRESHOLD)
            qk = qk * scale - m_new[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([base + start, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_new
    return acc, l_i, m_i


@lib.jit
def attention(q_desc, k_desc, v_desc, o_desc, SEQUENCE, scale, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              CAUSAL: tl.constexpr, SPECIALISE: tl.constexpr, THRESHOLD: tl.constexpr, TAG: tl.constexpr):
    block = tl.program_id(0)
    if CAUSAL:
        block = tl.num_programs(0) - 1 - block
    base = tl.program_id(1) * SEQUENCE
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    q = q_desc.load([base + block * BLOCK_M, 0])
    if CAUSAL:
        acc, l_i, m_i = blocks(acc, l_i, m_i, q, k_desc, v_desc, base, offs_m, offs_n, 0, block * BLOCK_M, scale, False, BLOCK_N, SPECIALISE,
                               THRESHOLD)
        acc, l_i, m_i = blocks(acc, l_i, m_i, q, k_desc, v_desc, base, offs_m, offs_n, block * BLOCK_M, (block + 1) * BLOCK_M, scale, True,
                               BLOCK_N, SPECIALISE, THRESHOLD)
    else:
        acc, l_i, m_i = blocks(acc, l_i, m_i, q, k_desc, v_desc, base, offs_m, offs_n, 0, SEQUENCE, scale, False, BLOCK_N, SPECIALISE, THRESHOLD)
    o_desc.store([base + block * BLOCK_M, 0], (acc / l_i[:, None]).to(tl.float16))
'''

# Divided?, rows and columns of a block, warps, stages, most registers of a thread (None: no limit), threshold of maxima, in which loops
# multiplications by factors of 1 are left out
VARIANTS = {
    "divided 128x128": (True, 128, 128, 8, 2, None, 0, "never"),
    "divided 128x64": (True, 128, 64, 8, 3, None, 0, "never"),
    "divided 128x128 s3": (True, 128, 128, 8, 3, None, 0, "never"),
    "divided 128x128 s3 skip": (True, 128, 128, 8, 3, None, 0, "always"),
    "divided 128x128 s3 threshold": (True, 128, 128, 8, 3, None, 8, "never"),
    "divided 128x128 s3 threshold skip": (True, 128, 128, 8, 3, None, 8, "always"),
    "divided 256x64 w16 s3": (True, 256, 64, 16, 3, None, 0, "never"),
    "divided 256x64 w16 s3 threshold skip": (True, 256, 64, 16, 3, None, 8, "always"),
    "pipelined 128x128": (False, 128, 128, 8, 3, None, 0, "never"),
    "pipelined 128x64": (False, 128, 64, 8, 3, None, 0, "never"),
    "pipelined 128x64 threshold skip": (False, 128, 64, 8, 3, None, 8, "always"),
    "divided 128x64 s2 skip": (True, 128, 64, 8, 2, None, 0, "always"),
    "divided 128x64 s2 threshold skip": (True, 128, 64, 8, 2, None, 8, "always"),
    "divided 128x32 s3 threshold skip": (True, 128, 32, 8, 3, None, 8, "always"),
    "pipelined 128x64 skip": (False, 128, 64, 8, 3, None, 0, "always"),
    "pipelined 128x64 s2": (False, 128, 64, 8, 2, None, 0, "never"),
    "pipelined 256x64 w16 s3": (False, 256, 64, 16, 3, None, 0, "never"),
}
PROBLEMS = {"128": (128, False), "128c": (128, True), "64": (64, False), "64c": (64, True), "256": (256, False), "256c": (256, True)}


def module_of(language, folder):
    path = pathlib.Path(folder, f"attention_{language}.py")
    path.write_text(KERNELS.replace("LANGUAGE", language))
    import importlib.util
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call_of(module, language, variant, tensors, causal, tag=0):
    """A function that launches the kernel; compiles it."""
    if language == "triton":
        from triton.tools.tensor_descriptor import TensorDescriptor
    else:
        from nereid.tools.tensor_descriptor import TensorDescriptor
    specialise, bm, bn, warps, stages, registers, threshold, skips = variant
    limit = {"maxnreg": registers} if registers else {}
    batch, heads, sequence, dim = tensors[0].shape
    scale = 1.4426950408889634 / math.sqrt(dim)
    describe = lambda tensor, rows: TensorDescriptor(tensor, [batch * heads * sequence, dim], [dim, 1], [rows, dim])
    q, k, v, out = tensors
    arguments = describe(q, bm), describe(k, bn), describe(v, bn), describe(out, bm), sequence, scale

    def launch():
        if language == "nereid":  # without `never` some configurations are divided unasked
            import nereid
            for knob, value in (("warp_specialise", "always" if specialise else "never"), ("skip_scaling", skips)):
                if getattr(nereid.knobs.nereid, knob) != value:
                    setattr(nereid.knobs.nereid, knob, value)
        module.attention[(sequence // bm, batch * heads)](*arguments, HEAD=dim, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal, SPECIALISE=specialise,
                                                          THRESHOLD=threshold, TAG=tag,
                                                          num_warps=warps, num_stages=stages, **limit)

    launch()
    return launch


def operands(batch, heads, sequence, dim, seed=0):
    import torch
    generator = torch.Generator("cuda").manual_seed(seed)
    q, k, v = (torch.randn(batch, heads, sequence, dim, device="cuda", dtype=torch.float16, generator=generator) for _ in range(3))
    return q, k, v, torch.full_like(q, float("nan"))


def check(variant, dim, causal):
    """Compares some lengths with float64; the largest relative error."""
    import torch
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        module = module_of("nereid", folder)
        for batch, heads, sequence in [(1, 1, 128), (1, 3, 256), (2, 2, 384), (1, 2, 1024), (2, 16, 2048)]:
            if sequence % variant[1] or sequence % variant[2]:
                continue
            for repeat in range(3):
                tensors = operands(batch, heads, sequence, dim, repeat)
                call = call_of(module, "nereid", variant, tensors, causal)
                for _ in range(5):
                    call()
                torch.cuda.synchronize()
                q, k, v = (t.double() for t in tensors[:3])
                scores = q @ k.transpose(-1, -2) / math.sqrt(dim)
                if causal:
                    scores.masked_fill_(torch.ones(sequence, sequence, dtype=torch.bool, device="cuda").triu(1), float("-inf"))
                expected = torch.softmax(scores, -1) @ v
                error = (tensors[3].double() - expected).norm() / expected.norm()
                worst = max(worst, float(error.nan_to_num(float("inf"))))
    print(json.dumps({"worst": worst, "right": worst < 2e-3}))


def measure(problem, names, seconds):
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    from measure import Bench
    dim, causal = PROBLEMS[problem]
    tensors = operands(4, 32, 4096, dim)
    calls, labels = [], []
    with tempfile.TemporaryDirectory() as folder:
        module = module_of("nereid", folder)
        for tag, (label, setting, variant) in enumerate(names):
            os.environ.update(setting)
            calls.append(call_of(module, "nereid", variant, tensors, causal, tag))
            labels.append(label)
        try:
            triton = module_of("triton", folder)
            for name in ("pipelined 128x128", "pipelined 128x64"):
                try:
                    calls.append(call_of(triton, "triton", VARIANTS[name], tensors, causal))
                    labels.append("triton " + name)
                except Exception as error:
                    print(f"  triton {name}: {type(error).__name__}: {str(error)[:120]}")
        except ImportError:
            print("  no Triton")

        def library(backend):

            def call():
                with sdpa_kernel(backend):
                    F.scaled_dot_product_attention(*tensors[:3], is_causal=causal)

            return call

        for label, backend in (("SDPA flash", SDPBackend.FLASH_ATTENTION), ("SDPA cuDNN", SDPBackend.CUDNN_ATTENTION)):
            try:
                library(backend)()
                calls.append(library(backend))
                labels.append(label)
            except Exception as error:
                print(f"  {label}: {type(error).__name__}: {str(error)[:120]}")
        times = Bench().medians(calls, seconds)
    flop = 4 * 4 * 32 * 4096 * 4096 * dim // (2 if causal else 1)
    print(f"  {torch.cuda.get_device_name()}, torch {torch.__version__}")
    for label, ms in sorted(zip(labels, times), key=lambda pair: pair[1]):
        print(f"  d={dim}{' causal' if causal else '':7} {label:44} {ms * 1000:9.1f} us  {flop / ms / 1e9:7.1f} TFLOP/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="of measuring, a problem")
    parser.add_argument("--problems", default="128,128c,64,64c")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="names, separated by commas; `NAME@VARIABLE=VALUE` sets a variable")
    parser.add_argument("--check", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--once", help="a variant's name: two launches, for a profiler")
    parser.add_argument("--names", default="", help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=float, default=95.0)
    options = parser.parse_args()
    if options.check:
        variant, dim, causal = json.loads(options.check)
        return check(variant, dim, causal)
    if options.once:
        import torch
        dim, causal = PROBLEMS[options.problems.split(",")[0]]
        with tempfile.TemporaryDirectory() as folder:
            call_of(module_of("nereid", folder), "nereid", VARIANTS[options.once], operands(4, 32, 4096, dim), causal)()
        return torch.cuda.synchronize()
    if options.measure:
        return measure(options.measure, json.loads(options.names), options.seconds)
    start = time.monotonic()
    for problem in options.problems.split(","):
        dim, causal = PROBLEMS[problem]
        right = []
        jobs = []
        for label in options.variants.split(","):
            name, *settings = label.split("@")
            setting = dict(each.split("=") for each in settings)
            command = [sys.executable, __file__, "--check", json.dumps([VARIANTS[name], dim, causal])]
            jobs.append((label, setting, VARIANTS[name],
                         subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **setting})))
        deadline = time.monotonic() + 25
        for label, setting, variant, process in jobs:
            try:
                out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
                found = json.loads(out.splitlines()[-1]) if process.returncode == 0 and out else {}
                note = ("right" if found["right"] else "WRONG") if found else (err.strip().splitlines() or ["?"])[-1][:200]
            except subprocess.TimeoutExpired:
                process.kill()
                found, note = {}, "it hangs"
            print(f"d={dim}{' causal' if causal else ''} {label}: {note}, error {found.get('worst')}", flush=True)
            if found.get("right"):
                right.append([label, setting, variant])
        text, error = child(__file__, ["--measure", problem, "--names", json.dumps(right), "--seconds", str(options.seconds)], 40)
        print((text or "") + (f"  {problem}: {error}" if error else ""), flush=True)
        if time.monotonic() - start > options.budget:
            print("out of time")
            break


if __name__ == "__main__":
    main()
