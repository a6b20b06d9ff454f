"""`enable(verify=True)`: each call runs on ATen's kernel as well, and differences are counted."""

import collections
import dataclasses
import threading
import warnings

import torch

#: Tolerated difference over the largest magnitude of ATen's result. Results of other dtypes must be equal.
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 2e-2}


@dataclasses.dataclass
class Difference:
    """The differences of an overload: the number of calls whose results differed, and the largest difference over the largest magnitude of all calls."""
    calls: int = 0
    error: float = 0.0


class Verifier:
    """found: {(overload, key): Difference}. Safe for threads."""

    def __init__(self):
        self.found = collections.defaultdict(Difference)
        self._lock = threading.Lock()

    def run(self, form, key, theirs, args, kwargs, ours, native):
        """Runs `ours()`, and `theirs(args, kwargs)` on copies of what is written, compares, and returns what ours did. native: makes a `with` block in which all
        calls are ATen's."""
        if torch.Tag.nondeterministic_seeded in form.overload.tags:
            return ours()
        with native():
            args, kwargs = copied(form, args, kwargs)
        result = ours()
        wanted = theirs(args, kwargs)
        with native():
            self._note(form.name, key, list(_tensors(result)), list(_tensors(wanted)))
        return result

    def _note(self, name, key, got, wanted):
        errors = [error_of(mine, its) for mine, its in zip(got, wanted)]
        worst = max(errors, default=0.0)
        different = len(got) != len(wanted) or any(error > TOLERANCES.get(its.dtype, 0.0) for error, its in zip(errors, wanted))
        with self._lock:
            found = self.found[name, key]
            found.error = max(found.error, worst)
            found.calls += different
            first = different and found.calls == 1
        if first:
            shapes = ", ".join(f"{tuple(its.shape)} {str(its.dtype)[6:]}" for its in wanted)
            warnings.warn(f"nereid.ops: {name} differs from ATen's result ({shapes}): the largest difference is {worst:.3g} of the largest magnitude", RuntimeWarning, stacklevel=4)


def copied(form, args, kwargs):
    """The arguments of a call with copies of what it writes."""
    written = {argument.name: argument.alias_info is not None and argument.alias_info.is_write for argument in form.overload._schema.arguments}
    return [_copy(value) if written[name] else value for name, value in zip(written, args)], \
        {name: _copy(value) if written[name] else value for name, value in kwargs.items()}


def _copy(value):
    """A copy with the same strides and overlaps."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage().clone()
        return torch.empty(0, dtype=value.dtype, device=value.device).set_(storage, value.storage_offset(), value.shape, value.stride())
    return [_copy(item) for item in value] if isinstance(value, (list, tuple)) else value


def _tensors(value):
    for item in value if isinstance(value, (list, tuple)) else (value, ):
        if isinstance(item, torch.Tensor):
            yield item


def error_of(got, wanted):
    """The largest difference of two tensors over the largest finite magnitude of `wanted`; inf where dtypes, shapes, NaN or infinities differ."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return float("inf")
    if not wanted.numel():
        return 0.0
    if not wanted.dtype.is_floating_point:
        return 0.0 if bool((got == wanted).all()) else float("inf")
    a, b = got.double(), wanted.double()
    finite = torch.isfinite(b)
    if not bool(torch.where(finite, torch.isfinite(a), (a == b) | (torch.isnan(a) & torch.isnan(b))).all()):
        return float("inf")
    a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
    return ((a - b).abs().max() / b.abs().max().clamp(min=torch.finfo(wanted.dtype).tiny)).item()
