#!/bin/bash
# The Debian packages in a clean root: deb_test.sh ROOT [FOLDER]. Installed, used by nobody, purged:
# nothing is left. FOLDER has the packages [build/packages].
# Exit status: 0 well, 1 not, 77 skipped.
set -euo pipefail
# shellcheck source=root.sh
. "$(dirname "$0")/root.sh"
root=$1
packages=${2:-$project/build/packages}
codename() { (. "$1/etc/os-release" && echo "${VERSION_CODENAME-}"); }

if ! compgen -G "$packages/verbena_*.deb" >/dev/null; then
  say_skipped "there are no packages; run make deb"
  exit 77
fi
if [[ $(codename "$root") != "$(codename "")" ]]; then
  say_skipped "the packages are made for $(codename ""), not for $(codename "$root")"
  exit 77
fi

clean=$(mktemp -d "$root.clean.XXXXXX")
trap 'rm -rf "$clean"' EXIT
cp -a --reflink=auto "$root/." "$clean"
rm -rf "$clean/verbena" # the sources of other tests
mkdir "$clean/packages"
cp "$packages"/verbena_*.deb "$packages"/librdma++-dev_*.deb "$project/tests/rdmapp/consumer/main.cc" \
  "$clean/packages"
chmod -R a+rX "$clean/packages"

in_root_online "$clean" bash -euc '
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends /packages/*.deb ibverbs-utils g++ pkg-config
  apt-get install -y -qq --no-install-recommends man-db || echo "without man-db"
  dpkg -L verbena librdma++-dev >/packages/files' >"$root.packages.log" 2>&1 ||
  { tail -n 20 "$root.packages.log"; exit 1; }

cat >"$clean/packages/use.sh" <<'END'
set -euo pipefail
cd "$(mktemp -d)"
verbena lab hello
verbena run -- ibv_devinfo -d vb_lo
g++ -O1 $(pkg-config --cflags rdma++) /packages/main.cc -o consumer $(pkg-config --libs rdma++)
verbena run -- ./consumer | grep -x vb_lo >/dev/null
. /usr/share/bash-completion/completions/verbena
COMP_WORDS=(verbena run --log de) COMP_CWORD=3
_verbena
[[ ${COMPREPLY[*]} == debug ]]
COMP_WORDS=(verbena lab he) COMP_CWORD=2
_verbena
[[ ${COMPREPLY[*]} == hello ]]
COMP_WORDS=(verbena lab im) COMP_CWORD=2
_verbena
[[ ${COMPREPLY[*]} == imm ]]
COMP_WORDS=(verbena lab bulk --chu) COMP_CWORD=3
_verbena
[[ ${COMPREPLY[*]} == --chunks ]]
for page in verbena verbena-{run,env,devices,stat,lab,netns}; do
  ! command -v man >/dev/null || man "$page" | grep SYNOPSIS >/dev/null
done
END
in_root "$clean" setpriv --reuid 65534 --regid 65534 --clear-groups bash /packages/use.sh

in_root "$clean" bash -euc '
  dpkg --purge verbena librdma++-dev >/dev/null
  left=$(while read -r file; do
           if [[ ! -d $file && -e $file ]] || [[ $file == *verbena* && -e $file ]]; then echo "$file"; fi
         done </packages/files
         find / -xdev \( -name "*verbena*" -o -name "*rdma++*" \) -not -path "/packages/*" \
           -not -path "/proc/*" -not -path "/var/cache/man/*")
  [[ -z $left ]] || { echo "left behind: $left"; exit 1; }
  echo "nothing is left"'
