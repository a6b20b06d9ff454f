#!/usr/bin/env bash
# Sets everything up, builds, and passes the tests. Prints one summary; exits non-zero when anything failed.
#   scripts/test.sh         all unit and IR tests, most Python tests; of what takes longer a sample, another one each time
#   scripts/test.sh --all   everything
# The samples, and the random programs, follow from a seed, which is printed: NEREID_TEST_SEED=N chooses it.
set -uo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
"") all= ;;
--all) all=1 ;;
*) echo "usage: scripts/test.sh [--all]" >&2; exit 2 ;;
esac
seed=${NEREID_TEST_SEED:-$(($(date +%s) % 1000000))}
case $seed in *[!0-9]*) echo "NEREID_TEST_SEED is no number: $seed" >&2; exit 2 ;; esac
seed=$((10#$seed))
echo "seed $seed (NEREID_TEST_SEED); $(nproc) cores of $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1)"
part=$((seed % 3)) first=$((seed / 3)) # independent of one another: each part meets each sample
export NEREID_CACHE=0 # tests compile
results=build/test-results
steps=0 failures=0
rm -rf "$results" build/ptx

step() { # step NAME COMMAND...: runs it, records a failure with the end of its output, goes on
  local name=$1 start=$SECONDS code=0 output="$results/output-$((++steps))"
  shift
  echo "==> $name"
  "$@" > >(exec tee "$output") 2>&1 || code=$? # no pipeline: it would wait for processes that a step leaves behind
  sleep 0.3 # for tee
  if [ $code = 0 ]; then
    rm "$output"
    echo "    $name: ok ($((SECONDS - start)) s)"
  else
    mv "$output" "$results/failed-$((++failures)).txt"
    echo "$name" >>"$results/failed-steps"
    echo "    $name: FAILED ($((SECONDS - start)) s)"
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

sample() { # sample N [OPTION...]: the options that make pytest take every Nth test; none with --all
  [ -n "$all" ] || echo "--every $1 --first $first" "${@:2}"
}
tidy() { # tidy N: over every Nth file
  NEREID_TIDY_SAMPLE=$first/$1 scripts/check_tidy.sh build/release
}
ptx() { # ptx FOLDER ARCHITECTURE [OPTION...]: compiles every kernel of these tests, without a GPU
  step "PTX of tests/$1 for sm_$2" pytest "ptx-$1-$2" -n 2 "tests/$1" --ptx "build/ptx/$1-$2" --ptx-target "cuda:$2" "${@:3}"
}
features() { # features NAME [OPTION...]: the tests with another instruction set of the CPU
  step "language tests on $1" env NEREID_CPU_FEATURES="$1" "$python" -m pytest -q -p no:cacheprovider \
    --junitxml="$results/$1.xml" -n 2 tests/language tests/kernels "${@:2}"
}
aarch64() { # aarch64 NAME [OPTION...]: the tests on code for an instruction set of AArch64, in an emulator
  step "language tests on $1" env NEREID_TEST_AARCH64="$1" scripts/test_aarch64.sh --junitxml="$results/$1.xml" -n 2 \
    tests/language tests/kernels "${@:2}"
}
programs() { # programs NAME OPTION...: random programs, others with each seed; a failure prints the kernel made small (docs/generator.md)
  step "random programs $1 from seed $((seed * 1000))" "$python" -m tests.generator --seed $((seed * 1000)) --jobs 2 "${@:2}"
}

step "repository checks" "$python" scripts/check_repository.py
step "wheel checks" "$python" scripts/check_wheel.py dist/*.whl
# NVIDIA's packages, for the tests that are no Python.
export NEREID_TEST_SIMULATOR=$PWD/build/release/tests/unit/nvidia/nereid-simulate # runs the code of GPUs without one
export NEREID_CUDA_PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"] + "/nvidia/cu13")')
step "unit and IR tests" ctest --test-dir build/release --output-on-failure -j2 --output-junit "$PWD/$results/ctest.xml"
# Tests that mostly start processes of their own: most of the time, and few of the tests.
slow=(tests/training tests/install tests/oracle tests/syntax/test_against_cpython.py tests/examples tests/stress
  tests/runtime/test_{torch_opinfo,torch_inductor_suite,inductor_programs,packages,triton_version,places,nereid_torch}.py)
step "Python tests" pytest python -n 2 tests --ignore tests/ops --ignore tests/models --ignore tests/differentiation "${slow[@]/#/--ignore=}"
step "tests in processes of their own" pytest processes -n 2 "${slow[@]}" $(sample 8)
step "gradients of kernels" pytest differentiation -n 2 tests/differentiation $(sample 10 --each-function)
step "models of transformers" pytest models -n 2 tests/models $(sample 10 --each-function)
step "operators of PyTorch" pytest ops -n 2 tests/ops --ignore tests/ops/fused $(sample 100 --each-function)
step "operators of PyTorch without the router" env NEREID_OPS_ROUTER=0 "$python" -m pytest -q -p no:cacheprovider \
  --junitxml="$results/ops-python.xml" -n 2 tests/ops --ignore tests/ops/test_router.py --ignore tests/ops/fused $(sample 200)
step "fused operators" pytest fused -n 2 tests/ops/fused $(sample 10 --each-function)
# Checked and debug mode, every launch compared (docs/testing.md).
for mode in checked debug; do
  step "language tests in $mode mode" pytest "mode-$mode" -n 2 tests/language tests/kernels --mode "$mode" $(sample 40)
done
programs "on the CPU" --seconds 45
programs "in checked and debug mode" --seconds 25 --compile-mode checked,debug
programs "compiled for GPUs" --seconds 15 --mode crash --compile cuda:90,cuda:80
programs "on a simulated GPU" --seconds 8 --target sim
programs "of tiles on a simulated GPU" --seconds 6 --kind tiles --target sim:cuda:90
for folder in language kernels; do ptx $folder 90 $(sample 10); done

# What is long: with a seed one of three parts.
if [ -n "$all" ] || [ $part = 0 ]; then
  if [ -n "$all" ]; then kind=address; else kind="sample $first"; fi
  step "address sanitizer" scripts/test_sanitized.sh --results "$results" $kind
  aarch64 neoverse-v1 $(sample 16)
  step "choice of embedded code for AArch64" pytest aarch64-levels tests/aarch64
  [ -z "$all" ] || for name in neoverse-n1 aarch64; do aarch64 $name; done
fi
if [ -n "$all" ] || [ $part = 1 ]; then
  step "clang-tidy" tidy $([ -n "$all" ] && echo 1 || echo 2)
  step "thread sanitizer" scripts/test_sanitized.sh --results "$results" thread
fi
if [ -n "$all" ] || [ $part = 2 ]; then
  step "libFuzzer programs" scripts/test_sanitized.sh --results "$results" fuzz 20 $((seed + 1))
  for name in avx2 baseline; do features $name $(sample 8); done
  for sm in 80 86 89 100 120; do
    for folder in language kernels; do ptx $folder $sm $(sample 25); done
  done
fi
step "PTX assembles" "$python" scripts/assemble_ptx.py build/ptx

exec "$python" scripts/summary.py "$results"
