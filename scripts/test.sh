#!/usr/bin/env bash
# Sets everything up, builds, and passes the tests. Prints one summary; exits non-zero when anything failed.
#   scripts/test.sh         all unit and IR tests, most Python tests; of what takes longer a sample, another one each time
#   scripts/test.sh --all   everything
#   scripts/test.sh --plan  only lists the steps and how long each is expected to take (scripts/budget.sh)
# The samples, and the random programs, follow from a seed, which is printed: NEREID_TEST_SEED=N chooses it. Without --all the run keeps to
# NEREID_TEST_MINUTES (45): on a slow machine samples become smaller, what would begin too late is left out, and the summary says so.
set -uo pipefail
cd "$(dirname "$0")/.."
all= planning=
case "${1:-}" in
"") ;;
--all) all=1 ;;
--plan) plan=1 ;;
*) echo "usage: scripts/test.sh [--all | --plan]" >&2; exit 2 ;;
esac
number() { # number NAME DEFAULT: the value of a setting
  local value=${!1:-$2}
  case $value in *[!0-9]*) echo "$1 is no number: $value" >&2; exit 2 ;; esac
  echo $((10#$value))
}
seed=$(number NEREID_TEST_SEED $(($(date +%s) % 1000000))) || exit
minutes=$(number NEREID_TEST_MINUTES 45) || exit
part=$((seed % 3)) first=$((seed / 3)) # independent of one another: each part meets each sample
export NEREID_CACHE=0 # tests compile
export python=$PWD/.venv/bin/python results=build/test-results
. scripts/budget.sh
[ -n "$all" ] || budget=$((60 * minutes))

must() { # a step without which nothing else makes sense
  echo "==> $*"
  local start=$SECONDS
  "$@" || { echo "FAILED: $*"; echo "0 passed, 1 failed"; exit 1; }
  echo "    $* ($((SECONDS - start)) s)"
}

pytest() { # pytest NAME ARGUMENTS...: with a record for the summary
  local name=$1
  shift
  "$python" -m pytest -q -p no:cacheprovider --junitxml="$results/$name.xml" "$@"
}
tidy() { # tidy K/N: over every Nth file from the Kth on
  NEREID_TIDY_SAMPLE=$1 scripts/check_tidy.sh build/release
}

sample() { # sample N [--each-function]: the options that make pytest take every Nth test, fewer where time is short; none with --all
  local every
  every=$(shrunk "$1")
  [ -n "$all" ] || echo "--every $every --first $first" $([ "$every" -ge $((2 * $1)) ] || echo "${@:2}")
}
ptx() { # ptx FOLDER ARCHITECTURE [OPTION...]: compiles every kernel of these tests, without a GPU
  pytest "ptx-$1-$2" -n 2 "tests/$1" --ptx "build/ptx/$1-$2" --ptx-target "cuda:$2" "${@:3}"
}
features() { # features NAME [OPTION...]: the tests with another instruction set of the CPU
  NEREID_CPU_FEATURES=$1 pytest "$1" -n 2 tests/language tests/kernels "${@:2}"
}
aarch64() { # aarch64 NAME [OPTION...]: the tests on code for an instruction set of AArch64, in an emulator
  NEREID_TEST_AARCH64=$1 scripts/test_aarch64.sh --junitxml="$results/$1.xml" -n 2 tests/language tests/kernels "${@:2}"
}
export -f pytest tidy ptx features aarch64
programs() { # programs SECONDS NAME OPTION...: random programs, others with each seed; a failure prints the kernel made small (docs/generator.md)
  step $(($1 + 3)) "random programs $2 from seed $((seed * 1000))" "$python" -m tests.generator --seed $((seed * 1000)) --jobs 2 --seconds "$1" "${@:3}"
}

# Tests that mostly start processes of their own: most of the time, and few of the tests.
slow=(tests/training tests/install tests/oracle tests/syntax/test_against_cpython.py tests/examples tests/stress
  tests/runtime/test_{torch_opinfo,torch_inductor_suite,inductor_programs,packages,triton_version,places,nereid_torch}.py)
others=(tests/ops tests/models tests/differentiation tests/gpu "${slow[@]}")

most_important() {
  step 15 "repository checks" "$python" scripts/check_repository.py
  step 2 "wheel checks" "$python" scripts/check_wheel.py dist/*.whl
  step 130 "unit and IR tests" ctest --test-dir build/release --output-on-failure -j2 --output-junit "$PWD/$results/ctest.xml"
  sampled 310 "Python tests" pytest python -n 2 tests "${others[@]/#/--ignore=}" $(sample 1)
}
long() { # one of three parts, by the seed
  local sm folder name
  if [ -n "$all" ] || [ $part = 0 ]; then
    spare 800 "address sanitizer" scripts/test_sanitized.sh --results "$results" $([ -n "$all" ] && echo address || echo sample $first)
    spare 60 "language tests on neoverse-v1" aarch64 neoverse-v1 $(sample 16)
    spare 20 "choice of embedded code for AArch64" pytest aarch64-levels tests/aarch64
    [ -z "$all" ] || for name in neoverse-n1 aarch64; do spare 800 "language tests on $name" aarch64 $name; done
  fi
  if [ -n "$all" ] || [ $part = 1 ]; then
    spare 200 "thread sanitizer" scripts/test_sanitized.sh --results "$results" thread
    spare 55 "clang-tidy" tidy "$first/$([ -n "$all" ] && echo 1 || echo 4)"
  fi
  if [ -n "$all" ] || [ $part = 2 ]; then
    spare 400 "libFuzzer programs" scripts/test_sanitized.sh --results "$results" fuzz 20 $((seed + 1))
    for name in avx2 baseline; do spare 35 "language tests on $name" features $name $(sample 12); done
    for sm in 80 86 89 100 120; do
      for folder in language kernels; do spare 8 "PTX of tests/$folder for sm_$sm" ptx $folder $sm $(sample 25); done
    done
  fi
}
samples() {
  local mode folder
  sampled 35 "gradients of kernels" pytest differentiation -n 2 tests/differentiation $(sample 20 --each-function)
  sampled 100 "operators of PyTorch" pytest ops -n 2 tests/ops --ignore tests/ops/fused $(sample 200 --each-function)
  sampled 40 "fused operators" pytest fused -n 2 tests/ops/fused $(sample 20 --each-function)
  sampled 40 "code for GPUs" pytest gpu -n 2 tests/gpu $(sample 4 --each-function)
  sampled 35 "models of transformers" pytest models -n 2 tests/models $(sample 20 --each-function)
  # Checked and debug mode, every launch compared (docs/testing.md).
  for mode in checked debug; do
    sampled 15 "language tests in $mode mode" pytest "mode-$mode" -n 2 tests/language tests/kernels --mode "$mode" $(sample 40)
  done
  for folder in language kernels; do sampled 12 "PTX of tests/$folder for sm_90" ptx $folder 90 $(sample 10); done
  sampled 65 "tests in processes of their own" pytest processes -n 2 "${slow[@]}" $(sample 12)
  programs 30 "on the CPU"
  programs 20 "in checked and debug mode" --compile-mode checked,debug
  programs 10 "compiled for GPUs" --mode crash --compile cuda:90,cuda:80
  programs 8 "on a simulated GPU" --target sim
  programs 7 "of tiles on a simulated GPU" --kind tiles --target sim:cuda:90
  sampled 25 "operators of PyTorch without the router" env NEREID_OPS_ROUTER=0 "$python" -m pytest -q -p no:cacheprovider \
    --junitxml="$results/ops-python.xml" -n 2 tests/ops --ignore tests/ops/test_router.py --ignore tests/ops/fused $(sample 300)
}
all_steps() {
  most_important
  long
  samples
  if [ -n "$planning" ] || [ -d build/ptx ]; then step 15 "PTX assembles" "$python" scripts/assemble_ptx.py build/ptx; fi
}

if [ -n "${plan:-}" ]; then
  planning=print
  all_steps
  echo "$((planned_fixed + planned_sampled + planned_spare)) s after set-up and build: $planned_fixed s as they are, $planned_sampled s samples, $planned_spare s where there is time"
  exit
fi
planning=quiet
all_steps
planning=
echo "seed $seed (NEREID_TEST_SEED); $(nproc) cores of $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1);" \
  "$([ -n "$all" ] && echo everything || echo "$minutes minutes (NEREID_TEST_MINUTES)")"
rm -rf "$results" build/ptx
must scripts/setup.sh
must scripts/build.sh
mkdir -p "$results"
export PATH="$PWD/.venv/bin:$PATH"
must "$python" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
# NVIDIA's packages, for the tests that are no Python.
export NEREID_TEST_SIMULATOR=$PWD/build/release/tests/unit/nvidia/nereid-simulate # runs the code of GPUs without one
export NEREID_CUDA_PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"] + "/nvidia/cu13")')
all_steps
exec "$python" scripts/summary.py "$results"
