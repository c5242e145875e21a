/* tokenizer.h: conversion between text and token ids as the checkpoint's tokenizer defines it.
 * Owns: tokenizer.json (Hugging Face tokenizers: BPE (Sennrich et al. 2016), normalizers,
 * pre-tokenizers, added tokens, post-processors, decoders) and SentencePiece's tokenizer.model
 * (Kudo and Richardson 2018). Must not know: models, files, prompts. An open tokenizer is constant;
 * each thread has its own tok_ids. */
#ifndef CORE_TOKENIZER_H
#define CORE_TOKENIZER_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* The source files as bytes, not NUL-terminated; NULL: the checkpoint has none. json or spm is
 * required (json is preferred). config (tokenizer_config.json), special_map
 * (special_tokens_map.json) and added (added_tokens.json) name BOS, EOS and more added tokens. */
struct tok_source {
    const char *json, *spm, *config, *special_map, *added;
    size_t json_bytes, spm_bytes, config_bytes, special_map_bytes, added_bytes;
};

/* A growable list of ids; zero-initialize, free with tok_ids_free. */
struct tok_ids {
    int32_t *id; /* [n] */
    size_t n, cap;
};
void tok_ids_free(struct tok_ids *ids);

int tok_open(struct tokenizer **t, const struct tok_source *src, struct err *e);
void tok_close(struct tokenizer *t);
/* The highest id plus one. */
int32_t tok_n_ids(const struct tokenizer *t);
/* Id of the vocabulary or added token with this spelling, or -1. */
int32_t tok_id_of(const struct tokenizer *t, const char *token);
/* BOS and EOS as the side files (or the SentencePiece model) name them, or -1. */
int32_t tok_bos(const struct tokenizer *t);
int32_t tok_eos(const struct tokenizer *t);
/* The ids that tok_encode puts before a text with add_special (*n of them, valid as long as t):
 * BOS, more where a template names more, none where the tokenizer adds none, whatever the model's
 * configuration calls its BOS. */
const int32_t *tok_before(const struct tokenizer *t, size_t *n);
/* 1 if the id is an added token marked special. */
int tok_is_special(const struct tokenizer *t, int32_t id);

/* Appends the ids of TEXT [n bytes; invalid UTF-8 counts as U+FFFD]. Added tokens in the text are
 * recognised. With add_special the post-processor adds BOS/EOS, as tokenizers'
 * encode(add_special_tokens=True). */
int tok_encode(const struct tokenizer *t, const char *text, size_t n, int add_special,
               struct tok_ids *out, struct err *e);
/* Text of IDS [n], as tokenizers' decode(); malloc'd and NUL-terminated, *bytes long. Unknown ids
 * give no text. */
int tok_decode(const struct tokenizer *t, const int32_t *ids, size_t n, int skip_special,
               char **text, size_t *bytes, struct err *e);

/* Streaming decoder: its pieces concatenate to tok_decode's text of all ids; no piece ends inside a
 * UTF-8 sequence. */
struct tok_stream;
int tok_stream_open(struct tok_stream **s, const struct tokenizer *t, int skip_special,
                    struct err *e);
/* Opens a stream that continues the text of IDS [n]: its pieces are the rest of tok_decode's text
 * of all ids. Decoders treat the beginning of a text differently ("▁the" loses its space only
 * there), so an answer is decoded after its prompt. */
int tok_stream_open_after(struct tok_stream **s, const struct tokenizer *t, int skip_special,
                          const int32_t *ids, size_t n, struct err *e);
/* An independent copy of FROM in its current state. */
int tok_stream_copy(struct tok_stream **s, const struct tok_stream *from, struct err *e);
void tok_stream_close(struct tok_stream *s);
/* Length in bytes of the text of IDS that the pieces continue: that of tok_decode(IDS), unless the
 * next ids change its end (a character that IDS begins and they complete belongs to the pieces). 0
 * without IDS. */
size_t tok_stream_before(const struct tok_stream *s);
/* Adds an id. *piece is the text that is final now, perhaps empty, valid until the next call. */
int tok_stream_push(struct tok_stream *s, int32_t id, const char **piece, size_t *bytes,
                    struct err *e);
/* The text held back (an incomplete sequence becomes U+FFFD). The stream is empty afterwards. */
int tok_stream_flush(struct tok_stream *s, const char **piece, size_t *bytes, struct err *e);

/* Text of one id as inside a text; malloc'd, *bytes long. A partial character gives U+FFFD. */
int tok_decode_inside(const struct tokenizer *t, int32_t id, char **text, size_t *bytes,
                      struct err *e);

/* The bytes of one id that may be part of a character: of a byte-level spelling, or the byte of
 * byte fallback; malloc'd, *n long. *bytes is NULL where the id has no such spelling. */
int tok_own_bytes(const struct tokenizer *t, int32_t id, char **bytes, size_t *n, struct err *e);

/* What each id adds inside a text, as bytes: also parts of characters. Special tokens and unused
 * ids add nothing. */
struct tok_bytes {
    char *text;    /* bytes of id i: text[start[i]] up to text[start[i + 1]] */
    size_t *start; /* [n + 1] */
    int32_t n;
};
int tok_bytes_open(struct tok_bytes *all, const struct tokenizer *t, struct err *e);
void tok_bytes_close(struct tok_bytes *all);

#endif
