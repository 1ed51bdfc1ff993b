/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the test double of libcuda. */
#include "tests/support/mock_cuda_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALLOCATIONS_MAX = 1024 };

static const size_t DEVICE_BYTES = (size_t)1 << 36;

struct allocation {
	uint64_t address;
	size_t size;
};

static struct allocation device_memory[ALLOCATIONS_MAX], host_memory[ALLOCATIONS_MAX];
static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
static char *trap, *alias; /* one memory twice: as the host sees it, and as the device does */
static size_t used;

void mock_memory_map(void)
{
	if (trap != NULL)
		return;
	int fd = memfd_create("mock_cuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)DEVICE_BYTES) != 0)
		abort();
	trap = mmap(NULL, DEVICE_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	alias = mmap(NULL, DEVICE_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	if (trap == MAP_FAILED || alias == MAP_FAILED)
		abort();
}

/* Tables are looked into by the threads of kernels that stay, too. */
static bool inside(const struct allocation *table, uint64_t address, size_t size)
{
	bool found = false;
	pthread_mutex_lock(&tables);
	for (int i = 0; i < ALLOCATIONS_MAX && !found; i++)
		found = table[i].size != 0 && address >= table[i].address &&
			address - table[i].address <= table[i].size &&
			size <= table[i].size - (address - table[i].address);
	pthread_mutex_unlock(&tables);
	return found;
}

static bool add(struct allocation *table, uint64_t address, size_t size)
{
	bool done = false;
	pthread_mutex_lock(&tables);
	for (int i = 0; i < ALLOCATIONS_MAX && !done; i++) {
		if (table[i].size == 0) {
			table[i] = (struct allocation){ address, size };
			done = true;
		}
	}
	pthread_mutex_unlock(&tables);
	return done;
}

/* The size that lay there; 0: nothing. */
static size_t take_out(struct allocation *table, uint64_t address)
{
	size_t size = 0;
	pthread_mutex_lock(&tables);
	for (int i = 0; i < ALLOCATIONS_MAX && size == 0; i++) {
		if (table[i].size != 0 && table[i].address == address) {
			size = table[i].size;
			table[i].size = 0;
		}
	}
	pthread_mutex_unlock(&tables);
	return size;
}

static size_t pages(size_t size)
{
	return (size + 4095) / 4096 * 4096;
}

/* Kernels reach what is allocated, and trap on the pages around it and on what was given back. */
static void open_alias(uint64_t address, size_t size, bool open)
{
	size_t at = (address - (uintptr_t)trap) / 4096 * 4096;
	if (mprotect(alias + at, pages(size), open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
		abort();
}

/* What a kernel may follow: device memory, or pinned host memory. */
void *mock_at(uint64_t address)
{
	if (address >= (uintptr_t)trap && address < (uintptr_t)trap + DEVICE_BYTES &&
		inside(device_memory, address, 1))
		return alias + (address - (uintptr_t)trap);
	if (address != 0 && !inside(host_memory, address, 1)) {
		fprintf(stderr, "mock_cuda: a kernel follows %#lx, which is no memory of its\n",
			(unsigned long)address);
		abort();
	}
	return (void *)(uintptr_t)address;
}

int cuMemAlloc_v2(uint64_t *address, size_t size);
int cuMemAlloc_v2(uint64_t *address, size_t size)
{
	MAY_FAIL();
	if (size == 0 || size > DEVICE_BYTES - used - 8192)
		return size == 0 ? INVALID : NO_MEMORY;
	/* At the end of its pages, as near as a driver's alignment allows. */
	*address = (uintptr_t)trap + used + (pages(size) - (size + 255) / 256 * 256);
	if (!add(device_memory, *address, size))
		return NO_MEMORY;
	open_alias(*address, size, true);
	used += pages(size) + 4096; /* a page between two */
	mock_control.live_device++;
	return OK;
}

int cuMemFree_v2(uint64_t address);
int cuMemFree_v2(uint64_t address)
{
	size_t size = take_out(device_memory, address);
	if (size == 0)
		return INVALID;
	open_alias(address, size, false);
	mock_control.live_device--;
	return OK;
}

int cuMemHostAlloc(void **memory, size_t size, unsigned int flags);
int cuMemHostAlloc(void **memory, size_t size, unsigned int flags)
{
	MAY_FAIL();
	*memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	if (*memory == NULL || (flags & ~7u) != 0 || !add(host_memory, (uintptr_t)*memory, size))
		return NO_MEMORY;
	memset(*memory, 0xa5, size);
	mock_control.live_host++;
	return OK;
}

int cuMemFreeHost(void *memory);
int cuMemFreeHost(void *memory)
{
	if (take_out(host_memory, (uintptr_t)memory) == 0)
		return INVALID;
	free(memory);
	mock_control.live_host--;
	return OK;
}

int cuMemHostRegister_v2(void *memory, size_t size, unsigned int flags);
int cuMemHostRegister_v2(void *memory, size_t size, unsigned int flags)
{
	MAY_FAIL();
	if (flags != 3)
		return INVALID;
	if (!add(host_memory, (uintptr_t)memory, size))
		return NO_MEMORY;
	mock_control.live_registered++;
	return OK;
}

int cuMemHostUnregister(void *memory);
int cuMemHostUnregister(void *memory)
{
	if (take_out(host_memory, (uintptr_t)memory) == 0)
		return INVALID;
	mock_control.live_registered--;
	return OK;
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned int flags);
int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned int flags)
{
	MAY_FAIL();
	if (flags != 0 || !inside(host_memory, (uintptr_t)memory, 1))
		return INVALID;
	*address = (uintptr_t)memory;
	return OK;
}

int cuMemGetHandleForAddressRange(
	void *handle, uint64_t address, size_t size, int type, unsigned long long flags);
int cuMemGetHandleForAddressRange(
	void *handle, uint64_t address, size_t size, int type, unsigned long long flags)
{
	MAY_FAIL();
	if (type != 1 || flags != 0 || !inside(device_memory, address, size) || size % 4096 != 0)
		return INVALID;
	*(int *)handle = memfd_create("mock_cuda_dma_buf", MFD_CLOEXEC);
	return OK;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
	MAY_FAIL();
	if (!inside(device_memory, to, size))
		return INVALID;
	memcpy(mock_at(to), from, size);
	return OK;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
	MAY_FAIL();
	if (!inside(device_memory, to, size) || !inside(host_memory, (uintptr_t)from, size))
		return INVALID;
	const struct op op = { .kind = OP_IN, .copy = { to, (void *)(uintptr_t)from, size } };
	return mock_push(stream, &op);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream)
{
	MAY_FAIL();
	if (!inside(device_memory, from, size) || !inside(host_memory, (uintptr_t)to, size))
		return INVALID;
	const struct op op = { .kind = OP_OUT, .copy = { from, to, size } };
	return mock_push(stream, &op);
}
