/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers with units as people write them: "128k", "1Mi", "64us", "1.5ms", "10Gb", "2x".
 *
 * Exact: a number that does not come out whole (0.5 packets, 0.1 ns) is refused, never rounded.
 * Nothing may stand before or behind the number. Pure; outputs are written on success only.
 * Returns 0, -EINVAL (not such a number) or -ERANGE (does not fit).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Decimal digits with at most one point, then k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (of
 * 1024). */
int units_parse_count(const char *text, uint64_t *count);

/* Needs a unit: ns, us, ms, s, m (min), h, d. Only 0 stands alone. */
int units_parse_time_ns(const char *text, uint64_t *time_ns);

/* Bits per second, needs a unit: b, kb, Mb, Gb, Tb; also written "10Gbit", "10Gb/s", "10Gbps". */
int units_parse_rate_bits(const char *text, uint64_t *bits_per_s);

/* A factor above 0: "1.5" or "1.5x". */
int units_parse_factor(const char *text, double *factor);
/* "0.05", "5%": 0 to 1. */
int units_parse_share(const char *text, double *share);

/* The shortest text that units_parse_time_ns reads as the same value: "64us". */
void units_format_time_ns(uint64_t time_ns, char *text, size_t text_size);

/* For people, three digits: "64.0 us", "1.23 s". */
void units_format_time_short(uint64_t time_ns, char *text, size_t text_size);

/* 1234567 -> "1,234,567". */
void units_format_grouped(uint64_t value, char *text, size_t text_size);

/* Copy for one line of a message: control and non-ASCII bytes become '?', long text ends in
 * "...". */
void units_quote(const char *text, char *quoted, size_t quoted_size);
