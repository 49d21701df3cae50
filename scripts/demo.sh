#!/bin/bash
# The tour behind `make run`: two unmodified RDMA programs talk over Verbena's loopback device;
# then every lab, and RDMA beside TCP. The exit status tells whether all of it worked.
#
#   scripts/demo.sh [VERBENA]      the `verbena` program [build/bin/verbena]
set -euo pipefail

verbena=${1:-$(dirname "$0")/../build/bin/verbena}
device=vb_lo
address=127.0.0.1
port=$((20000 + RANDOM % 10000))

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() { echo "demo: $*" >&2; exit 1; }
show() { printf '$ %s\n' "$*"; }

say "The RDMA devices of this machine, Verbena's among them"
show verbena devices
"$verbena" devices

gid=$("$verbena" devices --json | python3 -c '
import json, sys
device, address = sys.argv[1:]
print(*[gid["index"] for d in json.load(sys.stdin) if d["name"] == device
        for port in d["ports"] for gid in port["gids"] if gid["address"] == address][:1])
' "$device" "$address")
[[ $gid ]] || fail "$device has no GID for $address: is the interface lo up?"

say "Debian's ibv_rc_pingpong, unmodified: a server and a client, data checked"
server=(run -- ibv_rc_pingpong -d "$device" -g "$gid" -p "$port" -c)
client=("${server[@]}" "$address")

show "verbena ${server[*]} &"
log=$(mktemp)
trap 'rm -f "$log"; kill "$server_pid" 2>/dev/null || true' EXIT
"$verbena" "${server[@]}" >"$log" 2>&1 &
server_pid=$!
listening() { grep -qE ":$(printf %04X "$port") [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6; }
for ((i = 0; i < 100; i++)); do
  listening && break
  kill -0 "$server_pid" 2>/dev/null || { cat "$log"; fail "the server ended"; }
  sleep 0.05
done
listening || fail "the server does not listen on TCP port $port after 5 s"

show "verbena ${client[*]}"
timeout 60 "$verbena" "${client[@]}" || { cat "$log"; fail "the client failed"; }
wait "$server_pid" || { cat "$log"; fail "the server failed"; }

say "That was RoCEv2: InfiniBand packets in UDP, sent and acknowledged in user space."

say "Every lab: a small program each, with its result checked"
show verbena lab all
"$verbena" lab all

say "The same bytes by RDMA and by TCP, in one run"
show verbena lab bulk --size 64M
"$verbena" lab bulk --size 64M

say "Where to go next"
cat <<'NEXT'
  build/bin/verbena lab list              the labs; labs/NAME/README.md asks a question each
  docs/tutorial.md                        a walk through them
  build/bin/verbena netns                 two hosts to try things on, without root
  build/bin/verbena run -- PROGRAM        your own RDMA program, unmodified
  docs/cookbook.md                        your own in C++, with include/rdma++
NEXT
