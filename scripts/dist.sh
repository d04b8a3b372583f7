#!/usr/bin/env bash
# Builds what is released into dist/: one static binary for each system, their
# checksums and what they are made of (CycloneDX). The same sources, version and Go
# give the same bytes on any machine.
#
#   DIST     the folder to write; what was in it is removed (default dist)
#   TARGETS  systems as GOOS/GOARCH, separated by spaces
#   VERSION  what `caudal version` says (default from git)
#   SBOM     off leaves out the bills of materials
set -euo pipefail
cd "$(dirname "$0")/.."

dist=${DIST:-dist}
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}

# Only what this script has made is removed.
mkdir -p "$dist"
rm -f "$dist"/caudal-* "$dist"/SHA256SUMS

for target in $targets; do
	export CGO_ENABLED=0 GOOS=${target%/*} GOARCH=${target#*/}
	name=caudal-$GOOS-$GOARCH
	file=$dist/$name
	[[ $GOOS != windows ]] || file+=.exe
	echo "$file"
	# What depends on the place or the checkout stays out: paths, the state of git, a
	# build id. The version says which commit it is.
	GOFLAGS='' go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$version" -o "$file" ./cmd/caudal
	if [[ ${SBOM:-} != off ]]; then
		# It reads the modules that the linker has put in, so that it cannot be of other
		# sources than the binary.
		tool=${tool:-$(unset GOOS GOARCH; go tool -n -modfile=tools/go.mod cyclonedx-gomod)}
		report=$("$tool" bin -json -std -licenses -noserial -notimestamp -version "$version" \
			-output "$dist/$name.cdx.json" "$file" 2>&1) || { echo "$report" >&2; exit 1; }
	fi
done
unset GOOS GOARCH CGO_ENABLED

(cd "$dist" && sha256sum caudal-* >SHA256SUMS)

# The binary of this machine must start where there is nothing: no settings, no
# environment, no libraries.
host=$dist/caudal-$(go env GOHOSTOS)-$(go env GOHOSTARCH)
[[ -x $host ]] || exit 0
host=$(realpath "$host")
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
cd "$clean"
fail() {
	echo "$host: $1 fails in a clean folder" >&2
	cat ./*.log >&2
	exit 1
}
env -i "$host" version || fail version
env -i "$host" init >init.log 2>&1 || fail init
env -i "$host" check rules >check.log 2>&1 || fail check
env -i "$host" serve --rules rules --http-listen "unix:$clean/ask" --grpc-listen off --admin-listen off >serve.log 2>&1 &
server=$!
for ((i = 0; i < 600; i++)); do
	[[ ! -S ask ]] || break
	kill -0 "$server" 2>/dev/null || fail serve
	sleep 0.1
done
[[ -S ask ]] || { kill "$server"; fail serve; }
kill "$server"
wait "$server" || fail "the end of serve"
echo "$host starts in a clean folder"
