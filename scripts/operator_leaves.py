#!/usr/bin/env python3
"""Which leaves of ATen `nereid.ops` leaves to ATen: scripts/operator_leaves.py [--all]

A leaf is an overload with a kernel of ATen's own at the key CPU that is not composed of others (CompositeImplicitAutograd), as far as the schemas go. Prints those that are not
registered, by what they belong to; with --all also the groups that stay with ATen for good (`WITH_ATEN` says why).
"""

import argparse
import re

#: What stays with ATen: (pattern of the base name, why).
WITH_ATEN = (
    (r"_?linalg_(?!cross)|cholesky|geqrf|orgqr|ormqr|lu_|triangular_solve|_cholesky|_linalg|_compute_linear", "LAPACK, cuSOLVER, MAGMA"),
    (r"_fft", "FFT: pocketfft, cuFFT, MKL"),
    (r"sparse|_to_sparse|to_sparse|_spdiags|sspaddmm|_convert_indices|_validate_compressed|_coo|hspmm|_sampled", "sparse layouts"),
    (r"quantize|_fake_quant|fake_quant|_fused_moving|_empty_affine|_empty_per|_make_per|q_|int_repr|quantized|_dyn_quant|_weight_int|_convert_weight|dequantize|choose_qparams",
     "quantised tensors and packed weights"),
    (r"_nested|nested|_jagged|_padded_dense|_transformer_encoder|_native_multi_head|_transform_bias", "nested tensors and fused transformers of inference"),
    (r"mkldnn|to_mkldnn|slow_conv|_slow_conv|_scaled_mm|_fused_sdp", "other libraries' products, or what `convolution` and attention call on a device"),
    (r"view_as_complex|_conj|conj_physical|angle|complex|polar", "complex numbers"),
    (r"_test|_foobar|_make_dep|_assert|_functional_assert|_local_scalar|is_set_to|_efficientzero|from_file|resize|set_|_reshape_alias|unfold$|as_strided|_unsafe_view|view|empty",
     "views, memory, checks: nothing is computed"),
)


def leaves():
    """The overloads of leaves by their names without "aten::"."""
    import torch
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return sorted(name[6:] for name in names if has(name, "CPU") and not has(name, "CompositeImplicitAutograd"))


def base_of(name):
    base = name.split(".")[0]
    return base[:-1] if base.endswith("_") and not base.endswith("__") else base


def sorted_out():
    """{why an overload is not registered ("not yet" without a reason): [names]}."""
    import nereid.ops
    registered = {form.name for operator in nereid.ops.OPERATORS.values() for form in operator.forms}
    found = {}
    for name in leaves():
        if name in registered:
            continue
        base = base_of(name)
        operator = nereid.ops.OPERATORS.get(base)
        why = next((why for pattern, why in WITH_ATEN if re.match(pattern, base)), "not yet")
        if operator is not None:
            why = operator.without.get(name, "another overload of a registered operator")
        found.setdefault(why, []).append(name)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    for why, names in sorted(sorted_out().items(), key=lambda item: (item[0] != "not yet", item[0])):
        print(f"{why}: {len(names)}")
        if options.all or why == "not yet":
            print("\n".join(f"    {name}" for name in names))


if __name__ == "__main__":
    main()
