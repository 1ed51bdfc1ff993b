/* SPDX-License-Identifier: BSD-2-Clause */
/* stat67 and n3ic20: statistics of what was kept of a flow's packets, in double precision. */
#include "gpu_offload/flow_features_private.h"

#include <math.h>
#include <stdio.h>

/* One quantity of one direction, in order of arrival. */
struct sequence {
	uint32_t count;
	double values[GPU_OFFLOAD_DEPTH_MAX];
};

static inline void append(struct sequence *sequence, double value)
{
	sequence->values[sequence->count++] = value;
}

static double root_mean_square(const struct sequence *sequence, double mean)
{
	double squares = 0;
	for (uint32_t i = 0; i < sequence->count; i++) {
		double off = sequence->values[i] - mean;
		squares += off * off;
	}
	return sqrt(squares / sequence->count);
}

/* By insertion: at most GPU_OFFLOAD_DEPTH_MAX of them, often half sorted. */
static void sort(double *values, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		double value = values[i];
		uint32_t j = i;
		for (; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
}

/* Sorts the sequence. All 0 when there is nothing. scale: from the sequence's unit to out's. */
static void summarise(struct sequence *sequence, double scale, double out[SUMMARY_SIZE])
{
	uint32_t count = sequence->count;
	double sum = 0;
	if (count == 0)
		return;
	for (uint32_t i = 0; i < count; i++)
		sum += sequence->values[i];
	double mean = sum / count;
	double deviation = root_mean_square(sequence, mean);
	sort(sequence->values, count);
	const double *values = sequence->values;
	out[SUMMARY_SUM] = sum * scale;
	out[SUMMARY_MEAN] = mean * scale;
	out[SUMMARY_MIN] = values[0] * scale;
	out[SUMMARY_MAX] = values[count - 1] * scale;
	out[SUMMARY_MED] = (values[(count - 1) / 2] + values[count / 2]) / 2 * scale;
	out[SUMMARY_STD] = deviation * scale;
}

/* Times of TCP's handshake; 0: not seen. */
struct handshake {
	bool syn, syn_ack, ack;
	uint64_t syn_ns, syn_ack_ns, ack_ns;
};

static void follow_handshake(struct handshake *handshake, const struct stat_slot *slot)
{
	bool reply = (slot->kind & STAT_REPLY) != 0;
	unsigned int flags = slot->tcp_flags & (BASE_TCP_SYN | BASE_TCP_ACK);
	if (!handshake->syn && !reply && flags == BASE_TCP_SYN) {
		handshake->syn = true;
		handshake->syn_ns = slot->time_ns;
	} else if (handshake->syn && !handshake->syn_ack && reply &&
		   flags == (BASE_TCP_SYN | BASE_TCP_ACK)) {
		handshake->syn_ack = true;
		handshake->syn_ack_ns = slot->time_ns;
	} else if (handshake->syn_ack && !handshake->ack && !reply && flags == BASE_TCP_ACK) {
		handshake->ack = true;
		handshake->ack_ns = slot->time_ns;
	}
}

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

static void compute_handshake(const struct handshake *handshake, double *out)
{
	if (handshake->syn_ack)
		out[STAT_SYN_ACK] = seconds(handshake->syn_ns, handshake->syn_ack_ns);
	if (handshake->ack)
		out[STAT_ACK_DAT] = seconds(handshake->syn_ack_ns, handshake->ack_ns);
	if (handshake->ack)
		out[STAT_TCP_RTT] = seconds(handshake->syn_ns, handshake->syn_ack_ns) +
				    seconds(handshake->syn_ack_ns, handshake->ack_ns);
}

/* Each of eight bits to a byte of its own, bit 7 to the lowest. Up to 255 of them add up. */
static inline uint64_t spread(uint8_t bits)
{
	uint64_t each = bits * UINT64_C(0x0101010101010101) & UINT64_C(0x0102040810204080);
	return (each + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
}
static_assert(GPU_OFFLOAD_DEPTH_MAX <= UINT8_MAX, "flags are counted in bytes");

static void compute_loads(double *out)
{
	if (out[STAT_DUR] <= 0)
		return;
	out[STAT_S_LOAD] = out[stat_summary(STAT_BYTES, 0) + SUMMARY_SUM] * 8 / out[STAT_DUR];
	out[STAT_D_LOAD] = out[stat_summary(STAT_BYTES, 1) + SUMMARY_SUM] * 8 / out[STAT_DUR];
}

void stat_compute(const struct gpu_offload_flow *flow, const struct gpu_offload_identity *identity,
	double out[GPU_OFFLOAD_STAT_INPUTS])
{
	const struct stat_slot *slots = (const struct stat_slot *)(flow + 1);
	struct sequence sequences[STAT_QUANTITIES][2];
	struct handshake handshake = { 0 };
	uint64_t last_ns[2] = { 0 }, flags = 0;
	for (unsigned int i = 0; i < STAT_QUANTITIES; i++)
		sequences[i][0].count = sequences[i][1].count = 0;
	for (uint32_t i = 0; i < GPU_OFFLOAD_STAT_INPUTS; i++)
		out[i] = 0;
	for (uint32_t i = 0; i < flow->packets; i++) {
		const struct stat_slot *slot = &slots[i];
		unsigned int direction = (slot->kind & STAT_REPLY) != 0;
		if (out[STAT_S_PKT_CNT + direction]++ > 0) {
			bool later = slot->time_ns > last_ns[direction];
			append(&sequences[STAT_IAT][direction],
				later ? (double)(slot->time_ns - last_ns[direction]) : 0);
		}
		last_ns[direction] = slot->time_ns;
		append(&sequences[STAT_BYTES][direction], slot->bytes);
		append(&sequences[STAT_TTL][direction], slot->ttl);
		if ((slot->kind & STAT_TCP) == 0)
			continue;
		append(&sequences[STAT_WINSIZE][direction], slot->window);
		flags += spread(slot->tcp_flags);
		follow_handshake(&handshake, slot);
	}
	for (unsigned int i = 0; i < STAT_QUANTITIES; i++) {
		for (unsigned int direction = 0; direction < 2; direction++)
			summarise(&sequences[i][direction], i == STAT_IAT ? 1e-9 : 1,
				&out[stat_summary(i, direction)]);
	}
	for (unsigned int flag = 0; flag < 8; flag++)
		out[STAT_FLAGS + flag] = (double)(flags >> (8 * flag) & 0xff);
	out[STAT_DUR] = seconds(flow->first_ns, flow->last_ns);
	out[STAT_PROTO] = identity->key.protocol;
	out[STAT_S_PORT] = identity->key.port[identity->opener_is_1];
	out[STAT_D_PORT] = identity->key.port[!identity->opener_is_1];
	compute_loads(out);
	compute_handshake(&handshake, out);
}

#define SUMMARY(quantity, direction, which)                                                        \
	(STAT_SUMMARIES + ((quantity)*2 + (direction)) * SUMMARY_SIZE + (which))

const struct n3ic_field n3ic_fields[GPU_OFFLOAD_N3IC_INPUTS] = {
	{ "proto", 1, STAT_PROTO, 1 },
	{ "dport", 2, STAT_D_PORT, 1 },
	{ "dur_us", 3, STAT_DUR, 1e6f },
	{ "spkts", 1, STAT_S_PKT_CNT, 1 },
	{ "dpkts", 1, STAT_D_PKT_CNT, 1 },
	{ "sbytes", 3, SUMMARY(STAT_BYTES, 0, SUMMARY_SUM), 1 },
	{ "dbytes", 3, SUMMARY(STAT_BYTES, 1, SUMMARY_SUM), 1 },
	{ "sttl", 1, SUMMARY(STAT_TTL, 0, SUMMARY_MED), 1 },
	{ "dttl", 1, SUMMARY(STAT_TTL, 1, SUMMARY_MED), 1 },
	{ "sload_kbps", 3, STAT_S_LOAD, 1e-3f },
	{ "dload_kbps", 3, STAT_D_LOAD, 1e-3f },
	{ "swin", 2, SUMMARY(STAT_WINSIZE, 0, SUMMARY_MAX), 1 },
	{ "dwin", 2, SUMMARY(STAT_WINSIZE, 1, SUMMARY_MAX), 1 },
	{ "smean", 2, SUMMARY(STAT_BYTES, 0, SUMMARY_MEAN), 1 },
	{ "dmean", 2, SUMMARY(STAT_BYTES, 1, SUMMARY_MEAN), 1 },
	{ "sinpkt_us", 3, SUMMARY(STAT_IAT, 0, SUMMARY_MEAN), 1e6f },
	{ "dinpkt_us", 3, SUMMARY(STAT_IAT, 1, SUMMARY_MEAN), 1e6f },
	{ "tcprtt_us", 3, STAT_TCP_RTT, 1e6f },
	{ "synack_us", 3, STAT_SYN_ACK, 1e6f },
	{ "ackdat_us", 3, STAT_ACK_DAT, 1e6f },
};

uint32_t n3ic_quantise(const struct n3ic_field *field, const double stat[GPU_OFFLOAD_STAT_INPUTS])
{
	uint32_t most = (UINT32_C(1) << (8 * field->bytes)) - 1;
	double value = stat[field->column] * (double)field->scale;
	return value < most ? (uint32_t)value : most;
}

/* ---- names of columns ----------------------------------------------------------------------- */

static void name_statistic(uint32_t index, char *text)
{
	static const char *const first[STAT_SUMMARIES] = { "dur", "proto", "s_port", "d_port",
		"s_load", "d_load", "s_pkt_cnt", "d_pkt_cnt", "tcp_rtt", "syn_ack", "ack_dat" };
	static const char *const quantities[] = { "bytes", "iat", "winsize", "ttl" };
	static const char *const summaries[] = { "sum", "mean", "min", "max", "med", "std" };
	static const char *const flags[] = { "cwr", "ece", "urg", "ack", "psh", "rst", "syn",
		"fin" };
	if (index < STAT_SUMMARIES) {
		snprintf(text, GPU_OFFLOAD_COLUMN_SIZE, "%s", first[index]);
	} else if (index < STAT_FLAGS) {
		uint32_t at = index - STAT_SUMMARIES;
		snprintf(text, GPU_OFFLOAD_COLUMN_SIZE, "%c_%s_%s",
			at / SUMMARY_SIZE % 2 == 0 ? 's' : 'd', quantities[at / SUMMARY_SIZE / 2],
			summaries[at % SUMMARY_SIZE]);
	} else {
		snprintf(text, GPU_OFFLOAD_COLUMN_SIZE, "%s_cnt", flags[index - STAT_FLAGS]);
	}
}

void gpu_offload_column_name(
	enum gpu_offload_features features, uint32_t index, char text[GPU_OFFLOAD_COLUMN_SIZE])
{
	static const char *const channels[] = { "size", "direction", "gap" };
	BASE_ASSERT(index < gpu_offload_features_inputs(features));
	switch (features) {
	case GPU_OFFLOAD_SPI30:
		snprintf(text, GPU_OFFLOAD_COLUMN_SIZE, "%s_%u",
			channels[index / GPU_OFFLOAD_SPI_PACKETS], index % GPU_OFFLOAD_SPI_PACKETS);
		break;
	case GPU_OFFLOAD_STAT67:
		name_statistic(index, text);
		break;
	case GPU_OFFLOAD_N3IC20:
		snprintf(text, GPU_OFFLOAD_COLUMN_SIZE, "%s", n3ic_fields[index].name);
		break;
	case GPU_OFFLOAD_IMG1600:
	case GPU_OFFLOAD_FEATURES_COUNT:
		snprintf(text, GPU_OFFLOAD_COLUMN_SIZE, "byte_%u", index);
		break;
	}
}
