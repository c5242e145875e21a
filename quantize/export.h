/* export.h: the result as a directory of Hugging Face in the format GPTQ: shards, index,
 * configuration, tokenizer. It is written in the folder of the work and gets its name when it is
 * complete. Must not know: how modules are quantized. */
#ifndef QUANTIZE_EXPORT_H
#define QUANTIZE_EXPORT_H

#include "quantize/modules.h"
#include "quantize/work.h"

struct export_from {
    const struct hf_dir *dir;
    const struct modules *modules;
    const struct settings *settings;
    const json_t *config; /* config.json of the source */
    int n_units;
    const volatile sig_atomic_t *stop;
    uint64_t shard_bytes; /* of the largest file; 0: 4 GB */
};

/* Writes the folder DIR, of units that are all finished. *reports: those of all modules. */
int export_write(const struct work *w, const struct export_from *from, const char *dir,
                 json_t **reports, struct err *e);

#endif
