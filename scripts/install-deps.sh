#!/usr/bin/env bash
# Installs the programs that the tests start themselves, from Debian's packages,
# where they are missing. Does nothing, and needs no network, when all are there.
set -euo pipefail

# One line per program: what is looked for, and the package that brings it.
programs='
redis-server redis-server
nginx nginx
caddy caddy
haproxy haproxy
curl curl
prometheus prometheus
promtool prometheus
chromium chromium
'

missing=()
while read -r program package; do
	[[ -z $program ]] && continue
	# Debian puts servers into /usr/sbin, which is not in everyone's PATH.
	PATH=$PATH:/usr/sbin command -v "$program" >/dev/null && continue
	[[ " ${missing[*]} " == *" $package "* ]] || missing+=("$package")
done <<<"$programs"
[[ ${#missing[@]} -eq 0 ]] && exit 0

if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "the tests need these programs: ${missing[*]}" >&2
	echo "install them, for example: sudo apt-get install ${missing[*]}" >&2
	exit 1
fi

# Debian starts a server as soon as it is installed. A policy of 101 forbids it:
# the tests start their own, on free ports.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
