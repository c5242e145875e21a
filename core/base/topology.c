#include "core/base/topology.h"

#include <stdio.h>
#include <stdlib.h>

enum { PATH_BYTES = 256, LIST_BYTES = 1024 };

void topology_list(cpu_set_t *set, const char *list)
{
    CPU_ZERO(set);
    for (const char *p = list; *p;) {
        char *end;
        long from = strtol(p, &end, 10), to = from;
        if (end == p) break;
        if (*end == '-') to = strtol(end + 1, &end, 10);
        for (long i = from < 0 ? 0 : from; i <= to && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, set);
        if (*end != ',') break;
        p = end + 1;
    }
}

/* The lowest number; -1: it is empty. */
static int first_of(const cpu_set_t *set)
{
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, set)) return i;
    return -1;
}

int topology_n_cores(const cpu_set_t *set, const char *sys)
{
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        char path[PATH_BYTES], list[LIST_BYTES] = "";
        if (!CPU_ISSET((size_t)i, set)) continue;
        snprintf(path, sizeof path, "%s/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 sys, i);
        FILE *f = fopen(path, "re");
        if (f && !fgets(list, sizeof list, f)) *list = 0;
        if (f) fclose(f);
        cpu_set_t siblings;
        topology_list(&siblings, list);
        CPU_AND(&siblings, &siblings, set);
        int first = first_of(&siblings);
        n += first < 0 || first == i;
    }
    return n;
}
