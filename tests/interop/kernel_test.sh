#!/bin/bash
# kernel_test.sh: unmodified RDMA programs on a Verbena device against the Linux kernel's
# SoftRoCE (rxe) in a virtual machine, each end as server and as client.
#
#   kernel_test.sh [--logs DIR] PREFIX [REGEX]   PREFIX: where Verbena is installed
#   kernel_test.sh [--logs DIR] --selftest [REGEX]
#                                                rxe at both ends: tests this script and the VM
#   kernel_test.sh --list                        names of the cases
#
# REGEX chooses cases by name. Our end runs as user nobody. Exit status: 0 all passed, or
# skipped where a VM can't run (the reason is printed); 1 otherwise. Logs of failed cases are kept.
# A VM that is up already under KERNEL_VM_NAME (see kernel-vm.sh) is used and left running.
# shellcheck disable=SC2317  # functions called by name
set -uo pipefail
export LC_ALL=C

vm=$(dirname "$(readlink -f "$0")")/kernel-vm.sh
readonly kernel_ip=10.77.0.2 verbena_ip=10.77.0.1 verbena_ip6=fd77::1 kernel_ip6=fd77::2
readonly verbena_device=vb_vm0 kernel_device=rxe0
readonly case_limit=90  # seconds; emulated without KVM, the slowest case takes a few

# Every case runs in both directions. Iterations are for an emulated CPU; ten times as many with KVM.
# name              program          IP  iterations  options of both ends
readonly cases='
rc_pingpong         ibv_rc_pingpong  4   200         -c
rc_pingpong_large   ibv_rc_pingpong  4   20          -c -s 1048576 -m 4096
rc_pingpong_events  ibv_rc_pingpong  4   200         -c -e
rc_pingpong_ipv6    ibv_rc_pingpong  6   200         -c
write_bw            ib_write_bw      4   200
write_bw_large      ib_write_bw      4   20          -s 1048576
read_bw             ib_read_bw       4   200
read_bw_large       ib_read_bw       4   20          -s 1048576
send_bw             ib_send_bw       4   200
send_bw_large       ib_send_bw       4   20          -s 1048576
write_lat           ib_write_lat     4   200
write_lat_large     ib_write_lat     4   50          -s 65536
send_lat            ib_send_lat      4   200
send_lat_large      ib_send_lat      4   50          -s 65536
'

# ---------------------------------------------------------------- the two ends

# Becomes the program on one end, bounded in time: call it in a subshell.
on() { # kernel|verbena SECONDS PROGRAM [ARG...]
  local end=$1 limit=$2
  shift 2
  if [ "$end" = kernel ] || [ "$selftest" = yes ]; then exec "$vm" run -t "$limit" "exec $*"; fi
  exec timeout -k 2 "$limit" "$vm" host -u nobody "$prefix/bin/verbena" run -- "$@"
}

address_of() { # END
  if [ "$1" = kernel ] || [ "$selftest" = yes ]; then echo $kernel_ip; else echo $verbena_ip; fi
}
device_of() { # END
  if [ "$1" = kernel ] || [ "$selftest" = yes ]; then echo $kernel_device; else echo $verbena_device; fi
}

# Lines like "GID[  1]:  ::ffff:10.77.0.2, RoCE v2".
gid_index() { # END 4|6
  local address
  address=::ffff:$(address_of "$1")
  if [ "$2" = 6 ]; then
    if [ "$(device_of "$1")" = $kernel_device ]; then address=$kernel_ip6; else address=$verbena_ip6; fi
  fi
  (on "$1" 30 ibv_devinfo -v -d "$(device_of "$1")") >"$logs/devinfo.$1" 2>&1
  sed -n 's/.*GID\[ *\([0-9]*\)\]:[[:space:]]*\([^,[:space:]]*\).*/\1 \2/p' "$logs/devinfo.$1" |
    awk -v address="$address" '$2 == address { print $1; exit }'
}

listens() { # END PORT
  local sockets
  if [ "$1" = kernel ] || [ "$selftest" = yes ]; then sockets=$("$vm" run -t 10 cat /proc/net/tcp /proc/net/tcp6)
  else sockets=$("$vm" host cat /proc/net/tcp /proc/net/tcp6); fi 2>/dev/null
  grep -q "$(printf ':%04X 0*:0000 0A ' "$2")" <<<"$sockets"
}

# ---------------------------------------------------------------- one case

running() { [ -e "/proc/$1" ] && kill -0 "$1" 2>/dev/null; }

await() { # SECONDS COMMAND...: polls until the command succeeds
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

options() { # END PROGRAM IP PORT ITERATIONS
  local gid=${gids[$1$3]}
  case $2 in
    ibv_*) echo "-d $(device_of "$1") -g $gid -p $4 -n $5" ;;
    # -u 17: half a second to acknowledge, an emulated kernel is slow. -F: no opinion on CPU frequency.
    ib_*) echo "-d $(device_of "$1") -x $gid -p $4 -n $5 -F -u 17" ;;
  esac
}

ended_badly() { # ROLE END STATUS LOG: the reason, on one line
  local last
  last=$(grep -iE "fail|error|couldn't|unable|invalid" "$4" | tail -n 1)
  last=${last:-$(grep -v '^[[:space:]-]*$' "$4" | tail -n 1)}
  case $3 in
    124 | 137) echo "$1 ($2) ran into its time limit of $case_limit s" ;;
    *) echo "$1 ($2) ended with status $3: ${last:-no output}" ;;
  esac
}

# Sets `reason`; empty means passed. Words of options are split on purpose.
# shellcheck disable=SC2046,SC2086
run_case() { # NAME SERVER CLIENT PROGRAM IP ITERATIONS [OPTION...]
  local log=$logs/$1 server=$2 client=$3 program=$4 ip=$5 iterations=$6 port=$((next_port++)) client_status server_status
  shift 6
  reason=
  (on "$server" $case_limit "$program" $(options "$server" "$program" "$ip" $port "$iterations") "$@") >"$log.server" 2>&1 &
  server_pid=$!
  up_or_gone() { listens "$server" $port || ! running $server_pid; }
  await 30 up_or_gone

  if running $server_pid; then
    (on "$client" $case_limit "$program" $(options "$client" "$program" "$ip" $port "$iterations") "$@" "$(address_of "$server")") \
      >"$log.client" 2>&1 &
    client_pid=$!
    wait $client_pid  # in the background, so that a signal is heeded at once
    client_status=$?
    client_pid=
    gone() { ! running $server_pid; }
    await $((client_status ? 3 : 15)) gone || kill $server_pid
  else
    client_status=0  # it had no server to talk to: the server's end is the reason
    : >"$log.client"
  fi
  wait $server_pid
  server_status=$?
  server_pid=

  if ((client_status)); then
    reason=$(ended_badly client "$client" $client_status "$log.client")
    ((server_status == 0 || server_status == 143)) ||  # 143: we stopped it
      reason+="; $(ended_badly server "$server" $server_status "$log.server")"
  elif ((server_status == 143)); then
    reason="server ($server) was still there 15 s after its client had succeeded"
  elif ((server_status)); then
    reason=$(ended_badly server "$server" $server_status "$log.server")
  elif [ ! -s "$log.client" ]; then
    reason="server ($server) ended before it listened"
  elif grep -q 'invalid data' "$log.server" "$log.client"; then
    reason="data arrived damaged: $(cat "$log.server" "$log.client" | grep -m 1 'invalid data')"
  fi
}

# ---------------------------------------------------------------- all cases

passed=0 failed=0 skipped=0

report() { # PASS|FAIL|SKIP NAME [DETAIL]
  printf '%-4s  %-38s %s\n' "$1" "$2" "${3:-}"
  case $1 in PASS) ((++passed)) ;; FAIL) ((++failed)) ;; SKIP) ((++skipped)) ;; esac
}

run_all() {
  local name program ip iterations extra direction began client
  while read -r name program ip iterations extra; do
    for direction in kernel verbena; do
      [[ -n $name && ${name}_${direction}_serves =~ $regex ]] || continue
      client=verbena
      [ $direction = verbena ] && client=kernel
      if [ $selftest = no ] && ! command -v "$program" >/dev/null; then
        report SKIP "${name}_${direction}_serves" "$program is not installed"
        continue
      fi
      began=${EPOCHREALTIME/./}
      # shellcheck disable=SC2086
      run_case "${name}_${direction}_serves" $direction $client "$program" "$ip" $((iterations * scale)) $extra </dev/null
      if [ -z "$reason" ]; then
        report PASS "${name}_${direction}_serves" "$(((${EPOCHREALTIME/./} - began) / 1000)) ms"
      else
        report FAIL "${name}_${direction}_serves" "$reason; see $logs/${name}_${direction}_serves.*"
      fi
    done
  done <<<"$cases"
}

find_gids() { # GID indices of both ends, or the reason why there is none
  local end ip
  for end in kernel verbena; do
    for ip in 4 6; do
      gids[$end$ip]=$(gid_index $end $ip)
      [ -n "${gids[$end$ip]}" ] && continue
      report FAIL devices "$(device_of $end) ($end) has no GID for its IPv$ip address; see $logs/devinfo.$end"
      return 1
    done
  done
}

finish() {
  local pid
  for pid in $up_pid $client_pid $server_pid; do kill "$pid" 2>/dev/null && wait "$pid"; done
  if [ "$ours_to_stop" = yes ]; then
    ((failed)) && "$vm" console >"$logs/vm-console" 2>/dev/null
    "$vm" down
  fi
  if ((failed)); then echo "logs: $logs"; elif [ -z "$keep_logs" ]; then rm -rf "$logs"; fi
}

selftest=no prefix='' regex='' keep_logs='' ours_to_stop=no up_pid='' client_pid='' server_pid='' next_port=18600 scale=1
declare -A gids
while (($#)); do
  case $1 in
    -h | --help) awk 'NR > 1 { if (!/^#/ || /shellcheck/) exit; sub(/^# ?/, ""); print }' "$0"; exit ;;
    --list) awk 'NF { print $1 "_kernel_serves\n" $1 "_verbena_serves" }' <<<"$cases"; exit ;;
    --logs) keep_logs=${2:?--logs needs a directory}; shift ;;
    --selftest) selftest=yes ;;
    -*) echo "kernel_test: unknown option $1; see --help" >&2; exit 1 ;;
    *) if [ -z "$prefix" ] && [ $selftest = no ]; then prefix=$(readlink -m "$1"); else regex=$1; fi ;;
  esac
  shift
done
if [ $selftest = no ] && [ ! -x "$prefix/bin/verbena" ]; then
  echo "kernel_test: no program '${prefix:-PREFIX}/bin/verbena'; see --help" >&2
  exit 1
fi
logs=${keep_logs:-$(mktemp -d "${TMPDIR:-/tmp}/verbena-kernel-test.XXXXXX")}
mkdir -p "$logs" && logs=$(readlink -f "$logs") || exit 1

trap finish EXIT
trap 'exit 130' INT TERM HUP
export KERNEL_VM_NAME=${KERNEL_VM_NAME:-test-$$} KERNEL_VM_TTL=${KERNEL_VM_TTL:-1800}
if [ "$("$vm" status)" = down ]; then
  ours_to_stop=yes
  echo "starting a virtual machine with Debian's kernel (the first time, it is built from packages)"
  "$vm" up >"$logs/vm-up" 2>&1 &
  up_pid=$!
  wait $up_pid
  status=$?
  up_pid=
  if ((status == 77)); then
    echo "SKIPPED: no virtual machine: $(tail -n 1 "$logs/vm-up" | sed 's/^kernel-vm: //')"
    exit 0
  elif ((status)); then
    report FAIL virtual_machine "$(tail -n 1 "$logs/vm-up" | sed 's/^kernel-vm: //'); see $logs/vm-up"
  else
    tail -n 1 "$logs/vm-up"
  fi
fi
if ((failed == 0)); then
  read -r _ accel _ < <("$vm" status)
  [ "$accel" = kvm ] && scale=10
  if [ $selftest = no ] && ! "$vm" host -u nobody test -x "$prefix/bin/verbena"; then
    report FAIL prefix "user nobody cannot run $prefix/bin/verbena; install it where every user can read it"
  elif find_gids; then
    run_all
  fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))
