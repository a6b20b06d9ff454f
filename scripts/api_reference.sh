#!/usr/bin/env bash
# Makes the reference of the C and C++ interfaces, with doxygen: scripts/api_reference.sh [FOLDER] (default: build/api).
# Fails when something public is not documented.
set -euo pipefail
folder=$(realpath -m "${1:-$(dirname "$0")/../build/api}")
cd "$(dirname "$0")/.."
mkdir -p "$folder"
# The version is that of the project.
(cat docs/api/Doxyfile; echo "PROJECT_NUMBER = $(cat VERSION)"; echo "OUTPUT_DIRECTORY = $folder") | doxygen -
echo "$folder/html/index.html"
