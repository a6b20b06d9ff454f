"""The kernels of attention through tensor descriptors (`can_copy` in nereid/ops/attention.py): their numbers, computed on the CPU, where descriptors become pointers, and their code for sm_90a, which
is divided between warps that copy and warps that compute."""

import importlib.util
import pathlib
import re
import struct
import subprocess

import nereid
import nereid.language as tl
import pytest
import torch
from nereid.backends.compiler import GPUTarget
from simulator import TOOL, launch_options, needs_simulator

from nereid.ops import _launch, attention
from nereid.ops.attention import Rules, Tiles

_spec = importlib.util.spec_from_file_location("assemble_ptx", pathlib.Path(__file__).resolve().parents[2] / "scripts" / "assemble_ptx.py")
assemble_ptx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(assemble_ptx)
PTXAS = assemble_ptx.find_ptxas()


def expected(q, k, v, g, scale, rules):
    """Result, log-sum-exp and gradients in float64; 0 and -inf for queries without keys."""
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).transpose(-1, -2) * scale
    places = torch.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2] if rules.end else 0)
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
    if rules.right is not None:
        seen &= torch.arange(k.shape[2])[None] <= places + rules.right
    if rules.left is not None:
        seen &= torch.arange(k.shape[2])[None] >= places - rules.left
    scores = scores.masked_fill(~seen, float("-inf"))
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0)[..., None])
    out = weights @ v.repeat_interleave(groups, 1)
    out.backward(g.double())
    return out.detach(), lse.detach(), q.grad, k.grad, v.grad


@pytest.fixture
def copied(monkeypatch):
    """CPUs take the kernels through descriptors, with small tiles."""
    monkeypatch.setattr(attention, "can_copy", lambda *_: True)
    monkeypatch.setattr(attention, "computation", lambda *args, original=attention.computation: original(*args) | {"OPERAND": tl.float16})
    monkeypatch.setattr(attention, "forward_tiles", lambda *_: Tiles(32, 16))
    monkeypatch.setattr(attention, "copied_backward_tiles", lambda *_: (Tiles(16, 32), Tiles(32, 16)))


@pytest.mark.parametrize("threshold, deterministic", [(0, False), (8, True)])
@pytest.mark.parametrize("heads, key_heads, length, keys, rules, size", [
    (2, 2, 64, 64, Rules(), 1),
    (2, 1, 64, 96, Rules(right=0, end=True), 1),
    (4, 2, 51, 70, Rules(right=0, end=True), 1),
    (2, 2, 70, 33, Rules(right=0, end=True), 1),
    (2, 2, 70, 33, Rules(right=0), 30),
    (2, 1, 65, 77, Rules(left=20, right=3), 1),
    (2, 2, 90, 77, Rules(left=9), 30),
    (1, 1, 33, 17, Rules(), 1),
], ids=str)
def test_numbers(heads, key_heads, length, keys, rules, size, threshold, deterministic, copied, monkeypatch):
    """Lengths that divide by no tile, fewer heads of keys, masks with rows that see nothing, large scores, references that grow by less and by more than the threshold."""
    launched, original = [], attention.launch

    def launch(kernel, grid, device, arguments, constants, *given, **named):
        launched.append(kernel.__name__)
        if "THRESHOLD" in constants:
            constants = constants | {"THRESHOLD": threshold}
        original(kernel, grid, device, arguments, constants, *given, **named)

    monkeypatch.setattr(attention, "launch", launch)
    generator = torch.Generator().manual_seed(length)
    random = lambda *shape: torch.randn(2, *shape, 64, generator=generator).half()
    q, k, v, g = random(heads, length) * size**0.5, random(key_heads, keys) * size**0.5, random(key_heads, keys), random(heads, length)
    k *= torch.linspace(0.2, 2, keys)[:, None].half()
    out, lse, grads = torch.full_like(q, float("nan")), torch.full(q.shape[:3], float("nan")), [torch.full_like(x, float("nan")) for x in (q, k, v)]
    attention.attend(out, lse, q, k, v, None, 0.125, rules, float("-inf"))
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: deterministic)
    attention.differentiate(grads, g, q, k, v, None, out, lse, 0.125, rules)
    assert launched == ["forward", "correlation", "backward_copied", "backward_query_copied" if deterministic else "scaled_gradient"]
    for got, want, bound in zip((out, lse, *grads), expected(q, k, v, g, 0.125, rules), (1e-3, 1e-5, 4e-3, 4e-3, 2e-3)):
        finite = torch.isfinite(want)
        assert torch.equal(got.double()[~finite], want[~finite])
        assert (got.double() - want)[finite].norm() <= bound * want[finite].norm()


class Device:
    """What the host side asks of a device."""
    type, index = "cuda", 0


@pytest.fixture
def compiled(monkeypatch):
    """What is launched is compiled for sm_90 instead: {name of the kernel: its code}."""
    found = {}

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        kinds = {name: _launch._type(value, integers.get(name, "i64")) for name, value in arguments.items()}
        multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
        found[kernel.__name__] = _launch.compile_kernel(kernel, device, kinds, constants, True, multiples, **options).asm

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    monkeypatch.setattr(attention, "launch", launch)
    monkeypatch.setattr(attention, "divides_warps", lambda device: True)
    for name in ("can_copy", "forward_tiles", "backward_tiles", "head_width"):
        monkeypatch.setattr(attention, name, lambda device, *args, original=getattr(attention, name): original(Device, *args))
    monkeypatch.setattr(attention, "computation", lambda query, device, original=attention.computation: original(query, Device))
    return found


@pytest.mark.skipif(not PTXAS, reason="assembles with ptxas, which requirements-dev.txt installs")
@pytest.mark.parametrize("causal, deterministic", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("size", [64, 128, 256])
def test_code(size, causal, deterministic, compiled, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: deterministic)
    q, k, sums = torch.empty(2, 8, 1000, size, dtype=torch.float16), torch.empty(2, 2, 1000, size, dtype=torch.float16), torch.empty(2, 8, 1000)
    rules = Rules(right=0 if causal else None)
    attention.attend(q, sums, q, k, k, None, 0.1, rules)
    attention.differentiate([q, k, k], q, q, k, k, None, q, sums, 0.1, rules)
    names = ["backward_copied", "backward_query_copied" if deterministic or size == 256 else "scaled_gradient"]
    assert list(compiled) == ["forward", "correlation", *names]
    for name in ("forward", *names):
        asm = compiled[name]
        is_copied = name == "forward" or name.endswith("copied")
        assert ("cp.async.bulk.tensor" in asm["ptx"]) == is_copied and ("ngpu.warp_specialize" in asm["gpu"]) == is_copied, name
        if not is_copied:
            continue
        (tmp_path / "kernel.ptx").write_text(asm["ptx"])
        log = subprocess.run([PTXAS, "-v", "-arch=sm_90a", tmp_path / "kernel.ptx", "-o", tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True).stderr
        assert int(re.search(r"(\d+) bytes spill stores", log).group(1)) <= 128 and not re.search("C75|Potential|warning", log), (name, log)


def leaves(name, value):
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from leaves(f"{name}[{i}]", item)
    elif value is not None:
        yield name, value


def compiled_for_gpu(kernel, arguments, constants, integers, divisible, options, monkeypatch):
    kinds = {name: _launch._type(value, integers.get(name, "i64")) for name, value in arguments.items()}
    multiples = {name: _launch._multiples(arguments[name]) for name in divisible}
    with monkeypatch.context() as patch:
        patch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
        return _launch.compile_kernel(kernel, Device, kinds, constants, True, multiples, **options)


def simulate(code, grid, arguments, folder, *options):
    """Runs IR of a kernel on simulated threads, which write to the tensors among the arguments."""
    (folder / "kernel.mlir").write_text(code)
    words, files = [], {}
    for name, value in (leaf for argument in arguments.items() for leaf in leaves(*argument)):
        if isinstance(value, torch.Tensor):
            path = folder / name
            files[path] = value
            path.write_bytes(value.view(torch.uint8).numpy().tobytes())
            words.append(f"{name}={path}:0")
        else:
            words.append(f"{name}={struct.unpack('<Q', struct.pack('<d', value))[0] if isinstance(value, float) else int(value) & (1 << 64) - 1}")
    done = subprocess.run([TOOL, folder / "kernel.mlir", f"--grid={grid}", *options, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for path, value in files.items():
        value.view(torch.uint8).view(-1).copy_(torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8))


@needs_simulator
@pytest.mark.parametrize("size, causal, maxima, keys, growth", [(128, True, "never", 140, 1), (64, True, "divided", 140, 1), (128, False, "divided", 396, 40), (64, False, "divided", 140, 1)])
def test_programs_in_turn_on_simulated_threads(size, causal, maxima, keys, growth, monkeypatch, tmp_path):
    """The forward kernel for sm_90 with its tiles, two blocks of which compute all programs: two heads of queries for one of keys, lengths that divide by no tile. growth: of scores from the first
    key to the last, so that some rows get new references in later tiles."""
    q, k, v = (torch.randn(1, heads, tokens, size, generator=torch.Generator().manual_seed(tokens)).half() for heads, tokens in ((2, 200), (1, keys), (1, keys)))
    k *= torch.linspace(1, growth, keys)[:, None].half()
    rules, launched = Rules(right=0 if causal else None, end=True), []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        code = compiled_for_gpu(kernel, arguments, constants, integers, divisible, options, monkeypatch)
        assert code.metadata.persistent
        simulate(code.asm["gpu"], grid, arguments, tmp_path, *launch_options(code, tmp_path))
        launched.append(grid)

    monkeypatch.setattr(nereid.knobs.nereid, "persistent_attention", "always")
    monkeypatch.setattr(nereid.knobs.nereid, "skip_maxima", maxima)
    monkeypatch.setattr(attention, "launch", launch)
    monkeypatch.setattr(attention, "can_copy", lambda *_: True)
    monkeypatch.setattr(attention, "computation", lambda *args, original=attention.computation: original(*args) | {"OPERAND": tl.float16})
    out, lse = torch.full_like(q, float("nan")), torch.full(q.shape[:3], float("nan"))
    attention.attend(out, lse, q, k, v, None, size**-0.5, rules, float("-inf"))
    assert launched == [2 if size == 64 and not causal else 4]
    for got, want, bound in zip((out, lse), expected(q, k, v, torch.zeros_like(q), size**-0.5, rules), (1e-3, 1e-5)):
        finite = torch.isfinite(want)
        assert torch.equal(got.double()[~finite], want[~finite])
        assert (got.double() - want)[finite].norm() <= bound * want[finite].norm()


@needs_simulator
@pytest.mark.parametrize("size, causal, one_pass", [(64, False, True), (128, True, True), (128, False, False), (256, True, False)])
def test_numbers_on_simulated_threads(size, causal, one_pass, monkeypatch, tmp_path):
    """The code for sm_90 with its tiles, on simulated threads and a simulated copy engine (tests/unit/nvidia/Simulate.cpp): two heads of queries for one of keys, lengths that divide by no tile."""
    original, launched = attention.launch, []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        if "copied" not in kernel.__name__:
            return original(kernel, grid, device, arguments, constants, integers, divisible, **options)
        asm = compiled_for_gpu(kernel, arguments, constants, integers, divisible, options, monkeypatch).asm
        assert "ngpu.warp_specialize" in asm["gpu"]
        simulate(asm["tile"], grid, arguments, tmp_path, "--tile", f"--warps={options['num_warps']}", f"--stages={options['num_stages']}")
        launched.append(kernel.__name__)

    monkeypatch.setattr(attention, "launch", launch)
    monkeypatch.setattr(attention, "can_copy", lambda *_: True)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: not one_pass)
    monkeypatch.setattr(attention, "computation", lambda *args, original=attention.computation: original(*args) | {"OPERAND": tl.float16})
    generator = torch.Generator().manual_seed(size)
    random = lambda *shape: torch.randn(1, *shape, size, generator=generator).half()
    q, k, v, g = random(2, 150), random(1, 140), random(1, 140), random(2, 150)
    rules = Rules(right=0 if causal else None, end=True)
    out, lse, *want = expected(q, k, v, g, size**-0.5, rules)
    grads = [torch.full_like(x, float("nan")) for x in (q, k, v)]
    attention.differentiate(grads, g, q, k, v, None, out.half(), lse.float(), size**-0.5, rules)
    assert launched == ["backward_copied"] + ["backward_query_copied"] * (not one_pass)
    for got, right in zip(grads, want):
        assert (got.double() - right).norm() <= 1e-3 * right.norm()


def test_what_is_copied(monkeypatch):
    monkeypatch.setattr(attention, "divides_warps", lambda device: True)
    make = lambda *shape, dtype=torch.float16: torch.empty(*shape, dtype=dtype)
    q = make(2, 8, 1000, 64)
    can = lambda *tensors: attention.can_copy(Device, *tensors)
    assert can(q, q, q, q) and can(make(2, 1000, 8, 64).transpose(1, 2), q, q)
    assert not can(make(2, 8, 64, 64), q, q)  # decoding
    assert not can(make(2, 8, 1000, 80), *[make(2, 8, 1000, 80)] * 2) and not can(q, q, make(2, 8, 1000, 128))
    assert not can(q.float(), q.float(), q.float()) and not can(q[:1].expand(4, -1, -1, -1), q, q)
    assert not can(make(2, 8, 1000, 72)[..., :64], q, q)
    monkeypatch.setattr(attention, "divides_warps", lambda device: False)
    assert not can(q, q, q)
