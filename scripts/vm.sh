# shellcheck shell=bash disable=SC2034,SC2154  # variables of the scripts that source this
# vm.sh: small virtual machines with Debian's kernel, made from Debian's packages. two-vms.sh and
# tests/interop/kernel-vm.sh source it.
#
# Before: vm_says (the name in front of messages), vm_cache (a folder that stays).
# The image is one for all. What tells its machines apart stands on the kernel's command line, and the
# kernel gives it to /init as environment:
#   VM_NAME             host name
#   VM_IP4 VM_IP6       addresses of eth0
#   VM_MTU              of eth0
#   VM_RXE              name of the SoftRoCE device to make on eth0; none if empty
#   VM_CONTROL          address of a second interface, "control", for commands only; none if empty
# A second archive behind the image's may bring more files; /etc/agent-key is the password for commands.

vm_image=$vm_cache/image  # vmlinuz, initrd, release, stamp
readonly vm_agent_port=2323

say() { echo "$vm_says: $*" >&2; }
die() { say "$*"; exit 1; }
lacking() { say "$*"; exit 77; }

# usr-is-merged keeps apt from choosing usrmerge, which would bring perl along.
readonly vm_kernel_package=linux-image-amd64
vm_packages=(usr-is-merged bash busybox-static coreutils ibverbs-providers ibverbs-utils
  iproute2 kmod libfmt9 libisal2 libssl3 libstdc++6 perftest rdmacm-utils socat util-linux)  # libraries: ours
readonly vm_modules=(virtio_pci virtio_net virtio_rng veth) vm_rdma_modules=(ib_uverbs rdma_ucm rdma_rxe crc32_generic)

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
  { declare -f build_image init_script agent_script terminal_script; echo "${vm_packages[*]} ${vm_modules[*]} ${vm_rdma_modules[*]}"; } | sha256sum
}

unpack() { # DEB DIRECTORY
  dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner \
    --exclude='./usr/share/*' --exclude='./var/*' --exclude='./usr/lib/*/gconv/*'
}

build_image() {
  local root=$work/root kernel=$work/kernel package release file module
  mkdir -p "$work"/userland/partial "$kernel" "$root"/{dev,etc,proc,root,run,sys,tmp} "$root"/usr/{bin,sbin,lib,lib64}
  : >"$work/empty"

  package=$(apt-cache depends "$vm_kernel_package" | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$package" ] || lacking "apt knows no $vm_kernel_package; run apt-get update"
  say "fetching $package and the userland"
  { apt --download-only install "${vm_packages[@]}" && cd "$work" && apt download "$package"; } >"$work/apt.log" 2>&1 ||
    lacking "apt-get could not fetch Debian packages: $(tail -n 1 "$work/apt.log")"

  for file in bin sbin lib lib64; do ln -s "usr/$file" "$root/$file"; done
  for file in "$work"/userland/*.deb; do unpack "$file" "$root"; done
  unpack "$work"/linux-image-*.deb "$kernel"

  release=$(ls "$kernel/lib/modules")
  depmod -b "$kernel" "$release"
  for module in "${vm_modules[@]}" "${vm_rdma_modules[@]}"; do
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
  terminal_script >"$root/usr/sbin/terminal"
  chmod 755 "$root/init" "$root/usr/sbin/agent" "$root/usr/sbin/terminal"

  rm -rf "$vm_image"
  mkdir "$vm_image"
  cp "$kernel/boot/vmlinuz-$release" "$vm_image/vmlinuz"
  # Not compressed: without KVM, unpacking costs more than reading.
  (cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$vm_image/initrd"
  echo "$release" >"$vm_image/release"
  build_stamp >"$vm_image/stamp"
  say "built: kernel $release, initramfs $(du -m "$vm_image/initrd" | cut -f1) MiB"
}

init_script() {
  cat <<END
#!/bin/bash
set -e  # the end of this process is the end of the VM
export PATH=/opt/verbena/bin:/usr/sbin:/usr/bin HOME=/root LC_ALL=C
busybox mount -t proc proc /proc
busybox --install -s /usr/bin 2>/dev/null || true  # what the other packages did not bring
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t sysfs sys /sys
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
hostname "\${VM_NAME:-vm}"
modprobe -a ${vm_modules[*]}
[ -z "\$VM_RXE" ] || modprobe -a ${vm_rdma_modules[*]}
ip link set lo up
n=0; until [ -e /sys/class/net/eth0 ] || [ \$n -ge 100 ]; do sleep 0.1; n=\$((n + 1)); done
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set eth0 mtu "\$VM_MTU"
ip addr add "\$VM_IP4/24" dev eth0
ip addr add "\$VM_IP6/64" dev eth0 nodad
ip link set eth0 up
[ -z "\$VM_RXE" ] || rdma link add "\$VM_RXE" type rxe netdev eth0
if [ -n "\$VM_CONTROL" ]; then
  ip link set eth1 name control
  echo 1 >/proc/sys/net/ipv6/conf/control/disable_ipv6
  ip addr add "\$VM_CONTROL/24" dev control
  ip link set control up
fi
exec socat TCP-LISTEN:$vm_agent_port,reuseaddr,fork EXEC:/usr/sbin/agent
END
}

# One command per connection. In: key, token, time limit, command, each ended by NUL.
# Out: the command's output, then a line with the token and the exit status.
# A command whose caller has gone is ended with its process group.
# With "terminal" as time limit it is a terminal's other end, and its size stands for the command.
agent_script() {
  cat <<'END'
#!/bin/bash
for field in key token limit command; do IFS= read -r -d '' "$field" || exit; done
[ "$key" = "$(cat /etc/agent-key 2>/dev/null)" ] || exit
exec 3<&0
cd /root
# env: socat left SIGPIPE ignored. By its full path: busybox's setsid prefers busybox's own.
[ "$limit" != terminal ] || exec /usr/bin/env --default-signal socat - "EXEC:terminal $command,pty,stderr,setsid,ctty,sane"
setsid /usr/bin/env --default-signal timeout -k 2 "$limit" bash -c "$command" </dev/null 2>&1 3<&- & job=$!
{ IFS= read -r -d '' -u 3 _; kill -KILL -- "-$job"; } 2>/dev/null & watcher=$!
wait "$job"; status=$?
kill "$watcher"
printf '\n%s %d\n' "$token" "$status"
END
}

terminal_script() { # ROWS COLUMNS
  cat <<'END'
#!/bin/bash
stty rows "$1" cols "$2"
export PS1='\h:\w# '
exec bash --norc -i
END
}

build_vm_image() { # [--force]
  need apt-get apt dpkg-deb dpkg depmod kmod modprobe kmod cpio cpio flock util-linux
  [ "$(uname -m)" = x86_64 ] || lacking "the VM is built for x86_64, this machine is $(uname -m)"
  mkdir -p "$vm_cache"
  exec 9>"$vm_cache/lock"  # two builds at once: the second waits and finds the work done
  flock 9
  if [ "${1:-}" = --force ] || [ "$(cat "$vm_image/stamp" 2>/dev/null)" != "$(build_stamp)" ]; then
    work=$(mktemp -d "$vm_cache/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    build_image
    rm -rf "$work"
    trap - EXIT
  fi
  exec 9>&-
}

# ---------------------------------------------------------------- a machine's process

# A machine's folder has: pid, console, qemu.log. The process's start time guards against a process that
# got the same number later.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
pid_in() { # FOLDER
  local pid start
  read -r pid start 2>/dev/null <"$1/pid" || return 1
  [ "$(start_time "$pid")" = "$start" ] && echo "$pid"
}
remember_pid() { echo "$2 $(start_time "$2")" >"$1/pid"; } # FOLDER PID

stop_machine() { # FOLDER NAME
  local pid tries=0
  pid=$(pid_in "$1") || return 0
  kill "$pid"  # timeout(1) passes it on to QEMU, and insists after 5 s
  while pid_in "$1" >/dev/null; do
    ((++tries < 100)) || die "process $pid (VM '$2') did not end within 10 s"
    sleep 0.1
  done
}

# Becomes QEMU. The parameters are those of the kernel's command line above.
exec_qemu() { # kvm|tcg SECONDS FOLDER INITRD PARAMETERS [OPTION...]
  local cpu=host accelerator=kvm parameters=$5
  [ "$1" = kvm ] || { cpu=qemu64 accelerator=tcg,thread=multi; }  # qemu64: the quickest to emulate
  exec timeout -k 5 "$2" qemu-system-x86_64 -name "verbena-$(basename "$3")" \
    -accel "$accelerator" -cpu "$cpu" -smp 2 -m 1024 -nodefaults -no-user-config -display none -no-reboot \
    -kernel "$vm_image/vmlinuz" -initrd "$4" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off net.ifnames=0 $parameters" \
    -serial "file:$3/console" -device virtio-rng-pci "${@:6}"
}

# ---------------------------------------------------------------- the agent's other end

# Becomes the exit status of the command, whose output it prints.
run_in_machine() { # ADDRESS PORT KEY SECONDS COMMAND
  local token="status-$RANDOM$RANDOM" line newline=
  { exec 3<>"/dev/tcp/$1/$2"; } 2>/dev/null || { say "the VM does not answer"; exit 125; }
  printf '%s\0' "$3" "$token" "$4" "$5" >&3
  while IFS= read -r line <&3; do
    [[ $line == "$token "* ]] && exit "${line#* }"
    printf '%s%s' "$newline" "$line"
    newline=$'\n'  # held back: the agent put one before the token
  done
  say "the VM hung up before the command had ended"
  exit 125
}
