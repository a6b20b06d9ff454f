"""fla-core: linear attention by chunks and step by step, against the package's own references in plain PyTorch, with gradients."""

import importlib
import inspect

import torch
import torch.nn.functional as F

from host import CASES, case, gradients, rand, randint, randn, with_gradients

B, T, H, K, V = 1, 96, 2, 32, 32


def q(*shape):
    return randn(*(shape or (B, T, H, K)), grad=True)


def unit():
    return F.normalize(randn(B, T, H, K), dim=-1).requires_grad_()


def gate(*shape, scale=1.0):
    return (F.logsigmoid(randn(*(shape or (B, T, H)))) * scale).requires_grad_()


def beta():
    return rand(B, T, H, grad=True)


MAKERS = {"q": q, "k": q, "v": lambda: q(B, T, H, V), "g": gate, "beta": beta, "w": lambda: gate(B, T, H, K), "r": q,
          "gk": lambda: gate(B, T, H, K), "x": lambda: randn(B, T, 64, grad=True), "p": unit}


def pair(name, function, reference, tolerance=2e-3, gpu_tolerance=2e-2, rename=(), extra=(), heads_first=False, dtype=None, forward=False, **makers):
    """A case of `module:function` and its reference in the same words, whose shared parameters are made here. `heads_first`: the reference takes heads
    before time; `dtype`: what the kernels are given; `forward`: there are no gradients."""
    def run():
        left, right = (getattr(importlib.import_module(f"fla.{path.split(':')[0]}"), path.split(":")[1]) for path in (function, reference))
        names = [parameter for parameter in inspect.signature(right).parameters if parameter in {**MAKERS, **makers}]
        names = [parameter for parameter in names if parameter in inspect.signature(left).parameters or dict(rename).get(parameter)]
        values = [{**MAKERS, **makers}[parameter]() for parameter in names]
        if forward:
            values = [value.detach() for value in values]
        def call(function, words):
            swap = heads_first and function is right
            def run(*values):
                if swap:
                    values = [value.transpose(1, 2) if value.ndim > 2 else value for value in values]
                if dtype is not None and function is left:
                    values = [value.to(dtype) for value in values]
                answer = function(**dict(zip(words, values)), **{key: value for key, value in dict(extra).items() if key in inspect.signature(function).parameters})
                answer = answer[0] if isinstance(answer, tuple) else answer
                return (answer.transpose(1, 2) if swap else answer).float()
            return run
        return (with_gradients(call(left, [dict(rename).get(parameter, parameter) for parameter in names]), values), with_gradients(call(right, names), values))
    CASES.append((name, run, tolerance, gpu_tolerance))


wide = {"g": lambda: gate(B, T, H, K)}
pair("chunk_gla", "ops.gla:chunk_gla", "ops.gla.naive:naive_recurrent_gla", rename={"gk": "g"})
pair("fused_recurrent_gla", "ops.gla:fused_recurrent_gla", "ops.gla.naive:naive_recurrent_gla")
pair("chunk_linear_attn", "ops.linear_attn:chunk_linear_attn", "ops.linear_attn.naive:naive_recurrent_linear_attn", extra={"normalize": False})
pair("fused_chunk_linear_attn", "ops.linear_attn:fused_chunk_linear_attn", "ops.linear_attn.naive:naive_recurrent_linear_attn", extra={"normalize": False})
pair("fused_recurrent_linear_attn", "ops.linear_attn:fused_recurrent_linear_attn", "ops.linear_attn.naive:naive_recurrent_linear_attn", extra={"normalize": False})
pair("chunk_retention", "ops.retention:chunk_retention", "ops.retention.naive:naive_retention", heads_first=True)
pair("parallel_retention", "ops.retention:parallel_retention", "ops.retention.naive:naive_retention", heads_first=True)
pair("chunk_simple_gla", "ops.simple_gla:chunk_simple_gla", "ops.simple_gla.naive:naive_recurrent_simple_gla")
pair("chunk_delta_rule", "ops.delta_rule:chunk_delta_rule", "ops.delta_rule.naive:delta_rule_recurrence", k=unit, heads_first=True, dtype=torch.bfloat16, tolerance=3e-2,
     gpu_tolerance=3e-2)
pair("fused_recurrent_delta_rule", "ops.delta_rule:fused_recurrent_delta_rule", "ops.delta_rule.naive:delta_rule_recurrence", k=unit, heads_first=True)
pair("chunk_gated_delta_rule", "ops.gated_delta_rule:chunk_gated_delta_rule", "ops.gated_delta_rule.naive:naive_recurrent_gated_delta_rule", k=unit)
pair("fused_recurrent_gated_delta_rule", "ops.gated_delta_rule:fused_recurrent_gated_delta_rule", "ops.gated_delta_rule.naive:naive_recurrent_gated_delta_rule",
     k=unit, forward=True)
pair("chunk_kda", "ops.kda:chunk_kda", "ops.kda.naive:naive_recurrent_kda", k=unit, **wide)
pair("chunk_gdn2", "ops.gdn2:chunk_gdn2", "ops.gdn2.naive:naive_recurrent_gdn2", k=unit, b=lambda: rand(B, T, H, K, grad=True), w=lambda: rand(B, T, H, V, grad=True), **wide)
pair("chunk_comba", "ops.comba:chunk_comba", "ops.comba.naive:naive_chunk_comba", k=unit, extra={"chunk_size": 32})
pair("chunk_hgrn", "ops.hgrn:chunk_hgrn", "ops.hgrn.naive:naive_recurrent_hgrn", g=lambda: gate(B, T, 64))
pair("fused_recurrent_hgrn", "ops.hgrn:fused_recurrent_hgrn", "ops.hgrn.naive:naive_recurrent_hgrn", g=lambda: gate(B, T, 64))
pair("chunk_gsa", "ops.gsa:chunk_gsa", "ops.gsa.naive:naive_recurrent_gsa", s=lambda: q(B, T, H, 16), g=lambda: gate(B, T, H, 16))
pair("chunk_rwkv6", "ops.rwkv6:chunk_rwkv6", "ops.rwkv6.recurrent_naive:naive_recurrent_rwkv6", u=lambda: randn(H, K, grad=True), rename={"q": "r"}, heads_first=True,
     w=lambda: gate(B, T, H, K, scale=0.5))
pair("parallel_attn", "ops.attn.parallel:parallel_attn", "ops.attn.naive:naive_parallel_attn", extra={"scale": 0.2})
pair("parallel_forgetting_attn", "ops.forgetting_attn:parallel_forgetting_attn", "ops.forgetting_attn.naive:naive_forgetting_attn")
pair("parallel_path_attn", "ops.path_attn:parallel_path_attn", "ops.path_attn.naive:naive_path_attn", w=unit, tolerance=2e-2, extra={"scale": 0.2})
pair("parallel_based", "ops.based:parallel_based", "ops.based.naive:naive_parallel_based", q=lambda: q(B, T, H, 16), k=lambda: q(B, T, H, 16), tolerance=1e-2, heads_first=True)
pair("stickbreaking_attn", "ops.stickbreaking_attn:parallel_stickbreaking_attn", "ops.stickbreaking_attn.naive:naive_stickbreaking_attn", extra={"scale": 0.2})
pair("chunk_mesa_net", "ops.mesa_net:chunk_mesa_net", "ops.mesa_net.naive:naive_mesa_net_exact", k=unit, lamb=lambda: (0.25 + rand(H, K)).requires_grad_(), tolerance=2e-2)
pair("chunk_log_linear_attn", "ops.log_linear_attn:chunk_log_linear_attn", "ops.log_linear_attn.naive:naive_log_linear_attn", level_scales=lambda: rand(B, 128, H, 8),
     tolerance=1e-2, q=lambda: randn(B, 128, 1, 64), k=lambda: randn(B, 128, 1, 64), v=lambda: randn(B, 128, H, 64), g=lambda: gate(B, 128, H), forward=True)


def module(path):
    return importlib.import_module("fla." + path)


@case(1e-4)
def cumsum():
    x = randn(2, 100, 3, 16)
    parts = [part.cumsum(1) for part in x.split(64, 1)]
    utils = module("ops.utils")
    return ((utils.chunk_local_cumsum(x, 64), utils.chunk_local_cumsum(x, 64, reverse=True), utils.chunk_global_cumsum(x)),
            (torch.cat(parts, 1), torch.cat([part.flip(1).cumsum(1).flip(1) for part in x.split(64, 1)], 1), x.cumsum(1)))


@case(1e-4)
def solve_tril():
    lower = (randn(1, 128, 2, 64) * 0.1)
    rows = torch.arange(128, device=lower.device) % 64
    lower = lower * (rows[:, None] > torch.arange(64, device=lower.device))[None, :, None]
    blocks = lower.permute(0, 2, 1, 3).reshape(1, 2, 2, 64, 64)
    inverse = torch.linalg.inv(blocks + torch.eye(64, device=lower.device))
    return module("ops.utils.solve_tril").solve_tril(lower), inverse.reshape(1, 2, 128, 64).permute(0, 2, 1, 3)


gradients("l2norm", lambda x: module("modules.l2norm").l2norm(x), lambda x: F.normalize(x, dim=-1), lambda: (randn(4, 40, 64, grad=True),), tolerance=1e-3)
gradients("layer_norm", lambda x, w, b: module("modules.layernorm").layer_norm(x, w, b, eps=1e-5), lambda x, w, b: F.layer_norm(x, (64,), w, b, 1e-5),
          lambda: (randn(4, 40, 64, grad=True), randn(64, grad=True), randn(64, grad=True)), tolerance=1e-4)
gradients("rms_norm_gated", lambda x, g, w: module("modules.fused_norm_gate").rms_norm_gated(x, g, w, None),
          lambda x, g, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w * F.silu(g), lambda: (randn(4, 40, 64, grad=True), randn(4, 40, 64, grad=True), randn(64, grad=True)), tolerance=1e-4)
gradients("logsigmoid", lambda x: module("modules.activations").logsigmoid(x), F.logsigmoid, lambda: (randn(3, 500, grad=True),), tolerance=1e-4)
gradients("swiglu", lambda x, y: module("modules.activations").swiglu(x, y), lambda x, y: F.silu(x) * y, lambda: (randn(3, 500, grad=True), randn(3, 500, grad=True)), tolerance=1e-4)
gradients("swish", lambda x: module("modules.activations").swish(x), F.silu, lambda: (randn(3, 500, grad=True),), tolerance=1e-4)
gradients("cross_entropy", lambda x, t: module("modules.fused_cross_entropy").cross_entropy_loss(x, t)[0], lambda x, t: F.cross_entropy(x, t, reduction="none"),
          lambda: (randn(9, 500, grad=True), randint(0, 500, 9)), tolerance=1e-4)
gradients("causal_conv1d", lambda x, w, b: module("modules.conv.causal_conv1d").causal_conv1d(x, w, b, activation="silu", backend="triton")[0],
          lambda x, w, b: F.silu(F.conv1d(F.pad(x.transpose(1, 2), (3, 0)), w[:, None], b, groups=64).transpose(1, 2)),
          lambda: (randn(2, 50, 64, grad=True), randn(64, 4, grad=True), randn(64, grad=True)), tolerance=1e-4)


@case(1e-4)
def rotary():
    x, angle = randn(2, 20, 4, 32, grad=True), randn(20, 16)
    cos, sin = angle.cos(), angle.sin()
    def reference(x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos[:, None] - b * sin[:, None], a * sin[:, None] + b * cos[:, None]], -1)
    return with_gradients(lambda x: module("modules.rotary").rotary_embedding(x, cos, sin), (x,)), with_gradients(reference, (x,))


@case(1e-5)
def token_shift():
    x = randn(2, 30, 64, grad=True)
    return (with_gradients(lambda x: module("modules.token_shift").token_shift(x), (x,)), with_gradients(lambda x: F.pad(x, (0, 0, 1, -1)) - x, (x,)))
