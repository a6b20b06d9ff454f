#!/usr/bin/env bash
# All tests of nereid.ops on a machine with a GPU, on its GPU and on its CPU at once. The wheel has to be in dist/; nothing is installed but into a folder.
#   scripts/test_gpu_ops.sh FOLDER [SECONDS] [PYTEST OPTION...]     results: FOLDER/cuda.txt, FOLDER/cpu.txt
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$1 seconds=${2:-560}
shift $(($# > 1 ? 2 : 1))
mkdir -p "$folder"
site=$(mktemp -d)
python3 -m pip install -q --no-deps --no-index --target "$site/packages" dist/*.whl || exit 1
cp -r tests "$site/tests" # beside the source tree, the package in it would be found first
export PYTHONPATH=$site/packages NEREID_OPS_CACHE=$site/cache NEREID_CACHE_DIR=$site/kernels
cd "$site"
python3 -c 'import nereid.ops; nereid.ops.enable(); nereid.ops.disable()' # builds the router
workers=$(($(nproc) / 2))
for target in cuda cpu; do
  NEREID_TEST_TARGETS=$target timeout -s INT "$seconds" python3 -m pytest -q -p no:cacheprovider -n "$workers" -rfE --tb short tests/ops "$@" >"$folder/$target.txt" 2>&1 &
done
wait
tail -n 3 "$folder/cuda.txt" "$folder/cpu.txt"
