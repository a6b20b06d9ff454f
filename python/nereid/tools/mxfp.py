"""Tensors of microscaling formats on torch: four-bit floats (e2m1) and their scales (e8m0), to make operands of `tl.dot_scaled`.

Needs torch. Both classes keep codes, one a byte, in `data` (uint8) and convert from and to floats.
"""

_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class _Codes:
    """Codes in `data`, made of a tensor of floats; or only a size."""

    def __init__(self, data=None, size=None, device=None):
        import torch
        self.device = device
        if data is not None:
            if not isinstance(data, torch.Tensor):
                raise AssertionError("Parameter data must be a torch tensor")
            self.device = data.device
            self.data = self._from_float(data)
        elif size is not None:
            self.size = size if isinstance(size, tuple) else (size, )
        else:
            raise ValueError("Either parameter data or size must be provided")

    @staticmethod
    def _check_dtype(dtype, name):
        import torch
        if dtype != torch.float32:
            raise AssertionError(f"Currently only float32 is supported for {name} to float conversion")


class MXFP4Tensor(_Codes):
    """Numbers of four bits: sign, two bits of exponent, one of mantissa. Made of a tensor of floats, rounded to the nearest (ties to
    the even code; too large ones and infinities become 6), or empty of a size, to be filled by `random`."""

    def random(self):
        """Fills it with random codes; returns itself."""
        import torch
        self.data = torch.randint(0, 16, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype):
        """The numbers as floats; only torch.float32."""
        import torch
        self._check_dtype(dtype, "fp4e2m1")
        table = torch.tensor(_MAGNITUDES + tuple(-value for value in _MAGNITUDES), device=self.data.device)
        return table[self.data.long()]

    def _from_float(self, values):
        import torch
        magnitude = values.detach().abs().float()
        if torch.isnan(magnitude).any():
            raise ValueError("e2m1 has no NaN")
        table = torch.tensor(_MAGNITUDES, device=values.device)
        middles = (table[1:] + table[:-1]) / 2
        # A number on the border between two codes goes to the even one.
        code = torch.bucketize(magnitude, middles)
        tie = (middles[code.clamp(max=len(_MAGNITUDES) - 2)] == magnitude) & (code < len(_MAGNITUDES) - 1) & (code % 2 == 1)
        code = code + tie.long()
        return (code + 8 * torch.signbit(values).long()).to(torch.uint8)

    def to_packed_tensor(self, dim):
        """Two numbers a byte along a dimension, the first one in the low bits; an odd one out has a zero beside it."""
        import torch
        if not 0 <= dim < self.data.ndim:
            raise AssertionError("The dimension to pack along is not within the range of tensor dimensions")
        data = self.data
        if data.shape[dim] % 2:
            shape = list(data.shape)
            shape[dim] = 1
            data = torch.cat([data, torch.zeros(shape, dtype=data.dtype, device=data.device)], dim)
        pairs = data.unflatten(dim, (-1, 2))
        return pairs.select(dim + 1, 0) | pairs.select(dim + 1, 1) << 4

    def unpack_packed_tensor(self, packed_tensor, dim, original_shape):
        """The codes, one a byte, of a tensor that `to_packed_tensor(dim)` made of one of this shape."""
        import torch
        codes = torch.stack([packed_tensor & 15, packed_tensor >> 4], dim + 1).flatten(dim, dim + 1)
        return codes.narrow(dim, 0, original_shape[dim])


def fp8e8m0_to_float32(scale):
    """Scales of eight bits (e8m0, in a torch tensor of bytes of any 8-bit type) as float32: 2^(code - 127), NaN for 255."""
    import torch
    codes = scale.view(torch.uint8)
    powers = torch.ldexp(torch.ones(codes.shape, device=codes.device), codes.int() - 127)
    return torch.where(codes == 255, float("nan"), powers)


class MXScaleTensor(_Codes):
    """Powers of two in eight bits, from 2^-127 to 2^127, and NaN. Made of a tensor of floats, rounded down to a power of two, or empty."""

    def random(self, low=None, high=None):
        """Fills it with random scales between these numbers; returns itself."""
        import torch
        first = 0 if low is None else _exponent(low)
        last = 254 if high is None else _exponent(high)
        if first > last:
            raise AssertionError("Low must be less than or equal to high")
        self.data = torch.randint(first, last + 1, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype):
        """The scales as floats; only torch.float32."""
        self._check_dtype(dtype, "f8e8m0")
        return fp8e8m0_to_float32(self.data)

    def _from_float(self, values):
        import torch
        codes = torch.full(values.shape, 255, dtype=torch.uint8, device=values.device)
        good = torch.isfinite(values) & (values > 0)
        exponents = torch.frexp(values[good].float()).exponent.sub(1).clamp(-127, 127) + 127
        codes[good] = exponents.to(torch.uint8)
        return codes


def _exponent(value):
    import math
    return min(max(round(math.log2(value)) + 127, 0), 254)
