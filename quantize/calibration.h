/* calibration.h: the tokens of the calibration: texts, or conversations through the model's chat
 * template, one behind the other and cut into sequences. Must not know: what they are for. */
#ifndef QUANTIZE_CALIBRATION_H
#define QUANTIZE_CALIBRATION_H

#include "core/model/modelfile.h"

struct calibration_want {
    const char *path; /* .jsonl and .jsonl.gz: objects with text or messages; else a text; NULL:
                         the built-in text */
    int n_tokens;     /* 0: 16384, or as many as there are */
    int sequence, vocab;
};

struct calibration {
    int32_t *token;  /* [n] */
    int n, sequence; /* sequences of so many tokens, but the last */
};

/* Error: among others, fewer tokens than asked for. */
int calibration_open(struct calibration *c, const struct modelfile *model,
                     const struct calibration_want *want, struct err *e);
void calibration_close(struct calibration *c);

#endif
