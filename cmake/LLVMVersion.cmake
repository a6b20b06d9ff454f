# The one place that names the LLVM/MLIR release everything is built with.
# scripts/setup.sh and pyproject.toml read it from here.
set(NEREID_LLVM_VERSION 22)
