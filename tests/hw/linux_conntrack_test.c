/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same packets through Linux's connection tracker and through sheaf's. A network namespace of
 * its own forwards between two tun devices; what is written into one passes nf_conntrack and comes
 * out of the other, marked by an nftables rule with what Linux took it for. After each packet
 * `conntrack -L` tells the connection's state. Both trackers must say what the script says of them
 * (tests/support/conn_script.h), differences included.
 *
 *	linux_conntrack_test [--show] [NAME]         scripts whose name contains NAME
 *	linux_conntrack_test --random COUNT [SEED]   conversations by chance: both must say the same
 *
 * Needs root, network namespaces, /dev/net/tun, nf_conntrack, ip, nft and conntrack; exit status 77
 * with the reason when one is missing.
 */
#include "base/parse.h"
#include "conntrack/conntrack.h"
#include "tests/hw/random_talk.h"
#include "tests/support/conn_script.h"
#include "tests/support/packets.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, ANSWER_MS = 300, SECOND_NS = 1000000000 };

/* What the rules write into a packet's DSCP. */
enum mark { MARK_NEW = 1, MARK_ESTABLISHED, MARK_RELATED, MARK_INVALID, MARK_UNTRACKED };

static const char rules[] = "table inet sheaf {\n"
			    "chain marks {\n"
			    "type filter hook forward priority 0;\n"
			    "ct state new ip dscp set 1\n"
			    "ct state established ip dscp set 2\n"
			    "ct state related ip dscp set 3\n"
			    "ct state invalid ip dscp set 4\n"
			    "ct state untracked ip dscp set 5\n"
			    "ct state new ip6 dscp set 1\n"
			    "ct state established ip6 dscp set 2\n"
			    "ct state related ip6 dscp set 3\n"
			    "ct state invalid ip6 dscp set 4\n"
			    "ct state untracked ip6 dscp set 5\n"
			    "}\n"
			    "}\n";

struct world {
	int device[2]; /* client's side, server's side */
	struct base_arena *arena;
	struct base_parser *parser;
	bool show;
	unsigned int failures;
};

/* One script on its way. */
struct run {
	struct world *world;
	struct conn_reader reader;
	struct conntrack *tracker;
	struct packets_pool pool;
	struct base_flow_key key; /* of the first packet */
	uint64_t started_ns;
	unsigned long linux_id; /* 0: none */
	unsigned long linux_packets;
};

static _Noreturn void skip(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	printf("skipped: ");
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	exit(SKIPPED);
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static int device_open(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		skip("/dev/net/tun: %s", strerror(errno));
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, TUNSETIFF, &request) != 0)
		skip("no tun device can be made: %s", strerror(errno));
	return fd;
}

static void command(const char *line)
{
	char quiet[512];
	snprintf(quiet, sizeof(quiet), "%s >/dev/null 2>&1", line);
	if (system(quiet) != 0)
		skip("cannot be set up here: '%s' failed", line);
}

/* Of this namespace. False: there is none of that name. */
static bool set(const char *name, const char *value)
{
	char path[256];
	snprintf(path, sizeof(path), "/proc/sys/net/%s", name);
	FILE *file = fopen(path, "w");
	if (file == NULL)
		return false;
	bool written = fputs(value, file) >= 0;
	return fclose(file) == 0 && written;
}

static void need_program(const char *name, const char *package)
{
	char line[128];
	snprintf(line, sizeof(line), "command -v %s >/dev/null 2>&1", name);
	if (system(line) != 0)
		skip("needs %s (Debian package %s)", name, package);
}

static bool has_conntrack(void)
{
	return access("/proc/sys/net/netfilter/nf_conntrack_max", F_OK) == 0;
}

static void load_rules(void)
{
	FILE *nft = popen("nft -f - >/dev/null 2>&1", "w");
	if (nft == NULL || fputs(rules, nft) < 0 || pclose(nft) != 0)
		skip("%s", has_conntrack() ? "this kernel's nf_tables knows no 'ct state'"
					   : "this kernel has no nf_conntrack");
}

/* Linux's defaults, whatever the distribution has made of them; and accounting. */
static void set_options(void)
{
	static const struct {
		const char *name, *value;
	} options[] = { { "tcp_timeout_syn_sent", "120" }, { "tcp_timeout_syn_recv", "60" },
		{ "tcp_timeout_established", "432000" }, { "tcp_timeout_fin_wait", "120" },
		{ "tcp_timeout_close_wait", "60" }, { "tcp_timeout_last_ack", "30" },
		{ "tcp_timeout_time_wait", "120" }, { "tcp_timeout_close", "10" },
		{ "tcp_timeout_max_retrans", "300" }, { "tcp_timeout_unacknowledged", "300" },
		{ "udp_timeout", "30" }, { "udp_timeout_stream", "120" }, { "icmp_timeout", "30" },
		{ "icmpv6_timeout", "30" }, { "generic_timeout", "600" }, { "gre_timeout", "30" },
		{ "gre_timeout_stream", "180" }, { "checksum", "1" }, { "tcp_max_retrans", "3" },
		{ "acct", "1" } };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(options); i++) {
		char name[96];
		snprintf(name, sizeof(name), "netfilter/nf_conntrack_%s", options[i].name);
		if (!set(name, options[i].value))
			skip("/proc/sys/net/%s cannot be written", name);
	}
}

static void set_up(struct world *world)
{
	if (geteuid() != 0)
		skip("needs root");
	need_program("ip", "iproute2");
	need_program("nft", "nftables");
	need_program("conntrack", "conntrack");
	if (unshare(CLONE_NEWNET) != 0)
		skip("no network namespaces here: %s", strerror(errno));
	if (!has_conntrack())
		(void)!system("modprobe nf_conntrack >/dev/null 2>&1");
	world->device[0] = device_open("client");
	world->device[1] = device_open("server");
	command("ip addr add 10.1.255.254/16 dev client");
	command("ip addr add 10.2.255.254/16 dev server");
	command("ip -6 addr add 2001:db8:1::ffff/64 dev client nodad");
	command("ip -6 addr add 2001:db8:2::ffff/64 dev server nodad");
	command("ip link set client up");
	command("ip link set server up");
	/* fails where the path does not exist, which the packets will show */
	set("ipv4/conf/all/rp_filter", "0");
	set("ipv4/conf/client/rp_filter", "0");
	set("ipv4/conf/server/rp_filter", "0");
	if (!set("ipv4/ip_forward", "1") || !set("ipv6/conf/all/forwarding", "1"))
		skip("forwarding cannot be turned on");
	load_rules();
	if (!has_conntrack())
		skip("this kernel has no nf_conntrack");
	set_options();

	struct base_parse_config parse;
	base_parse_config_defaults(&parse);
	parse.verify_checksums = true;
	if (base_arena_create(&world->arena, false) != 0 ||
		base_parser_create(&world->parser, &parse) != 0)
		skip("out of memory");
}

/* ---- Linux ---------------------------------------------------------------------------------- */

/* DSCP of the packet when it comes out of the other side; -1: it does not. Others (the kernel's own
 * router solicitations) are passed over. */
static int come_out(int device, const uint8_t *sent)
{
	uint8_t bytes[CONN_FRAME_MAX];
	struct pollfd wait = { .fd = device, .events = POLLIN };
	uint64_t until_ns = now_ns() + (uint64_t)ANSWER_MS * 1000000;
	size_t at = sent[0] >> 4 == 6 ? 8 : 12, size = sent[0] >> 4 == 6 ? 32 : 8;
	while (now_ns() < until_ns) {
		if (poll(&wait, 1, ANSWER_MS) <= 0)
			break;
		ssize_t len = read(device, bytes, sizeof(bytes));
		if (len < 20 || bytes[0] >> 4 != sent[0] >> 4 ||
			memcmp(bytes + at, sent + at, size) != 0)
			continue;
		return bytes[0] >> 4 == 6 ? (bytes[0] & 15) << 2 | bytes[1] >> 6 : bytes[1] >> 2;
	}
	return -1;
}

static void drain(int device)
{
	uint8_t bytes[CONN_FRAME_MAX];
	while (read(device, bytes, sizeof(bytes)) > 0)
		;
}

/* "tcp 6 431999 ESTABLISHED src=...": the state by its name there, or by what stands for one. */
static int linux_state(const char *protocol, const char *line)
{
	static const struct {
		const char *word;
		enum conntrack_state state;
	} sctp[] = { { " CLOSED ", CONNTRACK_STATE_SCTP_CLOSED },
		{ " COOKIE_WAIT ", CONNTRACK_STATE_SCTP_COOKIE_WAIT },
		{ " COOKIE_ECHOED ", CONNTRACK_STATE_SCTP_COOKIE_ECHOED },
		{ " ESTABLISHED ", CONNTRACK_STATE_SCTP_ESTABLISHED },
		{ " SHUTDOWN_SENT ", CONNTRACK_STATE_SCTP_SHUTDOWN_SENT },
		{ " SHUTDOWN_RECD ", CONNTRACK_STATE_SCTP_SHUTDOWN_RECD },
		{ " SHUTDOWN_ACK_SENT ", CONNTRACK_STATE_SCTP_SHUTDOWN_ACK_SENT },
		{ " HEARTBEAT_SENT ", CONNTRACK_STATE_SCTP_HEARTBEAT_SENT } },
	  tcp[] = { { " SYN_SENT ", CONNTRACK_STATE_TCP_SYN_SENT },
		  { " SYN_SENT2 ", CONNTRACK_STATE_TCP_SYN_SENT2 },
		  { " SYN_RECV ", CONNTRACK_STATE_TCP_SYN_RECV },
		  { " ESTABLISHED ", CONNTRACK_STATE_TCP_ESTABLISHED },
		  { " FIN_WAIT ", CONNTRACK_STATE_TCP_FIN_WAIT },
		  { " CLOSE_WAIT ", CONNTRACK_STATE_TCP_CLOSE_WAIT },
		  { " LAST_ACK ", CONNTRACK_STATE_TCP_LAST_ACK },
		  { " TIME_WAIT ", CONNTRACK_STATE_TCP_TIME_WAIT },
		  { " CLOSE ", CONNTRACK_STATE_TCP_CLOSE } };
	bool unreplied = strstr(line, "[UNREPLIED]") != NULL;
	bool assured = strstr(line, "[ASSURED]") != NULL;
	if (strcmp(protocol, "udp") == 0)
		return unreplied ? CONNTRACK_STATE_UDP_UNREPLIED
		       : assured ? CONNTRACK_STATE_UDP_STREAM
				 : CONNTRACK_STATE_UDP_REPLIED;
	if (strcmp(protocol, "gre") == 0)
		return unreplied ? CONNTRACK_STATE_GRE_UNREPLIED : CONNTRACK_STATE_GRE_REPLIED;
	if (strncmp(protocol, "icmp", 4) == 0)
		return CONNTRACK_STATE_ICMP;
	for (size_t i = 0; strcmp(protocol, "tcp") == 0 && i < BASE_ARRAY_COUNT(tcp); i++)
		if (strstr(line, tcp[i].word) != NULL)
			return (int)tcp[i].state;
	for (size_t i = 0; strcmp(protocol, "sctp") == 0 && i < BASE_ARRAY_COUNT(sctp); i++)
		if (strstr(line, sctp[i].word) != NULL)
			return (int)sctp[i].state;
	return CONNTRACK_STATE_GENERIC;
}

/* Packets that a line counts, both directions. */
static unsigned long packets_of(const char *line)
{
	unsigned long packets = 0;
	while ((line = strstr(line, " packets=")) != NULL)
		packets += strtoul(line += strlen(" packets="), NULL, 10);
	return packets;
}

/* The client's connection as `conntrack -L` shows it. Identifiers are made of addresses in memory:
 * a connection may have its predecessor's, so fewer packets than before tell a new one, too. */
static void linux_look(struct run *run, struct conn_saying *saying)
{
	char address[64], line[1024], wanted[80], wanted_too[80];
	uint8_t family = run->reader.script->family == 6 ? 6 : 4;
	unsigned long id = 0, packets = 0;
	conn_client_address(run->reader.number, family, address, sizeof(address));
	snprintf(wanted, sizeof(wanted), " src=%s ", address);
	snprintf(wanted_too, sizeof(wanted_too), " dst=%s ", address);
	FILE *pipe = popen(family == 6 ? "conntrack -L -f ipv6 -o extended,id 2>/dev/null"
				       : "conntrack -L -f ipv4 -o extended,id 2>/dev/null",
		"r");
	saying->state = CONNTRACK_STATE_NONE;
	saying->fresh = false;
	while (pipe != NULL && fgets(line, sizeof(line), pipe) != NULL) {
		char protocol[32], text[16];
		unsigned int layer3, number, seconds;
		const char *found = strstr(line, "id=");
		if (strstr(line, wanted) == NULL && strstr(line, wanted_too) == NULL)
			continue;
		if (sscanf(line, "%15s %u %31s %u %u", text, &layer3, protocol, &number,
			    &seconds) != 5 ||
			found == NULL)
			continue;
		saying->state = linux_state(protocol, line);
		saying->assured = strstr(line, "[ASSURED]") != NULL;
		saying->expires_s = (int)seconds;
		id = strtoul(found + 3, NULL, 10);
		packets = packets_of(line);
		saying->fresh = id != run->linux_id || packets < run->linux_packets;
	}
	if (pipe != NULL)
		pclose(pipe);
	run->linux_id = id;
	run->linux_packets = packets;
}

static struct conn_saying linux_take(struct run *run, const struct conn_step *step)
{
	struct conn_saying saying = { .expires_s = -1 };
	int in = run->world->device[step->reply], out = run->world->device[!step->reply];
	drain(in);
	drain(out);
	for (unsigned int i = 0; i < step->frames_count; i++)
		if (write(in, step->frame[i], step->frame_len[i]) < 0)
			perror("write to the tun device");
	int mark = come_out(out, step->frame[0]);
	saying.invalid = mark == MARK_INVALID;
	saying.related = mark == MARK_RELATED;
	if (mark < 0)
		printf("%s: '%.*s': did not come out\n", run->reader.script->name, step->line_len,
			step->line);
	linux_look(run, &saying);
	return saying;
}

/* ---- sheaf ---------------------------------------------------------------------------------- */

static struct conn_saying sheaf_take(struct run *run, const struct conn_step *step)
{
	struct conn_saying saying = { .expires_s = -1, .state = CONNTRACK_STATE_NONE };
	uint64_t time_ns = now_ns() - run->started_ns;
	uint32_t conn = BASE_CONN_NONE;
	for (unsigned int i = 0; i < step->frames_count; i++) {
		struct base_packet *packet = packets_pool_set(&run->pool, 0, BASE_LINK_RAW,
			step->frame[i], step->frame_len[i], 0, time_ns);
		struct base_burst burst = { .count = 1, .packets = { packet } };
		base_parse_burst(run->world->parser, &burst, false);
		if (packet->drop_reason == BASE_DROP_NONE)
			conntrack_process_burst(run->tracker, &burst);
		saying.invalid |= (packet->conn_flags & BASE_CONN_INVALID) != 0;
		saying.related |= (packet->conn_flags & BASE_CONN_RELATED) != 0;
		saying.fresh |= (packet->conn_flags & BASE_CONN_NEW) != 0;
		conn = packet->conn;
	}
	struct conntrack_conn seen;
	if (conn != BASE_CONN_NONE && conntrack_conn_get(run->tracker, conn, &seen) == 0) {
		saying.state = seen.state;
		saying.assured = seen.assured;
		saying.expires_s = (int)((seen.due_ns - time_ns) / SECOND_NS);
	}
	return saying;
}

/* ---- both ----------------------------------------------------------------------------------- */

/* Seconds pass while commands run, and both round down. */
static bool same(const struct conn_saying *expected, const struct conn_saying *got)
{
	return expected->state == got->state && expected->assured == got->assured &&
	       expected->fresh == got->fresh && expected->invalid == got->invalid &&
	       expected->related == got->related &&
	       (expected->expires_s < 0 || (got->expires_s <= expected->expires_s + 1 &&
						   got->expires_s >= expected->expires_s - 3));
}

static void judge(struct run *run, const char *who, const struct conn_saying *expected,
	const struct conn_saying *got)
{
	char wanted[64], said[64];
	const struct conn_step *step = &run->reader.step;
	bool right = same(expected, got);
	conn_saying_format(expected, wanted, sizeof(wanted));
	conn_saying_format(got, said, sizeof(said));
	if (!right || run->world->show)
		printf("%s%s: '%.*s': %s says '%s'%s%s\n",
			right ? "" : "FAILED: ", run->reader.script->name, step->line_len,
			step->line, who, said, right ? "" : ", the script ", right ? "" : wanted);
	run->world->failures += !right;
}

/* What no script says, both must say alike. False: the conversation is over. */
static bool compare(
	struct run *run, const struct conn_saying *sheaf, const struct conn_saying *linux_said)
{
	char ours[64], theirs[64];
	const struct conn_step *step = &run->reader.step;
	bool alike = same(sheaf, linux_said);
	conn_saying_format(sheaf, ours, sizeof(ours));
	conn_saying_format(linux_said, theirs, sizeof(theirs));
	if (!alike || run->world->show)
		printf("%s%s: '%.*s': sheaf says '%s', Linux '%s'\n",
			alike ? "" : "FAILED: ", run->reader.script->name, step->line_len,
			step->line, ours, theirs);
	run->world->failures += !alike;
	/* A connection that was reset is where both differ for reasons that are known. */
	return alike && sheaf->state != CONNTRACK_STATE_TCP_CLOSE &&
	       sheaf->state != CONNTRACK_STATE_NONE;
}

static bool open_tracker(struct run *run)
{
	const struct conn_script *script = run->reader.script;
	struct conntrack_config config;
	conntrack_config_defaults(&config);
	config.entries_max = 64;
	config.arena = run->world->arena;
	config.tcp_pickup = !script->no_pickup;
	config.tcp_windows = script->windows;
	return conntrack_create(&run->tracker, &config) == 0;
}

static void run_script(struct world *world, const struct conn_script *script, uint32_t number)
{
	struct run run = { .world = world, .started_ns = now_ns() };
	conn_reader_init(&run.reader, script, number);
	if (!open_tracker(&run))
		skip("out of memory");
	packets_pool_init(&run.pool, 1);
	set("netfilter/nf_conntrack_tcp_loose", script->no_pickup ? "0" : "1");
	set("netfilter/nf_conntrack_tcp_be_liberal",
		script->windows == CONNTRACK_TCP_WINDOWS_STRICT ? "0" : "1");
	for (const struct conn_step *step; (step = conn_reader_next(&run.reader)) != NULL;) {
		if (step->frames_count == 0) {
			usleep((useconds_t)(step->wait_ns / 1000));
			continue;
		}
		struct conn_saying sheaf = sheaf_take(&run, step);
		struct conn_saying linux_said = linux_take(&run, step);
		if (step->ours.state < 0) {
			if (!compare(&run, &sheaf, &linux_said))
				break;
			continue;
		}
		judge(&run, "sheaf", &step->ours, &sheaf);
		judge(&run, "Linux", &step->linux_says, &linux_said);
	}
	packets_pool_release(&run.pool);
	conntrack_destroy(run.tracker);
}

static unsigned int run_random(struct world *world, unsigned int count, uint64_t seed)
{
	static char text[RANDOM_TALK_MAX], name[64];
	for (unsigned int i = 0; i < count; i++) {
		struct base_rng rng;
		struct conn_script script = { .name = name,
			.text = text,
			.no_pickup = true,
			.windows = i % 3 == 0 ? CONNTRACK_TCP_WINDOWS_LIBERAL
					      : CONNTRACK_TCP_WINDOWS_STRICT };
		snprintf(name, sizeof(name), "random, seed %llu, %s", (unsigned long long)seed + i,
			i % 3 == 0 ? "liberal" : "strict");
		base_rng_seed(&rng, seed + i);
		random_talk(&rng, text);
		run_script(world, &script, i % 60000 + 1);
	}
	printf("%u conversations by chance, %u with differences\n", count, world->failures);
	return world->failures;
}

static int run_scripts(struct world *world, const char *pattern)
{
	struct utsname system_name;
	size_t ran = 0, differ = 0;
	const struct conn_script *script;
	for (size_t i = 0; (script = conn_script_at(i)) != NULL; i++) {
		if (strstr(script->name, pattern) == NULL)
			continue;
		run_script(world, script, (uint32_t)i + 1);
		ran++;
		if (script->differs != NULL) {
			differ++;
			printf("differs: %s: %s\n", script->name, script->differs);
		}
	}
	uname(&system_name);
	printf("%zu scripts on Linux %s, %zu with known differences, %u sayings wrong\n", ran,
		system_name.release, differ, world->failures);
	return world->failures == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct world world = { 0 };
	const char *pattern = "";
	unsigned int count = 0;
	uint64_t seed = 1;
	int status;
	setvbuf(stdout, NULL, _IOLBF, 0); /* what was said before an abort stays said */
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--show") == 0)
			world.show = true;
		else if (strcmp(argv[i], "--random") == 0 && i + 1 < argc)
			count = (unsigned int)strtoul(argv[++i], NULL, 10);
		else if (count != 0)
			seed = strtoull(argv[i], NULL, 10);
		else
			pattern = argv[i];
	}
	set_up(&world);
	if (count != 0)
		status = run_random(&world, count, seed) == 0 ? 0 : 1;
	else
		status = run_scripts(&world, pattern);
	base_parser_destroy(world.parser);
	base_arena_destroy(world.arena);
	return status;
}
