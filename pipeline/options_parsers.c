/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsers of options whose value is more than one number or word. */
#include "pipeline/options_private.h"

#include "pipeline/units.h"

#include <errno.h>
#include <stdio.h>

int options_parse_reframer(struct options *options, void *target, const char *text, char *message)
{
	(void)target;
	(void)message;
	struct reframer_config *reframer = &options->config.reframer;
	options->config.reframer_enabled = strcmp(text, "on") == 0;
	/* A held flow holds a packet: a smaller bound on packets bounds flows too. */
	if (reframer->held_flows_max > reframer->held_packets_max)
		reframer->held_flows_max = reframer->held_packets_max;
	return 0;
}

static int parse_delay(uint64_t *delay_ns, const char *text, char *message)
{
	if (units_parse_time_ns(text, delay_ns) != 0)
		return options_refuse(message, text, "a time with its unit, such as 16us");
	return 0;
}

int options_parse_short(struct options *options, void *target, const char *text, char *message)
{
	struct reframer_config *reframer = target;
	(void)options;
	int error = parse_delay(&reframer->delay_ns[REFRAMER_CLASS_SHORT], text, message);
	if (error == 0)
		reframer->short_acks = true;
	return error;
}

int options_parse_bulk(struct options *options, void *target, const char *text, char *message)
{
	struct reframer_config *reframer = target;
	(void)options;
	int error = parse_delay(&reframer->delay_ns[REFRAMER_CLASS_BULK], text, message);
	if (error == 0)
		reframer->operator_bulk = true;
	return error;
}

enum bypass { BYPASS_SYN, BYPASS_RST, BYPASS_FIRST, BYPASS_COUNT };

static int find_bypass(const void *context, const char *name, uint32_t *index, char *message)
{
	static const char *const known[BYPASS_COUNT] = { "syn", "rst", "first" };
	(void)context;
	for (*index = 0; *index < BYPASS_COUNT; (*index)++) {
		if (strcmp(name, known[*index]) == 0)
			return 0;
	}
	return options_refuse(message, name, "none, all or a list of syn|rst|first");
}

int options_parse_bypass(struct options *options, void *target, const char *text, char *message)
{
	static const struct options_names names = {
		.find = find_bypass, .count = BYPASS_COUNT, .none = true
	};
	struct reframer_config *reframer = target;
	struct options_list list;
	int error = options_list_read(options, text, &names, &list, message);
	if (error != 0)
		return error;
	reframer->bypass_syn = (list.set >> BYPASS_SYN & 1) != 0;
	reframer->bypass_rst = (list.set >> BYPASS_RST & 1) != 0;
	reframer->bypass_first = (list.set >> BYPASS_FIRST & 1) != 0;
	return 0;
}

int options_parse_zone(struct options *options, void *target, const char *text, char *message)
{
	struct base_parse_config *parse = &options->config.parse;
	uint64_t zone = 0;
	(void)target;
	bool vlan = strcmp(text, "vlan") == 0;
	if (!vlan && strcmp(text, "none") != 0 &&
		(units_parse_count(text, &zone) != 0 || zone > UINT16_MAX))
		return options_refuse(message, text, "none, vlan or 0..65535");
	parse->zone_source = vlan ? BASE_ZONE_VLAN : BASE_ZONE_NONE;
	parse->zone = (uint16_t)zone;
	return 0;
}

/* "pcap:FILE" behind its prefix; NULL when it has another or nothing follows. */
static const char *behind(const char *text, const char *prefix)
{
	size_t length = strlen(prefix);
	return strncmp(text, prefix, length) == 0 && text[length] != '\0' ? text + length : NULL;
}

int options_parse_source(struct options *options, void *target, const char *text, char *message)
{
	const char *device = behind(text, "port:");
	(void)target;
	if (device == NULL)
		return options_refuse(
			message, text, "port:DEVICE such as port:net_af_packet0,iface=eth0");
	device = options_keep_text(options, device, strlen(device));
	if (device == NULL)
		return options_refuse_memory(message);
	options->config.source = PIPELINE_SOURCE_PORT;
	options->config.source_port = device;
	return 0;
}

int options_parse_sink(struct options *options, void *target, const char *text, char *message)
{
	static const struct {
		const char *prefix;
		enum traces_format format;
	} files[] = {
		{ "pcap:", TRACES_FORMAT_PCAP_NS },
		{ "pcap-us:", TRACES_FORMAT_PCAP_US },
		{ "pcapng:", TRACES_FORMAT_PCAPNG },
	};
	struct pipeline_config *config = &options->config;
	const char *rest = NULL;
	(void)target;
	if (strcmp(text, "null") == 0) {
		config->sink = PIPELINE_SINK_NULL;
		return 0;
	}
	for (size_t i = 0; i < BASE_ARRAY_COUNT(files); i++) {
		rest = behind(text, files[i].prefix);
		if (rest == NULL)
			continue;
		config->sink_path = options_keep_text(options, rest, strlen(rest));
		config->sink_format = files[i].format;
		config->sink = PIPELINE_SINK_FILE;
		return config->sink_path == NULL ? options_refuse_memory(message) : 0;
	}
	rest = behind(text, "port:");
	if (rest == NULL)
		return options_refuse(
			message, text, "null, pcap:FILE, pcap-us:FILE, pcapng:FILE or port:DEVICE");
	config->sink_port = options_keep_text(options, rest, strlen(rest));
	config->sink = PIPELINE_SINK_PORT;
	return config->sink_port == NULL ? options_refuse_memory(message) : 0;
}

static int parse_mac(uint8_t mac[6], const char *text, char *message)
{
	unsigned int bytes[6];
	int used = 0;
	int count = sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &bytes[0], &bytes[1], &bytes[2],
		&bytes[3], &bytes[4], &bytes[5], &used);
	if (count != 6 || text[used] != '\0' || strpbrk(text, " +-xX") != NULL)
		return options_refuse(
			message, text, "an Ethernet address, such as 02:00:00:00:00:01");
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)bytes[i];
	return 0;
}

int options_parse_source_mac(struct options *options, void *target, const char *text, char *message)
{
	(void)target;
	options->convert.relink.keep_source = false;
	return parse_mac(options->convert.relink.source, text, message);
}

int options_parse_destination_mac(
	struct options *options, void *target, const char *text, char *message)
{
	(void)target;
	return parse_mac(options->convert.relink.destination, text, message);
}

int options_parse_fields(struct options *options, void *target, const char *text, char *message)
{
	char refused[TRACES_MESSAGE_SIZE];
	(void)target;
	if (traces_ipsum_check_fields(text, refused) != 0)
		return options_refuse(
			message, refused, "names of fields, such as 'timestamp ip_src ip_dst'");
	options->convert.fields = options_keep_text(options, text, strlen(text));
	return options->convert.fields == NULL ? options_refuse_memory(message) : 0;
}

/* "geometric=100". */
static int parse_reuse(struct traces_reuse *reuse, const char *text)
{
	static const char *const laws[] = { "fixed=", "uniform=", "geometric=", "zipf=" };
	for (size_t i = 0; i < BASE_ARRAY_COUNT(laws); i++) {
		const char *value = behind(text, laws[i]);
		uint64_t count;
		if (value == NULL)
			continue;
		reuse->law = (enum traces_reuse_law)i;
		if (reuse->law == TRACES_REUSE_ZIPF)
			return units_parse_factor(value, &reuse->value);
		int error = units_parse_count(value, &count);
		reuse->value = (double)count;
		return error != 0 || count == 0 ? -EINVAL : 0;
	}
	return -EINVAL;
}

int options_parse_order(struct options *options, void *target, const char *text, char *message)
{
	struct traces_synth_options *synth = &options->synth;
	const char *reuse = behind(text, "lru:");
	const char *exponent = behind(text, "zipf:");
	double value = synth->zipf_exponent;
	(void)target;
	if (exponent != NULL && (units_parse_factor(exponent, &value) != 0 || value > 10))
		return options_refuse(message, text, "zipf:EXPONENT above 0, at most 10");
	if (reuse != NULL && parse_reuse(&synth->reuse, reuse) != 0)
		return options_refuse(
			message, text, "lru:fixed=N, uniform=N, geometric=N or zipf=EXPONENT");
	if (strcmp(text, "round-robin") == 0)
		synth->order = TRACES_ORDER_ROUND_ROBIN;
	else if (strcmp(text, "uniform") == 0)
		synth->order = TRACES_ORDER_UNIFORM;
	else if (strcmp(text, "zipf") == 0 || exponent != NULL)
		synth->order = TRACES_ORDER_ZIPF;
	else if (reuse != NULL)
		synth->order = TRACES_ORDER_RECENCY;
	else
		return options_refuse(
			message, text, "round-robin, uniform, zipf, zipf:EXPONENT or lru:LAW=N");
	synth->zipf_exponent = value;
	return 0;
}
