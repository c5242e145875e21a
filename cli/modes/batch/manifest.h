/* manifest.h: what the bytes of a batch's answers depend on, so that a run is only continued by the
 * same one. Must not know: where it is kept. */
#ifndef CLI_MODES_BATCH_MANIFEST_H
#define CLI_MODES_BATCH_MANIFEST_H

#include "cli/text/constraint_text.h"
#include "cli/options.h"
#include "cli/text/out.h"
#include "engine/pooling.h"
#include "cli/modes/batch/shard.h"
#include "core/sample/sampler.h"

struct manifest {
    const struct options *options;
    struct shard shard;
    uint32_t input_crc;
    uint64_t input_bytes, n_records;
    const char *model_name;
    const char
        *model_crc; /* 8 hex digits, of the model file's header, which holds every tensor's crc32 */
    uint32_t template_crc;          /* of --chat-template-file; the model's own is in the model */
    struct sampler_params sampling; /* where records say nothing */
    const struct constraint_text *constraint;
    const struct pooling *pooling;
    uint64_t seed;
    int n_ctx;
    const char *backend;      /* engine_order */
    const char *instructions; /* as engine_sums gives them; NULL: they do not matter */
    int64_t
        started; /* as run_local_time gives it: what a chat template takes for now; not compared */
};

/* Appends it as one line of JSON. */
int manifest_write(struct out *o, const struct manifest *m, struct err *e);
/* When the run that wrote OLD [n_old] was begun. -1: OLD is not what manifest_write wrote. */
int manifest_started(const char *old, size_t n_old, int64_t *started, struct err *e);
/* The seed of that run, likewise. */
int manifest_seed(const char *old, size_t n_old, uint64_t *seed, struct err *e);
/* Compares an OLD one [n_old] with the line that manifest_write gave. 1: *e names what changed; -1:
 * failed. */
int manifest_check(const char *old, size_t n_old, const char *now, size_t n_now, struct err *e);

#endif
