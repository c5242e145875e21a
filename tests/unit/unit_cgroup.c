/* unit_cgroup.c: limits of control groups, read from made-up hierarchies; memory where nothing says
 * how much there is. */
#include "core/base/cgroup.h"
#include "core/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char dir[] = "/tmp/opt4gptq-cgroup-XXXXXX";
static char self[64];

/* Writes TEXT to dir/NAME and makes the directories of its path. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static int make(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(self, sizeof self, "%s/self", dir);
    return 0;
}

static int drop(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static void without_groups_there_is_no_limit(void **state)
{
    (void)state;
    assert_true(cgroup_cpus("/nonexistent", dir) == 0);
    put("self", "0::/\n");
    assert_true(cgroup_cpus(self, dir) == 0);
    assert_true(cgroup_memory_left(self, dir) == UINT64_MAX);
}

static void the_tightest_of_the_groups_above_counts(void **state)
{
    (void)state;
    put("self", "0::/slurm/job/step\n");
    put("slurm/cpu.max", "800000 100000\n");
    put("slurm/job/cpu.max", "150000 100000\n");
    put("slurm/job/step/cpu.max", "max 100000\n");
    put("slurm/memory.max", "max\n");
    put("slurm/memory.current", "99\n");
    put("slurm/job/memory.max", "5000000\n");
    put("slurm/job/memory.current", "1000000\n");
    assert_true(cgroup_cpus(self, dir) == 1.5);
    assert_true(cgroup_memory_left(self, dir) == 4000000);
    put("slurm/memory.max", "9000000\n");
    assert_true(cgroup_memory_left(self, dir) == 4000000);
    put("slurm/memory.max", "3000099\n");
    assert_true(cgroup_memory_left(self, dir) == 3000000);
    put("slurm/job/memory.current", "6000000\n");
    assert_true(cgroup_memory_left(self, dir) == 0);
}

static void version_1_is_read_too(void **state)
{
    (void)state;
    put("self", "7:cpuset:/other\n4:cpu,cpuacct:/box\n3:memory:/box\n0::/nothing\n");
    put("cpu/box/cpu.cfs_quota_us", "50000\n");
    put("cpu/box/cpu.cfs_period_us", "100000\n");
    put("cpu/cpu.cfs_quota_us", "-1\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    put("memory/box/memory.limit_in_bytes", "3000\n");
    put("memory/box/memory.usage_in_bytes", "1000\n");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/memory.usage_in_bytes", "5\n");
    assert_true(cgroup_cpus(self, dir) == 0.5);
    assert_true(cgroup_memory_left(self, dir) == 2000);
    put("memory/box/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(cgroup_memory_left(self, dir) == UINT64_MAX);
}

/* ---- no file can be opened */

static int nothing_opens;
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    return nothing_opens ? NULL : __real_fopen(path, mode);
}

static void memory_is_unknown_without_proc(void **state)
{
    (void)state;
    assert_true(memory_available() > 0);
    nothing_opens = 1;
    assert_true(memory_available() == 0);
    nothing_opens = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_groups_there_is_no_limit),
        cmocka_unit_test(the_tightest_of_the_groups_above_counts),
        cmocka_unit_test(version_1_is_read_too),
        cmocka_unit_test(memory_is_unknown_without_proc),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
