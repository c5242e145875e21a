/* tokenizer.h: text <-> token ids, as the checkpoint's own tokenizer does it. Owns: tokenizer.json
 * (Hugging Face tokenizers: BPE models, normalizers, pre-tokenizers, added tokens, post-processors,
 * decoders) and SentencePiece tokenizer.model. Must not know: models, files, prompts. An open
 * tokenizer is constant; each thread brings its own tok_ids. */
#ifndef CORE_TOKENIZER_H
#define CORE_TOKENIZER_H

#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* The source files as bytes, not NUL-terminated; NULL where the checkpoint has none. One of json
 * and spm is needed (json wins). config (tokenizer_config.json) and special_map
 * (special_tokens_map.json) name BOS, EOS and, for spm, added tokens. */
struct tok_source {
    const char *json, *spm, *config, *special_map;
    size_t json_bytes, spm_bytes, config_bytes, special_map_bytes;
};

/* Growable list of ids; zero-initialize, free with tok_ids_free. */
struct tok_ids {
    int32_t *id; /* [n] */
    size_t n, cap;
};
void tok_ids_free(struct tok_ids *ids);

int tok_open(struct tokenizer **t, const struct tok_source *src, struct err *e);
void tok_close(struct tokenizer *t);
/* One more than the highest id. */
int32_t tok_n_ids(const struct tokenizer *t);
/* Id of the token spelled exactly so (vocabulary or added), or -1. */
int32_t tok_id_of(const struct tokenizer *t, const char *token);
/* BOS/EOS as tokenizer_config.json (or the SentencePiece model) names them, or -1. */
int32_t tok_bos(const struct tokenizer *t);
int32_t tok_eos(const struct tokenizer *t);
/* 1 when the id is an added token marked special. */
int tok_is_special(const struct tokenizer *t, int32_t id);

/* Appends the ids of TEXT [n bytes; invalid UTF-8 counts as U+FFFD]. Added tokens spelled in the
 * text are recognised. With add_special the post-processor's BOS/EOS are put around, as tokenizers'
 * encode(add_special_tokens=True). */
int tok_encode(const struct tokenizer *t, const char *text, size_t n, int add_special,
               struct tok_ids *out, struct err *e);
/* Text of IDS [n], as tokenizers' decode(); malloc'd and NUL-terminated, *bytes long. Ids that do
 * not exist give nothing. */
int tok_decode(const struct tokenizer *t, const int32_t *ids, size_t n, int skip_special,
               char **text, size_t *bytes, struct err *e);

/* Streaming: the pieces pushed out one after the other concatenate to what tok_decode gives for all
 * ids, and no piece ends inside a UTF-8 sequence. */
struct tok_stream;
int tok_stream_open(struct tok_stream **s, const struct tokenizer *t, int skip_special,
                    struct err *e);
/* A stream of the text that follows that of IDS [n]: what tok_decode gives for IDS is followed by
 * the pieces as it is by the rest in what tok_decode gives for all ids. Decoders treat the
 * beginning of a text differently ("▁the" loses its space only there), so an answer is not decoded
 * without its prompt. */
int tok_stream_open_after(struct tok_stream **s, const struct tokenizer *t, int skip_special,
                          const int32_t *ids, size_t n, struct err *e);
/* A stream of its own in the state of FROM. */
int tok_stream_copy(struct tok_stream **s, const struct tok_stream *from, struct err *e);
void tok_stream_close(struct tok_stream *s);
/* Bytes of tok_decode(IDS) that the text of all ids begins with: all of them, unless what follows
 * turned out to change their end (a character that IDS began and the next ids complete belongs to
 * the pieces). 0 without IDS. */
size_t tok_stream_before(const struct tok_stream *s);
/* Text that became certain with this id: *piece is valid until the next call, may be empty. */
int tok_stream_push(struct tok_stream *s, int32_t id, const char **piece, size_t *bytes,
                    struct err *e);
/* What was held back (an unfinished sequence becomes U+FFFD). The stream is empty afterwards. */
int tok_stream_flush(struct tok_stream *s, const char **piece, size_t *bytes, struct err *e);

/* Text of one id as it reads inside a text; malloc'd, *bytes long. Part of a character gives
 * U+FFFD. */
int tok_decode_inside(const struct tokenizer *t, int32_t id, char **text, size_t *bytes,
                      struct err *e);

#endif
