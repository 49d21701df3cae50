#!/bin/bash
# arm64, cross-built on this machine and run by qemu-user: arm64.sh ROOT (Debian 13: its qemu knows
# more system calls than Debian 12's).
set -euo pipefail
# shellcheck source=root.sh
. "$(dirname "$0")/root.sh"
root=$1

if [[ $(uname -m) != x86_64 ]]; then
  say_skipped "the cross-compiler is installed for x86_64 alone; this machine is $(uname -m)"
  exit 77
fi

copy_tree "$root"
in_root_online "$root" bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  dpkg --add-architecture arm64
  apt-get update -qq
  libraries=()
  for name in libisal-dev libfmt-dev libibverbs-dev librdmacm-dev libssl-dev libxxhash-dev libgtest-dev \
    libgmock-dev libc6 libstdc++6 ibverbs-providers; do
    libraries+=("$name:arm64")
  done
  apt-get install -y -qq --no-install-recommends g++ g++-aarch64-linux-gnu make cmake ninja-build \
    pkg-config libcli11-dev nlohmann-json3-dev python3 qemu-user-static iproute2 "${libraries[@]}"
  # Of these the programs alone: the packages of two architectures exclude each other.
  mkdir -p /arm64-programs
  cd /tmp
  apt-get download -qq ibverbs-utils:arm64
  dpkg -x ibverbs-utils_*_arm64.deb /arm64-programs'
in_root "$root" /verbena/tests/systems/arm64_inside.sh
