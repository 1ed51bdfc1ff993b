/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parameters of generated traffic, with where they come from:
 *
 * [AGH]   P. Jurkiewicz, G. Rzym, P. Borylo: Flow length and size distributions in campus Internet
 *         traffic (arXiv:1809.03486), with the fitted mixtures in piotrjurkiewicz/flow-models,
 *         data/agh_2015/mixtures: 4.03 billion flows of 30 days, 5-tuple, 15 s idle timeout.
 * [KTH]   The campus trace of the Reframer paper (NSDI 2022) and of HPSR 2021 (connection tracking
 *         on modern servers): mean sizes, packets per insertion, trains inside 16 to 128 us.
 * [CAIDA] Statistics of the Equinix monitors 2015 to 2019: sizes, connections per minute,
 *         inter-arrivals; HPSR 2021 and FAJITA for insertions and packets per flow.
 * [IMC10] T. Benson, A. Akella, D. Maltz: Network traffic characteristics of data centers in the
 *         wild; [IMC09] S. Kandula et al.: The nature of data center traffic.
 * [RFC]   RFC 6298 (first retransmission after 1 s), RFC 6928 (windows), RFC 7323 (timestamps).
 * [fit]   Chosen so that the statistics in docs/traces.md are met.
 * [own]   Chosen without a published number.
 */
#include "traces/generate.h"

/* ---- flow lengths in packets and sizes in IP bytes, [AGH] ----------------------------------- */

static const struct traces_law_term tcp_length[] = {
	{ 0.058043755, 0, 1 },
	{ 0.310524992, 0, 2 },
	{ 0.055097317, 0, 3 },
	{ 0.047754043, 0, 4 },
	{ 0.005882528, 0, 5 },
	{ 0.125291129, 0, 6 },
	{ 0.206543283, 0.512238156, 7.954331995 },
	{ 0.121895837, 0.750762734, 21.741573278 },
	{ 0.052507436, 1.108544227, 115.968893834 },
	{ 0.016459679, 1.993211896, 845.912178802 },
};

static const struct traces_law_term tcp_bytes[] = {
	{ 0.356215681, 0.390723041, 97.448626834 },
	{ 0.245961527, 0.809056273, 309.396443230 },
	{ 0.299368682, 1.076764668, 2126.654429072 },
	{ 0.080649981, 1.308259332, 25680.662146577 },
	{ 0.015038558, 1.351326892, 416680.996104106 },
	{ 0.002074711, 1.082474780, 5602171.637581343 },
	{ 0.000682628, 1.019113830, 53432349.309120440 },
	{ 8.2327125e-6, 1.190467744, 514468038.511359930 },
};

static const struct traces_law_term udp_length[] = {
	{ 0.582734081, 0, 1 },
	{ 0.187225867, 0, 2 },
	{ 0.091470524, 0, 3 },
	{ 0.056223519, 0, 4 },
	{ 0.029447543, 0.489467551, 9.674436487 },
	{ 0.040227838, 0.260264676, 4.883836308 },
	{ 0.004722553, 0.449429947, 29.410908581 },
	{ 0.005631264, 0.924717340, 67.481219177 },
	{ 0.001811827, 1.049808765, 594.492187819 },
	{ 0.000320770, 1.854772917, 7892.503625890 },
	{ 0.000156499, 1.126363680, 19824.000189567 },
	{ 2.7567170e-5, 0.401289708, 90369.610881543 },
	{ 1.4909236e-7, 0.573387778, 12757029.472787634 },
};

static const struct traces_law_term udp_bytes[] = {
	{ 0.636831818, 0.306058562, 119.194382164 },
	{ 0.202814330, 0.226373486, 319.179667513 },
	{ 0.125295013, 0.589294259, 630.202914424 },
	{ 0.027699291, 0.759590351, 3216.435833211 },
	{ 0.005931763, 1.141830144, 29016.641311395 },
	{ 0.001188811, 1.301077233, 650546.313664770 },
	{ 0.000185382, 1.708941299, 12790970.287309090 },
	{ 5.3490845e-5, 1.275848694, 22546730.947471276 },
	{ 9.9718083e-8, 0.524435673, 21229598019.066120 },
};

/* [AGH] gives means only, 12.3 packets a flow and 180 bytes a packet; the shape is [own]. */
static const struct traces_law_term other_length[] = {
	{ 0.55, 0, 1 },
	{ 0.24, 0, 4 },
	{ 0.15, 0.8, 12 },
	{ 0.06, 1.3, 60 },
};

static const struct traces_law_term other_bytes[] = {
	{ 0.6, 0.3, 84 },
	{ 0.4, 1.6, 500 },
};

/* ---- data centres: 80 % of flows below 10 kB and most bytes in few flows, [IMC10]; shape [own] */

static const struct traces_law_term rack_length[] = {
	{ 0.30, 0, 4 },
	{ 0.50, 0.7, 9 },
	{ 0.18, 1.3, 40 },
	{ 0.02, 1.6, 2000 },
};

static const struct traces_law_term rack_bytes[] = {
	{ 0.30, 0.6, 240 },
	{ 0.50, 0.8, 1800 },
	{ 0.18, 1.5, 16000 },
	{ 0.02, 1.7, 1800000 },
};

/* ---- scans: probes, their answers, and a rest of ordinary traffic, [own] --------------------- */

static const struct traces_law_term scan_length[] = {
	{ 0.55, 0, 1 },
	{ 0.28, 0, 2 },
	{ 0.12, 0, 6 },
	{ 0.05, 0.75, 16 },
};

static const struct traces_law_term scan_bytes[] = {
	{ 0.83, 0.3, 60 },
	{ 0.17, 1.5, 2500 },
};

#define MIXTURE(terms)                                                                             \
	{                                                                                          \
		(terms), BASE_ARRAY_COUNT(terms)                                                   \
	}

static const struct traces_gen_model models[] = {
	[TRACES_PRESET_CAMPUS] = {
		.name = "campus",
		.classes = {
			[TRACES_GEN_TCP] = {
				.flow_share = 0.5385, /* [AGH] */
				.length = MIXTURE(tcp_length),
				.bytes = MIXTURE(tcp_bytes),
				.pace_ns = 30e6, /* 20 to 50 ms is usual; [fit] */
				.pace_sigma = 0.8,
				.arrival_cv = 1, /* [CAIDA] */
				.gaps = { { 0.12, 0.28, 1 }, { 0.24, 0.40, 0.5 },
					{ 0.31, 0.495, 0.001 } }, /* [fit] */
			},
			[TRACES_GEN_UDP] = {
				.flow_share = 0.4309, /* [AGH] */
				.length = MIXTURE(udp_length),
				.bytes = MIXTURE(udp_bytes),
				.pace_ns = 25e6,
				.pace_sigma = 0.8,
				.arrival_cv = 1.5, /* [CAIDA] */
				.gaps = { { 0.12, 0.28, 1 }, { 0.24, 0.40, 0.5 },
					{ 0.31, 0.495, 0.001 } },
			},
			[TRACES_GEN_OTHER] = {
				.flow_share = 0.0306, /* [AGH] */
				.length = MIXTURE(other_length),
				.bytes = MIXTURE(other_bytes),
				.pace_ns = 500e6,
				.pace_sigma = 0.5,
				.arrival_cv = 1.5,
				.gaps = { { 0, 0.05, 1 }, { 0, 0.2, 0.5 }, { 0.2, 0.5, 0 } },
			},
		},
		.length_max = 1 << 20, /* 0.0002 % of flows are longer, [AGH] */
		.frame_bytes = 980,    /* [KTH] 981 */
		.packets_per_insertion = 36.6, /* [KTH] 37 */
		.close_ns = 11000, .close_sigma = 1.2, /* [fit] to [KTH]'s trains */
		.round_sigma = 0.7,
		.pause_low_ns = 5.2e9, .pause_high_ns = 15e9, /* within [AGH]'s idle timeout */
		.window_packets = 64,
		.client_bits = 14, /* [AGH]: 12,000 people */
		.ip6_share = 0.15, /* [own] */
		.unanswered_share = 0.25, /* a sixth of all SYNs */
		.refused_share = 0.85,
		.stray_rst_share = 0.7,
		.fin_share = 0.75, .rst_share = 0.23,
		.retransmit_share = 0.005, .reorder_share = 0.002,
		.ack_share = 0.33,
		.timestamps_share = 0.7,
		.fragment_share = 0.01, .icmp_error_share = 0.03,
		.snaplen = 128,
		.link = BASE_LINK_ETHERNET,
	},
	/* One direction of a link, as its monitors record it: half of every connection is missing,
	 * and most flows are a probe, an answer to one, or a name looked up. */
	[TRACES_PRESET_BACKBONE] = {
		.name = "backbone",
		.classes = {
			[TRACES_GEN_TCP] = {
				.flow_share = 0.60, /* [CAIDA] 0.59 to 0.65 of connections */
				.length = MIXTURE(tcp_length),
				.short_share = 0.77, /* [fit] to 10,000 insertions per Gb */
				.bytes = MIXTURE(tcp_bytes),
				.pace_ns = 40e6,
				.pace_sigma = 0.8,
				.arrival_cv = 1, /* [CAIDA] median / mean 0.65, Poisson 0.69 */
				.gaps = { { 0.03, 0.25, 1 }, { 0.03, 0.5, 0.5 },
					{ 0.03, 0.74, 0.002 } }, /* [fit] */
			},
			[TRACES_GEN_UDP] = {
				.flow_share = 0.37,
				.length = MIXTURE(udp_length),
				.short_share = 0.75,
				.bytes = MIXTURE(udp_bytes),
				.pace_ns = 40e6,
				.pace_sigma = 0.8,
				.arrival_cv = 1.6, /* [CAIDA] 1.3 to 1.9 */
				.gaps = { { 0.03, 0.25, 1 }, { 0.03, 0.5, 0.5 },
					{ 0.03, 0.74, 0.002 } },
			},
			[TRACES_GEN_OTHER] = {
				.flow_share = 0.03,
				.length = MIXTURE(other_length),
				.bytes = MIXTURE(other_bytes),
				.pace_ns = 500e6,
				.pace_sigma = 0.5,
				.arrival_cv = 1.6,
				.gaps = { { 0, 0.05, 1 }, { 0, 0.2, 0.5 }, { 0, 0.6, 0 } },
			},
		},
		.length_max = 1 << 20,
		.frame_bytes = 951,            /* [CAIDA] at HPSR 2021 */
		.packets_per_insertion = 13.2, /* [CAIDA] 14.2 at HPSR 2021 */
		.close_ns = 25000, .close_sigma = 1.4,
		.round_sigma = 0.7,
		.pause_low_ns = 5.2e9, .pause_high_ns = 15e9,
		.window_packets = 64,
		.one_way = true,
		.client_bits = 22,
		.ip6_share = 0.05, /* [own] */
		.scan_share = 0.6,
		.unanswered_share = 0.4,
		.refused_share = 0.3,
		.stray_rst_share = 0.7, /* answers to probes, from the other side */
		.fin_share = 0.75, .rst_share = 0.2,
		.retransmit_share = 0.005, .reorder_share = 0.002,
		.ack_share = 0.33,
		.timestamps_share = 0.7,
		.fragment_share = 0.05, /* [CAIDA] 1 % of packets, mostly UDP */
		.snaplen = 96,
		.link = BASE_LINK_RAW,
	},
	[TRACES_PRESET_SCAN] = {
		.name = "scan",
		.classes = {
			[TRACES_GEN_TCP] = {
				.flow_share = 0.62,
				.length = MIXTURE(scan_length),
				.bytes = MIXTURE(scan_bytes),
				.pace_ns = 50e6,
				.pace_sigma = 0.8,
				.arrival_cv = 1,
				.gaps = { { 0.02, 0.05, 0 }, { 0.05, 0.3, 0 }, { 0.05, 0.5, 0 } },
			},
			[TRACES_GEN_UDP] = {
				.flow_share = 0.33,
				.length = MIXTURE(scan_length),
				.bytes = MIXTURE(scan_bytes),
				.pace_ns = 50e6,
				.pace_sigma = 0.8,
				.arrival_cv = 1.5,
				.gaps = { { 0.02, 0.05, 0 }, { 0.05, 0.3, 0 }, { 0.05, 0.5, 0 } },
			},
			[TRACES_GEN_OTHER] = {
				.flow_share = 0.05,
				.length = MIXTURE(scan_length),
				.bytes = MIXTURE(scan_bytes),
				.pace_ns = 500e6,
				.pace_sigma = 0.5,
				.arrival_cv = 1.5,
				.gaps = { { 0, 0.05, 0 }, { 0, 0.2, 0 }, { 0, 0.5, 0 } },
			},
		},
		.length_max = 1 << 12,
		.frame_bytes = 150,
		.close_ns = 11000, .close_sigma = 1.2,
		.round_sigma = 0.7,
		.pause_low_ns = 5.2e9, .pause_high_ns = 15e9,
		.window_packets = 64,
		.client_bits = 16,
		.ip6_share = 0.02,
		.scan_share = 0.8,
		.unanswered_share = 0.7, /* few probes find anything */
		.refused_share = 0.9,
		.stray_rst_share = 0.5,
		.fin_share = 0.5, .rst_share = 0.4,
		.retransmit_share = 0.005, .reorder_share = 0.002,
		.ack_share = 0.33,
		.timestamps_share = 0.3,
		.icmp_error_share = 0.2,
		.snaplen = 128,
	},
	[TRACES_PRESET_DATACENTER] = {
		.name = "datacenter",
		.classes = {
			[TRACES_GEN_TCP] = {
				.flow_share = 0.90,
				.length = MIXTURE(rack_length),
				.bytes = MIXTURE(rack_bytes),
				.pace_ns = 250e3, /* round trips inside a data centre, [own] */
				.pace_sigma = 0.8,
				.arrival_cv = 2, /* on and off, [IMC10] */
				.gaps = { { 0.15, 0.30, 0 }, { 0.3, 0.4, 0 }, { 0.4, 0.45, 0 } },
			},
			[TRACES_GEN_UDP] = {
				.flow_share = 0.09,
				.length = MIXTURE(rack_length),
				.bytes = MIXTURE(rack_bytes),
				.pace_ns = 250e3,
				.pace_sigma = 0.8,
				.arrival_cv = 2,
				.gaps = { { 0.15, 0.30, 0 }, { 0.3, 0.4, 0 }, { 0.4, 0.45, 0 } },
			},
			[TRACES_GEN_OTHER] = {
				.flow_share = 0.01,
				.length = MIXTURE(other_length),
				.bytes = MIXTURE(other_bytes),
				.pace_ns = 10e6,
				.pace_sigma = 0.5,
				.arrival_cv = 1,
				.gaps = { { 0, 0.05, 0 }, { 0, 0.2, 0 }, { 0, 0.5, 0 } },
			},
		},
		.length_max = 1 << 20,
		.frame_bytes = 850, /* two modes, near 200 and 1400 bytes, [IMC10] */
		.close_ns = 3000, .close_sigma = 1,
		.round_sigma = 0.5,
		.pause_low_ns = 5.2e9, .pause_high_ns = 15e9,
		.window_packets = 64,
		.client_bits = 11,
		.unanswered_share = 0.05,
		.refused_share = 0.5,
		.stray_rst_share = 0.1,
		.fin_share = 0.9, .rst_share = 0.08,
		.retransmit_share = 0.001, .reorder_share = 0.0005,
		.ack_share = 0.33,
		.timestamps_share = 0.95,
		.snaplen = 128,
	},
};

const struct traces_gen_model *traces_gen_model_of(enum traces_preset preset)
{
	if ((unsigned int)preset >= BASE_ARRAY_COUNT(models) || models[preset].name == NULL)
		return NULL;
	return &models[preset];
}
