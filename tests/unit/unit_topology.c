/* unit_topology.c: cores of made-up machines, and of this one within an affinity. */
#include "core/base/pool.h"
#include "core/base/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char dir[] = "/tmp/opt4gptq-topology-XXXXXX";

static int make(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int drop(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

/* What the system says of a processor. */
static void put(int processor, const char *siblings)
{
    char path[256];
    snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology/thread_siblings_list", dir,
             processor);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", siblings);
    fclose(f);
}

static int cores(int first, int end, int step)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = first; i < end; i += step) CPU_SET((size_t)i, &set);
    return topology_n_cores(&set, dir);
}

static void hyperthreads_share_a_core(void **state)
{
    (void)state;
    char list[32];
    for (int i = 0; i < 8; i++) { /* siblings 8 apart, as on most servers */
        snprintf(list, sizeof list, "%d,%d", i, i + 8);
        put(i, list), put(i + 8, list);
    }
    assert_int_equal(cores(0, 16, 1), 8);
    assert_int_equal(cores(0, 8, 1), 8);
    assert_int_equal(cores(8, 16, 1), 8); /* a cpuset of second siblings alone */
    assert_int_equal(cores(4, 12, 1), 8);
    assert_int_equal(cores(7, 16, 8), 1);
}

static void cores_may_differ(void **state)
{
    (void)state;
    static const char *const pair[] = {"0-1", "2-3", "4-5", "6-7"};
    for (int i = 0; i < 8; i++) put(i, pair[i / 2]);
    for (int i = 8; i < 16; i++) { /* efficient cores have one thread */
        char list[8];
        snprintf(list, sizeof list, "%d", i);
        put(i, list);
    }
    assert_int_equal(cores(0, 16, 1), 12);
    assert_int_equal(cores(1, 16, 2), 8);
    assert_int_equal(cores(8, 16, 1), 8);
}

static void what_is_unknown_counts(void **state)
{
    (void)state;
    assert_int_equal(cores(100, 104, 1), 4);
    put(100, "");
    put(101, "garbage");
    put(102, "-5");
    put(103, "103-99999999999");
    assert_int_equal(cores(100, 104, 1), 4);
}

static void an_affinity_limits_the_default(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(pool_n_cores(), 1, pool_n_processors());
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(pool_n_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hyperthreads_share_a_core),
        cmocka_unit_test(cores_may_differ),
        cmocka_unit_test(what_is_unknown_counts),
        cmocka_unit_test(an_affinity_limits_the_default),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
