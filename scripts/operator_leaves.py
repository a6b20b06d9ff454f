#!/usr/bin/env python3
"""Which leaves of ATen `nereid.ops` does not register: scripts/operator_leaves.py [--names]

A leaf is an overload with a kernel of ATen's own at the key CPU that is not composed of others (CompositeImplicitAutograd). Prints how many stay with ATen for which reason
(`WITH_ATEN`), and how many have no kernel here yet (`NOT_YET`); with --names also which.
"""

import argparse
import re

#: What stays with ATen: (pattern of the base name, why). docs/ops.md has the table; tests/ops/test_operator_coverage.py compares.
WITH_ATEN = (
    (r"_?linalg_(?!cross)|cholesky|geqrf|orgqr|ormqr|lu_|triangular_solve|_cholesky|_linalg|_compute_linear", "LAPACK, cuSOLVER, MAGMA"),
    (r"_fft", "FFT: pocketfft, cuFFT, MKL"),
    (r"sparse|_to_sparse|to_sparse|_spdiags|sspaddmm|_convert_indices|_validate_compressed|_coo|hspmm|_sampled", "sparse layouts"),
    (r"quantize|_fake_quant|fake_quant|_fused_moving|_empty_affine|_empty_per|_make_per|q_|int_repr|quantized|_dyn_quant|_weight_int|_convert_weight|dequantize|choose_qparams",
     "quantized tensors and packed weights"),
    (r"_nested|nested|_jagged|_padded_dense|_transformer_encoder|_native_multi_head|_transform_bias", "nested tensors and fused transformers of inference"),
    (r"mkldnn|to_mkldnn|slow_conv|_slow_conv|_scaled_mm|_fused_sdp", "other libraries' products, or what `convolution` and attention call on a device"),
    (r"view_as_complex|_conj|conj_physical|angle|complex|polar", "complex numbers"),
    (r"_test|_foobar|_make_dep|_assert|_functional_assert|_local_scalar|is_set_to|_efficientzero|from_file|resize|set$|_reshape_alias|unfold$|as_strided|_unsafe_view|view|empty",
     "views, memory and checks, which compute nothing"),
)
#: What is not written yet, in the same form.
NOT_YET = (
    (r"special_", "special functions: Bessel functions, orthogonal polynomials, zeta, Airy"),
    (r"igamma|mvlgamma", "incomplete gamma functions, the multivariate gamma function"),
    (r"binomial|cauchy|poisson|_dirichlet|_sample_dirichlet|_standard_gamma|rrelu", "random numbers of rare distributions"),
    (r"_?histogram|unique_dim|_unique$|segment_reduce|_segment_reduce|hash_tensor|nonzero_static|equal$", "sizes or answers that the host waits for, groups"),
    (r"_native_batch_norm_legit|_?batch_norm", "batch normalisation in forms that write running statistics of the caller; `native_batch_norm` is registered"),
    (r"_cummax|_cummin|_masked_softmax|_add_relu|frexp|glu_|range",
     "what ATen calls within others, forward derivatives, rare forms"),
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
    """{group: [names]}: groups of WITH_ATEN and NOT_YET, reasons of operators (`without`), and "unsorted"."""
    import nereid.ops
    registered = {form.name for operator in nereid.ops.OPERATORS.values() for form in operator.forms}
    found = {}
    for name in leaves():
        base = base_of(name)
        if name in registered:
            continue
        if base in nereid.ops.OPERATORS:
            group = "overloads of registered operators"
        else:
            group = next((group for pattern, group in (*WITH_ATEN, *NOT_YET) if re.match(pattern, base)), "unsorted")
        found.setdefault(group, []).append(name)
    return found


def lines():
    """The rows of the table in docs/ops.md."""
    found = sorted_out()
    return [f"| {group} | {len(found.get(group, ()))} |" for _, group in (*WITH_ATEN, *NOT_YET, (None, "overloads of registered operators"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    print("\n".join(lines()))
    for group, names in sorted_out().items():
        if options.names or group == "unsorted":
            print(f"{group}:", *names, sep="\n    ")


if __name__ == "__main__":
    main()
