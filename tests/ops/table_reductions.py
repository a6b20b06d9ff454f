"""Test rows of reductions, scans and operators on rows (table.py). Where terms cancel, errors are relative to the terms: `opinfo.Row.absolute`."""

_CANCELS = {"absolute": 8}
_MOMENTS = {"absolute": 16}
_NORMALISED = {"ulps": 16, "absolute": 32, "zeros": False}


def _rows(names, more):
    return {name: ((infos, ) if isinstance(infos, str) else infos, more) for name, infos in names.items()}


OPINFOS = {
    **_rows({name: name for name in ("sum", "nansum", "mean", "logsumexp", "cumsum", "logcumsumexp", "dot", "vdot", "trace")}, _CANCELS),
    **_rows({name: name for name in ("var", "std", "var_mean", "std_mean")}, _MOMENTS),
    **_rows({"linalg_vector_norm": "linalg.vector_norm", "norm": "norm"}, {"ulps": 16, "absolute": 16}),
    "prod": (("prod", ), {"ulps": 16, "gpu": {"fp64": 32}}),
    "cumprod": (("cumprod", ), {"ulps": 32, "absolute": 8, "gpu": {"fp64": 128}}),
    **_rows({"_softmax": ("softmax", "nn.functional.softmin"), "_log_softmax": ("log_softmax", "nn.functional.cross_entropy")}, {"ulps": 8, "absolute": 8}),
    **_rows({"_softmax_backward_data": "softmax", "_log_softmax_backward_data": "log_softmax"}, {"ulps": 8, "absolute": 8}),
    **_rows({
        "native_layer_norm": ("native_layer_norm", "nn.functional.layer_norm"), "native_layer_norm_backward": ("nn.functional.layer_norm", ),
        "native_group_norm": ("nn.functional.group_norm", ), "native_group_norm_backward": ("nn.functional.group_norm", ),
        "native_batch_norm": ("native_batch_norm", "nn.functional.batch_norm", "nn.functional.instance_norm"),
        "_native_batch_norm_legit": "_native_batch_norm_legit",
        "native_batch_norm_backward": ("nn.functional.batch_norm", "nn.functional.instance_norm"),
    }, _NORMALISED),
    **_rows({
        "binary_cross_entropy": "nn.functional.binary_cross_entropy", "binary_cross_entropy_backward": "nn.functional.binary_cross_entropy",
        "mse_loss": "nn.functional.mse_loss", "smooth_l1_loss": "nn.functional.smooth_l1_loss", "huber_loss": "nn.functional.huber_loss",
        "nll_loss_forward": ("nn.functional.nll_loss", "nn.functional.cross_entropy"), "nll_loss2d_forward": ("nn.functional.nll_loss", ),
        "nll_loss_backward": "nn.functional.nll_loss", "nll_loss2d_backward": "nn.functional.nll_loss", "embedding": "nn.functional.embedding",
        "embedding_dense_backward": "nn.functional.embedding", **{f"_embedding_bag{step}": "nn.functional.embedding_bag" for step in (
            "", "_forward_only", "_backward", "_dense_backward", "_per_sample_weights_backward")},
        "multi_margin_loss": "nn.functional.multi_margin_loss", "multi_margin_loss_backward": "nn.functional.multi_margin_loss",
        "multilabel_margin_loss_forward": "nn.functional.multilabel_margin_loss", "multilabel_margin_loss_backward": "nn.functional.multilabel_margin_loss",
    }, {"absolute": 8, "zeros": False}),
    **_rows({"_ctc_loss": "nn.functional.ctc_loss", "_ctc_loss_backward": "nn.functional.ctc_loss"}, {"ulps": 64, "absolute": 16, "zeros": False}),
    **_rows({"_cdist_forward": "cdist", "_cdist_backward": "cdist", "_pdist_forward": "nn.functional.pdist", "_pdist_backward": "nn.functional.pdist",
             "linalg_cross": ("linalg.cross", "cross"), "renorm": "renorm", "embedding_renorm": "nn.functional.embedding"}, {"ulps": 16, "absolute": 16, "zeros": False}),
}
