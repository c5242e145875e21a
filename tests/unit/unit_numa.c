/* unit_numa.c: nodes of made-up machines, threads on them, pages interleaved on this one. */
#include "core/base/numa.h"
#include "core/base/pool.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/opt4gptq-numa-XXXXXX";

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

/* A machine of its own below dir; *sys [PATH]: where. */
enum { PATH = 256 };
static void put(const char *machine, const char *name, const char *text, char sys[PATH])
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s/devices/system/node/%s", dir, machine, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    fclose(f);
    snprintf(sys, PATH, "%s/%s", dir, machine);
}

static struct numa find(const char *sys, const char *processors)
{
    struct numa m;
    struct err e = {0};
    cpu_set_t set;
    topology_list(&set, processors);
    assert_int_equal(numa_find(&m, &set, sys, &e), 0);
    return m;
}

/* Two sockets with hyperthreads, whose second halves follow all first ones. */
static void two_sockets(char sys[PATH])
{
    put("two", "online", "0-1", sys);
    put("two", "node0/cpulist", "0-7,16-23", sys);
    put("two", "node1/cpulist", "8-15,24-31", sys);
}

static void nodes_are_those_with_processors_of_ours(void **state)
{
    (void)state;
    char sys[PATH];
    two_sockets(sys);
    struct numa m = find(sys, "0-31");
    assert_int_equal(m.n, 2);
    assert_int_equal(m.node[1].id, 1);
    assert_int_equal(CPU_COUNT(&m.node[0].set), 16);
    assert_true(CPU_ISSET(24, &m.node[1].set) && !CPU_ISSET(24, &m.node[0].set));
    m = find(sys, "6-9"); /* taskset across both */
    assert_int_equal(m.n, 2);
    assert_int_equal(CPU_COUNT(&m.node[0].set), 2);
    m = find(sys, "0-3"); /* within one */
    assert_int_equal(m.n, 1);
    m = find(sys, "12");
    assert_int_equal(m.n, 1);
    assert_int_equal(m.node[0].id, 1);
}

static void nodes_may_have_gaps_and_memory_alone(void **state)
{
    (void)state;
    char sys[PATH];
    put("gaps", "online", "0,2,8-9", sys);
    put("gaps", "node0/cpulist", "0-3", sys);
    put("gaps", "node2/cpulist", "", sys); /* memory without processors */
    put("gaps", "node8/cpulist", "4-5", sys);
    struct numa m = find(sys, "0-5"); /* nothing is said of node 9 */
    assert_int_equal(m.n, 2);
    assert_int_equal(m.node[1].id, 8);
    assert_int_equal(find("/nonexistent", "0-5").n, 0);
}

/* The last node that the kernel's masks have room for. */
static void the_last_node_is_found(void **state)
{
    (void)state;
    char sys[PATH];
    put("last", "online", "0,1023", sys);
    put("last", "node0/cpulist", "0-1", sys);
    put("last", "node1023/cpulist", "2-3", sys);
    struct numa m = find(sys, "0-3");
    assert_int_equal(m.n, 2);
    assert_int_equal(m.node[1].id, 1023);
    assert_ptr_equal(numa_around(&m, 3), &m.node[1].set);
}

static void too_many_nodes_are_refused(void **state)
{
    (void)state;
    char sys[PATH];
    struct numa m;
    struct err e = {0};
    cpu_set_t set;
    put("many", "online", "0-64", sys);
    for (int i = 0; i <= NUMA_NODES; i++) {
        char name[32], processor[8];
        snprintf(name, sizeof name, "node%d/cpulist", i);
        snprintf(processor, sizeof processor, "%d", i);
        put("many", name, processor, sys);
    }
    topology_list(&set, "0-64");
    assert_int_equal(numa_find(&m, &set, sys, &e), -1);
    assert_non_null(strstr(e.msg, "--numa"));
    assert_int_equal(find(sys, "1-64").n, NUMA_NODES);
}

/* Threads of each node, counted. */
static void spread(const struct numa *m, int n_threads, const int *want)
{
    int n[NUMA_NODES] = {0}, last = 0;
    for (int t = 0; t < n_threads; t++) {
        const cpu_set_t *set = numa_of(m, t, n_threads);
        int i = 0;
        while (!CPU_EQUAL(set, &m->node[i].set)) i++;
        assert_true(i >= last); /* neighbours share a node */
        n[last = i]++;
    }
    for (int i = 0; i < m->n; i++) assert_int_equal(n[i], want[i]);
}

static void threads_follow_processors(void **state)
{
    (void)state;
    char sys[PATH];
    two_sockets(sys);
    struct numa m = find(sys, "0-31");
    spread(&m, 32, (const int[]){16, 16});
    spread(&m, 16, (const int[]){8, 8});
    spread(&m, 3, (const int[]){2, 1});
    spread(&m, 1, (const int[]){1, 0});
    m = find(sys, "0-9"); /* eight and two processors */
    spread(&m, 10, (const int[]){8, 2});
    spread(&m, 5, (const int[]){4, 1});
}

static void isolation_takes_the_node_around_a_processor(void **state)
{
    (void)state;
    char sys[PATH];
    two_sockets(sys);
    struct numa m = find(sys, "0-9");
    assert_int_equal(CPU_COUNT(numa_around(&m, 9)), 2);
    assert_true(CPU_ISSET(3, numa_around(&m, 4)));
    assert_null(numa_around(&m, 30));
}

static void *affinity_of_a_task(void *arg)
{
    cpu_set_t *set = arg;
    pthread_getaffinity_np(pthread_self(), sizeof *set, set);
    return NULL;
}

static void watch_affinity(void *arg, int task, int thread)
{
    (void)task;
    affinity_of_a_task((cpu_set_t *)arg + thread);
}

/* Both nodes have this machine's first processor: every thread but the caller is kept there. */
static void a_pool_keeps_its_threads_there(void **state)
{
    (void)state;
    enum { THREADS = 4, TASKS = 4096 };
    cpu_set_t all, seen[THREADS];
    struct pool *p;
    struct err e = {0};
    struct numa m = {.n = 2, .node = {{.id = 0}, {.id = 1}}};
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    size_t first = 0;
    while (!CPU_ISSET(first, &all)) first++;
    CPU_SET(first, &m.node[0].set);
    CPU_SET(first, &m.node[1].set);
    for (int i = 0; i < THREADS; i++) seen[i] = i ? m.node[0].set : all; /* of one without a task */
    assert_int_equal(pool_open(&p, THREADS, &e), 0);
    assert_int_equal(pool_spread(p, &m, &e), 0);
    pool_run(p, TASKS, watch_affinity, seen);
    assert_true(CPU_EQUAL(&seen[0], &all));
    for (int i = 1; i < THREADS; i++) assert_true(CPU_EQUAL(&seen[i], &m.node[0].set));
    pool_close(p);
}

/* The pages of a mapped file and of memory have the policy, are there, and on the node. */
static void pages_are_interleaved(void **state)
{
    (void)state;
    enum { PAGES = 64 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page;
    struct err e = {0};
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    struct numa m;
    assert_int_equal(numa_find(&m, &all, TOPOLOGY_SYS, &e), 0);
    if (!m.n) skip(); /* a kernel without NUMA */
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), (off_t)bytes), 0);
    for (int file = 0; file < 2; file++) {
        char *p = mmap(NULL, bytes, PROT_READ | (file ? 0 : PROT_WRITE),
                       file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file ? fileno(f) : -1, 0);
        assert_true(p != MAP_FAILED);
        if (!file) memset(p, 1, bytes);
        assert_int_equal(numa_interleave(&m, p, bytes, &e), 0);
        int policy = -1, status[PAGES];
        unsigned long mask[16] = {0}, want[16] = {0};
        void *at[PAGES];
        assert_int_equal(syscall(SYS_get_mempolicy, &policy, mask, 8 * sizeof mask, p, MPOL_F_ADDR),
                         0);
        assert_int_equal(policy, MPOL_INTERLEAVE);
        for (int i = 0; i < m.n; i++) want[m.node[i].id / 64] |= 1UL << m.node[i].id % 64;
        assert_memory_equal(mask, want, sizeof mask);
        for (size_t i = 0; i < PAGES; i++) at[i] = p + i * page;
        assert_int_equal(syscall(SYS_move_pages, 0, PAGES, at, NULL, status, 0), 0);
        for (int i = 0; i < PAGES; i++)
            assert_true(status[i] >= 0 && want[status[i] / 64] >> status[i] % 64 & 1);
        munmap(p, bytes);
    }
    fclose(f);
}

/* On a machine of one node the modes change nothing; isolate keeps the affinity on any. */
static void one_node_changes_nothing(void **state)
{
    (void)state;
    static const char *const mode[] = {NULL, "numactl", "distribute", "isolate"};
    cpu_set_t before, after;
    struct numa m;
    struct err e = {0};
    int policy = -1;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(numa_find(&m, &before, TOPOLOGY_SYS, &e), 0);
    if (m.n > 1) skip();
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        assert_int_equal(numa_begin(&m, mode[i], &e), 0);
        assert_int_equal(m.n, 0);
        assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
        assert_true(CPU_EQUAL(&before, &after));
        if (!syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0))
            assert_int_equal(policy, MPOL_DEFAULT);
    }
    assert_int_equal(numa_interleave(&m, NULL, 1 << 20, &e), 0);
}

enum { NO_FILTER = 99 };

/* Exit code: which of the checks failed. */
static int begin_without_affinity(void)
{
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_getaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof f / sizeof *f, f};
    struct numa m;
    struct err e = {0};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return NO_FILTER;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) return NO_FILTER;
    if (numa_begin(&m, NULL, &e) || numa_begin(&m, "numactl", &e)) return 1;
    if (numa_begin(&m, "distribute", &e) != -1) return 2;
    if (!strstr(e.msg, "--numa distribute: a container needs CAP_SYS_NICE")) return 3;
    return 0;
}

/* What the kernel refuses is said. */
static void a_refusal_is_an_error(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) _exit(begin_without_affinity());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER) skip(); /* a kernel without seccomp */
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_those_with_processors_of_ours),
        cmocka_unit_test(nodes_may_have_gaps_and_memory_alone),
        cmocka_unit_test(the_last_node_is_found),
        cmocka_unit_test(too_many_nodes_are_refused),
        cmocka_unit_test(threads_follow_processors),
        cmocka_unit_test(isolation_takes_the_node_around_a_processor),
        cmocka_unit_test(a_pool_keeps_its_threads_there),
        cmocka_unit_test(pages_are_interleaved),
        cmocka_unit_test(one_node_changes_nothing),
        cmocka_unit_test(a_refusal_is_an_error),
    };
    return cmocka_run_group_tests(tests, make, drop);
}
