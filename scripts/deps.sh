#!/bin/bash
# Installs the Debian packages that a target misses; does nothing when all are there.
#
#   scripts/deps.sh GROUP…          groups: build lint test clients runtimes cost fuzz bench kernel
#                                    systems package
#   scripts/deps.sh --list GROUP…   only prints what is missing
set -euo pipefail

packages_of() {
  case $1 in
    build) echo g++ make cmake ninja-build pkg-config libisal-dev libcli11-dev libfmt-dev \
      nlohmann-json3-dev libibverbs-dev librdmacm-dev libssl-dev libxxhash-dev libgtest-dev \
      libgmock-dev libbenchmark-dev python3 ;;
    lint) echo clang clang-format clang-tidy ;;
    test) echo ibverbs-utils perftest rdmacm-utils python3-pyverbs iperf iproute2 nftables \
       iptables ethtool util-linux tshark bubblewrap tmux python3-jsonschema ;;
    # QEMU is used, too, where it is (the group "kernel" has it).
    clients) echo ucx-utils libfabric-bin fio openmpi-bin libopenmpi-dev qperf gdb mpich \
      libmpich-dev slurmctld slurmd slurm-client munge librpma-dev dapl2-utils tgt libiscsi-bin \
      chromium chromium-driver ;;
    # Languages whose runtimes handle SIGSEGV: half a gigabyte.
    runtimes) echo default-jdk-headless golang-go libsigsegv-dev ;;
    cost) echo valgrind ;;
    fuzz) echo clang libclang-rt-dev ;;
    bench) echo ibverbs-utils perftest ucx-utils libfabric-bin iproute2 util-linux ;;
    kernel) echo qemu-system-x86 busybox-static cpio kmod e2fsprogs xz-utils zstd iproute2 \
      util-linux ibverbs-utils perftest rdmacm-utils nftables ;;
    systems) echo debootstrap git iproute2 util-linux ;;
    package) echo debhelper lintian python3-yaml yamllint ;;
    *)
      echo "deps.sh: no group \"$1\"; use build, lint, test, clients, runtimes, cost, fuzz, bench, kernel, systems or package" >&2
      exit 2
      ;;
  esac
}

installed() {
  [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null) == ii* ]]
}

# Packages that bring a service of the same name. The tests start these daemons themselves.
services="tgt munge slurmctld slurmd"

# Removes from `missing` what this system's package lists don't have. Tests without it are skipped.
leave_out_unknown_clients() {
  local package clients known=()
  clients=" $(packages_of clients) "
  for package in "${missing[@]}"; do
    if [[ $clients == *" $package "* && -z $(apt-cache show "$package" 2>/dev/null) ]]; then
      echo "deps.sh: this system has no package $package" >&2
    else
      known+=("$package")
    fi
  done
  missing=("${known[@]}")
}

# A mask that is there before its package keeps the package from starting the service.
mask_services() {
  local package
  [[ -d /run/systemd/system ]] || return 0
  for package in "${missing[@]}"; do
    [[ " $services " == *" $package "* ]] || continue
    echo "deps.sh: $package.service stays off (systemctl unmask $package.service allows it)"
    "${as_root[@]}" systemctl --quiet mask "$package.service"
  done
}

list_only=false
[[ ${1-} == --list ]] && list_only=true && shift
(($#)) || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }

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

"${as_root[@]}" apt-get update -qq
leave_out_unknown_clients
((${#missing[@]})) || exit 0
echo "deps.sh: installing ${missing[*]}"
mask_services
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}"
