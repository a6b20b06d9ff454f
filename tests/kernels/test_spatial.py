"""Convolutions, pooling, resizing, padding and rearranging: kernels whose addresses are divisions and remainders."""

import nereid as triton
import nereid.language as tl
import pytest
import torch
from reference import close


@triton.jit
def conv2d_forward_kernel(input_ptr, weight_ptr, output_ptr, bias_ptr, in_n, input_height, input_width, out_c, out_height, out_width,
                          input_n_stride, input_c_stride, input_height_stride, input_width_stride, weight_n_stride, weight_c_stride,
                          weight_height_stride, weight_width_stride, output_n_stride, output_c_stride, output_height_stride,
                          output_width_stride, weight_c: tl.constexpr, weight_height: tl.constexpr, weight_width: tl.constexpr,
                          stride_height: tl.constexpr, stride_width: tl.constexpr, padding_height: tl.constexpr,
                          padding_width: tl.constexpr, dilation_height: tl.constexpr, dilation_width: tl.constexpr,
                          groups: tl.constexpr, BLOCK_NI_HO_WO: tl.constexpr, BLOCK_CI: tl.constexpr, BLOCK_CO: tl.constexpr):
    pid_ni_ho_wo = tl.program_id(0)
    pid_co = tl.program_id(1)
    pid_group = tl.program_id(2)
    ni_ho_wo_offset = pid_ni_ho_wo * BLOCK_NI_HO_WO + tl.arange(0, BLOCK_NI_HO_WO)
    ni_ho_offset = ni_ho_wo_offset // out_width
    in_n_point_value = ni_ho_offset // out_height
    output_height_point_value = ni_ho_offset % out_height
    output_width_point_value = ni_ho_wo_offset % out_width
    out_per_group_c = out_c // groups
    output_c_offset = pid_co * BLOCK_CO + tl.arange(0, BLOCK_CO)
    input_ptr += (input_n_stride * in_n_point_value + input_c_stride * pid_group * weight_c)[:, None]
    weight_ptr += (weight_n_stride * output_c_offset + weight_n_stride * pid_group * out_per_group_c)[None, :]
    accum = tl.zeros((BLOCK_NI_HO_WO, BLOCK_CO), dtype=tl.float32)
    BLOCK_CI_COUNT = (weight_c + BLOCK_CI - 1) // BLOCK_CI
    for hwc in range(weight_height * weight_width * BLOCK_CI_COUNT):
        c = (hwc % BLOCK_CI_COUNT) * BLOCK_CI
        hw = hwc // BLOCK_CI_COUNT
        h = hw // weight_width
        w = hw % weight_width
        input_c_offset = c + tl.arange(0, BLOCK_CI)
        input_height_offset = h * dilation_height - padding_height + stride_height * output_height_point_value
        input_width_offset = w * dilation_width - padding_width + stride_width * output_width_point_value
        curr_input_ptr = (input_ptr + (input_c_stride * input_c_offset)[None, :] + (input_height_stride * input_height_offset)[:, None]
                          + (input_width_stride * input_width_offset)[:, None])
        curr_weight_ptr = (weight_ptr + (weight_c_stride * input_c_offset)[:, None] + (weight_height_stride * h)
                           + (weight_width_stride * w))
        input_mask = ((in_n_point_value < in_n)[:, None] & (input_c_offset < weight_c)[None, :] & (0 <= input_height_offset)[:, None]
                      & (input_height_offset < input_height)[:, None] & (0 <= input_width_offset)[:, None]
                      & (input_width_offset < input_width)[:, None])
        weight_mask = (input_c_offset < weight_c)[:, None] & (output_c_offset < out_per_group_c)[None, :]
        input_block = tl.load(curr_input_ptr, mask=input_mask)
        weight_block = tl.load(curr_weight_ptr, mask=weight_mask)
        accum += tl.dot(input_block, weight_block, allow_tf32=False)
    bias_ptr += (pid_group[None] * out_per_group_c)[None, :] + output_c_offset[None, :]
    mask_bias = (output_c_offset < out_per_group_c)[None, :]
    bias = tl.load(bias_ptr, mask_bias).to(tl.float32)
    accum += bias
    output_ptr += ((output_n_stride * in_n_point_value)[:, None]
                   + (output_c_stride * (pid_group * out_per_group_c + output_c_offset))[None, :]
                   + (output_height_stride * output_height_point_value)[:, None]
                   + (output_width_stride * output_width_point_value)[:, None])
    output_mask = ((in_n_point_value < in_n)[:, None] & (output_c_offset < out_per_group_c)[None, :]
                   & (output_height_point_value < out_height)[:, None] & (output_width_point_value < out_width)[:, None])
    tl.store(output_ptr, accum, mask=output_mask)


@pytest.mark.not_in_mode("checked", "it adds up masked-off elements, which its author left undefined: checked mode shows them")
@pytest.mark.parametrize("groups, stride, padding, dilation", [(1, 1, 1, 1), (2, 2, 0, 1), (1, 2, 2, 2)])
def test_convolution(groups, stride, padding, dilation, target):
    x, w, b = torch.randn(2, 12, 9, 11), torch.randn(20, 12 // groups, 3, 2), torch.randn(20)
    want = torch.nn.functional.conv2d(x.double(), w.double(), b.double(), stride, padding, dilation, groups)
    y = torch.empty(want.shape)
    grid = lambda META: (triton.cdiv(y.numel() // 20, META["BLOCK_NI_HO_WO"]), triton.cdiv(20 // groups, META["BLOCK_CO"]), groups)
    conv2d_forward_kernel[grid](x, w, y, b, 2, 9, 11, 20, *want.shape[2:], *x.stride(), *w.stride(), *y.stride(), 12 // groups, 3, 2, stride,
                                stride, padding, padding, dilation, dilation, groups=groups, BLOCK_NI_HO_WO=32, BLOCK_CI=16, BLOCK_CO=16)
    close(y, want, 64)


@triton.jit
def max_pool2d_forward_kernel(input_ptr, output_ptr, indices_ptr, in_stride_n, in_stride_c, in_stride_h, in_stride_w, in_c, in_h, in_w,
                              out_h, out_w, kernel_h: tl.constexpr, kernel_w: tl.constexpr, stride: tl.constexpr, padding: tl.constexpr,
                              dilation: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    pid_nc = tl.program_id(0)
    pid_hw = tl.program_id(1)
    num_w_blocks = tl.cdiv(out_w, BLOCK_W)
    h_block_idx = pid_hw // num_w_blocks
    w_block_idx = pid_hw % num_w_blocks
    n_idx = pid_nc // in_c
    c_idx = pid_nc % in_c
    h_out_offsets = h_block_idx * BLOCK_H + tl.arange(0, BLOCK_H)
    w_out_offsets = w_block_idx * BLOCK_W + tl.arange(0, BLOCK_W)
    min_val: tl.constexpr = float("-inf")
    max_val_acc = tl.full((BLOCK_H, BLOCK_W), min_val, dtype=tl.float32)
    max_idx_acc = tl.full((BLOCK_H, BLOCK_W), -1, dtype=tl.int64)
    input_base_ptr = input_ptr + n_idx * in_stride_n + c_idx * in_stride_c
    for kh in tl.static_range(0, kernel_h):
        for kw in tl.static_range(0, kernel_w):
            h_in = h_out_offsets[:, None] * stride - padding + kh * dilation
            w_in = w_out_offsets[None, :] * stride - padding + kw * dilation
            in_mask = (h_in >= 0) & (h_in < in_h) & (w_in >= 0) & (w_in < in_w)
            current_val = tl.load(input_base_ptr + h_in * in_stride_h + w_in * in_stride_w, mask=in_mask, other=min_val)
            current_idx = h_in * in_w + w_in
            is_new_max = current_val > max_val_acc
            max_val_acc = tl.where(is_new_max, current_val, max_val_acc)
            max_idx_acc = tl.where(is_new_max & in_mask, current_idx, max_idx_acc)
    offs = pid_nc * out_h * out_w + h_out_offsets[:, None] * out_w + w_out_offsets[None, :]
    out_mask = (h_out_offsets[:, None] < out_h) & (w_out_offsets[None, :] < out_w)
    tl.store(output_ptr + offs, max_val_acc, mask=out_mask)
    tl.store(indices_ptr + offs, max_idx_acc, mask=out_mask)


@triton.jit
def max_pool2d_backward_kernel(grad_output_ptr, indices_ptr, grad_input_ptr, n_out, out_hw, in_hw, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n_out
    index = tl.load(indices_ptr + i, mask=mask, other=-1)
    grad = tl.load(grad_output_ptr + i, mask=mask)
    tl.atomic_add(grad_input_ptr + (i // out_hw) * in_hw + index, grad, mask=mask & (index >= 0), sem="relaxed")


@pytest.mark.parametrize("kernel, stride, padding, dilation", [((3, 3), 2, 1, 1), ((2, 3), 1, 0, 2)], ids=str)
def test_max_pool(kernel, stride, padding, dilation, target):
    x = torch.randn(2, 3, 13, 10).to(memory_format=torch.channels_last)
    leaf = x.double().requires_grad_()
    want, indices = torch.nn.functional.max_pool2d(leaf, kernel, stride, padding, dilation, return_indices=True)
    y, i = torch.empty(want.shape), torch.empty(want.shape, dtype=torch.int64)
    h, w = want.shape[2:]
    grid = lambda meta: (6, triton.cdiv(h, meta["BLOCK_H"]) * triton.cdiv(w, meta["BLOCK_W"]))
    max_pool2d_forward_kernel[grid](x, y, i, *x.stride(), 3, 13, 10, h, w, *kernel, stride, padding, dilation, BLOCK_H=4, BLOCK_W=8)
    close(y, want, 0)
    assert torch.equal(i, indices)
    dy, dx = torch.randn(want.shape), torch.zeros(2, 3, 13, 10)
    want.backward(dy.double())
    max_pool2d_backward_kernel[(triton.cdiv(dy.numel(), 128), )](dy, i, dx, dy.numel(), h * w, 130, BLOCK=128)
    close(dx, leaf.grad, 8)


@triton.jit
def avg_pool2d_kernel(x_ptr, y_ptr, n, in_h, in_w, out_h, out_w, K: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
                      COUNT_INCLUDE_PAD: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ow = i % out_w
    oh = i // out_w % out_h
    nc = i // (out_h * out_w)
    total = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.int32)
    for kh in range(K):
        for kw in range(K):
            h, w = oh * STRIDE - PAD + kh, ow * STRIDE - PAD + kw
            inside = (h >= 0) & (h < in_h) & (w >= 0) & (w < in_w)
            total += tl.load(x_ptr + (nc * in_h + h) * in_w + w, mask=inside & (i < n), other=0.0)
            count += inside
    divisor = K * K if COUNT_INCLUDE_PAD else count
    tl.store(y_ptr + i, total / divisor, mask=i < n)


@pytest.mark.parametrize("include", [True, False])
def test_average_pool(include, target):
    x = torch.randn(2, 3, 11, 14)
    want = torch.nn.functional.avg_pool2d(x.double(), 3, 2, 1, count_include_pad=include)
    y = torch.empty(want.shape)
    avg_pool2d_kernel[(triton.cdiv(y.numel(), 64), )](x, y, y.numel(), 11, 14, *want.shape[2:], K=3, STRIDE=2, PAD=1,
                                                     COUNT_INCLUDE_PAD=include, BLOCK=64)
    close(y, want, 16)


@triton.heuristics({"SAME_H": lambda args: args["OH"] == args["IH"], "SAME_W": lambda args: args["OW"] == args["IW"]})
@triton.jit
def upsample_nearest2d_kernel(ptr_o, ptr_i, N, C, OH, OW, IH, IW, reciprocal_scale_h, reciprocal_scale_w, BLOCK_SIZE: tl.constexpr,
                              SAME_H: tl.constexpr, SAME_W: tl.constexpr):
    pid = tl.program_id(axis=0)
    nc_stride = tl.num_programs(axis=1)
    NC = N * C
    nc_iter = tl.program_id(axis=1)
    idx = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    ow = idx % OW
    oh = idx // OW % OH
    if SAME_H:
        ih = oh
    else:
        # At most the last row, whatever the rounding.
        ih = tl.minimum(tl.math.floor(oh.to(tl.float32) * reciprocal_scale_h).to(tl.int32), IH - 1)
    if SAME_W:
        iw = ow
    else:
        iw = tl.minimum(tl.math.floor(ow.to(tl.float32) * reciprocal_scale_w).to(tl.int32), IW - 1)
    offset_o = (nc_iter * OH + oh) * OW + ow
    offset_i = (nc_iter * IH + ih) * IW + iw
    src_index_stride = nc_stride * IH * IW
    dst_index_stride = nc_stride * OH * OW
    while nc_iter < NC:
        data = tl.load(ptr_i + offset_i, mask=idx < OH * OW)
        tl.store(ptr_o + offset_o, data, mask=idx < OH * OW)
        ptr_i += src_index_stride
        ptr_o += dst_index_stride
        nc_iter += nc_stride


@pytest.mark.parametrize("size", [(14, 15), (7, 30), (3, 4)], ids=str)
def test_upsample_nearest(size, target):
    x = torch.randn(2, 3, 7, 10)
    y = torch.empty(2, 3, *size)
    upsample_nearest2d_kernel[(triton.cdiv(size[0] * size[1], 64), 4)](y, x, 2, 3, *size, 7, 10, 7 / size[0], 10 / size[1], BLOCK_SIZE=64)
    assert torch.equal(y, torch.nn.functional.interpolate(x, size, mode="nearest"))


@triton.jit
def pad2d_kernel(x_ptr, y_ptr, n, in_h, in_w, out_h, out_w, top, left, value, MODE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = i % out_w - left
    h = i // out_w % out_h - top
    nc = i // out_w // out_h
    mask = i < n
    if MODE == "reflect":
        h = tl.abs(h)
        w = tl.abs(w)
        h = tl.where(h >= in_h, 2 * in_h - 2 - h, h)
        w = tl.where(w >= in_w, 2 * in_w - 2 - w, w)
        inside = mask
    elif MODE == "replicate":
        h = tl.minimum(tl.maximum(h, 0), in_h - 1)
        w = tl.minimum(tl.maximum(w, 0), in_w - 1)
        inside = mask
    elif MODE == "circular":
        h = (h + in_h) % in_h
        w = (w + in_w) % in_w
        inside = mask
    else:
        inside = mask & (h >= 0) & (h < in_h) & (w >= 0) & (w < in_w)
    x = tl.load(x_ptr + (nc * in_h + h) * in_w + w, mask=inside, other=value)
    tl.store(y_ptr + i, x, mask=mask)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode, target):
    x = torch.randn(2, 3, 9, 20)
    want = torch.nn.functional.pad(x, (3, 4, 2, 1), mode, **({"value": 7.5} if mode == "constant" else {}))
    y = torch.empty(want.shape)
    pad2d_kernel[(triton.cdiv(y.numel(), 256), )](x, y, y.numel(), 9, 20, *want.shape[2:], 2, 3, 7.5, MODE=mode, BLOCK=256)
    assert torch.equal(y, want)


@triton.jit
def rearranged_copy_kernel(x_ptr, y_ptr, index_ptr, n, a, b, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """y[i] = x[f(i)] for the maps that libraries use; rows of a, columns of b."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    row, col = i // b, i % b
    if KIND == "flip rows":
        source = (a - 1 - row) * b + col
    elif KIND == "flip columns":
        source = row * b + (b - 1 - col)
    elif KIND == "roll":
        source = row * b + (col + 5) % b
    elif KIND == "repeat":
        source = (row % (a // 2)) * b + col
    elif KIND == "interleave":
        source = (row // 2) * b + col
    elif KIND == "transpose":
        source = (i % a) * b + i // a
    elif KIND == "index rows":
        source = tl.load(index_ptr + row, mask=mask, other=0) * b + col
    elif KIND == "index columns":
        source = row * b + tl.load(index_ptr + col % 8, mask=mask, other=0)
    elif KIND == "swap halves":
        source = row * b + (col ^ 1)
    elif KIND == "pixel shuffle":
        source = (row // 2 * 2 + col % 2) * b + row % 2 * (b // 2) + col // 2
    else:
        tl.static_assert(False, "unknown map")
    tl.store(y_ptr + i, tl.load(x_ptr + source, mask=mask), mask=mask)


@pytest.mark.parametrize("a, b", [(6, 40), (32, 16), (4, 1), (2, 300)])
@pytest.mark.parametrize("kind", ["flip rows", "flip columns", "roll", "repeat", "interleave", "transpose", "index rows", "index columns",
                                  "swap halves", "pixel shuffle"])
def test_rearranging(kind, a, b, target):
    if b == 1 and kind in ("index columns", "swap halves", "pixel shuffle"):
        pytest.skip("needs columns")
    x = torch.arange(a * b, dtype=torch.int32)
    index = torch.randint(0, a if kind == "index rows" else min(b, 8), (max(a, 8), ))
    i = torch.arange(a * b)
    row, col = i // b, i % b
    source = {
        "flip rows": (a - 1 - row) * b + col, "flip columns": row * b + (b - 1 - col), "roll": row * b + (col + 5) % b,
        "repeat": (row % (a // 2)) * b + col, "interleave": (row // 2) * b + col, "transpose": (i % a) * b + i // a,
        "index rows": index[row] * b + col, "index columns": row * b + index[col % 8], "swap halves": row * b + (col ^ 1),
        "pixel shuffle": (row // 2 * 2 + col % 2) * b + row % 2 * (b // 2) + col // 2,
    }[kind]
    y = torch.empty_like(x)
    rearranged_copy_kernel[(triton.cdiv(a * b, 128), )](x, y, index, a * b, a, b, KIND=kind, BLOCK=128)
    assert torch.equal(y, x[source])


@triton.jit
def triu_kernel(X, Y, M, N, diagonal, M_BLOCK_SIZE: tl.constexpr, N_BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(0)
    row = pid * M_BLOCK_SIZE + tl.arange(0, M_BLOCK_SIZE)[:, None]
    m_mask = row < M
    X += row * N
    Y += row * N
    for n_offset in range(0, N, N_BLOCK_SIZE):
        cols = n_offset + tl.arange(0, N_BLOCK_SIZE)[None, :]
        n_mask = cols < N
        mask = m_mask and n_mask
        x = tl.load(X + cols, mask, other=0.0)
        y = tl.where(row + diagonal <= cols, x, 0.0)
        tl.store(Y + cols, y, mask=mask)


@triton.jit
def kron_kernel(a_ptr, b_ptr, c_ptr, M, N, m2, n2, a_stride0, a_stride1, b_stride0, b_stride1, BLOCK_M: tl.constexpr,
                BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    a = tl.load(a_ptr + (rows // m2)[:, None] * a_stride0 + (cols // n2)[None, :] * a_stride1, mask=mask)
    b = tl.load(b_ptr + (rows % m2)[:, None] * b_stride0 + (cols % n2)[None, :] * b_stride1, mask=mask)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], a * b, mask=mask)


def test_triangles_and_kronecker_products(target):
    x = torch.randn(30, 50)
    for diagonal in (-3, 0, 4):
        y = torch.empty_like(x)
        triu_kernel[(4, )](x, y, 30, 50, diagonal, M_BLOCK_SIZE=8, N_BLOCK_SIZE=32)
        assert torch.equal(y, x.triu(diagonal))
    a, b = torch.randn(7, 5).t(), torch.randn(6, 9)
    c = torch.empty(30, 63)
    kron_kernel[(2, 2)](a, b, c, 30, 63, 6, 9, *a.stride(), *b.stride(), BLOCK_M=16, BLOCK_N=32)
    assert torch.equal(c, torch.kron(a.contiguous(), b))


@triton.jit
def relu_of(x):
    return tl.maximum(x, 0.0)


@triton.jit
def squared(x):
    return x * x


@triton.jit
def twice(fn: tl.constexpr, x):
    return fn(fn(x))


@triton.jit
def apply_kernel(x_ptr, y_ptr, n, FN: tl.constexpr, AGAIN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    y = twice(FN, x) if AGAIN else FN(x)
    tl.store(y_ptr + i, y, mask=i < n)


@pytest.mark.parametrize("again", [False, True])
def test_functions_as_arguments(again, target):
    x, y = torch.randn(200), torch.empty(200)
    for fn, want in ((relu_of, x.relu()), (squared, x ** 4 if again else x * x)):
        apply_kernel[(2, )](x, y, 200, FN=fn, AGAIN=again, BLOCK=128)
        close(y, want.double(), 4)
