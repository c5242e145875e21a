/* tok_decode.c: ids to text, one id at a time. Owns: the decoder steps as a chain of state
 * machines, each passing its output to the next. tok_decode uses the same chain, so streamed pieces
 * concatenate to its text. Must not know: how text becomes ids. */
#include "core/text/tokenizer/tok_internal.h"

#include <stdlib.h>
#include <string.h>

/* State of one step. Its tokens are the ids' texts or, after a step that joins, one token. */
struct stage {
    struct tok_buf held, out; /* held: input kept back; out: scratch for the output */
    size_t tokens;            /* number of complete tokens */
    int stripped; /* DEC_STRIP: characters removed from the current token, -1: past its start */
    int joined;   /* an earlier step joins everything into one token */
};

struct tok_stream {
    const struct tokenizer *t;
    int skip_special;
    struct tok_match *match;
    struct tok_buf text, token; /* text: the piece; token: one id's spelling */
    /* end of the preceding text that the steps still hold and will output again; not part of the
     * pieces */
    struct tok_buf before;
    /* bytes of the preceding text; bytes of `before` that have been output again */
    size_t n_before, n_met;
    struct stage st[]; /* [dec.n] */
};

static int feed(struct tok_stream *s, size_t k, const char *p, size_t n, int end, struct err *e);

static const char *text_of(const struct tok_buf *b) { return b->p ? b->p : ""; }

/* The byte of a token spelled <0xNN>, or -1; as in the library a sign may precede one digit. */
static int fallback_byte(const char *p, size_t n)
{
    if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>') return -1;
    int v = 0;
    for (int i = 3; i < 5; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0 && !(i == 3 && c == '+')) return -1;
        v = v * 16 + (d < 0 ? 0 : d);
    }
    return v;
}

/* A run of byte tokens is text if all of it is UTF-8; otherwise each byte is one U+FFFD. */
static int end_byte_run(struct tok_stream *s, size_t k, struct err *e)
{
    struct stage *g = &s->st[k];
    size_t n = g->held.n;
    if (!n) return 0;
    g->held.n = 0;
    if (tok_utf8_valid(g->held.p, n) == n) return feed(s, k + 1, g->held.p, n, 1, e);
    for (size_t i = 0; i < n; i++)
        if (feed(s, k + 1, "\xef\xbf\xbd", 3, 1, e)) return -1;
    return 0;
}

static int byte_level_token(struct stage *g, const char *p, size_t n, struct err *e)
{
    size_t mark = g->held.n, len;
    if (tok_buf_room(&g->held, n, e)) return -1;
    for (size_t i = 0; i < n; i += len) {
        int b =
            tok_byte_of_char((uint32_t)tok_utf8_next((const unsigned char *)p + i, n - i, &len));
        if (b < 0) { /* not in the alphabet: the token is literal text */
            g->held.n = mark;
            return tok_buf_add(&g->held, p, n, e);
        }
        g->held.p[g->held.n++] = (char)b;
    }
    return 0;
}

/* Outputs the final part of the held text. */
static int byte_level_flow(struct tok_stream *s, size_t k, int all, struct err *e)
{
    struct stage *g = &s->st[k];
    size_t used;
    g->out.n = 0;
    if (tok_utf8_lossy(&g->out, g->held.p, g->held.n, !all, &used, e)) return -1;
    memmove(g->held.p ? g->held.p : "", g->held.p ? g->held.p + used : "", g->held.n - used);
    g->held.n -= used;
    return g->out.n || all ? feed(s, k + 1, text_of(&g->out), g->out.n, all, e) : 0;
}

static int strip_token(struct tok_stream *s, size_t k, const char *p, size_t n, int end,
                       struct err *e)
{
    struct stage *g = &s->st[k];
    const struct tok_step *d = &s->t->dec.s[k];
    size_t w = d->str_bytes;
    while (g->stripped >= 0 && n) {
        if (g->stripped == d->left || n < w || memcmp(p, d->str, w)) {
            g->stripped = -1;
            break;
        }
        g->stripped++;
        p += w;
        n -= w;
    }
    if (end) {
        g->stripped = 0;
        g->tokens++;
        for (int i = 0; i < d->right && n >= w && !memcmp(p + n - w, d->str, w); i++) n -= w;
    }
    return feed(s, k + 1, p, n, end, e);
}

static int metaspace_token(struct tok_stream *s, size_t k, const char *p, size_t n, int end,
                           struct err *e)
{
    struct stage *g = &s->st[k];
    const struct tok_step *d = &s->t->dec.s[k];
    size_t len;
    g->out.n = 0;
    for (size_t i = 0; i < n; i += len) {
        tok_utf8_next((const unsigned char *)p + i, n - i, &len);
        int hit = len == d->str_bytes && !memcmp(p + i, d->str, len);
        if (hit && g->tokens == 0 && d->scheme != TOK_SCHEME_NEVER) continue;
        if (tok_buf_add(&g->out, hit ? " " : p + i, hit ? 1 : len, e)) return -1;
    }
    g->tokens += (size_t)end;
    return feed(s, k + 1, text_of(&g->out), g->out.n, end, e);
}

/* 1 if step k needs whole tokens. */
static int needs_whole(const struct tok_step *d)
{
    switch (d->op) {
    case TOK_DEC_REPLACE: return !tok_pattern_one_char(d->pat);
    case TOK_DEC_STRIP: return d->right > 0;
    case TOK_DEC_BYTE_FALLBACK:
    case TOK_DEC_BYTE_LEVEL: return 1;
    default: return 0;
    }
}

/* Passes p [n], whole characters, to step k as the next part of the current token; end closes the
 * token. */
static int feed(struct tok_stream *s, size_t k, const char *p, size_t n, int end, struct err *e)
{
    if (k == s->t->dec.n) return tok_buf_add(&s->text, p, n, e);
    struct stage *g = &s->st[k];
    const struct tok_step *d = &s->t->dec.s[k];
    if (g->joined && needs_whole(d)) {
        if (tok_buf_add(&g->held, p, n, e)) return -1;
        if (!end) return 0;
        /* Joins all tokens into one; the later steps' state starts empty. */
        struct tok_buf all = g->held;
        g->held = (struct tok_buf){0};
        g->joined = 0;
        int rc = feed(s, k, text_of(&all), all.n, 1, e);
        g->joined = 1;
        tok_buf_free(&all);
        return rc;
    }
    int b;
    switch (d->op) {
    case TOK_DEC_JOIN:
        if (g->tokens++ && feed(s, k + 1, " ", 1, 0, e)) return -1;
        return feed(s, k + 1, p, n, 1, e);
    case TOK_DEC_FUSE: return feed(s, k + 1, p, n, 0, e);
    case TOK_DEC_REPLACE:
        g->out.n = 0;
        return tok_replace(d, s->match, p, n, &g->out, e) ||
                       feed(s, k + 1, text_of(&g->out), g->out.n, end, e)
                   ? -1
                   : 0;
    case TOK_DEC_BYTE_FALLBACK:
        b = fallback_byte(p, n);
        if (b >= 0) {
            char c = (char)b;
            return tok_buf_add(&g->held, &c, 1, e);
        }
        return end_byte_run(s, k, e) || feed(s, k + 1, p, n, end, e) ? -1 : 0;
    case TOK_DEC_STRIP: return strip_token(s, k, p, n, end, e);
    case TOK_DEC_METASPACE: return metaspace_token(s, k, p, n, end, e);
    case TOK_DEC_BYTE_LEVEL:
        return byte_level_token(g, p, n, e) || byte_level_flow(s, k, 0, e) ? -1 : 0;
    default: CHECK(!"a decoder");
    }
    return -1;
}

int tok_stream_open(struct tok_stream **s, const struct tokenizer *t, int skip_special,
                    struct err *e)
{
    struct tok_stream *x = calloc(1, sizeof *x + t->dec.n * sizeof x->st[0]);
    *s = NULL;
    if (!x) return err_memory(e);
    if (tok_match_open(&x->match, e)) {
        free(x);
        return -1;
    }
    x->t = t;
    x->skip_special = skip_special;
    for (size_t k = 1; k < t->dec.n; k++) {
        enum tok_op op = t->dec.s[k - 1].op;
        x->st[k].joined = x->st[k - 1].joined || op == TOK_DEC_FUSE || op == TOK_DEC_BYTE_LEVEL;
    }
    *s = x;
    return 0;
}

int tok_stream_copy(struct tok_stream **s, const struct tok_stream *from, struct err *e)
{
    struct tok_stream *x;
    if (tok_stream_open(s, from->t, from->skip_special, e)) return -1;
    x = *s;
    x->n_before = from->n_before;
    x->n_met = from->n_met;
    if (tok_buf_add(&x->before, from->before.p, from->before.n, e)) goto fail;
    for (size_t k = 0; k < x->t->dec.n; k++) {
        const struct stage *g = &from->st[k];
        x->st[k].tokens = g->tokens;
        x->st[k].stripped = g->stripped;
        if (tok_buf_add(&x->st[k].held, g->held.p, g->held.n, e)) goto fail;
    }
    return 0;
fail:
    tok_stream_close(x);
    *s = NULL;
    return -1;
}

void tok_stream_close(struct tok_stream *s)
{
    if (!s) return;
    for (size_t k = 0; k < s->t->dec.n; k++) {
        tok_buf_free(&s->st[k].held);
        tok_buf_free(&s->st[k].out);
    }
    tok_buf_free(&s->text);
    tok_buf_free(&s->token);
    tok_buf_free(&s->before);
    tok_match_close(s->match);
    free(s);
}

static int push(struct tok_stream *s, int32_t id, struct err *e)
{
    const struct tokenizer *t = s->t;
    const struct tok_bpe *b = &t->bpe;
    if (id < 0 || id >= t->n_ids) return 0;
    const struct tok_added *a = tok_added_by_id(&t->added, id);
    if (a) {
        /* The library looks up the decoded spelling among the special tokens; one that a normalizer
         * has changed is usually missing there. */
        if (s->skip_special) {
            const struct tok_added *same =
                a->norm == a->text ? a : tok_added_by_text(&t->added, a->norm, a->norm_bytes);
            if (same && same->special) return 0;
        }
        return feed(s, 0, a->norm, a->norm_bytes, 1, e);
    }
    if (id >= b->n_ids || !(b->flags[id] & TOK_ID_PRESENT)) return 0;
    if ((b->flags[id] & TOK_ID_RAW) && t->dec.n && t->dec.s[0].op == TOK_DEC_BYTE_LEVEL)
        return tok_buf_add(&s->st[0].held, b->arena.p + b->off[id], b->len[id], e) ||
                       byte_level_flow(s, 0, 0, e)
                   ? -1
                   : 0;
    s->token.n = 0;
    return tok_bpe_spell(b, id, &s->token, e) || feed(s, 0, text_of(&s->token), s->token.n, 1, e)
               ? -1
               : 0;
}

/* Ends all tokens, first step first, and outputs the rest. */
static int finish(struct tok_stream *s, struct err *e)
{
    for (size_t k = 0; k < s->t->dec.n; k++) {
        struct stage *g = &s->st[k];
        switch (s->t->dec.s[k].op) {
        case TOK_DEC_BYTE_FALLBACK:
            if (end_byte_run(s, k, e)) return -1;
            break;
        case TOK_DEC_BYTE_LEVEL:
            if (byte_level_flow(s, k, 1, e)) return -1;
            break;
        case TOK_DEC_FUSE:
            if (feed(s, k + 1, "", 0, 1, e)) return -1;
            break;
        default: break;
        }
        g->held.n = g->tokens = 0;
        g->stripped = 0;
    }
    return 0;
}

int tok_stream_open_after(struct tok_stream **s, const struct tokenizer *t, int skip_special,
                          const int32_t *ids, size_t n, struct err *e)
{
    struct tok_stream *x, *end = NULL;
    if (tok_stream_open(s, t, skip_special, e)) return -1;
    x = *s;
    for (size_t i = 0; i < n; i++) {
        x->text.n = 0;
        if (push(x, ids[i], e)) goto fail;
        x->n_before += x->text.n;
    }
    if (tok_stream_copy(&end, x, e) || finish(end, e)) goto fail;
    x->before = end->text;
    end->text = (struct tok_buf){0};
    x->n_before += x->before.n;
    tok_stream_close(end);
    return 0;
fail:
    tok_stream_close(end);
    tok_stream_close(x);
    *s = NULL;
    return -1;
}

size_t tok_stream_before(const struct tok_stream *s) { return s->n_before; }

/* Removes the preceding text from the piece in s->text; it comes first, character by character. */
static void hand_out(struct tok_stream *s, const char **piece, size_t *bytes)
{
    const char *p = text_of(&s->text);
    size_t n = s->text.n, len;
    for (; n && s->n_met < s->before.n; p += len, n -= len, s->n_met += len) {
        tok_utf8_next((const unsigned char *)p, n, &len);
        if (len <= s->before.n - s->n_met && !memcmp(p, s->before.p + s->n_met, len)) continue;
        s->n_before -= s->before.n - s->n_met;
        s->before.n = s->n_met;
        break;
    }
    *piece = p;
    *bytes = n;
}

int tok_stream_push(struct tok_stream *s, int32_t id, const char **piece, size_t *bytes,
                    struct err *e)
{
    s->text.n = 0;
    if (push(s, id, e)) return -1;
    hand_out(s, piece, bytes);
    return 0;
}

int tok_stream_flush(struct tok_stream *s, const char **piece, size_t *bytes, struct err *e)
{
    s->text.n = 0;
    if (finish(s, e)) return -1;
    hand_out(s, piece, bytes);
    s->before.n = s->n_met = 0;
    return 0;
}

int tok_decode(const struct tokenizer *t, const int32_t *ids, size_t n, int skip_special,
               char **text, size_t *bytes, struct err *e)
{
    struct tok_stream *s;
    int rc = -1;
    if (tok_stream_open(&s, t, skip_special, e)) return -1;
    for (size_t i = 0; i < n; i++)
        if (push(s, ids[i], e)) goto fail;
    if (finish(s, e) || tok_buf_add(&s->text, "", 1, e)) goto fail;
    *text = s->text.p;
    *bytes = s->text.n - 1;
    s->text = (struct tok_buf){0};
    rc = 0;
fail:
    tok_stream_close(s);
    return rc;
}

/* A few copies of the id in front of it use up what a decoder strips at the beginning of a text. */
int tok_decode_inside(const struct tokenizer *t, int32_t id, char **text, size_t *bytes,
                      struct err *e)
{
    struct tok_ids before = {0};
    struct tok_stream *s = NULL;
    struct tok_buf out = {0};
    const char *piece;
    size_t n = 1, all;
    int rc = -1;
    for (size_t k = 0; k < t->dec.n; k++)
        if (t->dec.s[k].op == TOK_DEC_STRIP) n += (size_t)t->dec.s[k].left;
    for (size_t i = 0; i < n; i++)
        if (tok_ids_push(&before, id, e)) goto fail;
    if (tok_stream_open_after(&s, t, 0, before.id, n, e)) goto fail;
    all = tok_stream_before(s);
    if (tok_stream_push(s, id, &piece, &n, e) || tok_buf_add(&out, piece, n, e)) goto fail;
    if (tok_stream_flush(s, &piece, &n, e) || tok_buf_add(&out, piece, n, e)) goto fail;
    if (tok_stream_before(s) < all) { /* the id joins with itself: each is part of a character */
        rc = tok_decode(t, &id, 1, 0, text, bytes, e);
        goto fail;
    }
    *bytes = out.n;
    if (tok_buf_add(&out, "", 1, e)) goto fail;
    *text = out.p;
    out = (struct tok_buf){0};
    rc = 0;
fail:
    tok_stream_close(s);
    tok_ids_free(&before);
    tok_buf_free(&out);
    return rc;
}

/* The spelling of an id in bytes, of a tokenizer whose only decoder is byte-level. */
static int spelled_bytes(const struct tokenizer *t, int32_t id, struct stage *g, struct err *e)
{
    const struct tok_bpe *b = &t->bpe;
    const struct tok_added *a = tok_added_by_id(&t->added, id);
    struct tok_buf token = {0};
    if (a) return byte_level_token(g, a->norm, a->norm_bytes, e);
    if (id >= b->n_ids || !(b->flags[id] & TOK_ID_PRESENT)) return 0;
    if (b->flags[id] & TOK_ID_RAW)
        return tok_buf_add(&g->held, b->arena.p + b->off[id], b->len[id], e);
    int rc = tok_bpe_spell(b, id, &token, e);
    if (!rc) rc = byte_level_token(g, text_of(&token), token.n, e);
    tok_buf_free(&token);
    return rc;
}

/* The byte that an id stands for by a byte-fallback decoder, or -1. */
static int byte_of_id(const struct tokenizer *t, int32_t id, struct tok_buf *token, struct err *e)
{
    size_t k = 0;
    while (k < t->dec.n && t->dec.s[k].op != TOK_DEC_BYTE_FALLBACK) k++;
    if (k == t->dec.n || id >= t->bpe.n_ids || !(t->bpe.flags[id] & TOK_ID_PRESENT) ||
        tok_added_by_id(&t->added, id))
        return -1;
    token->n = 0;
    return tok_bpe_spell(&t->bpe, id, token, e) ? -2 : fallback_byte(text_of(token), token->n);
}

int tok_own_bytes(const struct tokenizer *t, int32_t id, char **bytes, size_t *n, struct err *e)
{
    struct stage g = {0};
    struct tok_buf token = {0};
    int rc = 0;
    *bytes = NULL;
    *n = 0;
    if (id < 0 || id >= t->n_ids) return 0;
    if (t->dec.n && t->dec.s[0].op == TOK_DEC_BYTE_LEVEL) {
        rc = spelled_bytes(t, id, &g, e);
    } else {
        int byte = byte_of_id(t, id, &token, e);
        char c = (char)byte;
        if (byte == -2) rc = -1;
        if (byte >= 0) rc = tok_buf_add(&g.held, &c, 1, e);
    }
    tok_buf_free(&token);
    if (rc) {
        tok_buf_free(&g.held);
        return -1;
    }
    *bytes = g.held.p;
    *n = g.held.n;
    return 0;
}

/* Opens a stream in the middle of a text: behind a token of letters. */
static int open_inside(struct tok_stream **s, const struct tokenizer *t, struct err *e)
{
    for (int32_t id = 0; id < t->n_ids; id++) {
        char *text;
        size_t n;
        if (tok_is_special(t, id)) continue;
        if (tok_decode_inside(t, id, &text, &n, e)) return -1;
        int is_letter = n == 1 && text[0] >= 'a' && text[0] <= 'z';
        free(text);
        if (is_letter) return tok_stream_open_after(s, t, 0, (int32_t[]){id, id}, 2, e);
    }
    return tok_stream_open(s, t, 0, e);
}

int tok_bytes_open(struct tok_bytes *all, const struct tokenizer *t, struct err *e)
{
    int direct = t->dec.n == 1 && t->dec.s[0].op == TOK_DEC_BYTE_LEVEL, rc = -1;
    struct stage out = {0};
    struct tok_stream *s = NULL;
    struct tok_buf token = {0};
    const char *piece;
    size_t n;
    *all = (struct tok_bytes){.n = t->n_ids};
    all->start = malloc(((size_t)t->n_ids + 1) * sizeof *all->start);
    if (!all->start) return err_memory(e);
    if (!direct && open_inside(&s, t, e)) goto end;
    for (int32_t id = 0; id < t->n_ids; id++) {
        all->start[id] = out.held.n;
        if (tok_is_special(t, id)) continue;
        int byte = direct ? -1 : byte_of_id(t, id, &token, e);
        char c = (char)byte;
        if (byte == -2) goto end;
        if (direct && spelled_bytes(t, id, &out, e)) goto end;
        if (!direct && byte >= 0 && tok_buf_add(&out.held, &c, 1, e)) goto end;
        if (!direct && byte < 0 &&
            (tok_stream_push(s, id, &piece, &n, e) || tok_buf_add(&out.held, piece, n, e)))
            goto end;
    }
    all->start[t->n_ids] = out.held.n;
    all->text = out.held.p;
    out.held = (struct tok_buf){0};
    rc = 0;
end:
    tok_stream_close(s);
    tok_buf_free(&token);
    tok_buf_free(&out.held);
    if (rc) tok_bytes_close(all);
    return rc;
}

void tok_bytes_close(struct tok_bytes *all)
{
    free(all->text);
    free(all->start);
    *all = (struct tok_bytes){0};
}
