"""Ways to compile programs of PyTorch with Nereid: shapes that change, exported programs, packages for C++, tuned templates, attention with functions of the
user. Run by test_inductor_programs.py, or as

    python inductor_programs.py [cpu|cuda] [program ...]

prints one line a program: its name and "ok", "not here: REASON" where PyTorch itself cannot do it on the device, or what is wrong.
"""

import io
import sys
import tempfile

import nereid.torch

nereid.torch.use(cpu=True)

import torch  # noqa: E402
import torch._inductor.config as config  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from torch._inductor import metrics  # noqa: E402
from torch._inductor.utils import run_and_get_code  # noqa: E402
from torch.library import triton_op, wrap_triton  # noqa: E402

PROGRAMS = {}


class NotHere(Exception):
    """PyTorch cannot do it on this device, with whatever Triton."""


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def close(got, want, tolerance=1e-4):
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


@triton.jit
def _axpy(x_ptr, y_ptr, out_ptr, n, a, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * a + tl.load(y_ptr + offsets, mask=mask), mask=mask)


_tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])(_axpy)


def _grid(x):
    return lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]), )


@triton_op("programs::axpy", mutates_args={})
def axpy(x: torch.Tensor, y: torch.Tensor, a: float) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(_axpy)[_grid(x)](x, y, out, x.numel(), a, BLOCK=128)
    return out


@triton_op("programs::tuned_axpy", mutates_args={})
def tuned_axpy(x: torch.Tensor, y: torch.Tensor, a: float) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(_tuned)[_grid(x)](x, y, out, x.numel(), a)
    return out


class Model(torch.nn.Module):
    """A layer with an operator of the user in it."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 32)

    def forward(self, x):
        y = torch.relu(self.layer(x))
        return torch.softmax(axpy(y, y.sin(), 1.5), -1)


@program
def dynamic_shapes(device):
    """One graph for all shapes."""

    def function(x, y):
        return torch.softmax(x * y + 1, -1).sum(0), (x - y).amax(1)

    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for n in (5, 17, 64, 100):
        x, y = torch.randn(n, 3 * n, device=device), torch.randn(n, 3 * n, device=device)
        close(compiled(x, y), function(x, y))
    assert counters["stats"]["unique_graphs"] == 1 and metrics.generated_kernel_count > 0


@program
def shapes_that_change(device):
    """PyTorch's default: the second shape makes the graph dynamic."""
    compiled = torch.compile(lambda x: torch.softmax(x.exp(), -1) * 2)
    for n in (8, 24, 100, 65):
        x = torch.rand(n, 40, device=device)
        close(compiled(x), torch.softmax(x.exp(), -1) * 2)
    assert counters["stats"]["unique_graphs"] == 2


@program
def kernels_on_dynamic_shapes(device):

    def function(x, y):
        out = torch.empty_like(x)
        _axpy[_grid(x)](x, y, out, x.numel(), 2.5, BLOCK=128)
        return out.sin() + tuned_axpy(x, out, 0.5)

    compiled = torch.compile(function, dynamic=True, fullgraph=True)
    for n in (5, 170, 1000):
        x, y = torch.randn(n, device=device), torch.randn(n, device=device)
        close(compiled(x, y), torch.sin(2.5 * x + y) + 3 * x + y)


@program
def operators_pass_pytorchs_check(device):
    """`opcheck`: schema, fake tensors, what is written, under AOT compilation with dynamic shapes."""
    arguments = torch.randn(100, device=device), torch.randn(100, device=device), 2.0
    for operator in (axpy, tuned_axpy):
        torch.library.opcheck(operator, arguments)


@program
def exported(device):
    """`torch.export` of a model with an operator of the user, with a size that stays open; then compiled."""
    model = Model().to(device)
    with torch.no_grad():
        given = torch.export.export(model, (torch.randn(7, 64, device=device), ), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)}, ))
        assert any(node.target is torch.ops.programs.axpy.default for node in given.graph.nodes)
        compiled = torch.compile(given.module())
        for rows in (7, 20):
            x = torch.randn(rows, 64, device=device)
            close(compiled(x), model(x))


@program
def exported_to_a_file(device):
    """The program is decomposed to its kernels, saved, loaded and compiled."""
    model, x, file = Model().to(device), torch.randn(7, 64, device=device), io.BytesIO()
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (x, )), file)
        file.seek(0)
        close(torch.compile(torch.export.load(file).module())(x), model(x))


@program
def package(device):
    """AOTInductor: a package of C++ and kernels, loaded and run without the compiler. On CPUs PyTorch makes kernels of the user part of it; what it writes
    itself has to be C++."""
    if device == "cpu" and int(torch.__version__.split(".")[1]) < 13:
        raise NotHere("PyTorch puts kernels for the CPU into packages from 2.13 on")
    if device == "cuda" and torch.__version__.startswith("2.11."):
        raise NotHere("the package's loader in Python ends with a segmentation fault in PyTorch 2.11, with Triton's kernels as well; the loader of C++ runs it")
    settings = {"cpu_backend": "cpp", "_use_fp64_for_unbacked_floats": False} if device == "cpu" else {}
    model, x = Model().to(device).eval(), torch.randn(7, 64, device=device)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder, config.patch(settings):
        given = torch.export.export(model, (x, ), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)}, ))
        path = torch._inductor.aoti_compile_and_package(given, package_path=f"{folder}/model.pt2")
        run = torch._inductor.aoti_load_package(path)
        for rows in (7, 20):
            x = torch.randn(rows, 64, device=device)
            close(run(x), model(x))


def _products(device, compiled, function):
    arguments = [torch.randn(size, device=device) / 8 for size in ((64, 96), (96, 128), (128, ))]
    got, (code, *_) = run_and_get_code(compiled, *arguments)
    close(got, function(*arguments), 2e-3)
    return code


def _layer(a, b, bias):
    return torch.relu(torch.addmm(bias, a, b))


@program
def tuned_templates(device):
    """Products from PyTorch's templates for Triton, measured against one another, and nothing else to choose."""
    # On CPUs PyTorch 2.13 writes a benchmark of a fused kernel that Python cannot parse.
    with config.patch(max_autotune_gemm=True, max_autotune_gemm_backends="TRITON", benchmark_epilogue_fusion=device != "cpu"):
        code = _products(device, torch.compile(_layer), _layer)
    assert "triton_tem_fused" in code, "no template was used"


@program
def max_autotune(device):
    """The mode: templates against ATen's products, coordinate descent, graphs."""
    with config.patch(benchmark_epilogue_fusion=device != "cpu"):
        _products(device, torch.compile(_layer, mode="max-autotune"), _layer)
    assert counters["inductor"]["select_algorithm_autotune"] > 0


@program
def reduce_overhead(device):
    """CUDA graphs; on the CPU the mode has no effect."""
    compiled = torch.compile(lambda x: torch.softmax(x.sin(), -1) * 2, mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn(64, 96, device=device)
        torch.compiler.cudagraph_mark_step_begin()
        close(compiled(x), torch.softmax(x.sin(), -1) * 2)


@program
def flex_attention(device):
    """A changed score, a mask in blocks, grouped heads; gradients."""
    if device == "cpu":
        raise NotHere("PyTorch computes flex_attention on CPUs by a template in C++, and has none for Triton")
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    shapes = ((2, 4, 256, 64), (2, 2, 256, 64), (2, 2, 256, 64))
    inputs = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]

    def score(value, batch, head, i, j):
        return value + (j - i) * 0.01 * (head + 1)

    mask = create_block_mask(lambda batch, head, i, j: (i >= j) & (i - j < 100), None, None, 256, 256, device=device)
    results = []
    for function in (flex_attention, torch.compile(flex_attention)):
        out = function(*inputs, score_mod=score, block_mask=mask, enable_gqa=True)
        results.append((out, *torch.autograd.grad(out.sin().sum(), inputs)))
    close(results[1], results[0], 5e-3)


def main(device="cpu", *names):
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    failed = False
    for name in names or PROGRAMS:
        torch.manual_seed(0)
        torch._dynamo.reset()
        counters.clear()
        metrics.reset()
        try:
            PROGRAMS[name](device)
            print(name, "ok", flush=True)
        except NotHere as reason:
            print(name, "not here:", reason, flush=True)
        except Exception as error:
            failed = True
            print(name, f"{type(error).__name__}: {error}".replace("\n", " | ")[-3000:], flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])
