#!/bin/sh
# Puts a backup in the database's place. The workers must be stopped.
set -eu

usage() {
  cat <<'USAGE'
usage: restore.sh [-d DATABASE] BACKUP

Checks BACKUP, moves the present database (with its -wal and -shm) into a
directory beside it, and puts BACKUP in its place. Refuses while a worker runs.
Prints where the old database went.

  -d DATABASE   default: ${NIGHTSHIFT_DATA:-data}/nightshift.db

Tasks that ran at the time of the backup run on from the checkpoint that it
holds; what was done after it is done again.

Exit status: 0 done, 64 usage, 65 BACKUP is not a sound database of ours,
66 no BACKUP, 69 no sqlite3, 73 can't write, 75 a worker runs.
Example: restore.sh /var/backups/nightshift-2026-12-01.db
USAGE
}

die() {
  status=$1
  shift
  printf 'restore.sh: %s\n' "$*" >&2
  exit "$status"
}

database=${NIGHTSHIFT_DATA:-data}/nightshift.db
while getopts d:h option; do
  case $option in
  d) database=$OPTARG ;;
  h) usage && exit 0 ;;
  *) usage >&2 && exit 64 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || { usage >&2 && exit 64; }

command -v sqlite3 >/dev/null || die 69 "no sqlite3 in PATH; install the package sqlite3"
[ -f "$1" ] || die 66 "no backup at $1"
backup=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
[ -d "$(dirname "$database")" ] || die 73 "no directory $(dirname "$database")"
directory=$(cd "$(dirname "$database")" && pwd)
database=$directory/$(basename "$database")
if [ -f "$backup-wal" ] && [ -s "$backup-wal" ]; then
  die 65 "$backup has a -wal beside it: it is a live database, not a backup; copy it with backup.sh"
fi

# A worker holds a lock on its file in run/ for as long as it or a child of it lives.
for lock in "$directory"/run/*.lock; do
  [ -f "$lock" ] || continue
  if command -v flock >/dev/null; then
    flock -n "$lock" true || die 75 "$(basename "$lock" .lock) still runs; stop the supervisor first"
  elif [ -d /proc/self/fd ]; then
    for fd in /proc/[0-9]*/fd/*; do
      [ "$(readlink "$fd" 2>/dev/null)" != "$lock" ] || die 75 "$(basename "$lock" .lock) still runs; stop the supervisor first"
    done
  fi
done

umask 077
scratch=$(mktemp -d "$directory/.restore.XXXXXX") || die 73 "can't write to $directory"
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp "$backup" "$scratch/copy.db" || die 73 "can't copy $backup"
sqlite3 -init /dev/null -batch -bail -noheader -list "$scratch/copy.db" >"$scratch/verdict" 2>&1 <<'SQL' || true
PRAGMA integrity_check;
SELECT 'no table tasks' WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'tasks');
SELECT 'no schema version' FROM pragma_user_version WHERE user_version = 0;
SQL
verdict=$(cat "$scratch/verdict")
[ "$verdict" = ok ] || die 65 "$backup is not a sound database of Nightshift: $verdict"
rm -f "$scratch/copy.db-wal" "$scratch/copy.db-shm"
sync "$scratch/copy.db" 2>/dev/null || sync

if [ -e "$database" ]; then
  old=$directory/before-restore-$(date -u +%Y%m%dT%H%M%SZ)
  mkdir "$old" || die 73 "can't make $old"
  # The -wal first: a database without its -wal is older, one beside a stranger's is broken.
  for tail in -wal -shm ''; do
    if [ -e "$database$tail" ]; then mv "$database$tail" "$old/"; fi
  done
  printf '%s\n' "$old"
fi
mv "$scratch/copy.db" "$database"
sync "$directory" 2>/dev/null || sync
