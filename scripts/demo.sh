#!/bin/sh
# Kills a task's worker three times on the way and compares the output with that
# of an undisturbed run. In a scratch directory; ends all that it has started.
set -eu

usage() {
  cat <<'USAGE'
usage: demo.sh [-k KILLS] [-r ROWS] [-d DIRECTORY]

Starts a supervisor with two workers on a scratch directory, adds the example
task clean_csv by the stock sqlite3 shell, kills its worker with SIGKILL on the
way, and compares the output byte for byte with that of an undisturbed run.

  -k KILLS      how often (3)
  -r ROWS       rows of the CSV file (100000)
  -d DIRECTORY  keep everything there (a scratch directory that is removed)

The last line is the verdict. Exit status: 0 ok, 1 FAILED, 64 usage, 69 something
is missing.
Example: demo.sh -k 5
USAGE
}

die() {
  status=$1
  shift
  printf 'demo.sh: %s\n' "$*" >&2
  exit "$status"
}

number() {
  case $2 in
  '' | *[!0-9]* | ????????*) die 64 "$1 takes a number, not '$2'" ;;
  esac
}

kills=3 rows=100000 directory=''
while getopts k:r:d:h option; do
  case $option in
  k) number -k "$OPTARG" && kills=$OPTARG ;;
  r) number -r "$OPTARG" && rows=$OPTARG ;;
  d) directory=$OPTARG ;;
  h) usage && exit 0 ;;
  *) usage >&2 && exit 64 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 0 ] || { usage >&2 && exit 64; }

root=$(cd "$(dirname "$0")/.." && pwd)
for program in "$root/bin/supervisor" "$root/bin/nightshift"; do
  [ -x "$program" ] || die 69 "no $program; run: make build"
done
for program in sqlite3 python3; do
  command -v "$program" >/dev/null || die 69 "no $program in PATH"
done

scratch='' supervisor=''
finish() {
  status=$?
  trap - EXIT INT TERM
  if [ -n "$supervisor" ]; then
    kill "$supervisor" 2>/dev/null || true
    wait "$supervisor" 2>/dev/null || true
  fi
  [ -z "$scratch" ] || rm -rf "$scratch"
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
if [ -n "$directory" ]; then
  mkdir -p "$directory"
  [ ! -e "$directory/data" ] || die 64 "$directory has been used; name an empty directory"
else
  scratch=$(mktemp -d)
  directory=$scratch
fi
cd "$directory"

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"; }
query() { sqlite3 -init /dev/null -batch -noheader -list -cmd '.timeout 5000' data/nightshift.db "$1"; }
until_query() { # until_query SQL WANTED: wait for at most a minute
  tries=0
  until [ "$(query "$1")" = "$2" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 1200 ] || die 1 "waited a minute for: $1"
    sleep 0.05
  done
}

cat >nightshift.yaml <<YAML
data_dir: ./data
tasks:
  clean_csv: {command: [python3, "$root/examples/clean_csv.py"], dir: .}
YAML
export NIGHTSHIFT_CONFIG="$directory/nightshift.yaml"
unset NIGHTSHIFT_DATA

"$root/bin/nightshift" db init
"$root/bin/supervisor" --workers 2 --run-dir data/run -- "$root/bin/worker" run >supervisor.log 2>&1 &
supervisor=$!
until_query "SELECT count(*) FROM worker_heartbeats" 2
say "a supervisor ($supervisor) and two workers run in $directory"

add() { # add ID: by the stock shell, as any program might
  query "INSERT INTO tasks(task_id, task_type, payload)
         VALUES ('$1', 'clean_csv', json_object('rows', $rows, 'seed', 7, 'output', '$1.out'))"
}

add undisturbed
say "task 'undisturbed': cleans a CSV file of $rows rows, a checkpoint each 1,000"
"$root/bin/nightshift" wait --quiet undisturbed || die 1 "the undisturbed run failed: $("$root/bin/nightshift" show undisturbed)"
say "done: $(wc -c <undisturbed.out) bytes"

add disturbed
say "task 'disturbed': the same, and now its worker is killed $kills times"
done_kills=0 last_pid=0 last_progress='' tries=0
while [ "$done_kills" -lt "$kills" ] && [ "$tries" -lt 1200 ]; do
  tries=$((tries + 1))
  # A worker that has not been killed yet, with a checkpoint later than the last
  # kill. The kills are spread over the first half of the task, which tells its
  # progress in percent: on a busy machine a look comes late, and the task goes on.
  percent=$(((done_kills + 1) * 50 / (kills + 1)))
  row=$(query "SELECT w.pid || ' ' || w.worker_id || ' ' || t.progress FROM tasks t JOIN worker_heartbeats w
               ON w.worker_id = t.executor_id
               WHERE t.task_id = 'disturbed' AND t.status = 'RUNNING' AND w.pid <> $last_pid AND t.progress <> '$last_progress'
                 AND CAST(substr(t.progress, instr(t.progress, ', ') + 2) AS INTEGER) >= $percent")
  if [ -z "$row" ]; then
    case $(query "SELECT status FROM tasks WHERE task_id = 'disturbed'") in
    SUCCESS | FAILED | DEAD) break ;;
    esac
    sleep 0.02
    continue
  fi
  pid=${row%% *}
  worker=${row#* }
  last_progress=${worker#* }
  worker=${worker%% *}
  last_pid=$pid
  if kill -9 "$pid" 2>/dev/null; then
    done_kills=$((done_kills + 1))
    say "kill $done_kills: worker $worker (pid $pid), the task was at $last_progress"
  fi
done
"$root/bin/nightshift" wait --quiet disturbed || true
status=$(query "SELECT status FROM tasks WHERE task_id = 'disturbed'")
say "the task ended $status"
echo
echo "its executions:"
sqlite3 -init /dev/null -batch -column -header -cmd '.timeout 5000' data/nightshift.db \
  "SELECT exec_id, executor_id AS executor, start_time, end_time, outcome FROM exec_history WHERE task_id = 'disturbed' ORDER BY exec_id"
echo

interrupted=$(query "SELECT count(*) FROM exec_history WHERE task_id = 'disturbed' AND outcome IN ('interrupted', 'lost')")
verdict=ok
[ "$status" = SUCCESS ] || verdict=FAILED
[ "$interrupted" = "$kills" ] && [ "$done_kills" = "$kills" ] || verdict=FAILED
if cmp -s undisturbed.out disturbed.out; then
  say "both outputs are the same, byte for byte"
else
  say "the outputs differ"
  verdict=FAILED
fi
echo "verdict: $verdict kills=$done_kills interruptions=$interrupted status=$status bytes=$(wc -c <disturbed.out | tr -d ' ')"
[ "$verdict" = ok ]
