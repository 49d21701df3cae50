#!/bin/bash
# Debian packages of a build: deb.sh BUILD FOLDER. Works in a copy of debian/, so that nothing is left.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
build=$(readlink -f "$1")
mkdir -p "$2"
folder=$(readlink -f "$2")

version=$(sed -n 's/^project(verbena VERSION \([0-9.]*\).*/\1/p' "$project/CMakeLists.txt")
packaged=$(sed -n '1s/^verbena (\(.*\)) .*/\1/p' "$project/debian/changelog")
if [[ $version != "$packaged" ]]; then
  echo "deb.sh: debian/changelog is about $packaged, CMakeLists.txt about $version" >&2
  exit 1
fi

stage=$(mktemp -d "$folder/stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT
cp -r "$project"/{debian,README.md,CHANGELOG.md} "$stage"
rm -f "$folder"/*.deb
(cd "$stage" && DEB_RULES_REQUIRES_ROOT=no BUILD=$build PACKAGES=$folder debian/rules binary >"$folder/deb.log" 2>&1) ||
  { tail -n 20 "$folder/deb.log" >&2; exit 1; }
ls "$folder"/*.deb
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error --no-tag-display-limit "$folder"/*.deb
else
  echo "deb.sh: without lintian the packages are not checked" >&2
fi
