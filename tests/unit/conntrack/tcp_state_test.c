/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/packet.h"
#include "conntrack/tcp_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum {
	S = BASE_TCP_SYN,
	A = BASE_TCP_ACK,
	F = BASE_TCP_FIN | BASE_TCP_ACK,
	R = BASE_TCP_RST,
	SA = BASE_TCP_SYN | BASE_TCP_ACK,
	P = BASE_TCP_PSH | BASE_TCP_ACK,
};

/* One connection as the tracker keeps it. */
struct tcp {
	enum conntrack_state state;
	unsigned int bits;
	enum conntrack_tcp_verdict verdict;
};

static void send_with(struct tcp *tcp, bool reply, uint8_t flags, unsigned int more_bits)
{
	struct conntrack_tcp_step step =
		conntrack_tcp_step(tcp->state, reply, flags, tcp->bits | more_bits);
	if (step.state == CONNTRACK_STATE_TCP_SYN_SENT2)
		tcp->bits |= CONNTRACK_TCP_SIMULTANEOUS;
	if (step.state != tcp->state && (step.state == CONNTRACK_STATE_TCP_FIN_WAIT ||
						step.state == CONNTRACK_STATE_TCP_LAST_ACK)) {
		tcp->bits &= ~(unsigned int)CONNTRACK_TCP_CLOSER_REPLY;
		tcp->bits |= reply ? CONNTRACK_TCP_CLOSER_REPLY : 0;
	}
	tcp->verdict = step.verdict;
	tcp->state = step.state;
}

static void client(struct tcp *tcp, uint8_t flags)
{
	send_with(tcp, false, flags, CONNTRACK_TCP_PICKUP);
}

static void server(struct tcp *tcp, uint8_t flags)
{
	send_with(tcp, true, flags, CONNTRACK_TCP_PICKUP);
}

static struct tcp opened(void)
{
	struct tcp tcp = { 0 };
	client(&tcp, S);
	server(&tcp, SA);
	client(&tcp, A);
	assert_int_equal(tcp.state, CONNTRACK_STATE_TCP_ESTABLISHED);
	return tcp;
}

static void expect(const struct tcp *tcp, enum conntrack_state state, int verdict)
{
	assert_string_equal(conntrack_state_name(tcp->state), conntrack_state_name(state));
	assert_int_equal(tcp->verdict, verdict);
}

static void handshake_needs_the_openers_ack(void **unused)
{
	(void)unused;
	struct tcp tcp = { 0 };
	client(&tcp, S);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_SENT, CONNTRACK_TCP_ACCEPT);
	client(&tcp, S);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_SENT, CONNTRACK_TCP_IGNORE);
	server(&tcp, SA);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_RECV, CONNTRACK_TCP_ACCEPT);
	server(&tcp, SA);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_RECV, CONNTRACK_TCP_IGNORE);
	server(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_RECV, CONNTRACK_TCP_ACCEPT);
	client(&tcp, S);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_RECV, CONNTRACK_TCP_IGNORE);
	client(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_ESTABLISHED, CONNTRACK_TCP_ACCEPT);
}

static void close_by_client_and_by_server(void **unused)
{
	(void)unused;
	struct tcp tcp = opened();
	client(&tcp, F);
	expect(&tcp, CONNTRACK_STATE_TCP_FIN_WAIT, CONNTRACK_TCP_ACCEPT);
	server(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_CLOSE_WAIT, CONNTRACK_TCP_ACCEPT);
	server(&tcp, F);
	expect(&tcp, CONNTRACK_STATE_TCP_LAST_ACK, CONNTRACK_TCP_ACCEPT);
	client(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_TIME_WAIT, CONNTRACK_TCP_ACCEPT);

	tcp = opened();
	server(&tcp, F);
	expect(&tcp, CONNTRACK_STATE_TCP_FIN_WAIT, CONNTRACK_TCP_ACCEPT);
	client(&tcp, F);
	expect(&tcp, CONNTRACK_STATE_TCP_LAST_ACK, CONNTRACK_TCP_ACCEPT);
	server(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_TIME_WAIT, CONNTRACK_TCP_ACCEPT);
}

static void data_overtaken_by_a_fin_acknowledges_nothing(void **unused)
{
	(void)unused;
	struct tcp tcp = opened();
	client(&tcp, F);
	client(&tcp, P);
	client(&tcp, F);
	expect(&tcp, CONNTRACK_STATE_TCP_FIN_WAIT, CONNTRACK_TCP_ACCEPT);
	server(&tcp, F);
	server(&tcp, P);
	expect(&tcp, CONNTRACK_STATE_TCP_LAST_ACK, CONNTRACK_TCP_ACCEPT);
	client(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_TIME_WAIT, CONNTRACK_TCP_ACCEPT);
}

static void half_closed_side_keeps_receiving(void **unused)
{
	(void)unused;
	struct tcp tcp = opened();
	client(&tcp, F);
	for (int i = 0; i < 100; i++) {
		server(&tcp, P);
		client(&tcp, A);
		expect(&tcp, CONNTRACK_STATE_TCP_CLOSE_WAIT, CONNTRACK_TCP_ACCEPT);
	}
	server(&tcp, F);
	client(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_TIME_WAIT, CONNTRACK_TCP_ACCEPT);
}

static void simultaneous_open_is_established_by_either_side(void **unused)
{
	(void)unused;
	for (int first = 0; first < 2; first++) {
		struct tcp tcp = { 0 };
		client(&tcp, S);
		server(&tcp, S);
		expect(&tcp, CONNTRACK_STATE_TCP_SYN_SENT2, CONNTRACK_TCP_ACCEPT);
		send_with(&tcp, first != 0, SA, 0);
		expect(&tcp, CONNTRACK_STATE_TCP_SYN_RECV, CONNTRACK_TCP_ACCEPT);
		send_with(&tcp, first == 0, SA, 0);
		expect(&tcp, CONNTRACK_STATE_TCP_SYN_RECV, CONNTRACK_TCP_IGNORE);
		send_with(&tcp, first != 0, A, 0);
		expect(&tcp, CONNTRACK_STATE_TCP_ESTABLISHED, CONNTRACK_TCP_ACCEPT);
	}
}

static void rst_closes_from_every_state_and_opens_none(void **unused)
{
	(void)unused;
	for (int state = 1; state < CONNTRACK_TCP_STATES_COUNT; state++) {
		for (int reply = 0; reply < 2; reply++) {
			struct tcp tcp = { .state = (enum conntrack_state)state };
			send_with(&tcp, reply != 0, R, 0);
			expect(&tcp, CONNTRACK_STATE_TCP_CLOSE, CONNTRACK_TCP_ACCEPT);
		}
	}
	struct tcp none = { 0 };
	client(&none, R);
	expect(&none, CONNTRACK_STATE_NONE, CONNTRACK_TCP_INVALID);
}

static void syn_reopens_what_is_closed_and_nothing_else(void **unused)
{
	(void)unused;
	for (int state = 1; state < CONNTRACK_TCP_STATES_COUNT; state++) {
		for (int reply = 0; reply < 2; reply++) {
			struct tcp tcp = { .state = (enum conntrack_state)state };
			bool closed = state == CONNTRACK_STATE_TCP_TIME_WAIT ||
				      state == CONNTRACK_STATE_TCP_CLOSE;
			bool open = state >= CONNTRACK_STATE_TCP_SYN_RECV && !closed;
			send_with(&tcp, reply != 0, S, 0);
			assert_int_equal(tcp.verdict == CONNTRACK_TCP_REOPEN, closed);
			tcp.state = (enum conntrack_state)state;
			send_with(&tcp, reply != 0, S, CONNTRACK_TCP_SAME_SYN);
			assert_int_not_equal(tcp.verdict, CONNTRACK_TCP_REOPEN);
			/* A server does not send it. */
			assert_int_equal(tcp.verdict == CONNTRACK_TCP_INVALID, open && reply);
		}
	}
}

static void a_syn_in_an_open_connection_changes_nothing(void **unused)
{
	(void)unused;
	struct tcp tcp = opened();
	client(&tcp, S);
	expect(&tcp, CONNTRACK_STATE_TCP_ESTABLISHED, CONNTRACK_TCP_IGNORE);
	server(&tcp, S);
	expect(&tcp, CONNTRACK_STATE_TCP_ESTABLISHED, CONNTRACK_TCP_INVALID);
}

static void an_answer_to_an_ignored_syn_begins_the_connection_anew(void **unused)
{
	(void)unused;
	for (int state = CONNTRACK_STATE_TCP_SYN_RECV; state < CONNTRACK_TCP_STATES_COUNT;
		state++) {
		struct tcp tcp = { .state = (enum conntrack_state)state };
		server(&tcp, SA);
		expect(&tcp, (enum conntrack_state)state, CONNTRACK_TCP_IGNORE);
		send_with(&tcp, true, SA, CONNTRACK_TCP_ANSWERS_SYN);
		expect(&tcp, CONNTRACK_STATE_TCP_SYN_RECV, CONNTRACK_TCP_RESYNC);
	}
}

static void a_challenge_in_last_ack_is_not_the_last_ack(void **unused)
{
	(void)unused;
	for (int closer_reply = 0; closer_reply < 2; closer_reply++) {
		struct tcp tcp = opened();
		send_with(&tcp, closer_reply == 0, F, 0);
		send_with(&tcp, closer_reply != 0, F, 0);
		expect(&tcp, CONNTRACK_STATE_TCP_LAST_ACK, CONNTRACK_TCP_ACCEPT);
		send_with(&tcp, true, A, CONNTRACK_TCP_CHALLENGED);
		expect(&tcp, CONNTRACK_STATE_TCP_LAST_ACK,
			closer_reply ? CONNTRACK_TCP_ACCEPT : CONNTRACK_TCP_IGNORE);
		send_with(&tcp, closer_reply == 0, A, 0);
		expect(&tcp, CONNTRACK_STATE_TCP_TIME_WAIT, CONNTRACK_TCP_ACCEPT);
	}
}

static void pickup_is_an_option(void **unused)
{
	(void)unused;
	static const uint8_t firsts[] = { A, P, F, SA };
	static const enum conntrack_state states[] = { CONNTRACK_STATE_TCP_ESTABLISHED,
		CONNTRACK_STATE_TCP_ESTABLISHED, CONNTRACK_STATE_TCP_FIN_WAIT,
		CONNTRACK_STATE_TCP_SYN_RECV };
	for (unsigned int i = 0; i < BASE_ARRAY_COUNT(firsts); i++) {
		struct tcp tcp = { 0 };
		send_with(&tcp, false, firsts[i], 0);
		expect(&tcp, CONNTRACK_STATE_NONE, CONNTRACK_TCP_INVALID);
		client(&tcp, firsts[i]);
		expect(&tcp, states[i], CONNTRACK_TCP_ACCEPT);
	}
	/* The opener's ACK without the SYN|ACK: only where pickups are. */
	struct tcp tcp = { .state = CONNTRACK_STATE_TCP_SYN_SENT };
	send_with(&tcp, false, A, 0);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_SENT, CONNTRACK_TCP_INVALID);
	client(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_ESTABLISHED, CONNTRACK_TCP_ACCEPT);
}

static void a_challenge_ack_leaves_the_opening_alone(void **unused)
{
	(void)unused;
	struct tcp tcp = { 0 };
	client(&tcp, S);
	server(&tcp, A);
	expect(&tcp, CONNTRACK_STATE_TCP_SYN_SENT, CONNTRACK_TCP_IGNORE);
	client(&tcp, R);
	expect(&tcp, CONNTRACK_STATE_TCP_CLOSE, CONNTRACK_TCP_ACCEPT);
}

/* Plain rules of which flags may go together. */
static enum conntrack_tcp_class reference_class(unsigned int flags)
{
	bool syn = (flags & BASE_TCP_SYN) != 0, fin = (flags & BASE_TCP_FIN) != 0;
	bool rst = (flags & BASE_TCP_RST) != 0, ack = (flags & BASE_TCP_ACK) != 0;
	bool urg = (flags & BASE_TCP_URG) != 0;
	if (syn + fin + rst > 1)
		return CONNTRACK_TCP_CLASS_BAD;
	if (syn && ack)
		return urg ? CONNTRACK_TCP_CLASS_BAD : CONNTRACK_TCP_CLASS_SYN_ACK;
	if (syn)
		return CONNTRACK_TCP_CLASS_SYN;
	if (rst)
		return urg ? CONNTRACK_TCP_CLASS_BAD : CONNTRACK_TCP_CLASS_RST;
	if (!ack)
		return CONNTRACK_TCP_CLASS_BAD;
	return fin ? CONNTRACK_TCP_CLASS_FIN : CONNTRACK_TCP_CLASS_ACK;
}

static void flag_combinations_that_no_tcp_sends_are_invalid(void **unused)
{
	(void)unused;
	for (unsigned int flags = 0; flags < 256; flags++) {
		assert_int_equal(conntrack_tcp_class((uint8_t)flags), reference_class(flags));
		if (reference_class(flags) != CONNTRACK_TCP_CLASS_BAD)
			continue;
		for (int state = 0; state < CONNTRACK_TCP_STATES_COUNT; state++) {
			struct tcp tcp = { .state = (enum conntrack_state)state };
			client(&tcp, (uint8_t)flags);
			expect(&tcp, (enum conntrack_state)state, CONNTRACK_TCP_INVALID);
		}
	}
}

/* What holds in every cell, whatever the bits. */
static void check_cell(enum conntrack_state state, bool reply, uint8_t flags, unsigned int bits)
{
	struct conntrack_tcp_step step = conntrack_tcp_step(state, reply, flags, bits);
	assert_true(step.state < CONNTRACK_TCP_STATES_COUNT);
	assert_true(step.verdict < CONNTRACK_TCP_VERDICTS_COUNT);
	if (step.verdict == CONNTRACK_TCP_IGNORE || step.verdict == CONNTRACK_TCP_INVALID)
		assert_int_equal(step.state, state);
	if (state == CONNTRACK_STATE_NONE)
		assert_true(step.verdict == CONNTRACK_TCP_ACCEPT ||
			    step.verdict == CONNTRACK_TCP_INVALID);
	if (step.verdict == CONNTRACK_TCP_RESYNC)
		assert_int_equal(step.state, CONNTRACK_STATE_TCP_SYN_RECV);
	/* Once closing, always closing: only a SYN leads out. */
	if (state >= CONNTRACK_STATE_TCP_FIN_WAIT && step.verdict == CONNTRACK_TCP_ACCEPT)
		assert_true(step.state >= state);
	/* The short cut of the packet path: a cell that equals the state means accept and stay. */
	if (state != CONNTRACK_STATE_NONE &&
		conntrack_tcp_cell(state, conntrack_tcp_side(reply, bits), flags) == state) {
		assert_int_equal(step.state, state);
		assert_int_equal(step.verdict, CONNTRACK_TCP_ACCEPT);
	}
}

static void every_cell_of_the_table_is_sound(void **unused)
{
	(void)unused;
	for (int state = 0; state < CONNTRACK_TCP_STATES_COUNT; state++)
		for (int reply = 0; reply < 2; reply++)
			for (unsigned int flags = 0; flags < 64; flags++)
				for (unsigned int bits = 0; bits < 256; bits++)
					check_cell((enum conntrack_state)state, reply != 0,
						(uint8_t)flags, bits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handshake_needs_the_openers_ack),
		cmocka_unit_test(close_by_client_and_by_server),
		cmocka_unit_test(data_overtaken_by_a_fin_acknowledges_nothing),
		cmocka_unit_test(half_closed_side_keeps_receiving),
		cmocka_unit_test(simultaneous_open_is_established_by_either_side),
		cmocka_unit_test(rst_closes_from_every_state_and_opens_none),
		cmocka_unit_test(syn_reopens_what_is_closed_and_nothing_else),
		cmocka_unit_test(a_syn_in_an_open_connection_changes_nothing),
		cmocka_unit_test(an_answer_to_an_ignored_syn_begins_the_connection_anew),
		cmocka_unit_test(a_challenge_in_last_ack_is_not_the_last_ack),
		cmocka_unit_test(pickup_is_an_option),
		cmocka_unit_test(a_challenge_ack_leaves_the_opening_alone),
		cmocka_unit_test(flag_combinations_that_no_tcp_sends_are_invalid),
		cmocka_unit_test(every_cell_of_the_table_is_sound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
