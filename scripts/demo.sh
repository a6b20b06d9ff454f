#!/usr/bin/env bash
# Sets everything up, builds, installs the wheel into .venv, and runs the main job: all seed kernels on real data,
# checked against float64 and timed beside NumPy and PyTorch, on the CPU and on the GPU where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
exec .venv/bin/python benchmarks/main_job.py --all "$@"
