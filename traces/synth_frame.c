/* SPDX-License-Identifier: BSD-2-Clause */
/* One frame that is changed from packet to packet. */
#include "traces/synth.h"

#include "base/checksum.h"
#include "traces/generate.h"

#include <string.h>

enum {
	ETHERNET_BYTES = 14,
	IP4_BYTES = 20,
	IP6_BYTES = 40,
	UDP_BYTES = 8,
	TCP_BYTES = 20,
	FRAME_BYTES_MIN = 64,
	CLIENT_PORT_MIN = 1024,
	CLIENT_PORTS = 65536 - CLIENT_PORT_MIN,
	CLIENT_ADDRESS_BITS = 24,
	DNS_PORT = 53,
	HTTPS_PORT = 443,
};

static uint64_t mix64(uint64_t value)
{
	return base_rng_splitmix64(&value);
}

static void put16(uint8_t *bytes, size_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static void put32(uint8_t *bytes, uint32_t value)
{
	value = __builtin_bswap32(value);
	memcpy(bytes, &value, sizeof(value));
}

const char *traces_synth_frame_problem(uint32_t bytes, uint8_t protocol, bool ip6)
{
	if (protocol != BASE_PROTOCOL_UDP && protocol != BASE_PROTOCOL_TCP)
		return "protocol must be UDP or TCP";
	if (bytes < FRAME_BYTES_MIN || bytes > TRACES_SYNTH_FRAME_MAX)
		return "frame bytes must be between 64 and 65549";
	if (ip6 && protocol == BASE_PROTOCOL_TCP && bytes < ETHERNET_BYTES + IP6_BYTES + TCP_BYTES)
		return "TCP over IPv6 needs frames of at least 74 bytes";
	return NULL;
}

static void finish_ip4(uint8_t *ip)
{
	ip[10] = ip[11] = 0;
	uint16_t sum = base_checksum_finish(base_checksum_add(ip, IP4_BYTES, 0));
	memcpy(ip + 10, &sum, 2);
}

void traces_synth_frame_set_flow(struct traces_synth_frame *frame, uint64_t flow)
{
	uint32_t address = traces_scatter24(flow & 0xffffff, frame->salt);
	uint64_t mixed = mix64(frame->salt ^ address);
	/* Flows that share an address differ in `flow >> 24`, and so in the port. */
	uint32_t port = CLIENT_PORT_MIN +
			(uint32_t)((mixed + (flow >> CLIENT_ADDRESS_BITS)) % CLIENT_PORTS);
	uint64_t server = mix64(mixed + flow);
	uint8_t client[4] = { 10, (uint8_t)(address >> 16), (uint8_t)(address >> 8),
		(uint8_t)address };
	uint8_t *ip = frame->data + ETHERNET_BYTES;
	if (frame->ip6) {
		memcpy(ip + 20, client, 4);
		put16(ip + 38, server & 0xffff);
	} else {
		memcpy(ip + 12, client, 4);
		ip[17] = (uint8_t)(18 + (server >> 16 & 1));
		put16(ip + 18, server & 0xffff);
		finish_ip4(ip);
	}
	put16(ip + frame->ip_bytes, port);
}

void traces_synth_frame_set_ends(struct traces_synth_frame *frame, uint32_t client,
	uint16_t client_port, uint32_t server, uint16_t server_port)
{
	uint8_t *ip = frame->data + ETHERNET_BYTES;
	put32(ip + 12, client);
	put32(ip + 16, server);
	finish_ip4(ip);
	put16(ip + IP4_BYTES, client_port);
	put16(ip + IP4_BYTES + 2, server_port);
}

void traces_synth_frame_set_packet(
	struct traces_synth_frame *frame, uint32_t sequence, uint8_t tcp_flags)
{
	uint8_t *ip = frame->data + ETHERNET_BYTES;
	uint8_t *l4 = ip + frame->ip_bytes;
	size_t checksum_at = 6;
	if (frame->protocol == BASE_PROTOCOL_TCP) {
		checksum_at = 16;
		put32(l4 + 4, sequence);
		put32(l4 + 8, tcp_flags & BASE_TCP_ACK ? 1 : 0);
		l4[13] = tcp_flags;
	}
	memset(l4 + checksum_at, 0, 2);
	uint32_t l4_len = (uint32_t)(frame->l4_bytes + frame->payload_len);
	uint8_t pseudo[4] = { (uint8_t)(l4_len >> 8), (uint8_t)l4_len, 0, frame->protocol };
	uint32_t sum = base_checksum_add(pseudo, sizeof(pseudo), frame->payload_sum);
	sum = frame->ip6 ? base_checksum_add(ip + 8, 32, sum) : base_checksum_add(ip + 12, 8, sum);
	uint16_t checksum = base_checksum_finish(base_checksum_add(l4, frame->l4_bytes, sum));
	if (checksum == 0 && frame->protocol == BASE_PROTOCOL_UDP)
		checksum = 0xffff; /* 0 would say "none" (RFC 768) */
	memcpy(l4 + checksum_at, &checksum, 2);
}

static void put_ip(struct traces_synth_frame *frame, uint8_t *ip)
{
	static const uint8_t network6[] = { 0x20, 0x01, 0x0d, 0xb8 };
	size_t ip_len = frame->bytes - ETHERNET_BYTES;
	if (frame->ip6) {
		ip[0] = 0x60;
		put16(ip + 4, ip_len - IP6_BYTES);
		ip[6] = frame->protocol;
		ip[7] = 64;
		memcpy(ip + 8, network6, sizeof(network6));
		memcpy(ip + 24, network6, sizeof(network6));
		ip[29] = 1; /* 2001:db8:1:: */
	} else {
		ip[0] = 0x45;
		put16(ip + 2, ip_len);
		ip[6] = 0x40; /* don't fragment */
		ip[8] = 64;
		ip[9] = frame->protocol;
		ip[16] = 198;
	}
}

void traces_synth_frame_init(struct traces_synth_frame *frame, uint32_t bytes, uint8_t protocol,
	bool ip6, struct base_rng *rng)
{
	static const uint8_t addresses[] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1 };
	bool tcp = protocol == BASE_PROTOCOL_TCP;
	memset(frame, 0, sizeof(*frame));
	frame->salt = base_rng_u64(rng);
	frame->ip6 = ip6;
	frame->protocol = protocol;
	frame->bytes = bytes;
	frame->ip_bytes = ip6 ? IP6_BYTES : IP4_BYTES;
	frame->l4_bytes = tcp ? TCP_BYTES : UDP_BYTES;
	frame->payload_len = bytes - ETHERNET_BYTES - frame->ip_bytes - frame->l4_bytes;
	uint8_t *ip = frame->data + ETHERNET_BYTES, *l4 = ip + frame->ip_bytes;
	memcpy(frame->data, addresses, sizeof(addresses));
	put16(frame->data + 12, ip6 ? 0x86dd : 0x0800);
	put_ip(frame, ip);
	put16(l4 + 2, tcp ? HTTPS_PORT : DNS_PORT);
	if (tcp) {
		l4[12] = TCP_BYTES / 4 << 4;
		put16(l4 + 14, 65535);
	} else {
		put16(l4 + 4, frame->l4_bytes + frame->payload_len);
	}
	uint8_t *payload = l4 + frame->l4_bytes;
	for (size_t i = 0; i < frame->payload_len; i++)
		payload[i] = (uint8_t)base_rng_u64(rng);
	/* The headers are of even length: sums of parts add up. */
	frame->payload_sum = base_checksum_add(payload, frame->payload_len, 0);
}
