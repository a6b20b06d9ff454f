#!/usr/bin/env bash
# clang-tidy over the rooms whose files take it seconds: all but the interpreter, the dialects and what works on them. Needs a configured
# and built build folder: scripts/check_tidy.sh [build/release] [FILE...]. NEREID_TIDY_SAMPLE=K/N takes each Nth of them, from the Kth on.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
version=$(sed -n 's/^set(NEREID_LLVM_VERSION \([0-9]*\))$/\1/p' cmake/LLVMVersion.cmake)
# Without the precompiled header: clang-tidy would look through all of MLIR for each file.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
sed -E 's/-Xclang -include(-pch)? -Xclang [^ ]+//g; s/-Winvalid-pch//g' "$build/compile_commands.json" >"$commands/compile_commands.json"
if [ $# -gt 1 ]; then printf '%s\n' "${@:2}"; else
  git ls-files 'src/support/*.cpp' 'src/syntax/*.cpp' src/frontend/{class,function,known,types,value}.cpp \
    'src/explain/*.cpp' 'src/layout/*.cpp' 'src/targets/nvidia/codegen/*.cpp' \
    'src/targets/cpu/executor/*.cpp' 'src/targets/cpu/support_library/*.cpp' 'src/embedded/*.cpp' 'src/runtime/*.cpp' \
    'src/faces/cli/*.cpp' 'src/faces/python/*.cpp'
fi | awk -v sample="${NEREID_TIDY_SAMPLE:-0/1}" 'BEGIN { split(sample, part, "/") } (NR - 1) % part[2] == part[1] % part[2]' |
  xargs -P "$(nproc)" -n 1 clang-tidy-"$version" -p "$commands" --quiet
