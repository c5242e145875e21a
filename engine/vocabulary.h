/* vocabulary.h: the tokenizer of a model file, and its tokens as the bytes that grammars read.
 * Owns: both. Must not know: options, grammars, what the tokens are for. */
#ifndef ENGINE_VOCABULARY_H
#define ENGINE_VOCABULARY_H

#include "core/grammar/vocab.h"
#include "core/model/modelfile.h"
#include "core/text/tokenizer.h"

/* *t: the tokenizer that the file carries, or NULL where it carries none. */
int vocabulary_tokenizer(struct tokenizer **t, const struct modelfile *m, struct err *e);

/* Tokens below `vocab` of the tokenizer, which outlives them; eos [n_eos] end an answer and are no
 * text. */
struct vocabulary_source {
    const struct tokenizer *tokenizer;
    const int32_t *eos;
    int n_eos, vocab;
};
int vocabulary_open(struct vocab **v, const struct vocabulary_source *source, struct err *e);

#endif
