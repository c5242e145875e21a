#include "core/base/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDS = 1024, PATH_BYTES = 256, LIST_BYTES = 4096, WORD = 8 * sizeof(unsigned long) };

/* A line of a file of sysfs as a set of numbers; empty when there is none. */
static void read_list(cpu_set_t *set, const char *sys, const char *name)
{
    char path[PATH_BYTES], list[LIST_BYTES] = "";
    snprintf(path, sizeof path, "%s/devices/system/node/%s", sys, name);
    FILE *f = fopen(path, "re");
    if (f && !fgets(list, sizeof list, f)) *list = 0;
    if (f) fclose(f);
    topology_list(set, list);
}

int numa_find(struct numa *m, const cpu_set_t *set, const char *sys, struct err *e)
{
    cpu_set_t online, node;
    m->n = 0;
    read_list(&online, sys, "online");
    for (int id = 0; id < IDS && id < CPU_SETSIZE; id++) {
        char name[32];
        if (!CPU_ISSET((size_t)id, &online)) continue;
        snprintf(name, sizeof name, "node%d/cpulist", id);
        read_list(&node, sys, name);
        CPU_AND(&node, &node, set);
        if (!CPU_COUNT(&node)) continue; /* memory alone, or not ours */
        if (m->n == NUMA_NODES)
            return err_set(e, "--numa: this machine has more than %d nodes", NUMA_NODES);
        m->node[m->n++] = (struct numa_node){id, node};
    }
    return 0;
}

const cpu_set_t *numa_of(const struct numa *m, int thread, int n_threads)
{
    int all = 0, i = 0;
    for (int k = 0; k < m->n; k++) all += CPU_COUNT(&m->node[k].set);
    int at = (int)((long long)thread * all / n_threads);
    while (i < m->n - 1 && at >= CPU_COUNT(&m->node[i].set)) at -= CPU_COUNT(&m->node[i++].set);
    return &m->node[i].set;
}

const cpu_set_t *numa_around(const struct numa *m, int processor)
{
    for (int i = 0; i < m->n; i++)
        if (CPU_ISSET((size_t)processor, &m->node[i].set)) return &m->node[i].set;
    return NULL;
}

/* The nodes as the kernel's mask. */
static void mask_of(const struct numa *m, unsigned long mask[IDS / WORD])
{
    memset(mask, 0, IDS / 8);
    for (int i = 0; i < m->n; i++)
        mask[(size_t)m->node[i].id / WORD] |= 1UL << (size_t)m->node[i].id % WORD;
}

static int refused(const char *mode, struct err *e)
{
    return errno == EPERM ? err_sys(e, "--numa %s: a container needs CAP_SYS_NICE", mode)
                          : err_sys(e, "--numa %s: the kernel refuses it", mode);
}

int numa_begin(struct numa *m, const char *mode, struct err *e)
{
    unsigned long mask[IDS / WORD];
    cpu_set_t set;
    m->n = 0;
    if (!mode || !strcmp(mode, "numactl")) return 0;
    if (sched_getaffinity(0, sizeof set, &set)) return refused(mode, e);
    if (numa_find(m, &set, TOPOLOGY_SYS, e)) return -1;
    if (m->n < 2) {
        fprintf(stderr, "note: --numa %s: this process runs on one node, nothing changes\n", mode);
        m->n = 0;
        return 0;
    }
    if (!strcmp(mode, "isolate")) {
        const cpu_set_t *node = numa_around(m, sched_getcpu());
        m->n = 0;
        return node && sched_setaffinity(0, sizeof *node, node) ? refused(mode, e) : 0;
    }
    mask_of(m, mask);
    return syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, mask, IDS + 1) ? refused(mode, e) : 0;
}

int numa_interleave(const struct numa *m, void *p, size_t bytes, struct err *e)
{
    unsigned long mask[IDS / WORD];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!m->n) return 0;
    mask_of(m, mask);
    for (size_t i = 0; i < bytes; i += page) (void)*((volatile char *)p + i);
    return syscall(SYS_mbind, p, bytes, MPOL_INTERLEAVE, mask, IDS + 1, MPOL_MF_MOVE)
               ? refused("distribute", e)
               : 0;
}
