"""Test rows of reductions, scans and operators on rows (table.py). Their terms cancel: see `opinfo.Row.absolute`."""

OPINFOS = {
    "sum": (("sum", ), {"absolute": 8}),
    "nansum": (("nansum", ), {"absolute": 8}),
    "mean": (("mean", ), {"absolute": 8}),
    "prod": (("prod", ), {"ulps": 16}),
    "var": (("var", ), {"absolute": 16}),
    "std": (("std", ), {"absolute": 16}),
    "var_mean": (("var_mean", ), {"absolute": 16}),
    "std_mean": (("std_mean", ), {"absolute": 16}),
    "linalg_vector_norm": (("linalg.vector_norm", ), {"ulps": 16, "absolute": 16}),
    "norm": (("norm", ), {"ulps": 16, "absolute": 16}),
    "logsumexp": (("logsumexp", ), {"absolute": 8}),
    "cumsum": (("cumsum", ), {"absolute": 8}),
    "cumprod": (("cumprod", ), {"ulps": 32, "absolute": 8}),
    "logcumsumexp": (("logcumsumexp", ), {"absolute": 8}),
    "dot": (("dot", ), {"absolute": 8}),
    "vdot": (("vdot", ), {"absolute": 8}),
    "trace": (("trace", ), {"absolute": 8}),
}
