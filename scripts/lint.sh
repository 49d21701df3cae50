#!/bin/bash
# Formatting and static checks; the Makefile's `format` and `lint`.
#
#   scripts/lint.sh format                       clang-format in place
#   scripts/lint.sh check BUILD [JOBS] [REGEX]   report only; BUILD has compile_commands.json,
#                                                REGEX chooses the files for clang-tidy
set -uo pipefail
cd "$(dirname "$0")/.." || exit

folders=()
for folder in src include front tools bench labs examples tests; do
  [[ -d $folder ]] && folders+=("$folder")
done
sources() { find "${folders[@]}" -type f \( "$@" \) | sort; }

mapfile -t formatted < <(sources -name '*.h' -o -name '*.hpp' -o -name '*.cc' -o -name '*.c')
mapfile -t scripts < <(grep -rIlE '^#!.*\b(ba)?sh\b' scripts .ci tests bench 2>/dev/null | sort)
mapfile -t python < <(find scripts tests bench examples -name '*.py' | sort)

status=0
stage() { # TITLE COMMAND…
  local title=$1
  shift
  if "$@"; then echo "ok    $title"; else echo "FAIL  $title"; status=1; fi
}

check_shell() {
  local file bad=0
  for file in "${scripts[@]}"; do bash -n "$file" || bad=1; done
  if command -v shellcheck >/dev/null; then shellcheck -x -P SCRIPTDIR -S warning "${scripts[@]}" || bad=1; fi
  return $bad
}

check_python() {
  python3 - "${python[@]}" <<'PYTHON'
import sys
for name in sys.argv[1:]:
    compile(open(name, encoding="utf-8").read(), name, "exec")
PYTHON
}

check_tidy() { # BUILD JOBS REGEX
  # Only what the build compiles: the database has the flags, which are g++'s.
  python3 -c '
import json, os, re, sys
for name in sorted({e["file"] for e in json.load(open(sys.argv[1] + "/compile_commands.json"))}):
    relative = os.path.relpath(name)
    if not relative.startswith("build/") and re.search(sys.argv[2], relative):
        print(relative)' "$1" "$3" |
    xargs -r -P "$2" -n 1 clang-tidy -p "$1" --quiet --extra-arg=-Wno-unknown-warning-option \
      --extra-arg=-Wno-string-conversion 2> >(grep -vE 'warnings? generated|^$' >&2)
}

# Clang compares the annotations of base/thread_annotations.h with what the code locks. That the
# check can fail is shown first, by a class that writes a guarded member without its lock.
check_thread_safety() { # BUILD JOBS
  local flags=(-std=c++20 -fsyntax-only -Wthread-safety -Werror=thread-safety) include found
  while read -r include; do flags+=("$include"); done < <(python3 -c '
import json, shlex, sys
for entry in json.load(open(sys.argv[1] + "/compile_commands.json")):
    if "verbena_host.dir" in entry["command"] or "/src/host/" in entry["file"]:
        words = shlex.split(entry["command"])
        for i, word in enumerate(words):
            if word in ("-I", "-isystem"):
                print(word + words[i + 1])
            elif word.startswith("-I"):
                print(word)
        break' "$1")
  found=$(clang++ "${flags[@]}" -x c++ - 2>&1 <<'CXX'
#include "host/shard_lock.h"
class Bad {
 public:
  void write() { value_ = 1; }

 private:
  verbena::host::ShardLock lock_;
  int value_ GUARDED_BY(lock_) = 0;
};
CXX
  )
  if [[ $found != *Wthread-safety* ]]; then
    echo "clang++ doesn't find a write without its lock: $found"
    return 1
  fi
  find src/host -name '*.cc' -print0 | xargs -0 -P "$2" -n 1 clang++ "${flags[@]}"
}

case ${1-} in
  format) clang-format -i "${formatted[@]}" ;;
  check)
    build=${2:?BUILD}
    stage "clang-format ${#formatted[@]} files" clang-format --dry-run -Werror "${formatted[@]}"
    stage "shell ${#scripts[@]} files" check_shell
    stage "python ${#python[@]} files" check_python
    stage "thread safety" check_thread_safety "$build" "${3:-$(nproc)}"
    stage "clang-tidy" check_tidy "$build" "${3:-$(nproc)}" "${4-.}"
    exit $status
    ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
