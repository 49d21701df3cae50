#!/bin/bash
# The Containerfile without a container engine: container_test.sh ROOT [ARCHIVE]. Its last image is put
# together in a copy of a root: RUN by chroot, COPY from the archive (the product of the first image),
# then the entry point as its USER.
# Exit status: 0 well, 1 not, 77 skipped.
set -euo pipefail
# shellcheck source=root.sh
. "$(dirname "$0")/root.sh"
root=$1
archive=${2:-$(newest_archive)}
[[ -n $archive ]] || { say_skipped "there is no archive; run make archive"; exit 77; }

image=$(mktemp -d "$root.image.XXXXXX")
trap 'rm -rf "$image"' EXIT
cp -a --reflink=auto "$root/." "$image"
args=() variables=() user='' entry=() last=0
count=$(grep -c '^FROM ' "$project/Containerfile")
while IFS= read -r line; do
  case $line in
    "FROM "*) last=$((last + 1)) ;;
    "" | \#*) ;;
    *)
      ((last == count)) || continue
      case $line in
        "ARG "*) args+=("${line#ARG }") ;;
        "RUN "*) in_root_online "$image" env "${args[@]//\"/}" sh -euc "${line#RUN }" ;;
        "COPY --from=build /opt/verbena /opt/verbena")
          mkdir -p "$image/opt/verbena"
          tar -xzf "$archive" --strip-components=1 -C "$image/opt/verbena"
          ;;
        "ENV "*) variables+=("${line#ENV }") ;;
        "USER "*) user=${line#USER } ;;
        "ENTRYPOINT "* | "CMD "*)
          mapfile -t -O "${#entry[@]}" entry < <(python3 -c \
            'import json, sys; print("\n".join(json.loads(sys.argv[1])))' "${line#* }")
          ;;
        *) echo "container_test.sh: what is this? $line"; exit 1 ;;
      esac
      ;;
  esac
done <"$project/Containerfile"
[[ $user =~ ^[1-9][0-9]*:[1-9][0-9]*$ ]] || { echo "USER is not an ordinary user: \"$user\""; exit 1; }
in_root "$image" setpriv --reuid "${user%:*}" --regid "${user#*:}" --clear-groups \
  env -i "${variables[@]}" "${entry[@]}"
