#!/bin/bash
# two_vms_test.sh: scripts/two-vms.sh as it is installed, used by an ordinary user.
#
#   two_vms_test.sh PREFIX [REGEX]   PREFIX: where Verbena is installed; REGEX chooses cases by name
#   two_vms_test.sh --list           names of the cases
#
# Exit status: 0 all passed, or skipped where a VM can't run (the reason is printed); 1 otherwise.
# The whole takes three minutes on an emulated CPU.
set -uo pipefail
export LC_ALL=C

readonly cases='two_vms_demo two_vms_soft_roce two_vms_by_hand two_vms_interrupted two_vms_without_qemu two_vms_wrong'
[ "${1:-}" != --list ] || { tr ' ' '\n' <<<"$cases"; exit; }
prefix=$(readlink -m "${1:?which prefix? see the head of this file}") regex=${2:-}
script=$prefix/lib/verbena/two-vms.sh
[ -x "$script" ] || { echo "two_vms_test: no program $script; is Verbena installed in $prefix?" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/verbena-kernel-test.XXXXXX")
trap 'as_user "$script" down; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
as_user() { env "${user[@]}" "$@" </dev/null; }
user=(HOME="$folder" KERNEL_VM_DIR="$folder/vm" TWO_VMS_NAME=test)
if ((EUID == 0)); then
  chown nobody: "$folder"
  user+=(setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups --inh-caps=-all --bounding-set=-all)
fi

# ---------------------------------------------------------------- cases: each sets `reason`

says() { grep -qE "$1" "$folder/log" || reason="no line /$1/"; } # EXPRESSION
run() { # WANTED_STATUS COMMAND...
  local wanted=$1 status
  shift
  as_user "$@" >"$folder/log" 2>&1
  status=$?
  [ "$status" = 77 ] && [ "$wanted" != 77 ] && skip=$(tail -n 1 "$folder/log")
  ((status == wanted)) || reason="exit status $status instead of $wanted"
}
nothing_left() {
  local left
  left=$(as_user "$script" status)
  [ "$left" = $'a down\nb down' ] || reason="still there: $left"
  ! ls -d "$folder"/vm/two-* >/dev/null 2>&1 || reason="left behind: $(ls -d "$folder"/vm/two-*)"
}

two_vms_demo() {
  run 0 "$script" demo
  says '^  b \| shown: a capability in private data, one WRITE, one READ'
  says '^  a \| server \| found "hello from the client"'
  says '^  b \| 100 iters in'
  nothing_left
}

two_vms_soft_roce() {
  run 0 "$script" demo --soft-roce b
  says '^b\$ ibv_rc_pingpong -d rxe0'
  says '^  a \| 100 iters in'
  says '^  b \| 100 iters in'
  says '^  b \| shown: a capability in private data, one WRITE, one READ'
  nothing_left
}

# A terminal of script(1): what is typed into it comes out at the other machine's shell.
terminal() {
  : >"$folder/log"
  # shellcheck disable=SC2016  # b's shell expands it
  { printf 'echo "I am $(hostname), $(stty size)"\r'; timeout 30 sh -c 'until grep -q "I am b," "$0"; do sleep 0.1; done' "$folder/log"; printf 'exit\r'; } |
    timeout 60 env "${user[@]}" env SHELL=/bin/sh script -qec "stty rows 33 cols 99; exec $script shell b" /dev/null >"$folder/log" 2>&1 ||
    reason="the terminal ended with status $?"
  says 'I am b, 33 99'
}

two_vms_by_hand() {
  run 0 "$script" up
  [ -z "$reason$skip" ] || return
  run 3 "$script" run b 'ping -c 1 a && exit 3'
  run 0 "$script" run a -b 'verbena lab hello server'
  says '^job 1 of a; its output: .* run a cat job\.1$'
  # shellcheck disable=SC2016
  run 0 "$script" run a 'until grep -q "| ready$" job.1; do sleep 0.1; done'
  run 0 "$script" run b verbena lab hello client a
  # shellcheck disable=SC2016
  run 0 "$script" run a 'until grep "found .hello" job.1; do sleep 0.1; done'
  run 124 env TWO_VMS_LIMIT=1 "$script" run a sleep 20
  run 1 "$script" up --soft-roce b
  says 'are up, but not so; first: .* down$'
  terminal
  run 0 "$script" down
  nothing_left
}

# Ctrl-C while they boot: a signal to the whole process group, as a terminal sends it.
two_vms_interrupted() {
  local pid status
  : >"$folder/log"
  set -m  # a group of its own, and SIGINT not ignored
  (exec env "${user[@]}" "$script" up </dev/null >"$folder/log" 2>&1) &
  pid=$!
  set +m
  until grep -q 'booting a and b' "$folder/log" || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
  kill -INT -- -$pid
  wait $pid
  status=$?
  if ((status == 77)); then skip=$(tail -n 1 "$folder/log"); fi
  ((status == 130)) || reason="exit status $status instead of 130"
  nothing_left
}

two_vms_without_qemu() {
  mkdir "$folder/bin" && ln -s /usr/bin/* "$folder/bin/" && rm -f "$folder"/bin/qemu-system-*
  run 77 env PATH="$folder/bin" "$script" up
  says "qemu-system-x86_64 is missing; install Debian's package qemu-system-x86"
  nothing_left
}

two_vms_wrong() {
  run 1 "$script" run c true
  says "which machine\? a or b, not 'c'"
  run 1 "$script" run a true
  says 'a is not up; first: .* up$'
  run 1 "$script" up --soft-roce
  says 'the only option is --soft-roce'
  run 1 "$script" start
  says "unknown command 'start'; see .* --help"
  run 0 "$script" --help
  says 'two-vms\.sh demo \[--soft-roce b\]'
}

# ---------------------------------------------------------------- all cases

passed=0 failed=0 skipped=0
for name in $cases; do
  [[ $name =~ $regex ]] || continue
  reason='' skip='' began=$SECONDS
  "$name"
  if [ -n "$skip" ]; then
    printf 'SKIP  %-38s %s\n' "$name" "$skip"
    ((++skipped))
  elif [ -z "$reason" ]; then
    printf 'PASS  %-38s %s s\n' "$name" $((SECONDS - began))
    ((++passed))
  else
    printf 'FAIL  %-38s %s\n' "$name" "$reason"
    sed 's/^/    | /' "$folder/log"
    ((++failed))
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
