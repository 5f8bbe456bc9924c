#!/bin/sh
# Task type inspect: looks over this machine (file systems, load, memory, failed
# services) and appends one JSON line a finding to $INSPECT_OUTPUT. Each look is a
# step with a checkpoint; a repeated look is one more line with its own time, so
# repeating is harmless.
set -eu

usage() {
  echo "usage: inspect.sh   (run as a task; \$INSPECT_OUTPUT names the JSONL file, default data/inspect.jsonl)"
}
[ "${1:-}" != -h ] || { usage && exit 0; }
: "${NIGHTSHIFT_TASK_ID:?run me as a task of Nightshift}"

output=${INSPECT_OUTPUT:-data/inspect.jsonl}
case $output in */*) mkdir -p "${output%/*}" ;; esac

text() { printf '%s' "$1" | sed "s/'/''/g"; } # for use between single quotes of SQL

finding() { # finding CHECK SUBJECT VALUE UNIT LIMIT: a value over its limit is bad
  bad=$(awk -v v="$3" -v l="$5" 'BEGIN { print (v + 0 > l + 0) ? "true" : "false" }')
  sqlite3 :memory: "SELECT json_object('at', strftime('%Y-%m-%dT%H:%M:%fZ','now'), 'task', '$(text "$NIGHTSHIFT_TASK_ID")',
    'check', '$(text "$1")', 'subject', '$(text "$2")', 'value', json('$(text "$3")'), 'unit', '$(text "$4")',
    'limit', json('$(text "$5")'), 'bad', json('$bad'))" >>"$output"
  [ "$bad" = false ] || echo "bad: $1 $2 is $3 $4, over $5" >&2
}

file_systems() {
  df -P -k -x tmpfs -x devtmpfs -x overlay 2>/dev/null | awk 'NR > 1 { sub("%", "", $5); print $5, $6 }' | while read -r used mount; do
    finding "file system" "$mount" "$used" percent "${INSPECT_DISK_LIMIT:-90}"
  done
}
load() {
  read -r one _ </proc/loadavg
  finding load "1 minute" "$one" processes "$(($(getconf _NPROCESSORS_ONLN) * 4))"
}
memory() {
  used=$(awk '/^MemTotal:/ { t = $2 } /^MemAvailable:/ { a = $2 } END { printf "%d", (t - a) * 100 / t }' /proc/meminfo)
  finding memory used "$used" percent "${INSPECT_MEMORY_LIMIT:-95}"
}
services() {
  failed=0
  if [ -d /run/systemd/system ]; then
    failed=$(systemctl list-units --state=failed --no-legend --plain 2>/dev/null | wc -l)
  fi
  finding services failed "$((failed))" units 0
}

done_steps=$(printf %s "${NIGHTSHIFT_CHECKPOINT:-}" | sed -n 's/.*"steps":\([0-9]*\).*/\1/p')
step=0
for look in file_systems load memory services; do
  step=$((step + 1))
  [ "$step" -gt "${done_steps:-0}" ] || continue
  "$look"
  printf '{"checkpoint":{"steps":%d},"progress":"%d/4 looks"}\n' "$step" "$step" >&3
  read -r answer <&3
  case $answer in *'"stop"'*) exit 0 ;; esac
done
echo "4 looks, findings in $output"
