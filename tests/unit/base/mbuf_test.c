/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/mbuf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <rte_eal.h>

static void packet_is_the_aligned_private_area(void **)
{
	struct rte_mempool *pool;
	struct rte_mbuf *mbufs[16];
	assert_int_equal(base_mbuf_pool_create(&pool, "mbuf_test", 63, 2048, 0), 0);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool, mbufs, 16), 0);
	for (int i = 0; i < 16; i++) {
		struct base_packet *packet = base_packet_from_mbuf(mbufs[i]);
		assert_int_equal((uintptr_t)packet % 64, 0);
		assert_ptr_equal(packet, rte_mbuf_to_priv(mbufs[i]));
		assert_ptr_equal(base_mbuf_from_packet(packet), mbufs[i]);
		assert_int_equal(rte_pktmbuf_priv_size(pool), sizeof(*packet));
		assert_true(rte_pktmbuf_tailroom(mbufs[i]) >= 2048);
		/* Writing all of it must not reach the data. */
		*rte_pktmbuf_mtod(mbufs[i], uint8_t *) = 7;
		memset(packet, 0xff, sizeof(*packet));
		assert_int_equal(*rte_pktmbuf_mtod(mbufs[i], uint8_t *), 7);
	}
	rte_pktmbuf_free_bulk(mbufs, 16);
	rte_mempool_free(pool);
}

static void impossible_pools_are_refused(void **)
{
	struct rte_mempool *pool = NULL;
	assert_int_equal(base_mbuf_pool_create(&pool, "none", 0, 2048, 0), -EINVAL);
	assert_int_equal(base_mbuf_pool_create(&pool, "wide", 15, 65536, 0), -EINVAL);
	assert_null(pool);
}

int main(void)
{
	char *arguments[] = { "mbuf_test", "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry",
		"--log-level=1", "-m", "64", "-l", "0", NULL };
	if (rte_eal_init((int)(sizeof(arguments) / sizeof(arguments[0])) - 1, arguments) < 0) {
		print_message("DPDK does not start here: skipped\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_is_the_aligned_private_area),
		cmocka_unit_test(impossible_pools_are_refused),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	(void)rte_eal_cleanup();
	return failed;
}
