"""What a training step calls, on DTensors of two processes: results, gradients, norms, the optimizer."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch.distributed


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this build of PyTorch has no torch.distributed; those of the package index for Linux do")
def test_a_step_in_parts(tmp_path):
    script = pathlib.Path(__file__).with_name("sharded_training.py")
    # The processes compile the same kernels.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NEREID_CACHE": "1", "NEREID_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    lines = done.stdout.splitlines()
    assert sum(line.startswith("operator ") for line in lines) == 41 and lines.count("norms") == 1 and sum(line.startswith("optimizer ") for line in lines) == 2
