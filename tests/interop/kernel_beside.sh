# kernel_beside.sh: part of kernel_test.sh. Verbena inside the virtual machine, beside the kernel's own
# RDMA: first with ib_core, ib_uverbs and rdma_ucm alone, then with rxe0, which owns the UDP port of
# RoCE, so that our devices are used inside `verbena netns`.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317  # variables of kernel_test.sh

readonly vm_prefix=/opt/verbena vm_verbena=/opt/verbena/bin/verbena vm_script=/opt/interop/in_vm.sh
# Seconds. Both ends share an emulated CPU, and some labs do a thousand rounds.
readonly beside_limit=300 beside_lab_limit=240

# name              program and options
readonly beside_programs='
rping               rping
rstream             rstream
cm_write_bw         ib_write_bw -R
cm_send_lat         ib_send_lat -R
rc_pingpong_events  ibv_rc_pingpong -e
write_bw            ib_write_bw
'
# Ids of rdma_cm at the address of rxe0 are the kernel's; perftest's -R listens at every address.
readonly rxe_programs='
rping               rping
rstream             rstream
cm_write_bw         ib_write_bw -R
rc_pingpong         ibv_rc_pingpong
rc_pingpong_events  ibv_rc_pingpong -e
write_bw            ib_write_bw
'

verbena_is_there=

list_beside() {
  local name
  for name in $(awk 'NF { print $1 }' <<<"$beside_programs"); do
    echo "beside_cm_$name"
    echo "beside_rxe_netns_$name"
  done
  for name in $(all_labs); do
    echo "beside_cm_lab_$name"
    echo "beside_rxe_netns_lab_$name"
  done
  echo beside_rxe_devices
  echo beside_rxe_devinfo
  awk 'NF { print "beside_rxe_on_rxe0_" $1 }' <<<"$rxe_programs"
}

put_verbena() {
  [ -z "$verbena_is_there" ] || return 0
  mkdir -p "$exchange/interop" && cp "$(dirname "$vm")/in_vm.sh" "$exchange/interop/" &&
    "$vm" put "$exchange/interop" /opt/interop >"$logs/verbena" 2>&1 &&
    "$vm" put "$prefix" $vm_prefix >>"$logs/verbena" 2>&1 && verbena_is_there=yes
}

# Sets `reason`.
command_in_vm() { # NAME COMMAND...
  local name=$1 status
  shift
  "$vm" run -t $beside_limit "$*" >"$logs/$name.client" 2>&1
  status=$?
  ((status == 0)) || reason=$(ended_badly command VM $status "$logs/$name.client")
}

output_in_vm() { # NAME EXPRESSION COMMAND...: whatever its exit status, it says so
  "$vm" run -t $beside_limit "${*:3}" >"$logs/$1.client" 2>&1
  grep -qE "$2" "$logs/$1.client" || reason="it doesn't say /$2/"
}

run_beside_case() { # NAME FUNCTION [ARG...]
  [[ $1 =~ $regex ]] || return
  judge "$1" "$2" "$1" "${@:3}"
}

# The programs and labs on our loopback device, by a command that may be inside another one.
on_our_devices() { # PREFIX_OF_NAMES [COMMAND...]
  local names=$1 name program lab
  shift
  while read -r name program; do
    [ -z "$name" ] || run_beside_case "${names}_$name" command_in_vm "$* $vm_script $vm_verbena vb_lo 127.0.0.1 $program"
  done <<<"$beside_programs"
  for lab in $(all_labs); do
    run_beside_case "${names}_lab_$lab" command_in_vm "$* $vm_verbena lab $lab --timeout $beside_lab_limit"
  done
}

without_rxe() {
  "$vm" run -t 30 'rdma link delete rxe0 && modprobe -r rdma_rxe &&
    grep -q "^ib_uverbs " /proc/modules && grep -q "^rdma_ucm " /proc/modules && ! grep -q "^rdma_rxe " /proc/modules'
}
with_rxe() { "$vm" run -t 30 'modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0'; }

run_beside() {
  local name program
  [ "$selftest" = no ] || return 0
  grep -qE "$regex" <<<"$(list_beside)" || return 0
  if ! put_verbena; then
    report FAIL beside "Verbena could not be copied into the VM; see $logs/verbena"
    return
  fi
  if without_rxe >"$logs/without_rxe" 2>&1; then
    on_our_devices beside_cm
  else
    report FAIL beside_cm "rdma_rxe could not be unloaded; see $logs/without_rxe"
  fi
  if ! with_rxe >"$logs/with_rxe" 2>&1; then
    report FAIL beside_rxe "rxe0 did not come back; see $logs/with_rxe"
    return
  fi
  run_beside_case beside_rxe_devices output_in_vm \
    "^vb_lo +.*127\.0\.0\.1: UDP port 4791 is taken by the kernel's rxe \(rxe0\).*verbena netns" $vm_verbena devices
  on_our_devices beside_rxe_netns $vm_verbena netns --
  # rxe0 itself, with our library in front.
  run_beside_case beside_rxe_devinfo command_in_vm \
    "ibv_devinfo -v -d rxe0 >/tmp/without && $vm_verbena run -- ibv_devinfo -v -d rxe0 >/tmp/with && cmp /tmp/without /tmp/with"
  while read -r name program; do
    [ -z "$name" ] || run_beside_case "beside_rxe_on_rxe0_$name" command_in_vm \
      "$vm_script $vm_verbena rxe0 $kernel_ip $program"
  done <<<"$rxe_programs"
}
