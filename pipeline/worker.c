/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker loop: source -> parse -> reframer -> conntrack -> infer -> chain -> sink. */
#include "pipeline/worker.h"

#include <rte_pause.h>

#include <sched.h>

enum { EXPIRY_LOOKS_PER_PACKET = 4, STARVED_POLLS_PER_YIELD = 64 };

/* Add the cycles since `since` to a stage and start the next one. */
static inline uint64_t lap(uint64_t *stage, uint64_t since)
{
	uint64_t now = base_cycles();
	*stage += now - since;
	return now;
}

/* Take packets with a drop reason out of the burst, count them, give their buffers back. */
static void remove_dropped(struct worker *worker, struct base_burst *burst)
{
	if (BASE_LIKELY(burst->drop_count == 0))
		return;
	unsigned int count = base_burst_compact(burst, worker->dropped);
	for (unsigned int i = 0; i < count; i++)
		worker->books.dropped[worker->dropped[i]->drop_reason]++;
	worker->source->ops->give_back(worker->source, worker->dropped, count);
}

/* Flow switches, by hash: packets / runs is the spatial locality factor of this worker. */
static uint64_t count_runs(const struct base_burst *burst, uint32_t *last_hash)
{
	uint64_t runs = 0;
	uint32_t last = *last_hash;
	for (unsigned int i = 0; i < burst->count; i++) {
		const struct base_packet *packet = burst->packets[i];
		bool same = packet->hash == last && (packet->flags & BASE_PACKET_FLOW);
		runs += !same;
		last = packet->hash;
	}
	*last_hash = last;
	return runs;
}

/* Malformed packets go on as packets without a flow. */
static void forgive_malformed(struct base_burst *burst)
{
	for (unsigned int i = 0; i < burst->count && burst->drop_count != 0; i++) {
		struct base_packet *packet = burst->packets[i];
		if (packet->drop_reason == BASE_DROP_NONE)
			continue;
		packet->drop_reason = BASE_DROP_NONE;
		packet->flags = 0;
		burst->drop_count--;
	}
}

/* How late the wall clock released packets, in capture time. */
static void note_lateness(struct worker *worker, const struct base_burst *burst, uint64_t limit_ns)
{
	for (unsigned int i = 0; i < burst->count; i++)
		base_histogram_add(&worker->lateness, limit_ns - burst->packets[i]->time_ns);
}

/* Poll the source for packets up to take_ns and move this worker's clock. */
static void receive(
	struct worker *worker, struct base_burst *burst, uint64_t limit_ns, uint64_t take_ns)
{
	const struct pipeline_config *config = worker->shared->config;
	burst->drop_count = burst->run_count = 0;
	burst->count = (uint16_t)worker->source->ops->poll(
		worker->source, take_ns, burst->packets, config->burst);
	for (unsigned int i = 0; i < burst->count; i++)
		worker->books.read_wire_bytes += burst->packets[i]->wire_len;
	worker->books.read += burst->count;
	uint64_t last_ns = burst->count == 0 ? 0 : burst->packets[burst->count - 1]->time_ns;
	/* A reader that is late may yet bring packets that are due: time stops where it stands. */
	if (BASE_UNLIKELY(worker->source->starved) && worker->source->reached_ns < limit_ns)
		limit_ns =
			worker->source->reached_ns > last_ns ? worker->source->reached_ns : last_ns;
	/* A full burst may have left packets behind that are due: time stops at its last one. */
	if (burst->count == config->burst || config->clock == PIPELINE_CLOCK_VIRTUAL)
		limit_ns = last_ns;
	if (limit_ns > worker->now_ns)
		worker->now_ns = limit_ns;
}

static void translate(struct worker *worker, struct base_burst *burst)
{
	struct base_packet *whole[BASE_BURST_MAX];
	unsigned int count = burst->count;
	const struct sharing *sharing = worker->sharing;
	if (BASE_LIKELY(sharing == NULL)) {
		chain_translate_burst(worker->chain, burst, worker->parser);
		return;
	}
	/* Every state has mappings of its own: those whose reply the packet may be. */
	uint64_t states = 0;
	for (unsigned int i = 0; i < count; i++)
		states |= UINT64_C(1) << sharing_state_of_reply(sharing, burst->packets[i]);
	memcpy(whole, burst->packets, count * sizeof(*whole));
	for (; states != 0; states &= states - 1) {
		uint32_t state = (uint32_t)__builtin_ctzll(states);
		struct base_burst *part = &worker->part;
		part->count = part->drop_count = 0;
		for (unsigned int i = 0; i < count; i++) {
			if (sharing_state_of_reply(sharing, whole[i]) == state)
				part->packets[part->count++] = whole[i];
		}
		base_burst_mark_runs(part, true);
		sharing_enter(worker, state);
		chain_translate_burst(worker->chain, part, worker->parser);
		sharing_leave(worker, state);
		burst->drop_count = (uint16_t)(burst->drop_count + part->drop_count);
	}
	base_burst_mark_runs(burst, worker->shared->config->ablations & PIPELINE_ABLATE_RUNS);
}

static void parse(struct worker *worker, struct base_burst *burst)
{
	const struct pipeline_config *config = worker->shared->config;
	base_parse_burst(worker->parser, burst, config->ablations & PIPELINE_ABLATE_RUNS);
	if (BASE_UNLIKELY(config->keep_malformed && burst->drop_count != 0))
		forgive_malformed(burst);
	remove_dropped(worker, burst);
	if (worker->translates)
		translate(worker, burst);
	worker->runs_in += count_runs(burst, &worker->last_hash_in);
	worker->runs_in_packets += burst->count;
}

/* Hand the burst to the sink and its buffers back to the source. */
static void forward(struct worker *worker, struct base_burst *burst)
{
	unsigned int kept = 0;
	uint64_t wire_bytes = 0;
	worker->flow_runs_out += count_runs(burst, &worker->last_hash_out);
	for (unsigned int i = 0; i < burst->count; i++)
		wire_bytes += burst->packets[i]->wire_len;
	worker->sink->ops->send(worker->sink, burst, &kept);
	unsigned int refused = burst->drop_count, left = 0;
	for (unsigned int i = 0; (refused != 0 || kept != 0) && i < burst->count; i++) {
		struct base_packet *packet = burst->packets[i];
		if (packet == NULL) /* the device has it now */
			continue;
		if (packet->drop_reason != BASE_DROP_NONE) {
			worker->books.dropped[packet->drop_reason]++;
			wire_bytes -= packet->wire_len;
		}
		burst->packets[left++] = packet;
	}
	worker->books.forwarded += burst->count - refused;
	worker->books.forwarded_wire_bytes += wire_bytes;
	worker->source->ops->give_back(
		worker->source, burst->packets, refused != 0 || kept != 0 ? left : burst->count);
}

/* Chain and order check: the last that looks at connections. Returns when the sink's time began. */
static inline uint64_t run_chain(
	struct worker *worker, struct base_burst *burst, uint64_t now_ns, uint64_t since)
{
	struct worker_cycles *cycles = &worker->cycles;
	for (uint32_t i = 0; i < worker->chain_count; i++) {
		chain_function_process(worker->chain, i, burst, now_ns);
		remove_dropped(worker, burst);
		since = lap(&cycles->chain[i], since);
	}
	order_check_burst(worker->order, burst);
	return since;
}

/* chain -> sink. since: when this began. */
static void process_chain(
	struct worker *worker, struct base_burst *burst, uint64_t now_ns, uint64_t since)
{
	since = run_chain(worker, burst, now_ns, since);
	forward(worker, burst);
	lap(&worker->cycles.sink, since);
}

/* Packets that waited for their flow's answer and wait no more. */
static unsigned int let_go(struct worker *worker, uint64_t now_ns)
{
	unsigned int packets = 0, count;
	while ((count = gpu_offload_stage_pop(worker->infer, &worker->let_go)) > 0) {
		remove_dropped(worker, &worker->let_go);
		process_chain(worker, &worker->let_go, now_ns, base_cycles());
		packets += count;
	}
	return packets;
}

/* conntrack -> infer. Returns when the chain's time began. */
static inline uint64_t track(struct worker *worker, struct base_burst *burst, uint64_t now_ns)
{
	struct worker_cycles *cycles = &worker->cycles;
	uint64_t since = base_cycles();
	conntrack_process_burst(worker->tracker, burst);
	remove_dropped(worker, burst);
	since = lap(&cycles->conntrack, since);
	if (worker->infer != NULL) {
		gpu_offload_stage_advance(worker->infer, now_ns);
		since = lap(&cycles->infer, since);
		if (BASE_UNLIKELY(let_go(worker, now_ns) > 0))
			since = base_cycles();
		gpu_offload_stage_process(worker->infer, burst, now_ns);
		remove_dropped(worker, burst);
		since = lap(&cycles->infer, since);
	}
	return since;
}

/* The same as process, with connections that other workers use as well: the sink is this worker's
 * own and gets the burst behind the lock, unless packets stand behind it that waited for answers.
 */
static void process_state(
	struct worker *worker, struct base_burst *burst, uint64_t now_ns, uint32_t state)
{
	sharing_enter(worker, state);
	uint64_t since = track(worker, burst, now_ns);
	since = run_chain(worker, burst, now_ns, since);
	bool more = worker->infer != NULL && gpu_offload_stage_lets_go(worker->infer);
	if (BASE_LIKELY(!more))
		sharing_leave(worker, state);
	forward(worker, burst);
	lap(&worker->cycles.sink, since);
	if (BASE_UNLIKELY(more)) {
		let_go(worker, now_ns);
		sharing_leave(worker, state);
	}
}

/* State by state: packets of a flow are all in one, so they stay in order. */
static void process_shared(struct worker *worker, struct base_burst *burst, uint64_t now_ns)
{
	const struct sharing *sharing = worker->sharing;
	struct base_burst *part = &worker->part;
	uint8_t state_of[BASE_BURST_MAX];
	uint64_t states = 0;
	if (sharing_states(sharing) == 1) {
		process_state(worker, burst, now_ns, 0);
		return;
	}
	for (unsigned int i = 0; i < burst->count; i++) {
		state_of[i] = (uint8_t)sharing_state_of(sharing, burst->packets[i]);
		states |= UINT64_C(1) << state_of[i];
	}
	for (; states != 0; states &= states - 1) {
		uint8_t state = (uint8_t)__builtin_ctzll(states);
		part->count = part->drop_count = 0;
		for (unsigned int i = 0; i < burst->count; i++) {
			if (state_of[i] != state)
				continue;
			part->packets[part->count++] = burst->packets[i];
			part->drop_count += burst->packets[i]->drop_reason != BASE_DROP_NONE;
		}
		base_burst_mark_runs(
			part, worker->shared->config->ablations & PIPELINE_ABLATE_RUNS);
		process_state(worker, part, now_ns, state);
	}
}

/* conntrack -> infer -> chain -> sink, for packets in their final order. */
static void process(struct worker *worker, struct base_burst *burst, uint64_t now_ns)
{
	if (BASE_UNLIKELY(worker->sharing != NULL)) {
		process_shared(worker, burst, now_ns);
		return;
	}
	uint64_t since = track(worker, burst, now_ns);
	process_chain(worker, burst, now_ns, since);
	if (worker->infer != NULL)
		let_go(worker, now_ns);
}

/* Everything the reframer has released. Returns the number of packets. */
static unsigned int drain(struct worker *worker, uint64_t now_ns)
{
	unsigned int packets = 0;
	for (;;) {
		uint64_t since = base_cycles();
		unsigned int count = reframer_pop_burst(
			worker->reframer, &worker->out, worker->shared->config->burst);
		if (worker->shared->config->ablations & PIPELINE_ABLATE_RUNS)
			base_burst_mark_runs(&worker->out, true);
		lap(&worker->cycles.reframer, since);
		if (count == 0)
			return packets;
		packets += count;
		process(worker, &worker->out, now_ns);
	}
}

static unsigned int reframe(struct worker *worker, struct base_burst *burst, uint64_t now_ns)
{
	uint64_t since = base_cycles();
	reframer_push_burst(worker->reframer, burst->packets, burst->count);
	reframer_advance(worker->reframer, now_ns);
	lap(&worker->cycles.reframer, since);
	return drain(worker, now_ns);
}

/* Of a wait that a chunk has ended: how long a packet was missed. Under the wall clock (limit_ns)
 * that is no longer than the packet is late. */
static uint64_t missed_cycles(const struct worker *worker, uint64_t waited, uint64_t limit_ns)
{
	const struct worker_shared *shared = worker->shared;
	const struct source *source = worker->source;
	if (limit_ns == UINT64_MAX || !source->took)
		return waited;
	if (source->took_ns >= limit_ns)
		return 0;
	double late_s = (double)(limit_ns - source->took_ns) / 1e9 / shared->config->speed;
	double late = late_s * shared->tsc_hz;
	return late < (double)waited ? (uint64_t)late : waited;
}

/* Account for waiting, which stages are not charged with. since: start of the iteration. */
static void note_wait(struct worker *worker, uint64_t since, uint64_t limit_ns)
{
	struct worker_waits *waits = &worker->waits;
	const struct source *source = worker->source;
	if (waits->since != 0 && (source->took || source->done)) {
		uint64_t missed = missed_cycles(worker, since - waits->since, limit_ns);
		/* Has it waited itself since the chunk before? Then it was ahead of another worker,
		 * whose full ring kept it from going on. */
		if (source->pauses != waits->pauses) {
			waits->held_up_cycles += missed;
		} else if (missed != 0) {
			waits->starved_times++;
			waits->starved_polls += waits->polls;
			waits->starved_cycles += missed;
		}
		waits->since = 0;
	}
	waits->pauses = source->pauses;
	if (!source->starved)
		return;
	if (waits->since == 0) {
		waits->since = base_cycles();
		waits->polls = 0;
	}
	waits->polls++;
}

/* Whether an iteration has no packets, and time no reason to move: under the virtual clock it waits
 * for the reader, and at the end there is nothing to do. */
static inline bool stands_still(const struct source *source, uint64_t limit_ns)
{
	return source->done || (source->starved && limit_ns == UINT64_MAX);
}

/* An iteration that does not count. */
static void sit_out(struct worker *worker, uint64_t since)
{
	/* Copying the first packets of a burst that is not whole yet is work all the same. */
	if (worker->source->took) {
		uint64_t start = since;
		worker->cycles.total += lap(&worker->cycles.source, since) - start;
	}
}

/* Answers and bounds that fall due without packets. Timers wait for what is held. */
static unsigned int tick_infer(struct worker *worker, uint64_t *horizon_ns)
{
	if (BASE_UNLIKELY(worker->sharing != NULL))
		sharing_enter(worker, 0);
	uint64_t since = base_cycles();
	gpu_offload_stage_advance(worker->infer, worker->now_ns);
	lap(&worker->cycles.infer, since);
	unsigned int packets = let_go(worker, worker->now_ns);
	*horizon_ns = gpu_offload_stage_horizon_ns(worker->infer, *horizon_ns);
	if (BASE_UNLIKELY(worker->sharing != NULL))
		sharing_leave(worker, 0);
	return packets;
}

/* No packet to come is earlier than horizon_ns. */
static inline unsigned int advance(struct worker *worker, uint64_t horizon_ns, unsigned int looks)
{
	if (BASE_UNLIKELY(worker->sharing != NULL))
		return sharing_advance(worker, horizon_ns, looks);
	return conntrack_advance(worker->tracker, horizon_ns, looks);
}

/* One iteration. limit_ns: what the clock says, UINT64_MAX for the virtual one; take_ns: no packet
 * later than this may be taken yet. Returns packets touched. */
static inline unsigned int step(struct worker *worker, uint64_t limit_ns, uint64_t take_ns)
{
	struct base_burst *burst = &worker->in;
	uint64_t start = base_cycles(), since = start;
	receive(worker, burst, limit_ns, take_ns);
	unsigned int touched = burst->count;
	const struct source *source = worker->source;
	if (BASE_UNLIKELY(source->starved || worker->waits.since != 0))
		note_wait(worker, start, limit_ns);
	if (BASE_UNLIKELY(touched == 0 && stands_still(source, limit_ns))) {
		sit_out(worker, start);
		return 0;
	}
	if (touched != 0)
		since = lap(&worker->cycles.source, since);
	if (limit_ns != UINT64_MAX)
		note_lateness(worker, burst, limit_ns);
	parse(worker, burst);
	if (touched != 0)
		lap(&worker->cycles.parse, since);
	uint64_t horizon_ns = worker->now_ns;
	if (worker->reframer != NULL) {
		touched += reframe(worker, burst, worker->now_ns);
		horizon_ns = reframer_horizon_ns(worker->reframer);
	} else if (burst->count != 0) {
		process(worker, burst, worker->now_ns);
	}
	if (worker->infer != NULL)
		touched += tick_infer(worker, &horizon_ns);
	since = base_cycles();
	unsigned int looks = (touched + 1) * EXPIRY_LOOKS_PER_PACKET;
	touched +=
		advance(worker, horizon_ns < worker->now_ns ? horizon_ns : worker->now_ns, looks);
	if (touched != 0) { /* an idle poll costs nobody anything */
		uint64_t end = lap(&worker->cycles.conntrack, since);
		worker->cycles.total += end - start;
	}
	return touched;
}

/* Nothing to do. Whoever waits for the reader may hold the CPU that it needs. */
static void idle(const struct worker *worker)
{
	if (worker->source->starved && worker->waits.polls % STARVED_POLLS_PER_YIELD == 0)
		sched_yield();
	else
		rte_pause(); /* not due yet, or a device still has the buffers */
}

/* Capture time that the wall clock has reached: absolute, so it cannot drift. */
static uint64_t wall_now_ns(const struct worker *worker)
{
	const struct worker_shared *shared = worker->shared;
	double seconds = (double)(base_cycles() - shared->start_cycles) / shared->tsc_hz;
	return (uint64_t)(seconds * 1e9 * shared->config->speed);
}

static void loop_virtual(struct worker *worker)
{
	while (!worker->source->done &&
		!atomic_load_explicit(worker->shared->stop, memory_order_relaxed)) {
		if (step(worker, UINT64_MAX, UINT64_MAX) == 0)
			idle(worker);
		atomic_store_explicit(&worker->progress, worker->books.read, memory_order_relaxed);
	}
}

static void flush_reframer(struct worker *worker)
{
	if (worker->reframer == NULL)
		return;
	reframer_flush(worker->reframer);
	uint64_t since = base_cycles();
	drain(worker, worker->now_ns);
	worker->cycles.total += base_cycles() - since;
}

/* The virtual clock, epoch by epoch: before the first packet of another one this worker gives up
 * its groups, with nothing of them left behind. */
static void loop_handover(struct worker *worker)
{
	const struct schedule_entry *entries = worker->shared->schedule->entries[worker->index];
	while (!worker->source->done &&
		!atomic_load_explicit(worker->shared->stop, memory_order_relaxed)) {
		uint64_t next_ns = entries[worker->books.read].time_ns;
		if (next_ns >= worker->turn_end_ns) {
			flush_reframer(worker);
			if (!sharing_take_turn(worker, next_ns))
				break;
		}
		if (step(worker, UINT64_MAX, worker->turn_end_ns - 1) == 0)
			idle(worker);
		atomic_store_explicit(&worker->progress, worker->books.read, memory_order_relaxed);
	}
}

static void loop_wall(struct worker *worker)
{
	const struct pipeline_config *config = worker->shared->config;
	bool is_trace = config->source == PIPELINE_SOURCE_TRACE;
	uint64_t last_ns = config->duration_ns == 0 || is_trace ? UINT64_MAX : config->duration_ns;
	while (!worker->source->done &&
		!atomic_load_explicit(worker->shared->stop, memory_order_relaxed)) {
		uint64_t now_ns = wall_now_ns(worker);
		if (now_ns >= last_ns)
			break;
		if (step(worker, now_ns, now_ns) == 0)
			idle(worker);
		atomic_store_explicit(&worker->progress, worker->books.read, memory_order_relaxed);
	}
}

static void finish_infer(struct worker *worker)
{
	if (worker->sharing != NULL)
		sharing_enter(worker, 0);
	uint64_t since = base_cycles();
	gpu_offload_stage_finish(worker->infer, worker->now_ns);
	let_go(worker, worker->now_ns);
	worker->cycles.total += lap(&worker->cycles.infer, since) - since;
	if (worker->sharing != NULL)
		sharing_leave(worker, 0);
}

void worker_loop(struct worker *worker)
{
	counters_begin(&worker->counters);
	uint64_t start = base_cycles();
	if (worker->shared->config->sharing == PIPELINE_SHARING_HANDOVER)
		loop_handover(worker);
	else if (worker->shared->config->clock == PIPELINE_CLOCK_VIRTUAL)
		loop_virtual(worker);
	else
		loop_wall(worker);
	flush_reframer(worker);
	if (worker->infer != NULL)
		finish_infer(worker);
	if (worker->sharing != NULL)
		sharing_leave_for_good(worker);
	worker->elapsed_cycles = base_cycles() - start;
	counters_end(&worker->counters, &worker->counted, worker->books.read);
}
