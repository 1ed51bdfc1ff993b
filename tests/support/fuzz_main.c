/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a fuzz harness as a plain test: every file and every file of every directory given as an
 * argument is one input. libFuzzer brings its own main instead. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path, unsigned int *inputs_count)
{
	FILE *file = fopen(path, "rb");
	if (file == NULL) {
		perror(path);
		return 1;
	}
	size_t size = 0, capacity = 1 << 16;
	uint8_t *data = malloc(capacity);
	size_t got;
	while (data != NULL && (got = fread(data + size, 1, capacity - size, file)) > 0) {
		size += got;
		if (size == capacity)
			data = realloc(data, capacity *= 2);
	}
	fclose(file);
	if (data == NULL)
		return 1;
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	(*inputs_count)++;
	return 0;
}

static int run_directory(const char *path, unsigned int *inputs_count)
{
	struct dirent **entries;
	int count = scandir(path, &entries, NULL, alphasort);
	if (count < 0) {
		perror(path);
		return 1;
	}
	int failed = 0;
	for (int i = 0; i < count; i++) {
		char file[4096];
		struct stat status;
		snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
		if (stat(file, &status) == 0 && S_ISREG(status.st_mode))
			failed |= run_file(file, inputs_count);
		free(entries[i]);
	}
	free(entries);
	return failed;
}

int main(int argc, char **argv)
{
	int failed = 0;
	unsigned int inputs_count = 0;
	for (int i = 1; i < argc; i++) {
		struct stat status;
		if (stat(argv[i], &status) != 0) {
			perror(argv[i]);
			failed = 1;
		} else if (S_ISDIR(status.st_mode)) {
			failed |= run_directory(argv[i], &inputs_count);
		} else {
			failed |= run_file(argv[i], &inputs_count);
		}
	}
	printf("%u inputs\n", inputs_count);
	return failed || inputs_count == 0;
}
