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
image=$cache/image     # vmlinuz, initrd, release, stamp
state=$cache/vm-$name  # pid, accel, console, qemu.log: exists while the VM does

readonly host_if=vm0 mtu=9000
readonly host_ip4=10.77.0.1 vm_ip4=10.77.0.2 host_ip6=fd77::1 vm_ip6=fd77::2
readonly agent_port=2323 files_port=2324

# usr-is-merged keeps apt from choosing usrmerge, which would bring perl along.
readonly kernel_package=linux-image-amd64
readonly packages=(usr-is-merged bash busybox-static coreutils ibverbs-providers ibverbs-utils
  iproute2 kmod libfmt9 libisal2 libssl3 libstdc++6 perftest rdmacm-utils socat util-linux)  # libraries: ours
readonly modules=(virtio_pci virtio_net virtio_rng veth ib_uverbs rdma_ucm rdma_rxe crc32_generic)

say() { echo "kernel-vm: $*" >&2; }
die() { say "$*"; exit 1; }
lacking() { say "$*"; exit 77; }

# ---------------------------------------------------------------- build

need() { # PROGRAM PACKAGE, ...
  while (($#)); do
    command -v "$1" >/dev/null || lacking "$1 is missing; install Debian's package $2"
    shift 2
  done
}

# apt as on a machine with no package installed, so that it resolves the whole userland.
apt() {
  apt-get -qq -y -o Dir::State::status="$work/empty" -o Dir::Cache::archives="$work/userland" \
    -o Debug::NoLocking=true -o APT::Sandbox::User=root --no-install-recommends "$@"
}

build_stamp() {
  { declare -f build_image init_script agent_script; echo "${packages[*]} ${modules[*]}"; } | sha256sum
}

unpack() { # DEB DIRECTORY
  dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner \
    --exclude='./usr/share/*' --exclude='./var/*' --exclude='./usr/lib/*/gconv/*'
}

build_image() {
  local root=$work/root kernel=$work/kernel package release file module
  mkdir -p "$work"/userland/partial "$kernel" "$root"/{dev,etc,proc,root,run,sys,tmp} "$root"/usr/{bin,sbin,lib,lib64}
  : >"$work/empty"

  package=$(apt-cache depends "$kernel_package" | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$package" ] || lacking "apt knows no $kernel_package; run apt-get update"
  say "fetching $package and the userland"
  { apt --download-only install "${packages[@]}" && cd "$work" && apt download "$package"; } >"$work/apt.log" 2>&1 ||
    lacking "apt-get could not fetch Debian packages: $(tail -n 1 "$work/apt.log")"

  for file in bin sbin lib lib64; do ln -s "usr/$file" "$root/$file"; done
  for file in "$work"/userland/*.deb; do unpack "$file" "$root"; done
  unpack "$work"/linux-image-*.deb "$kernel"

  release=$(ls "$kernel/lib/modules")
  depmod -b "$kernel" "$release"
  for module in "${modules[@]}"; do
    modprobe -d "$kernel" -S "$release" --show-depends "$module" || die "$package has no module $module"
  done | sed -n "s|^insmod $kernel/||p" | sort -u >"$work/modules"
  while read -r file; do install -D -m 644 "$kernel/$file" "$root/usr/$file"; done <"$work/modules"
  cp "$kernel/lib/modules/$release"/modules.{order,builtin,builtin.modinfo} "$root/usr/lib/modules/$release/"
  depmod -b "$root" "$release"

  echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
  ln -s bash "$root/usr/bin/sh"  # not busybox, whose shell prefers its own ip to iproute2's
  init_script >"$root/init"
  agent_script >"$root/usr/sbin/agent"
  chmod 755 "$root/init" "$root/usr/sbin/agent"

  rm -rf "$image"
  mkdir "$image"
  cp "$kernel/boot/vmlinuz-$release" "$image/vmlinuz"
  # Not compressed: without KVM, unpacking costs more than reading.
  (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$image/initrd"
  echo "$release" >"$image/release"
  build_stamp >"$image/stamp"
  say "built: kernel $release, initramfs $(du -m "$image/initrd" | cut -f1) MiB"
}

init_script() {
  cat <<END
#!/bin/bash
set -e  # the end of this process is the end of the VM
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C
busybox mount -t proc proc /proc
busybox --install -s /usr/bin 2>/dev/null || true  # what the other packages did not bring
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t sysfs sys /sys
mount -t tmpfs shm /dev/shm
modprobe -a ${modules[*]}
ip link set lo up
n=0; until [ -e /sys/class/net/eth0 ] || [ \$n -ge 100 ]; do sleep 0.1; n=\$((n + 1)); done
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set eth0 mtu $mtu
ip addr add $vm_ip4/24 dev eth0
ip addr add $vm_ip6/64 dev eth0 nodad
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0
exec socat TCP-LISTEN:$agent_port,reuseaddr,fork EXEC:/usr/sbin/agent
END
}

# One command per connection. In: token, time limit, command, each ended by NUL.
# Out: the command's output, then a line with the token and the exit status.
# A command whose caller has gone is ended with its process group.
agent_script() {
  cat <<'END'
#!/bin/bash
for field in token limit command; do IFS= read -r -d '' "$field" || exit; done
exec 3<&0
cd /root
# env: socat left SIGPIPE ignored. By its full path: busybox's setsid prefers busybox's own.
setsid /usr/bin/env --default-signal timeout -k 2 "$limit" bash -c "$command" </dev/null 2>&1 3<&- & job=$!
{ IFS= read -r -d '' -u 3 _; kill -KILL -- "-$job"; } 2>/dev/null & watcher=$!
wait "$job"; status=$?
kill "$watcher"
printf '\n%s %d\n' "$token" "$status"
END
}

cmd_build() {
  need apt-get apt dpkg-deb dpkg depmod kmod modprobe kmod cpio cpio flock util-linux
  [ "$(uname -m)" = x86_64 ] || lacking "the VM is built for x86_64, this machine is $(uname -m)"
  mkdir -p "$cache"
  exec 9>"$cache/lock"  # two builds at once: the second waits and finds the work done
  flock 9
  [ "${1:-}" != --force ] && [ "$(cat "$image/stamp" 2>/dev/null)" = "$(build_stamp)" ] && return
  work=$(mktemp -d "$cache/build.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  build_image
  rm -rf "$work"
  trap - EXIT
  exec 9>&-
}

# ---------------------------------------------------------------- namespace and VM

# The VM's process is the only holder of its namespace, so both end together.
# Its start time guards against a process that got the same number later.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
vm_pid() {
  local pid start
  read -r pid start 2>/dev/null <"$state/pid" || return 1
  [ "$(start_time "$pid")" = "$start" ] && echo "$pid"
}

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
  local cpu=host accelerator=kvm
  [ "$1" = kvm ] || { cpu=qemu64 accelerator=tcg,thread=multi; }  # qemu64: the quickest to emulate
  ip link set lo up
  ip tuntap add dev $host_if mode tap
  ip link set $host_if mtu $mtu
  { echo 0 >/proc/sys/net/ipv6/conf/$host_if/accept_dad; } 2>/dev/null || true
  ip addr add $host_ip4/24 dev $host_if
  ip addr add $host_ip6/64 dev $host_if nodad
  ip link set $host_if up
  exec timeout -k 5 "$ttl" qemu-system-x86_64 -name "verbena-$name" \
    -accel "$accelerator" -cpu "$cpu" -smp 2 -m 1024 -nodefaults -no-user-config -display none -no-reboot \
    -kernel "$image/vmlinuz" -initrd "$image/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0" \
    -serial "file:$state/console" -device virtio-rng-pci \
    -netdev "tap,id=net,ifname=$host_if,script=no,downscript=no,vhost=off" \
    -device virtio-net-pci,netdev=net,mac=52:54:00:77:00:02,romfile=
}

boot() { # kvm|tcg SECONDS: true once rxe0 is active
  local began=$SECONDS
  : >"$state/console"
  # shellcheck disable=SC2046
  setsid $(new_namespace) "$self" _inside "$1" </dev/null >"$state/qemu.log" 2>&1 &
  echo "$! $(start_time $!)" >"$state/pid"
  disown
  until (cmd_run -t 5 "rdma link show rxe0/1 | grep -q 'state ACTIVE'") >/dev/null 2>&1; do
    if ! vm_pid >/dev/null; then say "QEMU ($1) ended: $(tail -n 1 "$state/qemu.log")"; return 1; fi
    if ((SECONDS - began > $2)); then say "no rxe0 after $2 s ($1)"; stop; return 1; fi
    sleep 0.3
  done
  echo "$1" >"$state/accel"
  say "VM '$name' is up after $((SECONDS - began)) s ($1, kernel $(cat "$image/release"))"
}

stop() {
  local pid tries=0
  pid=$(vm_pid) || return 0
  kill "$pid"  # timeout(1) passes it on to QEMU, and insists after 5 s
  while vm_pid >/dev/null; do
    ((++tries < 100)) || die "process $pid (VM '$name') did not end within 10 s"
    sleep 0.1
  done
}

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
  else echo "up $(cat "$state/accel") $(cat "$image/release")"; fi
}

cmd_console() { cat "$state/console"; }

cmd_run() {
  local limit=300
  if [ "${1:-}" = -t ]; then limit=$2; shift 2; fi
  enter_namespace
  exec timeout -k 1 $((limit + 10)) "${enter[@]}" "$self" _client "$limit" "$*"
}

client() { # SECONDS COMMAND: the agent's other end, runs in the namespace
  local token="status-$RANDOM$RANDOM" line newline=
  { exec 3<>/dev/tcp/$vm_ip4/$agent_port; } 2>/dev/null || { say "VM '$name' does not answer"; exit 125; }
  printf '%s\0' "$token" "$1" "$2" >&3
  while IFS= read -r line <&3; do
    [[ $line == "$token "* ]] && exit "${line#* }"
    printf '%s%s' "$newline" "$line"
    newline=$'\n'  # held back: the agent put one before the token
  done
  say "VM '$name' hung up before the command had ended"
  exit 125
}

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
