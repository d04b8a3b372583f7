#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time each: fuzz.sh [30s]
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}
targets=$(grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9_]+' . | grep -v '/testdata/' | sort || true)
if [[ -z $targets ]]; then
	echo "no fuzz targets found" >&2
	exit 1
fi
while IFS=: read -r file _ func; do
	name=${func#func }
	echo "== $name in $(dirname "$file"), $time"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$(dirname "$file")" </dev/null
done <<<"$targets"
