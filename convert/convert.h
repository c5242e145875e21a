/* convert.h: conversion of a checkpoint directory to a model file. Owns: the order of the steps.
 * Must not know: options, signals. */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "convert/plan.h"
#include "convert/writer.h"

struct convert_options {
    const char *dir;
    struct writer_options out;
    struct notes notes;
    struct plan_options plan;
};

/* Converts. On failure there is no new file, and e has the reason. */
int convert_run(const struct convert_options *o, struct err *e);

#endif
