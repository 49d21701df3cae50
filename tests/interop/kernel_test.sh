#!/bin/bash
# kernel_test.sh: unmodified RDMA programs on a Verbena device against the Linux kernel's
# SoftRoCE (rxe) in a virtual machine, each end as server and as client.
#
#   kernel_test.sh [--logs DIR] PREFIX [REGEX]   PREFIX: where Verbena is installed
#   kernel_test.sh [--logs DIR] --selftest [REGEX]
#                                                rxe at both ends: tests this script and the VM
#   kernel_test.sh --list                        names of the cases
#
# REGEX chooses cases by name. Our end runs as user nobody. In the cases called _loss, every
# hundredth RoCE packet of each direction is dropped on its way; not of UC and UD, whose programs
# wait for every message. Of the labs, those called _in_vm have both ends on rxe. The cases called
# beside_ have Verbena itself in the VM, beside the kernel's RDMA. Exit status: 0 all
# passed, or skipped where a VM can't run (the reason is printed); 1 otherwise. Logs of failed cases
# are kept. The whole takes ten minutes on an emulated CPU.
# A VM that is up already under KERNEL_VM_NAME (see kernel-vm.sh) is used and left running.
# shellcheck disable=SC2317  # functions called by name
set -uo pipefail
export LC_ALL=C

vm=$(dirname "$(readlink -f "$0")")/kernel-vm.sh
readonly kernel_ip=10.77.0.2 verbena_ip=10.77.0.1 verbena_ip6=fd77::1 kernel_ip6=fd77::2
readonly verbena_device=vb_vm0 kernel_device=rxe0 verbena_interface=vm0
readonly roce_port=4791
readonly case_limit=90  # seconds; emulated without KVM, the slowest case takes a few

# Every case runs in both directions. rping's client ends the connection, ucmatose's server does.
# Iterations are for an emulated CPU; ten times as many with KVM, but for those that begin with =.
# name              program          IP  iterations  options of both ends
readonly cases='
rc_pingpong         ibv_rc_pingpong  4   200         -c
rc_pingpong_large   ibv_rc_pingpong  4   20          -c -s 1048576 -m 4096
rc_pingpong_1024    ibv_rc_pingpong  4   20          -c -s 65536 -m 1024
rc_pingpong_loss    ibv_rc_pingpong  4   =50         -c -s 16384 -m 1024
rc_pingpong_events  ibv_rc_pingpong  4   200         -c -e
rc_pingpong_ipv6    ibv_rc_pingpong  6   200         -c
uc_pingpong         ibv_uc_pingpong  4   200         -c
uc_pingpong_1024    ibv_uc_pingpong  4   50          -c -s 16384 -m 1024
uc_pingpong_4096    ibv_uc_pingpong  4   50          -c -s 16384 -m 4096
ud_pingpong         ibv_ud_pingpong  4   200         -c
ud_pingpong_1024    ibv_ud_pingpong  4   100         -c -s 1024
ud_pingpong_4096    ibv_ud_pingpong  4   100         -c -s 4096
ud_pingpong_ipv6    ibv_ud_pingpong  6   200         -c
srq_pingpong        ibv_srq_pingpong 4   100         -c -q 4
srq_pingpong_1024   ibv_srq_pingpong 4   50          -c -q 4 -s 16384 -m 1024
srq_pingpong_4096   ibv_srq_pingpong 4   50          -c -q 4 -s 16384 -m 4096
srq_pingpong_loss   ibv_srq_pingpong 4   =50         -c -q 4 -s 8192 -m 1024
write_bw            ib_write_bw      4   200
write_bw_large      ib_write_bw      4   20          -s 1048576
write_bw_1024       ib_write_bw      4   50          -m 1024
write_bw_loss       ib_write_bw      4   =50         -m 1024 -s 16384
write_bw_4096_loss  ib_write_bw      4   =200        -m 4096 -s 16384
read_bw             ib_read_bw       4   200
read_bw_large       ib_read_bw       4   20          -s 1048576
read_bw_1024        ib_read_bw       4   50          -m 1024
read_bw_loss        ib_read_bw       4   =50         -m 1024 -s 16384
read_bw_4096_loss   ib_read_bw       4   =200        -m 4096 -s 16384
send_bw             ib_send_bw       4   200
send_bw_large       ib_send_bw       4   20          -s 1048576
send_bw_1024        ib_send_bw       4   50          -m 1024
send_bw_loss        ib_send_bw       4   =50         -m 1024 -s 16384
send_bw_4096_loss   ib_send_bw       4   =200        -m 4096 -s 16384
send_bw_uc          ib_send_bw       4   =100        -c UC -s 4096
send_bw_uc_1024     ib_send_bw       4   =100        -c UC -s 4096 -m 1024
send_bw_ud          ib_send_bw       4   =100        -c UD -s 1024
write_lat           ib_write_lat     4   200
write_lat_large     ib_write_lat     4   50          -s 65536
send_lat            ib_send_lat      4   200
send_lat_large      ib_send_lat      4   50          -s 65536
fetch_add_bw        ib_atomic_bw     4   200         -A FETCH_AND_ADD
fetch_add_bw_1024   ib_atomic_bw     4   100         -A FETCH_AND_ADD -m 1024
fetch_add_bw_loss   ib_atomic_bw     4   =100        -A FETCH_AND_ADD
compare_swap_bw     ib_atomic_bw     4   200         -A CMP_AND_SWAP
fetch_add_lat       ib_atomic_lat    4   100         -A FETCH_AND_ADD
compare_swap_lat    ib_atomic_lat    4   100         -A CMP_AND_SWAP
cm_write_bw         ib_write_bw      4   200         -R
cm_send_bw          ib_send_bw       4   200         -R
cm_read_bw          ib_read_bw       4   100         -R
cm_write_lat        ib_write_lat     4   100         -R
cm_write_bw_loss    ib_write_bw      4   =50         -R -m 1024 -s 16384
rping               rping            4   10          -v
rping_verify        rping            4   10          -v -V -S 1000
rping_ipv6          rping            6   10          -v -V
rping_loss          rping            4   =50         -v -V
ucmatose            ucmatose         4   10          -c 10
ucmatose_ipv6       ucmatose         6   10          -c 10
ucmatose_loss       ucmatose         4   =50         -c 10
udaddy              udaddy           4   10          -c 3
udaddy_ipv6         udaddy           6   10          -c 3
mckey               mckey            4   10
rstream             rstream          4   10          -S 4096 -C 10 -T v
rstream_loss        rstream          4   =20         -S 4096 -C 10 -T v
rcopy               rcopy            4   =1
rcopy_loss          rcopy            4   =1
cmtime              cmtime           4   =100
cmtime_loss         cmtime           4   =50
'

# Cases that are not a row: a function each, see below. They run in both directions, too.
readonly other_cases='refused rejected dissected uc_marks ud_marks'

# ---------------------------------------------------------------- the two ends

# Becomes the program on one end, bounded in time: call it in a subshell.
on() { # kernel|verbena SECONDS PROGRAM [ARG...]
  local end=$1 limit=$2
  shift 2
  if in_vm "$end"; then exec "$vm" run -t "$limit" "exec $*"; fi
  exec timeout -k 2 "$limit" "$vm" host -u nobody "$prefix/bin/verbena" run -- "$@"
}

in_vm() { [ "$1" = kernel ] || [ "$selftest" = yes ]; } # END
other_end() { if [ "$1" = kernel ]; then echo verbena; else echo kernel; fi; } # END

address_of() { # END 4|6
  case $(in_vm "$1" && echo vm)$2 in
    vm4) echo $kernel_ip ;;
    vm6) echo $kernel_ip6 ;;
    4) echo $verbena_ip ;;
    6) echo $verbena_ip6 ;;
  esac
}
device_of() { if in_vm "$1"; then echo $kernel_device; else echo $verbena_device; fi; } # END

shell_on() { # END COMMAND: its output; no RDMA program, so it needs no device
  if in_vm "$1"; then "$vm" run -t 30 "$2"; else "$vm" host bash -c "$2"; fi 2>/dev/null
}

# Lines like "GID[  1]:  ::ffff:10.77.0.2, RoCE v2".
gid_index() { # END 4|6
  local address
  address=$(address_of "$1" "$2")
  [ "$2" = 6 ] || address=::ffff:$address
  (on "$1" 30 ibv_devinfo -v -d "$(device_of "$1")") >"$logs/devinfo.$1" 2>&1
  sed -n 's/.*GID\[ *\([0-9]*\)\]:[[:space:]]*\([^,[:space:]]*\).*/\1 \2/p' "$logs/devinfo.$1" |
    awk -v address="$address" '$2 == address { print $1; exit }'
}

# ---------------------------------------------------------------- the programs

# How the two ends of a program find each other.
meets_by() { # PROGRAM [OPTION...]: tcp, rdma_cm or multicast
  case $1 in
    ib_*) if [[ " $* " == *" -R "* ]]; then echo rdma_cm; else echo tcp; fi ;;
    ibv_*) echo tcp ;;
    mckey) echo multicast ;;
    *) echo rdma_cm ;;
  esac
}

serves_forever() { [ "$1" = rcopy ] || [ "$1" = cmtime ]; } # PROGRAM

# rping's client says goodbye and destroys its id, and for that the kernel stops repeating what it
# said. If the network loses it, the server waits for ever, a kernel's like ours.
losing=
goodbye_may_be_lost() { [ -n "$losing" ] && [ "$1" = rping ] && [ "$2" = kernel ]; } # PROGRAM CLIENT

# mckey's receiver is its server. The receivers' Ethernet address of the group.
readonly group=239.77.0.1 group_ethernet=01005e4d0001

is_ready() { # MEETS_BY END PORT
  local shows command pattern
  # Our end opens its sockets when it begins to listen, and none before.
  case $1$(in_vm "$2" && echo _in_vm) in
    tcp*) command='cat /proc/net/tcp /proc/net/tcp6' pattern=$(printf ':%04X 0*:0000 0A ' "$3") ;;
    multicast*) command='cat /proc/net/dev_mcast' pattern=$group_ethernet ;;
    rdma_cm_in_vm) command='rdma resource show cm_id' pattern="state LISTEN .*:$3 " ;;
    rdma_cm) command='cat /proc/net/udp /proc/net/udp6' pattern=$(printf ':%04X ' "$roce_port") ;;
  esac
  shows=$(shell_on "$2" "$command")  # whole: a pipe into grep -q would end it with SIGPIPE
  grep -q "$pattern" <<<"$shows"
}

# Address, port and count as the program wants them.
command_of() { # server|client END SERVER_END PROGRAM IP PORT ITERATIONS
  local device gid=${gids[$2$5]} server server_tcp
  device=$(device_of "$2") server=$(address_of "$3" "$5") server_tcp=$(address_of "$3" 4)
  case $1:$4 in
    server:ibv_*) echo "$4 -d $device -g $gid -p $6 -n $7" ;;
    client:ibv_*) echo "$4 -d $device -g $gid -p $6 -n $7 $server_tcp" ;;
    # -u 17: half a second to acknowledge, an emulated kernel is slow. -F: no opinion on CPU frequency.
    server:ib_*) echo "$4 -d $device -x $gid -p $6 -n $7 -F -u 17" ;;
    client:ib_*) echo "$4 -d $device -x $gid -p $6 -n $7 -F -u 17 $server_tcp" ;;
    server:rping) echo "$4 -s -a $server -p $6 -C $7" ;;
    client:rping) echo "$4 -c -a $server -p $6 -C $7" ;;
    server:ucmatose) echo "$4 -b $server -p $6 -C $7" ;;
    client:ucmatose) echo "$4 -s $server -p $6 -C $7" ;;
    server:udaddy) echo "$4 -b $server -C $7" ;;
    client:udaddy) echo "$4 -s $server -C $7" ;;
    server:mckey) echo "$4 -m $group -b $server -C $7" ;;
    client:mckey) echo "$4 -m $group -s -b $(address_of "$2" "$5") -C $7" ;;
    server:rstream) echo "$4 -b $server -p $6 -I $7" ;;
    client:rstream) echo "$4 -s $server -p $6 -I $7" ;;
    server:rcopy) echo "$4 -p $6" ;;
    client:rcopy) echo "$4 $exchange/sent $server:$exchange/received -p $6" ;;
    server:cmtime) echo "$4 -b $server -p $6 -c $7" ;;
    client:cmtime) echo "$4 -s $server -p $6 -c $7" ;;
  esac
}

digest() { shell_on "$1" "sha256sum <'$2'"; } # END FILE

before() { # PROGRAM SERVER CLIENT
  [ "$1" = rcopy ] || return 0
  shell_on "$2" "install -d -m 777 $exchange && rm -f $exchange/received"
  shell_on "$3" "install -d -m 777 $exchange && head -c 1000001 /dev/urandom >$exchange/sent && chmod 644 $exchange/sent"
}

# What an exit status does not say; prints the reason why a run that ended well was none.
objection() { # PROGRAM SERVER CLIENT ITERATIONS LOG
  local end lines sent
  for end in server client; do
    if grep -q 'invalid data' "$5.$end"; then
      echo "data arrived damaged: $(grep -m 1 'invalid data' "$5.$end")"
      return
    fi
    case $1 in
      rping)
        lines=$(grep -c 'ping data: rdma-ping-' "$5.$end")
        ((lines == $4)) || { echo "$end shows $lines pings, not $4"; return; }
        ;;
      ucmatose | udaddy | mckey)
        grep -q '^data transfers complete' "$5.$end" || { echo "$end did not complete its transfers"; return; }
        ;;
      rstream) grep -q '^custom ' "$5.$end" || { echo "$end shows no result"; return; } ;;
    esac
  done
  case $1 in
    cmtime) grep -q '^disconnect ' "$5.client" || echo "client shows no result" ;;
    rcopy)
      sent=$(digest "$3" "$exchange/sent")
      [ -n "$sent" ] && [ "$sent" = "$(digest "$2" "$exchange/received")" ] || echo "the file received is not the file sent"
      ;;
  esac
}

# ---------------------------------------------------------------- loss

lose_packets() { # the eleventh of each hundred: acknowledgements may be few
  "$vm" host nft -f - 2>"$logs/nft" <<END
table netdev loss {
  chain arriving {
    type filter hook ingress device "$verbena_interface" priority 0
    udp dport $roce_port numgen inc mod 100 10 counter drop
  }
  chain leaving {
    type filter hook egress device "$verbena_interface" priority 0
    udp dport $roce_port numgen inc mod 100 10 counter drop
  }
}
END
}
lose_none() { "$vm" host nft delete table netdev loss; }
packets_lost() { # how many, arriving and leaving
  "$vm" host nft list table netdev loss | awk '{ for (i = 1; i < NF; ++i) if ($i == "packets") n = n " " $(i + 1) } END { print n }'
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

ended_badly() { # ROLE END STATUS LOG: the reason, on one line
  local last
  last=$(grep -iE "fail|error|couldn't|unable|invalid" "$4" | tail -n 1)
  last=${last:-$(grep -v '^[[:space:]-]*$' "$4" | tail -n 1)}
  case $3 in
    124 | 137) echo "$1 ($2) ran into its time limit of $case_limit s" ;;
    *) echo "$1 ($2) ended with status $3: ${last:-no output}" ;;
  esac
}

# Starts a program in the background and sets `server_pid`; true once clients can come.
start_server() { # END LOG MEETS_BY PORT PROGRAM [OPTION...]
  local end=$1 log=$2 meets=$3 port=$4
  shift 4
  (on "$end" "$case_limit" "$@") >"$log" 2>&1 &
  server_pid=$!
  up_or_gone() { is_ready "$meets" "$end" "$port" || ! running "$server_pid"; }
  await 30 up_or_gone
  running "$server_pid"
}

# Sets `client_status`.
run_client() { # END LOG PROGRAM [OPTION...]
  local end=$1 log=$2
  shift 2
  (on "$end" "$case_limit" "$@") >"$log" 2>&1 &
  client_pid=$!
  wait "$client_pid"  # in the background, so that a signal is heeded at once
  client_status=$?
  client_pid=
}

# Sets `server_status`: 143 if it had to be stopped.
end_server() { # SECONDS it has to end by itself
  gone() { ! running "$server_pid"; }
  await "$1" gone || kill "$server_pid"
  wait "$server_pid"
  server_status=$?
  server_pid=
}

# Sets `reason`; empty means passed. Words of commands are split on purpose.
# shellcheck disable=SC2046,SC2086
run_case() { # NAME SERVER CLIENT PROGRAM IP ITERATIONS [OPTION...]
  local log=$logs/$1 server=$2 client=$3 program=$4 ip=$5 iterations=$6 port=$((next_port++)) patience=15 client_status=0 server_status
  shift 6
  reason=
  [ "$program" = udaddy ] && port=7174  # it can't be told another
  before "$program" "$server" "$client"
  : >"$log.client"  # stays empty without a server to talk to: the server's end is the reason then
  if start_server "$server" "$log.server" "$(meets_by "$program" "$@")" "$port" \
    $(command_of server "$server" "$server" "$program" "$ip" "$port" "$iterations") "$@"; then
    run_client "$client" "$log.client" $(command_of client "$client" "$server" "$program" "$ip" "$port" "$iterations") "$@"
  fi
  ((client_status)) && patience=3
  serves_forever "$program" && patience=0
  end_server $patience

  if ((client_status)); then
    reason=$(ended_badly client "$client" $client_status "$log.client")
    ((server_status == 0 || server_status == 143)) ||  # 143: we stopped it
      reason+="; $(ended_badly server "$server" $server_status "$log.server")"
  elif ((server_status == 143)) && ! serves_forever "$program" && ! goodbye_may_be_lost "$program" "$client"; then
    reason="server ($server) was still there 15 s after its client had succeeded"
  elif ((server_status != 0 && server_status != 143)); then
    reason=$(ended_badly server "$server" $server_status "$log.server")
  elif [ ! -s "$log.client" ]; then
    reason="server ($server) ended before it listened"
  else
    reason=$(objection "$program" "$server" "$client" "$iterations" "$log")
  fi
}

run_with_loss() { # as run_case
  local arriving leaving
  if ! lose_packets; then
    reason="nft set up no loss: $(head -n 1 "$logs/nft")"
    return
  fi
  losing=yes
  run_case "$@"
  losing=
  read -r arriving leaving < <(packets_lost)
  lose_none
  [ -z "$reason" ] || return
  ((${arriving:-0} > 0 && ${leaving:-0} > 0)) || reason="nothing was lost: ${arriving:-0} packets arriving, ${leaving:-0} leaving"
}

# ---------------------------------------------------------------- other cases

# Nobody listens at the port: reason 8 of a REJ, invalid service ID (12.6.7.2). Somebody listens at
# another port, for where no program runs there is no device of ours that could answer.
# shellcheck disable=SC2046,SC2086
refused() { # NAME SERVER
  local client other=$((next_port++)) port=$((next_port++)) client_status=0 server_status
  client=$(other_end "$2")
  : >"$logs/$1.client"
  start_server "$2" "$logs/$1.server" rdma_cm $other $(command_of server "$2" "$2" rping 4 $other 1) &&
    run_client "$client" "$logs/$1.client" $(command_of client "$client" "$2" ucmatose 4 $port 1)
  end_server 0
  reason=
  grep -q 'RDMA_CM_EVENT_REJECTED, error: 8$' "$logs/$1.client" ||
    reason="client ($client) saw no REJECTED with error 8: $(ended_badly client "$client" $client_status "$logs/$1.client")"
}

# The five messages of a connection's life, by their attribute IDs (16.7.1).
readonly connection_messages='0x0010 0x0013 0x0014 0x0015 0x0016'

missing_messages() { # CAPTURE LOG: those Wireshark does not see
  local seen id
  seen=$(tshark -r "$1" -T fields -e infiniband.mad.attributeid -Y infiniband.mad.mgmtclass==7 2>"$2")
  for id in $connection_messages; do grep -q "^$id" <<<"$seen" || echo "$id"; done
}

begin_capture() { # CAPTURE LOG
  local capture=$1 log=$2
  : >"$log"
  "$vm" host dumpcap -q -i "$verbena_interface" -f "udp port $roce_port" -w - >"$capture" 2>"$log" &
  capture_pid=$!
  capturing() { { grep -q '^File:' "$log" && [ -s "$capture" ]; } || ! running "$capture_pid"; }
  await 10 capturing
}

end_capture() { # COMMAND...: succeeds once all that is wanted is in the file
  complete() { "$@" || ! running "$capture_pid"; }
  await 5 complete "$@"  # what it has seen last it writes late, and not at all once it is told to end
  kill -INT "$capture_pid" && wait "$capture_pid"
  capture_pid=
}

# A third opinion on the packets of both: Wireshark's.
dissected() { # NAME SERVER
  local capture=$logs/$1.pcapng log=$logs/$1.tshark bad
  begin_capture "$capture" "$log"
  run_case "$1" "$2" "$(other_end "$2")" rping 4 10 -v
  has_all_messages() { [ -z "$(missing_messages "$capture" "$log")" ]; }
  end_capture has_all_messages
  [ -z "$reason" ] || return
  bad=$(missing_messages "$capture" "$log")
  [ -z "$bad" ] || reason="Wireshark sees no connection message ${bad//$'\n'/, }"
  bad=$(tshark -r "$capture" -Y "_ws.malformed || !infiniband" 2>>"$log" | head -n 1)
  [ -z "$bad" ] || reason="Wireshark cannot dissect: $bad"
}

frames_with() { # CAPTURE OPCODE
  tshark -r "$1" -Y "infiniband.bth.opcode == $2" 2>/dev/null | wc -l
}

# Our unreliable senders ask their receiver to say how far it is (decision 008). A kernel drops the
# question as of another service (IBA 9.6.1), never answers, and is asked no third time.
marks() { # NAME SERVER UC|UD SIZE
  local capture=$logs/$1.pcapng log=$logs/$1.tshark iterations=300 marked answered data
  begin_capture "$capture" "$log"
  run_case "$1" "$2" "$(other_end "$2")" ib_send_bw 4 "$iterations" -c "$3" -s "$4"
  has_data() { (($(tshark -r "$capture" 2>/dev/null | wc -l) > iterations)); }
  end_capture has_data
  [ -z "$reason" ] || return
  marked=$(frames_with "$capture" 0xc0) answered=$(frames_with "$capture" 0xc1)
  data=$(tshark -r "$capture" -Y 'infiniband.bth' 2>/dev/null | wc -l)
  if [ "$2" = verbena ]; then
    ((marked == 0 && answered == 0)) || reason="a kernel that sends saw $marked marks and $answered answers of ours"
  else
    ((marked == 2 && answered == 0)) || reason="$marked marks, not 2, and $answered answers among $data packets"
  fi
}
uc_marks() { marks "$1" "$2" UC 4096; }
ud_marks() { marks "$1" "$2" UD 1024; }

# A server that says no, and why (reason 28, consumer): its words arrive.
rejected() { # NAME SERVER
  local client port=$((next_port++)) program=$exchange/programs/reject client_status=0 server_status server
  client=$(other_end "$2") server=$(address_of "$2" 4)
  reason=
  if ! put_programs; then
    reason="reject.c: $(head -n 1 "$logs/cc")"
    return
  fi
  : >"$logs/$1.client"
  start_server "$2" "$logs/$1.server" rdma_cm "$port" "$program" serve "$server" "$port" &&
    run_client "$client" "$logs/$1.client" "$program" connect "$server" "$port"
  end_server 5
  grep -q 'REJECTED, status 28, private data "no, and this is why' "$logs/$1.client" ||
    reason="client ($client) did not hear why: $(ended_badly client "$client" "$client_status" "$logs/$1.client")"
  ((server_status == 0)) || reason=${reason:-$(ended_badly server "$2" "$server_status" "$logs/$1.server")}
}

# Our own small programs, at the same place on both machines.
put_programs() {
  [ -z "$programs_are_there" ] || return 0
  install -d -m 755 "$exchange/programs" &&
    cc -O1 -o "$exchange/programs/reject" "$(dirname "$vm")/../e2e/programs/reject.c" -lrdmacm -libverbs >"$logs/cc" 2>&1 &&
    chmod 755 "$exchange" "$exchange/programs" "$exchange/programs/reject" &&
    "$vm" put "$exchange/programs" "$exchange/programs" >>"$logs/cc" 2>&1 && programs_are_there=yes
}

# shellcheck source=tests/interop/kernel_labs.sh
. "$(dirname "$vm")/kernel_labs.sh"
# shellcheck source=tests/interop/kernel_beside.sh
. "$(dirname "$vm")/kernel_beside.sh"

# ---------------------------------------------------------------- all cases

passed=0 failed=0 skipped=0

report() { # PASS|FAIL|SKIP NAME [DETAIL]
  printf '%-4s  %-38s %s\n' "$1" "$2" "${3:-}"
  case $1 in PASS) ((++passed)) ;; FAIL) ((++failed)) ;; SKIP) ((++skipped)) ;; esac
}

# Runs a case by a function that sets `reason`.
judge() { # NAME FUNCTION [ARG...]
  local name=$1 began=${EPOCHREALTIME/./}
  shift
  reason='' skip=''
  "$@" </dev/null
  if [ -n "$skip" ]; then
    report SKIP "$name" "$skip"
  elif [ -z "$reason" ]; then
    report PASS "$name" "$(((${EPOCHREALTIME/./} - began) / 1000)) ms"
  else
    report FAIL "$name" "$reason; see $logs/$name.*"
  fi
}

missing() { # PROGRAM...: the first that this machine lacks
  local program
  for program in "$@"; do command -v "$program" >/dev/null || { echo "$program is not installed"; return; }; done
}

missing_outside() { # PROGRAM...: as missing(), for what looks at packets between VM and host
  if [ $selftest = yes ]; then echo 'with rxe at both ends, no packet leaves the VM'; else missing "$@"; fi
}

run_row() { # DIRECTION NAME PROGRAM IP ITERATIONS [OPTION...]
  local name=$2_$1_serves server=$1 program=$3 ip=$4 iterations=$5 run=run_case lacking=
  [[ $name =~ $regex ]] || return
  [[ $2 == *_loss ]] && run=run_with_loss
  shift 5
  [ $selftest = yes ] || lacking=$(missing "$program")
  [ $run != run_with_loss ] || lacking=${lacking:-$(missing_outside nft)}
  if [ -n "$lacking" ]; then
    report SKIP "$name" "$lacking"
    return
  fi
  case $iterations in =*) iterations=${iterations#=} ;; *) iterations=$((iterations * scale)) ;; esac
  judge "$name" $run "$name" "$server" "$(other_end "$server")" "$program" "$ip" "$iterations" "$@"
}

run_other() { # DIRECTION NAME
  local name=$2_$1_serves lacking=
  [[ $name =~ $regex ]] || return
  [ $selftest = yes ] || lacking=$(missing rping ucmatose)
  case $2 in
    dissected | *_marks) lacking=${lacking:-$(missing_outside dumpcap tshark ib_send_bw)} ;;
    rejected) lacking=${lacking:-$(missing_outside cc)} ;;
  esac
  if [ -n "$lacking" ]; then report SKIP "$name" "$lacking"; else judge "$name" "$2" "$name" "$1"; fi
}

run_all() {
  local name row direction
  while read -r name row; do
    [ -n "$name" ] || continue
    # shellcheck disable=SC2086
    for direction in kernel verbena; do run_row $direction "$name" $row; done
  done <<<"$cases"
  for name in $other_cases; do
    for direction in kernel verbena; do run_other $direction "$name"; done
  done
  run_labs
  run_beside
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
  for pid in $up_pid $client_pid $server_pid $capture_pid; do kill "$pid" 2>/dev/null && wait "$pid"; done
  if [ "$ours_to_stop" = yes ]; then
    ((failed)) && "$vm" console >"$logs/vm-console" 2>/dev/null
    "$vm" down
  fi
  rm -rf "$exchange"
  if ((failed)); then echo "logs: $logs"; elif [ -z "$keep_logs" ]; then rm -rf "$logs"; fi
}

selftest=no reason='' skip='' programs_are_there='' prefix='' regex='' keep_logs='' ours_to_stop=no up_pid='' client_pid='' server_pid='' capture_pid='' next_port=18600 scale=1
declare -A gids
while (($#)); do
  case $1 in
    -h | --help) awk 'NR > 1 { if (!/^#/ || /shellcheck/) exit; sub(/^# ?/, ""); print }' "$0"; exit ;;
    --list) awk 'NF { print $1 "_kernel_serves\n" $1 "_verbena_serves" }' <<<"$cases"$'\n'"${other_cases// /$'\n'}"; list_labs; list_beside; exit ;;
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
exchange=/tmp/verbena-kernel-test-$$  # where rcopy's ends have their files, each on its machine

trap finish EXIT
trap 'exit 130' INT TERM HUP
export KERNEL_VM_NAME=${KERNEL_VM_NAME:-test-$$} KERNEL_VM_TTL=${KERNEL_VM_TTL:-5400}
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
