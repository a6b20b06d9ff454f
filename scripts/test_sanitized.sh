#!/usr/bin/env bash
# Builds with the sanitizers and tests so.
#   scripts/test_sanitized.sh [--results FOLDER] [address | thread | sample K | fuzz SECONDS [SEED]]
# address: the unit tests, the whole language matrix and the C ABI under the address and undefined-behaviour sanitizers.
# thread: under the thread sanitizer, the pool of threads of the CPU target and what threads share in the runtime (85 objects; the rest of
# the compiler comes from the release build).
# sample K: what `address` does, without the unit tests, and of the matrix every 12th test from the Kth on.
# fuzz SECONDS [SEED]: each program of libFuzzer for so long (docs/testing.md), from what it found before in build/fuzz/corpus; the seed is a
# random one without SEED.
# Without one of them: address and thread.
set -euo pipefail
cd "$(dirname "$0")/.."
results=build/test-results
if [ "${1:-}" = --results ]; then
  results=$2
  shift 2
fi
part=${1:-all}
case $part in
all | address | thread) ;;
sample) first=${2:?which test to begin with} ;;
fuzz) seconds=${2:?for how long} seed=${3:-0} ;;
*) echo "unknown part $part" >&2; exit 2 ;;
esac
mkdir -p "$results"
export PATH="$PWD/.venv/bin:$PATH"
export CCACHE_DIR=${CCACHE_DIR:-$PWD/.cache/ccache}
# LLVM itself is not instrumented: containers that cross into it cannot be checked for overflow, and memory that its allocators hand out
# stays poisoned.
export ASAN_OPTIONS=allow_user_poisoning=0:detect_container_overflow=0:detect_leaks=0:detect_odr_violation=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1

if [ "$part" = fuzz ]; then
  [ -f build/release/src/runtime/libnereid_runtime.a ] || { echo "the fuzzer of the C ABI takes the compiler from build/release: build it first" >&2; exit 1; }
  cmake --preset fuzz -DPython_EXECUTABLE="$PWD/.venv/bin/python" >/dev/null
  cmake --build --preset fuzz
  for name in parse evaluate c_abi; do
    mkdir -p "build/fuzz/corpus/$name"
    # -len_control=0: long inputs from the start; what fails is kept beside the corpus.
    build/fuzz/tests/fuzz/${name}_fuzzer "build/fuzz/corpus/$name" -seed="$seed" -max_total_time="$seconds" -max_len=2000 -len_control=0 -rss_limit_mb=4096 \
      -timeout=120 -print_final_stats=1 -verbosity=0 -print_funcs=0 -artifact_prefix="build/fuzz/$name-"
  done
  exit 0
fi

if [ "$part" != thread ]; then
  cmake --preset asan -DPython_EXECUTABLE="$PWD/.venv/bin/python" >/dev/null
  if [ "$part" = sample ]; then
    cmake --build --preset asan --target nereid_python nereid_compiler_library nereid_generated evaluate_random
    sample=(--every 12 --first "$first")
  else
    cmake --build --preset asan
    sample=()
    # Not the installation test: its program is built without the sanitizers, as a user's would be.
    ctest --test-dir build/asan -E install_and_use_cpp --output-on-failure -j2 --output-junit "$PWD/$results/asan-ctest.xml"
  fi
  runtime=$(clang-"$(sed -n 's/^set(NEREID_LLVM_VERSION \([0-9]*\))$/\1/p' cmake/LLVMVersion.cmake)" \
    -print-file-name=libclang_rt.asan-x86_64.so)
  # The seed kernels and the language matrix.
  LD_PRELOAD=$runtime PYTHONPATH=build/asan/python .venv/bin/python -m pytest -q -p no:cacheprovider -n 2 \
    --junitxml="$results/asan-python.xml" "${sample[@]}" tests/runtime/test_seed_kernels.py tests/language tests/kernels
  # The C ABI with random arguments, a minute; for an hour: python tests/runtime/c_abi.py random 3600 SEED.
  LD_PRELOAD=$runtime PYTHONPATH=build/asan/python .venv/bin/python tests/runtime/c_abi.py random 60 "$(date +%j)" 2>"$results/asan-c-abi.txt"
  # Random programs for the front end's evaluation, in bounded time and memory; another seed each time, which is printed.
  build/asan/tests/fuzz/evaluate_random 45
fi
[ "$part" = all ] || [ "$part" = thread ] || exit 0

[ -f build/release/build.ninja ] || cmake --preset release -DPython_EXECUTABLE="$PWD/.venv/bin/python" >/dev/null
cmake --build --preset release --target nereid_runtime
cmake --preset tsan -DPython_EXECUTABLE="$PWD/.venv/bin/python" >/dev/null
cmake --build --preset tsan --target cpu_executor_test threads_test
TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 ctest --test-dir build/tsan -R '^(cpu_executor|threads|threads_cuda)_test$' \
  --output-on-failure --output-junit "$PWD/$results/tsan-ctest.xml"
