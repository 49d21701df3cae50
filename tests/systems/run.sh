#!/bin/bash
# Builds and tests Verbena on other systems than this one, each in a debootstrapped root.
#
#   tests/systems/run.sh [--list] [REGEX]     the cases whose names match
#
#   bookworm, trixie, testing    `make run`, then `make test`, as on a machine of that Debian
#   clang-16, clang-19           built by that compiler without a warning, then ctest
#   arm64                        cross-built; unit tests, simulation and pingpongs under qemu-user
#   NAME/SUITE                   tests/systems/NAME_test.sh in the root of that suite
#
# Variables: SYSTEMS, the folder of the roots and logs [build/systems]; KEEP_BUILD=1 builds only what
# has changed since the last time; MIRROR, where debootstrap gets packages.
# Exit status: 0 nothing failed (skips are said), 1 something did.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/root.sh"

systems=${SYSTEMS:-$project/build/systems}
suites=(bookworm trixie testing)

cases() {
  printf '%s\n' "${suites[@]}" clang-16 clang-19 arm64
  local script name suite
  for script in "$here"/*_test.sh; do
    [[ -e $script ]] || continue
    name=$(basename "$script" _test.sh)
    for suite in "${suites[@]}"; do echo "$name/$suite"; done
  done
}

run_case() {
  case $1 in
    bookworm | trixie | testing)
      make_root "$1" "$systems/$1" && "$here/debian.sh" "$systems/$1"
      ;;
    clang-*)  # this suite has both
      make_root bookworm "$systems/clang" && "$here/clang.sh" "$systems/clang" "${1#clang-}"
      ;;
    arm64)
      make_root trixie "$systems/arm64" && "$here/arm64.sh" "$systems/arm64"
      ;;
    */*)
      make_root "${1#*/}" "$systems/${1#*/}" && "$here/${1%/*}_test.sh" "$systems/${1#*/}"
      ;;
  esac
}

list_only=false
[[ ${1-} == --list ]] && list_only=true && shift
mapfile -t chosen < <(cases | grep -E -- "${1:-.}")
((${#chosen[@]})) || { echo "run.sh: no case matches \"$1\"; there are:" >&2; cases >&2; exit 1; }
if $list_only; then
  printf '%s\n' "${chosen[@]}"
  exit
fi

mkdir -p "$systems"
failed=()
for name in "${chosen[@]}"; do
  log=$systems/${name//\//-}.log
  echo "== $name (log: $log)"
  status=0
  begin=$SECONDS
  # A subshell of its own, so that set -e holds in it.
  (set +e; run_case "$name") >"$log" 2>&1 || status=$?
  # Many logs have no such line, and grep then says 1.
  ((status == 77)) || grep -E '^(SKIPPED|#) ' "$log" || true
  case $status in
    0) echo "PASSED $name: $((SECONDS - begin)) s" ;;
    77) say_skipped "$name: $(sed -n 's/^SKIPPED //p' "$log" | tail -n 1)" ;;
    *)
      tail -n 30 "$log"
      echo "FAILED $name: status $status, $((SECONDS - begin)) s"
      failed+=("$name")
      ;;
  esac
done
((${#failed[@]} == 0)) || { echo "test-systems: failed: ${failed[*]}"; exit 1; }
