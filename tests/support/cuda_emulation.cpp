// SPDX-License-Identifier: BSD-2-Clause
#include "tests/support/cuda_emulation.hpp"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/*
 * From one stack to another. swapcontext() would do, but asks the kernel for the signal mask each
 * time, which is most of what the emulation would spend.
 */
#if defined(__x86_64__)
extern "C" void cuda_emulation_switch(void **save, void *to);
__asm__(".text\n"
	".type cuda_emulation_switch, @function\n"
	"cuda_emulation_switch:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	"
	"push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	"
	"pop %rbp\n"
	"	ret\n"
	".size cuda_emulation_switch, . - cuda_emulation_switch\n");
#else
#include <ucontext.h>
#endif

/* Shared memory of the block that runs on this thread; the kernels know it by this name. */
extern "C" thread_local __align__(1024) float shared[];
thread_local __align__(1024) float shared[emulation::SHARED_BYTES_MAX / sizeof(float) + 1024];

namespace emulation
{
namespace
{
enum { STACK_BYTES = 128 << 10, THREADS_MAX = 1024, TAIL_FLOATS = 1024 };

const size_t STACKS_BYTES = (size_t)THREADS_MAX * STACK_BYTES;
const uint32_t GARBAGE = 0x7fc5a5a5; /* a NaN */

enum class state { IDLE, READY, AT_BARRIER, IN_MEETING };

struct block;

#if defined(__x86_64__)
using place = void *; /* the stack pointer, with the registers to restore above it */

void switch_to(place *from, place *to)
{
	cuda_emulation_switch(from, *to);
}

void place_make(place *place, char *stack, size_t size, void (*function)())
{
	void **top =
		(void **)(stack + size) - 8; /* six registers, the address, and where it returns */
	top[6] = (void *)function;
	*place = top;
}
#else
using place = ucontext_t;

void switch_to(place *from, place *to)
{
	swapcontext(from, to);
}

void place_make(place *place, char *stack, size_t size, void (*function)())
{
	getcontext(place);
	place->uc_stack.ss_sp = stack;
	place->uc_stack.ss_size = size;
	place->uc_link = nullptr;
	makecontext(place, function, 0);
}
#endif

struct fiber {
	place at;
	block *owner;
	char *stack;
	unsigned int thread; /* what it runs */
	state where;
	int line;
	void *asan, *tsan;
};

struct warp {
	unsigned int arrived;
	int operation;
	const void *same;
	void *mine[WARP];
	fiber *lanes[WARP];
};

struct block {
	const launch *work;
	dim index, size, thread; /* thread: of the one that runs */
	uint64_t random;
	place at;
	const void *stack; /* of the thread that switches, for the sanitizers */
	size_t stack_size;
	void *tsan;
	fiber *running;
	uint32_t favoured; /* warps, as bits */
	unsigned int begun, ended, fibers_count;
	unsigned int order[THREADS_MAX]; /* in which threads begin */
	fiber *turns[THREADS_MAX];
	fiber fibers[THREADS_MAX];
	warp warps[THREADS_MAX / WARP];
	char *stacks;
};

thread_local block *here, *kept;

void describe(const block *b, const char *what)
{
	fprintf(stderr, "cuda_emulation: block (%u, %u), thread %u: %s\n", b->index.x, b->index.y,
		b->running == nullptr ? 0 : b->running->thread, what);
}

uint32_t draw(block *b, uint32_t below)
{
	b->random = b->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((b->random >> 33) % below);
}

/* ---- fibers ------------------------------------------------------------------------------- */

void enter(fiber *to)
{
	block *b = to->owner;
	b->running = to;
	b->thread = { to->thread, 0, 0 };
#ifdef WITH_TSAN
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
#ifdef WITH_ASAN
	void *save;
	__sanitizer_start_switch_fiber(&save, to->stack, STACK_BYTES);
#endif
	switch_to(&b->at, &to->at);
#ifdef WITH_ASAN
	__sanitizer_finish_switch_fiber(save, nullptr, nullptr);
#endif
	b->running = nullptr;
}

void leave()
{
	block *b = here;
	fiber *from = b->running;
#ifdef WITH_TSAN
	__tsan_switch_to_fiber(b->tsan, 0);
#endif
#ifdef WITH_ASAN
	__sanitizer_start_switch_fiber(&from->asan, b->stack, b->stack_size);
#endif
	switch_to(&from->at, &b->at);
#ifdef WITH_ASAN
	__sanitizer_finish_switch_fiber(from->asan, &b->stack, &b->stack_size);
#endif
}

/* A fiber runs one thread to its end and takes the next that nobody has begun. */
void fiber_main()
{
#ifdef WITH_ASAN
	__sanitizer_finish_switch_fiber(nullptr, &here->stack, &here->stack_size);
#endif
	for (;;) {
		block *b = here;
		fiber *self = b->running;
		while (b->begun < b->work->threads) {
			self->thread = b->order[b->begun++];
			b->thread = { self->thread, 0, 0 };
			b->work->run(b->work->arguments);
			b->ended++;
		}
		self->where = state::IDLE;
		leave();
	}
}

void fiber_make(block *b, fiber *f)
{
	f->owner = b;
	f->stack = b->stacks + (f - b->fibers) * (size_t)STACK_BYTES;
	place_make(&f->at, f->stack, STACK_BYTES, fiber_main);
#ifdef WITH_TSAN
	f->tsan = __tsan_create_fiber(0);
#endif
}

block *block_make()
{
	block *b = (block *)calloc(1, sizeof(*b));
	if (b == nullptr)
		refuse("no memory for a block");
	b->stacks = (char *)mmap(nullptr, STACKS_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (b->stacks == MAP_FAILED)
		refuse("no memory for stacks");
#ifdef WITH_TSAN
	b->tsan = __tsan_get_current_fiber();
#endif
	return b;
}

void block_free(block *b)
{
#ifdef WITH_TSAN
	for (unsigned int i = 0; i < b->fibers_count; i++)
		__tsan_destroy_fiber(b->fibers[i].tsan);
#endif
	munmap(b->stacks, STACKS_BYTES);
	free(b);
}

/* ---- turns -------------------------------------------------------------------------------- */

unsigned int gather_ready(block *b, uint32_t warps)
{
	unsigned int ready = 0;
	for (unsigned int i = 0; i < b->fibers_count; i++) {
		fiber *f = &b->fibers[i];
		if (f->where == state::READY && (warps >> f->thread / WARP & 1) != 0)
			b->turns[ready++] = f;
	}
	return ready;
}

/*
 * Whoever can go on does, in a random order; then threads that have not begun. Some warps are
 * favoured for a while, so that others fall far behind.
 */
bool take_turns(block *b)
{
	if (draw(b, 16) == 0)
		b->favoured = draw(b, UINT32_MAX);
	unsigned int ready = gather_ready(b, b->favoured);
	if (ready == 0)
		ready = gather_ready(b, UINT32_MAX);
	unsigned int left = ready;
	while (left > 0) {
		unsigned int at = draw(b, left);
		fiber *next = b->turns[at];
		b->turns[at] = b->turns[--left];
		enter(next);
	}
	while (b->begun < b->work->threads) {
		unsigned int at = 0;
		while (at < b->fibers_count && b->fibers[at].where != state::IDLE)
			at++;
		if (at == b->fibers_count)
			fiber_make(b, &b->fibers[b->fibers_count++]);
		b->fibers[at].where = state::READY;
		enter(&b->fibers[at]);
		ready++;
	}
	return ready > 0;
}

/* Nobody can go on by itself: all must stand at the same barrier. */
void open_barrier(block *b)
{
	unsigned int waiting = 0;
	int line = 0;
	for (unsigned int i = 0; i < b->fibers_count; i++) {
		fiber *f = &b->fibers[i];
		if (f->where == state::IDLE)
			continue;
		b->running = f;
		if (f->where == state::IN_MEETING)
			refuse("lanes of its warp do not come to the operation that it waits in");
		if (waiting++ > 0 && f->line != line)
			refuse("stands at another __syncthreads() than other threads");
		line = f->line;
		f->where = state::READY;
	}
	if (b->ended > 0)
		refuse("stands at a __syncthreads() that other threads have passed by");
}

void shuffle(block *b)
{
	for (unsigned int i = 0; i < b->work->threads; i++)
		b->order[i] = i;
	for (unsigned int i = b->work->threads; i > 1; i--) {
		unsigned int at = draw(b, i), swap = b->order[i - 1];
		b->order[i - 1] = b->order[at];
		b->order[at] = swap;
	}
}

/* Beyond what the launch asked for nothing may be touched. */
void shared_begin(const launch *work)
{
	size_t used = work->shared_bytes / sizeof(float);
	for (size_t i = 0; i < used + TAIL_FLOATS; i++)
		memcpy(&shared[i], &GARBAGE, sizeof(GARBAGE));
#ifdef WITH_ASAN
	__asan_poison_memory_region(&shared[used], sizeof(shared) - work->shared_bytes);
#endif
}

void shared_end(const launch *work)
{
	size_t used = work->shared_bytes / sizeof(float);
#ifdef WITH_ASAN
	__asan_unpoison_memory_region(shared, sizeof(shared));
#endif
	for (size_t i = used; i < used + TAIL_FLOATS; i++) {
		if (memcmp(&shared[i], &GARBAGE, sizeof(GARBAGE)) != 0)
			refuse("wrote past the end of its shared memory");
	}
}

void run_block(block *b, const launch *work, dim index)
{
	b->work = work;
	b->index = index;
	b->size = { work->threads, 1, 1 };
	b->random = work->seed * 1000003 + index.x * 31 + index.y;
	b->begun = b->ended = 0;
	here = b;
	shuffle(b);
	shared_begin(work);
	while (b->ended < work->threads) {
		if (!take_turns(b))
			open_barrier(b);
	}
	shared_end(work);
}

void check_launch(const launch &work)
{
	if (work.shared_bytes > SHARED_BYTES_MAX || work.shared_bytes % sizeof(float) != 0 ||
		work.threads == 0 || work.threads > THREADS_MAX)
		refuse("a launch that no GPU would take");
}

struct alone {
	pthread_t thread;
	const launch *work;
	dim index;
};

void *run_alone(void *argument)
{
	const alone *a = (const alone *)argument;
	block *b = block_make();
	run_block(b, a->work, a->index);
	block_free(b);
	return nullptr;
}
} // namespace

void run(const launch &work)
{
	check_launch(work);
	block *before = here;
	if (kept == nullptr)
		kept = block_make(); /* for later launches from this thread, too */
	for (unsigned int y = 0; y < work.grid.y; y++) {
		for (unsigned int x = 0; x < work.grid.x; x++)
			run_block(kept, &work, { x, y, 0 });
	}
	here = before;
}

void run_at_once(const launch &work)
{
	check_launch(work);
	unsigned int count = work.grid.x * work.grid.y;
	alone *blocks = (alone *)calloc(count, sizeof(*blocks));
	if (blocks == nullptr)
		refuse("no memory for blocks");
	for (unsigned int i = 0; i < count; i++) {
		blocks[i].work = &work;
		blocks[i].index = { i % work.grid.x, i / work.grid.x, 0 };
		if (pthread_create(&blocks[i].thread, nullptr, run_alone, &blocks[i]) != 0)
			refuse("no thread for a block");
	}
	for (unsigned int i = 0; i < count; i++)
		pthread_join(blocks[i].thread, nullptr);
	free(blocks);
}

const dim &thread_index()
{
	return here->thread;
}

const dim &block_index()
{
	return here->index;
}

const dim &grid_size()
{
	return here->work->grid;
}

const dim &block_size()
{
	return here->size;
}

unsigned int lane()
{
	return here->running->thread % WARP;
}

void refuse(const char *what)
{
	if (here != nullptr)
		describe(here, what);
	else
		fprintf(stderr, "cuda_emulation: %s\n", what);
	abort();
}

void block_barrier(int line)
{
	fiber *self = here->running;
	self->where = state::AT_BARRIER;
	self->line = line;
	leave();
}

void look()
{
	if (here->work->wait != nullptr)
		here->work->wait();
}

void sleep()
{
	look();
	usleep(20);
}

void warp_meet(int operation, const void *same, void *mine, meeting meeting)
{
	fiber *self = here->running;
	warp *w = &here->warps[self->thread / WARP];
	unsigned int at = self->thread % WARP;
	if (w->arrived > 0 && (w->operation != operation || w->same != same))
		refuse("comes to another operation than lanes of its warp, or at another address");
	w->operation = operation;
	w->same = same;
	w->mine[at] = mine;
	w->lanes[at] = self;
	if (++w->arrived < WARP) {
		self->where = state::IN_MEETING;
		leave();
		return;
	}
	w->arrived = 0;
	if (meeting != nullptr)
		meeting(w->mine);
	for (unsigned int i = 0; i < WARP; i++)
		w->lanes[i]->where = state::READY;
}
} // namespace emulation
