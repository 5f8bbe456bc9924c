#!/bin/sh
# Removes old finished tasks with the stock sqlite3 shell alone, a few at a time.
set -eu

usage() {
  cat <<'USAGE'
usage: prune.sh [-d DATABASE] [-k DAYS] [-n]

Removes tasks that ended more than DAYS days ago, with their executions and
events, 500 in a transaction, so that no worker waits. Kept are unfinished tasks,
tasks that another one is a rerun of, and a schedule's tasks of the last two days.
Prints how many tasks went. Workers do the same by themselves (retention in the
configuration); this is for a database that nobody runs on.

  -d DATABASE   default: ${NIGHTSHIFT_DATA:-data}/nightshift.db
  -k DAYS       keep what ended in the last DAYS days (30)
  -n            only say how many would go

The log files of executions are not touched: retention removes them by their age.
Exit status: 0 done, 64 usage, 66 no database, 69 no sqlite3, 74 an error of the
database, 75 it was locked.
Example: prune.sh -k 7
USAGE
}

die() {
  status=$1
  shift
  printf 'prune.sh: %s\n' "$*" >&2
  exit "$status"
}

database=${NIGHTSHIFT_DATA:-data}/nightshift.db
days=30 dry=''
while getopts d:k:nh option; do
  case $option in
  d) database=$OPTARG ;;
  k) days=$OPTARG ;;
  n) dry=yes ;;
  h) usage && exit 0 ;;
  *) usage >&2 && exit 64 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 0 ] || { usage >&2 && exit 64; }
case $days in
'' | *[!0-9]* | ??????*) die 64 "-k takes a number of days, not '$days'" ;;
esac

command -v sqlite3 >/dev/null || die 69 "no sqlite3 in PATH; install the package sqlite3"
[ -f "$database" ] || die 66 "no database at $database"
database=$(cd "$(dirname "$database")" && pwd)/$(basename "$database")

umask 077
scratch=$(mktemp -d)
message=$scratch/message
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

run() { # SQL on stdin
  sqlite3 -init /dev/null -batch -bail -noheader -list "$database" 2>"$message" && return
  case $(cat "$message") in
  *locked* | *busy*) die 75 "the database was locked for 30 s" ;;
  *) die 74 "$(cat "$message")" ;;
  esac
}

# A schedule's task is the guard against firing its occurrence twice, should the
# clock step back: it stays for two days whatever DAYS says.
old="status IN ('SUCCESS','FAILED','DEAD','CANCELLED')
  AND updated_at < strftime('%Y-%m-%dT%H:%M:%fZ','now','-$days days')
  AND (schedule IS NULL OR updated_at < strftime('%Y-%m-%dT%H:%M:%fZ','now','-2 days'))
  AND task_id NOT IN (SELECT rerun_of FROM tasks WHERE rerun_of IS NOT NULL)"

run <<SQL >"$scratch/count"
.timeout 30000
SELECT count(*) FROM tasks WHERE $old;
SQL
count=$(cat "$scratch/count")
if [ -n "$dry" ]; then
  printf '%s\n' "$count"
  exit 0
fi

# One session finds the rows once, and deletes them in many small transactions.
{
  cat <<SQL
.timeout 30000
.output /dev/null
PRAGMA wal_autocheckpoint=0;
.output stdout
CREATE TEMP TABLE going (n INTEGER PRIMARY KEY, task_id TEXT NOT NULL);
CREATE TEMP TABLE gone (n INTEGER NOT NULL);
INSERT INTO going(task_id) SELECT task_id FROM tasks WHERE $old;
SQL
  from=0
  while [ "$from" -lt "$count" ]; do
    chunk="(SELECT task_id FROM going WHERE n > $from AND n <= $((from + 500)))"
    cat <<SQL
BEGIN IMMEDIATE;
DELETE FROM tasks WHERE task_id IN $chunk;
INSERT INTO gone VALUES (changes());
DELETE FROM exec_history WHERE task_id IN $chunk;
DELETE FROM task_events WHERE task_id IN $chunk;
COMMIT;
SQL
    from=$((from + 500))
  done
  echo 'SELECT ifnull(sum(n), 0) FROM gone;'
} >"$scratch/sql"
run <"$scratch/sql"
