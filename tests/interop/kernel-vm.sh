#!/bin/bash
# kernel-vm.sh: a small virtual machine with Debian's kernel and its SoftRoCE device (rxe),
# the independent peer of the interoperability tests.
#
#   kernel-vm.sh build [--force]        make kernel and initramfs from Debian packages (cached)
#   kernel-vm.sh up                     build if need be, boot, wait until rxe0 is active
#   kernel-vm.sh run [-t SECONDS] CMD   run a shell command in the VM; its output, its exit status
#   kernel-vm.sh put DIRECTORY TARGET   copy a directory of this machine into the VM
#   kernel-vm.sh host [-u USER] PROGRAM [ARG...]
#                                       run a program of this machine on the VM's network
#   kernel-vm.sh status                 "up ACCELERATOR KERNEL", "booting" or "down"
#   kernel-vm.sh console                what the VM wrote to its serial console
#   kernel-vm.sh down                   stop the VM; nothing of it remains but the cache
#
# Network: a tap device in a network namespace of its own; this machine's network is untouched.
#   this side  interface vm0   10.77.0.1/24  fd77::1/64   MTU 9000
#   VM         interface eth0  10.77.0.2/24  fd77::2/64   MTU 9000, RDMA device rxe0
#
# Root is not needed where users may create namespaces and open /dev/net/tun.
#
# Exit status: the command's (run, host; 124 time limit, 125 no answer from the VM),
#   77 this machine lacks something (said on stderr), 1 anything else that went wrong.
#
# Environment:
#   KERNEL_VM_DIR    cache and state        [${XDG_CACHE_HOME:-~/.cache}/verbena/kernel-vm]
#   KERNEL_VM_NAME   one VM per name        [default]
#   KERNEL_VM_ACCEL  auto, kvm or tcg       [auto: kvm, and tcg if that does not boot]
#   KERNEL_VM_TTL    seconds after which a forgotten VM ends by itself  [7200]
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"

self=$(readlink -f "$0")
cache=${KERNEL_VM_DIR:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/verbena/kernel-vm}
name=${KERNEL_VM_NAME:-default}
accel=${KERNEL_VM_ACCEL:-auto}
ttl=${KERNEL_VM_TTL:-7200}
state=$cache/vm-$name  # pid, accel, console, qemu.log: exists while the VM does

readonly host_if=vm0 mtu=9000
readonly host_ip4=10.77.0.1 vm_ip4=10.77.0.2 host_ip6=fd77::1 vm_ip6=fd77::2
readonly files_port=2324

vm_says=kernel-vm vm_cache=$cache
# shellcheck source=scripts/vm.sh
. "$(dirname "$self")/../../scripts/vm.sh"

cmd_build() { build_vm_image "$@"; }

# ---------------------------------------------------------------- namespace and VM

# The VM's process is the only holder of its namespace, so both end together.
vm_pid() { pid_in "$state"; }

new_namespace() { if ((EUID)); then echo unshare -Urn; else echo unshare -n; fi; }
enter_namespace() { # sets `enter`: the words that put a command on the VM's network
  local pid
  pid=$(vm_pid) || die "VM '$name' is not up"
  # Between fork and unshare it is still in ours: never run a command there by mistake.
  [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ] || die "VM '$name' is not up yet"
  enter=(nsenter -t "$pid" -n)
  if ((EUID)); then enter+=(-U --preserve-credentials); fi
}

check_machine() {
  need qemu-system-x86_64 qemu-system-x86 ip iproute2 unshare util-linux nsenter util-linux
  [ -w /dev/net/tun ] || lacking "no access to /dev/net/tun (a VM's tap device needs it)"
  $(new_namespace) true 2>/dev/null || lacking "'$(new_namespace)' is not permitted here"
}

# First process of the namespace: makes the network, then becomes the VM.
inside() { # kvm|tcg
  ip link set lo up
  ip tuntap add dev $host_if mode tap
  ip link set $host_if mtu $mtu
  { echo 0 >/proc/sys/net/ipv6/conf/$host_if/accept_dad; } 2>/dev/null || true
  ip addr add $host_ip4/24 dev $host_if
  ip addr add $host_ip6/64 dev $host_if nodad
  ip link set $host_if up
  exec_qemu "$1" "$ttl" "$state" "$vm_image/initrd" \
    "VM_NAME=kernel VM_IP4=$vm_ip4 VM_IP6=$vm_ip6 VM_MTU=$mtu VM_RXE=rxe0" \
    -netdev "tap,id=net,ifname=$host_if,script=no,downscript=no,vhost=off" \
    -device virtio-net-pci,netdev=net,mac=52:54:00:77:00:02,romfile=
}

boot() { # kvm|tcg SECONDS: true once rxe0 is active
  local began=$SECONDS
  : >"$state/console"
  # shellcheck disable=SC2046
  setsid $(new_namespace) "$self" _inside "$1" </dev/null >"$state/qemu.log" 2>&1 &
  remember_pid "$state" $!
  disown
  until (cmd_run -t 5 "rdma link show rxe0/1 | grep -q 'state ACTIVE'") >/dev/null 2>&1; do
    if ! vm_pid >/dev/null; then say "QEMU ($1) ended: $(tail -n 1 "$state/qemu.log")"; return 1; fi
    if ((SECONDS - began > $2)); then say "no rxe0 after $2 s ($1)"; stop; return 1; fi
    sleep 0.3
  done
  echo "$1" >"$state/accel"
  say "VM '$name' is up after $((SECONDS - began)) s ($1, kernel $(cat "$vm_image/release"))"
}

stop() { stop_machine "$state" "$name"; }

cmd_up() {
  if vm_pid >/dev/null; then say "VM '$name' is up already"; return; fi
  check_machine
  "$self" build || exit
  mkdir -p "$state"
  trap cmd_down EXIT
  trap 'exit 130' INT TERM HUP
  if [ "$accel" != tcg ] && [ -w /dev/kvm ] && boot kvm 60; then :
  elif [ "$accel" != kvm ] && boot tcg 180; then :
  else tail -n 20 "$state/console" >&2; die "VM '$name' did not boot"; fi
  trap - EXIT INT TERM HUP
}

cmd_down() {
  stop
  rm -rf "$state"
}

cmd_status() {
  if ! vm_pid >/dev/null; then echo down
  elif [ ! -s "$state/accel" ]; then echo booting
  else echo "up $(cat "$state/accel") $(cat "$vm_image/release")"; fi
}

cmd_console() { cat "$state/console"; }

cmd_run() {
  local limit=300
  if [ "${1:-}" = -t ]; then limit=$2; shift 2; fi
  enter_namespace
  exec timeout -k 1 $((limit + 10)) "${enter[@]}" "$self" _client "$limit" "$*"
}

# Runs in the namespace.
client() { run_in_machine $vm_ip4 $vm_agent_port '' "$1" "$2"; } # SECONDS COMMAND

# The VM listens, so that this machine needs nothing but bash to send.
cmd_put() { # DIRECTORY TARGET
  local limit=120
  enter_namespace
  "$self" run -t $limit "mkdir -p '$2' && socat -u TCP-LISTEN:$files_port,reuseaddr STDOUT | tar -xf - -C '$2'" &
  # shellcheck disable=SC2016
  tar -C "$1" -cf - . | timeout $limit "${enter[@]}" bash -c '
    until { exec 3<>"/dev/tcp/$0/$1"; } 2>/dev/null; do sleep 0.1; done
    cat >&3' $vm_ip4 $files_port
  wait $!
}

cmd_host() {
  local user=''
  if [ "${1:-}" = -u ]; then user=$2; shift 2; fi
  [ $# -gt 0 ] || die "host: which program?"
  enter_namespace
  if [ -n "$user" ]; then
    cd /
    enter+=(env HOME=/)
    # Without root the only user there is has this user's rights; take the namespace's away.
    if ((EUID)); then enter+=(unshare -U --map-user="$(id -u "$user")" --map-group="$(id -g "$user")")
    else enter+=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups); fi
  fi
  exec "${enter[@]}" "$@"
}

command=${1:-help}
shift || true
case $command in
  build | up | run | put | host | status | console | down) "cmd_$command" "$@" ;;
  _inside) inside "$@" ;;
  _client) client "$@" ;;
  -h | --help | help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$self" ;;
  *) die "unknown command '$command'; see --help" ;;
esac
