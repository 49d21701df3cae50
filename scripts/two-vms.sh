#!/bin/bash
# two-vms.sh: two virtual machines with Debian's kernel and Verbena in both, and a cable between them.
#
#   two-vms.sh demo [--soft-roce b]     boots them if need be, runs RDMA between them, and stops them again
#   two-vms.sh up [--soft-roce b]       boots them; b gets the kernel's SoftRoCE device rxe0
#   two-vms.sh run a|b [-b] COMMAND     runs a shell command there; with -b it goes on in the background
#   two-vms.sh shell a|b                a terminal there
#   two-vms.sh status                   whether they are up
#   two-vms.sh console a|b              what the kernel wrote
#   two-vms.sh down                     stops them; nothing remains but the image for the next time
#
# Inside, the machines know each other as "a" and "b":
#   a  interface eth0  10.99.0.1/24  fd99::1/64  Verbena's device vb_eth0
#   b  interface eth0  10.99.0.2/24  fd99::2/64  Verbena's device vb_eth0, or the kernel's rxe0
# So: two-vms.sh run a -b 'verbena lab hello server'; two-vms.sh run b 'verbena lab hello client a'
#
# The first run downloads Debian's kernel. QEMU 7.2 or later is needed. Without KVM the machines take about
# 20 seconds to boot.
#
# No root is needed, and the network of this machine stays as it is. The machines reach each other and
# nothing else.
#
# Exit status: the command's (run; 124 time limit, 125 no answer), 77 this machine lacks something,
#   1 anything else that went wrong. Messages go to stderr.
#
# Environment:
#   TWO_VMS_NAME    one pair of machines per name       [default]
#   TWO_VMS_ACCEL   auto, kvm or tcg (emulation)        [auto: kvm, and tcg if that does not boot]
#   TWO_VMS_LIMIT   seconds that a command of run may take  [300]
#   TWO_VMS_TTL     seconds after which forgotten machines end by themselves  [7200]
#   KERNEL_VM_DIR   folder of the image and the machines  [${XDG_CACHE_HOME:-~/.cache}/verbena/kernel-vm]
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"

self=$(readlink -f "$0")
here=$(dirname "$self")
vm_says=two-vms vm_cache=${KERNEL_VM_DIR:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/verbena/kernel-vm}
# shellcheck source=scripts/vm.sh
. "$here/vm.sh"

readonly pair=$vm_cache/two-${TWO_VMS_NAME:-default}  # a and b (folders of the machines), initrd, key, soft-roce
readonly accel=${TWO_VMS_ACCEL:-auto} ttl=${TWO_VMS_TTL:-7200} limit=${TWO_VMS_LIMIT:-300}
readonly -A number=([a]=1 [b]=2)

# ---------------------------------------------------------------- what they boot

check_machine() {
  local types
  if [ -x "$here/deps.sh" ] && ! "$here/deps.sh" kernel >&2; then lacking "packages are missing; see above"; fi
  need qemu-system-x86_64 qemu-system-x86
  types=$(qemu-system-x86_64 -netdev help 2>&1) || true
  grep -qx dgram <<<"$types" || lacking "QEMU 7.2 or later is needed (for -netdev dgram); this is $(qemu-system-x86_64 --version | head -n 1)"
  grep -qx user <<<"$types" || lacking "this QEMU was built without user networking (-netdev user)"
}

# The folder with bin/verbena and lib/verbena: of the installation, or of the source tree's build.
verbena_root() {
  local root
  for root in "$here/../.." "$here/../build"; do
    if [ -x "$root/bin/verbena" ] && [ -d "$root/lib/verbena" ]; then readlink -f "$root"; return; fi
  done
  die "there is no bin/verbena beside $here; run make first"
}

# The image, and behind it an archive with Verbena, the names of the machines, and the key.
pack_initrd() {
  local root files=$pair/files file
  root=$(verbena_root)
  mkdir -p "$files/etc" "$files/opt/verbena/bin" "$files/opt/verbena/lib"
  cp "$root/bin/verbena" "$files/opt/verbena/bin/"
  cp -R "$root/lib/verbena" "$files/opt/verbena/lib/"
  if command -v strip >/dev/null; then
    find "$files/opt/verbena" -type f -size +64k | while read -r file; do strip --strip-unneeded "$file" || true; done
  fi
  printf '127.0.0.1 localhost\n::1 localhost\n10.99.0.1 a\n10.99.0.2 b\nfd99::1 a\nfd99::2 b\n' >"$files/etc/hosts"
  cp "$pair/key" "$files/etc/agent-key"
  { cat "$vm_image/initrd"; (cd "$files" && find . | cpio -o -H newc -R 0:0 --quiet); } >"$pair/initrd"
  rm -rf "$files"
}

# ---------------------------------------------------------------- the machines

# The cable's frames are datagrams between two Unix sockets; their paths are relative because a socket's
# path may be no longer than 107 bytes. Commands come through a port of 127.0.0.1; without the key the
# agent behind it does nothing.
become() { # a|b kvm|tcg PORT
  local parameters="VM_NAME=$1 VM_IP4=10.99.0.${number[$1]} VM_IP6=fd99::${number[$1]} VM_MTU=1500 VM_CONTROL=10.0.2.15" other=a
  [ "$1" = b ] || other=b
  [ "$(cat "$pair/soft-roce")" != "$1" ] || parameters+=" VM_RXE=rxe0"
  cd "$pair"
  exec_qemu "$2" "$ttl" "$1" initrd "$parameters" \
    -netdev "dgram,id=cable,local.type=unix,local.path=cable.$1,remote.type=unix,remote.path=cable.$other" \
    -device "virtio-net-pci,netdev=cable,mac=52:54:00:99:00:0${number[$1]},romfile=" \
    -netdev "user,id=control,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:$3-10.0.2.15:$vm_agent_port" \
    -device virtio-net-pci,netdev=control,romfile=
}

free_port() {
  local port
  while true; do
    port=$((20000 + RANDOM % 30000))
    if ! { exec 4<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null; then echo $port; return; fi
    exec 4<&-
  done
}

start() { # a|b kvm|tcg
  mkdir -p "$pair/$1"
  : >"$pair/$1/console"
  free_port >"$pair/$1/port"
  setsid "$self" _become "$1" "$2" "$(cat "$pair/$1/port")" </dev/null >"$pair/$1/qemu.log" 2>&1 &
  remember_pid "$pair/$1" $!
  disown
}

wait_until_up() { # a|b kvm|tcg SECONDS
  local began=$SECONDS
  until (TWO_VMS_LIMIT=5 "$self" run "$1" true) >/dev/null 2>&1; do
    if ! pid_in "$pair/$1" >/dev/null; then say "QEMU ($2) ended: $(tail -n 1 "$pair/$1/qemu.log")"; return 1; fi
    if ((SECONDS - began > $3)); then say "$1 does not answer after $3 s ($2)"; return 1; fi
    sleep 0.3
  done
  say "$1 is up: 10.99.0.${number[$1]}"
}

boot() { # kvm|tcg SECONDS
  local machine
  say "booting a and b ($1)"
  for machine in a b; do start $machine "$1"; done
  for machine in a b; do
    if ! wait_until_up $machine "$1" "$2"; then stop; return 1; fi
  done
}

stop() { stop_machine "$pair/a" a; stop_machine "$pair/b" b; rm -f "$pair"/cable.*; }

is_up() { pid_in "$pair/a" >/dev/null && pid_in "$pair/b" >/dev/null; }

# ---------------------------------------------------------------- commands

soft_roce_of() { # [--soft-roce b]: prints b, or nothing
  [ $# -gt 0 ] || return 0
  if [ $# -ne 2 ] || [ "$1" != --soft-roce ]; then die "unknown: $*; the only option is --soft-roce a|b"; fi
  known_machine "$2"
  echo "$2"
}
known_machine() { [ -n "${1:-}" ] && [ -n "${number[$1]:-}" ] || die "which machine? a or b, not '${1:-}'"; }

cmd_up() {
  local soft_roce
  soft_roce=$(soft_roce_of "$@")
  if is_up; then
    [ "$(cat "$pair/soft-roce")" = "$soft_roce" ] || die "they are up, but not so; first: $0 down"
    say "they are up already"
    return
  fi
  check_machine
  (build_vm_image) || exit
  trap cmd_down EXIT
  trap 'exit 130' INT TERM HUP
  cmd_down  # one of them may have ended
  (umask 077 && mkdir -p "$pair")
  echo "$soft_roce" >"$pair/soft-roce"
  (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$pair/key")
  say "packing Verbena"
  pack_initrd
  if [ "$accel" != tcg ] && [ -w /dev/kvm ] && boot kvm 60; then :
  elif [ "$accel" != kvm ] && boot tcg 300; then :
  else die "they did not boot; the console of a ended with: $(tail -n 3 "$pair/a/console" 2>/dev/null)"; fi
  trap - EXIT INT TERM HUP
}

cmd_down() {
  stop
  rm -rf "$pair"
}

cmd_status() {
  local machine
  for machine in a b; do
    if pid_in "$pair/$machine" >/dev/null; then echo "$machine up"; else echo "$machine down"; fi
  done
}

cmd_console() { known_machine "${1:-}"; cat "$pair/$1/console"; }

cmd_run() { # a|b [-b] COMMAND
  local machine='' background=''
  while (($#)); do
    case $1 in
      -b) background=yes ;;
      a | b) machine=$1 ;;
      *) break ;;
    esac
    shift
  done
  known_machine "${machine:-${1:-}}"
  [ $# -gt 0 ] || die "run $machine: which command?"
  pid_in "$pair/$machine" >/dev/null || die "$machine is not up; first: $0 up"
  if [ -n "$background" ]; then
    # shellcheck disable=SC2016  # the machine's shell expands it
    set -- "$(printf 'n=1; while [ -e job.$n ]; do n=$((n + 1)); done; : >job.$n
      setsid bash -c %q >job.$n 2>&1 </dev/null & echo "job $n of %s; its output: %s run %s cat job.$n"' \
      "$*" "$machine" "$0" "$machine")"
  fi
  run_in_machine 127.0.0.1 "$(cat "$pair/$machine/port")" "$(cat "$pair/key")" "$limit" "$*"
}

cmd_shell() {
  local size
  known_machine "${1:-}"
  [ -t 0 ] || die "shell wants a terminal; without one: $0 run $1 COMMAND"
  pid_in "$pair/$1" >/dev/null || die "$1 is not up; first: $0 up"
  size=$(stty size)
  settings=$(stty -g)
  exec 3<>"/dev/tcp/127.0.0.1/$(cat "$pair/$1/port")"
  printf '%s\0' "$(cat "$pair/key")" none terminal "$size" >&3
  trap 'stty "$settings"; kill "${keys:-}" 2>/dev/null || true' EXIT
  stty raw -echo
  cat </dev/tty >&3 &
  keys=$!
  cat <&3
}

# ---------------------------------------------------------------- demo

# Runs a command on one machine, and when it listens another one on the other. Prints what both say.
meet() { # SERVER LISTENS SERVER_COMMAND CLIENT CLIENT_COMMAND
  local log=$pair/server.log server status=0 tries=0
  echo "$1\$ $3"
  : >"$log"
  "$self" run "$1" "$3" >"$log" 2>&1 &
  server=$!
  until $2 "$1" || ! kill -0 $server 2>/dev/null; do
    ((++tries < 200)) || die "$1 does not listen: $(tail -n 3 "$log")"
    sleep 0.1
  done
  echo "$4\$ $5"
  "$self" run "$4" "$5" 2>&1 | sed "s/^/  $4 | /" || status=$?
  ((status == 0)) || kill $server 2>/dev/null || true
  wait $server || status=$?
  sed "s/^/  $1 | /" "$log"
  ((status == 0)) || die "that failed with status $status"
}

lab_listens() { grep -q '| ready$' "$pair/server.log"; }
pingpong_listens() { # a|b: at TCP port 18515
  "$self" run "$1" 'grep -q ":4853 0*:0000 0A " /proc/net/tcp /proc/net/tcp6'
}

cmd_demo() {
  local was_up=yes
  is_up || was_up=
  cmd_up "$@"
  if [ -z "$was_up" ]; then
    trap cmd_down EXIT
    trap 'exit 130' INT TERM HUP
  fi
  case $(cat "$pair/soft-roce") in
    '') demo_verbena ;;
    b) demo_soft_roce ;;
    *) die "the demo wants SoftRoCE on b; first: $0 down" ;;
  esac
}

# The index of a GID is that of the interface's address: fe80::, 10.99.0.2, fd99::2 on the kernel's device.
demo_verbena() {
  echo '--- Verbena on both machines'
  meet a lab_listens 'verbena lab hello server' b 'verbena lab hello client a'
  meet a pingpong_listens 'verbena run -- ibv_rc_pingpong -d vb_eth0 -g 2 -n 100' \
    b 'verbena run -- ibv_rc_pingpong -d vb_eth0 -g 2 -n 100 a'
}

demo_soft_roce() {
  echo '--- Verbena on a, the kernel on b'
  meet a lab_listens 'verbena lab hello server' b 'verbena lab hello client a --device rxe0'
  meet b pingpong_listens 'ibv_rc_pingpong -d rxe0 -g 1 -n 100' \
    a 'verbena run -- ibv_rc_pingpong -d vb_eth0 -g 2 -n 100 b'
}

command=${1:-help}
shift || true
case $command in
  demo | up | run | shell | status | console | down) "cmd_$command" "$@" ;;
  _become) become "$@" ;;
  -h | --help | help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$self" ;;
  *) die "unknown command '$command'; see $0 --help" ;;
esac
