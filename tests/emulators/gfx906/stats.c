/* stats.c: counts by kernel name, which outlive the module, and their table at exit. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stats_entry *entries;
static const char *output; /* GFX906_STATS */
bool stats_wanted;

struct stats_entry *stats_of(const char *name)
{
    for (struct stats_entry *e = entries; e; e = e->next) {
        if (!strcmp(e->name, name)) return e;
    }
    struct stats_entry *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    snprintf(e->name, sizeof e->name, "%s", name);
    e->next = entries;
    return entries = e;
}

int gfx906_stats_get(const char *name, struct gfx906_stats *out)
{
    for (struct stats_entry *e = entries; e; e = e->next) {
        if (!strcmp(e->name, name)) return *out = e->sum, 0;
    }
    return -1;
}

void gfx906_stats_reset(void)
{
    stats_wanted = true;
    for (struct stats_entry *e = entries; e; e = e->next) e->sum = (struct gfx906_stats){0};
}

static void print_stats(void)
{
    FILE *f = strcmp(output, "-") ? fopen(output, "w") : stderr;
    if (!f) return;
    fprintf(f, "kernel launches blocks waves valu salu smem vmem lds branch other loaded stored "
               "scalar atomics lds_bytes conflicts barriers "
               "lanes_per_valu vgprs sgprs lds scratch\n");
    for (const struct stats_entry *e = entries; e; e = e->next) {
        const struct gfx906_stats *s = &e->sum;
        if (!s->launches) continue;
        const uint64_t n[] = {s->launches,     s->blocks,  s->waves,        s->valu,
                              s->salu,         s->smem,    s->vmem,         s->lds,
                              s->branch,       s->other,   s->bytes_loaded, s->bytes_stored,
                              s->bytes_scalar, s->atomics, s->lds_bytes,    s->lds_conflicts,
                              s->barriers};
        fprintf(f, "%s", e->name);
        for (size_t k = 0; k < sizeof n / sizeof *n; k++)
            fprintf(f, " %llu", (unsigned long long)n[k]);
        fprintf(f, " %.1f %u %u %u %u\n", s->valu ? (double)s->lanes_on / (double)s->valu : 0,
                s->vgprs, s->sgprs, s->lds_size, s->scratch_size);
    }
    if (f != stderr) fclose(f);
}

__attribute__((constructor)) static void begin(void)
{
    output = getenv("GFX906_STATS");
    stats_wanted = output && *output;
    if (stats_wanted) atexit(print_stats);
}
