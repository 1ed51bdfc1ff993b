/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sheaf command. The only file that knows stdout, stderr, the calendar, signals and exit codes
 * of the process; everything else is given streams and returns codes.
 */
#include "pipeline/command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Set by the signal handler, which can be given nothing; read by the run. */
static atomic_bool stop_requested;

static void request_stop(int number)
{
	(void)number;
	atomic_store_explicit(&stop_requested, true, memory_order_relaxed);
}

/* The first SIGINT, SIGTERM or SIGHUP (its terminal went away) ends a run in order, the second at
 * once. */
static void install_signals(void)
{
	struct sigaction action = { .sa_handler = request_stop, .sa_flags = SA_RESETHAND };
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	/* A closed pipe and a file that may not grow are write errors like others. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

/* The command line as one text; NULL when out of memory. */
static char *join(int argc, char *const *argv)
{
	size_t size = 1, used = 0;
	for (int i = 0; i < argc; i++)
		size += strlen(argv[i]) + 3;
	char *text = malloc(size);
	for (int i = 0; text != NULL && i < argc; i++) {
		bool plain = argv[i][0] != '\0' && strpbrk(argv[i], " \t\n'\"\\$&;|<>*?()") == NULL;
		used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", i == 0 ? "" : " ",
			plain ? "" : "'", argv[i], plain ? "" : "'");
	}
	return text;
}

typedef enum pipeline_exit command_fn(struct command *command, struct options *options);

static command_fn *const commands[OPTIONS_COMMANDS_COUNT] = {
	[OPTIONS_REPLAY] = command_replay,
	[OPTIONS_COMPARE] = command_compare,
	[OPTIONS_TRACE_INFO] = command_trace_info,
	[OPTIONS_TRACE_GEN] = command_trace_gen,
	[OPTIONS_TRACE_CONVERT] = command_trace_convert,
	[OPTIONS_TRACE_ANONYMIZE] = command_trace_anonymize,
	[OPTIONS_TRACE_SCALE] = command_trace_scale,
	[OPTIONS_TRACE_SLICE] = command_trace_slice,
	[OPTIONS_TRACE_MERGE] = command_trace_merge,
	[OPTIONS_TRACE_FILTER] = command_trace_filter,
	[OPTIONS_TRACE_SHUFFLE] = command_trace_shuffle,
	[OPTIONS_TRACE_REGROUP] = command_trace_regroup,
	[OPTIONS_BENCH_LB] = command_bench_lb,
	[OPTIONS_BENCH_DELETION] = command_bench_deletion,
	[OPTIONS_BENCH_SHARING] = command_bench_sharing,
	[OPTIONS_BENCH_TABLES] = command_bench_tables,
	[OPTIONS_INFER_EXPORT] = command_infer_export,
	[OPTIONS_INFER_VERIFY] = command_infer_verify,
	[OPTIONS_INFER_BENCH] = command_infer_bench,
	[OPTIONS_INFER_PROBE] = command_infer_probe,
	[OPTIONS_REPORT] = command_report,
};

static enum pipeline_exit execute(
	struct command *command, enum options_command which, int argc, char *const *argv)
{
	char message[PIPELINE_MESSAGE_SIZE] = "";
	struct options *options;
	enum pipeline_exit code;
	if (options_create(&options, which) != 0)
		return command_error(command, PIPELINE_EXIT_RUN, "out of memory");
	int error = options_parse(options, argc, argv, message);
	if (error != 0)
		code = command_error(command,
			error == -ENOMEM    ? PIPELINE_EXIT_RUN
			: error == -EBADMSG ? PIPELINE_EXIT_INPUT
					    : PIPELINE_EXIT_USAGE,
			"%s", message);
	else if (options->help)
		code = command_help(command, options_command_name(which));
	else if ((code = command_check_json(command, options)) == PIPELINE_EXIT_OK)
		code = commands[which](command, options);
	options_destroy(options);
	return code;
}

/* The command's one or two words at the front of argv; how many, 0 when they are none. */
static int find_command(int argc, char *const *argv, enum options_command *which)
{
	for (enum options_command i = 0; i < OPTIONS_COMMANDS_COUNT; i++) {
		const char *name = options_command_name(i);
		const char *space = strchr(name, ' ');
		if (space == NULL && argc > 0 && strcmp(argv[0], name) == 0) {
			*which = i;
			return 1;
		}
		if (space != NULL && argc > 1 && strcmp(argv[1], space + 1) == 0 &&
			strncmp(argv[0], name, (size_t)(space - name)) == 0 &&
			argv[0][space - name] == '\0') {
			*which = i;
			return 2;
		}
	}
	return 0;
}

static enum pipeline_exit help(struct command *command, int argc, char *const *argv)
{
	char topic[128];
	if (argc == 0)
		return command_help(command, NULL);
	snprintf(topic, sizeof(topic), "%s%s%s%s", argv[0], argc > 1 ? " " : "",
		argc > 1 ? argv[1] : "", argc > 2 ? " ..." : "");
	return command_help(command, topic);
}

static enum pipeline_exit dispatch(struct command *command, int argc, char *const *argv)
{
	enum options_command which;
	char expected[256];
	int words = find_command(argc, argv, &which);
	if (words > 0)
		return execute(command, which, argc - words, argv + words);
	command_words(NULL, argc == 0 ? NULL : "help or version", expected, sizeof(expected));
	if (argc == 0)
		return command_error(command, PIPELINE_EXIT_USAGE,
			"got no command, expected %s; see sheaf help", expected);
	if (strcmp(argv[0], "help") == 0)
		return help(command, argc - 1, argv + 1);
	if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
		return command_help(command, NULL);
	if (strcmp(argv[0], "version") == 0 || strcmp(argv[0], "--version") == 0)
		return command_version(command);
	char second[256];
	command_words(argv[0], NULL, second, sizeof(second));
	bool asks = argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
	if (second[0] != '\0' && asks)
		return command_help(command, argv[0]);
	if (second[0] != '\0')
		return command_error(command, PIPELINE_EXIT_USAGE,
			"%.64s: got '%.64s', expected %s", argv[0], argc > 1 ? argv[1] : "",
			second);
	return command_error(
		command, PIPELINE_EXIT_USAGE, "got '%.64s', expected %s", argv[0], expected);
}

int main(int argc, char **argv)
{
	char date[32] = "";
	time_t now = time(NULL);
	struct tm utc;
	char *typed = join(argc, argv);
	if (gmtime_r(&now, &utc) != NULL)
		strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
	struct command command = {
		.out = stdout,
		.err = stderr,
		.terminal = isatty(STDERR_FILENO) == 1,
		.stop = &stop_requested,
		.typed = typed,
		.date = date,
	};
	install_signals();
	enum pipeline_exit code = dispatch(&command, argc > 0 ? argc - 1 : 0, argv + 1);
	/* What was printed must have arrived. */
	if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == PIPELINE_EXIT_OK)
		code = command_error(
			&command, PIPELINE_EXIT_RUN, "standard output: %s", strerror(errno));
	free(typed);
	return (int)code;
}
