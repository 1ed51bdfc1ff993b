/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's side of the back end cuda, on a TEST DOUBLE of libcuda: results, late and overtaking
 * batches, every call of the driver failing in turn, devices that hang. No GPU is involved.
 * Arguments: the double, and one that lacks a function.
 */
#include "tests/support/mock_cuda.h"
#include "tests/unit/gpu_offload/kit.h"

#include "base/compiler.h"
#include "base/rng.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IN_FLIGHT = 3, ROWS = 70, BATCHES = 8 };

struct world {
	const char *library, *old_library;
	struct mock_cuda_control *control;
	void *handle;
	uint64_t now_ns, step_ns;
	bool unwatched;
	int device;
};

static uint64_t world_clock(void *clock)
{
	struct world *world = clock;
	world->now_ns += world->step_ns;
	return world->now_ns;
}

/* The double as it is when it was just loaded. */
static void reset(struct world *world)
{
	*world->control = (struct mock_cuda_control){
		.version = 13000, .devices = 1, .processors = 132, .shared_bytes = 232448
	};
	world->now_ns = 0;
	world->step_ns = 1;
}

static int create(struct world *world, const char *name, const struct gpu_offload_model *model,
	enum gpu_offload_cuda_mode mode, struct gpu_offload_backend **backend, char *why)
{
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = ROWS,
		.batches_max = IN_FLIGHT,
		.cuda_mode = mode,
		.cuda_library = world->library,
		.cuda_device = world->device,
		.clock_ns = world->unwatched ? NULL : world_clock,
		.clock = world,
		.watchdog_ns = UINT64_C(1000000000000), /* of a clock that ticks at each look */
	};
	return gpu_offload_backend_create(backend, name, &config, why, GPU_OFFLOAD_MESSAGE_SIZE);
}

static void assert_all_given_back(const struct mock_cuda_control *control)
{
	assert_int_equal(control->live_device, 0);
	assert_int_equal(control->live_host, 0);
	assert_int_equal(control->live_streams, 0);
	assert_int_equal(control->live_events, 0);
	assert_int_equal(control->live_graphs, 0);
	assert_int_equal(control->live_modules, 0);
	assert_int_equal(control->live_contexts, 0);
}

static void compare(const struct gpu_offload_model *model, struct gpu_offload_batch *batch)
{
	struct gpu_offload_backend *oracle = kit_backend(model, "cpu-ref", ROWS);
	struct gpu_offload_batch *expected = kit_batch(model, batch->count);
	uint32_t classes = gpu_offload_model_classes(model);
	memcpy(kit_inputs(expected), batch->inputs,
		(size_t)batch->count * gpu_offload_model_inputs(model) * sizeof(float));
	kit_run(oracle, expected);
	for (uint32_t i = 0; i < batch->count * classes && batch->scores != NULL; i++)
		assert_true(gpu_offload_scores_close(batch->scores[i], expected->scores[i]));
	for (uint32_t r = 0; r < batch->count; r++) {
		const float *scores = expected->scores + (size_t)r * classes;
		assert_true(gpu_offload_scores_close(
			scores[batch->labels[r]], scores[expected->labels[r]]));
	}
	kit_batch_free(expected);
	gpu_offload_backend_destroy(oracle);
}

struct books {
	struct gpu_offload_batch *batches[BATCHES];
	float *scores[BATCHES];
	bool out[BATCHES]; /* with the back end */
	uint32_t back;
};

static void take_back(struct books *books, struct gpu_offload_backend *backend)
{
	struct gpu_offload_batch *done[IN_FLIGHT];
	uint32_t count = gpu_offload_backend_poll(backend, done, IN_FLIGHT);
	for (uint32_t i = 0; i < count; i++) {
		size_t at = 0;
		while (at < BATCHES && books->batches[at] != done[i])
			at++;
		assert_in_range(at, 0, BATCHES - 1);
		assert_true(books->out[at]); /* once */
		books->out[at] = false;
		books->back++;
	}
}

/* All batches through; every one comes back once, with 0 or an error that is known. */
static void run_all(struct gpu_offload_backend *backend, const struct gpu_offload_model *model,
	uint64_t seed, struct books *books)
{
	static const uint32_t counts[BATCHES] = { 1, ROWS, 33, 32, 2, 64, 5, 31 };
	*books = (struct books){ 0 };
	for (int i = 0; i < BATCHES; i++) {
		books->batches[i] = kit_batch(model, counts[i]);
		books->scores[i] = books->batches[i]->scores;
		kit_fill(books->batches[i], model, 2, seed + (uint64_t)i);
		if (i % 3 == 2)
			books->batches[i]->scores = NULL;
		int error;
		while ((error = gpu_offload_backend_submit(backend, books->batches[i])) == -EAGAIN)
			take_back(books, backend);
		assert_int_equal(error, 0);
		books->out[i] = true;
	}
	while (books->back < BATCHES)
		take_back(books, backend);
}

static void judge(const struct gpu_offload_model *model, struct books *books, int *failed)
{
	for (int i = 0; i < BATCHES; i++) {
		struct gpu_offload_batch *batch = books->batches[i];
		if (batch->status == 0) {
			compare(model, batch);
		} else {
			assert_true(batch->status == -EIO || batch->status == -ENOMEM ||
				    batch->status == -ETIMEDOUT);
			*failed = batch->status;
		}
		batch->scores = books->scores[i];
		kit_batch_free(batch);
	}
}

/* A model that is fused and one that is not. */
static struct gpu_offload_model *make_model(struct world *world, bool fused)
{
	const uint32_t widths[] = { 9, 40, 7 };
	struct gpu_offload_model *model;
	assert_int_equal(gpu_offload_model_create_mlp(&model, widths, 3, 3), 0);
	world->control->shared_bytes = fused ? 232448 : 1000;
	return model;
}

static void batches_come_back_right_in_every_mode(void **state)
{
	struct world *world = *state;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	for (int mode = 0; mode < 3; mode++) {
		for (int fused = mode == 2; fused < 2; fused++) {
			for (uint32_t delay = 0; delay < 12; delay += 3) {
				struct gpu_offload_backend *backend;
				struct books books;
				int failed = 0;
				reset(world);
				world->control->delay_max = delay;
				struct gpu_offload_model *model = make_model(world, fused);
				if (create(world, "cuda", model, mode, &backend, why) != 0)
					fail_msg("%s", why);
				assert_non_null(strstr(why, "TEST DOUBLE"));
				run_all(backend, model, delay, &books);
				gpu_offload_backend_destroy(backend);
				judge(model, &books, &failed);
				assert_int_equal(failed, 0);
				assert_all_given_back(world->control);
				if (mode < 2 && delay > 6)
					assert_true(world->control->reordered > 0);
				gpu_offload_model_destroy(model);
			}
		}
	}
}

static const char *const calls[] = { "cuInit", "cuDriverGetVersion", "cuDeviceGetCount",
	"cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
	"cuCtxSetCurrent", "cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute",
	"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemHostGetDevicePointer_v2", "cuMemcpyHtoD_v2",
	"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamCreate", "cuStreamBeginCapture_v2",
	"cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuEventCreate",
	"cuEventRecord", "cuEventQuery", "cuLaunchKernel" };

/* One call of the driver fails, with that error; false: it was not even reached. */
static bool survives(struct world *world, const char *call, uint32_t after, int result, int mode,
	bool fused, bool *seen)
{
	struct gpu_offload_backend *backend;
	struct books books;
	char why[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	reset(world);
	struct gpu_offload_model *model = make_model(world, fused);
	world->control->delay_max = 2;
	world->control->fail_function = call;
	world->control->fail_after = after;
	world->control->fail_result = result;
	int failed = create(world, "cuda", model, mode, &backend, why);
	if (failed == 0) {
		run_all(backend, model, after, &books);
		gpu_offload_backend_destroy(backend);
		judge(model, &books, &failed);
	} else {
		assert_true(strncmp(why, "cuda: ", 6) == 0 && strlen(why) > 8);
		assert_null(strchr(why, '\n'));
	}
	bool reached = world->control->fail_after == 0;
	*seen = *seen || failed != 0;
	assert_all_given_back(world->control);
	gpu_offload_model_destroy(model);
	return reached;
}

static void every_call_may_fail(void **state)
{
	struct world *world = *state;
	static const int results[] = { 2, 719 };
	uint32_t count = 0;
	for (size_t c = 0; c < BASE_ARRAY_COUNT(calls); c++) {
		bool seen = false;
		for (int mode = 0; mode < 3; mode++) {
			for (int fused = mode == 2; fused < 2; fused++) {
				for (int r = 0; r < 2; r++) {
					uint32_t after = 0;
					while (after < 40 &&
						survives(world, calls[c], after, results[r], mode,
							fused, &seen))
						after++;
					count += after;
				}
			}
		}
		if (!seen)
			fail_msg("%s was told to fail and nothing came of it", calls[c]);
	}
	print_message("%u failures of %zu calls\n", count, BASE_ARRAY_COUNT(calls));
	assert_true(count > 500);
}

static void device_that_hangs_is_given_up(void **state)
{
	struct world *world = *state;
	for (int mode = 0; mode < 3; mode++) {
		struct gpu_offload_backend *backend;
		struct books books;
		char why[GPU_OFFLOAD_MESSAGE_SIZE];
		int failed = 0;
		reset(world);
		struct gpu_offload_model *model = make_model(world, true);
		assert_int_equal(create(world, "cuda", model, mode, &backend, why), 0);
		world->control->hang = true;
		world->step_ns = UINT64_C(10000000000);
		run_all(backend, model, 1, &books);
		for (int i = 0; i < BATCHES; i++)
			assert_int_equal(books.batches[i]->status, -ETIMEDOUT);
		gpu_offload_backend_destroy(backend); /* does not wait for it */
		judge(model, &books, &failed);
		assert_int_equal(failed, -ETIMEDOUT);
		gpu_offload_model_destroy(model);
		world->control->hang = false; /* its thread may go */
	}
}

/* One batch that is handed over and not waited for. */
static struct gpu_offload_batch *hand_over(
	struct gpu_offload_backend *backend, const struct gpu_offload_model *model)
{
	struct gpu_offload_batch *batch = kit_batch(model, ROWS);
	assert_int_equal(gpu_offload_backend_submit(backend, batch), 0);
	return batch;
}

static int wait_for(struct gpu_offload_backend *backend, struct gpu_offload_batch *batch)
{
	struct gpu_offload_batch *done;
	while (gpu_offload_backend_poll(backend, &done, 1) == 0)
		;
	assert_ptr_equal(done, batch);
	int status = batch->status;
	kit_batch_free(batch);
	return status;
}

static void assert_lost(
	const struct gpu_offload_backend *backend, int expected, const char *expected_text)
{
	char text[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	assert_int_equal(gpu_offload_backend_lost(backend, text, sizeof(text)), expected);
	assert_string_equal(text, expected_text);
}

static void lost_device_says_why(void **state)
{
	struct world *world = *state;
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	static const struct {
		int result, status;
		const char *text;
	} cases[] = {
		{ 719, -EIO, "TEST DOUBLE of no GPU 0: CUDA_ERROR_LAUNCH_FAILED" },
		{ 2, -ENOMEM, "TEST DOUBLE of no GPU 0: CUDA_ERROR_OUT_OF_MEMORY" },
		{ 12345, -EIO, "TEST DOUBLE of no GPU 0: an unknown error" },
	};
	for (size_t i = 0; i < BASE_ARRAY_COUNT(cases); i++) {
		reset(world);
		struct gpu_offload_model *model = make_model(world, true);
		assert_int_equal(create(world, "cuda", model, 0, &backend, why), 0);
		assert_lost(backend, 0, "");
		world->control->fail_function = "cuEventQuery";
		world->control->fail_result = cases[i].result;
		struct gpu_offload_batch *batch = hand_over(backend, model);
		assert_int_equal(wait_for(backend, batch), cases[i].status);
		assert_lost(backend, cases[i].status, cases[i].text);
		gpu_offload_backend_destroy(backend);
		assert_all_given_back(world->control);
		gpu_offload_model_destroy(model);
	}
}

static void kernel_that_ends_by_itself_is_a_lost_device(void **state)
{
	struct world *world = *state;
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	reset(world);
	struct gpu_offload_model *model = make_model(world, true);
	assert_int_equal(create(world, "cuda", model, 2, &backend, why), 0);
	world->control->quit = true;
	usleep(20000);
	struct gpu_offload_batch *batch = hand_over(backend, model);
	assert_int_equal(wait_for(backend, batch), -EIO);
	assert_lost(backend, -EIO, "TEST DOUBLE of no GPU 0: the kernel that stays has ended");
	gpu_offload_backend_destroy(backend);
	assert_all_given_back(world->control);
	gpu_offload_model_destroy(model);
}

/* Whoever leaves need not have polled; without a watchdog, too. */
static void batches_in_flight_do_not_keep_it_from_ending(void **state)
{
	struct world *world = *state;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	for (int mode = 0; mode < 3; mode++) {
		for (int watched = 0; watched < 2; watched++) {
			struct gpu_offload_backend *backend;
			struct gpu_offload_batch *batches[IN_FLIGHT];
			reset(world);
			struct gpu_offload_model *model = make_model(world, true);
			world->unwatched = !watched;
			assert_int_equal(create(world, "cuda", model, mode, &backend, why), 0);
			world->control->delay_max = 3;
			for (int i = 0; i < IN_FLIGHT; i++)
				batches[i] = hand_over(backend, model);
			gpu_offload_backend_destroy(backend);
			for (int i = 0; i < IN_FLIGHT; i++) {
				assert_int_equal(batches[i]->status, 0);
				kit_batch_free(batches[i]);
			}
			assert_all_given_back(world->control);
			gpu_offload_model_destroy(model);
		}
	}
	world->unwatched = false;
}

/* One submission fails while another batch still runs, and goes on running for ever: what that one
 * may still write is not freed. */
static void memory_of_a_silent_device_is_left_alone(void **state)
{
	struct world *world = *state;
	for (int mode = 0; mode < 2; mode++) {
		struct gpu_offload_backend *backend;
		char why[GPU_OFFLOAD_MESSAGE_SIZE];
		reset(world);
		struct gpu_offload_model *model = make_model(world, true);
		assert_int_equal(create(world, "cuda", model, mode, &backend, why), 0);
		world->control->hang = true;
		world->step_ns = UINT64_C(10000000000);
		struct gpu_offload_batch *first = hand_over(backend, model);
		world->control->fail_function = "cuEventRecord";
		world->control->fail_result = 719;
		struct gpu_offload_batch *second = hand_over(backend, model);
		assert_int_equal(wait_for(backend, first), -EIO);
		assert_int_equal(wait_for(backend, second), -EIO);
		uint32_t device = world->control->live_device, host = world->control->live_host;
		gpu_offload_backend_destroy(backend);
		assert_int_equal(world->control->live_device, device);
		assert_int_equal(world->control->live_host, host);
		assert_true(device > 0 && host == IN_FLIGHT);
		gpu_offload_model_destroy(model);
	}
}

static void lines_say_why_there_is_no_gpu(void **state)
{
	struct world *world = *state;
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	const char *library = world->library;
	reset(world);
	world->control->version = 11080;
	assert_int_equal(create(world, "cuda", model, 0, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: driver: got CUDA 11.8, expected 12.0 or later");
	world->control->devices = 0;
	assert_int_equal(create(world, "cuda", model, 0, &backend, why), -ENODEV);
	assert_string_equal(why, "cuda: no GPU: CUDA_ERROR_NO_DEVICE");
	reset(world);
	world->control->fail_function = "cuModuleLoadData";
	world->control->fail_result = 209;
	assert_int_equal(create(world, "cuda", model, 0, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: kernels for sm_80 and later: CUDA_ERROR_NO_BINARY_FOR_GPU");
	for (world->device = -1; world->device < 2; world->device += 2) {
		char expected[64];
		snprintf(expected, sizeof(expected), "cuda: GPU: got number %d, there are 1",
			world->device);
		reset(world);
		assert_int_equal(create(world, "cuda", model, 0, &backend, why), -ENODEV);
		assert_string_equal(why, expected);
	}
	world->device = 0;
	reset(world);
	world->control->processors = 2;
	assert_int_equal(create(world, "cuda", model, 2, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: mode persistent: got 3 batches in flight, expected 1 .. 2");
	reset(world);
	world->control->shared_bytes = 100;
	assert_int_equal(create(world, "cuda", model, 2, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: mode persistent: only for perceptrons that fit into shared "
				 "memory");
	assert_all_given_back(world->control);
	world->library = world->old_library;
	assert_int_equal(create(world, "cuda", model, 0, &backend, why), -ENOSYS);
	assert_non_null(strstr(why, "has no cuGraphInstantiateWithFlags: the driver is too old"));
	world->library = "/nowhere/libcuda.so";
	assert_int_equal(create(world, "cuda", model, 0, &backend, why), -ENOENT);
	assert_string_equal(why, "cuda: /nowhere/libcuda.so: not found");
	world->library = library;
	gpu_offload_model_destroy(model);
}

static void auto_takes_the_gpu_or_says_why_not(void **state)
{
	struct world *world = *state;
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	reset(world);
	assert_int_equal(create(world, "auto", model, 0, &backend, why), 0);
	assert_string_equal(gpu_offload_backend_name(backend), "cuda");
	gpu_offload_backend_destroy(backend);
	world->control->fail_function = "cuMemAlloc_v2";
	world->control->fail_result = 2;
	assert_int_equal(create(world, "auto", model, 0, &backend, why), 0);
	assert_string_equal(gpu_offload_backend_name(backend), "cpu");
	assert_non_null(strstr(why, "; cuda: no GPU 0: CUDA_ERROR_OUT_OF_MEMORY"));
	gpu_offload_backend_destroy(backend);
	assert_all_given_back(world->control);
	gpu_offload_model_destroy(model);
}

static void find(void *handle, const char *name, void *function)
{
	void *address = dlsym(handle, name);
	if (address == NULL)
		abort();
	memcpy(function, &address, sizeof(address));
}

/* The double would be worth nothing if the host could read device memory. */
static void host_traps_on_device_memory(void **state)
{
	struct world *world = *state;
	int (*init)(unsigned int), (*alloc)(uint64_t *, size_t), (*release)(uint64_t);
	find(world->handle, "cuInit", &init);
	find(world->handle, "cuMemAlloc_v2", &alloc);
	find(world->handle, "cuMemFree_v2", &release);
	uint64_t address;
	int status;
	reset(world);
	assert_int_equal(init(0), 0);
	assert_int_equal(alloc(&address, 64), 0);
	pid_t child = fork();
	if (child == 0) {
		/* Not to be taken for a sanitizer's report. */
		signal(SIGSEGV, SIG_DFL);
		_exit(*(const char *)(uintptr_t)address == 99);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_int_equal(release(address), 0);
}

int main(int argc, char **argv)
{
	struct world world = { .library = argc > 2 ? argv[1] : "",
		.old_library = argc > 2 ? argv[2] : "" };
	world.handle = dlopen(world.library, RTLD_NOW);
	if (world.handle == NULL) {
		print_message("usage: %s DOUBLE OLD_DOUBLE\n", argv[0]);
		return 2;
	}
	struct mock_cuda_control *(*control)(void);
	find(world.handle, "mock_cuda_control", &control);
	world.control = control();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(batches_come_back_right_in_every_mode, &world),
		cmocka_unit_test_prestate(every_call_may_fail, &world),
		cmocka_unit_test_prestate(device_that_hangs_is_given_up, &world),
		cmocka_unit_test_prestate(lost_device_says_why, &world),
		cmocka_unit_test_prestate(kernel_that_ends_by_itself_is_a_lost_device, &world),
		cmocka_unit_test_prestate(batches_in_flight_do_not_keep_it_from_ending, &world),
		cmocka_unit_test_prestate(memory_of_a_silent_device_is_left_alone, &world),
		cmocka_unit_test_prestate(lines_say_why_there_is_no_gpu, &world),
		cmocka_unit_test_prestate(auto_takes_the_gpu_or_says_why_not, &world),
		cmocka_unit_test_prestate(host_traps_on_device_memory, &world),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
