/* SPDX-License-Identifier: BSD-2-Clause */
#include "pipeline/worker_threads.h"

#include <rte_lcore.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_NS = 20000000, WAITS_PER_TICK = 5 };

/* What the threads of one pass share beside worker_shared. */
struct pass {
	pthread_barrier_t barrier;
	pthread_mutex_t gate; /* closed while threads are started, then while one sets up */
	bool abandoned;       /* not all could be started; gate protects it */
};

struct thread_argument {
	struct pass *pass;
	struct worker *worker;
	atomic_bool finished; /* worker -> main, release/acquire pair in wait_for_workers */
};

void worker_threads_pin(unsigned int index)
{
	cpu_set_t allowed, one;
	if (sched_getaffinity(getpid(), sizeof(allowed), &allowed) != 0)
		return;
	unsigned int skip = index % (unsigned int)CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || skip-- != 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
		return;
	}
}

static void *worker_thread(void *context)
{
	struct thread_argument *argument = context;
	struct pass *pass = argument->pass;
	struct worker *worker = argument->worker;
	struct worker_shared *shared = worker->shared;
	worker_threads_pin(worker->index);
	pthread_mutex_lock(&pass->gate);
	bool abandoned = pass->abandoned;
	if (abandoned) {
		pthread_mutex_unlock(&pass->gate);
		return NULL;
	}
	(void)rte_thread_register(); /* without an id only per-thread caches are missing */
	/* One at a time: where DPDK cannot get a huge page, it leaves a hole in its address space
	 * for a moment and then maps over it, whoever has mapped memory there meanwhile. */
	if (worker_setup(worker) != 0)
		atomic_store(&shared->failed, true);
	pthread_mutex_unlock(&pass->gate);
	pthread_barrier_wait(&pass->barrier);
	if (worker->index == 0) {
		if (shared->reader != NULL && !atomic_load(&shared->failed))
			reader_wait_until_ahead(shared->reader);
		shared->start_cycles = base_cycles();
	}
	pthread_barrier_wait(&pass->barrier);
	if (!atomic_load(&shared->failed)) {
		worker_loop(worker);
		if (!worker->source->failed)
			worker_finish(worker);
	}
	rte_thread_unregister();
	atomic_store_explicit(&argument->finished, true, memory_order_release);
	return NULL;
}

static void wait_for_workers(struct thread_argument *arguments, uint32_t count,
	void (*tick)(void *context), void *tick_context)
{
	const struct timespec pause = { .tv_nsec = WAIT_NS };
	for (unsigned int waits = 0;; waits++) {
		bool finished = true;
		for (uint32_t i = 0; i < count; i++)
			/* acquire: pairs with the release store in worker_thread */
			finished = finished && atomic_load_explicit(&arguments[i].finished,
						       memory_order_acquire);
		if (finished)
			break;
		if (waits % WAITS_PER_TICK == WAITS_PER_TICK - 1)
			tick(tick_context);
		nanosleep(&pause, NULL);
	}
}

int worker_threads_run(struct worker *workers, uint32_t count, void (*tick)(void *context),
	void *tick_context, char *message)
{
	pthread_t threads[PIPELINE_WORKERS_MAX];
	struct thread_argument arguments[PIPELINE_WORKERS_MAX];
	struct pass pass = { .abandoned = false };
	int error = pthread_barrier_init(&pass.barrier, NULL, count);
	if (error != 0) {
		snprintf(message, PIPELINE_MESSAGE_SIZE, "worker threads: %s", strerror(error));
		return -error;
	}
	pthread_mutex_init(&pass.gate, NULL);
	/* Nobody may reach the barrier before it is sure that all will. */
	uint32_t started = 0;
	pthread_mutex_lock(&pass.gate);
	while (started < count && error == 0) {
		arguments[started].pass = &pass;
		arguments[started].worker = &workers[started];
		atomic_init(&arguments[started].finished, false);
		error = pthread_create(&threads[started], NULL, worker_thread, &arguments[started]);
		started += error == 0;
	}
	pass.abandoned = error != 0;
	pthread_mutex_unlock(&pass.gate);
	if (error == 0)
		wait_for_workers(arguments, count, tick, tick_context);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	pthread_mutex_destroy(&pass.gate);
	pthread_barrier_destroy(&pass.barrier);
	if (error != 0)
		snprintf(message, PIPELINE_MESSAGE_SIZE, "cannot start worker thread %u: %s",
			started, strerror(error));
	return -error;
}
