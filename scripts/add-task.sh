#!/bin/sh
# Adds a task with the stock sqlite3 shell alone and prints its id.
#
# The values never become SQL text: each goes through a file that sqlite3 reads
# itself, so quotes, newlines, $, backticks and emoji arrive as they are.
set -eu

usage() {
  cat <<'USAGE'
usage: add-task.sh [-d DATABASE] [-p PRIORITY] [-t TIME] [-k KEY] [-i ID] [-r MAX_RETRY] [-H] TYPE [PAYLOAD | @FILE | -]

Adds a task of TYPE and prints its id. PAYLOAD is JSON ({} when left out), @FILE
reads it from a file, - from stdin.

  -d DATABASE   default: ${NIGHTSHIFT_DATA:-data}/nightshift.db
  -p PRIORITY   smaller runs first (100)
  -t TIME       when, in UTC: 2026-12-01 16:04, 2026-12-01T16:04:05+08:00 (now)
  -k KEY        unique key: at most one unfinished task bears it
  -i ID         the task's id (made by the database)
  -r MAX_RETRY  retries after the first attempt (5)
  -H            hold it: the task waits PAUSED until it is resumed

Exit status: 0 added, 64 usage, 65 refused by the database, 66 no such file,
69 no sqlite3, 75 the database was locked for 30 s, 77 not the database's owner.
Example: add-task.sh clean_csv '{"input":"orders.csv"}'
USAGE
}

die() {
  status=$1
  shift
  printf 'add-task.sh: %s\n' "$*" >&2
  exit "$status"
}

integer() {
  case $2 in
  '' | - | *[!0-9-]* | ?*-*) die 64 "$1 takes a whole number, not '$2'" ;;
  esac
}

database=${NIGHTSHIFT_DATA:-data}/nightshift.db
priority='' max_retry='' held='' time='' key='' id=''
while getopts d:p:t:k:i:r:Hh option; do
  case $option in
  d) database=$OPTARG ;;
  p) integer -p "$OPTARG" && priority=$OPTARG ;;
  t) time=$OPTARG ;;
  k) key=$OPTARG ;;
  i) id=$OPTARG ;;
  r) integer -r "$OPTARG" && max_retry=$OPTARG ;;
  H) held=yes ;;
  h) usage && exit 0 ;;
  *) usage >&2 && exit 64 ;;
  esac
done
shift $((OPTIND - 1))
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  usage >&2
  exit 64
fi

command -v sqlite3 >/dev/null || die 69 "no sqlite3 in PATH; install the package sqlite3"
[ -f "$database" ] || die 66 "no database at $database; make it with: nightshift db init"
database=$(cd "$(dirname "$database")" && pwd)/$(basename "$database")
# Root would leave -wal and -shm files that the service's user can't write.
# shellcheck disable=SC2012
owner=$(ls -ld "$database" | awk '{print $3}')
if [ "$(id -u)" = 0 ] && [ "$owner" != root ] && [ "$owner" != 0 ]; then
  die 77 "the database belongs to $owner; run this as $owner: sudo -u $owner $0 …"
fi

umask 077
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case ${2-} in
'') printf '{}' >"$scratch/payload" ;;
-) cat >"$scratch/payload" ;;
@*)
  [ -f "${2#@}" ] || die 66 "no file ${2#@}"
  cat -- "${2#@}" >"$scratch/payload"
  ;;
*) printf %s "$2" >"$scratch/payload" ;;
esac

columns=task_type,payload values="CAST(readfile('type') AS TEXT),CAST(readfile('payload') AS TEXT)"
printf %s "$1" >"$scratch/type"
text() { # text COLUMN VALUE
  [ -n "$2" ] || return 0
  printf %s "$2" >"$scratch/$1"
  columns=$columns,$1 values="$values,CAST(readfile('$1') AS TEXT)"
}
text task_id "$id"
text unique_key "$key"
text next_run_time "$time"
[ -z "$priority" ] || { columns=$columns,priority values=$values,$priority; }
[ -z "$max_retry" ] || { columns=$columns,max_retry values=$values,$max_retry; }
[ -z "$held" ] || { columns=$columns,status values="$values,'PAUSED'"; }

# wal_autocheckpoint=0: SQLite before 3.51.3, which distributions still ship, can
# lose commits when two processes write and checkpoint at once. The workers
# checkpoint; this shell never does.
cd "$scratch"
status=0
sqlite3 -init /dev/null -batch -bail -noheader -list "$database" >id 2>message <<SQL || status=$?
.timeout 30000
.output /dev/null
PRAGMA wal_autocheckpoint=0;
.output stdout
INSERT INTO tasks($columns) VALUES($values) RETURNING task_id;
SQL
if [ "$status" != 0 ]; then
  message=$(sed -e 's/^.*near line [0-9]*: //' -e 's/ ([0-9]*)$//' message)
  case $message in
  *locked* | *busy*) die 75 "$message: another process has held it for 30 s" ;;
  *) die 65 "$message" ;;
  esac
fi
cat id
