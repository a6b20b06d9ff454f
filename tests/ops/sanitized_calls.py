"""One call of each family of operators. Run by itself it makes them on a GPU: `compute-sanitizer --tool memcheck python tests/ops/sanitized_calls.py`."""

import torch
import torch.nn.functional as F


def calls(device, seed=0):
    """{name: (function, tensors)}. The tensors follow from the seed and have sizes that no block divides."""
    torch.manual_seed(seed)

    def random(*shape, dtype=torch.float32):
        return torch.randn(*shape).to(dtype).to(device)

    def places(*shape, below):
        return torch.randint(0, below, shape).to(device)

    half = torch.bfloat16
    found = {
        "add": (torch.add, [random(37, 67), random(37, 67)]),
        "add strided": (torch.add, [random(67, 37).t(), random(37, 1)]),
        "silu": (F.silu, [random(1001, dtype=half)]),
        "where": (torch.where, [random(37, 67) > 0, random(37, 67), random(67)]),
        "sum": (torch.sum, [random(100003)]),
        "sum rows": (lambda x: x.sum(1), [random(37, 667)]),
        "max columns": (lambda x: x.max(0), [random(333, 67)]),
        "cumsum": (lambda x: x.cumsum(1), [random(7, 3001)]),
        "softmax": (lambda x: torch.softmax(x, -1), [random(37, 1001)]),
        "layer norm": (lambda x, w, b: F.layer_norm(x, (301, ), w, b), [random(37, 301), random(301), random(301)]),
        "layer norm backward": (lambda g, x, m, r, w, b: torch.ops.aten.native_layer_norm_backward(g, x, (301, ), m, r, w, b, [True] * 3),
                                [random(37, 301), random(37, 301), random(37, 1), random(37, 1).abs(), random(301), random(301)]),
        "mm": (torch.mm, [random(130, 77, dtype=half), random(77, 150, dtype=half)]),
        "mm deep": (torch.mm, [random(17, 9001, dtype=half), random(9001, 33, dtype=half)]),
        "mv": (torch.mv, [random(130, 77), random(77)]),
        "bmm": (torch.bmm, [random(3, 40, 77, dtype=half), random(3, 77, 50, dtype=half)]),
        "attention": (lambda q, k, v: torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, False, 0.0, True)[0],
                      [random(2, 3, 77, 64, dtype=half) for _ in range(3)]) if device == "cuda" else (F.scaled_dot_product_attention, [random(2, 3, 77, 64) for _ in range(3)]),
        "cat": (lambda x, y: torch.cat([x, y], 1), [random(37, 67), random(37, 5)]),
        "index": (lambda x, i: x[i], [random(97, 67), places(45, below=97)]),
        "gather": (lambda x, i: x.gather(1, i), [random(37, 67), places(37, 45, below=67)]),
        "index put": (lambda x, i, y: x.index_put((i, ), y, accumulate=True), [random(97, 67), places(45, below=97), random(45, 67)]),
        "scatter add": (lambda x, i, y: x.scatter_add(1, i, y), [random(37, 67), places(37, 45, below=67), random(37, 45)]),
        "sort": (lambda x: torch.sort(x, 1), [random(7, 1001)]),
        "topk": (lambda x: torch.topk(x, 9, 1), [random(7, 3001)]),
        "flip": (lambda x: x.flip(1), [random(37, 67)]),
        "pad": (lambda x: F.pad(x, (1, 2, 3, 4)), [random(37, 67)]),
        "tril": (torch.tril, [random(67, 97)]),
        "roll": (lambda x: x.roll(5, 1), [random(37, 67)]),
        "convolution": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [random(2, 20, 19, 23, dtype=half), random(24, 20, 3, 3, dtype=half), random(24, dtype=half)]),
        "convolution few": (lambda x, w: F.conv2d(x, w, padding=1), [random(2, 3, 19, 23, dtype=half), random(24, 3, 3, 3, dtype=half)]),
        "convolution depthwise": (lambda x, w: F.conv1d(x, w, padding=3, groups=24), [random(2, 24, 77, dtype=half), random(24, 1, 4, dtype=half)]),
        "convolution transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [random(2, 20, 9, 11, dtype=half), random(20, 24, 3, 3, dtype=half)]),
        "convolution backward": (lambda y, x, w: torch.ops.aten.convolution_backward(y, x, w, [24], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3),
                                 [random(2, 24, 19, 23, dtype=half), random(2, 20, 19, 23, dtype=half), random(24, 20, 3, 3, dtype=half)]),
        "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), [random(2, 3, 37, 45)]),
        "average pool backward": (lambda x: torch.ops.aten.avg_pool2d_backward(x, random_like(x, 37, 45), [3, 3], [2, 2], [1, 1], False, True, None), [random(2, 3, 19, 23)]),
        "upsample": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), [random(2, 3, 37, 45)]),
        "embedding": (F.embedding, [places(45, below=97), random(97, 67)]),
        "nll": (lambda x, t: F.nll_loss(x, t), [random(37, 67), places(37, below=67)]),
        "group norm": (lambda x: F.group_norm(x, 3), [random(2, 6, 37)]),
        "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), [random(5, 6, 37)]),
    }
    return found


def random_like(x, *spatial):
    """Zeros of the shape that a pooled tensor had."""
    return torch.zeros(*x.shape[:-2], *spatial, dtype=x.dtype, device=x.device)


def main():
    import nereid.ops
    nereid.ops.enable(routing=False)
    for name, (call, tensors) in calls("cuda").items():
        for _ in range(2):  # recorded, repeated
            call(*tensors)
        torch.cuda.synchronize()
        print(name)


if __name__ == "__main__":
    main()
