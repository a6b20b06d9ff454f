#!/usr/bin/env bash
# clang-tidy over the rooms that use no MLIR. Needs a configured build folder: scripts/check_tidy.sh [build/release]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
version=$(sed -n 's/^set(NEREID_LLVM_VERSION \([0-9]*\))$/\1/p' cmake/LLVMVersion.cmake)
git ls-files 'src/support/*.cpp' 'src/syntax/*.cpp' 'src/explain/*.cpp' 'src/embedded/*.cpp' 'src/faces/cli/*.cpp' \
  'src/targets/cpu/executor/*.cpp' 'src/targets/cpu/support_library/*.cpp' |
  xargs -P "$(nproc)" -n 1 clang-tidy-"$version" -p "$build" --quiet
