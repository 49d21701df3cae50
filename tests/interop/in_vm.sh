#!/bin/bash
# in_vm.sh: both ends of an RDMA program on one machine, under `verbena run`. Part of kernel_beside.sh,
# which copies it into the virtual machine.
#
#   in_vm.sh VERBENA DEVICE ADDRESS PROGRAM [OPTION...]
#
# Exit status: 0 if both ends ended well; otherwise 1, with what they said.
set -u
verbena=$1 device=$2 address=$3 program=$4
shift 4
readonly port=18700
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

run() { exec "$verbena" run -- "$@"; }

# Lines like "GID[  1]:  ::ffff:10.77.0.2, RoCE v2".
gid() {
  (run ibv_devinfo -v -d "$device") | sed -n 's/.*GID\[ *\([0-9]*\)\]:[[:space:]]*\([^,[:space:]]*\).*/\1 \2/p' |
    awk -v address="::ffff:$address" '$2 == address { print $1; exit }'
}

case $program in
  rping) server=(-s -a "$address" -p "$port" -C 10 -v) client=(-c -a "$address" -p "$port" -C 10 -v) ;;
  rstream) server=(-b "$address" -p "$port" -I 10 -S 4096 -C 10 -T v) client=(-s "$address" "${server[@]:2}") ;;
  ibv_*) server=(-d "$device" -g "$(gid)" -p "$port" -n 100) client=("${server[@]}" "$address") ;;
  # -u 17: half a second to acknowledge, an emulated CPU is slow.
  ib_*) server=(-d "$device" -x "$(gid)" -p "$port" -n 100 -F -u 17) client=("${server[@]}" "$address") ;;
esac

# A listener of rdma_cm is known to the kernel, or opens the sockets of our device; the others wait for
# a TCP connection.
case "$device:$program $*" in
  rxe*:rping* | rxe*:rstream* | rxe*-R*) listens() { rdma resource show cm_id | grep -q "state LISTEN .*:$port "; } ;;
  *:rping* | *:rstream* | *-R*) listens() { grep -q ":$(printf %04X 4791) " /proc/net/{udp,udp6}; } ;;
  *) listens() { grep -q ":$(printf %04X $port) 0*:0000 0A " /proc/net/{tcp,tcp6}; } ;;
esac

(run "$program" "${server[@]}" "$@") >"$log/server" 2>&1 &
pid=$!
until listens || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
(run "$program" "${client[@]}" "$@") >"$log/client" 2>&1
status=$?
((status == 0)) || kill $pid 2>/dev/null
wait $pid
server_status=$?
cat "$log/client"
((status == 0 && server_status == 0)) && exit
echo "client: status $status; server: status $server_status, and it said:"
cat "$log/server"
exit 1
