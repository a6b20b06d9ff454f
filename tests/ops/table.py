"""Test rows: which OpInfos reach an operator, where they do not have its name, and what accuracy can be asked for.

{operator: ((names of OpInfos), {keyword of opinfo.Row: value})}
"""

from table_moves import OPINFOS as MOVES
from table_planes import GRADIENTS, OPINFOS as PLANES
from table_products import OPINFOS as PRODUCTS
from table_reductions import OPINFOS as REDUCTIONS

OPINFOS = MOVES | PLANES | PRODUCTS | REDUCTIONS | {
    "logaddexp": (("logaddexp", ), {"absolute": 2}),
    "logaddexp2": (("logaddexp2", ), {"absolute": 2}),
    # ATen's kernels round the product or do not, as the processor has it.
    "addcmul": (("addcmul", ), {"absolute": 2}),
    "addcdiv": (("addcdiv", ), {"absolute": 2}),
    # Which of two equal zeros is the greater one is not the same on GPUs and CPUs, in ATen's vectors and its tails.
    **{name: ((name, ), {"zeros": False}) for name in ("fmax", "fmin", "maximum", "minimum", "max", "min", "clamp_min", "clamp_max")},
    "relu": (("nn.functional.relu", ), {"gpu": {"zeros": False}}),
    "gelu": (("nn.functional.gelu", ), {"fp64": 16}),  # 1 + tanh(x) for negative x
    # Logarithms, sines and cosines of Box and Muller.
    **{name: ((name, ), {"gpu": {"absolute": 8}}) for name in ("normal", "randn", "randn_like", "rand_like")},
    "i0": (("i0", ), {"fp64": 8}),
    # On GPUs ATen computes the maximum in the dtype of the output: 6 and -6 written to uint8 give 250.
    "clamp": (("clamp", ), {"gpu": {"mixed_inplace": False}}),
    # On GPUs ATen computes fp64 with constants of fp32.
    "hardswish": (("nn.functional.hardswish", ), {"gpu": {"fp64": 2**28}}),
    "rsub": (("rsub", ), {}),
    "special_i1": (("special.i1", ), {"gpu": {"fp64": 64, "zeros": False}}),
    "special_i0e": (("special.i0e", ), {"ulps": 8, "fp64": 8}),
    "special_i1e": (("special.i1e", ), {"ulps": 8, "fp64": 16, "gpu": {"fp64": 64, "zeros": False}}),
    "digamma": (("digamma", ), {"absolute": 2}),  # beside its roots
    "lgamma": (("lgamma", ), {"absolute": 4}),  # beside its roots
    "special_ndtri": (("special.ndtri", ), {"absolute": 4}),  # beside its root
    "special_log_ndtr": (("special.log_ndtr", ), {"fp64": 32, "gpu": {"fp64": 256}}),
    "special_erfcx": (("special.erfcx", ), {"fp64": 8, "gpu": {"fp64": 16}}),
    "special_entr": (("special.entr", ), {}),
    "special_xlog1py": (("special.xlog1py", ), {}),
    "polygamma": (("polygamma", ), {"ulps": 16, "fp64": 16, "absolute": 2}),
    "__lshift__": (("bitwise_left_shift", ), {}),
    "__rshift__": (("bitwise_right_shift", ), {}),
    "fill": (("fill", "full_like"), {}),
    "zero": (("zeros_like", "new_zeros"), {}),
    "copy": (("clone", "contiguous", "to", "float", "half", "bool", "int", "tile"), {}),
    "_prelu_kernel": (("nn.functional.prelu", ), {}),
    "log_sigmoid_backward": (("nn.functional.logsigmoid", ), {}),
    "native_dropout_backward": ((), {}),
    "log_sigmoid_forward": (("nn.functional.logsigmoid", ), {}),
    # ATen's vectors give 0, its tails -0 for small negative numbers.
    "softshrink": (("nn.functional.softshrink", ), {"zeros": False}),
    # By the gradients of:
    "threshold_backward": (("nn.functional.relu", "nn.functional.threshold"), {}),
    "sigmoid_backward": (("sigmoid", ), {}),
    "tanh_backward": (("tanh", ), {}),
    "silu_backward": (("nn.functional.silu", ), {}),
    "mish_backward": (("nn.functional.mish", ), {}),
    "gelu_backward": (("nn.functional.gelu", ), {}),
    "elu_backward": (("nn.functional.elu", "nn.functional.celu", "nn.functional.selu"), {}),
    "softplus_backward": (("nn.functional.softplus", ), {}),
    "hardswish_backward": (("nn.functional.hardswish", ), {}),
    "hardsigmoid": (("nn.functional.hardsigmoid", ), {"fp64": 2**28}),  # its slope is 1/6 rounded to fp32
    "hardsigmoid_backward": (("nn.functional.hardsigmoid", ), {"fp64": 2**28}),
    "hardtanh_backward": (("nn.functional.hardtanh", "nn.functional.relu6"), {}),
    "leaky_relu_backward": (("nn.functional.leaky_relu", ), {}),
    "softshrink_backward": (("nn.functional.softshrink", ), {}),
    "hardshrink_backward": (("nn.functional.hardshrink", ), {}),
    "logit_backward": (("logit", ), {}),
    "glu_backward": (("nn.functional.glu", ), {}),
    "mse_loss_backward": (("nn.functional.mse_loss", ), {}),
    "smooth_l1_loss_backward": (("nn.functional.smooth_l1_loss", ), {}),
    "huber_loss_backward": (("nn.functional.huber_loss", ), {}),
    "_prelu_kernel_backward": (("nn.functional.prelu", ), {}),
}

#: Operators that forward samples do not reach, only gradients.
BACKWARD = [name for name in OPINFOS if name.endswith(("_backward", "_backward_data")) or name in GRADIENTS]
