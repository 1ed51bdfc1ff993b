# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Sourced by ./check and ./quickstart: Debian packages, installed only when they are missing.

packages_build=(gcc pkg-config meson ninja-build git libdpdk-dev libpcap-dev zlib1g-dev
	libzstd-dev libssl-dev libjansson-dev libcyaml-dev libyaml-dev libjemalloc-dev
	libck-dev liburcu-dev)
packages_report=(python3 python3-matplotlib python3-jinja2)
packages_test=(libcmocka-dev g++ clang clang-format llvm libclang-rt-14-dev valgrind iproute2
	tcpdump tshark nftables conntrack spin python3-onnx python3-sklearn)

# Those of the arguments that are not installed, one a line.
packages_missing()
{
	local package status
	for package in "$@"; do
		status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)
		[ "$status" = installed ] || printf '%s\n' "$package"
	done
}

# Install what is missing; silent when nothing is. Fails with one line when it cannot.
packages_ensure()
{
	local missing runner=()
	if ! command -v dpkg-query >/dev/null; then
		echo "not a Debian system: taking for granted that these are there: $*"
		return 0
	fi
	mapfile -t missing < <(packages_missing "$@")
	[ "${#missing[@]}" -eq 0 ] && return 0
	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null; then
			echo "missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2
			return 1
		fi
		runner=(sudo)
	fi
	echo "installing: ${missing[*]}"
	if ! packages_apt update || ! packages_apt install -y --no-install-recommends "${missing[@]}"
	then
		echo "apt-get could not install: ${missing[*]}" >&2
		return 1
	fi
}

# Runs apt-get; shows its output only when it fails.
packages_apt()
{
	local log
	log=$(mktemp) || return 1
	if ! "${runner[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" \
		</dev/null >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}
