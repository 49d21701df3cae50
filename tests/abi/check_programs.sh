#!/bin/sh
# Stock programs start with LIBRARY preloaded and every symbol bound at once, and see its device.
#   check_programs.sh LIBRARY
set -eu
library=$1
status=0

# expect TEXT PROGRAM ARGUMENT…: its output has TEXT. (perftest exits 1 after --version.)
expect() {
  text=$1
  shift
  if ! command -v "$1" >/dev/null; then
    echo "skipped, not on this machine: $1"
    return
  fi
  output=$(LD_PRELOAD="$library" LD_BIND_NOW=1 "$@" 2>&1) || true
  if ! echo "$output" | grep -q "$text"; then
    printf "%s doesn't say '%s' but:\n%s\n" "$*" "$text" "$output"
    status=1
  fi
}

expect 'vb_lo' ibv_devices
for text in 'board_id:.*verbena' 'link_layer:.*Ethernet' 'state:.*PORT_ACTIVE' 'RoCE v2'; do
  expect "$text" ibv_devinfo -v -d vb_lo
done
for program in ib_write_bw ib_read_bw ib_send_bw ib_write_lat ib_send_lat; do
  expect '^Version' $program --version
done
exit $status
