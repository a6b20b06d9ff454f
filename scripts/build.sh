#!/usr/bin/env bash
# Builds everything once, optimised: the library, the command line, the tests, and from the same build the wheel in dist/.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
export CCACHE_DIR=${CCACHE_DIR:-$PWD/.cache/ccache}

cmake --preset release -DPython_EXECUTABLE="$PWD/.venv/bin/python" >build-configure.log 2>&1 ||
  { cat build-configure.log >&2; exit 1; }
rm -f build-configure.log
cmake --build --preset release -- "$@"
rm -rf dist
.venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w dist .
ls -l dist/*.whl | awk '{printf "%s: %.1f MB\n", $NF, $5 / 1e6}'
