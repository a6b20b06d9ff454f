"""Test rows of operators on lines, planes and volumes: pooling, interpolation, padding, patches, sampling (table.py)."""


def _rows(names, **more):
    return {name: (infos if isinstance(infos, tuple) else (infos, ), more) for name, infos in names.items()}


_INTERPOLATE = "nn.functional.interpolate"
#: Which variant of its OpInfo reaches an operator.
_MODES = {**{f"{name}{rank}d": mode for name, mode in (("upsample_nearest", "nearest"), ("_upsample_nearest_exact", "nearest-exact")) for rank in (1, 2, 3)},
          "upsample_linear1d": "linear", "upsample_bilinear2d": "bilinear", "upsample_trilinear3d": "trilinear", "upsample_bicubic2d": "bicubic"}
#: Operators that only the gradients of others call, besides those named `*_backward`.
GRADIENTS = ("adaptive_avg_pool3d_backward", )

OPINFOS = {
    **_rows({
        "max_pool2d_with_indices": ("max_pool2d_with_indices_backward", "nn.functional.max_pool2d"), "max_pool2d_with_indices_backward": "nn.functional.max_pool2d",
        "max_pool3d_with_indices": "nn.functional.max_pool3d", "max_pool3d_with_indices_backward": "nn.functional.max_pool3d",
        **{f"{name}{rank}d{step}": f"nn.functional.{name.removeprefix('_')}{rank}d" for rank in (2, 3) for step in ("", "_backward")
           for name in ("adaptive_max_pool", "avg_pool", "_adaptive_avg_pool", "fractional_max_pool")},
        **{f"adaptive_avg_pool{rank}d": () for rank in (2, 3)}, "adaptive_avg_pool3d_backward": (),
        **{f"max_unpool{rank}d": f"nn.functional.max_unpool{rank}d" for rank in (2, 3)},
        **{f"{name}_backward": f"{_INTERPOLATE}.{mode}" for name, mode in _MODES.items()},
        "_upsample_bilinear2d_aa": ("_upsample_bilinear2d_aa", ), "_upsample_bilinear2d_aa_backward": "_upsample_bilinear2d_aa",
        **{f"_upsample_{name}2d_aa{step}": () for name in ("bicubic", "lanczos") for step in ("", "_backward")},
    }, absolute=8, zeros=False),
    **_rows({
        **{f"{name}_pad{rank}d{step}": infos for name, infos in (
            ("reflection", "nn.functional.pad.reflect"), ("replication", ("nn.functional.pad.replicate", "nn.functional.pad.replicate_negative")))
           for rank in (1, 2, 3) for step in ("", "_backward")},
        "im2col": "nn.functional.unfold", "col2im": "nn.functional.unfold", "unfold_backward": "unfold",
    }, absolute=8, zeros=False),
    **_rows({f"grid_sampler_{rank}d{step}": f"grid_sampler_{rank}d" for rank in (2, 3) for step in ("", "_backward")},
            ulps=16, absolute=16, zeros=False),
    # Weights come from places of up to 456, which have that many eps; on CPUs ATen takes fp64 for them.
    **_rows({
        **{name: f"{_INTERPOLATE}.{mode}" for name, mode in _MODES.items()},
    }, absolute=8, zeros=False, gpu={"absolute": 512}),
}
