/* tok_spm.c: reader of SentencePiece's tokenizer.model (a protobuf), used when there is no
 * tokenizer.json. Owns: the wire format and the steps that the model's settings mean; the result
 * equals that of transformers' conversion to tokenizer.json. Must not know: how steps and merges
 * work. */
#include "core/text/tokenizer/tok_internal.h"

#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

struct field {
    uint32_t number, wire; /* wire type: 0 varint, 1 fixed64, 2 bytes, 5 fixed32 */
    uint64_t value;
    const unsigned char *p; /* [n] of a bytes field */
    size_t n;
};

static int read_varint(const unsigned char **p, const unsigned char *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && *p < end; shift += 7) {
        unsigned char c = *(*p)++;
        *v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) return 0;
    }
    return -1;
}

/* Reads the next field of a message: 1, 0 at its end, -1: damaged. */
static int next_field(const unsigned char **p, const unsigned char *end, struct field *f)
{
    uint64_t key;
    if (*p == end) return 0;
    if (read_varint(p, end, &key) || key >> 3 == 0 || key >> 3 > 1u << 29) return -1;
    *f = (struct field){.number = (uint32_t)(key >> 3), .wire = key & 7};
    if (f->wire == 0) return read_varint(p, end, &f->value) ? -1 : 1;
    uint64_t n = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
    if (f->wire == 2) {
        if (read_varint(p, end, &n)) return -1;
    } else if (!n) {
        return -1;
    }
    if (n > (uint64_t)(end - *p)) return -1;
    f->p = *p;
    f->n = (size_t)n;
    for (size_t i = 0; f->wire != 2 && i < n; i++) f->value |= (uint64_t)f->p[i] << (8 * i);
    *p += n;
    return 1;
}

struct piece {
    const char *s; /* [n] */
    size_t n;
    float score;
    int type;
};

struct model {
    struct piece *p; /* [n] */
    size_t n, cap;
    int type, byte_fallback;
    int32_t unk, bos, eos;
    int legacy; /* of tokenizer_config.json: every section of a text gets a prefix of its own */
    int has_charsmap, dummy_prefix, strip_spaces, escape_spaces, suffix_spaces;
};

static int read_piece(struct model *m, const struct field *f, struct err *e)
{
    const unsigned char *p = f->p, *end = p + f->n;
    struct field g;
    int rc;
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 1024;
        struct piece *q = realloc(m->p, cap * sizeof *q);
        if (!q) return err_memory(e);
        m->p = q;
        m->cap = cap;
    }
    if (m->n >= TOK_MAX_IDS) return err_set(e, "too many pieces");
    struct piece *x = &m->p[m->n++];
    *x = (struct piece){.s = "", .type = NORMAL};
    while ((rc = next_field(&p, end, &g)) > 0) {
        if (g.number == 1 && g.wire == 2) {
            x->s = (const char *)g.p;
            x->n = g.n;
        } else if (g.number == 2 && g.wire == 5) {
            uint32_t bits = (uint32_t)g.value;
            memcpy(&x->score, &bits, sizeof bits);
        } else if (g.number == 3 && g.wire == 0) {
            x->type = (int)(g.value & 0xff);
        }
    }
    if (rc < 0 || !x->n || x->score != x->score || tok_utf8_valid(x->s, x->n) != x->n)
        return err_set(e, "piece %zu is damaged", m->n - 1);
    return 0;
}

static int32_t id_or_none(uint64_t v)
{
    int64_t s = (int64_t)v;
    return s >= 0 && s < TOK_MAX_IDS ? (int32_t)s : -1;
}

static int read_settings(struct model *m, const struct field *f, struct err *e)
{
    const unsigned char *p = f->p, *end = p + f->n;
    struct field g;
    int rc;
    while ((rc = next_field(&p, end, &g)) > 0) {
        if (f->number == 2) {
            if (g.number == 3 && g.wire == 0) m->type = (int)(g.value & 0xff);
            if (g.number == 24 && g.wire == 0) m->suffix_spaces = g.value != 0;
            if (g.number == 35 && g.wire == 0) m->byte_fallback = g.value != 0;
            if (g.number == 40 && g.wire == 0) m->unk = id_or_none(g.value);
            if (g.number == 41 && g.wire == 0) m->bos = id_or_none(g.value);
            if (g.number == 42 && g.wire == 0) m->eos = id_or_none(g.value);
        } else {
            if (g.number == 2 && g.wire == 2) m->has_charsmap = g.n > 0;
            if (g.number == 3 && g.wire == 0) m->dummy_prefix = g.value != 0;
            if (g.number == 4 && g.wire == 0) m->strip_spaces = g.value != 0;
            if (g.number == 5 && g.wire == 0) m->escape_spaces = g.value != 0;
        }
    }
    return rc < 0 ? err_set(e, "the %s is damaged",
                            f->number == 2 ? "trainer_spec" : "normalizer_spec")
                  : 0;
}

static int read_model(struct model *m, const struct tok_source *src, struct err *e)
{
    const unsigned char *p = (const unsigned char *)src->spm, *end = p + src->spm_bytes;
    struct field f;
    int rc;
    while ((rc = next_field(&p, end, &f)) > 0) {
        if (f.wire != 2) continue;
        if (f.number == 1 && read_piece(m, &f, e)) return -1;
        if ((f.number == 2 || f.number == 3) && read_settings(m, &f, e)) return -1;
    }
    if (rc < 0 || !m->n) return err_set(e, "damaged, or not a SentencePiece model");
    if (m->type != MODEL_BPE)
        return err_set(e, "a %s model is not supported, only BPE",
                       m->type == MODEL_UNIGRAM ? "unigram"
                       : m->type == 3           ? "word"
                       : m->type == 4           ? "char"
                                                : "unknown kind of");
    if (m->has_charsmap)
        return err_set(
            e, "a precompiled character map (normalization such as nmt_nfkc) is not supported");
    if (m->suffix_spaces) return err_set(e, "treat_whitespace_as_suffix is not supported");
    if (!m->escape_spaces) return err_set(e, "escape_whitespaces = false is not supported");
    if (m->unk < 0 || (size_t)m->unk >= m->n)
        return err_set(e, "the unknown token's id %d is outside the vocabulary", m->unk);
    return 0;
}

/* A merge that makes token `made`: one split of its spelling. */
struct split {
    float score;
    int32_t made, left, right;
};

/* The best score first; equal scores in file order, splits of one piece by the ids of their halves.
 */
static int by_priority(const void *x, const void *y)
{
    const struct split *a = x, *b = y;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->made != b->made) return a->made < b->made ? -1 : 1;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

static int make_merges(struct tok_bpe *b, const struct model *m, struct err *e)
{
    struct split *a = NULL;
    size_t n = 0, cap = 0;
    int rc = -1;
    for (size_t i = 0; i < m->n; i++) {
        const struct piece *x = &m->p[i];
        if (x->n > TOK_MAX_ADDED_BYTES) {
            err_set(e, "piece %zu is longer than %d bytes", i, TOK_MAX_ADDED_BYTES);
            goto fail;
        }
        for (size_t k = 1; k < x->n; k++) {
            if (((unsigned char)x->s[k] & 0xc0) == 0x80) continue;
            int32_t l = tok_bpe_find(b, x->s, k),
                    r = l < 0 ? -1 : tok_bpe_find(b, x->s + k, x->n - k);
            if (r < 0) continue;
            if (n == cap) {
                cap = cap ? cap * 2 : 4096;
                struct split *q = realloc(a, cap * sizeof *q);
                if (!q) {
                    err_memory(e);
                    goto fail;
                }
                a = q;
            }
            a[n++] = (struct split){x->score, (int32_t)i, l, r};
        }
    }
    if (n) qsort(a, n, sizeof *a, by_priority);
    if (tok_bpe_init_merges(b, n, e)) goto fail;
    for (size_t i = 0; i < n; i++)
        tok_bpe_put_merge(b, a[i].left, a[i].right, (uint32_t)i, a[i].made);
    rc = 0;
fail:
    free(a);
    return rc;
}

static int add_replace(struct tok_steps *to, enum tok_op op, int regex, const char *from,
                       const char *with, struct err *e)
{
    struct tok_step *s = tok_steps_add(to, op, e);
    if (!s || (regex ? tok_pattern_regex(&s->pat, from, strlen(from), e)
                     : tok_pattern_string(&s->pat, from, strlen(from), e)))
        return -1;
    return tok_step_set_str(s, with, strlen(with), e);
}

static int make_steps(struct tokenizer *t, const struct model *m, struct err *e)
{
    static const char space[] = "\xe2\x96\x81"; /* U+2581 */
    struct tok_step *s;
    /* The lookbehind keeps a long run inside the text from being tried at each of its spaces. */
    if (m->strip_spaces &&
        (add_replace(&t->norm, TOK_NORM_REPLACE, 1, "\\A +|(?<! ) +\\z", "", e) ||
         add_replace(&t->norm, TOK_NORM_REPLACE, 1, " {2,}", " ", e)))
        return -1;
    if (m->legacy) {
        if (m->dummy_prefix && (!(s = tok_steps_add(&t->norm, TOK_NORM_PREPEND, e)) ||
                                tok_step_set_str(s, space, 3, e)))
            return -1;
        if (add_replace(&t->norm, TOK_NORM_REPLACE, 0, " ", space, e)) return -1;
    } else {
        if (!(s = tok_steps_add(&t->pre, TOK_PRE_METASPACE, e)) || tok_step_set_str(s, space, 3, e))
            return -1;
        s->scheme = m->dummy_prefix ? TOK_SCHEME_FIRST : TOK_SCHEME_NEVER;
    }
    if (add_replace(&t->dec, TOK_DEC_REPLACE, 0, space, " ", e)) return -1;
    if (m->byte_fallback && !tok_steps_add(&t->dec, TOK_DEC_BYTE_FALLBACK, e)) return -1;
    if (!tok_steps_add(&t->dec, TOK_DEC_FUSE, e)) return -1;
    if (!m->dummy_prefix) return 0;
    if (!(s = tok_steps_add(&t->dec, TOK_DEC_STRIP, e)) || tok_step_set_str(s, " ", 1, e))
        return -1;
    s->left = 1;
    return 0;
}

/* Adds the model's control, unknown and user-defined pieces. User-defined ones are found in the
 * normalized text, as SentencePiece does, unless nothing is normalized. */
static int add_pieces(struct tokenizer *t, const struct model *m, struct err *e)
{
    for (size_t i = 0; i < m->n; i++) {
        int type = m->p[i].type;
        if (type != CONTROL && type != UNKNOWN && type != USER_DEFINED) continue;
        struct tok_added *a = tok_added_new(t, m->p[i].s, m->p[i].n, e);
        if (!a) return -1;
        a->special = type != USER_DEFINED;
        a->as_is = a->normalized = type == USER_DEFINED && m->legacy;
    }
    return 0;
}

static int add_around(struct tokenizer *t, const struct model *m, const struct tok_side *side,
                      struct err *e)
{
    int bos, eos;
    if (tok_side_flag(side, "add_bos_token", 1, &bos, e) ||
        tok_side_flag(side, "add_eos_token", 0, &eos, e))
        return -1;
    int32_t *around = malloc(3 * sizeof *around);
    if (!around) return err_memory(e);
    free(t->around);
    t->around = around;
    t->n_around = 0;
    if (bos && m->bos >= 0) around[t->n_around++] = m->bos;
    around[t->n_around++] = TOK_TEXT_HERE;
    if (eos && m->eos >= 0) around[t->n_around++] = m->eos;
    return 0;
}

int tok_spm_read(struct tokenizer *t, const struct tok_source *src, const struct tok_side *side,
                 struct err *e)
{
    /* The defaults of sentencepiece_model.proto. */
    struct model m = {.type = MODEL_UNIGRAM,
                      .unk = 0,
                      .bos = 1,
                      .eos = 2,
                      .dummy_prefix = 1,
                      .strip_spaces = 1,
                      .escape_spaces = 1};
    struct tok_bpe *b = &t->bpe;
    int rc = -1, prefix;
    if (read_model(&m, src, e) || tok_side_flag(side, "legacy", 1, &m.legacy, e) ||
        tok_side_flag(side, "add_prefix_space", 1, &prefix, e))
        goto fail;
    m.dummy_prefix = m.dummy_prefix && prefix;
    if (m.bos >= (int32_t)m.n) m.bos = -1;
    if (m.eos >= (int32_t)m.n) m.eos = -1;
    if (tok_bpe_init(b, (int32_t)m.n, m.n, e)) goto fail;
    for (size_t i = 0; i < m.n; i++)
        if (tok_bpe_add(b, m.p[i].s, m.p[i].n, (int32_t)i, e)) goto fail;
    b->byte_fallback = m.byte_fallback;
    b->fuse_unk = 1;
    b->unk = m.unk;
    if (make_merges(b, &m, e) || tok_bpe_finish(b, e) || make_steps(t, &m, e) ||
        add_pieces(t, &m, e) || add_around(t, &m, side, e))
        goto fail;
    t->bos = m.bos;
    t->eos = m.eos;
    rc = 0;
fail:
    free(m.p);
    return rc;
}
