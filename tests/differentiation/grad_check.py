"""What the tests of gradients share: <v, J u> = <J^T v, u>, the two sides by reverse and by forward mode."""

import jvp_check
import nereid
import torch


def gradients(kernel, grid, arguments, wrt, out, given, **options):
    """The gradients by name, of tensors that begin as NaN."""
    arguments = jvp_check._copied(arguments)
    found = {f"d{name}": torch.full_like(arguments[name], float("nan")) if isinstance(arguments[name], torch.Tensor) else torch.full((1, ), float("nan"))
             for name in wrt}
    nereid.grad(kernel, wrt, out).backward[grid](**arguments, **{f"d{name}": given[name].clone() for name in out}, **found, **options)
    return {name: found[f"d{name}"] for name in wrt}


def check(kernel, grid, arguments, wrt, out, rtol=1e-10, begin=float("nan"), reverse=None, must_be_finite=True, **options):
    """Random u and v; each gradient also against the columns of J, for one element of each input. Returns the gradients. `reverse`: another kernel whose
    gradients are checked, to see that bugs are found. `must_be_finite`: False for None, and no check, where an output of the kernel is no number."""
    directions = {name: jvp_check._direction(arguments[name]) for name in wrt}
    given = {name: jvp_check.random(*arguments[name].shape).to(arguments[name].dtype) for name in out}
    outputs, tangents = jvp_check.tangents(kernel, grid, arguments, wrt, out, directions, begin, **options)
    if not must_be_finite and not all(output.isfinite().all() for output in outputs.values()):
        return None
    found = gradients(reverse or kernel, grid, arguments, wrt, out, given, **options)

    def product(a, b):
        a = torch.as_tensor(a, dtype=torch.float64).reshape(-1)
        b = torch.as_tensor(b, dtype=torch.float64).reshape(-1)
        return float((a * b).nan_to_num(nan=0.0).sum()), float((a * b).nan_to_num(nan=0.0).abs().sum())

    left = [product(given[name], tangents[name]) for name in out]
    right = [product(found[name], directions[name]) for name in wrt]
    assert not any(torch.isnan(each).any() for each in found.values())
    scale = sum(size for _, size in left + right) + 1e-300
    assert abs(sum(v for v, _ in left) - sum(v for v, _ in right)) <= rtol * scale, (left, right)
    for name in wrt:  # not only their sum
        alone = {each: torch.zeros_like(directions[each]) if isinstance(directions[each], torch.Tensor) else 0.0 for each in wrt}
        if isinstance(directions[name], torch.Tensor):
            at = int(torch.randint(directions[name].numel(), (1, ), generator=jvp_check.GENERATOR))
            alone[name].view(-1)[at] = 1.0
        else:
            at, alone[name] = 0, 1.0
        _, column = jvp_check.tangents(kernel, grid, arguments, wrt, out, alone, begin, **options)
        parts = [product(given[each], column[each]) for each in out]
        expected, scale = sum(v for v, _ in parts), sum(s for _, s in parts)
        assert abs(float(found[name].view(-1)[at]) - expected) <= rtol * (scale + abs(expected)) + 1e-12, (name, at)
    return found
