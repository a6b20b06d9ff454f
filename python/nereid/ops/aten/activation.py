"""Activation functions and their backward steps."""

from .._declare import declare
from ..functions import activation
from ..pointwise import FLOATS, INTEGERS, Pointwise, Rule

NUMBERS = (*INTEGERS, *FLOATS)


def _declare(name, function, inputs=("self", ), scalars=(), dtypes=FLOATS, promotion="default", check=None, ignored=(), mean_over=None, contiguous=(), **more):
    declare(Pointwise(name=name, inputs=inputs, scalars=scalars, check=check, ignored=ignored, mean_over=mean_over, contiguous=contiguous,
                      rules={(): Rule(function=function, promotion=promotion, dtypes=dtypes, **more)}))


def _chosen(name, choice, rules, inputs=("self", ), **more):
    declare(Pointwise(name=name, inputs=inputs, choices=(choice, ), rules={(value, ): Rule(function=function, dtypes=FLOATS) for value, function in rules.items()}, **more))


_declare("sigmoid", activation.sigmoid, promotion="int_to_float")
_declare("relu", activation.relu, dtypes=NUMBERS)
_declare("threshold", activation.threshold, scalars=("threshold", "value"), dtypes=NUMBERS)
_declare("silu", activation.silu)
_declare("mish", activation.mish)
_chosen("gelu", "approximate", {"none": activation.gelu, "tanh": activation.gelu_tanh})
_declare("elu", activation.elu, scalars=("alpha", "scale", "input_scale"))
_declare("celu", activation.celu, scalars=("alpha", ), check=lambda values: "division by zero" if values["alpha"] == 0 else None)
_declare("softplus", activation.softplus, scalars=("beta", "threshold"))
_declare("hardswish", activation.hardswish)
_declare("hardsigmoid", activation.hardsigmoid)
_declare("hardtanh", activation.hardtanh, scalars=("min_val", "max_val"))
_declare("leaky_relu", activation.leaky_relu, scalars=("negative_slope", ))
_declare("softshrink", activation.softshrink, scalars=("lambd", ), check=lambda values: "negative" if values["lambd"] < 0 else None)
_declare("hardshrink", activation.hardshrink, scalars=("lambd", ))
_declare("_prelu_kernel", activation.prelu, inputs=("self", "weight"), same=True)

# The order of the inputs decides the strides of the result: it is that of ATen's own iterators.
GRADIENT = ("grad_output", "self")
_declare("threshold_backward", activation.threshold_backward, ("self", "grad_output"), ("threshold", ), NUMBERS)
_declare("sigmoid_backward", activation.sigmoid_backward, ("grad_output", "output"))
_declare("tanh_backward", activation.tanh_backward, ("grad_output", "output"))
_declare("silu_backward", activation.silu_backward, GRADIENT)
_declare("mish_backward", activation.mish_backward, GRADIENT)
_chosen("gelu_backward", "approximate", {"none": activation.gelu_backward, "tanh": activation.gelu_tanh_backward}, GRADIENT)
_chosen("elu_backward", "is_result", {False: activation.elu_backward, True: activation.elu_backward_of_result}, ("grad_output", "self_or_result"),
        scalars=("alpha", "scale", "input_scale"), check=lambda values: "negative alpha" if values["is_result"] and values["alpha"] < 0 else None)
_declare("softplus_backward", activation.softplus_backward, GRADIENT, ("beta", "threshold"))
_declare("hardswish_backward", activation.hardswish_backward, GRADIENT)
_declare("hardsigmoid_backward", activation.hardsigmoid_backward, GRADIENT)
_declare("hardtanh_backward", activation.hardtanh_backward, GRADIENT, ("min_val", "max_val"))
_declare("leaky_relu_backward", activation.leaky_relu_backward, ("self", "grad_output"), ("negative_slope", ), ignored=("self_is_result", ),
         check=lambda values: "negative slope" if values["self_is_result"] and values["negative_slope"] < 0 else None)
_declare("softshrink_backward", activation.shrink_backward, GRADIENT, ("lambd", ))
_declare("hardshrink_backward", activation.shrink_backward, ("grad_out", "self"), ("lambd", ))
_declare("logit_backward", activation.logit_backward, GRADIENT, ("eps", ))
_declare("_prelu_kernel_backward", activation.prelu_backward, ("self", "weight", "grad_output"), same=True, results=2)
_declare("native_dropout_backward", activation.dropout_backward, ("grad_output", "mask"), ("scale", ), raw=(1, ))
_declare("log_sigmoid_backward", activation.log_sigmoid_backward, ("grad_output", "self", "buffer"), same=True,
         check=lambda values: None if values["self"].device.type == "cpu" else "the buffer is empty on GPUs")

# Losses: losses.py.
_declare("mse_loss_backward", activation.mse_backward, ("grad_output", "self", "target"), ignored=("reduction", ), mean_over="self")
_declare("smooth_l1_loss_backward", activation.smooth_l1_backward, ("self", "target", "grad_output"), ("beta", ), contiguous=("smooth_l1_loss_backward", ), ignored=("reduction", ), mean_over="self")
_declare("huber_loss_backward", activation.huber_backward, ("self", "target", "grad_output"), ("delta", ), contiguous=("huber_loss_backward", ), ignored=("reduction", ), mean_over="self")
