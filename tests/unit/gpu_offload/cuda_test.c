/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's side of the back end cuda, on a TEST DOUBLE of libcuda: results, late and overtaking
 * batches, every call of the driver failing in turn. No GPU is involved.
 */
#include "tests/unit/gpu_offload/cuda_world.h"

#include "base/compiler.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
				cuda_world_reset(world);
				world->control->delay_max = delay;
				struct gpu_offload_model *model = cuda_world_model(world, fused);
				if (cuda_world_backend(world, "cuda", model, mode, &backend, why) !=
					0)
					fail_msg("%s", why);
				assert_non_null(strstr(why, "TEST DOUBLE"));
				cuda_world_run_all(backend, model, delay, &books);
				gpu_offload_backend_destroy(backend);
				cuda_world_judge(model, &books, &failed);
				assert_int_equal(failed, 0);
				cuda_world_assert_all_given_back(world->control);
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
	"cuMemAlloc_v2", "cuMemHostAlloc", "cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2",
	"cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamCreate",
	"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
	"cuGraphLaunch", "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuLaunchKernel" };

/* One call of the driver fails, with that error; false: it was not even reached. */
static bool survives(struct world *world, const char *call, uint32_t after, int result, int mode,
	bool fused, bool *seen)
{
	struct gpu_offload_backend *backend;
	struct books books;
	char why[GPU_OFFLOAD_MESSAGE_SIZE] = "";
	cuda_world_reset(world);
	struct gpu_offload_model *model = cuda_world_model(world, fused);
	world->control->delay_max = 2;
	world->control->fail_function = call;
	world->control->fail_after = after;
	world->control->fail_result = result;
	/* Memory of no batch: what comes of it is only whether it is given back. */
	float *block = aligned_alloc(4096, 8192);
	assert_non_null(block);
	world->wait = after % GPU_OFFLOAD_WAITS_COUNT;
	int failed = cuda_world_backend(world, "cuda", model, mode, &backend, why);
	if (failed == 0) {
		*seen |= gpu_offload_backend_pin(backend, block, 8192) != 0;
		cuda_world_run_all(backend, model, after, &books);
		gpu_offload_backend_destroy(backend);
		cuda_world_judge(model, &books, &failed);
	} else {
		assert_true(strncmp(why, "cuda: ", 6) == 0 && strlen(why) > 8);
		assert_null(strchr(why, '\n'));
	}
	free(block);
	world->wait = GPU_OFFLOAD_WAIT_POLL;
	bool reached = world->control->fail_after == 0;
	*seen = *seen || failed != 0;
	cuda_world_assert_all_given_back(world->control);
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
		cuda_world_reset(world);
		struct gpu_offload_model *model = cuda_world_model(world, true);
		assert_int_equal(cuda_world_backend(world, "cuda", model, mode, &backend, why), 0);
		world->control->hang = true;
		world->step_ns = UINT64_C(10000000000);
		cuda_world_run_all(backend, model, 1, &books);
		for (int i = 0; i < BATCHES; i++)
			assert_int_equal(books.batches[i]->status, -ETIMEDOUT);
		gpu_offload_backend_destroy(backend); /* does not wait for it */
		cuda_world_judge(model, &books, &failed);
		assert_int_equal(failed, -ETIMEDOUT);
		gpu_offload_model_destroy(model);
		world->control->hang = false; /* its thread may go */
	}
}

static void lines_say_why_there_is_no_gpu(void **state)
{
	struct world *world = *state;
	struct gpu_offload_model *model = kit_small_model();
	struct gpu_offload_backend *backend;
	char why[GPU_OFFLOAD_MESSAGE_SIZE];
	const char *library = world->library;
	cuda_world_reset(world);
	world->control->version = 11080;
	assert_int_equal(cuda_world_backend(world, "cuda", model, 0, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: driver: got CUDA 11.8, expected 12.0 or later");
	world->control->devices = 0;
	assert_int_equal(cuda_world_backend(world, "cuda", model, 0, &backend, why), -ENODEV);
	assert_string_equal(why, "cuda: no GPU: CUDA_ERROR_NO_DEVICE");
	cuda_world_reset(world);
	world->control->fail_function = "cuModuleLoadData";
	world->control->fail_result = 209;
	assert_int_equal(cuda_world_backend(world, "cuda", model, 0, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: kernels for sm_80 and later: CUDA_ERROR_NO_BINARY_FOR_GPU");
	for (world->device = -1; world->device < 2; world->device += 2) {
		char expected[64];
		snprintf(expected, sizeof(expected), "cuda: GPU: got number %d, there are 1",
			world->device);
		cuda_world_reset(world);
		assert_int_equal(
			cuda_world_backend(world, "cuda", model, 0, &backend, why), -ENODEV);
		assert_string_equal(why, expected);
	}
	world->device = 0;
	cuda_world_reset(world);
	world->control->processors = 2;
	assert_int_equal(cuda_world_backend(world, "cuda", model, 2, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: mode persistent: got 3 batches in flight, expected 1 .. 2");
	cuda_world_reset(world);
	world->control->shared_bytes = 100;
	assert_int_equal(cuda_world_backend(world, "cuda", model, 2, &backend, why), -ENOTSUP);
	assert_string_equal(why, "cuda: mode persistent: only for perceptrons that fit into shared "
				 "memory");
	cuda_world_assert_all_given_back(world->control);
	world->library = world->old_library;
	assert_int_equal(cuda_world_backend(world, "cuda", model, 0, &backend, why), -ENOSYS);
	assert_non_null(strstr(why, "has no cuGraphInstantiateWithFlags: the driver is too old"));
	world->library = "/nowhere/libcuda.so";
	assert_int_equal(cuda_world_backend(world, "cuda", model, 0, &backend, why), -ENOENT);
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
	cuda_world_reset(world);
	assert_int_equal(cuda_world_backend(world, "auto", model, 0, &backend, why), 0);
	assert_string_equal(gpu_offload_backend_name(backend), "cuda");
	gpu_offload_backend_destroy(backend);
	world->control->fail_function = "cuMemAlloc_v2";
	world->control->fail_result = 2;
	assert_int_equal(cuda_world_backend(world, "auto", model, 0, &backend, why), 0);
	assert_string_equal(gpu_offload_backend_name(backend), "cpu");
	assert_non_null(strstr(why, "; cuda: no GPU 0: CUDA_ERROR_OUT_OF_MEMORY"));
	gpu_offload_backend_destroy(backend);
	cuda_world_assert_all_given_back(world->control);
	gpu_offload_model_destroy(model);
}

/* The double would be worth nothing if the host could read device memory. */
static void host_traps_on_device_memory(void **state)
{
	struct world *world = *state;
	int (*init)(unsigned int), (*alloc)(uint64_t *, size_t), (*release)(uint64_t);
	cuda_world_find(world->handle, "cuInit", &init);
	cuda_world_find(world->handle, "cuMemAlloc_v2", &alloc);
	cuda_world_find(world->handle, "cuMemFree_v2", &release);
	uint64_t address;
	int status;
	cuda_world_reset(world);
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
	struct world world;
	if (cuda_world_open(&world, argc, argv) != 0)
		return 2;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(batches_come_back_right_in_every_mode, &world),
		cmocka_unit_test_prestate(every_call_may_fail, &world),
		cmocka_unit_test_prestate(device_that_hangs_is_given_up, &world),
		cmocka_unit_test_prestate(lines_say_why_there_is_no_gpu, &world),
		cmocka_unit_test_prestate(auto_takes_the_gpu_or_says_why_not, &world),
		cmocka_unit_test_prestate(host_traps_on_device_memory, &world),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
