#!/usr/bin/env bash
# Installs everything a build needs on Debian 12: LLVM/MLIR and clang from the distribution, and a Python
# environment in .venv. Safe to run again; does nothing when all is there.
#
#   scripts/setup.sh            compilers, libraries, Python packages
#   NEREID_PYTHON=python3.12 scripts/setup.sh      with another interpreter
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^set(NEREID_LLVM_VERSION \([0-9]*\))$/\1/p' cmake/LLVMVersion.cmake)
packages=(
  llvm-$version-dev libmlir-$version-dev mlir-$version-tools llvm-$version-tools
  clang-$version lld-$version clang-format-$version clang-tidy-$version libclang-rt-$version-dev
  g++ ccache ninja-build libgtest-dev zlib1g-dev libzstd-dev libcurl4-openssl-dev git doxygen gdb
  g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user # programs for AArch64, in an emulator
)
python=${NEREID_PYTHON:-python3}
command -v "$python" >/dev/null || packages+=(python3)
"$python" -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
"$python" -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
  2>/dev/null || packages+=(python3-dev)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  sudo=()
  [[ $(id -u) == 0 ]] || sudo=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    { echo "setup: installing ${missing[*]} failed; see the messages above" >&2; exit 1; }
fi

stamp=.venv/.requirements
if [[ ! -f $stamp ]] || ! cmp -s requirements-dev.txt "$stamp"; then
  [[ -x .venv/bin/python ]] || "$python" -m venv .venv
  .venv/bin/python -m pip install -q --disable-pip-version-check -r requirements-dev.txt
  # The real Triton, as an oracle and as a neighbour in one process. Without its dependencies: torch's CPU build has none.
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps triton==3.6.0
  cp requirements-dev.txt "$stamp"
fi
