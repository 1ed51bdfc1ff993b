/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * base: the vocabulary that every folder shares. A file enters here only when two folders need it.
 *
 * packet.h     the per-packet record          burst.h      the unit between stages
 * flow_key.h   canonical key and hash         parse.h      bounds-checked header walk
 * drop.h       the one list of drop reasons   checksum.h   RFC 1071 / RFC 1624
 * remap.h      addresses for overlays         arena.h      start-time memory, per worker
 * rng.h        seeded random numbers          histogram.h  log-linear histogram
 * cycles.h     cycle counter (cost only)      mbuf.h       the DPDK edge (not included here)
 *
 * Threads: nothing here has mutable file-scope state; objects belong to one worker at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/burst.h"
#include "base/checksum.h"
#include "base/compiler.h"
#include "base/cycles.h"
#include "base/drop.h"
#include "base/flow_key.h"
#include "base/histogram.h"
#include "base/packet.h"
#include "base/parse.h"
#include "base/remap.h"
#include "base/rng.h"
