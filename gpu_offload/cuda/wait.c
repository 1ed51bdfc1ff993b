/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_offload/cuda/wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct cuda_waiter {
	pthread_t thread;
	struct cuda_api api;
	void *context;
	int go, done;          /* eventfd: something to wait for; it has happened */
	_Atomic(void *) event; /* NULL: end. Stored before go is raised */
	bool asked;            /* the owner's: done was not seen since go */
	atomic_uint owners;    /* the last of two frees it */
};

static void release(struct cuda_waiter *waiter)
{
	if (atomic_fetch_sub_explicit(&waiter->owners, 1, memory_order_acq_rel) != 1)
		return;
	close(waiter->go);
	close(waiter->done);
	free(waiter);
}

static void raise_fd(int fd)
{
	const uint64_t one = 1;
	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

static void lower_fd(int fd)
{
	uint64_t count;
	while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

static void *stand_aside(void *argument)
{
	struct cuda_waiter *waiter = argument;
	void *event;
	waiter->api.context_set(waiter->context);
	for (;;) {
		lower_fd(waiter->go);
		event = atomic_load_explicit(&waiter->event, memory_order_acquire);
		if (event == NULL)
			break;
		waiter->api.event_synchronize(event); /* how it ended is asked by the owner */
		raise_fd(waiter->done);
	}
	release(waiter);
	return NULL;
}

int cuda_waiter_create(struct cuda_waiter **out, const struct cuda_device *device)
{
	struct cuda_waiter *waiter = calloc(1, sizeof(*waiter));
	if (waiter == NULL)
		return -ENOMEM;
	waiter->api = device->api;
	waiter->context = device->context;
	waiter->go = eventfd(0, EFD_CLOEXEC);
	waiter->done = eventfd(0, EFD_CLOEXEC);
	atomic_init(&waiter->owners, 2);
	int error = waiter->go < 0 || waiter->done < 0
			    ? errno
			    : pthread_create(&waiter->thread, NULL, stand_aside, waiter);
	if (error == 0) {
		*out = waiter;
		return 0;
	}
	atomic_store(&waiter->owners, 1);
	release(waiter);
	return -error;
}

void cuda_waiter_destroy(struct cuda_waiter *waiter, bool at_rest)
{
	if (waiter == NULL)
		return;
	atomic_store_explicit(&waiter->event, NULL, memory_order_release);
	raise_fd(waiter->go);
	if (at_rest)
		pthread_join(waiter->thread, NULL);
	else
		pthread_detach(waiter->thread);
	release(waiter);
}

void cuda_waiter_sleep(struct cuda_waiter *waiter, void *event)
{
	struct pollfd look = { .fd = waiter->done, .events = POLLIN };
	if (!waiter->asked) {
		atomic_store_explicit(&waiter->event, event, memory_order_release);
		raise_fd(waiter->go);
		waiter->asked = true;
	}
	if (poll(&look, 1, CUDA_WAIT_MS) == 1) {
		lower_fd(waiter->done);
		waiter->asked = false;
	}
}

void cuda_wait_look(void)
{
	const struct timespec pause = { .tv_nsec = CUDA_LOOK_NS };
	nanosleep(&pause, NULL);
}

void cuda_wait_yield(void)
{
	sched_yield();
}
