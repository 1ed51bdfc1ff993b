// SPDX-License-Identifier: BSD-2-Clause
/*
 * The emulation of CUDA's device language (a TEST DOUBLE) finds what it is there to find: small
 * kernels, each with one fault, must end the program with the line that names it; the same without
 * the fault must not.
 */
#include "tests/support/cuda_emulation.hpp"

#include <mma.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" thread_local __align__(1024) float shared[];

namespace
{
enum { THREADS = 64 };

/* What a kernel here works on. */
struct work {
	bool fault;
	float out[THREADS];
};

void diverge(const void *argument)
{
	const work *w = (const work *)argument;
	if (!w->fault || threadIdx.x != 3)
		__syncthreads();
}

void two_barriers(const void *argument)
{
	const work *w = (const work *)argument;
	if (w->fault && threadIdx.x % 2 == 0)
		__syncthreads();
	else
		__syncthreads();
}

void overrun(const void *argument)
{
	const work *w = (const work *)argument;
	float *volatile at = shared;
	at[threadIdx.x + (w->fault ? 1 : 0)] = 1;
}

void half_warp(const void *argument)
{
	const work *w = (const work *)argument;
	nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 8, float> sums;
	if (!w->fault || threadIdx.x % 32 < 16)
		nvcuda::wmma::fill_fragment(sums, 0);
	if (!w->fault || threadIdx.x % 32 < 16)
		nvcuda::wmma::store_matrix_sync(shared, sums, 16, nvcuda::wmma::mem_row_major);
	__syncthreads();
}

void crooked(const void *argument)
{
	const work *w = (const work *)argument;
	nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 8, float> sums;
	nvcuda::wmma::fill_fragment(sums, 0);
	nvcuda::wmma::store_matrix_sync(
		shared + (w->fault ? 4 : 0), sums, 16, nvcuda::wmma::mem_row_major);
}

/* No fault that ends anything: a neighbour's number is read, with a barrier before it or without. */
void neighbour(const void *argument)
{
	work *w = (work *)const_cast<void *>(argument);
	shared[threadIdx.x] = (float)threadIdx.x;
	if (!w->fault)
		__syncthreads();
	w->out[threadIdx.x] = shared[(threadIdx.x + 1) % THREADS];
}

const struct {
	const char *name;
	void (*run)(const void *);
	unsigned int shared_floats;
	const char *line; /* or what AddressSanitizer says first */
} cases[] = {
	{ "diverge", diverge, 0, "stands at a __syncthreads() that other threads have passed by" },
	{ "two barriers", two_barriers, 0, "stands at another __syncthreads() than other threads" },
	{ "overrun", overrun, THREADS, "wrote past the end of its shared memory" },
	{ "half a warp", half_warp, 256, "lanes of its warp do not come" },
	{ "crooked", crooked, 260, "a matrix that is not aligned to 32 bytes" },
};

void launch(void (*run)(const void *), work *w, unsigned int shared_floats, uint64_t seed)
{
	emulation::run({ run, w, { 2, 1, 1 }, THREADS, shared_floats * (unsigned int)sizeof(float),
		seed, nullptr });
}

/* How a child ended, and what it said. */
int run_child(
	void (*run)(const void *), unsigned int shared_floats, bool fault, char *text, size_t size)
{
	int pipes[2], status = 0;
	if (pipe(pipes) != 0)
		return -1;
	pid_t child = fork();
	if (child == 0) {
		work w = { fault, {} };
		signal(SIGABRT, SIG_DFL);
		dup2(pipes[1], 2);
		close(pipes[1]);
		close(pipes[0]);
		launch(run, &w, shared_floats, 1);
		_exit(0);
	}
	close(pipes[1]);
	size_t used = 0;
	ssize_t got;
	while (used + 1 < size && (got = read(pipes[0], text + used, size - 1 - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
	close(pipes[0]);
	return waitpid(child, &status, 0) == child ? status : -1;
}

int check_case(size_t i)
{
	static char text[1 << 16];
	int status = run_child(cases[i].run, cases[i].shared_floats, false, text, sizeof(text));
	if (status != 0) {
		printf("%s: fails without its fault: %s\n", cases[i].name, text);
		return 1;
	}
	status = run_child(cases[i].run, cases[i].shared_floats, true, text, sizeof(text));
	bool sanitizer = strstr(text, "AddressSanitizer: use-after-poison") != nullptr;
	if (status == 0 || (strstr(text, cases[i].line) == nullptr && !sanitizer)) {
		printf("%s: status %d, said: %s\n", cases[i].name, status, text);
		return 1;
	}
	return 0;
}

/* Of some orders of threads one at least must show that the barrier is missing. */
int check_orders()
{
	uint32_t wrong[2] = { 0, 0 };
	for (uint64_t seed = 0; seed < 8; seed++) {
		for (int fault = 0; fault < 2; fault++) {
			work w = { fault != 0, {} };
			launch(neighbour, &w, THREADS, seed);
			for (unsigned int i = 0; i < THREADS; i++)
				wrong[fault] += w.out[i] != (float)((i + 1) % THREADS);
		}
	}
	if (wrong[0] == 0 && wrong[1] > 0)
		return 0;
	printf("order: %u wrong with the barrier, %u without\n", wrong[0], wrong[1]);
	return 1;
}
} // namespace

int main()
{
	int failed = check_orders();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		failed += check_case(i);
	printf("%zu faults, %d not found\n", sizeof(cases) / sizeof(cases[0]) + 1, failed);
	return failed != 0;
}
