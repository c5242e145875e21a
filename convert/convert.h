/* convert.h: one conversion, from a checkpoint directory to a model file.
 * Owns: the order of things. Must not know: how options are spelled, signals. */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include "convert/notes.h"
#include "convert/writer.h"

struct convert_options {
    const char *dir;
    struct writer_options out;
    struct notes notes;
    int no_tokenizer; /* leave it out */
};

/* On failure there is no new file and e says why. */
int convert_run(const struct convert_options *o, struct err *e);

#endif
