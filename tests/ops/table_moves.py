"""Test rows of operators that copy, create, index, order and draw (table.py)."""

_SPACED = {"absolute": 8, "ulps": 32}


def _rows(names, **more):
    return {name: (infos if isinstance(infos, tuple) else (infos, ), more) for name, infos in names.items()}


OPINFOS = {
    **_rows({
        "_to_copy": ("to", "double", "short", "chalf"), "clone": ("clone", "contiguous"), "stack": ("stack", "hstack", "vstack", "dstack"),
        "cat": ("cat", "hstack", "column_stack", "block_diag"), "repeat": ("repeat", "tile"), "constant_pad_nd": "nn.functional.pad",
        "select_backward": "select", "slice_backward": ("split", "__getitem__"), "diagonal_backward": ("diagonal", "linalg.diagonal"),
        "pixel_shuffle": "nn.functional.pixel_shuffle", "pixel_unshuffle": "nn.functional.pixel_unshuffle", "channel_shuffle": "nn.functional.channel_shuffle",
        "narrow_copy": "narrow_copy", "flip": ("flip", "fliplr", "flipud"), "tril": ("tril", ), "diag_embed": ("diag_embed", "diag"),
    }),
    **_rows({
        "index": ("__getitem__", ), "index_put": ("index_put", ), "_index_put_impl": "index_put", "gather": ("gather", "take_along_dim"),
        "scatter_add": ("scatter_add", "gather"), "masked_scatter": "masked_scatter", "nonzero": ("nonzero", "argwhere"),
        "repeat_interleave": "repeat_interleave", "_unique2": "unique",
    }),
    **_rows({"index_add": "index_add", "scatter_reduce": "scatter_reduce", "index_reduce": "index_reduce", "bincount": "bincount"}, absolute=8),
    **_rows({"topk": "topk", "kthvalue": "kthvalue"}, places=2),
    **_rows({"median": "median", "nanmedian": "nanmedian"}, places=1),
    **_rows({"mode": "mode"}, places=1, gpu={"ties": True}),  # on CPUs the least, as ours everywhere; on GPUs ATen's choice depends on its sort
    # Not argsort: it returns places alone, of which ATen's are any among equal elements. test_moves.py has the stable order.
    **_rows({"sort": ("sort", "msort")}, places=1),
    **_rows({"tril_indices": "tril_indices", "triu_indices": "triu_indices"}),
    **_rows({"linspace": "linspace", "logspace": "logspace"}, **_SPACED),
}
