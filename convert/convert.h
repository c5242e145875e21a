/* convert.h: conversion of a checkpoint directory to a model file. Owns: the order of the steps.
 * Must not know: options, signals. */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "convert/plan.h"
#include "convert/writer.h"

struct convert_options {
    const char *dir;
    int as_numbers; /* as hfd_open() */
    struct writer_options out;
    struct notes notes;
    struct plan_options plan;
};

/* A checkpoint, opened: all that is read before the plan. */
struct checkpoint {
    struct hf_dir dir;
    struct hf_config model;
    struct quant_config quant;
    json_t *config, *generation; /* config.json; generation_config.json or NULL */
};

/* Opens and reads a checkpoint; as_numbers: as hfd_open(). After an error it holds what was read
 * until then; checkpoint_close() is needed in any case. */
int checkpoint_open(struct checkpoint *k, const char *dir, int as_numbers, const struct notes *n,
                    struct err *e);
void checkpoint_close(struct checkpoint *k);
/* Converts. On failure there is no new file, and e has the reason. */
int convert_run(const struct convert_options *o, struct err *e);

#endif
