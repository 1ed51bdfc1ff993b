/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/traces/test.h"

#include "traces/trace.h"

#include <pcap/pcap.h>

static void every_link_that_is_written_is_read_as_the_same(void **state)
{
	(void)state;
	for (int link = 0; link < BASE_LINKS_COUNT; link++)
		assert_int_equal(
			traces_link_from_number(traces_link_number((enum base_link)link)), link);
}

static void names_are_those_of_the_registry(void **state)
{
	(void)state;
	assert_string_equal(traces_link_name(0), "NULL");
	assert_string_equal(traces_link_name(1), "ETHERNET");
	assert_string_equal(traces_link_name(101), "RAW");
	assert_string_equal(traces_link_name(147), "USER0");
	assert_string_equal(traces_link_name(162), "USER15");
	assert_string_equal(traces_link_name(276), "LINUX_SLL2");
	assert_string_equal(traces_link_name(2), "unknown");
	assert_string_equal(traces_link_name(UINT32_MAX), "unknown");
}

/* libpcap names its own constants, which from 104 on are mostly the numbers in files. Where both
 * have a name they are spelt alike, or one is a known other spelling. */
static void most_names_agree_with_libpcap(void **state)
{
	(void)state;
	unsigned int same = 0, differ = 0;
	for (int number = 104; number <= 290; number++) {
		const char *theirs = pcap_datalink_val_to_name(number);
		const char *ours = traces_link_name((uint32_t)number);
		if (theirs == NULL)
			continue;
		assert_string_not_equal(ours, "unknown");
		if (strcmp(theirs, ours) == 0)
			same++;
		else
			differ++;
	}
	assert_true(same > 4 * differ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_link_that_is_written_is_read_as_the_same),
		cmocka_unit_test(names_are_those_of_the_registry),
		cmocka_unit_test(most_names_agree_with_libpcap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
