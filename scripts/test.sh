#!/usr/bin/env bash
# Sets everything up, builds, and passes the tests. Prints one summary; exits non-zero when anything failed.
set -uo pipefail
cd "$(dirname "$0")/.."
export NEREID_CACHE=0 # tests compile
results=build/test-results
rm -rf "$results" build/ptx

step() { # step NAME COMMAND...: runs it, records a failure, goes on
  local name=$1 start=$SECONDS
  shift
  echo "==> $name"
  if "$@"; then echo "    $name: ok ($((SECONDS - start)) s)"; else
    echo "    $name: FAILED ($((SECONDS - start)) s)"
    echo "$name" >>"$results/failed-steps"
  fi
}
must() { # a step without which nothing else makes sense
  echo "==> $*"
  local start=$SECONDS
  "$@" || { echo "FAILED: $*"; echo "0 passed, 1 failed"; exit 1; }
  echo "    $* ($((SECONDS - start)) s)"
}

must scripts/setup.sh
must scripts/build.sh
mkdir -p "$results"
python=$PWD/.venv/bin/python
export PATH="$PWD/.venv/bin:$PATH"
must "$python" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/*.whl

pytest() { # pytest NAME ARGUMENTS...: with a record for the summary
  local name=$1
  shift
  "$python" -m pytest -q -p no:cacheprovider --junitxml="$results/$name.xml" "$@"
}

step "repository checks" "$python" scripts/check_repository.py
step "clang-tidy" scripts/check_tidy.sh build/release
step "wheel checks" "$python" scripts/check_wheel.py dist/*.whl
# NVIDIA's packages, for the tests that are no Python.
export NEREID_CUDA_PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"] + "/nvidia/cu13")')
step "unit and IR tests" ctest --test-dir build/release --output-on-failure -j2 --output-junit "$PWD/$results/ctest.xml"
step "Python tests" pytest python -n 2 tests
# Every kernel of these tests as PTX, without a GPU: all for one or two generations, a sample for the others.
for run in language:90:1 language:80:25 language:86:25 language:89:25 language:100:25 language:120:25 kernels:90:1 kernels:80:1; do
  IFS=: read -r folder sm every <<<"$run"
  step "PTX of tests/$folder for sm_$sm" pytest "ptx-$folder-$sm" -n 2 "tests/$folder" --ptx "build/ptx/$folder-$sm" \
    --ptx-target "cuda:$sm" --ptx-every "$every"
done
step "PTX assembles" "$python" scripts/assemble_ptx.py build/ptx
for features in avx2 baseline; do
  step "language tests on $features" env NEREID_CPU_FEATURES=$features "$python" -m pytest -q -p no:cacheprovider \
    --junitxml="$results/$features.xml" -n 2 tests/language tests/kernels
done
# Random programs, others each time: a failure prints its seed and the kernel made small (docs/generator.md).
seed=${NEREID_GENERATOR_SEED:-$(($(date +%s) % 1000000 * 1000))}
# Checked and debug mode, every launch compared: a sample of the matrix (docs/testing.md).
for mode in checked debug; do
  step "language tests in $mode mode" pytest "mode-$mode" -n 2 tests/language tests/kernels --mode "$mode" \
    --mode-every 40 --mode-first $((seed / 1000 % 40))
done
step "random programs on the CPU from seed $seed" "$python" -m tests.generator --seed "$seed" --seconds 80 --jobs 2
step "random programs in checked and debug mode from seed $seed" "$python" -m tests.generator --seed "$seed" --seconds 40 --jobs 2 \
  --compile-mode checked,debug
step "random programs compiled for GPUs from seed $seed" "$python" -m tests.generator --seed "$seed" --seconds 25 --jobs 2 \
  --mode crash --compile cuda:90,cuda:80
NEREID_SIMULATOR=$PWD/build/release/tests/unit/nvidia/nereid-simulate \
  step "random programs on a simulated GPU from seed $seed" "$python" -m tests.generator --seed "$seed" --seconds 20 --jobs 2 --target sim
step "sanitizers" scripts/test_sanitized.sh "$results"

exec "$python" scripts/summary.py "$results"
