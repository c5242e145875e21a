#include "cli/modes/batch/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A launcher's variables; `needs` tells a process that it started from one that merely inherited
 * its environment (a batch script has Slurm's variables too, and is not one of the tasks). */
static const struct launcher {
    const char *rank, *size, *needs;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_RANK", "PMI_SIZE", "PMI_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
};

static int set(struct shard *s, const char *i, const char *n, const char *what, struct err *e)
{
    char *end_i, *end_n;
    unsigned long a = strtoul(i, &end_i, 10), b = strtoul(n, &end_n, 10);
    if (end_i == i || *end_i || end_n == n || *end_n || *i == '-' || *n == '-' || !b || a >= b ||
        b > 1u << 20)
        return err_set(e, "--shard %s: must be i/n with i from 0 to n-1", what);
    *s = (struct shard){a, b};
    return 0;
}

int shard_parse(struct shard *s, const char *text, struct err *e)
{
    *s = (struct shard){0, 1};
    if (!text) return 0;
    if (strcmp(text, "auto")) {
        char i[24];
        const char *slash = strchr(text, '/');
        if (!slash || slash - text >= (int)sizeof i)
            return err_set(e, "--shard %s: must be i/n with i from 0 to n-1, or auto", text);
        snprintf(i, sizeof i, "%.*s", (int)(slash - text), text);
        return set(s, i, slash + 1, text, e);
    }
    for (size_t k = 0; k < sizeof launchers / sizeof *launchers; k++) {
        const char *rank = getenv(launchers[k].rank), *size = getenv(launchers[k].size);
        if (rank && size && getenv(launchers[k].needs)) return set(s, rank, size, "auto", e);
    }
    return err_set(e, "--shard auto: this process was started by neither srun nor mpirun (no "
                      "SLURM_PROCID in a step, no "
                      "OMPI_COMM_WORLD_RANK, no PMI_RANK)");
}

uint64_t shard_count(const struct shard *s, uint64_t n_records)
{
    return n_records > s->i ? (n_records - s->i - 1) / s->n + 1 : 0;
}
