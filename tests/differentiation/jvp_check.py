"""What the tests of derivatives share: a kernel's tangents against central differences in fp64, and in lower precision against those of fp64.

Kernels are given with their arguments by name; tensors of floats that are named in `wrt` get random tangents.
"""

import functools

import nereid
import torch

GENERATOR = torch.Generator().manual_seed(18)


def random(*shape, dtype=torch.float64, low=None, high=None):
    """Normal numbers, or uniform ones between two bounds."""
    if low is None:
        return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64).to(dtype)
    return (torch.rand(*shape, generator=GENERATOR, dtype=torch.float64) * (high - low) + low).to(dtype)


def _direction(value):
    # A number is passed as fp32: one of few bits can be moved without rounding.
    return random(*value.shape).to(value.dtype) if isinstance(value, torch.Tensor) else round(16 * float(random(1)[0]) + 0.5) / 16


def _moved(value, direction, step):
    return value + step * direction


def _copied(arguments):
    return {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}


@functools.lru_cache(maxsize=8)
def _derivative(kernel, wrt, out):
    """One for all directions, which is compiled once."""
    return nereid.jvp(kernel, wrt=wrt, out=out)


def tangents(kernel, grid, arguments, wrt, out, directions, begin=float("nan"), **options):
    """The outputs of the derivative, and their tangents, by name; tangents that are not read begin as NaN, or as `begin`."""
    arguments = _copied(arguments)
    given = {}
    for name in dict.fromkeys((*wrt, *out)):
        if name in wrt:
            direction = directions[name]
            given[f"d{name}"] = direction.clone() if isinstance(direction, torch.Tensor) else direction
        else:
            given[f"d{name}"] = torch.full_like(arguments[name], begin)
    _derivative(kernel, tuple(wrt), tuple(out))[grid](**arguments, **given, **options)
    return {name: arguments[name] for name in out}, {name: given[f"d{name}"] for name in out}


def differences(kernel, grid, arguments, wrt, out, directions, step, **options):
    """Central differences of the outputs in these directions."""
    results = []
    for sign in (1, -1):
        moved = _copied(arguments)
        for name in wrt:
            moved[name] = _moved(moved[name], directions[name], sign * step)
        kernel[grid](**moved, **options)
        results.append({name: moved[name] for name in out})
    return {name: (results[0][name] - results[1][name]) / (2 * step) for name in out}


def check(kernel, grid, arguments, wrt, out, step=1e-6, rtol=1e-6, atol=1e-7, single=1e-4, untouched=(), **options):
    """Compares tangents with central differences in fp64, then those of fp32 with those of fp64 (`single`: to this tolerance; None: not at
    all). `untouched`: outputs that are written in part; the rest of their tangents stays NaN. Returns the tangents."""
    directions = {name: _direction(arguments[name]) for name in wrt}
    plain = _copied(arguments)
    kernel[grid](**plain, **options)
    outputs, found = tangents(kernel, grid, arguments, wrt, out, directions, **options)
    expected = differences(kernel, grid, arguments, wrt, out, directions, step, **options)
    for name in out:
        torch.testing.assert_close(outputs[name], plain[name], rtol=1e-12, atol=1e-12, equal_nan=True)
        written = ~torch.isnan(found[name]) if name in untouched else torch.ones_like(found[name], dtype=torch.bool)
        assert written.any()
        torch.testing.assert_close(found[name][written], expected[name][written], rtol=rtol, atol=atol)
    if single is not None:
        narrow = {name: value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else value
                  for name, value in arguments.items()}
        less = {name: value.float() if isinstance(value, torch.Tensor) else value for name, value in directions.items()}
        _, narrowed = tangents(kernel, grid, narrow, wrt, out, less, **options)
        for name in out:
            scale = float(found[name].nan_to_num().abs().max()) + 1e-30
            torch.testing.assert_close(narrowed[name].double() / scale, found[name] / scale, rtol=single, atol=single, equal_nan=name in untouched)
    return found
