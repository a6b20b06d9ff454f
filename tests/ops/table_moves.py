"""Test rows of operators that copy, create, index, order and draw (table.py)."""

_SPACED = {"absolute": 8, "ulps": 32}


def _rows(names, **more):
    return {name: (infos if isinstance(infos, tuple) else (infos, ), more) for name, infos in names.items()}


OPINFOS = {
    **_rows({
        "_to_copy": ("to", "double", "short", "chalf"), "clone": ("clone", "contiguous"), "stack": ("stack", "hstack", "vstack", "dstack"),
        "cat": ("cat", "hstack", "column_stack", "block_diag"), "repeat": ("repeat", "tile"), "constant_pad_nd": "nn.functional.pad",
        "select_backward": "select", "slice_backward": ("split", "__getitem__"), "diagonal_backward": ("diagonal", "linalg.diagonal"),
        "pixel_shuffle": "nn.functional.pixel_shuffle", "flip": ("flip", "fliplr", "flipud"), "tril": ("tril", ), "diag_embed": ("diag_embed", "diag"),
    }),
    **_rows({
        "index": ("__getitem__", ), "index_put": ("index_put", ), "_index_put_impl": "index_put", "gather": ("gather", "take_along_dim"),
        "scatter_add": ("scatter_add", "gather"), "masked_scatter": "masked_scatter", "nonzero": ("nonzero", "argwhere"),
        "repeat_interleave": "repeat_interleave", "_unique2": "unique",
    }),
    **_rows({"index_add": "index_add", "scatter_reduce": "scatter_reduce", "index_reduce": "index_reduce", "bincount": "bincount"}, absolute=8),
    **_rows({"topk": "topk", "kthvalue": "kthvalue"}, places=2),
    **_rows({"median": "median", "nanmedian": "nanmedian", "mode": "mode"}, places=1),
    # Not argsort: it returns places alone, of which ATen's are any among equal elements. test_moves.py has the stable order.
    **_rows({"sort": ("sort", "msort")}, places=1),
    **_rows({
        "max_pool2d_with_indices": ("max_pool2d_with_indices_backward", "nn.functional.max_pool2d"), "max_pool2d_with_indices_backward": "nn.functional.max_pool2d",
        "adaptive_max_pool2d": "nn.functional.adaptive_max_pool2d", "adaptive_max_pool2d_backward": "nn.functional.adaptive_max_pool2d",
        "avg_pool2d": "nn.functional.avg_pool2d", "avg_pool2d_backward": "nn.functional.avg_pool2d",
        "_adaptive_avg_pool2d": "nn.functional.adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward": "nn.functional.adaptive_avg_pool2d",
        "upsample_nearest2d_backward": "nn.functional.interpolate", "_upsample_nearest_exact2d_backward": "nn.functional.interpolate",
        "upsample_bilinear2d_backward": ("nn.functional.upsample_bilinear", "nn.functional.interpolate"),
        "_upsample_bilinear2d_aa": ("_upsample_bilinear2d_aa", ),
    }, absolute=8, zeros=False),
    # Weights come from places of up to 456, which have that many eps; on CPUs ATen takes fp64 for them.
    **_rows({
        "upsample_bilinear2d": ("nn.functional.upsample_bilinear", "nn.functional.interpolate"), "_upsample_nearest_exact2d": "nn.functional.interpolate",
        "upsample_nearest2d": ("nn.functional.upsample_nearest", "nn.functional.interpolate"),
    }, absolute=8, zeros=False, gpu={"absolute": 512}),
    **_rows({"linspace": "linspace", "logspace": "logspace"}, **_SPACED),
}
