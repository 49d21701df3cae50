#!/bin/bash
# Installs to a temporary prefix, builds the consumer against it by CMake package and by pkg-config,
# and runs both on the installed device.
#   check_install.sh BUILD CONSUMER CXX
set -euo pipefail
build=$1 consumer=$2 cxx=$3
folder=$(mktemp -d /tmp/rdmapp-install.XXXXXX)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix

cmake --install "$build" --prefix "$prefix" >/dev/null
cmake -S "$consumer" -B "$folder/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >/dev/null
cmake --build "$folder/cmake" >/dev/null

pc=$(find "$prefix" -name rdma++.pc)
[[ -n $pc ]] || { echo "rdma++.pc was not installed"; exit 1; }
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
# Word splitting is wanted: these are options.
# shellcheck disable=SC2046
"$cxx" -O2 -Wall -Wextra -Werror "$consumer/main.cc" -o "$folder/by-pkg-config" \
  $(pkg-config --cflags --libs rdma++)

for program in "$folder/cmake/consumer" "$folder/by-pkg-config"; do
  "$prefix/bin/verbena" run -- "$program" | grep -qx vb_lo ||
    { echo "$program does not see vb_lo"; exit 1; }
done
echo "built and run by CMake package and by pkg-config"
