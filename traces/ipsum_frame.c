/* SPDX-License-Identifier: BSD-2-Clause */
/* Field values to the headers they describe, and back. IPv4 only, as the format. */
#include "traces/ipsum.h"

#include "base/checksum.h"
#include "traces/headers.h"

#include <errno.h>
#include <string.h>

enum {
	HEADER_BYTES_MAX = 60, /* of IPv4 and of TCP */
	TCP_BYTES = 20,
	UDP_BYTES = 8,
	ICMP_BYTES = 8,
	SCTP_BYTES = 12,
	PROTOCOL_DCCP = 33,
	PROTOCOL_UDPLITE = 136,
	TTL_DEFAULT = 64,
	IP_DONT_FRAGMENT = 0x4000,
	IP_MORE_FRAGMENTS = 0x2000,
	IP_OFFSET_MASK = 0x1fff,
	ICMP_CODE_SEQ_TYPES = 1 << 0 | 1 << 8 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 16 | 1 << 17,
};
static_assert(
	TRACES_IPSUM_FRAME_BYTES_MAX == 2 * HEADER_BYTES_MAX, "IPv4 and TCP at their longest");

static bool has_ports(unsigned int protocol)
{
	return protocol == BASE_PROTOCOL_TCP || protocol == BASE_PROTOCOL_UDP ||
	       protocol == BASE_PROTOCOL_SCTP || protocol == PROTOCOL_DCCP ||
	       protocol == PROTOCOL_UDPLITE;
}

/* ---- values to a frame ---- */

struct plan {
	const struct traces_ipsum_values *values;
	uint8_t *frame;
	uint8_t *l4;
	uint32_t ip_bytes; /* header */
	uint32_t l4_bytes; /* header; 0: none in this packet */
	uint32_t length;   /* of the datagram */
	uint16_t fragment; /* flags and offset */
	uint8_t protocol;
};

static uint64_t value_or(
	const struct traces_ipsum_values *values, enum traces_ipsum_field field, uint64_t otherwise)
{
	return traces_ipsum_has(values, field) ? values->value[field] : otherwise;
}

/* A header length in bytes: whole words, from its fixed part to what the length field holds. */
static uint32_t header_bytes(
	const struct traces_ipsum_values *values, enum traces_ipsum_field field, uint32_t fixed)
{
	uint64_t bytes = (value_or(values, field, fixed) + 3) & ~UINT64_C(3);
	return bytes < fixed              ? fixed
	       : bytes > HEADER_BYTES_MAX ? HEADER_BYTES_MAX
					  : (uint32_t)bytes;
}

static uint32_t l4_header_bytes(const struct plan *plan)
{
	if ((plan->fragment & IP_OFFSET_MASK) != 0)
		return 0;
	switch (plan->protocol) {
	case BASE_PROTOCOL_TCP:
		return header_bytes(plan->values, TRACES_IPSUM_TCP_OFF, TCP_BYTES);
	case BASE_PROTOCOL_ICMP:
		return ICMP_BYTES;
	case BASE_PROTOCOL_SCTP:
		return SCTP_BYTES;
	default:
		return has_ports(plan->protocol) ? UDP_BYTES : 0;
	}
}

static uint32_t datagram_length(const struct plan *plan)
{
	const struct traces_ipsum_values *values = plan->values;
	uint64_t length = plan->ip_bytes + plan->l4_bytes;
	if (traces_ipsum_has(values, TRACES_IPSUM_IP_LEN))
		length = values->value[TRACES_IPSUM_IP_LEN];
	else if (traces_ipsum_has(values, TRACES_IPSUM_PAYLOAD_LEN))
		length += values->value[TRACES_IPSUM_PAYLOAD_LEN];
	else if (traces_ipsum_has(values, TRACES_IPSUM_UDP_LEN) && plan->l4_bytes == UDP_BYTES)
		length = plan->ip_bytes + values->value[TRACES_IPSUM_UDP_LEN];
	else if (traces_ipsum_has(values, TRACES_IPSUM_WIRE_LEN))
		length = values->value[TRACES_IPSUM_WIRE_LEN];
	return length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
}

static void put_ip(const struct plan *plan)
{
	const struct traces_ipsum_values *values = plan->values;
	uint8_t *ip = plan->frame;
	uint64_t tos = value_or(values, TRACES_IPSUM_IP_DSCP, 0) << 2 |
		       value_or(values, TRACES_IPSUM_IP_ECN, 0);
	ip[0] = (uint8_t)(0x40 | plan->ip_bytes / 4);
	ip[1] = (uint8_t)value_or(values, TRACES_IPSUM_IP_TOS, tos);
	/* A length that the field cannot hold stands there as 0: "to the end". */
	traces_put_net16(ip + 2, plan->length > UINT16_MAX ? 0 : (uint16_t)plan->length);
	traces_put_net16(ip + 4, (uint16_t)value_or(values, TRACES_IPSUM_IP_ID, 0));
	traces_put_net16(ip + 6, plan->fragment);
	ip[8] = (uint8_t)value_or(values, TRACES_IPSUM_IP_TTL, TTL_DEFAULT);
	ip[9] = plan->protocol;
	traces_put_net32(ip + 12, (uint32_t)value_or(values, TRACES_IPSUM_IP_SRC, 0));
	traces_put_net32(ip + 16, (uint32_t)value_or(values, TRACES_IPSUM_IP_DST, 0));
	uint16_t sum = base_checksum_finish(base_checksum_add(ip, plan->ip_bytes, 0));
	memcpy(ip + 10, &sum, sizeof(sum));
	if (traces_ipsum_has(values, TRACES_IPSUM_IP_SUM))
		traces_put_net16(ip + 10, (uint16_t)values->value[TRACES_IPSUM_IP_SUM]);
}

static void put_tcp(const struct plan *plan)
{
	const struct traces_ipsum_values *values = plan->values;
	uint8_t *tcp = plan->l4;
	uint64_t flags = value_or(values, TRACES_IPSUM_TCP_FLAGS, BASE_TCP_ACK);
	traces_put_net32(tcp + 4, (uint32_t)value_or(values, TRACES_IPSUM_TCP_SEQ, 0));
	traces_put_net32(tcp + 8, (uint32_t)value_or(values, TRACES_IPSUM_TCP_ACK, 0));
	tcp[12] = (uint8_t)(plan->l4_bytes / 4 << 4 | (flags >> 8 & 1));
	tcp[13] = (uint8_t)flags;
	traces_put_net16(tcp + 14, (uint16_t)value_or(values, TRACES_IPSUM_TCP_WINDOW, 0));
	traces_put_net16(tcp + 18, (uint16_t)value_or(values, TRACES_IPSUM_TCP_URP, 0));
}

static void put_icmp(const struct plan *plan)
{
	const struct traces_ipsum_values *values = plan->values;
	plan->l4[0] = (uint8_t)value_or(values, TRACES_IPSUM_ICMP_TYPE, 0);
	plan->l4[1] = (uint8_t)value_or(values, TRACES_IPSUM_ICMP_CODE, 0);
	traces_put_net16(plan->l4 + 4, (uint16_t)value_or(values, TRACES_IPSUM_ICMP_FLOWID, 0));
	traces_put_net16(plan->l4 + 6, (uint16_t)value_or(values, TRACES_IPSUM_ICMP_SEQ, 0));
}

static void put_l4(const struct plan *plan)
{
	const struct traces_ipsum_values *values = plan->values;
	uint32_t length = plan->length - plan->ip_bytes;
	if (has_ports(plan->protocol)) {
		traces_put_net16(plan->l4, (uint16_t)value_or(values, TRACES_IPSUM_SPORT, 0));
		traces_put_net16(plan->l4 + 2, (uint16_t)value_or(values, TRACES_IPSUM_DPORT, 0));
	}
	if (plan->protocol == BASE_PROTOCOL_TCP)
		put_tcp(plan);
	else if (plan->protocol == BASE_PROTOCOL_ICMP)
		put_icmp(plan);
	else if (plan->protocol == BASE_PROTOCOL_UDP)
		traces_put_net16(plan->l4 + 4, (uint16_t)value_or(values, TRACES_IPSUM_UDP_LEN,
						       length > UINT16_MAX ? 0 : length));
}

/* Valid for the payload of zeros that a reader of a cut packet may assume; zeros add nothing. */
static void put_l4_checksum(const struct plan *plan)
{
	uint32_t offset = plan->protocol == BASE_PROTOCOL_TCP   ? 16
			  : plan->protocol == BASE_PROTOCOL_UDP ? 6
								: 2;
	bool known = plan->protocol == BASE_PROTOCOL_TCP || plan->protocol == BASE_PROTOCOL_UDP ||
		     plan->protocol == BASE_PROTOCOL_ICMP;
	if (!known || plan->l4_bytes == 0 || (plan->fragment & IP_MORE_FRAGMENTS) != 0)
		return;
	uint32_t sum = base_checksum_add(plan->l4, plan->l4_bytes, 0);
	if (plan->protocol != BASE_PROTOCOL_ICMP) {
		uint8_t pseudo[12] = { [9] = plan->protocol };
		memcpy(pseudo, plan->frame + 12, 8);
		traces_put_net16(pseudo + 10, (uint16_t)(plan->length - plan->ip_bytes));
		sum = base_checksum_add(pseudo, sizeof(pseudo), sum);
	}
	uint16_t checksum = base_checksum_finish(sum);
	if (checksum == 0 && plan->protocol == BASE_PROTOCOL_UDP)
		checksum = UINT16_MAX; /* zero says that there is none */
	memcpy(plan->l4 + offset, &checksum, sizeof(checksum));
}

int traces_ipsum_to_frame(const struct traces_ipsum_values *values, uint8_t *frame,
	struct traces_record *record, const char **reason)
{
	struct plan plan = { .values = values, .frame = frame };
	uint64_t fragment = value_or(values, TRACES_IPSUM_IP_FRAG, 0);
	plan.fragment = (uint16_t)value_or(values, TRACES_IPSUM_IP_FRAGOFF, fragment);
	plan.protocol = (uint8_t)value_or(values, TRACES_IPSUM_IP_PROTO, BASE_PROTOCOL_TCP);
	plan.ip_bytes = header_bytes(values, TRACES_IPSUM_IP_HL, TRACES_IP4_BYTES);
	plan.l4 = frame + plan.ip_bytes;
	plan.l4_bytes = l4_header_bytes(&plan);
	plan.length = datagram_length(&plan);
	if (plan.length < plan.ip_bytes) {
		*reason = "the packet is shorter than its IP header";
		return -EINVAL;
	}
	memset(frame, 0, TRACES_IPSUM_FRAME_BYTES_MAX);
	put_ip(&plan);
	if (plan.l4_bytes > 0)
		put_l4(&plan);
	put_l4_checksum(&plan);
	uint32_t headers = plan.ip_bytes + plan.l4_bytes;
	record->cap_len = headers < plan.length ? headers : plan.length;
	record->wire_len = plan.length;
	return 0;
}

/* ---- a frame to values ---- */

struct found {
	struct traces_ipsum_values *values;
	const uint8_t *ip, *l4;
	uint32_t ip_bytes, ip_length;
	uint32_t l4_captured; /* 0 in later fragments */
};

static void take(const struct found *found, enum traces_ipsum_field field, uint64_t value)
{
	traces_ipsum_set(found->values, field, value);
}

static void take_times(const struct found *found, uint64_t time_ns)
{
	take(found, TRACES_IPSUM_TIMESTAMP, time_ns);
	take(found, TRACES_IPSUM_NTIMESTAMP, time_ns);
	take(found, TRACES_IPSUM_TS_SEC, time_ns / 1000000000);
	take(found, TRACES_IPSUM_TS_USEC, time_ns % 1000000000 / 1000);
	take(found, TRACES_IPSUM_TS_USEC1, time_ns / 1000);
}

static void take_ip(const struct found *found)
{
	const uint8_t *ip = found->ip;
	uint16_t fragment = traces_net16(ip + 6);
	bool later = (fragment & IP_OFFSET_MASK) != 0;
	take(found, TRACES_IPSUM_IP_SRC, traces_net32(ip + 12));
	take(found, TRACES_IPSUM_IP_DST, traces_net32(ip + 16));
	take(found, TRACES_IPSUM_IP_PROTO, ip[9]);
	take(found, TRACES_IPSUM_IP_LEN, found->ip_length);
	take(found, TRACES_IPSUM_IP_HL, found->ip_bytes);
	take(found, TRACES_IPSUM_IP_ID, traces_net16(ip + 4));
	take(found, TRACES_IPSUM_IP_TOS, ip[1]);
	take(found, TRACES_IPSUM_IP_DSCP, ip[1] >> 2);
	take(found, TRACES_IPSUM_IP_ECN, ip[1] & 3);
	take(found, TRACES_IPSUM_IP_TTL, ip[8]);
	take(found, TRACES_IPSUM_IP_SUM, traces_net16(ip + 10));
	take(found, TRACES_IPSUM_IP_FRAGOFF, fragment);
	take(found, TRACES_IPSUM_IP_FRAG,
		later                                 ? 'f'
		: (fragment & IP_MORE_FRAGMENTS) != 0 ? 'F'
		: (fragment & IP_DONT_FRAGMENT) != 0  ? '!'
						      : '.');
}

static void take_tcp(const struct found *found)
{
	const uint8_t *tcp = found->l4;
	if (found->l4_captured >= 8)
		take(found, TRACES_IPSUM_TCP_SEQ, traces_net32(tcp + 4));
	if (found->l4_captured >= 12)
		take(found, TRACES_IPSUM_TCP_ACK, traces_net32(tcp + 8));
	if (found->l4_captured >= 14) {
		take(found, TRACES_IPSUM_TCP_OFF, (uint64_t)(tcp[12] >> 4) * 4);
		take(found, TRACES_IPSUM_TCP_FLAGS, (uint64_t)(tcp[12] & 1) << 8 | tcp[13]);
	}
	if (found->l4_captured >= 16)
		take(found, TRACES_IPSUM_TCP_WINDOW, traces_net16(tcp + 14));
	if (found->l4_captured >= 20)
		take(found, TRACES_IPSUM_TCP_URP, traces_net16(tcp + 18));
}

static void take_icmp(const struct found *found)
{
	const uint8_t *icmp = found->l4;
	if (found->l4_captured < 2)
		return;
	take(found, TRACES_IPSUM_ICMP_TYPE, icmp[0]);
	take(found, TRACES_IPSUM_ICMP_CODE, icmp[1]);
	/* Identifier and sequence number: of queries only. */
	if (found->l4_captured < 8 || icmp[0] > 17 || (ICMP_CODE_SEQ_TYPES >> icmp[0] & 1) == 0)
		return;
	take(found, TRACES_IPSUM_ICMP_FLOWID, traces_net16(icmp + 4));
	take(found, TRACES_IPSUM_ICMP_SEQ, traces_net16(icmp + 6));
}

static void take_payload_length(const struct found *found)
{
	uint32_t headers = found->ip_bytes;
	uint8_t protocol = found->ip[9];
	if (found->l4_captured > 0 && protocol == BASE_PROTOCOL_TCP) {
		if (found->l4_captured < 13)
			return;
		headers += (uint32_t)(found->l4[12] >> 4) * 4;
	} else if (found->l4_captured > 0 && protocol == BASE_PROTOCOL_SCTP) {
		headers += SCTP_BYTES;
	} else if (found->l4_captured > 0 &&
		   (has_ports(protocol) || protocol == BASE_PROTOCOL_ICMP)) {
		headers += UDP_BYTES;
	}
	take(found, TRACES_IPSUM_PAYLOAD_LEN,
		found->ip_length > headers ? found->ip_length - headers : 0);
}

static void take_l4(const struct found *found)
{
	uint8_t protocol = found->ip[9];
	if (has_ports(protocol) && found->l4_captured >= 2)
		take(found, TRACES_IPSUM_SPORT, traces_net16(found->l4));
	if (has_ports(protocol) && found->l4_captured >= 4)
		take(found, TRACES_IPSUM_DPORT, traces_net16(found->l4 + 2));
	if (protocol == BASE_PROTOCOL_TCP)
		take_tcp(found);
	else if (protocol == BASE_PROTOCOL_ICMP)
		take_icmp(found);
	else if (protocol == BASE_PROTOCOL_UDP && found->l4_captured >= 6)
		take(found, TRACES_IPSUM_UDP_LEN, traces_net16(found->l4 + 4));
}

static uint64_t hardware_address(const uint8_t *bytes)
{
	return (uint64_t)traces_net16(bytes) << 32 | traces_net32(bytes + 2);
}

#define L4_FIELDS                                                                                  \
	(TRACES_IPSUM_BIT(TRACES_IPSUM_SPORT) | TRACES_IPSUM_BIT(TRACES_IPSUM_DPORT) |             \
		(TRACES_IPSUM_BIT(TRACES_IPSUM_PAYLOAD_LEN) -                                      \
			TRACES_IPSUM_BIT(TRACES_IPSUM_TCP_SEQ)))

bool traces_ipsum_from_frame(struct traces_ipsum_values *values, uint64_t wanted,
	const struct traces_record *record, const uint8_t *frame)
{
	struct traces_headers headers;
	traces_headers_find((enum base_link)record->link, frame, record->cap_len, &headers);
	if (headers.ip != 4)
		return false;
	values->present = 0;
	struct found found = { .values = values, .ip = frame + headers.network };
	uint32_t captured = record->cap_len - headers.network;
	found.ip_bytes = (found.ip[0] & 0xfu) * 4;
	found.ip_length = traces_net16(found.ip + 2);
	if (found.ip_length == 0) /* segmentation offload: to the end of the wire */
		found.ip_length =
			(record->wire_len < record->cap_len ? record->cap_len : record->wire_len) -
			headers.network;
	captured = captured < found.ip_length ? captured : found.ip_length;
	bool later = (traces_net16(found.ip + 6) & IP_OFFSET_MASK) != 0;
	if (found.ip_bytes >= TRACES_IP4_BYTES && captured > found.ip_bytes && !later) {
		found.l4 = found.ip + found.ip_bytes;
		found.l4_captured = captured - found.ip_bytes;
	}
	take_times(&found, record->time_ns);
	take_ip(&found);
	if ((wanted & L4_FIELDS) != 0 && found.l4_captured > 0)
		take_l4(&found);
	take_payload_length(&found);
	take(&found, TRACES_IPSUM_IP_CAPTURE_LEN, captured);
	take(&found, TRACES_IPSUM_WIRE_LEN, record->wire_len);
	take(&found, TRACES_IPSUM_COUNT, 1);
	if (record->link == BASE_LINK_ETHERNET) {
		take(&found, TRACES_IPSUM_ETH_DST, hardware_address(frame));
		take(&found, TRACES_IPSUM_ETH_SRC, hardware_address(frame + 6));
	}
	return true;
}
