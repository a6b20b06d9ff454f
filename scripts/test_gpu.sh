#!/usr/bin/env bash
# What a machine with an NVIDIA GPU runs: the tests on the target `cuda`, compute-sanitizer, and (with --benchmarks) the benchmarks.
#
#   scripts/test_gpu.sh [--wheel FILE] [--part language|runtime|install|sanitizer|benchmarks|opinfo]... [--jobs N] [--out FOLDER]
#
# Without --wheel the `nereid` that Python finds is tested. The wheel is installed into a folder of its own; nothing else is touched.
# Needs torch with CUDA and pytest; pytest-xdist is used when it is there, else the files are spread over N processes.
set -uo pipefail
cd "$(dirname "$0")/.."
wheel="" parts=() jobs=8 out=build/gpu-results
while [ $# -gt 0 ]; do
  case $1 in
  --wheel) wheel=$2; shift 2 ;;
  --part) parts+=("$2"); shift 2 ;;
  --jobs) jobs=$2; shift 2 ;;
  --out) out=$2; shift 2 ;;
  *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(runtime language install sanitizer)
mkdir -p "$out"
out=$(cd "$out" && pwd)
python=${PYTHON:-python3}
if [ -n "$wheel" ]; then
  rm -rf "$out/site"
  "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$out/site" "$wheel" || exit 1
  export PYTHONPATH="$out/site${PYTHONPATH:+:$PYTHONPATH}"
fi
export NEREID_TEST_TARGETS=cuda NEREID_CACHE=0 PYTHONDONTWRITEBYTECODE=1
failed=()
step() { # step NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$out/$name.log" 2>&1; then echo "$name: ok ($((SECONDS - start)) s)"; else
    failed+=("$name")
    echo "$name: FAILED ($((SECONDS - start)) s), see $out/$name.log"
    tail -n 15 "$out/$name.log" | sed 's/^/    /'
  fi
}

# pytest over several processes. A fault of a kernel ends its process's context, so without xdist each file has its own.
tests() { # tests PATH...
  local pytest=("$python" -m pytest -q -p no:cacheprovider)
  if "$python" -c "import xdist" 2>/dev/null; then
    "${pytest[@]}" -n "$jobs" "$@"
    return
  fi
  local files=() path
  for path in "$@"; do
    if [ -d "$path" ]; then files+=("$path"/test_*.py); else files+=("$path"); fi
  done
  printf '%s\n' "${files[@]}" | xargs -P "$jobs" -I{} sh -c '
    "$@" {} >"$0/$(basename {}).log" 2>&1; status=$?
    [ $status -eq 5 ] && status=0 # nothing to run on this target
    echo "$(basename {}): $(tail -n 1 "$0/$(basename {}).log")"
    [ $status -eq 0 ] || grep -E "^(FAILED|ERROR)" "$0/$(basename {}).log"
    exit $status' "$out" "${pytest[@]}"
}

sanitizer() { # sanitizer TOOL: the kernels of tests/device/sanitized.py under compute-sanitizer
  local tool
  tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  PYTORCH_NO_CUDA_MEMORY_CACHING=1 timeout 900 "$tool" --tool "$1" --error-exitcode 9 --print-limit 20 \
    "$python" tests/device/sanitized.py
}

opinfo() { # PyTorch's operators through torch.compile; what fails is run with the real Triton, too (an hour; OPINFO_OPTIONS="--minutes 8" goes on where it ended)
  # shellcheck disable=SC2086  # words
  "$python" tests/torch_opinfo/run.py --device cuda --reference triton --seed 1 --jobs "$jobs" --timeout 60 --results "$out/opinfo.jsonl" ${OPINFO_OPTIONS:-}
}

for part in "${parts[@]}"; do
  case $part in
  runtime)
    step runtime tests tests/device tests/runtime tests/examples
    step main-job "$python" benchmarks/main_job.py --all --seconds 0.2 ;;
  language) step language tests tests/language tests/kernels tests/differentiation ;;
  install) step install tests tests/install ;;
  sanitizer)
    step memcheck sanitizer memcheck
    step racecheck sanitizer racecheck ;;
  benchmarks) step benchmarks "$python" benchmarks/gpu/run.py --out "$out/benchmarks" ;;
  opinfo) step opinfo opinfo ;;
  *) echo "unknown part $part" >&2; exit 2 ;;
  esac
done
[ ${#failed[@]} -eq 0 ] && echo "everything passed" || { echo "failed: ${failed[*]}"; exit 1; }
