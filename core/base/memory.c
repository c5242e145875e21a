#include "core/base/memory.h"

#include "core/base/cgroup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int memory_parse(uint64_t *bytes, const char *text, struct err *e)
{
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 32 : *end) : NULL;
    v *= unit ? pow(1024, (double)(unit - units + 1)) : 1;
    /* Both bounds are checked before the conversion, which is undefined beyond them. */
    if (end == text || !(v >= 1) || !(v < 0x1p63) || (*end && (!unit || end[1])))
        return err_set(e, "not a size like 800M or 6G");
    *bytes = (uint64_t)v;
    return 0;
}

/* The value of the line of PATH that begins with KEY. */
static int read_number(const char *path, const char *key, uint64_t *v)
{
    char line[256];
    int found = 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (!found && fgets(line, sizeof line, f)) {
        size_t n = strlen(key);
        unsigned long long x;
        if (!strncmp(line, key, n) && sscanf(line + n, " %llu", &x) == 1) *v = x, found = 1;
    }
    fclose(f);
    return found;
}

uint64_t memory_available(void)
{
    uint64_t kib = 0, bytes = 0;
    if (read_number("/proc/meminfo", "MemAvailable:", &kib)) bytes = kib << 10;
    uint64_t left = cgroup_memory_left(CGROUP_SELF, CGROUP_MOUNT);
    if (left == UINT64_MAX) return bytes;
    if (!left) left = 1; /* 0 would mean "unknown" */
    return !bytes || left < bytes ? left : bytes;
}

uint64_t memory_space_left(int n_threads)
{
    struct rlimit all, stack;
    uint64_t pages = 0, used;
    if (getrlimit(RLIMIT_AS, &all) || all.rlim_cur == RLIM_INFINITY ||
        !read_number("/proc/self/statm", "", &pages))
        return UINT64_MAX;
    used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    if (!getrlimit(RLIMIT_STACK, &stack) && stack.rlim_cur != RLIM_INFINITY)
        used += (uint64_t)n_threads * (uint64_t)stack.rlim_cur;
    return (uint64_t)all.rlim_cur > used ? (uint64_t)all.rlim_cur - used : 1;
}

uint64_t memory_peak(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss << 10;
}
