#include "core/base/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1200 };

/* Reads up to two integers of a small file; returns their number. "max" ends the list. */
static int read_numbers(const char *dir, const char *name, long long v[2])
{
    char path[PATH_BYTES + 64], line[64] = "";
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    char *ok = fgets(line, sizeof line, f);
    fclose(f);
    return ok ? sscanf(line, "%lld %lld", &v[0], &v[1]) : 0;
}

/* 1 when the comma-separated list contains the word. */
static int lists(const char *list, size_t n, const char *word)
{
    size_t w = strlen(word);
    for (size_t i = 0; i + w <= n; i++)
        if (!strncmp(list + i, word, w) && (i == 0 || list[i - 1] == ',') &&
            (i + w == n || list[i + w] == ','))
            return 1;
    return 0;
}

/* Calls visit with the directory of each group that limits this process by CONTROLLER: its own and
 * its ancestors. A line of SELF is "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1,
 * mounted under the controllers' names). */
static void each_group(const char *self, const char *mount, const char *controller,
                       void (*visit)(const char *dir, int version, void *arg), void *arg)
{
    char line[1024], dir[PATH_BYTES];
    FILE *f = fopen(self, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path) continue;
        int version = path == list + 1 ? 2 : 1;
        if (version == 1 && !lists(list + 1, (size_t)(path - list - 1), controller)) continue;
        /* A container often sees its own group mounted as the root, under a path that does not
         * exist; the walk ends there. */
        for (char *end = path + strlen(path);;) {
            *end = 0;
            snprintf(dir, sizeof dir, "%s%s%s%s", mount, version == 1 ? "/" : "",
                     version == 1 ? controller : "", path + 1);
            visit(dir, version, arg);
            if (version == 2) { /* in hybrid mode version 2 is mounted one level deeper */
                snprintf(dir, sizeof dir, "%s/unified%s", mount, path + 1);
                visit(dir, version, arg);
            }
            if (end <= path + 1) break;
            while (end > path + 1 && *--end != '/') {
            }
        }
    }
    if (f) fclose(f);
}

static void limit_cpus(const char *dir, int version, void *arg)
{
    double *cpus = arg, limit = 0;
    long long quota[2], period[2];
    if (version == 2 && read_numbers(dir, "cpu.max", quota) == 2)
        limit = (double)quota[0] / (double)quota[1];
    if (version == 1 && read_numbers(dir, "cpu.cfs_quota_us", quota) >= 1 &&
        read_numbers(dir, "cpu.cfs_period_us", period) >= 1 && period[0] > 0)
        limit = (double)quota[0] / (double)period[0]; /* a quota of -1 is none */
    if (limit > 0 && (*cpus <= 0 || limit < *cpus)) *cpus = limit;
}

double cgroup_cpus(const char *self, const char *mount)
{
    double cpus = 0;
    each_group(self, mount, "cpu", limit_cpus, &cpus);
    return cpus;
}

static void limit_memory(const char *dir, int version, void *arg)
{
    uint64_t *left = arg;
    long long max[2], used[2];
    if (!read_numbers(dir, version == 2 ? "memory.max" : "memory.limit_in_bytes", max)) return;
    if (!read_numbers(dir, version == 2 ? "memory.current" : "memory.usage_in_bytes", used)) return;
    uint64_t bytes = max[0] > used[0] ? (uint64_t)(max[0] - used[0]) : 0;
    if (max[0] < 1LL << 60 && bytes < *left)
        *left = bytes; /* version 1 spells "no limit" as a huge number */
}

uint64_t cgroup_memory_left(const char *self, const char *mount)
{
    uint64_t left = UINT64_MAX;
    each_group(self, mount, "memory", limit_memory, &left);
    return left;
}
