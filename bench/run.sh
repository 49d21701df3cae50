#!/bin/bash
# Stock perftest on vb_lo, beside what the kernel's sockets do on 127.0.0.1 in the same run.
#
#   bench/run.sh [BUILD] [ROUNDS]     BUILD has bin/verbena and bench/raw_sockets  [build] [3]
#
# Each round measures everything once, in turn, so that a disturbance hits all alike; the medians
# are printed, and their ratios.
set -euo pipefail

build=$(readlink -f "${1:-$(dirname "$0")/../build}")
rounds=${2:-3}
seconds=2
port=$((22000 + RANDOM % 8000))

listening() { grep -qE ":$(printf %04X "$port") [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# The figure of a perftest program: column COLUMN of its result line.
perftest() { # COLUMN PROGRAM ARGUMENT…
  local column=$1 server i output
  shift
  port=$((port + 1))
  "$build/bin/verbena" run -- "$@" -d vb_lo -p "$port" >/dev/null 2>&1 &
  server=$!
  for ((i = 0; i < 500; i++)); do
    if listening; then break; fi
    sleep 0.01
  done
  output=$(timeout 60 "$build/bin/verbena" run -- "$@" -d vb_lo -p "$port" 127.0.0.1)
  wait "$server"
  awk -v c="$column" '$1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ && NF >= 5 { print $c; exit }' <<<"$output"
}

declare -A results
measure() { # NAME COMMAND…
  local name=$1
  shift
  local value
  value=$("$@")
  [[ $value ]] || { echo "bench: $name gave no figure" >&2; exit 1; }
  results[$name]+="$value "
}
median() { tr ' ' '\n' <<<"${results[$1]}" | grep . | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for ((round = 1; round <= rounds; round++)); do
  echo "round $round of $rounds" >&2
  measure write_bw perftest 4 ib_write_bw -s 65536
  measure tcp "$build/bench/raw_sockets" tcp $seconds
  measure udp "$build/bench/raw_sockets" udp $seconds
  measure write_lat perftest 5 ib_write_lat -s 64
  measure send_lat perftest 5 ib_send_lat -s 64
  measure ping "$build/bench/raw_sockets" ping $seconds
done

# perftest says MB and counts 2^20 bytes.
ratio() { awk -v a="$1" -v b="$2" -v f="${3:-1}" 'BEGIN { printf "%.2f", a * f / b }'; }
mib=1.048576
bw=$(median write_bw) lat=$(median write_lat) send=$(median send_lat)
printf '\n%-46s %10s  %s\n' "medians of $rounds rounds" "" "Verbena / this"
printf '%-46s %10.0f\n' "ib_write_bw 64 KiB on vb_lo, MB/s" "$(ratio "$bw" 1 $mib)"
printf '%-46s %10.0f  %s\n' "TCP stream, MB/s" "$(median tcp)" "$(ratio "$bw" "$(median tcp)" $mib)"
printf '%-46s %10.0f  %s\n' "UDP stream with GSO and GRO, MB/s" "$(median udp)" "$(ratio "$bw" "$(median udp)" $mib)"
printf '%-46s %10.2f\n' "ib_write_lat 64 B on vb_lo, us" "$lat"
printf '%-46s %10.2f\n' "ib_send_lat 64 B on vb_lo, us" "$send"
printf '%-46s %10.2f  %s (write)  %s (send)\n' "spinning UDP ping-pong 64 B, us one way" "$(median ping)" \
  "$(ratio "$lat" "$(median ping)")" "$(ratio "$send" "$(median ping)")"
