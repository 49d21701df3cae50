#!/bin/bash
# The portable archive in a root: archive_test.sh ROOT [ARCHIVE]. First without any rdma-core, then with
# the stock RDMA programs. Without ARCHIVE: the newest of `make archive`.
# Exit status: 0 well, 1 not, 77 skipped.
set -euo pipefail
# shellcheck source=root.sh
. "$(dirname "$0")/root.sh"
root=$1
archive=${2:-$(newest_archive)}
if [[ -z $archive ]]; then
  say_skipped "there is no archive; run make archive"
  exit 77
fi

mkdir -p "$root/archive"
trap 'rm -rf "$root/archive"' EXIT
cp "$archive" "$root/archive/archive.tar.gz"
cp "$project/tests/systems/archive_inside.sh" "$root/archive"
chmod -R a+rX "$root/archive"

# Other tests may have installed it: an empty file is no library. The mounts go with the namespace.
in_root "$root" bash -euc '
  for library in /usr/lib/*/lib{ibverbs,rdmacm,nl-3,nl-route-3}.so.*; do
    if [[ -f $library ]]; then mount --bind /dev/null "$library"; fi
  done
  exec /archive/archive_inside.sh /archive/archive.tar.gz labs' | tee "$root.archive.log"
grep -q "no rdma-core here" "$root.archive.log" || { echo "rdma-core was found all the same"; exit 1; }
if in_root_online "$root" bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  dpkg-query -W ibverbs-utils perftest rdmacm-utils >/dev/null 2>&1 || {
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ibverbs-utils perftest rdmacm-utils
  }' >"$root.packages.log" 2>&1; then
  in_root "$root" /archive/archive_inside.sh /archive/archive.tar.gz
else
  tail -n 3 "$root.packages.log"
  say_skipped "the stock programs can't be installed in $root"
fi
