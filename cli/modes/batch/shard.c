#include "cli/modes/batch/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A launcher's variables; `needs` tells a process that it started from one that merely inherited
 * its environment (a batch script has Slurm's variables too, and is not one of the tasks). */
static const struct launcher {
    const char *rank, *size, *needs;
    const char *local_rank, *local_size; /* of this machine's processes; or a list by machine */
    const char *machine;                 /* then this one's place in it */
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {"PMI_RANK", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_NODEID"},
};

static const struct launcher *launcher(void)
{
    for (size_t k = 0; k < sizeof launchers / sizeof *launchers; k++)
        if (getenv(launchers[k].rank) && getenv(launchers[k].size) && getenv(launchers[k].needs))
            return &launchers[k];
    return NULL;
}

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
    const struct launcher *by = launcher();
    if (by) return set(s, getenv(by->rank), getenv(by->size), "auto", e);
    return err_set(e, "--shard auto: this process was started by neither srun nor mpirun (no "
                      "SLURM_PROCID in a step, no "
                      "OMPI_COMM_WORLD_RANK, no PMI_RANK)");
}

/* Item AT of Slurm's "2(x3),1": 2, 2, 2, 1. 0: there is none. */
static unsigned long item_of(const char *list, unsigned long at)
{
    for (char *end; *list; list = end + (*end == ',')) {
        unsigned long n = strtoul(list, &end, 10), times = 1;
        if (end == list) return 0;
        if (!strncmp(end, "(x", 2)) {
            times = strtoul(end + 2, &end, 10);
            if (*end != ')') return 0;
            end++;
        }
        if (at < times) return n;
        at -= times;
        if (*end && *end != ',') return 0;
    }
    return 0;
}

struct shard shard_local(void)
{
    for (size_t k = 0; k < sizeof launchers / sizeof *launchers; k++) {
        const struct launcher *by = &launchers[k];
        const char *rank = getenv(by->needs) ? getenv(by->local_rank) : NULL,
                   *size = getenv(by->local_size), *at = by->machine ? getenv(by->machine) : "0";
        if (!rank) continue;
        unsigned long i = strtoul(rank, NULL, 10),
                      n = size && at ? item_of(size, strtoul(at, NULL, 10)) : 0;
        if (i < 1u << 20) return (struct shard){i, i < n && n <= 1u << 20 ? n : i + 1};
    }
    return (struct shard){0, 1};
}

uint64_t shard_count(const struct shard *s, uint64_t n_records)
{
    return n_records > s->i ? (n_records - s->i - 1) / s->n + 1 : 0;
}
