/* gguf_tokenizer.c: the tokenizer's files of a GGUF file. Pieces of SentencePiece are a
 * tokenizer.model again, tokens of byte-level BPE a tokenizer.json, whose pattern llama.cpp keeps
 * as a name. */
#include "convert/gguf_checkpoint.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of tokens, numbered as SentencePiece does. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

#define LLAMA3_PATTERN(digits)                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                     \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* How texts are split before merges, by llama.cpp's names. */
static const struct split {
    const char *name, *pattern; /* NULL: GPT-2's */
    int digits;                 /* each by itself, before all else */
    int adds_bos, whole_first;  /* whole_first: a text that is a token is not merged */
} splits[] = {
    {"default", NULL, 0, 0, 0},
    {"gpt-2", NULL, 0, 0, 0},
    {"smollm", NULL, 1, 0, 0},
    {"starcoder", NULL, 1, 0, 0},
    {"refact", NULL, 1, 0, 0},
    {"llama-bpe", LLAMA3_PATTERN("{1,3}"), 0, 1, 1},
    {"qwen2", LLAMA3_PATTERN(""), 0, 0, 0},
    {"stablelm2", LLAMA3_PATTERN(""), 0, 0, 0},
    {"deepseek-r1-qwen", LLAMA3_PATTERN(""), 0, 1, 0},
};

/* The tokenizer's keys. */
struct pieces {
    const json_t *tokens, *kinds, *scores, *merges;
    size_t n;
};

static int kind_of(const struct pieces *p, size_t i)
{
    const json_t *v = json_array_get(p->kinds, i);
    return v ? (int)json_integer_value(v) : NORMAL;
}

static const char *token_of(const struct pieces *p, const json_t *id)
{
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    return i >= 0 ? json_string_value(json_array_get(p->tokens, (size_t)i)) : NULL;
}

static int is_true(const struct gguf_checkpoint *k, const char *key, int fallback)
{
    const json_t *v = gguf_key(k, key);
    return v ? json_is_true(v) : fallback;
}

static int read_pieces(const struct gguf_checkpoint *k, struct pieces *p, struct err *e)
{
    *p = (struct pieces){.tokens = gguf_key(k, "tokenizer.ggml.tokens"),
                         .kinds = gguf_key(k, "tokenizer.ggml.token_type"),
                         .scores = gguf_key(k, "tokenizer.ggml.scores"),
                         .merges = gguf_key(k, "tokenizer.ggml.merges")};
    p->n = json_array_size(p->tokens);
    if (!p->n) return err_set(e, "%s: holds no tokens", k->file.path);
    for (size_t i = 0; i < p->n; i++)
        if (!json_is_string(json_array_get(p->tokens, i)))
            return err_set(e, "%s: tokenizer.ggml.tokens[%zu] is no text", k->file.path, i);
    if ((p->kinds && json_array_size(p->kinds) != p->n) ||
        (p->scores && json_array_size(p->scores) != p->n))
        return err_set(e, "%s: has not one kind and score for each token", k->file.path);
    return 0;
}

/* ---- SentencePiece, as a protocol buffer (sentencepiece_model.proto) */

struct bytes {
    uint8_t *p; /* [n] */
    size_t n, cap;
    int failed;
};

static void add_bytes(struct bytes *b, const void *p, size_t n)
{
    if (b->failed) return;
    if (b->cap - b->n < n) {
        size_t cap = 2 * b->cap + n + 4096;
        uint8_t *more = realloc(b->p, cap);
        if (!more) {
            b->failed = 1;
            return;
        }
        b->p = more, b->cap = cap;
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void add_varint(struct bytes *b, uint64_t x)
{
    uint8_t out[10];
    int n = 0;
    for (; x > 127; x >>= 7) out[n++] = (uint8_t)(x | 128);
    out[n++] = (uint8_t)x;
    add_bytes(b, out, (size_t)n);
}

static void add_number(struct bytes *b, int field, uint64_t x)
{
    add_varint(b, (uint64_t)field << 3);
    add_varint(b, x);
}

static void add_part(struct bytes *b, int field, const void *p, size_t n)
{
    add_varint(b, (uint64_t)field << 3 | 2);
    add_varint(b, n);
    add_bytes(b, p, n);
}

static void add_piece(struct bytes *b, const struct pieces *p, size_t i)
{
    const json_t *token = json_array_get(p->tokens, i);
    float score = (float)json_number_value(json_array_get(p->scores, i));
    struct bytes own = {0};
    add_part(&own, 1, json_string_value(token), json_string_length(token));
    add_varint(&own, 2 << 3 | 5);
    add_bytes(&own, &score, 4);
    if (kind_of(p, i) != NORMAL) add_number(&own, 3, (uint64_t)kind_of(p, i));
    add_part(b, 1, own.p, own.n);
    b->failed |= own.failed;
    free(own.p);
}

static int spm(struct gguf_checkpoint *k, const struct pieces *p, struct err *e)
{
    enum { TYPE_BPE = 2 };
    struct bytes b = {0}, trainer = {0}, normalizer = {0};
    static const struct {
        const char *key;
        int field;
    } ids[] = {{"tokenizer.ggml.unknown_token_id", 40},
               {"tokenizer.ggml.bos_token_id", 41},
               {"tokenizer.ggml.eos_token_id", 42}};
    for (size_t i = 0; i < p->n; i++) add_piece(&b, p, i);
    add_number(&trainer, 3, TYPE_BPE);
    add_number(&trainer, 35, 1); /* byte_fallback */
    for (size_t i = 0; i < 3; i++) {
        const json_t *id = gguf_key(k, ids[i].key);
        if (json_is_integer(id))
            add_number(&trainer, ids[i].field, (uint64_t)json_integer_value(id));
    }
    add_part(&b, 2, trainer.p, trainer.n);
    add_part(&normalizer, 1, "identity", 8);
    add_number(&normalizer, 3, (uint64_t)is_true(k, "tokenizer.ggml.add_space_prefix", 1));
    add_number(&normalizer, 4, 0); /* remove_extra_whitespaces */
    add_number(&normalizer, 5, 1); /* escape_whitespaces */
    add_part(&b, 3, normalizer.p, normalizer.n);
    add_bytes(&b, "", 1);
    free(trainer.p);
    free(normalizer.p);
    if (b.failed || trainer.failed || normalizer.failed) {
        free(b.p);
        return err_memory(e);
    }
    gguf_add_text(k, "tokenizer.model", (char *)b.p, b.n - 1);
    return 0;
}

/* ---- byte-level BPE */

static json_t *added_token(const struct pieces *p, size_t i)
{
    return json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)i, "content",
                     json_array_get(p->tokens, i), "single_word", 0, "lstrip", 0, "rstrip", 0,
                     "normalized", 0, "special", kind_of(p, i) == CONTROL);
}

static json_t *pre_tokenizer(const struct split *s)
{
    json_t *list = json_array();
    if (s->digits)
        json_array_append_new(list,
                              json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
    if (s->pattern)
        json_array_append_new(list,
                              json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern",
                                        "Regex", s->pattern, "behavior", "Isolated", "invert", 0));
    json_array_append_new(list,
                          json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                    0, "trim_offsets", 1, "use_regex", s->pattern == NULL));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
}

/* BOS in front of every text. */
static json_t *post_processor(const struct gguf_checkpoint *k, const struct pieces *p, int adds_bos)
{
    const json_t *id = gguf_key(k, "tokenizer.ggml.bos_token_id");
    const char *bos = token_of(p, id);
    if (!bos || !is_true(k, "tokenizer.ggml.add_bos_token", adds_bos)) return json_null();
    return json_pack("{s:s, s:[{s:{s:s, s:i}}, {s:{s:s, s:i}}], s:[], s:{s:{s:s, s:[O], s:[s]}}}",
                     "type", "TemplateProcessing", "single", "SpecialToken", "id", bos, "type_id",
                     0, "Sequence", "id", "A", "type_id", 0, "pair", "special_tokens", bos, "id",
                     bos, "ids", id, "tokens", bos);
}

static json_t *merges_of(const struct pieces *p)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(p->merges); i++) {
        const char *m = json_string_value(json_array_get(p->merges, i)),
                   *space = m && *m ? strchr(m + 1, ' ') : NULL;
        if (!space) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, json_pack("[s%, s]", m, (size_t)(space - m), space + 1));
    }
    return list;
}

static int bpe(struct gguf_checkpoint *k, const struct pieces *p, struct err *e)
{
    const char *pre = json_string_value(gguf_key(k, "tokenizer.ggml.pre"));
    const struct split *s = splits, *end = splits + sizeof splits / sizeof *splits;
    while (s < end && strcmp(s->name, pre ? pre : "default") != 0) s++;
    if (s == end)
        return err_set(e, "%s: texts are split by '%.40s', which is not known", k->file.path, pre);
    json_t *vocab = json_object(), *added = json_array(), *merges = merges_of(p);
    if (!merges) {
        json_decref(vocab);
        json_decref(added);
        return err_set(e, "%s: a merge of the tokenizer is no pair", k->file.path);
    }
    for (size_t i = 0; i < p->n; i++) {
        const char *token = json_string_value(json_array_get(p->tokens, i));
        if (!json_object_get(vocab, token))
            json_object_set_new(vocab, token, json_integer((json_int_t)i));
        if (kind_of(p, i) == CONTROL || kind_of(p, i) == USER)
            json_array_append_new(added, added_token(p, i));
    }
    json_t *model = json_pack("{s:s, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                              "unk_token", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges",
                              s->whole_first, "vocab", vocab, "merges", merges),
           *byte_level = json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                   1, "trim_offsets", 1, "use_regex", 1);
    return gguf_add_json(k, "tokenizer.json",
                         json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version",
                                   "1.0", "truncation", "padding", "added_tokens", added,
                                   "normalizer", "pre_tokenizer", pre_tokenizer(s),
                                   "post_processor", post_processor(k, p, s->adds_bos), "decoder",
                                   byte_level, "model", model),
                         e);
}

/* ---- what stands beside them */

/* Ends of answers: EOS, and the end of a turn where it is another token. */
static int generation(struct gguf_checkpoint *k, const struct pieces *p, struct err *e)
{
    const json_t *eos = gguf_key(k, "tokenizer.ggml.eos_token_id"),
                 *turn = gguf_key(k, "tokenizer.ggml.eot_token_id");
    json_t *ends = json_array();
    if (json_is_integer(eos)) json_array_append(ends, (json_t *)(uintptr_t)eos);
    if (json_is_integer(turn) && !json_equal(turn, eos))
        json_array_append(ends, (json_t *)(uintptr_t)turn);
    for (size_t i = 0; i < p->n && !turn; i++)
        if (!strcmp(json_string_value(json_array_get(p->tokens, i)), "<end_of_turn>") &&
            json_integer_value(eos) != (json_int_t)i)
            json_array_append_new(ends, json_integer((json_int_t)i));
    return gguf_add_json(k, "generation_config.json", json_pack("{s:o}", "eos_token_id", ends), e);
}

static int settings(struct gguf_checkpoint *k, const struct pieces *p, int is_spm, struct err *e)
{
    static const char *const named[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                           {"eos_token", "tokenizer.ggml.eos_token_id"},
                                           {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                           {"pad_token", "tokenizer.ggml.padding_token_id"}};
    json_t *c = json_object(), *added = json_object();
    const json_t *template = gguf_key(k, "tokenizer.chat_template");
    char id[24];
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const char *token = token_of(p, gguf_key(k, named[i][1]));
        if (token) json_object_set_new(c, named[i][0], json_string(token));
    }
    for (size_t i = 0; i < p->n && is_spm; i++) {
        if (kind_of(p, i) != CONTROL && kind_of(p, i) != USER) continue;
        snprintf(id, sizeof id, "%zu", i);
        json_t *own = added_token(p, i);
        json_object_del(own, "id");
        json_object_set_new(added, id, own);
    }
    if (is_spm) json_object_set(c, "added_tokens_decoder", added);
    json_decref(added);
    if (is_spm)
        json_object_set_new(c, "add_bos_token",
                            json_boolean(is_true(k, "tokenizer.ggml.add_bos_token", 1)));
    json_object_set_new(c, "add_eos_token",
                        json_boolean(is_true(k, "tokenizer.ggml.add_eos_token", 0)));
    if (json_is_string(template))
        json_object_set(c, "chat_template", (json_t *)(uintptr_t) template);
    return gguf_add_json(k, "tokenizer_config.json", c, e);
}

int gguf_tokenizer(struct gguf_checkpoint *k, struct err *e)
{
    const char *model = json_string_value(gguf_key(k, "tokenizer.ggml.model"));
    struct pieces p;
    if (!model || !strcmp(model, "no_vocab") || !strcmp(model, "none")) return 0;
    int is_spm = !strcmp(model, "llama") || !strcmp(model, "gemma");
    if (!is_spm && strcmp(model, "gpt2") != 0)
        return err_set(e, "%s: tokenizers of kind '%.40s' are not read (llama and gpt2 are)",
                       k->file.path, model);
    if (read_pieces(k, &p, e)) return -1;
    return (is_spm ? spm(k, &p, e) : bpe(k, &p, e)) || settings(k, &p, is_spm, e) ||
                   generation(k, &p, e)
               ? -1
               : 0;
}
