#!/usr/bin/env bash
# Sets everything up, builds, installs the wheel into .venv, and runs the main job: all seed kernels on real data,
# checked against float64 and timed beside NumPy and PyTorch.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh
.venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
exec .venv/bin/python benchmarks/cpu.py --all "$@"
