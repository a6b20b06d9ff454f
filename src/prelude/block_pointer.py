"""Block pointers: windows of a block's shape that move over a tensor.

`make_block_ptr` makes one, `advance` moves it, `load` and `store` go through it. What the arguments may be is checked there
(src/frontend/builtins/block_pointer.cpp); here is the arithmetic, all of it in int64.
"""


@aggregate
class block_pointer_type:
    """What `.type` of a block pointer is."""
    element_ty: dtype
    shape: constexpr

    @property
    def scalar(self):
        return self

    def is_ptr(self):
        return True

    def is_block(self):
        return False


@aggregate
class block_pointer:
    base: tensor
    shape: tuple
    strides: tuple
    offsets: tuple
    block_shape: constexpr

    @property
    def type(self):
        return block_pointer_type(block_type(self.base.type.element_ty, self.block_shape), self.block_shape)

    @property
    def dtype(self):
        return self.type

    def advance(self, offsets):
        return advance(self, offsets)

    def load(self, boundary_check=(), padding_option="", cache_modifier="", eviction_policy="", volatile=False):
        return load(self, boundary_check=boundary_check, padding_option=padding_option, cache_modifier=cache_modifier,
                    eviction_policy=eviction_policy, volatile=volatile)

    def store(self, value, boundary_check=(), cache_modifier="", eviction_policy=""):
        store(self, value, boundary_check=boundary_check, cache_modifier=cache_modifier, eviction_policy=eviction_policy)

    def _index(self, dim: constexpr):
        """The places of the window along one dimension, in the form of the block."""
        size: constexpr = self.block_shape[dim]
        form: constexpr = [size if i == dim else 1 for i in range(len(self.block_shape))]
        return reshape(self.offsets[dim] + arange(0, size), form)

    def _pointers(self):
        """The address of every element of the window."""
        pointers = self.base
        for dim in static_range(len(self.block_shape)):
            pointers = pointers + self._index(dim) * self.strides[dim]
        return pointers

    def _inside(self, dims: constexpr):
        """Which elements lie inside the tensor, as far as these dimensions tell."""
        inside = None
        for dim in static_range(len(dims)):
            index = self._index(dims[dim])
            here = (index >= 0) & (index < self.shape[dims[dim]])
            inside = here if inside is None else inside & here
        return inside
