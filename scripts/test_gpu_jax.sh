#!/usr/bin/env bash
# Tests and measurements of nereid.jax on a machine with a GPU. Needs the wheel in dist/, and a Python with JAX for CUDA (`pip install "jax[cuda12]"`), pytest, pytest-timeout
# and NumPy; nothing is installed but into a folder.
#   scripts/test_gpu_jax.sh FOLDER [PYTEST OPTION...]     results: FOLDER/jax.txt, FOLDER/costs.txt, FOLDER/example.txt
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "$1")
shift
mkdir -p "$folder"
site=$(mktemp -d)
python3 -m pip install -q --no-deps --no-index --target "$site/packages" dist/*.whl || exit 1
cp -r tests benchmarks examples "$site" # beside the source tree, the package in it would be found first
export PYTHONPATH=$site/packages NEREID_CACHE_DIR=$site/kernels XLA_PYTHON_CLIENT_PREALLOCATE=false
cd "$site"
python3 -c 'import jax; print(jax.__version__, jax.devices("cuda"))' || exit 1
failed=0
python3 -m pytest -q -p no:cacheprovider -rfE --tb short tests/jax --target cuda "$@" >"$folder/jax.txt" 2>&1 || failed=1
python3 benchmarks/jax_calls.py --platform cuda >"$folder/costs.txt" 2>&1 || failed=1
python3 examples/jax/softmax.py >"$folder/example.txt" 2>&1 || failed=1
tail -n 3 "$folder/jax.txt"
cat "$folder/costs.txt" "$folder/example.txt"
exit $failed
