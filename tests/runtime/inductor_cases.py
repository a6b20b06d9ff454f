"""Programs for `torch.compile` with Nereid as its Triton, compared with eager PyTorch; run by test_torch_compile.py, or as

    python inductor_cases.py [cpu|cuda] [--static] [--workers N] [case ...]

prints one line a case: its name and "ok" or what is wrong. `--static`: PyTorch's own launcher of cubins is used, and where it cannot be that
is an error. `--workers`: compile in so many child processes; `--workers 0`: everything as PyTorch has it by default, in its children and with its
own launcher of cubins. The last line counts, as JSON, what PyTorch's caches answered and the kernels that workers compiled.
"""

import argparse
import json
import sys

import nereid.torch

nereid.torch.use()

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


def _rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class _Decoder(torch.nn.Module):
    """A layer of a small Llama: 4 heads of 16, rotary positions, a gated perceptron."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(64, eps=1e-5) for _ in range(2))
        self.query, self.key, self.value, self.out = (torch.nn.Linear(64, 64, bias=False) for _ in range(4))
        self.gate, self.up = (torch.nn.Linear(64, 96, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(96, 64, bias=False)

    def forward(self, x, cos, sin):
        y = self.norms[0](x)
        q, k, v = (layer(y).unflatten(-1, (4, 16)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(_rotated(q, cos, sin), _rotated(k, cos, sin), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class _Llama(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(100, 64), torch.nn.Linear(64, 100, bias=False)
        self.layers, self.norm = torch.nn.ModuleList([_Decoder()]), torch.nn.RMSNorm(64, eps=1e-5)

    def forward(self, tokens):
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] / 10000**(torch.arange(8, device=tokens.device) / 8)
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return self.head(self.norm(x))


@case(lambda: (torch.randint(0, 100, (2, 24)), _Llama()), 1e-3)
def llama(tokens, model):
    model.zero_grad()
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


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
    options = parser.parse_intermixed_args()
    import torch._inductor.config as config
    nereid.torch.use(cpu=True)
    if options.workers:
        config.compile_threads = options.workers
        config.use_static_triton_launcher = options.static
    if options.static:
        config.strict_static_triton_launcher = True
    if options.workers != 1:  # otherwise what is compiled before the pool has started is compiled in this process
        from torch._inductor.async_compile import AsyncCompile
        AsyncCompile.wait_pool_ready()
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
    from torch._dynamo.utils import counters
    counts = {name: counters["inductor"][name] for name in ("fxgraph_cache_hit", "fxgraph_cache_miss", "triton_bundler_save_kernel",
                                                            "triton_bundler_load_static_autotuner")}
    pool = config.compile_threads > 1 and AsyncCompile._ready_future is not None and AsyncCompile._ready_future.done()
    print("counts", json.dumps({**counts, "workers": config.compile_threads if pool else 0}))
    sys.exit(failed)


if __name__ == "__main__":
    main()
