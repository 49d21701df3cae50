# Debian roots to test in. To be sourced.
#
#   make_root SUITE FOLDER       debootstraps a minimal root unless it is there; status 77: can't
#   in_root FOLDER CMD…          runs a command in it, with a network of its own (lo alone)
#   in_root_online FOLDER CMD…   the same with the machine's network, to install packages
#   copy_tree FOLDER             puts the project's files, and nothing else, at /verbena in it
#   newest_archive               what `make archive` made last; empty: nothing
#   say_skipped TEXT             "SKIPPED TEXT", for who reads the output

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say_skipped() { echo "SKIPPED $*"; }

# Root, namespaces and mounts: containers often lack one of them.
can_enter_roots() {
  if ((EUID != 0)); then
    say_skipped "a debootstrapped root needs root; run it as root"
    return 77
  fi
  if ! unshare --mount --pid --fork --net mount -t tmpfs none /mnt 2>/dev/null; then
    say_skipped "this machine allows no mount and network namespaces"
    return 77
  fi
}

make_root() {
  local suite=$1 folder=$2
  can_enter_roots || return
  [[ -f $folder/.complete ]] && return
  if ! command -v debootstrap >/dev/null; then
    say_skipped "debootstrap is missing: apt-get install debootstrap"
    return 77
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  if ! debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder" \
    "${MIRROR:-http://deb.debian.org/debian}" >"$folder.debootstrap.log" 2>&1; then
    tail -n 5 "$folder.debootstrap.log"
    say_skipped "debootstrap of $suite failed: see $folder.debootstrap.log"
    return 77
  fi
  # Every installed system has it: libfabric looks localhost up.
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$folder/etc/hosts"
  # Mirrors of testing fall behind.
  echo 'Acquire::Check-Valid-Until "false";' >"$folder/etc/apt/apt.conf.d/90old-lists"
  touch "$folder/.complete"
}

# Everything that is mounted or started goes with the namespaces.
enter() {
  local network=$1 folder=$2
  shift 2
  unshare --mount --pid --fork --kill-child $network bash -euc '
    root=$1
    shift
    mount --make-rprivate /
    ip link set lo up
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    if mountpoint -q /sys/fs/cgroup; then # slurmd wants it
      mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    fi
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    # Not chroot: the kernel allows no user namespaces in one.
    cd "$root"
    pivot_root . .
    umount -l .
    cd /
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    exec "$@"' enter "$folder" "$@"
}

in_root() {
  local folder=$1
  shift
  enter --net "$folder" "$@"
}

in_root_online() {
  local folder=$1
  shift
  cp /etc/resolv.conf "$folder/etc/resolv.conf"
  enter "" "$folder" "$@"
}

# Files keep their times, so that with KEEP_BUILD=1 an earlier build is used again.
copy_tree() {
  local tree=$1/verbena
  mkdir -p "$tree"
  find "$tree" -mindepth 1 -maxdepth 1 ${KEEP_BUILD:+! -name build} -exec rm -rf {} +
  (cd "$project" && git ls-files -z --cached --others --exclude-standard | list_existing |
    tar -c --null -T -) | tar -x -C "$tree"
}

list_existing() {
  local file
  while IFS= read -r -d '' file; do
    if [[ -e $file || -L $file ]]; then printf '%s\0' "$file"; fi
  done
}

newest_archive() {
  [[ -d $project/build/packages ]] || return 0
  find "$project/build/packages" -name 'verbena-*-linux-*.tar.gz' -printf '%T@ %p\n' 2>/dev/null |
    sort -n | tail -n 1 | cut -d ' ' -f 2-
}
