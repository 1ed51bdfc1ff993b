#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Each header compiles alone, with gcc and with clang. Usage: scripts/check_headers.sh
set -u
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1

flags=(-std=gnu2x -fsyntax-only -Wall -Wextra -Wpedantic -Werror -D_GNU_SOURCE -march=native -I.)
for flag in $(pkg-config --cflags libdpdk libcyaml); do
	case $flag in
	-I*) flags+=(-isystem "${flag#-I}") ;;
	-march=*) ;; # Debian's says corei7; ours stands above
	*) flags+=("$flag") ;;
	esac
done

failed=0
count=0
headers=$(find base traces reframer conntrack chain gpu_offload pipeline bench tests -name "*.h" | sort)
for header in $headers; do
	for compiler in gcc clang; do
		extra=()
		[ "$compiler" = clang ] && extra=(-Wno-gnu-zero-variadic-macro-arguments)
		if ! printf '#include "%s"\n' "$header" |
			"$compiler" "${flags[@]}" "${extra[@]}" -x c -; then
			echo "$header does not compile alone with $compiler"
			failed=1
		fi
		count=$((count + 1))
	done
done
[ "$count" -gt 0 ] || { echo "no headers found"; exit 1; }
exit "$failed"
