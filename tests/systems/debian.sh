#!/bin/bash
# What a user of that Debian does first: debian.sh ROOT. Lines that begin with # go to the summary.
set -euo pipefail
# shellcheck source=root.sh
. "$(dirname "$0")/root.sh"
root=$1

copy_tree "$root"
in_root_online "$root" bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get upgrade -y -qq
  cd /verbena
  scripts/deps.sh build test
  scripts/deps.sh clients || echo "# without some clients"
  scripts/deps.sh cost || echo "# without valgrind"'
in_root "$root" bash -euc '
  cd /verbena
  echo "# $(. /etc/os-release; echo "$PRETTY_NAME"), $(g++ --version | head -n 1),"\
    "rdma-core $(dpkg-query -Wf "\${Version}" libibverbs1)"
  begin=$SECONDS
  make
  echo "# make: $((SECONDS - begin)) s"
  make run
  make test'
