/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Baseline without delay: put the packets of each flow of one burst next to one another, at the
 * place of the flow's first packet. What it gains is what any batch gives for nothing; a reframer
 * has to beat it.
 *
 * Groups by the 32-bit hash, so flows with one hash stay interleaved; order within a flow is kept
 * either way. Packets without a flow keep a place of their own. No state, no memory, no time.
 * Cost: constant per packet.
 */
#pragma once

#include "base/burst.h"

/* Rearrange burst->packets and mark the runs. */
void reframer_partition_burst(struct base_burst *burst);
