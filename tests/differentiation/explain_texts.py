"""What `explain` says of gradients of some kernels: explain.txt. `python tests/differentiation/explain_texts.py` rewrites it; read the difference."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("tests/language", "tests/differentiation", "examples/kernels"):
    path = str(ROOT / folder)
    if path not in sys.path:
        sys.path.insert(0, path)

import nereid  # noqa: E402
import torch  # noqa: E402
from seed import giou_kernel  # noqa: E402
from test_grad import add, one_block_attention, one_block_matmul, swiglu  # noqa: E402
from test_jvp_kernels import attention, causal_conv, cross_entropy, embedding, layer_norm, rms_norm, rope, softmax  # noqa: E402

FILE = pathlib.Path(__file__).with_name("explain.txt")


def cases():
    """(kernel, wrt, out, arguments): tensors by their number of elements."""
    f = torch.zeros(4096)
    index = torch.zeros(8, dtype=torch.int64)
    return [
        (add, ("x", "w"), "y", dict(x=f, w=f, y=f, n=100, BLOCK=32)),
        (swiglu, ("gate", "up"), "y", dict(gate=f, up=f, y=f, n=100, BLOCK=32)),
        (giou_kernel, "preds_ptr", "output_ptr", dict(preds_ptr=f, targets_ptr=f, output_ptr=f, valid_ptr=torch.zeros(4096, dtype=torch.bool), BLOCK_SIZE=256)),
        (softmax, "X", "Y", dict(Y=f, stride_ym=131, stride_yn=1, X=f, stride_xm=131, stride_xn=1, M=7, N=131)),
        (rms_norm, ("X", "Residual", "W"), "Y", dict(X=f, Residual=f, W=f, Y=f, N=50, eps=0.125, BLOCK=64)),
        (cross_entropy, "logits", "loss", dict(logits=f, labels=index, loss=f, N=50, smoothing=0.125, BLOCK=64)),
        (rope, "x", "y", dict(x=f, cos=f, sin=f, y=f, D=16)),
        (embedding, "table", "y", dict(table=f, index=index, y=f, D=16)),
        (causal_conv, ("x", "w"), "y", dict(x=f, w=f, y=f, length=25, WIDTH=4, BLOCK=32)),
        (one_block_matmul, ("a_ptr", "b_ptr"), "c_ptr", dict(a_ptr=f, b_ptr=f, c_ptr=f, M=37, N=29, K=25, BM=16, BN=16, BK=32)),
        (one_block_attention, ("Q", "K", "V"), "Out", dict(Q=f, K=f, V=f, Out=f, length=25, scale=0.25, BLOCK=32, D=16)),
        (layer_norm, ("X", "W", "B"), "Y", dict(X=f, Y=f, W=f, B=f, Mean=f, Rstd=f, stride=77, N=77, eps=0.125, BLOCK_SIZE=32)),
        (attention, ("Q", "K", "V"), "Out", dict(Q=f, K=f, V=f, Out=f, M=f, stride_h=400, stride_n=16, scale=0.25, heads=2, length=25, BM=16, BN=16, D=16, CAUSAL=True)),
    ]


def texts():
    parts = []
    for kernel, wrt, out, arguments in cases():
        gradient = nereid.grad(kernel, wrt, out)
        names = [name for each in (wrt, out) for name in ([each] if isinstance(each, str) else each)]
        gradient.backward.warmup(**arguments, **{f"d{name}": arguments[name] for name in names}, grid=(8, ), target="cpu")
        parts.append(gradient.explain())
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(texts())
