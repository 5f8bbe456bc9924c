#!/bin/sh
# Appends the squares of 1 … 1000 to $OUT, a checkpoint each 100. A resume cuts
# the output back to what the last acknowledged checkpoint counted.
set -eu
out=${OUT:-$NIGHTSHIFT_TASK_DIR/squares}
n=$(printf %s "${NIGHTSHIFT_CHECKPOINT:-}" | sed -n 's/.*"n":\([0-9]*\).*/\1/p')
n=${n:-0}
touch "$out"
head -n "$n" "$out" >"$out.part" && mv "$out.part" "$out"
while [ "$n" -lt 1000 ]; do
  n=$((n + 1))
  echo $((n * n)) >>"$out"
  if [ $((n % 100)) = 0 ]; then
    sync "$out"
    printf '{"checkpoint":{"n":%d},"progress":"%d/1000"}\n' "$n" "$n" >&3
    read -r answer <&3
    case $answer in *'"stop"'*) exit 0 ;; esac
  fi
done
echo "$n squares"
