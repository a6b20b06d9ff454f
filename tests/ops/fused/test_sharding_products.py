"""DTensor computes with fused products as their rules say."""

import pathlib
import subprocess
import sys

import pytest
import torch.distributed


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this build of PyTorch has no torch.distributed; those of the package index for Linux do")
def test_products():
    """In a process of its own: rules are registered once."""
    script = pathlib.Path(__file__).with_name("sharded_products.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(" ok\n") == 20
