"""Programs for `torch.compile` with Nereid as its Triton, compared with eager PyTorch; run by test_torch_compile.py, or as

    python inductor_cases.py [cpu|cuda] [--static] [--workers N] [case ...]

prints one line a case: its name and "ok" or what is wrong. `--static`: PyTorch's own launcher of cubins may be used. `--workers`: compile in
so many child processes.
"""

import argparse
import sys

import nereid

nereid.install_as_triton()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from torch.library import triton_op, wrap_triton  # noqa: E402

CASES = {}


def case(make_arguments, tolerance=1e-5):

    def add(function):
        CASES[function.__name__] = (function, make_arguments, tolerance)
        return function

    return add


def matrix():
    return torch.rand(37, 200) - 0.5


@case(lambda: (matrix(), torch.rand(200)))
def pointwise(x, y):
    return torch.sigmoid(x) * y + torch.where(x > 0, x.exp(), y.sqrt()), F.gelu(x) + torch.erf(x) + torch.tanh(x) + x.abs()**1.7


@case(lambda: (torch.randint(-100, 100, (50, )), ))
def integers(i):
    return i // 3, i % 5, i << 2, i.to(torch.int8), i.bool(), i.float().round()


@case(lambda: (matrix(), ))
def reductions(x):
    return x.sum(1), x.mean(0), x.amax(), x.argmax(1), torch.var_mean(x, 1), (x > 0).any(1)


@case(lambda: (matrix(), ))
def softmax(x):
    return torch.softmax(x, -1), torch.log_softmax(x, 0)


@case(lambda: (matrix(), torch.rand(200), torch.rand(200)), 1e-4)
def layer_norm_and_its_gradients(x, weight, bias):
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    F.layer_norm(torch.tanh(leaves[0]), (200, ), leaves[1], leaves[2]).square().sum().backward()
    return [leaf.grad for leaf in leaves]


@case(lambda: (torch.randint(0, 37, (11, )), matrix()))
def embedding(indices, table):
    return F.embedding(indices, table) * 2


@case(lambda: (matrix(), ), 1e-4)
def scan(x):
    return x.cumsum(1)


@case(lambda: (matrix(), ))
def views(x):
    return torch.cat([x, x * 2], 0)[:, 3:50].t().contiguous()


@case(lambda: (matrix(), ), 2e-2)
def bfloat16(x):
    return (x.bfloat16() * 2).sum(1)


@case(lambda: (torch.ones(10000), ))
def dropout(x):
    kept = F.dropout(x, 0.5, training=True)
    share = (kept > 0).float().mean()
    return (share - 0.5).abs() < 0.05, ((kept == 0) | (kept == 2)).all()


@case(lambda: (matrix(), torch.randn(64, 200) / 8, torch.randn(64), torch.randn(8, 64) / 4), 1e-4)
def perceptron(x, first, bias, second):
    return torch.log_softmax(F.linear(F.relu(F.linear(x, first, bias)), second), -1)


@case(lambda: [torch.randn(2, 4, 33, 64) for _ in range(3)], 1e-4)
def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / 8, -1) @ v


@triton.jit
def _scaled(value, factor):
    return value * factor


@triton.jit
def _axpy(x_ptr, y_ptr, out_ptr, n, a, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, _scaled(tl.load(x_ptr + offsets, mask=mask), a) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@case(lambda: (torch.randn(1000), torch.randn(1000)))
def kernel_of_the_user(x, y):
    out = torch.empty_like(x)
    _axpy[(triton.cdiv(x.numel(), 128), )](x, y, out, x.numel(), 2.5, BLOCK=128)
    return out.relu()


_tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])(_axpy)


@case(lambda: (torch.randn(1000), torch.randn(1000)))
def tuned_kernel_of_the_user(x, y):
    out = torch.empty_like(x)
    _tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]), )](x, y, out, x.numel(), 2.5)
    return out + 1


@triton_op("clients::plus", mutates_args={})
def _plus(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(_axpy)[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]), )](x, y, out, x.numel(), 1.0, BLOCK=128)
    return out


_plus.register_autograd(lambda context, gradient: (gradient * 2, _plus(gradient, gradient)))


@triton.jit
def _scale(x_ptr, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * factor, mask=offsets < n)


@triton_op("clients::scale_", mutates_args={"x"})
def _scale_(x: torch.Tensor, factor: float) -> None:
    wrap_triton(_scale)[(triton.cdiv(x.numel(), 64), )](x, factor, x.numel(), BLOCK=64)


@case(lambda: (torch.randn(1000), torch.randn(1000)))
def registered_operators(x, y):
    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
    z = _plus(a, b)
    (z.sin() * 3).sum().backward()
    changed = x * 2
    _scale_(changed, 3.0)
    return a.grad, b.grad, changed + x


class _Sum(torch.autograd.Function):

    @staticmethod
    def forward(context, x, y):
        out = torch.empty_like(x)
        _axpy[(triton.cdiv(x.numel(), 128), )](x, y, out, x.numel(), 1.0, BLOCK=128)
        return out

    @staticmethod
    def backward(context, gradient):
        out, gradient = torch.empty_like(gradient), gradient.contiguous()
        _axpy[(triton.cdiv(gradient.numel(), 128), )](gradient, gradient, out, gradient.numel(), 3.0, BLOCK=128)
        return out, gradient


@case(lambda: (torch.randn(1000), torch.randn(1000)))
def kernels_in_an_autograd_function(x, y):
    a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
    (_Sum.apply(a * 2, b).sin() * 3).sum().backward()
    return a.grad, b.grad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    import torch._inductor.config as config
    config.cpu_backend = "triton"
    config.compile_threads = options.workers
    config.use_static_triton_launcher = options.static
    if options.static:
        config.strict_static_triton_launcher = True
    failed = False
    for name in options.cases or CASES:
        function, make_arguments, tolerance = CASES[name]
        torch.manual_seed(0)
        arguments = [argument.to(options.device) for argument in make_arguments()]
        torch._dynamo.reset()
        try:
            want = function(*arguments)
            got = torch.compile(function)(*arguments)
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
            print(name, "ok", flush=True)
        except Exception as error:
            failed = True
            print(name, f"{type(error).__name__}: {error}".replace("\n", " | ")[-3000:], flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
