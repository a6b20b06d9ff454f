"""Test rows of products, convolutions and attention (table.py). Sums of many terms: errors are relative to the terms, `opinfo.Row.absolute`; those of second gradients of attention are
sums of sums."""

_SUMS = {"absolute": 64, "zeros": False}
_ATTENTION = {"ulps": 16, "absolute": 512, "zeros": False}

_CONVOLUTIONS = tuple(f"nn.functional.conv{kind}{rank}d" for kind in ("", "_transpose") for rank in (1, 2, 3))

OPINFOS = {
    "convolution": (_CONVOLUTIONS, _SUMS),
    "convolution_backward": (_CONVOLUTIONS, _SUMS),
    "mm": (("mm", "matmul", "nn.functional.linear"), _SUMS),
    "bmm": (("bmm", "matmul"), _SUMS),
    "mv": (("mv", "matmul"), _SUMS),
    "addmm": (("addmm", "nn.functional.linear"), _SUMS),
    "addmv": (("addmv", ), _SUMS),
    "baddbmm": (("baddbmm", ), _SUMS),
    "addbmm": (("addbmm", ), _SUMS),
    "addr": (("addr", ), _SUMS),
    "_addmm_activation": ((), {}),
    "_int_mm": ((), {}),
    "_grouped_mm": ((), {}),
    "_scaled_grouped_mm": ((), {}),
    "_scaled_dot_product_flash_attention_for_cpu": (("nn.functional.scaled_dot_product_attention", ), _ATTENTION),
    "_scaled_dot_product_flash_attention_for_cpu_backward": (("nn.functional.scaled_dot_product_attention", ), _ATTENTION),
}
