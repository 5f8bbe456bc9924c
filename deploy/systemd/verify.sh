#!/bin/sh
# Checks the unit as systemd reads it, and how exposed it is. Needs no running systemd.
set -eu

usage() { echo "usage: verify.sh [LIMIT]   (exposure, as systemd-analyze security counts it; default 2.0)"; }
[ "${1:-}" != -h ] || { usage && exit 0; }
limit=${1:-2.0}
unit=$(cd "$(dirname "$0")" && pwd)/nightshift.service
command -v systemd-analyze >/dev/null || { echo "verify.sh: systemd-analyze is not installed" >&2 && exit 69; }

# verify looks for the programs: stand-ins where they are not installed.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
sed "s|/usr/local/bin/nightshift[a-z-]*|$scratch/program|g" "$unit" >"$scratch/nightshift.service"
printf '#!/bin/sh\n' >"$scratch/program"
chmod +x "$scratch/program"
systemd-analyze verify --man=no "$scratch/nightshift.service"
exposure=$(systemd-analyze security --offline=yes --no-pager "$scratch/nightshift.service" | sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\).*/\1/p')
echo "exposure $exposure, limit $limit"
awk -v e="$exposure" -v l="$limit" 'BEGIN { exit !(e != "" && e + 0 <= l + 0) }'
