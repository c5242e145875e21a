/* byte_vocab.h: a vocabulary of every byte, and of the texts that the includer gives. Owns: which
 * number is which. */
#ifndef FUZZ_BYTE_VOCAB_H
#define FUZZ_BYTE_VOCAB_H

#include "core/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>

/* texts, an array of the includer's, has the tokens from 256 on. */
static const char *byte_vocab_token(void *texts, int32_t id, size_t *bytes)
{
    static char all[256];
    const char *const *text = (const char *const *)texts;
    if (id < 256) all[id] = (char)id;
    *bytes = id < 256 ? 1 : strlen(text[id - 256]);
    return id < 256 ? all + id : text[id - 256];
}

/* The vocabulary of 256 + n tokens, opened once and never closed. */
static struct vocab *byte_vocab(const char *const *texts, int n)
{
    static struct vocab *v;
    struct err e;
    const struct vocab_source source = {256 + n, byte_vocab_token, (void *)(uintptr_t)texts};
    if (!v && vocab_open(&v, &source, &e)) abort();
    return v;
}

#endif
