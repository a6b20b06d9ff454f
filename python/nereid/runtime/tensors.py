"""Stand-ins for tensors: without data, or of another type."""


class MockTensor:
    """A tensor without data, to compile with: `kernel.warmup(MockTensor(torch.float32), ...)`."""

    @staticmethod
    def wrap_dtype(arg):
        """A dtype becomes a stand-in for a tensor of it; everything else stays."""
        if type(arg).__name__ == "dtype" and type(arg).__module__ == "torch":
            return MockTensor(arg)
        return arg

    def __init__(self, dtype, shape=None):
        self.dtype = dtype
        self.shape = [1] if shape is None else shape

    def stride(self):
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))

    @staticmethod
    def data_ptr():
        return 0

    @staticmethod
    def ptr_range():
        return 0


class TensorWrapper:
    """A tensor seen as another type of the language: for types that the array library lacks."""

    def __init__(self, base, dtype):
        self.base = base
        self.dtype = dtype
        self.data = getattr(base, "data", base)
        self.is_cuda = getattr(base, "is_cuda", False)
        self.device = getattr(base, "device", "cpu")
        self.shape = base.shape

    def data_ptr(self):
        return self.base.data_ptr() if hasattr(self.base, "data_ptr") else self.base.ctypes.data

    def stride(self, *args):
        return self.base.stride(*args)

    def element_size(self):
        return self.base.element_size()

    def cpu(self):
        return TensorWrapper(self.base.cpu(), self.dtype)

    def clone(self):
        return TensorWrapper(self.base.clone(), self.dtype)

    def copy_(self, other):
        self.base.copy_(other.base)

    def to(self, device):
        return TensorWrapper(self.base.to(device), self.dtype)

    def new_empty(self, sizes):
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self):
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor, dtype):
    """The same memory as elements of another dtype of the same size."""
    base = tensor.base if isinstance(tensor, TensorWrapper) else tensor
    if not hasattr(base, "data_ptr") and not hasattr(base, "ctypes"):
        raise TypeError(f"Cannot reinterpret a {type(tensor)}.")
    if isinstance(tensor, TensorWrapper) and dtype == base.dtype:
        return base
    return TensorWrapper(base, dtype)
