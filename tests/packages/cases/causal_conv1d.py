"""causal-conv1d: the states of ragged sequences."""

import torch

from host import case, randn, tensor

from causal_conv1d.causal_conv1d_varlen import causal_conv1d_varlen_states, causal_conv1d_varlen_states_ref


@case()
def varlen_states():
    x, lengths = randn(50, 96), tensor([0, 3, 20, 50], dtype=torch.int32)
    return causal_conv1d_varlen_states(x, lengths, 5), causal_conv1d_varlen_states_ref(x, lengths, 5)
