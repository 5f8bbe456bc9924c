#!/usr/bin/env bash
# The same in bash; the checkpoint is read with a pattern, the file cut by bytes.
set -eu
out=${OUT:-$NIGHTSHIFT_TASK_DIR/squares} n=0 bytes=0
if [[ ${NIGHTSHIFT_CHECKPOINT:-} =~ \"n\":([0-9]+),\"bytes\":([0-9]+) ]]; then
  n=${BASH_REMATCH[1]} bytes=${BASH_REMATCH[2]}
fi
touch "$out"
truncate -s "$bytes" "$out"
while ((n < 1000)); do
  n=$((n + 1))
  echo $((n * n)) >>"$out"
  if ((n % 100 == 0)); then
    sync "$out"
    bytes=$(stat -c %s "$out")
    printf '{"checkpoint":{"n":%d,"bytes":%d},"progress":"%d/1000"}\n' "$n" "$bytes" "$n" >&3
    read -r answer <&3
    [[ $answer != *'"stop"'* ]] || exit 0
  fi
done
echo "$n squares"
