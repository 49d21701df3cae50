#!/bin/bash
# Installs the Debian packages that a target misses; does nothing when all are there.
#
#   scripts/deps.sh GROUP…          groups: build lint test clients cost fuzz bench kernel systems
#   scripts/deps.sh --list GROUP…   only prints what is missing
set -euo pipefail

packages_of() {
  case $1 in
    build) echo g++ make cmake ninja-build pkg-config libisal-dev libcli11-dev libfmt-dev \
      nlohmann-json3-dev libibverbs-dev librdmacm-dev libssl-dev libgtest-dev \
      libgmock-dev libbenchmark-dev python3 ;;
    lint) echo clang-format clang-tidy ;;
    test) echo ibverbs-utils perftest rdmacm-utils python3-pyverbs iperf iproute2 nftables \
      ethtool util-linux tshark ;;
    # QEMU is used, too, where it is (the group "kernel" has it).
    clients) echo ucx-utils libfabric-bin fio openmpi-bin libopenmpi-dev qperf gdb ;;
    cost) echo valgrind ;;
    fuzz) echo clang libclang-rt-dev ;;
    bench) echo ibverbs-utils perftest iproute2 util-linux ;;
    kernel) echo qemu-system-x86 busybox-static cpio kmod e2fsprogs xz-utils zstd iproute2 \
      util-linux ibverbs-utils perftest rdmacm-utils nftables ;;
    systems) echo debootstrap git iproute2 util-linux ;;
    *)
      echo "deps.sh: no group \"$1\"; use build, lint, test, clients, cost, fuzz, bench, kernel or systems" >&2
      exit 2
      ;;
  esac
}

installed() {
  [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]
}

list_only=false
[[ ${1-} == --list ]] && list_only=true && shift
(($#)) || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }

if ! command -v dpkg-query >/dev/null; then
  echo "deps.sh: this is no Debian; the packages for $* are not checked" >&2
  exit 0
fi

missing=()
for group in "$@"; do
  for package in $(packages_of "$group"); do
    installed "$package" || missing+=("$package")
  done
done
((${#missing[@]})) || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if $list_only; then
  printf '%s\n' "${missing[@]}"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
    {
      echo "deps.sh: Debian packages are missing and neither root nor sudo without a password"
      echo "is at hand. As root, run:"
      echo "  apt-get install --no-install-recommends ${missing[*]}"
    } >&2
    exit 1
  fi
  as_root=(sudo -n)
fi

echo "deps.sh: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
