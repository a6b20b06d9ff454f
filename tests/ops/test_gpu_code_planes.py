"""Pooling, interpolation, padding, grids, bags, margins and distances compiled for a GPU that need not be there: the assembler takes the code, and at most two registers are spilled."""

import importlib.util
import pathlib
import re
import subprocess

import pytest
import torch
from nereid.backends.compiler import GPUTarget

import nereid.ops
from nereid.ops import _launch
from nereid.ops.aten import _plane_tiles, _planes, bags, copies, ctc, distances, grids, interpolation, margins, padding, pooling

_spec = importlib.util.spec_from_file_location("assemble_ptx", pathlib.Path(__file__).resolve().parents[2] / "scripts" / "assemble_ptx.py")
assemble_ptx = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(assemble_ptx)


@pytest.fixture
def compiled(monkeypatch):
    """What is launched is compiled for sm_90 instead: a list of (name of the kernel, its compiled form)."""
    found = []

    def launch(kernel, grid, device, arguments, constants, integers="i64", divisible=(), **options):
        kinds = {name: _launch._type(value, integers if isinstance(integers, str) else integers.get(name, "i64")) for name, value in arguments.items()}
        found.append((kernel.__name__, _launch.compile_kernel(kernel, device, kinds, constants, True, {name: _launch._multiples(arguments[name]) for name in divisible}, **options)))

    monkeypatch.setattr(_launch, "_target", lambda device: GPUTarget("cuda", 90, 32))
    for module in (_plane_tiles, _planes, bags, ctc, distances, grids, margins, padding):
        monkeypatch.setattr(module, "launch", launch)
    for module in (_planes, copies, grids, interpolation, padding, pooling):
        monkeypatch.setattr(module, "by_lines", lambda device: False)
    monkeypatch.setattr(bags, "_rows_at_once", lambda device: 8)
    for module, name in ((bags, "exist"), (distances, "exist"), (pooling, "exist"), (bags, "within"), (margins, "within"), (bags, "clear"), (pooling, "clear")):
        monkeypatch.setattr(module, name, lambda *args: True)  # they would run
    return found


def half(*shape, dtype=torch.bfloat16):
    return torch.zeros(shape, dtype=dtype)


def place(*shape):
    return torch.zeros(shape, dtype=torch.int64)


planes, volumes, small = half(2, 4, 16, 16), half(2, 4, 8, 8, 8), half(2, 4, 8, 8)
scores = torch.zeros(4, 50)
CALLS = {
    "max_pool": ("max_pool3d_with_indices", (volumes, [2], [2], [0], [1], False)), "max_pool_gradient": (
        "max_pool3d_with_indices_backward", (half(2, 4, 4, 4, 4), volumes, [2], [2], [0], [1], False, place(2, 4, 4, 4, 4))),
    "average_pool": ("avg_pool2d", (planes, [2], [2], [0], False, True, None)), "average_pool_gradient": ("avg_pool2d_backward", (small, planes, [2], [2], [0], False, True, None)),
    "random_max_pool": ("fractional_max_pool3d", (volumes.float(), [2, 2, 2], [3, 3, 3], torch.zeros(2, 4, 3))), "max_unpool": ("max_unpool2d", (small, place(2, 4, 8, 8), [16, 16])),
    "upsample_planes": ("upsample_bicubic2d", (planes, [24, 24], False)), "resample_along": ("upsample_bicubic2d_backward", (half(2, 4, 24, 24), [24, 24], [2, 4, 16, 16], False)),
    "nearest_gradient": ("upsample_nearest3d_backward", (half(2, 4, 9, 9, 9), [9, 9, 9], [2, 4, 8, 8, 8])), "filter_sums": (
        "_upsample_bilinear2d_aa_backward", (small.float(), [8, 8], [2, 4, 16, 16], False)), "shuffle_pixels": ("pixel_shuffle", (half(2, 16, 8, 8), 2)), "pad": ("reflection_pad2d", (planes, [1, 2, 3, 4])),
    "reflect_gradient": ("reflection_pad2d_backward", (half(2, 4, 23, 19), planes, [1, 2, 3, 4])), "replicate_gradient": (
        "replication_pad2d_backward", (half(2, 4, 23, 19), planes, [1, 2, 3, 4])),
    "patches": ("im2col", (planes, [3, 3], [1, 1], [1, 1], [1, 1])), "patch_sums": ("col2im", (half(2, 36, 256), [16, 16], [3, 3], [1, 1], [1, 1], [1, 1])),
    "window_sums": ("unfold_backward", (half(2, 7, 4), [2, 16], 1, 4, 2)),
    "sample": ("grid_sampler_2d", (planes, half(2, 8, 8, 2), 0, 0, False)), "sample_gradient": (
        "grid_sampler_3d_backward", (half(2, 4, 5, 6, 7), volumes, half(2, 5, 6, 7, 3), 0, 2, False, [True, True])),
    "grid_gradient": ("grid_sampler_2d_backward", (small, planes, half(2, 8, 8, 2), 2, 0, False, [False, True])),
    "bag_sums": ("_embedding_bag", (half(10, 64), place(20), place(4))), "bag_maxima": ("_embedding_bag", (half(10, 64), place(20), place(4), False, 2)),
    "bag_gradient": ("_embedding_bag_dense_backward", (half(4, 64), place(20), place(20), place(4), place(4), 10, False, 1, None)),
    "bag_maxima_gradient": ("_embedding_bag_dense_backward", (half(4, 64), place(20), place(20), place(4), place(4, 64), 10, False, 2, None)),
    "bag_weight_gradient": ("_embedding_bag_per_sample_weights_backward", (half(4, 64), half(10, 64), place(20), place(4), place(20), 0)),
    "multi_margin": ("multi_margin_loss", (scores, place(4), 2, 1.0, None, 1)), "multi_margin_gradient": ("multi_margin_loss_backward", (torch.zeros(()), scores, place(4), 1, 1.0)),
    "multilabel_margin": ("multilabel_margin_loss_forward", (scores, place(4, 50), 1)),
    "multilabel_margin_gradient": ("multilabel_margin_loss_backward", (torch.zeros(()), scores, place(4, 50), 1, scores)),
    "distances": ("_cdist_forward", (torch.zeros(2, 20, 8), torch.zeros(2, 30, 8), 1.5, None)), "distance_gradient": (
        "_cdist_backward", (torch.zeros(2, 20, 30), torch.zeros(2, 20, 8), torch.zeros(2, 30, 8), 2.0, torch.zeros(2, 20, 30))),
    "forward": ("_ctc_loss", (torch.zeros(50, 2, 30), place(2, 10), [50, 40], [10, 9])), "backward": (
        "_ctc_loss_backward", (torch.zeros(2), torch.zeros(50, 2, 30), place(2, 10), [50, 40], [10, 9], torch.zeros(2), torch.zeros(2, 50, 21), 0)),
    "cross": ("linalg_cross", (torch.zeros(20, 3), torch.zeros(20, 3))), "keep_rows": ("embedding_renorm", (torch.zeros(10, 64), place(20), 1.0, 2.0)),
}


@pytest.mark.skipif(not assemble_ptx.find_ptxas(), reason="needs ptxas, which requirements-dev.txt installs")
@pytest.mark.parametrize("kernel", CALLS)
def test_code(kernel, compiled, tmp_path):
    name, args = CALLS[kernel]
    operator = nereid.ops.OPERATORS[name]
    form = operator.forms[0]
    result = operator.call(form, *form.bind(args, {}))
    assert type(result) is not nereid.ops.Native, result
    found = [its for its_name, its in compiled if its_name == kernel]
    assert found, [name for name, _ in compiled]
    path = tmp_path / "kernel.ptx"
    path.write_text(found[0].asm["ptx"])
    said = subprocess.run([assemble_ptx.find_ptxas(), "-arch=sm_90a", "-v", path, "-o", tmp_path / "out"], capture_output=True, text=True, check=True).stderr
    assert int(re.search(r"(\d+) bytes spill stores", said)[1]) <= 8, said
