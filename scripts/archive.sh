#!/bin/bash
# The portable archive of a build made with VERBENA_PORTABLE: archive.sh BUILD FOLDER
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
build=$1 folder=$2

version=$(sed -n 's/^project(verbena VERSION \([0-9.]*\).*/\1/p' "$project/CMakeLists.txt")
glibc=$(sed -n 's/^set(VERBENA_PORTABLE_GLIBC \(.*\))/\1/p' "$project/cmake/VerbenaPortable.cmake")
name=verbena-$version-linux-$(uname -m)
mkdir -p "$folder"
stage=$(mktemp -d "$folder/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT

cmake --install "$build" --strip --prefix "$stage/$name" >/dev/null
cp "$project/LICENSE" "$stage/$name"
cat >"$stage/$name/README" <<END
Verbena $version: RDMA on any Linux machine. No hardware, no kernel module, no root.

  bin/verbena lab hello                  two processes, one writes into the other's memory
  bin/verbena devices                    what programs will see
  bin/verbena run -- PROGRAM …           runs an RDMA program on these devices
  eval "\$(bin/verbena env)"              the same for everything in this shell
  man -l share/man/man1/verbena.1        the manual

The folder may lie anywhere and be moved; its path must not have a space or a colon. It needs glibc
$glibc or later. Where rdma-core is not installed, the copy in lib/verbena/bare is used. The terms of
what comes along are in share/doc/verbena/copyright.
END
"$project/tests/systems/check_portable.py" "$stage/$name" "$glibc"
# The same sources give the same archive.
tar -c -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
  --mtime="@${SOURCE_DATE_EPOCH:-$(git -C "$project" log -1 --format=%ct 2>/dev/null || echo 0)}" \
  "$name" | gzip -9n >"$folder/$name.tar.gz"
echo "$folder/$name.tar.gz: $(($(stat -c %s "$folder/$name.tar.gz") / 1000)) kB"
