#!/bin/bash
# The portable archive on this machine, as an ordinary user; needs no network and no packages.
#
#   archive_inside.sh ARCHIVE [labs]    labs: without the stock programs
#
# Root runs it as nobody. Programs that aren't installed are skipped, and said to be.
# Exit status: 0 all is well, 1 something isn't.
set -euo pipefail

archive=$(readlink -f "$1") what=${2:-all}
if ((EUID == 0)); then # nobody may not read root's folders
  folder=$(mktemp -d /tmp/verbena-archive.XXXXXX)
  trap 'rm -rf "$folder"' EXIT
  cp "$archive" "$folder/archive.tar.gz"
  cp "$(readlink -f "$0")" "$folder/test.sh"
  chmod -R a+rX "$folder"
  cd /
  setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent \
    "$folder/test.sh" "$folder/archive.tar.gz" "${@:2}"
  exit
fi

failed=0
server=
folder=$(mktemp -d /tmp/verbena-test.XXXXXX)
# The server may have ended by itself.
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

# check NAME CMD…: its output is shown only when it fails.
check() {
  local name=$1
  shift
  if "$@" >"$folder/log" 2>&1; then
    echo "ok      $name"
  else
    echo "FAILED  $name: $*"
    tail -n 20 "$folder/log"
    failed=1
  fi
}

listens() { grep -qsiE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F:]+ 0A" /proc/net/tcp /proc/net/tcp6; }

# pair PORT PROGRAM OPTION…: a server, and a client of it. PORT 0: the program has no TCP port, so
# that only a connection shows that it listens.
pair() {
  local port=$1 status=0 tries=0
  shift
  verbena run -- "$@" >"$folder/server.log" 2>&1 &
  server=$!
  until ((port == 0)) || listens "$port" || ((++tries > 100)); do sleep 0.1; done
  until verbena run -- "$@" 127.0.0.1; do
    ((port == 0 && ++tries < 20)) || { status=1; break; }
    sleep 0.2
  done
  ((status == 0)) || kill "$server"
  wait "$server" || status=1
  server=
  ((status == 0)) || tail -n 5 "$folder/server.log"
  return $status
}

# rping says which end it is.
rping_pair() {
  local tries=0
  verbena run -- rping -s -a 127.0.0.1 -C 3 -p 7481 >"$folder/server.log" 2>&1 &
  server=$!
  until verbena run -- rping -c -a 127.0.0.1 -C 3 -p 7481; do
    ((++tries < 20)) || { kill "$server"; return 1; }
    sleep 0.2
  done
  wait "$server"
  server=
}

# if_installed PROGRAM CMD…
if_installed() {
  if [[ $what == labs ]]; then return; fi
  if command -v "$1" >/dev/null; then check "$1" "${@:2}"; else echo "SKIPPED $1: not installed"; fi
}

has_device() { verbena devices | grep '^vb_lo ' >/dev/null; }
by_variables() {
  bash -euc 'eval "$(verbena env)"; exec "$@"' env "$PWD"/*/lib/verbena/labs/hello
}

echo "# $(. /etc/os-release && echo "$PRETTY_NAME"), $(ldd --version | head -n 1), $(id -un 2>/dev/null || id -u)"
mkdir first
tar -xzf "$archive" -C first
PATH=$(echo "$folder"/first/*/bin):$PATH
preload=$(verbena env | sed -n 's/^export LD_PRELOAD=//p')
if [[ $preload == */bare/* ]]; then
  echo "# no rdma-core here: the archive's own"
else
  echo "# rdma-core of the system"
fi
check version verbena --version
check devices has_device
check "every lab" verbena lab all
if_installed ibv_devinfo verbena run -- ibv_devinfo -d vb_lo
if_installed ibv_rc_pingpong pair 18515 ibv_rc_pingpong -d vb_lo -g 0
if_installed ib_write_bw pair 18515 ib_write_bw -d vb_lo -n 1000
if_installed rping rping_pair

mv first "moved here" # LD_PRELOAD can't hold a space
PATH=$(echo "$folder"/moved\ here/*/bin):$PATH
if verbena lab hello >"$folder/log" 2>&1 || ! grep -q "install Verbena elsewhere" "$folder/log"; then
  echo "FAILED  a path with a space is not refused with the reason"
  failed=1
else
  echo "ok      a path with a space is refused with the reason"
fi
mv "moved here" second
cd second
PATH=$(echo "$folder"/second/*/bin):$PATH
check "a lab, moved" verbena lab hello
check "a lab by variables, moved" by_variables
exit $failed
