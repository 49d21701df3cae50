# kernel_labs.sh: part of kernel_test.sh. The labs on the kernel's rxe: both ends in the virtual
# machine, and one end on each side.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317  # variables of kernel_test.sh

# Labs whose ends may stand on different devices.
readonly labs_across='hello cm write-read imm send-recv pingpong across-hosts atomics flags events ud srq errors file'

readonly lab_limit=80  # seconds, less than case_limit

all_labs() { awk '/^[a-z]/ { print $1 }' "$(dirname "$vm")/../../labs/list.txt"; }

labs_are_there=

list_labs() {
  local lab
  for lab in $(all_labs); do echo "lab_${lab}_in_vm"; done
  for lab in $labs_across; do printf 'lab_%s_%s_serves\n' "$lab" kernel "$lab" verbena; done
}

lab_on() { # END LAB: its program there
  if in_vm "$1"; then echo "/opt/labs/$2"; else echo "$prefix/lib/verbena/labs/$2"; fi
}

put_labs() {
  [ -z "$labs_are_there" ] || return 0
  "$vm" put "$prefix/lib/verbena/labs" /opt/labs >"$logs/labs" 2>&1 && labs_are_there=yes
}

# Sets `reason`, and `skip` if the lab says that the device can't.
judge_lab() { # ROLE END STATUS LOG
  if (($3 == 77)); then
    skip=$(tail -n 1 "$4")
  elif (($3)); then
    reason=$(ended_badly "$1" "$2" "$3" "$4")
  fi
}

# Labs without a server and a client, and labs of equals.
readonly labs_alone='two-qp verbs' labs_of_ranks='parameter-server rendezvous'
is_one_of() { [[ " $2 " == *" $1 "* ]]; } # WORD WORDS

lab_in_vm() { # NAME LAB
  if is_one_of "$2" "$labs_alone"; then
    lab_alone "$1" "$2"
  elif is_one_of "$2" "$labs_of_ranks"; then
    lab_ends "$1" "$2" kernel kernel "$(ranks 0)" "$(ranks 1)"
  else
    lab_across "$1" "$2" kernel kernel
  fi
}

# Both ends, or all, by one command.
lab_alone() { # NAME LAB
  local client_status
  run_client kernel "$logs/$1.client" "$(lab_on kernel "$2")" --device "$kernel_device" \
    --timeout $lab_limit
  judge_lab lab kernel "$client_status" "$logs/$1.client"
}

ranks() { echo "--ranks 2 --rank $1 --root $(address_of kernel 4)"; } # RANK

lab_across() { # NAME LAB SERVER CLIENT
  lab_ends "$1" "$2" "$3" "$4" server "client $(address_of "$3" 4)"
}

# Words of both parts are split on purpose.
# shellcheck disable=SC2086
lab_ends() { # NAME LAB FIRST SECOND PART_OF_FIRST PART_OF_SECOND
  local log=$logs/$1 options client_status=0 server_status
  : >"$log.server"
  options="--port $((next_port++)) --timeout $lab_limit"
  : >"$log.client"
  (on "$3" "$case_limit" "$(lab_on "$3" "$2")" $5 $options) >"$log.server" 2>&1 &
  server_pid=$!
  ready_or_gone() { grep -q '\bready$' "$log.server" || ! running "$server_pid"; }
  is_one_of "$2" "$labs_of_ranks" || await 30 ready_or_gone
  running "$server_pid" && run_client "$4" "$log.client" "$(lab_on "$4" "$2")" $6 $options
  end_server 15
  judge_lab client "$4" "$client_status" "$log.client"
  [ -n "$reason$skip" ] || judge_lab server "$3" "$server_status" "$log.server"
}

run_lab() { # NAME FUNCTION [ARG...]
  local name=$1
  shift
  [[ $name =~ $regex ]] || return
  if ! put_labs; then
    report FAIL "$name" "the labs could not be copied into the VM; see $logs/labs"
    return
  fi
  judge "$name" "$1" "$name" "${@:2}"
}

run_labs() {
  local lab direction
  [ "$selftest" = no ] || return 0
  for lab in $(all_labs); do run_lab "lab_${lab}_in_vm" lab_in_vm "$lab"; done
  for lab in hello rendezvous; do run_lab "lab_${lab}_one_command" lab_alone "$lab"; done
  for lab in $labs_across; do
    for direction in kernel verbena; do run_lab "lab_${lab}_${direction}_serves" lab_across "$lab" $direction "$(other_end $direction)"; done
  done
}
