/* SPDX-License-Identifier: BSD-2-Clause */
/* Generated TCP connections as a receiver would check them. */
#include "tests/unit/traces/test.h"

#include "tests/support/generated.h"

#include <stdlib.h>

enum { FLOWS_MAX = 1 << 16, HEAD_BYTES = 8 };

struct connection {
	uint32_t next[2]; /* sequence numbers: client's, server's */
	uint32_t packets;
	bool client_reversed; /* the opener is endpoint 1 of the key */
	bool tcp, syn, syn_ack, data, fin[2], rst, ended_in_ack;
	uint32_t hole; /* after a segment that overtook: where it begins; 0: none */
	uint32_t last_sequence;
	uint8_t last_head[HEAD_BYTES];
};

struct tcp_world {
	struct connection connections[FLOWS_MAX];
	uint64_t data_packets, again, overtaken, strays;
	bool strict; /* nothing is lost and nothing overtakes */
};

struct segment {
	uint32_t sequence, acknowledgement, length;
	uint8_t flags;
	unsigned int side; /* 0: client */
	const uint8_t *payload;
};

static uint32_t get32(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static void check_data(
	struct tcp_world *world, struct connection *connection, const struct segment *segment)
{
	uint32_t *next = &connection->next[segment->side];
	world->data_packets++;
	assert_false(connection->fin[segment->side]);
	if (segment->sequence == *next) {
		*next += segment->length;
		if (connection->hole != 0) {
			/* The one that was overtaken: both have come now. */
			assert_int_equal(*next, connection->hole);
			*next += segment->length;
			connection->hole = 0;
		}
	} else if ((int32_t)(segment->sequence - *next) > 0) {
		/* It overtook the one before it, which is as long. */
		assert_int_equal(segment->sequence, *next + segment->length);
		world->overtaken++;
		connection->hole = segment->sequence;
		connection->last_sequence = segment->sequence;
		return;
	} else {
		/* The last one again: the same bytes. */
		assert_int_equal(segment->sequence, connection->last_sequence);
		assert_memory_equal(segment->payload, connection->last_head,
			segment->length < HEAD_BYTES ? segment->length : HEAD_BYTES);
		world->again++;
	}
	connection->last_sequence = segment->sequence;
	memcpy(connection->last_head, segment->payload,
		segment->length < HEAD_BYTES ? segment->length : HEAD_BYTES);
}

static void check_control(struct connection *connection, const struct segment *segment)
{
	uint32_t *next = &connection->next[segment->side];
	bool opens = (segment->flags & BASE_TCP_SYN) != 0;
	if (opens && segment->side == 0) {
		assert_true(connection->packets == 0 || connection->syn);
		assert_false(connection->syn_ack);
		assert_int_equal(segment->flags, BASE_TCP_SYN);
		connection->syn = true;
		*next = segment->sequence + 1;
		return;
	}
	if (opens) {
		assert_true(connection->syn && !connection->syn_ack);
		assert_int_equal(segment->flags, BASE_TCP_SYN | BASE_TCP_ACK);
		connection->syn_ack = true;
		*next = segment->sequence + 1;
	} else {
		if (connection->syn_ack) {
			assert_false(connection->rst);
			assert_int_equal(segment->sequence, *next);
		}
	}
	if ((segment->flags & BASE_TCP_FIN) != 0) {
		assert_false(connection->fin[segment->side]);
		connection->fin[segment->side] = true;
		*next += 1;
	}
	connection->rst |= (segment->flags & BASE_TCP_RST) != 0;
}

static void visit(void *context, const struct generated_packet *packet)
{
	struct tcp_world *world = context;
	struct connection *connection = &world->connections[packet->flow];
	const struct base_packet *parsed = packet->parsed;
	bool reversed = (parsed->flags & BASE_PACKET_REVERSED) != 0;
	if (parsed->protocol != BASE_PROTOCOL_TCP)
		return;
	const uint8_t *l4 = packet->frame + parsed->l4_offset;
	struct segment segment = {
		.sequence = get32(l4 + 4),
		.acknowledgement = get32(l4 + 8),
		.length = parsed->payload_len,
		.flags = parsed->tcp_flags,
		.payload = packet->frame + parsed->payload_offset,
	};
	if (packet->fresh) {
		connection->tcp = true;
		connection->client_reversed = reversed;
	}
	segment.side = reversed != connection->client_reversed;
	if (packet->fresh && (segment.flags & BASE_TCP_SYN) == 0)
		world->strays++;
	if (connection->syn_ack &&
		(segment.flags & (BASE_TCP_ACK | BASE_TCP_SYN)) == BASE_TCP_ACK && world->strict)
		assert_int_equal(segment.acknowledgement, connection->next[!segment.side]);
	if (connection->syn_ack && segment.length > 0)
		check_data(world, connection, &segment);
	else
		check_control(connection, &segment);
	connection->data |= segment.length > 0;
	connection->packets++;
	connection->ended_in_ack = segment.flags == BASE_TCP_ACK && segment.length == 0;
}

static struct tcp_world *run(struct traces_generate_options *options, uint64_t flows)
{
	struct tcp_world *world = calloc(1, sizeof(*world));
	world->strict = options->retransmit_share == 0 && options->reorder_share == 0;
	options->cold = true;
	options->flows = flows;
	options->snaplen = 256;
	struct generated_summary summary =
		generated_walk(generated_open(options), FLOWS_MAX, visit, world);
	assert_int_equal(summary.malformed, 0);
	assert_int_equal(summary.flows, flows);
	return world;
}

static void connections_open_count_and_close_as_tcp_does(void **state)
{
	(void)state;
	struct traces_generate_options options;
	traces_generate_options_defaults(&options);
	options.retransmit_share = options.reorder_share = 0;
	uint64_t flows = 3000, syns = 0, unanswered = 0, both_fins = 0, resets = 0, whole = 0;
	struct tcp_world *world = run(&options, flows);
	for (uint64_t i = 0; i < flows; i++) {
		const struct connection *connection = &world->connections[i];
		syns += connection->syn;
		unanswered += connection->syn && !connection->syn_ack && !connection->rst;
		/* A FIN is answered by one, and the last packet acknowledges it. */
		assert_int_equal(connection->fin[0], connection->fin[1]);
		if (connection->fin[0])
			assert_true(connection->ended_in_ack);
		if (connection->packets >= 6 && connection->tcp) {
			whole++;
			assert_true(connection->syn && connection->syn_ack);
			both_fins += connection->fin[0];
			resets += connection->rst;
		}
	}
	assert_int_equal(world->again, 0);
	assert_int_equal(world->overtaken, 0);
	assert_true(world->data_packets > 10000);
	assert_true(world->strays > 0);
	/* 5 to 40 % of SYNs have no answer; the close is by the model's shares. */
	assert_in_range(unanswered * 100 / syns, 5, 40);
	assert_in_range(both_fins * 100 / whole, 70, 80);
	assert_in_range(resets * 100 / whole, 15, 25);
	free(world);
}

static void lost_and_overtaken_segments_have_their_shares(void **state)
{
	(void)state;
	struct traces_generate_options options;
	traces_generate_options_defaults(&options);
	options.retransmit_share = 0.03;
	options.reorder_share = 0.02;
	struct tcp_world *world = run(&options, 2000);
	double data = (double)world->data_packets;
	assert_true(data > 20000);
	assert_true((double)world->again / data > 0.025 && (double)world->again / data < 0.035);
	assert_true(
		(double)world->overtaken / data > 0.016 && (double)world->overtaken / data < 0.024);
	free(world);
}

struct one_way {
	uint32_t next[FLOWS_MAX];
	uint8_t direction[FLOWS_MAX]; /* 0: no packet yet */
	uint64_t acknowledging, flows_with_fin;
};

static void visit_one_way(void *context, const struct generated_packet *packet)
{
	struct one_way *world = context;
	const struct base_packet *parsed = packet->parsed;
	uint8_t direction = parsed->flags & BASE_PACKET_REVERSED ? 2 : 1;
	/* Every packet of a flow goes the same way. */
	if (packet->fresh)
		world->direction[packet->flow] = direction;
	if (world->direction[packet->flow] != direction)
		print_error("protocol %d flags %x\n", parsed->protocol, parsed->flags);
	assert_int_equal(world->direction[packet->flow], direction);
	if (parsed->protocol != BASE_PROTOCOL_TCP)
		return;
	uint32_t sequence = get32(packet->frame + parsed->l4_offset + 4);
	bool counts = (parsed->tcp_flags & (BASE_TCP_SYN | BASE_TCP_FIN)) != 0;
	bool syn_again = (parsed->tcp_flags & BASE_TCP_SYN) != 0;
	if (!packet->fresh && !syn_again)
		assert_int_equal(sequence, world->next[packet->flow]);
	world->next[packet->flow] = sequence + parsed->payload_len + counts;
	world->acknowledging += parsed->payload_len == 0;
	world->flows_with_fin += (parsed->tcp_flags & BASE_TCP_FIN) != 0;
}

static void one_way_shows_one_side_of_each_connection(void **state)
{
	(void)state;
	struct traces_generate_options options;
	struct one_way *world = calloc(1, sizeof(*world));
	traces_generate_options_defaults(&options);
	options.ways = TRACES_WAYS_ONE;
	options.retransmit_share = options.reorder_share = 0;
	options.cold = true;
	options.flows = 2000;
	generated_walk(generated_open(&options), FLOWS_MAX, visit_one_way, world);
	assert_true(world->acknowledging > 2000);
	assert_true(world->flows_with_fin > 200);
	free(world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_open_count_and_close_as_tcp_does),
		cmocka_unit_test(lost_and_overtaken_segments_have_their_shares),
		cmocka_unit_test(one_way_shows_one_side_of_each_connection),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
