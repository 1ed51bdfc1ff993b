/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The back end cuda on a TEST DOUBLE of libcuda: the caller's memory, ways to wait, and devices
 * that are lost. No GPU is involved.
 */
#include "tests/unit/gpu_offload/cuda_world.h"

#include "base/compiler.h"
#include "gpu_offload/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Inputs are taken from where the caller has them, but for what is copied when that cannot be. */
static void pinned_inputs_are_read_in_place(void **state)
{
	struct world *world = *state;
	enum { BLOCK = 8192 };
	for (int mode = 0; mode < 3; mode++) {
		for (int pinned = 0; pinned < 2; pinned++) {
			struct gpu_offload_backend *backend;
			char why[GPU_OFFLOAD_MESSAGE_SIZE];
			cuda_world_reset(world);
			struct gpu_offload_model *model = cuda_world_model(world, true);
			assert_int_equal(
				cuda_world_backend(world, "cuda", model, mode, &backend, why), 0);
			float *block = aligned_alloc(4096, BLOCK);
			memset(block, 0, BLOCK);
			if (!pinned) {
				world->control->fail_function = "cuMemHostRegister_v2";
				world->control->fail_result = 712;
			}
			assert_int_equal(
				gpu_offload_backend_pin(backend, block, BLOCK), pinned ? 0 : -EIO);
			struct gpu_offload_batch *batch = kit_batch(model, 33);
			float *own = kit_inputs(batch);
			batch->inputs = block + 128;
			kit_fill(batch, model, 2, 5);
			memcpy(own, batch->inputs, 33 * 9 * sizeof(float));
			assert_int_equal(gpu_offload_backend_submit(backend, batch), 0);
			/* The double takes rows when it is asked: it sees what comes after. */
			if (mode != GPU_OFFLOAD_CUDA_PERSISTENT)
				kit_fill(batch, model, 2, 6);
			struct gpu_offload_batch *done;
			while (gpu_offload_backend_poll(backend, &done, 1) == 0)
				;
			assert_int_equal(batch->status, 0);
			if (!pinned)
				batch->inputs = own;
			cuda_world_compare(model, batch);
			gpu_offload_backend_unpin(backend, block);
			assert_int_equal(world->control->live_registered, 0);
			gpu_offload_backend_destroy(backend);
			cuda_world_assert_all_given_back(world->control);
			batch->inputs = own;
			kit_batch_free(batch);
			free(block);
			gpu_offload_model_destroy(model);
		}
	}
}

/* More than there is room for are refused; those of a lost device stay with the driver. */
static void pinned_memory_is_bounded_and_stays_with_a_lost_device(void **state)
{
	struct world *world = *state;
	static unsigned char memory[5][64];
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	cuda_world_reset(world);
	struct gpu_offload_model *model = cuda_world_model(world, true);
	assert_int_equal(cuda_world_backend(world, "cuda", model, 0, &backend, why), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(
			gpu_offload_backend_pin(backend, memory[i], 64), i < 4 ? 0 : -ENOSPC);
	gpu_offload_backend_unpin(backend, memory[1]);
	world->control->hang = true;
	world->step_ns = UINT64_C(10000000000);
	assert_int_equal(
		cuda_world_wait_for(backend, cuda_world_hand_over(backend, model)), -ETIMEDOUT);
	assert_int_equal(gpu_offload_backend_pin(backend, memory[4], 64), -ETIMEDOUT);
	gpu_offload_backend_unpin(backend, memory[0]);
	assert_int_equal(world->control->live_registered, 3);
	gpu_offload_backend_destroy(backend);
	assert_int_equal(world->control->live_registered, 3);
	gpu_offload_model_destroy(model);
	/* The double is told, so that its table is as it was. */
	int (*unregister)(void *);
	cuda_world_find(world->handle, "cuMemHostUnregister", &unregister);
	for (int i = 0; i < 4; i++)
		assert_int_equal(unregister(memory[i]), i == 1);
}

static void hosts_wait_in_three_ways(void **state)
{
	struct world *world = *state;
	for (int mode = 0; mode < 3; mode++) {
		for (int wait = 0; wait < GPU_OFFLOAD_WAITS_COUNT; wait++) {
			for (int fails = 0; fails < 2; fails++) {
				struct gpu_offload_backend *backend;
				struct books books;
				char why[GPU_OFFLOAD_MESSAGE_SIZE];
				int failed = 0;
				cuda_world_reset(world);
				world->control->delay_max = 8;
				struct gpu_offload_model *model = cuda_world_model(world, true);
				world->wait = wait;
				if (fails) { /* whoever sleeps finds out at the next poll */
					world->control->fail_function = "cuEventSynchronize";
					world->control->fail_result = 719;
				}
				assert_int_equal(cuda_world_backend(
							 world, "cuda", model, mode, &backend, why),
					0);
				cuda_world_run_all(backend, model, 3, &books);
				gpu_offload_backend_wait(backend); /* nothing to wait for */
				gpu_offload_backend_destroy(backend);
				cuda_world_judge(model, &books, &failed);
				assert_int_equal(failed, 0);
				cuda_world_assert_all_given_back(world->control);
				gpu_offload_model_destroy(model);
			}
		}
	}
	world->wait = GPU_OFFLOAD_WAIT_POLL;
}

/* A thread that sleeps with the driver is left behind; its owner is not. */
static void hang_does_not_keep_who_sleeps(void **state)
{
	struct world *world = *state;
	for (int mode = 0; mode < 3; mode++) {
		struct gpu_offload_backend *backend;
		struct books books;
		char why[GPU_OFFLOAD_MESSAGE_SIZE];
		int failed = 0;
		cuda_world_reset(world);
		struct gpu_offload_model *model = cuda_world_model(world, true);
		world->wait = GPU_OFFLOAD_WAIT_BLOCK;
		assert_int_equal(cuda_world_backend(world, "cuda", model, mode, &backend, why), 0);
		world->control->hang = true;
		world->step_ns = UINT64_C(100000000000);
		cuda_world_run_all(backend, model, 1, &books);
		cuda_world_assert_lost(
			backend, -ETIMEDOUT, "TEST DOUBLE of no GPU 0: no answer within 1e+03 s");
		gpu_offload_backend_destroy(backend);
		cuda_world_judge(model, &books, &failed);
		assert_int_equal(failed, -ETIMEDOUT);
		gpu_offload_model_destroy(model);
		world->control->hang = false; /* its threads may go */
		usleep(10000);
	}
	world->wait = GPU_OFFLOAD_WAIT_POLL;
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
		cuda_world_reset(world);
		struct gpu_offload_model *model = cuda_world_model(world, true);
		assert_int_equal(cuda_world_backend(world, "cuda", model, 0, &backend, why), 0);
		cuda_world_assert_lost(backend, 0, "");
		world->control->fail_function = "cuEventQuery";
		world->control->fail_result = cases[i].result;
		struct gpu_offload_batch *batch = cuda_world_hand_over(backend, model);
		assert_int_equal(cuda_world_wait_for(backend, batch), cases[i].status);
		cuda_world_assert_lost(backend, cases[i].status, cases[i].text);
		gpu_offload_backend_destroy(backend);
		cuda_world_assert_all_given_back(world->control);
		gpu_offload_model_destroy(model);
	}
}

static void kernel_that_ends_by_itself_is_a_lost_device(void **state)
{
	struct world *world = *state;
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	cuda_world_reset(world);
	struct gpu_offload_model *model = cuda_world_model(world, true);
	assert_int_equal(cuda_world_backend(world, "cuda", model, 2, &backend, why), 0);
	world->control->quit = true;
	usleep(20000);
	struct gpu_offload_batch *batch = cuda_world_hand_over(backend, model);
	assert_int_equal(cuda_world_wait_for(backend, batch), -EIO);
	cuda_world_assert_lost(
		backend, -EIO, "TEST DOUBLE of no GPU 0: the kernel that stays has ended");
	gpu_offload_backend_destroy(backend);
	cuda_world_assert_all_given_back(world->control);
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
			cuda_world_reset(world);
			struct gpu_offload_model *model = cuda_world_model(world, true);
			world->unwatched = !watched;
			assert_int_equal(
				cuda_world_backend(world, "cuda", model, mode, &backend, why), 0);
			world->control->delay_max = 3;
			for (int i = 0; i < IN_FLIGHT; i++)
				batches[i] = cuda_world_hand_over(backend, model);
			gpu_offload_backend_destroy(backend);
			for (int i = 0; i < IN_FLIGHT; i++) {
				assert_int_equal(batches[i]->status, 0);
				kit_batch_free(batches[i]);
			}
			cuda_world_assert_all_given_back(world->control);
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
		cuda_world_reset(world);
		struct gpu_offload_model *model = cuda_world_model(world, true);
		assert_int_equal(cuda_world_backend(world, "cuda", model, mode, &backend, why), 0);
		world->control->hang = true;
		world->step_ns = UINT64_C(10000000000);
		struct gpu_offload_batch *first = cuda_world_hand_over(backend, model);
		world->control->fail_function = "cuEventRecord";
		world->control->fail_result = 719;
		struct gpu_offload_batch *second = cuda_world_hand_over(backend, model);
		assert_int_equal(cuda_world_wait_for(backend, first), -EIO);
		assert_int_equal(cuda_world_wait_for(backend, second), -EIO);
		uint32_t device = world->control->live_device, host = world->control->live_host;
		gpu_offload_backend_destroy(backend);
		assert_int_equal(world->control->live_device, device);
		assert_int_equal(world->control->live_host, host);
		assert_true(device > 0 && host == IN_FLIGHT);
		gpu_offload_model_destroy(model);
	}
}

/* What sleeping needs of the system may be used up. */
static void sleeping_that_cannot_be_had_is_told(void **state)
{
	struct world *world = *state;
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	struct rlimit before;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	int next = dup(0);
	assert_true(next >= 0);
	close(next);
	for (rlim_t room = 0; room < 2; room++) { /* for none, and for one of two */
		const struct rlimit few = { (rlim_t)next + room, before.rlim_max };
		cuda_world_reset(world);
		struct gpu_offload_model *model = cuda_world_model(world, true);
		world->wait = GPU_OFFLOAD_WAIT_BLOCK;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		/* The library itself wants a descriptor while it is loaded: it is there already. */
		int error = cuda_world_backend(world, "cuda", model, 0, &backend, why);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(error, -EMFILE);
		assert_string_equal(why, "cuda: no GPU 0: Too many open files");
		cuda_world_assert_all_given_back(world->control);
		gpu_offload_model_destroy(model);
	}
	world->wait = GPU_OFFLOAD_WAIT_POLL;
}

static uint64_t clock_of_world(void *clock)
{
	struct world *world = clock;
	return world->now_ns += world->step_ns;
}

static int measure(struct world *world, const struct gpu_offload_model *model,
	struct gpu_offload_gpu_rates *rates, char *why)
{
	static const uint32_t sizes[] = { 3, 40 };
	const struct gpu_offload_backend_config config = {
		.model = model,
		.rows_max = 40,
		.cuda_library = world->library,
		.clock_ns = clock_of_world,
		.clock = world,
		.watchdog_ns = UINT64_C(1000000000000),
	};
	why[0] = '\0';
	return gpu_offload_gpu_measure(rates, &config, sizes, 2, 1, why, GPU_OFFLOAD_MESSAGE_SIZE);
}

static void rates_are_measured_or_say_why_not(void **state)
{
	struct world *world = *state;
	static const char *const calls[] = { "cuInit", "cuModuleLoadData", "cuMemAlloc_v2",
		"cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuEventRecord",
		"cuEventQuery", "cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
		"cuLaunchKernel" };
	struct gpu_offload_gpu_rates rates;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	for (int fused = 0; fused < 2; fused++) {
		cuda_world_reset(world);
		struct gpu_offload_model *model = cuda_world_model(world, fused);
		assert_int_equal(measure(world, model, &rates, why), 0);
		assert_true(rates.is_double && rates.to_device > 0 && rates.to_host > 0 &&
			    rates.both > 0 && rates.sizes_count == 2 && rates.rows_per_s[1] > 0);
		cuda_world_assert_all_given_back(world->control);
		for (size_t c = 0; c < BASE_ARRAY_COUNT(calls); c++) {
			for (uint32_t after = 0; after < 3; after++) {
				world->control->fail_function = calls[c];
				world->control->fail_after = after;
				world->control->fail_result = 719;
				if (measure(world, model, &rates, why) != 0)
					assert_non_null(strstr(why, "CUDA_ERROR_LAUNCH_FAILED"));
				else
					assert_true(after > 0);
				cuda_world_assert_all_given_back(world->control);
			}
		}
		world->control->fail_function = NULL;
		world->control->hang = true;
		world->step_ns = UINT64_C(10000000000);
		assert_int_equal(measure(world, model, &rates, why), -ETIMEDOUT);
		assert_string_equal(why, "no GPU 0: no answer within 1e+03 s");
		gpu_offload_model_destroy(model);
	}
	world->control->hang = false;
}

static void probe_tells_what_the_driver_does_not(void **state)
{
	struct world *world = *state;
	struct gpu_offload_gpu_info info;
	char why[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	static const char *const calls[] = { "cuDeviceTotalMem_v2", "cuDeviceGetPCIBusId",
		"cuMemAlloc_v2", "cuMemGetHandleForAddressRange" };
	for (size_t c = 0; c < BASE_ARRAY_COUNT(calls); c++) {
		cuda_world_reset(world);
		world->control->fail_function = calls[c];
		world->control->fail_result = 2;
		assert_int_equal(
			gpu_offload_gpu_probe(&info, world->library, 0, why, sizeof(why)), 0);
		assert_true(info.is_double);
		assert_int_equal(info.memory_bytes, c == 0 ? 0 : UINT64_C(1) << 36);
		assert_string_equal(info.pci, c == 1 ? "" : "0000:00:00.0");
		assert_int_equal(info.dma_buf_exported, c < 2);
		assert_string_equal(info.dma_buf_text, c < 2 ? "" : "CUDA_ERROR_OUT_OF_MEMORY");
		cuda_world_assert_all_given_back(world->control);
	}
	for (int again = 0; again < 2; again++) { /* what was known a moment ago */
		cuda_world_reset(world);
		world->control->fail_function = again ? "cuDriverGetVersion" : "cuDeviceGetCount";
		world->control->fail_after = 1;
		world->control->fail_result = 2;
		assert_int_equal(
			gpu_offload_gpu_probe(&info, world->library, 0, why, sizeof(why)), 0);
		assert_int_equal(again ? info.driver : info.devices, -1);
	}
	cuda_world_reset(world);
	world->control->version = 11080;
	assert_int_equal(
		gpu_offload_gpu_probe(&info, world->library, 0, why, sizeof(why)), -ENOTSUP);
	assert_string_equal(why, "driver: got CUDA 11.8, expected 12.0 or later");
	cuda_world_assert_all_given_back(world->control);
}

int main(int argc, char **argv)
{
	struct world world;
	if (cuda_world_open(&world, argc, argv) != 0)
		return 2;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(pinned_inputs_are_read_in_place, &world),
		cmocka_unit_test_prestate(
			pinned_memory_is_bounded_and_stays_with_a_lost_device, &world),
		cmocka_unit_test_prestate(hosts_wait_in_three_ways, &world),
		cmocka_unit_test_prestate(hang_does_not_keep_who_sleeps, &world),
		cmocka_unit_test_prestate(sleeping_that_cannot_be_had_is_told, &world),
		cmocka_unit_test_prestate(rates_are_measured_or_say_why_not, &world),
		cmocka_unit_test_prestate(probe_tells_what_the_driver_does_not, &world),
		cmocka_unit_test_prestate(lost_device_says_why, &world),
		cmocka_unit_test_prestate(kernel_that_ends_by_itself_is_a_lost_device, &world),
		cmocka_unit_test_prestate(batches_in_flight_do_not_keep_it_from_ending, &world),
		cmocka_unit_test_prestate(memory_of_a_silent_device_is_left_alone, &world),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
