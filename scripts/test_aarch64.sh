#!/usr/bin/env bash
# Runs Python tests on code for AArch64, in an emulator: scripts/test_aarch64.sh tests/language -k dot
# The arguments are pytest's. NEREID_TEST_AARCH64 names the instruction set: neoverse-v1 (default), neoverse-n1, aarch64.
# PYTHONPATH says where the package is, if it is not the installed one. It takes Debian's packages qemu-user and g++-aarch64-linux-gnu.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in aarch64-linux-gnu-g++ aarch64-linux-gnu-ld qemu-aarch64; do
  command -v $program >/dev/null || { echo "test_aarch64: there is no $program: install qemu-user and g++-aarch64-linux-gnu (scripts/setup.sh)" >&2; exit 1; }
done
export QEMU_LD_PREFIX=${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}
folder=build/aarch64
mkdir -p $folder
{
  [ -f $folder/build.ninja ] || cmake -G Ninja -S tests/aarch64/programs -B $folder -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64
  cmake --build $folder -j2
} >build/aarch64.log 2>&1 || { tail -30 build/aarch64.log >&2; exit 1; }
exec .venv/bin/python -m pytest -q -p no:cacheprovider --target aarch64 "$@"
