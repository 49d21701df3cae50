#!/bin/bash
# The GitHub action in a root, as a runner would have it: action_test.sh ROOT [ARCHIVE]. Its YAML is
# linted, its steps are run as nobody, and a later step sees our devices and leaves a capture.
# Exit status: 0 well, 1 not, 77 skipped.
set -euo pipefail
# shellcheck source=root.sh
. "$(dirname "$0")/root.sh"
root=$1
archive=${2:-$(newest_archive)}
[[ -n $archive ]] || { say_skipped "there is no archive; run make archive"; exit 77; }
python3 -c 'import yaml' 2>/dev/null || { say_skipped "python3-yaml is missing"; exit 77; }

if command -v yamllint >/dev/null; then
  yamllint -s -d '{extends: default, rules: {line-length: {max: 110}, document-start: disable}}' \
    "$project/action.yml" "$project"/.github/workflows/*.yml
else
  say_skipped "yamllint is missing: the YAML is only parsed"
fi

runner=$root/runner
rm -rf "$runner"
mkdir -p "$runner"/{steps,temp,work}
trap 'rm -rf "$runner"' EXIT
cp "$archive" "$runner/verbena.tar.gz"
"$project/tests/systems/action_steps.py" "$project/action.yml" "$runner/steps" \
  archive=/runner/verbena.tar.gz captures=captures faults=seed=7,drop=1% only=true
cat >"$runner/run.sh" <<'END'
set -euo pipefail
export RUNNER_TEMP=/runner/temp GITHUB_ACTION_PATH=/nonexistent GITHUB_WORKSPACE=/runner/work
export GITHUB_ENV=/runner/env GITHUB_PATH=/runner/path GITHUB_OUTPUT=/runner/output
touch "$GITHUB_ENV" "$GITHUB_PATH" "$GITHUB_OUTPUT"
cd "$GITHUB_WORKSPACE"
for step in /runner/steps/*.sh; do
  echo "step $step"
  while IFS='=' read -r name value; do export "OUTPUT_$name=$value"; done <"$GITHUB_OUTPUT"
  bash --noprofile --norc -eo pipefail "$step"
done
cat "$GITHUB_ENV"
# What the runner does between two steps.
while IFS= read -r folder; do PATH=$folder:$PATH; done <"$GITHUB_PATH"
while IFS='=' read -r name value; do export "$name=$value"; done <"$GITHUB_ENV"
verbena devices | grep '^vb_lo '
[[ $VERBENA_ONLY == 1 && $VERBENA_FAULTS == seed=7,drop=1% ]]
labs=$(dirname "$(command -v verbena)")/../lib/verbena/labs
"$labs/hello"
[[ -s captures/frames.pcapng ]]
ls -l captures
END
chown -R 65534:65534 "$runner"
in_root "$root" setpriv --reuid 65534 --regid 65534 --clear-groups bash /runner/run.sh
