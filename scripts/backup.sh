#!/bin/sh
# Copies the database while it is in use, with the stock sqlite3 shell alone.
set -eu

usage() {
  cat <<'USAGE'
usage: backup.sh [-d DATABASE] [-f] DESTINATION

Writes a consistent copy of the database to the file DESTINATION while workers
run, checks it, and only then gives it its name. Prints the path.

  -d DATABASE   default: ${NIGHTSHIFT_DATA:-data}/nightshift.db
  -f            replace DESTINATION if it exists

Exit status: 0 done, 64 usage, 66 no database, 69 no sqlite3, 73 can't create the
copy, 74 the copy is not sound, 75 the database was locked.
Example: backup.sh /var/backups/nightshift-$(date +%F).db
USAGE
}

die() {
  status=$1
  shift
  printf 'backup.sh: %s\n' "$*" >&2
  exit "$status"
}

database=${NIGHTSHIFT_DATA:-data}/nightshift.db
force=''
while getopts d:fh option; do
  case $option in
  d) database=$OPTARG ;;
  f) force=yes ;;
  h) usage && exit 0 ;;
  *) usage >&2 && exit 64 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || { usage >&2 && exit 64; }

command -v sqlite3 >/dev/null || die 69 "no sqlite3 in PATH; install the package sqlite3"
[ -f "$database" ] || die 66 "no database at $database"
database=$(cd "$(dirname "$database")" && pwd)/$(basename "$database")
directory=$(dirname "$1")
[ -d "$directory" ] || die 73 "no directory $directory"
destination=$(cd "$directory" && pwd)/$(basename "$1")
[ ! -d "$destination" ] || die 73 "$destination is a directory; name the file"
if [ -e "$destination" ] && [ -z "$force" ]; then
  die 73 "$destination exists; use -f to replace it"
fi

umask 077
# On the destination's file system, so that the last step is a rename.
scratch=$(mktemp -d "$(dirname "$destination")/.backup.XXXXXX") || die 73 "can't write to $(dirname "$destination")"
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$scratch"

run() { # run DATABASE, SQL on stdin
  sqlite3 -init /dev/null -batch -bail -noheader -list "$1" 2>message
}

status=0
run "$database" >/dev/null <<'SQL' || status=$?
.timeout 30000
PRAGMA wal_autocheckpoint=0;
VACUUM INTO 'copy.db';
SQL
if [ "$status" != 0 ]; then
  case $(cat message) in
  *locked* | *busy*) die 75 "the database was locked for 30 s" ;;
  *) die 73 "$(cat message)" ;;
  esac
fi
run copy.db >verdict <<'SQL' || mv message verdict
PRAGMA integrity_check;
SELECT 'no table tasks' WHERE NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'tasks');
SQL
verdict=$(cat verdict)
[ "$verdict" = ok ] || die 74 "the copy is not sound: $verdict"
sync copy.db 2>/dev/null || sync
mv -f copy.db "$destination"
printf '%s\n' "$destination"
