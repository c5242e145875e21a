#include "cli/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

int memory_parse(uint64_t *bytes, const char *text, struct err *e)
{
    static const char units[] = "KMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 32 : *end) : NULL;
    if (end == text || !(v > 0) || !isfinite(v) || (*end && (!unit || end[1])))
        return err_set(e, "--mem %s: must be a size like 800M or 6G", text);
    *bytes = (uint64_t)(v * (unit ? pow(1024, (double)(unit - units + 1)) : 1));
    return 0;
}

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

/* The limits of the control group and those above it: 0::/a/b, then /a, then the root (version 2). */
static void limit_by_group(uint64_t *bytes)
{
    char line[1024], path[1200], group[1024] = "";
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "0::", 3)) snprintf(group, sizeof group, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (f) fclose(f);
    for (;;) {
        uint64_t max, used;
        char *slash;
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        if (read_number(path, "", &max)) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
            if (read_number(path, "", &used)) {
                uint64_t left = max > used ? max - used : 1;
                if (!*bytes || left < *bytes) *bytes = left;
            }
        }
        if (!(slash = strrchr(group, '/'))) return;
        *slash = 0;
    }
}

uint64_t memory_available(void)
{
    uint64_t kib = 0, bytes = 0;
    if (read_number("/proc/meminfo", "MemAvailable:", &kib)) bytes = kib << 10;
    limit_by_group(&bytes);
    return bytes;
}

uint64_t memory_peak(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (uint64_t)u.ru_maxrss << 10;
}
