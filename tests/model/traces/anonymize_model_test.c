/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random packets, plain, in fragments, quoted by ICMP errors and nested in tunnels. Each is built
 * twice: as it is, and from specs whose addresses were mapped by a plain implementation of
 * Crypto-PAn, one AES block per bit. The anonymised first one has to be the second one, checksums
 * included.
 */
#include "traces/headers.h"
#include "tests/unit/traces/test.h"

#include "base/checksum.h"
#include "base/rng.h"
#include "tests/support/packets.h"

#include <openssl/evp.h>
#include <stdlib.h>

enum { PACKETS = 6000, FRAME_MAX = 4096, NESTED_MAX = 3 };

enum kind {
	PLAIN,
	FRAGMENT,
	ICMP_ERROR,
	IP_IN_IP, /* both versions, by the inner one */
	GRE,
	GRE_CHECKSUM,
	GRE_BRIDGED,
	VXLAN,
	GENEVE,
	GTP,
	KINDS
};

struct plan {
	enum kind kind;
	struct packets_spec spec;
	uint16_t fragment_offset, fragment_size, quote_len;
	uint8_t extension[8]; /* hop-by-hop, padding only */
	struct plan *inner;
};

static uint32_t below(struct base_rng *rng, uint32_t bound)
{
	return (uint32_t)base_rng_below(rng, bound);
}

/* ---- Crypto-PAn, bit by bit ---- */

struct reference {
	EVP_CIPHER_CTX *aes;
	uint8_t pad[16];
};

static void reference_block(struct reference *reference, const uint8_t *in, uint8_t *out)
{
	int written;
	assert_int_equal(EVP_EncryptUpdate(reference->aes, out, &written, in, 16), 1);
}

static void reference_create(struct reference *reference, const uint8_t key[32])
{
	reference->aes = EVP_CIPHER_CTX_new();
	EVP_EncryptInit_ex(reference->aes, EVP_aes_128_ecb(), NULL, key, NULL);
	EVP_CIPHER_CTX_set_padding(reference->aes, 0);
	reference_block(reference, key + 16, reference->pad);
}

static void reference_map(struct reference *reference, uint8_t *address, unsigned int bits)
{
	uint8_t mapped[16];
	memcpy(mapped, address, bits / 8);
	for (unsigned int i = 0; i < bits; i++) {
		uint8_t block[16];
		memcpy(block, reference->pad, sizeof(block));
		for (unsigned int j = 0; j < i; j++) {
			uint8_t bit = (uint8_t)(0x80 >> j % 8);
			block[j / 8] = (uint8_t)((block[j / 8] & ~bit) | (address[j / 8] & bit));
		}
		reference_block(reference, block, block);
		mapped[i / 8] ^= (uint8_t)((block[0] >> 7) << (7 - i % 8));
	}
	memcpy(address, mapped, bits / 8);
}

/* ---- plans ---- */

static struct packets_spec make_spec(struct base_rng *rng, enum base_link link)
{
	static const uint8_t protocols[] = { 6, 6, 17, 17, 1, 132, 89 };
	static const uint8_t options[] = { 2, 4, 5, 0xb4, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8 };
	bool ip6 = below(rng, 3) == 0;
	uint8_t protocol = protocols[below(rng, BASE_ARRAY_COUNT(protocols))];
	if (ip6 && protocol == 1)
		protocol = 58;
	uint16_t ports[2] = { (uint16_t)(1024 + below(rng, 400)), (uint16_t)below(rng, 1000) };
	uint32_t source = (uint32_t)base_rng_u64(rng), destination = (uint32_t)base_rng_u64(rng);
	struct packets_spec spec =
		ip6 ? packets_ip6(protocol, source, ports[0], destination, ports[1])
		    : packets_ip4(protocol, source, ports[0], destination, ports[1]);
	spec.link = link;
	spec.payload_len = (uint16_t)below(rng, 200);
	spec.udp_no_checksum = below(rng, 5) == 0;
	spec.tcp_options = options;
	spec.tcp_options_len = below(rng, 2) ? sizeof(options) : 0;
	if (!ip6)
		spec.ip_options_len = (uint16_t)(4 * (below(rng, 4) == 0));
	if (link == BASE_LINK_ETHERNET && below(rng, 3) == 0) {
		spec.tags_count = 1 + below(rng, 3);
		for (unsigned int i = 0; i < spec.tags_count; i++)
			spec.tags[i] = (struct packets_tag){ 0x8100, (uint16_t)below(rng, 4096) };
		spec.pppoe = below(rng, 2);
	}
	spec.frame_min = link == BASE_LINK_ETHERNET && below(rng, 2) ? 64 : 0;
	return spec;
}

static bool is_tunnel(enum kind kind)
{
	return kind >= IP_IN_IP;
}

static struct plan *make_plan(struct base_rng *rng, enum base_link link, int nested)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	assert_non_null(plan);
	plan->kind = below(rng, 3) == 0 ? PLAIN : (enum kind)below(rng, KINDS);
	if (nested == NESTED_MAX)
		plan->kind = PLAIN;
	plan->spec = make_spec(rng, link);
	bool ip6 = plan->spec.family == 6;
	if (plan->kind == PLAIN && ip6 && below(rng, 3) == 0) {
		memcpy(plan->extension, (const uint8_t[]){ plan->spec.protocol, 0, 1, 4 }, 4);
		plan->spec.ip6_headers = plan->extension;
		plan->spec.ip6_headers_len = sizeof(plan->extension);
	}
	if (plan->kind == FRAGMENT) {
		plan->spec.payload_len = 150;
		plan->spec.ip_options_len = 0;
		/* Checksums are in the first one, as all but hand-made fragments have it. */
		plan->fragment_offset = below(rng, 2) ? 0 : (uint16_t)(8 * (3 + below(rng, 7)));
		plan->fragment_size = (uint16_t)(8 * (3 + below(rng, 5)));
	} else if (plan->kind == ICMP_ERROR) {
		plan->spec.protocol = ip6 ? BASE_PROTOCOL_ICMP6 : BASE_PROTOCOL_ICMP;
		plan->spec.icmp_type = ip6 ? 3 : 11;
		plan->spec.source_port = plan->spec.destination_port = 0; /* unused, length */
		plan->spec.ip_options_len = 0;
		/* Half an address or half a checksum could not be mapped. */
		plan->quote_len = (uint16_t)((ip6 ? 48 : 28) + 2 * below(rng, 50));
		plan->inner = calloc(1, sizeof(*plan));
		assert_non_null(plan->inner);
		do {
			plan->inner->spec = make_spec(rng, BASE_LINK_RAW);
		} while (plan->inner->spec.family != plan->spec.family);
	} else if (is_tunnel(plan->kind)) {
		bool ethernet = plan->kind == GRE_BRIDGED || plan->kind == VXLAN;
		plan->inner =
			make_plan(rng, ethernet ? BASE_LINK_ETHERNET : BASE_LINK_RAW, nested + 1);
	}
	return plan;
}

static void free_plan(struct plan *plan)
{
	if (plan != NULL)
		free_plan(plan->inner);
	free(plan);
}

/* ---- frames from plans ---- */

static struct packets_spec mapped_spec(struct reference *reference, const struct packets_spec *spec)
{
	struct packets_spec mapped = *spec;
	if (reference == NULL)
		return mapped;
	unsigned int bits = spec->family == 6 ? 128 : 32;
	reference_map(reference, mapped.source, bits);
	reference_map(reference, mapped.destination, bits);
	return mapped;
}

static size_t ip_bytes(const struct packets_spec *spec)
{
	return spec->family == 6 ? 40u + spec->ip6_headers_len : 20u + spec->ip_options_len;
}

static size_t transport_bytes(const struct packets_spec *spec)
{
	switch (spec->protocol) {
	case BASE_PROTOCOL_TCP:
		return 20u + spec->tcp_options_len;
	case BASE_PROTOCOL_SCTP:
		return 12;
	case BASE_PROTOCOL_UDP:
	case BASE_PROTOCOL_ICMP:
	case BASE_PROTOCOL_ICMP6:
		return 8;
	default:
		return 0;
	}
}

static size_t checksum_offset(uint8_t protocol)
{
	return protocol == BASE_PROTOCOL_TCP ? 16 : protocol == BASE_PROTOCOL_UDP ? 6 : 2;
}

/* A tunnel's header before `inner_len` bytes; protocol and port of the packet that carries it. */
static size_t tunnel_header(
	const struct plan *plan, uint8_t *header, struct packets_spec *spec, const uint8_t *inner)
{
	bool inner6 = plan->inner->spec.family == 6;
	uint16_t ethertype = inner6 ? TRACES_ETHERTYPE_IP6 : TRACES_ETHERTYPE_IP4;
	(void)inner;
	memset(header, 0, 16);
	spec->protocol = BASE_PROTOCOL_UDP;
	switch (plan->kind) {
	case IP_IN_IP:
		spec->protocol = inner6 ? BASE_PROTOCOL_IP6 : BASE_PROTOCOL_IPIP;
		return 0;
	case GRE:
	case GRE_BRIDGED:
	case GRE_CHECKSUM:
		spec->protocol = BASE_PROTOCOL_GRE;
		header[0] = plan->kind == GRE_CHECKSUM ? 0x80 : 0x20; /* a key, or a checksum */
		traces_put_net16(header + 2, plan->kind == GRE_BRIDGED ? 0x6558 : ethertype);
		return 8;
	case VXLAN:
		spec->destination_port = 4789;
		header[0] = 8;
		return 8;
	case GENEVE:
		spec->destination_port = 6081;
		traces_put_net16(header + 2, ethertype);
		return 8;
	default:
		spec->destination_port = 2152;
		header[0] = 0x30;
		header[1] = 255;
		return 8;
	}
}

static size_t build(
	const struct plan *plan, struct reference *reference, uint8_t *frame, size_t *keep);

static size_t build_tunnel(
	const struct plan *plan, struct reference *reference, uint8_t *frame, size_t *keep)
{
	uint8_t payload[FRAME_MAX];
	struct packets_spec spec = mapped_spec(reference, &plan->spec);
	size_t inner_keep = 0;
	size_t header_len = tunnel_header(plan, payload, &spec, NULL);
	size_t inner_len = build(plan->inner, reference, payload + header_len, &inner_keep);
	if (plan->kind == GRE_CHECKSUM) {
		uint16_t sum =
			base_checksum_finish(base_checksum_add(payload, header_len + inner_len, 0));
		memcpy(payload + 4, &sum, sizeof(sum));
	}
	spec.payload = payload;
	spec.payload_len = (uint16_t)(header_len + inner_len);
	size_t size = packets_build(frame, FRAME_MAX, &spec);
	*keep = packets_l3_offset(&spec) + ip_bytes(&spec) +
		(spec.protocol == BASE_PROTOCOL_UDP ? 8 : 0) + header_len + inner_keep;
	return size;
}

static size_t build_error(
	const struct plan *plan, struct reference *reference, uint8_t *frame, size_t *keep)
{
	struct packets_spec error = mapped_spec(reference, &plan->spec);
	struct packets_spec quoted = mapped_spec(reference, &plan->inner->spec);
	size_t size = packets_build_icmp_error(frame, FRAME_MAX, &error, &quoted, plan->quote_len);
	size_t headers = ip_bytes(&quoted) + transport_bytes(&quoted);
	size_t quote_at = packets_l3_offset(&error) + ip_bytes(&error) + 8;
	size_t quote_len = quoted.payload_len + headers;
	if (quote_len > plan->quote_len)
		quote_len = plan->quote_len;
	*keep = quote_at + (headers < quote_len ? headers : quote_len);
	return size;
}

/* reference: map the addresses and clear hardware ones; NULL: as it is. */
static size_t build(
	const struct plan *plan, struct reference *reference, uint8_t *frame, size_t *keep)
{
	struct packets_spec spec = mapped_spec(reference, &plan->spec);
	size_t size;
	if (is_tunnel(plan->kind)) {
		size = build_tunnel(plan, reference, frame, keep);
	} else if (plan->kind == ICMP_ERROR) {
		size = build_error(plan, reference, frame, keep);
	} else if (plan->kind == FRAGMENT) {
		size = packets_build_fragment(
			frame, FRAME_MAX, &spec, plan->fragment_offset, plan->fragment_size);
		*keep = packets_l3_offset(&spec) + (spec.family == 6 ? 48 : 20);
		size_t transport = transport_bytes(&spec);
		if (plan->fragment_offset == 0)
			*keep += transport < plan->fragment_size ? transport : plan->fragment_size;
	} else {
		size = packets_build(frame, FRAME_MAX, &spec);
		*keep = packets_l3_offset(&spec) + ip_bytes(&spec) + transport_bytes(&spec);
	}
	if (reference != NULL && spec.link == BASE_LINK_ETHERNET)
		memset(frame, 0, 12);
	return size;
}

/* ---- the test ---- */

static size_t anonymize(const struct traces_anonymize_options *options, enum base_link link,
	const uint8_t *frame, size_t cap_len, size_t wire_len, uint8_t *out)
{
	struct traces_trace *trace;
	struct traces_packets *packets, *anonymized;
	struct traces_anonymize_report report;
	struct traces_batch batch;
	struct traces_record record = {
		.cap_len = (uint32_t)cap_len,
		.wire_len = (uint32_t)wire_len,
		.link = (uint8_t)link,
	};
	/* Of exactly its size, so that a sanitizer sees what lies beyond. */
	uint8_t *exact = malloc(cap_len + 1);
	assert_non_null(exact);
	memcpy(exact, frame, cap_len);
	assert_int_equal(traces_trace_create(&trace), 0);
	assert_int_equal(traces_trace_append(trace, &record, exact), 0);
	assert_int_equal(traces_packets_of_trace(&packets, trace, 0), 0);
	assert_int_equal(traces_packets_anonymize(&anonymized, packets, options, &report), 0);
	assert_int_equal(traces_packets_next(anonymized, &batch), 0);
	assert_int_equal(batch.count, 1);
	size_t size = batch.records->cap_len;
	assert_true(size <= cap_len);
	assert_int_equal(batch.records->wire_len, wire_len);
	assert_int_equal(report.cut_bytes, cap_len - size);
	memcpy(out, batch.bytes + batch.records->offset, size);
	traces_packets_destroy(anonymized);
	traces_trace_destroy(trace);
	free(exact);
	return size;
}

static void describe(const struct plan *plan)
{
	for (; plan != NULL; plan = plan->inner)
		print_message("kind %d, IPv%d, protocol %d, link %d, %u tags%s\n", plan->kind,
			plan->spec.family, plan->spec.protocol, (int)plan->spec.link,
			plan->spec.tags_count, plan->spec.pppoe ? ", PPPoE" : "");
}

static void check_plan(const struct plan *plan, struct reference *reference,
	struct traces_anonymize_options *options, struct base_rng *rng, uint64_t seed)
{
	uint8_t frame[FRAME_MAX], expected[FRAME_MAX], got[FRAME_MAX];
	size_t keep, expected_keep;
	size_t size = build(plan, NULL, frame, &keep);
	assert_int_equal(build(plan, reference, expected, &expected_keep), size);
	assert_int_equal(keep, expected_keep);
	options->keep_payload = false;
	size_t got_size = anonymize(options, plan->spec.link, frame, size, size, got);
	if (got_size != keep || memcmp(got, expected, keep) != 0) {
		describe(plan);
		fail_msg("seed %llu: kind %d: %zu bytes kept, expected %zu, or they differ",
			(unsigned long long)seed, plan->kind, got_size, keep);
	}
	options->keep_payload = true;
	got_size = anonymize(options, plan->spec.link, frame, size, size, got);
	if (got_size < keep || memcmp(got, expected, got_size) != 0)
		fail_msg("seed %llu: kind %d: with the payload, %zu bytes differ",
			(unsigned long long)seed, plan->kind, got_size);
	if (plan->kind == PLAIN && transport_bytes(&plan->spec) > 0)
		assert_int_equal(got_size, packets_l3_offset(&plan->spec) + ip_bytes(&plan->spec) +
						   transport_bytes(&plan->spec) +
						   plan->spec.payload_len);
	/* Cut anywhere: what is still there is the same. Checksums of what carries others need all
	 * of it. */
	size_t cap_len = below(rng, (uint32_t)size + 1);
	options->keep_payload = false;
	got_size = anonymize(options, plan->spec.link, frame, cap_len, size, got);
	/* Nothing can be done about half a checksum. */
	size_t l4 = packets_l3_offset(&plan->spec) + ip_bytes(&plan->spec);
	bool half = cap_len == l4 + checksum_offset(plan->spec.protocol) + 1;
	if (plan->kind == PLAIN && memcmp(got, expected, got_size - (half && got_size > 0)) != 0)
		fail_msg("seed %llu: cut to %zu bytes, it differs", (unsigned long long)seed,
			cap_len);
}

static void anonymised_packets_are_those_of_mapped_specs(void **state)
{
	(void)state;
	static const enum base_link links[] = { BASE_LINK_ETHERNET, BASE_LINK_RAW, BASE_LINK_NULL,
		BASE_LINK_PPP, BASE_LINK_C_HDLC };
	struct traces_anonymize_options options = { .macs = TRACES_MACS_ZERO };
	struct reference reference;
	for (size_t i = 0; i < sizeof(options.key); i++)
		options.key[i] = (uint8_t)(i * 37 + 5);
	reference_create(&reference, options.key);
	for (uint64_t seed = 1; seed <= PACKETS; seed++) {
		struct base_rng rng;
		base_rng_seed(&rng, seed);
		struct plan *plan = make_plan(&rng, links[below(&rng, BASE_ARRAY_COUNT(links))], 0);
		check_plan(plan, &reference, &options, &rng, seed);
		free_plan(plan);
	}
	EVP_CIPHER_CTX_free(reference.aes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anonymised_packets_are_those_of_mapped_specs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
