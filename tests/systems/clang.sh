#!/bin/bash
# Another compiler: clang.sh ROOT VERSION.
set -euo pipefail
# shellcheck source=root.sh
. "$(dirname "$0")/root.sh"
root=$1
version=$2

copy_tree "$root"
in_root_online "$root" bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  /verbena/scripts/deps.sh build test
  apt-get install -y -qq --no-install-recommends "clang-$1"' deps "$version"
in_root "$root" bash -euc '
  cd /verbena
  build=build/clang-$1
  cmake --preset release -B "$build" -DCMAKE_C_COMPILER="clang-$1" -DCMAKE_CXX_COMPILER="clang++-$1" \
    -DVERBENA_OUTPUT_ROOT="/verbena/$build" -DVERBENA_WERROR=ON -DVERBENA_BENCH=OFF
  cmake --build "$build" -j "$(nproc)"
  ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --timeout 120' clang "$version"
